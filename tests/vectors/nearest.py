# SPDX-License-Identifier: MIT
"""
Scales that are the nearest to amax / largest: MLX before and since it rounds them up, and ml_dtypes' cast. Two versions
of MLX do not go into one process: each is in a folder of its own, $MLX/VERSION, and mlx_blocks.py runs with it.
"""
import os
import subprocess
import sys

import ml_dtypes
import numpy as np

MLX = {"0.32.1": "LOG_NEAREST", "0.32.4": "RCEIL"}
NOT_RUN = 0xEE


def mlx_outputs(version, mode, x):
    """A block with NaN or Inf is not run."""
    finite = np.all(np.isfinite(x), axis=1)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mlx_blocks.py")
    folder = os.path.join(os.environ["MLX"], version)
    out = subprocess.run([sys.executable, script, mode], input=np.where(finite[:, None], x, 0).astype("<f4").tobytes(),
                         env={**os.environ, "PYTHONPATH": folder}, stdout=subprocess.PIPE, check=True).stdout
    scales = np.frombuffer(out[:len(x)], np.uint8).copy()
    codes = np.frombuffer(out[len(x):], np.uint8).reshape(len(x), -1)
    codes = np.where(finite[:, None], codes, NOT_RUN).astype(np.uint8)
    scales[~finite] = 0xFF
    if mode == "mxfp8":
        return {"codes": codes, "scales": scales}
    nibbles = np.stack([codes & 15, codes >> 4], axis=-1).reshape(x.shape)
    return {"packed": codes, "codes": np.where(finite[:, None], nibbles, NOT_RUN).astype(np.uint8), "scales": scales}


def run(r, by):
    for version, rule in MLX.items():
        for mode, name in (("mxfp4", "e2m1"), ("mxfp8", "e4m3")):
            for source in ("blocks", "blocks_plain"):
                r.case(f"mx/{name}/{source}/mlx-{version}", "mx-block", by["mlx"] + version,
                       mlx_outputs(version, mode, r.floats(source)), format="mx" + name, input=source, rounding="RNE",
                       scale_rule=rule)
    amax = np.max(np.abs(r.floats("blocks")), axis=1)
    amax = np.where(np.isfinite(amax) & (amax > 0), amax, np.float32(1))
    for name, largest in (("e2m1", 6), ("e2m3", 7.5), ("e3m2", 28), ("e4m3", 448), ("e5m2", 57344)):
        scales = (amax / np.float32(largest)).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
        r.case(f"scale/mx{name}/blocks/ml_dtypes", "mx-scale", by["ml_dtypes"], {"values": scales.astype(np.float32)},
               format="mx" + name, input="blocks", scale_rule="RNE")
