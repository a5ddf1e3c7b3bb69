/* SPDX-License-Identifier: MIT */
/*
 * The reader and the writer of safetensors files: the properties of round_trip.h.
 *
 * Input: a file. The corpus was made by a script from the format's description.
 */
#include "config.h"

#include "fuzz.h"
#include "io/file_safetensors.h"
#include "round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	round_trip(data, size, &file_safetensors);
	return 0;
}
