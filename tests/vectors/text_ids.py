# SPDX-License-Identifier: MIT
"""
Makes small tokenizers of every form that models have, by the package tokenizers, and asks it what they make of texts:
text_ids.py DIRECTORY writes NAME.json, a tokenizer, and expected.json, texts with the ids and what those decode to.
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SUFFIXES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = SUFFIXES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
QWEN2 = SUFFIXES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = "|".join((
    r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + SUFFIXES + "?",
    r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + SUFFIXES + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", BLANKS))

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "\n", "\n\n", " \n ", "\t", "\r\n", "a\nb", "a \n b", "a\r\n\r\nb", "hello world",
    " hello  world ", "hello   world", "Hello, WORLD! It's we'll THEY'RE I'd don't 'S 'sS 'LL'", "a'b 'tis O'Neill's",
    "1", "12", "123", "1234", "12345 6.78 9,012 0x1F", "x1y22z333", "½ ² Ⅷ ٣٤٥ १२३",
    "the cat sat on the mat", "lower lowest newer newest wider", "thethethethethethe", "t" * 300, "ab" * 200, " " * 50,
    "\n" * 40 + "x", "foo(bar[baz]{qux}) => !== // **bold** __x__ #tag @me $9.99 50% a&b c|d ~e ^f `g` \\h",
    "http://example.org/path?query=1&b=2#top", "def f(x):\n\treturn x ** 2  # square\n\n\nprint(f(3))\n",
    "Grüße aus Köln: Äpfel, Öl, Übermut, Straße, STRASSE", "cafe\u0301 caf\u00e9 e\u0302\u0323 \u1ec7 \u0323\u0302e",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 한국 \u212b \u2126 \ufb01 \u0344", "日本語のテキスト、漢字とカナ。中文字符", "नमस्ते दुनिया क्षि",
    "السلام عليكم", "שָׁלוֹם", "Привет, мир! ЁЖ", "Ελληνικά ΟΔΥΣΣΕΥΣ ς", "ไทยภาษา", "👩\u200d👩\u200d👧\u200d👦 👍🏽 🇩🇪 😀😀", "\U0001d552\U0001d553 \U0010ffff",
    "nbsp\u00a0here\u2003em\u3000wide\u0085nel\u2028ls\u200bzw\ufeffbom", "\u0000\u0002\u001b[0m\u007f", "soft\u00adhyphen \u017fs 'ſ \u212a",
    "▁under ▁▁score ▁", "a▁b", " ▁x", "<s>hello</s>", "x<s> y </s>z", "<unk>", "<0x41><0x0A>",
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|> c", "<tool_call>{\"a\": 1}</tool_call>\n<tool_call>", "<tool", "<tool_call",
    "<mask> x<mask>y   <mask>   z", "word alone word, words wordword sword word", "xyzzy xyzzyy XYZZY", "NEW new\nNEW",
    "aaa<pad>bbb<pad><pad>", "A\u030angstro\u0308m co\u0323\u0302ng c\u1ed9 \u0958 \u2adc", "İstanbul ıI ß ŉ ǰ",
]


def corpus():
    """Some thousand words, of a few hundred different ones, and the texts."""
    rng = random.Random(20261123)
    syllables = ["the", "er", "in", "on", "st", "lo", "w", "new", "wid", "cat", "sat", "mat", "hel", "lo", "wor", "ld", "ing",
                 "ed", "ü", "ß", "é", "日本", "при", "вет", "12", "7", "THE", "New", "x"]
    words = ["".join(rng.choice(syllables) for _ in range(rng.randint(1, 4))) for _ in range(300)]
    lines = [" ".join(rng.choice(words) for _ in range(12)) for _ in range(400)]
    return lines + ["def f(x):\n    return x  # it's\n\n"] * 20 + ["hello world, they're here.\n"] * 40


def train(model, pre_tokenizer, size, alphabet=(), special=(), normalizer=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), special_tokens=list(special),
                                  show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_level(pre_tokenizer, special, ignore_merges=False, normalizer=None):
    tokenizer = train(models.BPE(ignore_merges=ignore_merges), pre_tokenizer, 420, pre_tokenizers.ByteLevel.alphabet(),
                      special, normalizer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior, invert),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def prefix_space():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), ["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("xyzzy", normalized=True), AddedToken("word", single_word=True, normalized=False),
                          AddedToken("<mask>", lstrip=True, rstrip=True, special=True), AddedToken("NEW", normalized=False)])
    return tokenizer


def llama3():
    tokenizer = byte_level(split(LLAMA3), ["<s>", "</s>"], ignore_merges=True)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])])
    return tokenizer


def qwen2():
    tokenizer = byte_level(split(QWEN2), ["<|endoftext|>"], normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False),
                          AddedToken("<tool", normalized=True), AddedToken("\u1ed9", normalized=True)])
    return tokenizer


def o200k():
    return byte_level(split(O200K, "removed", True), ["<|endoftext|>"])


def digits():
    return byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex(r"[A-Z]+"), "contiguous"),
        pre_tokenizers.Split("x", "merged_with_previous"), pre_tokenizers.Split(Regex("[,.]| (?=t)"), "merged_with_next"),
        pre_tokenizers.Split(Regex("(?=l)"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]), [])


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def llama2():
    """A vocabulary of words by Metaspace, used without it, as converted ones of SentencePiece are."""
    tokenizer = train(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), pre_tokenizers.Metaspace(), 640,
                      special=["<unk>", "<s>", "</s>"] + BYTES)
    form = json.loads(tokenizer.to_str())
    form["pre_tokenizer"] = None
    form["added_tokens"] = [token for token in form["added_tokens"] if token["id"] < 3]
    tokenizer = Tokenizer.from_str(json.dumps(form))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                             special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens([AddedToken("<pad>", normalized=True)])
    return tokenizer


def metaspace(scheme, splits, fuse):
    pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=splits)
    tokenizer = train(models.BPE(unk_token="<unk>", fuse_unk=fuse), pre_tokenizers.Metaspace(), 200,
                      special=["<unk>", "<s>", "</s>"])
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="$A $B",
                                                             special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


TOKENIZERS = {
    "gpt2": gpt2, "prefix_space": prefix_space, "llama3": llama3, "qwen2": qwen2, "o200k": o200k, "digits": digits,
    "llama2": llama2, "metaspace_always": lambda: metaspace("always", True, True),
    "metaspace_first": lambda: metaspace("first", False, False), "metaspace_never": lambda: metaspace("never", True, False),
}


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(exist_ok=True)
    expected = {"texts": TEXTS, "tokenizers": {}}
    for name, make in TOKENIZERS.items():
        tokenizer = make()
        form = json.loads(tokenizer.to_str())
        if name in ("gpt2", "llama2"):
            form["model"]["merges"] = [" ".join(pair) for pair in form["model"]["merges"]]
        text = json.dumps(form, ensure_ascii=False, separators=(",", ":"))
        (directory / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        tokenizer = Tokenizer.from_str(text)
        ids = [tokenizer.encode(text).ids for text in TEXTS]
        expected["tokenizers"][name] = {"vocabulary": tokenizer.get_vocab_size(), "ids": ids,
                                        "decoded": [tokenizer.decode(row) for row in ids]}
    (directory / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n", encoding="utf-8")


main()
