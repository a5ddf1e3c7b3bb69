#!/bin/sh
# SPDX-License-Identifier: MIT
# Names of tensors and files, metadata and configuration that hold controls, characters that change the direction of text, HTML and
# Markdown: no command prints one of them as it is, in any of its forms; JSON has escapes, which stand for the names.
. "${srcdir:-.}/tests/cli/cli.shlib"

# ESC, DEL, U+0085, U+009B, U+061C, U+200E, U+2028, U+202E, U+2066.
odd='\u001b[31m\u007f\u0085\u009b\u061c\u200e\u2028\u202e\u2066'
tag='<script>alert(1)</script>|`a`*b*[c](d)\n'
raw=$(printf '\033[31m\177\302\205\302\233\330\234\342\200\216\342\200\250\342\200\256\342\201\246')
name="model.layers.0.$odd$tag.down_proj"
dir="$work/m<b>$raw"
mkdir "$dir"
printf '{"model_type": "llama%s", "architectures": ["%s"], "hidden_size": 64, "note%s": "%s"}' "$odd$tag" "$odd$tag" "$odd" "$odd$tag" \
	>"$dir/config.json"
safetensors_zeros "$dir/model.safetensors" '{"__metadata__":{"format":"pt","key'"$odd$tag"'":"'"$odd$tag"'"},
	"'"$name"'.weight":{"dtype":"F32","shape":[64,64],"data_offsets":[0,16384]},
	"'"$name"'.bias":{"dtype":"F32","shape":[64],"data_offsets":[16384,16640]},
	"model.norm'"$odd$tag"'.weight":{"dtype":"F32","shape":[64],"data_offsets":[16640,16896]}}' 16896
# Not all zeros: a third of the bytes of weights are those of ASCII.
yes 'AB?' | head -c 16000 | dd of="$dir/model.safetensors" bs=1 seek="$(($(wc -c <"$dir/model.safetensors") - 16896))" conv=notrunc 2>/dev/null

# clean FILE: no character that steers a terminal, newlines and tabs apart.
controls='[\x00-\x08\x0B-\x1F\x7F]|\xC2[\x80-\x9F]|\xD8\x9C|\xE2\x80[\x8E\x8F\xA8-\xAE]|\xE2\x81[\xA6-\xA9]'
clean() {
	! LC_ALL=C grep -naP "$controls" "$1" | cat -v | grep .
}

# is_json FILE: nothing, or JSON in UTF-8.
is_json() {
	! command -v python3 >/dev/null ||
		python3 -c 'import json, sys; t = open(sys.argv[1], encoding="utf-8").read(); t and json.loads(t)' "$1"
}

# both COMMAND ARGUMENT...: what it prints as text, and as JSON; a new output follows -o.
runs=0
once() {
	runs=$((runs + 1))
	"$mxfp" "$@" >"$work/out.$runs" 2>"$work/err.$runs" </dev/null
	code=$?
	[ $code -le 5 ] || bad "$1 ends with $code"
	[ -z "${VERBOSE-}" ] || echo "$code $*" | cat -v
	check "$1: standard output" clean "$work/out.$runs"
	check "$1: standard error" clean "$work/err.$runs"
}
both() {
	for json in '' --json; do
		case $* in
		*' -o') once "$@" "$work/$raw.$runs" $json ;;
		*) once "$@" $json ;;
		esac
		[ -z "$json" ] || check "$1: JSON" is_json "$work/out.$runs"
		# Names in tables and sentences; commands to be copied, in blocks of code and in quotes, are as they are.
		check "$1: HTML" sh -c '! grep "<script" "$1" | grep "^|"' - "$work/out.$runs"
	done
}

both inspect "$dir"
both inspect "$dir/model.safetensors"
both lint "$dir"
both report "$dir"
both advise "$dir"
both quantize "$dir" -o
both quantize "$dir" --dry-run
both quantize "$dir" --weights mxfp8 --include "*$raw*" --dry-run
"$mxfp" quantize -q "$dir/model.safetensors" -o "$work/q" --weights mxfp4 --include '*' >/dev/null 2>&1
"$mxfp" quantize -q "$dir/model.safetensors" -o "$work/q8" --weights mxfp8 --include '*' >/dev/null 2>&1
both inspect "$work/q"
both lint "$work/q"
both report "$work/q"
both dequantize "$work/q" -o
both dequantize "$dir" -o
both convert "$work/q" --layout modelopt -o
both convert "$work/q" --layout compressed-tensors -o
both detect-rule "$work/q" --ref "$dir/model.safetensors"
both diff "$dir/model.safetensors" "$work/q"
both diff "$work/q" "$work/q8"
both transform "$dir" -o
both calibrate "$dir" --text "$dir/config.json" -o
both eval "$dir" --text "$dir/config.json"
both merge "$dir" "$work/q" -o
both gemm "$dir/model.safetensors:$(printf 'no\033[31m')" "$dir/model.safetensors:x" -o
both "$(printf 'no\033[31m\302\233')"
both inspect "$work/$raw"

# A report in a file: Markdown, a page, JSON.
for form in md html json; do
	once report "$dir" -o "$work/report.$form"
	[ -e "$work/report.$form" ] || continue # a page takes node to build
	check "report.$form" clean "$work/report.$form"
	[ $form = json ] || check "report.$form: tags" sh -c '! grep -v "^    " "$1" | grep "<script>alert"' - "$work/report.$form"
done
check "report.json" is_json "$work/report.json"
has "report.md" "$(cat "$work/report.md")" '&lt;script&gt;alert(1)&lt;/script&gt;\|\`a\`\*b\*\[c\](d)?.down_proj'
# Escapes stand for the names as they are.
"$mxfp" inspect --json "$dir" >"$work/inspect.json"
has "a name in JSON" "$(cat "$work/inspect.json")" '"model.layers.0.\u001B[31m\u007f\u0085\u009b\u061c\u200e\u2028\u202e\u2066<script>alert(1)</script>|`a`*b*[c](d)\n.down_proj.weight"'
finish
