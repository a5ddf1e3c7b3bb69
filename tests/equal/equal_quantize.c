/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "equal/equal_slots.h"
#include "f32.h"
#include "minifloat.h"
#include "mxfp/philox.h"
#include "equal/patterns.h"
#include "ref.h"

enum {
	MAX_BLOCK = 32,
	SOURCE = 1 << 17, /* numbers, gaps included */
	LONG_COLS = 20000 /* of each row, so that a narrow counter overflows */
};

struct trial {
	struct equal_case c; /* first: it stands for the trial in equal_shapes() */
	struct mxfp_quantize_job job;
};

static uint32_t source[SOURCE];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	const struct mxfp_quantize_job *job = c->job;

	return (equal_kernel *)(job->squares ? table->quantize_squares : table->quantize)[job->format];
}

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_quantize_job j = *(const struct mxfp_quantize_job *)job;

	j.codes = array[0];
	j.scales = array[1];
	j.src = array[2];
	j.counts = &outcome->counts;
	((mxfp_quantize_kernel *)k)(&j);
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_quantize_job *j = c->job;

	snprintf(text, size,
	         "quantize to %s (output 0: codes, 1: scales) from %s, %zu x %zu, strides %zu %zu %zu, "
	         "first index %" PRIu64 ", %s, rule %s, recipe %s, amax %08" PRIX32 "%s%s%s%s, seed %" PRIu64
	         ", stream %" PRIu64,
	         mxfp_format_get_info(j->format)->name, mxfp_format_get_info(j->src_format)->name, j->rows, j->cols,
	         j->codes_stride, j->scales_stride, j->src_stride, j->first_index,
	         mxfp_option_name(MXFP_OPTION_ROUND, (int)j->rounding.mode),
	         mxfp_option_name(MXFP_OPTION_RULE, (int)j->rule),
	         mxfp_option_name(MXFP_OPTION_RECIPE, (int)j->recipe), j->tensor_amax,
	         j->rounding.no_negative_zero ? ", no -0" : "", j->saturate_inf ? ", saturate Inf" : "",
	         j->via_bf16 ? ", via bf16" : "", j->squares ? ", squares" : "", j->rounding.seed, j->rounding.stream);
}

static uint32_t any_amax(struct random *r)
{
	static const uint32_t special[] = {0, 1, 0x007FFFFF, 0x00800000, 0x3F800000, 0x45280000, 0x7F7FFFFF, 0x00000540};

	switch (random_below(r, 3)) {
	case 0:
		return special[random_below(r, sizeof special / sizeof special[0])];
	case 1:
		return random_f32_between(r, -126, 127) & ~MXFP_F32_SIGN;
	default:
		return random_f32_between(r, -8, 8) & ~MXFP_F32_SIGN;
	}
}

static void any_options(struct random *r, struct mxfp_quantize_job *j)
{
	bool tensor_scale = mxfp_format_get_info(j->format)->tensor_scale;

	j->rounding = equal_any_rounding(r);
	j->rounding.overflow = MXFP_OVERFLOW_SAT;
	j->rule = (enum mxfp_rule)random_below(r, (uint32_t)equal_n_values(MXFP_OPTION_RULE));
	j->recipe = (enum mxfp_recipe)random_below(r, (uint32_t)equal_n_values(MXFP_OPTION_RECIPE));
	j->saturate_inf = random_below(r, 2) == 0;
	j->via_bf16 = !tensor_scale && random_below(r, 4) == 0;
	j->tensor_amax = tensor_scale ? any_amax(r) : 0;
	if (tensor_scale && j->recipe == MXFP_RECIPE_GGML)
		j->rounding.mode = MXFP_ROUND_RNE;
}

/* A trial of rows x cols numbers with random options, strides and places; the source is still to be filled. */
static void prepare(struct equal *e, struct trial *t, size_t rows, size_t cols)
{
	struct random *r = &e->random;
	struct mxfp_quantize_job *j = &t->job;
	size_t width = mxfp_format_get_info(j->src_format)->storage_bytes;
	struct mxfp_sizes size;

	mxfp_blocks_size(&size, j->format, rows, cols);
	any_options(r, j);
	j->rows = rows;
	j->cols = cols;
	j->index_stride = cols + equal_gap(r);
	j->src_stride = cols + equal_gap(r);
	j->codes_stride = size.codes_row_bytes + equal_gap(r);
	j->scales_stride = size.scales_row_bytes + equal_gap(r);
	j->first_index = equal_any_index(r, rows * j->index_stride);
	assert(rows * j->src_stride <= SOURCE);
	t->c.n_elements = rows * cols;
	t->c.start.counts = equal_any_counts(r);
	t->c.array[0] = (struct equal_array){equal_span(rows, size.codes_row_bytes, j->codes_stride), equal_place(r), NULL};
	t->c.array[1] = (struct equal_array){equal_span(rows, size.scales_row_bytes, j->scales_stride), equal_place(r), NULL};
	t->c.array[2] = (struct equal_array){equal_span(rows, cols, j->src_stride) * width, equal_place(r), source};
}

/* Fills the source, gaps too, which hold what would show if it were read: groups of pattern `p`, or of any if it is
   N_PATTERNS. */
static void fill(struct equal *e, const struct trial *t, enum pattern p, size_t at)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(t->job.src_format);
	const struct mxfp_format_info *format = mxfp_format_get_info(t->job.format);
	size_t lanes = format->block_length;
	uint32_t numbers[MAX_BLOCK];

	for (size_t row = 0; row < t->job.rows; row++)
		for (size_t done = 0, part; done < t->job.src_stride; done += part) {
			size_t end = done < t->job.cols ? t->job.cols : t->job.src_stride;
			struct pattern_group g = pattern_any(&e->random, mxfp_format_get_info(format->element), lanes);

			if (done >= t->job.cols)
				g.pattern = PATTERN_MAX;
			else if (p != N_PATTERNS)
				g.pattern = p;
			g.at = at < lanes ? at : g.at;
			part = end - done < lanes ? end - done : lanes;
			pattern_fill(&e->random, &g, numbers, part);
			pattern_store(&e->random, g.pattern, from,
			              (uint8_t *)source + (row * t->job.src_stride + done) * from->storage_bytes, numbers, part);
		}
}

static void make(struct equal *e, struct equal_case *c, size_t rows, size_t cols)
{
	prepare(e, (struct trial *)c, rows, cols);
	fill(e, (struct trial *)c, N_PATTERNS, MAX_BLOCK);
}

/* Each pattern with its number in each lane. */
static bool patterns(struct equal *e, struct trial *t)
{
	for (int pattern = 0; pattern < N_PATTERNS; pattern++)
		for (size_t at = 0; at < mxfp_format_get_info(t->job.format)->block_length; at += t->job.squares ? 11 : 1) {
			prepare(e, t, t->job.squares ? 35 : 4, 64 + random_below(&e->random, 64));
			fill(e, t, (enum pattern)pattern, at);
			if (!equal_run(e, &t->c))
				return false;
		}
	return true;
}

/* Sets option combination i; false past the last. Formats with a tensor scale have recipes in the place of rules. */
static bool nth_options(struct mxfp_quantize_job *j, int i)
{
	bool tensor_scale = mxfp_format_get_info(j->format)->tensor_scale;
	int n_modes = equal_n_values(MXFP_OPTION_ROUND);

	j->rounding.no_negative_zero = i % 2 != 0;
	j->saturate_inf = i / 2 % 2 != 0;
	j->via_bf16 = !tensor_scale && i / 4 % 2 != 0;
	j->rounding.mode = (enum mxfp_round)(i / 8 % n_modes);
	i = i / 8 / n_modes;
	if (!tensor_scale) {
		j->rule = (enum mxfp_rule)i;
		return mxfp_option_name(MXFP_OPTION_RULE, i) != NULL;
	}
	j->recipe = (enum mxfp_recipe)i;
	if (j->recipe == MXFP_RECIPE_GGML)
		j->rounding.mode = MXFP_ROUND_RNE;
	return mxfp_option_name(MXFP_OPTION_RECIPE, i) != NULL;
}

/* Every combination of options on blocks of all patterns; every eighth in every floating-point state. */
static bool options(struct equal *e, struct trial *t)
{
	for (int i = 0;; i++) {
		prepare(e, t, t->job.squares ? 33 : 3, 120 + random_below(&e->random, 40));
		if (!nth_options(&t->job, i))
			return true;
		fill(e, t, N_PATTERNS, MAX_BLOCK);
		if (!(i % 8 == 0 ? equal_run_in_every_state : equal_run)(e, &t->c))
			return false;
	}
}

/* Every number of a 16-bit source, neighbors in a block and not, under every rule or recipe. */
static bool all_numbers(struct equal *e, struct trial *t)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(t->job.src_format);
	enum mxfp_option option = mxfp_format_get_info(t->job.format)->tensor_scale ? MXFP_OPTION_RECIPE : MXFP_OPTION_RULE;

	for (int i = 0; from->bits == 16 && i < 2 * equal_n_values(option); i++) {
		prepare(e, t, 256, 256);
		t->job.recipe = (enum mxfp_recipe)(i / 2);
		t->job.rule = (enum mxfp_rule)(i / 2);
		t->job.rounding.mode = MXFP_ROUND_RNE;
		for (uint32_t x = 0; x < 1 << 16; x++) {
			uint32_t code = i % 2 == 0 ? x : (x * UINT32_C(40503)) & UINT32_C(0xFFFF);
			mxfp_ref_store(from, source, x / 256 * t->job.src_stride + x % 256, code);
		}
		if (!equal_run(e, &t->c))
			return false;
	}
	return true;
}

/* Numbers that stochastic rounding rounds up if their random words are one less, in blocks whose largest number makes the
   scale 1, and with it every quotient exact, or for MX another power of two. */
static bool beside_words(struct equal *e, struct trial *t)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(t->job.format), *element = mxfp_format_get_info(format->element);
	const struct mxfp_rounding *r = &t->job.rounding;

	for (int i = 0; i < 2 * equal_n_values(MXFP_OPTION_RULE); i++) {
		const int power = format->tensor_scale ? 0 : (int)random_below(&e->random, 100) - 50;
		const uint32_t largest = format->tensor_scale ? mxfp_minifloat_decode(element, element->max_code)
		                                              : (uint32_t)(element->emax + 127) << 23;

		prepare(e, t, 1, LONG_COLS);
		t->job.rounding.mode = MXFP_ROUND_SR;
		t->job.rounding.no_negative_zero = t->job.via_bf16 = false;
		t->job.rule = (enum mxfp_rule)(i / 2);
		t->job.recipe = MXFP_RECIPE_TORCHAO_1;
		for (size_t k = 0; k < LONG_COLS; k++) {
			uint32_t x = largest;

			if (k % format->block_length != 0)
				x = equal_beside_word(&e->random, element, mxfp_philox_word(r->seed, r->stream, t->job.first_index + k));
			source[k] = mxfp_f32_scale((x & ~MXFP_F32_SIGN) > largest ? largest : x, power);
		}
		if (!equal_run(e, &t->c))
			return false;
	}
	return true;
}

/* Rows in which one count grows as fast as it can. */
static bool long_rows(struct equal *e, struct trial *t)
{
	static const enum pattern all_alike[] = {
		PATTERN_OUTLIER, PATTERN_MAX, PATTERN_NAN, PATTERN_SUBNORMAL, PATTERN_ZERO,
	};

	for (size_t i = 0; i < sizeof all_alike / sizeof all_alike[0]; i++) {
		prepare(e, t, 2, LONG_COLS);
		fill(e, t, all_alike[i], MAX_BLOCK);
		if (!equal_run(e, &t->c))
			return false;
	}
	make(e, &t->c, 300, 33);
	if (!equal_run(e, &t->c))
		return false;
	make(e, &t->c, 33, 2100); /* more squares side by side than are made at once */
	return equal_run(e, &t->c);
}

bool equal_quantize(struct equal *e, enum mxfp_format format, enum mxfp_format src_format, bool squares)
{
	struct trial t = {
		.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job},
		.job = {.format = format, .src_format = src_format, .squares = squares},
	};

	if (!equal_is_wanted(e, &t.c))
		return true;
	for (unsigned round = 0; round < e->rounds; round++)
		if (!equal_shapes(e, &t.c, make, 32) || !patterns(e, &t) || !options(e, &t))
			return false;
	if (src_format == MXFP_FORMAT_F32 && !squares && !beside_words(e, &t))
		return false;
	return all_numbers(e, &t) && long_rows(e, &t);
}
