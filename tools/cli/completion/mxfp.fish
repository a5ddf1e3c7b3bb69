# SPDX-License-Identifier: MIT
# Completion of mxfp in fish.
function __mxfp_complete
	set -l words (commandline -opc)
	set -l last (commandline -ct)
	set -l option (string match -r -- '^--[^=]*=' $last)
	for line in ($words[1] completion words -- $words[2..-1] "$last" 2>/dev/null)
		switch $line
			case ':files*'
				set -l suffix (string escape --style=regex -- (string split -- \t $line)[2])
				set -l path (string replace -- "$option" '' "$last")
				complete -C "__fish_command_without_completions $path" |
					string match -r -- '^[^\t]*'$suffix'(?=\t|$)' | string replace -r -- '^' "$option"
			case '*'
				echo $line
		end
	end
end
complete -c mxfp -f -a '(__mxfp_complete)'
