#!/bin/bash
# SPDX-License-Identifier: MIT
# mpirun mxfp calibrate: ranks give the bytes and the facts of one process, with any number of ranks, threads and experts; what one of
# them refuses or cannot do fails the run in one line; and a run that is stopped is resumed by another number of ranks. Skips without
# --with-mpi or mpirun, and where a program that does nothing but start MPI fails.
. "${srcdir:-.}/tests/cli/cli.shlib"
. "${srcdir:-.}/tests/cli/mpi.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
mpi_lack
[ -z "$lack" ] || { echo "skipped: $lack"; exit 77; }

python3 "${srcdir:-.}/tests/cli/small_llama.py" "$work" || exit 99
python3 "${srcdir:-.}/tests/cli/small_experts.py" "$work" || exit 99
model=$work/model tokens=$work/tokens.json

# Rank $VICTIM gets the words in $EXTRA, and calls that fail if $IO_HOW says so.
cat >"$work/mxfp" <<-END
	#!/bin/sh
	if [ "\${PMI_RANK:-\$OMPI_COMM_WORLD_RANK}" = "\$VICTIM" ]; then
		set -- "\$@" \$EXTRA
		[ -z "\$IO_HOW" ] || export LD_PRELOAD='$work/preload_io.so'
	fi
	exec '$mxfp_mpi' "\$@"
	END
chmod +x "$work/mxfp"
export VICTIM=none EXTRA= IO_HOW=

# ranks N CODE ARGUMENT...: what they print is in $work/out and $work/error.
ranks() {
	local n=$1 expected=$2 code=0
	shift 2
	timeout -k 5 300 mpiexec -n "$n" "$work/mxfp" calibrate "$@" >"$work/out" 2>"$work/error" || code=$?
	[ "$expected" = any ] || same "exit code of $n ranks with '$*' ($(head -n 3 "$work/error"))" "$expected" $code
}
pad=--pad-tail
# alike N THREADS NAME ARGUMENT...: ranks make of a model what one process made of it in $work/NAME.one.
alike() {
	local n=$1 threads=$2 name=$3
	shift 3
	ranks "$n" 0 "$work/$name" --tokens "$tokens" -o "$work/ranks" -f $pad --json --threads "$threads" "$@"
	same "output of $n ranks with $threads threads, $name" "" "$(diff -r "$work/$name.one" "$work/ranks" 2>&1)"
	same "facts of $n ranks with $threads threads, $name" "" \
		"$(sed "s,$work/ranks,$work/$name.one,g" "$work/out" | diff "$work/$name.facts" - 2>&1)"
}
# one NAME ARGUMENT...: what one process makes of a model.
one() {
	local name=$1
	shift
	exits 0 "" calibrate "$work/$name" --tokens "$tokens" -o "$work/$name.one" -f $pad --json "$@"
	cp "$work/out" "$work/$name.facts"
}

# Five windows that have tokens, or nine; layers of 32 and 76 inputs, whose sums and factor are cut in two.
one model
for n in 1 2 3; do
	alike $n 1 model
	alike $n 2 model
done
one model --context 64
alike 2 1 model --context 64
one model --weights nvfp4 --fuse
alike 2 1 model --weights nvfp4 --fuse
pad= # which sparse weights have no use for
one model --weights nvfp4 --sparsity 4:8 --ignore '*.down_proj.*'
alike 3 1 model --weights nvfp4 --sparsity 4:8 --ignore '*.down_proj.*'
pad=--pad-tail
# Tokens of each expert are of all ranks; a router that is calibrated; and memory for the sums of one expert at once, which one rank
# has less of than the others.
one mixtral
alike 2 1 mixtral
one apart --include '*.mlp.gate.weight'
alike 3 1 apart --include '*.mlp.gate.weight'
ranks 2 2 "$work/apart" --tokens "$tokens" -o "$work/none" --pad-tail --mem 1M
least=$(sed -n 's/.*give --mem \([0-9]*\)M or more/\1/p' "$work/error")
VICTIM=1 EXTRA="--mem ${least}M" alike 2 1 apart --include '*.mlp.gate.weight'

# Inputs of layers from a file: the weights themselves will do.
exits 0 "" calibrate "$model" --activation-file "$model/model.safetensors" -o "$work/inputs.one" --pad-tail
for n in 2 3; do
	ranks $n 0 "$model" --activation-file "$model/model.safetensors" -o "$work/ranks" -f --pad-tail
	same "output of $n ranks from inputs" "" "$(diff -r "$work/inputs.one" "$work/ranks" 2>&1)"
done

# refuses CODE PART ARGUMENT...: of three ranks, in one line, with no output.
refuses() {
	local expected=$1 part=$2
	shift 2
	ranks 3 "$expected" "$@" -o "$work/none"
	same "lines" 1 "$(grep -c '^mxfp: ' "$work/error")"
	has "what is refused" "$(cat "$work/error")" "$part"
	same "after that" "" "$(ls -d "$work/none"* 2>/dev/null)"
}
# What all ranks refuse, rank 0 says; what one does, too.
mkdir "$work/nan"
mv "$work/nan.safetensors" "$work/nan/model.safetensors"
cp "$model/config.json" "$work/nan"
refuses 3 "mxfp: $work/nan/model.safetensors: tensor 'model.layers.1.self_attn.o_proj.weight': element 35" "$work/nan" \
	--tokens "$tokens" --pad-tail
refuses 3 "mxfp: $work/nan: tensor 'model.layers.1.mlp.up_proj.weight': the inputs that the model gives it are NaN" "$work/nan" \
	--tokens "$tokens" --pad-tail --ignore '*.o_proj.*'
refuses 2 "give one of them" "$model" --pad-tail
VICTIM=2 EXTRA="--damping 0.02" \
	refuses 3 "mxfp: rank 2: $model: the model, the tokens or inputs, or the options differ from those of rank 0" "$model" --tokens "$tokens" --pad-tail
VICTIM=1 EXTRA="--sequences 4" refuses 3 "mxfp: rank 1: $model: the model, the tokens" "$model" --tokens "$tokens" --pad-tail
VICTIM=1 EXTRA="--mem 1M" refuses 2 "mxfp: rank 1: calibrate: --mem: 1048576 bytes are too few" "$model" --tokens "$tokens" --pad-tail

# One rank cannot write, or is killed: the states of its windows. The run is resumed by one process, or by more ranks.
one model
if preload; then
	for how in error kill; do
		for victim in 0 1; do
			VICTIM=$victim IO_KIND=pwrite IO_AT=6 IO_HOW=$how ranks 2 any "$model" --tokens "$tokens" -o "$work/stopped" --pad-tail -q
			check "output of a run that was stopped" test ! -e "$work/stopped"
			check "nothing to resume" test -e "$work/stopped.partial/fingerprint.json"
			if [ $how = error ]; then
				rank=
				[ $victim = 0 ] || rank="rank $victim: "
				same "lines" 1 "$(grep -c '^mxfp: ' "$work/error")"
				has "error" "$(grep '^mxfp: ' "$work/error")" "mxfp: $rank$work/stopped.partial/"
				has "error" "$(grep '^mxfp: ' "$work/error")" "Input/output error; --resume continues"
				exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/stopped" --pad-tail -q --resume
			else
				ranks 3 0 "$model" --tokens "$tokens" -o "$work/stopped" --pad-tail -q --resume
			fi
			same "resumed" "" "$(diff -r "$work/model.one" "$work/stopped" 2>&1)"
			check "what is left" test ! -e "$work/stopped.partial"
			rm -rf "$work/stopped"
		done
	done
fi
finish
