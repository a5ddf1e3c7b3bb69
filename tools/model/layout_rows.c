/* SPDX-License-Identifier: MIT */
/* Orders in which a tensor [..., N, K] has its rows of codes one after the other, and likewise its rows of scales. */
#include "config.h"

#include "base/must_succeed.h"
#include "model/layout.h"
#include "model/quantized.h"

/* Bytes of a row of `cols` elements in a part. */
static uint64_t row_bytes(const struct layout_choice *choice, enum layout_part part, uint64_t cols)
{
	struct mxfp_sparse_sizes sparse = {0};
	struct mxfp_sizes row = {0};

	must_succeed(mxfp_blocks_size(choice->form->format, 1, (size_t)cols, &row));
	if (part == LAYOUT_SCALES)
		return row.scales_row_bytes;
	if (!choice->form->sparse)
		return row.codes_row_bytes;
	must_succeed(mxfp_sparse_size(choice->form->format, choice->sparsity, 1, (size_t)cols, &sparse));
	return part == LAYOUT_CODES ? sparse.codes_row_bytes : sparse.masks_row_bytes;
}

static const char *refuses(const struct layout_choice *choice, const struct layout_shape *source)
{
	struct mxfp_sizes row;
	uint64_t cols = source->dims[source->rank - 1];

	if (cols > SIZE_MAX || mxfp_blocks_size(choice->form->format, 1, (size_t)cols, &row) != MXFP_OK)
		return "its rows are too long";
	return NULL;
}

static void describe(const struct layout_choice *choice, enum layout_part part, const struct layout_shape *source,
                     struct layout_shape *shape)
{
	*shape = *source;
	shape->dims[shape->rank - 1] = row_bytes(choice, part, source->dims[source->rank - 1]) * 8 /
	                               dtype_info(choice->form->parts[part].dtype)->bits;
}

/* The row is as long as its scales say. */
static bool padded_shape(const struct layout_choice *choice, const struct tensor *const *parts,
                         struct layout_shape *source)
{
	const struct tensor *scales = parts[LAYOUT_SCALES];
	unsigned block = mxfp_format_get_info(choice->form->format)->block_length;

	if (scales->rank < 1 || scales->rank > LAYOUT_RANK_MAX || scales->shape[scales->rank - 1] > SIZE_MAX / 64)
		return false;
	*source = (struct layout_shape){.rank = scales->rank};
	for (unsigned i = 0; i < scales->rank; i++)
		source->dims[i] = scales->shape[i];
	source->dims[source->rank - 1] *= block;
	return refuses(choice, source) == NULL;
}

static int read_rows(const struct quantized *q, const struct piece *piece, const struct mxfp_blocks *blocks,
                     struct error *error)
{
	struct layout_slice slice = layout_slice(q->choice.form->format, q->cols, piece);
	int code = file_read(q->files[LAYOUT_CODES], q->parts[LAYOUT_CODES], slice.codes_from, blocks->codes,
	                     slice.size.codes_bytes, error);

	return code == EXIT_OK ? layout_read_scales(q, piece, blocks->scales, error) : code;
}

static int write_rows(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
                      struct error *error)
{
	struct layout_slice slice = layout_slice(target->choice.form->format, target->cols, piece);
	int code = writer_write(target->writer, target->parts[LAYOUT_CODES], slice.codes_from, blocks->codes,
	                        slice.size.codes_bytes, error);

	if (code != EXIT_OK)
		return code;
	return writer_write(target->writer, target->parts[LAYOUT_SCALES], slice.scales_from, blocks->scales,
	                    slice.size.scales_bytes, error);
}

const struct layout_order layout_rows = {refuses, describe, padded_shape, 0, read_rows, write_rows, NULL};

/* Codes [..., N, blocks, bytes of a block] beside scales [..., N, blocks]. */
static void describe_blocks(const struct layout_choice *choice, enum layout_part part,
                            const struct layout_shape *source, struct layout_shape *shape)
{
	if (part != LAYOUT_CODES) {
		describe(choice, part, source, shape);
		return;
	}
	describe(choice, LAYOUT_SCALES, source, shape);
	shape->dims[shape->rank++] = row_bytes(choice, LAYOUT_CODES, mxfp_format_get_info(choice->form->format)->block_length);
}

const struct layout_order layout_block_rows = {refuses, describe_blocks, padded_shape, 0, read_rows, write_rows, NULL};
