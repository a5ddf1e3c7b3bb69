# SPDX-License-Identifier: MIT
"""
Compares GGUF files that mxfp made with those of llama.cpp's converter, and logits of both programs:
gguf_compare.py DIRECTORY, where NAME.gguf and NAME.theirs.gguf are of one model, NAME.results is what llama-results wrote of
NAME.gguf, and NAME.logits what mxfp eval --save-logits wrote of the model itself. gguf_compare.py DIRECTORY tokens TEXT writes
the tokens of NAME.results to NAME.tokens.json, and compares them with those that NAME/tokenizer.json gives the text.
"""
import json
import pathlib
import sys

import gguf
import numpy
import tokenizers

from checks import check
import checks
from eval_compare import read_logits

LOGITS_MOST = 2e-5  # of the largest; sums in binary32 in another order come to 2e-6
# What the converter says of a model's origin, or derives otherwise: its title has capitals.
APART = {"general.name", "general.size_label", "general.basename", "general.finetune", "general.version", "general.quantized_by",
         "general.sampling.temp", "general.sampling.top_p", "general.sampling.top_k", "general.file_type",
         "GGUF.kv_count", "GGUF.tensor_count"}
# What the class of a family has as its default, and llama.cpp takes for one too; what is written where nothing need be.
OURS_ALONE = {"attention.key_length", "attention.value_length", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
              "tokenizer.ggml.add_space_prefix",
              # Of NVFP4 weights without an input scale in any layout; the converter writes them for ModelOpt's W4A16_NVFP4.
              "general.tensor_extra.name", "general.tensor_extra.prec_a4"}
# What the converter derives from pairs of texts; llama.cpp has it false where it is not there.
THEIRS_ALONE = {"tokenizer.ggml.add_sep_token": False}


def values(reader):
    return {key: (field.types, field.contents()) for key, field in reader.fields.items() if key not in APART}


def plain(key, architecture):
    return key.removeprefix(architecture + ".")


def compare_pairs(name, ours, theirs):
    architecture = ours["general.architecture"][1]
    for key in sorted(ours.keys() | theirs.keys()):
        if key not in theirs and plain(key, architecture) in OURS_ALONE:
            continue
        if key not in ours and theirs[key][1] == THEIRS_ALONE.get(key):
            continue
        same = key in ours and key in theirs and ours[key] == theirs[key]
        check(f"{name}: {key}", same, f"{str(ours.get(key))[:300]}, converter {str(theirs.get(key))[:300]}")


def compare_tensors(name, ours, theirs):
    ours, theirs = ({tensor.name: tensor for tensor in reader.tensors} for reader in (ours, theirs))
    check(f"{name}: names", ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys()))
    for key in sorted(ours.keys() & theirs.keys()):
        a, b = ours[key], theirs[key]
        check(f"{name}: {key}: shape", list(a.shape) == list(b.shape), f"{a.shape}, {b.shape}")
        if a.tensor_type == b.tensor_type:
            check(f"{name}: {key}: bytes", a.data.tobytes() == b.data.tobytes(), a.tensor_type)
        else:
            # Numbers of 16 bits, which the converter was asked to make F32.
            check(f"{name}: {key}: numbers", numpy.array_equal(gguf.quants.dequantize(a.data, a.tensor_type), b.data), a.tensor_type)


def compare_logits(path):
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    theirs = tensors["logits"].reshape(len(tensors["tokens"]), -1).astype(numpy.float64)
    ours = read_logits(path.with_suffix(".logits"), theirs.shape[1])
    # The last token has nothing to predict, and no row of ours.
    errors = numpy.abs(ours - theirs[:len(ours)]).max() / numpy.abs(theirs).max()
    print(f"{path.stem}: logits differ by {errors:.1e} of the largest")
    check(f"{path.stem}: logits", len(ours) == len(theirs) - 1 and errors <= LOGITS_MOST, f"{errors:.1e}, {ours.shape}, {theirs.shape}")


def main():
    directory = pathlib.Path(sys.argv[1])
    if sys.argv[2:3] == ["tokens"]:
        for path in sorted(directory.glob("*.results")):
            tokens = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}["tokens"].tolist()
            path.with_suffix(".tokens.json").write_text(json.dumps(tokens) + "\n")
            theirs = tokenizers.Tokenizer.from_file(str(directory / path.stem / "tokenizer.json")).encode(sys.argv[3]).ids
            check(f"{path.stem}: tokens", tokens == theirs, f"{tokens}, {theirs}")
        print(f"{checks.checks} texts as tokens of llama-results, {checks.failures} failures")
        sys.exit(checks.failures != 0)
    for path in sorted(directory.glob("*.theirs.gguf")):
        name = path.name.removesuffix(".theirs.gguf")
        ours, theirs = gguf.GGUFReader(directory / f"{name}.gguf"), gguf.GGUFReader(path)
        compare_pairs(name, values(ours), values(theirs))
        compare_tensors(name, ours, theirs)
    for path in sorted(directory.glob("*.results")):
        compare_logits(path)
    print(f"{checks.checks} comparisons of GGUF files and their logits, {checks.failures} failures")
    sys.exit(checks.failures != 0)


main()
