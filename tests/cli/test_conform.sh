#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp conform: right programs are not accused, whatever the seed; programs that misbehave get a clear error, in time. Programs with
# faults are in test_conform_faults.sh.
. "${srcdir:-.}/tests/cli/cli.shlib"
program=$work/program run=${MXFP_RUN:+$MXFP_RUN } # an emulator
native_cc -std=gnu11 -O1 -o "$program" "${srcdir:-.}/tests/cli/conform_program.c" -lm || { echo "no C compiler"; exit 77; }

# Programs that are waited for, all at once, beside the rest.
for fault in sleeps silent deaf drips stalls stays; do
	(
		"$mxfp" conform "$program $fault" --only 'cast e4m3 rne' --quick --timeout 3 >"$work/$fault.out" 2>&1
		echo "status $?" >>"$work/$fault.out"
	) &
done

# Right programs: one that shares no code with the library, with three seeds; the library with the kernels of this machine. An emulator
# takes minutes for all questions.
few= seeds='1 2'
if [ -n "$run" ]; then
	few='--only decode --only mx-decode --only nvfp4-decode --only unpack' seeds=
	exits 0 "" conform "$program" --quick --only 'cast bf16' --only 'cast f16 rne' --only 'decode f16' --only 'dot f16'
	has "a right program, numbers of two bytes" "$(cat "$work/out")" "| dot       |     2 |      0 |"
else
	exits 0 "" conform "$program" --quick --seed 0
	has "a right program" "$(cat "$work/out")" "| cast         |    66 |      0 |"
fi
for seed in $seeds; do
	exits 0 "" conform "$program" --quick --seed $seed --only 'cast e5m2' --only scale --only mx --only nvfp4
done
exits 0 "" conform "$program" --only 'cast e4m3 rne' --only 'scale mxfp4' --only 'mx mxfp8-e4m3 floor rne'
library=$work/library
# shellcheck disable=SC2086 # CC may contain options
if ${CC:-cc} -std=c11 -O2 -I "${srcdir:-.}/include" -o "$library" "${srcdir:-.}/conformance/library.c" .libs/libmxfp-all.a -lm -lpthread \
	2>/dev/null; then
	# shellcheck disable=SC2086 # options and their values
	exits 0 "" conform "$run$library" --quick --seed 3 $few
	[ -n "$few" ] || same "operations in which the library differs, or that it does not support" "pack unpack " \
		"$(awk -F'|' 'NF == 7 && $4 + $5 > 0 { print $2 }' "$work/out" | tr -s ' \n' ' ' | sed 's/^ //')"
fi

# The same in files: what a program answered, then what was put beside it.
if command -v python3 >/dev/null; then
	files="python3 ${srcdir:-.}/conformance/files.py"
	exits 0 "" conform "$files save $work/saved $program" --only 'mx mxfp4'
	for file in "$work"/saved/*.out; do
		cp "$file" "${file%.out}.got"
	done
	exits 0 "" conform "$files read $work/saved" --only 'mx mxfp4'
	has "answers in files" "$(cat "$work/out")" "| mx        |     7 |      0 |             6 |"
	printf '\377' | dd of="$work/saved/mx_mxfp4_floor_rne.got" bs=1 conv=notrunc 2>/dev/null
	exits 1 "in 1 of 7 questions" conform "$files read $work/saved" --only 'mx mxfp4'
fi

# Every rule's threshold is asked with its neighbours, of every format; and the answers are those of fractions.
if command -v python3 >/dev/null && [ -z "$run" ]; then
	exits 0 "54 questions" conform "python3 ${srcdir:-.}/tests/cli/thresholds.py" --only scale
	same "thresholds" "54 questions" "$error"
fi

# A program takes no megabytes of what it does not support: the first of large items is asked alone.
exits 0 "bytes of a request" conform "$program counts" --quick --only 'cast e4m3 rne sat' --only dot --only row --only attention
same "all that is not supported is small" 1 "$((${error%% *} < 40000))"

exits 1 "nothing was compared: it supports none of the 14 questions" conform "$program" --only 'cast e3m4'
# wrong PART FAULT: a program that does not answer as it should.
wrong() {
	exits 3 "$1" conform "$program $2" --only 'cast e4m3 rne' --quick --timeout 1
}
wrong "exited with status 3" exits
exits 3 "exited with status 3" conform "$program exits-second" --only 'cast e4m3 rne' --quick
has "the request that failed" "$error" "cast e4m3 rne ovf, items 0 to 6951: it exited with status 3"
has "what was compared before" "$(cat "$work/out")" "| cast      |     1 |      0 |             0 |"
wrong "exited with status 3 after 3476 of 6952 bytes of its answer" exits-half
wrong "hello: it cannot be refused" refuses-hello
wrong "is not a whole number: write it without quotes" quoted
wrong "is not a JSON object" babbles
exits 3 'is not a JSON object: invalid escape' conform "read -r x; echo '{\"version\":1,\"name\":\"\\q\"}'; cat >/dev/null" --timeout 5
wrong "no newline in 4096 bytes" no-line
wrong "bytes where" short
wrong "unknown key 'status' in the answer" other-key
wrong "more bytes than it announced" lies
wrong "more bytes than it announced" endless
wrong "is not 1, the version" version-2
wrong "ended with exit status 1" fails-at-end
exits 3 "hello: it exited with status 127" conform "exec 2>&-; $work/none" --timeout 5
exits 3 "signal 11" conform "exec 2>&-; $program dies; exit \$?" --only 'cast e4m3 rne'
exits 3 'hello: "name" is not a string' conform "read -r x; echo '{\"version\":1,\"name\":5}'; cat >/dev/null" --timeout 5
# JSON that is no object, or no text, in place of a hello and of another answer; answers that a shell prints.
for answer in '[1]' 5 null '""' '[[[[' '{}' '{"version":1}{}' '\377' '\000' '{"bytes":null}'; do
	exits 3 "hello: " conform "read -r x; printf '$answer\n'; cat >/dev/null" --timeout 5
	exits 3 "items 0 to 6951: " conform "read -r x; echo '{\"version\":1,\"batch\":9999}'; read -r x; printf '$answer\n'; cat >/dev/null" \
		--only 'cast e4m3 rne' --quick --timeout 5
done
exits 2 "conform: CMD is empty" conform ''
exits 2 "conform: CMD is empty" conform ' ' --probe

# Standard error of a program: escape sequences, C1, what turns the direction of text, bytes that are no UTF-8; more of it than a pipe
# holds.
cat >"$work/says" <<'END_OF_SAYS'
read -r x
printf 'a\033[31mb\tc\302\2333J\r\nd\342\200\256e\233\000f\b\303' >&2
printf '\251' >&2
echo '{"version":1}'
END_OF_SAYS
"$mxfp" conform "sh $work/says" 2>"$work/said" >/dev/null
same "standard error of a program" "$(printf 'a?[31mb\tc?3J\nd?e??f?\303\251')" "$(sed '/^mxfp: /d' "$work/said")"
exits 0 "" conform "exec 2>/dev/null; $program" --quick --only 'cast e4m3 rne sat'
"$mxfp" conform "seq 100000 >&2; $program" --quick --only 'cast e4m3 rne sat' 2>"$work/said" >/dev/null
same "lines of a program" "$(seq 100000)" "$(cat "$work/said")"

exits 3 "hello" conform 'echo hello; cat >/dev/null' --timeout 5
wait
# waited FAULT PART: what came of a program that was waited for.
waited() {
	has "$1" "$(cat "$work/$1.out")" "$2"
	has "$1: exit status" "$(cat "$work/$1.out")" "status 3"
}
waited sleeps "no whole answer within 3 s"
waited silent "hello: no whole answer within 3 s"
waited deaf "no whole answer within 3 s"
waited drips "no whole answer within 3 s, it stopped after "
waited stalls "no whole answer within 3 s, it stopped after 6951 of 6952 bytes of its answer"
waited stays "does not exit"
same "processes that are left" "" "$(ps -ef | grep -F "$program" | grep -v grep)"
exits 2 "'csat e4m3': no question begins so: did you mean 'cast e4m3'?" conform "$program" --only scale --only 'csat e4m3'
exits 2 "'mx mxfp8': no question begins so: did you mean 'mx mxfp8-e4m3'?" conform "$program" --only 'mx mxfp8'
exits 2 "no question begins so in this profile; the first words are cast, " conform "$program" --like torch --only gemm
exits 2 "unknown value 'torhc': did you mean 'torch'?" conform "$program" --like torhc
finish
