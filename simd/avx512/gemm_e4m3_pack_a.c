/* SPDX-License-Identifier: MIT */
/* Panels of A: gemm_e4m3.h. */
#include "avx512/gemm_e4m3_load.h"

static bool has_rests(const struct mxfp_gemm_shape *shape)
{
	return shape->a_format == MXFP_FORMAT_MXFP8_E4M3;
}

/* Whether W is not expanded for a single row. */
static bool has_single(const struct mxfp_gemm_shape *shape)
{
	return shape->w_format == MXFP_FORMAT_MXFP4;
}

size_t mxfp_gemm_e4m3_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	size_t block = sizeof(struct gemm_e4m3_rows);

	block += has_rests(shape) ? sizeof(struct gemm_e4m3_rest) : 0;
	block += has_single(shape) ? sizeof(struct gemm_e4m3_single) : 0;
	return sizeof(struct gemm_e4m3_head) + gemm_e4m3_blocks(k) * block;
}

/* A row on its way into a panel. */
struct row {
	const struct mxfp_gemm_pack_job *job;
	size_t index, n_blocks;
	int unit;                         /* of products of `main` parts: an exponent */
	struct gemm_e4m3_head *head;
	struct gemm_e4m3_single *single;  /* NULL: no block has it */
	struct gemm_e4m3_rows *rows;
	struct gemm_e4m3_rest *rests;
	uint8_t scale[GEMM_E4M3_BLOCKS];
	bool zero[GEMM_E4M3_BLOCKS];
	struct scale_range range;
};

static int unit_of_format(enum mxfp_format format)
{
	switch (format) {
	case MXFP_FORMAT_MXFP8_E4M3:
		return -9;
	case MXFP_FORMAT_MXINT8:
		return -6;
	default:
		return format == MXFP_FORMAT_MXFP4 ? -1 : -3;
	}
}

/* Elements to words in the order of pairs. */
ALWAYS_INLINE __m512i in_pairs(__m256i x, bool is_signed)
{
	const __m256i order = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15));

	x = _mm256_shuffle_epi8(x, order);
	return is_signed ? _mm512_cvtepi8_epi16(x) : _mm512_cvtepu8_epi16(x);
}

ALWAYS_INLINE float norm_of(__m512i words)
{
	__m512 squares = _mm512_cvtepi32_ps(_mm512_madd_epi16(words, words));

	return gemm_e4m3_norm(float_of(halving_sum((vf32)squares)));
}

/* Bit p: one of the words of pair p is not 0. */
ALWAYS_INLINE uint16_t pairs_set(__m512i words)
{
	return _mm512_test_epi32_mask(words, words);
}

ALWAYS_INLINE void pack_e4m3(struct row *row, size_t b, __m256i codes, int low_bits)
{
	const struct gemm_e4m3_parts parts = gemm_e4m3_split(in_pairs(codes, false), low_bits);
	struct gemm_e4m3_rows *rows = &row->rows[b];
	const size_t i = row->index;

	_mm512_store_si512(rows->main[i], parts.main);
	rows->rests[i] = pairs_set(parts.rest);
	if (rows->rests[i] != 0)
		_mm512_store_si512(row->rests[b].rest[i], parts.rest);
	if (low_bits == 4)
		rows->norm[i] = norm_of(parts.main);
}

ALWAYS_INLINE void load_row(struct row *row, enum mxfp_format format, int low_bits)
{
	const struct mxfp_gemm_pack_job *job = row->job;
	const uint8_t *codes = codes_at(job->matrix, job->row + row->index, job->k0);
	const uint8_t *scales = scales_at(job->matrix, job->row + row->index, job->k0);
	const size_t bytes = codes_at(job->matrix, 0, GEMM_E4M3_BLOCK) - codes_at(job->matrix, 0, 0);

	for (size_t b = 0; b < row->n_blocks; b++, codes += bytes) {
		__m256i x = load_block(format, codes, job->k - b * GEMM_E4M3_BLOCK);

		row->scale[b] = scales[b];
		row->zero[b] = all_zero(format, x);
		if (format == MXFP_FORMAT_MXFP8_E4M3) {
			if (has_nan(x))
				row->scale[b] = E8M0_NAN;
			pack_e4m3(row, b, x, low_bits);
		} else {
			_mm512_store_si512(row->rows[b].main[row->index], in_pairs(x, true));
			row->rows[b].rests[row->index] = 0;
		}
	}
}

/* Elements of a narrow format times 2^(scale - least). */
static void fold(struct row *row)
{
	for (size_t b = 0; b < row->n_blocks; b++) {
		__m512i *words = (__m512i *)row->rows[b].main[row->index];

		*words = _mm512_sll_epi16(*words, _mm_cvtsi32_si128(row->scale[b] - row->range.least));
		row->scale[b] = row->range.least;
	}
}

/* Scales: those of e4m3 stay with the blocks, those of a narrow format are folded. */
static void store_scales(struct row *row)
{
	const enum mxfp_format format = row->job->shape->a_format;
	const bool narrow = format != MXFP_FORMAT_MXFP8_E4M3;
	struct gemm_e4m3_head *head = row->head;
	bool fast = is_moderate(row->range);

	if (narrow && row->range.most - row->range.least <= gemm_e4m3_fold_spread(format))
		fold(row);
	else
		fast &= !narrow;
	for (size_t b = 0; b < row->n_blocks; b++) {
		const int exponent = row->scale[b] - E8M0_BIAS;

		row->rows[b].factor[row->index] = narrow ? 1 : gemm_e4m3_power(exponent);
		row->rows[b].exponent[row->index] = exponent + row->unit;
	}
	const float last = gemm_e4m3_power(row->unit + (narrow ? row->range.least - E8M0_BIAS : 0));
	head->one[row->index] = row->range.nan ? __builtin_nanf("") : 1;
	head->last[row->index] = row->range.nan ? __builtin_nanf("") : last;
	head->general |= !fast;
}

/* Rows that the matrix has not. What is common to the rows of a block is stored for all: the others come later. */
static void clear_rows(const struct row *row)
{
	for (size_t b = 0; b < row->n_blocks; b++) {
		struct gemm_e4m3_rows *rows = &row->rows[b];

		_mm256_store_ps(rows->factor, _mm256_set1_ps(1));
		_mm256_store_ps(rows->norm, _mm256_setzero_ps());
		_mm256_store_si256((__m256i *)rows->exponent, _mm256_setzero_si256());
		_mm_store_si128((__m128i *)rows->rests, _mm_setzero_si128());
		for (size_t i = row->job->rows; i < GEMM_E4M3_MR; i++)
			_mm512_store_si512(rows->main[i], _mm512_setzero_si512());
	}
	_mm256_store_ps(row->head->last, _mm256_set1_ps(1));
	_mm256_store_ps(row->head->one, _mm256_set1_ps(1));
}

/* From the order of pairs to that of words. */
ALWAYS_INLINE __m512i in_words(__m512i words)
{
	return _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11,
	                                                                       14, 15)));
}

ALWAYS_INLINE int32_t sum_of_words(__m512i words)
{
	return _mm512_reduce_add_epi32(_mm512_madd_epi16(words, _mm512_set1_epi16(1)));
}

/* The only row once more. */
static void pack_single(const struct row *row, size_t b)
{
	const struct gemm_e4m3_rows *rows = &row->rows[b];
	struct gemm_e4m3_single *to = &row->single[b];
	__m512i main = in_words(_mm512_load_si512(rows->main[0])), rest = _mm512_setzero_si512();
	/* main = 256 high + low, both signed: low's sign is made up for in high. */
	__m512i high = _mm512_srai_epi16(_mm512_add_epi16(main, _mm512_set1_epi16(128)), 8);

	to->has_rest = rows->rests[0];
	to->rest_start = 0;
	if (to->has_rest != 0) {
		rest = in_words(_mm512_load_si512(row->rests[b].rest[0]));
		to->rest_start = -GEMM_E4M3_SINGLE_OFFSET * sum_of_words(rest);
	}
	_mm256_store_si256((__m256i *)to->high, _mm512_cvtepi16_epi8(high));
	_mm256_store_si256((__m256i *)to->low, _mm512_cvtepi16_epi8(main));
	_mm256_store_si256((__m256i *)to->rest, _mm512_cvtepi16_epi8(rest));
	to->main_start = -GEMM_E4M3_SINGLE_OFFSET * sum_of_words(main);
	to->factor = rows->factor[0];
}

/* One copy of the loop for each pair of formats that needs its own. */
static NOINLINE void load_any(struct row *row)
{
	switch (row->job->shape->a_format) {
	case MXFP_FORMAT_MXFP8_E4M3:
		if (gemm_e4m3_low_bits(row->job->shape) == 4)
			load_row(row, MXFP_FORMAT_MXFP8_E4M3, 4);
		else
			load_row(row, MXFP_FORMAT_MXFP8_E4M3, 3);
		break;
	case MXFP_FORMAT_MXFP4:
		load_row(row, MXFP_FORMAT_MXFP4, 0);
		break;
	case MXFP_FORMAT_MXFP6_E2M3:
		load_row(row, MXFP_FORMAT_MXFP6_E2M3, 0);
		break;
	default:
		load_row(row, MXFP_FORMAT_MXINT8, 0);
		break;
	}
}

static NOINLINE void pack_rows(const struct mxfp_gemm_pack_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	struct row row = {.job = job, .n_blocks = gemm_e4m3_blocks(job->k), .head = job->panel};

	row.unit = unit_of_format(shape->a_format) + unit_of_format(shape->w_format) +
	           gemm_e4m3_low_bits(shape) * (1 + (shape->a_format == shape->w_format));
	row.rows = (struct gemm_e4m3_rows *)(row.head + 1);
	row.rests = (struct gemm_e4m3_rest *)(row.rows + row.n_blocks);
	row.single = (struct gemm_e4m3_single *)(row.rests + row.n_blocks);
	row.head->general = false;
	if (job->rows < GEMM_E4M3_MR)
		clear_rows(&row);
	for (row.index = 0; row.index < job->rows; row.index++) {
		load_any(&row);
		row.range = even_out(row.scale, row.zero, row.n_blocks);
		store_scales(&row);
	}
	if (has_single(shape) && job->rows == 1)
		for (size_t b = 0; b < row.n_blocks; b++)
			pack_single(&row, b);
}

void mxfp_gemm_e4m3_pack_a(const struct mxfp_gemm_pack_job *job)
{
	struct fp_state state = fp_enter();

	pack_rows(job);
	fp_leave(state);
}
