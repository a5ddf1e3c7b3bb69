/* SPDX-License-Identifier: MIT */
/*
 * mxfp_fake_quantize() in every tier, with every format, option, shape, place and number of threads: numbers, counts and the
 * first NaN or Inf are those of mxfp_quantize() and mxfp_dequantize() by ref. So are those of mxfp_quantize() where it gives them
 * beside the blocks. What is clamped is computed here from the
 * scales of these blocks: in MX formats as binary64, which is exact, in NVFP4 by the operations of doc/numerics.md,
 * section 4, in the machine's binary32. One case a format: CK_RUN_CASE=fake_quantize_mxfp4.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "equal/equal_slots.h"
#include "equal/guarded.h"
#include "equal/patterns.h"
#include "minifloat.h"
#include "mxfp/quantize.h"
#include "ref.h"
#include "suite.h"

static struct equal equal;

static const enum mxfp_format numbers[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};

/* A call, and what it must give. */
struct trial {
	enum mxfp_format format, src_format, dst_format;
	size_t rows, cols, src_stride, dst_stride, clamped_stride;
	bool in_place, wants_data, wants_clamped, wants_first;
	struct mxfp_quantize_options o;
	float amax; /* o.tensor_amax, or what was found */
	size_t src_bytes, dst_bytes, clamped_bytes;
	uint8_t *src, *dst, *clamped; /* src: before the call; the others after it, gaps included */
	struct mxfp_blocks blocks;
	size_t codes_bytes, scales_bytes;
	struct mxfp_counts counts;
	uint64_t first;
	enum mxfp_status status;
};

static const char *case_name(int i)
{
	static char name[MXFP_N_FORMATS][64];

	if (i >= MXFP_N_FORMATS)
		return NULL;
	snprintf(name[i], sizeof name[i], "fake_quantize_%s", mxfp_format_get_info((enum mxfp_format)i)->name);
	return name[i];
}

/* Fills memory with groups of numbers of any pattern; NaN and Inf are left out if they would be refused. */
static void fill(const struct trial *t, void *to, size_t n, bool finite)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(t->format), *from = mxfp_format_get_info(t->src_format);
	const size_t lanes = format->block_length;
	uint32_t group[32];

	for (size_t done = 0, part; done < n; done += part) {
		struct pattern_group g = pattern_any(&equal.random, mxfp_format_get_info(format->element), lanes);

		if (g.pattern == PATTERN_BITS || (finite && (g.pattern == PATTERN_NAN || g.pattern == PATTERN_INF)))
			g.pattern = PATTERN_NORMAL;
		part = n - done < lanes ? n - done : lanes;
		pattern_fill(&equal.random, &g, group, part);
		pattern_store(&equal.random, g.pattern, from, (uint8_t *)to + done * from->storage_bytes, group, part);
	}
}

static void any_options(struct trial *t)
{
	struct random *r = &equal.random;
	const bool tensor_scale = mxfp_format_get_info(t->format)->tensor_scale;
	const struct mxfp_rounding rounding = equal_any_rounding(r);

	t->o = (struct mxfp_quantize_options){
		.size = sizeof t->o,
		.rule = (enum mxfp_rule)random_below(r, (uint32_t)equal_n_values(MXFP_OPTION_RULE)),
		.recipe = (enum mxfp_recipe)random_below(r, (uint32_t)equal_n_values(MXFP_OPTION_RECIPE)),
		.round = rounding.mode,
		.non_finite = (enum mxfp_non_finite)random_below(r, 3),
		.no_negative_zero = rounding.no_negative_zero,
		.via_bf16 = !tensor_scale && random_below(r, 4) == 0,
		.seed = rounding.seed,
		.stream = rounding.stream,
		.first_index = equal_any_index(r, t->rows * t->cols),
		.block_rows = !tensor_scale && random_below(r, 3) == 0 ? 32 : 0,
	};
	if (tensor_scale && t->o.recipe == MXFP_RECIPE_GGML)
		t->o.round = MXFP_ROUND_RNE;
	t->amax = mxfp_f32_from_bits(random_f32_between(r, -126, 127) & ~MXFP_F32_SIGN);
	if (random_below(r, 2) == 0)
		t->o.tensor_amax = mxfp_some(t->amax);
}

/* Number i of memory in one of the three formats, which is exact in binary32. */
static float number(enum mxfp_format format, const uint8_t *at, size_t i)
{
	return mxfp_f32_from_bits(mxfp_ref_load(mxfp_format_get_info(format), at, i));
}

/* The largest finite magnitude of the source. */
static float largest(const struct trial *t)
{
	float amax = 0;

	for (size_t row = 0; row < t->rows; row++)
		for (size_t col = 0; col < t->cols; col++) {
			const float x = fabsf(number(t->src_format, t->src, row * t->src_stride + col));

			if (isfinite(x) && x > amax)
				amax = x;
		}
	return amax;
}

/* x as the quantizer sees it: through bf16, to nearest even, if it asked for that, and Inf replaced. */
static float seen(const struct trial *t, float x)
{
	uint32_t bits = mxfp_f32_bits(x);

	if (t->o.via_bf16) {
		const uint32_t kept = bits & 0xFFFF0000, rest = bits & 0xFFFF;

		bits = kept;
		if (rest > 0x8000 || (rest == 0x8000 && (kept & 0x10000) != 0))
			bits += 0x10000;
	}
	x = mxfp_f32_from_bits(bits);
	return isinf(x) ? copysignf(FLT_MAX, x) : x;
}

/* Numbers that cannot be kept in wider registers, so that each operation rounds to binary32. */
typedef volatile float f32;

static float tensor_factor(float full_range, float amax)
{
	f32 s = full_range / amax;

	if (s > FLT_MAX)
		s = FLT_MAX;
	return amax == 0 || s == 0 ? 1 : s;
}

static bool nvfp4_clamps(const struct trial *t, const struct mxfp_blocks *b, float sf, float x)
{
	const f32 g = b->tensor_scale;
	f32 a, q;

	switch (t->o.recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		a = 1 / tensor_factor(t->o.recipe == MXFP_RECIPE_TE ? 2688 : 1536, t->amax);
		a = sf * a;
		a = 1 / a;
		q = x * (a > FLT_MAX ? FLT_MAX : a);
		break;
	case MXFP_RECIPE_TORCHAO:
		a = 1 / g;
		a = a / sf;
		q = x * a;
		break;
	case MXFP_RECIPE_TORCHAO_1:
		a = 1 / sf;
		q = x * a;
		break;
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		a = sf / g;
		q = x / a;
		break;
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
	case MXFP_RECIPE_MODELOPT_4OVER6:
		a = sf * g;
		q = x / a;
		break;
	default: /* ggml: |x| > 6 sf */
		return (double)fabsf(x) > 6 * (double)sf;
	}
	return fabsf(q) > 6;
}

static void mark(const struct trial *t, const struct mxfp_blocks *b)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(t->format);
	const struct mxfp_format_info *element = mxfp_format_get_info(info->element);
	const double max = (double)mxfp_f32_from_bits(mxfp_minifloat_decode(element, element->max_code));

	for (size_t row = 0; row < t->rows; row++)
		for (size_t col = 0; col < t->cols; col++) {
			const uint8_t scale = ((const uint8_t *)b->scales)[row * b->scales_stride + col / info->block_length];
			const float x = seen(t, number(t->src_format, t->src, row * t->src_stride + col));
			uint8_t *to = t->clamped + row * t->clamped_stride + col;

			if (scale == (info->tensor_scale ? 0x7F : 0xFF))
				*to = 0;
			else if (info->tensor_scale)
				*to = nvfp4_clamps(t, b, mxfp_f32_from_bits(mxfp_minifloat_decode(mxfp_format_get_info(info->scale), scale)), x);
			else
				*to = (double)fabsf(x) > ldexp(max, scale - 127);
		}
}

static uint8_t *memory(size_t bytes)
{
	uint8_t *m = calloc(bytes + 1, 1);

	ck_assert(m != NULL);
	return m;
}

static void new_blocks(struct trial *t)
{
	struct mxfp_sizes size;

	assert_status(mxfp_blocks_size(&size, t->format, t->rows, t->cols), MXFP_OK);
	t->codes_bytes = size.codes_bytes;
	t->scales_bytes = size.scales_bytes;
	t->blocks = mxfp_blocks_at(t->format, t->rows, t->cols, memory(size.codes_bytes), memory(size.scales_bytes));
	t->blocks.scales_stride = size.scales_row_bytes;
}

static void free_blocks(struct trial *t)
{
	free(t->blocks.codes);
	free(t->blocks.scales);
}

static struct mxfp_matrix source(const struct trial *t, const void *data)
{
	struct mxfp_matrix src = mxfp_numbers(t->src_format, t->rows, t->cols, data);

	src.stride = t->src_stride;
	return src;
}

static const struct mxfp_exec by_ref = {.size = sizeof by_ref, .threads = 1, .isa = "ref"};

/* Puts numbers into a block of finite binary32 that lie at the largest one it can hold, or at the tie above it in bf16, and
   are below the block's largest, so that most rules choose the same scale again. */
static void put_near(uint8_t *at, size_t n, uint32_t limit, bool via_bf16)
{
	uint32_t x[32], amax = 0;

	memcpy(x, at, n * sizeof x[0]);
	for (size_t i = 0; i < n; i++)
		amax = (x[i] & ~MXFP_F32_SIGN) > amax ? x[i] & ~MXFP_F32_SIGN : amax;
	for (size_t i = 0; i < n && amax < MXFP_F32_INF; i++) {
		const uint32_t tie = via_bf16 && random_below(&equal.random, 2) == 0 ? 0x8000 : 0;
		const uint32_t near = limit + tie + random_below(&equal.random, 5) - 2;

		if ((x[i] & ~MXFP_F32_SIGN) != amax && near < amax && random_below(&equal.random, 2) == 0)
			x[i] = near | (x[i] & MXFP_F32_SIGN);
	}
	memcpy(at, x, n * sizeof x[0]);
}

static void near_limits(struct trial *t)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(t->format);
	const struct mxfp_format_info *element = mxfp_format_get_info(info->element);
	const double max = (double)mxfp_f32_from_bits(mxfp_minifloat_decode(element, element->max_code));
	struct mxfp_quantize_options o = t->o;
	const struct mxfp_blocks *b = &t->blocks;
	const struct mxfp_matrix src = source(t, t->src);
	const struct mxfp_result result = mxfp_to_blocks(&t->blocks);

	new_blocks(t);
	o.non_finite = MXFP_NON_FINITE_PROPAGATE;
	assert_status(mxfp_quantize(&result, &src, &o, &by_ref), MXFP_OK);
	for (size_t row = 0; row < t->rows; row++)
		for (size_t col = 0; col < t->cols; col += info->block_length) {
			const uint8_t scale = ((const uint8_t *)b->scales)[row * b->scales_stride + col / info->block_length];
			const size_t left = t->cols - col;
			double limit = ldexp(max, scale - 127);

			if (info->tensor_scale) {
				limit = 6 * (double)mxfp_f32_from_bits(mxfp_minifloat_decode(mxfp_format_get_info(info->scale), scale));
				limit = b->tensor_scale_divides ? limit / (double)b->tensor_scale : limit * (double)b->tensor_scale;
			}
			put_near(t->src + 4 * (row * t->src_stride + col), left < info->block_length ? left : info->block_length,
			         mxfp_f32_bits((float)limit), t->o.via_bf16);
		}
	free_blocks(t);
}

/* The two calls by ref. */
static void expect(struct trial *t)
{
	const struct mxfp_matrix src = source(t, t->src);
	struct mxfp_result blocks = mxfp_to_blocks(&t->blocks), decoded = mxfp_to_numbers(t->dst_format, t->dst);

	new_blocks(t);
	if (mxfp_format_get_info(t->format)->tensor_scale && !t->o.tensor_amax.given)
		t->amax = largest(t);
	t->counts.size = sizeof t->counts;
	blocks.counts = &t->counts;
	blocks.first_non_finite = t->wants_first ? &t->first : NULL;
	decoded.stride = t->dst_stride;
	t->status = mxfp_quantize(&blocks, &src, &t->o, &by_ref);
	if (t->status == MXFP_OK) {
		const struct mxfp_matrix m = mxfp_blocks_matrix(&t->blocks);

		if (t->wants_data)
			assert_status(mxfp_dequantize(&decoded, &m, &by_ref), MXFP_OK);
		if (t->wants_clamped)
			mark(t, &t->blocks);
	}
}

static struct guarded place(const uint8_t *memory, size_t n)
{
	struct guarded g = guarded_of(n, random_below(&equal.random, 64), random_below(&equal.random, 2) == 0);

	if (n != 0)
		memcpy(g.at, memory, n);
	return g;
}

static struct guarded zeros(size_t n)
{
	struct guarded g = guarded_of(n, random_below(&equal.random, 64), random_below(&equal.random, 2) == 0);

	if (n != 0)
		memset(g.at, 0, n);
	return g;
}

static bool same(const struct guarded *g, const uint8_t *want, size_t n)
{
	return guarded_is_intact(g) && (n == 0 || memcmp(g->at, want, n) == 0);
}

static void check_tier(const struct trial *t, const uint8_t *dst_before, const uint8_t *clamped_before, const char *isa,
                       unsigned threads)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads, .isa = isa};
	struct guarded src = place(t->src, t->src_bytes), dst = place(dst_before, t->dst_bytes);
	struct guarded clamped = place(clamped_before, t->clamped_bytes);
	struct guarded codes = zeros(t->codes_bytes), scales = zeros(t->scales_bytes);
	struct mxfp_blocks blocks = mxfp_blocks_at(t->format, t->rows, t->cols, codes.at, scales.at);
	const bool beside_blocks = random_below(&equal.random, 3) == 0;
	struct mxfp_counts counts = {.size = sizeof counts};
	uint64_t first = 0;
	const struct guarded *to = t->in_place ? &src : &dst;
	const struct mxfp_matrix given = source(t, src.at);
	const struct mxfp_result result = {
		.size = sizeof result,
		.format = t->dst_format,
		.data = t->wants_data ? to->at : NULL,
		.stride = t->dst_stride,
		.blocks = beside_blocks ? &blocks : NULL,
		.clamped = t->wants_clamped ? clamped.at : NULL,
		.clamped_stride = t->clamped_stride,
		.counts = &counts,
		.first_non_finite = t->wants_first ? &first : NULL,
	};

	assert_status(beside_blocks ? mxfp_quantize(&result, &given, &t->o, &exec)
	                            : mxfp_fake_quantize(&result, t->format, &given, &t->o, &exec), t->status);
	ck_assert_msg(!beside_blocks || (same(&codes, t->blocks.codes, t->codes_bytes) &&
	                                 same(&scales, t->blocks.scales, t->scales_bytes) &&
	                                 memcmp(&blocks.tensor_scale, &t->blocks.tensor_scale, sizeof(float)) == 0 &&
	                                 blocks.tensor_scale_divides == t->blocks.tensor_scale_divides),
	              "blocks of %s, %zu x %zu, by %s differ, MXFP_TEST_SEED=%" PRIu64, mxfp_format_get_info(t->format)->name,
	              t->rows, t->cols, isa, suite_seed());
	const bool equal_numbers = same(to, t->dst, t->dst_bytes) && (t->in_place || same(&src, t->src, t->src_bytes));
	ck_assert_msg(equal_numbers && same(&clamped, t->clamped, t->clamped_bytes) &&
	                      memcmp(&counts, &t->counts, sizeof counts) == 0 && first == t->first,
	              "%s of %s, %zu x %zu, rule %d, recipe %d, round %d, policy %d%s%s%s, by %s: %s differ, MXFP_TEST_SEED=%" PRIu64,
	              mxfp_format_get_info(t->format)->name, mxfp_format_get_info(t->src_format)->name, t->rows, t->cols,
	              (int)t->o.rule, (int)t->o.recipe, (int)t->o.round, (int)t->o.non_finite,
	              t->o.via_bf16 ? ", via bf16" : "", t->in_place ? ", in place" : "",
	              beside_blocks ? ", beside blocks" : "", isa,
	              !equal_numbers ? "numbers" : same(&clamped, t->clamped, t->clamped_bytes) ? "counts" : "clamped elements",
	              suite_seed());
	guarded_free(&src);
	guarded_free(&dst);
	guarded_free(&clamped);
	guarded_free(&codes);
	guarded_free(&scales);
}

static void fake_once(enum mxfp_format format, size_t rows, size_t cols, bool threads)
{
	static const unsigned counts[] = {1, 2, 3, 7};
	struct random *r = &equal.random;
	struct trial t = {
		.format = format, .rows = rows, .cols = cols, .src_format = numbers[random_below(r, 3)],
		.in_place = random_below(r, 2) == 0, .wants_first = random_below(r, 2) == 0,
		.src_stride = cols + equal_gap(r), .clamped_stride = cols + equal_gap(r),
	};

	t.dst_format = t.in_place ? t.src_format : numbers[random_below(r, 3)];
	t.dst_stride = t.in_place ? t.src_stride : cols + equal_gap(r);
	t.wants_data = random_below(r, 8) != 0;
	t.wants_clamped = !t.wants_data || random_below(r, 4) != 0;
	const size_t src_width = mxfp_format_get_info(t.src_format)->storage_bytes;
	const size_t dst_width = mxfp_format_get_info(t.dst_format)->storage_bytes;
	t.src_bytes = equal_span(rows, cols * src_width, t.src_stride * src_width);
	t.dst_bytes = equal_span(rows, cols * dst_width, t.dst_stride * dst_width);
	t.clamped_bytes = equal_span(rows, cols, t.clamped_stride);
	any_options(&t);
	t.src = memory(t.src_bytes);
	fill(&t, t.src, t.src_bytes / src_width, t.o.non_finite == MXFP_NON_FINITE_ERROR && random_below(r, 4) != 0);
	if (t.src_format == MXFP_FORMAT_F32 && random_below(r, 4) != 0)
		near_limits(&t);
	t.dst = memory(t.dst_bytes);
	t.clamped = memory(t.clamped_bytes);
	memset(t.clamped, 0xAA, t.clamped_bytes);
	uint8_t *dst_before = memory(t.dst_bytes), *clamped_before = memory(t.clamped_bytes);
	if (t.in_place)
		memcpy(t.dst, t.src, t.src_bytes);
	memcpy(dst_before, t.dst, t.dst_bytes);
	memcpy(clamped_before, t.clamped, t.clamped_bytes);
	expect(&t);
	for (size_t tier = 0; tier <= equal.n_tiers; tier++)
		for (size_t n = 0; n < (threads ? sizeof counts / sizeof counts[0] : 1); n++)
			check_tier(&t, dst_before, clamped_before, tier == 0 ? "ref" : equal.tier[tier - 1].name, counts[n]);
	free_blocks(&t);
	free(t.src);
	free(t.dst);
	free(t.clamped);
	free(dst_before);
	free(clamped_before);
	suite_compared(2 * rows * cols * (equal.n_tiers + 1));
}

TEST_LOOP(fake_quantization, MXFP_N_FORMATS)
{
	const enum mxfp_format format = (enum mxfp_format)_i;
	struct random *r = &equal.random;

	if (mxfp_format_get_info(format)->kind != MXFP_KIND_BLOCK)
		return;
	for (unsigned round = 0; round < equal.rounds; round++) {
		for (size_t cols = 0; cols < 140; cols += 1 + random_below(r, 3))
			fake_once(format, random_below(r, 4), cols, false);
		for (int i = 0; i < 100; i++)
			fake_once(format, 1 + random_below(r, 5), 1 + random_below(r, 700), false);
		/* Strips of several rows, of one, and of parts of one; pieces of rows, and parts of a row. */
		fake_once(format, 2, 1000 + random_below(r, 20000), true);
		fake_once(format, 1, 70001, true);
		fake_once(format, 2, 65536 + 16, true);
		fake_once(format, 2000, 33, true);
		fake_once(format, 700, 128, true);
	}
}

/* A result that is stored past the caches, in pieces that several threads finish. */
TEST(large)
{
	enum { ROWS = 1030, COLS = 8192 + 40 };
	float *x = malloc((size_t)ROWS * COLS * sizeof *x), *y = malloc((size_t)ROWS * (COLS + 3) * sizeof *y);
	float *want = malloc((size_t)ROWS * (COLS + 3) * sizeof *want);
	const struct mxfp_quantize_options o = {.size = sizeof o, .rule = MXFP_RULE_RCEIL};
	struct mxfp_sizes size;

	ck_assert(x != NULL && y != NULL && want != NULL);
	memset(y, 0, (size_t)ROWS * (COLS + 3) * sizeof *y);
	memset(want, 0, (size_t)ROWS * (COLS + 3) * sizeof *want);
	for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
		x[i] = mxfp_f32_from_bits(random_f32_between(&equal.random, -8, 8));
	ck_assert_int_eq(mxfp_blocks_size(&size, MXFP_FORMAT_MXFP4, ROWS, COLS), MXFP_OK);
	struct mxfp_blocks b =
		mxfp_blocks_at(MXFP_FORMAT_MXFP4, ROWS, COLS, malloc(size.codes_bytes), malloc(size.scales_bytes));
	const struct mxfp_exec two = {.size = sizeof two, .threads = 2};
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, x);
	const struct mxfp_result blocks = mxfp_to_blocks(&b);
	struct mxfp_result faked = mxfp_to_numbers(MXFP_FORMAT_F32, y), decoded = mxfp_to_numbers(MXFP_FORMAT_F32, want);
	ck_assert(b.codes != NULL && b.scales != NULL);
	faked.stride = decoded.stride = COLS + 3;
	assert_status(mxfp_quantize(&blocks, &src, &o, &two), MXFP_OK);
	const struct mxfp_matrix m = mxfp_blocks_matrix(&b);
	assert_status(mxfp_dequantize(&decoded, &m, NULL), MXFP_OK);
	assert_status(mxfp_fake_quantize(&faked, b.format, &src, &o, &two), MXFP_OK);
	ck_assert_mem_eq(y, want, (size_t)ROWS * (COLS + 3) * sizeof *y);
	free(x);
	free(y);
	free(want);
	free(b.codes);
	free(b.scales);
	suite_compared((size_t)ROWS * COLS);
}

int main(void)
{
	return equal_main(&equal, case_name);
}
