# SPDX-License-Identifier: MIT
"""Types, and examples in docstrings."""

import doctest
import importlib
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import mxfp

MODULES = sorted(name for _, name, _ in pkgutil.iter_modules(mxfp.__path__) if name not in ("_core", "__main__") and name.isidentifier())
ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["", *MODULES])
def test_docstrings(name):
    module = importlib.import_module(f"mxfp.{name}" if name else "mxfp")
    if name == "_model" and not hasattr(mxfp._core, "model_open"):
        pytest.skip("built without the command's readers")
    assert doctest.testmod(module).failed == 0


def test_everything_has_a_docstring():
    for name in mxfp.__all__:
        value = getattr(mxfp, name)
        assert not callable(value) or value.__doc__, name
    assert sorted(mxfp.__all__) == mxfp.__all__


def test_page():
    """doc/python.md is what page.py prints."""
    page = ROOT.parent / "doc" / "python.md"
    if not page.exists():
        pytest.skip("no doc/ beside the module")
    done = subprocess.run([sys.executable, ROOT / "page.py"], capture_output=True, text=True)
    assert done.stdout == page.read_text(), done.stderr


def fenced(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def test_readmes():
    """What README.md and the package's own page show."""
    page = ROOT.parent / "README.md"
    if not page.exists():
        pytest.skip("no README.md beside the module")
    (shown,) = [text for text in fenced(page, "") if text.startswith(">>>")]
    test = doctest.DocTestParser().get_doctest(shown, {}, "README.md", str(page), 0)
    assert doctest.DocTestRunner().run(test) == (0, 3)
    for text in fenced(ROOT / "pypi.md", "python"):
        exec(text, {})


def run(module, *arguments):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy(tmp_path, monkeypatch):
    """The package itself, strictly, and a caller's view of it."""
    monkeypatch.chdir(tmp_path)
    run("mypy", "--strict", "-p", "mxfp")
    run("mypy", "--strict", "-c", "import mxfp; q: mxfp.Quantized = mxfp.quantize([1.0], 'mxfp4'); n: int = q.nbytes")


def test_stubs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("mypy.stubtest", "mxfp._core")
