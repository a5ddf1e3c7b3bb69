/* SPDX-License-Identifier: MIT */
/*
 * Exact products of the formats of gemm_int8.h with blocks of 32 by a sparse MXFP4 W, of which 4 of 16 or 4 of 8
 * elements are kept. The others add nothing to an exact sum and are not multiplied.
 *
 * Panels of A are those of gemm_int8.h with 128 added to every element. Here A's bytes are the unsigned ones, because
 * what the offset adds must not depend on which of A's elements are selected: each sum starts from minus 128 times the
 * sum of W's kept elements in the block. `start` of a block of A and folded_start are not used.
 *
 * Panel of W, GEMM_INT8_NR columns:
 *   scales  [blocks][NR], as in gemm_int8.h.
 *   words   [blocks][tags, then codes][NR][4 bytes]: one word of each at 4:16, two at 4:8. The low halves of a word's
 *           bytes, and the high halves, are a step of four kept elements: codes, or places among 16 elements of A.
 */
#include "avx512/fetch_w.h"
#include "avx512/gemm_int8.h"

enum { SPARSE_INT8_OFFSET = 128 };

/* Words of tags per block, and as many of codes. */
ALWAYS_INLINE size_t sparse_int8_words(struct mxfp_sparsity sparsity)
{
	return 16 / sparsity.m;
}

enum { GROUPS = MXFP_GEMM_CHUNK / 8 };

static size_t w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return gemm_int8_count(k, GEMM_INT8_UNIT) * NR * (1 + 2 * sizeof(uint32_t) * sparse_int8_words(shape->sparsity));
}

static void pack_a(const struct mxfp_gemm_pack_job *job)
{
	uint8_t *codes = (uint8_t *)job->panel + sizeof(struct gemm_int8_head);
	const size_t bytes = gemm_int8_count(job->k, GEMM_INT8_UNIT) * GEMM_INT8_MR * GEMM_INT8_UNIT;

	mxfp_gemm_int8_pack_a(job);
	for (size_t i = 0; i < bytes; i += VECTOR_BYTES)
		_mm512_store_si512(codes + i, _mm512_xor_si512(_mm512_load_si512(codes + i),
		                                               _mm512_set1_epi8((char)SPARSE_INT8_OFFSET)));
}

/* The places in panels of A of the elements in a mask of 16, 4 bits each; at most the first 4. */
ALWAYS_INLINE uint16_t places(uint32_t mask)
{
	const uint64_t order = 0xFBEAD9C873625140; /* of each 8 elements the even ones come first */
	const uint64_t fields = _pdep_u64(mask, 0x1111111111111111) * 15;

	return (uint16_t)_pext_u64(order, fields);
}

/* Combines two steps of four half bytes. */
ALWAYS_INLINE uint32_t word_of(uint16_t low, uint16_t high)
{
	return _pdep_u32(low, 0x0F0F0F0F) | _pdep_u32(high, 0xF0F0F0F0);
}

/* Codes and places of a column's groups; missing groups are zeros. */
struct column {
	uint16_t codes[GROUPS], places[GROUPS];
};

static void load_column(struct column *column, const struct mxfp_gemm_pack_job *job, size_t row)
{
	const struct mxfp_matrix *w = job->matrix;
	const size_t m = w->sparsity.m, groups = (job->k + m - 1) / m;
	const uint8_t *codes = (const uint8_t *)w->data + row * w->stride + job->k0 / m * sizeof(uint16_t);
	const uint8_t *masks = (const uint8_t *)w->masks + row * w->masks_stride + job->k0 / 8;

	memset(column, 0, sizeof *column);
	memcpy(column->codes, codes, groups * sizeof(uint16_t));
	for (size_t g = 0; g < groups; g++)
		column->places[g] = m == 8 ? places((uint32_t)masks[g] << g % 2 * 8)
		                           : places(masks[2 * g] | (uint32_t)masks[2 * g + 1] << 8);
}

static void pack_w(const struct mxfp_gemm_pack_job *job)
{
	const size_t words = sparse_int8_words(job->shape->sparsity), blocks = gemm_int8_count(job->k, GEMM_INT8_UNIT);
	uint8_t *scales = job->panel, *to = scales + blocks * NR;

	for (size_t n = 0; n < NR; n++) {
		uint8_t scale[GEMM_INT8_BLOCKS] = {0}, least;
		uint32_t zero = 0; /* bit b: block b has no nonzero element */
		struct column column = {.codes = {0}};

		if (n < job->rows) {
			load_column(&column, job, job->row + n);
			memcpy(scale, scales_at(job->matrix, job->row + n, job->k0 / GEMM_INT8_UNIT), blocks);
		}
		for (size_t b = 0; b < blocks; b++) {
			bool is_zero = true;

			for (size_t i = 0; i < words; i++) {
				const size_t g = (b * words + i) * 2;
				const uint32_t tags = word_of(column.places[g], column.places[g + 1]);
				const uint32_t codes = word_of(column.codes[g], column.codes[g + 1]);

				is_zero &= (codes & 0x77777777) == 0;
				memcpy(to + ((b * 2 * words + i) * NR + n) * sizeof tags, &tags, sizeof tags);
				memcpy(to + ((b * 2 * words + words + i) * NR + n) * sizeof codes, &codes, sizeof codes);
			}
			zero |= (uint32_t)is_zero << b;
		}
		even_out(scale, zero, blocks, &least);
		for (size_t b = 0; b < blocks; b++)
			scales[b * NR + n] = scale[b];
	}
}

/*
 * Multiplication: vpshufb selects the four of A's 16 elements that a step needs, for each column, and vpdpbusd
 * multiplies them. For many rows a panel of W is expanded first.
 */

enum { STEPS = MXFP_GEMM_CHUNK / 8, BLOCKS = MXFP_GEMM_CHUNK / GEMM_INT8_UNIT };

/* An expanded panel of W; folded: elements are multiplied so that a column has one scale, its least. */
struct columns {
	_Alignas(VECTOR_BYTES) uint8_t places[STEPS][NR * 4];
	_Alignas(VECTOR_BYTES) uint8_t codes[STEPS][NR * 4];
	_Alignas(VECTOR_BYTES) int32_t starts[BLOCKS][NR]; /* of blocks; folded: of passes */
	_Alignas(VECTOR_BYTES) float scales[BLOCKS][NR];
};

/* A panel of W as it is stored. */
struct source {
	const uint8_t *scales, *words;
	size_t n_words, n_blocks; /* words of tags in a block */
	bool foldable, has_plain, has_folded;
	uint8_t least[NR];        /* least scale of each column */
	struct columns plain, folded;
};

/* The places, and below the elements, of vector v of step s of a block. */
ALWAYS_INLINE __m512i load_places(const uint8_t *block, size_t s, size_t v)
{
	__m512i x = _mm512_loadu_si512(block + (s / 2 * NR + v * LANES) * 4);

	return _mm512_and_si512(s % 2 != 0 ? _mm512_srli_epi16(x, 4) : x, _mm512_set1_epi8(15));
}

ALWAYS_INLINE __m512i load_kept(const uint8_t *block, size_t words, size_t s, size_t v)
{
	__m512i x = _mm512_loadu_si512(block + ((words + s / 2) * NR + v * LANES) * 4);

	return _mm512_permutexvar_epi8(s % 2 != 0 ? _mm512_srli_epi16(x, 4) : x,
	                               _mm512_broadcast_i32x4(e2m1_integers(0)));
}

/* sum - 128 * the sum of the four elements. */
ALWAYS_INLINE __m512i less_offset(__m512i sum, __m512i kept)
{
	const __m512i offset = _mm512_set1_epi8((char)SPARSE_INT8_OFFSET);

	return _mm512_sub_epi32(sum, dot_bytes(_mm512_setzero_si512(), offset, kept));
}

/* The 16 elements of row r of A from which step s selects. */
ALWAYS_INLINE __m512i load_row(const int8_t *elements, size_t words, size_t s, int r)
{
	const int8_t *at = elements + r * GEMM_INT8_UNIT + s / words * 16;

	return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)at));
}

/* Adds one step to vector v of the sums of n rows. */
ALWAYS_INLINE void add_step(__m512i sum[][VECTORS], const __m512i x[], __m512i places, __m512i kept, int v, int n)
{
#pragma GCC unroll 8
	for (int r = 0; r < n; r++)
		sum[r][v] = dot_bytes(sum[r][v], _mm512_shuffle_epi8(x[r], places), kept);
}

/* Adds all steps of a block of an expanded panel of W; elements[]: in each panel of A. */
ALWAYS_INLINE void add_steps(__m512i sum[][VECTORS], const int8_t *const elements[], const struct columns *w,
                             size_t block, size_t words, int n)
{
#pragma GCC unroll 4
	for (size_t s = 0; s < 2 * words; s++) {
		const size_t step = block * 2 * words + s;
		__m512i x[2 * MR];

#pragma GCC unroll 8
		for (int r = 0; r < n; r++)
			x[r] = load_row(elements[r / MR], words, s, r % MR);
#pragma GCC unroll 3
		for (int v = 0; v < VECTORS; v++)
			add_step(sum, x, pin(_mm512_load_si512(w->places[step] + v * VECTOR_BYTES)),
			         pin(_mm512_load_si512(w->codes[step] + v * VECTOR_BYTES)), v, n);
	}
}

ALWAYS_INLINE void start_columns(__m512i sum[][VECTORS], const int32_t *starts, int n)
{
#pragma GCC unroll 24
	for (int i = 0; i < n * VECTORS; i++)
		sum[i / VECTORS][i % VECTORS] = _mm512_load_si512(starts + i % VECTORS * LANES);
}

/* Multiplies all blocks of a panel of A by an expanded panel of W. */
ALWAYS_INLINE void multiply_panel(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                  const struct columns *w, float *c, size_t words, bool excess)
{
	const size_t n_blocks = gemm_int8_count(job->k, GEMM_INT8_UNIT), per_pass = job->shape->pass / GEMM_INT8_UNIT;

	for (size_t b = 0; b < n_blocks;) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		__m512 p[MR][VECTORS] = {0};

		for (; b < end; b++) {
			const int8_t *elements = a->codes + b * GEMM_INT8_UNIT * MR;
			__m512i sum[MR][VECTORS];
			__m512 scale[VECTORS];

			start_columns(sum, w->starts[b], MR);
			add_steps(sum, &elements, w, b, words, MR);
#pragma GCC unroll 3
			for (int v = 0; v < VECTORS; v++)
				scale[v] = _mm512_load_ps(&w->scales[b][v * LANES]);
#pragma GCC unroll 4
			for (int r = 0; r < MR; r++)
				add_block(p[r], sum[r], &a->blocks[b * MR + (size_t)r], scale, excess);
		}
		end_pass(c, p, MR);
	}
}

/* Multiplies one or two folded panels of A. */
ALWAYS_INLINE void multiply_folded(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                   const struct columns *w, float *c, size_t words, int panels)
{
	const size_t n_blocks = gemm_int8_count(job->k, GEMM_INT8_UNIT), per_pass = job->shape->pass / GEMM_INT8_UNIT;

	for (size_t b = 0, pass = 0; b < n_blocks; pass++) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		__m512i sum[2 * MR][VECTORS];

		start_columns(sum, w->starts[pass], panels * MR);
		for (; b < end; b++) {
			const size_t at = b * GEMM_INT8_UNIT * MR;
			const int8_t *elements[] = {a[0].codes + at, a[panels - 1].codes + at};

			add_steps(sum, elements, w, b, words, panels * MR);
		}
#pragma GCC unroll 2
		for (int i = 0; i < panels; i++)
			end_folded(c + i * MR * NR, sum + i * MR, a[i].head->folded_factor, w->scales[0]);
	}
}

/* The shifts of a block's elements: if folded, the scale minus the column's least one. */
ALWAYS_INLINE __m512i shift_of(const struct source *w, size_t b, size_t v, bool folded)
{
	if (!folded)
		return _mm512_setzero_si512();
	return _mm512_sub_epi32((__m512i)load_u8(w->scales + b * NR + v * LANES), (__m512i)load_u8(w->least + v * LANES));
}

/* Bytes times 2^shift; the products fit. */
ALWAYS_INLINE __m512i shifted(__m512i bytes, __m512i shift)
{
	const __m512i kept = _mm512_mullo_epi32(_mm512_set1_epi32(0x01010101),
	                                        _mm512_and_si512(_mm512_sllv_epi32(_mm512_set1_epi32(0xFF), shift),
	                                                         _mm512_set1_epi32(0xFF)));

	return _mm512_and_si512(_mm512_sllv_epi32(bytes, shift), kept);
}

/* Expands vector v of all blocks; a pass has per_pass blocks. */
ALWAYS_INLINE void expand_vector(struct source *w, struct columns *to, size_t v, size_t per_pass, bool folded)
{
	for (size_t b = 0; b < w->n_blocks; b++) {
		const uint8_t *block = w->words + b * 2 * w->n_words * NR * 4;
		const __m512i shift = shift_of(w, b, v, folded);
		int32_t *start = &to->starts[folded ? b / per_pass : b][v * LANES];
		__m512i sum = folded ? _mm512_setzero_si512() : _mm512_set1_epi32(GEMM_INT8_BIAS);

		if (folded && b % per_pass != 0)
			sum = _mm512_load_si512(start);
		for (size_t s = 0; s < 2 * w->n_words; s++) {
			const size_t step = b * 2 * w->n_words + s;
			__m512i kept = load_kept(block, w->n_words, s, v);

			if (folded)
				kept = shifted(kept, shift);
			_mm512_store_si512(to->places[step] + v * VECTOR_BYTES, load_places(block, s, v));
			_mm512_store_si512(to->codes[step] + v * VECTOR_BYTES, kept);
			sum = less_offset(sum, kept);
		}
		_mm512_store_si512(start, sum);
		if (!folded)
			_mm512_store_ps(&to->scales[b][v * LANES], decode_scales(false, w->scales + b * NR + v * LANES));
	}
	if (folded)
		_mm512_store_ps(&to->scales[0][v * LANES], decode_scales(false, w->least + v * LANES));
}

static NOINLINE const struct columns *expand_plain(struct source *w, size_t per_pass)
{
	for (size_t v = 0; v < VECTORS && !w->has_plain; v++)
		expand_vector(w, &w->plain, v, per_pass, false);
	w->has_plain = true;
	return &w->plain;
}

static NOINLINE const struct columns *expand_folded(struct source *w, size_t per_pass)
{
	for (size_t v = 0; v < VECTORS && !w->has_folded; v++)
		expand_vector(w, &w->folded, v, per_pass, true);
	w->has_folded = true;
	return &w->folded;
}

static void source_begin(struct source *w, const struct mxfp_gemm_multiply_job *job)
{
	w->n_words = sparse_int8_words(job->shape->sparsity);
	w->n_blocks = gemm_int8_count(job->k, GEMM_INT8_UNIT);
	w->scales = job->w;
	w->words = w->scales + w->n_blocks * NR;
	w->has_plain = w->has_folded = false;
	w->foldable = find_foldable(w->scales, w->n_blocks, w->least);
}

/* Multiplies panel i, and the next one if both are folded. Returns how many. */
ALWAYS_INLINE size_t multiply_some(const struct mxfp_gemm_multiply_job *job, struct source *w, size_t i,
                                   size_t panels, size_t words)
{
	const size_t per_pass = job->shape->pass / GEMM_INT8_UNIT;
	const struct rows first = first_rows(job);
	const struct rows a[] = {later_rows(&first, i), later_rows(&first, i + 1 < panels ? i + 1 : i)};
	float *c = job->c + i * MR * NR;

	if (w->foldable && a[0].head->folded) {
		if (i + 1 < panels && a[1].head->folded) {
			multiply_folded(job, a, expand_folded(w, per_pass), c, words, 2);
			return 2;
		}
		multiply_folded(job, a, expand_folded(w, per_pass), c, words, 1);
	} else if (a[0].head->excess != 0) {
		multiply_panel(job, a, expand_plain(w, per_pass), c, words, true);
	} else {
		multiply_panel(job, a, expand_plain(w, per_pass), c, words, false);
	}
	return 1;
}

/* Multiplies n rows by block b of W as it is stored. */
ALWAYS_INLINE void add_stored_block(__m512 p[][VECTORS], const struct rows *a, const uint8_t *w, ptrdiff_t ahead,
                                    size_t n_blocks, size_t b, size_t words, int n)
{
	const size_t block_bytes = 2 * words * NR * 4;
	const uint8_t *block = w + n_blocks * NR + b * block_bytes;
	__m512i sum[MR][VECTORS];
	__m512 scale[VECTORS];

	for (size_t i = 0; i < block_bytes; i += VECTOR_BYTES)
		fetch_w(block + i, ahead);
#pragma GCC unroll 3
	for (int v = 0; v < VECTORS; v++) {
		__m512i start = _mm512_set1_epi32(GEMM_INT8_BIAS);

		scale[v] = decode_scales(false, w + b * NR + (size_t)v * LANES);
#pragma GCC unroll 4
		for (size_t s = 0; s < 2 * words; s++)
			start = less_offset(start, load_kept(block, words, s, (size_t)v));
#pragma GCC unroll 4
		for (int r = 0; r < n; r++)
			sum[r][v] = start;
	}
#pragma GCC unroll 12
	for (size_t i = 0; i < 2 * words * VECTORS; i++) {
		const size_t s = i / VECTORS, v = i % VECTORS;
		__m512i x[MR];

#pragma GCC unroll 4
		for (int r = 0; r < n; r++)
			x[r] = load_row(a->codes + b * GEMM_INT8_UNIT * MR, words, s, r);
		add_step(sum, x, load_places(block, s, v), load_kept(block, words, s, v), (int)v, n);
	}
#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
		add_block(p[r], sum[r], &a->blocks[b * MR + (size_t)r], scale, false);
}

/* Multiplies n rows of A's only panel, without an excess, by W as it is stored. */
ALWAYS_INLINE void multiply_few(const struct mxfp_gemm_multiply_job *job, size_t words, int n)
{
	const size_t n_blocks = gemm_int8_count(job->k, GEMM_INT8_UNIT), per_pass = job->shape->pass / GEMM_INT8_UNIT;
	const struct rows a = first_rows(job);

	for (size_t b = 0; b < n_blocks;) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		__m512 p[MR][VECTORS] = {0};

		for (; b < end; b++)
			add_stored_block(p, &a, job->w, w_ahead(job), n_blocks, b, words, n);
		end_pass(job->c, p, n);
	}
}

/* The functions for many and for few rows of each pattern, which has `words` words of tags in a block. */
#define MULTIPLY(many, few, words) \
	static NOINLINE void many(const struct mxfp_gemm_multiply_job *job, struct source *w) \
	{ \
		const size_t panels = gemm_int8_count(job->rows, MR); \
\
		for (size_t i = 0; i < panels;) \
			i += multiply_some(job, w, i, panels, words); \
	} \
	static NOINLINE void few(const struct mxfp_gemm_multiply_job *job) \
	{ \
		if (job->rows == 1) \
			multiply_few(job, words, 1); \
		else \
			multiply_few(job, words, MR); \
	}
MULTIPLY(multiply_many_4_16, multiply_few_4_16, 1)
MULTIPLY(multiply_many_4_8, multiply_few_4_8, 2)
#undef MULTIPLY

static NOINLINE void multiply_many(const struct mxfp_gemm_multiply_job *job)
{
	struct source *w = job->scratch;

	source_begin(w, job);
	(w->n_words == 1 ? multiply_many_4_16 : multiply_many_4_8)(job, w);
}

static void multiply(const struct mxfp_gemm_multiply_job *job)
{
	const struct gemm_int8_head *head = job->a;
	struct fp_state state = fp_enter();

	if (job->rows > MR || head->excess != 0)
		multiply_many(job);
	else
		(sparse_int8_words(job->shape->sparsity) == 1 ? multiply_few_4_16 : multiply_few_4_8)(job);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_sparse_int8) = {
	.id = 0x0501,
	.name = "exact-sparse-int8-avx512",
	.mr = GEMM_INT8_MR,
	.nr = GEMM_INT8_NR,
	.a_panel_bytes = mxfp_gemm_int8_a_bytes,
	.w_panel_bytes = w_bytes,
	.scratch_bytes = sizeof(struct source),
	.pack_a = pack_a,
	.pack_w = pack_w,
	.multiply = multiply,
};
