/* SPDX-License-Identifier: MIT */
/*
 * The reader of llama2.c's tokenizer.bin, of 300 tokens, and encoding and decoding with it: the properties in encode.h.
 *
 * Input: a file. A script wrote the corpus.
 */
#include "config.h"

#include "encode.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_encode(data, size, ".bin", 300);
	return 0;
}
