/* SPDX-License-Identifier: MIT */
/*
 * Every error of every function, by errors.def: each call succeeds with the arguments that it begins with and writes what the
 * comparison sees; after what a row does to them it returns the row's status, and not a byte has changed of all memory that
 * arguments point to, but for the places where a function says what was wrong. What spoils one call is then tried on all others,
 * which return what their own rows have, or succeed.
 */
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "mxfp.h"
#include "mxfp/engine.h"
#include "suite.h"

enum {
	ROWS = 2, COLS = 64, HEADS = 2, CAPACITY = 32, N_PRODUCTS = 2, PASSES = 4, MOST_CORES = 64,
	ROOM = 1024, /* numbers of an array, more than are used */
	CACHE_BYTES = 2 * CAPACITY * COLS * sizeof(float), /* keys and values: 32 tokens of 32 columns are whole panels */
	MASK_BYTES = COLS / 8,  /* of a row in 2:4 */
	HEADER_BYTES = 128, KERNEL_ID = 16, W_FORMAT = 24, W_SPARSITY = 32, /* of packed weights; where their header has what */
	CANARY = 0xA5
};

/* Parts of a result, and what else differs from call to call. */
enum { NUMBERS = 1, BLOCKS = 2, CLAMPED = 4, COUNTS = 8, FIRST = 16, BIAS = 32, FAILED = 64 };

static const int none = 99;
static const struct mxfp_sparsity dense = {0, 0}, two_of_four = {2, 4}, four_of_sixteen = {4, 16}, three_of_seven = {3, 7};

/* What calls take, and the memory behind it: what a call may read and write at all. */
struct arguments {
	/* Pointers that are passed; a statement of errors.def may change them or what they point to. */
	struct mxfp_exec *exec;
	struct mxfp_result *result, *sums, *bystander;
	struct mxfp_blocks *blocks, *flipped;
	struct mxfp_matrix *src, *other, *coded, *w, *mask, *weight, *bias_row, *gate, *residual;
	struct mxfp_convert_options *convert;
	struct mxfp_quantize_options *quantize, *a_quantize;
	struct mxfp_accumulate_options *accumulate;
	struct mxfp_attention_options *attention;
	struct mxfp_function_options *function;
	struct mxfp_softmax_options *softmax;
	struct mxfp_norm_options *norm;
	struct mxfp_add_options *add;
	struct mxfp_glu_options *glu;
	struct mxfp_rotary_options *rotary;
	struct mxfp_frequency_options *frequency;
	struct mxfp_gemm_options *gemm;
	struct mxfp_product *products, *product; /* both; the second */
	struct mxfp_sparse *sparse;
	struct mxfp_attention_cache *cache;
	struct mxfp_engine *engine;
	struct mxfp_sizes *sizes;
	struct mxfp_sparse_sizes *sparse_sizes;
	enum mxfp_format *format;
	int *value;
	const char *format_name, *option_name;
	size_t *bytes, *indices;
	float *amax, *reduced, *frequencies, *factor;
	uint8_t *dense, *marks, *packed;
	void *sum, *workspace;
	const void **terms;

	/* Values that are passed. */
	enum mxfp_format of_format, block_format, sum_format, term_format;
	enum mxfp_option option;
	enum mxfp_function which;
	enum mxfp_reduction reduction;
	struct mxfp_sparsity sparsity;
	size_t rows, cols, n, n_terms, dense_stride, token, heads, workspace_bytes, packed_bytes;

	/* What is told of an error, and what it should be. */
	size_t failed, want_failed;
	uint64_t first, want_first;
	bool alone; /* calls that do not refuse this would run past their arrays */

	/* Structs behind the pointers. */
	struct mxfp_counts counts;
	struct mxfp_engine_chip chip;
	struct {
		struct mxfp_exec exec;
		struct mxfp_result result, sums, bystander;
		struct mxfp_blocks blocks, flipped;
		struct mxfp_matrix src, other, coded, w, bystander_w, mask, weight, bias_row, gate, residual;
		struct mxfp_convert_options convert;
		struct mxfp_quantize_options quantize, a_quantize;
		struct mxfp_accumulate_options accumulate;
		struct mxfp_attention_options attention;
		struct mxfp_function_options function;
		struct mxfp_softmax_options softmax;
		struct mxfp_norm_options norm;
		struct mxfp_add_options add;
		struct mxfp_glu_options glu;
		struct mxfp_rotary_options rotary;
		struct mxfp_frequency_options frequency;
		struct mxfp_gemm_options gemm;
		struct mxfp_product products[N_PRODUCTS];
		struct mxfp_sparse sparse;
		struct mxfp_attention_cache cache;
		struct mxfp_engine engine;
		struct mxfp_engine_place places[N_PRODUCTS];
		struct mxfp_sizes sizes;
		struct mxfp_sparse_sizes sparse_sizes;
		enum mxfp_format format;
		int value;
		size_t bytes;
		float amax, factor;
		const void *terms[2];
	} own;

	/* Arrays that are read: finite numbers, codes and scales of finite elements, valid masks. */
	float src_at[ROOM], other_at[ROOM], mask_at[ROOM], weight_at[ROOM], bias_at[ROOM], gate_at[ROOM], residual_at[ROOM];
	float sinks_at[HEADS];
	uint32_t positions_at[ROWS];
	uint8_t codes_at[2 * ROOM], scales_at[ROOM], w_at[4 * ROOM], w_scales_at[ROOM], masks_at[ROOM];
	/* Arrays that are written, or both: canaries where that makes no difference. */
	float result_at[ROOM], sums_at[ROOM], bystander_at[ROOM], sum_at[ROOM], reduced_at[ROWS], frequencies_at[ROOM];
	float cache_at[CACHE_BYTES / sizeof(float)];
	uint8_t result_codes_at[2 * ROOM], result_scales_at[ROOM], flipped_codes_at[2 * ROOM], flipped_scales_at[ROOM];
	uint8_t sparse_at[2 * ROOM], dense_at[2 * ROOM], marks_at[ROOM], packed_at[8 * ROOM], workspace_at[32 * ROOM];
	size_t indices_at[ROWS];
	uint64_t busy_at[MOST_CORES * PASSES];
};

static struct arguments arguments, before;

static void fill_numbers(float *to, float first)
{
	for (int i = 0; i < ROOM; i++)
		to[i] = first + (float)(i % 7);
}

/* Memory: canaries, and what is read. */
static void fill_memory(struct arguments *a)
{
	memset(a, CANARY, sizeof *a);
	memset(&a->own, 0, sizeof a->own);
	fill_numbers(a->src_at, -3);
	fill_numbers(a->other_at, -2);
	fill_numbers(a->mask_at, -6);
	fill_numbers(a->weight_at, 1);
	fill_numbers(a->bias_at, -1);
	fill_numbers(a->gate_at, 2);
	fill_numbers(a->residual_at, -5);
	memset(a->sinks_at, 0, sizeof a->sinks_at);
	memset(a->positions_at, 0, sizeof a->positions_at);
	memset(a->codes_at, 0x21, sizeof a->codes_at);
	memset(a->scales_at, 127, sizeof a->scales_at);
	memset(a->w_at, 0x31, sizeof a->w_at);
	memset(a->w_scales_at, 127, sizeof a->w_scales_at);
	memset(a->masks_at, 0x33, sizeof a->masks_at);
	memset(a->cache_at, 0, sizeof a->cache_at);
	memset(a->frequencies_at, 0, sizeof a->frequencies_at);
	memset(a->dense_at, 0x21, sizeof a->dense_at);
}

static struct mxfp_matrix numbers(size_t rows, const float *at)
{
	return mxfp_numbers(MXFP_FORMAT_F32, rows, COLS, at);
}

static void fill_matrices(struct arguments *a)
{
	struct mxfp_blocks coded = mxfp_blocks_at(MXFP_FORMAT_MXFP4, ROWS, COLS, a->codes_at, a->scales_at);
	struct mxfp_blocks w = mxfp_blocks_at(MXFP_FORMAT_MXFP4, COLS, COLS, a->w_at, a->w_scales_at);

	a->own.src = numbers(ROWS, a->src_at);
	a->own.other = numbers(ROWS, a->other_at);
	a->own.mask = numbers(ROWS, a->mask_at);
	a->own.weight = numbers(1, a->weight_at);
	a->own.bias_row = numbers(1, a->bias_at);
	a->own.gate = numbers(ROWS, a->gate_at);
	a->own.residual = numbers(ROWS, a->residual_at);
	a->own.coded = mxfp_blocks_matrix(&coded);
	a->own.w = a->own.bystander_w = mxfp_blocks_matrix(&w);
	a->src = &a->own.src;
	a->other = &a->own.other;
	a->mask = &a->own.mask;
	a->weight = &a->own.weight;
	a->bias_row = &a->own.bias_row;
	a->gate = &a->own.gate;
	a->residual = &a->own.residual;
	a->coded = &a->own.coded;
	a->w = &a->own.w;
}

static void fill_results(struct arguments *a, int parts)
{
	a->own.blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, ROWS, COLS, a->result_codes_at, a->result_scales_at);
	a->own.flipped = mxfp_blocks_at(MXFP_FORMAT_MXFP4, COLS, ROWS, a->flipped_codes_at, a->flipped_scales_at);
	a->own.result = mxfp_to_numbers(MXFP_FORMAT_F32, (parts & NUMBERS) != 0 ? a->result_at : NULL);
	a->own.sums = mxfp_to_numbers(MXFP_FORMAT_F32, a->sums_at);
	a->own.bystander = mxfp_to_numbers(MXFP_FORMAT_F32, a->bystander_at);
	a->counts = (struct mxfp_counts){sizeof a->counts, 1, 2, 3, 4, 5};
	a->own.result.blocks = (parts & BLOCKS) != 0 ? &a->own.blocks : NULL;
	a->own.result.clamped = (parts & CLAMPED) != 0 ? a->marks_at : NULL;
	a->own.result.counts = (parts & COUNTS) != 0 ? &a->counts : NULL;
	a->own.result.first_non_finite = (parts & FIRST) != 0 ? &a->first : NULL;
	a->result = &a->own.result;
	a->sums = &a->own.sums;
	a->bystander = &a->own.bystander;
	a->blocks = &a->own.blocks;
	a->flipped = &a->own.flipped;
	a->marks = a->marks_at;
	a->failed = a->want_failed = 77;
	a->first = a->want_first = 78;
	a->alone = false;
}

/* The options' own struct with its size and what else is given, and the pointer to it. */
#define SET(member, ...) \
	a->own.member = (__typeof__(a->own.member)){.size = sizeof a->own.member, __VA_ARGS__}; \
	a->member = &a->own.member

static void fill_options(struct arguments *a, int parts)
{
	SET(exec, .threads = 1, .isa = "ref");
	SET(convert, .round = MXFP_ROUND_SR);
	SET(quantize, .rule = MXFP_RULE_FLOOR);
	SET(a_quantize, .rule = MXFP_RULE_FLOOR);
	SET(accumulate, .seed = 1);
	SET(attention, .sinks = a->sinks_at);
	SET(function, .quantize = a->quantize);
	SET(softmax, .mask = a->mask, .sinks = a->sinks_at, .head_rows = ROWS / HEADS, .quantize = a->quantize);
	SET(norm, .epsilon = 1, .weight = a->weight, .residual = a->residual, .residual_out = a->sums, .quantize = a->quantize);
	a->norm->bias = (parts & BIAS) != 0 ? a->bias_row : NULL;
	SET(add, .quantize = a->quantize);
	SET(glu, .limit = mxfp_some(7), .quantize = a->quantize);
	SET(rotary, .head_cols = COLS / HEADS, .positions = a->positions_at, .quantize = a->quantize);
	SET(frequency, .base = 10000);
	SET(gemm, .a_format = MXFP_FORMAT_MXFP8_E4M3, .activation = MXFP_FUNCTION_SILU, .a_quantize = a->a_quantize,
	    .c_quantize = a->quantize);
}

static void fill_objects(struct arguments *a)
{
	const struct mxfp_product other = {
		.size = sizeof other, .c = a->bystander, .a = a->other, .w = &a->own.bystander_w,
	};
	const struct mxfp_product product = {
		.size = sizeof product,
		.c = a->result,
		.a = a->src,
		.w = a->w,
		.bias = a->bias_at,
		.gate = a->gate,
		.residual = a->residual,
	};

	a->own.products[0] = other;
	a->own.products[1] = product;
	a->products = a->own.products;
	a->product = &a->own.products[1];
	SET(sparse, .format = MXFP_FORMAT_MXFP4, .sparsity = two_of_four, .rows = ROWS, .cols = COLS, .codes = a->sparse_at,
	    .masks = a->masks_at);
	SET(cache, .heads = HEADS, .head_cols = COLS / HEADS, .capacity = CAPACITY, .memory = a->cache_at,
	    .memory_bytes = CACHE_BYTES);
	a->chip = *mxfp_engine_get_chip(0);
	SET(engine, .chip = &a->chip, .places = a->own.places, .busy = a->busy_at, .n_busy = (size_t)a->chip.cores * PASSES);
}

static void fill_rest(struct arguments *a)
{
	a->sizes = &a->own.sizes;
	a->sparse_sizes = &a->own.sparse_sizes;
	a->format = &a->own.format;
	a->value = &a->own.value;
	a->format_name = "mxfp4";
	a->option_name = "sr";
	a->bytes = &a->own.bytes;
	a->indices = a->indices_at;
	a->amax = &a->own.amax;
	a->reduced = a->reduced_at;
	a->frequencies = a->frequencies_at;
	a->factor = &a->own.factor;
	a->dense = a->dense_at;
	a->packed = a->packed_at;
	a->sum = a->sum_at;
	a->workspace = a->workspace_at;
	a->own.terms[0] = a->src_at;
	a->own.terms[1] = a->other_at;
	a->terms = a->own.terms;
	a->of_format = a->block_format = MXFP_FORMAT_MXFP4;
	a->sum_format = a->term_format = MXFP_FORMAT_F32;
	a->option = MXFP_OPTION_ROUND;
	a->which = MXFP_FUNCTION_SILU;
	a->reduction = MXFP_REDUCTION_MAX;
	a->sparsity = two_of_four;
	a->rows = ROWS;
	a->cols = COLS;
	a->n = (size_t)ROWS * COLS;
	a->n_terms = 2;
	a->dense_stride = 0;
	a->token = 0;
	a->heads = HEADS;
	a->workspace_bytes = sizeof a->workspace_at;
	a->packed_bytes = sizeof a->packed_at;
}

static void fill(struct arguments *a, int parts)
{
	fill_memory(a);
	fill_matrices(a);
	fill_results(a, parts);
	fill_options(a, parts);
	fill_objects(a);
	fill_rest(a);
}

/* What rows of errors.def do in more than a few assignments. */

static void *at(const void *array)
{
	return (void *)(uintptr_t)array;
}

static void *behind(const void *array)
{
	return (char *)at(array) + sizeof(float);
}

static void put_nan(struct arguments *a)
{
	a->src_at[5] = NAN;
	a->want_first = 5;
}

/* Blocks in place of the numbers of A. */
static void make_blocks(struct arguments *a)
{
	*a->src = *a->coded;
	a->gemm->a_format = a->src->format;
}

static void make_sparse(struct arguments *a)
{
	a->w->sparsity = two_of_four;
	a->w->masks = a->masks_at;
}

static void pack(struct arguments *a)
{
	assert_status(mxfp_pack(a->packed, a->packed_bytes, a->w, a->gemm, a->exec), MXFP_OK);
	a->product->w_packed = a->packed;
	a->product->w_packed_bytes = a->packed_bytes;
	a->product->n = COLS;
}

static size_t pack_bytes(struct arguments *a)
{
	size_t bytes;

	assert_status(mxfp_pack_size(&bytes, a->w, a->gemm, a->exec), MXFP_OK);
	return bytes;
}

/* 1 for a call that spoils what another takes. */
static size_t gemm_bytes(struct arguments *a, const char *function)
{
	const bool one = strcmp(function, "mxfp_gemm") == 0;
	size_t bytes = 1;

	(void)mxfp_gemm_workspace_size(&bytes, one ? a->product : a->products, one ? 1 : N_PRODUCTS, a->gemm, a->exec);
	return bytes;
}

static size_t attention_bytes(struct arguments *a)
{
	size_t bytes;

	assert_status(mxfp_attention_workspace_size(&bytes, a->cache, 0, HEADS, ROWS, a->attention, a->exec), MXFP_OK);
	return bytes;
}

static void wide_heads(struct arguments *a)
{
	a->result->blocks = NULL;
	a->src->rows = 1;
	a->src->cols = ROOM;
	a->rotary->head_cols = 0;
}

static void set_llama3(struct mxfp_frequency_options *o)
{
	*o = (struct mxfp_frequency_options){
		.size = sizeof *o,
		.base = 500000,
		.scaling = MXFP_ROTARY_LLAMA3,
		.factor = 8,
		.original_positions = 8192,
		.low_freq_factor = 1,
		.high_freq_factor = 4,
	};
}

static void set_yarn(struct mxfp_frequency_options *o)
{
	*o = (struct mxfp_frequency_options){
		.size = sizeof *o, .base = 10000, .scaling = MXFP_ROTARY_YARN, .factor = 32, .original_positions = 4096,
	};
}

/* The tables. */

#define F(function, parts, given) \
	static enum mxfp_status call_##function(struct arguments *a) \
	{ \
		return function given; \
	}
#define E(function, code, what, ...)
#define N(function, code, why)
#include "errors.def"

static const struct function {
	const char *name;
	enum mxfp_status (*call)(struct arguments *a);
	int parts;
} functions[] = {
#define F(function, parts, given) {#function, call_##function, parts},
#define E(function, code, what, ...)
#define N(function, code, why)
#include "errors.def"
};

static const struct error {
	const char *function;
	enum mxfp_status status;
	const char *what;
} errors[] = {
#define F(function, parts, given)
#define E(function, code, what, ...) {#function, MXFP_##code, what},
#define N(function, code, why)
#include "errors.def"
};

enum { N_FUNCTIONS = sizeof functions / sizeof functions[0], N_ERRORS = sizeof errors / sizeof errors[0] };

/* Does what row `row` does. */
static void spoil(struct arguments *a, int row)
{
#define F(function, parts, given)
#define E(function, code, what, ...) \
	if (row-- == 0) { \
		__VA_ARGS__; \
		return; \
	}
#define N(function, code, why)
#include "errors.def"
}

static bool is_of(const struct error *error, const struct function *f)
{
	return strcmp(error->function, f->name) == 0;
}

static bool may_return(const struct function *f, enum mxfp_status status)
{
	for (int i = 0; i < N_ERRORS; i++)
		if (errors[i].status == status && is_of(&errors[i], f))
			return true;
	return false;
}

/* The first byte that the call changed, or -1. */
static ptrdiff_t changed(void)
{
	const uint8_t *now = (const uint8_t *)&arguments, *then = (const uint8_t *)&before;

	for (size_t i = 0; i < sizeof arguments; i++)
		if (now[i] != then[i])
			return (ptrdiff_t)i;
	return -1;
}

/* Calls and returns the status; `before` is what was there. */
static enum mxfp_status run(const struct function *f)
{
	before = arguments;
	return f->call(&arguments);
}

TEST_LOOP(calls_succeed, N_FUNCTIONS)
{
	const struct function *f = &functions[_i];

	fill(&arguments, f->parts);
	const enum mxfp_status status = run(f);
	ck_assert_msg(status == MXFP_OK, "%s: %s", f->name, mxfp_status_text(status));
	ck_assert_msg(changed() >= 0 || f->call == call_mxfp_sparse_check, "%s: wrote nothing that is compared", f->name);
}

/* Whether a row is what happens. */
static bool holds(const struct function *f, int row)
{
	const struct error *error = &errors[row];

	fill(&arguments, f->parts);
	spoil(&arguments, row);
	const enum mxfp_status status = run(f);
	before.first = before.want_first;
	if ((f->parts & FAILED) != 0)
		before.failed = before.want_failed;
	if (status != error->status)
		printf("%s: %s: %d (%s), not %d (%s)\n", f->name, error->what, (int)status, mxfp_status_text(status),
		       (int)error->status, mxfp_status_text(error->status));
	else if (changed() >= 0)
		printf("%s: %s: byte %td of the arguments was written\n", f->name, error->what, changed());
	return status == error->status && changed() < 0;
}

TEST_LOOP(errors_are_returned, N_FUNCTIONS)
{
	const struct function *f = &functions[_i];
	int rows = 0, failures = 0;

	for (int row = 0; row < N_ERRORS; row++)
		if (is_of(&errors[row], f)) {
			rows++;
			failures += !holds(f, row);
		}
	fflush(stdout);
	ck_assert_int_ne(rows, 0);
	ck_assert_int_eq(failures, 0);
	suite_compared((uint64_t)rows);
}

TEST_LOOP(no_other_error_is_returned, N_FUNCTIONS)
{
	const struct function *f = &functions[_i];

	for (int row = 0; row < N_ERRORS; row++) {
		fill(&arguments, f->parts);
		spoil(&arguments, row);
		if (arguments.alone)
			continue;
		const enum mxfp_status status = run(f);
		if (status == MXFP_OK)
			continue;
		ck_assert_msg(may_return(f, status), "%s: after \"%s\" of %s: %d (%s), of which it has no row", f->name, errors[row].what,
		              errors[row].function, (int)status, mxfp_status_text(status));
		if (status == MXFP_ERR_NON_FINITE)
			before.first = arguments.first;
		if ((f->parts & FAILED) != 0)
			before.failed = arguments.failed;
		ck_assert_msg(changed() < 0, "%s: after \"%s\" of %s: byte %td of the arguments was written", f->name,
		              errors[row].what, errors[row].function, changed());
		suite_compared(1);
	}
}
