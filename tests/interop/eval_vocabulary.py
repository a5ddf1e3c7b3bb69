# SPDX-License-Identifier: MIT
"""
Vocabularies for the models of eval_gguf.py and eval_bench.py, of both kinds that GGUF files have: bytes, letters and a few
pairs of these. What they hold is of no matter to logits; llama.cpp loads no model without. And that of another file.
"""
import gguf

LETTERS = "\u2581etaonhisrdlu"
PAIRS = [("\u2581", "t"), ("h", "e"), ("a", "n"), ("\u2581", "a"), ("i", "n"), ("e", "r"), ("\u2581t", "he"), ("an", "d")]
Kind = gguf.TokenType


def sentencepiece(writer, size):
    """The Llama kind: three that control, 256 bytes, letters, and pairs of these, best first."""
    tokens = [("<unk>", Kind.UNKNOWN), ("<s>", Kind.CONTROL), ("</s>", Kind.CONTROL)]
    tokens += [(f"<0x{byte:02X}>", Kind.BYTE) for byte in range(256)]
    tokens += [("".join(pair), Kind.NORMAL) for pair in PAIRS] + [(letter, Kind.NORMAL) for letter in LETTERS]
    tokens += [(f"<unused{i}>", Kind.UNUSED) for i in range(size - len(tokens))]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text.encode() for text, _ in tokens])
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def byte_characters():
    """The characters by which GPT-2's vocabulary writes bytes: those that print, and then U+0100 and on."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in kept else next(others)) for byte in range(256)]


def byte_pairs(writer, size, pre):
    """The kind of GPT-2: two that control, 256 bytes, and pairs."""
    space = byte_characters()[ord(" ")]
    pairs = [tuple(part.replace("\u2581", space) for part in pair) for pair in PAIRS]
    tokens = [("<unk>", Kind.CONTROL), ("<|begin|>", Kind.CONTROL), ("<|end|>", Kind.CONTROL)]
    tokens += [(character, Kind.NORMAL) for character in byte_characters()]
    tokens += [("".join(pair), Kind.NORMAL) for pair in pairs]
    tokens += [(f"<unused{i}>", Kind.UNUSED) for i in range(size - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_token_merges([" ".join(pair) for pair in pairs])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(pre == "llama-bpe")


def copied(writer, path):
    """That of a GGUF file of the Llama kind."""
    fields = gguf.GGUFReader(path).fields
    writer.add_tokenizer_model("llama")
    for key, add in (("tokens", writer.add_token_list), ("scores", writer.add_token_scores),
                     ("token_type", writer.add_token_types), ("bos_token_id", writer.add_bos_token_id),
                     ("eos_token_id", writer.add_eos_token_id), ("unknown_token_id", writer.add_unk_token_id)):
        field = fields.get(f"tokenizer.ggml.{key}")
        if field is not None:
            add(field.contents())
