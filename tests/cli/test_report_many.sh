#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp report and mxfp advise of a model of thousands of tiny tensors, more than are measured at a time: threads, memory, the size of the page, and numbers
# that depend neither on threads nor on the tensors around.
. "${srcdir:-.}/tests/cli/cli.shlib"
weights=${srcdir:-.}/examples/charlm.safetensors

# many FILE N: a model of N tensors of 2 x 32 weights, 256 bytes each, named like those of experts.
many() {
	text=$(awk -v n="$2" 'BEGIN {
		split("down_proj gate_proj up_proj", of, " ")
		for (i = 0; i < n; i++)
			printf "%s\"model.layers.%d.mlp.experts.%d.%s.weight\":{\"dtype\":\"F32\",\"shape\":[2,32]," \
				"\"data_offsets\":[%d,%d]}", i ? "," : "{", i / 384, i / 3 % 128, of[i % 3 + 1], 256 * i, 256 * i + 256
		print "}"
	}')
	{
		bytes "$(printf '%02x%02x%02x0000000000' $((${#text} % 256)) $((${#text} / 256 % 256)) $((${#text} / 65536)))"
		printf '%s' "$text"
		tail -c $((256 * 3000)) "$weights" | head -c $((256 * $2))
	} >"$1"
}
tensors=$(fewer 3000 600)
many "$work/many.safetensors" $tensors
many "$work/few.safetensors" 3

# watched ARGUMENT...: runs mxfp; $threads it had at most, and $memory in KiB, as far as /proc tells.
watched() {
	threads=0 memory=0
	"$mxfp" "$@" >"$work/out" 2>"$work/err" &
	while kill -0 $! 2>/dev/null; do
		status=$(sed -n 's/^\(Threads\|VmHWM\):[^0-9]*\([0-9]*\).*/\1=\2/p' /proc/$!/status 2>/dev/null || true)
		for line in $status; do
			case $line in
			Threads=*) [ "${line#*=}" -le "$threads" ] || threads=${line#*=} ;;
			VmHWM=*) [ "${line#*=}" -le "$memory" ] || memory=${line#*=} ;;
			esac
		done
		sleep 0.02
	done
	code=0
	wait $! || code=$?
	same "exit code of $1" 0 $code
}

# One thread is one, for every call of the library; qemu has one of its own.
one=1
[ -z "${MXFP_RUN-}" ] || one=2
for verb in report advise; do
	watched $verb -q --json --threads 1 "$work/many.safetensors"
	mv "$work/out" "$work/$verb.one"
	same "$verb: threads" $one "$threads"
	exits 0 "" $verb -q --json --threads 2 "$work/many.safetensors"
	checks=$((checks + 1))
	cmp "$work/$verb.one" "$work/out" || bad "$verb: threads change the output"
done

# A tensor has the same numbers among few, whose threads work within it, as in the first batch of many.
exits 0 "" report -q --json --threads 2 "$work/few.safetensors"
for name in "$work/out" "$work/report.one"; do
	sed -n '/^ "tensors": \[$/,/^ "not_measured"/p' "$name" | sed '/"file": /d' | awk '/^  }/ { if (++n == 3) exit } { print }' \
		>"$name.three"
done
checks=$((checks + 1))
cmp "$work/out.three" "$work/report.one.three" || bad "a tensor has other numbers among many"
same "tensors compared" 3 "$(grep -c '^   "name"' "$work/out.three")"

# The page, and what it holds of each tensor, by the JSON: base64 of hundredths of dB. 3 MB for 45,000 tensors.
error=$("$mxfp" report -q --activation-rows 1 "$work/few.safetensors" -o "$work/few.html" 2>&1) || case $error in
*"built without Chart.js"*) finish ;;
esac
rm -f "$work/few.html"
watched report -q --threads 2 "$work/many.safetensors" -o "$work/many.html"
if [ "$memory" -gt 0 ] && ! grep -q '^MXFP_CFLAGS = .*-fsanitize' Makefile; then
	checks=$((checks + 1))
	[ "$memory" -le 65536 ] || bad "report takes $memory KiB"
fi
exits 0 "" report -q --activation-rows 1 "$work/few.safetensors" -o "$work/few.html"
size=$(($(wc -c <"$work/many.html") - $(wc -c <"$work/few.html")))
checks=$((checks + 1))
[ "$size" -le "$(fewer 900000 450000)" ] || bad "the page takes $size bytes for $tensors tensors"
sed -n '/^<script type="application\/json" id="data">$/{n;p;}' "$work/many.html" >"$work/data"
sed 's/.*"every"://' "$work/data" >"$work/every"
sed 's/"every":.*//' "$work/data" | tr ',{' '\n\n' >"$work/full"
same "names" $tensors "$(sed 's/.*"names"://; s/"kinds".*//' "$work/every" | grep -oE '[0-9]+,"' | wc -l | tr -d ' ')"
has "names" "$(head -c 300 "$work/every")" \
	'"names":[0,"model.layers.0.mlp.experts.0.down_proj.weight",29,"gate_proj.weight",29,"up_proj.weight",27,'
same "kinds" 1 "$(grep -cF '"kinds":[{"from":0,"dtype":"F32","shape":[2,32]}]' "$work/every")"
sed 's/.*"sqnr":"//; s/".*//' "$work/every" | base64 -d | od -An -v -w2 -td2 | tr -d ' ' >"$work/page.sqnr"
awk '/^ "tensors"/ { on = 1 } /^     "weights"/ { w = 1 } on && w && /"sqnr_db"/ { w = 0; gsub(/[^0-9.]/, "", $2)
	printf "%d\n", $2 * 100 + 0.5 }' "$work/report.one" >"$work/json.sqnr"
same "SQNRs" $((8 * tensors)) "$(wc -l <"$work/json.sqnr" | tr -d ' ')"
same "SQNRs of the page" "" "$(paste "$work/page.sqnr" "$work/json.sqnr" | awk '($1 - $2) ^ 2 > 1' | head -n 3)"
kept=$(grep -c '^"name":"model' "$work/full")
checks=$((checks + 1))
[ "$kept" -ge 6 ] && [ "$kept" -le 48 ] || bad "the page holds $kept tensors in full"
worst=$(paste -d' ' - - - - - - - - <"$work/json.sqnr" | awk 'NR == 1 || $1 < least { least = $1; at = NR } END { print at }')
name=$(grep -m "$worst" '^   "name"' "$work/report.one" | tail -n 1 | tr -d ' ' | sed 's/,$//')
same "the worst" 1 "$(grep -cxF "$name" "$work/full")"
finish
