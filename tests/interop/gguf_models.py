# SPDX-License-Identifier: MIT
"""
Gives models of eval_models.py what a GGUF file is made from besides: gguf_models.py DIRECTORY puts tokenizer.json,
tokenizer_config.json and, of SentencePiece's kind, tokenizer.model into each DIRECTORY/NAME. Their vocabularies are smaller
than their embeddings, which are padded.
"""
import json
import pathlib
import sys

import sentencepiece
import tokenizers
import transformers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

SUFFIXES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERNS = {
    "llama3": SUFFIXES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS,
    "qwen": SUFFIXES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS,
    "gpt-oss": "|".join((
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + SUFFIXES + "?",
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + SUFFIXES + "?",
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS)),
}
TEXT = ["the cat and the other hat that is on it then and there", "an ant has the eel", "these are those and this is that"]


def byte_pairs(directory, pattern, size, ignores, composes):
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=ignores))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if composes:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(
        vocab_size=size - 8, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<|endoftext|>", "<|end|>"]))
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<|looks|>", normalized=False)])
    if ignores:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|> $B", special_tokens=[("<|endoftext|>", 0)])
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "chat_template": "{{ messages }}"}
    if ignores:
        config["bos_token"] = "<|endoftext|>"
    (directory / "tokenizer_config.json").write_text(json.dumps(config) + "\n")


def sentence_pieces(directory, size):
    corpus = directory / "corpus"
    corpus.write_text("\n".join(TEXT) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(directory / "tokenizer"), model_type="bpe", byte_fallback=True,
        vocab_size=size - 4, character_coverage=1.0, minloglevel=2, normalization_rule_name="identity",
        hard_vocab_limit=False, remove_extra_whitespaces=False)
    corpus.unlink()
    (directory / "tokenizer.vocab").unlink()
    transformers.LlamaTokenizer.from_pretrained(directory).save_pretrained(directory)
    config = json.loads((directory / "tokenizer_config.json").read_text())
    form = json.loads((directory / "tokenizer.json").read_text())
    form["post_processor"] = {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    # What files of transformers 4 have, and the converter reads types from.
    config["added_tokens_decoder"] = {str(token["id"]): {key: token[key] for key in token if key != "id"}
                                      for token in form["added_tokens"]}
    (directory / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    (directory / "tokenizer.json").write_text(json.dumps(form) + "\n")


def main():
    directories = [path.parent for path in sorted(pathlib.Path(sys.argv[1]).glob("*/config.json"))]
    for directory in directories:
        size = json.loads((directory / "config.json").read_text())["vocab_size"]
        kinds = [kind for kind in PATTERNS if directory.name.startswith(kind)]
        if kinds:
            byte_pairs(directory, PATTERNS[kinds[0]], size, kinds[0] == "llama3", kinds[0] == "qwen")
        else:
            sentence_pieces(directory, size)
    print(f"{len(directories)} models given a vocabulary, 0 failures")


main()
