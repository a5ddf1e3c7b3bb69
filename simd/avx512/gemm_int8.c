/* SPDX-License-Identifier: MIT */
/*
 * Multiplies panels of gemm_int8.h. For many rows a panel of W is expanded first: its elements to bytes, its
 * scales to binary32.
 */
#include "avx512/gemm_int8_block.h"

/* A panel of W expanded; folded: as if all scales of a column were its least one. */
struct columns {
	_Alignas(VECTOR_BYTES) uint8_t codes[MXFP_GEMM_CHUNK * NR];
	_Alignas(VECTOR_BYTES) float scales[GEMM_INT8_BLOCKS * NR];
};

/* Block b of the next panel of A. Two lines of a block of 32 are its elements, one its scales. */
ALWAYS_INLINE void prefetch_block(const struct rows *a, size_t b, int block)
{
	const char *elements = (const char *)a->codes + b * MR * block + a->bytes;

	for (int i = 0; i < MR * block; i += VECTOR_BYTES)
		_mm_prefetch(elements + i, _MM_HINT_T0);
	_mm_prefetch((const char *)(a->blocks + b * MR) + a->bytes, _MM_HINT_T0);
}

/* All blocks of a panel of A times W expanded. */
ALWAYS_INLINE void multiply_panel(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                  const struct columns *w, float *c, const struct kind *kind)
{
	const size_t n_blocks = gemm_int8_count(job->k, (size_t)kind->block), per_pass = job->shape->pass / kind->block;

	for (size_t b = 0; b < n_blocks;) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		__m512 p[MR][VECTORS] = {0};

		for (; b < end; b++) {
			__m512 scale[VECTORS];

			prefetch_block(a, b, kind->block);
#pragma GCC unroll 3
			for (int v = 0; v < VECTORS; v++)
				scale[v] = _mm512_load_ps(w->scales + b * NR + v * LANES);
			multiply_block(p, a, kind, w->codes + b * kind->block * NR, scale, b, MR);
		}
		end_pass(c, p, MR);
	}
}

/* C += P of whole passes, of one panel. */
ALWAYS_INLINE void end_folded(float *c, __m512i sum[][VECTORS], const float *factor, const struct columns *w)
{
#pragma GCC unroll 12
	for (int i = 0; i < MR * VECTORS; i++) {
		const int r = i / VECTORS, v = i % VECTORS;
		__m512 p = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][v]), _mm512_set1_ps(factor[r]));
		float *at = c + i * LANES;

		_mm512_store_ps(at, _mm512_fmadd_ps(p, _mm512_load_ps(w->scales + v * LANES), _mm512_load_ps(at)));
	}
}

/* Folded panels of A, `panels` of them: two have as many sums as registers can hold. */
ALWAYS_INLINE void multiply_folded(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                   const struct columns *w, float *c, int panels)
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
			const int8_t *elements[] = {a[0].codes + at * MR, a[panels - 1].codes + at * MR};

#pragma GCC unroll 8
			for (int four = 0; four < GEMM_INT8_UNIT / 4; four++)
				add_four(sum, elements, false, w->codes + at * NR, four, panels * MR);
		}
#pragma GCC unroll 2
		for (int i = 0; i < panels; i++)
			end_folded(c + i * MR * NR, sum + i * MR, a[i].head->folded_factor, w);
	}
}

static NOINLINE void multiply_folded_one(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                         const struct columns *w, float *c)
{
	multiply_folded(job, a, w, c, 1);
}

static NOINLINE void multiply_folded_two(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                         const struct columns *w, float *c)
{
	multiply_folded(job, a, w, c, 2);
}

/* A panel of W of which nothing has been expanded yet. */
struct source {
	const uint8_t *scales, *codes;
	size_t block, n_blocks; /* of W's format */
	const struct kind *kind;
	bool foldable, has_plain, has_folded;
	uint8_t least[NR];      /* scale of each column */
	struct columns plain, folded;
};

static void source_begin(struct source *w, const struct mxfp_gemm_multiply_job *job, const struct kind *kind)
{
	w->kind = kind;
	w->block = gemm_int8_w_block(job->shape->w_format);
	w->n_blocks = gemm_int8_count(job->k, w->block);
	w->scales = job->w;
	w->codes = w->scales + w->n_blocks * NR;
	w->foldable = w->has_plain = w->has_folded = false;
}

/* n times 4 elements of all columns, that begin with number `first`, which is even, multiplied by 2^shift. */
ALWAYS_INLINE void fold_elements(struct source *w, size_t first, int n, int v, __m512i shift)
{
	const __m512i more = _mm512_sub_epi8(_mm512_set1_epi8((char)GEMM_INT8_OFFSET_FOLDED),
	                                     _mm512_sllv_epi32(_mm512_set1_epi8(12), shift));

#pragma GCC unroll 8
	for (int four = 0; four < n; four++) {
		__m512i x = load_elements(true, w->codes + first * VECTORS * VECTOR_BYTES / 2, (size_t)four, v);

		_mm512_store_si512(w->folded.codes + ((first + (size_t)four) * VECTORS + (size_t)v) * VECTOR_BYTES,
		                   _mm512_add_epi8(_mm512_sllv_epi32(x, shift), more));
	}
}

static NOINLINE const struct columns *expand_folded(struct source *w)
{
	const int fours = GEMM_INT8_UNIT / 4;

	if (w->has_folded)
		return &w->folded;
	w->has_folded = true;
	for (int v = 0; v < VECTORS; v++) {
		const __m512i base = (__m512i)load_u8(w->least + v * LANES);

		_mm512_store_ps(w->folded.scales + v * LANES, load_scales(false, w->least + v * LANES));
		for (size_t b = 0; b < w->n_blocks; b++) {
			__m512i scale = (__m512i)load_u8(w->scales + b * NR + (size_t)v * LANES);

			fold_elements(w, b * (size_t)fours, fours, v, _mm512_sub_epi32(scale, base));
		}
	}
	return &w->folded;
}

ALWAYS_INLINE void expand(struct source *w, const struct kind *kind)
{
	const size_t fours = w->n_blocks * w->block / 4, repeats = w->block / (size_t)kind->block;
	float *scale = w->plain.scales;

	for (size_t i = 0; i < fours; i += 2) {
#pragma GCC unroll 6
		for (int v = 0; v < 2 * VECTORS; v++)
			_mm512_store_si512(w->plain.codes + (i * VECTORS + (size_t)v) * VECTOR_BYTES,
			                   load_elements(kind->nibbles, w->codes, i + (size_t)(v / VECTORS), v % VECTORS));
	}
	for (size_t b = 0; b < w->n_blocks; b++)
		for (size_t i = 0; i < repeats; i++)
			for (size_t j = 0; j < NR; j += LANES, scale += LANES)
				_mm512_store_ps(scale, load_scales(kind->ue4m3, w->scales + b * NR + j));
}

static NOINLINE const struct columns *expand_plain(struct source *w)
{
	if (w->has_plain)
		return &w->plain;
	w->has_plain = true;
	if (w->kind->nibbles)
		expand(w, &(struct kind){.nibbles = true, .ue4m3 = w->kind->ue4m3, .block = w->kind->block});
	else
		expand(w, &(struct kind){.block = w->kind->block});
	return &w->plain;
}

static NOINLINE void multiply_32(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                 const struct columns *w, float *c)
{
	multiply_panel(job, a, w, c, &(struct kind){.block = 32});
}

static NOINLINE void multiply_16(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                 const struct columns *w, float *c)
{
	multiply_panel(job, a, w, c, &(struct kind){.block = 16});
}

static NOINLINE void multiply_excess_32(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                        const struct columns *w, float *c)
{
	multiply_panel(job, a, w, c, &(struct kind){.block = 32, .excess = true});
}

static NOINLINE void multiply_excess_16(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                        const struct columns *w, float *c)
{
	multiply_panel(job, a, w, c, &(struct kind){.block = 16, .excess = true});
}

/* One panel of A, or two. Returns how many. */
ALWAYS_INLINE size_t multiply_next(const struct mxfp_gemm_multiply_job *job, struct source *w, const struct rows a[2],
                                   float *c)
{
	const struct gemm_int8_head *head = a[0].head;

	if (w->foldable && head->folded) {
		if (a[1].head != head && a[1].head->folded) {
			multiply_folded_two(job, a, expand_folded(w), c);
			return 2;
		}
		multiply_folded_one(job, a, expand_folded(w), c);
	} else if (w->kind->block == 32) {
		(head->excess ? multiply_excess_32 : multiply_32)(job, a, expand_plain(w), c);
	} else {
		(head->excess ? multiply_excess_16 : multiply_16)(job, a, expand_plain(w), c);
	}
	return 1;
}

static NOINLINE void multiply_many(const struct mxfp_gemm_multiply_job *job)
{
	const struct kind kind = {
		.nibbles = gemm_int8_has_nibbles(job->shape->w_format),
		.ue4m3 = job->shape->w_format == MXFP_FORMAT_NVFP4,
		.block = (int)gemm_int8_pair_block(job->shape),
	};
	const size_t panels = gemm_int8_count(job->rows, MR);
	/* What follows the panel of W is most likely the next one: each panel of A fetches its share. */
	const size_t w_bytes = mxfp_gemm_int8_w_bytes(job->shape, job->k);
	const size_t share = gemm_int8_count(w_bytes, panels * VECTOR_BYTES) * VECTOR_BYTES;
	const char *next = (const char *)job->w + w_bytes;
	const struct rows first = first_rows(job);
	struct source w;

	source_begin(&w, job, &kind);
	if (job->shape->w_format == MXFP_FORMAT_MXFP4)
		w.foldable = find_foldable(w.scales, w.n_blocks, w.least);
	for (size_t i = 0, n; i < panels; i += n) {
		const struct rows a[] = {later_rows(&first, i), later_rows(&first, i + 1 < panels ? i + 1 : i)};

		n = multiply_next(job, &w, a, job->c + i * MR * NR);
		for (size_t line = 0; line < n * share; line += VECTOR_BYTES)
			_mm_prefetch(next + line, _MM_HINT_T1);
		next += n * share;
	}
}

static void multiply(const struct mxfp_gemm_multiply_job *job)
{
	const struct gemm_int8_head *head = job->a;
	struct fp_state state = fp_enter();

	if (job->rows > MR || head->excess)
		multiply_many(job);
	else
		mxfp_gemm_int8_few(job);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_int8) = {
	.id = 0x0100,
	.name = "exact-int8-avx512",
	.mr = GEMM_INT8_MR,
	.nr = GEMM_INT8_NR,
	.a_panel_bytes = mxfp_gemm_int8_a_bytes,
	.w_panel_bytes = mxfp_gemm_int8_w_bytes,
	.pack_a = mxfp_gemm_int8_pack_a,
	.pack_w = mxfp_gemm_int8_pack_w,
	.multiply = multiply,
};
