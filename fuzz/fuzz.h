/* SPDX-License-Identifier: MIT */
/*
 * What fuzz targets share: libFuzzer's entry point, which driver.c calls too, a check that holds whatever
 * NDEBUG says, and a reader of the fuzzer's bytes.
 */
#ifndef MXFP_FUZZ_H
#define MXFP_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stops the program, which is what a fuzzer takes for a finding, when a property does not hold. */
static inline void fuzz_check(int holds, const char *property)
{
	if (!holds) {
		fprintf(stderr, "does not hold: %s\n", property);
		abort();
	}
}

struct fuzz_bytes {
	const uint8_t *data;
	size_t size;
};

/* The next byte, 0 when there is none left. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
	if (bytes->size == 0)
		return 0;
	bytes->size--;
	return *bytes->data++;
}

/* Takes up to n bytes; what is missing is 0. */
static inline void fuzz_take(struct fuzz_bytes *bytes, void *out, size_t n)
{
	size_t have = n < bytes->size ? n : bytes->size;

	memset(out, 0, n);
	if (have != 0)
		memcpy(out, bytes->data, have);
	bytes->data += have;
	bytes->size -= have;
}

#endif
