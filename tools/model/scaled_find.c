/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/scaled.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "base/suffix.h"
#include "io/shape.h"
#include "model/grid.h"
#include "model/section.h"
#include "mxfp/convert.h"

const struct scaled_way scaled_scales[] = {
#define SCALED(codes, scales, bytes, source) {codes, scales, bytes},
#include "model/scaled.def"
	{NULL, NULL, false},
};

const struct scaled_way scaled_beside[] = {
#define BESIDE(codes, name, source) {codes, name, false},
#include "model/scaled.def"
	{NULL, NULL, false},
};

enum { CHUNK = 1 << 15, E8M0_BIAS = 127, E8M0_NAN = 255 };

int scaled_find_like(const struct tensor **found, const struct file **file, const struct model *model, const char *name,
                     const char *from, const char *to, struct error *error)
{
	const size_t stem = from[0] == '\0' ? strlen(name) : suffix_stem(name, from);
	const size_t size = stem + strlen(to) + 1;

	*found = NULL;
	if (stem == 0)
		return EXIT_OK;
	char *like = malloc(size);
	if (like == NULL)
		return fail_memory(error);
	memcpy(like, name, stem);
	memcpy(like + stem, to, size - stem);
	*found = model_find(model, like, file);
	free(like);
	return EXIT_OK;
}

/* The scale's shape as a grid for each matrix, or for all; false if it is none. */
static bool set_grid(struct scaled *s)
{
	const struct tensor *scales = &s->scales;
	const uint64_t matrices = s->codes.rank == 3 ? s->codes.shape[0] : 1;
	const uint64_t *dims = scales->shape;
	uint64_t squeezed[2];
	unsigned rank = scales->rank;

	s->per_matrix = s->codes.rank == 3 && rank > 0 && dims[0] == matrices && tensor_elements(scales) > 1;
	if (s->per_matrix) {
		dims++;
		rank--;
	}
	if (rank == 4 && dims[1] == 1 && dims[3] == 1) {
		squeezed[0] = dims[0];
		squeezed[1] = dims[2];
		dims = squeezed;
		rank = 2;
	}
	/* Of experts, one for each row or for each column, which ModelOpt tells apart by their number. */
	if (s->per_matrix && rank == 1 && dims[0] == s->cols && dims[0] > 1) {
		s->grid_rows = 1;
		s->grid_cols = dims[0];
		return s->rows != s->cols;
	}
	s->grid_rows = rank == 0 ? 1 : dims[0];
	s->grid_cols = rank < 2 ? 1 : dims[1];
	return rank <= 2 && s->grid_rows > 0 && s->grid_cols > 0 &&
	       (rank != 1 || s->grid_rows == 1 || s->grid_rows == s->rows) &&
	       (s->per_matrix || matrices == 1 || tensor_elements(scales) == 1);
}

static bool fits(const struct scaled *s, uint64_t block_rows, uint64_t block_cols)
{
	return grid_is_cut(s->rows, block_rows, s->grid_rows) && grid_is_cut(s->cols, block_cols, s->grid_cols);
}

bool scaled_block(const json_t *value, uint64_t *rows, uint64_t *cols)
{
	long long n[2] = {json_integer_value(json_array_get(value, 0)), json_integer_value(json_array_get(value, 1))};
	int end = 0;

	if (json_is_string(value) &&
	    (sscanf(json_string_value(value), "%lldx%lld%n", &n[0], &n[1], &end) != 2 || json_string_value(value)[end] != '\0'))
		return false;
	if ((!json_is_string(value) && json_array_size(value) != 2) || n[0] <= 0 || n[1] <= 0)
		return false;
	*rows = (uint64_t)n[0];
	*cols = (uint64_t)n[1];
	return true;
}

/* Blocks that a configuration states. */
struct stated {
	bool any, differ;                /* any: some are stated; differ: several fit */
	uint64_t block_rows, block_cols; /* the block that fits; 0: none */
};

static void take_block(struct stated *stated, const struct scaled *s, uint64_t rows, uint64_t cols)
{
	if (rows == 0 || cols == 0)
		return;
	stated->any = true;
	if (!fits(s, rows, cols))
		return;
	stated->differ |= stated->block_rows != 0 && (stated->block_rows != rows || stated->block_cols != cols);
	stated->block_rows = rows;
	stated->block_cols = cols;
}

static struct stated find_stated(const struct model *model, const struct scaled *s)
{
	const json_t *groups = json_object_get(section_find(model->config), "config_groups");
	struct stated stated = {0};
	uint64_t rows, cols;

	take_block(&stated, s, model->grid[0], model->grid[1]);
	for (void *at = json_object_iter((json_t *)(uintptr_t)groups); at != NULL;
	     at = json_object_iter_next((json_t *)(uintptr_t)groups, at))
		if (scaled_block(json_object_get(json_object_get(json_object_iter_value(at), "weights"), "block_structure"), &rows, &cols))
			take_block(&stated, s, rows, cols);
	return stated;
}

static int fail_fit(const struct scaled *s, const char *what, struct error *error)
{
	char of_codes[SHAPE_TEXT], of_scales[SHAPE_TEXT];

	return fail_tensor(error, s->scales_file->path, s->scales.name, "%s %s %s the codes of '%.200s', %s %s",
	                   dtype_info(s->scales.dtype)->name, shape_text(&s->scales, of_scales), what, s->codes.name,
	                   dtype_info(s->codes.dtype)->name, shape_text(&s->codes, of_codes));
}

static int set_blocks(struct scaled *s, const struct model *model, struct error *error)
{
	const enum dtype dtype = s->scales.dtype;
	const bool exponents = dtype == DTYPE_F8_E8M0 || dtype == DTYPE_U8;

	if ((dtype != DTYPE_F32 && dtype != DTYPE_BF16 && dtype != DTYPE_F16 && !exponents) || !set_grid(s))
		return fail_fit(s, "does not fit", error);
	const struct stated stated = find_stated(model, s);
	if (stated.differ)
		return fail_fit(s, "fits several blocks that config.json states, for", error);
	if (stated.block_rows != 0) {
		s->block_rows = stated.block_rows;
		s->block_cols = stated.block_cols;
		return EXIT_OK;
	}
	if (s->rows % s->grid_rows != 0 || s->cols % s->grid_cols != 0)
		return fail_fit(s, "does not divide, nor is a block stated in config.json that fits,", error);
	/* Of powers of two, as in layout_rows.c. */
	if ((!stated.any || exponents) && (!grid_is_certain(s->rows, s->grid_rows) || !grid_is_certain(s->cols, s->grid_cols)))
		return fail_fit(s, "may be of blocks of several sizes; the directory's config.json must state weight_block_size, for",
		                error);
	s->block_rows = s->rows / s->grid_rows;
	s->block_cols = s->cols / s->grid_cols;
	return EXIT_OK;
}

static int read_numbers(const struct tensor_decoder *decoder, uint64_t first, float *numbers, size_t n, struct error *error);

int scaled_find(struct scaled *scaled, bool *found, const struct model *model, const struct tensor *codes,
                const struct file *file, struct error *error)
{
	const struct tensor *scales = NULL;
	int code = EXIT_OK;

	*found = false;
	if ((codes->dtype != DTYPE_F8_E4M3 && codes->dtype != DTYPE_F8_E5M2) || codes->rank < 2 || codes->rank > 3 ||
	    codes->size == 0)
		return EXIT_OK;
	*scaled = (struct scaled){
		.decoder = {read_numbers, codes->offset},
		.codes = *codes,
		.codes_file = file,
		.rows = codes->shape[codes->rank - 2],
		.cols = codes->shape[codes->rank - 1],
	};
	bool bytes = false;
	for (size_t i = 0; scaled_scales[i].codes != NULL && code == EXIT_OK && scales == NULL; i++) {
		code = scaled_find_like(&scales, &scaled->scales_file, model, codes->name, scaled_scales[i].codes, scaled_scales[i].part, error);
		bytes = scaled_scales[i].bytes;
	}
	/* Other bytes are those of another layout. */
	if (code != EXIT_OK || scales == NULL || (dtype_info(scales->dtype)->bits < 16 && scales->dtype != DTYPE_F8_E8M0 &&
	                                          (scales->dtype != DTYPE_U8 || !bytes)))
		return code;
	*found = true;
	scaled->scales = *scales;
	return set_blocks(scaled, model, error);
}

const struct scaled *scaled_of(const struct tensor_decoder *decoder)
{
	return decoder != NULL && decoder->read == read_numbers ? (const struct scaled *)(const void *)decoder : NULL;
}

uint64_t scaled_grid_row(const struct scaled *s, uint64_t row)
{
	return (s->per_matrix ? row / s->rows * s->grid_rows : 0) + row % s->rows / s->block_rows;
}

uint64_t scaled_grid_rows(const struct scaled *scaled)
{
	return scaled->grid_rows * (scaled->per_matrix ? scaled->codes.shape[0] : 1);
}

int scaled_read_scales(float **numbers, const struct scaled *s, uint64_t first, uint64_t n_rows, struct error *error)
{
	const size_t width = dtype_info(s->scales.dtype)->bits / 8, n = (size_t)(n_rows * s->grid_cols);
	unsigned char *bytes = malloc(n * width);
	float *scales = malloc(n * sizeof *scales);
	int code = bytes == NULL || scales == NULL ? fail_memory(error)
	                                           : file_read(s->scales_file, &s->scales, first * s->grid_cols * width, bytes,
	                                                       n * width, error);

	for (size_t i = 0; i < n && code == EXIT_OK && width == 1; i++)
		scales[i] = bytes[i] == E8M0_NAN ? NAN : ldexpf(1, bytes[i] - E8M0_BIAS);
	if (code == EXIT_OK && width > 1) {
		dtype_swap(s->scales.dtype, bytes, n * width);
		must_succeed(mxfp_convert_array(scales, MXFP_FORMAT_F32, bytes, dtype_info(s->scales.dtype)->format, n, NULL, ONE_THREAD));
	}
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (!isfinite(scales[i]))
			code = fail_tensor(error, s->scales_file->path, s->scales.name, "element %" PRIu64 " is %s, which is not a scale; give the "
			                   "model that it was made from", first * s->grid_cols + i, isnan(scales[i]) ? "NaN" : "Inf");
	free(bytes);
	if (code != EXIT_OK) {
		free(scales);
		scales = NULL;
	}
	*numbers = scales;
	return code;
}

/* Multiplies numbers from one place on by the scales of rows from `from` on. */
static void multiply(const struct scaled *s, uint64_t first, float *numbers, size_t n, const float *scales, uint64_t from)
{
	for (size_t i = 0; i < n;) {
		const uint64_t row = (first + i) / s->cols, col = (first + i) % s->cols;
		const float *of_row = scales + (scaled_grid_row(s, row) - from) * s->grid_cols;
		const size_t row_end = s->cols - col < n - i ? i + (size_t)(s->cols - col) : n;

		for (uint64_t at = col; i < row_end;) {
			const float scale = of_row[at / s->block_cols];
			const uint64_t left = s->block_cols - at % s->block_cols;
			const size_t end = left < row_end - i ? i + (size_t)left : row_end;

			at += end - i;
			for (; i < end; i++)
				numbers[i] *= scale;
		}
	}
}

static int read_numbers(const struct tensor_decoder *decoder, uint64_t first, float *numbers, size_t n, struct error *error)
{
	const struct scaled *s = (const struct scaled *)(const void *)decoder;
	unsigned char *codes = malloc(CHUNK);
	float *scales;
	int code = codes == NULL ? fail_memory(error) : EXIT_OK;

	for (size_t done = 0, some; done < n && code == EXIT_OK; done += some) {
		const uint64_t at = first + done;

		some = n - done < CHUNK ? n - done : CHUNK;
		const uint64_t from = scaled_grid_row(s, at / s->cols), last = scaled_grid_row(s, (at + some - 1) / s->cols);
		code = file_read(s->codes_file, &s->codes, at, codes, some, error);
		if (code == EXIT_OK)
			code = scaled_read_scales(&scales, s, from, last - from + 1, error);
		if (code != EXIT_OK)
			break;
		must_succeed(mxfp_convert_array(numbers + done, MXFP_FORMAT_F32, codes, dtype_info(s->codes.dtype)->format, some, NULL, ONE_THREAD));
		multiply(s, at, numbers + done, some, scales, from);
		free(scales);
	}
	free(codes);
	dtype_swap(DTYPE_F32, numbers, n * sizeof *numbers);
	return code;
}
