/* SPDX-License-Identifier: MIT */
/* Checks of the data: scales and blocks of quantized tensors, numbers of the others. Each is read once, in pieces. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lint.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "base/suffix.h"
#include "io/elements.h"
#include "io/transfer.h"

/* How often something was seen, and where first; places are counted in blocks or elements of the whole tensor. */
struct sight {
	uint64_t n, first;
};

enum look { LOOK_NAN_SCALE, LOOK_SIGN, LOOK_ZERO_SCALE, LOOK_ZERO_BLOCK, LOOK_NON_FINITE, LOOK_SQUARE, LOOK_SCALE, N_LOOKS };

enum { SQUARE = 32 }; /* rows that share scales, if the metadata say so */

/* A tensor at work. Each worker has its own sights. */
struct looking {
	struct quantized quantized;  /* without parts: the tensor is not quantized */
	const struct file *file;
	const struct tensor *tensor; /* not quantized */
	bool is_scale, is_alone;     /* its numbers are what a loader multiplies or divides by; there is one */
	uint64_t rows, cols;
	uint8_t *square; /* scales of the first row of squares, while rows are read in their order; NULL: no squares */
	struct sight sights[TRANSFER_WORKERS][N_LOOKS];
};

static void see(struct sight *sight, uint64_t n, uint64_t at)
{
	if (n > 0 && (sight->n == 0 || at < sight->first))
		sight->first = at;
	sight->n += n;
}

static struct mxfp_blocks blocks_of(const struct looking *l, const struct transfer_piece *piece)
{
	return quantized_blocks(&l->quantized, &piece->piece, piece->bytes, piece->bytes + PIECE_ELEMENTS);
}

/* Compares the scales of a piece, the next in order, with those of the first rows of their squares. */
static void look_at_squares(struct looking *l, const struct transfer_piece *piece, const uint8_t *scales)
{
	const struct layout_slice row = layout_slice(l->quantized.choice.form->format, piece->piece.cols,
	                                             &(struct piece){.rows = 1, .cols = piece->piece.cols});
	const uint64_t row_blocks = (l->cols - 1) / PIECE_BLOCK + 1, block = piece->piece.col / PIECE_BLOCK;
	const size_t n = row.size.scales_row_bytes;

	for (size_t i = 0; i < piece->piece.rows; i++, scales += n) {
		const uint64_t at = piece->piece.row + i;

		if (at % SQUARE == 0)
			memcpy(l->square + block, scales, n);
		for (size_t k = 0; k < n; k++)
			see(&l->sights[piece->worker][LOOK_SQUARE], scales[k] != l->square[block + k], at * row_blocks + block + k);
	}
}

static int read_blocks(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	struct looking *l = (struct looking *)context;
	const struct mxfp_blocks blocks = blocks_of(l, piece);
	int code = quantized_read(&l->quantized, &piece->piece, &blocks, n_bytes, error);

	if (code == EXIT_OK && l->square != NULL)
		look_at_squares(l, piece, blocks.scales);
	return code;
}

/* One block: its scale and its decoded elements. */
static void look_at_block(struct sight *sights, enum mxfp_format format, uint8_t scale, const float *x, size_t n,
                          uint64_t at)
{
	static const uint32_t magnitude_bits = 0x7FFFFFFF, inf = 0x7F800000;
	bool has_sign = mxfp_format_get_info(format)->scale != MXFP_FORMAT_E8M0;
	uint32_t any = 0, largest = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &x[i], sizeof bits);
		bits &= magnitude_bits;
		any |= bits;
		largest = bits > largest ? bits : largest;
	}
	see(&sights[LOOK_SIGN], has_sign && (scale & 0x80) != 0, at);
	if (quantized_scale_is_nan(format, scale))
		see(&sights[LOOK_NAN_SCALE], 1, at);
	else if (largest >= inf)
		see(&sights[LOOK_NON_FINITE], 1, at);
	see(&sights[LOOK_ZERO_BLOCK], any == 0, at);
}

/* Whether a block of 4-bit codes, half a byte each, holds others than zeros. */
static bool has_codes(const uint8_t *codes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		if ((codes[i] & 0x77) != 0)
			return true;
	return false;
}

static int look_at_blocks(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                          struct error *error)
{
	struct looking *l = (struct looking *)context;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_blocks blocks = blocks_of(l, piece);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	const struct mxfp_format_info *info = mxfp_format_get_info(blocks.format);
	struct layout_slice slice = layout_slice(blocks.format, l->cols, &piece->piece);
	struct sight *sights = l->sights[piece->worker];
	uint64_t row_blocks = (l->cols - 1) / info->block_length + 1;
	const uint8_t *scales = blocks.scales, *codes = blocks.codes;
	float *x = (float *)(void *)piece->result;

	(void)counts, (void)error;
	must_succeed(dense_dequantize(x, MXFP_FORMAT_F32, &matrix, &exec));
	for (size_t row = 0; row < blocks.rows; row++)
		for (size_t col = 0; col < blocks.cols; col += info->block_length) {
			size_t n = blocks.cols - col < info->block_length ? blocks.cols - col : info->block_length;
			size_t block = col / info->block_length;
			uint8_t scale = scales[row * slice.size.scales_row_bytes + block];
			uint64_t at = (piece->piece.row + row) * row_blocks + piece->piece.col / info->block_length + block;

			look_at_block(sights, blocks.format, scale, &x[row * blocks.cols + col], n, at);
			if (blocks.format == MXFP_FORMAT_NVFP4 && (scale & 0x7F) == 0)
				see(&sights[LOOK_ZERO_SCALE],
				    has_codes(&codes[row * slice.size.codes_row_bytes + col / 2], n / 2), at);
		}
	return EXIT_OK;
}

static struct sight sight_of(const struct looking *l, enum look look)
{
	struct sight all = {0};

	for (unsigned i = 0; i < TRANSFER_WORKERS; i++)
		see(&all, l->sights[i][look].n, l->sights[i][look].first);
	return all;
}

static int find_tensor_scale(struct lint *lint, const struct looking *l, struct error *error)
{
	const struct tensor *scale = l->quantized.parts[LAYOUT_TENSOR_SCALE];
	const struct lint_place place = {.file = l->quantized.files[LAYOUT_TENSOR_SCALE], .tensor = scale != NULL ? scale->name : NULL};
	float *scales, x = 1;
	size_t bad = 0;

	if (scale == NULL)
		return EXIT_OK;
	int code = quantized_read_tensor_scales(&l->quantized, &scales, error);
	while (code == EXIT_OK && bad < l->quantized.n_scales && isnormal(scales[bad]) && scales[bad] > 0)
		bad++;
	if (code == EXIT_OK && bad < l->quantized.n_scales)
		x = scales[bad];
	free(scales);
	if (code != EXIT_OK || bad >= l->quantized.n_scales)
		return code;
	return l->quantized.n_scales > 1 ? lint_find(lint, LINT_TENSOR_SCALE, &place, error, "number %zu of them is %g", bad + 1, (double)x)
	                                 : lint_find(lint, LINT_TENSOR_SCALE, &place, error, "it is %g", (double)x);
}

static int find_in_blocks(struct lint *lint, const struct looking *l, const struct lint_place *place,
                          struct error *error)
{
	static const struct {
		enum look look;
		enum lint_check check;
		const char *what;
	} kinds[] = {
		{LOOK_NAN_SCALE, LINT_SCALE_NAN, "have a NaN scale"},
		{LOOK_SIGN, LINT_SCALE_SIGN, "have a scale with a sign"},
		{LOOK_ZERO_SCALE, LINT_SCALE_ZERO, "have scale 0 over codes that are not 0"},
		{LOOK_NON_FINITE, LINT_NON_FINITE_BLOCK, "hold numbers that are not finite"},
		{LOOK_ZERO_BLOCK, LINT_ZERO_BLOCK, "are all zeros"},
		{LOOK_SQUARE, LINT_SQUARE, "have a scale that differs from that of the first row of their square"},
	};
	uint64_t row_blocks = (l->cols - 1) / mxfp_format_get_info(l->quantized.choice.form->format)->block_length + 1;
	uint64_t n_blocks = l->rows * row_blocks;
	int code = EXIT_OK;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && code == EXIT_OK; i++) {
		const struct sight sight = sight_of(l, kinds[i].look);
		bool many = kinds[i].check == LINT_ZERO_BLOCK && sight.n >= (n_blocks - 1) / 10 + 1;

		if (sight.n > 0)
			code = lint_find(lint, many ? LINT_ZERO_BLOCKS : kinds[i].check, place, error,
			                 "%" PRIu64 " of %" PRIu64 " blocks (%.3g %%) %s, the first in row %" PRIu64
			                 ", block %" PRIu64, sight.n, n_blocks,
			                 100 * (double)sight.n / (double)n_blocks, kinds[i].what,
			                 sight.first / row_blocks, sight.first % row_blocks);
	}
	return code;
}

static int lint_weight_data(struct lint *lint, struct transfer *transfer, const struct lint_weight *weight,
                            struct error *error)
{
	const struct lint_place place = {.file = weight->file, .tensor = weight->name};
	struct looking l = {.file = weight->file};
	bool found;
	int code = quantized_find(&l.quantized, &found, lint->model, weight->name, error);

	if (code != EXIT_OK || l.quantized.rows == 0 || l.quantized.cols == 0)
		return code;
	l.rows = l.quantized.rows;
	l.cols = l.quantized.cols;
	const struct transfer_job job = {
		.rows = l.rows,
		.cols = l.cols,
		.read = read_blocks,
		.work = look_at_blocks,
		.context = &l,
	};
	if (l.quantized.squares && (l.square = malloc((size_t)((l.cols - 1) / PIECE_BLOCK + 1))) == NULL)
		return fail_memory(error);
	code = find_tensor_scale(lint, &l, error);
	layout_read_in_bands(&l.quantized);
	if (code == EXIT_OK)
		code = transfer_run(transfer, &job, error);
	layout_bands_free(l.quantized.bands);
	free(l.square);
	return code == EXIT_OK ? find_in_blocks(lint, &l, &place, error) : code;
}

static int read_numbers(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes,
                        struct error *error)
{
	const struct looking *l = context;
	const size_t n = values_bytes(l->tensor->dtype, piece->piece.rows * piece->piece.cols);
	const size_t from = values_bytes(l->tensor->dtype, piece->piece.row * l->cols + piece->piece.col);

	*n_bytes = n;
	return file_read(l->file, l->tensor, from, piece->bytes, n, error);
}

/* One of many may be 0, of a block that is. What is subnormal in binary32 is 0 where those are flushed. */
static bool is_bad_scale(double x, bool is_alone)
{
	return is_alone ? !isnormal((float)x) || x < 0 : !isfinite(x) || x < 0;
}

static int look_at_numbers(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                           struct error *error)
{
	struct looking *l = (struct looking *)context;
	const size_t n = piece->piece.rows * piece->piece.cols;
	uint64_t from = piece->piece.row * l->cols + piece->piece.col;
	double x[VALUES_PIECE];

	(void)counts, (void)error;
	for (size_t i = 0; i < n; i += VALUES_PIECE) {
		size_t count = n - i < VALUES_PIECE ? n - i : VALUES_PIECE;

		values_decode(l->tensor->dtype, piece->bytes + values_bytes(l->tensor->dtype, i), x, count);
		for (size_t k = 0; k < count; k++) {
			see(&l->sights[piece->worker][LOOK_NON_FINITE], !isfinite(x[k]), from + i + k);
			if (l->is_scale)
				see(&l->sights[piece->worker][LOOK_SCALE], is_bad_scale(x[k], l->is_alone), from + i + k);
		}
	}
	return EXIT_OK;
}

/* Whether a dtype holds numbers that may be NaN or Inf, of whole bytes or blocks. */
static bool may_be_non_finite(enum dtype dtype)
{
	switch (dtype) {
	case DTYPE_F8_E5M2:
	case DTYPE_F8_E4M3:
	case DTYPE_F8_E4M3FNUZ:
	case DTYPE_F8_E5M2FNUZ:
	case DTYPE_F16:
	case DTYPE_BF16:
	case DTYPE_F32:
	case DTYPE_F64:
	case DTYPE_Q8_0:
		return true;
	default:
		return false;
	}
}

/* Whether a loader multiplies or divides by a tensor, by its name: of compressed-tensors, ModelOpt, Quark, FP8 and vLLM's
   attention. The `scale` of DeepSeek-V4 is one beside a weight of 8 bits; elsewhere it is a parameter. */
static bool is_scale(const struct model *model, const char *name)
{
	static const char *const suffixes[] = {
		".input_scale", ".input_global_scale", ".output_scale", ".q_scale", ".k_scale", ".v_scale", ".kv_scale",
		".prob_scale", ".weight_scale", ".weight_scale_2", ".weight_global_scale", "_scale_inv", ".pre_quant_scale",
		".qscale_weight", ".qscale_act", ".act_scale", ".activation_scale", ".scale_weight", ".scale_input",
		"_proj_input_scale", "_proj_weight_scale", "_proj_weight_scale_2", "_weight_scale_2",
	};
	const size_t stem = suffix_stem(name, ".scale");
	char weight[512];
	const struct file *file;

	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
		if (suffix_stem(name, suffixes[i]) != 0)
			return true;
	if (stem == 0 || stem + sizeof ".weight" > sizeof weight)
		return false;
	snprintf(weight, sizeof weight, "%.*s.weight", (int)stem, name);
	const struct tensor *found = model_find(model, weight, &file);
	return found != NULL && dtype_info(found->dtype)->bits == 8;
}

/* Whether it is the tensor scale of a quantized tensor, which is looked at with that. */
static bool is_tensor_scale(const struct lint *lint, const char *name)
{
	static const char *const suffixes[] = {"_global_scale", "_scale_2"};
	char weight[512];

	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
		const size_t stem = suffix_stem(name, suffixes[i]);

		if (stem == 0 || stem >= sizeof weight)
			continue;
		snprintf(weight, sizeof weight, "%.*s", (int)stem, name);
		return lint_weight(lint, weight) != NULL;
	}
	return false;
}

static int find_bad_scale(struct lint *lint, const struct looking *l, const struct lint_place *place, struct error *error)
{
	const struct sight sight = sight_of(l, LOOK_SCALE);
	unsigned char bytes[8];
	double x;

	if (sight.n == 0)
		return EXIT_OK;
	const size_t width = dtype_info(l->tensor->dtype)->bits / 8;
	int code = file_read(l->file, l->tensor, sight.first * width, bytes, width, error);
	if (code != EXIT_OK)
		return code;
	values_decode(l->tensor->dtype, bytes, &x, 1);
	if (l->is_alone)
		return lint_find(lint, LINT_SCALE_VALUE, place, error, "it is %g", x);
	return lint_find(lint, LINT_SCALE_VALUE, place, error,
	                 "%" PRIu64 " of %" PRIu64 " scales are not, the first in row %" PRIu64 ", column %" PRIu64 ": %g",
	                 sight.n, l->rows * l->cols, sight.first / l->cols, sight.first % l->cols, x);
}

static int lint_plain_data(struct lint *lint, struct transfer *transfer, const struct model_tensor *at,
                           struct error *error)
{
	const struct lint_place place = {.file = at->file, .tensor = at->tensor->name};
	const bool scale = may_be_non_finite(at->tensor->dtype) && dtype_info(at->tensor->dtype)->bits > 8 &&
	                   dtype_info(at->tensor->dtype)->block_elements == 1 &&
	                   is_scale(lint->model, at->tensor->name);
	struct looking l = {.file = at->file, .tensor = at->tensor, .is_scale = scale,
	                    .is_alone = tensor_elements(at->tensor) == 1};

	if (scale ? is_tensor_scale(lint, at->tensor->name) : lint->is_part[at - lint->model->by_name])
		return EXIT_OK;

	tensor_matrix(at->tensor, &l.rows, &l.cols);
	if (!may_be_non_finite(at->tensor->dtype) || l.rows == 0 || l.cols == 0)
		return EXIT_OK;
	const struct transfer_job job = {
		.rows = l.rows,
		.cols = l.cols,
		.read = read_numbers,
		.work = look_at_numbers,
		.context = &l,
	};
	int code = transfer_run(transfer, &job, error);
	const struct sight sight = sight_of(&l, LOOK_NON_FINITE);
	if (code == EXIT_OK && scale)
		return find_bad_scale(lint, &l, &place, error);
	if (code != EXIT_OK || sight.n == 0)
		return code;
	return lint_find(lint, LINT_NON_FINITE, &place, error,
	                 "%" PRIu64 " of %" PRIu64 " elements are NaN or Inf, the first in row %" PRIu64
	                 ", column %" PRIu64,
	                 sight.n, l.rows * l.cols, sight.first / l.cols, sight.first % l.cols);
}

int lint_blocks(struct lint *lint, struct error *error)
{
	struct transfer transfer = {.threads = lint->settings->threads};
	int code = transfer_begin(&transfer, error);

	progress_start(&transfer.progress, "checking", lint->model->data_bytes, lint->settings->quiet);
	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++)
		code = lint_weight_data(lint, &transfer, &lint->weights[i], error);
	for (size_t i = 0; i < lint->model->n_tensors && code == EXIT_OK; i++)
		code = lint_plain_data(lint, &transfer, &lint->model->by_name[i], error);
	progress_end(&transfer.progress);
	transfer_end(&transfer);
	return code;
}
