/* SPDX-License-Identifier: MIT */
/*
 * The limits that kernels are compared with: plain loops that read and write as many bytes as a kernel does and compute
 * next to nothing. The file is compiled once per tier, with the tier's flags and -O3, so that the compiler uses vectors
 * of the tier's width; LIMITS is the name of the tier's table.
 */
#include "config.h"

#include "limit.h"

#include <string.h>

#include "machine.h"

/* The 8-byte words of a cache line, the unit of work. */
enum { LINE = 8 };

/* Each of n steps reads `in` lines and writes `out`, one of which is 1. Both are constants where this is called, so the
   inner loops are unrolled. */
static inline void move(uint64_t *restrict dst, const uint64_t *restrict src, size_t n, size_t in, size_t out)
{
	for (size_t i = 0; i < n; i++, dst += out * LINE, src += in * LINE)
		for (size_t j = 0; j < LINE; j++) {
			uint64_t word = src[j];
			for (size_t k = 1; k < in; k++)
				word ^= src[k * LINE + j];
			for (size_t k = 0; k < out; k++)
				dst[k * LINE + j] = word ^ k;
		}
}

/* The same with stores past the caches. */
static inline void move_past(uint64_t *restrict dst, const uint64_t *restrict src, size_t n, size_t in, size_t out)
{
	uint64_t line[LINE];

	for (size_t i = 0; i < n; i++, dst += out * LINE, src += in * LINE) {
		for (size_t j = 0; j < LINE; j++) {
			line[j] = src[j];
			for (size_t k = 1; k < in; k++)
				line[j] ^= src[k * LINE + j];
		}
		for (size_t k = 0; k < out; k++)
			stream_line(dst + k * LINE, line);
	}
	stream_end();
}

#define LIMIT_LOOP(in, out) \
	static void past_##in##_##out(void *dst, const void *src, size_t n) { move_past(dst, src, n, in, out); }
#include "limit.def"

#define LIMIT_LOOP(in, out) \
	static void move_##in##_##out(void *dst, const void *src, size_t n) { move(dst, src, n, in, out); }
#include "limit.def"

/* Only reads, into four lines of sums, so that no operation waits for the one before it. */
static void read_only(void *dst, const void *src, size_t n)
{
	const uint64_t *from = src;
	uint64_t sums[4 * LINE] = {0}, sum = 0;

	for (size_t i = 0; i + 4 <= n; i += 4, from += 4 * LINE)
		for (size_t j = 0; j < 4 * LINE; j++)
			sums[j] ^= from[j];
	for (size_t j = 0; j < 4 * LINE; j++)
		sum ^= sums[j];
	memcpy(dst, &sum, sizeof sum);
}

const struct limit LIMITS[] = {
	{1, 0, read_only, read_only},
#define LIMIT_LOOP(in, out) {in, out, move_##in##_##out, past_##in##_##out},
#include "limit.def"
	{0, 0, NULL, NULL},
};
