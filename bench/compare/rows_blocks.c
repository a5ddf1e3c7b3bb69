/* SPDX-License-Identifier: MIT */
/* Quantizing, decoding and converting: with all data in L2, and through memory, where each turn goes on to the next part. */
#include "api.h"
#include "rows.h"

#include <stdio.h>

enum {
	IN_L2 = 1 << 16,      /* elements: 256 KiB of f32 */
	SOURCE = 1 << 22,     /* of a turn that reads f32 from memory */
	RESULT = 1 << 23      /* of one that writes it: 32 MiB, from which on stores may go past the caches */
};

enum operation { QUANTIZE, DECODE, CONVERT, AMAX };

struct row {
	enum operation operation;
	const char *src, *dst, *rule, *round;
};

#define RULES(format) \
	{QUANTIZE, "f32", format, "rceil", "rne"}, {QUANTIZE, "f32", format, "mse", "rne"}, \
	{QUANTIZE, "f32", format, "rceil", "sr"}, {DECODE, format, "f32", NULL, NULL}

static const struct row rows[] = {
	RULES("mxfp4"),
	{QUANTIZE, "f32", "mxfp4", "floor", "rne"}, {QUANTIZE, "f32", "mxfp4", "even", "rne"},
	{QUANTIZE, "bf16", "mxfp4", "rceil", "rne"}, {QUANTIZE, "bf16", "mxfp4", "mse", "rne"},
	{QUANTIZE, "f16", "mxfp4", "rceil", "rne"}, {DECODE, "mxfp4", "bf16", NULL, NULL},
	RULES("mxfp8-e4m3"),
	{QUANTIZE, "bf16", "mxfp8-e4m3", "rceil", "rne"}, {DECODE, "mxfp8-e4m3", "bf16", NULL, NULL},
	RULES("mxfp8-e5m2"), RULES("mxfp6-e2m3"), RULES("mxfp6-e3m2"), RULES("mxint8"),
	{QUANTIZE, "f32", "nvfp4", "te", "rne"}, {QUANTIZE, "f32", "nvfp4", "4over6", "rne"},
	{QUANTIZE, "f32", "nvfp4", "te", "sr"}, {DECODE, "nvfp4", "f32", NULL, NULL},
	{CONVERT, "f32", "bf16", NULL, "rne"}, {CONVERT, "f32", "bf16", NULL, "sr"}, {CONVERT, "f32", "f16", NULL, "rne"},
	{CONVERT, "f32", "e4m3", NULL, "rne"}, {CONVERT, "f32", "e2m1", NULL, "rne"}, {CONVERT, "bf16", "f32", NULL, "rne"},
	{CONVERT, "e4m3", "f32", NULL, "rne"}, {AMAX, "f32", "f32", NULL, NULL},
};

enum { N_ROWS = sizeof rows / sizeof rows[0], N_PLACES = 2 };

static bool name_row(size_t i, char name[SPEED_NAME_BYTES])
{
	static const char *const operations[] = {"quantize", "decode", "convert", "amax"};
	const struct row *row = &rows[i / N_PLACES];

	if (i >= (size_t)N_ROWS * N_PLACES)
		return false;
	snprintf(name, SPEED_NAME_BYTES, "%s %s%s%s%s%s%s%s, %s", operations[row->operation], row->src,
	         row->operation == AMAX ? "" : " to ", row->operation == AMAX ? "" : row->dst, row->rule != NULL ? " " : "",
	         row->rule != NULL ? row->rule : "", row->round != NULL ? " " : "", row->round != NULL ? row->round : "",
	         i % N_PLACES == 0 ? "L2" : "memory");
	return true;
}

/* A row that is ready: n elements a turn, in one of `parts` parts of what is read (quantize, convert) or written. */
struct state {
	const struct row *row;
	const struct mxfp_format_info *src_info, *dst_info;
	const unsigned char *src;
	unsigned char *dst, *scales;
	size_t n, src_parts, dst_parts;
	struct mxfp_blocks blocks; /* decode: what is read */
	struct mxfp_quantize_options options;
};

/* Bytes of the codes of n elements. */
static size_t code_bytes(const struct mxfp_format_info *info, size_t n)
{
	struct mxfp_sizes size;

	if (info->kind != MXFP_KIND_BLOCK)
		return n * info->storage_bytes;
	return mxfp_blocks_size(&size, info->format, 1, n) == MXFP_OK ? size.codes_bytes : 0;
}

static void run(const struct speed_work *work, size_t turn)
{
	const struct state *s = work->state;
	const unsigned char *src = s->src + turn % s->src_parts * code_bytes(s->src_info, s->n);
	const size_t part = turn % s->dst_parts;
	unsigned char *dst = s->dst + part * code_bytes(s->dst_info, s->n);
	float amax = 0;

	if (s->row->operation == QUANTIZE) {
		struct mxfp_blocks blocks = mxfp_blocks_at(s->dst_info->format, s->n / SPEED_COLS, SPEED_COLS, dst,
		                                           s->scales + part * (s->n / s->dst_info->block_length));

		(void)api_quantize_to(&blocks, s->src_info->format, src, &s->options);
	} else if (s->row->operation == DECODE) {
		(void)api_dequantize(&s->blocks, dst, s->dst_info->format);
	} else if (s->row->operation == CONVERT) {
		(void)api_convert(dst, s->row->dst, src, s->row->src, s->n, s->row->round);
	} else {
		(void)api_amax(src, s->src_info->format, s->n, &amax);
		*(float *)(void *)s->dst = amax;
	}
}

/* The numbers as elements of `name`, all parts of them. */
static const void *encode(const struct mxfp_format_info *info, size_t n, const struct speed_host *host)
{
	const float *numbers = host->numbers(SPEED_NORMAL);

	if (info->format == MXFP_FORMAT_F32)
		return numbers;
	void *converted = host->allocate(n * info->storage_bytes);
	return converted != NULL && api_convert(converted, info->name, numbers, "f32", n, NULL) ? converted : NULL;
}

static bool start_row(size_t i, const struct speed_host *host, struct speed_work *work)
{
	const struct row *row = &rows[i / N_PLACES];
	const bool in_l2 = i % N_PLACES == 0, writes = row->operation == DECODE || row->operation == CONVERT;
	struct state *s = host->allocate(sizeof *s);

	if (s == NULL || api_info(row->src) == NULL || api_info(row->dst) == NULL)
		return false;
	*s = (struct state){
		.row = row, .src_info = api_info(row->src), .dst_info = api_info(row->dst), .dst = host->results,
		.n = in_l2 ? IN_L2 : writes ? RESULT : SOURCE, .src_parts = 1, .dst_parts = 1,
	};
	if (!in_l2 && row->operation != DECODE)
		s->src_parts = SPEED_N_MEMORY / s->n;
	if (!in_l2 && row->operation != AMAX)
		s->dst_parts = SPEED_N_MEMORY / s->n;
	s->scales = s->dst + s->dst_parts * code_bytes(s->dst_info, s->n);
	*work = (struct speed_work){run, code_bytes(s->dst_info, s->n), s};
	if (row->operation == AMAX)
		work->result_bytes = sizeof(float);
	if (row->operation == DECODE)
		return api_quantize(&s->blocks, row->src, s->n / SPEED_COLS, SPEED_COLS, host->numbers(SPEED_NORMAL),
		                    (struct api_how){0}, host) &&
		       api_dequantize(&s->blocks, s->dst, s->dst_info->format);
	s->src = encode(s->src_info, s->src_parts * s->n, host);
	if (s->src == NULL)
		return false;
	if (row->operation == QUANTIZE)
		return api_quantize_options(&s->options, s->dst_info, (struct api_how){row->rule, row->round});
	return row->operation == AMAX || api_convert(s->dst, row->dst, s->src, row->src, s->n, row->round);
}

const struct speed_group speed_blocks = {name_row, start_row};
