# SPDX-License-Identifier: MIT
"""What the build of the module takes from the tree around it: the version, and, as a CMake file, the sources, the tiers of
instruction sets with their flags, and the functions of the system that configure looks for.

Makefile.inc and configure.ac are the only place where these stand. Whatever this file does not understand there is an error.

    python tree.py cmake ROOT        prints the CMake file
    python tree.py completions ROOT  prints the header with shells' completions that the command includes
    python tree.py version ROOT      prints the version
"""
import pathlib
import re
import sys

FRAGMENTS = ("lib", "ref", "simd", "bench", "tools")
# Variables of automake that say what is compiled and how.
WANTED = re.compile(r"\w*_(SOURCES|CFLAGS|CPPFLAGS|LIBS)|SIMD_BODY(_NARROW)?|BENCH_LIMITS|LIBRARY_CPPFLAGS")
CONDITIONALS = re.compile(r"CPU_\w+|TIER_\w+|MPI|SANITIZE")


def root():
    """The tree that this folder is in, or that a source distribution holds beside it."""
    here = pathlib.Path(__file__).resolve().parent
    for tree in (here / "libmxfp", here.parent):
        if (tree / "configure.ac").exists():
            return tree
    raise SystemExit(f"{here}: no configure.ac in libmxfp/ or in the folder above")


def version(tree):
    text = (tree / "configure.ac").read_text()
    found = re.search(r"^AC_INIT\(\[libmxfp\], \[([0-9.]+)\]", text, re.M)
    if not found:
        raise SystemExit(f"{tree}/configure.ac: AC_INIT without a version")
    return found[1]


def dynamic_metadata(settings, project):
    """For pyproject.toml: scikit-build-core asks for the version here."""
    return {"version": version(root())}


def lines_of(path):
    """The lines of a fragment, with those that end in a backslash joined."""
    return path.read_text().replace("\\\n", " ").splitlines()


def expand(word, folder):
    """A word of automake as one of CMake."""
    word = word.replace("%D%", f"${{TREE}}/{folder}" if folder else "${TREE}")
    word = re.sub(r"\$\((top_srcdir|srcdir)\)(/\$\{TREE\})?", "${TREE}", word)
    return re.sub(r"\$\((\w+)\)", r"${\1}", word)


def fragment(path, folder):
    """The assignments of a Makefile.inc, under their conditions."""
    depth = []  # whether each open condition is one that is kept
    for line in lines_of(path):
        if match := re.match(r"if (!?)(\w+)$", line):
            depth.append(bool(CONDITIONALS.fullmatch(match[2])))
            if depth[-1]:
                yield f"if({'NOT ' if match[1] else ''}{match[2]})"
        elif line in ("else", "endif"):
            if not depth:
                raise SystemExit(f"{path}: {line} without if")
            if depth[-1]:
                yield f"{line}()"
            if line == "endif":
                depth.pop()
        elif (match := re.match(r"(\w+) *(\+?=) *(.*)", line)) and WANTED.fullmatch(match[1]):
            words = " ".join(f'"{expand(word, folder)}"' for word in match[3].split())
            # A word that is one variable is a list of its own.
            words = re.sub(r'"(\$\{\w+\})"', r"\1", words)
            yield f"list(APPEND {match[1]} {words})" if match[2] == "+=" else f"set({match[1]} {words})"


def arguments(text):
    """The bracketed arguments of an m4 macro."""
    found, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        if letter == "[":
            start = i + 1 if depth == 0 else start
            depth += 1
        elif letter == "]":
            depth -= 1
            if depth == 0:
                found.append(text[start:i])
        elif letter == ")" and depth == 0:
            break
    return found


def calls(text, macro):
    """The arguments of each call of a macro at the start of a line."""
    for match in re.finditer(rf"^{macro}\(", text, re.M):
        yield arguments(text[match.end():])


def flags(text):
    """{variable: flags that are tried one by one}: those of AC_SUBST([MXFP_CFLAGS]), and tiers that try theirs."""
    tried, result = [], {}
    for line in text.splitlines():
        if line == "MXFP_CFLAGS=":
            tried = []
        elif match := re.match(r"MXFP_TRY_CFLAG\(\[(.*)\]\)$", line):
            tried.append(match[1])
        elif line == "AC_SUBST([MXFP_CFLAGS])":
            result["MXFP_CFLAGS"] = [flag for flag in tried if not flag.startswith("-W")]
        elif match := re.match(r"(CFLAGS_\w+)=\$MXFP_CFLAGS$", line):
            result[match[1]] = tried
    return result


def cmake(tree):
    text = (tree / "configure.ac").read_text()
    yield "# Made by tree.py."
    yield f"set(PACKAGE_VERSION {version(tree)})"
    tried = flags(text)
    for variable, some in tried.items():
        yield f"mxfp_try_flags({variable} {' '.join(some)})"
    tiers = list(calls(text, "MXFP_TIER"))
    if not tiers or "MXFP_CFLAGS" not in tried:
        raise SystemExit(f"{tree}/configure.ac: no MXFP_TIER or MXFP_CFLAGS")
    for name, tier, some, include, body in tiers:
        program = f"{include}\nint main(void)\n{{\n{body};\n}}\n"
        yield f"mxfp_tier({tier} \"{some}\" [==[\n{program}]==])"
    for (functions,) in calls(text, "AC_CHECK_FUNCS"):
        for function in functions.split():
            yield f"mxfp_function({function})"
    modules = [arguments for arguments in calls(text, "PKG_CHECK_MODULES") if len(arguments) == 2]
    for prefix, module in modules:
        yield f"mxfp_module({prefix} \"{module.replace(' ', '')}\")"
    match = re.search(r"^LIBRARY_CPPFLAGS = (.*)$", (tree / "Makefile.am").read_text(), re.M)
    if not match:
        raise SystemExit(f"{tree}/Makefile.am: no LIBRARY_CPPFLAGS")
    yield f"set(LIBRARY_CPPFLAGS {expand(match[1], '')})"
    for folder in FRAGMENTS:
        yield from fragment(tree / folder / "Makefile.inc", folder)


def completions(tree):
    """As the rule in tools/Makefile.inc makes it."""
    yield "static const struct { const char *shell, *text; } completion_scripts[] = {"
    for shell in ("bash", "fish", "zsh"):
        yield f'{{"{shell}",'
        for line in (tree / "tools/cli/completion" / f"mxfp.{shell}").read_text().splitlines():
            line = line.replace("\\", "\\\\").replace('"', '\\"')
            yield f'"{line}\\n"'
        yield "},"
    yield "};"


if __name__ == "__main__":
    tree = pathlib.Path(sys.argv[2])
    lines = {"cmake": cmake, "completions": completions, "version": lambda tree: [version(tree)]}[sys.argv[1]](tree)
    print("\n".join(lines))
