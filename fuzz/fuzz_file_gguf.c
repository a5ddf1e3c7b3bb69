/* SPDX-License-Identifier: MIT */
/*
 * The reader and writer of GGUF files: the properties in round_trip.h.
 *
 * Input: a file. A script generated the corpus from the specification of the format.
 */
#include "config.h"

#include "fuzz.h"
#include "io/file_gguf.h"
#include "round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	round_trip(data, size, &file_gguf);
	return 0;
}
