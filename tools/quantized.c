/* SPDX-License-Identifier: MIT */
/* Finding and decoding quantized tensors. What a tensor's format is follows from the dtypes and shapes of its parts. */
#include "config.h"

#include "quantized.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sparse.h"
#include "sparsity.h"

/* Finds the tensor NAME SUFFIX; *tensor is NULL if there is none. */
static int find_suffixed(const struct model *model, const char *name, const char *suffix, const struct tensor **tensor,
                         const struct file **file, struct error *error)
{
	size_t size = strlen(name) + strlen(suffix) + 1;
	char *full = malloc(size);

	if (full == NULL)
		return fail_memory(error);
	snprintf(full, size, "%s%s", name, suffix);
	*tensor = model_find(model, full, file);
	free(full);
	return EXIT_OK;
}

static int find_parts(struct quantized *q, const struct model *model, const char *name, struct error *error)
{
	int code = find_suffixed(model, name, LAYOUT_PACKED, &q->parts[LAYOUT_CODES], &q->files[LAYOUT_CODES], error);

	if (code == EXIT_OK && q->parts[LAYOUT_CODES] == NULL) {
		code = find_suffixed(model, name, LAYOUT_SPARSE, &q->parts[LAYOUT_CODES], &q->files[LAYOUT_CODES], error);
		q->sparse = q->parts[LAYOUT_CODES] != NULL;
	}
	if (code == EXIT_OK && q->sparse)
		code = find_suffixed(model, name, LAYOUT_MASK, &q->parts[LAYOUT_MASKS], &q->files[LAYOUT_MASKS], error);
	if (code == EXIT_OK && q->parts[LAYOUT_CODES] == NULL)
		q->parts[LAYOUT_CODES] = model_find(model, name, &q->files[LAYOUT_CODES]);
	if (code == EXIT_OK)
		code = find_suffixed(model, name, LAYOUT_SCALE, &q->parts[LAYOUT_SCALES],
		                     &q->files[LAYOUT_SCALES], error);
	if (code == EXIT_OK)
		code = find_suffixed(model, name, LAYOUT_GLOBAL_SCALE, &q->parts[LAYOUT_TENSOR_SCALE],
		                     &q->files[LAYOUT_TENSOR_SCALE], error);
	return code;
}

static bool is_packed(const struct tensor *codes, const char *name)
{
	return strlen(codes->name) > strlen(name);
}

/* Whether two parts agree in all but their last dimension. */
static bool same_rows(const struct tensor *a, const struct tensor *b)
{
	if (a->rank < 1 || a->rank != b->rank)
		return false;
	return memcmp(a->shape, b->shape, (a->rank - 1) * sizeof *a->shape) == 0;
}

/* Whether kept codes and masks are those of the pattern, for rows of `cols` elements. */
static bool fits_sparse(const struct quantized *q, const struct layout *layout, size_t cols)
{
	const struct tensor *codes = q->parts[LAYOUT_CODES], *masks = q->parts[LAYOUT_MASKS];
	unsigned last = codes->rank - 1;
	struct mxfp_sparse_sizes size;

	return codes->dtype == DTYPE_U8 && masks->dtype == DTYPE_U8 && same_rows(codes, masks) &&
	       mxfp_sparse_size(layout->format, q->sparsity, 1, cols, &size) == MXFP_OK &&
	       codes->shape[last] == size.codes_row_bytes && masks->shape[last] == size.masks_row_bytes;
}

/* Whether codes and scales are those of a layout, for rows of whole blocks. */
static bool fits(const struct quantized *q, const struct layout *layout, const char *name)
{
	const struct tensor *codes = q->parts[LAYOUT_CODES], *scales = q->parts[LAYOUT_SCALES];
	enum dtype dtype = scales->dtype == DTYPE_F8_E8M0 ? DTYPE_U8 : scales->dtype;
	unsigned last = codes->rank - 1;
	struct mxfp_sizes size;

	if (dtype != layout->scales || !same_rows(codes, scales) || scales->shape[last] > SIZE_MAX / 64)
		return false;
	size_t cols = (size_t)scales->shape[last] * mxfp_format_info(layout->format)->block_length;
	if (q->sparse)
		return fits_sparse(q, layout, cols);
	return layout->packed == is_packed(codes, name) && codes->dtype == layout->codes &&
	       mxfp_blocks_size(layout->format, 1, cols, &size) == MXFP_OK && size.codes_row_bytes == codes->shape[last];
}

/* The format that file and config.json state, where shapes leave a choice; NULL if they state none. */
static const struct layout *stated_layout(const struct model *model, const struct file *file)
{
	const char *weights = file_metadata(file, "mxfp.weights");
	const char *name = json_string_value(json_object_get(json_object_get(model->config, "quantization_config"),
	                                                     "format"));
	enum mxfp_format format;

	if (weights != NULL && mxfp_format_from_name(weights, &format) == MXFP_OK)
		return layout_of(format);
	return name == NULL ? NULL : layout_named(name);
}

/* Sets the layout that the parts have; it stays NULL if they have none, or two and nothing tells which. */
static void choose_layout(struct quantized *q, const struct model *model, const char *name)
{
	const struct layout *stated = stated_layout(model, q->files[LAYOUT_CODES]);
	unsigned n = 0;

	if (stated != NULL && fits(q, stated, name)) {
		q->layout = stated;
		return;
	}
	for (int format = 0; format < MXFP_N_FORMATS; format++) {
		const struct layout *layout = layout_of((enum mxfp_format)format);

		if (layout != NULL && fits(q, layout, name)) {
			q->layout = layout;
			n++;
		}
	}
	if (n > 1)
		q->layout = NULL;
}

/* Sets rows and cols: the padded row, or what the metadata says it held. */
static int set_shape(struct quantized *q, const char *name, struct error *error)
{
	const struct file *file = q->files[LAYOUT_CODES];
	unsigned block = mxfp_format_info(q->layout->format)->block_length;
	uint64_t blocks;
	size_t size = sizeof LAYOUT_COLS + strlen(name);
	char *key = malloc(size), *end;

	if (key == NULL)
		return fail_memory(error);
	tensor_matrix(q->parts[LAYOUT_SCALES], &q->rows, &blocks);
	q->cols = blocks * block;
	if (q->sparse) {
		free(key);
		return EXIT_OK;
	}
	snprintf(key, size, LAYOUT_COLS "%s", name);
	const char *text = file_metadata(file, key);
	free(key);
	if (text == NULL)
		return EXIT_OK;
	errno = 0;
	unsigned long long cols = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || cols > q->cols || q->cols - cols >= block)
		return fail(error, EXIT_INPUT, "%s: metadata '" LAYOUT_COLS "%s': '%s' is no length of rows of %" PRIu64
		            " whole blocks", file->path, name, text, blocks);
	q->cols = cols;
	return EXIT_OK;
}

static int read_tensor_scale(struct quantized *q, struct error *error)
{
	const struct tensor *scale = q->parts[LAYOUT_TENSOR_SCALE];
	const struct file *file = q->files[LAYOUT_TENSOR_SCALE];

	if (!mxfp_format_info(q->layout->format)->tensor_scale) {
		q->parts[LAYOUT_TENSOR_SCALE] = NULL;
		return EXIT_OK;
	}
	if (scale == NULL)
		return fail_tensor(error, q->files[LAYOUT_CODES]->path, q->parts[LAYOUT_CODES]->name,
		                   "its tensor scale, *" LAYOUT_GLOBAL_SCALE ", is missing");
	if (scale->dtype != DTYPE_F32 || tensor_elements(scale) != 1)
		return fail_tensor(error, file->path, scale->name, "is not one F32 number");
	int code = file_read(file, scale, 0, &q->tensor_scale, sizeof q->tensor_scale, error);
	dtype_swap(DTYPE_F32, &q->tensor_scale, sizeof q->tensor_scale);
	return code;
}

/* Whether the tensor found is quantized at all: packed, or 8-bit numbers with scales. */
static bool is_quantized(const struct quantized *q, const char *name)
{
	const struct tensor *codes = q->parts[LAYOUT_CODES];

	if (codes == NULL)
		return false;
	if (is_packed(codes, name))
		return true;
	return q->parts[LAYOUT_SCALES] != NULL && dtype_info(codes->dtype)->bits == 8 && codes->dtype != DTYPE_BOOL;
}

/* The pattern of a sparse tensor, which only the metadata tell. */
static int find_sparsity(struct quantized *q, const char *name, struct error *error)
{
	const struct file *file = q->files[LAYOUT_CODES];
	const char *text = file_metadata(file, LAYOUT_SPARSITY);

	if (q->parts[LAYOUT_MASKS] == NULL)
		return fail_tensor(error, file->path, q->parts[LAYOUT_CODES]->name, "'%s" LAYOUT_MASK "' is missing",
		                   name);
	if (text == NULL || !sparsity_find(text, &q->sparsity))
		return fail(error, EXIT_INPUT, "%s: metadata '" LAYOUT_SPARSITY "': '%.40s' is no pattern that is known",
		            file->path, text != NULL ? text : "");
	return EXIT_OK;
}

int quantized_find(struct quantized *quantized, bool *found, const struct model *model, const char *name,
                   struct error *error)
{
	*quantized = (struct quantized){0};
	int code = find_parts(quantized, model, name, error);

	*found = code == EXIT_OK && is_quantized(quantized, name);
	if (!*found)
		return code;
	const struct file *file = quantized->files[LAYOUT_CODES];
	if (quantized->parts[LAYOUT_SCALES] == NULL)
		return fail_tensor(error, file->path, quantized->parts[LAYOUT_CODES]->name, "'%s" LAYOUT_SCALE
		                   "' is missing", name);
	if (quantized->sparse)
		code = find_sparsity(quantized, name, error);
	if (code != EXIT_OK)
		return code;
	choose_layout(quantized, model, name);
	if (quantized->layout == NULL)
		return fail_tensor(error, file->path, quantized->parts[LAYOUT_CODES]->name, "not in a layout that mxfp "
		                   "knows, by dtype and shape of it and its scales / if it is MXFP6, name the directory "
		                   "with config.json");
	code = set_shape(quantized, name, error);
	return code != EXIT_OK ? code : read_tensor_scale(quantized, error);
}

struct mxfp_blocks quantized_blocks(const struct quantized *quantized, const struct piece *piece, uint8_t *codes,
                                    uint8_t *scales)
{
	return (struct mxfp_blocks){
		.format = quantized->layout->format,
		.rows = piece->rows,
		.cols = piece->cols,
		.codes = codes,
		.scales = scales,
		.tensor_scale = quantized->tensor_scale,
		.tensor_scale_divides = true,
	};
}

int quantized_sparse(const struct quantized *quantized, const struct piece *piece, struct mxfp_sparse *sparse,
                     struct mxfp_sparse_sizes *size, struct error *error)
{
	*sparse = (struct mxfp_sparse){
		.format = quantized->layout->format,
		.sparsity = quantized->sparsity,
		.rows = piece->rows,
		.cols = piece->cols,
	};
	if (piece->cols != quantized->cols)
		return fail_tensor(error, quantized->files[LAYOUT_CODES]->path, quantized->parts[LAYOUT_CODES]->name,
		                   "rows of %" PRIu64 " elements are too long for a sparse tensor", quantized->cols);
	if (mxfp_sparse_size(sparse->format, sparse->sparsity, sparse->rows, sparse->cols, size) != MXFP_OK)
		return fail_memory(error);
	return EXIT_OK;
}

int quantized_read_kept(const struct quantized *quantized, const struct piece *piece, const struct mxfp_sparse *sparse,
                        const struct mxfp_sparse_sizes *size, struct error *error)
{
	const struct tensor *masks = quantized->parts[LAYOUT_MASKS];
	int code = file_read(quantized->files[LAYOUT_CODES], quantized->parts[LAYOUT_CODES],
	                     piece->row * size->codes_row_bytes, sparse->codes, size->codes_bytes, error);

	if (code == EXIT_OK)
		code = file_read(quantized->files[LAYOUT_MASKS], masks, piece->row * size->masks_row_bytes,
		                 sparse->masks, size->masks_bytes, error);
	if (code != EXIT_OK || mxfp_masks_valid(sparse->sparsity, sparse->rows, sparse->cols, sparse->masks,
	                                        size->masks_row_bytes))
		return code;
	return fail_tensor(error, quantized->files[LAYOUT_MASKS]->path, masks->name, "rows %" PRIu64 " to %" PRIu64
	                   ": a mask does not keep %u of %u", piece->row, piece->row + piece->rows - 1,
	                   sparse->sparsity.n, sparse->sparsity.m);
}

int quantized_read_scales(const struct quantized *quantized, const struct piece *piece, void *scales,
                          struct error *error)
{
	struct layout_slice slice = layout_slice(quantized->layout->format, quantized->cols, piece);

	return file_read(quantized->files[LAYOUT_SCALES], quantized->parts[LAYOUT_SCALES], slice.scales_from, scales,
	                 slice.size.scales_bytes, error);
}

/* Reads the codes of a piece of a sparse tensor, dense. */
static int read_sparse(const struct quantized *q, const struct piece *piece, void *codes, uint64_t *n_bytes,
                       struct error *error)
{
	const struct mxfp_sparse_options options = {.threads = 1};
	struct mxfp_sparse sparse;
	struct mxfp_sparse_sizes size;
	int code = quantized_sparse(q, piece, &sparse, &size, error);

	if (code != EXIT_OK)
		return code;
	uint8_t *memory = malloc(size.codes_bytes + size.masks_bytes + 1);
	if (memory == NULL)
		return fail_memory(error);
	sparse.codes = memory;
	sparse.masks = memory + size.codes_bytes;
	*n_bytes = size.codes_bytes + size.masks_bytes;
	code = quantized_read_kept(q, piece, &sparse, &size, error);
	if (code == EXIT_OK) {
		enum mxfp_status status = mxfp_sparse_expand(&sparse, codes, 0, &options);

		assert(status == MXFP_OK);
		(void)status;
	}
	free(memory);
	return code;
}

int quantized_read(const struct quantized *quantized, const struct piece *piece, const struct mxfp_blocks *blocks,
                   uint64_t *n_bytes, struct error *error)
{
	struct layout_slice slice = layout_slice(quantized->layout->format, quantized->cols, piece);
	int code;

	*n_bytes = slice.size.codes_bytes;
	if (quantized->sparse)
		code = read_sparse(quantized, piece, blocks->codes, n_bytes, error);
	else
		code = file_read(quantized->files[LAYOUT_CODES], quantized->parts[LAYOUT_CODES], slice.codes_from,
		                 blocks->codes, slice.size.codes_bytes, error);
	*n_bytes += slice.size.scales_bytes;
	return code == EXIT_OK ? quantized_read_scales(quantized, piece, blocks->scales, error) : code;
}
