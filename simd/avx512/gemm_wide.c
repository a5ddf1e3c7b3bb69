/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums by vpdpwssd of e4m3 or e5m2 by a narrow format, whose elements are integers of at most 9 bits (e3m2,
 * e2m3, e2m1, int8) in a unit of the format. Elements of the wide format are split into two digits, high * 2^d + low,
 * such that the sums of either digit have at most 24 bits: one FMA then gives RN24 of the block's sum.
 *
 * Every block has its own unit, which is part of its scale, so that the digits of an e5m2 block begin at its largest
 * element. If elements need more bits than the digits have, or are Inf, the panel holds them as binary32 ("plain"), and
 * a slower loop sums in binary64, as it does for scales that are not ordinary. Panels are those of body/gemm_blocks.h;
 * a panel of W is one such panel of LANES rows for each vector. Elements are 16-bit [pair of k][digit][row][2].
 */
#include "tier.h"

#include "avx512/gemm_elements.h"
#include "body/gemm_blocks.h"
#include "body/slots.h"
#include "f32.h"

enum {
	WIDE_MR = 6,
	WIDE_VECTORS = 2,                      /* of columns */
	WIDE_NR = WIDE_VECTORS * LANES,
	WIDE_PAIR_BYTES = 4,
	WIDE_LINE_BYTES = LANES * WIDE_PAIR_BYTES /* one digit of a pair of k for a vector of columns; also their scales */
};

/* A kind of pair of formats: constants in the fast loops. */
struct wide_kind {
	size_t a_digits, w_digits, length;
	bool a_splits_scale, w_splits_scale; /* it is NVFP4, whose scale takes part in the rounding to 24 bits */
};

/* A panel of A and one of W. */
struct wide_panels {
	const uint8_t *a_scales, *a, *w_scales, *w; /* w_scales, w: of the first vector */
	size_t w_bytes;                             /* from a vector's panel to the next */
	size_t blocks;
	unsigned d;
	bool a_plain, w_plain[WIDE_VECTORS];        /* elements are binary32 [k][row] */
	bool ordinary;                              /* the fast loop gives the right bits */
};

/* Panels: their sizes and packing. */

enum { MAX_LENGTH = MXFP_MX_BLOCK };

/* The head of a panel. */
struct wide_head {
	struct blocks_head ranges; /* of scales only */
	uint32_t plain;
};

static const struct mxfp_format_info *element_of(enum mxfp_format format)
{
	return mxfp_format_get_info(mxfp_format_get_info(format)->element);
}

static size_t digits_of(enum mxfp_format format)
{
	return element_of(format)->special == MXFP_SPECIAL_NONE ? 1 : 2;
}

/* The most bits d of a digit, at most 2^(d - 1) in magnitude, with which sums fit 24 bits. The scale of NVFP4, which
   has 4 bits, multiplies sums. */
static unsigned digit_bits(const struct mxfp_gemm_shape *shape)
{
	enum mxfp_format format = digits_of(shape->a_format) == 1 ? shape->a_format : shape->w_format;
	const struct mxfp_format_info *element = element_of(format);
	unsigned m = element->significand_bits, d = 1;
	size_t greatest = (size_t)1 << (element->bits - 1), bits = mxfp_format_get_info(format)->tensor_scale ? 20 : 24;

	if (element->kind == MXFP_KIND_FLOAT)
		greatest = (((size_t)2 << m) - 1) << ((element->max_code >> m) - 1);
	while (d < 15 && greatest * blocks_length(shape) << d <= (size_t)1 << bits)
		d++;
	return d;
}

static size_t panel_bytes(const struct mxfp_gemm_shape *shape, enum mxfp_format format, size_t k, size_t width)
{
	size_t pairs = blocks_count(shape, k) * blocks_length(shape) / 2;

	return panel_align(blocks_elements(shape, k, width) + pairs * digits_of(format) * width * WIDE_PAIR_BYTES);
}

static size_t a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return panel_bytes(shape, shape->a_format, k, WIDE_MR);
}

/* Each vector of columns has its own panel. */
static size_t w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return WIDE_VECTORS * panel_bytes(shape, shape->w_format, k, LANES);
}

/* Converts a block of a row to integers of at most `bits` bits; *used becomes the exponent of their unit, at least
   `unit`. Returns false if an element is not a multiple of it. */
static bool block_to_integers(const uint32_t *x, size_t length, int unit, unsigned bits, int32_t *integers, int *used)
{
	vu32 greatest = {0};
	bool exact = true;

	for (size_t i = 0; i < length; i += LANES)
		greatest = max_u32(greatest, load(x + i) & ~F32_SIGN);
	int top = (int)(max_across(greatest) >> 23) - 126;
	*used = top - (int)bits > unit ? top - (int)bits : unit;
	for (size_t i = 0; i < length; i += LANES) {
		vf32 scaled = (vf32)load(x + i) * power_of_two(-*used);
		__m512i n = _mm512_cvttps_epi32((__m512)scaled);

		exact = exact && _mm512_cmp_ps_mask(_mm512_cvtepi32_ps(n), (__m512)scaled, _CMP_NEQ_UQ) == 0;
		_mm512_storeu_si512(integers + i, n);
	}
	return exact;
}

/* Stores 16 elements of a row as digits. */
static void store_digits(uint8_t *elements, const int32_t *integers, size_t digits, unsigned d, size_t width)
{
	vs32 n = (vs32)load(integers), half = (vs32)splat(UINT32_C(1) << (d - 1));
	vs32 low = ((n + half) & ((1 << d) - 1)) - half, digit[2] = {(n - low) >> (int)d, low};
	uint32_t pairs[LANES / 2];

	if (digits == 1)
		digit[0] = n;
	for (size_t i = 0; i < digits; i++) {
		_mm256_storeu_si256((__m256i *)pairs, _mm512_cvtepi32_epi16((__m512i)digit[i]));
		for (size_t pair = 0; pair < LANES / 2; pair++)
			memcpy(elements + (pair * digits + i) * width * WIDE_PAIR_BYTES, &pairs[pair], WIDE_PAIR_BYTES);
	}
}

/* A panel while it is packed. */
struct packing {
	const struct mxfp_gemm_pack_job *job;
	size_t width, length, digits;
	unsigned d;
	int unit;          /* the exponent of the unit of the format's elements */
	uint8_t *elements;
	bool plain;        /* elements are stored as binary32 */
	struct blocks_range range;
	uint32_t least_scale, greatest_scale; /* times the units of blocks */
};

/* Multiplies a block's scale by its unit. */
static void add_unit(struct packing *p, size_t block, size_t r, int unit)
{
	uint8_t *at = (uint8_t *)p->job->panel + BLOCKS_HEAD_BYTES + (block * p->width + r) * sizeof(float);
	uint32_t bits;

	memcpy(&bits, at, sizeof bits);
	bits = mxfp_f32_scale(bits, unit);
	memcpy(at, &bits, sizeof bits);
	p->least_scale = bits < p->least_scale ? bits : p->least_scale;
	p->greatest_scale = bits > p->greatest_scale ? bits : p->greatest_scale;
}

/* Packs a block of row r, from column k of the chunk on, as digits. Returns false if they cannot hold it. */
static bool pack_digits(struct packing *p, const uint32_t *x, size_t k, size_t r)
{
	const size_t step = p->digits * p->width * WIDE_PAIR_BYTES / 2; /* from one k to the next */
	int32_t integers[MAX_LENGTH];
	int unit;

	if (!block_to_integers(x, p->length, p->unit, 2 * p->d - 1, integers, &unit))
		return false;
	add_unit(p, k / p->length, r, unit);
	for (size_t i = 0; i < p->length; i += LANES)
		store_digits(p->elements + (k + i) * step + r * WIDE_PAIR_BYTES, integers + i, p->digits, p->d, p->width);
	return true;
}

/* Packs columns k, k + 1, ... of the chunk. Returns false if the panel must be plain and is not. */
static bool pack_slice(struct packing *p, size_t k)
{
	const struct mxfp_gemm_pack_job slice = panel_slice(p->job, k);
	const size_t n = blocks_count(slice.shape, slice.k) * p->length, width = p->width;
	panel_rows rows;

	if (slice.rows != 0)
		load_elements(&slice, rows);
	pack_blocks(&slice, k, false, true, width, rows, &p->range);
	if (p->plain) {
		for (size_t i = 0; i < n * width; i++)
			memcpy(p->elements + (k * width + i) * sizeof(float), &rows[i % width][i / width], sizeof(float));
		return true;
	}
	for (size_t r = 0; r < width; r++)
		for (size_t i = 0; i < n; i += p->length)
			if (!pack_digits(p, rows[r] + i, k + i, r))
				return false;
	return true;
}

static bool pack_all(struct packing *p, bool plain)
{
	struct wide_head head;

	p->plain = plain;
	p->range = blocks_begin();
	p->least_scale = UINT32_MAX;
	p->greatest_scale = 0;
	for (size_t k = 0; k < p->job->k; k += PANEL_SLICE)
		if (!pack_slice(p, k))
			return false;
	head = (struct wide_head){.ranges = blocks_end(&p->range), .plain = plain};
	if (!plain) {
		head.ranges.least_scale = p->least_scale;
		head.ranges.greatest_scale = p->greatest_scale;
	}
	memcpy(p->job->panel, &head, sizeof head);
	return true;
}

static NOINLINE void pack_panel(const struct mxfp_gemm_pack_job *job, enum mxfp_format format, size_t width)
{
	uint8_t *panel = job->panel;
	struct packing p = {
		.job = job,
		.width = width,
		.length = blocks_length(job->shape),
		.digits = digits_of(format),
		.d = digits_of(format) == 1 ? 15 : digit_bits(job->shape),
		.unit = unit_of_format(format),
		.elements = panel + blocks_elements(job->shape, job->k, width),
	};

	memset(panel, 0, BLOCKS_HEAD_BYTES);
	memset(panel + panel_bytes(job->shape, format, job->k, width) - MXFP_GEMM_ALIGN, 0, MXFP_GEMM_ALIGN);
	if (!pack_all(&p, false))
		(void)pack_all(&p, true);
}

static void pack_a(const struct mxfp_gemm_pack_job *job)
{
	struct fp_state state = fp_enter();

	pack_panel(job, job->shape->a_format, WIDE_MR);
	fp_leave(state);
}

static void pack_w(const struct mxfp_gemm_pack_job *job)
{
	struct fp_state state = fp_enter();
	struct mxfp_gemm_pack_job part = *job;

	for (size_t v = 0; v < WIDE_VECTORS; v++) {
		size_t before = v * LANES;

		part.row = job->row + before;
		part.rows = job->rows < before ? 0 : job->rows - before < LANES ? job->rows - before : LANES;
		part.panel = (uint8_t *)job->panel + v * panel_bytes(job->shape, job->shape->w_format, job->k, LANES);
		pack_panel(&part, job->shape->w_format, LANES);
	}
	fp_leave(state);
}

static struct wide_panels panels_of(const struct mxfp_gemm_multiply_job *job, const uint8_t *a)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const uint8_t *w = job->w;
	struct wide_head a_head, w_head;
	struct wide_panels t = {
		.a_scales = a + BLOCKS_HEAD_BYTES,
		.a = a + blocks_elements(shape, job->k, WIDE_MR),
		.w_scales = w + BLOCKS_HEAD_BYTES,
		.w = w + blocks_elements(shape, job->k, LANES),
		.w_bytes = panel_bytes(shape, shape->w_format, job->k, LANES),
		.blocks = blocks_count(shape, job->k),
		.d = digit_bits(shape),
	};

	memcpy(&a_head, a, sizeof a_head);
	t.a_plain = a_head.plain != 0;
	t.ordinary = !t.a_plain;
	for (size_t v = 0; v < WIDE_VECTORS; v++) {
		memcpy(&w_head, w + v * t.w_bytes, sizeof w_head);
		/* The head, which may come from a file, must not claim 4-byte numbers for a format of 2-byte elements. */
		t.w_plain[v] = w_head.plain != 0 && digits_of(shape->w_format) == 2;
		t.ordinary = t.ordinary && !t.w_plain[v] && scales_are_ordinary(&a_head.ranges, &w_head.ranges);
	}
	return t;
}

/* Element k of row r of a panel in its block's unit: at most 30 bits. */
static double element_at(const uint8_t *elements, size_t k, size_t r, size_t width, size_t digits, bool plain,
                         unsigned d)
{
	const uint8_t *at = elements + (k / 2 * digits * width + r) * WIDE_PAIR_BYTES + k % 2 * sizeof(int16_t);
	int16_t high, low = 0;
	float x;

	if (plain) {
		memcpy(&x, elements + (k * width + r) * sizeof x, sizeof x);
		return (double)x;
	}
	memcpy(&high, at, sizeof high);
	if (digits == 2)
		memcpy(&low, at + width * WIDE_PAIR_BYTES, sizeof low);
	return (double)(digits == 2 ? high * (INT32_C(1) << d) + low : high);
}

/* Loads one block of LANES columns as numbers. */
static void load_block(const struct wide_panels *t, size_t b, const struct wide_kind *kind, size_t v,
                       double block[MAX_LENGTH][LANES])
{
	for (size_t i = 0; i < kind->length * LANES; i++)
		block[i / LANES][i % LANES] = element_at(t->w + v * t->w_bytes, b * kind->length + i / LANES, i % LANES, LANES,
		                                         kind->w_digits, t->w_plain[v], t->d);
}

/* Adds block b of row r to p: all sums have fewer than 53 bits. */
static void add_block(const struct wide_panels *t, size_t b, const struct wide_kind *kind, size_t r,
                      const uint8_t *w_scales, double block[MAX_LENGTH][LANES], float *p)
{
	vf64 low = {0}, high = {0};
	float a_scale, rounded[LANES], ones[LANES];

	memcpy(&a_scale, t->a_scales + (b * WIDE_MR + r) * sizeof a_scale, sizeof a_scale);
	for (size_t k = 0; k < kind->length; k++) {
		vf64 x = splat_f64(
			element_at(t->a, b * kind->length + k, r, WIDE_MR, kind->a_digits, t->a_plain, t->d));

		low = fma_f64(x, (vf64)load(block[k]), low);
		high = fma_f64(x, (vf64)load(block[k] + LANES / 2), high);
	}
	if (kind->w_splits_scale) {
		low *= widen_f32(w_scales);
		high *= widen_f32(w_scales + WIDE_LINE_BYTES / 2);
	} else if (kind->a_splits_scale) {
		low *= splat_f64((double)a_scale);
		high *= splat_f64((double)a_scale);
	}
	store(rounded, (vu32)narrow_f64(low, high));
	store(ones, splat(F32_ONE));
	add_scaled(p, rounded, kind->a_splits_scale ? 1 : a_scale,
	           kind->w_splits_scale ? (const uint8_t *)ones : w_scales);
}

static NOINLINE void multiply_general(const struct wide_panels *t, size_t first, size_t end,
                                      const struct wide_kind *kind, size_t v, float *c)
{
	float p[WIDE_MR][LANES] = {0};
	double block[MAX_LENGTH][LANES];

	for (size_t b = first; b < end; b++) {
		load_block(t, b, kind, v, block);
		for (size_t r = 0; r < WIDE_MR; r++)
			add_block(t, b, kind, r, t->w_scales + v * t->w_bytes + b * WIDE_LINE_BYTES, block, p[r]);
	}
	for (size_t r = 0; r < WIDE_MR; r++) {
		float *at = c + r * WIDE_NR + v * LANES;

		store(at, (vu32)((vf32)load(at) + (vf32)load(p[r])));
	}
}

/* Adds the products of one block, each digit to its own sums. */
ALWAYS_INLINE void wide_block(const uint8_t *a, const uint8_t *w, size_t w_bytes, const struct wide_kind *kind,
                              size_t rows, __m512i sum[WIDE_MR][WIDE_VECTORS][2])
{
	for (size_t pair = 0; pair < kind->length / 2; pair++) {
		__m512i x[WIDE_VECTORS][2];

#pragma GCC unroll 4
		for (size_t i = 0; i < WIDE_VECTORS * kind->w_digits; i++)
			x[i / kind->w_digits][i % kind->w_digits] = _mm512_loadu_si512(
				w + i / kind->w_digits * w_bytes + (pair * kind->w_digits + i % kind->w_digits) * WIDE_LINE_BYTES);
#pragma GCC unroll 16
		for (size_t i = 0; i < rows * kind->a_digits; i++) {
			size_t r = i / kind->a_digits, digit = i % kind->a_digits;
			__m512i y = broadcast(a + ((pair * kind->a_digits + digit) * WIDE_MR + r) * WIDE_PAIR_BYTES);

#pragma GCC unroll 4
			for (size_t j = 0; j < WIDE_VECTORS * kind->w_digits; j++) {
				size_t v = j / kind->w_digits, to = digit + j % kind->w_digits;

				sum[r][v][to] = dot_words(sum[r][v][to], x[v][j % kind->w_digits], y);
			}
		}
	}
}

ALWAYS_INLINE vf32 to_f32(__m512i sum)
{
	return (vf32)_mm512_cvtepi32_ps(sum);
}

/* P plus the term of one block. */
ALWAYS_INLINE vf32 wide_add(vf32 p, const __m512i sum[2], vf32 a_scale, vf32 w_scale, vf32 digit,
                            const struct wide_kind *kind)
{
	if (kind->a_splits_scale)
		return fma_f32(fma_f32(to_f32(sum[0]), a_scale * digit, to_f32(sum[1]) * a_scale), w_scale, p);
	if (kind->w_splits_scale)
		return fma_f32(fma_f32(to_f32(sum[0]), w_scale * digit, to_f32(sum[1]) * w_scale), a_scale, p);
	return fma_f32(fma_f32(to_f32(sum[0]), digit, to_f32(sum[1])), w_scale * a_scale, p);
}

/* One pass over blocks first to end - 1. */
ALWAYS_INLINE void wide_pass(const struct wide_panels *panels, size_t first, size_t end, const struct wide_kind *kind,
                             size_t rows, float *c)
{
	const struct wide_panels copy = *panels, *t = &copy;
	size_t a_block = kind->length / 2 * kind->a_digits * WIDE_MR * WIDE_PAIR_BYTES;
	size_t w_block = kind->length / 2 * kind->w_digits * WIDE_LINE_BYTES;
	vf32 digit = splat_f32(power_of_two((int)t->d));
	vf32 p[WIDE_MR][WIDE_VECTORS] = {0};

	for (size_t b = first; b < end; b++) {
		__m512i sum[WIDE_MR][WIDE_VECTORS][2] = {0};

		wide_block(t->a + b * a_block, t->w + b * w_block, t->w_bytes, kind, rows, sum);
#pragma GCC unroll 16
		for (size_t i = 0; i < rows * WIDE_VECTORS; i++) {
			size_t r = i / WIDE_VECTORS, v = i % WIDE_VECTORS;
			vf32 w_scale = (vf32)load(t->w_scales + v * t->w_bytes + b * WIDE_LINE_BYTES);
			float a_scale;

			memcpy(&a_scale, t->a_scales + (b * WIDE_MR + r) * sizeof a_scale, sizeof a_scale);
			p[r][v] = wide_add(p[r][v], sum[r][v], splat_f32(a_scale), w_scale, digit, kind);
		}
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * WIDE_VECTORS; i++) {
		float *at = c + i / WIDE_VECTORS * WIDE_NR + i % WIDE_VECTORS * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / WIDE_VECTORS][i % WIDE_VECTORS]));
	}
}

/* All passes of a chunk for one panel of A with `rows` rows or more. */
ALWAYS_INLINE void wide_chunk(const struct wide_panels *t, const struct wide_kind *kind, size_t pass, size_t rows,
                              float *c)
{
	/* A copy: if another function were given its address, *kind would not be a constant. */
	const struct wide_kind general = *kind;

	for (size_t first = 0; first < t->blocks; first += pass) {
		size_t end = t->blocks - first < pass ? t->blocks : first + pass;

		if (t->ordinary && rows == 1)
			wide_pass(t, first, end, kind, 1, c);
		else if (t->ordinary)
			wide_pass(t, first, end, kind, WIDE_MR, c);
		else
			for (size_t v = 0; v < WIDE_VECTORS; v++)
				multiply_general(t, first, end, &general, v, c);
	}
}

/* Multiplies one panel of A after the other. */
ALWAYS_INLINE void wide_rows(const struct mxfp_gemm_multiply_job *job, const struct wide_kind *kind)
{
	size_t panel_bytes = a_bytes(job->shape, job->k), pass = job->shape->pass / kind->length;
	const uint8_t *a = job->a;
	float *c = job->c;

	for (size_t row = 0; row < job->rows; row += WIDE_MR, a += panel_bytes, c += WIDE_MR * WIDE_NR) {
		const struct wide_panels t = panels_of(job, a);

		wide_chunk(&t, kind, pass, job->rows - row, c);
	}
}

/* A function for each kind of pair. */
#define WIDE_ROWS(name, ...) \
	static NOINLINE void name(const struct mxfp_gemm_multiply_job *job) \
	{ \
		wide_rows(job, &(const struct wide_kind){__VA_ARGS__}); \
	}
WIDE_ROWS(wide_a_32, .a_digits = 2, .w_digits = 1, .length = MXFP_MX_BLOCK)
WIDE_ROWS(wide_a_16, .a_digits = 2, .w_digits = 1, .length = MXFP_NVFP4_BLOCK, .w_splits_scale = true)
WIDE_ROWS(wide_w_32, .a_digits = 1, .w_digits = 2, .length = MXFP_MX_BLOCK)
WIDE_ROWS(wide_w_16, .a_digits = 1, .w_digits = 2, .length = MXFP_NVFP4_BLOCK, .a_splits_scale = true)
#undef WIDE_ROWS

static void wide_multiply(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	struct fp_state state = fp_enter();
	bool short_blocks = shape->a_format == MXFP_FORMAT_NVFP4 || shape->w_format == MXFP_FORMAT_NVFP4;

	if (shape->a_format == MXFP_FORMAT_MXFP8_E4M3 || shape->a_format == MXFP_FORMAT_MXFP8_E5M2)
		(short_blocks ? wide_a_16 : wide_a_32)(job);
	else
		(short_blocks ? wide_w_16 : wide_w_32)(job);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_wide) = {
	.id = 0x0300,
	.name = "exact-wide-avx512",
	.mr = WIDE_MR,
	.nr = WIDE_NR,
	.a_panel_bytes = a_bytes,
	.w_panel_bytes = w_bytes,
	.pack_a = pack_a,
	.pack_w = pack_w,
	.multiply = wide_multiply,
};
