/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums of elements that are 16-bit integers, as gemm_int16.h has them, where W stays in codes (gemm_codes.h).
 * Few rows of A are multiplied by codes as they are decoded; for more, a panel of W is expanded first.
 * Pairs whose integers have few enough bits are multiplied by bytes where a tier can do that (by_bytes()).
 *
 * With e4m3, a sum must be rounded to 24 bits after an NVFP4 scale has multiplied it. The scale's significand, of 4 bits, therefore
 * multiplies integers, and its power of two the rounded sum: 16 * 448 * 2^9 * 12 * 15 is below 2^30.
 */
#include "tier.h"

#include "body/gemm_codes.h"
#ifdef HAS_FP4_BYTES
#include "fp4_bytes.h"
#endif

enum {
	CODES_FEW_ROWS = 4, /* by bytes */
	CODES_VECTORS = INT16_VECTORS == 1 ? 1 : 2, /* at once for one row or two */
	CODES_SOME_ROWS = 24, /* that are multiplied by codes if they are by bytes */
	CODES_AHEAD = 8192 /* bytes of codes that are asked for before they are multiplied: processors stop at pages */
};

/* A panel of W, expanded. */
struct codes_expanded {
	float scales[BLOCKS_MAX * INT16_NR];
	uint32_t plane[MXFP_GEMM_CHUNK / 2][INT16_NR];
};

/* How products by bytes go (below); no words: by integers of 16 bits. */
struct codes_by_bytes {
	size_t words, groups; /* of elements in a group, and groups in a block */
	unsigned more;        /* what is added to W's integers */
};

/* A panel of A and one of W. */
struct codes_panels {
	struct int16_panels int16;
	struct codes_w w;
	struct codes_by_bytes by_bytes;
	const struct codes_expanded *expanded;
};

/* That of a product. */
static enum codes_kind product_kind(const struct mxfp_gemm_shape *shape)
{
	const enum codes_kind kind = kind_of(shape->w_format);

	return kind == CODES_NIBBLES && has_low(shape->a_format) ? CODES_WIDE : kind;
}

/* kind is a constant where this is inlined. */
ALWAYS_INLINE void expand_kind(struct codes_expanded *to, const struct codes_panels *t, size_t blocks, enum codes_kind kind)
{
	const size_t pairs = pairs_of(kind);
	const uint8_t *codes = t->w.codes;

	for (size_t i = 0; i < blocks * INT16_NR; i += LANES)
		store(to->scales + i, (vu32)(kind == CODES_WIDE ? powers(any_scales_at(&t->w, i)) : any_scales_at(&t->w, i)));
	for (size_t i = 0; i < blocks * t->int16.pairs; i += pairs)
		for (size_t v = 0; v < INT16_VECTORS; v++, codes += line_bytes(kind)) {
			vs16 x[CODES_MOST_PAIRS] = {{0}};

			decode_pairs(load_line(codes, kind), kind, x);
			if (kind == CODES_WIDE) {
				const vs16 m = equal_pairs(significands(any_scales_at(&t->w, (i / t->int16.pairs * INT16_VECTORS + v) * LANES)));

#pragma GCC unroll 4
				for (size_t p = 0; p < pairs; p++)
					x[p] *= m;
			}
#pragma GCC unroll 4
			for (size_t p = 0; p < pairs; p++)
				store(&to->plane[i + p][v * LANES], (vu32)x[p]);
		}
}

static NOINLINE void expand(struct codes_expanded *to, const struct codes_panels *t, size_t blocks, enum codes_kind kind)
{
	if (kind == CODES_NIBBLES)
		expand_kind(to, t, blocks, CODES_NIBBLES);
	else if (kind == CODES_BYTES)
		expand_kind(to, t, blocks, CODES_BYTES);
	else if (kind == CODES_WIDE)
		expand_kind(to, t, blocks, CODES_WIDE);
#ifdef HAS_WIDE_LOOKUP
	else if (kind == CODES_E2M3)
		expand_kind(to, t, blocks, CODES_E2M3);
#endif
	else
		expand_kind(to, t, blocks, CODES_E3M2);
}

/* Adds the products of a block of A's plane for the first `rows` rows and some vectors of columns. */
ALWAYS_INLINE void add_codes(const uint8_t *a_plane, const uint8_t *codes, size_t pairs, enum codes_kind kind, size_t rows,
                             size_t vectors, vs32 sum[BY_CODES_ROWS][INT16_VECTORS])
{
	const uint32_t *a = (const uint32_t *)a_plane;

	for (size_t i = 0; i < pairs; i += pairs_of(kind), a += pairs_of(kind) * INT16_MR, codes += INT16_VECTORS * line_bytes(kind)) {
		__builtin_prefetch((const void *)((uintptr_t)codes + CODES_AHEAD));
#pragma GCC unroll 4
		for (size_t v = 0; v < vectors; v++) {
			vs16 x[CODES_MOST_PAIRS];

			decode_pairs(load_line(codes + v * line_bytes(kind), kind), kind, x);
#pragma GCC unroll 4
			for (size_t p = 0; p < pairs_of(kind); p++) {
				const struct pair_line line = pair_line(a + p * INT16_MR);

#pragma GCC unroll 16
				for (size_t r = 0; r < rows; r++)
					sum[r][v] = dot_row(sum[r][v], &line, r, x[p]);
			}
		}
	}
}

/* One pass over blocks first to end - 1, by codes, for the first `rows` rows, `vectors` vectors of columns at once. These and the
   kind are constants. */
ALWAYS_INLINE void few_rows_pass(const struct codes_panels *t, size_t first, size_t end, enum codes_kind kind, size_t rows, size_t vectors,
                            float *c)
{
	const struct int16_panels *of = &t->int16;
	vf32 p[BY_CODES_ROWS][INT16_VECTORS] = {{{0}}};

	for (size_t b = first; b < end; b++) {
		const uint8_t *a = of->a + b * of->pairs * INT16_MR * sizeof(uint32_t);

#pragma GCC unroll 4
		for (size_t v = 0; v < INT16_VECTORS; v += vectors) {
			const uint8_t *codes = t->w.codes + (b * of->pairs / pairs_of(kind) * INT16_VECTORS + v) * line_bytes(kind);
			vs32 sum[BY_CODES_ROWS][INT16_VECTORS] = {{{0}}};

			add_codes(a, codes, of->pairs, kind, rows, vectors, sum);
			if (of->low_bits != 0) {
#pragma GCC unroll 16
				for (size_t i = 0; i < rows * vectors; i++)
					sum[i / vectors][i % vectors] = (vs32)((vu32)sum[i / vectors][i % vectors] << INT16_LOW_BITS);
				if (of->a_flags[b])
					add_codes(a + of->a_plane, codes, of->pairs, kind, rows, vectors, sum);
			}
			vf32 scales[INT16_VECTORS];

#pragma GCC unroll 4
			for (size_t i = 0; i < vectors; i++)
				scales[i] = scales_at(&t->w, (b * INT16_VECTORS + v + i) * LANES);
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * vectors; i++) {
				const size_t r = i / vectors, at = v + i % vectors;
				const vf32 scale = kind == CODES_WIDE ? powers(scales[i % vectors]) : scales[i % vectors];

				if (kind == CODES_WIDE)
					sum[r][i % vectors] *= (vs32)significands(scales[i % vectors]);
				p[r][at] = fma_f32(__builtin_convertvector(sum[r][i % vectors], vf32),
				                   scale * (splat_f32(of->a_scales[b * INT16_MR + r]) * of->unit), p[r][at]);
			}
		}
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
		float *at = c + i * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / INT16_VECTORS][i % INT16_VECTORS]));
	}
}

typedef void codes_pass(const struct codes_panels *t, size_t first, size_t end, float *c);

/* Defines passes for one kind. */
#define PASS(name, kind, rows, vectors) \
	static NOINLINE void name(const struct codes_panels *t, size_t first, size_t end, float *c) \
	{ \
		few_rows_pass(t, first, end, kind, rows, vectors, c); \
	}
#define PASSES(name, kind) \
	PASS(name##_one_row, kind, 1, CODES_VECTORS) \
	PASS(name##_two_rows, kind, 2, CODES_VECTORS) \
	PASS(name##_four_rows, kind, 4, 1) \
	MORE_PASSES(name, kind)
#ifdef HAS_WIDE_LOOKUP
#define MORE_PASSES(name, kind) \
	PASS(name##_eight_rows, kind, 8, 1) \
	PASS(name##_all_rows, kind, INT16_MR, 1)
#else
#define MORE_PASSES(name, kind)
#endif
PASSES(nibbles, CODES_NIBBLES)
PASSES(bytes, CODES_BYTES)
PASSES(e3m2, CODES_E3M2)
PASSES(wide, CODES_WIDE)
#ifdef HAS_WIDE_LOOKUP
PASSES(e2m3, CODES_E2M3)
#endif
#undef MORE_PASSES
#undef PASSES
#undef PASS

/* The pass for rows of a panel, at most BY_CODES_ROWS. */
static codes_pass *pass_by_codes(enum codes_kind kind, size_t rows)
{
#ifdef HAS_WIDE_LOOKUP
#define OF_KIND(name) {name##_one_row, name##_two_rows, name##_four_rows, name##_eight_rows, name##_all_rows}
#else
#define OF_KIND(name) {name##_one_row, name##_two_rows, name##_four_rows}
#endif
	static codes_pass *const passes[CODES_KINDS][5] = {
		[CODES_NIBBLES] = OF_KIND(nibbles),
		[CODES_BYTES] = OF_KIND(bytes),
		[CODES_E3M2] = OF_KIND(e3m2),
		[CODES_WIDE] = OF_KIND(wide),
#ifdef HAS_WIDE_LOOKUP
		[CODES_E2M3] = OF_KIND(e2m3),
#endif
	};
#undef OF_KIND

	return passes[kind][rows > 8 ? 4 : rows > 4 ? 3 : rows > 2 ? 2 : rows - 1];
}

#ifdef HAS_FP4_BYTES
/*
 * Products by bytes, as fp4_bytes.h has them, of integers that allow it: vpmaddubsw multiplies W's, more by a constant that leaves none
 * negative, by A's, and two such products stay below 2^15. A lane of 16 bits sums a group of words from a start that takes the constant
 * back, modulo 2^16; a group is as long as its sum, without the constant, fits 16 bits. Of a row, a block of A is groups of a start
 * and words in the order of W's.
 */
static unsigned greatest_integer(enum mxfp_format format)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(format)->element);
	const unsigned bits = element->significand_bits;

	if (element->kind == MXFP_KIND_FIXED)
		return 1U << (element->bits - 1);
	return ((1U << bits) | (element->max_code & ((1U << bits) - 1))) << ((element->max_code >> bits) - 1);
}

static struct codes_by_bytes by_bytes(const struct mxfp_gemm_shape *shape)
{
	const unsigned a = greatest_integer(shape->a_format), w = greatest_integer(shape->w_format);
	struct codes_by_bytes by = {0};

	if (a > 1 << 7 || w > 1 << 7)
		return by;
	by.more = w == BYTES_MORE ? BYTES_MORE : w < 1 << 6 ? 1 << 6 : 1 << 7;
	if (2 * (w + by.more) * a > INT16_MAX)
		return by;
	for (by.words = blocks_length(shape) / 4; 2 * by.words * w * a > INT16_MAX;)
		by.words /= 2;
	by.groups = blocks_length(shape) / 4 / by.words;
	return by;
}

static size_t by_bytes_a_bytes(const struct codes_by_bytes *by, const struct mxfp_gemm_shape *shape, size_t k)
{
	return panel_align(blocks_elements(shape, k, INT16_MR) +
	                   blocks_count(shape, k) * by->groups * (1 + by->words) * INT16_MR * sizeof(uint32_t));
}

/* A group of a row, which may begin before its words' end: the last group of a row is the first. */
static void pack_group(const struct codes_by_bytes *by, const uint32_t *words, uint32_t *to)
{
	uint32_t start[2] = {0}, copy[MXFP_MX_BLOCK / 4];

	for (size_t i = 0; i < by->words; i++) {
		copy[i] = words[i];
		for (size_t half = 0; half < 2; half++)
			start[half] -= by->more * (uint32_t)((int8_t)(words[i] >> 16 * half & 0xFF) + (int8_t)(words[i] >> (16 * half + 8) & 0xFF));
	}
	to[0] = (start[0] & 0xFFFF) | start[1] << 16;
	memcpy(to + 1, copy, by->words * sizeof *copy);
}

static void by_bytes_pack_slice(const struct mxfp_gemm_pack_job *job, const struct codes_by_bytes *by, size_t k, struct blocks_range *range)
{
	const struct mxfp_gemm_pack_job slice = panel_slice(job, k);
	const size_t length = blocks_length(job->shape), n = blocks_count(job->shape, slice.k) * length, line = by->groups * (1 + by->words);
	const float factor = power_of_two(fraction_bits(job->matrix->format));
	uint8_t *words = (uint8_t *)job->panel + blocks_elements(job->shape, job->k, INT16_MR);
	panel_rows rows;

	load_elements(&slice, rows);
	pack_blocks(&slice, k, false, true, INT16_MR, rows, range);
	for (size_t r = 0; r < slice.rows; r++) {
		for (size_t i = 0; i < n; i += LANES)
			store(rows[r] + i, codes_of((vf32)load(rows[r] + i) * factor, CODES_BYTES));
		codes_to_words(rows[r], n, CODES_BYTES);
		for (size_t g = n / length * by->groups; g-- > 0;)
			pack_group(by, rows[r] + g * by->words, rows[r] + g * (1 + by->words));
	}
	store_columns(words + k / length * line * INT16_MR * sizeof(uint32_t), rows[0], PANEL_SLICE, INT16_MR, n / length * line);
}

static void by_bytes_pack_a(const struct mxfp_gemm_pack_job *job, const struct codes_by_bytes *by)
{
	struct blocks_range range = blocks_begin();

	memset(job->panel, 0, BLOCKS_HEAD_BYTES);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE)
		by_bytes_pack_slice(job, by, k, &range);
	const struct blocks_head head = blocks_end(&range);
	memcpy(job->panel, &head, sizeof head);
}

/* Two words of W's bytes: of nibbles, or else one word. */
ALWAYS_INLINE void bytes_of(const struct codes_panels *t, vu8 codes, enum codes_kind kind, vu8 to[2])
{
	if (kind == CODES_NIBBLES)
		decode_word(codes, to);
	else
		to[0] = codes + (vu8)splat(t->by_bytes.more * 0x01010101U);
}

/* kind is a constant where this is inlined. */
ALWAYS_INLINE void expand_bytes_of(struct codes_expanded *to, const struct codes_panels *t, size_t blocks, enum codes_kind kind)
{
	const size_t step = pairs_of(kind) / 2;
	const uint8_t *codes = t->w.codes;

	for (size_t i = 0; i < blocks * INT16_NR; i += LANES)
		store(to->scales + i, (vu32)any_scales_at(&t->w, i));
	for (size_t i = 0; i < blocks * t->int16.pairs / 2; i += step)
		for (size_t v = 0; v < INT16_VECTORS; v++, codes += VECTOR_BYTES) {
			vu8 x[2] = {{0}};

			bytes_of(t, (vu8)load(codes), kind, x);
#pragma GCC unroll 2
			for (size_t j = 0; j < step; j++)
				store(&to->plane[i + j][v * LANES], (vu32)x[j]);
		}
}

static NOINLINE void expand_bytes(struct codes_expanded *to, const struct codes_panels *t, size_t blocks, enum codes_kind kind)
{
	if (kind == CODES_NIBBLES)
		expand_bytes_of(to, t, blocks, CODES_NIBBLES);
	else
		expand_bytes_of(to, t, blocks, CODES_BYTES);
}

/* How a pass goes, constants: by codes or by expanded bytes, whether a block is one group, the rows and vectors of columns at once, and
   whether scales are not ordinary, for which the panel must be expanded. */
struct by_bytes_way {
	enum codes_kind kind;
	bool expanded, one_group;
	size_t rows, vectors;
	bool general;
};

/* The sums of a block. */
ALWAYS_INLINE void sum_groups(const struct codes_panels *t, const uint32_t *a, const uint8_t *w, const struct by_bytes_way way,
                              vs32 sum[INT16_MR][INT16_VECTORS])
{
	const size_t step = way.expanded ? 1 : pairs_of(way.kind) / 2, rows = way.rows, vectors = way.vectors;
	const size_t groups = way.one_group ? 1 : t->by_bytes.groups;

	for (size_t g = 0; g < groups; g++) {
		vu16 part[INT16_MR][INT16_VECTORS];

#pragma GCC unroll 16
		for (size_t i = 0; i < rows * vectors; i++)
			part[i / vectors][i % vectors] = (vu16)splat(a[i / vectors]);
		a += INT16_MR;
		for (size_t word = 0; word < t->by_bytes.words; word += step, a += step * INT16_MR, w += INT16_VECTORS * VECTOR_BYTES) {
			vu8 x[INT16_VECTORS][2];

			if (!way.expanded)
				__builtin_prefetch((const void *)((uintptr_t)w + CODES_AHEAD), 0, 2);
#pragma GCC unroll 2
			for (size_t v = 0; v < vectors; v++)
				if (way.expanded)
					x[v][0] = (vu8)load(w + v * VECTOR_BYTES);
				else
					bytes_of(t, (vu8)load(w + v * VECTOR_BYTES), way.kind, x[v]);
#pragma GCC unroll 2
			for (size_t odd = 0; odd < step; odd++)
#pragma GCC unroll 16
				for (size_t i = 0; i < rows * vectors; i++)
					part[i / vectors][i % vectors] =
						add_products(part[i / vectors][i % vectors], x[i % vectors][odd], a[odd * INT16_MR + i / vectors]);
		}
#pragma GCC unroll 16
		for (size_t i = 0; i < rows * vectors; i++)
			sum[i / vectors][i % vectors] += add_halves(part[i / vectors][i % vectors], 1);
	}
}

/* One pass over blocks first to end - 1. */
ALWAYS_INLINE void by_bytes_pass(const struct codes_panels *t, size_t first, size_t end, const struct by_bytes_way way, float *c)
{
	const size_t rows = way.rows, vectors = way.vectors;
	const size_t words = t->by_bytes.words * t->by_bytes.groups, line = words + t->by_bytes.groups;
	const size_t stored = way.expanded ? words : words * 2 / pairs_of(way.kind);
	const uint8_t *w = way.expanded ? (const uint8_t *)t->expanded->plane : t->w.codes;
	const uint32_t *a = (const uint32_t *)t->int16.a;
	vf32 p[INT16_MR][INT16_VECTORS] = {{{0}}};

	for (size_t b = first; b < end; b++)
#pragma GCC unroll 2
		for (size_t v = 0; v < INT16_VECTORS; v += vectors) {
			vs32 sum[INT16_MR][INT16_VECTORS] = {{{0}}};

			sum_groups(t, a + b * line * INT16_MR, w + (b * stored * INT16_VECTORS + v) * VECTOR_BYTES, way, sum);
			vf32 scales[2];

#pragma GCC unroll 2
			for (size_t i = 0; i < vectors; i++) {
				const size_t scale_at = (b * INT16_VECTORS + v + i) * LANES;

				scales[i] = way.expanded ? (vf32)load(t->expanded->scales + scale_at) : scales_at(&t->w, scale_at);
			}
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * vectors; i++) {
				const size_t r = i / vectors, at = v + i % vectors;
				const vf32 term = __builtin_convertvector(sum[r][i % vectors], vf32);
				const float a_scale = t->int16.a_scales[b * INT16_MR + r];

				if (way.general) {
					float sums[LANES], added[LANES];

					store(sums, (vu32)p[r][at]);
					store(added, (vu32)(term * t->int16.unit));
					add_scaled(sums, added, a_scale, (const uint8_t *)&scales[i % vectors]);
					p[r][at] = (vf32)load(sums);
				} else {
					p[r][at] = fma_f32(term, scales[i % vectors] * (splat_f32(a_scale) * t->int16.unit), p[r][at]);
				}
			}
		}
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
		float *at = c + i * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / INT16_VECTORS][i % INT16_VECTORS]));
	}
}

#define PASS(name, ...) \
	static NOINLINE void name(const struct codes_panels *t, size_t first, size_t end, float *c) \
	{ \
		by_bytes_pass(t, first, end, (struct by_bytes_way){__VA_ARGS__}, c); \
	}
PASS(nibbles_of_one, CODES_NIBBLES, false, true, 1, 2, false)
PASS(nibbles_of_two, CODES_NIBBLES, false, true, 2, 2, false)
PASS(nibbles_of_four, CODES_NIBBLES, false, true, CODES_FEW_ROWS, 2, false)
PASS(nibbles_of_six, CODES_NIBBLES, false, true, INT16_MR, 2, false)
PASS(bytes_of_one, CODES_BYTES, false, false, 1, 2, false)
PASS(bytes_of_two, CODES_BYTES, false, false, 2, 2, false)
PASS(bytes_of_four, CODES_BYTES, false, false, CODES_FEW_ROWS, 2, false)
PASS(bytes_of_six, CODES_BYTES, false, false, INT16_MR, 2, false)
PASS(expanded_group, CODES_BYTES, true, true, INT16_MR, 2, false)
PASS(expanded_groups, CODES_BYTES, true, false, INT16_MR, 2, false)
PASS(general_groups, CODES_BYTES, true, false, INT16_MR, 2, true)
#undef PASS

/* All passes by bytes. */
static NOINLINE void by_bytes_rows(const struct mxfp_gemm_multiply_job *job, struct codes_panels *t, const struct blocks_head *w_head)
{
	static codes_pass *const by_codes[2][INT16_MR] = {
		[CODES_NIBBLES] = {nibbles_of_one, nibbles_of_two, nibbles_of_four, nibbles_of_four, nibbles_of_six, nibbles_of_six},
		[CODES_BYTES] = {bytes_of_one, bytes_of_two, bytes_of_four, bytes_of_four, bytes_of_six, bytes_of_six},
	};
	const struct mxfp_gemm_shape *shape = job->shape;
	const size_t blocks = blocks_count(shape, job->k), pass = shape->pass / blocks_length(shape);
	const size_t a_bytes = by_bytes_a_bytes(&t->by_bytes, shape, job->k);
	const enum codes_kind kind = kind_of(shape->w_format);
	const uint8_t *a = job->a;
	bool is_expanded = false;
	float *c = job->c;

	t->expanded = job->scratch;
	for (size_t row = 0; row < job->rows; row += INT16_MR, a += a_bytes, c += INT16_MR * INT16_NR) {
		struct blocks_head a_head;

		memcpy(&a_head, a, sizeof a_head);
		const bool ordinary = codes_are_ordinary(&a_head, w_head), decodes = ordinary && job->rows <= CODES_SOME_ROWS;
		const size_t left = job->rows - row < INT16_MR ? job->rows - row : INT16_MR;
		codes_pass *const by_expanded = t->by_bytes.groups == 1 ? expanded_group : expanded_groups;
		codes_pass *const multiply = decodes ? by_codes[kind][left - 1] : ordinary ? by_expanded : general_groups;
		t->int16 = int16_begin(job, a);
		if (!decodes && !is_expanded) {
			expand_bytes(job->scratch, t, blocks, kind);
			is_expanded = true;
		}
		for (size_t first = 0; first < blocks; first += pass)
			multiply(t, first, blocks - first < pass ? blocks : first + pass, c);
	}
}
#endif

static FP_KERNEL(codes_pack_w, mxfp_gemm_pack_job, codes_pack_rows)

static size_t codes_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
#ifdef HAS_FP4_BYTES
	const struct codes_by_bytes by = by_bytes(shape);

	if (by.words != 0)
		return by_bytes_a_bytes(&by, shape, k);
#endif
	return int16_a_bytes(shape, k);
}

static void codes_pack_a(const struct mxfp_gemm_pack_job *job)
{
#ifdef HAS_FP4_BYTES
	const struct codes_by_bytes by = by_bytes(job->shape);

	if (by.words != 0) {
		by_bytes_pack_a(job, &by);
		return;
	}
#endif
	int16_pack(job, INT16_MR, false);
}

static NOINLINE void codes_rows(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const size_t blocks = blocks_count(shape, job->k), pass = shape->pass / blocks_length(shape), a_bytes = int16_a_bytes(shape, job->k);
	const uint8_t *w = job->w, *a = job->a;
	const enum codes_kind kind = product_kind(shape);
	struct codes_expanded *expanded = job->scratch;
	struct codes_panels t = {.w = codes_begin(job)};
	struct blocks_head a_head, w_head;
	bool is_expanded = false;
	float *c = job->c;

	memcpy(&w_head, w, sizeof w_head);
#ifdef HAS_FP4_BYTES
	t.by_bytes = by_bytes(shape);
	if (t.by_bytes.words != 0) {
		by_bytes_rows(job, &t, &w_head);
		return;
	}
#endif
	for (size_t row = 0; row < job->rows; row += INT16_MR, a += a_bytes, c += INT16_MR * INT16_NR) {
		memcpy(&a_head, a, sizeof a_head);
		const bool ordinary = codes_are_ordinary(&a_head, &w_head);
		t.int16 = int16_begin(job, a);
		if (kind == CODES_WIDE)
			t.int16.unit = power_of_two(-(fraction_bits(shape->a_format) + fraction_bits(shape->w_format) + SCALE_BITS));
		if (ordinary && job->rows <= BY_CODES_MOST) {
			const size_t left = job->rows - row < BY_CODES_ROWS ? job->rows - row : BY_CODES_ROWS;

			for (size_t first = 0; first < blocks; first += pass)
				pass_by_codes(kind, left)(&t, first, blocks - first < pass ? blocks : first + pass, c);
			continue;
		}
		if (!is_expanded)
			expand(expanded, &t, blocks, kind);
		is_expanded = true;
		t.int16.w_scales = (const uint8_t *)expanded->scales;
		t.int16.w = (const uint8_t *)expanded->plane;
		int16_passes(job, &t.int16, ordinary, job->rows - row, c);
	}
}

static PANELS_KERNEL(codes_multiply, INT16_MR, INT16_NR, codes_rows)

const struct mxfp_gemm_kernel TIER(gemm_int16_codes) = {
	.id = INT16_CODES_ID,
	.name = "int16-codes-" TIER_NAME,
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = codes_a_bytes,
	.w_panel_bytes = codes_w_bytes,
	.takes_panels = true,
	.scratch_bytes = sizeof(struct codes_expanded),
	.pack_a = codes_pack_a,
	.pack_w = codes_pack_w,
	.multiply = codes_multiply,
};
