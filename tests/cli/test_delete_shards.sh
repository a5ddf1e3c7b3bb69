#!/bin/bash
# SPDX-License-Identifier: MIT
# mxfp convert --delete-source-shards: a run that is killed at any call of the system, and killed again, is resumed to the bytes
# of an undisturbed run without the option; a shard that is gone is in what was written; and nothing removes the only copy.
# Tensors lie in random shards, so that most shards need others. MXFP_TEST_KILLS=50 kills at every call instead of every 61st.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 "${srcdir:-.}/tests/cli/scattered.py" "$work" || exit 99
mkdir "$work/d"
in=$work/d/in out=$work/d/out
option=--delete-source-shards

fresh() { # MODEL
	rm -rf "$in" "$out" "$out.partial"
	cp -a "$work/$1" "$in"
}

# Each shard that is gone has left something, or all is done.
accounted() { # NAME
	local shard
	[ ! -d "$out.partial/output" ] && [ -d "$out" ] && return
	for shard in 1 2 3 4 5; do
		shard=model-0000$shard-of-00005.safetensors
		[ -e "$in/$shard" ] || [ -s "$out.partial/$shard.kept" ] || bad "$1: $shard is gone without a trace"
	done
}

is() { # NAME
	same "$1" "" "$(diff -r "$work/expected" "$out" 2>&1 | head -n 3)"
	same "entries after $1" "in out" "$(echo $(ls -A "$work/d"))"
	same "source after $1" "config.json model.safetensors.index.json tokenizer.json" "$(echo $(ls "$in"))"
}

# flip FILE BYTE: changes a bit.
flip() {
	python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2])); b = f.read(1)[0]; f.seek(-1, 1); f.write(bytes([b ^ 1]))' "$1" "$2"
}

step=61
[ "${MXFP_TEST_KILLS:-8}" = 8 ] || step=1
step=$(fewer $step $((step * 8)))

# What is killed at call N is resumed, killed at the same call of that run, and resumed.
killed_everywhere() { # MODEL ARGUMENT...
	local model=$1 at=0 ended=137 kills=0
	shift
	while [ $ended = 137 ] && [ $at -lt 4000 ]; do
		at=$((at + step)) ended=0
		fresh "$model"
		IO_AT=$at IO_HOW=kill LD_PRELOAD=$shim "$mxfp" convert "$in" -o "$out" -q $option "$@" 2>/dev/null || ended=$?
		accounted "$model, call $at"
		[ $ended = 137 ] || break
		kills=$((kills + 1))
		if [ -e "$out.partial/fingerprint.json" ]; then
			IO_AT=$at IO_HOW=kill LD_PRELOAD=$shim "$mxfp" convert "$in" -o "$out" -q --resume $option "$@" 2>/dev/null
			accounted "$model, call $at twice"
		fi
		if [ ! -e "$out.partial/fingerprint.json" ] && [ ! -e "$out.partial/appearing" ] && [ -e "$out" ]; then
			exits 2 "$out: exists" convert "$in" -o "$out" -q --resume $option "$@"
		else
			exits 0 "" convert "$in" -o "$out" -q --resume $option "$@"
		fi
		is "$model, call $at"
	done
	same "code of the run that was not killed" 0 $ended
	check "only $at calls" test $at -gt 60
}

preload || rm -f "$shim"
for run in "mxfp4 --to nvfp4 --layout modelopt" "fp8 --to mxfp8-e4m3" "nvfp4 --layout compressed-tensors"; do
	set -- $run
	rm -rf "$work/expected"
	exits 0 "" convert "$work/$1" -o "$work/expected" -q ${run#* }
	fresh $1
	exits 0 "" convert "$in/" -o "$out" $option ${run#* }
	has "summary" "$(cat "$work/out")" "5 shards of the source deleted"
	is "undisturbed $1"
	[ ! -e "$shim" ] || killed_everywhere $run
done
[ -e "$shim" ] || echo "not killed at every call: no compiler for a library to preload, a sanitizer, or an emulator"

# stopped MODEL ARGUMENT...: a run that was killed after the first deletion.
stopped() {
	local model=$1 at=2 code kept
	shift
	while [ $at -lt 20 ]; do
		at=$((at + 1)) code=0
		fresh "$model"
		IO_KIND=unlink IO_AT=$at IO_HOW=kill LD_PRELOAD=$shim "$mxfp" convert "$in" -o "$out" -q $option "$@" 2>/dev/null || code=$?
		same "killed" 137 $code
		for kept in "$out.partial"/*.kept; do
			[ ! -e "$kept" ] || [ -e "$in/$(basename "$kept" .kept)" ] || break 2
		done
	done
	gone=$(basename "$kept" .kept)
	check "no shard is gone" test -e "$kept" -a ! -e "$in/$gone"
}

last=model-00005-of-00005.safetensors
if [ -e "$shim" ]; then
	set -- --to nvfp4 --layout modelopt
	rm -rf "$work/expected"
	exits 0 "" convert "$work/mxfp4" -o "$work/expected" -q "$@"
	stopped mxfp4 "$@"
	cp -a "$out.partial" "$work/partial"
	# Nothing but --resume goes on, and what is there stays.
	for command in "convert $in -o $out" "convert $in -o $out --force" "convert $in -o $out --force $option" "quantize $work/plain -o $out --force" \
		"convert $work/nvfp4 -o $out --force"; do
		case $command in
		quantize*)
			mkdir -p "$work/plain"
			safetensors_zeros "$work/plain/model.safetensors" '{"a.weight":{"dtype":"F32","shape":[32,32],"data_offsets":[0,4096]}}' 4096
			;;
		esac
		exits 2 "only copy of shards that are deleted; --resume continues it" $command
	done
	exits 2 "was begun with another --layout" convert "$in" -o "$out" --resume --to nvfp4 --layout compressed-tensors
	has "error" "$error" "; give it as then: this has the only copy of shards that are deleted"
	same "what is kept" "" "$(diff -r "$work/partial" "$out.partial")"
	# A shard that is there again is the one that counts, and another than it was is refused.
	cp "$work/mxfp4/$last" "$in/$gone"
	exits 3 "$gone" convert "$in" -o "$out" --resume "$@"
	cp "$work/mxfp4/$gone" "$in/$gone"
	flip "$in/$gone" 100000
	exits 2 "was begun with another source $gone: " convert "$in" -o "$out" --resume "$@"
	rm "$in/$gone"
	check "kept" test -e "$out.partial/$gone.kept"
	# What is kept, damaged: each byte.
	kept=$out.partial/$gone.kept
	size=$(wc -c <"$kept")
	for at in 0 11 13 20 40 $((size / 2)) $((size - 1)); do
		cp "$work/partial/$gone.kept" "$kept"
		printf '~' | dd of="$kept" bs=1 seek=$at conv=notrunc 2>/dev/null
		exits 3 "$gone.kept: is damaged, and the shard that it was made of is deleted" convert "$in" -o "$out" --resume "$@"
	done
	for bytes in 0 5 60 $((size - 1)); do
		head -c $bytes "$work/partial/$gone.kept" >"$kept"
		exits 3 "is damaged" convert "$in" -o "$out" --resume "$@"
	done
	cp "$work/partial/$gone.kept" "$kept"
	# A journal that lost its lines asks for what is gone: it says so, and all stays.
	journal=$out.partial/$gone.journal
	: >"$journal"
	exits 3 "$gone.journal: has lost what it said of a file, and $gone, from which it was made, is deleted; put either back as it was" \
		convert "$in" -o "$out" --resume "$@"
	has "error" "$error" "stays, because it has the only copy"
	same "the file" "" "$(cmp "$work/partial/output/$gone" "$out.partial/output/$gone" 2>&1)"
	head -n 1 "$work/partial/$gone.journal" >"$journal"
	exits 3 "$gone.journal: has lost what it said of a file" convert "$in" -o "$out" --resume "$@"
	same "the file" "" "$(cmp "$work/partial/output/$gone" "$out.partial/output/$gone" 2>&1)"
	cp "$work/mxfp4/$gone" "$in"
	exits 0 "" convert "$in" -o "$out" -q $option --resume "$@"
	is "the shard is there again"
	stopped mxfp4 "$@"
	rm -r "$out.partial"
	cp -a "$work/partial" "$out.partial"
	# Without the fingerprint there is nothing to continue by.
	rm "$out.partial/fingerprint.json"
	exits 2 "holds 'output', which mxfp does not put there, and the name is needed; move it away" \
		convert "$in" -o "$out" --resume "$@"
	cp -a "$work/partial/fingerprint.json" "$out.partial"
	# Without the option, the shards that are left stay.
	exits 0 "" convert "$in" -o "$out" -q --resume "$@"
	same "output without the option" "" "$(diff -r "$work/expected" "$out")"
	check "a shard is gone though nobody said so" test -e "$in/$last"

	# What was written, changed meanwhile: nothing is deleted, and all stays, until that or the shard is as it was.
	rm -rf "$in" "$out"
	stopped mxfp4 "$@"
	rm -rf "$work/stopped" "$work/own"
	cp -a "$work/d" "$work/stopped"
	of=$out.partial/output/$gone
	put() { # what was written then, the shard, or all
		case $1 in
		output) rm -f "$of" && cp "$work/stopped/out.partial/output/$gone" "$of" ;;
		shard) cp "$work/mxfp4/$gone" "$in" ;;
		*) rm -r "$work/d" && cp -a "$work/stopped" "$work/d" ;;
		esac
	}
	size=$(wc -c <"$work/expected/$gone")
	for change in "byte output" "byte shard" "more output" "more shard" "less shard" "missing shard" "link output" "hard output"; do
		put all
		code=3
		case $change in
		byte*) flip "$of" $((size / 3)) && reason="' is not what was written, and model-0000" ;;
		more*) echo >>"$of" && reason="$gone: has $((size + 1)) bytes, and not $size, and model-0000" ;;
		less*) truncate -s -1 "$of" && reason="$gone: has $((size - 1)) bytes, and not $size, and model-0000" ;;
		missing*) rm "$of" && reason="$gone: is missing, and model-0000" ;;
		link*) mv "$of" "$work/own" && ln -s "$work/own" "$of" && reason="is a link, or no file" code=2 ;;
		hard*) ln "$of" "$work/own" && reason="is a link, or no file" code=2 ;;
		esac
		exits $code "$reason" convert "$in" -o "$out" -q $option --resume "$@"
		same "shards after $change" "$(ls "$work/stopped/in")" "$(ls "$in")"
		exits 2 "only copy of shards that are deleted; --resume continues it" convert "$in" -o "$out" -q $option --force "$@"
		put "${change#* }"
		exits 0 "" convert "$in" -o "$out" -q $option --resume "$@"
		is "$change put back"
		rm -f "$work/own"
	done
	# Nor does one go that is there again while what a later one became is not as it was.
	for at in 3 4 5 6 7 8 9; do
		put all
		IO_KIND=unlink IO_AT=$at IO_HOW=kill LD_PRELOAD=$shim "$mxfp" convert "$in" -o "$out" -q --resume $option "$@" 2>/dev/null
		[ "$(ls "$in" | grep -c 'model-0')" -ge 4 ] || break
	done
	same "shards after the second deletion" 3 "$(ls "$in" | grep -c 'model-0')"
	for later in 5 4 3 2 1; do
		later=model-0000$later-of-00005.safetensors
		[ -e "$in/$later" ] || break
	done
	check "the shard that went first is not the first of them" test "$gone" != "$later"
	put shard
	flip "$out.partial/output/$later" 2000
	exits 3 "$later: '" convert "$in" -o "$out" -q --resume $option "$@"
	check "$gone was deleted" test -e "$in/$gone"
	# Shards that have other times are the same if all of them is.
	for shard in "$in"/model-*[45]-of-*; do
		put all
		cp "$shard" "$work/own" && cp "$work/own" "$shard"
		exits 0 "" convert "$in" -o "$out" -q $option --resume "$@"
		is "$shard was copied"
		put all
		flip "$shard" $(($(wc -c <"$shard") / 4))
		exits 2 "was begun with another source $(basename "$shard"): " convert "$in" -o "$out" -q $option --resume "$@"
		has "error" "$error" "; give it as then: this has the only copy of shards that are deleted"
		[ "$(wc -c <"$shard")" -lt 500000 ] || has "error" "$error" ": size and samples are the same, and the rest is not; give"
		same "shards after $shard" "$(ls "$work/stopped/in")" "$(ls "$in")"
		flip "$shard" $(($(wc -c <"$shard") / 4))
		exits 0 "" convert "$in" -o "$out" -q $option --resume "$@"
		is "$shard was put back"
	done
	# Without the hashes it is told how to say that it is the same.
	put all
	rm "$out.partial/sources.journal"
	touch "$in/$last"
	exits 2 "if it is the same, touch -d @" convert "$in" -o "$out" -q $option --resume "$@"
	touch -d "$(sed 's/.* touch -d \([^ ]*\) .*/\1/' <<<"$error")" "$in/$last"
	exits 0 "" convert "$in" -o "$out" -q $option --resume "$@"
	is "with its time again"
	put all
	echo >"$out.partial/fingerprint.json"
	exits 2 "fingerprint.json: is damaged; put it back as it was: beside it is the only copy" convert "$in" -o "$out" -q $option --resume "$@"
	cp "$work/stopped/out.partial/fingerprint.json" "$out.partial"
	exits 0 "" convert "$in" -o "$out" -q $option --resume "$@"
	is "with its fingerprint again"

	# A disk that fails at a deletion: the shard is there, and so is no claim that it is not.
	fresh mxfp4
	code=0
	IO_KIND=unlink IO_AT=5 IO_HOW=once LD_PRELOAD=$shim "$mxfp" convert "$in" -o "$out" -q $option "$@" 2>"$work/error" || code=$?
	for shard in "$out.partial"/*.kept; do
		[ ! -e "$shard" ] || check "kept of what is there" test ! -e "$in/$(basename "$shard" .kept)"
	done
	[ $code = 0 ] || exits 0 "" convert "$in" -o "$out" -q --resume $option "$@"
	is "a deletion that failed"
fi

# q, k and v get one tensor scale, for which a run that resumes reads all three again: of these shards none goes before the last.
if [ -e "$shim" ]; then
	stopped fused --to nvfp4 --layout modelopt
	same "the first to go" model-00002-of-00005.safetensors "$gone"
	while [ ! -e "$out.partial/model-00005-of-00005.safetensors.journal" ]; do
		at=$((at + 1))
		same "shards of q and k" 2 "$(ls "$in" | grep -c '0000[13]-of')"
		code=0
		fresh fused
		IO_AT=$((at * 40)) IO_HOW=kill LD_PRELOAD=$shim "$mxfp" convert "$in" -o "$out" -q $option --to nvfp4 --layout modelopt 2>/dev/null || code=$?
		[ $code = 137 ] || break
	done
fi

# A shard that says it was changed before 1970.
if [ -e "$shim" ]; then
	rm -rf "$work/expected"
	exits 0 "" convert "$work/fp8" -o "$work/expected" -q --to mxfp8-e4m3
	touch -d '1969-12-31 00:00:00.25 UTC' "$work/fp8/"model-*
	stopped fp8 --to mxfp8-e4m3
	exits 0 "" convert "$in" -o "$out" -q $option --to mxfp8-e4m3 --resume
	is "of 1969"
fi

# Blocks that have to be rounded, in the last shard: once that is allowed, by whichever rule, it goes on.
rm -rf "$work/expected"
set -- --to mxfp8-e4m3 --allow-rounding --rule floor
exits 0 "blocks were rounded by rule floor" convert "$work/late" -o "$work/expected" -q "$@"
fresh late
exits 3 "--allow-rounding rounds them by mse; $out.partial stays, because it has the only copy of shards that are deleted: with that mended, \
--resume continues" convert "$in" -o "$out" -q $option --to mxfp8-e4m3
check "the last shard is gone" test -e "$in/$last"
exits 3 "--allow-rounding rounds" convert "$in" -o "$out" -q $option --to mxfp8-e4m3 --resume
exits 0 "blocks were rounded by rule floor" convert "$in" -o "$out" -q $option "$@" --resume
is "rounded later"
if [ -e "$shim" ]; then
	stopped late "$@"
	exits 2 "was begun with another --allow-rounding: yes, and not no" convert "$in" -o "$out" -q --resume --to mxfp8-e4m3
	exits 2 "was begun with another --rule: floor, and not even" convert "$in" -o "$out" -q --resume --to mxfp8-e4m3 --allow-rounding --rule even
	exits 0 "blocks were rounded by rule floor" convert "$in" -o "$out" -q $option "$@" --resume
	is "rounded"
fi

# What cannot be deleted so.
fresh mxfp4
exits 2 "is one file, which is whole only at the end" convert "$in" -o "$out.safetensors" $option --layout quark
exits 2 "the other parts need the shards" convert "$in" -o "$out" $option --layout quark --part 1/2
exits 0 "" convert "$in" -o "$work/one.safetensors" -q --layout quark
exits 2 "is not a directory of shards" convert "$work/one.safetensors" -o "$out" $option --layout modelopt
exits 2 "" convert "$in" -o "$in" $option --layout quark --force
mv "$in/$last" "$work/blob"
ln -s "$work/blob" "$in/$last"
exits 3 "is a symbolic link that leaves" convert "$in" -o "$out" $option --layout quark
mv "$work/blob" "$in/blob"
ln -sf blob "$in/$last"
exits 2 "$last is a symbolic link, and to delete it would free nothing" convert "$in" -o "$out" $option --layout quark
mv "$in/blob" "$in/$last"
ln "$in/$last" "$work/name"
exits 2 "$last is a hard link of another name, and to delete it would free nothing" convert "$in" -o "$out" $option --layout quark
rm "$work/name"
exits 0 "" convert "$in" -o "$out" -n $option --layout quark
has "summary" "$(cat "$work/out")" "5 shards of the source would be deleted"
same "source" "" "$(diff -r "$work/mxfp4" "$in")"
check "an output" test ! -e "$out" -a ! -e "$out.partial"
# By its index, and in the same directory.
(cd "$in" && exec "$mxfp" convert model.safetensors.index.json -o out -q $option --layout quark) || bad "by the index"
same "what is left" "config.json model.safetensors.index.json out tokenizer.json" "$(echo $(ls "$in"))"
finish
