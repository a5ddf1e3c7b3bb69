# SPDX-License-Identifier: MIT
"""
Models as llama.cpp's own converter writes them: gguf_theirs.py DIRECTORY NAME... makes DIRECTORY/NAME.theirs.gguf of
DIRECTORY/NAME. It knows a way to cut words by a hash of what a tokenizer makes of a text, so that of a small vocabulary is
told.
"""
import pathlib
import sys

import gguf

sys.path.insert(1, "/usr/share/llama.cpp/llama.cpp-tools")  # where Debian has the modules of convert_hf_to_gguf.py
import conversion  # noqa: E402
import torch  # noqa: E402

PRE = {"llama3": "llama-bpe", "qwen": "qwen2", "gpt-oss": "gpt-4o"}


def convert(directory):
    parameters = conversion.ModelBase.load_hparams(directory, False)
    family = conversion.get_model_class(conversion.get_model_architecture(parameters, conversion.ModelType.TEXT))

    class Model(family):
        model_arch = family.model_arch

        def get_vocab_base_pre(self, tokenizer):
            return next(PRE[start] for start in PRE if directory.name.startswith(start))

    with torch.inference_mode():
        Model(directory, gguf.LlamaFileType.ALL_F32, directory.with_name(directory.name + ".theirs.gguf")).write()


def main():
    for name in sys.argv[2:]:
        convert(pathlib.Path(sys.argv[1]) / name)
    print(f"{len(sys.argv) - 2} models seen by llama.cpp's converter, 0 failures")


main()
