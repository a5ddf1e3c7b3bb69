#!/bin/bash
# SPDX-License-Identifier: MIT
# --resume of quantize, dequantize and convert: a run that is killed, at any call of the system or at any time, is
# continued to the same bytes and the same summary, and until then what stood there is intact. Disks that fail, inputs
# that change, other settings.
# MXFP_TEST_KILLS=50 kills 50 times at random moments instead of 8, and at every call instead of every fourth.
. "${srcdir:-.}/tests/cli/cli.shlib"

# A model of two shards with two tensors each. Text read as bf16 is finite numbers of many magnitudes.
model() { # DIRECTORY ROWS
	local bytes=$((128 * $2)) number
	mkdir "$1"
	seq 1 $((bytes / 2)) | head -c $((2 * bytes)) >"$work/numbers"
	for number in 1 2; do
		{
			header "{\"a$number.weight\":{\"dtype\":\"BF16\",\"shape\":[$2,64],\"data_offsets\":[0,$bytes]},\
\"embed$number.weight\":{\"dtype\":\"BF16\",\"shape\":[$2,64],\"data_offsets\":[$bytes,$((2 * bytes))]}}"
			cat "$work/numbers"
		} >"$1/model-$number.safetensors"
	done
	printf '{"weight_map":{"a1.weight":"model-1.safetensors","embed1.weight":"model-1.safetensors",%s}}' \
		'"a2.weight":"model-2.safetensors","embed2.weight":"model-2.safetensors"' >"$1/model.safetensors.index.json"
	echo '{"model_type":"test"}' >"$1/config.json"
	echo words >"$1/merges.txt"
}
model "$work/small" 64
mkdir "$work/d"
out=$work/d/out
exits 0 "" quantize "$work/small" -o "$out" --rule floor -q
mv "$out" "$work/old"
exits 0 "" quantize "$work/small" -o "$out" --json
mv "$out" "$work/new"
mv "$work/out" "$work/summary"

# is NAME DIRECTORY: OUT has the same files.
is() {
	same "$1" "" "$(diff -r "$2" "$out" 2>&1 | head -n 3)"
}

# continued NAME ARGUMENT...: what is left is continued to what an undisturbed run gives. A run that was stopped when
# all was done has left nothing to continue.
continued() {
	local name=$1
	shift
	if [ -e "$out.partial/fingerprint.json" ] ||
		! diff -r "$work/new" "$out" >/dev/null 2>&1; then
		exits 0 "" "$@" --resume $json
		same "summary after $name" "" "$(diff "$work/summary" "$work/out")"
	elif [ -e "$out.partial" ]; then
		exits 2 "exists" "$1" "$2" -o "$out" --resume
	fi
	is "output after $name" "$work/new"
	same "entries after $name" out "$(ls -A "$work/d")"
}
json=--json

kills=${MXFP_TEST_KILLS:-8}
step=4
[ "$kills" = 8 ] || step=1

# killed_everywhere COMMAND INPUT [ARGUMENT]...: it is killed at calls of the system in turn. What stands there before is
# the old output, or nothing.
killed_everywhere() {
	local before force ended at
	for before in old nothing; do
		force=
		[ $before = nothing ] || force=--force
		ended=137 at=0
		while [ $ended = 137 ] && [ $at -lt 200 ]; do
			at=$((at + step)) ended=0
			rm -rf "$out"
			[ $before = nothing ] || cp -r "$work/old" "$out"
			(
				export IO_AT=$at IO_HOW=kill
				exec "$work/mxfp" "$@" -o "$out" -q $force
			) 2>/dev/null || ended=$?
			if [ -e "$out.partial/output" ] && [ ! -e "$out.partial/appearing" ] && [ $before = old ]; then
				is "old output, $1, call $at" "$work/old"
			fi
			continued "$1, call $at" "$@" -o "$out" $force
		done
		same "code of the run that was not killed" 0 $ended
		check "only $at calls" test $at -gt 25
	done
}

slow=$mxfp
if preload; then
	cat >"$work/mxfp" <<-END
		#!/bin/sh
		LD_PRELOAD=$shim exec $slow "\$@"
	END
	chmod +x "$work/mxfp"
	killed_everywhere quantize "$work/small"
else
	rm -f "$shim"
	echo "not killed at every call: no compiler for a library to preload, a sanitizer, or an emulator"
fi

# left [ARGUMENT]...: a run on the small model that is stopped by a file that may not be written.
left() {
	rm -rf "$out" "$out.partial"
	(
		ulimit -f 0
		exec "$mxfp" quantize "$work/small" -o "$out" -q "$@"
	) 2>/dev/null
	(
		ulimit -f 8
		exec "$mxfp" quantize "$work/small" -o "$out" -q --resume "$@"
	) 2>/dev/null
	check "nothing is left" test -e "$out.partial/fingerprint.json"
}

# What is left is not mixed with anything else.
left
exits 2 "$out.partial: belongs to a run that was stopped; --resume continues it, --force starts over" \
	quantize "$work/small" -o "$out"
for resume in "" --resume; do
	exits 2 "was begun with another rule: mse, and not floor; --resume continues it only as it was begun, --force starts over" \
		quantize "$work/small" -o "$out" $resume --rule floor
done
exits 2 "was begun with another set of output files; --resume continues it only as it was begun, --force starts over" quantize "$work/small" -o "$out" --resume --shard-size 9K
exits 2 "was begun with another plan of the tensors (--include, --ignore, --pad-tail or --recipe); --resume" \
	quantize "$work/small" -o "$out" --resume --include 'embed*'
exec 9>"$out.partial/lock"
flock 9
exits 2 "another run is working on it" quantize "$work/small" -o "$out" --resume
exec 9>&-
touch "$work/small/model-2.safetensors"
exits 2 "was begun with another source model-2.safetensors: changed at " quantize "$work/small" -o "$out" --resume
has "error" "$error" "; if it is the same, touch -d @"
has "error" "$error" "--force starts over"
cp -a "$out.partial" "$work/left"
touch -d "$(sed 's/.* touch -d \([^ ]*\) .*/\1/' <<<"$error")" "$work/small/model-2.safetensors"
exits 0 "" quantize "$work/small" -o "$out" --resume -q
is "with the time that it had" "$work/new"
rm -r "$out"
cp -a "$work/left" "$out.partial"
: >"$out.partial/fingerprint.json"
for resume in "" --resume; do
	exits 2 "fingerprint.json: is damaged; --force starts over" quantize "$work/small" -o "$out" $resume
done
exits 0 "" quantize "$work/small" -o "$out" --force -q
is "started over" "$work/new"
rm -r "$out"
left
touch "$out.partial/mine"
exits 2 "holds 'mine', which mxfp does not put there" quantize "$work/small" -o "$out" --force
rm "$out.partial/mine"
exits 0 "" quantize "$work/small" -o "$out" --force -q
is "started over" "$work/new"
same "entries" out "$(ls -A "$work/d")"
rm -r "$out"
mkdir -p "$out.partial/output"
touch "$out.partial/output/model.safetensors"
exits 2 "holds 'output', which mxfp does not put there" quantize "$work/small" -o "$out" --force
same "what is not ours" model.safetensors "$(ls "$out.partial/output")"
rm -r "$out.partial"
touch "$out.partial"
exits 2 "is not a directory" quantize "$work/small" -o "$out" --resume
rm "$out.partial"
mv "$work/small" "$work/small.partial"
exits 2 "is the input" quantize "$work/small.partial" -o "$work/small" --force
mv "$work/small.partial" "$work/small"

# Inputs that are damaged: EXIT_INPUT, and nothing is left. With nothing to continue --resume begins.
exits 0 "" quantize "$work/small" -o "$out" --resume -q
is "begun by --resume" "$work/new"
exits 2 "exists" quantize "$work/small" -o "$out" --resume
rm -r "$out"
cp "$work/small/model-2.safetensors" "$work/whole"
truncate -s -1 "$work/small/model-2.safetensors"
exits 3 "model-2.safetensors" quantize "$work/small" -o "$out"
rm "$work/small/model-2.safetensors"
exits 3 "model-2.safetensors: is not there, though the model needs it" quantize "$work/small" -o "$out"
cp "$work/whole" "$work/small/model-2.safetensors"
same "after damaged input" "" "$(ls -A "$work/d")"

# A read and a write that fail, and a disk that is full: one line, and --resume goes on once they work.
if [ -e "$shim" ]; then
	for case in 'pread 14 error' 'pread 16 error' 'pwrite 2 full' 'pwrite 5 error' 'fdatasync 2 error' 'fsync 6 full' \
		'renameat2 1 error' 'mkdir 1 full' 'ftruncate 2 full'; do
		read -r kind at how <<<"$case"
		rm -rf "$out"
		cp -r "$work/old" "$out"
		mxfp=$work/mxfp
		export IO_KIND="$kind" IO_AT="$at" IO_HOW="$how"
		reason="Input/output error"
		[ "$how" = error ] || reason="No space left on device"
		exits 4 "$reason" quantize "$work/small" -o "$out" -q --force
		unset IO_KIND IO_AT IO_HOW
		mxfp=$slow
		is "old output after $case" "$work/old"
		exits 0 "" quantize "$work/small" -o "$out" -q --resume --force
		is "output after $case" "$work/new"
	done
	rm -r "$out"
	# Each call that waits for the disk, or closes what was written, fails alone: none is overlooked.
	mxfp=$work/mxfp
	for case in 'fdatasync 2' 'fsync 6' 'close_written 2'; do
		read -r kind least <<<"$case"
		code=4 at=0
		while [ $code = 4 ] && [ $at -lt 50 ]; do
			at=$((at + 1)) code=0
			rm -rf "$out" "$out.partial"
			IO_KIND=$kind IO_AT=$at IO_HOW=once "$mxfp" quantize "$work/small" -o "$out" -q 2>"$work/error" || code=$?
		done
		same "code of the run without a failing $kind" 0 $code
		check "only $((at - 1)) calls of $kind fail the run" test $at -gt "$least"
	done
	rm -r "$out"
	# Somebody else takes the name when all is done.
	IO_HOW=race exits 4 "$out: cannot create: File exists" quantize "$work/small" -o "$out"
	same "what took the name" "" "$(ls -A "$out")"
	rm -r "$out"
	exits 0 "" quantize "$work/small" -o "$out" --resume -q
	is "output after the name was taken" "$work/new"
	rm -r "$out"
	IO_KIND=fdatasync IO_AT=2 IO_HOW=error exits 4 "model-2" quantize "$work/small" -o "$out"
	mxfp=$slow
	# What is not what was written is written again, to the same bytes and the same summary.
	cp -a "$out.partial" "$work/written"
	of=$out.partial/output/model-1.safetensors
	size=$(wc -c <"$of")
	for change in "truncate -s 0 $of" "truncate -s -1 $of" "truncate -s +5 $of" "rm $of" "cp $out.partial/output/model-2.safetensors $of" \
		"flip 8" "flip 100" "flip $((size - 9000))" "flip $((size - 1))"; do
		rm -rf "$out" "$out.partial"
		cp -a "$work/written" "$out.partial"
		if [ "${change%% *}" = flip ]; then
			printf '~' | dd of="$of" bs=1 seek="${change#* }" conv=notrunc 2>/dev/null
		else
			$change
		fi
		exits 0 "" quantize "$work/small" -o "$out" --resume --json
		is "output after $change" "$work/new"
		same "summary after $change" "" "$(diff "$work/summary" "$work/out")"
	done
	# What has another name is not written to.
	for change in "ln $of $work/name" "ln $out.partial/model-1.safetensors.journal $work/name" "ln -sf $work/whole $of"; do
		rm -rf "$out" "$out.partial" "$work/name"
		cp -a "$work/written" "$out.partial"
		$change
		exits 2 "is a link, or no file, so that to write to it would change something else; put a copy of its own in its place (cp FILE COPY; mv COPY FILE); \
--resume continues then" quantize "$work/small" -o "$out" --resume
		rm -f "$work/name"
		rm "$of"
		cp "$work/written/output/model-1.safetensors" "$of"
		exits 0 "" quantize "$work/small" -o "$out" --resume -q
		is "output after $change" "$work/new"
	done
	rm -r "$out"
	# A line of the journal that is not what was written, as one may be after a power failure: its tensor is done again.
	mxfp=$work/mxfp
	IO_KIND=fdatasync IO_AT=2 IO_HOW=error exits 4 "model-2" quantize "$work/small" -o "$out"
	mxfp=$slow
	journal=$out.partial/model-1.safetensors.journal
	same "lines of the journal" 2 "$(wc -l <"$journal")"
	sed -i '1s/ 0 / 7 /' "$journal"
	exits 0 "" quantize "$work/small" -o "$out" --resume --json
	is "output after a damaged journal" "$work/new"
	same "summary after a damaged journal" "" "$(diff "$work/summary" "$work/out")"
	rm -r "$out"
fi

# The same for what reads a quantized model. A tensor of NVFP4 gets another tensor scale in the other layout.
exits 0 "" quantize "$work/small" -o "$work/quantized" -q -w nvfp4
exits 0 "" quantize "$work/small" -o "$work/other" -q -w mxfp8-e4m3
for command in "dequantize $work/quantized --to bf16" "convert $work/quantized --layout modelopt --allow-rounding" \
	"convert $work/quantized --to mxfp4 --allow-rounding"; do
	set -- $command
	rm -rf "$out" "$work/old" "$work/new"
	to=--to
	[ "$1" = dequantize ] || to=--decode-rest
	exits 0 "" "$1" "$work/other" -o "$out" -q $to f32
	mv "$out" "$work/old"
	exits 0 "" "$@" -o "$out"
	mv "$out" "$work/new"
	mv "$work/out" "$work/summary"
	json=
	[ ! -e "$shim" ] || killed_everywhere "$@"
	rm -rf "$out"
	(
		ulimit -f 8
		exec "$mxfp" "$@" -o "$out" -q
	) 2>/dev/null
	check "nothing is left of $1" test -e "$out.partial/fingerprint.json"
	exits 2 "$out.partial: belongs to a run that was stopped; --resume continues it, --force starts over" "$@" -o "$out"
	exits 2 "was begun with another " "$1" "$2" -o "$out" --resume $to f16
	exits 2 "was begun with another command: " quantize "$work/small" -o "$out" --resume
	sed -i 's/"mxfp.version": "/&0./' "$out.partial/fingerprint.json"
	exits 2 "was begun with another version: 0." "$@" -o "$out" --resume
	sed -i 's/"mxfp.version": "0\./"mxfp.version": "/' "$out.partial/fingerprint.json"
	sed 's/"test"/"tent"/' "$2/config.json" >"$work/config.json"
	cp "$2/config.json" "$work/config.json.before"
	cp "$work/config.json" "$2/config.json"
	exits 2 "was begun with another config.json; --resume continues it only as it was begun, --force starts over" "$@" -o "$out" --resume
	cp "$work/config.json.before" "$2/config.json"
	continued "$1 with a full disk" "$@" -o "$out"
	rm -r "$out"
	if [ -e "$shim" ]; then
		mxfp=$work/mxfp
		IO_KIND=pwrite IO_AT=3 IO_HOW=full exits 4 "No space left on device; --resume continues" "$@" -o "$out"
		mxfp=$slow
		touch "$2/model-2.safetensors" # only a run that deletes shards knows all of them
		exits 2 "was begun with another source model-2.safetensors: " "$@" -o "$out" --resume
		lost=
		[ "$1" = dequantize ] || lost=" were rounded" # which -q does not hide
		exits 0 "$lost" "$@" -o "$out" --force -q
		is "$1 started over" "$work/new"
	fi
done
json=--json

# Random moments: a file with more than the journal waits for between others, most of it zeros that take up no space.
cp -r "$work/small" "$work/large"
bytes=$((100 << 20)) second=$((16 << 20)) third=$((90 << 20))
name=$work/large/model-1a.safetensors
header "{\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2048,4096],\"data_offsets\":[0,$second]},\
\"embed.weight\":{\"dtype\":\"BF16\",\"shape\":[9472,4096],\"data_offsets\":[$second,$third]},\
\"c.weight\":{\"dtype\":\"BF16\",\"shape\":[1280,4096],\"data_offsets\":[$third,$bytes]}}" >"$name"
size=$(($(wc -c <"$name") + bytes))
seq 1 9999999 | head -c 20000000 >>"$name"
truncate -s $size "$name"
sed 's/"weight_map":{/&"b.weight":"model-1a.safetensors","c.weight":"model-1a.safetensors",\
"embed.weight":"model-1a.safetensors",/' "$work/small/model.safetensors.index.json" \
	>"$work/large/model.safetensors.index.json"
rm -rf "$out" "$work/new"
started=$EPOCHREALTIME
exits 0 "" quantize "$work/large" -o "$out" --json
microseconds=$((${EPOCHREALTIME/./} - ${started/./}))
mv "$out" "$work/new"
mv "$work/out" "$work/summary"

# killed_somewhere TIMES ARGUMENT...
killed_somewhere() {
	local times=$1 i pid wait
	shift
	for ((i = 0; i < times; i++)); do
		rm -rf "$out"
		"$mxfp" "$@" -o "$out" -q &
		pid=$!
		wait=$((RANDOM * microseconds / 32768))
		sleep "$((wait / 1000000)).$(printf '%06d' $((wait % 1000000)))"
		kill -KILL $pid 2>/dev/null
		wait $pid 2>/dev/null
		continued "$1, $wait of $microseconds microseconds" "$@" -o "$out"
	done
}
killed_somewhere "$kills" quantize "$work/large"
rm -r "$out" "$work/quantized"
mv "$work/new" "$work/quantized"
for command in "dequantize $work/quantized" "convert $work/quantized --layout quark"; do
	rm -rf "$out" "$work/new"
	started=$EPOCHREALTIME
	exits 0 "" $command -o "$out"
	microseconds=$((${EPOCHREALTIME/./} - ${started/./}))
	mv "$out" "$work/new"
	mv "$work/out" "$work/summary"
	json=
	killed_somewhere $((kills / 2)) $command
done
finish
