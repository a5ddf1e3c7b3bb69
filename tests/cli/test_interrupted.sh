#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp quantize, dequantize and convert that are stopped, or run out of space, leave what was there, and what they have
# done for --resume.
. "${srcdir:-.}/tests/cli/cli.shlib"

# 2 GiB of zeros, which take up no space, and little time on the way there.
header '{"a.weight":{"dtype":"F32","shape":[131072,4096],"data_offsets":[0,2147483648]}}' >"$work/large.safetensors"
truncate -s $(($(wc -c <"$work/large.safetensors") + 2147483648)) "$work/large.safetensors"
safetensors_zeros "$work/small.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' 128
mkdir "$work/in"
exits 0 "" quantize "$work/small.safetensors" -o "$work/in/old" -q
old=$(cat "$work/in/old/"* | hex)

# intact NAME [ENTRY]: the old output is there, and nothing beside it but the entry, which goes.
intact() {
	same "entries after $1" "$(printf '%s\n' old $2 | sort)" "$(ls -A "$work/in" | sort)"
	same "output after $1" "$old" "$(cat "$work/in/old/"* | hex)"
	rm -rf "$work/in/${2:-nothing}"
}

# stopped SIGNAL CODE NAME ARGUMENT...: mxfp is sent the signal once it has begun to write NAME, and ends with the code.
stopped() {
	signal=$1 expected=$2 partial=$3.partial
	shift 3
	"$mxfp" "$@" 2>"$work/error" &
	pid=$!
	tries=0
	until [ -e "$work/in/$partial/fingerprint.json" ] || [ $tries -ge 500 ]; do
		sleep 0.01
		tries=$((tries + 1))
	done
	kill -"$signal" $pid
	code=0
	wait $pid || code=$?
	same "exit code after $signal" "$expected" $code
	same "lines after $signal" 1 "$(wc -l <"$work/error" | tr -d ' ')"
	has "line after $signal" "$(cat "$work/error")" "(Terminated); --resume continues"
	intact "$signal" "$partial"
}
stopped TERM 143 old quantize "$work/large.safetensors" -o "$work/in/old" --force -q --threads 1
stopped TERM 143 new quantize "$work/large.safetensors" -o "$work/in/new" -q --threads 1

# What they have done is gone after stopped(), which leaves no model to decode: another, of 1 GiB of codes.
header '{"a.weight_packed":{"dtype":"U8","shape":[262144,4096],"data_offsets":[0,1073741824]},'\
'"a.weight_scale":{"dtype":"U8","shape":[262144,256],"data_offsets":[1073741824,1140850688]}}' >"$work/codes.safetensors"
truncate -s $(($(wc -c <"$work/codes.safetensors") + 1140850688)) "$work/codes.safetensors"
stopped TERM 143 old dequantize "$work/codes.safetensors" -o "$work/in/old" --force -q --threads 1
stopped TERM 143 new convert "$work/codes.safetensors" -o "$work/in/new" --layout quark -q --threads 1

# A limit of the file size is what a full disk is. 2 KiB hold less than the codes; blocks of 512 bytes.
full() {
	code=0 blocks=$1 left=$2
	shift 2
	(
		ulimit -f "$blocks"
		exec "$mxfp" "$@"
	) 2>"$work/error" || code=$?
	same "exit code when full" 4 $code
	same "lines when full" 1 "$(wc -l <"$work/error" | tr -d ' ')"
	[ -z "$left" ] || has "line when full" "$(cat "$work/error")" "File too large; --resume continues"
	intact "a full disk" "$left"
}
head -c 262144 /dev/zero >"$work/zeros"
{
	header '{"a.weight":{"dtype":"F32","shape":[256,256],"data_offsets":[0,262144]}}'
	cat "$work/zeros"
} >"$work/medium.safetensors"
full 4 old.partial quantize "$work/medium.safetensors" -o "$work/in/old" --force -q
full 4 new.partial quantize "$work/medium.safetensors" -o "$work/in/new" -q
exits 0 "" quantize "$work/medium.safetensors" -o "$work/medium" -q
full 64 old.partial dequantize "$work/medium" -o "$work/in/old" --force -q
full 64 new.safetensors.partial dequantize "$work/medium" -o "$work/in/new.safetensors" -q
full 4 new.partial convert "$work/medium" -o "$work/in/new" --layout quark -q
full 4 new.partial convert "$work/medium" -o "$work/in/new" --to mxfp8 -q
# Root may write anywhere.
if [ "$(id -u)" != 0 ]; then
	chmod a-w "$work/in"
	exits 4 "" quantize "$work/small.safetensors" -o "$work/in/new" -q
	chmod u+w "$work/in"
fi
finish
