#!/bin/bash
# SPDX-License-Identifier: MIT
# mpirun mxfp quantize: four ranks give the bytes and the summary of one process; a rank that fails fails the run in one
# line that names it, one that is killed ends it, and --resume completes both. Skips without --with-mpi or mpirun, and
# where a program that does nothing but start MPI fails.
. "${srcdir:-.}/tests/cli/cli.shlib"
. "${srcdir:-.}/tests/cli/mpi.shlib"
mpi_lack
[ -z "$lack" ] || { echo "skipped: $lack"; exit 77; }

# Six files of a tensor of [256,64] bf16.
mkdir "$work/in"
seq 1 20000 | head -c 32768 >"$work/numbers"
map=
for file in 1 2 3 4 5 6; do
	{
		header "{\"$file.weight\":{\"dtype\":\"BF16\",\"shape\":[256,64],\"data_offsets\":[0,32768]}}"
		cat "$work/numbers"
	} >"$work/in/m$file.safetensors"
	map+=",\"$file.weight\":\"m$file.safetensors\""
done
echo "{\"weight_map\":{${map#,}}}" >"$work/in/model.safetensors.index.json"
echo words >"$work/in/merges.txt"

# ranks CODE ARGUMENT...: four ranks; what they print is in $work/out and $work/error.
ranks() {
	local expected=$1 code=0
	shift
	mpiexec -n 4 "$mxfp_mpi" quantize "$@" >"$work/out" 2>"$work/error" || code=$?
	same "exit code of ranks ($(head -n 3 "$work/error"))" "$expected" $code
}
exits 0 "" quantize "$work/in" -o "$work/whole" --json
sed s/whole/four/ "$work/out" >"$work/summary"
ranks 0 "$work/in" -o "$work/four" --json
same "output of four ranks" "" "$(diff -r "$work/whole" "$work/four")"
same "summary of four ranks" "" "$(diff "$work/summary" "$work/out")"

# Each rank measures some of the layers, and all decide the same.
mixed="--preset w4a8-mixed --bits 5.6"
exits 0 "" quantize "$work/in" -o "$work/whole-mixed" --json $mixed
sed s/whole-mixed/mixed-of-four/ "$work/out" >"$work/mixed-summary"
ranks 0 "$work/in" -o "$work/mixed-of-four" --json $mixed
same "mixed output of four ranks" "" "$(diff -r "$work/whole-mixed" "$work/mixed-of-four")"
same "mixed summary of four ranks" "" "$(diff "$work/mixed-summary" "$work/out")"

# What all ranks refuse, rank 0 says.
ranks 2 "$work/in" -o "$work/four"
same "lines" 1 "$(grep -c '^mxfp: .*exists; give --force to replace it' "$work/error")"
ranks 2 "$work/in" -o "$work/x" --part 1/2
same "lines" 1 "$(grep -c '^mxfp: .*the ranks of mpirun share the work' "$work/error")"

# One rank fails: the damaged file is in a later one's share. NaN in the middle of the last file.
cp -r "$work/in" "$work/damaged"
printf '\377\377\377\377' | dd of="$work/damaged/m4.safetensors" bs=1 seek=20000 conv=notrunc 2>/dev/null
rm -r "$work/four"
ranks 3 "$work/damaged" -o "$work/four"
same "lines" 1 "$(grep -c '^mxfp: ' "$work/error")"
has "which rank" "$(grep '^mxfp: ' "$work/error")" \
	"mxfp: rank 3: $work/damaged/m4.safetensors: tensor '4.weight': element"
same "after bad input" "" "$(ls -d "$work/four"* 2>/dev/null)"

# One rank is killed in its work, then the run is resumed, by another number of ranks or by one process.
if preload; then
	cat >"$work/mxfp" <<-END
		#!/bin/sh
		[ "\${PMI_RANK:-\$OMPI_COMM_WORLD_RANK}" != 2 ] || export LD_PRELOAD=$shim
		exec '$mxfp_mpi' "\$@"
	END
	chmod +x "$work/mxfp"
	for how in error kill; do
		code=0
		IO_KIND=pwrite IO_AT=2 IO_HOW=$how mpiexec -n 4 "$work/mxfp" quantize "$work/in" -o "$work/four" -q \
			>/dev/null 2>"$work/error" || code=$?
		checks=$((checks + 2))
		# What mpiexec makes of a killed rank is its own: MPICH 4.2's gave 0 in 2 of 90 such runs.
		[ $code != 0 ] || [ $how = kill ] || bad "a failed rank did not fail the run"
		[ ! -e "$work/four" ] && [ -e "$work/four.partial/fingerprint.json" ] || bad "nothing to resume"
		[ $how = kill ] || has "error" "$(grep '^mxfp: ' "$work/error")" "Input/output error; --resume continues"
		[ $how = kill ] || has "rank" "$(grep '^mxfp: ' "$work/error")" "mxfp: rank 2: "
		if [ $how = kill ]; then
			ranks 0 "$work/in" -o "$work/four" --resume --json
		else
			exits 0 "" quantize "$work/in" -o "$work/four" --resume --json
		fi
		same "resumed after $how" "" "$(diff -r "$work/whole" "$work/four")"
		same "summary after $how" "" "$(diff "$work/summary" "$work/out")"
		rm -r "$work/four"
	done
fi
finish
