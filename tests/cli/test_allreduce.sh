#!/bin/bash
# SPDX-License-Identifier: MIT
# mxfp allreduce: bytes and sums calculated by hand, what is refused, error feedback. Under mpirun 2, 3, 4 and 7 processes
# get the bits that as many members of one process get; one that is killed or stopped ends the run with an error, and one
# that is only late changes nothing. Without --with-mpi, mpiexec, or an MPI that can start, the second half is left out.
. "${srcdir:-.}/tests/cli/cli.shlib"

command -v python3 >/dev/null || { echo "no python3"; exit 77; }

# fact EXPRESSION: of the JSON in $work/out.
fact() {
	python3 -c "import json; a = json.load(open('$work/out')); p = a['payloads']; print(*[$1])"
}

# 128 numbers, 4 ranks: a rank sends 3 of 4 chunks of 32 numbers, and its own chunk's sum to 3. An MX block of e4m3 has 33 bytes.
exits 0 "" allreduce --numbers 128 --payload f32 --payload bf16 --payload mxfp8-e4m3 --payload mxfp4 --json
same "bytes" "[768, 384, 198, 102]" "$(fact "[x['bytes_per_rank'] for x in p]")"
# One block and 4 ranks: chunks of 0, 0, 0 and 32 numbers. The owner sends its 33 bytes to 3, the others theirs to it.
exits 0 "" allreduce --numbers 32 --payload mxfp8-e4m3 --json
same "bytes of one block" "[99]" "$(fact "[x['bytes_per_rank'] for x in p]")"
exits 0 "" allreduce --numbers 1 --ranks 64 --steps 3 --payload mxfp4 --error-feedback
exits 0 "" allreduce --numbers 33 --ranks 1

# Files of f32: name, how many, and number x of them from 0 on.
python3 -c '
import struct, sys
for row in sys.stdin:
    name, n, number = row.split(None, 2)
    text = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (%s,), }\n" % n
    with open(sys.argv[1] + "/" + name, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode())
        file.write(struct.pack("<%sf" % n, *(eval(number) for x in range(int(n)))))' "$work" <<'END'
a.npy 100 x % 5
b.npy 100 x % 4 - 2
c.npy 100 (x % 3) / 2
short.npy 99 1
sum.npy 100 x % 5 + x % 4 - 2 + (x % 3) / 2
uneven.npy 32 4 if x == 0 else 0.125
max.npy 64 float.fromhex('0x1.fffffep127') if x == 0 else 1
zero.npy 64 0
inf.npy 64 float('inf') if x < 2 else x
nan.npy 64 (-float('inf'), 0, float('nan'))[x] if x < 3 else x
one.npy 1 1.5
all_nan.npy 64 float('nan')
END

# Integers up to 4 and their sums up to 12, or halves, are e4m3 numbers: no error, and in f32 no order.
exits 0 "" allreduce "$work/a.npy" "$work/b.npy" "$work/c.npy" --json --payload f32 --payload mxfp8-e4m3
same "numbers" "100 3 [0.0, 0.0]" "$(fact "a['numbers'], a['ranks'], [x['step']['relative_error'] for x in p]")"
hash=$(fact "[x['xxh3_64'] for x in p]")
check "f32 and mxfp8 differ: $hash" [ "$(fact "len({x['xxh3_64'] for x in p})")" = 1 ]
exits 0 "" allreduce "$work/c.npy" "$work/a.npy" "$work/b.npy" --json --payload f32 --payload mxfp8-e4m3
same "another order" "$hash" "$(fact "[x['xxh3_64'] for x in p]")"
if command -v xxhsum >/dev/null && xxhsum -H3 </dev/null >/dev/null 2>&1; then
	same "the sums' hash" "$(fact "p[0]['xxh3_64']")" "$(tail -c 400 "$work/sum.npy" | xxhsum -H3 | grep -o '[0-9a-f]\{16\}')"
fi

# 4 gives MXFP4 the scale 2^0, under which 1/8 goes to 0: of sums of 8 and 31 times 1/4, sqrt(31/16 / (64 + 31/16)) is lost in
# every step. With feedback what is left after 40 steps is of one step.
exits 0 "" allreduce "$work/uneven.npy" "$work/uneven.npy" --steps 40 --payload mxfp4 --json
same "31 of 32 are lost" 0.17142 "$(fact "round(p[0]['all_steps']['relative_error'], 5)")"
exits 0 "" allreduce "$work/uneven.npy" "$work/uneven.npy" --steps 40 --payload mxfp4 --json --error-feedback
same "feedback" "True" "$(fact "p[0]['all_steps']['relative_error'] < 0.03")"

# Nothing of the step that comes before the first to warm up: each of two loses the same, since 1/8 and with what is left of
# it 1/4, a tie to even, go to 0.
exits 0 "" allreduce "$work/uneven.npy" "$work/uneven.npy" --steps 2 --payload mxfp4 --json --error-feedback
same "two steps" 0.17142 "$(fact "round(p[0]['step']['relative_error'], 5)")"

# row PAYLOAD: its cells but for the time. said PART TEXT: what is printed has that line.
row() {
	grep "^| $1 " "$work/out" | tr -d ' ' | cut -d '|' -f 2-8
}
said() {
	check "$1: no '$2'" grep -qxF "$2" "$work/out"
}
# The largest f32 goes up to 2^128 in bf16, and in e4m3 with the scale 2^120, which f32 does not have: one Inf in bf16, and a
# block of it has no scale. Twice the largest is Inf in f32 as well.
exits 0 "" allreduce "$work/max.npy" "$work/zero.npy"
same "max in f32" "f32|256|1.0000|inf|inf|0|0" "$(row f32)"
same "max in bf16" "bf16|128|0.5000|-inf|-inf|inf|inf" "$(row bf16)"
same "max in mxfp8" "mxfp8-e4m3|66|0.2578|-inf|-inf|inf|inf" "$(row mxfp8-e4m3)"
said "max in bf16" "bf16: 1 of 64 results is Inf or NaN, but their sums in binary64 are finite: an infinite error."
said "max in mxfp8" "mxfp8-e4m3: 32 of 64 results are Inf or NaN, but their sums in binary64 are finite: an infinite error."
same "lines on what is not finite" 2 "$(grep -c 'Inf or NaN' "$work/out")"
exits 0 "" allreduce "$work/max.npy" "$work/max.npy" --payload f32 --steps 3 --json
same "twice max" "{'sqnr_db': None, 'relative_error': None, 'max_absolute': None, 'n': 192, 'not_finite': 3, 'excluded': 0}" \
	"$(fact "p[0]['step']")"
same "twice max, all steps" "64 1 0" "$(fact "*[p[0]['all_steps'][k] for k in ('n', 'not_finite', 'excluded')]")"
# What is not finite on a rank is left out: here Inf - Inf, Inf and NaN.
exits 0 "" allreduce "$work/inf.npy" "$work/nan.npy" --payload f32
same "without three" "f32|256|1.0000|inf|inf|0|0" "$(row f32)"
said "without three" "Without 3 of 64 results, to whose sums a rank gave Inf or NaN."
exits 0 "" allreduce "$work/inf.npy" "$work/nan.npy" --payload f32 --json
same "without three" "61 0 3" "$(fact "*[p[0]['step'][k] for k in ('n', 'not_finite', 'excluded')]")"

# One rank sends nothing, of which there is no part; of NaN alone there is no error.
exits 0 "" allreduce "$work/one.npy" --payload f32
same "one" "1 rank, in this process, 1 number from a file, 1 step, rule rceil, rounding rne" "$(head -n 1 "$work/out")"
same "one" "f32|0|-|inf|inf|0|0" "$(row f32)"
exits 0 "" allreduce "$work/all_nan.npy" "$work/all_nan.npy" --payload bf16
same "NaN" "bf16|128|0.5000|-|-|-|-" "$(row bf16)"
said "NaN" "Without 64 of 64 results, to whose sums a rank gave Inf or NaN."

# Neither threads nor instruction sets change a bit, in any payload and rounding.
all="--numbers 5000 --steps 3 --error-feedback --round sr --seed 7 --json
	--payload f32 --payload bf16 --payload mxfp8-e5m2 --payload mxfp6-e3m2 --payload mxfp4 --payload mxint8"
# shellcheck disable=SC2086 # words
exits 0 "" allreduce $all
hash=$(fact "[x['xxh3_64'] for x in p]")
# shellcheck disable=SC2086 # words
exits 0 "" allreduce $all --threads 3
same "threads" "$hash" "$(fact "[x['xxh3_64'] for x in p]")"
# shellcheck disable=SC2086 # words
exits 0 "" --isa ref allreduce $all
same "ref" "$hash" "$(fact "[x['xxh3_64'] for x in p]")"

exits 2 "'nvfp4' is not f32, bf16 or an MX format" allreduce --payload nvfp4
exits 2 "'f16' is not" allreduce --payload f16
exits 2 "--ranks: 0 is not a number from 1 to 64" allreduce --ranks 0
exits 2 "--ranks: 65 is not" allreduce --ranks 65
exits 2 "--numbers: 0 is not" allreduce --numbers 0
exits 2 "--steps: 0 is not" allreduce --steps 0
exits 2 "--timeout: is for ranks that mpirun starts" allreduce --timeout 0
exits 2 "--numbers: is for numbers that are made" allreduce --numbers 5 "$work/a.npy"
exits 2 "--ranks: is for ranks without" allreduce --ranks 2 "$work/a.npy" "$work/b.npy"
exits 2 "--error-feedback: is for --steps of 2 or more" allreduce --error-feedback
{ npy '<f8' False '(1,)'; bytes 0000000000000000; } >"$work/f64.npy"
exits 3 "is F64; F32, BF16 and F16 are summed" allreduce "$work/f64.npy"
exits 3 "short.npy: has 99 numbers, but $work/a.npy has 100" allreduce "$work/a.npy" "$work/short.npy"
exits 4 "none.npy" allreduce "$work/a.npy" "$work/none.npy"

# The rest is for processes.
without() {
	echo "without mpirun: $1"
	finish
}
code=0
error=$(PMI_RANK=0 PMI_SIZE=2 "$mxfp" allreduce 2>&1) || code=$?
same "mpirun without MPI" 2 $code
has "mpirun without MPI" "$error" "start mxfp-mpi"
. "${srcdir:-.}/tests/cli/mpi.shlib"
mpi_lack
[ -z "$lack" ] || without "$lack"

# Rank $VICTIM leaves its process id in $work/pid, and gets the words in $EXTRA.
cat >"$work/mxfp" <<-END
	#!/bin/sh
	if [ "\${PMI_RANK:-\$OMPI_COMM_WORLD_RANK}" = "\$VICTIM" ]; then
		echo \$\$ >'$work/pid'
		set -- "\$@" \$EXTRA
	fi
	exec '$mxfp_mpi' "\$@"
END
chmod +x "$work/mxfp"
export VICTIM=none EXTRA=
# ranks N CODE ARGUMENT...: what they print is in $work/out and $work/error.
ranks() {
	local n=$1 expected=$2 code=0
	shift 2
	timeout -k 5 120 mpiexec -n "$n" "$work/mxfp" allreduce "$@" >"$work/out" 2>"$work/error" || code=$?
	[ "$expected" = any ] || same "exit code of $n ranks with '$*' ($(head -n 3 "$work/error"))" "$expected" $code
}

# shellcheck disable=SC2086 # words
for n in 2 5; do
	exits 0 "" allreduce $all --ranks $n
	hash=$(fact "[x['xxh3_64'] for x in p], [x['step'] for x in p], [x['all_steps'] for x in p], a['ranks']")
	ranks $n 0 $all
	same "$n processes" "$hash" \
		"$(fact "[x['xxh3_64'] for x in p], [x['step'] for x in p], [x['all_steps'] for x in p], a['ranks']")"
	same "processes" True "$(fact "a['processes']")"
done
exits 0 "" allreduce "$work/a.npy" "$work/b.npy" "$work/c.npy" --json
hash=$(fact "[x['xxh3_64'] for x in p]")
ranks 3 0 "$work/a.npy" "$work/b.npy" "$work/c.npy" --json
same "files" "$hash" "$(fact "[x['xxh3_64'] for x in p]")"

# What all refuse, rank 0 says; what one cannot do, too.
# refuses N CODE PART ARGUMENT...
refuses() {
	local part=$3
	ranks "$1" "$2" "${@:4}"
	has "error of '${*:4}'" "$(grep '^mxfp: ' "$work/error")" "$part"
	same "output of '${*:4}'" "" "$(grep 'same bits' "$work/out")"
}
refuses 3 2 "3 ranks of mpirun; give one for each" "$work/a.npy" "$work/b.npy"
refuses 2 2 "--ranks: is for ranks without mpirun" --ranks 2
refuses 1 2 "start at least 2" --numbers 32
refuses 2 3 "has 99 numbers" "$work/a.npy" "$work/short.npy"
export VICTIM=1
for EXTRA in "--payload bf16" "--numbers 4999" "--steps 3" --error-feedback "--seed 1" "--rule mse" "--round sr"; do
	refuses 3 2 "rank 1 has other numbers or options than rank 0" --numbers 5000 --steps 2 --payload mxfp4
done
EXTRA=

# signal SIGNALS...: to the victim, once it has computed for a quarter of a second, several times what the start of MPI takes,
# however busy the machine is. Notes each that was sent.
signal() {
	local tries=0
	until [ -s "$work/pid" ] && [ "$(awk '{ print $14 + $15 }' "/proc/$(cat "$work/pid")/stat")" -ge 25 ]; do
		[ $tries -lt 900 ] || return
		sleep 0.1
		tries=$((tries + 1))
	done 2>/dev/null
	for signal in "$@"; do
		kill -"$signal" "$(cat "$work/pid")" && echo "$signal" >>"$work/sent"
		sleep 0.7
	done
}
for victim in 0 1; do
	# A stopped rank: the lowest of the others says so, perhaps of the third, too, which waits for it.
	rm -f "$work/pid"
	export VICTIM=$victim
	signal STOP &
	refuses $((2 + victim)) any "allreduce: rank $((1 - victim)): rank $victim" --steps 1000000 --numbers 5000 --timeout 2
	has "error of a stopped rank" "$(cat "$work/error")" "does not answer for 2 s"
	wait
	kill -KILL "$(cat "$work/pid")" 2>/dev/null
done
# A killed one: mpirun says so, or another rank.
rm -f "$work/pid"
signal KILL &
start=$SECONDS
ranks 3 any --steps 1000000 --numbers 5000 --timeout 2
wait
check "a killed rank held the others for $((SECONDS - start)) s" [ $((SECONDS - start)) -le 110 ]
check "a killed rank is not spoken of" grep -qiE 'signal|killed|does not answer' "$work/out" "$work/error"
same "output of killed ranks" "" "$(grep 'same bits' "$work/out")"

# A late one.
exits 0 "" allreduce --steps 300 --numbers 5000 --ranks 3 --payload mxfp4 --json
hash=$(fact "p[0]['xxh3_64']")
cat >>"$work/late" <<-END
	#!/bin/sh
	[ "\${PMI_RANK:-\$OMPI_COMM_WORLD_RANK}" != 1 ] || sleep 1
	exec '$mxfp_mpi' "\$@"
END
chmod +x "$work/late"
rm -f "$work/pid" "$work/sent"
signal STOP CONT &
ranks 3 0 --steps 4000 --numbers 1000 --payload mxfp4 --json --timeout 30
wait
late=$(fact "p[0]['xxh3_64']")
same "signals sent" "STOP CONT" "$(xargs <"$work/sent")"
exits 0 "" allreduce --steps 4000 --numbers 1000 --ranks 3 --payload mxfp4 --json
same "a rank that was stopped and goes on" "$(fact "p[0]['xxh3_64']")" "$late"
timeout -k 5 60 mpiexec -n 3 "$work/late" allreduce --steps 300 --numbers 5000 --payload mxfp4 --json >"$work/out" 2>"$work/error"
same "a rank that starts late" "$hash" "$(fact "p[0]['xxh3_64']")"
finish
