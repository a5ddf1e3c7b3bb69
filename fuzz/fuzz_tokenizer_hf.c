/* SPDX-License-Identifier: MIT */
/*
 * The reader of tokenizer.json of Hugging Face, and encoding and decoding with it: the properties in encode.h.
 *
 * Input: a file. A script wrote the corpus.
 */
#include "config.h"

#include "encode.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_encode(data, size, ".json", 1000);
	return 0;
}
