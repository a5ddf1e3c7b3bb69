#!/bin/sh
# SPDX-License-Identifier: MIT
# Every command that is sent SIGINT or SIGTERM dies of it at once, whatever it does at the time, and leaves what was
# there and nothing else. Each command needs a case below.
. "${srcdir:-.}/tests/cli/cli.shlib"
# A shell without job control has its background processes ignore SIGINT, which env undoes.
env --default-signal=INT true 2>/dev/null || { echo "env has no --default-signal"; exit 77; }
[ -r /proc/self/stat ] || { echo "no /proc"; exit 77; }

# 32 GiB of zeros in F32 or MXFP4, which take up no space and more time than anyone waits.
large() {
	header "$2" >"$1"
	truncate -s $(($(wc -c <"$1") + $3)) "$1"
}
f32='{"a.weight":{"dtype":"F32","shape":[2097152,4096],"data_offsets":[0,34359738368]}}'
large "$work/large.safetensors" "$f32" 34359738368
large "$work/again.safetensors" "$f32" 34359738368
safetensors_zeros "$work/small.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' 128
exits 0 "" quantize "$work/small.safetensors" -o "$work/quantized" -q
exits 0 "" quantize "$work/small.safetensors" -o "$work/part" --part 1/1 -q
mkdir "$work/expected"
cp -r "$work/quantized" "$work/expected/old"
for name in old.html old.json old.logits old.svg old.npy old.safetensors old.codes old.scales; do
	echo old >"$work/expected/$name"
done
large "$work/quantized/model.safetensors" '{"a.weight_packed":{"dtype":"U8","shape":[2097152,2048],
"data_offsets":[0,4294967296]},"a.weight_scale":{"dtype":"U8","shape":[2097152,128],
"data_offsets":[4294967296,4563402752]}}' 4563402752
# Little to check, a list to mend, and 4 GiB to copy.
mkdir "$work/listed"
sed 's/"lm_head"/"a"/' "$work/quantized/config.json" >"$work/listed/config.json"
large "$work/listed/model.safetensors" '{"a.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
"a.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]},"b":{"dtype":"I64","shape":[536870912],
"data_offsets":[17,4294967313]}}' 4294967313
npy '<f4' False '(4096, 4096)' >"$work/matrix.npy"
truncate -s $(($(wc -c <"$work/matrix.npy") + 67108864)) "$work/matrix.npy"

# A model of 256 tokens, and many of them.
mkdir "$work/llama"
echo '{"model_type":"llama","hidden_size":32,"intermediate_size":32,"num_hidden_layers":1,"num_attention_heads":1,
"num_key_value_heads":1,"vocab_size":256,"max_position_embeddings":2048,"rms_norm_eps":1e-5,"rope_theta":10000.0,
"tie_word_embeddings":true,"hidden_act":"silu"}' >"$work/llama/config.json"
json='{"model.embed_tokens.weight":{"dtype":"F32","shape":[256,32],"data_offsets":[0,32768]}' at=32768
for name in norm layers.0.input_layernorm layers.0.post_attention_layernorm; do
	json="$json,\"model.$name.weight\":{\"dtype\":\"F32\",\"shape\":[32],\"data_offsets\":[$at,$((at + 128))]}"
	at=$((at + 128))
done
for name in self_attn.q self_attn.k self_attn.v self_attn.o mlp.gate mlp.up mlp.down; do
	json="$json,\"model.layers.0.${name}_proj.weight\":{\"dtype\":\"F32\",\"shape\":[32,32],\"data_offsets\":[$at,$((at + 4096))]}"
	at=$((at + 4096))
done
safetensors_zeros "$work/llama/model.safetensors" "$json}" $at
head -c 4194304 /dev/zero >"$work/tokens.u32"

# The same with an MLP of 16 Mi columns, which takes up no space and more time than anyone waits.
mkdir "$work/wide"
sed 's/"intermediate_size":32/"intermediate_size":16777216/' "$work/llama/config.json" >"$work/wide/config.json"
json=${json%%,\"model.layers.0.mlp*} at=49536
for name in gate up down; do
	shape=16777216,32
	[ $name != down ] || shape=32,16777216
	json="$json,\"model.layers.0.mlp.${name}_proj.weight\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[$at,$((at + 2147483648))]}"
	at=$((at + 2147483648))
done
large "$work/wide/model.safetensors" "$json}" $at

# A part on another file system, if there is one, has to be copied. It has no more than a size.
far=
if [ -w /dev/shm ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d "$work")" ]; then
	far=$(mktemp -d /dev/shm/mxfp-XXXXXX) || exit 99
	trap 'rm -rf "$work" "$far"' EXIT
	sed 's/\("model.safetensors": *\)[0-9]*/\134359738368/' "$work/part/mxfp-part.json" >"$far/mxfp-part.json"
	cp "$work/part/config.json" "$far"
	truncate -s 34359738368 "$far/model.safetensors"
fi

# A pipe that nobody reads, full, and one into which nobody writes any more.
mkfifo "$work/full" "$work/silent"
exec 3<>"$work/full" 4<>"$work/silent"
dd if=/dev/zero of="$work/full" bs=4096 oflag=nonblock conv=notrunc 2>/dev/null
bytes 0000803f >&4

# state: of the process, and how many hundredths of a second it has computed.
state() {
	stat=$(cat /proc/$pid/stat 2>/dev/null)
	set -- ${stat##*) }
	echo "${1:-gone}" $((${12:-0} + ${13:-0}))
}
computes() {
	[ "$(state | cut -d' ' -f2)" -ge 10 ]
}
builds() {
	[ -n "$(find "$work/in" -name '*.mxfp-*' -o -name fingerprint.json)" ] && computes
}
waits() {
	grep -qE '^(mxfp|qemu-)' /proc/$pid/comm && [ "$(state | cut -d' ' -f1)" = S ]
}
builds_and_waits() {
	[ -n "$(find "$work/in" -name '*.mxfp-*')" ] && waits
}

# await COMMAND...: until it succeeds or the process is gone; at most 60 s.
await() {
	tries=0
	until "$@" 2>/dev/null || [ ! -e /proc/$pid/stat ] || [ $tries -ge 3000 ]; do
		sleep 0.02
		tries=$((tries + 1))
	done
	"$@"
}
has_ended() {
	case $(state) in
	Z* | gone*) ;;
	*) return 1 ;;
	esac
}

# stopped SIGN SIGNALS CODE ARGUMENT...: mxfp is sent the signals once it shows the sign, and has ended within 2 s with
# the code. Its standard output is $to.
stopped() {
	sign=$1 signals=$2 expected=$3
	shift 3
	rm -rf "$work/in"
	cp -r "$work/expected" "$work/in"
	env --default-signal=INT,TERM,HUP $ignoring "$mxfp" "$@" >"$to" 2>"$work/error" 3>&- 4>&- &
	pid=$!
	await "$sign" || bad "'$*' never came so far: $(cat "$work/error")"
	for signal in $signals; do
		kill -"$signal" $pid
	done
	tries=0
	until has_ended || [ $tries -ge 200 ]; do
		sleep 0.01
		tries=$((tries + 1))
	done
	has_ended || { bad "'$*' goes on after $signals" && kill -KILL $pid; }
	code=0
	wait $pid || code=$?
	same "exit code of '$*' after $signals ($(cat "$work/error"))" "$expected" $code
	case $1 in
	quantize | dequantize | convert | calibrate) rm -r "$work/in/"*.partial ;;
	esac
	same "left by '$*' after $signals" "" "$(diff -r "$work/expected" "$work/in" 2>&1)"
}

# both SIGN ARGUMENT...
both() {
	sign=$1
	shift
	stopped "$sign" INT 130 "$@"
	stopped "$sign" TERM 143 "$@"
}

case_of() {
	to=/dev/null ignoring=
	case $1 in
	quantize) both builds quantize "$work/large.safetensors" -o "$work/in/old" --force ;;
	dequantize)
		both builds dequantize "$work/quantized" -o "$work/in/old" --force
		both builds dequantize "$work/quantized" -o "$work/in/old.safetensors" --force
		;;
	convert) both builds convert "$work/quantized" -o "$work/in/old" --layout quark --force ;;
	merge)
		to=$work/full
		both waits merge "$work/part" -o "$work/in/old" --force
		[ -z "$far" ] || both builds merge "$far" -o "$work/in/old" --force
		;;
	transform) both builds transform "$work/wide" --rotate-stream -o "$work/in/old" --force ;;
	calibrate) both computes calibrate "$work/llama" --tokens "$work/tokens.u32" -o "$work/in/old" --force ;;
	report) both computes report "$work/large.safetensors" -o "$work/in/old.html" --force ;;
	advise)
		both computes advise "$work/large.safetensors" --bits 5 -o "$work/in/old.json" --force
		both computes advise "$work/llama" --eval "$work/tokens.u32" --bits 5 -o "$work/in/old.json" --force
		;;
	diff) both computes diff "$work/large.safetensors" "$work/again.safetensors" ;;
	lint)
		both computes lint "$work/quantized"
		both builds lint "$work/listed" --fix -o "$work/in/old" --force
		;;
	detect-rule) both computes detect-rule "$work/quantized" --ref "$work/large.safetensors" --all ;;
	gemm)
		both computes --isa ref gemm "$work/matrix.npy" "$work/matrix.npy" --w-format mxfp4 \
			-o "$work/in/old.npy" --force
		;;
	cast)
		both waits cast --to e4m3 "$work/silent"
		both builds_and_waits cast --to e4m3 "$work/silent" "$work/in/old.codes" --force
		;;
	blocks)
		both builds_and_waits blocks --to mxfp4 --cols 32 "$work/silent" "$work/in/old.codes" \
			"$work/in/old.scales" --force
		;;
	engine)
		both computes --isa ref engine --run --shape 2048,2048,64 --threads 1 --svg "$work/in/old.svg" --force
		;;
	eval)
		both computes --isa ref eval "$work/llama" --tokens "$work/tokens.u32" --context 2048 \
			--save-logits "$work/in/old.logits" --force
		;;
	allreduce) both computes allreduce --steps 1000000 --payload mxfp4 ;;
	bench) both computes bench --in l2 ;;
	inspect)
		to=$work/full
		both waits inspect "$work/large.safetensors"
		;;
	info)
		to=$work/full
		both waits info
		;;
	conform) both waits conform "sleep 60" ;;
	completion)
		to=$work/full
		both waits completion bash
		;;
	*) bad "command $1 has no case in this test" ;;
	esac
}
for command in $(sed -n 's/^COMMAND(\(.*\))$/\1/p' "${srcdir:-.}/tools/cli/commands.def" | tr _ -); do
	case_of "$command"
done

# What the parent has ignored stays ignored: nohup, or the background of a shell.
to=/dev/null ignoring=--ignore-signal=INT,HUP
stopped computes "INT HUP TERM" 143 bench --in l2
stopped builds "INT HUP TERM" 143 quantize "$work/large.safetensors" -o "$work/in/old" --force
finish
