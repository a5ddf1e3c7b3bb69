#!/bin/bash
# SPDX-License-Identifier: MIT
# mxfp quantize --part and mxfp merge: the bytes of one run, whatever the number of parts, and nothing else is merged.
. "${srcdir:-.}/tests/cli/cli.shlib"

# Five files of 1 to 5 tensors of [64,64] bf16.
mkdir "$work/in"
seq 1 20000 >"$work/numbers"
map=
for file in 1 2 3 4 5; do
	tensors=
	for ((i = 0; i < file; i++)); do
		tensors+=",\"$file.$i.weight\":{\"dtype\":\"BF16\",\"shape\":[64,64],\"data_offsets\":[$((8192 * i)),\
$((8192 * i + 8192))]}"
		map+=",\"$file.$i.weight\":\"m$file.safetensors\""
	done
	{
		header "{${tensors#,}}"
		head -c $((file * 8192)) "$work/numbers"
	} >"$work/in/m$file.safetensors"
done
echo "{\"weight_map\":{${map#,}}}" >"$work/in/model.safetensors.index.json"
echo '{"model_type":"test"}' >"$work/in/config.json"
echo words >"$work/in/merges.txt"
exits 0 "" quantize "$work/in" -o "$work/whole"
counts=$(grep ^saturated "$work/out")

for n in 1 2 3 7; do
	parts=()
	for ((i = n; i >= 1; i--)); do
		exits 0 "" quantize "$work/in" -o "$work/part.$n.$i" --part $i/$n
		has "summary" "$(cat "$work/out")" "part $i of $n: "
		parts+=("$work/part.$n.$i")
	done
	exits 0 "" merge "${parts[@]}" -o "$work/merged" --force
	same "$n parts" "" "$(diff -r "$work/whole" "$work/merged")"
	same "counts of $n parts" "$counts" "$(grep ^saturated "$work/out")"
done
exits 0 "" merge "${parts[@]}" -o "$work/merged" --force --json -q
json=$(echo "$counts" | tr -d , | awk '{ printf "\"saturated\":%s,\"flushed\":%s,\"nan\":%s,\"inf\":%s", $2, $6, $8, $10 }')
same "JSON" "{\"output\":\"$work/merged\",\"parts\":7,\"files\":8,\"bytes\":$(cat "$work/merged"/* | wc -c),$json}" \
	"$(tr -d ' \n' <"$work/out")"
# The largest first to whoever has least: 5, 4, 3 + 1, 2 is 5 | 4 + 1 | 3 + 2.
for part in '1 m5' '2 m1 m4' '3 m2 m3'; do
	same "part $part" "${part#* }" "$(cd "$work/part.3.${part%% *}" && echo m*.safetensors | sed 's/\.safetensors//g')"
done

# What is made of it in another format, with tensor scales that are made of several files.
for to in nvfp4 mxfp8; do
	exits 0 "" convert "$work/whole" -o "$work/changed" --to $to --force
	exact=$(sed -n 's/.*: \([0-9]*\) of \([0-9]*\) blocks are exact$/\1/p' "$work/out")
	for n in 1 3 7; do
		parts=()
		for ((i = n; i >= 1; i--)); do
			exits 0 "" convert "$work/whole" -o "$work/c.$to.$n.$i" --part $i/$n --to $to
			has "summary" "$(cat "$work/out")" "part $i of $n; "
			parts+=("$work/c.$to.$n.$i")
		done
		exits 0 "" merge "${parts[@]}" -o "$work/merged" --force
		same "$n parts of $to" "" "$(diff -r "$work/changed" "$work/merged")"
		has "counts of $n parts of $to" "$(cat "$work/out")" "$exact blocks are exact, 0 were rounded"
	done
done
exits 3 "is a part of something else" merge "$work/c.nvfp4.3.1" "$work/c.mxfp8.3.2" "$work/c.nvfp4.3.3" -o "$work/m"
exits 3 "is a part of something else" merge "$work/c.nvfp4.3.1" "$work/part.3.2" "$work/c.nvfp4.3.3" -o "$work/m"
exits 2 "is a file and cannot be cut; leave out --part" convert "$work/whole" -o "$work/x.safetensors" --to nvfp4 --part 1/2

# Parts that do not belong together.
p=$work/part.3
exits 3 "part 2 of 3 is not given" merge "$p.1" "$p.3" -o "$work/m"
exits 3 "part 3 of 3 is not given" merge "$p.1" "$p.2" -o "$work/m"
exits 3 "is part 2, as " merge "$p.1" "$p.2" "$p.2" -o "$work/m"
exits 3 "is a part of something else" merge "$work/part.2.1" "$p.2" "$p.3" -o "$work/m"
exits 0 "" quantize "$work/in" -o "$work/other" --part 3/3 --rule floor -q
exits 3 "is a part of something else" merge "$p.1" "$p.2" "$work/other" -o "$work/m"
# A copy of the model that is newer is the same model; one with other numbers is not.
cp -r "$work/in" "$work/copy"
exits 0 "" quantize "$work/copy" -o "$work/other" --part 3/3 -q --force
exits 0 "" merge "$p.1" "$p.2" "$work/other" -o "$work/merged" --force -q
same "a copy" "" "$(diff -r "$work/whole" "$work/merged")"
tr 1 2 <"$work/numbers" | tail -c 8192 | dd of="$work/copy/m3.safetensors" bs=8192 seek=1 conv=notrunc 2>/dev/null
exits 0 "" quantize "$work/copy" -o "$work/other" --part 3/3 -q --force
exits 3 "is a part of something else" merge "$p.1" "$p.2" "$work/other" -o "$work/m"
exits 3 "$work/whole: is not a part of a model: it has no mxfp-part.json" merge "$p.1" "$work/whole" -o "$work/m"
truncate -s -1 "$p.1/m5.safetensors"
exits 3 "m5.safetensors: is not the file of" merge "$p.1" "$p.2" "$p.3" -o "$work/m"
rm "$p.1/m5.safetensors"
exits 4 "m5.safetensors: cannot open" merge "$p.1" "$p.2" "$p.3" -o "$work/m"
for json in '{' '[]' '{"fingerprint":"x","part":1,"parts":1,"files":{"../x":1}}' \
	'{"fingerprint":"x","part":1,"parts":1,"files":{"/etc/passwd":1}}' \
	'{"fingerprint":"x","part":2,"parts":1,"files":{}}' \
	'{"fingerprint":1,"part":1,"parts":1,"files":{}}' '{"fingerprint":"x","part":1,"parts":1,"files":[]}'; do
	mkdir -p "$work/bad"
	echo "$json" >"$work/bad/mxfp-part.json"
	exits 3 "$work/bad/mxfp-part.json" merge "$work/bad" -o "$work/m"
done
echo secret >"$work/secret"
ln -s ../secret "$work/bad/x.safetensors"
echo '{"fingerprint":"x","part":1,"parts":1,"files":{"x.safetensors":9}}' >"$work/bad/mxfp-part.json"
exits 3 "x.safetensors: is a symbolic link that leaves the model's directory" merge "$work/bad" -o "$work/m"
exits 2 "is the input" merge "$p.2" -o "$p.2" --force
exits 2 "no output given" merge "$p.2"
exits 2 "exists; give --force" merge "$work/part.1.1" -o "$work/merged"
for part in 0/2 3/2 1 1/0 a/2 1/2x -1/2; do
	exits 2 "--part: '$part' is not a part" quantize "$work/in" -o "$work/m" --part=$part
done
check "something was merged" test ! -e "$work/m"

# A part that is stopped is continued as it was begun.
if (ulimit -f 8 && exec "$mxfp" quantize "$work/in" -o "$work/stopped" --part 1/3 -q) 2>/dev/null; then
	bad "was not stopped"
fi
exits 2 "was begun with another part: 1/3, and not 2/3" quantize "$work/in" -o "$work/stopped" --part 2/3 --resume
exits 0 "" quantize "$work/in" -o "$work/stopped" --part 1/3 --resume -q
exits 0 "" merge "$work/stopped" "$p.2" "$p.3" -o "$work/merged" --force
same "a part that was stopped" "" "$(diff -r "$work/whole" "$work/merged")"

# A model of 670 G parameters in 163 files of [502136, 8192] bf16, 8226996224 bytes of holes, 2185295872 in MXFP4. Of
# 16 machines three have 11 files: 90496958464 bytes to read and 24038254592 to write take 1118508 s at 100 KiB a second, less
# than an emulated machine quantizes, and what all write, 356203227136 bytes, 3478547 s to move.
mkdir "$work/large"
map=
for ((i = 100; i < 263; i++)); do
	json="{\"$i.weight\":{\"dtype\":\"BF16\",\"shape\":[502136,8192],\"data_offsets\":[0,8226996224]}}"
	[ $i -gt 100 ] || header "$json" | head -c 8 >"$work/length"
	{
		cat "$work/length"
		printf '%s' "$json"
	} >"$work/large/$i.safetensors"
	truncate -s $((${#json} + 8 + 8226996224)) "$work/large/$i.safetensors"
	map+=",\"$i.weight\":\"$i.safetensors\""
done
echo "{\"weight_map\":{${map#,}}}" >"$work/large/model.safetensors.index.json"
exits 0 "" quantize "$work/large" --dry-run --machines 16 --rate-disk 100K --rate-net 100K
text=$(tr -s ' ' <"$work/out")
has "eleven files" "$text" "| 1 | 11 | 84.3 | 22.4 | 1118508 |"
has "ten files" "$text" "| 16 | 10 | 76.6 | 20.4 | 1016825 |"
has "all" "$text" "16 machines read 1248.9 GiB and write 331.7 GiB; the last is done after 1118508 s"
has "moved" "$text" "network 0.1 MiB/s; moving the parts to one machine takes 3478547 s"
exits 0 "" quantize "$work/large" --dry-run --machines 16 --json
has "JSON" "$(tr -d ' \n' <"$work/out")" '{"files":11,"bytes_read":90496958464,"bytes_written":24038254592,"seconds":'
exits 2 "--machines: is for --dry-run" quantize "$work/large" -o "$work/m" --machines 2
exits 2 "--machines: at most 65536" quantize "$work/large" --dry-run --machines 65537
finish
