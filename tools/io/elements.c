/* SPDX-License-Identifier: MIT */
/* Elements of a float tensor as binary32 numbers: reads little-endian words in small pieces and
   widens or rounds them. */
#include "io/elements.h"

#include <string.h>

#include "base/must_succeed.h"
#include "mxfp/convert.h"

enum { PIECE = 4096 }; /* elements read at once, so that the stack holds them */

bool elements_are_float(enum dtype dtype)
{
	return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype == DTYPE_F64;
}

static uint64_t little_endian(const uint8_t *bytes, size_t n)
{
	uint64_t word = 0;

	for (size_t i = n; i-- > 0;)
		word = word << 8 | bytes[i];
	return word;
}

static void decode_f64(float *x, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t word = little_endian(bytes + 8 * i, 8);
		double value;

		memcpy(&value, &word, sizeof value);
		x[i] = (float)value;
	}
}

static void decode_f32(float *x, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t word = (uint32_t)little_endian(bytes + 4 * i, 4);

		memcpy(&x[i], &word, sizeof word);
	}
}

static void decode_16(float *x, const uint8_t *bytes, size_t n, enum mxfp_format format)
{
	const struct mxfp_convert_options options = {.exec = &(struct mxfp_exec){.threads = 1}};
	uint16_t words[PIECE];

	for (size_t i = 0; i < n; i++)
		words[i] = (uint16_t)little_endian(bytes + 2 * i, 2);
	must_succeed(mxfp_convert(x, MXFP_FORMAT_F32, words, format, n, &options));
}

int elements_read(const struct file *file, const struct tensor *tensor, uint64_t first, float *x, size_t n,
                  struct error *error)
{
	uint8_t bytes[PIECE * sizeof(double)];
	size_t width = dtype_info(tensor->dtype)->bits / 8;

	for (size_t done = 0; done < n; done += PIECE) {
		size_t piece = n - done < PIECE ? n - done : PIECE;
		int code = file_read(file, tensor, (first + done) * width, bytes, piece * width, error);

		if (code != EXIT_OK)
			return code;
		if (tensor->dtype == DTYPE_F64)
			decode_f64(x + done, bytes, piece);
		else if (tensor->dtype == DTYPE_F32)
			decode_f32(x + done, bytes, piece);
		else
			decode_16(x + done, bytes, piece, dtype_info(tensor->dtype)->format);
	}
	return EXIT_OK;
}
