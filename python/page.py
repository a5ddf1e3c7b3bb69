# SPDX-License-Identifier: MIT
"""Prints doc/python.md: the module's docstrings, below an introduction. A test compares.

    python page.py >../doc/python.md
"""

import inspect
import re

import mxfp

INTRODUCTION = """\
<!-- Made by python/page.py of the module's docstrings. -->
# The module mxfp

    python3 -m venv venv
    venv/bin/pip install ./python

builds the library, the module and the command from this tree in a minute or two, given a C compiler; what the command links is
what `scripts/dependencies.sh python` installs. Without these libraries the module is built alone, and `mxfp.open()` and the command
say so. `pip install` of a source distribution, which `python3 -m build --sdist python` makes, does the same.

Python 3.11 or later. numpy is needed for numpy's arrays alone; nothing else is.

{module}

## Arrays

- **What is read**: float32, bfloat16 and float16 of numpy, ml_dtypes, torch and jax; float64, lists and numbers, which are rounded
  to float32 first, to nearest even (a number too large for it is an error); codes of a format in a dtype of ml_dtypes or torch, or
  in integers with `source=`. Any strides, orders of dimensions, and byte orders; what the library cannot read in place is copied.
- **torch's tensors** are read as torch reads them, whatever lies in their memory: views that negate lazily (`z.conj().imag`) and
  zeros without memory too. A tensor that requires grad is read; the result has no gradient. torch 1.13 or later will do.
- **Refused**, with the way out: tensors of a GPU or of `meta`; sparse, quantized and nested tensors; subclasses whose numbers lie in
  other tensors, as FakeTensor and DTensor; all tensors inside `vmap`, `grad`, `torch.jit.trace` and `make_fx`; masked arrays; complex
  numbers, booleans, texts, None.
- **Results** are torch's for torch's tensors, which must be on the CPU, numpy's for all others, and memoryviews where numpy is not
  installed. Codes have torch's dtype where torch has one, and are numpy's uint8 (bf16: uint16); give a dtype instead of a name to
  have another: `mxfp.cast(x, ml_dtypes.float8_e4m3fn)`. `codes` and `scales` of Quantized are always bytes, which
  `.view(torch.float4_e2m1fn_x2)` or `.view(ml_dtypes.float8_e8m0fnu)` turn into a dtype without a copy.
- **`out=`** takes the result in memory that is there, which for large arrays saves the time of getting new memory. It is refused if it
  is read-only, in the other byte order, overlaps what is read but for a place that the function allows, or is a lazy view of torch. As
  with torch's functions, one that requires grad is taken under `torch.no_grad()` alone, and a gradient that needed what was there
  before is an error.
- **NVFP4's recipe** is `compressed-tensors` if none is named, and the scale rule of MX formats `mse`, as of `mxfp quantize`.
- **Errors**: ValueError for a value or name, TypeError for a kind of argument or dtype, MemoryError, OSError from files. Their words
  are those of the command. After an error, `out` is as it was.
- **Threads**: calls release the GIL, run on all processors unless set_threads() says otherwise, and may share what they read.
  Python handles a signal when the call ends. After fork() a child's calls have threads of their own. The module works in
  subinterpreters, and declares that it needs no GIL.

## What people copy

- [quant_linear.py](../python/examples/quant_linear.py): `QuantLinear`, a W4A8 layer of torch, and `FakeQuantLinear`, which trains
  with a straight-through gradient.
- [error_against_bits.py](../python/examples/error_against_bits.py): error against bits of one tensor for all formats, rules and
  recipes, as a table and a chart.
- [layer_by_layer.py](../python/examples/layer_by_layer.py): a format for each layer of a model by a hook, then `mxfp quantize` and
  `mxfp eval`.

In jax, under `jit`:

    def fake(x):
        return jax.pure_callback(lambda x: mxfp.fake_quantize(x, "mxfp4"), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

## Functions and classes
"""


def markdown(text):
    """A docstring as Markdown: its lists of parameters and its examples."""
    lines, listed = [], False
    for line in inspect.cleandoc(text).splitlines():
        field = re.match(r"    (\w[\w, ]*): (.*)", line)
        if line in ("Parameters:", "Attributes:"):
            listed = True
            lines += [line, ""]
        elif listed and field:
            names = ", ".join(f"`{name}`" for name in field[1].split(", "))
            lines.append(f"- {names}: {field[2]}")
        elif listed and line.startswith("        "):
            lines.append(f"  {line.strip()}")
        elif line.startswith(">>>") or (lines and lines[-1].startswith("    ") and line and not line.startswith("    ")):
            lines.append(f"    {line}")
        else:
            lines.append(line)
            listed = listed and line == ""
    return "\n".join(lines)


def signature(value):
    """Without annotations, which say Any for arrays."""
    its = inspect.signature(value)
    some = [p.replace(annotation=p.empty) for p in its.parameters.values() if p.name != "self"]
    return str(its.replace(parameters=some, return_annotation=its.empty)).replace("'", '"')


def simple(value):
    """Whether it is a function of one number by its own name."""
    return inspect.isfunction(value) and "apply(x, " in (value.__doc__ or "")


def entries():
    for name in mxfp.__all__:
        value = getattr(mxfp, name)
        if not callable(value) or simple(value):
            continue
        yield f"### {name}\n"
        if name not in ("Error", "Format", "Model", "TensorInfo", "Packed"):
            yield f"    mxfp.{name}{signature(value)}\n"
        yield markdown(value.__doc__) + "\n"
        if inspect.isclass(value):
            if isinstance(value.__slots__, dict):
                yield "".join(f"- `{slot}`: {meaning}\n" for slot, meaning in value.__slots__.items())
            for method, function in vars(value).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"**{name}.{method}**`{signature(function)}`\n\n{markdown(function.__doc__)}\n"
    yield "### Functions of one number\n"
    for name in mxfp.__all__:
        value = getattr(mxfp, name)
        if callable(value) and simple(value):
            yield f"- `mxfp.{name}(x)`: {value.__doc__.split(': apply')[0]}"
    yield ""
    for name in ("formats", "rules", "recipes", "rounds", "overflows", "non_finites", "accs", "functions"):
        yield f"### {name}\n"
        for key, meaning in getattr(mxfp, name).items():
            yield f"- `{key}`: {meaning if isinstance(meaning, str) else describe(meaning)}"
        yield ""


def describe(format):
    return re.sub(r"<mxfp format \S+: (.*)>", r"\1", repr(format))


def page():
    return INTRODUCTION.format(module=markdown(mxfp.__doc__)) + "\n" + "\n".join(entries())


if __name__ == "__main__":
    print(page(), end="")
