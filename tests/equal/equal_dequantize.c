/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "equal/equal_slots.h"
#include "oracle/inputs.h"

enum {
	N_BYTES = 256,
	CODES = 1 << 17,
	SCALES = 1 << 14
};

struct trial {
	struct equal_case c; /* first: it stands for the trial in equal_shapes() */
	struct mxfp_dequantize_job job;
};

static uint8_t codes[CODES], scales[SCALES];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	const struct mxfp_dequantize_job *job = c->job;

	return (equal_kernel *)table->dequantize[job->format];
}

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_dequantize_job j = *(const struct mxfp_dequantize_job *)job;

	(void)outcome;
	j.dst = array[0];
	j.codes = array[1];
	j.scales = array[2];
	((mxfp_dequantize_kernel *)k)(&j);
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_dequantize_job *j = c->job;

	snprintf(text, size,
	         "dequantize %s to %s, %zu x %zu, strides of codes %zu, scales %zu, output %zu"
	         ", tensor scale %08" PRIX32 "%s%s",
	         mxfp_format_get_info(j->format)->name, mxfp_format_get_info(j->dst_format)->name, j->rows, j->cols,
	         j->codes_stride, j->scales_stride, j->dst_stride, j->tensor_scale,
	         j->tensor_scale_divides ? " divides" : "", j->past_caches ? ", past the caches" : "");
}

/* Scales: any, at either end, or about 1, whose elements fit into every destination. */
static uint8_t any_scale(struct random *r)
{
	static const uint8_t ends[] = {0, 1, 2, 0x7E, 0x7F, 0x80, 0xFD, 0xFE, 0xFF};

	switch (random_below(r, 3)) {
	case 0:
		return ends[random_below(r, sizeof ends)];
	case 1:
		return (uint8_t)(0x70 + random_below(r, 32));
	default:
		return (uint8_t)random_u64(r);
	}
}

static uint32_t any_tensor_scale(struct random *r)
{
	return random_below(r, 2) == 0 ? random_f32(r) : random_f32_between(r, -20, 20);
}

/* A trial of rows x cols numbers with random codes, scales, strides and places. */
static void prepare(struct equal *e, struct trial *t, size_t rows, size_t cols)
{
	struct random *r = &e->random;
	struct mxfp_dequantize_job *j = &t->job;
	size_t width = mxfp_format_get_info(j->dst_format)->storage_bytes;
	struct mxfp_sizes size;

	mxfp_blocks_size(&size, j->format, rows, cols);
	j->rows = rows;
	j->cols = cols;
	j->dst_stride = cols + equal_gap(r);
	j->codes_stride = size.codes_row_bytes + equal_gap(r);
	j->scales_stride = size.scales_row_bytes + equal_gap(r);
	j->tensor_scale = any_tensor_scale(r);
	j->tensor_scale_divides = random_below(r, 2) == 0;
	j->past_caches = random_below(r, 2) == 0;
	t->c.n_elements = rows * cols;
	t->c.array[0] = (struct equal_array){equal_span(rows, cols, j->dst_stride) * width, equal_place(r), NULL};
	t->c.array[1] = (struct equal_array){equal_span(rows, size.codes_row_bytes, j->codes_stride), equal_place(r), codes};
	t->c.array[2] = (struct equal_array){equal_span(rows, size.scales_row_bytes, j->scales_stride), equal_place(r), scales};
	for (size_t i = 0; i < t->c.array[1].bytes; i++)
		codes[i] = (uint8_t)random_u64(r);
	for (size_t i = 0; i < t->c.array[2].bytes; i++)
		scales[i] = any_scale(r);
}

static void make(struct equal *e, struct equal_case *c, size_t rows, size_t cols)
{
	prepare(e, (struct trial *)c, rows, cols);
}

/* Tensor scales of every kind, both ways, in every floating-point state. */
static bool tensor_scales(struct equal *e, struct trial *t)
{
	for (size_t i = 0; i < 2 * inputs_n_edge; i++) {
		prepare(e, t, 3, 64 + random_below(&e->random, 64));
		t->job.tensor_scale = inputs_edge[i / 2];
		t->job.tensor_scale_divides = i % 2 != 0;
		if (!equal_run_in_every_state(e, &t->c))
			return false;
	}
	return true;
}

/* Every byte of codes under every scale: block b of a row has scale b, and the rows have all bytes of codes. */
static bool all_codes(struct equal *e, struct trial *t)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(t->job.format);
	size_t block_bytes = f->block_length * mxfp_format_get_info(f->element)->bits / 8, rows = N_BYTES / block_bytes + 1;

	prepare(e, t, rows, N_BYTES * f->block_length);
	for (size_t row = 0; row < rows; row++)
		for (size_t i = 0; i < N_BYTES * block_bytes; i++)
			codes[row * t->job.codes_stride + i] = (uint8_t)(row * block_bytes + i % block_bytes);
	for (size_t row = 0; row < rows; row++)
		for (size_t b = 0; b < N_BYTES; b++)
			scales[row * t->job.scales_stride + b] = (uint8_t)b;
	return equal_run(e, &t->c);
}

bool equal_dequantize(struct equal *e, enum mxfp_format format, enum mxfp_format dst_format)
{
	struct trial t = {
		.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job},
		.job = {.format = format, .dst_format = dst_format},
	};

	if (!equal_is_wanted(e, &t.c))
		return true;
	for (unsigned round = 0; round < e->rounds; round++)
		if (!equal_shapes(e, &t.c, make, 128) || !tensor_scales(e, &t))
			return false;
	return all_codes(e, &t);
}
