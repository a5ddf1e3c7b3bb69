/* SPDX-License-Identifier: MIT */
/* Reads elements of a float tensor as binary32 numbers, in small pieces, and decodes every dtype to binary64. */
#include "config.h"

#include "io/elements.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "io/ggml_q8.h"
#include "mxfp/convert.h"

enum { PIECE = 4096 }; /* elements read at once; they fit the stack */

bool elements_are_float(enum dtype dtype)
{
	return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype == DTYPE_F64;
}

bool elements_are_fp8(enum dtype dtype)
{
	return dtype == DTYPE_F8_E4M3 || dtype == DTYPE_F8_E5M2 || dtype == DTYPE_F8_E4M3FNUZ || dtype == DTYPE_F8_E5M2FNUZ;
}

/* Makes numbers of words as a file has them, which are turned into the host's. */
static void decode_words(enum dtype dtype, double *words, float *x, size_t n)
{
	const struct dtype_info *info = dtype_info(dtype);

	dtype_swap(dtype, words, n * (info->bits / 8));
	if (dtype == DTYPE_F64)
		for (size_t i = 0; i < n; i++)
			x[i] = (float)words[i];
	else if (dtype == DTYPE_F32)
		memcpy(x, words, n * sizeof *x);
	else
		must_succeed(mxfp_convert_array(x, MXFP_FORMAT_F32, words, info->format, n, NULL, ONE_THREAD));
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
	return dtype_info(dtype)->block_elements == 1 && dtype != DTYPE_C64;
}

size_t values_bytes(enum dtype dtype, size_t n)
{
	return (n / dtype_info(dtype)->block_elements * dtype_info(dtype)->bits + 7) / 8;
}

/* Numbers of a dtype of whole bytes in the host's order, in memory that any of them fits. */
static const void *in_host_order(enum dtype dtype, const unsigned char *bytes, uint64_t *words, size_t n)
{
	memcpy(words, bytes, values_bytes(dtype, n));
	dtype_swap(dtype, words, values_bytes(dtype, n));
	return words;
}

#define WIDEN(type) \
	for (size_t i = 0; i < n; i++) \
		x[i] = (double)((const type *)words)[i]; \
	return

static void decode_integers(enum dtype dtype, const unsigned char *bytes, double *x, size_t n)
{
	uint64_t aligned[VALUES_PIECE];
	const void *words = in_host_order(dtype, bytes, aligned, n);

	switch (dtype) {
	case DTYPE_I8:
		WIDEN(int8_t);
	case DTYPE_I16:
		WIDEN(int16_t);
	case DTYPE_U16:
		WIDEN(uint16_t);
	case DTYPE_I32:
		WIDEN(int32_t);
	case DTYPE_U32:
		WIDEN(uint32_t);
	case DTYPE_I64:
		WIDEN(int64_t);
	case DTYPE_U64:
		WIDEN(uint64_t);
	default: /* BOOL, U8 */
		WIDEN(uint8_t);
	}
}

#undef WIDEN

static void decode_f64(const unsigned char *bytes, double *x, size_t n)
{
	memcpy(x, bytes, n * sizeof *x);
	dtype_swap(DTYPE_F64, x, n * sizeof *x);
}

/* Puts codes of fewer than 8 bits, which are a stream from the low bits up, into a byte each. */
static void spread_codes(unsigned char *codes, const unsigned char *bytes, unsigned bits, size_t n)
{
	for (size_t i = 0; i < n; i += 8, bytes += bits) {
		const size_t some = n - i < 8 ? n - i : 8;
		uint64_t word = 0;

		for (size_t k = (some * bits + 7) / 8; k-- > 0;)
			word = word << 8 | bytes[k];
		for (size_t k = 0; k < some; k++, word >>= bits)
			codes[i + k] = (unsigned char)(word & ((1U << bits) - 1));
	}
}

/* Decodes codes of an element format, by putting them into the words that mxfp_convert() takes. */
static void decode_floats(enum dtype dtype, const unsigned char *bytes, double *x, size_t n)
{
	const struct dtype_info *info = dtype_info(dtype);
	uint64_t words[VALUES_PIECE];
	float decoded[VALUES_PIECE];

	if (info->bits < 8)
		spread_codes((unsigned char *)words, bytes, info->bits, n);
	else
		in_host_order(dtype, bytes, words, n);
	must_succeed(mxfp_convert_array(decoded, MXFP_FORMAT_F32, words, info->format, n, NULL, ONE_THREAD));
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
