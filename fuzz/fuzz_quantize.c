/* SPDX-License-Identifier: MIT */
/*
 * mxfp_quantize() and mxfp_dequantize() of a small matrix with any block format and options (doc/numerics.md, sections
 * 3 and 4).
 *
 * Properties: a call fails only where its options require it; nothing is written outside the rows; the scale byte is FF
 * (NVFP4: 7F) exactly in blocks with a NaN, or an Inf that is not replaced, and their codes are 0; padding is 0; every
 * other block decodes to finite numbers unless its elements are so large that rounding up overflows binary32;
 * quantizing row by row, with first_index and tensor_amax, gives the same result as the whole; a bf16 source gives the
 * same result as its numbers in binary32.
 *
 * Input: format, rule, recipe, rounding, policy, flags (1 no negative zero, 2 via bf16, 4 bf16 source, 8 gaps
 * between rows), rows, columns, 8 bytes of seed, then the elements.
 */
#include "format.h"
#include "fuzz.h"
#include "mxfp/convert.h"
#include "mxfp/quantize.h"

enum {
	MAX_ROWS = 3,
	MAX_COLS = 72,
	MAX_ELEMENTS = MAX_ROWS * MAX_COLS,
	MAX_BYTES = 1024,
	GAP = 3,
	UNTOUCHED = 0xA5
};

static const uint32_t f32_sign = 0x80000000, f32_inf = 0x7F800000;
/* Twice this overflows binary32; rounding never doubles the largest element of a block. */
static const uint32_t f32_half_of_range = 0x7F000000;

struct matrix {
	size_t rows, cols;
	enum mxfp_format src_format;
	uint16_t bf16[MAX_ELEMENTS];
	uint32_t f32[MAX_ELEMENTS];
	uint32_t seen[MAX_ELEMENTS]; /* the numbers after via_bf16, as binary32 */
};

struct blocks {
	struct mxfp_blocks head;
	uint8_t codes[MAX_BYTES], scales[MAX_BYTES];
};

static void point(struct blocks *b, enum mxfp_format format, const struct matrix *m, size_t gap)
{
	struct mxfp_sizes size;

	memset(b, UNTOUCHED, sizeof *b);
	fuzz_check(mxfp_blocks_size(&size, format, m->rows, m->cols) == MXFP_OK, "a small matrix has a size");
	b->head = (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = format,
		.rows = m->rows,
		.cols = m->cols,
		.codes = b->codes,
		.codes_stride = size.codes_row_bytes + gap,
		.scales = b->scales,
		.scales_stride = size.scales_row_bytes + gap,
		.tensor_scale = 1,
	};
}

static const void *source(const struct matrix *m)
{
	return m->src_format == MXFP_FORMAT_BF16 ? (const void *)m->bf16 : (const void *)m->f32;
}

static enum mxfp_status quantize(struct mxfp_blocks *to, const void *src, enum mxfp_format format,
                                 const struct mxfp_quantize_options *options, uint64_t *first_non_finite)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_matrix matrix = mxfp_numbers(format, to->rows, to->cols, src);
	struct mxfp_result result = mxfp_to_blocks(to);

	result.first_non_finite = first_non_finite;
	return mxfp_quantize(&result, &matrix, options, &exec);
}

static void check_gaps(const uint8_t *bytes, size_t rows, size_t row_bytes, size_t stride)
{
	for (size_t i = 0; i < MAX_BYTES; i++)
		if (stride == 0 || i / stride >= rows || i % stride >= row_bytes)
			fuzz_check(bytes[i] == UNTOUCHED, "nothing is written outside the rows");
}

/* Whether a block becomes NaN as a whole, and whether its decoded numbers may overflow binary32. */
struct expectation {
	bool nan, huge;
};

static struct expectation expect(const struct matrix *m, size_t row, size_t start, size_t length,
                                 bool saturate)
{
	struct expectation e = {false, false};

	for (size_t k = start; k < m->cols && k < start + length; k++) {
		uint32_t magnitude = m->seen[row * m->cols + k] & ~f32_sign;

		e.nan = e.nan || magnitude > f32_inf || (magnitude == f32_inf && !saturate);
		e.huge = e.huge || magnitude >= f32_half_of_range;
	}
	return e;
}

static void check_padding(const uint8_t *row_codes, const struct mxfp_format_info *element, size_t first,
                          size_t end)
{
	for (size_t bit = first * element->bits; bit < end * element->bits; bit++)
		fuzz_check((row_codes[bit / 8] >> bit % 8 & 1) == 0, "padding is 0");
}

static void check_decoded(const uint32_t *values, size_t n, struct expectation e)
{
	for (size_t i = 0; i < n; i++) {
		fuzz_check(!e.nan || values[i] == 0x7FC00000, "a block with a NaN scale decodes to 7FC00000");
		fuzz_check(e.nan || (values[i] & ~f32_sign) <= f32_inf, "no other block decodes to NaN");
		fuzz_check(e.nan || e.huge || (values[i] & ~f32_sign) < f32_inf,
		           "no ordinary block decodes to Inf");
	}
}

static void check_blocks(const struct blocks *b, const struct matrix *m, bool saturate)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(b->head.format);
	const struct mxfp_format_info *element = mxfp_format_get_info(format->element);
	uint8_t nan_scale = format->scale == MXFP_FORMAT_E8M0 ? 0xFF : 0x7F;
	size_t length = format->block_length, blocks = (m->cols + length - 1) / length;
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&b->head);
	uint32_t values[MAX_ELEMENTS];
	const struct mxfp_result numbers = mxfp_to_numbers(MXFP_FORMAT_F32, values);

	fuzz_check(mxfp_dequantize(&numbers, &matrix, NULL) == MXFP_OK,
	           "what was quantized dequantizes");
	for (size_t row = 0; row < m->rows; row++)
		for (size_t block = 0; block < blocks; block++) {
			size_t start = block * length,
			       n = m->cols - start < length ? m->cols - start : length;
			uint8_t scale = b->scales[row * b->head.scales_stride + block];
			struct expectation e = expect(m, row, start, length, saturate);

			check_padding(b->codes + row * b->head.codes_stride, element,
			              e.nan ? start : start + n, start + length);
			fuzz_check(scale <= nan_scale && (scale == nan_scale) == e.nan,
			           "the scale is NaN where it must be");
			check_decoded(values + row * m->cols + start, n, e);
		}
}

static void check_rows_equal_whole(const struct blocks *whole, const struct matrix *m,
                                   const struct mxfp_quantize_options *options)
{
	struct mxfp_quantize_options piece = *options;
	const uint8_t *src = source(m);
	size_t row_bytes = m->cols * mxfp_format_get_info(m->src_format)->storage_bytes;
	struct blocks rows = *whole;
	float amax = 0;

	const struct mxfp_matrix matrix = mxfp_numbers(m->src_format, m->rows, m->cols, src);
	fuzz_check(mxfp_amax(&amax, &matrix, NULL) == MXFP_OK, "amax of a small matrix");
	piece.tensor_amax = mxfp_some(amax);
	memset(rows.codes, UNTOUCHED, sizeof rows.codes);
	memset(rows.scales, UNTOUCHED, sizeof rows.scales);
	for (size_t row = 0; row < m->rows; row++) {
		struct mxfp_blocks one = whole->head;

		one.rows = 1;
		one.codes = rows.codes + row * whole->head.codes_stride;
		one.scales = rows.scales + row * whole->head.scales_stride;
		piece.first_index = options->first_index + row * m->cols;
		fuzz_check(quantize(&one, src + row * row_bytes, m->src_format, &piece, NULL) == MXFP_OK,
		           "a row quantizes");
		fuzz_check(memcmp(&one.tensor_scale, &whole->head.tensor_scale, sizeof one.tensor_scale) == 0,
		           "a row has the tensor's scale");
	}
	fuzz_check(memcmp(rows.codes, whole->codes, MAX_BYTES) == 0,
	           "the codes of rows are those of the whole");
	fuzz_check(memcmp(rows.scales, whole->scales, MAX_BYTES) == 0,
	           "the scales of rows are those of the whole");
}

static void check_widened_source(const struct blocks *expected, struct matrix *m,
                                 const struct mxfp_quantize_options *options)
{
	struct blocks b = *expected;

	b.head.codes = b.codes;
	b.head.scales = b.scales;
	m->src_format = MXFP_FORMAT_F32;
	fuzz_check(quantize(&b.head, m->f32, MXFP_FORMAT_F32, options, NULL) == MXFP_OK,
	           "the widened matrix quantizes");
	fuzz_check(memcmp(b.codes, expected->codes, MAX_BYTES) == 0,
	           "bf16 and its binary32 have the same codes");
	fuzz_check(memcmp(b.scales, expected->scales, MAX_BYTES) == 0,
	           "bf16 and its binary32 have the same scales");
}

static void read_matrix(struct fuzz_bytes *in, struct matrix *m, bool bf16, bool via_bf16)
{
	size_t n = m->rows * m->cols;
	uint16_t rounded[MAX_ELEMENTS];

	m->src_format = bf16 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	fuzz_take(in, bf16 ? (void *)m->bf16 : (void *)m->f32, n * (bf16 ? sizeof *m->bf16 : sizeof *m->f32));
	for (size_t i = 0; bf16 && i < n; i++)
		m->f32[i] = (uint32_t)m->bf16[i] << 16;
	memcpy(m->seen, m->f32, n * sizeof *m->seen);
	if (via_bf16) {
		mxfp_convert_array(rounded, MXFP_FORMAT_BF16, m->f32, MXFP_FORMAT_F32, n, NULL, NULL);
		mxfp_convert_array(m->seen, MXFP_FORMAT_F32, rounded, MXFP_FORMAT_BF16, n, NULL, NULL);
	}
}

static size_t first_non_finite(const struct matrix *m)
{
	size_t i = 0;

	while (i < m->rows * m->cols && (m->seen[i] & ~f32_sign) < f32_inf)
		i++;
	return i;
}

static void check_refusal(const struct blocks *b, const struct matrix *m, uint64_t reported,
                          uint64_t first_index)
{
	fuzz_check(reported == first_index + first_non_finite(m), "the first NaN or Inf is reported");
	check_gaps(b->codes, 0, 0, 1);
	check_gaps(b->scales, 0, 0, 1);
}

static void check_quantize(struct matrix *m, enum mxfp_format format, size_t gap,
                           const struct mxfp_quantize_options *o)
{
	bool recipe_rounds_else = o->recipe == MXFP_RECIPE_GGML && o->round != MXFP_ROUND_RNE;
	bool refused = format == MXFP_FORMAT_NVFP4 && (o->via_bf16 || recipe_rounds_else);
	bool finite = first_non_finite(m) == m->rows * m->cols;
	uint64_t reported = 0;
	struct mxfp_sizes size;
	struct blocks b;

	point(&b, format, m, gap);
	enum mxfp_status status = quantize(&b.head, source(m), m->src_format, o, &reported);
	fuzz_check((status == MXFP_ERR_OPTION) == refused,
	           "ggml takes only its own rounding, and NVFP4 does not go through bf16");
	if (status == MXFP_ERR_OPTION)
		return;
	fuzz_check((status == MXFP_OK) == (finite || o->non_finite != MXFP_NON_FINITE_ERROR),
	           "the call fails only for a NaN or Inf under the policy error");
	if (status != MXFP_OK) {
		check_refusal(&b, m, reported, o->first_index);
		return;
	}
	fuzz_check(reported == (finite ? 0 : o->first_index + first_non_finite(m)),
	           "the first NaN or Inf is reported under every policy");
	mxfp_blocks_size(&size, format, m->rows, m->cols);
	check_gaps(b.codes, m->rows, size.codes_row_bytes, b.head.codes_stride);
	check_gaps(b.scales, m->rows, size.scales_row_bytes, b.head.scales_stride);
	check_blocks(&b, m, o->non_finite == MXFP_NON_FINITE_SATURATE);
	check_rows_equal_whole(&b, m, o);
	if (m->src_format == MXFP_FORMAT_BF16)
		check_widened_source(&b, m, o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { NO_NEGATIVE_ZERO = 1, VIA_BF16 = 2, BF16_SOURCE = 4, GAPS = 8 };
	struct fuzz_bytes in = {data, size};
	struct mxfp_quantize_options options = {.size = sizeof options};
	struct matrix m = {0};
	enum mxfp_format format =
		MXFP_FORMAT_MXFP8_E4M3 + fuzz_byte(&in) % (MXFP_FORMAT_NVFP4 + 1 - MXFP_FORMAT_MXFP8_E4M3);

	options.rule = fuzz_byte(&in) % (MXFP_RULE_LOG_NEAREST + 1);
	options.recipe = fuzz_byte(&in) % (MXFP_RECIPE_MODELOPT_4OVER6 + 1);
	options.round = fuzz_byte(&in) % (MXFP_ROUND_SR + 1);
	options.non_finite = fuzz_byte(&in) % (MXFP_NON_FINITE_SATURATE + 1);
	uint8_t flags = fuzz_byte(&in);
	options.no_negative_zero = (flags & NO_NEGATIVE_ZERO) != 0;
	options.via_bf16 = (flags & VIA_BF16) != 0 && !mxfp_format_get_info(format)->tensor_scale;
	m.rows = fuzz_byte(&in) % (MAX_ROWS + 1);
	m.cols = fuzz_byte(&in) % (MAX_COLS + 1);
	fuzz_take(&in, &options.seed, sizeof options.seed);
	options.first_index = options.seed >> 32;
	read_matrix(&in, &m, (flags & BF16_SOURCE) != 0, options.via_bf16);
	check_quantize(&m, format, (flags & GAPS) != 0 ? GAP : 0, &options);
	return 0;
}
