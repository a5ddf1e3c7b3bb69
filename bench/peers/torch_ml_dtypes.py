#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times torch and ml_dtypes as peer.h times the C libraries; whichever of them is installed."""
import statistics
import sys
import time

try:
    import numpy as np
except ImportError as error:
    sys.exit(f"left out: torch, ml_dtypes: {error}")

COLS, DRAM, CHUNK, L2_BYTES, ROUNDS = 4096, 1 << 28, 1 << 24, 512 << 10, 9


def turns(library, name, place, run, n, total, times):
    seconds, start = [], 0
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for _ in range(times):
            run(start, n)
        seconds.append((time.thread_time() - begin) / times)
        start = (start + n) % total
    q = statistics.quantiles(seconds, n=4)
    print(f"{library:9} {name:16} {place:5} {4e-9 * n / q[1]:8.2f} GB/s, spread {100 * (q[2] - q[0]) / q[1]:.1f} %",
          flush=True)


def both(library, name, run, bytes_each):
    n = L2_BYTES // (bytes_each * COLS) * COLS
    begin = time.thread_time()
    run(0, n)
    turns(library, name, "L2", run, n, n, max(1, int(2e-3 / (time.thread_time() - begin))))
    turns(library, name, "DRAM", run, CHUNK, DRAM, 1)


def time_torch(normals):
    import torch

    torch.set_num_threads(1)
    f32 = torch.from_numpy(normals)
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("e4m3", torch.float8_e4m3fn),
                        ("e5m2", torch.float8_e5m2)):
        codes = f32.to(dtype)
        back = torch.zeros_like(f32)
        size = 4 + codes.element_size()
        both("torch", f"f32 -> {name}", lambda s, n: codes[s:s + n].copy_(f32[s:s + n]), size)
        both("torch", f"{name} -> f32", lambda s, n: back[s:s + n].copy_(codes[s:s + n]), size)


def time_ml_dtypes(normals):
    import ml_dtypes

    back = np.zeros_like(normals)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
        codes = normals.astype(getattr(ml_dtypes, name))
        size = 4 + codes.itemsize
        short = name.split("_")[-1].removesuffix("fn").replace("bfloat16", "bf16")

        def narrow(s, n):
            codes[s:s + n] = normals[s:s + n]

        def widen(s, n):
            back[s:s + n] = codes[s:s + n]

        both("ml_dtypes", f"f32 -> {short}", narrow, size)
        both("ml_dtypes", f"{short} -> f32", widen, size)


def main():
    pattern = np.random.default_rng(1).standard_normal(1 << 20, dtype=np.float32)
    normals = np.tile(pattern, DRAM >> 20)
    for time_library in (time_torch, time_ml_dtypes):
        try:
            time_library(normals)
        except ImportError as error:
            print(f"left out: {error}")


main()
