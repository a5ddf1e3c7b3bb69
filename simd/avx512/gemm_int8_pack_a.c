/* SPDX-License-Identifier: MIT */
/* A into the panels of gemm_int8.h. */
#include "avx512/gemm_int8_pack.h"

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

/* A row of A on its way. Blocks are those of the pair. */
struct row {
	const struct mxfp_gemm_pack_job *job;
	size_t index, block, n_blocks;
	uint8_t scale[GEMM_INT8_BLOCKS];
	int32_t sum[GEMM_INT8_BLOCKS];
	uint32_t zero; /* bits of blocks */
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
		row->zero |= (uint32_t)(set == 0) << unit;
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		row->sum[2 * unit + i] = sum[i];
		row->zero |= (uint32_t)((set >> 16 * i & 0xFFFF) == 0) << (2 * unit + i);
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

	row->zero = 0;
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
	row->zero = UINT32_MAX;
	memset(row->scale, 0, sizeof row->scale);
}

static void load_scales(struct row *row)
{
	const struct mxfp_gemm_pack_job *job = row->job;
	const struct mxfp_matrix *a = job->matrix;
	const size_t length = gemm_int8_w_block(job->shape->a_format);
	const uint8_t *scales = (const uint8_t *)a->scales + (job->row + row->index) * a->scales_stride + job->k0 / length;

	memset(row->scale, 0, sizeof row->scale);
	if (row->block == length)
		memcpy(row->scale, scales, row->n_blocks);
	else
		for (size_t b = 0; b < row->n_blocks; b++)
			row->scale[b] = scales[b / 2];
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
	const int32_t factor = (least + unit_of(row->job->shape)) << F32_SIGNIFICAND_BITS;
	memcpy(&head->folded_factor[row->index], &factor, sizeof factor);
}

ALWAYS_INLINE __m512 nan_lanes(void)
{
	return _mm512_castsi512_ps(_mm512_set1_epi32(F32_NAN));
}

/* Factors of 16 blocks; and what they lack. */
ALWAYS_INLINE __m512 factors_of(const struct row *row, size_t b, __m512 *excess)
{
	const enum mxfp_format format = row->job->shape->a_format;
	const __m512 one = _mm512_set1_ps(1);
	const int unit = unit_of(row->job->shape);
	const __m128i scale = _mm_loadu_si128((const __m128i *)(row->scale + b));

	*excess = one;
	if (format == MXFP_FORMAT_NVFP4) { /* as binary16 they are 2^-8 of themselves */
		__m128i code = _mm_and_si128(scale, _mm_set1_epi8(0x7F));
		__m512 number = _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(code), 7));
		number = _mm512_scalef_ps(number, _mm512_cvtepi32_ps(_mm512_set1_epi32(unit + 8)));
		return _mm512_mask_mov_ps(number, _mm_cmpeq_epi8_mask(code, _mm_set1_epi8(UE4M3_NAN)), nan_lanes());
	}
	__m512i exponent = _mm512_add_epi32(_mm512_cvtepu8_epi32(scale), _mm512_set1_epi32(unit - E8M0_BIAS));
	__m512i least = _mm512_min_epi32(exponent, _mm512_set1_epi32(FACTOR_MOST));
	__mmask16 nan = _mm_cmpeq_epi8_mask(scale, _mm_set1_epi8(-1));

	*excess = _mm512_mask_scalef_ps(one, (__mmask16)~nan, one, _mm512_cvtepi32_ps(_mm512_sub_epi32(exponent, least)));
	return _mm512_mask_mov_ps(_mm512_scalef_ps(one, _mm512_cvtepi32_ps(least)), nan, nan_lanes());
}

static void store_blocks(const struct row *row)
{
	struct gemm_int8_head *head = head_of(row);
	const size_t units = gemm_int8_count(row->job->k, GEMM_INT8_UNIT);
	const __m512i offset = _mm512_set1_epi32(gemm_int8_offset(row->job->shape->w_format));
	const size_t elements = units * GEMM_INT8_MR * GEMM_INT8_UNIT;
	struct gemm_int8_block *to = (struct gemm_int8_block *)((uint8_t *)(head + 1) + elements) + row->index;

	for (size_t first = 0; first < row->n_blocks; first += LANES) {
		const size_t n = row->n_blocks - first < LANES ? row->n_blocks - first : LANES;
		__m512 excess, factor = factors_of(row, first, &excess);
		__m512 less = _mm512_mul_ps(factor, _mm512_set1_ps(-0x1.8p23f));
		__m512i sum = _mm512_loadu_si512(row->sum + first);
		__m512i start = _mm512_sub_epi32(_mm512_set1_epi32(GEMM_INT8_BIAS), _mm512_mullo_epi32(sum, offset));
		const vu32 word[] = {(vu32)start, (vu32)factor, (vu32)less, (vu32)excess};
		_Alignas(VECTOR_BYTES) struct gemm_int8_block block[LANES];

		store_interleaved((uint32_t *)(void *)block, word);
		for (size_t b = 0; b < n; b++)
			to[(first + b) * GEMM_INT8_MR] = block[b];
		head->excess |= (_mm512_cmp_ps_mask(excess, _mm512_set1_ps(1), _CMP_NEQ_UQ) & low_bits(n)) != 0;
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
