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

unsigned layout_parts(enum mxfp_format format)
{
	return mxfp_format_info(format)->tensor_scale ? N_LAYOUT_PARTS : LAYOUT_TENSOR_SCALE;
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

static const char *part_name(const struct layout *layout, enum layout_part part, const char *source,
                             struct arena *arena)
{
	const char *const suffixes[N_LAYOUT_PARTS] = {layout->packed ? LAYOUT_PACKED : "", LAYOUT_SCALE,
	                                              LAYOUT_GLOBAL_SCALE};
	size_t size = strlen(source) + strlen(suffixes[part]) + 1;
	char *name = arena_take(arena, size);

	if (name != NULL)
		snprintf(name, size, "%s%s", source, suffixes[part]);
	return name;
}

bool layout_describe(const struct layout *layout, enum layout_part part, const struct tensor *source,
                     struct arena *arena, struct tensor *described)
{
	static const uint64_t one[] = {1};
	const enum dtype dtypes[N_LAYOUT_PARTS] = {layout->codes, layout->scales, DTYPE_F32};

	*described = (struct tensor){.name = part_name(layout, part, source->name, arena), .dtype = dtypes[part]};
	if (part == LAYOUT_TENSOR_SCALE) {
		described->rank = 1;
		described->shape = one;
		return described->name != NULL;
	}
	struct mxfp_sizes row = sizes(layout->format, 1, source->shape[source->rank - 1]);
	uint64_t *shape = arena_take(arena, source->rank * sizeof *shape);

	if (described->name == NULL || shape == NULL)
		return false;
	memcpy(shape, source->shape, source->rank * sizeof *shape);
	shape[source->rank - 1] = part == LAYOUT_CODES ? row.codes_row_bytes : row.scales_row_bytes;
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
