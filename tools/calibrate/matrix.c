/* SPDX-License-Identifier: MIT */
/* Compensates one matrix, and keeps what its weights become. */
#include "config.h"

#include "calibrate/running.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "io/elements.h"
#include "mxfp/convert.h"

static int read_weight(const struct quantize_entry *entry, const struct state_weight *weight, float *w, struct error *error)
{
	const size_t n = weight->rows * weight->cols;
	int code = elements_read(entry->file, entry->source, (uint64_t)weight->row * weight->cols, w, n, error);

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (!isfinite(w[i]))
			code = fail_tensor(error, entry->file->path, entry->source->name,
			                   "element %zu (row %zu, column %zu) is NaN or Inf; repair the model",
			                   weight->row * weight->cols + i, weight->row + i / weight->cols, i % weight->cols);
	return code;
}

/* Whether numbers are those of a dtype that is narrower than binary32. EXIT_MEMORY. */
static int holds(bool *same, enum dtype dtype, const float *w, size_t n, const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_convert_options options = {.size = sizeof options, .overflow = MXFP_OVERFLOW_OVF};
	const enum mxfp_format format = dtype_info(dtype)->format;

	*same = false;
	if (dtype != DTYPE_BF16 && dtype != DTYPE_F16)
		return EXIT_OK;
	uint16_t *narrow = malloc(n * sizeof *narrow + 1);
	float *again = malloc(n * sizeof *again + 1);
	const int code = narrow != NULL && again != NULL ? EXIT_OK : fail_memory(error);
	if (code == EXIT_OK) {
		must_succeed(mxfp_convert_array(narrow, format, w, MXFP_FORMAT_F32, n, &options, exec));
		must_succeed(mxfp_convert_array(again, MXFP_FORMAT_F32, narrow, format, n, &options, exec));
		*same = memcmp(again, w, n * sizeof *again) == 0;
	}
	free(narrow);
	free(again);
	return code;
}

/* Whether blocks hold just these numbers. EXIT_MEMORY. */
static int compare(bool *same, const struct mxfp_blocks *blocks, const float *w, const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(blocks);
	const size_t bytes = blocks->rows * blocks->cols * sizeof *w;
	float *held = malloc(bytes + 1);

	if (held == NULL)
		return fail_memory(error);
	must_succeed(dense_dequantize(held, MXFP_FORMAT_F32, &matrix, exec));
	*same = memcmp(held, w, bytes) == 0;
	free(held);
	return EXIT_OK;
}

static int fail_not_held(const struct quantize_entry *entry, struct error *error)
{
	return fail_tensor(error, entry->file->path, entry->source->name, "its weights are too small or too large for %s to hold "
	                   "exactly; leave the tensor out with --ignore", mxfp_format_get_info(entry->choice.format)->name);
}

/* Makes blocks of the weights that w holds, which the format holds exactly, in malloc'ed *memory. Rule mse finds a scale that
   does: a lower scale holds all numbers that a higher one does up to its own largest. The least that can is that of rule floor,
   which only in MXFP8 E4M3 can be too low, as 1.875 * 2^8 is no number of it; then the next one does. */
static int make_blocks(const struct running *r, const struct quantize_entry *entry, const float *w,
                       const struct compensate_grid *grid, struct mxfp_blocks *blocks, void **memory, struct error *error)
{
	const struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = MXFP_RULE_MSE, .recipe = grid->recipe, .tensor_amax = mxfp_some(grid->amax)};
	struct mxfp_sizes size;

	must_succeed(mxfp_blocks_size(&size, blocks->format, blocks->rows, blocks->cols));
	*memory = malloc(size.codes_bytes + size.scales_bytes + 1);
	if (*memory == NULL)
		return fail_memory(error);
	blocks->codes = *memory;
	blocks->scales = (uint8_t *)*memory + size.codes_bytes;
	must_succeed(dense_quantize(blocks, MXFP_FORMAT_F32, w, &options, &r->exec));
	bool same = false;
	const int code = compare(&same, blocks, w, &r->exec, error);
	return code == EXIT_OK && !same ? fail_not_held(entry, error) : code;
}

int matrix_calibrate(struct running *r, struct state_weight *weight, const float *factor, struct mxfp_blocks *blocks,
                     void **memory, struct error *error)
{
	const struct quantize_entry *entry = entry_of(r, weight->name);
	const size_t n = weight->rows * weight->cols;
	struct compensate_grid grid = {.format = entry->choice.format, .rule = (enum mxfp_rule)entry->choice.rule,
	                               .recipe = (enum mxfp_recipe)entry->choice.recipe, .sparsity = entry->choice.sparsity};
	float *w = malloc(n * sizeof *w + 1);
	int code = w != NULL ? read_weight(entry, weight, w, error) : fail_memory(error);

	*memory = NULL;
	*blocks = (struct mxfp_blocks){.size = sizeof(struct mxfp_blocks), .format = grid.format, .rows = weight->rows, .cols = weight->cols};
	weight->format = grid.format;
	if (code == EXIT_OK)
		code = quantize_amax(&r->transfer, &r->rounded.plan, entry, &grid.amax, error);
	if (code == EXIT_OK && !compensate_hold(&grid))
		code = fail_not_held(entry, error);
	if (code == EXIT_OK)
		code = compensate(w, weight->rows, weight->cols, factor, &grid, &weight->done, &r->exec, error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (!isfinite(w[i]))
			code = fail_tensor(error, entry->file->path, entry->source->name, "row %zu becomes NaN or Inf, so its weights or "
			                   "inputs are too large for binary32; leave the tensor out with --ignore",
			                   weight->row + i / weight->cols);
	if (code == EXIT_OK)
		code = make_blocks(r, entry, w, &grid, blocks, memory, error);
	weight->tensor_scale = blocks->tensor_scale;
	weight->divides = blocks->tensor_scale_divides;
	if (code == EXIT_OK)
		code = holds(&weight->narrow, entry->stored->dtype, w, n, &r->exec, error);
	if (code == EXIT_OK)
		code = state_add(&r->state, weight, blocks, error);
	free(w);
	return code;
}
