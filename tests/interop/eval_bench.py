# SPDX-License-Identifier: MIT
"""
A Llama of random MXFP4 weights to time mxfp eval and llama-bench with, in a file that both read:
eval_bench.py FILE.gguf [0.5b|1b]. Its text is noise, but its numbers stay of the size that real ones have.
"""
import pathlib
import sys

import gguf
import numpy

import eval_vocabulary

# Width, inner width, layers, heads, heads of keys and values: 0.51 and 1.10 billion parameters.
SIZES = {"0.5b": (1024, 4096, 28, 16, 8), "1b": (2048, 8192, 16, 32, 8)}
VOCABULARY = 32000
MXFP4 = gguf.GGMLQuantizationType.MXFP4


def matrix(random, rows, cols):
    """Blocks of a scale and 16 bytes of codes. Codes have a deviation of 2.9, rows one of about cols ** -0.5."""
    blocks = random.integers(0, 256, (rows, cols // 32, 17), dtype=numpy.uint8)
    exponent = round(numpy.log2(cols ** -0.5 / 2.9))
    blocks[:, :, 0] = random.integers(127 + exponent - 1, 127 + exponent + 2, (rows, cols // 32))
    return blocks.reshape(rows, -1)


def main():
    path = pathlib.Path(sys.argv[1])
    width, inner, layers, heads, shared = SIZES[(sys.argv[2:] or ["0.5b"])[0]]
    size = width // heads
    random = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_MXFP4_MOE)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    eval_vocabulary.sentencepiece(writer, VOCABULARY)
    embedding = random.standard_normal((VOCABULARY, width), dtype=numpy.float32)
    writer.add_tensor("token_embd.weight", embedding.astype(numpy.float16))
    writer.add_tensor("output_norm.weight", numpy.ones(width, numpy.float32))
    writer.add_tensor("output.weight", matrix(random, VOCABULARY, width), raw_dtype=MXFP4)
    shapes = {"attn_q": (width, width), "attn_k": (shared * size, width), "attn_v": (shared * size, width),
              "attn_output": (width, width), "ffn_gate": (inner, width), "ffn_up": (inner, width),
              "ffn_down": (width, inner)}
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", numpy.ones(width, numpy.float32))
        for name, (rows, cols) in shapes.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", matrix(random, rows, cols), raw_dtype=MXFP4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
