/* SPDX-License-Identifier: MIT */
/* Products with packed W, as a layer of a model has them; W4A8 first. */
#include "api.h"
#include "rows.h"

#include <stdio.h>
#include <string.h>

/* Formats by name. quantized: what A becomes in the call; kept of `of`: W's sparsity. */
struct pair {
	const char *name, *a, *quantized, *w;
	unsigned kept, of;
};

static const struct pair pairs[] = {
	{"w4a8", "f32", "mxfp8-e4m3", "mxfp4", 0, 0},
	{"mxfp8-e4m3 x mxfp4", "mxfp8-e4m3", NULL, "mxfp4", 0, 0},
	{"mxint8 x mxfp4", "mxint8", NULL, "mxfp4", 0, 0},
	{"mxfp4 x mxfp4", "mxfp4", NULL, "mxfp4", 0, 0},
	{"nvfp4 x nvfp4", "nvfp4", NULL, "nvfp4", 0, 0},
	{"mxfp8-e4m3 x mxfp8-e4m3", "mxfp8-e4m3", NULL, "mxfp8-e4m3", 0, 0},
	{"mxfp8-e5m2 x mxfp8-e5m2", "mxfp8-e5m2", NULL, "mxfp8-e5m2", 0, 0},
	{"mxfp6-e2m3 x mxfp6-e2m3", "mxfp6-e2m3", NULL, "mxfp6-e2m3", 0, 0},
	{"mxfp6-e3m2 x mxfp6-e3m2", "mxfp6-e3m2", NULL, "mxfp6-e3m2", 0, 0},
	{"bf16 x mxfp4", "bf16", NULL, "mxfp4", 0, 0},
	{"bf16 x bf16", "bf16", NULL, "bf16", 0, 0},
	{"w4a8 4:16", "f32", "mxfp8-e4m3", "mxfp4", 4, 16},
	{"w4a8 4:8", "f32", "mxfp8-e4m3", "mxfp4", 4, 8},
};

/* Rows of A and of W. Beside few rows of A, W is larger than L2; beside many it has as many rows as take some milliseconds. */
static const struct shape {
	size_t m, n;
} shapes[] = {{1, 4096}, {4, 4096}, {16, 4096}, {128, 1024}, {512, 512}};

enum { N_PAIRS = sizeof pairs / sizeof pairs[0], N_SHAPES = sizeof shapes / sizeof shapes[0], N_DATA = 2 };

static bool name_row(size_t i, char name[SPEED_NAME_BYTES])
{
	const struct shape *shape = &shapes[i / N_DATA % N_SHAPES];

	if (i >= (size_t)N_PAIRS * N_SHAPES * N_DATA)
		return false;
	snprintf(name, SPEED_NAME_BYTES, "product %s, %zu row%s, %s", pairs[i / N_DATA / N_SHAPES].name, shape->m,
	         shape->m == 1 ? "" : "s", i % N_DATA == 0 ? "normal" : "tails");
	return true;
}

static void run(const struct speed_work *work, size_t turn)
{
	(void)turn;
	(void)api_product_run(work->state);
}

/* Numbers in a format: f32 as they are, others converted or quantized, MX formats by the rule; NULL: rceil. */
static bool encode(struct mxfp_matrix *matrix, const char *format, size_t rows, const float *numbers, const char *rule,
                   const struct speed_host *host)
{
	const struct mxfp_format_info *info = api_info(format);
	struct mxfp_blocks blocks;

	if (info == NULL)
		return false;
	if (info->kind == MXFP_KIND_BLOCK) {
		if (!api_quantize(&blocks, format, rows, SPEED_COLS, numbers, (struct api_how){info->tensor_scale ? NULL : rule, NULL},
		                  host))
			return false;
		*matrix = api_matrix(&blocks);
		return true;
	}
	*matrix = mxfp_numbers(info->format, rows, SPEED_COLS, numbers);
	if (info->format == MXFP_FORMAT_F32)
		return true;
	void *converted = host->allocate(rows * SPEED_COLS * info->storage_bytes);
	matrix->data = converted;
	return converted != NULL && api_convert(converted, format, numbers, "f32", rows * SPEED_COLS, NULL);
}

/* What memory begins with, again and again. */
static void repeat(void *memory, size_t period, size_t total)
{
	for (size_t done = period; done < total; done += period)
		memcpy((char *)memory + done, memory, period);
}

/* W by rule mse, as models are quantized, pruned if the pair says so. Only rows that differ are pruned and compressed, which
   took long once. */
static bool encode_w(struct mxfp_matrix *w, const struct pair *pair, size_t rows, const float *numbers,
                     const struct speed_host *host)
{
	const size_t period = SPEED_PERIOD / SPEED_COLS;
	struct mxfp_sparse sparse = {
		.size = sizeof sparse,
		.format = MXFP_FORMAT_F32, .sparsity = {pair->kept, pair->of}, .rows = period, .cols = SPEED_COLS,
	};
	struct mxfp_sparse_sizes size;

	if (pair->of == 0)
		return encode(w, pair->w, rows, numbers, "mse", host);
	if (mxfp_sparse_size(&size, api_info(pair->w)->format, sparse.sparsity, period, SPEED_COLS) != MXFP_OK)
		return false;
	float *pruned = host->allocate(rows * SPEED_COLS * sizeof *pruned);
	sparse.masks = host->allocate(rows / period * size.masks_bytes);
	sparse.codes = host->allocate(rows / period * size.codes_bytes);
	if (pruned == NULL || sparse.masks == NULL || sparse.codes == NULL || !api_prune(&sparse, pruned, numbers))
		return false;
	repeat(pruned, SPEED_PERIOD * sizeof *pruned, rows * SPEED_COLS * sizeof *pruned);
	if (!encode(w, pair->w, rows, pruned, "mse", host))
		return false;
	sparse.format = w->format;
	if (!api_compress(&sparse, w->data))
		return false;
	repeat(sparse.masks, size.masks_bytes, rows / period * size.masks_bytes);
	repeat(sparse.codes, size.codes_bytes, rows / period * size.codes_bytes);
	w->data = sparse.codes;
	w->sparsity = sparse.sparsity;
	w->masks = sparse.masks;
	return true;
}

static bool start_row(size_t i, const struct speed_host *host, struct speed_work *work)
{
	const struct pair *pair = &pairs[i / N_DATA / N_SHAPES];
	const struct shape *shape = &shapes[i / N_DATA % N_SHAPES];
	const bool tails = i % N_DATA != 0;
	struct api_product *product = host->allocate(sizeof *product);
	struct mxfp_matrix a, w;

	if (product == NULL ||
	    !encode_w(&w, pair, shape->n, host->numbers(tails ? SPEED_TAILS : SPEED_NORMAL), host) ||
	    !encode(&a, pair->a, shape->m, host->numbers(tails ? SPEED_CHANNELS : SPEED_NORMAL), NULL, host) ||
	    !api_product_make(product, &a, pair->quantized, &w, host->results, host))
		return false;
	*work = (struct speed_work){run, shape->m * shape->n * sizeof(float), product};
	return api_product_run(product);
}

const struct speed_group speed_products = {name_row, start_row};
