# SPDX-License-Identifier: MIT
"""
The models of eval_models.py as llama.cpp's own converter writes them, which permutes rows, renames tensors and turns
config.json into metadata: eval_gguf.py DIRECTORY [NAME...] makes DIRECTORY/NAME.gguf of DIRECTORY/NAME. Models named
stories* have the vocabulary of DIRECTORY/stories260K.f32.gguf, so that they can be run on a text.
"""
import pathlib
import sys

import gguf
import torch

import eval_vocabulary

sys.path.insert(1, "/usr/share/llama.cpp/llama.cpp-tools")  # where Debian has the modules of convert_hf_to_gguf.py
import conversion  # noqa: E402

# What GGUF cannot say: windows of some layers of Qwen2, or layers without experts between others that have them.
WITHOUT = ("qwen2-window", "qwen3-moe-dense")


def convert(directory):
    parameters = conversion.ModelBase.load_hparams(directory, False)
    family = conversion.get_model_class(conversion.get_model_architecture(parameters, conversion.ModelType.TEXT))
    size = parameters["vocab_size"]
    pre = {"llama3": "llama-bpe", "qwen": "qwen2", "gpt-oss": "gpt-4o"}

    class Model(family):
        model_arch = family.model_arch

        def set_vocab(self):
            if directory.name.startswith("stories"):
                eval_vocabulary.copied(self.gguf_writer, directory.with_name("stories260K.f32.gguf"))
                return
            kinds = [pre[start] for start in pre if directory.name.startswith(start)]
            if kinds:
                eval_vocabulary.byte_pairs(self.gguf_writer, size, kinds[0])
            else:
                eval_vocabulary.sentencepiece(self.gguf_writer, size)

    with torch.inference_mode():
        Model(directory, gguf.LlamaFileType.ALL_F32, directory.with_name(directory.name + ".gguf")).write()


def main():
    directory = pathlib.Path(sys.argv[1])
    names = sys.argv[2:] or sorted(path.parent.name for path in directory.glob("*/config.json"))
    for name in names:
        if name not in WITHOUT:
            convert(directory / name)
    print(f"{len(names)} models seen by llama.cpp's converter, 0 failures")


main()
