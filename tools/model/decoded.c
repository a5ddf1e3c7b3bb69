/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/decoded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "base/printable.h"
#include "model/meaning.h"
#include "model/quantized.h"
#include "model/section.h"
#include "mxfp/quantize.h"

/* The numbers of a quantized tensor. */
struct decoded {
	struct tensor_decoder decoder; /* first: a decoder reads the struct that begins with it */
	struct quantized quantized;
	struct tensor parts[N_LAYOUT_PARTS]; /* as the files hold them: quantized.parts point to them */
	struct tensor *codes, numbers;       /* in the file, which become these */
	const float *scales;                 /* of the tensor, quantized.n_scales of them, in the arena; NULL: one */
	struct decoded *next;
};

enum { CHUNK = 1 << 15, BLOCK_MAX = 64 }; /* ggml's NVFP4 has the longest blocks */

/* Whole rows, or whole blocks of one, around the numbers from `first` on that are wanted next. */
static struct piece piece_around(const struct quantized *q, uint64_t first, size_t n)
{
	const uint64_t row = first / q->cols, col = first % q->cols;
	const unsigned of_layout = layout_unit(&q->choice), unit = of_layout < BLOCK_MAX ? BLOCK_MAX : of_layout;
	struct piece piece = {.row = row, .rows = 1, .cols = (size_t)q->cols};

	if (q->cols > CHUNK && !q->choice.form->sparse) {
		const uint64_t from = col / unit * unit, left = q->cols - from;
		const uint64_t most = CHUNK / unit * unit;

		piece.col = from;
		piece.cols = (size_t)(left < most ? left : most);
	} else if (col == 0 && n > q->cols) {
		const size_t rows = n / (size_t)q->cols, most = CHUNK > q->cols ? CHUNK / (size_t)q->cols : 1;
		const uint64_t of_scale = q->n_scales > 1 ? q->rows / q->n_scales : q->rows, left = of_scale - row % of_scale;

		piece.rows = rows < most ? rows : most;
		piece.rows = left < piece.rows ? (size_t)left : piece.rows;
	}
	return piece;
}

/* Decodes a piece into malloc'ed numbers. */
static int read_piece(float **numbers, const struct quantized *q, const struct piece *piece, const float *factors,
                      struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const size_t n = piece->rows * piece->cols;
	struct mxfp_sizes size;
	uint64_t n_bytes;

	*numbers = NULL;
	if (mxfp_blocks_size(&size, q->choice.form->format, piece->rows, piece->cols) != MXFP_OK)
		return fail_memory(error);
	uint8_t *memory = malloc(size.codes_bytes + size.scales_bytes);
	*numbers = malloc(n * sizeof **numbers);
	int code = memory == NULL || *numbers == NULL ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK) {
		const struct mxfp_blocks blocks = quantized_blocks(q, piece, memory, memory + size.codes_bytes);
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);

		code = quantized_read(q, piece, &blocks, &n_bytes, error);
		if (code == EXIT_OK)
			must_succeed(dense_dequantize(*numbers, MXFP_FORMAT_F32, &matrix, &exec));
	}
	for (size_t i = 0; i < n && code == EXIT_OK && factors != NULL; i++)
		(*numbers)[i] *= factors[piece->col + i % piece->cols];
	free(memory);
	if (code != EXIT_OK) {
		free(*numbers);
		*numbers = NULL;
	}
	return code;
}

static int read_numbers(const struct tensor_decoder *decoder, uint64_t first, float *numbers, size_t n, struct error *error)
{
	const struct decoded *d = (const struct decoded *)(const void *)decoder;
	struct quantized of_piece = d->quantized;
	const struct quantized *q = &of_piece;
	float *factors, *some;
	int code = quantized_read_pre_quant_scale(q, &factors, error);

	for (size_t done = 0; done < n && code == EXIT_OK;) {
		const struct piece piece = piece_around(q, first + done, n - done);
		const uint64_t from = first + done - (piece.row * q->cols + piece.col);
		size_t took = piece.rows * piece.cols - (size_t)from;

		took = took < n - done ? took : n - done;
		if (d->scales != NULL)
			of_piece.tensor_scale = d->scales[piece.row / (q->rows / q->n_scales)];
		code = read_piece(&some, q, &piece, factors, error);
		if (code == EXIT_OK)
			memcpy(numbers + done, some + from, took * sizeof *numbers);
		free(some);
		done += took;
	}
	free(factors);
	dtype_swap(DTYPE_F32, numbers, n * sizeof *numbers);
	return code;
}

/* Keeps the tensor scales of several matrices. */
static int keep_scales(struct decoded *d, struct model *model, struct error *error)
{
	const struct quantized *q = &d->quantized;
	float *scales, *kept;

	if (q->n_scales <= 1)
		return EXIT_OK;
	int code = quantized_read_tensor_scales(q, &scales, error);
	if (code != EXIT_OK)
		return code;
	for (size_t i = 0; i < q->n_scales && code == EXIT_OK && !model->tells_faults; i++)
		if (!isfinite(scales[i]) || (scales[i] == 0 && q->choice.layout->divides))
			code = fail_tensor(error, q->files[LAYOUT_TENSOR_SCALE]->path, q->parts[LAYOUT_TENSOR_SCALE]->name,
			                   "is %g in place %zu, which is not a valid tensor scale; write the file again", (double)scales[i], i + 1);
	if (code != EXIT_OK) {
		free(scales);
		return code;
	}
	kept = arena_take(&model->arena, (size_t)q->n_scales * sizeof *kept);
	if (kept != NULL)
		memcpy(kept, scales, (size_t)q->n_scales * sizeof *kept);
	free(scales);
	d->scales = kept;
	return kept != NULL ? EXIT_OK : fail_memory(error);
}

/* Describes the numbers of codes, and lists the other parts. */
static int describe(struct decoded **list, struct model *model, struct tensor *codes, const struct quantized *quantized,
                    const char *name, struct tensor_list *drop, struct error *error)
{
	const unsigned rank = quantized->shape.rank;
	struct decoded *d = arena_take(&model->arena, sizeof *d);
	uint64_t *shape = arena_take(&model->arena, (rank + 1) * sizeof *shape);
	int code = d == NULL || shape == NULL ? fail_memory(error) : EXIT_OK;

	if (code != EXIT_OK)
		return code;
	*d = (struct decoded){.decoder = {read_numbers, codes->offset}, .quantized = *quantized, .codes = codes, .next = *list};
	*list = d;
	code = keep_scales(d, model, error);
	for (int i = 0; i < N_LAYOUT_PARTS && code == EXIT_OK; i++) {
		if (quantized->parts[i] == NULL)
			continue;
		d->parts[i] = *quantized->parts[i];
		d->quantized.parts[i] = &d->parts[i];
		if (i != LAYOUT_CODES)
			code = tensor_list_add(drop, quantized->parts[i], error);
	}
	memcpy(shape, quantized->shape.dims, rank * sizeof *shape);
	/* Rows of what was [.., in, out] are its columns. */
	if (quantized->transposed) {
		shape[rank - 1] = quantized->shape.dims[rank - 2];
		shape[rank - 2] = quantized->shape.dims[rank - 1];
	}
	d->numbers = (struct tensor){
		.name = name,
		.dtype = DTYPE_F32,
		.rank = rank,
		.shape = shape,
		.by_columns = quantized->transposed,
		.offset = codes->offset,
		.decoder = &d->decoder,
	};
	if (code == EXIT_OK && !tensor_size(&d->numbers, &d->numbers.size))
		code = fail_tensor(error, quantized->files[LAYOUT_CODES]->path, name, "is too large to be decoded");
	return code;
}

/* Whether a tensor can be codes of several matrices in NVFP4. */
static bool may_have_each(const struct tensor *tensor)
{
	return tensor->rank == 3 && (tensor->dtype == DTYPE_U8 || tensor->dtype == DTYPE_NVFP4);
}

/* Finds the quantized tensors of a file, all or those whose matrices have scales of their own. A name may stand for other tensors
   once one of them is changed. */
static int find_in(struct file *file, struct decoded **list, struct model *model, bool each, struct tensor_list *drop,
                   struct error *error)
{
	struct quantized quantized;
	const char *name;
	int code = EXIT_OK;

	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++) {
		if (file->tensors[i].decoder != NULL || (each && !may_have_each(&file->tensors[i])))
			continue;
		code = quantized_owner(&quantized, &name, model, &file->tensors[i], &model->arena, error);
		/* What does not fit is told of where it is read. */
		if (each && code == EXIT_INPUT) {
			code = EXIT_OK;
			continue;
		}
		if (code == EXIT_OK && name != NULL && quantized.parts[LAYOUT_CODES] == &file->tensors[i] && (!each || quantized.n_scales > 1))
			code = describe(list, model, &file->tensors[i], &quantized, name, drop, error);
	}
	return code;
}

static int decode(struct model *model, bool each, struct error *error)
{
	struct tensor_list drop = {0};
	struct decoded *list = NULL;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++)
		code = find_in(&model->files[f], &list, model, each, &drop, error);
	for (struct decoded *d = list; d != NULL && code == EXIT_OK; d = d->next, model->n_decoded++)
		*d->codes = d->numbers;
	if (code == EXIT_OK)
		code = model_remove(model, &drop, error);
	free(drop.items);
	return code;
}

const char *decoded_from(const struct model *model)
{
	return model->decoded_from != NULL ? model->decoded_from : "by their tensors";
}

void decoded_print(FILE *file, const char *prefix, const struct model *model)
{
	if (model->n_decoded > 0)
		fprintf(file, "%s%zu tensor%s quantized before (%s): decoded to f32, and what is quantized is rounded once more\n", prefix,
		        model->n_decoded, model->n_decoded == 1 ? "" : "s", decoded_from(model));
}

int model_decode_each(struct model *model, struct error *error)
{
	return decode(model, true, error);
}

int model_decode(struct model *model, struct error *error)
{
	const int code = decode(model, false, error);

	if (code != EXIT_OK || model->n_decoded == 0)
		return code;
	model->decoded_from = model->quantized_by;
	if (model->decoded_from != NULL)
		make_printable(model->decoded_from);
	model->quantized_by = NULL;
	model->formats = 0;
	section_remove_all(model->config);
	return code;
}
