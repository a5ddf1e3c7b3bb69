# SPDX-License-Identifier: MIT
"""
mlx_blocks.py MODE: blocks of 32 binary32 numbers from stdin, quantized by MLX on the CPU in its mode mxfp4 or mxfp8; to
stdout the scales, a byte a block, and then the codes, as MLX packs them.
"""
import sys

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
blocks = np.frombuffer(sys.stdin.buffer.read(), "<f4").reshape(-1, 32)
codes, scales = mx.quantize(mx.array(blocks), mode=sys.argv[1])
sys.stdout.buffer.write(np.array(scales).astype(np.uint8).tobytes() + np.array(codes).astype("<u4").tobytes())
