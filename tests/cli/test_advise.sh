#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp advise. Rows hold 6, another number and zeros, so under rule floor MXFP4's scale is 1: 5 becomes 4, an error of
# r = 1 / (36 + 25), 17.85 dB; 2.5 becomes 2, r = .25 / (36 + 6.25), 22.28 dB; 4 is exact. MXFP8's scale is 1/64, and
# all of them are exact.
. "${srcdir:-.}/tests/cli/cli.shlib"

zeros=$(repeat 30 00000000)
five="0000c040 0000a040 $zeros" half="0000c040 00002040 $zeros" exact="0000c040 00008040 $zeros"
json= at=0
for name in a b c; do
	json="$json${json:+,}\"$name.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[$at,$((at + 128))]}"
	at=$((at + 128))
done
safetensors "$work/m.safetensors" "{$json}" "$half $exact $five"

exits 0 "" advise "$work/m.safetensors" --formats mxfp4,mxfp8-e4m3 --rules floor
text=$(tr -s ' ' <"$work/out")
has "a" "$text" "| a.weight | F32 [1, 32] | mxfp4 | floor 22.28 | 4.250 |"
has "b" "$text" "| b.weight | F32 [1, 32] | mxfp4 | floor exact | 4.250 |"
has "c" "$text" "| c.weight | F32 [1, 32] | mxfp4 | floor 17.85 | 4.250 |"
has "c" "$text" "| | | mxfp8-e4m3 | floor exact | 8.250 |"
# The mean of r over three layers, then over them with c exact, then with a exact too.
has "front" "$text" "| 4.25 | 4.250 | 21.29 | 100.0 % | 0.0 % |"
has "front" "$text" "| 5.5 | 4.250 | 21.29 | 100.0 % | 0.0 % |"
has "front" "$text" "| 5.75 | 5.583 | 27.05 | 66.7 % | 33.3 % |"
has "front" "$text" "| 6.75 | 5.583 | 27.05 | 66.7 % | 33.3 % |"
has "front" "$text" "| 6.917 | 6.917 | exact | 33.3 % | 66.7 % |"
same "points" 12 "$(grep -c '%' "$work/out")"

# The mixture of --bits as a recipe, which mxfp quantize takes.
exits 0 "" advise "$work/m.safetensors" --formats mxfp4,mxfp8-e4m3 --rules floor --bits 5.6 -o "$work/r.json"
has "chosen" "$(cat "$work/out")" "chosen: 5.583 bits a weight, 27.05 dB"
same "recipe" '{"version":1,"default":{"format":"mxfp4","rule":"floor"},"rules":[{"match":["c.weight"],'\
'"format":"mxfp8-e4m3","rule":"floor"}]}' "$(tr -d ' \n' <"$work/r.json")"
exits 0 "" quantize "$work/m.safetensors" -n --recipe "$work/r.json"
text=$(tr -s ' ' <"$work/out")
has "quantized" "$text" "| b.weight | F32 [1, 32] | mxfp4 |"
has "quantized" "$text" "| c.weight | F32 [1, 32] | mxfp8-e4m3 |"
has "quantized" "$text" "elements, 5.583 bits each"
exits 2 "exists" advise "$work/m.safetensors" --bits 5 -o "$work/r.json"
exits 0 "" advise "$work/m.safetensors" --formats mxfp4 --rules mse --bits 4.25 -o "$work/s.json" --ignore 're:a' \
	--include 'b*'
has "patterns" "$(tr -d ' \n' <"$work/s.json")" '"include":["b*"],"rules":[{"match":["re:a"],"keep":true}]}'
has "left out" "$(cat "$work/out")" "| b.weight"
exits 0 "" quantize "$work/m.safetensors" -n --recipe "$work/s.json"
has "kept" "$(tr -s ' ' <"$work/out")" "| a.weight | F32 [1, 32] | kept | kept by rules[0] |"

# What is not measured is not quantized, whatever may be quantized with --weights nvfp4.
safetensors_zeros "$work/48.safetensors" '{"a[1].weight":{"dtype":"F32","shape":[1,48],"data_offsets":[0,192]},
	"b.weight":{"dtype":"F32","shape":[1,64],"data_offsets":[192,448]}}' 448
exits 0 "" advise "$work/48.safetensors" --formats nvfp4 --bits 5 -o "$work/n.json"
has "left out" "$(cat "$work/out")" "left out: 1 layers whose rows are not whole blocks"
same "recipe" '{"version":1,"default":{"format":"nvfp4","nvfp4_recipe":"compressed-tensors"},"activations":"none","fuse":true,"rules":[{"match":['\
'"a\\[1].weight"],"keep":true}]}' "$(tr -d ' \n' <"$work/n.json")"
exits 0 "" quantize "$work/48.safetensors" -n --recipe "$work/n.json" -a none
has "what advise left out" "$(tr -s ' ' <"$work/out")" "| a\\[1\\].weight | F32 [1, 48] | kept | kept by rules[0] |"

# Unless rows are padded: 48 weights in MXFP4 take two blocks of 17 bytes, 64 the same.
exits 0 "" advise "$work/48.safetensors" --formats mxfp4 --pad-tail --bits 6 -o "$work/p.json"
has "padded" "$(tr -s ' ' <"$work/out")" "| a\\[1\\].weight | F32 [1, 48] | mxfp4 | mse exact, floor exact, even exact, rceil exact | 5.667 |"
has "padded" "$(cat "$work/out")" "chosen: 4.857 bits a weight, exact"
same "recipe" '{"version":1,"default":{"format":"mxfp4","rule":"mse"},"rules":[]}' "$(tr -d ' \n' <"$work/p.json")"
exits 0 "" quantize "$work/48.safetensors" -n --recipe "$work/p.json" --pad-tail
has "padded by quantize" "$(cat "$work/out")" "112 elements, 4.857 bits each"

# Not greedy: c saves .5246 (32 weights of r = 1/61) in 16 bytes more, d .9275 (64 of 2/138) in 32, which is less a byte. Of
# 96 weights in 51 bytes 7 bits allow 84: with d in MXFP8 and c not, .5246 / 96 is left, 22.62 dB; the other way, 20.15.
safetensors "$work/d.safetensors" '{"c.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"d.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[128,384]}}' "$five $five" "0000c040 0000a040 00008040 $(repeat 29 00000000)"
exits 0 "" advise "$work/d.safetensors" --formats mxfp4,mxfp8-e4m3 --rules floor --bits 7
has "not greedy" "$(cat "$work/out")" "chosen: 6.917 bits a weight, 22.62 dB"
has "not greedy" "$(tr -s ' ' <"$work/out")" "| 6.75 | 5.583 | 20.15 | 66.7 % | 33.3 % |"

exits 0 "" advise "$work/m.safetensors" --formats mxfp4,mxfp8 --rules floor --bits 6 --json
text=$(tr -d ' \n' <"$work/out")
has "JSON" "$text" '{"name":"c.weight","dtype":"F32","shape":[1,32],"non_finite":0,"formats":[{"weights":"mxfp4","bits_per_weight":'
has "JSON" "$text" '"choices":[{"rule":"floor","sqnr_db":17.85329835'
has "JSON" "$text" '"relative_squared_error":0.01639344262295082'
has "JSON" "$text" '"chosen":"mxfp8-e4m3"}'
has "JSON" "$text" '"chosen":{"bits_per_weight":5.58333'
has "JSON" "$text" '"exact":true,'
has "JSON" "$text" '"tensors_left_out":0,"tensors_refused":0'
exits 2 "--bits 4.2: no mixture of these formats has fewer than 4.2500 bits a weight" \
	advise "$work/m.safetensors" --formats mxfp8,mxfp4 --rules floor --bits 4.2
exits 2 "--output writes the mixture of --bits" advise "$work/m.safetensors" -o "$work/t.json"
exits 2 "invalid --bits 'x': expected a number, for example 5" advise "$work/m.safetensors" --bits x
exits 2 "unknown value 'mxpf4'" advise "$work/m.safetensors" --formats mxpf4
exits 0 "" quantize "$work/m.safetensors" -o "$work/q" -q
# A quantized model is decoded first: to its own format it loses nothing.
exits 0 "" advise "$work/q" --formats mxfp4 --rules fit --bits 5
has "decoded" "$(cat "$work/out")" "exact"

# A recipe for a layout is one that mxfp quantize takes for it: formats are those that the layout holds.
# for_layout LAYOUT FORMAT...
for_layout() {
	layout=$1
	shift
	exits 0 "" advise "$work/d.safetensors" -l "$layout" --json
	same "default formats of $layout" "$*" "$(tr -d ' \n' <"$work/out" | sed 's/.*"shares":{//;s/}.*//' |
		grep -o '"[^"]*"' | tr -d '"' | tr '\n' ' ' | sed 's/ $//')"
	for bits in 4.5 8; do
		exits 0 "" advise "$work/d.safetensors" -l "$layout" --bits $bits -fo "$work/l.json"
		exits 0 "" quantize "$work/d.safetensors" -n -l "$layout" --recipe "$work/l.json"
	done
}
for_layout compressed-tensors mxfp4 nvfp4 mxfp6-e2m3 mxfp8-e4m3
for_layout modelopt mxfp4 nvfp4 mxfp8-e4m3
for_layout quark mxfp4
for_layout trn-x4 mxfp4 mxfp8-e4m3
exits 2 "--formats: layout quark holds no nvfp4; give " advise "$work/d.safetensors" -l quark --formats mxfp4,nvfp4
exits 2 "--nvfp4-recipe: layout modelopt holds no tensor scale of compressed-tensors; give modelopt-0.45" \
	advise "$work/d.safetensors" -l modelopt --nvfp4-recipe compressed-tensors

# Loaders fuse q, k and v: a mixture with tensor scales has them share one, though the largest of q is 6 and of k 96.
safetensors "$work/qk.safetensors" '{"a.q_proj.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"a.k_proj.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[128,256]}}' "0000c040 $(repeat 31 0000803f) 0000c042 $(repeat 31 0000803f)"
for layout in compressed-tensors modelopt; do
	exits 0 "" advise "$work/qk.safetensors" -l $layout --formats nvfp4 --bits 5.5 -fo "$work/f.json"
	has "fused" "$(tr -d ' \n' <"$work/f.json")" '"fuse":true'
	exits 0 "" quantize "$work/qk.safetensors" -l $layout -o "$work/qk" -fq --recipe "$work/f.json"
	exits 0 "" lint -q "$work/qk"
	sed '/"fuse"/d' "$work/f.json" >"$work/apart.json"
	exits 0 "" quantize "$work/qk.safetensors" -l $layout -o "$work/qk" -fq --recipe "$work/apart.json"
	has "apart" "$("$mxfp" lint -q "$work/qk" || :)" "[fused-scale]"
done
exits 0 "" advise "$work/qk.safetensors" --formats nvfp4,mxfp4 --bits 4.25 -fo "$work/f.json"
checks=$((checks + 1))
! grep -q fuse "$work/f.json" || bad "a recipe without NVFP4 fuses"
exits 0 "" advise "$work/qk.safetensors" --formats nvfp4 --nvfp4-recipe torchao-1 --bits 5.5 -fo "$work/f.json"
checks=$((checks + 1))
! grep -q fuse "$work/f.json" || bad "a recipe without tensor scales fuses"

# Weights that are NaN or Inf: how many, and no word of an error of 0. In b they are two of 64, in one of two blocks.
safetensors "$work/nan.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"b.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[128,384]},
	"c.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[384,512]}}' \
	"$exact 0000c07f 000080ff $zeros $exact $(repeat 32 0000c07f)"
exits 0 "" advise "$work/nan.safetensors" --formats mxfp4 --rules floor --bits 5
text=$(tr -s ' ' <"$work/out")
has "NaN" "$text" "NaN or Inf: 34 weights in 2 layers, the first 'b.weight';"
has "NaN" "$text" "mxfp quantize refuses them: repair the model, --ignore the layers, or give it --non-finite"
has "NaN" "$text" "| a.weight | F32 [1, 32] | mxfp4 | floor exact | 4.250 |"
has "NaN" "$text" "| c.weight | F32 [1, 32] | mxfp4 | floor - | 4.250 |"
has "NaN" "$text" "chosen: 4.250 bits a weight, -"
exits 0 "" advise "$work/nan.safetensors" --json
has "NaN" "$(tr -d ' \n' <"$work/out")" '"name":"b.weight","dtype":"F32","shape":[2,32],"non_finite":2,'
exits 3 "" quantize "$work/nan.safetensors" -o "$work/nan" -q
exits 0 "" advise "$work/m.safetensors"
checks=$((checks + 1))
! grep -q "NaN" "$work/out" || bad "NaN in a model without"

# --eval. What is refused comes before anything is run.
printf '[[1, 2, 3]]' >"$work/three.json"
exits 2 "--skip: is for --eval" advise "$work/m.safetensors" --skip 1
exits 2 "--activations: is for --eval" advise "$work/m.safetensors" -a none
exits 2 "option --eval needs a value" advise "$work/m.safetensors" --eval
exits 2 "--tokenizer: is for --eval with a text" advise "$work/m.safetensors" --eval "$work/three.json" --tokenizer x
exits 2 "leave --layout out" advise "$work/m.safetensors" --eval "$work/three.json" -l modelopt
exits 2 "--batch: 0 rows" advise "$work/m.safetensors" --eval "$work/three.json" --batch 0
exits 2 "--sequences: 0 leaves nothing" advise "$work/m.safetensors" --eval "$work/three.json" --sequences 0
exits 3 "has no config.json" advise "$work/m.safetensors" --eval "$work/three.json"
if ! command -v python3 >/dev/null; then
	echo "no python3: --eval chooses nothing"
	finish
fi

# A Llama of two layers with random weights, and tokens.
mkdir "$work/llama"
cat >"$work/llama.py" <<'END'
import json, random, struct, sys

HIDDEN, INNER, VOCABULARY, LAYERS = 32, 64, 96, 2
random.seed(4)
shapes = {"model.embed_tokens": (VOCABULARY, HIDDEN), "model.norm": (HIDDEN,), "lm_head": (VOCABULARY, HIDDEN)}
for layer in range(LAYERS):
    at = "model.layers.%d." % layer
    shapes.update({at + "input_layernorm": (HIDDEN,), at + "post_attention_layernorm": (HIDDEN,)})
    shapes.update({at + "self_attn.%s_proj" % x: (HIDDEN, HIDDEN) for x in "qkvo"})
    shapes.update({at + "mlp.gate_proj": (INNER, HIDDEN), at + "mlp.up_proj": (INNER, HIDDEN),
                   at + "mlp.down_proj": (HIDDEN, INNER)})
header, data = {}, b""
for name, shape in shapes.items():
    n = shape[0] * (shape[1] if len(shape) > 1 else 1)
    numbers = [1.0 if len(shape) == 1 else random.gauss(0, 0.3) for _ in range(n)]
    header[name + ".weight"] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + 4 * n]}
    data += struct.pack("<%df" % n, *numbers)
text = json.dumps(header).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
with open(sys.argv[1] + "/config.json", "w") as file:
    json.dump({"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
               "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": VOCABULARY,
               "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
               "tie_word_embeddings": False, "hidden_act": "silu"}, file)
with open(sys.argv[2], "w") as file:
    json.dump([[random.randrange(VOCABULARY) for _ in range(n)] for n in (40, 3, 25)], file)
END
python3 "$work/llama.py" "$work/llama" "$work/tokens.json" || exit 99

# advised DIRECTORY FORMATS TOKENS BITS ARGUMENT...: what mxfp advise --eval says of a model, and a recipe, in $work/advised.
advised() {
	directory=$1 formats=$2 tokens=$3 bits=$4
	shift 4
	rm -rf "$work/advised"
	mkdir "$work/advised"
	exits 0 "" advise -q "$directory" --formats "$formats" --eval "$tokens" --bits "$bits" "$@" -o "$work/advised/recipe.json" --json
	cp "$work/out" "$work/advised/$bits.json"
}

# The best of all mixtures, found by trying each one; the bytes follow from the shapes.
cat >"$work/all.py" <<'END'
import itertools, json, math, sys

bits_of = {"mxfp4": 4.25, "nvfp4": 4.5, "mxfp6-e2m3": 6.25, "mxfp8-e4m3": 8.25}
before = math.inf
for path in sys.argv[1:]:
    said = json.load(open(path))
    bits = float(path.rsplit("/", 1)[1][:-len(".json")])
    units = said["units"]
    elements = sum(u["elements"] for u in units)
    options = []
    for unit in units:
        for v in unit["variants"]:
            scales = 4 * len(unit["tensors"]) if v["weights"] == "nvfp4" else 0
            assert v["bytes"] == bits_of[v["weights"]] * unit["elements"] / 8 + scales, v
            assert v["kl_divergence"]["mean"] > 0
        options.append([(v["bytes"], v["kl_divergence"]["mean"]) for v in unit["variants"]])
    best = math.inf
    for mixture in itertools.product(*options):
        if 8 * sum(b for b, d in mixture) <= bits * elements:
            best = min(best, math.fsum(d for b, d in mixture))
    chosen = [[v for v in unit["variants"] if v["chosen"]] for unit in units]
    assert all(len(c) == 1 for c in chosen)
    own = math.fsum(c[0]["kl_divergence"]["mean"] for c in chosen)
    assert abs(own - best) <= 1e-12 * best, (bits, own, best)
    assert abs(said["chosen"]["kl_divergence_summed"] - best) <= 1e-12 * best and said["chosen"]["exact"]
    assert said["chosen"]["bytes"] == sum(c[0]["bytes"] for c in chosen) <= bits * elements / 8
    assert said["mixtures"][0]["bytes"] == said["chosen"]["bytes"] and said["mixtures"][0]["name"] == said["runs"][1]["name"] == "chosen"
    assert own <= before, "more bits cost more"
    before = own
    # Each format alone, and what the errors of weights choose, which sums to no less.
    for run, mixture in list(zip(said["runs"][1:], said["mixtures"]))[2:]:
        alone = [v for unit in units for v in unit["variants"] if v["weights"] == mixture["name"]]
        assert run["name"] == mixture["name"] and len(alone) == len(units)
        assert abs(mixture["kl_divergence_summed"] - math.fsum(v["kl_divergence"]["mean"] for v in alone)) < 1e-12
    assert said["mixtures"][1]["name"] == "chosen by SQNR" and said["mixtures"][1]["bytes"] <= bits * elements / 8
    assert said["mixtures"][1]["kl_divergence_summed"] >= best * (1 - 1e-12)
    # The front: the chosen ones at other bits.
    for point in said["front"]:
        if point["bits_at_most"] <= bits:
            assert point["kl_divergence_summed"] >= best * (1 - 1e-12)
END

# What mxfp eval finds of one layer, by --by-layer with all of another name left out, and of the mixture by its recipe.
cat >"$work/alone.py" <<'END'
import json, subprocess, sys

mxfp, model, tokens, advised, recipe = sys.argv[1:6]
end = sys.argv.index("-")
more, ignored = sys.argv[6:end], sys.argv[end + 1:]
said = json.load(open(advised))


def evaluate(*arguments):
    command = [mxfp, "eval", "-q", model, "--tokens", tokens, "--json", *more, *arguments]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


names = {u["name"].rsplit(".", 1)[1] for u in said["units"]}
wanted = 0
for name in sorted(names):
    units = [u for u in said["units"] if u["name"].endswith("." + name)]
    others = [t for u in said["units"] if u not in units for t in u["tensors"]]
    for v in range(len(said["units"][0]["variants"])):
        variant = units[0]["variants"][v]
        found = evaluate("--weights", variant["weights"], "--activations", "mxfp8-e4m3", "--by-layer",
                         *(["--fuse"] if variant["weights"] == "nvfp4" else []), *(x for t in others + ignored for x in ("--ignore", t)))
        layers = {layer["layer"]: layer["kl_divergence"] for layer in found["layers"]}
        assert len(layers) == len(units)
        for unit in units:
            own = unit["variants"][v]["kl_divergence"]
            alone = layers[int(unit["tensors"][0].split("layers.")[1].split(".")[0])]
            assert (own["mean"], own["error"]) == (alone["mean"], alone["error"]), (unit["name"], variant, own, alone)
            wanted += 1
assert wanted == sum(len(u["variants"]) for u in said["units"])
whole = evaluate("--try", recipe)["runs"][1]
for key in ("kl_divergence", "perplexity", "nll", "same_top", "quantized_matrices"):
    assert whole[key] == said["runs"][1][key], (key, whole[key], said["runs"][1][key])
END
for bits in 4.25 4.5 6.3 8.3 5.1; do
	advised "$work/llama" mxfp4,nvfp4,mxfp8-e4m3 "$work/tokens.json" $bits
	cp "$work/advised/$bits.json" "$work/"
done
check "the best of all mixtures" python3 "$work/all.py" "$work/4.25.json" "$work/4.5.json" "$work/5.1.json" "$work/6.3.json" "$work/8.3.json"
# Some twenty runs of mxfp eval.
[ $slow = yes ] || check "layers alone and the mixture by mxfp eval" python3 "$work/alone.py" "$mxfp" "$work/llama" "$work/tokens.json" \
	"$work/advised/5.1.json" "$work/advised/recipe.json" -

# What a run of a layer alone leaves out was the same before it: of a model with one layer to quantize, which may be the head, that
# run and the whole one of the format alone are one.
for one in '*0.self_attn.k_proj*' '*0.mlp.down_proj*' '*1.self_attn.o_proj*' '*1.mlp.up_proj*' '*lm_head*'; do
	exits 0 "" advise -q "$work/llama" --include "$one" --ignore "re:(?!$(echo "$one" | sed 's/\./\\./g;s/\*/.*/g')).*" \
		--formats mxfp4 --eval "$work/tokens.json" --json
	check "$one alone" python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
(unit,), (base, run) = said["units"], said["runs"]
own = unit["variants"][0]["kl_divergence"]
assert own == {k: run["kl_divergence"][k] for k in own} and own["mean"] > 0, (own, run)' "$work/out"
done

# The file that mxfp quantize makes by the recipe is the same mixture.
exits 0 "" quantize "$work/llama" -o "$work/mixed" --recipe "$work/advised/recipe.json" -q
exits 0 "" eval -q "$work/mixed" --tokens "$work/tokens.json" --compare "$work/llama" --activations mxfp8-e4m3 --json
check "the mixture in a file" python3 -c '
import json, sys
own, file = (json.load(open(path))["runs"][1]["kl_divergence"] for path in sys.argv[1:])
assert own == file, (own, file)' "$work/5.1.json" "$work/out"

# The same bytes whatever runs.
cp "$work/advised/recipe.json" "$work/once.json"
for arguments in "--threads 1" "--threads 3 --batch 7"; do
	advised "$work/llama" mxfp4,nvfp4,mxfp8-e4m3 "$work/tokens.json" 5.1 $arguments
	check "$arguments" cmp "$work/5.1.json" "$work/advised/5.1.json"
done
# ref takes a hundred times as long: some tokens for it.
echo '[[7, 90, 3, 41, 66, 12]]' >"$work/six.json"
advised "$work/llama" mxfp4,nvfp4,mxfp8-e4m3 "$work/six.json" 5.1
mv "$work/advised" "$work/fast"
MXFP_ISA=ref
export MXFP_ISA
advised "$work/llama" mxfp4,nvfp4,mxfp8-e4m3 "$work/six.json" 5.1
unset MXFP_ISA
check "by ref" cmp "$work/fast/5.1.json" "$work/advised/5.1.json"
check "the recipe by ref" cmp "$work/fast/recipe.json" "$work/advised/recipe.json"

# Activations, what is said of them in the recipe, and rules, of which each layer has the one that costs least.
same "no activations in the recipe" "" "$(grep activations "$work/once.json" || :)"
advised "$work/llama" mxfp4 "$work/tokens.json" 4.25 --for any -a none --rules mse,floor,even
same "activations" '"activations": "none",' "$(grep -o '"activations.*' "$work/advised/recipe.json")"
check "rules" python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
assert said["runs"][1]["activations"] == "f32"
for unit in said["units"]:
    costs = [v["kl_divergence"]["mean"] for v in unit["variants"]]
    assert [v["rule"] for v in unit["variants"]] == ["mse", "floor", "even"]
    assert [v["chosen"] for v in unit["variants"]].index(True) == costs.index(min(costs))
assert len({v["rule"] for u in said["units"] for v in u["variants"] if v["chosen"]}) > 1' "$work/advised/4.25.json"

# As tables; without --bits there is nothing chosen.
exits 0 "" advise -q "$work/llama" --formats mxfp4,mxfp8-e4m3 --eval "$work/tokens.json" --bits 5
text=$(tr -s ' ' <"$work/out")
has "a layer" "$text" "| model.layers.0.mlp.gate_up_proj | 4096 | mxfp4 | mse | 4.250 | 0."
has "the mixture" "$text" "| chosen | "
has "a format alone" "$text" "| mxfp8-e4m3 | 8.250 | 0."
has "the last line" "$text" "chosen: 4.850 bits a weight, KLD 0."
exits 0 "" advise -q "$work/llama" --formats mxfp4,mxfp8-e4m3 --eval "$work/tokens.json"
same "nothing chosen" "" "$(grep chosen "$work/out" || :)"

# Without bits it looks for the smallest mixture that is fine, by halves of the front, and says which of all runs is best. The command
# makes that one: a random model bears nothing, so here it costs least.
exits 0 "" advise -q "$work/llama" --formats mxfp4,mxfp8-e4m3 --eval "$work/tokens.json" --json
check "the best of all runs" python3 -c '
import json, math, sys
said = json.load(open(sys.argv[1]))
runs, ranks = said["runs"], said["predictions"]["ranks"]
names = [run["name"] for run in runs]
assert names[:4] == ["f32", "mxfp4", "mxfp8-e4m3", "6.25 bits"] and len(names) > 4, names
# From 4.25 to 8.25 bits there are 15 points between: the middle one is 4.5 + 7 / 4, and none is fine.
assert names[4:] == ["7.25 bits", "7.75 bits", "8 bits"], names
def judge(run):
    means = [(run["ln_perplexity_ratio"], math.log(1.02)), (run["kl_divergence"], 0.05)]
    if all(m["mean"] + 2 * m["error"] <= most for m, most in means):
        return "fine"
    return "too much" if any(m["mean"] - 2 * m["error"] > most for m, most in means) else "not clear"
order = {"fine": 0, "not clear": 1, "too much": 2}
assert [r["judgement"] for r in ranks] == [judge(runs[r["run"]]) for r in ranks] and ranks[0]["judgement"] != "fine", ranks
costs = [(order[r["judgement"]], runs[r["run"]]["kl_divergence"]["mean"]) for r in ranks]
assert costs == sorted(costs) and len(ranks) == 6
assert ranks[0]["name"] == "mxfp8-e4m3" and said["command"] == "mxfp quantize %s -o OUT --weights mxfp8-e4m3" % sys.argv[2], said["command"]
' "$work/out" "$work/llama"
# With weights chosen on a text: each format of four bits alone, and the mixture of --bits, run once more as mxfp calibrate and mxfp
# eval have them. On the text that they are evaluated on they are the best, and the commands make what was run. The temporary directory
# is gone.
mkdir "$work/temporary" "$work/made"
ln -s "$mxfp" "$work/made/mxfp"
TMPDIR=$work/temporary
export TMPDIR
exits 0 "" advise -q "$work/llama" --formats mxfp4,mxfp8-e4m3 --eval "$work/tokens.json" --calibrate "$work/tokens.json" --ignore '*down*' \
	--bits 6 -o "$work/mix.json" --json
cp "$work/out" "$work/mixed.json"
exits 0 "" advise -q "$work/llama" --for any --formats nvfp4 --eval "$work/tokens.json" --calibrate "$work/tokens.json" --json
unset TMPDIR
same "what is left of choosing" "" "$(ls -A "$work/temporary")"
cp "$work/out" "$work/alone.json"
# Tokens of which errors of weights choose better, so its command chooses by them.
printf '[[95, 25, 84, 26, 55, 76, 69, 7, 16, 61, 5, 93]]' >"$work/twelve.json"
exits 0 "" advise -q "$work/llama" --for any --formats mxfp6-e2m3,mxfp8-e4m3 --eval "$work/twelve.json" --bits 7 -a mxfp8-e4m3 --json
cp "$work/out" "$work/weights.json"
for name in mixed alone weights; do
	(cd "$work/made" && PATH=$PWD:$PATH && rm -rf CALIBRATED OUT recipe.json && python3 -c '
import json, sys
print(json.load(open(sys.argv[1]))["command"])' "../$name.json" | sh) >/dev/null || bad "the command of $name fails"
	evaluated=$work/tokens.json
	[ $name != weights ] || evaluated=$work/twelve.json
	exits 0 "" eval -q "$work/made/OUT" --compare "$work/llama" --tokens "$evaluated" --activations mxfp8-e4m3 --json
	cp "$work/out" "$work/made.$name.json"
done
check "chosen weights" python3 -c '
import json, sys
mixed, alone, weights, made_mixed, made_alone, made_weights = (json.load(open(path)) for path in sys.argv[1:7])
llama, tokens, recipe = sys.argv[7:]
for said, names, calibrated, best, made in (
        (mixed, "f32 chosen chosen-by-SQNR mxfp4 mxfp8-e4m3 chosen-calibrated mxfp4-calibrated".split(), {5: 1, 6: 3}, 5, made_mixed),
        (alone, "f32 nvfp4 nvfp4-calibrated".split(), {2: 1}, 2, made_alone),
        (weights, "f32 chosen chosen-by-SQNR mxfp6-e2m3 mxfp8-e4m3".split(), {}, 2, made_weights)):
    runs, mixtures, ranks = said["runs"], said["mixtures"], said["predictions"]["ranks"]
    assert [run["name"].replace(" ", "-") for run in runs] == names, runs
    for i, mixture in enumerate(mixtures, 1):
        assert mixture["calibrated"] == (i in calibrated), i
        assert (mixture["kl_divergence_summed"] is None) == (i in calibrated), i
        if i in calibrated:
            assert mixture["bytes"] == mixtures[calibrated[i] - 1]["bytes"], i
            assert runs[i]["kl_divergence"]["mean"] < runs[calibrated[i]]["kl_divergence"]["mean"] / 2, i
    assert ranks[0]["run"] == best and len(ranks) == len(mixtures), ranks
    own, file = (run["kl_divergence"] for run in (runs[best], made["runs"][1]))
    assert own == file, (own, file)
command = "mxfp calibrate %s --tokens %s -o CALIBRATED%s && mxfp quantize CALIBRATED -o OUT%s"
wanted = [command % (llama, tokens, made, made) for made in (" --recipe " + recipe, " --weights nvfp4 --nvfp4-recipe compressed-tensors --fuse")]
assert [mixed["command"], alone["command"]] == wanted, (mixed["command"], alone["command"])
assert weights["command"].endswith(" -o recipe.json --for any --formats mxfp6-e2m3,mxfp8-e4m3 --rules mse && mxfp quantize %s -o OUT --recipe recipe.json "
                                   "--activations mxfp8-e4m3" % llama), weights["command"]
' "$work/mixed.json" "$work/alone.json" "$work/weights.json" "$work/made.mixed.json" "$work/made.alone.json" "$work/made.weights.json" \
	"$work/llama" "$work/tokens.json" "$work/mix.json"
# In GGUF NVFP4 has blocks of 64, and no row is padded.
safetensors_zeros "$work/96.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,96],"data_offsets":[0,384]},
	"b.weight":{"dtype":"F32","shape":[1,64],"data_offsets":[384,640]}}' 640
exits 0 "" advise "$work/96.safetensors" --for llama.cpp
has "rows for NVFP4 in GGUF" "$(cat "$work/out")" "left out: 1 layers whose rows are not whole blocks"
exits 0 "" advise "$work/96.safetensors" --for llama.cpp --formats mxfp4
same "rows for MXFP4 in GGUF" "" "$(grep 'left out' "$work/out" || :)"
exits 0 "" advise "$work/llama" --for llama.cpp --formats mxfp4
same "a command for llama.cpp" "    mxfp quantize $work/llama -o OUT --weights mxfp4 --activations none && mxfp convert OUT -o OUT.gguf" "$(tail -n 1 "$work/out")"
# For one program: formats that it does not load with the activations that config.json will say are left out, and a line says so. The last
# line is the command that comes next, with quoted names, and works: it chooses, then it makes what was chosen.
exits 0 "" advise -q "$work/llama"
has "--for vllm" "$(cat "$work/out")" "left out: vLLM 0.33.0 does not load mxfp6-e2m3 or nvfp4 with activations mxfp8-e4m3; --for any takes all"
has "--for vllm" "$(cat "$work/out")" "Errors of weights say nothing about what the model loses"
exits 0 "" advise -q "$work/llama" --json
has "--for vllm" "$(tr -d ' \n' <"$work/out")" '"formats_not_loaded":["mxfp6-e2m3","nvfp4"],"command":"mxfpadvise'
exits 0 "" advise -q "$work/llama" --formats mxfp4,nvfp4 --eval "$work/three.json" --json
has "--for vllm with --eval" "$(tr -d ' \n' <"$work/out")" '"formats_not_loaded":["nvfp4"]'
exits 2 "advise: vLLM 0.33.0 does not load mxfp6-e2m3 in layout compressed-tensors with activations none; give other --formats, or --for any" \
	advise "$work/llama" --formats mxfp6-e2m3
exits 2 "advise: --eval runs the model as layout compressed-tensors has it, which mlx-lm 0.32.2 does not load; leave --eval out, or" \
	advise "$work/llama" --for mlx --eval "$work/three.json"
exits 2 "advise: --for: unknown value 'vlm': did you mean 'vllm'?" advise "$work/llama" --for vlm
exits 2 "advise: --activations: unknown value 'fp8': did you mean 'mxfp8-e4m3'?" advise "$work/llama" --eval "$work/three.json" -a fp8
odd="$work/made/it's a \$(model) "$'\n\x01\xff'
cp -r "$work/llama" "$odd"
for program in vllm transformers mlx any; do
	(
		cd "$work/made" && PATH=$PWD:$PATH && rm -rf OUT OUT.gguf recipe.json && "$mxfp" advise -q "$odd" --for $program --formats mxfp4,mxfp8-e4m3 --ignore '*down*' >first || exit 1
		bash -c "$(tail -n 1 first)" >second && bash -c "$(tail -n 1 second)" >/dev/null && "$mxfp" inspect OUT >/dev/null || exit 1
		case $program in
		vllm) [ "$(tail -n 1 second)" = "    mxfp quantize $(sed -n '$s/^    mxfp advise \(.*\) --bits .*/\1/p' first) -o OUT --recipe recipe.json" ] ;;
		mlx) grep -q '"mode"' OUT/config.json ;;
		esac
	) || bad "the commands that advise --for $program prints"
done

# Activations that config.json cannot say: there is no command.
exits 0 "" advise -q "$work/llama" --formats mxfp4 --eval "$work/three.json" --for any -a mxfp6-e3m2
has "activations without a command" "$(cat "$work/out")" "config.json cannot say these activations of the formats of mxfp4, so mxfp quantize does not write it."
same "activations without a command" "" "$(grep '^    mxfp' "$work/out" || :)"
exits 0 "" advise -q "$work/llama" --formats mxfp4,mxfp8-e4m3 --eval "$work/tokens.json" --calibrate "$work/tokens.json"
has "chosen weights in a table" "$(tr -s ' ' <"$work/out")" "| mxfp4 calibrated | 4.250 | - | 0.0"
same "calibrated is tried" "" "$(grep 'Not tried' "$work/out" || :)"
exits 0 "" advise -q "$work/llama" --formats mxfp4,mxfp8-e4m3 --eval "$work/three.json"
has "calibrated is not tried" "$(cat "$work/out")" "Not tried: weights that mxfp calibrate chooses on a text, as --calibrate FILE does"
# Where the mixture of --bits is a format alone it is run again once.
exits 0 "" advise -q "$work/llama" --formats mxfp4,mxfp8-e4m3 --eval "$work/three.json" --calibrate "$work/tokens.json" --bits 4.25 --json
check "one calibrated run" python3 -c '
import json, sys
names = [run["name"] for run in json.load(open(sys.argv[1]))["runs"]]
assert names[1:] == ["chosen", "chosen by SQNR", "mxfp4", "mxfp8-e4m3", "chosen calibrated"], names' "$work/out"
exits 0 "" advise -q "$work/llama" --formats mxfp8-e4m3 --eval "$work/three.json"
same "eight bits are not calibrated" "" "$(grep 'Not tried' "$work/out" || :)"
exits 2 "--calibrate: is for --eval" advise "$work/llama" --calibrate "$work/tokens.json"
exits 4 "missing.json" advise -q "$work/llama" --formats mxfp4 --eval "$work/three.json" --calibrate "$work/missing.json"
exits 2 "tokens.json" advise -q "$work/llama" --eval "$work/three.json" --calibrate "$work/tokens.json" --bits 5 -fo "$work/tokens.json"
printf '[[1, 2, 3, 4, 5, 6, 7, 8]]' >"$work/eight.json"
exits 0 "" advise -q "$work/llama" --formats mxfp8-e4m3,mxfp4 --bits 5 -o "$work/best.json" --eval "$work/eight.json" --ignore '*down*'
has "a verdict" "$(cat "$work/out")" " costs least: "
has "the threshold" "$(cat "$work/out")" "Fine is at most 2 % more perplexity and a mean divergence of at most 0.05, by two standard errors."
exits 2 "no mixture of these formats has fewer than 4.2500 bits a weight" \
	advise -q "$work/llama" --formats mxfp4 --eval "$work/tokens.json" --bits 4
exits 2 "advise: --activations: unknown value 'fp8'" advise "$work/llama" --eval "$work/tokens.json" -a fp8
exits 3 "advise: nothing is predicted: the longest of" advise "$work/llama" --eval "$work/tokens.json" --skip 300
echo text >"$work/text"
exits 3 "token" advise "$work/llama" --eval "$work/text"
printf '[[1, 2, 96]]' >"$work/beyond.json"
exits 3 "96" advise "$work/llama" --eval "$work/beyond.json"
exits 4 "missing.json" advise "$work/llama" --eval "$work/missing.json"
exits 2 "model.embed_tokens.weight is not a layer that mxfp eval quantizes" \
	advise "$work/llama" --include '*embed_tokens*' --formats mxfp4 --eval "$work/tokens.json"
# Recipes of NVFP4 are run as they are called.
exits 0 "" advise -q "$work/llama" --formats nvfp4 --nvfp4-recipe compressed-tensors,ggml --eval "$work/tokens.json" --json
check "recipes" python3 -c '
import json, sys
for unit in json.load(open(sys.argv[1]))["units"]:
    costs = [v["kl_divergence"]["mean"] for v in unit["variants"]]
    assert len(costs) == 2 and costs[0] != costs[1], costs' "$work/out"
# A weight that is NaN is refused before anything is run, and so is a model whose predictions are NaN, before anything is quantized.
# broken OFFSET: the same model with NaN in the number that far before the end of its file, or behind its header.
broken() {
	mkdir -p "$work/broken"
	cp "$work/llama/config.json" "$work/broken"
	python3 - "$work/llama/model.safetensors" "$work/broken/model.safetensors" "$1" <<'END'
import struct, sys

data = bytearray(open(sys.argv[1], "rb").read())
at = int(sys.argv[3])
at = at % len(data) if at < 0 else 8 + struct.unpack_from("<Q", data)[0] + at
data[at:at + 4] = struct.pack("<f", float("nan"))
open(sys.argv[2], "wb").write(data)
END
}
broken -4
exits 3 "tensor 'model.layers.1.mlp.down_proj.weight': 1 weights are NaN or Inf, which mxfp quantize refuses" \
	advise "$work/broken" --eval "$work/tokens.json" --bits 5
broken 0
python3 -c 'import json, sys; json.dump([[0, 1, 2]], open(sys.argv[1], "w"))' "$work/zero.json"
exits 3 "broken: 2 of 2 predictions are NaN, because logits are NaN or infinite, so nothing tells what formats cost" \
	advise "$work/broken" --formats mxfp4,mxfp8-e4m3 --eval "$work/zero.json" --bits 5 -o "$work/unknown.json"
check "a recipe that nothing tells" test ! -e "$work/unknown.json"
cp "$work/tokens.json" "$work/kept.json"
exits 2 "" advise "$work/llama" --eval "$work/kept.json" --bits 5 -fo "$work/kept.json"
check "the tokens were written over" cmp "$work/tokens.json" "$work/kept.json"

# A real model, of two of its five layers.
shared=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights
if [ ! -d "$shared" ]; then
	echo "$shared is not there: no real model is run"
elif [ "${MXFP_ISA:-}" != ref ]; then
	tokens=$(fewer_tokens "$shared/eval/self_generated.tokens.json")
	model=$shared/stories260K/stories260K.hf.f32.safetensors
	advised "$model" mxfp4,nvfp4,mxfp6-e2m3,mxfp8-e4m3 "$tokens" 5 --sequences 2 --pad-tail --ignore '*layers.[2-4].*'
	[ $slow = yes ] || check "a real model alone and by its recipe" python3 "$work/alone.py" "$mxfp" "$model" "$tokens" "$work/advised/5.json" \
		"$work/advised/recipe.json" --sequences 2 --pad-tail - '*layers.[2-4].*'
fi
check "something is left over" test -z "$(find "$work" -name '.*mxfp-*')"
finish
