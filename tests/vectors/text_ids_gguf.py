# SPDX-License-Identifier: MIT
"""
Asks llama.cpp's llama-tokenize what it makes of the texts of expected.json: text_ids_gguf.py DIRECTORY, which holds what
text_ids.py wrote, writes there PRE.gguf, the vocabulary of llama3.json with that tokenizer.ggml.pre, spm.gguf, a small
SentencePiece vocabulary, and expected_gguf.json.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf

PRE = ["default", "gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "tekken"]
# Lists of expressions that differ from llama.cpp's in letters beyond ASCII: asked about ASCII alone.
ASCII = ["gpt-4o", "tekken"]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def write(path, model, tokens, types, **more):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for key, value in more.items():
        getattr(writer, key)(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_bpe(path, form, pre):
    vocabulary = sorted(form["model"]["vocab"].items(), key=lambda item: item[1])
    tokens = [token for token, _ in vocabulary] + ["<tool_call>", "  \n"]
    types = [CONTROL if token in ("<s>", "</s>") else NORMAL for token, _ in vocabulary] + [USER_DEFINED, USER_DEFINED]
    write(path, "gpt2", tokens, types, add_tokenizer_pre=pre, add_bos_token_id=0, add_eos_token_id=1,
          add_token_merges=[" ".join(pair) for pair in form["model"]["merges"]])


def write_spm(path):
    """Scores as SentencePiece trains them, minus the rank; equal ones, and tokens across words, besides."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    scores = [0.0] * len(tokens)
    words = ["▁t", "he", "▁the", "er", "in", "▁a", "on", "▁th", "lo", "lower", "▁lo", "es", "▁w", "ab", "aba", "bab", "▁▁", "▁▁▁▁",
             "tt", "ttt", "tttt", "ll", "hello", "hel", "▁hel", "o▁w", "日本", "本語", "ß", "ü", "éa", "'s", "<s>x"]
    letters = "▁etaoinshrdlcumwfgypbvkxjqz日本語é👍"
    for rank, token in enumerate(words + list(letters)):
        tokens.append(token)
        types.append(NORMAL)
        scores.append(-float(rank // 2))
    tokens += ["<tool_call>", "<mask>"]
    types += [USER_DEFINED, UNUSED]
    scores += [0.0, 0.0]
    write(path, "llama", tokens, types, add_token_scores=scores, add_bos_token_id=1, add_eos_token_id=2,
          add_unk_token_id=0, add_add_bos_token=True, add_add_eos_token=True)


def ask(path, text):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", newline="") as file:
        file.write(text)
        file.flush()
        answer = subprocess.run(["llama-tokenize", "-m", path, "-f", file.name, "--ids", "--no-parse-special", "--log-disable"],
                                capture_output=True, check=True, text=True)
    return json.loads(answer.stdout.strip().splitlines()[-1])


def main():
    directory = pathlib.Path(sys.argv[1])
    # llama-tokenize ends a text at NUL.
    texts = [text for text in json.loads((directory / "expected.json").read_text())["texts"] if "\0" not in text]
    form = json.loads((directory / "llama3.json").read_text())
    for pre in PRE:
        write_bpe(directory / f"{pre}.gguf", form, pre)
    write_spm(directory / "spm.gguf")
    expected = {"texts": texts, "tokenizers": {}}
    for name in PRE + ["spm"]:
        path = directory / f"{name}.gguf"
        expected["tokenizers"][name] = [ask(path, text) if name not in ASCII or text.isascii() else None for text in texts]
    (directory / "expected_gguf.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


main()
