# SPDX-License-Identifier: MIT
"""Compares accumulators of machines with MMA-Sim (github.com/microsoft/MMA-Sim, version 2.1.1: pip install mmasim==2.1.1), by its own
code, and times both: mma_sim.py DRIVER [OUTPUTS [SEED [NAME]]]. DRIVER is mma_sim.c, built. OUTPUTS are compared for each machine and
pair of formats, or for those of NAME. NaN of any bits are equal. Without MMA-Sim it is skipped: exit status 77."""
import math
import random
import resource
import struct
import subprocess
import sys
import time

DRIVER = sys.argv[1]
OUTPUTS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""

try:
    import torch
    from mmasim.amd.sim import MFMA
    from mmasim.nv_ptx.sim import MMA, WGMMA, TCGen05MMA, TCGen05MMABlockScale
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

ELEMENTS = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "e4m3": torch.float8_e4m3fn,
            "e5m2": torch.float8_e5m2, "mxfp8-e4m3": torch.float8_e4m3fn, "mxfp8-e5m2": torch.float8_e5m2,
            "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz}
BITS = {"mxfp6-e3m2": 6, "mxfp6-e2m3": 6, "mxfp4": 4, "nvfp4": 4}  # of elements with fewer than 8


def blocks(a, w):
    return TCGen05MMABlockScale("Blackwell", "m128n8k32.kind::mxf8f6f4.block32.f32.%s.%s.ue8m0" % (a, w))


CASES = [
    ("volta", "f16", "f16", MMA("Volta", "m8n8k4.f32.f16.f16.f32")),
    ("turing", "f16", "f16", MMA("Turing", "m16n8k8.f32.f16.f16.f32")),
    ("ampere", "f16", "f16", MMA("Ampere", "m16n8k16.f32.f16.f16.f32")),
    ("ampere", "bf16", "bf16", MMA("Ampere", "m16n8k16.f32.bf16.bf16.f32")),
    ("ampere", "tf32", "tf32", MMA("Ampere", "m16n8k8.f32.tf32.tf32.f32")),
    ("ada", "bf16", "bf16", MMA("Ada Lovelace", "m16n8k16.f32.bf16.bf16.f32")),
    ("ada", "e4m3", "e5m2", MMA("Ada Lovelace", "m16n8k32.f32.e4m3.e5m2.f32")),
    ("hopper", "f16", "f16", WGMMA("Hopper", "m64n8k16.f32.f16.f16")),
    ("hopper", "bf16", "bf16", WGMMA("Hopper", "m64n8k16.f32.bf16.bf16")),
    ("hopper", "tf32", "tf32", WGMMA("Hopper", "m64n8k8.f32.tf32.tf32")),
    ("hopper", "e4m3", "e4m3", WGMMA("Hopper", "m64n8k32.f32.e4m3.e4m3")),
    ("hopper", "e5m2", "e4m3", WGMMA("Hopper", "m64n8k32.f32.e5m2.e4m3")),
    ("blackwell", "bf16", "bf16", TCGen05MMA("Blackwell", "m64n8k16.kind::f16.f32.bf16.bf16")),
    ("blackwell", "tf32", "tf32", TCGen05MMA("Blackwell", "m64n8k8.kind::tf32.f32.tf32.tf32")),
    ("blackwell", "e5m2", "e4m3", TCGen05MMA("Blackwell", "m64n8k32.kind::f8f6f4.f32.e5m2.e4m3")),
    ("blackwell", "mxfp8-e4m3", "mxfp8-e5m2", blocks("e4m3", "e5m2")),
    ("blackwell", "mxfp8-e5m2", "mxfp4", blocks("e5m2", "e2m1")),
    ("blackwell", "mxfp6-e3m2", "mxfp6-e2m3", blocks("e3m2", "e2m3")),
    ("blackwell", "mxfp4", "mxfp6-e3m2", blocks("e2m1", "e3m2")),
    ("blackwell", "mxfp4", "mxfp4", TCGen05MMABlockScale("Blackwell", "m128n8k64.kind::mxf4.block32.f32.e2m1.e2m1.ue8m0")),
    ("blackwell", "nvfp4", "nvfp4", TCGen05MMABlockScale("Blackwell", "m128n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3")),
    # Of CDNA2 instructions of 4 products: a larger one takes a sum of -0 as it is, a C of -0 as +0.
    ("cdna2", "f16", "f16", MFMA("CDNA2", "f32_16x16x4f16")),
    ("cdna2", "bf16", "bf16", MFMA("CDNA2", "f32_16x16x4bf16_1k")),
    ("cdna3", "f16", "f16", MFMA("CDNA3", "f32_16x16x16_f16")),
    ("cdna3", "bf16", "bf16", MFMA("CDNA3", "f32_16x16x16_bf16")),
    ("cdna3", "tf32", "tf32", MFMA("CDNA3", "f32_16x16x8_xf32")),
    ("cdna3", "e4m3fnuz", "e4m3fnuz", MFMA("CDNA3", "f32_16x16x32_fp8_fp8")),
    ("cdna3", "e4m3fnuz", "e5m2fnuz", MFMA("CDNA3", "f32_16x16x32_fp8_bf8")),
    ("cdna3", "e5m2fnuz", "e4m3fnuz", MFMA("CDNA3", "f32_32x32x16_bf8_fp8")),
    ("cdna3", "e5m2fnuz", "e5m2fnuz", MFMA("CDNA3", "f32_16x16x32_bf8_bf8")),
]
KINDS = ["near", "wide", "cancel", "codes", "zeros", "small", "carry"]


def number(kind, low, high):
    """A number by its exponent; most of `wide` are small beside a few."""
    if kind == "zeros" and random.random() < 0.5:
        return math.copysign(0.0, random.random() - 0.5)
    if kind == "small":
        low = high = max(low, -130 if low < -14 else low) + random.randint(-8, 8)
    if kind == "carry":
        return random.choice((-1, 1)) * 2.0 ** random.randint(-12, 2)
    spread = {"near": 2, "zeros": 2, "cancel": 4}.get(kind)
    e = random.randint(-spread, spread) if spread else random.randint(low, high) if random.random() < 0.2 else random.randint(low, low + 8)
    return random.choice((-1, 1)) * (1 + random.random()) * 2.0 ** e


def codes(name, rows, cols, kind):
    """The bytes of codes, row by row."""
    n = rows * cols
    if name in BITS:
        count = n * BITS[name] // 8
        raw = random.getrandbits(8 * count).to_bytes(count, "little")
        if kind == "zeros":  # of blocks and of parts of them
            raw = b"".join(raw[i:i + 4] if random.random() < 0.2 else bytes(4) for i in range(0, count, 4))
        return raw
    if "e4m3" in name or "e5m2" in name:
        if kind == "codes":
            raw = random.getrandbits(8 * n).to_bytes(n, "little")
            # Of fnuz 80 is NaN, and MMA-Sim takes a C of NaN for 2^-1, which is lost beside products of 2^25.
            return raw.replace(b"\x80", b"\0") if name.endswith("fnuz") else raw
        most, small = (0x7E, 0x30) if "e4m3" in name else (0x7B, 0x38)
        most = 0x7F if name.endswith("fnuz") else most
        if kind == "carry":
            step = 8 if "e4m3" in name else 4
            return bytes(random.randrange(0, most - step, step) for _ in range(n))
        zero = kind == "zeros"
        one = [random.choice((0, random.randint(small, most))) if zero else random.randint(small, small + 16)
               if kind != "wide" or random.random() < 0.8 else random.randint(0, most) for _ in range(n)]
        return bytes(x | random.getrandbits(1) << 7 if x or not name.endswith("fnuz") else 0 for x in one)
    if kind == "codes" and random.random() < 0.5:  # NaN and Inf too
        raw = bytearray(random.getrandbits(8 * 4 * n).to_bytes(4 * n, "little"))
        if name == "tf32":
            raw[0::4], raw[1::4] = bytes(n), bytes(x & 0xE0 for x in raw[1::4])
        return bytes(raw if name == "tf32" else raw[:2 * n])
    if name == "f16":
        return struct.pack("<%de" % n, *[number(kind, -14, 14) for _ in range(n)])
    raw = struct.pack("<%df" % n, *[number(kind, -62 if kind == "small" else -40, 40) for _ in range(n)])
    if name == "bf16":
        return b"".join(raw[i + 2:i + 4] for i in range(0, 4 * n, 4))
    return b"".join(bytes((0, raw[i + 1] & 0xE0)) + raw[i + 2:i + 4] for i in range(0, 4 * n, 4))


def scales(name, n, kind):
    if name == "nvfp4":
        return bytes(random.randint(0, 0x7F if kind == "codes" else 0x7E) for _ in range(n))
    if kind == "small":
        return bytes(random.randint(40, 64) for _ in range(n))
    return bytes(random.randint(0, 255) if kind == "codes" else random.randint(112, 142) for _ in range(n))


def addends(m, n, kind, name):
    """C; nvfp4's is zero, since libmxfp adds another after the tensor scale."""
    if name == "nvfp4" or kind == "near":
        return [0.0] * (m * n)
    if kind == "carry":  # below a power of two that the products' sum crosses, a sum of a few powers of two
        return [random.choice((-1, 1)) * 2.0 ** random.randint(8, 24) * (1 - random.randint(1, 9) * 2.0 ** -24) for _ in range(m * n)]
    return [number("wide" if kind == "codes" else "zeros" if kind == "zeros" else "small" if kind == "small" else "near", -30, 30)
            for _ in range(m * n)]


def view(raw, name, rows, cols, packed):
    """A matrix; elements of fewer bits are in bytes of their own unless packed: those of four bits in the upper part of six."""
    raw = bytearray(raw)
    if name not in BITS or packed:
        return torch.frombuffer(raw, dtype=torch.uint8).view(ELEMENTS.get(name, torch.uint8)).reshape(rows, -1)
    bits, stream = BITS[name], int.from_bytes(raw, "little")
    width = rows * cols * bits
    digits = bin(stream | 1 << width)[3:]
    elements = [int(digits[width - i - bits:width - i], 2) << (6 - bits) for i in range(0, width, bits)]
    return torch.tensor(elements, dtype=torch.uint8).reshape(rows, cols)


class Case:
    def __init__(self, acc, a, w, instruction):
        self.acc, self.a, self.w, self.instruction = acc, a, w, instruction
        self.m, self.n, self.k = instruction.m, instruction.n, instruction.k
        self.block = 16 if a == "nvfp4" else 32 if a.startswith("mx") else 0
        self.driver = subprocess.Popen([DRIVER, acc, a, w, str(self.m), str(self.n), str(self.k)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.outputs = self.differ = 0
        self.theirs = 0.0

    def tile(self, kind):
        m, n, k, packed = self.m, self.n, self.k, self.k == 64
        a, w, c = codes(self.a, m, k, kind), codes(self.w, n, k, kind), addends(m, n, kind, self.a)
        sa, sw = (scales(self.a, rows * k // self.block, kind) if self.block else b"" for rows in (m, n))
        raw = struct.pack("<%df" % len(c), *c)
        arguments = [view(a, self.a, m, k, packed), view(w, self.w, n, k, packed).T, view(raw, "tf32", m, n, False)]
        if self.block:
            kind_of = torch.float8_e4m3fn if self.a == "nvfp4" else torch.float8_e8m0fnu
            of_a, of_w = (torch.frombuffer(bytearray(x), dtype=torch.uint8).view(kind_of).reshape(rows, -1)
                          for x, rows in ((sa, m), (sw, n)))
            arguments += [of_a, of_w.T]
        start = time.process_time()
        want = self.instruction(*arguments).flatten().tolist()
        self.theirs += time.process_time() - start
        self.driver.stdin.write(a + sa + w + sw + raw)
        self.driver.stdin.flush()
        got = struct.unpack("<%df" % len(c), self.driver.stdout.read(4 * len(c)))
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
        print("%s %s %s: %d outputs, %d differ; MMA-Sim %.0f a second of a processor, libmxfp %.0f" % (
            self.acc, self.a, self.w, self.outputs, self.differ, self.outputs / self.theirs, self.outputs / ours), flush=True)
        return self.differ == 0


random.seed(SEED)
torch.set_num_threads(1)
same = True
for row in CASES:
    if ONLY in ("", row[0]):
        case = Case(*row)
        tile = 0
        while case.outputs < OUTPUTS:
            case.tile(KINDS[tile % len(KINDS)])
            tile += 1
        same &= case.end()
sys.exit(0 if same else 1)
