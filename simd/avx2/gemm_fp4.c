/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums of W in MXFP4, which stays in its codes (body/gemm_fp4.h), and A in an MX format whose elements are wider
 * than a byte, E4M3 or MXFP6_E3M2. Few rows of A are multiplied by bytes, as fp4_bytes.h says. For more, a panel of W is
 * expanded to words first, pairs of 16-bit integers of each column, and A's panels are what body/gemm_int16.h makes them.
 *
 * e4m3 has 18 bits: the upper 15 are A's integers, and W's are 8 times twice their numbers, so that sums have the unit of all
 * 18: at most 28672 * 96 * 32 < 2^26.5. The lower 3 bits, the rests, few elements have: less than one in a thousand where
 * numbers are normal, one in seventy beside an outlier of twenty times that. A panel of A lists those of each block, and
 * their products are summed apart.
 *
 * Words also take scales of W: where those of each column lie within WORDS_SPREAD binades, each word is multiplied by its
 * block's scale over the least of its column, and the sums of a pass by that least one afterwards. Powers of two commute with
 * rounding, and sums stay below 2^31.
 */
#include "fp4_bytes.h"

enum {
	WORDS_MR = INT16_MR,
	WORDS_LEAST_ROWS = 2 * WORDS_MR,      /* of a product: then W's expansion pays */
	WORDS_PAIRS = MXFP_MX_BLOCK / 2,
	WORDS_RESTS = WORDS_MR * WORDS_PAIRS, /* of a block, at most */
	WORDS_GROUP = 4,                      /* rests that are multiplied at once: lists are filled up with zeros */
	WORDS_SPREAD = 4,
	WORDS_FOLDED_MOST = 80,               /* the exponent of scales for which no sum of a pass overflows */
	WORDS_AHEAD = 512,                    /* bytes of the next panel of A */
	/* In the head of a panel of A: how many rests each block has, a byte each, and whether the panel is for bytes. */
	WORDS_COUNTS = INT16_LOW_FLAGS,
	FOR_BYTES = BLOCKS_HEAD_BYTES - 1
};

_Static_assert((int)WORDS_COUNTS + (int)FP4_BLOCKS <= (int)FOR_BYTES, "a head has both");

/* Of an entry of a list: the rests of a pair, which pair of the block it is, and of which row. */
enum {
	REST_MASK = (1 << INT16_LOW_BITS) - 1,
	REST_SECOND_SHIFT = INT16_LOW_BITS,
	REST_PAIR_SHIFT = 2 * INT16_LOW_BITS,
	REST_ROW_SHIFT = REST_PAIR_SHIFT + 4
};

_Static_assert(WORDS_PAIRS == 1 << (REST_ROW_SHIFT - REST_PAIR_SHIFT), "a pair has its bits");

/* What a panel of W becomes for words. */
struct words_expanded {
	bool is_folded;
	float least[INT16_NR];              /* scale of each column, times the unit of sums */
	float scales[FP4_BLOCKS][INT16_NR]; /* times the unit */
	uint32_t plane[FP4_BLOCKS * WORDS_PAIRS][INT16_NR];
};

struct fp4_scratch {
	struct words_expanded words;
	float scales[FP4_BLOCKS * INT16_NR]; /* for bytes, where they are not ordinary */
};

static size_t words_panel_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	const size_t lists = has_low(shape->a_format) ? mx_blocks(k) * WORDS_RESTS * sizeof(uint16_t) : 0;

	return panel_align(blocks_elements(shape, k, WORDS_MR) + plane_bytes(shape, k, WORDS_MR) + lists);
}

/* The bytes of a panel of A of either kind. */
static size_t fp4_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	const size_t words = words_panel_bytes(shape, k), bytes = bytes_panel_bytes(k, BYTES_WIDE);

	return words > bytes ? words : bytes;
}

/* Adds the rests of a block of row r, in pairs, to the `count` that its list has. Returns how many it has then. */
static size_t list_rests(const uint32_t *pairs, size_t r, uint16_t *list, size_t count)
{
	for (size_t p = 0; p < WORDS_PAIRS; p++)
		if (pairs[p] != 0)
			list[count++] = (uint16_t)((pairs[p] & REST_MASK) | pairs[p] >> 16 << REST_SECOND_SHIFT | p << REST_PAIR_SHIFT |
			                           r << REST_ROW_SHIFT);
	return count;
}

/* Packs columns k, k + 1, ... of the chunk. */
static void words_pack_slice(const struct mxfp_gemm_pack_job *job, size_t k, struct blocks_range *range)
{
	const struct mxfp_gemm_pack_job slice = panel_slice(job, k);
	const size_t blocks = mx_blocks(slice.k), n = blocks * MXFP_MX_BLOCK, first = k / MXFP_MX_BLOCK;
	const float factor = power_of_two(fraction_bits(job->matrix->format));
	uint8_t *panel = job->panel, *counts = panel + WORDS_COUNTS + first;
	uint8_t *plane = panel + blocks_elements(job->shape, job->k, WORDS_MR);
	uint16_t *lists = (uint16_t *)(plane + plane_bytes(job->shape, job->k, WORDS_MR)) + first * WORDS_RESTS;
	panel_rows rows;

	load_elements(&slice, rows);
	pack_blocks(&slice, k, false, true, WORDS_MR, rows, range);
	for (size_t r = 0; r < WORDS_MR; r++) {
		uint8_t has_rests[PANEL_SLICE / MXFP_MX_BLOCK] = {0};
		uint32_t rests[PANEL_SLICE / 2];

		order_pairs(rows[r], n);
		if (!has_low(job->matrix->format)) {
			narrow_row(rows[r], n, factor);
			continue;
		}
		split_row(rows[r], rests, n, MXFP_MX_BLOCK, factor, has_rests);
		for (size_t b = 0; b < blocks; b++)
			if (has_rests[b] != 0)
				counts[b] = (uint8_t)list_rests(rests + b * WORDS_PAIRS, r, lists + b * WORDS_RESTS, counts[b]);
	}
	for (size_t b = 0; b < blocks; b++)
		for (size_t i = counts[b]; i % WORDS_GROUP != 0; i++)
			lists[b * WORDS_RESTS + i] = 0;
	store_columns(plane + k * WORDS_MR * sizeof(int16_t), rows[0], PANEL_SLICE, WORDS_MR, n / 2);
}

/* Packs A's rows for words, or few of them for bytes. */
static void fp4_pack_a(const struct mxfp_gemm_pack_job *job)
{
	struct blocks_range range = blocks_begin();

	if (job->rows <= BYTES_FEW_ROWS || job->unit_rows < WORDS_LEAST_ROWS) {
		bytes_pack(job, BYTES_WIDE);
		((uint8_t *)job->panel)[FOR_BYTES] = 1;
		return;
	}
	memset(job->panel, 0, BLOCKS_HEAD_BYTES);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE)
		words_pack_slice(job, k, &range);
	const struct blocks_head head = blocks_end(&range);
	memcpy(job->panel, &head, sizeof head);
}

/* The pairs of a word of codes of each column, times a factor below 2^8 that is in both halves of each lane. */
ALWAYS_INLINE void expand_word(vu8 codes, vu32 factor, uint32_t *to)
{
	const vu8 low = (vu8)splat(0x0F0F0F0F);
	const vu8 bytes[2] = {lookup(twice_e2m1, codes & low), lookup(twice_e2m1, (vu8)((vu16)codes >> 4) & low)};

#pragma GCC unroll 2
	for (size_t i = 0; i < 2; i++) {
		store(to + 2 * i * INT16_NR, (vu32)_mm256_maddubs_epi16((__m256i)factor, (__m256i)bytes[i]));
		store(to + (2 * i + 1) * INT16_NR, (vu32)_mm256_maddubs_epi16((__m256i)(factor << 8), (__m256i)bytes[i]));
	}
}

/* The least code of the scales of each column. Returns whether all lie near enough and are numbers. */
static bool least_scales(const uint8_t *scales, size_t blocks, vu32 least[INT16_VECTORS])
{
	vs32 far = {0};

	for (size_t v = 0; v < INT16_VECTORS; v++) {
		vu32 greatest = least[v] = load_u8(scales + v * LANES);

		for (size_t b = 1; b < blocks; b++) {
			const vu32 code = load_u8(scales + b * INT16_NR + v * LANES);

			least[v] = min_u32(least[v], code);
			greatest = max_u32(greatest, code);
		}
		far |= (vs32)(greatest - least[v] > WORDS_SPREAD) | (vs32)(greatest == MXFP_SCALE_NAN);
	}
	return !any(far);
}

/* Expands a panel of W; fold: by scales over the least of each column, if those lie near each other. */
static NOINLINE void words_expand(struct words_expanded *to, const struct mxfp_gemm_multiply_job *job, bool fold)
{
	const size_t blocks = mx_blocks(job->k);
	const uint8_t *scales = (const uint8_t *)job->w + BLOCKS_HEAD_BYTES, *codes = scales + blocks * INT16_NR;
	const float unit = power_of_two(-(fraction_bits(job->shape->a_format) + fraction_bits(job->shape->w_format)));
	const unsigned bits = has_low(job->shape->a_format) ? INT16_LOW_BITS : 0;
	vu32 least[INT16_VECTORS];

	to->is_folded = least_scales(scales, blocks, least) && fold;
	for (size_t v = 0; v < INT16_VECTORS; v++)
		store(to->least + v * LANES, (vu32)((vf32)(least[v] << F32_SIGNIFICAND_BITS) * unit));
	float *const all = to->scales[0];
	fp4_expand_scales(all, scales, blocks);
	for (size_t i = 0; i < blocks * INT16_NR; i += LANES)
		store(all + i, (vu32)((vf32)load(all + i) * unit));
	for (size_t b = 0; b < blocks; b++, scales += INT16_NR)
#pragma GCC unroll 2
		for (size_t v = 0; v < INT16_VECTORS; v++) {
			const vu32 shift = (to->is_folded ? load_u8(scales + v * LANES) - least[v] : splat(0)) + bits;
			const vu32 factor = (vu32)equal_pairs((vu32)_mm256_sllv_epi32(_mm256_set1_epi32(1), (__m256i)shift));

#pragma GCC unroll 4
			for (size_t i = 0; i < FP4_WORDS; i++)
				expand_word((vu8)load(codes + ((b * FP4_WORDS + i) * INT16_VECTORS + v) * VECTOR_BYTES), factor,
				            &to->plane[b * WORDS_PAIRS + i * (INT16_WORD / 2)][v * LANES]);
		}
}

/* A panel of A and one of W. */
struct words_panels {
	const float *a_scales;
	const uint8_t *counts;
	const uint32_t *a;
	const uint16_t *rests;
	const struct words_expanded *w;
};

/* The sums of the rests of block b, which has some. */
ALWAYS_INLINE void sum_rests(const struct words_panels *t, size_t b, vs32 sum[WORDS_MR][INT16_VECTORS])
{
	const uint16_t *list = t->rests + b * WORDS_RESTS, *end = list + t->counts[b];
	const uint32_t *plane = t->w->plane[b * WORDS_PAIRS];

#pragma GCC unroll 12
	for (size_t i = 0; i < WORDS_MR * INT16_VECTORS; i++)
		sum[i / INT16_VECTORS][i % INT16_VECTORS] = (vs32)splat(0);
	do {
#pragma GCC unroll 4
		for (size_t i = 0; i < WORDS_GROUP; i++) {
			const uint32_t rest = list[i];
			const vs16 a = (vs16)splat((rest & REST_MASK) | (rest >> REST_SECOND_SHIFT & REST_MASK) << 16);
			const uint32_t *w = plane + (rest >> REST_PAIR_SHIFT) % WORDS_PAIRS * INT16_NR;
			vs32 *to = sum[rest >> REST_ROW_SHIFT];

#pragma GCC unroll 2
			for (size_t v = 0; v < INT16_VECTORS; v++)
				to[v] = dot_pairs(to[v], a, (vs16)load(w + v * LANES) >> INT16_LOW_BITS);
		}
		list += WORDS_GROUP;
	} while (list < end);
}

/* The products of a pair of each row and column. first, a constant: they are not added to any others. */
ALWAYS_INLINE void add_pair(const uint32_t *a, const uint32_t *w, bool first, vs32 sum[WORDS_MR][INT16_VECTORS])
{
	const vs16 w0 = (vs16)load(w), w1 = (vs16)load(w + LANES);

#pragma GCC unroll 6
	for (size_t r = 0; r < WORDS_MR; r++) {
		const vs16 x = (vs16)splat(a[r]);

		sum[r][0] = dot_pairs(first ? (vs32)splat(0) : sum[r][0], x, w0);
		sum[r][1] = dot_pairs(first ? (vs32)splat(0) : sum[r][1], x, w1);
		IN_REGISTER(sum[r][0]);
		IN_REGISTER(sum[r][1]);
	}
}

/* How the scales of a panel of A and one of W are multiplied. */
enum words_scales { WORDS_FOLDED, WORDS_ORDINARY, WORDS_GENERAL };

/* One pass over blocks first to end - 1. kind, a constant. */
ALWAYS_INLINE void words_pass(const struct words_panels *t, size_t first, size_t end, enum words_scales kind, float *c)
{
	float p[WORDS_MR * INT16_NR] = {0};

	for (size_t b = first; b < end; b++) {
		const uint32_t *a = t->a + b * WORDS_PAIRS * WORDS_MR, *w = t->w->plane[b * WORDS_PAIRS];
		const float *a_scales = t->a_scales + b * WORDS_MR, *w_scales = t->w->scales[b];
		const bool has_rests = t->counts[b] != 0;
		vs32 sum[WORDS_MR][INT16_VECTORS], rests[WORDS_MR][INT16_VECTORS];
		float *at = p;

		HIDE_ORIGIN(at); /* else p would be kept in two places */
		if (has_rests)
			sum_rests(t, b, rests);
		add_pair(a, w, true, sum);
#pragma GCC unroll 1
		for (size_t i = 1; i < WORDS_PAIRS; i++) {
			a += WORDS_MR;
			w += INT16_NR;
			add_pair(a, w, false, sum);
		}
		if (has_rests)
#pragma GCC unroll 12
			for (size_t i = 0; i < WORDS_MR * INT16_VECTORS; i++)
				sum[i / INT16_VECTORS][i % INT16_VECTORS] += rests[i / INT16_VECTORS][i % INT16_VECTORS];
		const vf32 w_scale[INT16_VECTORS] = {(vf32)load(w_scales), (vf32)load(w_scales + LANES)};
#pragma GCC unroll 6
		for (size_t r = 0; r < WORDS_MR; r++) {
			const vf32 a_scale = splat_f32(a_scales[r]);

#pragma GCC unroll 2
			for (size_t v = 0; v < INT16_VECTORS; v++, at += LANES) {
				const vf32 term = __builtin_convertvector(sum[r][v], vf32);

				if (kind == WORDS_GENERAL) {
					float part[LANES];

					store(part, (vu32)term);
					add_scaled(at, part, a_scales[r], (const uint8_t *)(w_scales + v * LANES));
				} else {
					store(at, (vu32)fma_f32(term, kind == WORDS_FOLDED ? a_scale : w_scale[v] * a_scale, (vf32)load(at)));
				}
			}
		}
	}
	for (size_t i = 0; i < WORDS_MR * INT16_NR; i += LANES) {
		const vf32 factor = kind == WORDS_FOLDED ? (vf32)load(t->w->least + i % INT16_NR) : splat_f32(1);

		store(c + i, (vu32)fma_f32((vf32)load(p + i), factor, (vf32)load(c + i))); /* the product is exact */
	}
}

typedef void words_passes(const struct words_panels *t, size_t first, size_t end, float *c);

/* Defines a pass. */
#define PASS(name, kind) \
	static NOINLINE void name(const struct words_panels *t, size_t first, size_t end, float *c) \
	{ \
		words_pass(t, first, end, kind, c); \
	}
PASS(folded_words, WORDS_FOLDED)
PASS(ordinary_words, WORDS_ORDINARY)
PASS(general_words, WORDS_GENERAL)
#undef PASS

/*
 * Whether sums may be multiplied by scales of W after a pass, where scales are ordinary. A pass of a chunk has 16 blocks, whose
 * sums are below 2^31: neither these times A's scales alone nor their terms, which have at most 22 bits before the point, get
 * near 2^128 then. Nor is any of them subnormal: A's scales are normal, and ordinary products of scales are at least 2^-100.
 */
static bool can_fold(const struct blocks_head *a, const struct blocks_head *w)
{
	const int of_a = exponent_of(a->greatest_scale);

	return of_a <= WORDS_FOLDED_MOST && of_a + exponent_of(w->greatest_scale) <= WORDS_FOLDED_MOST;
}

/* Multiplies a panel of A by the expanded one of W. */
static void multiply_words(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, bool ordinary, const struct words_expanded *w, float *c)
{
	words_passes *const multiply = !ordinary ? general_words : w->is_folded ? folded_words : ordinary_words;
	const size_t blocks = mx_blocks(job->k), pass = job->shape->pass / MXFP_MX_BLOCK;
	const uint8_t *elements = a + blocks_elements(job->shape, job->k, WORDS_MR);
	const struct words_panels t = {
		.a_scales = (const float *)(a + BLOCKS_HEAD_BYTES),
		.counts = a + WORDS_COUNTS,
		.a = (const uint32_t *)elements,
		.rests = (const uint16_t *)(elements + plane_bytes(job->shape, job->k, WORDS_MR)),
		.w = w,
	};

	for (size_t first = 0; first < blocks; first += pass)
		multiply(&t, first, blocks - first < pass ? blocks : first + pass, c);
}

static BYTES_PASS(one_row, BYTES_WIDE, 1, 2, false)
static BYTES_PASS(two_rows, BYTES_WIDE, 2, 2, false)
static BYTES_PASS(four_rows, BYTES_WIDE, 4, 1, false)
static BYTES_PASS(six_rows, BYTES_WIDE, BYTES_MR, 1, false)
static BYTES_PASS(general_rows, BYTES_WIDE, BYTES_MR, 1, true)

/* A panel of A of bytes. */
static void multiply_bytes_of(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, size_t rows, bool ordinary, float *scales, float *c)
{
	const size_t blocks = mx_blocks(job->k), pass = job->shape->pass / MXFP_MX_BLOCK;
	static bytes_pass *const by_rows[BYTES_MR] = {one_row, two_rows, four_rows, four_rows, six_rows, six_rows};
	bytes_pass *multiply = by_rows[rows < BYTES_MR ? rows - 1 : BYTES_MR - 1];
	struct bytes_panels t = bytes_begin(job);

	bytes_take(&t, a, job->k);
	t.w_scales = scales;
	if (!ordinary) {
		fp4_expand_scales(scales, (const uint8_t *)job->w + BLOCKS_HEAD_BYTES, blocks);
		multiply = general_rows;
	}
	for (size_t first = 0; first < blocks; first += pass)
		multiply(&t, first, blocks - first < pass ? blocks : first + pass, c);
}

static NOINLINE void fp4_rows(const struct mxfp_gemm_multiply_job *job)
{
	const size_t a_bytes = fp4_a_bytes(job->shape, job->k), a_elements = blocks_elements(job->shape, job->k, WORDS_MR);
	const size_t panels = (job->rows + WORDS_MR - 1) / WORDS_MR;
	const uint8_t *a = job->a;
	struct fp4_scratch *scratch = job->scratch;
	struct words_expanded *words = &scratch->words;
	struct blocks_head a_head, w_head;
	bool is_expanded = false;
	float *c = job->c;

	memcpy(&w_head, job->w, sizeof w_head);
	for (size_t i = 0; i < panels; i++, a += a_bytes, c += WORDS_MR * INT16_NR) {
		memcpy(&a_head, a, sizeof a_head);
		const bool ordinary = scales_are_ordinary(&a_head, &w_head), fold = ordinary && can_fold(&a_head, &w_head);
		if (a[FOR_BYTES] != 0) {
			multiply_bytes_of(job, a, job->rows - i * WORDS_MR, codes_are_ordinary(&a_head, &w_head), scratch->scales, c);
			continue;
		}
		if (!is_expanded || (words->is_folded && !fold))
			words_expand(words, job, fold);
		is_expanded = true;
		/* Where L2 has 512 KiB, sums and W are not in it any more when their turn comes. */
		fetch((uintptr_t)c, 0, WORDS_MR * INT16_NR * sizeof *c);
		fetch((uintptr_t)a + a_bytes, 0, 2 * LINE_BYTES);
		fetch((uintptr_t)a + a_bytes, a_elements, a_elements + WORDS_AHEAD);
		fetch_next_w(job, i, panels);
		multiply_words(job, a, ordinary, words, c);
	}
}

static PANELS_KERNEL(fp4_multiply, WORDS_MR, INT16_NR, fp4_rows)

const struct mxfp_gemm_kernel TIER(gemm_fp4) = {
	.id = FP4_ID,
	.name = "fp4-" TIER_NAME,
	.mr = WORDS_MR,
	.nr = INT16_NR,
	.a_panel_bytes = fp4_a_bytes,
	.w_panel_bytes = fp4_w_bytes,
	.takes_panels = true,
	.scratch_bytes = sizeof(struct fp4_scratch),
	.pack_a = fp4_pack_a,
	.pack_w = fp4_pack_w,
	.multiply = fp4_multiply,
};
