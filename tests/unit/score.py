#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Computes what test_score.c expects of made-up logits, with decimal numbers of 40 digits and by the definitions of score.h.
# Prints the members of the summary as lines of C.
from decimal import Decimal, getcontext

getcontext().prec = 40
VOCABULARY, ROWS = 50, 40


class Numbers:
    """The generator of test_score.c: multiples of 1/64 from -8 to 8."""

    def __init__(self):
        self.state = 1

    def bits(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> (64 - n)

    def logit(self):
        return (Decimal(self.bits(10)) - 512) / 64


def log_probabilities(logits):
    whole = sum(x.exp() for x in logits).ln()
    return [x - whole for x in logits]


def mean(values):
    average = sum(values) / len(values)
    spread = sum((x - average) ** 2 for x in values) / (len(values) - 1)
    return average, (spread / len(values)).sqrt()


def percentile(values, share):
    values = sorted(values)
    place = Decimal(share) * (len(values) - 1)
    below = int(place)
    part = place - below
    return values[below] if part == 0 else (1 - part) * values[below] + part * values[below + 1]


numbers = Numbers()
nll, base_nll, divergence, agrees, change = [], [], [], [], []
for _ in range(ROWS):
    base = [numbers.logit() for _ in range(VOCABULARY)]
    logits = [x + numbers.logit() / 4 for x in base]
    token = numbers.bits(10) % VOCABULARY
    p, q = log_probabilities(logits), log_probabilities(base)
    nll.append(-p[token])
    base_nll.append(-q[token])
    divergence.append(sum(y.exp() * (y - x) for x, y in zip(p, q)))
    agrees.append(Decimal(logits.index(max(logits)) == base.index(max(base))))
    change.append(p[token].exp() - q[token].exp())

for name, values in (("nll", nll), ("ratio", [x - y for x, y in zip(nll, base_nll)]), ("divergence", divergence),
                     ("agreement", agrees), ("change", change)):
    print("\t\t.%s = {%.18e, %.18e}," % ((name,) + mean(values)))
for name, values in (("perplexity", nll), ("base_perplexity", base_nll)):
    average, error = mean(values)
    print("\t\t.%s = {%.18e, %.18e}," % (name, average.exp(), average.exp() * error))
average, error = mean([x * x for x in change])
print("\t\t.change_rms = {%.18e, %.18e}," % (average.sqrt(), error / 2 / average.sqrt()))
print("\t\t.median = %.18e, .percentile_99 = %.18e," % (percentile(divergence, "0.5"), percentile(divergence, "0.99")))
print("\t\t.most = %.18e," % max(divergence))
