# SPDX-License-Identifier: MIT
"""MXFP_TEST_NUMBERS: how many numbers each comparison with the command takes; MXFP_TEST_CALLS: how many calls the tests of leaks
and of random arguments make."""

import os

import numpy
import pytest

import mxfp

NUMBERS = int(os.environ.get("MXFP_TEST_NUMBERS", 20_000))
CALLS = int(os.environ.get("MXFP_TEST_CALLS", 2_000))


@pytest.fixture(scope="session")
def command():
    """The command in the module, or MXFP_COMMAND."""
    path = os.environ.get("MXFP_COMMAND", os.path.join(os.path.dirname(mxfp.__file__), "bin", "mxfp"))
    if not os.path.exists(path):
        pytest.skip("no command mxfp: the module was built without it")
    return path


@pytest.fixture(scope="session")
def numbers():
    """float32 of all magnitudes: bits at random, normal numbers, and special values."""
    random = numpy.random.default_rng(1)
    n = NUMBERS
    some = numpy.concatenate(
        [
            random.integers(0, 1 << 32, n // 2, dtype=numpy.uint32).view(numpy.float32),
            random.standard_normal(n - n // 2, dtype=numpy.float32),
        ]
    )
    special = numpy.float32([0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e-45, -1e-45, 3.4e38, 448, 464, 465, 57344, 0.5, 6, 7])
    some[: len(special)] = special
    return some


@pytest.fixture(scope="session")
def matrix():
    """float32 [48, 96], with outliers."""
    random = numpy.random.default_rng(2)
    x = random.standard_normal((48, 96), dtype=numpy.float32)
    x[random.random(x.shape) < 0.02] *= 40
    return x


@pytest.fixture(autouse=True)
def all_threads():
    yield
    mxfp.set_threads(0)
