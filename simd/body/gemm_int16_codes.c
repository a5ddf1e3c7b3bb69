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
	CODES_SOME_ROWS = 24, /* that are multiplied by codes if they are by bytes, */
	CODES_SIX_ROWS = INT16_MR, /* and by those of six bits, which take longer to decode */
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
	ptrdiff_t ahead; /* bytes from codes that are expanded to some that are asked for meanwhile */
};

/* That of a product. */
static enum codes_kind product_kind(const struct mxfp_gemm_shape *shape)
{
	const enum codes_kind kind = kind_of(shape->w_format);

	return kind == CODES_NIBBLES && has_low(shape->a_format) ? CODES_WIDE : kind;
}

#ifndef HAS_WIDE_LOOKUP
/* Asks for the codes that lie so many bytes ahead of some. */
ALWAYS_INLINE void fetch_ahead(const uint8_t *codes, ptrdiff_t ahead, size_t bytes)
{
#pragma GCC unroll 4
	for (size_t i = 0; i < bytes; i += CODES_FETCHED)
		__builtin_prefetch((const void *)((uintptr_t)codes + (uintptr_t)ahead + i), 0, 2);
}
#endif

/* kind is a constant where this is inlined. */
ALWAYS_INLINE void expand_kind(struct codes_expanded *to, const struct codes_panels *t, size_t blocks, enum codes_kind kind)
{
	const size_t pairs = pairs_of(kind), words = words_of(kind);
	const uint8_t *codes = t->w.codes;

	for (size_t i = 0; i < blocks * INT16_NR; i += LANES)
		store(to->scales + i, (vu32)(kind == CODES_WIDE ? powers(any_scales_at(&t->w, i)) : any_scales_at(&t->w, i)));
	for (size_t i = 0; i < blocks * t->int16.pairs; i += words * pairs, codes += words_bytes(words, kind)) {
#ifndef HAS_WIDE_LOOKUP /* there it has not been measured */
		fetch_ahead(codes, t->ahead, words_bytes(words, kind));
#endif
#pragma GCC unroll 8
		for (size_t j = 0; j < INT16_VECTORS * words; j++) {
			const size_t v = j / words, word = j % words;
			vs16 x[CODES_MOST_PAIRS] = {{0}};

			decode_pairs(load_word(codes + v * VECTOR_BYTES, kind, word), kind, x);
			if (kind == CODES_WIDE) {
				const vs16 m = equal_pairs(significands(any_scales_at(&t->w, (i / t->int16.pairs * INT16_VECTORS + v) * LANES)));

#pragma GCC unroll 4
				for (size_t p = 0; p < pairs; p++)
					x[p] *= m;
			}
#pragma GCC unroll 4
			for (size_t p = 0; p < pairs; p++)
				store(&to->plane[i + word * pairs + p][v * LANES], (vu32)x[p]);
		}
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
	else if (kind == CODES_E2M3)
		expand_kind(to, t, blocks, CODES_E2M3);
	else
		expand_kind(to, t, blocks, CODES_E3M2);
}

/* Adds the products of a block of A's plane for the first `rows` rows and some vectors of columns. */
ALWAYS_INLINE void add_codes(const uint8_t *a_plane, const uint8_t *codes, size_t pairs, enum codes_kind kind, size_t rows,
                             size_t vectors, vs32 sum[BY_CODES_ROWS][INT16_VECTORS])
{
	const uint32_t *a = (const uint32_t *)a_plane;
	const size_t words = words_of(kind), in_line = words * pairs_of(kind);

	for (size_t i = 0; i < pairs; i += in_line, a += in_line * INT16_MR, codes += words_bytes(words, kind)) {
#pragma GCC unroll 4
		for (size_t at = 0; at < words_bytes(words, kind); at += CODES_FETCHED)
			__builtin_prefetch((const void *)((uintptr_t)codes + CODES_AHEAD + at));
#pragma GCC unroll 16
		for (size_t j = 0; j < words * vectors; j++) {
			const size_t word = j / vectors, v = j % vectors;
			vs16 x[CODES_MOST_PAIRS];

			decode_pairs(load_word(codes + v * VECTOR_BYTES, kind, word), kind, x);
#pragma GCC unroll 4
			for (size_t p = 0; p < pairs_of(kind); p++) {
				const struct pair_line line = pair_line(a + (word * pairs_of(kind) + p) * INT16_MR);

#pragma GCC unroll 16
				for (size_t r = 0; r < rows; r++) {
					sum[r][v] = dot_row(sum[r][v], &line, r, x[p]);
					keep_order(&sum[r][v]);
				}
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
			const uint8_t *codes = t->w.codes + words_bytes(b * of->pairs / pairs_of(kind), kind) + v * VECTOR_BYTES;
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
PASSES(e2m3, CODES_E2M3)
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
		[CODES_E2M3] = OF_KIND(e2m3),
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

/* W's bytes of word i of a line: of nibbles, two words of them. */
ALWAYS_INLINE void bytes_of(const struct codes_panels *t, const uint8_t *line, size_t i, enum codes_kind kind, vu8 to[2])
{
	const vu8 codes = load_word(line, kind, i);

	if (kind == CODES_NIBBLES)
		decode_word(codes, to);
	else
		to[0] = (kind == CODES_BYTES ? codes : e2m3_bytes(codes)) + (vu8)splat(t->by_bytes.more * 0x01010101U);
}

/* kind is a constant where this is inlined. */
ALWAYS_INLINE void expand_bytes_of(struct codes_expanded *to, const struct codes_panels *t, size_t blocks, enum codes_kind kind)
{
	const size_t step = pairs_of(kind) / 2, words = words_of(kind);
	const uint8_t *codes = t->w.codes;

	for (size_t i = 0; i < blocks * INT16_NR; i += LANES)
		store(to->scales + i, (vu32)any_scales_at(&t->w, i));
	for (size_t i = 0; i < blocks * t->int16.pairs / 2; i += words * step, codes += words_bytes(words, kind)) {
		fetch_ahead(codes, t->ahead, words_bytes(words, kind));
#pragma GCC unroll 8
		for (size_t j = 0; j < INT16_VECTORS * words; j++) {
			const size_t v = j / words, word = j % words;
			vu8 x[2] = {{0}};

			bytes_of(t, codes + v * VECTOR_BYTES, word, kind, x);
#pragma GCC unroll 2
			for (size_t half = 0; half < step; half++)
				store(&to->plane[i + word * step + half][v * LANES], (vu32)x[half]);
		}
	}
}

static NOINLINE void expand_bytes(struct codes_expanded *to, const struct codes_panels *t, size_t blocks, enum codes_kind kind)
{
	if (kind == CODES_NIBBLES)
		expand_bytes_of(to, t, blocks, CODES_NIBBLES);
	else if (kind == CODES_BYTES)
		expand_bytes_of(to, t, blocks, CODES_BYTES);
	else
		expand_bytes_of(to, t, blocks, CODES_E2M3);
}

/* How a pass goes, constants: by codes or by expanded bytes, whether a block is one group, how many groups share a line, the rows and
   vectors of columns at once, and whether scales are not ordinary, for which the panel must be expanded. */
struct by_bytes_way {
	enum codes_kind kind;
	bool expanded, one_group;
	size_t line_groups, rows, vectors;
	bool general;
};

/* Adds the products of words first to first + n - 1 of a line, or of an expanded word. */
ALWAYS_INLINE void add_words(const struct codes_panels *t, const uint32_t *a, const uint8_t *line, size_t first, size_t n,
                             const struct by_bytes_way way, vu16 part[INT16_MR][INT16_VECTORS])
{
	const size_t rows = way.rows, vectors = way.vectors, step = way.expanded ? 1 : pairs_of(way.kind) / 2;

#pragma GCC unroll 4
	for (size_t word = first; word < first + n; word++, a += step * INT16_MR) {
		vu8 x[INT16_VECTORS][2];

#pragma GCC unroll 2
		for (size_t v = 0; v < vectors; v++)
			if (way.expanded)
				x[v][0] = (vu8)load(line + v * VECTOR_BYTES);
			else
				bytes_of(t, line + v * VECTOR_BYTES, word, way.kind, x[v]);
#pragma GCC unroll 2
		for (size_t odd = 0; odd < step; odd++)
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * vectors; i++)
				part[i / vectors][i % vectors] =
					add_products(part[i / vectors][i % vectors], x[i % vectors][odd], a[odd * INT16_MR + i / vectors]);
	}
}

/* The sums of a block. */
ALWAYS_INLINE void sum_groups(const struct codes_panels *t, const uint32_t *a, const uint8_t *w, const struct by_bytes_way way,
                              vs32 sum[INT16_MR][INT16_VECTORS])
{
	const size_t rows = way.rows, vectors = way.vectors, step = way.expanded ? 1 : pairs_of(way.kind) / 2;
	const size_t line = way.expanded ? 1 : words_of(way.kind), stored = INT16_VECTORS * (way.expanded ? VECTOR_BYTES : line_bytes(way.kind));
	const size_t span = line / way.line_groups; /* of the words of a line, those of a group */
	const size_t groups = way.one_group ? 1 : t->by_bytes.groups, words = way.line_groups > 1 ? span : t->by_bytes.words;

	for (size_t g = 0; g < groups; g += way.line_groups, w += way.line_groups > 1 ? stored : 0)
#pragma GCC unroll 2
		for (size_t first = 0; first < line; first += span) {
			vu16 part[INT16_MR][INT16_VECTORS];

#pragma GCC unroll 16
			for (size_t i = 0; i < rows * vectors; i++)
				part[i / vectors][i % vectors] = (vu16)splat(a[i / vectors]);
			a += INT16_MR;
			for (size_t word = 0; word < words; word += span * step, a += span * step * INT16_MR) {
				if (!way.expanded && first == 0)
					fetch_ahead(w, CODES_AHEAD, stored);
				add_words(t, a, w, first, span, way, part);
				w += way.line_groups > 1 ? 0 : stored;
			}
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * vectors; i++)
				sum[i / vectors][i % vectors] += add_halves(part[i / vectors][i % vectors], 1);
		}
}

/* add_scaled() for vectors. */
static NOINLINE void add_general(vf32 *sum, const vf32 *added, float a_scale, const vf32 *scale)
{
	add_scaled((float *)sum, (const float *)added, a_scale, (const uint8_t *)scale);
}

/* One pass over blocks first to end - 1. */
ALWAYS_INLINE void by_bytes_pass(const struct codes_panels *t, size_t first, size_t end, const struct by_bytes_way way, float *c)
{
	const size_t rows = way.rows, vectors = way.vectors;
	const size_t words = t->by_bytes.words * t->by_bytes.groups, line = words + t->by_bytes.groups;
	const size_t stored = way.expanded ? words * INT16_VECTORS * VECTOR_BYTES : words_bytes(words * 2 / pairs_of(way.kind), way.kind);
	const uint8_t *w = way.expanded ? (const uint8_t *)t->expanded->plane : t->w.codes;
	const uint32_t *a = (const uint32_t *)t->int16.a;
	vf32 p[INT16_MR][INT16_VECTORS] = {{{0}}};

	for (size_t b = first; b < end; b++)
#pragma GCC unroll 2
		for (size_t v = 0; v < INT16_VECTORS; v += vectors) {
			vs32 sum[INT16_MR][INT16_VECTORS] = {{{0}}};

			sum_groups(t, a + b * line * INT16_MR, w + b * stored + v * VECTOR_BYTES, way, sum);
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
					const vf32 added = term * t->int16.unit;

					add_general(&p[r][at], &added, a_scale, &scales[i % vectors]);
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
#define PASSES(name, kind, one_group, line_groups) \
	PASS(name##_of_one, kind, false, one_group, line_groups, 1, 2, false) \
	PASS(name##_of_two, kind, false, one_group, line_groups, 2, 2, false) \
	PASS(name##_of_four, kind, false, one_group, line_groups, CODES_FEW_ROWS, 2, false) \
	PASS(name##_of_six, kind, false, one_group, line_groups, INT16_MR, 2, false)
PASSES(nibbles, CODES_NIBBLES, true, 1)
PASSES(bytes, CODES_BYTES, false, 1)
PASSES(e2m3, CODES_E2M3, false, 1)
PASSES(e2m3_halves, CODES_E2M3, false, 2)
#undef PASSES
#define PASSES(name, one_group) \
	PASS(name##_of_two, CODES_BYTES, true, one_group, 1, 2, 2, false) \
	PASS(name##_of_four, CODES_BYTES, true, one_group, 1, CODES_FEW_ROWS, 2, false) \
	PASS(name##_of_six, CODES_BYTES, true, one_group, 1, INT16_MR, 2, false)
PASSES(expanded_group, true)
PASSES(expanded_groups, false)
PASS(general_groups, CODES_BYTES, true, false, 1, INT16_MR, 2, true)
#undef PASSES
#undef PASS

/* The pass for rows of a panel by codes. */
static codes_pass *bytes_pass_of(const struct codes_by_bytes *by, enum codes_kind kind, size_t rows)
{
#define OF_ROWS(name) {name##_of_one, name##_of_two, name##_of_four, name##_of_four, name##_of_six, name##_of_six}
	static codes_pass *const passes[CODES_KINDS][INT16_MR] = {
		[CODES_NIBBLES] = OF_ROWS(nibbles),
		[CODES_BYTES] = OF_ROWS(bytes),
		[CODES_E2M3] = OF_ROWS(e2m3),
	};
	static codes_pass *const halves[INT16_MR] = OF_ROWS(e2m3_halves);
#undef OF_ROWS

	return (by->words < words_of(kind) ? halves : passes[kind])[rows - 1];
}

/* The same by expanded bytes. */
static codes_pass *expanded_pass_of(const struct codes_by_bytes *by, size_t rows)
{
#define OF_ROWS(name) {name##_of_two, name##_of_two, name##_of_four, name##_of_four, name##_of_six, name##_of_six}
	static codes_pass *const passes[2][INT16_MR] = {OF_ROWS(expanded_groups), OF_ROWS(expanded_group)};
#undef OF_ROWS

	return passes[by->groups == 1][rows - 1];
}

/* All passes by bytes. */
static NOINLINE void by_bytes_rows(const struct mxfp_gemm_multiply_job *job, struct codes_panels *t, const struct blocks_head *w_head)
{
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
		const bool ordinary = codes_are_ordinary(&a_head, w_head), decodes = ordinary && job->rows <= (has_six_bits(kind) ? CODES_SIX_ROWS : CODES_SOME_ROWS);
		const size_t left = job->rows - row < INT16_MR ? job->rows - row : INT16_MR;
		codes_pass *const by_expanded = ordinary ? expanded_pass_of(&t->by_bytes, left) : general_groups;
		codes_pass *const multiply = decodes ? bytes_pass_of(&t->by_bytes, kind, left) : by_expanded;
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
	struct codes_panels t = {
		.w = codes_begin(job),
		.ahead = (ptrdiff_t)((uintptr_t)job->w_later - (uintptr_t)job->w),
	};
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
		t.int16.unit = power_of_two(-(fraction_bits(shape->a_format) + fraction_bits(shape->w_format) + unit_bits(kind)));
		if (ordinary && job->rows <= by_codes_most(job)) {
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
