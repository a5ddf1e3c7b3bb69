/* SPDX-License-Identifier: MIT */
#include "equal/rows_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 0xC5, MARGIN = 64 };

static const char *const names[] = {"sum", "mean", "square sum", "max", "argmax", "softmax", "log-softmax", "RMS norm",
                                    "layer norm", "add", "gate", "rotate"};

static uint8_t *memory(void)
{
	uint8_t *bytes = calloc(1, ROWS_BYTES);

	if (bytes == NULL)
		abort();
	return bytes;
}

void rows_case_init(struct rows_case *c)
{
	for (int i = 0; i < ROWS_N_ARRAYS; i++)
		c->array[i].bytes = memory();
	c->positions = (uint32_t *)(void *)memory();
}

void rows_result_init(struct rows_result *result)
{
	*result = (struct rows_result){memory(), memory(), memory(), memory(), {0}, 0};
}

static float from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

enum kind { ORDINARY, SPECIAL, ANY, SPREAD, MASKED, EQUAL, TINY, HUGE_NUMBERS, ZEROS, N_KINDS };

/* A number of a row of some kind. */
static uint32_t draw(struct random *r, enum kind kind, uint32_t constant)
{
	static const uint32_t special[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC01234, 0x7F812345, 0x80000000, 0,
	                                   0x7F7FFFFF, 0xFF7FFFFF, 1, 0x80000001, 0x00800000};

	switch (kind) {
	case SPECIAL:
		if (random_below(r, 12) == 0)
			return special[random_below(r, sizeof special / sizeof special[0])];
		return random_f32_between(r, -3, 3);
	case ANY:
		return random_f32(r);
	case SPREAD:
		return random_f32_between(r, -126, 127);
	case MASKED:
		return random_below(r, 5) != 0 ? UINT32_C(0xFF800000) : random_f32_between(r, -4, 4);
	case EQUAL:
		return constant;
	case TINY:
		return random_f32_between(r, -126, -100) >> random_below(r, 6);
	case HUGE_NUMBERS:
		return random_f32_between(r, 120, 127);
	case ZEROS:
		return random_below(r, 9) == 0 ? random_f32_between(r, -126, -60) : random_below(r, 2) << 31;
	default:
		return random_f32_between(r, -6, 3);
	}
}

uint32_t rows_number(const struct rows_array *a, size_t row, size_t col)
{
	const size_t i = row * a->input.stride + col;
	uint16_t half;
	uint32_t word;

	if (a->input.format == MXFP_FORMAT_F32) {
		memcpy(&word, a->bytes + 4 * i, sizeof word);
		return word;
	}
	memcpy(&half, a->bytes + 2 * i, sizeof half);
	return (uint32_t)half << 16;
}

static enum mxfp_format any_format(struct random *r)
{
	return random_below(r, 3) == 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
}

static size_t any_gap(struct random *r, size_t rows)
{
	return random_below(r, 2) == 0 ? 0 : random_below(r, rows > 2000 ? 3 : 40);
}

static void fill(struct rows_array *a, struct random *r, size_t rows, size_t cols)
{
	a->input = mxfp_numbers(any_format(r), rows, cols, a->bytes);
	a->input.stride = cols + any_gap(r, rows);
	const enum kind always = (enum kind)random_below(r, 2 * N_KINDS);
	for (size_t row = 0; row < rows; row++) {
		const enum kind kind = always < N_KINDS ? always : (enum kind)random_below(r, N_KINDS);
		const uint32_t constant = draw(r, random_below(r, 4) == 0 ? SPECIAL : ORDINARY, 0);

		for (size_t col = 0; col < a->input.stride; col++) {
			const uint32_t x = draw(r, kind, constant);
			const uint16_t half = (uint16_t)(x >> 16);
			const size_t i = row * a->input.stride + col;

			if (a->input.format == MXFP_FORMAT_F32)
				memcpy(a->bytes + 4 * i, &x, sizeof x);
			else
				memcpy(a->bytes + 2 * i, &half, sizeof half);
		}
	}
}

static bool has_results(enum rows_op op)
{
	return op >= ROWS_SOFTMAX;
}

static void draw_output(struct rows_case *c, struct random *r)
{
	static const enum mxfp_format blocks[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP6_E2M3,
	                                          MXFP_FORMAT_MXINT8, MXFP_FORMAT_NVFP4};
	const bool may_replace = !(c->op == ROWS_GATE && c->array[ROWS_Y].input.data == NULL);

	c->wants_blocks = random_below(r, 4) == 0;
	c->wants_data = !c->wants_blocks || random_below(r, 2) == 0;
	c->in_place = may_replace && random_below(r, 4) == 0;
	c->format = c->in_place ? c->array[ROWS_X].input.format : any_format(r);
	c->stride = c->in_place ? c->array[ROWS_X].input.stride : c->cols + any_gap(r, c->rows);
	c->block_format = blocks[random_below(r, 5)];
	c->quantize = (struct mxfp_quantize_options){
		.size = sizeof c->quantize,
		.rule = (enum mxfp_rule)random_below(r, 3),
		.round = random_below(r, 2) == 0 ? MXFP_ROUND_SR : MXFP_ROUND_RNE,
		.seed = random_u64(r),
		.first_index = random_below(r, 1000),
		.tensor_amax = mxfp_some(40),
	};
}

static void draw_softmax(struct rows_case *c, struct random *r)
{
	struct mxfp_softmax_options *o = &c->softmax;

	*o = (struct mxfp_softmax_options){.size = sizeof *o};
	const float scale = from_bits(random_below(r, 8) == 0 ? random_f32(r) : random_f32_between(r, -4, 1));
	if (random_below(r, 2) == 0)
		o->scale = mxfp_some(scale);
	if (random_below(r, 2) == 0)
		o->head_rows = (c->rows + 63) / 64 + random_below(r, 4);
	if (random_below(r, 3) == 0) {
		const size_t mask_rows = random_below(r, 2) * (1 + random_below(r, 3));
		fill(&c->array[ROWS_Y], r, mask_rows != 0 ? mask_rows : c->rows, c->cols);
		o->mask = &c->array[ROWS_Y].input;
	}
	o->causal = random_below(r, 3) == 0;
	o->causal_offset = (ptrdiff_t)random_below(r, 2 * (uint32_t)c->cols + 6) - (ptrdiff_t)c->cols - 3;
	const size_t head_rows = o->head_rows != 0 ? o->head_rows : c->rows;
	if (random_below(r, 3) == 0 && c->rows != 0 && (c->rows - 1) / head_rows < 64) {
		for (int i = 0; i < 64; i++)
			c->sinks[i] = from_bits(draw(r, (enum kind)random_below(r, N_KINDS), 0));
		o->sinks = c->sinks;
	}
}

static void draw_norm(struct rows_case *c, struct random *r)
{
	static const double epsilons[] = {0, 1e-5, 1e-6, 1e-300, 5e-324, 1e30};
	struct mxfp_norm_options *o = &c->norm;

	*o = (struct mxfp_norm_options){.size = sizeof *o, .epsilon = epsilons[random_below(r, 6)]};
	if (random_below(r, 3) != 0) {
		fill(&c->array[ROWS_WEIGHT], r, 1, c->cols);
		o->weight = &c->array[ROWS_WEIGHT].input;
		o->weight_plus_one = random_below(r, 3) == 0;
	}
	if (c->op == ROWS_LAYER_NORM && random_below(r, 2) == 0) {
		fill(&c->array[ROWS_BIAS], r, 1, c->cols);
		o->bias = &c->array[ROWS_BIAS].input;
	}
	if (random_below(r, 2) == 0) {
		fill(&c->array[ROWS_Y], r, c->rows, c->cols);
		o->residual = &c->array[ROWS_Y].input;
		c->sum_format = random_below(r, 3) == 0 ? (enum mxfp_format)-1 : any_format(r);
		c->sum_in_place = c->sum_format == c->array[ROWS_Y].input.format && random_below(r, 2) == 0;
	}
}

static void draw_gate(struct rows_case *c, struct random *r)
{
	static const enum mxfp_function functions[] = {MXFP_FUNCTION_SILU, MXFP_FUNCTION_IDENTITY, MXFP_FUNCTION_RELU,
	                                               MXFP_FUNCTION_SIGMOID};
	struct mxfp_glu_options *o = &c->gate;

	*o = (struct mxfp_glu_options){.size = sizeof *o, .up_plus_one = random_below(r, 3) == 0};
	c->function = functions[random_below(r, 4)];
	const float limit = from_bits(random_below(r, 6) == 0 ? random_f32_between(r, -126, 127) & 0x7FFFFFFF : 0x40E00000);
	if (random_below(r, 2) == 0)
		o->parameter = mxfp_some(1.702f);
	if (random_below(r, 2) == 0)
		o->limit = mxfp_some(limit);
	if (random_below(r, 2) == 0)
		fill(&c->array[ROWS_Y], r, c->rows, c->cols);
	else
		fill(&c->array[ROWS_X], r, c->rows, 2 * c->cols);
}

static void draw_rotate(struct rows_case *c, struct random *r)
{
	struct mxfp_rotary_options *o = &c->rotate;
	size_t heads = 1 + random_below(r, 4), head = c->cols / heads & ~(size_t)1;

	head = head == 0 ? 2 : head > 512 ? 512 : head;
	heads = c->cols / head != 0 ? c->cols / head : 1;
	c->cols = heads * head;
	*o = (struct mxfp_rotary_options){
		.size = sizeof *o,
		.head_cols = head,
		.interleaved = random_below(r, 2) == 0,
		.first_position = random_below(r, 3) == 0 ? (uint32_t)random_u64(r) : random_below(r, 5000),
	};
	if (random_below(r, 3) == 0)
		o->rotary_cols = 2 * (1 + random_below(r, (uint32_t)head / 2));
	if (random_below(r, 3) == 0)
		o->attention_factor = mxfp_some(1.2079441f);
	if (random_below(r, 2) == 0) {
		for (size_t i = 0; i < c->rows; i++)
			c->positions[i] = (uint32_t)(random_u64(r) >> (32 + random_below(r, 32)));
		o->positions = c->positions;
	}
	for (int i = 0; i < 256; i++)
		c->frequencies[i] = from_bits(random_below(r, 50) == 0 ? random_f32(r) : random_f32_between(r, -20, 0));
	fill(&c->array[ROWS_X], r, c->rows, c->cols);
}

void rows_case_draw(struct rows_case *c, struct random *r, enum rows_op op, size_t rows, size_t cols)
{
	const size_t most = ROWS_BYTES / 4 / (rows + 1) / 2;

	c->op = op;
	c->rows = rows;
	c->cols = cols + 80 < most ? cols : most < 100 ? 1 : most - 80;
	if (c->cols == 0 && (op == ROWS_MEAN || op == ROWS_MAX || op == ROWS_ARGMAX || op == ROWS_ROTATE))
		c->cols = 1;
	for (int i = 0; i < ROWS_N_ARRAYS; i++)
		c->array[i].input.data = NULL;
	c->sum_format = (enum mxfp_format)-1;
	c->sum_in_place = false;
	fill(&c->array[ROWS_X], r, rows, c->cols);
	if (op == ROWS_SOFTMAX || op == ROWS_LOG_SOFTMAX)
		draw_softmax(c, r);
	else if (op == ROWS_RMS_NORM || op == ROWS_LAYER_NORM)
		draw_norm(c, r);
	else if (op == ROWS_GATE)
		draw_gate(c, r);
	else if (op == ROWS_ROTATE)
		draw_rotate(c, r);
	else if (op == ROWS_ADD)
		fill(&c->array[ROWS_Y], r, rows, c->cols);
	draw_output(c, r);
}

static size_t bytes_of(const struct rows_array *a)
{
	return a->input.rows * a->input.stride * (a->input.format == MXFP_FORMAT_F32 ? 4 : 2);
}

/* The bytes of results: all that a call may write, and some after them. */
static size_t data_bytes(const struct rows_case *c)
{
	const size_t own = c->rows * c->stride * 4 + c->rows * sizeof(size_t), x = bytes_of(&c->array[ROWS_X]);

	return (own > x ? own : x) + MARGIN;
}

enum mxfp_status rows_case_run(const struct rows_case *c, const struct mxfp_exec *exec, struct rows_result *result)
{
	const struct mxfp_add_options add = {.size = sizeof add, .quantize = &c->quantize};
	struct mxfp_softmax_options softmax = c->softmax;
	struct mxfp_norm_options norm = c->norm;
	struct mxfp_glu_options gate = c->gate;
	struct mxfp_rotary_options rotate = c->rotate;
	struct mxfp_matrix x = c->array[ROWS_X].input, y = c->array[ROWS_Y].input;
	struct mxfp_blocks blocks = {
		.size = sizeof blocks, .format = c->block_format, .rows = c->rows, .cols = c->cols, .codes = result->codes,
		.scales = result->scales, .tensor_scale = 3,
	};
	const struct mxfp_result output = {
		.size = sizeof output,
		.format = c->format,
		.data = c->wants_data ? result->data : NULL,
		.stride = c->stride,
		.blocks = c->wants_blocks ? &blocks : NULL,
		.counts = &result->counts,
	};
	struct mxfp_result sum = mxfp_to_numbers(c->sum_format, result->sum);
	enum mxfp_status status = MXFP_OK;

	result->counts = (struct mxfp_counts){.size = sizeof(struct mxfp_counts)};
	memset(result->data, CANARY, data_bytes(c));
	memset(result->sum, CANARY, c->rows * c->cols * 4 + bytes_of(&c->array[ROWS_Y]) + MARGIN);
	memset(result->codes, CANARY, c->rows * (c->cols + 32) + MARGIN);
	memset(result->scales, CANARY, c->rows * (c->cols / 16 + 2) + MARGIN);
	if (has_results(c->op) && c->in_place && c->wants_data) {
		memcpy(result->data, c->array[ROWS_X].bytes, bytes_of(&c->array[ROWS_X]));
		x.data = result->data;
	}
	if (c->sum_format != (enum mxfp_format)-1)
		norm.residual_out = &sum;
	if (c->sum_in_place) {
		memcpy(result->sum, c->array[ROWS_Y].bytes, bytes_of(&c->array[ROWS_Y]));
		y.data = result->sum;
		norm.residual = &y;
		sum.stride = y.stride;
	}
	softmax.quantize = norm.quantize = gate.quantize = rotate.quantize = &c->quantize;
	switch (c->op) {
	case ROWS_SUM:
	case ROWS_MEAN:
	case ROWS_SQUARE_SUM:
	case ROWS_MAX:
		status = mxfp_rows_reduce((float *)(void *)result->data, (enum mxfp_reduction)(c->op - ROWS_SUM), &x, exec);
		break;
	case ROWS_ARGMAX:
		status = mxfp_rows_argmax((size_t *)(void *)result->data, &x, exec);
		break;
	case ROWS_SOFTMAX:
		status = mxfp_softmax(&output, &x, &softmax, exec);
		break;
	case ROWS_LOG_SOFTMAX:
		status = mxfp_log_softmax(&output, &x, &softmax, exec);
		break;
	case ROWS_RMS_NORM:
		status = mxfp_rms_norm(&output, &x, &norm, exec);
		break;
	case ROWS_LAYER_NORM:
		status = mxfp_layer_norm(&output, &x, &norm, exec);
		break;
	case ROWS_ADD:
		status = mxfp_rows_add(&output, &x, &y, &add, exec);
		break;
	case ROWS_GATE:
		status = mxfp_glu(&output, c->function, &x, y.data != NULL ? &y : NULL, &gate, exec);
		break;
	default:
		status = mxfp_rotary(&output, &x, c->frequencies, &rotate, exec);
		break;
	}
	result->tensor_scale = blocks.tensor_scale;
	return status;
}

bool rows_result_equal(const struct rows_case *c, const struct rows_result *a, const struct rows_result *b)
{
	return memcmp(a->data, b->data, data_bytes(c)) == 0 &&
	       memcmp(a->sum, b->sum, c->rows * c->cols * 4 + bytes_of(&c->array[ROWS_Y]) + MARGIN) == 0 &&
	       memcmp(a->codes, b->codes, c->rows * (c->cols + 32) + MARGIN) == 0 &&
	       memcmp(a->scales, b->scales, c->rows * (c->cols / 16 + 2) + MARGIN) == 0 &&
	       memcmp(&a->counts, &b->counts, sizeof a->counts) == 0 &&
	       memcmp(&a->tensor_scale, &b->tensor_scale, sizeof a->tensor_scale) == 0;
}

void rows_case_describe(const struct rows_case *c, char *text, size_t size)
{
	snprintf(text, size, "%s of %zu x %zu, stride %zu, %s%s -> %s%s%s%s", names[c->op], c->rows, c->cols,
	         c->array[ROWS_X].input.stride, mxfp_format_get_info(c->array[ROWS_X].input.format)->name,
	         c->in_place ? ", in place" : "", c->wants_data ? mxfp_format_get_info(c->format)->name : "",
	         c->wants_blocks ? " " : "", c->wants_blocks ? mxfp_format_get_info(c->block_format)->name : "",
	         c->op == ROWS_SOFTMAX || c->op == ROWS_LOG_SOFTMAX
	                 ? (c->softmax.causal ? ", causal" : c->softmax.mask != NULL ? ", mask" : "")
	                 : c->op == ROWS_ROTATE && c->rotate.interleaved ? ", interleaved" : "");
}
