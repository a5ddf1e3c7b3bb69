# SPDX-License-Identifier: MIT
"""
Each text of doc/errors.md stands in a string of tools/: errors.py SOURCE. Conversions, numbers and macros of a string, and
<words> of a text, stand for anything.
"""
import pathlib
import re
import sys

ANY = "\0"
source = pathlib.Path(sys.argv[1])
token = re.compile(r'/\*.*?\*/|"((?:[^"\\\n]|\\.)*)"|(PRI[a-zA-Z0-9]+|[A-Z_][A-Z0-9_]{2,})|(\s+)|(.)', re.S)
conversion = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|t|j)?[a-zA-Z%]?")


def literals(text):
    """Strings, of which neighbours are one, with what varies replaced."""
    joined = []
    for m in token.finditer(text):
        if m[1] is not None:
            joined.append(m[1])
        elif m[2] is not None and joined:
            joined.append(ANY)
        elif m[4] is not None and joined:
            yield conversion.sub(ANY, "".join(joined).replace('\\"', '"').replace("\\n", ""))
            joined = []


strings = []
for path in sorted(source.glob("tools/**/*")):
    if path.suffix in (".c", ".h", ".def"):
        strings += literals(path.read_text())
texts = [line.split("`")[1] for line in (source / "doc/errors.md").read_text().splitlines() if line.startswith("| `")]
all_strings = "\n".join(strings)
failures = 0
for text in texts:
    parts = [re.escape(part) for part in re.split(r"<[^<>]+>", text)]
    if not re.search("[^\n]*?".join(parts), all_strings):
        print(f"doc/errors.md: no such text in tools/: {text}")
        failures += 1
for text in {text for text in texts if texts.count(text) > 1}:
    print(f"doc/errors.md: twice: {text}")
    failures += 1
print(f"{len(texts)} texts in {len(strings)} strings, {failures} failures")
sys.exit(failures != 0 or not texts)
