#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp quantize and dequantize that are stopped, or run out of space, leave what was there and nothing else.
. "${srcdir:-.}/tests/cli.shlib"

# 64 MiB of zeros, which take up no space, and no time on the way there.
header '{"a.weight":{"dtype":"F32","shape":[4096,4096],"data_offsets":[0,67108864]}}' >"$work/large.safetensors"
truncate -s $(($(wc -c <"$work/large.safetensors") + 67108864)) "$work/large.safetensors"
{
	header '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
	head -c 128 /dev/zero
} >"$work/small.safetensors"
mkdir "$work/in"
exits 0 "" quantize "$work/small.safetensors" -o "$work/in/old" -q
old=$(cat "$work/in/old/"* | hex)

# intact NAME: the old output is there, and nothing beside it.
intact() {
	same "entries after $1" "old" "$(ls -A "$work/in")"
	same "output after $1" "$old" "$(cat "$work/in/old/"* | hex)"
}

# stopped SIGNAL CODE ARGUMENT...: mxfp is sent the signal once it has begun to write, and ends with the code.
stopped() {
	signal=$1 expected=$2
	shift 2
	"$mxfp" "$@" 2>"$work/error" &
	pid=$!
	tries=0
	until ls -A "$work/in" | grep -q mxfp || [ $tries -ge 500 ]; do
		sleep 0.01
		tries=$((tries + 1))
	done
	kill -"$signal" $pid
	code=0
	wait $pid || code=$?
	same "exit code after $signal" "$expected" $code
	same "lines after $signal" 1 "$(wc -l <"$work/error" | tr -d ' ')"
	intact "$signal"
}
stopped TERM 143 quantize "$work/large.safetensors" -o "$work/in/old" --force -q
stopped TERM 143 quantize "$work/large.safetensors" -o "$work/in/new" -q

# A limit of the file size is what a full disk is. 2 KiB hold less than the codes; blocks of 512 bytes.
full() {
	code=0
	(
		ulimit -f "$1"
		shift
		exec "$mxfp" "$@"
	) 2>"$work/error" || code=$?
	same "exit code when full" 4 $code
	same "lines when full" 1 "$(wc -l <"$work/error" | tr -d ' ')"
	intact "a full disk"
}
head -c 262144 /dev/zero >"$work/zeros"
{
	header '{"a.weight":{"dtype":"F32","shape":[256,256],"data_offsets":[0,262144]}}'
	cat "$work/zeros"
} >"$work/medium.safetensors"
full 4 quantize "$work/medium.safetensors" -o "$work/in/old" --force -q
full 4 quantize "$work/medium.safetensors" -o "$work/in/new" -q
exits 0 "" quantize "$work/medium.safetensors" -o "$work/medium" -q
full 64 dequantize "$work/medium" -o "$work/in/old" --force -q
full 64 dequantize "$work/medium" -o "$work/in/new.safetensors" -q
# Root may write anywhere.
if [ "$(id -u)" != 0 ]; then
	chmod a-w "$work/in"
	exits 4 "" quantize "$work/small.safetensors" -o "$work/in/new" -q
	chmod u+w "$work/in"
fi
finish
