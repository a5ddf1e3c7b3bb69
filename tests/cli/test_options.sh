#!/bin/bash
# SPDX-License-Identifier: MIT
# No option without effect: each option of each command is given in a run that does not use it, and is an error that names it;
# the run without it is right. The commands and options are those of --help, so that a new one needs its row below.
. "${srcdir:-.}/tests/cli/cli.shlib"
export LC_ALL=C
command -v python3 >/dev/null || { echo "no python3: no models"; exit 77; }
python3 "${srcdir:-.}/tests/cli/small_llama.py" "$work" || exit 99
python3 - "$work" <<'END' || exit 99
import json, random, struct, sys

draw = random.Random(3)
work = sys.argv[1]
with open(work + "/x.f32", "wb") as file:
    file.write(struct.pack("<64f", *(draw.gauss(0, 1) for _ in range(64))))
with open(work + "/x.bf16", "wb") as file:
    file.write(bytes(128))
header = {}
for i, (name, shape) in enumerate((("x", [32, 64]), ("w", [32, 64]))):
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [8192 * i, 8192 * (i + 1)]}
text = json.dumps(header).encode()
with open(work + "/xw.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + struct.pack("<4096f", *(draw.gauss(0, 1) for _ in range(4096))))
recipe = {"version": 1, "default": {"format": "nvfp4"}, "activations": "none",
          "rules": [{"match": ["*q_proj*"], "format": "mxfp4", "rule": "even"}]}
with open(work + "/recipe.json", "w") as file:
    json.dump(recipe, file)
# A GGUF file of one tensor, 32 x 64, in F16.
def string(s):
    return struct.pack("<Q", len(s)) + s.encode()
pairs = string("general.architecture") + struct.pack("<I", 8) + string("llama")
name = string("blk.0.ffn_up.weight") + struct.pack("<IQQIQ", 2, 64, 32, 1, 0)
data = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + pairs + name
data += bytes(-len(data) % 32)
with open(work + "/m.gguf", "wb") as file:
    file.write(data + struct.pack("<2048e", *(draw.gauss(0, 1) for _ in range(2048))))
END
cd "$work" || exit 99
printf 'a text' >text
"$mxfp" cast --to e4m3 x.f32 codes && "$mxfp" blocks --to mxfp4 --cols 64 x.f32 b.codes b.scales &&
	"$mxfp" blocks --to nvfp4 --cols 64 x.f32 n.codes n.scales >/dev/null &&
	"$mxfp" quantize model -q --weights nvfp4 -o quantized && "$mxfp" quantize m.gguf -q -o q.gguf --weights mxfp4 || exit 99

# Rows: COMMAND OPTION[=VALUE] | the other words of a run that has no use for it. "every: ..." are options that every run of
# the command uses: what it reads, writes and prints, how many threads it takes, which tensors it takes; and those that allow
# something (--force, --resume, --allow-rounding), which may be given where there is nothing to allow. "alone:" need a
# run of minutes or several processes: only the error is tried.
cat >rows <<'END'
transform exponent=1 | model --fold-norms -o OUT
transform fold-norms | model --rotate-stream -o OUT
transform rotation-size=4 | model --scale-norms -o OUT
transform every: output force scale-norms scale-values scale-mlp rotate-values rotate-stream threads json quiet
calibrate tokenizer=x | model --tokens tokens.json -o OUT
calibrate context=8 | model --activation-file inputs.npy -o OUT
calibrate sequences=1 | model --activation-file inputs.npy -o OUT
calibrate tokenizer=x | model --activation-file inputs.npy -o OUT
calibrate rule=even | model --tokens tokens.json -o OUT --weights nvfp4
calibrate rule=even | model --tokens tokens.json -o OUT --preset nvfp4
calibrate nvfp4-recipe=te | model --tokens tokens.json -o OUT
calibrate fuse | model --tokens tokens.json -o OUT
calibrate activation-rule=even | model --tokens tokens.json -o OUT --activations none
calibrate activation-rule=even | model --tokens tokens.json -o OUT --preset nvfp4
calibrate activation-rule=even | model --tokens tokens.json -o OUT --activations nvfp4
calibrate activation-rule=even | model --tokens tokens.json -o OUT --layout quark
calibrate preset=w4a8 | model --tokens tokens.json -o OUT --layout quark
calibrate pad-tail | model --tokens tokens.json -o OUT --sparsity 4:16
calibrate every: output force resume tokens text activation-file weights activations layout preset recipe sparsity
calibrate every: include ignore pad-tail damping mem threads json quiet
quantize rule=even | model -o OUT --weights nvfp4
quantize nvfp4-recipe=te | model -o OUT
quantize rule=even | model -o OUT --recipe recipe.json
quantize block=32x32 | model -o OUT --preset nvfp4
quantize fuse | model -o OUT
quantize fuse | m.gguf -o OUT.gguf --weights nvfp4
quantize activation-rule=even | model -o OUT --activations none
quantize activation-rule=even | model -o OUT --layout quark
quantize preset=w4a8 | model -o OUT --layout quark
quantize preset=w4a8 | m.gguf -o OUT.gguf
quantize pad-tail | m.gguf -o OUT.gguf
quantize pad-tail | model -o OUT --sparsity 4:16
quantize layout=compressed-tensors | m.gguf -o OUT.gguf
quantize seed=1 | model -o OUT
quantize bits=5 | model -o OUT
quantize shard-size=1M | model/model.safetensors -o OUT.safetensors
quantize part=1/2 | model/model.safetensors -o OUT.safetensors
quantize machines=2 | model -o OUT
quantize part=1/2 | model --dry-run --machines 2
quantize quiet | model --dry-run --machines 2
quantize rate-disk=1M | model --dry-run
quantize rate-net=1M | model --dry-run
quantize every: output weights activations recipe sparsity include ignore pad-tail round non-finite force dry-run resume mem
quantize every: threads json
dequantize every: output to all overflow threads force json resume quiet
merge every: output force json quiet
convert rule=even | quantized -o OUT
convert rule=even | quantized -o OUT --to nvfp4
convert non-finite=propagate | quantized -o OUT
convert ignore=* | quantized -o OUT
convert every: delete-source-shards part output to layout decode-rest allow-rounding mem threads force dry-run json resume quiet
report rules=even | model --formats nvfp4
report nvfp4-recipe=te | model --formats mxfp4
report formats=mxfp4 | model --against quantized
report sparsity=4:16 | model --against quantized
report round=rtz | model --against quantized
report force | model --formats mxfp4
report json | model --formats mxfp4 -o OUT.md
report json | model --formats mxfp4 -o OUT.json
report activation-rule=even | model --formats mxfp4 --activations nvfp4
report seed=1 | model --formats mxfp4 --activation-file inputs.npy
report tokenizer=x | model --formats mxfp4
report tokenizer=x | model --formats mxfp4 --eval tokens.json
report context=8 | model --formats mxfp4
report sequences=1 | model --formats mxfp4
report try=w4a8 | model --formats mxfp4
report calibrate=tokens.json | model --formats mxfp4
report profile | model --formats mxfp4
report acc=chain | model --formats mxfp4
report pass-k=128 | model --formats mxfp4 --eval tokens.json
report every: for against output fail-under activations activation-file activation-rows eval product-rows include ignore pad-tail
report every: threads quiet
advise output=OUT.json | model
advise force | model
advise rules=even | model --formats nvfp4
advise nvfp4-recipe=te | model --formats mxfp4
advise layout=modelopt | model --formats mxfp4 --eval tokens.json
advise pad-tail | model --layout gguf --formats mxfp4
advise tokenizer=x | model
advise tokenizer=x | model --formats mxfp4 --eval tokens.json
advise context=8 | model
advise skip=1 | model
advise sequences=1 | model
advise batch=8 | model
advise activations=none | model
advise activation-rule=even | model
advise calibrate=text | model --formats mxfp4
advise activation-rule=even | model --formats mxfp4 --eval tokens.json --for any --activations none
advise activation-rule=even | model --formats mxfp4 --eval tokens.json --for any --activations nvfp4
advise every: for bits formats include ignore pad-tail eval threads json quiet
eval tokenizer=x | model --tokens tokens.json
eval weights=mxfp4 | model --tokens tokens.json --try nvfp4
eval preset=w4a8 | model --tokens tokens.json --try nvfp4
eval recipe=recipe.json | model --tokens tokens.json --try nvfp4
eval by-layer | model --tokens tokens.json --try nvfp4
eval activations=mxfp4 | model --tokens tokens.json
eval activations=mxfp4 | model --tokens tokens.json --try f32,bf16
eval activations=mxfp4 | model --tokens tokens.json --try w4a8,nvfp4/none
eval rule=even | model --tokens tokens.json
eval rule=even | model --tokens tokens.json --weights nvfp4
eval rule=even | model --tokens tokens.json --try bf16,nvfp4,mxfp4:floor
eval rule=even | model --tokens tokens.json --recipe recipe.json
eval nvfp4-recipe=te | model --tokens tokens.json --preset w4a8
eval nvfp4-recipe=te | model --tokens tokens.json --try mxfp4,nvfp4:ggml
eval block=32x32 | model --tokens tokens.json --weights nvfp4
eval block=32x32 | model --tokens tokens.json --try bf16
eval fuse | model --tokens tokens.json --preset w4a8
eval fuse | model --tokens tokens.json --weights nvfp4 --nvfp4-recipe torchao-1
eval activation-rule=even | model --tokens tokens.json
eval activation-rule=even | model --tokens tokens.json --weights mxfp4
eval activation-rule=even | model --tokens tokens.json --attention nvfp4
eval include=*q_proj* | model --tokens tokens.json
eval ignore=*q_proj* | model --tokens tokens.json --try bf16
eval pad-tail | model --tokens tokens.json --kv-cache mxfp4
eval force | model --tokens tokens.json
eval pass-k=128 | model --tokens tokens.json
eval by-layer | model --tokens tokens.json --preset w4a8 --acc chain
eval save-logits=OUT | model --tokens tokens.json --try w4a8 --acc chain
eval prompt=x | model --tokens tokens.json
eval temperature=1 | model --tokens tokens.json
eval seed=1 | model --tokens tokens.json
eval alone: seed=1 | model --generate 4 --temperature 0
eval alone: tokens=tokens.json | model --generate 4
eval alone: text=text | model --generate 4
eval alone: skip=1 | model --generate 4
eval alone: sequences=1 | model --generate 4
eval alone: compare=model | model --generate 4
eval alone: try=w4a8 | model --generate 4
eval alone: by-layer | model --generate 4
eval alone: save-logits=OUT | model --generate 4
eval every: acc context generate kv-cache attention batch threads profile json quiet
gemm rule=even | xw.safetensors:x xw.safetensors:w -o OUT.npy
gemm rule=even | xw.safetensors:x xw.safetensors:w -o OUT.npy --w-format nvfp4
gemm a-rule=even | xw.safetensors:x xw.safetensors:w -o OUT.npy
gemm a-rule=even | xw.safetensors:x xw.safetensors:w -o OUT.npy --a-format nvfp4 --w-format mxfp8-e4m3
gemm nvfp4-recipe=te | xw.safetensors:x xw.safetensors:w -o OUT.npy --w-format mxfp4
gemm acc=chain | xw.safetensors:x xw.safetensors:w -o OUT.npy
gemm acc=exact | xw.safetensors:x xw.safetensors:w -o OUT.npy --w-format mxfp8-e4m3
gemm psum-round=sr | xw.safetensors:x xw.safetensors:w -o OUT.npy
gemm seed=1 | xw.safetensors:x xw.safetensors:w -o OUT.npy --psum bf16
gemm every: output w-format a-format transpose-a transpose-w pass-k c-format psum accumulate bias check threads force json quiet
diff every: json quiet
inspect every: json
lint output=OUT | model
lint force | model
lint against=model | model --ignore nibble-order
lint every: fix ignore json threads quiet
detect-rule every: ref all seed json quiet
cast seed=1 | --to e4m3 x.f32 OUT
cast stream=1 | --to e4m3 x.f32 OUT --round rtz
cast seed=1 | --to e4m3 --decode codes OUT
cast round=rtz | --to e4m3 --decode codes OUT
cast round=rtz | --to f32 --from bf16 x.bf16 OUT
cast round=rtz | --to bf16 --from bf16 x.bf16 OUT
cast overflow=ovf | --to e4m3 --decode --from bf16 codes OUT
cast no-negative-zero | --to e8m0 --decode codes OUT
cast every: to from decode threads counts json output force quiet
blocks rule=even | --to nvfp4 --cols 64 x.f32 OUT OUT2
blocks nvfp4-recipe=te | --to mxfp4 --cols 64 x.f32 OUT OUT2
blocks amax=1 | --to mxfp4 --cols 64 x.f32 OUT OUT2
blocks amax=1 | --to nvfp4 --cols 64 --decode --tensor-scale 1 --nvfp4-recipe te n.codes n.scales OUT
blocks tensor-scale=1 | --to nvfp4 --cols 64 x.f32 OUT OUT2
blocks via-bf16 | --to nvfp4 --cols 64 x.f32 OUT OUT2
blocks via-bf16 | --to mxfp4 --cols 64 --from bf16 x.bf16 OUT OUT2
blocks seed=1 | --to mxfp4 --cols 64 x.f32 OUT OUT2
blocks stream=1 | --to mxfp4 --cols 64 x.f32 OUT OUT2
blocks rule=even | --to mxfp4 --cols 64 --decode b.codes b.scales OUT
blocks round=rtz | --to mxfp4 --cols 64 --decode b.codes b.scales OUT
blocks non-finite=error | --to mxfp4 --cols 64 --decode b.codes b.scales OUT
blocks no-negative-zero | --to mxfp4 --cols 64 --decode b.codes b.scales OUT
blocks counts | --to mxfp4 --cols 64 --decode b.codes b.scales OUT
blocks json | --to mxfp4 --cols 64 --decode b.codes b.scales OUT
blocks every: to cols from decode threads force quiet
engine batch=8 | --shape 8,8,8
engine topk=1 | --shape 8,8,8
engine skew=0 | --shape 8,8,8
engine seed=1 | --shape 8,8,8
engine topk=2 | --model model
engine expert-shape=8,8 | --shape 8,8,8
engine threads=2 | --shape 8,8,8
engine force | --shape 8,8,8
engine clock=1000 | --shape 8,8,8 --chip trainium4
engine sparsity=4:16 | --shape 8,64,64 --run
engine svg=OUT.svg | --shape 8,8,8 --chip trainium4
engine sequences=1 | --shape 8,8,8
engine context=2048 | --shape 8,8,8
engine cache=bf16 | --shape 8,8,8
engine chips=1 | --shape 8,8,8
engine shape=8,8,8 | --layer llama-8b --batch 16
engine experts=8 | --layer llama-8b --batch 16
engine model=model | --layer llama-8b --batch 16
engine result=f32 | --layer llama-8b --batch 16
engine cut=0 | --layer llama-8b --batch 16
engine run | --layer llama-8b --batch 16
engine topk=2 | --layer llama-8b --batch 16
engine skew=1 | --layer llama-8b --batch 16
engine seed=0 | --layer llama-8b --batch 16
engine every: layer activations weights chip cores bandwidth json
allreduce rule=even | --payload bf16 --numbers 64
allreduce round=rtz | --payload f32 --numbers 64
allreduce seed=1 | --payload mxfp4 xw.safetensors:x xw.safetensors:w
allreduce numbers=64 | --payload mxfp4 xw.safetensors:x xw.safetensors:w
allreduce ranks=2 | --payload mxfp4 xw.safetensors:x xw.safetensors:w
allreduce error-feedback | --payload mxfp4 --numbers 64
allreduce error-feedback | --payload f32 --numbers 64 --steps 2
allreduce timeout=60 | --numbers 64
allreduce every: payload steps threads json
bench alone: data=t4 | --op scan
bench alone: shape=64x64x64 | --op quantize
bench alone: in=l2 | --op gemm --shape 64x64x64
bench alone: all | --op gemm
bench every: quick json op format tier threads
info every: json
conform alone: like=torch | true --probe
conform alone: products=64 | true
conform every: only probe quick seed timeout json
completion every:
transform every: allow-unknown
calibrate every: allow-unknown
quantize every: allow-unknown
dequantize every: allow-unknown
convert every: allow-unknown
report every: allow-unknown
advise every: allow-unknown
detect-rule every: allow-unknown
diff every: allow-unknown
eval every: allow-unknown
gemm every: allow-unknown
lint every: allow-unknown
END
python3 - inputs.npy <<'END'
import random, struct, sys
draw = random.Random(4)
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (128, 32), }"
head += " " * (63 - (len(head) + 10) % 64) + "\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
               struct.pack("<4096f", *(draw.gauss(0, 1) for _ in range(4096))))
END

# Every option of every command has a row, and every row an option.
exits 0 "" --help
commands=$(sed -n 's/^.\{8\}\([a-z][a-z-]*\)  .*/\1/p' out)
for command in $commands; do
	exits 0 "" "$command" --help
	sed -nE "s/^  (-(.),|   ) --([a-z0-9-]+) ?([^ ]*).*/$command \3 \2 \4/p" out | sed 's/^\([^ ]* [^ ]*\)  /\1 - /' >>options
done
awk '$2 != "help" { print $1, $2 }' options | sort >is
{
	sed -n 's/ every: / /p' rows | awk '{ for (i = 2; i <= NF; i++) print $1, $i }'
	sed 's/ alone:/ /; / every:/d' rows | awk '{ sub(/=.*/, "", $2); print $1, $2 }'
} | sort -u >has
same "options without a row in this test" "" "$(comm -23 is has | tr '\n' ',')"
same "rows of no option" "" "$(comm -13 is has | tr '\n' ',')"

# A letter stands for one option in all commands, and an option takes a file, a number, another value or none in all of them.
same "letters of several options" "" "$(awk '$3 != "-" { print $3, $2 }' options | sort -u | awk 'n[$1]++ { print $1 }')"
same "options of several kinds" "" "$(awk '
	{ value = $4
	  kind = value ~ /^[NTKE]$|^MHZ$|^SECONDS$/ ? "number" : value ~ /^(FILE|OUT|BYTES$)/ ? "file" : value ~ /^[A-Za-z0-9]/ && value ~ /[A-Z|,]/ ? "value" : "flag"
	  print $2, kind }' options | sort -u | awk 'n[$1]++ { print $1 }')"

clean() {
	find . -maxdepth 1 -name 'OUT*' -exec rm -rf {} +
}
# tried WORD...: whether a run succeeds; each once.
declare -A worked
tried() {
	if [ -z "${worked[$*]}" ]; then
		worked[$*]=no
		if "$mxfp" "$@" >out 2>err </dev/null; then
			worked[$*]=yes
		fi
		clean
	fi
	[ "${worked[$*]}" = yes ]
}
set -f
while read -r command row; do
	case $row in
	every:*) continue ;;
	alone:*) alone=yes row=${row#alone: } ;;
	*) alone= ;;
	esac
	option=${row%% | *} words=${row#* | }
	name=${option%%=*}
	[ -n "$alone" ] || check "'$command $words' fails: $(cat err 2>/dev/null)" tried $command $words
	exits 2 "--$name" $command $words --$option
	case $error in
	*"unknown value"* | *"invalid value"* | *"unknown option"* | *"needs a value"*) bad "the row of '$command --$option': $error" ;;
	esac
	same "output of '$command $words --$option'" "" "$(find . -name 'OUT*'; cat out)"
	clean
done <rows
set +f

# A preset that nobody named may lose its activations, and the summary says so.
exits 0 "" quantize model -o OUT --layout quark
has "activations that are lost" "$(cat "$work/out")" "activations are left as they are: layout quark cannot say mxfp8-e4m3 of mxfp4"
exits 2 "layout compressed-tensors is for .safetensors files" convert q.gguf -o OUT.gguf --layout compressed-tensors
# An option is no value of another: "-o --force" would write a directory of that name.
exits 2 "option --output needs a value, and '--force' is an option; --output=--force takes it" quantize model -o --force
exits 2 "option --rule needs a value, and '--json' is an option" quantize model -o OUT --rule --json
exits 0 "" cast --to e4m3 x.f32 --output=--force -q
check "a file that is named like an option is not written" test -f ./--force
finish
