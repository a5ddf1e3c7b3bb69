# SPDX-License-Identifier: MIT
"""Compares accumulators of machines with MMA-Sim (github.com/microsoft/MMA-Sim, revision c785138), by its own code, and times both:
mma_sim.py DRIVER CHECKOUT [OUTPUTS [SEED [NAME]]]. DRIVER is mma_sim.c, built; CHECKOUT is of MMA-Sim. OUTPUTS are compared for each
machine and pair of formats, or for those of NAME. NaN of any bits are equal. Without CHECKOUT it is skipped: exit status 77.

Python needs torch. PyPy has mma_sim_torch.py in its place, and is 3 to 10 times as fast; the CRC of MMA-Sim's outputs is the same.

MMA-Sim's mfma of CDNA1 and CDNA2 stops at an assertion for f16 and bf16, so its two functions are called as it would."""
import math
import os
import random
import resource
import struct
import subprocess
import sys
import time
import zlib

if len(sys.argv) < 3 or not os.path.isdir(sys.argv[2]):
    print("skipped: no checkout of MMA-Sim")
    sys.exit(77)
DRIVER, CHECKOUT = sys.argv[1:3]
OUTPUTS = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
ONLY = sys.argv[5] if len(sys.argv) > 5 else ""

if sys.implementation.name == "pypy":
    import mma_sim_torch
    sys.modules["torch"] = mma_sim_torch
import torch  # noqa: E402

sys.path.insert(0, CHECKOUT)
from mmasim.simulator.amd import mfma  # noqa: E402
from mmasim.simulator.arithmetic import flush_denormal, pairwise_dot  # noqa: E402
from mmasim.simulator.nv_ptx import mma, tcgen05mma, tcgen05mma_block_scale, wgmma  # noqa: E402

ELEMENTS = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "e4m3": torch.float8_e4m3fn,
            "e5m2": torch.float8_e5m2, "mxfp8-e4m3": torch.float8_e4m3fn, "mxfp8-e5m2": torch.float8_e5m2,
            "mxfp4": torch.uint8, "nvfp4": torch.uint8,
            "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz}


class Cdna2:
    m, n, k = 16, 16, 16

    def __call__(self, a, w, c):
        a, w, c = flush_denormal(a.clone()).float(), flush_denormal(w.clone()).float(), flush_denormal(c.clone())
        d = torch.zeros(self.m, self.n)
        for i in range(self.m):
            for j in range(self.n):
                total = c[i, j]
                for k in range(0, self.k, 4):
                    total = flush_denormal(total + pairwise_dot(a[i, k:k + 4], w[k:k + 4, j], True), keep_sign=True)
                d[i, j] = total
        return d


CASES = [
    ("volta", "f16", "f16", mma("Volta", "m8n8k4.f32.f16.f16.f32")),
    ("turing", "f16", "f16", mma("Turing", "m16n8k8.f32.f16.f16.f32")),
    ("ampere", "f16", "f16", mma("Ampere", "m16n8k16.f32.f16.f16.f32")),
    ("ampere", "bf16", "bf16", mma("Ampere", "m16n8k16.f32.bf16.bf16.f32")),
    ("ampere", "tf32", "tf32", mma("Ampere", "m16n8k8.f32.tf32.tf32.f32")),
    ("ada", "bf16", "bf16", mma("Ada Lovelace", "m16n8k16.f32.bf16.bf16.f32")),
    ("ada", "e4m3", "e5m2", mma("Ada Lovelace", "m16n8k32.f32.e4m3.e5m2.f32")),
    ("hopper", "f16", "f16", wgmma("Hopper", "m64n8k16.f32.f16.f16")),
    ("hopper", "bf16", "bf16", wgmma("Hopper", "m64n8k16.f32.bf16.bf16")),
    ("hopper", "tf32", "tf32", wgmma("Hopper", "m64n8k8.f32.tf32.tf32")),
    ("hopper", "e4m3", "e4m3", wgmma("Hopper", "m64n8k32.f32.e4m3.e4m3")),
    ("hopper", "e5m2", "e4m3", wgmma("Hopper", "m64n8k32.f32.e5m2.e4m3")),
    ("blackwell", "bf16", "bf16", tcgen05mma("Blackwell", "m64n8k16.f32.bf16.bf16")),
    ("blackwell", "e5m2", "e4m3", tcgen05mma("Blackwell", "m64n8k32.f32.e5m2.e4m3")),
    ("blackwell", "mxfp8-e4m3", "mxfp8-e5m2", tcgen05mma_block_scale("Blackwell", "m128n8k32.block32.f32.e4m3.e5m2.ue8m0")),
    ("blackwell", "mxfp4", "mxfp4", tcgen05mma_block_scale("Blackwell", "m128n8k64.block32.f32.e2m1.e2m1.ue8m0")),
    ("blackwell", "nvfp4", "nvfp4", tcgen05mma_block_scale("Blackwell", "m128n8k64.block16.f32.e2m1.e2m1.ue4m3")),
    ("cdna2", "f16", "f16", Cdna2()),
    ("cdna2", "bf16", "bf16", Cdna2()),
    ("cdna3", "f16", "f16", mfma("CDNA3", "f32_16x16x16_f16")),
    ("cdna3", "bf16", "bf16", mfma("CDNA3", "f32_16x16x16_bf16")),
    ("cdna3", "tf32", "tf32", mfma("CDNA3", "f32_16x16x8_xf32")),
    ("cdna3", "e4m3fnuz", "e4m3fnuz", mfma("CDNA3", "f32_16x16x32_fp8_fp8")),
    ("cdna3", "e4m3fnuz", "e5m2fnuz", mfma("CDNA3", "f32_16x16x32_fp8_bf8")),
    ("cdna3", "e5m2fnuz", "e4m3fnuz", mfma("CDNA3", "f32_32x32x16_bf8_fp8")),
    ("cdna3", "e5m2fnuz", "e5m2fnuz", mfma("CDNA3", "f32_16x16x32_bf8_bf8")),
]
# MMA-Sim takes a zero for 2^-126, which an H200 does not; so numbers are not that small.
KINDS = ["near", "wide", "cancel", "codes", "zeros"]


def number(kind, low, high):
    """A number by its exponent; most of `wide` are small beside a few."""
    if kind == "zeros" and random.random() < 0.2:
        return 0.0
    spread = {"near": 2, "zeros": 2, "cancel": 4}.get(kind)
    e = random.randint(-spread, spread) if spread else random.randint(low, high) if random.random() < 0.2 else random.randint(low, low + 8)
    return random.choice((-1, 1)) * (1 + random.random()) * 2.0 ** e


def codes(name, rows, cols, kind):
    """The bytes of codes, row by row."""
    n = rows * cols
    if name in ("mxfp4", "nvfp4"):
        return random.getrandbits(4 * n).to_bytes(n // 2, "little")
    if "e4m3" in name or "e5m2" in name:
        most, small = (0x7E, 0x30) if "e4m3" in name else (0x7B, 0x38)
        most = 0x7F if name.endswith("fnuz") else most
        pick = {"codes": lambda: random.randint(0, most), "zeros": lambda: random.choice((0, random.randint(small, most)))}
        one = pick.get(kind, lambda: random.randint(small, small + 16) if kind != "wide" or random.random() < 0.8
                       else random.randint(0, most))
        # Of fnuz 80 is NaN.
        return bytes(x | random.getrandbits(1) << 7 if x or not name.endswith("fnuz") else 0 for x in (one() for _ in range(n)))
    if name == "f16":
        return struct.pack("<%de" % n, *[number(kind, -14, 14) for _ in range(n)])
    raw = struct.pack("<%df" % n, *[number(kind, -40, 40) for _ in range(n)])
    if name == "bf16":
        return b"".join(raw[i + 2:i + 4] for i in range(0, 4 * n, 4))
    return b"".join(bytes((0, raw[i + 1] & 0xE0)) + raw[i + 2:i + 4] for i in range(0, 4 * n, 4))


def scales(name, n):
    return bytes(random.randint(0, 0x7E) if name == "nvfp4" else random.randint(112, 142) for _ in range(n))


def addends(m, n, kind, name):
    """C; nvfp4's is zero, since libmxfp adds another after the tensor scale."""
    if name == "nvfp4" or kind == "near":
        return [0.0] * (m * n)
    return [number("wide" if kind == "codes" else "near", -30, 30) for _ in range(m * n)]


def view(raw, name, rows, cols):
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(ELEMENTS[name]).reshape(rows, cols)


class Case:
    def __init__(self, acc, a, w, instruction):
        self.acc, self.a, self.w, self.instruction = acc, a, w, instruction
        self.m, self.n, self.k = instruction.m, instruction.n, instruction.k
        self.block = {"mxfp8-e4m3": 32, "mxfp4": 32, "nvfp4": 16}.get(a, 0)
        self.driver = subprocess.Popen([DRIVER, acc, a, w, str(self.m), str(self.n), str(self.k)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.outputs = self.differ = self.crc = 0
        self.theirs = 0.0

    def tile(self, kind):
        m, n, k, packing = self.m, self.n, self.k, 2 if self.a.endswith("fp4") else 1
        a, w, c = codes(self.a, m, k, kind), codes(self.w, n, k, kind), addends(m, n, kind, self.a)
        sa, sw = (scales(self.a, rows * k // self.block) if self.block else b"" for rows in (m, n))
        raw = struct.pack("<%df" % len(c), *c)
        arguments = [view(a, self.a, m, k // packing), view(w, self.w, n, k // packing).T, view(raw, "tf32", m, n)]
        if self.block:
            kind_of = "e4m3" if self.a == "nvfp4" else None
            for x, rows in ((sa, m), (sw, n)):
                t = torch.frombuffer(bytearray(x), dtype=torch.uint8).view(ELEMENTS[kind_of] if kind_of else torch.float8_e8m0fnu)
                t = t.reshape(rows, k // self.block)
                arguments.append(t if rows == m else t.T)
        start = time.process_time()
        want = self.instruction(*arguments).flatten().tolist()
        self.theirs += time.process_time() - start
        self.driver.stdin.write(a + sa + w + sw + raw)
        self.driver.stdin.flush()
        got = struct.unpack("<%df" % len(c), self.driver.stdout.read(4 * len(c)))
        self.crc = zlib.crc32(struct.pack("<%df" % len(c), *(x if x == x else math.nan for x in want)), self.crc)
        for i, (x, y) in enumerate(zip(want, got)):
            if struct.pack("<f", x) != struct.pack("<f", y) and not (x != x and y != y):
                self.differ += 1
                if self.differ < 4:
                    print("  %s, C %s: MMA-Sim %s, libmxfp %s" % (kind, c[i].hex(), x.hex(), y.hex()), flush=True)
        self.outputs += len(c)

    def end(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.driver.stdin.close()
        self.driver.wait()
        ours = max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 1e-3)
        print("%s %s %s: %d outputs, %d differ; MMA-Sim %.0f a second of a processor, libmxfp %.0f; CRC %08x" % (
            self.acc, self.a, self.w, self.outputs, self.differ, self.outputs / self.theirs, self.outputs / ours, self.crc), flush=True)
        return self.differ == 0


random.seed(SEED)
same = True
for row in CASES:
    if ONLY in ("", row[0]):
        case = Case(*row)
        while case.outputs < OUTPUTS:
            case.tile(KINDS[case.outputs // (case.m * case.n) % len(KINDS)])
        same &= case.end()
sys.exit(0 if same else 1)
