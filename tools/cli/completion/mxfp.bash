# SPDX-License-Identifier: MIT
# Completion of mxfp in bash, which splits "--rule=mse" and "4:16" into words of their own.
_mxfp() {
	local words=() word last typed glue='' line
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
		if [[ ${#words[@]} -gt 0 && ($glue || $word == : || ($word == = && ${words[-1]} == --*)) ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
		glue=''
		[[ $word != : && $word != = ]] || glue=yes
	done
	last=${words[-1]} typed=$word
	[[ ! $glue ]] || typed=''
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:files$'\t'/)
			compopt -o filenames
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$typed")
			;;
		:files$'\t'*)
			compopt -o filenames
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -X "!*${line#*$'\t'}" -- "$typed")
			;;
		*)
			line=${line%%$'\t'*}
			COMPREPLY+=("${line:${#last} - ${#typed}}")
			;;
		esac
	done < <("$1" completion words -- "${words[@]}" 2>/dev/null)
}
complete -F _mxfp mxfp
