/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums of any two block formats, in binary64. Packing multiplies NVFP4 elements by their block scales,
 * which must take part before the sum is rounded, and gives their blocks the scale 1.
 *
 * Any sum of a block's products fits 53 bits, except for e5m2 by e4m3 or e5m2 if the panels' magnitudes lie far apart.
 * In that case, and with Inf, NaN or scales that are not ordinary, general_pass() runs, which splits elements in two.
 */
#include "tier.h"

#include "body/gemm_sum.h"
#include "body/slots.h"

enum { EXACT_NR = EXACT_VECTORS * LANES };

/* The spread of the products' exponents for which sums fit: with 2 bits before the point of a product, 2 + 3 after it
   and 5 for a sum of 32, they have 53 bits. */
enum { EXACT_MAX_SPREAD = 41 };

struct exact_panels {
	const float *a_scales;
	const double *a;
	const uint8_t *w_scales, *w;
	size_t length;
};

static size_t exact_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	size_t elements = blocks_count(shape, k) * blocks_length(shape);

	return panel_align(blocks_elements(shape, k, EXACT_MR) + elements * EXACT_MR * sizeof(double));
}

static size_t exact_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	size_t elements = blocks_count(shape, k) * blocks_length(shape);

	return blocks_elements(shape, k, EXACT_NR) + elements * EXACT_NR * sizeof(float);
}

/* Packs the scales of a slice from column k on and loads its elements into `rows`. Returns their number per row, which
   includes the padding of the last block. */
static size_t exact_load(const struct mxfp_gemm_pack_job *job, size_t k, size_t width, panel_rows rows,
                         struct blocks_range *range)
{
	const struct mxfp_gemm_pack_job slice = panel_slice(job, k);
	const bool scaled = mxfp_format_get_info(job->matrix->format)->tensor_scale;

	if (scaled)
		dequantize_rows(&slice, NULL, 1, rows, PANEL_SLICE);
	else
		load_elements(&slice, rows);
	pack_blocks(&slice, k, scaled, false, width, rows, range);
	return blocks_count(job->shape, slice.k) * blocks_length(job->shape);
}

static void exact_end(const struct mxfp_gemm_pack_job *job, const struct blocks_range *range)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(job->matrix->format);
	const struct mxfp_format_info *element = mxfp_format_get_info(format->element);
	struct blocks_head head = blocks_end(range);

	memset(job->panel, 0, BLOCKS_HEAD_BYTES);
	/* Sums with narrow elements always fit, NVFP4 included: the elements of a block share their scale. */
	if (element->kind != MXFP_KIND_FLOAT || element->bits < 8)
		head.least = head.greatest;
	memcpy(job->panel, &head, sizeof head);
}

static void exact_pack_w(const struct mxfp_gemm_pack_job *job)
{
	uint8_t *to = (uint8_t *)job->panel + blocks_elements(job->shape, job->k, EXACT_NR);
	struct blocks_range range = blocks_begin();
	panel_rows rows;

	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		size_t n = exact_load(job, k, EXACT_NR, rows, &range);

		store_columns(to + k * EXACT_NR * sizeof(float), rows[0], PANEL_SLICE, EXACT_NR, n);
	}
	exact_end(job, &range);
}

static void exact_pack_a(const struct mxfp_gemm_pack_job *job)
{
	uint8_t *to = (uint8_t *)job->panel + blocks_elements(job->shape, job->k, EXACT_MR);
	uint8_t numbers[PANEL_SLICE * EXACT_MR * sizeof(float)];
	struct blocks_range range = blocks_begin();
	panel_rows rows;

	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		size_t n = exact_load(job, k, EXACT_MR, rows, &range);

		store_columns(numbers, rows[0], PANEL_SLICE, EXACT_MR, n);
		for (size_t i = 0; i < n * EXACT_MR; i += LANES / 2)
			store(to + (k * EXACT_MR + i) * sizeof(double), (vu32)widen_f32(numbers + i * sizeof(float)));
	}
	exact_end(job, &range);
}

/* Adds the products of one block for the first `rows` rows; `rows` is a constant where this is inlined. */
ALWAYS_INLINE void exact_block(const double *a, const uint8_t *w, size_t n, size_t rows,
                               vf64 sum[EXACT_MR][2 * EXACT_VECTORS])
{
	for (size_t i = 0; i < n; i++, a += EXACT_MR, w += EXACT_NR * sizeof(float)) {
		vf64 x[2 * EXACT_VECTORS];

#pragma GCC unroll 4
		for (size_t v = 0; v < 2 * EXACT_VECTORS; v++)
			x[v] = widen_f32(w + v * LANES / 2 * sizeof(float));
#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
			for (size_t v = 0; v < 2 * EXACT_VECTORS; v++)
				sum[r][v] = fma_f64(splat_f64(a[r]), x[v], sum[r][v]);
	}
}

/* One pass over blocks first to end - 1. */
ALWAYS_INLINE void exact_pass(const struct exact_panels *t, size_t first, size_t end, size_t rows, float *c)
{
	const double *a = t->a + first * t->length * EXACT_MR;
	const uint8_t *w = t->w + first * t->length * EXACT_NR * sizeof(float);
	vf32 p[EXACT_MR][EXACT_VECTORS] = {0};

	for (size_t b = first; b < end; b++) {
		vf64 sum[EXACT_MR][2 * EXACT_VECTORS] = {0};

		exact_block(a, w, t->length, rows, sum);
		a += t->length * EXACT_MR;
		w += t->length * EXACT_NR * sizeof(float);
#pragma GCC unroll 4
		for (size_t v = 0; v < EXACT_VECTORS; v++) {
			vf32 w_scale = (vf32)load(t->w_scales + (b * EXACT_VECTORS + v) * VECTOR_BYTES);

#pragma GCC unroll 8
			for (size_t r = 0; r < rows; r++)
				p[r][v] = fma_f32(narrow_f64(sum[r][2 * v], sum[r][2 * v + 1]),
				                  w_scale * t->a_scales[b * EXACT_MR + r], p[r][v]);
		}
	}
#pragma GCC unroll 8
	for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (size_t v = 0; v < EXACT_VECTORS; v++) {
			float *at = c + r * EXACT_NR + v * LANES;

			store(at, (vu32)((vf32)load(at) + p[r][v]));
		}
}

static NOINLINE void general_pass(const struct exact_panels *t, size_t first, size_t end, float *c)
{
	float p[EXACT_MR * EXACT_NR] = {0};

	for (size_t i = 0; i < EXACT_MR * EXACT_VECTORS * (end - first); i++) {
		size_t b = first + i / (EXACT_MR * EXACT_VECTORS);
		size_t r = i / EXACT_VECTORS % EXACT_MR, col = i % EXACT_VECTORS * LANES;
		const double *a = t->a + b * t->length * EXACT_MR + r;
		const uint8_t *w = t->w + (b * t->length * EXACT_NR + col) * sizeof(float);
		const size_t step = EXACT_NR * sizeof(float);
		vf64 low = exact_sum(a, EXACT_MR, w, step, t->length);
		vf64 high = exact_sum(a, EXACT_MR, w + LANES / 2 * sizeof(float), step, t->length);
		float sum[LANES];

		store(sum, (vu32)narrow_f64(low, high));
		add_scaled(p + r * EXACT_NR + col, sum, t->a_scales[b * EXACT_MR + r],
		           t->w_scales + (b * EXACT_NR + col) * sizeof(float));
	}
	for (size_t i = 0; i < EXACT_MR * EXACT_NR; i += LANES)
		store(c + i, (vu32)((vf32)load(c + i) + (vf32)load(p + i)));
}

/* Whether every sum of a block's products is exact in binary64. */
static bool products_fit(const struct blocks_head *a, const struct blocks_head *w)
{
	return a->greatest < F32_INF && w->greatest < F32_INF &&
	       exponent_of(a->greatest) - exponent_of(a->least) + exponent_of(w->greatest) - exponent_of(w->least) <=
	           EXACT_MAX_SPREAD;
}

static void exact_panel(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, size_t rows, float *c)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const uint8_t *w = job->w;
	const struct exact_panels t = {
		.a_scales = (const float *)(a + BLOCKS_HEAD_BYTES),
		.a = (const double *)(a + blocks_elements(shape, job->k, EXACT_MR)),
		.w_scales = w + BLOCKS_HEAD_BYTES,
		.w = w + blocks_elements(shape, job->k, EXACT_NR),
		.length = blocks_length(shape),
	};
	struct blocks_head a_head, w_head;
	size_t blocks = blocks_count(shape, job->k), pass = shape->pass / t.length;

	memcpy(&a_head, a, sizeof a_head);
	memcpy(&w_head, w, sizeof w_head);
	bool ordinary = scales_are_ordinary(&a_head, &w_head) && products_fit(&a_head, &w_head);
	for (size_t first = 0; first < blocks; first += pass) {
		size_t end = blocks - first < pass ? blocks : first + pass;

		if (!ordinary)
			general_pass(&t, first, end, c);
		else if (rows == 1)
			exact_pass(&t, first, end, 1, c);
		else if (rows <= EXACT_MR / 2)
			exact_pass(&t, first, end, EXACT_MR / 2, c);
		else
			exact_pass(&t, first, end, EXACT_MR, c);
	}
}

static NOINLINE void exact_rows(const struct mxfp_gemm_multiply_job *job)
{
	multiply_each(job, exact_a_bytes(job->shape, job->k), EXACT_MR, EXACT_NR, exact_panel);
}

static PANELS_KERNEL(exact_multiply, EXACT_MR, EXACT_NR, exact_rows)

const struct mxfp_gemm_kernel TIER(gemm_exact) = {
	.id = EXACT_ID,
	.name = "exact-" TIER_NAME,
	.mr = EXACT_MR,
	.nr = EXACT_NR,
	.a_panel_bytes = exact_a_bytes,
	.w_panel_bytes = exact_w_bytes,
	.takes_panels = true,
	.pack_a = exact_pack_a,
	.pack_w = exact_pack_w,
	.multiply = exact_multiply,
};
