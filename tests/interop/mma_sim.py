# SPDX-License-Identifier: MIT
"""Compares `mxfp gemm --acc` with MMA-Sim (github.com/microsoft/MMA-Sim, revision c785138), by its own code, on random tiles, and
times both: MXFP CHECKOUT [TILES]. CHECKOUT is of MMA-Sim; torch is needed. NaN of any bits are equal.

MMA-Sim's mfma of CDNA1 and CDNA2 stops at an assertion for f16 and bf16, so its two functions are called as it would."""
import json
import struct
import subprocess
import sys
import tempfile
import time

import torch

MXFP, CHECKOUT = sys.argv[1:3]
TILES = int(sys.argv[3]) if len(sys.argv) > 3 else 20
sys.path.insert(0, CHECKOUT)

from mmasim.simulator.amd import mfma  # noqa: E402
from mmasim.simulator.arithmetic import flush_denormal, pairwise_dot  # noqa: E402
from mmasim.simulator.nv_ptx import mma, tcgen05mma, wgmma  # noqa: E402

F16, BF16, F32, E4M3, E5M2 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2
NAMES = {F16: "F16", BF16: "BF16", F32: "F32", E4M3: "F8_E4M3", E5M2: "F8_E5M2"}


def cdna2(a, w, c):
    a, w, c = flush_denormal(a.clone()).float(), flush_denormal(w.clone()).float(), flush_denormal(c.clone())
    d = torch.zeros_like(c)
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            total = c[i, j]
            for k in range(0, a.shape[1], 4):
                total = flush_denormal(total + pairwise_dot(a[i, k:k + 4], w[k:k + 4, j], True), keep_sign=True)
            d[i, j] = total
    return d


CASES = [
    ("volta", mma("Volta", "m8n8k4.f32.f16.f16.f32"), 8, 8, 4, F16, F16),
    ("turing", mma("Turing", "m16n8k8.f32.f16.f16.f32"), 16, 8, 8, F16, F16),
    ("ampere", mma("Ampere", "m16n8k16.f32.f16.f16.f32"), 16, 8, 16, F16, F16),
    ("ampere", mma("Ampere", "m16n8k16.f32.bf16.bf16.f32"), 16, 8, 16, BF16, BF16),
    ("ada", mma("Ada Lovelace", "m16n8k32.f32.e4m3.e5m2.f32"), 16, 8, 32, E4M3, E5M2),
    ("hopper", wgmma("Hopper", "m64n8k16.f32.f16.f16"), 64, 8, 16, F16, F16),
    ("hopper", wgmma("Hopper", "m64n8k16.f32.bf16.bf16"), 64, 8, 16, BF16, BF16),
    ("hopper", wgmma("Hopper", "m64n8k32.f32.e4m3.e4m3"), 64, 8, 32, E4M3, E4M3),
    ("hopper", wgmma("Hopper", "m64n8k32.f32.e5m2.e4m3"), 64, 8, 32, E5M2, E4M3),
    ("blackwell", tcgen05mma("Blackwell", "m64n8k16.f32.bf16.bf16"), 64, 8, 16, BF16, BF16),
    ("blackwell", tcgen05mma("Blackwell", "m64n8k32.f32.e5m2.e4m3"), 64, 8, 32, E5M2, E4M3),
    ("cdna2", cdna2, 16, 16, 16, F16, F16),
    ("cdna2", cdna2, 16, 16, 16, BF16, BF16),
    ("cdna3", mfma("CDNA3", "f32_16x16x16_f16"), 16, 16, 16, F16, F16),
    ("cdna3", mfma("CDNA3", "f32_16x16x16_bf16"), 16, 16, 16, BF16, BF16),
]


def numbers(shape, dtype, spread):
    x = torch.randn(shape) * torch.exp2(torch.randint(-spread, spread + 1, shape).float())
    limit = min(torch.finfo(dtype).max, 1e30)
    return x.clamp(-limit, limit).to(dtype)


def write(path, tensors):
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        blob = t.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    return torch.frombuffer(bytearray(data[8 + struct.unpack("<Q", data[:8])[0]:]), dtype=F32)


def compare(name, instruction, m, n, k, a_type, w_type):
    """One W for all tiles, so that they are one product for mxfp."""
    a, w, c = numbers((TILES * m, k), a_type, 4), numbers((n, k), w_type, 4), numbers((TILES * m, n), F32, 8)
    start = time.perf_counter()
    want = torch.cat([instruction(a[i:i + m], w.T, c[i:i + m]) for i in range(0, TILES * m, m)])
    theirs = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as d:
        write(d + "/x.safetensors", {"a": a, "w": w, "c": c})
        x = d + "/x.safetensors:"
        out = subprocess.run([MXFP, "gemm", x + "a", x + "w", "--accumulate", x + "c", "--acc", name, "-o", d + "/d.safetensors",
                              "--threads", "1", "--json"], check=True, capture_output=True)
        got = read(d + "/d.safetensors").view_as(want)
    same = (got.view(torch.int32) == want.view(torch.int32)) | (got.isnan() & want.isnan())
    ours = json.loads(out.stdout)["seconds"]
    print(f"{name} {NAMES[a_type]} {NAMES[w_type]}: {want.numel()} outputs, {int((~same).sum())} differ, {theirs / ours:.0f} times as fast",
          flush=True)
    return bool(same.all())


torch.manual_seed(1)
sys.exit(0 if all([compare(*case) for case in CASES]) else 1)
