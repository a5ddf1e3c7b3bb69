/* SPDX-License-Identifier: MIT */
/* The numbers that kernels work on: always the same pattern of 2^20 standard normals, repeated. It is too long for
   branch prediction to learn. */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum {
	ALIGNMENT = 4096,
	MARGIN = 8, /* one part in eight extra, because a limit's ratio is only near the case's */
	F32_BYTES = 4
};

/* Allocates memory and touches all its pages. */
static void *allocate(size_t bytes)
{
	const size_t whole = (bytes + bytes / MARGIN + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	void *memory = aligned_alloc(ALIGNMENT, whole);

	if (memory != NULL)
		memset(memory, 1, whole);
	return memory;
}

bool bench_data_make(struct bench_data *data, size_t n)
{
	/* The shortest block has 16 elements. */
	*data = (struct bench_data){
		.n = n,
		.src = allocate(n * F32_BYTES),
		.src_scales = allocate(n / 16),
		.dst = allocate(n * F32_BYTES),
		.dst_scales = allocate(n / 16),
		.blocks = allocate(n),
		.normals = allocate(BENCH_PATTERN * sizeof(float)),
		.holds = BENCH_NOTHING,
	};
	if (data->src != NULL && data->src_scales != NULL && data->dst != NULL && data->dst_scales != NULL &&
	    data->blocks != NULL && data->normals != NULL) {
		bench_normals(data->normals, BENCH_PATTERN);
		return true;
	}
	bench_data_free(data);
	return false;
}

void bench_data_free(struct bench_data *data)
{
	free(data->src);
	free(data->src_scales);
	free(data->dst);
	free(data->dst_scales);
	free(data->blocks);
	free(data->normals);
}

static void repeat(uint8_t *memory, size_t period, size_t total)
{
	for (size_t done = period; done < total; done += period)
		memcpy(memory + done, memory, total - done < period ? total - done : period);
}

static bool has_sign(enum mxfp_format format)
{
	const enum mxfp_kind kind = mxfp_format_get_info(format)->kind;

	return kind != MXFP_KIND_UFLOAT && kind != MXFP_KIND_EXPONENT;
}

/* Converts the pattern to the beginning of src. */
static void make_pattern(const struct bench_data *data)
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .rule = MXFP_RULE_RCEIL};
	struct mxfp_blocks blocks = {
		.size = sizeof blocks, .format = data->holds, .rows = 1, .cols = BENCH_PATTERN, .codes = data->src, .scales = data->src_scales,
	};
	const struct mxfp_result result = mxfp_to_blocks(&blocks);
	const struct mxfp_matrix normals = mxfp_numbers(MXFP_FORMAT_F32, 1, BENCH_PATTERN, data->normals);
	enum mxfp_status status;

	if (mxfp_format_get_info(data->holds)->kind == MXFP_KIND_BLOCK)
		status = mxfp_quantize(&result, &normals, &options, NULL);
	else
		status = mxfp_convert_array(data->src, data->holds, data->normals, MXFP_FORMAT_F32, BENCH_PATTERN, NULL, NULL);
	assert(status == MXFP_OK);
	(void)status;
}

void bench_data_fill(struct bench_data *data, enum mxfp_format src, bool positive)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(src);
	const bool block = info->kind == MXFP_KIND_BLOCK;
	size_t scales = block ? BENCH_PATTERN / info->block_length : 0;
	size_t codes = bench_bytes(src, BENCH_PATTERN) - scales, patterns = data->n / BENCH_PATTERN;

	positive = positive || !has_sign(src);
	if (data->holds == src && data->holds_positive == positive)
		return;
	data->holds = src;
	data->holds_positive = positive;
	if (positive)
		for (size_t i = 0; i < BENCH_PATTERN; i++)
			data->normals[i] = fabsf(data->normals[i]);
	make_pattern(data);
	if (positive)
		bench_normals(data->normals, BENCH_PATTERN);
	repeat(data->src, codes, codes * patterns);
	repeat(data->src_scales, scales, scales * patterns);
}
