/* SPDX-License-Identifier: MIT */
/*
 * Packs the panels that gemm_int8.h describes and multiplies them. For many rows a panel of W is expanded first: its
 * elements to bytes, its scales to binary32.
 */
#include "avx512/fetch_w.h"
#include "avx512/gemm_int8.h"
#include "avx512/transpose.h"
#include "cpu.h"

/* Panels of A. */

enum { FACTOR_MOST = 100 };

size_t mxfp_gemm_int8_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	size_t blocks = gemm_int8_count(k, gemm_int8_pair_block(shape)) * GEMM_INT8_MR;
	size_t bytes = sizeof(struct gemm_int8_head) + blocks * sizeof(struct gemm_int8_block) +
	               gemm_int8_count(k, GEMM_INT8_UNIT) * GEMM_INT8_MR * GEMM_INT8_UNIT;

	return gemm_int8_count(bytes, MXFP_GEMM_ALIGN) * MXFP_GEMM_ALIGN;
}

/* The exponent of the unit of products: of the elements, and of W's scales as decode_scales() reads them. */
static int unit_of(const struct mxfp_gemm_shape *shape)
{
	return unit_of_format(shape->a_format) + unit_of_format(shape->w_format) +
	       (shape->w_format == MXFP_FORMAT_NVFP4 ? 8 : 0);
}

/* A row of A while it is packed. Blocks are those of the pair of formats. */
struct row {
	const struct mxfp_gemm_pack_job *job;
	size_t index, block, n_blocks;
	uint8_t scale[GEMM_INT8_BLOCKS];
	int32_t sum[GEMM_INT8_BLOCKS];
	uint32_t zero; /* bit b: all elements of block b are zeros */
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

/* The sums of the two halves of a unit. */
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
	const uint8_t *codes = codes_at(job->matrix, job->row + row->index, 0);
	const bool apart = gemm_int8_has_nibbles(job->shape->w_format);

	row->zero = 0;
	for (size_t k = 0; k < job->k; k += GEMM_INT8_UNIT) {
		size_t n = job->k - k < GEMM_INT8_UNIT ? job->k - k : GEMM_INT8_UNIT, unit = k / GEMM_INT8_UNIT;
		__m256i x = load_integers(format, codes + code_bytes(format, job->k0 + k), n);

		if (apart)
			x = evens_first(x);
		_mm256_store_si256((__m256i *)codes_of(row, unit), x);
		note_unit(row, unit, x);
	}
}

/* Fills a row past the end of the matrix. */
static void clear_row(struct row *row)
{
	for (size_t k = 0; k < row->job->k; k += GEMM_INT8_UNIT)
		_mm256_store_si256((__m256i *)codes_of(row, k / GEMM_INT8_UNIT), _mm256_setzero_si256());
	memset(row->sum, 0, sizeof row->sum);
	row->zero = UINT32_MAX;
	memset(row->scale, 0, sizeof row->scale);
}

static void load_row_scales(struct row *row)
{
	const struct mxfp_gemm_pack_job *job = row->job;
	const size_t length = gemm_int8_block_of(job->shape->a_format);
	const uint8_t *scales = scales_at(job->matrix, job->row + row->index, job->k0 / length);

	memset(row->scale, 0, sizeof row->scale);
	if (row->block == length)
		memcpy(row->scale, scales, row->n_blocks);
	else
		for (size_t b = 0; b < row->n_blocks; b++)
			row->scale[b] = scales[b / 2];
}

/* Multiplies the elements and their sums by 2^(scale - least). */
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

/* The factors of 16 blocks, and their excess: see struct gemm_int8_block. */
ALWAYS_INLINE __m512 factors_of(const struct row *row, size_t b, __m512 *excess)
{
	const enum mxfp_format format = row->job->shape->a_format;
	const __m512 one = _mm512_set1_ps(1);
	const int unit = unit_of(row->job->shape);
	const __m128i scale = _mm_loadu_si128((const __m128i *)(row->scale + b));

	*excess = one;
	if (format == MXFP_FORMAT_NVFP4) { /* as binary16, scales are 2^-8 times their value */
		__m128i code = _mm_and_si128(scale, _mm_set1_epi8(MXFP_UE4M3_NAN));
		__m512 number = _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(code), 7));
		number = _mm512_scalef_ps(number, _mm512_cvtepi32_ps(_mm512_set1_epi32(unit + 8)));
		return _mm512_mask_mov_ps(number, _mm_cmpeq_epi8_mask(code, _mm_set1_epi8(MXFP_UE4M3_NAN)), nan_lanes());
	}
	__m512i exponent = _mm512_add_epi32(_mm512_cvtepu8_epi32(scale), _mm512_set1_epi32(unit - MXFP_SCALE_BIAS));
	__m512i least = _mm512_min_epi32(exponent, _mm512_set1_epi32(FACTOR_MOST));
	__mmask16 nan = _mm_cmpeq_epi8_mask(scale, _mm_set1_epi8((char)MXFP_SCALE_NAN));

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
		head->excess |= (_mm512_cmp_ps_mask(excess, _mm512_set1_ps(1), _CMP_NEQ_UQ) & low_mask(n)) != 0;
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
		load_row_scales(row);
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

/* Panels of W. */

size_t mxfp_gemm_int8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return (gemm_int8_count(k, gemm_int8_block_of(shape->w_format)) +
	        gemm_int8_w_words(shape->w_format, k) * sizeof(uint32_t)) * GEMM_INT8_NR;
}

/* Words 16 group, 16 group + 1, ... of a row of W as the panel has them; elements past k are zeros. */
ALWAYS_INLINE __m512i load_words(enum mxfp_format format, const uint8_t *codes, size_t group, size_t k)
{
	const size_t elements = gemm_int8_has_nibbles(format) ? 128 : 64, begin = group * elements;
	const size_t n = k <= begin ? 0 : k - begin < elements ? k - begin : elements;
	__m512i x;

	codes += code_bytes(format, begin);
	if (gemm_int8_has_nibbles(format)) {
		x = _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, (unsigned)(n + 1) / 2), codes);
		if (n % 2 != 0)
			x = _mm512_mask_and_epi32(x, (__mmask16)(1U << n / 8), x, _mm512_set1_epi32((1 << n % 8 * 4) - 1));
		return x;
	}
	if (gemm_int8_has_sixes(format)) {
		__m256i bits[2];

		for (size_t i = 0; i < 2; i++) {
			const size_t left = n > i * GEMM_INT8_UNIT ? n - i * GEMM_INT8_UNIT : 0;
			const uint32_t bytes = low_mask(left < GEMM_INT8_UNIT ? (left * 6 + 7) / 8 : 24);

			bits[i] = unpack_sixes(_mm256_maskz_loadu_epi8(bytes, codes + i * 24));
			bits[i] = _mm256_and_si256(_mm256_maskz_mov_epi8(low_mask(left), bits[i]), _mm256_set1_epi8(0x3F));
		}
		return _mm512_inserti64x4(_mm512_castsi256_si512(bits[0]), bits[1], 1);
	}
	__m256i low = load_integers(format, codes, n), high = _mm256_setzero_si256();
	if (n > GEMM_INT8_UNIT)
		high = load_integers(format, codes + code_bytes(format, GEMM_INT8_UNIT), n - GEMM_INT8_UNIT);
	x = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
	return _mm512_add_epi8(x, _mm512_set1_epi8((char)gemm_int8_offset(format)));
}

/* A mask of the blocks of 32 in this group of words that are all zeros. */
ALWAYS_INLINE uint32_t zero_blocks(enum mxfp_format format, size_t group, __m512i words)
{
	const bool nibbles = gemm_int8_has_nibbles(format);
	const size_t words_each = nibbles ? 4 : 8, n = LANES / words_each;
	__m512i value = nibbles                       ? _mm512_and_si512(words, _mm512_set1_epi8(0x77))
	                : gemm_int8_has_sixes(format) ? _mm512_and_si512(words, _mm512_set1_epi8(0x1F))
	                                              : _mm512_sub_epi8(words, _mm512_set1_epi8((char)gemm_int8_offset(format)));
	uint32_t set = _mm512_test_epi32_mask(value, value), zero = 0;

	for (size_t i = 0; i < n; i++, set >>= words_each)
		zero |= (uint32_t)((set & ((1U << words_each) - 1)) == 0) << (group * n + i);
	return zero;
}

/* Packs the codes of 16 columns of the panel from `first` on, and finds which of their blocks are all zeros. */
ALWAYS_INLINE void pack_codes(const struct mxfp_gemm_pack_job *job, enum mxfp_format format, size_t first,
                              uint32_t zero[LANES])
{
	const struct mxfp_matrix *w = job->matrix;
	const bool sixes = gemm_int8_has_sixes(format);
	const size_t stored = gemm_int8_w_words(job->shape->w_format, job->k), words = sixes ? stored / 3 * 4 : stored;
	const size_t blocks = gemm_int8_count(job->k, gemm_int8_block_of(job->shape->w_format));
	uint8_t *to = (uint8_t *)job->panel + blocks * GEMM_INT8_NR + first * sizeof(uint32_t);

	for (size_t group = 0; group * LANES < words; group++) {
		__m512i v[LANES];

		for (size_t i = 0; i < LANES; i++) {
			size_t row = first + i;
			const uint8_t *codes = (const uint8_t *)w->data + code_bytes(format, job->k0);

			v[i] = load_words(format, row < job->rows ? codes + (job->row + row) * w->stride : codes, group,
			                  row < job->rows ? job->k : 0);
			zero[i] |= zero_blocks(format, group, v[i]);
		}
		transpose_16x16((__m512 *)v); /* vector types may alias others */
		for (size_t i = 0; sixes && i < LANES && group * LANES + i < words; i += 4)
			store_sixes(to + (group * LANES + i) / 4 * 3 * GEMM_INT8_NR * sizeof(uint32_t), GEMM_INT8_NR * sizeof(uint32_t), v + i);
		for (size_t i = 0; !sixes && i < LANES && group * LANES + i < words; i++)
			_mm512_storeu_si512(to + (group * LANES + i) * GEMM_INT8_NR * sizeof(uint32_t), v[i]);
	}
}

/* Packs the scales of a column, which may lie past the end of the matrix. */
static void pack_scales(const struct mxfp_gemm_pack_job *job, size_t column, uint32_t zero)
{
	const enum mxfp_format format = job->shape->w_format;
	const size_t length = gemm_int8_block_of(format), blocks = gemm_int8_count(job->k, length);
	uint8_t *to = (uint8_t *)job->panel + column, scale[GEMM_INT8_BLOCKS] = {0}, least;

	if (column < job->rows)
		memcpy(scale, scales_at(job->matrix, job->row + column, job->k0 / length), blocks);
	if (format != MXFP_FORMAT_NVFP4)
		even_out(scale, zero, blocks, &least);
	for (size_t b = 0; b < blocks; b++) {
		if (format == MXFP_FORMAT_NVFP4)
			scale[b] = (scale[b] & MXFP_UE4M3_NAN) == MXFP_UE4M3_NAN ? MXFP_SCALE_NAN : scale[b] & MXFP_UE4M3_NAN;
		to[b * GEMM_INT8_NR] = scale[b];
	}
}

void mxfp_gemm_int8_pack_w(const struct mxfp_gemm_pack_job *job)
{
	for (size_t first = 0; first < GEMM_INT8_NR; first += LANES) {
		uint32_t zero[LANES] = {0};

		switch (job->shape->w_format) {
		case MXFP_FORMAT_MXINT8:
			pack_codes(job, MXFP_FORMAT_MXINT8, first, zero);
			break;
		case MXFP_FORMAT_MXFP6_E2M3:
			pack_codes(job, MXFP_FORMAT_MXFP6_E2M3, first, zero);
			break;
		default:
			pack_codes(job, MXFP_FORMAT_MXFP4, first, zero);
		}
		for (size_t i = 0; i < LANES; i++)
			pack_scales(job, first + i, zero[i]);
	}
}

/* A few rows of A, or one as in decoding, by W as it is stored: elements and scales are expanded in registers. For up to 4 rows
   memory bandwidth is the limit. */

/* Multiplies n rows of a panel of A by W as it is stored. */
ALWAYS_INLINE void multiply_few(const struct mxfp_gemm_multiply_job *job, const struct rows *a, float *c,
                                const struct kind *kind, int n)
{
	const size_t block = gemm_int8_block_of(job->shape->w_format), repeats = block / (size_t)kind->block;
	const size_t n_blocks = gemm_int8_count(job->k, (size_t)kind->block);
	const size_t per_pass = job->shape->pass / (size_t)kind->block;
	const size_t block_bytes = (size_t)kind->block * NR * (kind->nibbles ? 4 : kind->sixes ? 6 : 8) / 8;
	const uint8_t *scales = job->w, *codes = scales + gemm_int8_count(job->k, block) * NR;
	const ptrdiff_t ahead = w_ahead(job);

	for (size_t b = 0; b < n_blocks;) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		__m512 p[MR][VECTORS] = {0};

		for (; b < end; b++) {
			const uint8_t *at = codes + b * block_bytes;
			__m512 scale[VECTORS];

			for (size_t i = 0; i < block_bytes; i += VECTOR_BYTES)
				fetch_w(at + i, ahead);
			for (int v = 0; v < VECTORS; v++)
				scale[v] = decode_scales(kind->ue4m3, scales + b / repeats * NR + (size_t)v * LANES);
			multiply_block(p, a, kind, at, scale, b, n);
		}
		end_pass(c, p, n);
	}
}

ALWAYS_INLINE void multiply_kind(const struct mxfp_gemm_multiply_job *job, const struct rows *a, float *c, size_t rows,
                                 const struct kind *kind)
{
	switch (rows) {
	case 1:
		multiply_few(job, a, c, kind, 1);
		break;
	case 2:
		multiply_few(job, a, c, kind, 2);
		break;
	case 3:
		multiply_few(job, a, c, kind, 3);
		break;
	default:
		multiply_few(job, a, c, kind, MR);
	}
}

static NOINLINE void multiply_few_bytes(const struct mxfp_gemm_multiply_job *job, const struct rows *a, float *c, size_t rows,
                                        int block)
{
	if (block == MXFP_MX_BLOCK)
		multiply_kind(job, a, c, rows, &(struct kind){.block = MXFP_MX_BLOCK});
	else
		multiply_kind(job, a, c, rows, &(struct kind){.block = MXFP_NVFP4_BLOCK});
}

static NOINLINE void multiply_few_nibbles(const struct mxfp_gemm_multiply_job *job, const struct rows *a, float *c, size_t rows,
                                          const struct kind *kind)
{
	if (kind->ue4m3)
		multiply_kind(job, a, c, rows, &(struct kind){.nibbles = true, .ue4m3 = true, .block = MXFP_NVFP4_BLOCK});
	else if (kind->block == MXFP_MX_BLOCK)
		multiply_kind(job, a, c, rows, &(struct kind){.nibbles = true, .block = MXFP_MX_BLOCK});
	else
		multiply_kind(job, a, c, rows, &(struct kind){.nibbles = true, .block = MXFP_NVFP4_BLOCK});
}

static NOINLINE void multiply_few_sixes(const struct mxfp_gemm_multiply_job *job, const struct rows *a, float *c, size_t rows,
                                        int block)
{
	if (block == MXFP_MX_BLOCK)
		multiply_kind(job, a, c, rows, &(struct kind){.sixes = true, .block = MXFP_MX_BLOCK});
	else
		multiply_kind(job, a, c, rows, &(struct kind){.sixes = true, .block = MXFP_NVFP4_BLOCK});
}

static NOINLINE void multiply_stored(const struct mxfp_gemm_multiply_job *job)
{
	const struct rows first = first_rows(job);
	const struct kind kind = kind_of(job->shape);

	for (size_t row = 0; row < job->rows; row += MR) {
		const struct rows a = later_rows(&first, row / MR);
		float *c = job->c + row * NR;

		if (kind.nibbles)
			multiply_few_nibbles(job, &a, c, job->rows - row, &kind);
		else if (kind.sixes)
			multiply_few_sixes(job, &a, c, job->rows - row, kind.block);
		else
			multiply_few_bytes(job, &a, c, job->rows - row, kind.block);
	}
}

/* What is asked for of a later panel of W while a block, or a unit, of this one is multiplied. */
struct fetch {
	const char *at, *end;
	size_t bytes; /* at a time */
};

ALWAYS_INLINE void fetch_later(struct fetch *f)
{
	if (f->at >= f->end)
		return;
	for (size_t i = 0; i < f->bytes; i += VECTOR_BYTES)
		_mm_prefetch(f->at + i, _MM_HINT_T1);
	f->at += f->bytes;
}

/* Prefetches block b of the next panel of A: two cache lines of elements for a block of 32, one of scales. */
ALWAYS_INLINE void prefetch_block(const struct rows *a, size_t b, int block)
{
	const char *elements = (const char *)a->codes + b * MR * block + a->bytes;

	for (int i = 0; i < MR * block; i += VECTOR_BYTES)
		_mm_prefetch(elements + i, _MM_HINT_T0);
	_mm_prefetch((const char *)(a->blocks + b * MR) + a->bytes, _MM_HINT_T0);
}

/* Multiplies all blocks of a panel of A by an expanded panel of W. */
ALWAYS_INLINE void multiply_panel(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                  const struct gemm_int8_columns *w, float *c, struct fetch *fetch, const struct kind *kind)
{
	const size_t n_blocks = gemm_int8_count(job->k, (size_t)kind->block), per_pass = job->shape->pass / kind->block;

	for (size_t b = 0; b < n_blocks;) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		__m512 p[MR][VECTORS] = {0};

		for (; b < end; b++) {
			__m512 scale[VECTORS];

			prefetch_block(a, b, kind->block);
			fetch_later(fetch);
#pragma GCC unroll 3
			for (int v = 0; v < VECTORS; v++)
				scale[v] = _mm512_load_ps(w->scales + b * NR + v * LANES);
			multiply_block(p, a, kind, w->codes + b * kind->block * NR, scale, b, MR);
		}
		end_pass(c, p, MR);
	}
}

/* Multiplies `panels` folded panels of A: the sums of two fill the registers. */
ALWAYS_INLINE void multiply_folded(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                   const struct gemm_int8_columns *w, float *c, struct fetch *fetch, int panels)
{
	const size_t units = gemm_int8_count(job->k, GEMM_INT8_UNIT), per_pass = job->shape->pass / GEMM_INT8_UNIT;

	for (size_t unit = 0, pass = 0; unit < units; pass++) {
		const size_t end = units - unit < per_pass ? units : unit + per_pass;
		__m512i sum[2 * MR][VECTORS];

#pragma GCC unroll 8
		for (int r = 0; r < panels * MR; r++)
			start_sums(sum[r], &a[r / MR].head->folded_start[pass][r % MR]);
		for (; unit < end; unit++) {
			const size_t at = unit * GEMM_INT8_UNIT;

			fetch_later(fetch);
			const int8_t *elements[] = {a[0].codes + at * MR, a[panels - 1].codes + at * MR};

#pragma GCC unroll 8
			for (int four = 0; four < GEMM_INT8_UNIT / 4; four++)
				add_four(sum, elements, &(struct kind){0}, w->codes + at * NR, four, panels * MR);
		}
#pragma GCC unroll 2
		for (int i = 0; i < panels; i++)
			end_folded(c + i * MR * NR, sum + i * MR, a[i].head->folded_factor, w->scales);
	}
}

#define MULTIPLY_FOLDED(name, panels) \
	static NOINLINE void name(const struct mxfp_gemm_multiply_job *job, const struct rows *a, const struct gemm_int8_columns *w, \
	                          float *c, struct fetch *fetch) \
	{ \
		multiply_folded(job, a, w, c, fetch, panels); \
	}
MULTIPLY_FOLDED(multiply_folded_one, 1)
MULTIPLY_FOLDED(multiply_folded_two, 2)
#undef MULTIPLY_FOLDED

/* Expands fours first to first + n - 1 of vector v, times 2^shift. A four is 4 elements of a column; first is even. */
ALWAYS_INLINE void fold_elements(struct gemm_int8_source *w, size_t first, int n, int v, __m512i shift)
{
	const __m512i more = _mm512_sub_epi8(_mm512_set1_epi8((char)GEMM_INT8_OFFSET_FOLDED),
	                                     _mm512_sllv_epi32(_mm512_set1_epi8(E2M1_OFFSET), shift));

#pragma GCC unroll 8
	for (int four = 0; four < n; four++) {
		__m512i x = load_elements(&(struct kind){.nibbles = true}, w->codes + first * VECTORS * VECTOR_BYTES / 2, (size_t)four, v);

		_mm512_store_si512(w->folded.codes + ((first + (size_t)four) * VECTORS + (size_t)v) * VECTOR_BYTES,
		                   _mm512_add_epi8(_mm512_sllv_epi32(x, shift), more));
	}
}

const struct gemm_int8_columns *mxfp_gemm_int8_expand_folded(struct gemm_int8_source *w)
{
	const int fours = GEMM_INT8_UNIT / 4;

	if (w->has_folded)
		return &w->folded;
	w->has_folded = true;
	for (int v = 0; v < VECTORS; v++) {
		const __m512i base = (__m512i)load_u8(w->least + v * LANES);

		_mm512_store_ps(w->folded.scales + v * LANES, decode_scales(false, w->least + v * LANES));
		for (size_t b = 0; b < w->n_blocks; b++) {
			__m512i scale = (__m512i)load_u8(w->scales + b * NR + (size_t)v * LANES);

			fold_elements(w, b * (size_t)fours, fours, v, _mm512_sub_epi32(scale, base));
		}
	}
	return &w->folded;
}

ALWAYS_INLINE void expand(struct gemm_int8_source *w, const struct kind *kind)
{
	const size_t fours = w->n_blocks * w->block / 4, repeats = w->block / (size_t)kind->block;
	float *scale = w->plain.scales;

	for (size_t i = 0; i < fours; i += 2) {
#pragma GCC unroll 6
		for (int v = 0; v < 2 * VECTORS; v++)
			_mm512_store_si512(w->plain.codes + (i * VECTORS + (size_t)v) * VECTOR_BYTES,
			                   load_elements(kind, w->codes, i + (size_t)(v / VECTORS), v % VECTORS));
	}
	for (size_t b = 0; b < w->n_blocks; b++)
		for (size_t i = 0; i < repeats; i++)
			for (size_t j = 0; j < NR; j += LANES, scale += LANES)
				_mm512_store_ps(scale, decode_scales(kind->ue4m3, w->scales + b * NR + j));
}

const struct gemm_int8_columns *mxfp_gemm_int8_expand_plain(struct gemm_int8_source *w)
{
	if (w->has_plain)
		return &w->plain;
	w->has_plain = true;
	if (w->kind->nibbles)
		expand(w, &(struct kind){.nibbles = true, .ue4m3 = w->kind->ue4m3, .block = w->kind->block});
	else if (w->kind->sixes)
		expand(w, &(struct kind){.sixes = true, .block = w->kind->block});
	else
		expand(w, &(struct kind){.block = w->kind->block});
	return &w->plain;
}

#define MULTIPLY_PANEL(name, ...) \
	static NOINLINE void name(const struct mxfp_gemm_multiply_job *job, const struct rows *a, const struct gemm_int8_columns *w, \
	                          float *c, struct fetch *fetch) \
	{ \
		multiply_panel(job, a, w, c, fetch, &(struct kind){__VA_ARGS__}); \
	}
MULTIPLY_PANEL(multiply_32, .block = MXFP_MX_BLOCK)
MULTIPLY_PANEL(multiply_16, .block = MXFP_NVFP4_BLOCK)
MULTIPLY_PANEL(multiply_excess_32, .block = MXFP_MX_BLOCK, .excess = true)
MULTIPLY_PANEL(multiply_excess_16, .block = MXFP_NVFP4_BLOCK, .excess = true)
#undef MULTIPLY_PANEL

/* Multiplies one panel of A, or two. Returns how many. */
ALWAYS_INLINE size_t multiply_next(const struct mxfp_gemm_multiply_job *job, struct gemm_int8_source *w, const struct rows a[2],
                                   float *c, struct fetch *fetch)
{
	const struct gemm_int8_head *head = a[0].head;

	if (w->foldable && head->folded) {
		if (a[1].head != head && a[1].head->folded) {
			multiply_folded_two(job, a, mxfp_gemm_int8_expand_folded(w), c, fetch);
			return 2;
		}
		multiply_folded_one(job, a, mxfp_gemm_int8_expand_folded(w), c, fetch);
	} else if (w->kind->block == MXFP_MX_BLOCK) {
		(head->excess ? multiply_excess_32 : multiply_32)(job, a, mxfp_gemm_int8_expand_plain(w), c, fetch);
	} else {
		(head->excess ? multiply_excess_16 : multiply_16)(job, a, mxfp_gemm_int8_expand_plain(w), c, fetch);
	}
	return 1;
}

static NOINLINE void multiply_many(const struct mxfp_gemm_multiply_job *job)
{
	const struct kind kind = kind_of(job->shape);
	const size_t panels = gemm_int8_count(job->rows, MR);
	const size_t lines = gemm_int8_count(mxfp_gemm_int8_w_bytes(job->shape, job->k), VECTOR_BYTES);
	const size_t steps = panels * gemm_int8_count(job->k, kind.block);
	struct fetch fetch = {.at = job->w_later, .bytes = gemm_int8_count(lines, steps) * VECTOR_BYTES};
	const struct rows first = first_rows(job);
	struct gemm_int8_source *w = job->scratch;

	fetch.end = fetch.at != NULL ? fetch.at + lines * VECTOR_BYTES : NULL;
	gemm_int8_source_begin(w, job, &kind);
	for (size_t i = 0, n; i < panels; i += n) {
		const struct rows a[] = {later_rows(&first, i), later_rows(&first, i + 1 < panels ? i + 1 : i)};

		n = multiply_next(job, w, a, job->c + i * MR * NR, &fetch);
	}
}

/* The most rows by which W is multiplied as it is stored: with more, expanding it pays. Where shuffles keep up with products,
   decoding it again for every 4 rows costs little, and less than the scales if both operands cannot be folded. */
static size_t stored_rows(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;

	if (job->cpu & MXFP_CPU_FAST_SHUFFLES)
		return shape->a_format == MXFP_FORMAT_MXFP4 && shape->w_format == MXFP_FORMAT_MXFP4 ? 4 * MR : 8 * MR;
	return shape->w_format == MXFP_FORMAT_MXINT8 ? 3 * MR : 2 * MR;
}

static bool has_excess(const struct mxfp_gemm_multiply_job *job)
{
	const size_t bytes = mxfp_gemm_int8_a_bytes(job->shape, job->k);
	const uint8_t *a = job->a;
	uint32_t excess = 0;

	for (size_t row = 0; row < job->rows; row += MR, a += bytes)
		excess |= ((const struct gemm_int8_head *)(const void *)a)->excess;
	return excess != 0;
}

static void multiply(const struct mxfp_gemm_multiply_job *job)
{
	struct fp_state state = fp_enter();

	if (job->rows > stored_rows(job) || has_excess(job))
		multiply_many(job);
	else
		multiply_stored(job);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_int8) = {
	.id = 0x0101,
	.name = "exact-int8-avx512",
	.mr = GEMM_INT8_MR,
	.nr = GEMM_INT8_NR,
	.a_panel_bytes = mxfp_gemm_int8_a_bytes,
	.w_panel_bytes = mxfp_gemm_int8_w_bytes,
	.scratch_bytes = sizeof(struct gemm_int8_source),
	.pack_a = mxfp_gemm_int8_pack_a,
	.pack_w = mxfp_gemm_int8_pack_w,
	.multiply = multiply,
};
