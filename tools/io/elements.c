/* SPDX-License-Identifier: MIT */
/* Reads elements of a float tensor as binary32 numbers, in small pieces, and decodes every dtype to binary64. */
#include "config.h"

#include "io/elements.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/must_succeed.h"
#include "io/ggml_q8.h"
#include "mxfp/convert.h"

enum { PIECE = 4096 }; /* elements read at once; they fit the stack */

bool elements_are_float(enum dtype dtype)
{
	return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype == DTYPE_F64;
}

/* Makes numbers of words as a file has them, which are turned into the host's. */
static void decode_words(enum dtype dtype, double *words, float *x, size_t n)
{
	const struct mxfp_convert_options options = {.exec = &(struct mxfp_exec){.threads = 1}};
	const struct dtype_info *info = dtype_info(dtype);

	dtype_swap(dtype, words, n * (info->bits / 8));
	if (dtype == DTYPE_F64)
		for (size_t i = 0; i < n; i++)
			x[i] = (float)words[i];
	else if (dtype == DTYPE_F32)
		memcpy(x, words, n * sizeof *x);
	else
		must_succeed(mxfp_convert(x, MXFP_FORMAT_F32, words, info->format, n, &options));
}

/* All at once, since columns are read for as many rows as there are. */
static int read_by_columns(const struct file *file, const struct tensor *tensor, uint64_t first, float *x, size_t n,
                           struct error *error)
{
	const size_t width = dtype_info(tensor->dtype)->bits / 8;
	double *words = malloc(n * width + 1);
	int code = words == NULL ? fail_memory(error)
	                         : file_read_rows(file, tensor, first * width, words, n * width, error);

	if (code == EXIT_OK)
		decode_words(tensor->dtype, words, x, n);
	free(words);
	return code;
}

int elements_read(const struct file *file, const struct tensor *tensor, uint64_t first, float *x, size_t n,
                  struct error *error)
{
	const size_t width = dtype_info(tensor->dtype)->bits / 8;
	double words[PIECE]; /* of any of these types */

	if (tensor->by_columns)
		return read_by_columns(file, tensor, first, x, n, error);
	for (size_t done = 0; done < n; done += PIECE) {
		size_t piece = n - done < PIECE ? n - done : PIECE;
		int code = file_read(file, tensor, (first + done) * width, words, piece * width, error);

		if (code != EXIT_OK)
			return code;
		decode_words(tensor->dtype, words, x + done, piece);
	}
	return EXIT_OK;
}

bool values_are_known(enum dtype dtype)
{
	if (dtype == DTYPE_Q8_0)
		return true;
	return dtype_info(dtype)->block_elements == 1 && dtype != DTYPE_C64 && dtype != DTYPE_F8_E4M3FNUZ &&
	       dtype != DTYPE_F8_E5M2FNUZ;
}

size_t values_bytes(enum dtype dtype, size_t n)
{
	return (n / dtype_info(dtype)->block_elements * dtype_info(dtype)->bits + 7) / 8;
}

static bool is_signed(enum dtype dtype)
{
	return dtype == DTYPE_I8 || dtype == DTYPE_I16 || dtype == DTYPE_I32 || dtype == DTYPE_I64;
}

/* Returns element i of a little-endian stream of words of `bits` bits, at most 64; those below 8 may straddle bytes. */
static uint64_t word_at(const unsigned char *bytes, size_t i, unsigned bits)
{
	size_t first = i * bits / 8, end = (i * bits + bits + 7) / 8;
	unsigned shift = (unsigned)(i * bits % 8);
	uint64_t word = 0;

	for (size_t k = end; k-- > first;)
		word = word << 8 | bytes[k];
	return bits == 64 ? word : word >> shift & ((UINT64_C(1) << bits) - 1);
}

static void decode_integers(enum dtype dtype, const unsigned char *bytes, double *x, size_t n)
{
	unsigned bits = dtype_info(dtype)->bits;
	uint64_t sign = UINT64_C(1) << (bits - 1);

	for (size_t i = 0; i < n; i++) {
		uint64_t word = word_at(bytes, i, bits);

		if (is_signed(dtype) && (word & sign) != 0)
			x[i] = -(double)((~word & (sign - 1)) + 1);
		else
			x[i] = (double)word;
	}
}

static void decode_f64(const unsigned char *bytes, double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t word = word_at(bytes, i, 64);

		memcpy(&x[i], &word, sizeof word);
	}
}

/* Decodes codes of an element format, by putting them into the words that mxfp_convert() takes. */
static void decode_floats(enum dtype dtype, const unsigned char *bytes, double *x, size_t n)
{
	const struct mxfp_convert_options options = {.exec = &(struct mxfp_exec){.threads = 1}};
	const struct dtype_info *info = dtype_info(dtype);
	unsigned char words[VALUES_PIECE * sizeof(float)];
	float decoded[VALUES_PIECE];

	for (size_t i = 0; i < n; i++) {
		uint32_t word = (uint32_t)word_at(bytes, i, info->bits);
		uint16_t half = (uint16_t)word;

		if (info->bits <= 8)
			words[i] = (unsigned char)word;
		else if (info->bits == 16)
			memcpy(words + 2 * i, &half, sizeof half);
		else
			memcpy(words + 4 * i, &word, sizeof word);
	}
	must_succeed(mxfp_convert(decoded, MXFP_FORMAT_F32, words, info->format, n, &options));
	for (size_t i = 0; i < n; i++)
		x[i] = (double)decoded[i];
}

static void decode_q8_0(const unsigned char *bytes, double *x, size_t n)
{
	float decoded[VALUES_PIECE];

	q8_0_decode(decoded, bytes, n / Q8_0_ELEMENTS);
	for (size_t i = 0; i < n; i++)
		x[i] = (double)decoded[i];
}

void values_decode(enum dtype dtype, const unsigned char *bytes, double *x, size_t n)
{
	assert(n <= VALUES_PIECE && values_are_known(dtype));
	if (dtype == DTYPE_F64)
		decode_f64(bytes, x, n);
	else if (dtype == DTYPE_Q8_0)
		decode_q8_0(bytes, x, n);
	else if (dtype_info(dtype)->numeric)
		decode_floats(dtype, bytes, x, n);
	else
		decode_integers(dtype, bytes, x, n);
}
