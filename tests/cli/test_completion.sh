#!/bin/bash
# SPDX-License-Identifier: MIT
# Shell completion: what is offered comes from the option tables, and real bash, zsh and fish take it. A shell that is
# not there is skipped.
. "${srcdir:-.}/tests/cli/cli.shlib"
scripts=$(cd "${srcdir:-.}" && pwd)/tools/cli/completion
export LC_ALL=C
PATH=$(dirname "$mxfp"):$PATH
cd "$work" || exit 99
mkdir models
touch x.npy 'a b.npy' notes.txt models/m.npy
entry='"dtype":"F32","shape":[1],"data_offsets"'
{
	header "{\"aa.weight\":{$entry:[0,4]},\"ab\u001bc\":{$entry:[4,8]}}"
	bytes 0000000000000000
} >w.safetensors

# offers WORD...: what may stand for the last word, in one line.
offers() {
	"$mxfp" completion words -- "$@" | cut -f 1 | tr '\n' ' '
}
models=$("$mxfp" completion words -- inspect '')
has "models" "$models" $':files\t.npy'
has "models" "$models" $':files\t.safetensors'
has "models" "$models" $':files\t/'

# Every command offers the options of its --help, and every option that is a choice the values of --help.
exits 0 "" --help
commands=$(sed -n 's/^.\{8\}\([a-z][a-z-]*\)  .*/\1/p' "$work/out")
same "commands" "$(echo $commands help --help --version --isa) " "$(offers '')"
same "commands after help" "$(echo $commands) " "$(offers help '')"
same "commands after --isa" "quantize " "$(offers --isa ref qua)"
for command in $commands; do
	exits 0 "" "$command" --help
	same "options of $command" "$(sed -nE 's/^  (-.,|   ) (--[a-z0-9-]+).*/\2/p' "$work/out" | tr '\n' ' ')" \
		"$(offers "$command" --)"
	while read -r option values _; do
		same "$command --$option" "$(echo "$values" | sed 's/|/ /g; s/ FILE\(,\.\.\.\)\{0,1\}$/ :files/') " "$(offers "$command" "--$option" '')"
	done < <(sed -nE 's/^  (-.,|   ) --([a-z0-9-]+ [a-z][a-z0-9-]*\|)/\2/p' "$work/out")
done
tiers=$("$mxfp" info --json | sed -n '/"tiers"/,/"element_formats"/s/.*"name": "\([^"]*\)".*/\1/p' | tr '\n' ' ')
same "tiers" "$tiers" "$(offers --isa '')"
same "tiers of bench" "$tiers" "$(offers bench --tier '')"
same "rules" "mse floor ceil even even-m1 rceil fit trn3 rne log-nearest " "$(offers blocks --rule '')"
same "rules with the option's name" "--rule=ceil " "$(offers blocks --rule=c)"
same "a short option" "nvfp4 " "$(offers quantize -w n)"
same "a short option in a cluster" "nvfp4 " "$(offers quantize -fqw n)"
same "formats or none" "nvfp4 none " "$(offers quantize --activations n)"
same "patterns" "4:16 4:12 4:8 " "$(offers quantize --sparsity 4:)"
has "checks of lint" " $(offers lint --ignore sca)" " scale-nan "
same "chips" "trainium3 trainium2 trainium1 inferentia2 trainium4 " "$(offers engine --chip '')"
same "a list" "floor,even,even floor,even,even-m1 " "$(offers report --rules floor,even,e)"
same "a number" "" "$(offers quantize --seed '')"
same "an option that was given" "" "$(offers quantize -r mse --ru)"
same "an option that may be repeated" "--ignore " "$(offers quantize --ignore x --ig)"
same "nothing behind an unknown command" "" "$(offers quantise '')"
same "an output" ":files " "$(offers quantize w.safetensors -o '')"
same "a file of a kind" ":files :files " "$(offers engine --svg '')"
same "an operand after a flag" "$models" "$("$mxfp" completion words -- inspect --json '')"
same "an operand after --" "$models" "$("$mxfp" completion words -- inspect -- '')"
same "an operand that is repeated" "$models" "$("$mxfp" completion words -- merge a b c '')"
same "the second operand" "$models" "$("$mxfp" completion words -- diff x.npy '')"
has "options behind the last operand" "$(offers inspect x.npy '')" "--json "
same "no option behind --" "" "$(offers inspect -- x.npy -)"
# A name that holds a control character could do things to a terminal.
same "tensors of a file" "w.safetensors:aa.weight " "$(offers gemm x.npy w.safetensors:a)"
same "tensors of the first operand" "aa.weight " "$(offers quantize w.safetensors --ignore '')"
same "tensors of no model" "" "$(offers quantize notes.txt --ignore '')$(offers gemm nowhere.npy:)"

for shell in bash zsh fish; do
	exits 0 "" completion $shell
	check "mxfp completion $shell does not print mxfp.$shell" cmp -s "$work/out" "$scripts/mxfp.$shell"
done
exits 2 "completion: unknown value 'tcsh'" completion tcsh
exits 2 "missing operand" completion
exits 2 "completion: unknown value 'words'" completion words

# in_bash WORD...: the replies to a line that bash has split into these words.
in_bash() {
	bash -c '. "$1/mxfp.bash"
		COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
		_mxfp mxfp 2>/dev/null
		printf "%s\n" "${COMPREPLY[@]}" | sort -u | tr "\n" " "' bash "$scripts" "$@"
}
same "bash: command" "quantize " "$(in_bash mxfp qu)"
same "bash: value" "rceil " "$(in_bash mxfp quantize --rule rc)"
same "bash: value behind =" "rceil " "$(in_bash mxfp quantize --rule = rc)"
same "bash: all values behind =" "12 16 8 " "$(in_bash mxfp quantize --sparsity = 4 :)"
same "bash: list" "mxfp4,nvfp4 " "$(in_bash mxfp report --formats mxfp4,n)"
same "bash: models and directories" "a b.npy models w.safetensors x.npy " "$(in_bash mxfp quantize '')"
same "bash: any file" "a b.npy models notes.txt out w.safetensors x.npy " "$(in_bash mxfp cast '')"
same "bash: file in a directory" "models/m.npy " "$(in_bash mxfp quantize models/)"
same "bash: file behind =" "notes.txt " "$(in_bash mxfp quantize x.npy --output = n)"
same "bash: tensor" "aa.weight " "$(in_bash mxfp gemm x.npy w.safetensors : a)"

# in_fish LINE
in_fish() {
	HOME=$work fish --no-config -c "source '$scripts/mxfp.fish'; complete -C '$1'" | cut -f 1 | sort -u | tr '\n' ' '
}
if command -v fish >/dev/null; then
	same "fish: command" "quantize " "$(in_fish 'mxfp qu')"
	same "fish: option" "--rule " "$(in_fish 'mxfp quantize --ru')"
	same "fish: value" "rceil " "$(in_fish 'mxfp quantize --rule rc')"
	same "fish: value behind =" "--rule=rceil " "$(in_fish 'mxfp quantize --rule=rc')"
	same "fish: models and directories" "a b.npy models/ w.safetensors x.npy " "$(in_fish 'mxfp quantize ')"
	same "fish: file behind =" "--output=notes.txt " "$(in_fish 'mxfp quantize --output=n')"
	same "fish: tensor" "w.safetensors:aa.weight " "$(in_fish 'mxfp gemm x.npy w.safetensors:a')"
else
	echo "fish is not here: skipped"
fi

# in_zsh LINE: the line after a TAB, in an interactive zsh on a terminal of its own. ^X there writes the line to a file.
in_zsh() {
	rm -f line
	SCRIPT=$scripts/mxfp.zsh LINE=$1 zsh -f <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -U compinit; compinit -u -D; source $SCRIPT
show() { print -r -- "$BUFFER" >line; exit }
zle -N show; bindkey "^X" show; PS1="rea""dy"'
zpty -r shell output '*ready*'
zpty -w -n shell "$LINE"$'\t\030'
repeat 200; do
	[[ ! -s line ]] || break
	sleep 0.1
done
zpty -d shell
END
	cat line
}
if zsh -fc 'zmodload zsh/zpty && zpty shell true' 2>/dev/null; then
	same "zsh: option" "mxfp quantize --rule " "$(in_zsh 'mxfp quantize --ru')"
	same "zsh: value behind =" "mxfp quantize --rule=rceil " "$(in_zsh 'mxfp quantize --rule=rc')"
	same "zsh: model" "mxfp quantize a\\ b.npy " "$(in_zsh 'mxfp quantize a')"
	same "zsh: file behind =" "mxfp quantize --output=notes.txt" "$(in_zsh 'mxfp quantize --output=n' | sed 's/ $//')"
	same "zsh: tensor" "mxfp gemm x.npy w.safetensors:aa.weight " "$(in_zsh 'mxfp gemm x.npy w.safetensors:a')"
else
	echo "zsh, or a terminal for it, is not here: skipped"
fi
finish
