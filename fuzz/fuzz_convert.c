/* SPDX-License-Identifier: MIT */
/*
 * mxfp_convert() from any element format to any other, in every rounding mode (doc/numerics.md, sections 1 and 2).
 *
 * Properties: the spare bits of codes are 0; decoding a result and encoding it again in any mode gives the same result;
 * converting a piece gives the same codes as converting the whole; every result equals one of the two directed
 * results; with no_negative_zero there are no negative zeros.
 *
 * Input: source format, target format, rounding mode, flags (1 overflow ovf, 2 no negative zero), the mode of the
 * second encoding, 8 bytes of seed, 1 byte of first index, then source codes.
 */
#include "fuzz.h"
#include "mxfp/convert.h"

static const enum mxfp_format element_formats[] = {
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) MXFP_FORMAT_##id,
#include "format.def"
};

enum { N_ELEMENT_FORMATS = sizeof element_formats / sizeof element_formats[0], MAX_CODES = 64, MAX_BYTES = MAX_CODES * 4 };

struct codes {
	uint8_t bytes[MAX_BYTES];
};

static size_t width(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->storage_bytes;
}

static uint32_t code_at(const struct codes *codes, enum mxfp_format format, size_t i)
{
	uint16_t half;
	uint32_t word;

	switch (width(format)) {
	case 1:
		return codes->bytes[i];
	case 2:
		memcpy(&half, codes->bytes + 2 * i, 2);
		return half;
	default:
		memcpy(&word, codes->bytes + 4 * i, 4);
		return word;
	}
}

static void convert(struct codes *dst, enum mxfp_format to, const void *src, enum mxfp_format from, size_t n,
                    const struct mxfp_convert_options *options, struct mxfp_counts *counts)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_matrix matrix = mxfp_numbers(from, 1, n, src);
	struct mxfp_result result = mxfp_to_numbers(to, dst->bytes);

	result.counts = counts;
	memset(dst, 0xA5, sizeof *dst);
	fuzz_check(mxfp_convert(&result, &matrix, options, &exec) == MXFP_OK,
	           "a conversion of two elements succeeds");
	for (size_t i = n * width(to); i < MAX_BYTES; i++)
		fuzz_check(dst->bytes[i] == 0xA5, "nothing is written past the end");
}

static void check_codes_have_no_spare_bits(const struct codes *codes, enum mxfp_format format, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	uint32_t spare = info->storage_bytes == 4 ? (UINT32_C(1) << (32 - info->bits)) - 1
	                                          : ~((UINT32_C(1) << info->bits) - 1);

	if (info->bits == 32)
		return;
	for (size_t i = 0; i < n; i++)
		fuzz_check((code_at(codes, format, i) & spare) == 0, "spare bits of a code are 0");
}

/* A value that has been encoded once is exact in the format; Inf needs overflow ovf to remain Inf. */
static void check_encoding_is_idempotent(const struct codes *codes, enum mxfp_format format, size_t n,
                                         uint8_t mode)
{
	struct mxfp_convert_options options = {
		.size = sizeof options, .round = mode % (MXFP_ROUND_SR + 1), .overflow = MXFP_OVERFLOW_OVF};
	struct codes values, again;

	convert(&values, MXFP_FORMAT_F32, codes->bytes, format, n, &options, NULL);
	convert(&again, format, values.bytes, MXFP_FORMAT_F32, n, &options, NULL);
	fuzz_check(memcmp(codes->bytes, again.bytes, n * width(format)) == 0, "encode(decode(code)) = code");
}

static void check_pieces_equal_whole(const struct codes *whole, enum mxfp_format to, const uint8_t *src,
                                     enum mxfp_format from, size_t n,
                                     const struct mxfp_convert_options *options)
{
	struct mxfp_convert_options piece = *options;
	struct codes part;
	size_t half = n / 2;

	piece.first_index += half;
	convert(&part, to, src + half * width(from), from, n - half, &piece, NULL);
	fuzz_check(memcmp(part.bytes, whole->bytes + half * width(to), (n - half) * width(to)) == 0,
	           "a piece converts as it does within the whole");
}

static void check_result_is_a_neighbour(const struct codes *result, enum mxfp_format to, const uint8_t *src,
                                        enum mxfp_format from, size_t n,
                                        const struct mxfp_convert_options *options)
{
	struct mxfp_convert_options directed = *options;
	struct codes up, down;

	directed.round = MXFP_ROUND_RTP;
	convert(&up, to, src, from, n, &directed, NULL);
	directed.round = MXFP_ROUND_RTN;
	convert(&down, to, src, from, n, &directed, NULL);
	for (size_t i = 0; i < n; i++) {
		uint32_t code = code_at(result, to, i);

		fuzz_check(code == code_at(&up, to, i) || code == code_at(&down, to, i),
		           "the result is a neighbour");
	}
}

static void check_no_negative_zero(const struct codes *codes, enum mxfp_format format, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	uint32_t negative_zero = UINT32_C(1) << (info->storage_bytes == 4 ? 31 : info->bits - 1);

	if (info->kind != MXFP_KIND_FLOAT || info->special == MXFP_SPECIAL_FNUZ)
		return;
	for (size_t i = 0; i < n; i++)
		fuzz_check(code_at(codes, format, i) != negative_zero,
		           "no negative zero where none is wanted");
}

static void check_counts(const struct mxfp_counts *counts, size_t n)
{
	fuzz_check(counts->saturated + counts->overflowed + counts->flushed + counts->nan <= n,
	           "an element is saturated, overflowed, flushed or NaN, not two of them");
	fuzz_check(counts->inf + counts->nan <= n, "no more NaN and Inf than elements");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes in = {data, size};
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_convert_options options = {.size = sizeof options};
	const enum mxfp_format from = element_formats[fuzz_byte(&in) % N_ELEMENT_FORMATS];
	const enum mxfp_format to = element_formats[fuzz_byte(&in) % N_ELEMENT_FORMATS];
	struct codes result, src;

	options.round = fuzz_byte(&in) % (MXFP_ROUND_SR + 1);
	uint8_t flags = fuzz_byte(&in), mode = fuzz_byte(&in);
	options.overflow = flags & 1;
	options.no_negative_zero = (flags & 2) != 0;
	fuzz_take(&in, &options.seed, sizeof options.seed);
	options.first_index = fuzz_byte(&in);
	size_t n = in.size / width(from) < MAX_CODES ? in.size / width(from) : MAX_CODES;
	fuzz_take(&in, src.bytes, n * width(from));

	convert(&result, to, src.bytes, from, n, &options, &counts);
	check_counts(&counts, n);
	check_codes_have_no_spare_bits(&result, to, n);
	check_encoding_is_idempotent(&result, to, n, mode);
	check_pieces_equal_whole(&result, to, src.bytes, from, n, &options);
	check_result_is_a_neighbour(&result, to, src.bytes, from, n, &options);
	if (options.no_negative_zero)
		check_no_negative_zero(&result, to, n);
	return 0;
}
