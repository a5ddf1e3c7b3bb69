#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs the voice detector Silero (silero_vad_16k.safetensors of snakers4/silero-vad), which `mxfp eval` does not, on a voice that
is synthesized here, for `mxfp calibrate --activation-file`:

    scripts/silero.py matrices MODEL OUT                 the model, with convolutions as matrices [out, in * taps]
    scripts/silero.py inputs MODEL OUT [CHUNKS [SEED]]   the inputs of its layers, a tensor for each, with its name
    scripts/silero.py voice MODEL OTHER [CHUNKS [SEED]]  how much further another model is from the voice that this one hears

A chunk is 32 ms. The rows of a convolution's inputs are what each place of its output is made of, in the order of the matrix.
Convolutions may have either form, and weights are F32. The models have a Fourier transform as a convolution, its magnitudes, four
convolutions with ReLU, an LSTM and a linear layer. Nothing but Python is needed.
"""
import json
import math
import random
import struct
import sys
from operator import mul

RATE, CHUNK, CONTEXT, PAD = 16000, 512, 64, 64  # samples: a chunk, those before it that are seen again, those mirrored behind it
WINDOW, HOP, BINS = 256, 128, 129
CONVOLUTIONS = [("conv1", 129, 1), ("conv2", 128, 2), ("conv3", 64, 2), ("conv4", 64, 1)]  # inputs, stride
TAPS, HIDDEN = 3, 128
MATRICES = ["stft_conv", *(name for name, _, _ in CONVOLUTIONS), "final_conv"]


def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    tensors = {}
    for name, fact in header.items():
        if name == "__metadata__":
            continue
        if fact["dtype"] != "F32":
            sys.exit("silero.py: %s: %s is not F32" % (path, name))
        first, end = fact["data_offsets"]
        tensors[name] = fact["shape"], struct.unpack("<%df" % ((end - first) // 4), data[first:end])
    return tensors


def write(path, tensors):
    header, parts, at = {}, [], 0
    for name, (shape, numbers) in tensors.items():
        parts.append(struct.pack("<%df" % len(numbers), *numbers))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)


def voice(chunks, seed):
    """Syllables of a vowel, of pulses through three resonances, with a noise before some, and pauses between words; all over
    a soft noise. Samples, and whether there is a vowel at each."""
    draw = random.Random(seed)
    vowels = [(730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410), (300, 870, 2240), (660, 1720, 2410)]
    samples, voiced = [], []

    def add(seconds, source, formants, loudness):
        states = [[0.0, 0.0] for _ in formants]
        n = int(seconds * RATE)
        for i in range(n):
            x = source(i)
            for state, (frequency, width) in zip(states, formants):
                r = math.exp(-math.pi * width / RATE)
                y = (1 - r) * x + 2 * r * math.cos(2 * math.pi * frequency / RATE) * state[0] - r * r * state[1]
                state[1], state[0] = state[0], y
                x = y
            fade = min(1, i / (0.02 * RATE), (n - i) / (0.03 * RATE))
            samples.append(loudness * fade * x + draw.gauss(0, 0.001))
            voiced.append(len(formants) == 3 and loudness > 0)

    while len(samples) < chunks * CHUNK:
        pitch = draw.uniform(90, 220)
        for _ in range(draw.randrange(2, 6)):
            if draw.random() < 0.5:
                center = draw.uniform(2500, 6000)
                add(draw.uniform(0.05, 0.12), lambda i: draw.gauss(0, 1), [(center, 900)], draw.uniform(0.05, 0.2))
            pitch *= draw.uniform(0.9, 1.08)
            slope, phase = draw.uniform(-0.15, 0.05), [0.0]

            def pulses(i):
                phase[0] += pitch * (1 + slope * i / RATE + 0.01 * math.sin(i / RATE * 30)) / RATE
                if phase[0] < 1:
                    return 0.02 * draw.gauss(0, 1)
                phase[0] -= 1
                return 8.0

            add(draw.uniform(0.1, 0.3), pulses, [(f, 60 + f / 20) for f in draw.choice(vowels)], draw.uniform(5.0, 20.0))
        add(draw.uniform(0.1, 0.9), lambda i: 0.0, [], 0)
    return [max(-1.0, min(1.0, x)) for x in samples[:chunks * CHUNK]], voiced[:chunks * CHUNK]


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


class Detector:
    def __init__(self, path):
        self.tensors = read(path)
        self.rows = {name: self.split(name) for name in [m + ".weight" for m in MATRICES] +
                     ["lstm_cell.weight_ih", "lstm_cell.weight_hh"]}
        self.seen = {name: [] for name in self.rows}

    def split(self, name):
        shape, numbers = self.tensors[name]
        cols = len(numbers) // shape[0]
        return [numbers[i:i + cols] for i in range(0, len(numbers), cols)]

    def multiply(self, name, x):
        self.seen[name].append(x)
        return [sum(map(mul, row, x)) for row in self.rows[name]]

    def linear(self, name, bias, x):
        return [y + b for y, b in zip(self.multiply(name, x), self.tensors[bias][1])]

    def features(self, samples):
        """What the LSTM gets: [128]."""
        samples = samples + samples[-2:-PAD - 2:-1]
        frames = []
        for at in range(0, len(samples) - WINDOW + 1, HOP):
            parts = self.multiply("stft_conv.weight", samples[at:at + WINDOW])
            frames.append([math.hypot(a, b) for a, b in zip(parts[:BINS], parts[BINS:])])
        for name, inputs, stride in CONVOLUTIONS:
            zeros = [0.0] * inputs
            padded = [zeros, *frames, zeros]
            frames = []
            for at in range(0, len(padded) - TAPS + 1, stride):
                x = [padded[at + tap][i] for i in range(inputs) for tap in range(TAPS)]
                frames.append([max(0.0, y) for y in self.linear(name + ".weight", name + ".bias", x)])
        return frames[0]

    def run(self, samples):
        """The probability of a voice in each chunk."""
        h, c, before, found = [0.0] * HIDDEN, [0.0] * HIDDEN, [0.0] * CONTEXT, []
        for at in range(0, len(samples), CHUNK):
            chunk = samples[at:at + CHUNK]
            x = self.features(before + chunk)
            before = chunk[-CONTEXT:]
            gates = [a + b for a, b in zip(self.linear("lstm_cell.weight_ih", "lstm_cell.bias_ih", x),
                                           self.linear("lstm_cell.weight_hh", "lstm_cell.bias_hh", h))]
            for j in range(HIDDEN):
                i, f, g, o = gates[j], gates[HIDDEN + j], gates[2 * HIDDEN + j], gates[3 * HIDDEN + j]
                c[j] = sigmoid(f) * c[j] + sigmoid(i) * math.tanh(g)
                gates[j] = sigmoid(o) * math.tanh(c[j])
            h = gates[:HIDDEN]
            found.append(sigmoid(self.linear("final_conv.weight", "final_conv.bias", [max(0.0, y) for y in h])[0]))
        return found


def main(what, model, other, chunks="800", seed="1"):
    if what == "matrices":
        tensors = read(model)
        for name in (m + ".weight" for m in MATRICES):
            shape, numbers = tensors[name]
            tensors[name] = [shape[0], len(numbers) // shape[0]], numbers
        write(other, tensors)
        return
    samples, voiced = voice(int(chunks), int(seed))
    if what == "inputs":
        detector = Detector(model)
        detector.run(samples)
        write(other, {name: ([len(rows), len(rows[0])], [x for row in rows for x in row]) for name, rows in detector.seen.items()})
    elif what == "voice":
        mine, theirs = Detector(model).run(samples), Detector(other).run(samples)
        speech = [sum(voiced[at:at + CHUNK]) > CHUNK // 2 for at in range(0, len(samples), CHUNK)]
        for name, found in (("mine", mine), ("theirs", theirs)):
            right = sum((p > 0.5) == s for p, s in zip(found, speech))
            print("%s: %d of %d chunks as synthesized" % (name, right, len(speech)))
        print("mean difference of probabilities %.4f, other verdicts %d" % (
            sum(abs(a - b) for a, b in zip(mine, theirs)) / len(mine), sum((a > 0.5) != (b > 0.5) for a, b in zip(mine, theirs))))
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    if not 4 <= len(sys.argv) <= 6:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
