/* SPDX-License-Identifier: MIT */
/* The table of layouts and the parts of a quantized tensor. */
#include "config.h"

#include "layout.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct layout layouts[] = {
	{MXFP_FORMAT_MXFP4, "mxfp4-pack-quantized", true, true, DTYPE_U8, DTYPE_U8},
	{MXFP_FORMAT_NVFP4, "nvfp4-pack-quantized", true, true, DTYPE_U8, DTYPE_F8_E4M3},
	{MXFP_FORMAT_MXFP8_E4M3, "mxfp8-quantized", true, false, DTYPE_F8_E4M3, DTYPE_U8},
	{MXFP_FORMAT_MXFP6_E2M3, "mxfp6-pack-quantized", true, true, DTYPE_U8, DTYPE_U8},
	{MXFP_FORMAT_MXFP6_E3M2, "mxfp6-e3m2-pack-quantized", false, true, DTYPE_U8, DTYPE_U8},
	{MXFP_FORMAT_MXFP8_E5M2, "mxfp8-e5m2-quantized", false, false, DTYPE_F8_E5M2, DTYPE_U8},
	{MXFP_FORMAT_MXINT8, "mxint8-quantized", false, false, DTYPE_I8, DTYPE_U8},
};

enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

const struct layout *layout_of(enum mxfp_format format)
{
	for (size_t i = 0; i < N_LAYOUTS; i++)
		if (layouts[i].format == format)
			return &layouts[i];
	return NULL;
}

const struct layout *layout_named(const char *name)
{
	for (size_t i = 0; i < N_LAYOUTS; i++)
		if (strcmp(layouts[i].name, name) == 0)
			return &layouts[i];
	return NULL;
}

static bool is_sparse(const struct layout_choice *choice)
{
	return choice->sparsity.m != 0;
}

bool layout_has(const struct layout_choice *choice, enum layout_part part)
{
	if (part == LAYOUT_TENSOR_SCALE)
		return mxfp_format_info(choice->layout->format)->tensor_scale;
	return part != LAYOUT_MASKS || is_sparse(choice);
}

/* The sizes of rows x cols elements that are in memory, or of a row of a tensor whose size is known not to overflow. */
static struct mxfp_sizes sizes(enum mxfp_format format, uint64_t rows, uint64_t cols)
{
	struct mxfp_sizes size = {0};
	enum mxfp_status status = mxfp_blocks_size(format, (size_t)rows, (size_t)cols, &size);

	assert(status == MXFP_OK);
	(void)status;
	return size;
}

static const char *part_name(const struct layout_choice *choice, enum layout_part part, const char *source,
                             struct arena *arena)
{
	const char *codes = choice->layout->packed ? LAYOUT_PACKED : "";
	const char *const suffixes[N_LAYOUT_PARTS] = {is_sparse(choice) ? LAYOUT_SPARSE : codes, LAYOUT_SCALE,
	                                              LAYOUT_GLOBAL_SCALE, LAYOUT_MASK};
	size_t size = strlen(source) + strlen(suffixes[part]) + 1;
	char *name = arena_take(arena, size);

	if (name != NULL)
		snprintf(name, size, "%s%s", source, suffixes[part]);
	return name;
}

/* Bytes of a row of `cols` elements in a part. */
static uint64_t row_bytes(const struct layout_choice *choice, enum layout_part part, uint64_t cols)
{
	struct mxfp_sizes row = sizes(choice->layout->format, 1, cols);
	struct mxfp_sparse_sizes sparse;

	if (part == LAYOUT_SCALES)
		return row.scales_row_bytes;
	if (!is_sparse(choice))
		return row.codes_row_bytes;
	enum mxfp_status status =
		mxfp_sparse_size(choice->layout->format, choice->sparsity, 1, (size_t)cols, &sparse);
	assert(status == MXFP_OK);
	(void)status;
	return part == LAYOUT_CODES ? sparse.codes_row_bytes : sparse.masks_row_bytes;
}

bool layout_describe(const struct layout_choice *choice, enum layout_part part, const struct tensor *source,
                     struct arena *arena, struct tensor *described)
{
	static const uint64_t one[] = {1};
	const enum dtype codes = is_sparse(choice) ? DTYPE_U8 : choice->layout->codes;
	const enum dtype dtypes[N_LAYOUT_PARTS] = {codes, choice->layout->scales, DTYPE_F32, DTYPE_U8};

	*described = (struct tensor){.name = part_name(choice, part, source->name, arena), .dtype = dtypes[part]};
	if (part == LAYOUT_TENSOR_SCALE) {
		described->rank = 1;
		described->shape = one;
		return described->name != NULL;
	}
	uint64_t *shape = arena_take(arena, source->rank * sizeof *shape);

	if (described->name == NULL || shape == NULL)
		return false;
	memcpy(shape, source->shape, source->rank * sizeof *shape);
	shape[source->rank - 1] = row_bytes(choice, part, source->shape[source->rank - 1]);
	described->rank = source->rank;
	described->shape = shape;
	return true;
}

struct layout_slice layout_slice(enum mxfp_format format, uint64_t cols, const struct piece *piece)
{
	struct mxfp_sizes row = sizes(format, 1, cols), before = sizes(format, 1, piece->col);

	return (struct layout_slice){
		.codes_from = piece->row * row.codes_row_bytes + before.codes_row_bytes,
		.scales_from = piece->row * row.scales_row_bytes + before.scales_row_bytes,
		.size = sizes(format, piece->rows, piece->cols),
	};
}
