#!/bin/sh
# SPDX-License-Identifier: MIT
# What users give in place of a model: the error says what it is and what to do. First bytes and names are those that the
# programs write: sentencepiece_model.proto, onnx.proto, ggml.c of 2023, POSIX's ustar, huggingface_hub's cache and downloads.
. "${srcdir:-.}/tests/cli/cli.shlib"
python3 "${srcdir:-.}/tests/cli/small_llama.py" "$work" || exit 99
cd "$work" || exit 99
printf 'a b c' >text.txt
mkdir -p there

# A model of the Hub, in every command that reads one, and as a tokenizer.
get="hf download meta-llama/Llama-3.1-8B --local-dir Llama-3.1-8B"
for command in inspect lint report advise "quantize -o out" "dequantize -o out" "convert -o out --layout modelopt" "diff model" \
	"eval --text text.txt" "calibrate -o out --text text.txt" "engine --layer" "detect-rule --ref model" \
	"eval model --text text.txt --tokenizer"; do
	# shellcheck disable=SC2086
	exits 4 "$get" $command meta-llama/Llama-3.1-8B
done
for id in hf:// https://huggingface.co/ https://hf.co/ hf.co/; do
	exits 4 "so download the model and name its directory: $get" inspect "${id}meta-llama/Llama-3.1-8B"
done
exits 4 "$get" inspect hf://meta-llama/Llama-3.1-8B:Q8_0
exits 4 "$get" inspect https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main
exits 4 "is a URL; mxfp reads local files" inspect s3://bucket/model.safetensors
# What can be no id is as before: a directory that is there, a file's name, more than two parts, one part.
for path in there/Llama-3.1-8B nowhere/model.safetensors a/b/c alone; do
	exits 4 "$path: cannot open: No such file or directory; check the path" inspect "$path"
done

# First bytes. FILE TEXT HEX...
is() {
	file=$1 text=$2
	shift 2
	bytes "$@" >"$file"
	exits 3 "$file: $text" inspect "$file"
}
is tokenizer.model "is a tokenizer of SentencePiece, not weights" 0a0e 0a05 3c756e6b3e 15 00000000 1802
is m.onnx "is a graph of ONNX" 0808 1207 7079746f726368 1a05 322e342e30
is m.tflite "is a TensorFlow Lite model" 1c000000 54464c33 0000000000000000
is m.bin "is a GGML file of before GGUF" 746a6767 03000000 007d0000
is m.ggml "is a GGML file of before GGUF" 6c6d6767 007d0000
is imatrix.dat "is an importance matrix of llama.cpp" 02000000 13000000 626c6b2e302e6174746e5f712e776569676874
is zeros.safetensors "begins with zeros, as a file that was not downloaded to its end" "$(repeat 40 00)"
is zeros.gguf "begins with zeros" "$(repeat 40 00)"
is empty.safetensors "is empty; download" ""
is xet.safetensors "is a pointer of git-xet" "$(printf '# xet version 0\n' | hex)"
is message.safetensors "is text, not weights; see what it says" "$(printf 'Rate limit exceeded' | hex)"
is config.json "is JSON, not weights; name the directory that it is in" 7b7d
is unknown "is not in a known file format" 0102030405
is short.safetensors "has 4 bytes, too few for a safetensors file; it may have been cut off: download" 00010000
exits 3 "text.txt: is not in a known file format" inspect text.txt
repeat 9 'a b c ' >long.txt
exits 3 "long.txt: is text, not weights; give a model" inspect long.txt
# Zip archives by their first member, whose name is at byte 30.
zip="504b0304 1400 0000 0000 0000 0000 00000000 00000000 00000000"
is m.pt "is a PyTorch file" "$zip" 1000 0000 "$(printf 'archive/data.pkl' | hex)"
is m.npz "is an archive of numpy.savez(); unzip it" "$zip" 0900 0000 "$(printf 'arr_0.npy' | hex)"
is m.zip "is a zip archive" "$zip" 0500 0000 "$(printf 'a.txt' | hex)"
mkdir unpacked && echo x >unpacked/x && tar -cf model.nemo unpacked
exits 3 "model.nemo: is a tar archive; unpack it" inspect model.nemo

# Directories. DIRECTORY TEXT ENTRY...: of empty files.
holds() {
	directory=$1 text=$2
	shift 2
	for entry in "$@"; do
		mkdir -p "$directory/$(dirname "$entry")"
		: >"$directory/$entry"
	done
	for command in inspect lint "quantize -o out"; do
		# shellcheck disable=SC2086
		exits 3 "$directory: $text" $command "$directory"
	done
}
none="has no model.safetensors and no model.safetensors.index.json:"
mkdir nothing
holds nothing "is empty; name a file or the directory of a model"
holds notes "$none name a file or the directory of a model" notes.doc
holds pickles "$none its weights ('pytorch_model-00001-of-00002.bin') are PyTorch's" \
	config.json pytorch_model-00002-of-00002.bin pytorch_model-00001-of-00002.bin pytorch_model.bin.index.json
holds meta "$none its weights ('consolidated.00.pth') are PyTorch's" consolidated.00.pth params.json tokenizer.model
holds adapter "$none 'adapter_model.safetensors' is an adapter (LoRA)" adapter_config.json adapter_model.safetensors
holds pipeline "$none it is a pipeline of diffusers" model_index.json unet/diffusion_pytorch_model.safetensors
holds one "$none name one/flux.safetensors" config.json flux.safetensors
holds two "$none name a file, such as two/a.safetensors" b.safetensors a.safetensors
holds index "$none name index/diffusion_pytorch_model.safetensors.index.json" diffusion_pytorch_model.safetensors.index.json \
	diffusion_pytorch_model-00001-of-00002.safetensors
holds shards "$none it has shards such as 'model-00001-of-00002.safetensors' and not the index" model-00001-of-00002.safetensors
holds ggufs "$none name a file, such as ggufs/m-Q4_0.gguf" m-Q8_0.gguf m-Q4_0.gguf
holds config "$none it has a 'config.json' and no weights; download all files" config.json tokenizer.json
holds words "$none it has a tokenizer ('tokenizer.model') and no weights" tokenizer.model
holds clone "$none it is a clone without weights; git lfs pull" .git/HEAD README.md
holds begun "$none 'model.safetensors.incomplete' shows that the download is not complete" model.safetensors.incomplete config.json
holds local "has no weights: the download is not complete; run it again" config.json .cache/huggingface/download/x.incomplete
holds hub "$none it is the cache of the Hugging Face Hub; name a directory in hub/models--a--b/snapshots" models--a--b/refs/main
holds hub/models--a--b "is a repository in the cache of the Hugging Face Hub; name a directory in its snapshots" snapshots/0123abcd/x
printf 0123abcd >hub/models--a--b/refs/main
holds hub/models--a--b "is a repository in the cache of the Hugging Face Hub; name hub/models--a--b/snapshots/0123abcd" refs/x

# Tokenizers that are not read, beside a model and named.
rm -f model/tokenizer.json
exits 3 "model: has no tokenizer.json beside it" eval model --text text.txt
printf '{}' >model/vocab.json
exits 3 "model/vocab.json: is a tokenizer that is not read" eval model --text text.txt
cp tokenizer.model model
exits 3 "model/tokenizer.model: is a tokenizer that is not read (SentencePiece's), and no tokenizer.json is there; AutoTokenizer" \
	eval model --text text.txt
exits 3 "words/tokenizer.model: is a tokenizer that is not read" eval model --text text.txt --tokenizer words
exits 3 "tokenizer.model: is a tokenizer that is not read" eval model --text text.txt --tokenizer tokenizer.model
exits 4 "nowhere.model: cannot open" eval model --text text.txt --tokenizer nowhere.model

# --layer of engine takes a config.json.
: >w.gguf
exits 3 "w.gguf: has weights, and --layer takes a config.json, or the directory with one" engine --layer w.gguf

exits 4 "cannot create: No such file or directory; make the directory that it is to be in" quantize model -o nowhere/out
# A user who may not write there; root may.
mkdir -m 555 closed
chmod 711 "$work"
all=$mxfp
if [ "$(id -u)" = 0 ]; then
	printf '#!/bin/sh\nexec setpriv --reuid=65534 --clear-groups "%s" "$@"\n' "$all" >nobody
	chmod +x nobody
	mxfp=$work/nobody
fi
if "$mxfp" --version >/dev/null 2>&1; then
	exits 4 "cannot create: Permission denied; name one in a directory that you may write to" quantize model/model.safetensors -o closed/out
else
	echo "not run as another user"
fi
mxfp=$all
# A tensor that a llama does not have: run without it where it is named, or its module; the numbers are those without it.
python3 - model/model.safetensors <<'PY' || exit 99
import json, os, struct, sys
text = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", text[:8])[0]
header, data = json.loads(text[8:8 + n]), text[8 + n:]
header["mtp.fc.weight"] = {"dtype": "F32", "shape": [2, 2], "data_offsets": [len(data), len(data) + 16]}
new = json.dumps(header).encode()
os.mkdir("more")
open("more/model.safetensors", "wb").write(struct.pack("<Q", len(new)) + new + data + bytes(16))
PY
cp model/config.json more
exits 0 "" eval model --tokens tokens.json -q
plain=$(grep perplexity out)
exits 3 "tensor 'mtp.fc.weight': a model of llama has no such tensor; --allow-unknown mtp.fc.weight goes on without it" \
	eval more --tokens tokens.json
for key in mtp.fc.weight mtp.fc mtp; do
	exits 0 "" eval more --tokens tokens.json -q --allow-unknown $key
	same "without $key" "$plain" "$(grep perplexity out)"
done
for key in mt mtp.f fc.weight; do
	exits 3 "tensor 'mtp.fc.weight': a model of llama has no such tensor" eval more --tokens tokens.json --allow-unknown $key
done

# A name that leaves no room for what is added to it while it is written.
name=$(repeat 250 a)
exits 4 "File name too long; while it is written, .partial is added to it: give a shorter one" quantize model -o "$name"
finish
