#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp engine: cycles worked out by hand from the geometry (a load of 64 cycles, a row a cycle, depth 512, 256 or 128).
. "${srcdir:-.}/tests/cli/cli.shlib"

# row SPLIT: that row of the last output's first table, with single blanks.
row() {
	tr -s ' ' <"$work/out" | grep "^| $1 "
}

# lacks NAME PART: the last output does not have PART.
lacks() {
	same "$1" 0 "$(grep -c -- "$2" "$work/out")"
}

# Four heads with K = 128 on one core: 64 + 4 * 512, two halves with two each, four quarters with one each.
exits 0 "" engine --cores 1 --shape 512,128,128 --shape 512,128,128 --shape 512,128,128 --shape 512,128,128
has "whole" "$(row '1 x 512')" "| 2112 | 100.0 % | 97.0 % | 25.0 % | 100.0 % | 0.88 |"
has "halves" "$(row '2 x 256')" "| 1088 | 100.0 % | 94.1 % | 50.0 % | 100.0 % |"
has "quarters" "$(row '4 x 128')" "| 576 | 100.0 % | 88.9 % | 100.0 % | 100.0 % | 0.24 |"
has "gain by shape" "$(row '128 x 128')" "| 4 | 512 | 2112 | 1088 | 576 | 3.67 |"
has "verdict" "$(cat "$work/out")" "Four sub-arrays beat one array: 576 cycles against 2112, 3.67 times as fast"

# One product with K = 512: three quarters idle. Cut into four, there is nothing to win or lose but the loads.
exits 0 "" engine --cores 1 --shape 512,512,512
has "idle quarters" "$(row '4 x 128')" "| 8256 | 25.0 % |"
has "verdict" "$(cat "$work/out")" "One array beats four sub-arrays: 2112 cycles against 8256, 3.91 times as fast"
exits 0 "" engine --cores 1 --shape 512,512,512 --cut 128
has "cut" "$(row '4 x 128')" "| 2112 | 100.0 % |"
has "verdict" "$(cat "$work/out")" "Four sub-arrays take as many cycles as one array"

# 16 bits: depth 128, 64, 32. f32 is four times slower. 4:16 is as deep as MX.
exits 0 "" engine --cores 1 --shape 512,128,512 --activations bf16 --weights bf16
has "bf16" "$(row '1 x 128')" "| 2112 |"
exits 0 "" engine --cores 1 --shape 512,128,512 --activations f32 --weights bf16
has "f32" "$(row '1 x 128')" "| 8448 |"
exits 0 "" engine --cores 1 --shape 512,128,512 --activations bf16 --weights bf16 --sparsity 4:16
has "4:16" "$(row '1 x 512')" "| 576 |"

# Decoding: 4096 rows of 128 times 17 bytes, 4224 bytes of A, 16384 of C are 8933504 bytes, at 612.5 GB/s; 32 strips of
# 8 tiles of K take a load of 64 cycles each.
exits 0 "" engine --shape 1,4096,4096 --cores 1
has "decoding" "$(row '1 x 512')" "| 16448 | 100.0 % | 1.6 % |"
has "decoding" "$(row '1 x 512')" "| memory |"
has "decoding" "$(cat "$work/out")" "8.934 MB: 14.59 us of memory"

# Another clock, another bandwidth: 576 cycles at 1 GHz; 106496 bytes at 10 GB/s for all cores.
exits 0 "" engine --shape 512,128,512 --clock 1000 --bandwidth 10 --result bf16
has "clock" "$(row '1 x 512')" "| 0.576 |"
has "bandwidth" "$(cat "$work/out")" "at 1000 MHz, 10 GB/s"

exits 0 "" engine --shape 512,128,512 --clock 4000000000 --bandwidth 4000000 --json
has "large clock" "$(tr -d ' \n' <"$work/out")" '"clock_mhz":4000000000,"memory_mb_s":4000000000}'

# Routing: with as many experts as each token takes, or all tokens on the first, rows are known.
exits 0 "" engine --experts 4 --topk 4 --batch 100 --skew 0
has "all experts" "$(row '1024 x 1024')" "| 4 | 100 |"
exits 0 "" engine --experts 4 --topk 1 --batch 100 --skew 64
has "the first expert" "$(row '1024 x 1024')" "| 4 | 0 to 100 |"
# With skew 1 two experts are as 2 to 1: of 3000 tokens 2000 +- 26 take the first (one standard deviation).
exits 0 "" engine --experts 2 --topk 1 --batch 3000 --skew 1 --expert-shape 128,512 --json
first=$(tr -d ' \n' <"$work/out" | sed 's/.*"expert0","m":\([0-9]*\).*/\1/')
second=$(tr -d ' \n' <"$work/out" | sed 's/.*"expert1","m":\([0-9]*\).*/\1/')
same "tokens" 3000 $((first + second))
[ "$first" -gt 1870 ] && [ "$first" -lt 2130 ] || bad "expert 0 has $first of 3000 tokens"
cp "$work/out" "$work/first"
exits 0 "" engine --experts 2 --topk 1 --batch 3000 --skew 1 --expert-shape 128,512 --json --seed 1
cmp -s "$work/first" "$work/out" && bad "the seed changes nothing"

# A model: 256 x 64 and two experts of 128 x 512, which take every token.
model='{"a.weight":{"dtype":"BF16","shape":[256,64],"data_offsets":[0,32768]},
	"b.experts":{"dtype":"BF16","shape":[2,128,512],"data_offsets":[32768,294912]},
	"norm.weight":{"dtype":"BF16","shape":[64],"data_offsets":[294912,295040]}}'
safetensors_zeros "$work/m.safetensors" "$model" 295040
exits 0 "" engine --model "$work/m.safetensors" --batch 512 --topk 2 --cores 1
has "linear layer" "$(row '256 x 64')" "| 1 | 512 | 1088 |"
has "experts" "$(row '128 x 512')" "| 2 | 512 | 1024 |"
has "all" "$(row '1 x 512')" "| 2112 |"

# Experts with a tensor each take their tokens by the same routing as experts in one tensor: with skew 64 all go to the first.
apart='{"model.layers.0.mlp.experts.0.up_proj.weight":{"dtype":"BF16","shape":[128,512],"data_offsets":[0,131072]},
	"model.layers.0.mlp.experts.1.up_proj.weight":{"dtype":"BF16","shape":[128,512],"data_offsets":[131072,262144]}}'
safetensors_zeros "$work/apart.safetensors" "$apart" 262144
exits 0 "" engine --model "$work/apart.safetensors" --batch 512 --topk 1 --skew 64 --cores 1 --json
same "rows of experts apart" "512 0 " "$(sed -n 's/.*"m": \([0-9]*\).*/\1/p' "$work/out" | head -n 2 | sort -rn | tr '\n' ' ')"

# FP8 without block scales has two products an element on Trainium3 and 2, not four, and is not computed.
exits 0 "" engine --shape 512,128,512 --weights e4m3 --activations e4m3 --cores 1
has "plain FP8" "$(row '1 x 256')" "| 1088 |"
exits 0 "" engine --shape 512,128,512 --weights e4m3 --activations e5m2 --cores 1 --chip trainium2
has "plain FP8 of trainium2" "$(row '1 x 256')" "| 1088 |"
exits 2 "trainium4 multiplies no e4m3 by e4m3" engine --shape 512,128,512 --weights e4m3 --activations e4m3 --chip trainium4
exits 2 "--run: products of e4m3 and e5m2 without block scales are not computed here" engine --shape 8,8,8 --weights e4m3 --run

# An announced chip has bounds only.
exits 0 "" engine --chip trainium4 --shape 512,512,512
has "announced" "$(cat "$work/out")" "trainium4 (announced)"
has "announced" "$(cat "$work/out")" "No geometry is published"
exits 2 "no published geometry" engine --chip trainium4 --shape 512,512,512 --svg "$work/no.svg"

# The picture: a rectangle for every product and split, two colors of background, no names that are markup.
exits 0 "" engine --shape 512,128,512 --shape 512,128,128 --svg "$work/a.svg"
same "rectangles" 6 "$(grep -c '<rect class="p' "$work/a.svg")"
same "lanes" $((8 + 16 + 32)) "$(grep -c '<rect class="lane' "$work/a.svg")"
has "dark" "$(cat "$work/a.svg")" "prefers-color-scheme: dark"
exits 2 "a.svg" engine --shape 512,128,512 --svg "$work/a.svg"
exits 0 "" engine --shape 512,128,512 --svg "$work/a.svg" --force
if command -v python3 >/dev/null 2>&1; then
	python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/a.svg" ||
		bad "--svg is no XML"
	exits 0 "" engine --shape 512,128,512 --experts 3 --json
	python3 -m json.tool <"$work/out" >/dev/null || bad "--json is no JSON"
fi

# A run: three splits, the same results for any number of threads.
exits 0 "" engine --run --shape 5,40,300 --shape 3,8,64 --threads 1
has "run" "$(row 'pass_k 512')" "| pass_k 512 |"
hashes=$(tr -s ' ' <"$work/out" | sed -n 's/^| pass_k.*| \([0-9a-f]*\) |$/\1/p')
same "hashes" 3 "$(echo "$hashes" | wc -l | tr -d ' ')"
exits 0 "" engine --run --shape 5,40,300 --shape 3,8,64 --threads 2
same "threads" "$hashes" "$(tr -s ' ' <"$work/out" | sed -n 's/^| pass_k.*| \([0-9a-f]*\) |$/\1/p')"
exits 0 "" engine --run --shape 5,40,300 --shape 3,8,64 --seed 2
[ "$hashes" != "$(tr -s ' ' <"$work/out" | sed -n 's/^| pass_k.*| \([0-9a-f]*\) |$/\1/p')" ] || bad "--seed of a run"

exits 2 "nothing to place" engine
exits 2 "--shape" engine --shape 1,2
exits 2 "--shape" engine --shape 1,2,3x
exits 2 "--shape" engine --shape 0,2,3
exits 2 "--skew" engine --experts 2 --skew -1
exits 2 "--skew" engine --experts 2 --skew x
exits 2 "--cores" engine --shape 1,2,3 --cores 9
exits 2 "--chip" engine --shape 1,2,3 --chip trainium9
exits 2 "multiplies no" engine --shape 1,2,3 --weights nvfp4
exits 2 "multiplies no" engine --shape 1,2,3 --chip trainium2
exits 2 "--sparsity" engine --shape 1,2,3 --sparsity 3:7
exits 2 "--run" engine --shape 1,2,3 --sparsity 4:8 --run
exits 2 "--activations" engine --shape 1,2,3 --activations f33
exits 2 "engine" engine --shape 2147483647,2147483647,2147483647
exits 4 "none" engine --model "$work/none"

# A layer. A core has an eighth of [57344][8192]: 7168 x 8192 numbers of 17 / 32 bytes, 31195136 bytes at 612.5 GB/s, 50.93
# us; 64 cycles for each of 56 x 16 tiles, 57344 cycles at 2.4 GHz, 23.89 us.
exits 0 "" engine --layer llama-70b --batch 64 --context 2048
has "bytes of weights" "$(row 'gate, up weights')" "| memory | 50.93 |"
has "bytes of weights" "$(row 'gate, up weights')" "| 31.2 MB |"
has "cycles" "$(row 'gate, up')" "| tensor | 23.89 |"
# 2 x 64 x 7168 x 8192 is 7.516 GFLOP.
has "products" "$(row 'gate, up')" "| 7.516 GFLOP |"
# Half of 64 x 7168 numbers, 1792 cycles at 1.2 GHz.
has "elements" "$(row 'SiLU')" "| scalar | 1.493 |"
has "elements" "$(row 'SiLU')" "| 0.2294 M elements |"
# 64 sequences, 2047 keys and values of 128 numbers of 16 bits.
has "cache" "$(row 'cached keys, values')" "| 67.08 MB |"
# 855638016 weights of 17 / 32 bytes in 80 layers; 2 x 2048 x 64 x 1024 numbers of cache; 144 GiB.
has "capacity" "$(cat "$work/out")" "hold 36.36 GB of weights and 42.95 GB of cache; the chip has 154.6 GB."
has "limit" "$(cat "$work/out")" "What limits it is memory"
# (154.619 - 36.365) GB hold 176.2 times 42.950 / 64 GB.
has "a batch that memory holds" "$(cat "$work/out")" "- 176 tokens of 176 sequences, the most that memory holds: "
has "a batch's gain" "$(grep '176 seq' "$work/out")" " ns a token instead of 3232; then memory"
lacks "8 cores, 8 heads" "reads whole heads"
# 18 layers hold 2 x 8 x 64 x 64 x 2048 numbers of 16 bits, 18 those of 128 keys.
exits 0 "" engine --layer gpt-oss-120b --batch 64 --context 2048
has "windows" "$(cat "$work/out")" "36 layers, of which 18 see 128 keys and take "
has "cache of windows" "$(cat "$work/out")" " and 5.134 GB of cache"
exits 0 "" engine --layer gpt-oss-120b --batch 64 --context 128
has "no longer than the window" "$(cat "$work/out")" "36 such layers take "
# Each of 16 cores one of 8 heads: twice 2 x 64 x 2048 x 1024 numbers of 16 bits.
exits 0 "" engine --layer llama-70b --batch 64 --context 2048 --chips 2
has "more cores than heads" "$(cat "$work/out")" "Each of 16 cores reads whole heads of keys and values, 1074 MB together of a cache of 536.9 MB."
lacks "MX formats" "no MX formats"
exits 0 "" engine --layer llama-8b --batch 8 --chip trainium2 --weights mxfp8-e4m3
has "no MX formats" "$(cat "$work/out")" "trainium2 has no MX formats: "
exits 0 "" engine --layer llama-8b --batch 8 --chip trainium2 --weights bf16 --activations bf16
lacks "no MX formats" "no MX formats"
has "advice" "$(cat "$work/out")" "keys and values in mxfp8-e4m3: "
has "time line" "$(cat "$work/out")" "memory |"
exits 0 "" engine --layer llama-70b --batch 64 --context 128 --weights bf16
has "advice" "$(cat "$work/out")" "- weights in mxfp4: "
exits 0 "" engine --layer llama-70b --batch 64 --context 128
has "a batch that helps" "$(cat "$work/out")" " sequences: "
has "a batch that helps" "$(cat "$work/out")" "then tensor is busiest"
exits 0 "" engine --layer gpt-oss-20b --batch 8 --chips 2 --chip trainium2 --weights bf16 --activations bf16
has "links" "$(cat "$work/out")" "links  |"
has "experts" "$(row 'top experts')" "| gpsimd |"
has "exchange" "$(tr -s ' ' <"$work/out")" "| all-gather 1 | links |"
exits 0 "" engine --layer llama-8b --batch 4096 --sequences 2 --context 2048 --chip trainium1 --weights bf16 --activations bf16
has "SBUF" "$(cat "$work/out")" "are more than half of SBUF"
has "a mask" "$(row 'causal mask')" "| gpsimd |"

exits 0 "" engine --layer llama-70b --batch 1 --context 131072 --chip trainium1 --cache mxfp8-e4m3 --weights mxfp8-e4m3 --json
has "published constants" "$(tr -d ' \n' <"$work/out")" '"dma_engines":32,"dma_mb_s":27200,"dma_add_percent":50,"links":4'
has "published constants" "$(tr -d ' \n' <"$work/out")" '"vector":{"clock_mhz":1120,"start_cycles":64,"one_16":128,'
exits 0 "" engine --layer llama-70b --batch 1 --chip trainium1 --weights bf16 --activations bf16
# 137.6 GB are more than four times 34.36.
has "too large" "$(cat "$work/out")" "The model does not fit: its layers hold 136.9 GB of weights and 0.6711 GB of cache; the chip has 34.36 GB."
has "chips that hold it" "$(grep -A 1 'make it fit' "$work/out")" "- 8 chips: "
# (154.619 - 36.365) GB hold 11.01 times 687.2 / 64 GB.
exits 0 "" engine --layer llama-70b --batch 64 --context 32768
has "fewer sequences" "$(sed -n '/make it fit/,/help/p' "$work/out")" "- 11 tokens of 11 sequences, the most that memory holds: "

# The pictures of doc/engine.md are what the command draws today.
drawn() {
	name=$1
	shift
	exits 0 "" engine "$@" --svg "$work/$name" --force
	check "doc/$name is another picture: mxfp engine $* draws it" cmp -s "${srcdir:-.}/doc/$name" "$work/$name"
}
drawn engine-llama-70b.svg --layer llama-70b --batch 64 --context 2048
drawn engine-llama-70b-prompt.svg --layer llama-70b --batch 2048 --sequences 1 --context 2048
drawn engine-gpt-oss-120b.svg --layer gpt-oss-120b --batch 64 --context 2048 --skew 0
same "rows" 5 "$(grep -c '<rect class="r" x="84"' "$work/engine-llama-70b.svg")"
exits 0 "" engine --layer llama-70b --batch 64 --chips 2 --svg "$work/links.svg"
same "rows" 6 "$(grep -c '<rect class="r" x="84"' "$work/links.svg")"
exits 2 "links.svg" engine --layer llama-70b --svg "$work/links.svg"

# config.json: of a model directory, in text_config, named; a preset's sizes make the preset's time.
mkdir "$work/model"
config() {
	printf '%s' "$1" >"$work/model/config.json"
}
sizes='"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336'
exits 0 "" engine --layer llama-8b --batch 16 --json
sed "/\"model\"/,/}/d" "$work/out" >"$work/preset"
config "{$sizes, \"num_hidden_layers\": 32, \"head_dim\": null}"
exits 0 "" engine --layer "$work/model" --batch 16 --json
sed "/\"model\"/,/}/d" "$work/out" | cmp -s - "$work/preset" || bad "config.json differs from the preset"
config "{\"text_config\": {$sizes, \"num_hidden_layers\": 32}, \"hidden_size\": 3}"
exits 0 "" engine --layer "$work/model/config.json" --batch 16 --json
sed "/\"model\"/,/}/d" "$work/out" | cmp -s - "$work/preset" || bad "text_config differs from the preset"
config "{$sizes, \"num_experts\": 8, \"num_experts_per_tok\": 2, \"shared_expert_intermediate_size\": 512}"
exits 0 "" engine --layer "$work/model" --batch 16
has "shared experts" "$(cat "$work/out")" "512 intermediate; 2 of 8 experts of 14336"
has "shared experts" "$(row 'down')" "| down | tensor |"
# Windows of some layers, of all, of none.
windows() {
	config "{$sizes, \"num_hidden_layers\": 4, \"sliding_window\": 64, $2}"
	exits 0 "" engine --layer "$work/model" --batch 16
	has "windows" "$(cat "$work/out")" "$1"
}
windows "4 layers, of which 1 see 64 keys" \
	'"layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]'
windows "4 layers, of which 4 see 64 keys" '"layer_types": null'
windows "4 layers, of which 2 see 64 keys" '"sliding_window_pattern": 2'
windows "4 such layers take" '"use_sliding_window": false'
config "{$sizes, \"num_hidden_layers\": 4, \"first_k_dense_replace\": 1, \"num_experts\": 8, \"num_experts_per_tok\": 2}"
exits 0 "" engine --layer "$work/model" --batch 16
has "layers without experts" "$(cat "$work/out")" "The first 1 layer has no experts; "
config "{$sizes, \"num_experts\": 8, \"num_experts_per_tok\": 2, \"shared_expert_intermediate_size\": 512}"
if command -v python3 >/dev/null 2>&1; then
	exits 0 "" engine --layer "$work/model" --batch 16 --chips 2 --json --svg "$work/b.svg"
	python3 -c 'import json, sys, xml.dom.minidom
facts = json.load(open(sys.argv[1]))
xml.dom.minidom.parse(sys.argv[2])
busy = {e["engine"]: 0 for e in facts["engines"]}
for x in facts["operations"]:
    busy[x["engine"]] += max(0, min(x["start_ps"] + x["time_ps"], facts["time_ps"]) - max(x["start_ps"], 0))
for e in facts["engines"]:
    assert e["busy_ps"] == busy[e["engine"]] <= facts["time_ps"], e
assert sum(e["critical_ps"] for e in facts["engines"]) == facts["time_ps"]
assert facts["limit"] == max(facts["engines"], key=lambda e: e["busy_ps"])["engine"]' "$work/out" "$work/b.svg" ||
		bad "the facts of a layer contradict each other, or --svg is no XML"
fi

# Files that are wrong.
refused() {
	config "$1"
	exits 3 "$2" engine --layer "$work/model"
}
refused '{' 'config.json'
refused '[1]' 'is not a JSON object'
refused '{}' 'has no hidden_size'
refused '{"hidden_size": 64}' 'has no num_attention_heads'
refused '{"hidden_size": 64, "num_attention_heads": 128}' 'has no head_dim'
refused '{"hidden_size": 64, "num_attention_heads": 2}' 'has no intermediate_size'
refused "{$sizes, \"num_local_experts\": 8}" 'has no num_experts_per_tok'
refused "{$sizes, \"num_local_experts\": 8, \"num_experts_per_tok\": 9}" '9 of 8 experts per token'
refused "{$sizes, \"num_local_experts\": 65537, \"num_experts_per_tok\": 1}" 'more than 65536'
refused "{$sizes, \"n_routed_experts\": 8, \"num_experts_per_tok\": 1, \"n_shared_experts\": 1000000}" 'shared experts'
refused "{$sizes, \"kv_lora_rank\": 512}" 'kv_lora_rank'
refused "{$sizes, \"full_attention_interval\": 4}" 'full_attention_interval: linear attention: not modelled; --model times its products alone'
refused "{$sizes, \"layer_types\": [\"full_attention\", \"linear_attention\"]}" 'layer_types: layer 1'
refused "{$sizes, \"num_hidden_layers\": 1, \"sliding_window\": 8, \"layer_types\": [\"sliding_attention\", \"sliding_attention\"]}" \
	'more layers than num_hidden_layers'
refused "{$sizes, \"model_type\": \"starcoder2\"}" 'model_type starcoder2: a feed-forward part without a gate'
refused "{\"text_config\": {$sizes, \"model_type\": \"llama4_text\"}}" 'model_type llama4'
# Layers of another kind, by model_type, wherever it stands, and by keys; a type that nobody has looked at.
kind() {
	refused "{$sizes, \"model_type\": \"$1\"}" "model_type $1: $2: not modelled; --model times its products alone"
}
kind nemotron_h 'Mamba layers'
kind granitemoehybrid 'Mamba layers'
kind deepseek_v3 'attention with compressed keys and values'
kind kimi_k25 'attention with compressed keys and values, or linear attention'
kind kimi_linear 'linear attention'
kind qwen3_next 'linear attention'
kind qwen3_5_moe_text 'linear attention'
kind minimax 'linear attention'
kind lfm2_moe 'short convolutions'
kind cohere2 'attention and feed-forward part side by side'
kind mimo_v2_flash 'heads of two sizes'
kind gemma3n_text 'inputs of each layer, and keys and values that layers share'
refused "{\"model_type\": \"nemotron_h_vl\", \"text_config\": {$sizes}}" 'model_type nemotron_h_vl: Mamba layers'
refused "{$sizes, \"model_type\": \"llama5\"}" 'model_type llama5: its layers are not known here; a copy without model_type is taken by its sizes'
key() {
	refused "{$sizes, $1}" "$2: not modelled; --model times its products alone"
}
key '"q_lora_rank": 1536' 'q_lora_rank: attention with compressed queries'
key '"hybrid_override_pattern": "M-M*-"' 'hybrid_override_pattern: layers of several kinds'
key '"layers_block_type": ["mamba", "attention"]' 'layers_block_type: layers of several kinds'
key '"mamba_d_state": 128' 'mamba_d_state: Mamba layers'
key '"ssm_state_size": 128' 'ssm_state_size: Mamba layers'
key '"linear_num_value_heads": 32' 'linear_num_value_heads: linear attention'
key '"linear_attn_config": {"kda_layers": [1]}' 'linear_attn_config: linear attention'
key '"conv_L_cache": 3' 'conv_L_cache: convolutions'
key '"attn_type_list": [0, 0, 0, 1]' 'attn_type_list: linear attention'
key '"index_topk": 2048' 'index_topk: attention to chosen keys'
key '"v_head_dim": 64' 'v_head_dim: values of another size than keys'
key '"attn_output_gate": true' "attn_output_gate: a gate of attention's outputs"
key '"mlp_only_layers": [0]' 'mlp_only_layers: experts in some of its layers'
moe='"num_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 4'
key "$moe, \"decoder_sparse_step\": 2" 'decoder_sparse_step: experts in some of its layers'
key "$moe, \"moe_layer_interval\": 2" 'moe_layer_interval: experts in some of its layers'
key "$moe, \"mlp_layer_types\": [\"sparse\", \"dense\", \"sparse\", \"sparse\"]" 'mlp_layer_types: layer 1 is dense behind one with experts'
refused "{$sizes, $moe, \"mlp_layer_types\": [\"dense\", \"mamba\"]}" 'mlp_layer_types: layer 1 is neither dense nor sparse'
# What says nothing of that is no reason, and families have what is usual in them.
plain() {
	config "{$sizes, $1}"
	exits 0 "" engine --layer "$work/model" --batch 16
	has "$1" "$(cat "$work/out")" "$2"
}
plain '"model_type": "qwen3_moe", "mlp_only_layers": [], "decoder_sparse_step": 1, "q_lora_rank": null, "attn_output_gate": false' A\ layer
plain "\"model_type\": \"minimax_m2\", $moe, \"attn_type_list\": [1, 1, 1, 1]" '2 of 8 experts of 14336'
plain "\"model_type\": \"glm4_moe\", $moe" 'The first 1 layer has no experts'
plain "\"model_type\": \"hy_v3\", $moe, \"mlp_layer_types\": [\"dense\", \"dense\", \"sparse\", \"sparse\"]" 'The first 2 layers have no experts'
plain "\"model_type\": \"exaone_moe\", $moe, \"num_shared_experts\": 2, \"moe_intermediate_size\": 512" '1024 intermediate; 2 of 8 experts of 512'
plain '"model_type": "ernie4_5_moe", "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 512, "num_hidden_layers": 4' '2 of 8 experts of 512'
plain '"model_type": "gemma3_text", "num_hidden_layers": 12, "sliding_window": 64' '12 layers, of which 10 see 64 keys'
plain '"model_type": "gemma2", "num_hidden_layers": 12, "sliding_window": 64' '12 layers, of which 6 see 64 keys'
plain '"model_type": "qwen2", "num_hidden_layers": 12, "sliding_window": 64, "use_sliding_window": true, "max_window_layers": 9' '12 layers, of which 3 see 64 keys'
refused "{$sizes, \"model_type\": \"exaone4\", \"num_hidden_layers\": 4, \"sliding_window\": 64, \"sliding_window_pattern\": \"LLLG\"}" \
	'sliding_window_pattern is not a whole number'
refused '{"hidden_size": "64"}' 'hidden_size is not a whole number from 0 to 1048576'
refused '{"hidden_size": 64.5}' 'hidden_size is not a whole number'
refused '{"hidden_size": NaN}' 'hidden_size is not a whole number'
refused '{"hidden_size": -1}' 'hidden_size is not a whole number'
refused '{"hidden_size": 1048577}' 'hidden_size is not a whole number'
refused '{"hidden_size": 99999999999999999999}' 'config.json'
refused '{"hidden_size": 64, "hidden_size": 64}' 'config.json'
refused '{"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 3, "intermediate_size": 64}' 'not a multiple'
refused '{"hidden_size": 64, "num_attention_heads": 1048576, "head_dim": 2, "intermediate_size": 64}' 'is above 1048576'
config '{"hidden_size": 1048576, "num_attention_heads": 1048576, "head_dim": 1, "intermediate_size": 1048576}'
exits 2 "is out of range or overflows" engine --layer "$work/model" --batch 16777216
exits 2 "more than 100 seconds" engine --layer "$work/model" --batch 65536 --sequences 1 --context 65536 --cores 1 \
	--weights f32 --activations f32
exits 0 "" engine --layer "$work/model" --batch 1
exits 2 "is the input" engine --layer "$work/model" --svg "$work/model/config.json" --force
exits 2 "is the input" engine --layer "$work/model/config.json" --svg "$work/model/config.json" --force
rm "$work/model/config.json"
exits 3 "config.json" engine --layer "$work/model"
exits 4 "none" engine --layer "$work/none/config.json"
exits 2 "did you mean 'llama-70b'" engine --layer llama-7b

# Options that contradict each other, or the chip.
exits 2 "is for products, and --layer shows a layer" engine --layer llama-8b --shape 1,2,3
exits 2 "is for products, and --layer shows a layer" engine --layer llama-8b --run
exits 2 "is for products, and --layer shows a layer" engine --layer llama-8b --topk 4
exits 2 "is for products, and --layer shows a layer" engine --layer llama-8b --expert-shape 8,8
exits 2 "is for products, and --layer shows a layer" engine --layer llama-8b --result bf16
exits 2 "is for products, and --layer shows a layer" engine --layer llama-8b --threads 2
exits 2 "is for --layer" engine --shape 1,1,1 --chips 2
exits 2 "is for --layer" engine --shape 1,1,1 --context 64
exits 2 "is for --layer" engine --shape 1,1,1 --sequences 1
exits 2 "is for --layer" engine --shape 1,1,1 --cache f16
exits 2 "--batch" engine --layer llama-8b --batch 0
exits 2 "--batch" engine --layer llama-8b --batch 16777217
exits 2 "--sequences" engine --layer llama-8b --batch 10 --sequences 3
exits 2 "--context" engine --layer llama-8b --batch 10 --sequences 1 --context 9
exits 2 "--context" engine --layer llama-8b --context 16777217
exits 2 "--context" engine --layer llama-8b --context 0
exits 2 "--chips" engine --layer llama-8b --chips 0
exits 2 "--chips" engine --layer llama-8b --chips 1025
exits 2 "32 heads cannot be shared by 40 cores" engine --layer llama-8b --chips 5
exits 2 "--cache" engine --layer llama-8b --cache mxfp4
exits 2 "no engine quantizes to mxfp4" engine --layer llama-8b --activations mxfp4
exits 2 "multiplies no mxfp8-e4m3 by mxfp4" engine --layer llama-8b --chip trainium2
exits 2 "nothing is published" engine --layer llama-8b --chip trainium4
finish
