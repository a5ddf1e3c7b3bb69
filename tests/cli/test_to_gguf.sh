#!/bin/sh
# SPDX-License-Identifier: MIT
# GGUF files that are made of models of Hugging Face: names, key-values, vocabularies, the order of rows, and bytes, beside a
# computation from what llama.cpp's converter defines; and what becomes of models that are not quite right.
. "${srcdir:-.}/tests/cli/cli.shlib"

for script in small_llama small_experts; do
	python3 "${srcdir:-.}/tests/cli/$script.py" "$work" || exit 99
done
python3 "${srcdir:-.}/tests/cli/to_gguf.py" make "$work" || exit 99
exits 0 "" quantize "$work/model" -o "$work/w4" -q --activations none
exits 0 "" quantize "$work/wide" -o "$work/nv" -q --activations none --weights nvfp4 --ignore '*.down_proj.weight'
for name in w4 biased mixtral apart stacked oss fp8; do
	exits 0 "" convert "$work/$name" -o "$work/$name.gguf"
	has "summary of $name" "$(cat "$work/out")" "written to"
done
exits 3 "--allow-rounding accepts it" convert "$work/nv" -o "$work/nv.gguf"
exits 0 "" convert "$work/nv" -o "$work/nv.gguf" --allow-rounding --json
cp "$work/out" "$work/json"
exits 0 "mxfp: 6 scales were rounded" convert "$work/nv" -o "$work/nv.gguf" --allow-rounding -fq
cp "$work/json" "$work/out"
same "summary of nv" "6 30" "$(python3 -c 'import json, sys
facts = json.load(open(sys.argv[1]))
print(facts["tensors"]["nvfp4"], facts["vocabulary"]["padded"])' "$work/out")"
exits 0 "" convert "$work/ossq" -o "$work/ossq.gguf" -q
exits 0 "" convert "$work/nvmoe" -o "$work/nvmoe.gguf" -q
exits 0 "" dequantize "$work/nvmoe.gguf" -o "$work/nvmoe-f32.gguf" --to f32 -q
python3 "${srcdir:-.}/tests/cli/to_gguf.py" check "$work" || bad "to_gguf.py check"

# What a run that resumes finds written stays, and what is there is not replaced without --force.
exits 2 "exists; give --force" convert "$work/w4" -o "$work/w4.gguf"
cp "$work/w4.gguf" "$work/first.gguf"
exits 0 "" convert "$work/w4" -o "$work/w4.gguf" -q --force --threads 1
check "the same file again" cmp "$work/first.gguf" "$work/w4.gguf"

# A model as mxfp eval runs it is the same as a GGUF file.
for name in w4 biased mixtral oss ossq nvmoe; do
	echo '[0,5,7,3,2,1,4,6,0,9,11,10]' >"$work/tokens.json"
	for what in "$name" "$name.gguf"; do
		exits 0 "" eval "$work/$what" --tokens "$work/tokens.json" --context 12 --threads 1 -q --json
		python3 -c 'import json, sys
print("%.4f" % json.load(open(sys.argv[1]))["runs"][0]["nll"]["mean"])' "$work/out" >"$work/$what.nll"
	done
	same "likelihood of $name" "$(cat "$work/$name.nll")" "$(cat "$work/$name.gguf.nll")"
done

# The way back: the directory has the same blocks and numbers, and a file made of it is the same, byte for byte.
exits 0 "" quantize "$work/wide" -o "$work/nvm" -q --activations none --weights nvfp4 --ignore '*.down_proj.weight' --layout modelopt
exits 0 "" convert "$work/nvm" -o "$work/nvm.gguf" -q
mkdir "$work/back"
for name in w4 biased mixtral apart nvm nvmoe ossq; do
	case $name in
	nvm | nvmoe) layout=modelopt ;;
	ossq) layout=gpt-oss ;;
	*) layout=compressed-tensors ;;
	esac
	exits 0 "" convert "$work/$name.gguf" -o "$work/back/$name" --layout $layout
	case $name in
	biased | mixtral | ossq) ;; # biases, norms and routers, which were BF16, are F32
	*) exits 0 "" diff "$work/$name" "$work/back/$name" ;;
	esac
	exits 0 "" convert "$work/back/$name" -o "$work/back/$name.gguf" -q
	check "the same file of $name" cmp "$work/$name.gguf" "$work/back/$name.gguf"
	printf 'ab abc  ab cab' >"$work/text"
	for what in "$name" "back/$name"; do
		[ $name = biased ] || exits 0 "" eval "$work/$what" --text "$work/text" --context 8 --threads 1 -q --json
		[ $name = biased ] || python3 -c 'import json, sys
print("%.4f" % json.load(open(sys.argv[1]))["runs"][0]["nll"]["mean"])' "$work/out" >"$work/$what.nll"
	done
	[ $name = biased ] || same "likelihood of a text by $name" "$(cat "$work/$name.nll")" "$(cat "$work/back/$name.nll")"
done
for part in vocab merges byte_fallback; do
	same "$part of biased" "$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["model"][sys.argv[2]])' "$work/biased/tokenizer.json" $part | tr -d "[]'," | tr -s ' ')" \
		"$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["model"][sys.argv[2]])' "$work/back/biased/tokenizer.json" $part | tr -d "[]'," | tr -s ' ')"
done
exits 3 "is BF16, and experts of gpt_oss become MXFP4 alone" convert "$work/oss.gguf" -o "$work/back/oss" --layout gpt-oss
exits 3 "experts in one tensor, which --layout gpt-oss holds" convert "$work/ossq.gguf" -o "$work/back/oss"
# Blocks and biases of gpt-oss come back in the order that they had, and its configuration.
python3 -B - "$work" "${srcdir:-.}/tests/cli" <<'END' || bad "gpt-oss back"
import json, struct, sys
work = sys.argv[1]
sys.path.insert(0, sys.argv[2])
from safetensors_file import read_safetensors
before, after = (read_safetensors(work + path + "/model.safetensors") for path in ("/ossq", "/back/ossq"))
widened = lambda t: t[2] if t[0] == "F32" else b"".join(b"\0\0" + t[2][i:i + 2] for i in range(0, len(t[2]), 2))
assert before.keys() == after.keys(), before.keys() ^ after.keys()
for name, t in before.items():
    assert t[1] == after[name][1] and (t[2] == after[name][2] if t[0] == "U8" else widened(t) == widened(after[name])), name
a, b = (json.load(open(work + path + "/config.json")) for path in ("/ossq", "/back/ossq"))
for key in ("model_type", "hidden_size", "intermediate_size", "num_local_experts", "num_experts_per_tok", "layer_types", "sliding_window", "swiglu_limit",
            "attention_bias", "head_dim", "num_hidden_layers", "vocab_size", "rms_norm_eps", "rope_theta", "torch_dtype"):
    assert a[key] == b[key], (key, a[key], b[key])
assert b["architectures"] == ["GptOssForCausalLM"] and b["quantization_config"]["quant_method"] == "mxfp4"
assert b["rope_scaling"]["rope_type"] == "yarn" and b["rope_scaling"]["factor"] == 32 and b["rope_scaling"]["truncate"] is False, b["rope_scaling"]
END
# Every command takes the tensor scale of each expert.
exits 0 "" lint "$work/nvmoe.gguf"
exits 0 "" inspect "$work/nvmoe.gguf"
exits 0 "" diff "$work/nvmoe.gguf" "$work/nvmoe-f32.gguf"
exits 0 "" report "$work/nvmoe.gguf" -q
exits 0 "3 tensors quantized before" quantize "$work/nvmoe.gguf" -o "$work/nvmoe-q.gguf" -q --weights mxfp4
exits 0 "" quantize "$work/nvmoe-f32.gguf" -o "$work/nvmoe-r.gguf" -q --weights mxfp4
exits 0 "" diff "$work/nvmoe-q.gguf" "$work/nvmoe-r.gguf"
exits 3 "has a tensor scale for each of several matrices" convert "$work/nvmoe.gguf" -o "$work/nvmoe-x.safetensors" --layout modelopt
exits 2 "--to: a model keeps its formats" convert "$work/w4.gguf" -o "$work/back/oss" --to mxfp8
exits 2 "--decode-rest: a model keeps its formats" convert "$work/w4" -o "$work/back/oss.gguf" --decode-rest f32
exits 3 "layout quark does not hold it as nvfp4" convert "$work/nvm.gguf" -o "$work/back/oss" --layout quark
# As the converter writes it of a tokenizer.json without scores; an unknown pre-tokenizer; a type that is no token's.
python3 - "$work" <<'END'
import struct, sys
work = sys.argv[1]
def change(source, target, old, new):
    data = open(work + "/" + source, "rb").read()
    assert data.count(old) == 1 and len(old) == len(new)
    open(work + "/" + target, "wb").write(data.replace(old, new))
change("biased.gguf", "equal.gguf", struct.pack("<3f", -0.0, -1, -2), struct.pack("<3f", -1000, -1000, -1000))
change("w4.gguf", "pre.gguf", b"llama-bpe", b"llama-bpx")
change("ossq.gguf", "unbiased.gguf", b"blk.1.ffn_up_exps.bias", b"blk.1.ffn_up_exps.bibs")
change("ossq.gguf", "narrow.gguf", b"blk.1.ffn_up_exps.weight" + struct.pack("<IQQQ", 3, 32, 64, 4), b"blk.1.ffn_up_exps.weight" + struct.pack("<IQQQ", 3, 32, 32, 8))
change("ossq.gguf", "halves.gguf", b"blk.1.ffn_up_exps.weight" + struct.pack("<IQQQI", 3, 32, 64, 4, 39), b"blk.1.ffn_up_exps.weight" + struct.pack("<IQQQI", 3, 32, 64, 4, 40))
change("nvmoe.gguf", "fewer.gguf", b"blk.0.ffn_up_exps.scale" + struct.pack("<IQ", 1, 4), b"blk.0.ffn_up_exps.scale" + struct.pack("<IQ", 1, 2))
scale = lambda *x: struct.pack("<4f", *x)
ups = [0.03 + 0.01 * e + 1 / 64 for e in range(4)]
change("nvmoe.gguf", "nan.gguf", scale(*ups), scale(ups[0], ups[1], float("nan"), ups[3]))
change("w4.gguf", "bytes.gguf", struct.pack("<Q", 3) + b"a b", struct.pack("<Q", 3) + b"\xFF b")
change("w4.gguf", "tool.gguf", b"chat_template.tool", b"chat_template.toll")
change("w4.gguf", "bos.gguf", b"bos_token_id" + struct.pack("<II", 4, 0), b"bos_token_id" + struct.pack("<II", 4, 99))
END
exits 3 "has no tensor 'blk.1.ffn_up_exps.bias'" convert "$work/unbiased.gguf" -o "$work/back/oss" --layout gpt-oss --allow-unknown bibs
exits 3 "" convert "$work/halves.gguf" -o "$work/back/oss" --layout gpt-oss
exits 3 "'blk.1.ffn_up_exps.weight': is of 8 matrices" convert "$work/narrow.gguf" -o "$work/back/oss" --layout gpt-oss
for command in dequantize quantize convert; do
	exits 3 "'blk.0.ffn_up_exps.scale': is not one number of F32 for each of 4 matrices" $command "$work/fewer.gguf" -o "$work/back/oss.gguf"
done
has "a NaN among tensor scales" "$("$mxfp" lint "$work/nan.gguf" -q)" "number 3 of them is nan"
exits 3 "scores': are the same for tokens that merges make" convert "$work/equal.gguf" -o "$work/back/oss"
exits 3 "'llama-bpx' is not known as the pre_tokenizer" convert "$work/pre.gguf" -o "$work/back/oss"
exits 3 "merges': element 0 is not UTF-8 without NUL" convert "$work/bytes.gguf" -o "$work/back/oss"
exits 3 "names 'tool', whose template is not there" convert "$work/tool.gguf" -o "$work/back/oss"
exits 3 "bos_token_id': is not a token" convert "$work/bos.gguf" -o "$work/back/oss"
check "an output of what was refused" test ! -e "$work/back/oss" -a ! -e "$work/back/oss.partial" -a ! -e "$work/back/oss.gguf"

# What llama.cpp would compute otherwise, and what it has no place for, is refused, and nothing is written.
refused() {
	exits 3 "$2" convert "$work/$1" -o "$work/refused.gguf" --allow-rounding
	check "an output of $1" test ! -e "$work/refused.gguf" -a ! -e "$work/refused.gguf.partial"
}

refused windowed "sliding_window: is 32, and llama.cpp runs this architecture without a window"
exits 0 "" convert "$work/windowed" -o "$work/windowed.gguf" -q --allow-unknown sliding_window
refused dynamic "rope_type is not default, linear, llama3 or yarn"
refused endless "max_position_embeddings: is absent or 0"
refused alone "tokenizer.json: is not there, and llama.cpp loads no model without a vocabulary"
refused small "model.vocab: id 40 is not one of the model's 40 tokens"
refused large "added_tokens: '<y>' has id 40, which is not one of the model's 40 tokens"
refused twice "added_tokens: 'ab' has id 11, and 5 elsewhere"
refused unigram "model.type: is 'Unigram', and only BPE"
refused words "cuts words by '\w+' with ignore_merges, for which no tokenizer.ggml.pre"
refused prefix "add_prefix_space: is not false"
refused lacks "does not have all pairs that make '▁ab', and"
refused scattered "pairs that make the same token do not follow each other"
refused two "several tokens before or behind a text"
refused cut "tokenizer.json: JSON"
exits 0 "" quantize "$work/model" -o "$work/mxfp8" -q --weights mxfp8-e4m3 --activations none
refused mxfp8 "is mxfp8-e4m3, which GGUF has no type for; mxfp dequantize decodes the model"
exits 0 "" quantize "$work/wide" -o "$work/odd" -q --activations none --weights nvfp4
refused odd "row length is not a multiple of 64"
finish
