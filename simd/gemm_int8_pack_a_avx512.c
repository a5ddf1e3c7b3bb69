/* SPDX-License-Identifier: MIT */
/* A into the panels of gemm_int8_avx512.h. */
#include "gemm_int8_pack_avx512.h"

enum { FACTOR_MOST = 100 };

size_t mxfp_gemm_int8_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	size_t blocks = gemm_int8_count(k, gemm_int8_pair_block(shape)) * GEMM_INT8_MR;
	size_t bytes = sizeof(struct gemm_int8_head) + blocks * sizeof(struct gemm_int8_block) +
	               gemm_int8_count(k, GEMM_INT8_UNIT) * GEMM_INT8_MR * GEMM_INT8_UNIT;

	return gemm_int8_count(bytes, MXFP_GEMM_ALIGN) * MXFP_GEMM_ALIGN;
}

/* Exponent of the unit of products: the elements', and of W's scales as the multiplication reads them. */
static int unit_of(const struct mxfp_gemm_shape *shape)
{
	const enum mxfp_format formats[] = {shape->a_format, shape->w_format};
	int unit = shape->w_format == MXFP_FORMAT_NVFP4 ? 8 : 0;

	for (int i = 0; i < 2; i++)
		unit -= gemm_int8_has_nibbles(formats[i]) ? 1 : formats[i] == MXFP_FORMAT_MXINT8 ? 6 : 3;
	return unit;
}

/* 2^x, -149 <= x <= 127. */
static float power_of_two(int x)
{
	uint32_t bits = x < 1 - F32_BIAS ? UINT32_C(1) << (x + 149) : (uint32_t)(x + F32_BIAS) << F32_SIGNIFICAND_BITS;
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

static float ue4m3_number(uint8_t code)
{
	int exponent = code >> 3 & 15, significand = code & 7;

	return exponent == 0 ? (float)significand * 0x1p-9f : (float)(8 + significand) * power_of_two(exponent - 10);
}

/* A row of A on its way. Blocks are those of the pair. */
struct row {
	const struct mxfp_gemm_pack_job *job;
	size_t index, block, n_blocks;
	uint8_t scale[GEMM_INT8_BLOCKS];
	int32_t sum[GEMM_INT8_BLOCKS];
	bool zero[GEMM_INT8_BLOCKS];
};

static struct gemm_int8_head *head_of(const struct row *row)
{
	return row->job->panel;
}

static uint8_t *codes_of(const struct row *row, size_t unit)
{
	uint8_t *codes = (uint8_t *)row->job->panel + sizeof(struct gemm_int8_head);

	return codes + (unit * GEMM_INT8_MR + row->index) * GEMM_INT8_UNIT;
}

/* Sums of the two halves. */
ALWAYS_INLINE void sum_elements(int32_t sum[2], __m256i x)
{
	const __m256i ones = _mm256_set1_epi8(1);
	__m256i s = _mm256_dpbusd_epi32(_mm256_setzero_si256(), ones, x);

	s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4E));
	s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xB1));
	sum[0] = _mm256_cvtsi256_si32(s);
	sum[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(s, 1));
}

ALWAYS_INLINE void note_unit(struct row *row, size_t unit, __m256i x)
{
	uint32_t set = _mm256_test_epi8_mask(x, x);
	int32_t sum[2];

	sum_elements(sum, x);
	if (row->block == GEMM_INT8_UNIT) {
		row->sum[unit] = sum[0] + sum[1];
		row->zero[unit] = set == 0;
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		row->sum[2 * unit + i] = sum[i];
		row->zero[2 * unit + i] = (set >> 16 * i & 0xFFFF) == 0;
	}
}

ALWAYS_INLINE void load_row(struct row *row, enum mxfp_format format)
{
	const struct mxfp_gemm_pack_job *job = row->job;
	const struct mxfp_matrix *a = job->matrix;
	const uint8_t *codes = (const uint8_t *)a->data + (job->row + row->index) * a->stride;
	const bool apart = gemm_int8_has_nibbles(job->shape->w_format);
	const __m256i order = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));

	for (size_t k = 0; k < job->k; k += GEMM_INT8_UNIT) {
		size_t n = job->k - k < GEMM_INT8_UNIT ? job->k - k : GEMM_INT8_UNIT, unit = k / GEMM_INT8_UNIT;
		__m256i x = load_elements(format, codes + code_bytes(format, job->k0 + k), n);

		if (apart)
			x = _mm256_shuffle_epi8(x, order);
		_mm256_store_si256((__m256i *)codes_of(row, unit), x);
		note_unit(row, unit, x);
	}
}

/* A row that the matrix has not. */
static void clear_row(struct row *row)
{
	for (size_t k = 0; k < row->job->k; k += GEMM_INT8_UNIT)
		_mm256_store_si256((__m256i *)codes_of(row, k / GEMM_INT8_UNIT), _mm256_setzero_si256());
	memset(row->sum, 0, sizeof row->sum);
	memset(row->zero, true, sizeof row->zero);
	memset(row->scale, 0, sizeof row->scale);
}

static void load_scales(struct row *row)
{
	const struct mxfp_gemm_pack_job *job = row->job;
	const struct mxfp_matrix *a = job->matrix;
	const size_t length = gemm_int8_w_block(job->shape->a_format);
	const uint8_t *scales = (const uint8_t *)a->scales + (job->row + row->index) * a->scales_stride + job->k0 / length;

	for (size_t b = 0; b < row->n_blocks; b++)
		row->scale[b] = scales[b * row->block / length];
}

/* Elements times 2^(scale - least), and the sums. */
static void fold(struct row *row, uint8_t least)
{
	struct gemm_int8_head *head = head_of(row);
	const size_t pass_blocks = row->job->shape->pass / row->block;

	for (size_t b = 0; b < row->n_blocks; b++) {
		int shift = row->scale[b] - least;
		__m256i *codes = (__m256i *)codes_of(row, b);
		__m256i x = _mm256_sll_epi16(_mm256_load_si256(codes), _mm_cvtsi32_si128(shift));

		_mm256_store_si256(codes, _mm256_and_si256(x, _mm256_set1_epi8((char)(0xFF << shift))));
		row->sum[b] *= 1 << shift;
		row->scale[b] = least;
		head->folded_start[b / pass_blocks][row->index] -= GEMM_INT8_OFFSET_FOLDED * row->sum[b];
	}
	head->folded_factor[row->index] = power_of_two(least - E8M0_BIAS + unit_of(row->job->shape));
}

static struct gemm_int8_block block_of(const struct row *row, size_t b, int unit)
{
	const struct mxfp_gemm_shape *shape = row->job->shape;
	struct gemm_int8_block block = {.excess = 1};
	int exponent = row->scale[b] - E8M0_BIAS + unit, excess = exponent > FACTOR_MOST ? exponent - FACTOR_MOST : 0;

	block.start = GEMM_INT8_BIAS - gemm_int8_offset(shape->w_format) * row->sum[b];
	if (shape->a_format == MXFP_FORMAT_NVFP4) {
		uint8_t code = row->scale[b] & 0x7F;
		block.factor = code == UE4M3_NAN ? __builtin_nanf("") : ue4m3_number(code) * power_of_two(unit);
	} else if (row->scale[b] == E8M0_NAN) {
		block.factor = __builtin_nanf("");
	} else {
		block.factor = power_of_two(exponent - excess);
		block.excess = power_of_two(excess);
	}
	block.less = -0x1.8p23f * block.factor;
	return block;
}

static void store_blocks(const struct row *row)
{
	struct gemm_int8_head *head = head_of(row);
	const size_t units = gemm_int8_count(row->job->k, GEMM_INT8_UNIT);
	struct gemm_int8_block *to = (struct gemm_int8_block *)(head + 1) + units * GEMM_INT8_MR * 2 + row->index;
	const int unit = unit_of(row->job->shape);

	for (size_t b = 0; b < row->n_blocks; b++, to += GEMM_INT8_MR) {
		*to = block_of(row, b, unit);
		head->excess |= to->excess != 1;
	}
}

static NOINLINE void pack_row(struct row *row)
{
	const struct mxfp_gemm_shape *shape = row->job->shape;
	const bool folds = shape->a_format == MXFP_FORMAT_MXFP4 && shape->w_format == MXFP_FORMAT_MXFP4;
	uint8_t least;

	if (row->index >= row->job->rows) {
		clear_row(row);
	} else {
		load_row(row, shape->a_format);
		load_scales(row);
	}
	if (shape->a_format != MXFP_FORMAT_NVFP4) {
		bool foldable = even_out(row->scale, row->zero, row->n_blocks, &least) && folds;
		if (foldable)
			fold(row, least);
		head_of(row)->folded &= foldable;
	}
	store_blocks(row);
}

void mxfp_gemm_int8_pack_a(const struct mxfp_gemm_pack_job *job)
{
	struct row row = {.job = job, .block = gemm_int8_pair_block(job->shape)};
	struct gemm_int8_head *head = job->panel;

	row.n_blocks = gemm_int8_count(job->k, row.block);
	memset(head, 0, sizeof *head);
	head->folded = job->shape->a_format == MXFP_FORMAT_MXFP4 && job->shape->w_format == MXFP_FORMAT_MXFP4;
	struct fp_state state = fp_enter();
	for (row.index = 0; row.index < GEMM_INT8_MR; row.index++)
		pack_row(&row);
	fp_leave(state);
}
