#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp eval: a model whose logits are a table, so that all it prints follows from the table; what is refused, in one line;
# and, if ../shared is there, perplexities that torch and llama-perplexity found for a real model.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

shared=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights

# Two Llamas of 256 tokens without attention or feed-forward to speak of. Embeddings are rows of a Hadamard matrix, which the
# last norm leaves as they are, and the head holds a table by which each token has the logits of its row, exactly.
mkdir "$work/a" "$work/b" "$work/narrow"
cat >"$work/make.py" <<'END'
import json, math, struct, sys

HIDDEN, VOCABULARY = 32, 256
work = sys.argv[1]
hadamard = [[1 - 2 * (bin(i & j).count("1") & 1) for j in range(HIDDEN)] for i in range(HIDDEN)]


def table(model):
    return [[(row * 7 + v * (3 if model == "a" else 5)) % 11 / 2 for v in range(VOCABULARY)] for row in range(HIDDEN)]


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def write_gguf(name, tensors, data):
    """The same tensors as llama.cpp calls them; the number of tokens is that of the embedding's rows."""
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
             "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    naturals = {"block_count": 1, "embedding_length": HIDDEN, "feed_forward_length": HIDDEN, "context_length": 1024,
                "attention.head_count": 1, "attention.head_count_kv": 1}
    reals = {"attention.layer_norm_rms_epsilon": 1e-30, "rope.freq_base": 10000.0}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1 + len(naturals) + len(reals))
    head += string("general.architecture") + struct.pack("<I", 8) + string("llama")
    for key, value in naturals.items():
        head += string("llama." + key) + struct.pack("<II", 4, value)
    for key, value in reals.items():
        head += string("llama." + key) + struct.pack("<If", 6, value)
    for tensor, fact in tensors.items():
        for theirs, ours in sorted(names.items(), reverse=True):
            tensor = tensor.replace(theirs, ours)
        head += string(tensor) + struct.pack("<I", len(fact["shape"]))
        head += struct.pack("<%dQ" % len(fact["shape"]), *reversed(fact["shape"]))
        head += struct.pack("<IQ", 0, fact["data_offsets"][0])
    with open("%s/%s.gguf" % (work, name), "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


def write(model, directory, vocabulary=VOCABULARY):
    logits = table(model)
    zeros = {"q_proj": (32, 32), "k_proj": (32, 32), "v_proj": (32, 32), "o_proj": (32, 32)}
    tensors = {"model.embed_tokens.weight": [hadamard[t % HIDDEN] for t in range(vocabulary)],
               "model.norm.weight": [[1] * HIDDEN],
               "lm_head.weight": [[sum(logits[t][v] * hadamard[t][i] for t in range(HIDDEN)) / HIDDEN
                                   for i in range(HIDDEN)] for v in range(vocabulary)],
               "model.layers.0.input_layernorm.weight": [[1] * HIDDEN],
               "model.layers.0.post_attention_layernorm.weight": [[1] * HIDDEN]}
    for name in zeros:
        tensors["model.layers.0.self_attn.%s.weight" % name] = [[0] * HIDDEN] * HIDDEN
    for name in ("gate_proj", "up_proj", "down_proj"):
        tensors["model.layers.0.mlp.%s.weight" % name] = [[0] * HIDDEN] * HIDDEN
    header, data = {}, b""
    for name, rows in tensors.items():
        flat = [x for row in rows for x in row]
        shape = [len(rows), HIDDEN] if len(rows) > 1 else [HIDDEN]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(flat)]}
        data += struct.pack("<%df" % len(flat), *flat)
    if model == directory:
        write_gguf(directory, header, data)
    text = json.dumps(header).encode()
    with open("%s/%s/model.safetensors" % (work, directory), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open("%s/%s/config.json" % (work, directory), "w") as file:
        json.dump({"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": HIDDEN, "num_hidden_layers": 1,
                   "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": vocabulary,
                   "max_position_embeddings": 1024, "rms_norm_eps": 1e-30, "rope_theta": 10000.0,
                   "tie_word_embeddings": False, "hidden_act": "silu"}, file)


write("a", "a")
write("b", "b")
write("a", "narrow", 128)
sequences = [[(i * i * 31 + i * 7 + s * 13) % VOCABULARY for i in range(length)] for s, length in enumerate((40, 1, 3, 77, 2))]
with open(work + "/tokens.json", "w") as file:
    json.dump(sequences, file)
with open(work + "/text", "wb") as file:
    file.write(bytes(x % 96 + 32 for s in sequences for x in s))


def p(model, token):
    row = [math.exp(x) for x in table(model)[token % HIDDEN]]
    return [x / math.fsum(row) for x in row]


def windows(of, context, skip):
    return [(w[i], w[i + 1]) for s in of for at in range(0, len(s), context) for w in [s[at:at + context]]
            for i in range(skip, len(w) - 1)]


def perplexity(pairs):
    nll = [-math.log(p("a", t)[u]) for t, u in pairs]
    mean = math.fsum(nll) / len(nll)
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in nll) / (len(nll) - 1) / len(nll))
    return "%.4f %.4f" % (math.exp(mean), math.exp(mean) * spread)


print("whole", perplexity(windows(sequences, 512, 0)))
print("cut", perplexity(windows(sequences, 16, 4)))
print("first", perplexity(windows(sequences[:1], 512, 0)))
text = [x % 96 + 32 for s in sequences for x in s]
print("text", perplexity(windows([text[:len(text) // 50 * 50]], 50, 25)))
print("two", perplexity(windows([text[:100]], 50, 25)))
print("cutfirst", perplexity(windows(sequences[3:4], 16, 0)))
flat = [x for s in sequences for x in s]
print("flat", perplexity(windows([flat[:32]], 16, 0)))
with open(work + "/flat.u16", "wb") as file:
    file.write(struct.pack("<%dH" % len(flat), *flat))
with open(work + "/flat.json", "w") as file:
    json.dump(flat, file)
with open(work + "/one.json", "w") as file:
    json.dump([flat], file)
with open(work + "/long.json", "w") as file:
    json.dump([sequences[3], sequences[0]], file)
pairs = windows(sequences, 512, 0)
divergence = sorted(math.fsum(y * math.log(y / x) for x, y in zip(p("b", t), p("a", t))) for t, u in pairs)
place = 0.99 * (len(divergence) - 1)
print("divergence %.6f" % (math.fsum(divergence) / len(divergence)))
print("percentile %.6f" % (divergence[int(place)] + place % 1 * (divergence[int(place) + 1] - divergence[int(place)])))
print("largest %.6f" % divergence[-1])
rms = math.fsum((p("b", t)[u] - p("a", t)[u]) ** 2 for t, u in pairs) / len(pairs)
print("rms %.6f" % (100 * math.sqrt(rms)))
ids = [ord("h")]
for _ in range(20):
    row = table("a")[ids[-1] % HIDDEN]
    ids.append(row.index(max(row)))
print("greedy", json.dumps(ids))
END
python3 "$work/make.py" "$work" >"$work/expected" || exit 99
want() {
	sed -n "s/^$1 //p" "$work/expected"
}
a=$work/a b=$work/b tokens=$work/tokens.json
printf '[[1, 2, 3, 4]]' >"$work/few.json"

# evaluate ARGUMENT...: stdout is in $out.
evaluate() {
	exits 0 "" eval -q "$@"
	out=$(cat "$work/out")
}
# row NAME: perplexity and error of a run.
row() {
	sed -n "s/^| $1 *|[^|]*|[^|]*|[^|]*|[^|]*| *\([^ ]*\) | *\([^ ]*\) |.*/\1 \2/p" "$work/out"
}
# line NAME: what stands behind the name.
line() {
	sed -n "s/^$1  *\([^ ]*\).*/\1/p" "$work/out"
}

evaluate "$a" --tokens "$tokens"
same "perplexity" "$(want whole)" "$(row model)"
has "counts" "$out" "123 tokens in 5 windows of at most 512, 118 of them predicted"
whole=$out
for batch in 1 7 64 1000; do
	for threads in 1 3; do
		evaluate "$a" --tokens "$tokens" --batch $batch --threads $threads
		same "output with --batch $batch --threads $threads" "$whole" "$out"
	done
done
evaluate "$a" --tokens "$tokens" --attention none
same "output with --attention none" "$whole" "$out"
evaluate "$a" --tokens "$tokens" --attention mxfp8-e4m3 --kv-cache mxfp4 --activation-rule even
has "attention" "$out" "f32, attention mxfp8-e4m3, kv mxfp4"
evaluate "$a.gguf" --tokens "$tokens"
same "output for a GGUF file" "$(printf '%s\n' "$whole" | sed 's/^model: .*//')" "$(printf '%s\n' "$out" | sed 's/^model: .*//')"
# The same cut in two, named by the second part.
python3 - "$a.gguf" "$work" <<'END'
import struct, sys

with open(sys.argv[1], "rb") as file:
    whole = file.read()
at = 24


def take(form):
    global at
    value = struct.unpack_from(form, whole, at)
    at += struct.calcsize(form)
    return value[0] if len(value) == 1 else value


n_tensors, n_pairs = struct.unpack_from("<QQ", whole, 8)
for _ in range(n_pairs):
    length = take("<Q")
    at += length
    length = take("<Q") if take("<I") == 8 else 4
    at += length
pairs, infos = whole[24:at], []
for _ in range(n_tensors):
    name = take("<%ds" % take("<Q"))
    shape = [take("<Q") for _ in range(take("<I"))]
    infos.append((name, shape, take("<IQ")[1]))
start = at + -at % 32
ends = [info[2] for info in infos[1:]] + [len(whole) - start]
for part, (first, last) in enumerate(((0, 2), (2, n_tensors))):
    split = b""
    for key, form, kind, value in ((b"split.no", "<H", 2, part), (b"split.count", "<H", 2, 2),
                                   (b"split.tensors.count", "<i", 5, n_tensors)):
        split += struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + struct.pack(form, value)
    head = b"GGUF" + struct.pack("<IQQ", 3, last - first, 3 + (n_pairs if part == 0 else 0))
    head += (pairs if part == 0 else b"") + split
    for name, shape, offset in infos[first:last]:
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        head += struct.pack("<%dQIQ" % len(shape), *shape, 0, offset - infos[first][2])
    with open("%s/cut-%05d-of-00002.gguf" % (sys.argv[2], part + 1), "wb") as file:
        file.write(head + bytes(-len(head) % 32) + whole[start + infos[first][2]:start + ends[last - 1]])
END
evaluate "$work/cut-00002-of-00002.gguf" --tokens "$tokens"
same "output for a split GGUF file" "$(printf '%s\n' "$whole" | sed 's/^model: .*//')" \
	"$(printf '%s\n' "$out" | sed 's/^model: .*//')"
# A head that the file has counts, though config.json says that it is tied, as in transformers.
cp -r "$a" "$work/tied"
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$a/config.json" >"$work/tied/config.json"
evaluate "$work/tied" --tokens "$tokens"
same "perplexity with a head that should be tied" "$(want whole)" "$(row model)"
evaluate "$a" --tokens "$tokens" --context 16 --skip 4 --batch 5
same "perplexity of windows" "$(want cut)" "$(row model)"
evaluate "$a" --tokens "$tokens" --sequences 1
same "perplexity of the first sequence" "$(want first)" "$(row model)"
evaluate "$a" --text "$work/text" --context 50 --skip 25
same "perplexity of a text" "$(want text)" "$(row model)"
# --sequences counts the windows of a text and of a file that does not tell sequences apart; else sequences, whole.
evaluate "$a" --text "$work/text" --context 50 --skip 25 --sequences 2
same "perplexity of the first windows of a text" "$(want two)" "$(row model)"
for one in flat.u16 flat.json one.json; do
	evaluate "$a" --tokens "$work/$one" --context 16 --sequences 2
	same "perplexity of the first windows of $one" "$(want flat)" "$(row model)"
done
evaluate "$a" --tokens "$work/long.json" --context 16 --sequences 1
same "perplexity of a first sequence in windows" "$(want cutfirst)" "$(row model)"
has "windows of a first sequence" "$out" "77 tokens in 5 windows"

# Beside another model, and beside its saved logits.
evaluate "$b" --tokens "$tokens" --compare "$a"
same "perplexity of the base" "$(want whole)" "$(row base)"
same "mean divergence" "$(want divergence)" "$(line 'mean KL divergence')"
same "99 % divergence" "$(want percentile)" "$(line '99 % KL divergence')"
same "largest divergence" "$(want largest)" "$(line 'largest KL divergence')"
same "RMS change" "$(want rms)" "$(line "RMS change of the token's p")"
compared=$(grep -v '^base:\|^|' "$work/out")
evaluate "$a" --tokens "$tokens" --save-logits "$work/logits"
same "bytes of the logits" $((64 + 118 * 256 * 4)) "$(wc -c <"$work/logits" | tr -d ' ')"
for batch in 3 512; do
	evaluate "$b" --tokens "$tokens" --compare "$work/logits" --batch $batch
	same "perplexity of saved logits" "$(want whole)" "$(row base)"
	same "beside saved logits" "$compared" "$(grep -v '^base:\|^|' "$work/out")"
done
evaluate "$a" --tokens "$tokens" --compare "$work/logits"
same "divergence from itself" 0.000000 "$(line 'largest KL divergence')"

# Where the time went. Each of the 118 tokens that run takes seven products with 32 x 32 weights and one with the head of
# 256 x 32; attention multiplies each token and all keys up to its own, twice 32 numbers of each; every batch reads all weights.
cat >"$work/profile.py" <<'END_OF_CHECK'
import json, sys

first, batches = (json.load(open(path))["runs"][0]["profile"] for path in sys.argv[1:])
keys = sum(n * (n + 1) // 2 for n in (39, 2, 76, 1))
layer, rest = first["layers"]
assert first["tokens"] == 118 and layer["layer"] == 0 and "layer" not in rest
assert layer["products"]["operations"] == 118 * 7 * 2 * 32 * 32
assert rest["products"]["operations"] == 118 * 2 * 256 * 32
assert layer["attention"]["operations"] == 2 * 2 * 32 * keys
assert first["work"]["products"]["operations"] == 118 * 2 * (7 * 32 * 32 + 256 * 32)
assert first["work"]["products"]["bytes"] >= 4 * (7 * 32 * 32 + 256 * 32)
assert batches["work"]["products"]["bytes"] == 2 * first["work"]["products"]["bytes"]
assert batches["work"]["products"]["operations"] == first["work"]["products"]["operations"]
parts = [work["seconds"] for work in first["work"].values()] + [first["load_seconds"], first["other_seconds"]]
assert min(parts) >= 0 and abs(sum(parts) - first["seconds"]) < 1e-9, parts
assert all(work["seconds"] == sum(part[name]["seconds"] for part in first["layers"]) for name, work in first["work"].items())
# The time that the bounding limit takes, over the time that products took.
products, limits = first["work"]["products"], first["limits"]
least = {"reading": products["bytes"] / limits["bytes_per_second"]}
if "operations_per_second" in limits:
    least["computing"] = products["operations"] / limits["operations_per_second"]
assert products["limit"] == max(least, key=least.get)
assert abs(products["share_of_limit"] / (least[products["limit"]] / products["seconds"]) - 1) < 1e-9
END_OF_CHECK
evaluate "$a" --tokens "$tokens" --profile --json --batch 118
cp "$work/out" "$work/first.json"
evaluate "$a" --tokens "$tokens" --profile --json --batch 59
check "the profile" python3 "$work/profile.py" "$work/first.json" "$work/out"
evaluate "$a" --tokens "$tokens" --profile --try f32,mxfp8
same "profiles" 2 "$(grep -c '^Time of .*: 118 tokens in ' "$work/out")"
same "rows of profiles" 14 "$(grep -c '^| \(products\|attention\|vector\|quantize\|load\|other\|all\) ' "$work/out")"
same "without profiles" "$("$mxfp" eval -q "$a" --tokens "$tokens" --try f32,mxfp8)" "$(sed '/^Time of/,$d' "$work/out")"
evaluate "$a" --generate 20 --prompt hello --profile
has "the prompt's profile" "$out" "Time of the prompt: 5 tokens"
has "the profile of the rest" "$out" "Time of what was added: 19 tokens"
evaluate "$a" --generate 20 --prompt hello --profile --json
check "the two profiles" python3 -c '
import json, sys
run = json.load(sys.stdin)
for profile, tokens, heads in ((run["profile"], 5, 1), (run["added_profile"], 19, 19)):
    assert profile["work"]["products"]["operations"] == 2 * (tokens * 7 * 32 * 32 + heads * 256 * 32)
assert run["profile"]["load_seconds"] > 0 and run["added_profile"]["load_seconds"] == 0
' <"$work/out"

# Bits per weight of the whole model, by counting: an embedding and a head of 256 x 32, seven matrices of 32 x 32, three norms of
# 32, all f32. A block of 32 takes 17 bytes in MXFP4 and 33 in MXFP8, one of 16 takes 9 in NVFP4, and a tensor 4 more; bf16
# rounds what is multiplied.
cat >"$work/bits.py" <<'END_OF_CHECK'
import json, sys

layer, head, rest = 7 * 32 * 32, 256 * 32, 256 * 32 + 3 * 32
expected = {"f32": 4 * (layer + head + rest), "w4a8": 17 * layer // 32 + 4 * (head + rest),
            "mxfp8": 33 * layer // 32 + 4 * (head + rest), "nvfp4": 9 * layer // 16 + 7 * 4 + 4 * (head + rest),
            "bf16": 2 * (layer + head) + 4 * rest, "headed": 17 * (layer + head) // 32 + 4 * rest}
for name, run in zip(sys.argv[1:], json.load(sys.stdin)["runs"]):
    assert run["elements"] == layer + head + rest, run
    assert run["weight_bytes"] == expected[name], (name, run)
    assert abs(run["bits_per_weight"] - 8 * expected[name] / (layer + head + rest)) < 1e-12, (name, run)
END_OF_CHECK
evaluate "$a" --tokens "$tokens" --try bf16,w4a8,mxfp8/mxfp8-e4m3,nvfp4 --json
check "bits" python3 "$work/bits.py" f32 bf16 w4a8 mxfp8 nvfp4 <"$work/out"
evaluate "$a.gguf" --tokens "$tokens" --preset w4a8 --include 'output.weight' --json
check "bits of a GGUF file" python3 "$work/bits.py" headed <"$work/out"
evaluate "$a" --tokens "$tokens" --try w4a8
same "bits in the table" 2 "$(grep -c '^| \(f32 .* 0.09 | *32.000\|w4a8 .* 0.07 | *23.589\) |' "$work/out")"

# The same of a model with stacked experts and biases, gpt-oss in bf16, of which attention becomes MXFP4.
mkdir "$work/experts"
cat >"$work/experts.py" <<'END'
import json, math, struct, sys

layer = "model.layers.0."
blocks = {"self_attn.q_proj.weight": (64, 64), "self_attn.k_proj.weight": (32, 64), "self_attn.v_proj.weight": (32, 64),
          "self_attn.o_proj.weight": (64, 64)}
rest = {"mlp.experts.gate_up_proj": (2, 64, 64), "mlp.experts.down_proj": (2, 32, 64),
        "self_attn.q_proj.bias": (64,), "self_attn.k_proj.bias": (32,), "self_attn.v_proj.bias": (32,), "self_attn.o_proj.bias": (64,),
        "self_attn.sinks": (2,), "mlp.router.weight": (2, 64), "mlp.router.bias": (2,), "mlp.experts.gate_up_proj_bias": (2, 64),
        "mlp.experts.down_proj_bias": (2, 64), "input_layernorm.weight": (64,), "post_attention_layernorm.weight": (64,)}
ends = {"model.embed_tokens.weight": (256, 64), "model.norm.weight": (64,), "lm_head.weight": (256, 64)}
header, at = {}, 0
for name, shape in [(layer + name, shape) for name, shape in {**blocks, **rest}.items()] + list(ends.items()):
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * math.prod(shape)]}
    at += 2 * math.prod(shape)
text = json.dumps(header).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + bytes(at))
with open(sys.argv[1] + "/config.json", "w") as file:
    json.dump({"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
               "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 256, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
               "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu", "num_local_experts": 2,
               "num_experts_per_tok": 1, "sliding_window": 128, "layer_types": ["full_attention"], "attention_bias": True}, file)
n = sum(map(math.prod, blocks.values()))
print(at // 2, at, at - 2 * n + 17 * n // 32)
END
read -r elements stored blocks <<END
$(python3 "$work/experts.py" "$work/experts")
END
evaluate "$work/experts" --tokens "$work/few.json" --try w4a8 --json
same "bits of experts" "$elements $stored $elements $blocks" "$(sed -n 's/^ *"\(elements\|weight_bytes\)": \([0-9]*\),/\2/p' "$work/out" | xargs)"

# Weights of zeros are the same in every format; the head is not.
evaluate "$a" --tokens "$tokens" --try w4a8,nvfp4/none,mxfp8,mxfp4:even/mxfp8-e4m3,f32
same "rows" 5 "$(grep -c '^|.* % |$\|^| f32' "$work/out")"
same "cost of zeros" 4 "$(grep -c ' 0.00 % .* 0.000000 .* 100.00 % ' "$work/out")"
evaluate "$a" --tokens "$tokens" --try w4a8,mxfp8 --include lm_head.weight
same "cost of a head" 0 "$(grep -c ' 0.00 %' "$work/out")"
evaluate "$a" --tokens "$tokens" --by-layer --include lm_head.weight --json
# The head is in no layer: all of the cost is its kind's.
check "by layer" python3 -c '
import json, sys
e = json.load(sys.stdin)
base, all, (layer,), kinds = *e["runs"], e["layers"], e["kinds"]
assert layer["layer"] == 0 and layer["kl_divergence"]["mean"] == 0
assert [k["kind"] for k in kinds] == ["lm_head", "down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
assert kinds[0]["kl_divergence"] == all["kl_divergence"] and kinds[0]["elements"] == 8192
assert kinds[0]["kl_divergence"]["mean"] > 0 and kinds[1]["kl_divergence"]["mean"] == 0
assert all["weights"] == "mxfp4 mse" and all["activations"] == "mxfp8-e4m3 rceil"
' <"$work/out"
printf '{"version": 1, "default": {"format": "mxfp8-e4m3"}, "rules": []}' >"$work/recipe.json"
"$mxfp" quantize "$a" -o "$work/ignored" -n --recipe "$work/recipe.json" -q >/dev/null 2>"$work/why" || cat "$work/why"
evaluate "$a" --tokens "$tokens" --try "$work/recipe.json,$work/recipe.json/none"
has "a recipe" "$out" "by the recipe | mxfp8-e4m3 rceil"

# A model that was quantized before: the same, and not again.
exits 0 "" quantize "$a" -o "$work/quantized" --include lm_head.weight -q
evaluate "$a" --tokens "$tokens" --preset w4a8 --activations none --include lm_head.weight
same "quantized before" "$(row w4a8)" "$("$mxfp" eval "$work/quantized" --tokens "$tokens" --activations none -q >"$work/out" && row model)"
evaluate "$a" --tokens "$tokens" --preset w4a8 --include lm_head.weight
w4a8=$(row w4a8)
evaluate "$work/quantized" --tokens "$tokens" --json
check "bits of a quantized model" python3 "$work/bits.py" headed <"$work/out"
evaluate "$work/quantized" --tokens "$tokens"
same "with the activations of config.json" "$w4a8" "$(row model)"
has "the activations of config.json" "$out" "| mxfp8-e4m3 rceil |"
exits 3 "is already quantized" eval "$work/quantized" --tokens "$tokens" --weights nvfp4
exits 3 "is already quantized" eval "$work/quantized" --tokens "$tokens" --try nvfp4

# Text.
evaluate "$a" --generate 20 --prompt h --json --batch 1
same "greedy text" "$(want greedy)" "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["ids"])' <"$work/out")"
greedy=$out
# Each id of generation_config.json ends a text, or of config.json where that says none; the fifth that is drawn stands there.
fifth=$(want greedy | tr -d '[],' | cut -d ' ' -f 6)
shorter="[$(want greedy | tr -d '[],' | cut -d ' ' -f 1-5 | sed 's/ /, /g')]"
cp -r "$a" "$work/ending"
for file in config.json generation_config.json; do
	[ $file = config.json ] || printf '{"eos_token_id": [255, %s]}' "$fifth" >"$work/ending/$file"
	[ $file != config.json ] || sed "s/{/{\"eos_token_id\": [254, $fifth], /" "$a/config.json" >"$work/ending/$file"
	for given in "$work/ending" "$work/ending/model.safetensors"; do
		evaluate "$given" --generate 20 --prompt h --json
		same "text of $given ended by $file" "$shorter" \
			"$(python3 -c 'import json, sys; print(json.load(sys.stdin)["ids"])' <"$work/out")"
	done
	sed 's/{/{"eos_token_id": 253, /' "$a/config.json" >"$work/ending/config.json"
done
evaluate "$a" --generate 20 --prompt h --json --temperature 0
same "at temperature 0" "$greedy" "$out"
evaluate "$a" --generate 20 --prompt h --json --temperature 1 --seed 1
drawn=$out
evaluate "$a" --generate 20 --prompt h --json --temperature 1 --seed 1 --batch 1 --threads 2
same "drawn again" "$drawn" "$out"
evaluate "$a" --generate 20 --prompt h --json --temperature 1 --seed 2
check "another seed draws the same" test "$drawn" != "$out"

# The text comes as it is made, a character once its bytes are there; what is none, or a control, is a question mark.
cat >"$work/stream.py" <<'END'
import json, os, subprocess, sys, unicodedata

def printable(c):
    return "?" if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c

command = sys.argv[1:] + ["--generate", "900", "--prompt", "\u00e9\n", "--temperature", "9", "--seed", "5"]
ids = json.loads(subprocess.run(command + ["--json"], stdout=subprocess.PIPE, check=True).stdout)["ids"]
text, reads = b"", 0
with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
    while part := os.read(process.stdout.fileno(), 1 << 16):
        text, reads = text + part, reads + 1
decoded = bytes(ids).decode("utf-8", "surrogateescape")
assert any(ord(c) > 255 and not 0xdc80 <= ord(c) <= 0xdcff for c in decoded[2:]), "no character of several bytes"
assert text.decode() == "".join(map(printable, decoded)) + "\n", (text, decoded)
assert reads > 5, reads
END
check "the text as it is made" python3 "$work/stream.py" "$mxfp" eval "$a" -q

# mxfp report --eval: what mxfp eval says, first, in every form, in JSON of 12 digits.
cat >"$work/near.py" <<'END'
def near(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a if key != "name")
    if isinstance(a, list):
        return len(a) == len(b) and all(map(near, a, b))
    return abs(a - b) <= 1e-11 * abs(b) if isinstance(a, float) else a == b
END
export PYTHONPATH="$work"
exits 0 "" report -q "$a" --include lm_head.weight --formats mxfp4 --rules mse --eval "$tokens" --try w4a8 -o "$work/report.json"
evaluate "$a" --tokens "$tokens" --by-layer --include lm_head.weight --json
check "the evaluation of a report" python3 -c '
import json, near, sys
report, own = (json.load(open(path)) for path in sys.argv[1:])
head = report["verdict"]["sentence"]
cost = 100 * (own["runs"][1]["perplexity"]["mean"] / own["runs"][0]["perplexity"]["mean"] - 1)
shown = abs(own["runs"][1]["ln_perplexity_ratio"]["mean"]) > 2 * own["runs"][1]["ln_perplexity_ratio"]["error"]
assert head.startswith("W4A8 ") and ("%.3g" % abs(cost) in head if shown else "118 predictions" in head), head
assert report["verdict"]["details"].find("lm_head costs most") > 0 and "By the errors of weights: W4A8 " in report["verdict"]["details"]
assert near.near(report["evaluation"], own)
' "$work/report.json" "$work/out"
# --try: rows as they are asked for, but for the two that run anyway.
exits 0 "" report -q "$a" --include lm_head.weight --formats mxfp4 --rules mse --eval "$tokens" -o "$work/tried.json" \
	--try "nvfp4,w4a8,f32,mxfp4:even/mxfp8-e4m3,$work/recipe.json"
evaluate "$a" --tokens "$tokens" --try "w4a8,nvfp4,mxfp4:even/mxfp8-e4m3,$work/recipe.json" --include lm_head.weight --json
check "the trials of a report" python3 -c '
import json, near, sys
tried, own = (json.load(open(path)) for path in sys.argv[1:])
tried = tried["evaluation"]
assert [run["name"] for run in tried["runs"]][1:4] == ["W4A8", "nvfp4", "mxfp4:even/mxfp8-e4m3"] and len(tried["runs"]) == 5
assert len(tried["layers"]) == 1 and len(tried["kinds"]) == 8
assert near.near(tried["runs"], own["runs"])
' "$work/tried.json" "$work/out"
# The verdict: a model of zeros loses nothing in any of the usual ways, so the smallest is best, and the command makes it.
exits 0 "" report -q "$a" --formats mxfp4 --rules even --eval "$tokens" --json
check "the best of the usual ways" python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
verdict, runs = said["verdict"], said["evaluation"]["runs"]
names = [run["name"] for run in runs]
assert names == ["f32", "W4A8", "w4a8", "nvfp4", "mxfp6-e2m3/mxfp8-e4m3", "mxfp8"], names
assert [run["activations"] for run in runs[1:]] == ["mxfp8-e4m3 rceil"] * 2 + ["f32"] + ["mxfp8-e4m3 rceil"] * 2
assert (verdict["answer"], verdict["weights"]) == ("fine", "fine")
assert [r["name"] for r in verdict["predictions"]["ranks"]] == [names[i] for i in (1, 2, 3, 4, 5)]
assert {r["judgement"] for r in verdict["predictions"]["ranks"]} == {"fine"}
assert [r["loaded"] for r in verdict["predictions"]["ranks"]] == [True, True, True, False, True]
assert "mxfp6-e2m3/mxfp8-e4m3, which vLLM 0.33.0 does not load (--for vllm)." in verdict["details"]
assert ", which is fine. Of 4 ways tried that vLLM 0.33.0 loads, the smallest that is fine is W4A8, " in verdict["sentence"], verdict["sentence"]
assert "--calibrate FILE" in verdict["details"]
assert verdict["command"] == "mxfp quantize %s -o OUT --preset w4a8 --rule even" % sys.argv[2], verdict["command"]
' "$work/out" "$a"
# A head that stays is said, and why; --try and --preset mean the same.
exits 0 "" eval -q "$a" --tokens "$tokens" --preset mxfp8
has "what stays" "$(cat "$work/out")" "mxfp8: 1 matrix stays as stored, lm_head.weight: output head"
preset=$(grep '^| mxfp8' "$work/out" | cut -d'|' -f1-8)
exits 0 "" eval -q "$a" --tokens "$tokens" --try mxfp8
same "a preset by --try" "$preset" "$(grep '^| mxfp8' "$work/out" | cut -d'|' -f1-8)"

# With weights chosen on another text: the runs are those of mxfp calibrate and mxfp eval, and its commands make the best of them.
# Its temporary directory is gone.
chosen=$work/chosen
mkdir "$chosen" "$work/temporary"
python3 "${srcdir:-.}/tests/cli/small_llama.py" "$chosen" || exit 99
TMPDIR=$work/temporary
export TMPDIR
exits 0 "" report -q "$chosen/model" --formats mxfp4 --rules mse --pad-tail --eval "$chosen/tokens.json" --calibrate "$chosen/tokens.json" \
	--try nvfp4 --json
same "what is left of choosing" "" "$(ls -A "$work/temporary")"
unset TMPDIR
cp "$work/out" "$work/chosen.json"
exits 0 "" calibrate -q "$chosen/model" --tokens "$chosen/tokens.json" --pad-tail --preset w4a8 -o "$work/four"
exits 0 "" calibrate -q "$chosen/model" --tokens "$chosen/tokens.json" --pad-tail --preset nvfp4 -o "$work/nv"
exits 0 "" eval -q "$work/four" --compare "$chosen/model" --tokens "$chosen/tokens.json" --pad-tail --preset w4a8 --json
cp "$work/out" "$work/four.json"
exits 0 "" eval -q "$work/nv" --compare "$chosen/model" --tokens "$chosen/tokens.json" --pad-tail --preset nvfp4 --json
check "ways with chosen weights" python3 -c '
import json, near, sys
chosen, four, nv = (json.load(open(path)) for path in sys.argv[1:4])
runs = chosen["evaluation"]["runs"]
assert [run["name"] for run in runs] == ["f32", "W4A8", "nvfp4", "W4A8 calibrated", "nvfp4 calibrated"]
for run, own in ((runs[3], four), (runs[4], nv)):
    assert near.near(run["kl_divergence"], own["runs"][1]["kl_divergence"]) and run["kl_divergence"]["mean"] > 0
verdict = chosen["verdict"]
ranks = verdict["predictions"]["ranks"]
assert sorted(r["run"] for r in ranks) == [1, 2, 3, 4]
assert {r["judgement"] for r in ranks} == {"too much"} and verdict["answer"] == "not"
costs = [runs[r["run"]]["kl_divergence"]["mean"] for r in ranks]
assert costs == sorted(costs) and "calibrated" in ranks[0]["name"], ranks
preset = " --preset nvfp4 --pad-tail" if "nvfp4" in ranks[0]["name"] else " --preset w4a8 --pad-tail"
assert verdict["command"] == "mxfp calibrate %s --tokens %s -o CALIBRATED%s && mxfp quantize CALIBRATED -o OUT%s" % (
    sys.argv[4], sys.argv[5], preset, preset), verdict["command"]
' "$work/chosen.json" "$work/four.json" "$work/out" "$chosen/model" "$chosen/tokens.json"
exits 2 "--calibrate: is for --eval" report "$chosen/model" --calibrate "$chosen/tokens.json"
exits 2 "--calibrate: chooses weights" report "$chosen/model" --eval "$chosen/tokens.json" --calibrate "$chosen/tokens.json" --round sr

exits 2 "report: --try: unknown value 'mxfp5'" report -q "$a" --eval "$tokens" --try mxfp5
exits 2 "--try: is for --eval" report "$a" --try mxfp4
exits 2 "report: --try: more than 63 trials" report -q "$a" --eval "$tokens" --try "$(seq -s, 64 | sed 's/[0-9]*/f32/g')"
exits 0 "" report -q "$a" --include lm_head.weight --formats mxfp4 --rules mse --eval "$work/text" --try w4a8 --context 50 --profile
text=$(cat "$work/out")
has "an evaluation in text" "$text" "## Evaluation"
same "profiles in a report" 2 "$(grep -c '^Time of .* tokens in ' "$work/out")"
same "rows of a report" "$(row f32)" "$("$mxfp" eval -q "$a" --text "$work/text" --context 50 >"$work/out" && row model)"
exits 0 "" quantize "$a" -o "$work/against" --include lm_head.weight -q
exits 0 "" report -q "$a" --include lm_head.weight --against "$work/against" --eval "$tokens"
same "of a model that was quantized" "$w4a8" "$(row W4A8)"
exits 2 "--context: is for --eval" report "$a" --context 5
exits 2 "has 1024 positions" report -q "$a" --eval "$work/text" --context 2000
exits 0 "" report -q "$a" --include lm_head.weight --sparsity 1:2 --eval "$tokens"
same "with pruned variants" "$w4a8" "$(row W4A8)"
exits 4 "missing.json" report -q "$a" --eval "$work/missing.json"

# What is refused.
printf '[[1, 2, 256]]' >"$work/beyond.json"
printf '[[1], [2], [3]]' >"$work/short.json"
: >"$work/empty.bin"
head -c 1000 "$work/logits" >"$work/cut"
exits 2 "give --tokens FILE, --text FILE or --generate N" eval "$a"
exits 2 "give one of them" eval "$a" --tokens "$tokens" --text "$work/text"
exits 2 "--prompt: is for --generate" eval "$a" --tokens "$tokens" --prompt x
exits 2 "--seed: is for --temperature" eval "$a" --generate 3 --prompt x --seed 1
exits 2 "--attention: unknown value 'fp8'" eval "$a" --tokens "$tokens" --attention fp8
exits 2 "--activation-rule: is for activations, keys or queries in an MX format" eval "$a" --tokens "$tokens" --activation-rule even
exits 2 "--rule: is for weights that are quantized here" eval "$a" --tokens "$tokens" --rule even
exits 2 "--try: unknown value 'mxfp5'" eval "$a" --tokens "$tokens" --try mxfp5
exits 2 "--try: unknown value 'evem': did you mean 'even'" eval "$a" --tokens "$tokens" --try mxfp4:evem
exits 2 "--try: expected NAME" eval "$a" --tokens "$tokens" --try mxfp4,,nvfp4
exits 2 "f32 has no scale rule" eval "$a" --tokens "$tokens" --try f32:even
exits 2 "unknown value 'fp8'" eval "$a" --tokens "$tokens" --try mxfp4/fp8
exits 2 "mxfp advise writes such a mixture" eval "$a" --tokens "$tokens" --try w4a8-mixed
for weights in --weights --preset; do
	exits 2 "--block: is for the MX formats" eval "$a" --tokens "$tokens" $weights nvfp4 --block 32x32
done
printf '{"version": 1, "default": {"format": "mxfp4", "sparsity": "4:16"}}' >"$work/sparse.json"
exits 2 "sparse.json: squares of 32x32 are for dense weights" eval "$a" --tokens "$tokens" --recipe "$work/sparse.json" --block 32x32
exits 2 "--weights: is for a single trial" eval "$a" --tokens "$tokens" --try w4a8 --weights mxfp4
exits 2 "eval: --try: more than 64 trials" eval "$a" --tokens "$tokens" --try "$(seq -s, 65 | sed 's/[0-9]*/f32/g')"
exits 2 "eval: --threads: invalid value '100000': expected at most 1024" eval "$a" --tokens "$tokens" --threads 100000
exits 2 "--batch: 0 rows" eval "$a" --tokens "$tokens" --batch 0
exits 2 "--context: 1 tokens predict nothing" eval "$a" --tokens "$tokens" --context 1
exits 2 "has 1024 positions" eval "$a" --tokens "$tokens" --context 1025
exits 2 "beyond the 1024 positions" eval "$a" --generate 1024 --prompt x
exits 2 "invalid --temperature" eval "$a" --generate 3 --prompt x --temperature warm
exits 2 "the prompt has no tokens" eval "$a" --generate 3
exits 3 "eval: nothing is predicted" eval "$a" --tokens "$tokens" --skip 100
printf '[[1]]' >"$work/single.json"
exits 3 "report: nothing is predicted: no window has a token after its first" report "$a" --eval "$work/single.json"
exits 3 "nothing is predicted" eval "$a" --tokens "$work/short.json" --sequences 2
exits 3 "256" eval "$a" --tokens "$work/beyond.json"
exits 3 "empty.bin" eval "$a" --tokens "$work/empty.bin"
exits 3 "nothing is predicted" eval "$a" --text "$work/empty.bin"
exits 4 "missing.json" eval "$a" --tokens "$work/missing.json"
exits 3 "has a vocabulary of 128, and that of" eval "$work/narrow" --tokens "$work/few.json" --compare "$a"
exits 3 "logits of other tokens" eval "$a" --tokens "$tokens" --compare "$work/logits" --sequences 1
exits 3 "logits of other tokens" eval "$a" --tokens "$tokens" --compare "$work/logits" --skip 1
exits 3 "has 1000 bytes" eval "$a" --tokens "$tokens" --compare "$work/cut"
exits 3 "logits of 256 tokens, and the model's vocabulary is 128" eval "$work/narrow" --tokens "$work/few.json" --compare "$work/logits"
exits 2 "exists; give --force" eval "$a" --tokens "$tokens" --save-logits "$work/logits"
exits 2 "holds saved logits" eval "$a" --tokens "$tokens" --compare "$work/logits" --save-logits "$work/more"
# Without a tokenizer, a text that is missing is what is said to be missing.
exits 3 "tokenizer" eval "$work/narrow" --text "$work/text"
# A text is read as Python reads it for a tokenizer.json: what is not UTF-8 is an error, and CR LF and CR are LF, as the same
# model's bytes have them. Bytes are taken as they are.
printf '{"model":{"vocab":{"a":97,"\\n":10,"b":98},"merges":[]}}' >"$work/letters.json"
printf 'ab\nab\n\nba' >"$work/lf.txt"
printf 'ab\r\nab\r\r\nba' >"$work/crlf.txt"
printf 'ab\nb\351a' >"$work/latin1.txt"
exits 0 "" eval -q --json "$a" --text "$work/lf.txt"
lf=$(grep -A3 '"nll"' "$work/out")
exits 0 "" eval -q --json "$a" --text "$work/crlf.txt" --tokenizer "$work/letters.json"
same "CR LF" "$lf" "$(grep -A3 '"nll"' "$work/out")"
exits 3 "latin1.txt: line 2, byte 4: e9 is not UTF-8 there; " eval -q "$a" --text "$work/latin1.txt" --tokenizer "$work/letters.json"
exits 3 "eval: --prompt: line 1, byte 1: e9 is not UTF-8 there; " eval -q "$a" --generate 2 --prompt "$(printf 'b\351a')" \
	--tokenizer "$work/letters.json"
exits 0 "" eval -q "$a" --text "$work/latin1.txt"
exits 4 "missing.txt: cannot open: No such file" eval "$work/narrow" --text "$work/missing.txt"

# Disks that are too small are seen before the run: logits of 118 predictions take 64 + 118 * 256 * 4 bytes, twice if they are saved.
if preload; then
	export LD_PRELOAD="$shim" IO_ROOM=120895
	exits 4 "120896 bytes will be written to this disk, which has room for 120895" eval "$a" --tokens "$tokens" --try mxfp8
	export IO_ROOM=120896
	exits 0 "" eval -q "$a" --tokens "$tokens" --try mxfp8
	export IO_ROOM=241791
	exits 4 "241792 bytes will be written to this disk, which has room for 241791" eval "$a" --tokens "$tokens" --save-logits "$work/full"
	check "logits on a full disk" test ! -e "$work/full"
	export IO_ROOM=241792
	exits 0 "" eval -q "$a" --tokens "$tokens" --save-logits "$work/full"
	unset IO_ROOM
	# A log has a line a minute of long work.
	export IO_CLOCK=100
	exits 0 "mxfp: evaluating " eval "$a" --tokens "$tokens"
	exits 0 "" eval -q "$a" --tokens "$tokens"
	unset LD_PRELOAD IO_CLOCK
	exits 0 "" eval "$a" --tokens "$tokens"
fi

# --acc: two models whose hidden states are rows of +-1 and whose heads spread over 22 powers of two, so that machines cut and round.
# The largest number of one is above 1.75 times a power of two, as 448 is, and that of the other below.
# Their logits by the definitions of doc/numerics.md, section 5, in fractions, are saved as a base; a run whose logits are others in
# one bit changes a probability.
cat >"$work/sums.py" <<'END'
import json, math, random, struct, sys
from fractions import Fraction

HIDDEN, VOCABULARY = 160, 32
work, draw = sys.argv[1], random.Random(5)


def two(e):
    return Fraction(2) ** e


def exponent(x):
    return math.frexp(abs(x))[1] - 1 if isinstance(x, float) else exponent(float(x))


def nearest(x, bits, lowest=-126):
    unit = two(max(exponent(x), lowest) - bits + 1) if x else 1
    return round(x / unit) * unit


def cut(x, unit):
    return math.trunc(x / unit) * unit


def instruction(products, c, F, L, R):
    E = max([e for s, e in products if s] + ([max(exponent(c), -126)] if c else []) + [L])
    total = sum(cut(s * two(e), two(E - F)) for s, e in products) + cut(c, two(E - F))
    return cut(total, two(exponent(total) - R + 1)) if total else total


def machine(a, w, k, F, L, R, step):
    c = Fraction(0)
    for first in range(0, HIDDEN, step or HIDDEN):
        p = Fraction(0) if step else c
        for at in range(first, min(first + (step or HIDDEN), HIDDEN), k):
            pairs = zip(a[at:at + k], w[at:at + k])
            p = instruction([(x[0] * y[0], x[1] + y[1]) for x, y in pairs], p, F, L, R)
        c = nearest(c + p, 24) if step else p
    return c


def operand(x, lowest):
    e = max(exponent(x), lowest) if x else lowest
    return x / two(e), e


def write(name, head):
    tensors = {"model.embed_tokens.weight": embedding, "model.norm.weight": [[1] * HIDDEN], "lm_head.weight": head,
               "model.layers.0.input_layernorm.weight": [[1] * HIDDEN],
               "model.layers.0.post_attention_layernorm.weight": [[1] * HIDDEN]}
    for part in ["self_attn.%s_proj" % p for p in "qkvo"]:
        tensors["model.layers.0.%s.weight" % part] = [[0] * HIDDEN] * HIDDEN
    for part in ("gate", "up"):
        tensors["model.layers.0.mlp.%s_proj.weight" % part] = [[0] * HIDDEN] * 32
    tensors["model.layers.0.mlp.down_proj.weight"] = [[0] * 32] * HIDDEN
    header, data = {}, b""
    for tensor, rows in tensors.items():
        flat = [float(x) for row in rows for x in row]
        header[tensor] = {"dtype": "F32", "shape": [len(rows), len(rows[0])] if len(rows) > 1 else [HIDDEN],
                          "data_offsets": [len(data), len(data) + 4 * len(flat)]}
        data += struct.pack("<%df" % len(flat), *flat)
    text = json.dumps(header).encode()
    with open("%s/%s.safetensors" % (work, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


embedding = [[draw.choice((-1, 1)) for _ in range(HIDDEN)] for _ in range(VOCABULARY)]
numbers = [[draw.choice((-1, 1)) * draw.randrange(1024, 2048) * two(draw.randrange(-34, -12)) for _ in range(HIDDEN)]
           for _ in range(VOCABULARY)]
fours = [Fraction(x, 2) for x in (0, 1, 2, 3, 4, 6, 8, 12)]
scales = [[draw.randrange(-26, -3) for _ in range(HIDDEN // 32)] for _ in range(VOCABULARY)]
codes = [[6 if k % 32 == 0 else draw.choice(fours) * draw.choice((-1, 1)) for k in range(HIDDEN)] for _ in range(VOCABULARY)]
values = {"numbers": numbers,
          "fours": [[x * two(scales[v][k // 32]) for k, x in enumerate(row)] for v, row in enumerate(codes)]}
tokens = [(i * 5) % VOCABULARY for i in range(8)]
if len(sys.argv) == 2:
    for name in values:
        write(name, values[name])
    with open(work + "/sums.json", "w") as file:
        json.dump([tokens], file)
    with open(work + "/sums-config.json", "w") as file:
        json.dump({"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 32, "num_hidden_layers": 1,
                   "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": VOCABULARY,
                   "max_position_embeddings": 64, "rms_norm_eps": 1e-30, "rope_theta": 10000.0,
                   "tie_word_embeddings": False, "hidden_act": "silu"}, file)
    sys.exit()


def fp8(x):
    return nearest(x, 4, -6) if x else x


# Logits by one way, in place of those of a saved file.
way, step, saved, made, head = sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5], values[sys.argv[6]]
most = max(abs(x) for row in head for x in row)
shift = exponent(most) - 8 + (most / two(exponent(most) - 8) > 448)
one, scale = (Fraction(1), 0), Fraction(1)
if way == "volta":
    w, parameters = [[operand(nearest(x, 11, -14), -14) for x in row] for row in head], (4, 23, -999, 24)
elif way == "hopper":
    w, parameters = [[operand(nearest(x, 8), -126) for x in row] for row in head], (16, 25, -133, 24)
elif way == "fp8":
    w = [[operand(fp8(x / two(shift)), -6) for x in row] for row in head]
    one, scale, parameters = (Fraction(1), 8), two(shift - 8), (32, 13, -133, 14)
else:
    w = [[(operand(Fraction(x), 0)[0], operand(Fraction(x), 0)[1] + scales[v][k // 32]) for k, x in enumerate(row)]
         for v, row in enumerate(codes)]
    parameters = (32, 25, -133, 24)
with open(saved, "rb") as file:
    start = file.read(64)
with open(made, "wb") as file:
    file.write(start)
    for token in tokens[:-1]:
        a = [(x * one[0], one[1]) for x in embedding[token]]
        for v in range(VOCABULARY):
            file.write(struct.pack("<f", float(machine(a, w[v], *parameters, step) * scale)))
END
python3 "$work/sums.py" "$work" || exit 99
for model in numbers fours; do
	mkdir "$work/$model"
	mv "$work/$model.safetensors" "$work/$model/model.safetensors"
	cp "$work/sums-config.json" "$work/$model/config.json"
done
exits 0 "" eval -q "$work/numbers" --tokens "$work/sums.json" --save-logits "$work/usual"
# sums WAY PASS MODEL ARGUMENT...: the saved logits are those of the run, and sums of the same operands as usual are others.
sums() {
	way=$1 step=$2 model=$3
	shift 3
	exits 0 "" eval -q --json "$work/$model" --tokens "$work/sums.json" --acc "$@"
	has "$way: two runs" "$(cat "$work/out")" '"acc": "exact"'
	differs "$way: sums as usual"
	python3 "$work/sums.py" "$work" "$way" "$step" "$work/usual" "$work/made" "$model" || bad "$way: no logits by definition"
	exits 0 "" eval -q --json "$work/$model" --tokens "$work/sums.json" --compare "$work/made" --acc "$@"
	has "$way: logits by definition" "$(tr -d ' \n' <"$work/out")" '"probability_change_rms":{"mean":0.0,'
}
differs() {
	case $(tr -d ' \n' <"$work/out") in
	*'"probability_change_rms":{"mean":0.0,'*) bad "$1 are the same" ;;
	esac
}

sums volta 0 numbers volta --try f16
sums hopper 0 numbers hopper --try bf16
sums fp8 0 numbers hopper --try e4m3
sums fp8 128 fours hopper --try e4m3 --pass-k 128
sums blackwell 0 fours blackwell --preset w4a8 --include '*lm_head*'
# Where sums of FP8 are rounded once, as by fmmla, a run is nearly the usual one, through layers with gates, experts and biases, too.
python3 "${srcdir:-.}/tests/cli/small_llama.py" "$work" && python3 "${srcdir:-.}/tests/cli/small_experts.py" "$work" || exit 99
for model in model stacked oss; do
	evaluate "$work/$model" --tokens "$work/few.json" --try e4m3 --acc fmmla
	same "$model: change by fmmla" 0.000000 "$(line "RMS change of the token's p")"
	evaluate "$work/$model" --tokens "$work/few.json" --try e4m3 --acc ada
	check "$model: no change by ada" test "$(line "RMS change of the token's p")" != 0.000000
done
exits 0 "" eval -q "$work/numbers" --tokens "$work/sums.json" --try tf32,bf16 --acc ampere
same "a row for each trial and its sums" "tf32 tf32 bf16 bf16" "$(sed -n 's/^| \([a-z0-9]*\) .*/\1/p' "$work/out" | sed 1d | tr '\n' ' ' | sed 's/ $//')"
exits 0 "" eval -q --json "$work/model" --tokens "$work/few.json" --try bf16,e4m3 --acc hopper --pass-k 128
mv "$work/out" "$work/eval.json"
exits 0 "" report -q --json "$work/model" --formats mxfp4 --rules mse --eval "$work/few.json" --try bf16,e4m3 --acc hopper --pass-k 128
check "a report has other sums than eval" python3 -c 'import json, sys
sums, report = (json.load(open(sys.argv[1] + name), parse_float=lambda x: "%.9g" % float(x)) for name in ("/eval.json", "/out"))
sys.exit(sums != report["accumulator"] or [run["acc"] for run in sums["runs"]] != ["exact", "hopper"] * 2 or sums["runs"][1]["pass_k"] != 128)' "$work"
exits 3 "tensor 'model.embed_tokens.weight': --acc hopper does not take f32 weights times f32 inputs, but " \
	report "$work/model" --eval "$work/few.json" --acc hopper
no="eval $work/numbers --tokens $work/sums.json"
exits 3 "numbers/model.safetensors: tensor 'lm_head.weight': --acc hopper does not take f32 weights times f32 inputs, but " \
	$no --acc hopper
exits 3 "tensor 'lm_head.weight': --acc volta does not take e4m3 weights times e4m3 inputs, but f16 times the same; give --try f16" \
	$no --acc volta --try f16,e4m3
exits 3 "tensor 'lm_head.weight': --acc blackwell does not take mxfp4 weights times f32 inputs, but " \
	eval "$work/fours" --tokens "$work/sums.json" --include '*lm_head*' --acc blackwell --try bf16,mxfp4/none
exits 2 "eval: --pass-k 100: give 512, 256 or 128" $no --acc chain --pass-k 100
exits 2 "eval: --acc exact: is what sums are compared with; " $no --acc exact --pass-k 512

# A real model: perplexities by torch (../shared/weights/README.md), of f32 within 0.0005 and of MXFP4 within 0.005, and the
# greedy text that llama2.c documents. Without vectors that takes minutes.
near() {
	[ $slow = yes ] || check "perplexity of $1: $3, and torch has $2" awk -v a="$2" -v b="${3% *}" -v most="$4" \
		'BEGIN { exit !(a - b <= most && b - a <= most) }'
}
if [ ! -d "$shared" ]; then
	echo "$shared is not there: no real model is run"
elif [ "${MXFP_ISA:-}" != ref ]; then
	model=$shared/stories260K/stories260K stories=$(fewer_tokens "$shared/eval/self_generated.tokens.json")
	evaluate "$model.hf.f32.safetensors" --tokens "$stories" --sequences 24 --pad-tail \
		--activation-rule floor --try mxfp4:floor,mxfp4:even/mxfp8-e4m3
	near f32 3.8185 "$(row f32)" 0.0005
	near mxfp4:floor 4.6715 "$(row mxfp4:floor)" 0.005
	near mxfp4:even/mxfp8-e4m3 4.6359 "$(row 'mxfp4:even\/mxfp8-e4m3')" 0.005
	evaluate "$model.hf.f32.safetensors" --tokens "$stories" --sequences 24 --pad-tail \
		--nvfp4-recipe te --weights nvfp4
	near nvfp4 4.3162 "$(row nvfp4)" 0.005
	# A report runs each layer alone too: two sequences of them.
	evaluate "$model.hf.f32.safetensors" --tokens "$stories" --sequences 2 --pad-tail \
		--activation-rule floor --try mxfp4:even/mxfp8-e4m3
	w4a8=$(row 'mxfp4:even\/mxfp8-e4m3') cost=$(echo "$(row f32) $(row 'mxfp4:even\/mxfp8-e4m3')" | awk '{ printf "%.3g", 100 * ($3 / $1 - 1) }')
	exits 0 "" report -q "$model.hf.f32.safetensors" --eval "$stories" --sequences 2 --pad-tail \
		--formats mxfp4 --rules even --activation-rule floor
	same "mxfp4:even/mxfp8-e4m3 in a report" "$w4a8" "$(row W4A8)"
	has "its headline" "$(cat "$work/out")" "**W4A8 costs this model $cost % perplexity, "
	evaluate "$model.f32.gguf" --generate 60 --prompt "Once upon a time"
	has "the documented text" "$out" "Lily. She loved to play outside in the park. One day, she saw a big, red ball."
fi
check "something is left over" test -z "$(find "$work" -name '.*mxfp-*')"
finish
