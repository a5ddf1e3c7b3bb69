#compdef mxfp
# SPDX-License-Identifier: MIT
# Completion of mxfp in zsh.
_mxfp() {
	local line patterns=() offered=()
	for line in ${(f)"$($words[1] completion words -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"}; do
		case $line in
		(:files$'\t'/) ;;
		(:files$'\t'*) patterns+=("*${line#*$'\t'}(-.)") ;;
		(*) offered+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
		esac
	done
	if (( $#patterns )); then
		compset -P '--*='
		_files -g "${(j: :)patterns}"
	fi
	_describe -V value offered
}
if [[ $funcstack[1] == _mxfp ]]; then
	_mxfp
else
	compdef _mxfp mxfp
fi
