/* SPDX-License-Identifier: MIT */
/*
 * The reader of the vocabulary in a GGUF file, and encoding and decoding with it: the properties in encode.h.
 *
 * Input: a file. The corpus has those of tests/vectors/text_ids.
 */
#include "config.h"

#include "encode.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_encode(data, size, ".gguf", 1000);
	return 0;
}
