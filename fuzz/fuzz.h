/* SPDX-License-Identifier: MIT */
/*
 * Declarations for all fuzz targets: libFuzzer's entry point, which driver.c also calls, a check that does not depend on
 * NDEBUG, and a reader of the input bytes.
 */
#ifndef MXFP_FUZZ_H
#define MXFP_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts if a property does not hold; a fuzzer reports that as a finding. */
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

/* The next byte, or 0 at the end of the input. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
	if (bytes->size == 0)
		return 0;
	bytes->size--;
	return *bytes->data++;
}

/* A length of what follows, in two bytes. */
static inline size_t fuzz_length(struct fuzz_bytes *bytes)
{
	const size_t low = fuzz_byte(bytes);

	return low + 256 * (size_t)fuzz_byte(bytes);
}

/* Reads n bytes; bytes beyond the end of the input are 0. */
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
