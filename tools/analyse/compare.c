/* SPDX-License-Identifier: MIT */
/* Comparing two tensors, in pieces: bits where the dtypes agree, values where both are known. */
#include "config.h"

#include "analyse/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "io/elements.h"
#include "io/piece.h"
#include "model/role.h"

enum {
	COLUMNS_ELEMENTS = 1 << 22 /* of a piece if a tensor lies by columns: the more rows, the fewer system calls */
};

/* A side and memory for its pieces. */
struct reader {
	const struct compare_side *side;
	struct tensor rows;    /* of one that is not quantized: its matrix as the other's blocks lie */
	struct quantized quantized;
	unsigned char *bytes;  /* as the file has them; or codes */
	uint8_t *scales;
	float *decoded;        /* of a quantized tensor */
};

struct pair {
	struct comparison *c;
	uint64_t rows, cols;
	struct reader a, b;
	double x[VALUES_PIECE], y[VALUES_PIECE];
};

bool compare_differs(enum compare_result result)
{
	return result != COMPARE_EQUAL && result != COMPARE_SAME_VALUE;
}

bool compare_looked(const struct comparison *c)
{
	return c->measured || c->result <= COMPARE_VALUE;
}

/* Codes of few bits in a quantized model, of which it was not found what they are. */
static bool are_codes(const struct model *model, const struct tensor *tensor)
{
	const struct dtype_info *info = dtype_info(tensor->dtype);

	return model_quantized_by(model) != NULL && info->bits <= 8 && tensor->dtype != DTYPE_BOOL;
}

static void set_plain(struct compare_side *side, const struct model *model, const struct tensor *tensor,
                      const struct file *file)
{
	side->tensor = tensor;
	side->file = file;
	side->decoded = false;
	side->unread |= are_codes(model, tensor);
	side->shown = *tensor;
}

/* The shape is that of the tensor before it was quantized. */
static void set_quantized(struct compare_side *side, const char *name)
{
	const struct layout_shape *shape = &side->quantized.shape;

	side->tensor = side->quantized.parts[LAYOUT_CODES];
	side->file = side->quantized.files[LAYOUT_CODES];
	side->decoded = true;
	memcpy(side->dims, shape->dims, sizeof side->dims);
	if (side->quantized.transposed) {
		side->dims[shape->rank - 1] = shape->dims[shape->rank - 2];
		side->dims[shape->rank - 2] = shape->dims[shape->rank - 1];
	}
	side->shown = (struct tensor){.name = name, .rank = shape->rank, .shape = side->dims};
}

/* An error of the search for a quantized tensor is no error here if the file alone is to blame. */
static int note_unread(struct compare_side *side, int code, struct error *unread, struct error *error)
{
	side->unread = code == EXIT_INPUT;
	if (!side->unread)
		return code;
	if (unread->text[0] == '\0')
		*unread = *error;
	error->text[0] = '\0';
	return EXIT_OK;
}

int compare_own(struct compare_side *side, bool *has, const struct model *model, const struct model_tensor *tensor,
                struct arena *arena, struct error *unread, struct error *error)
{
	const char *name;

	*side = (struct compare_side){.unread = false};
	*has = true;
	int code = quantized_owner(&side->quantized, &name, model, tensor->tensor, arena, error);
	if (code != EXIT_OK) {
		code = note_unread(side, code, unread, error);
		name = NULL;
	}
	/* The scale of activations is no part of the numbers. */
	if (name == NULL || side->quantized.parts[LAYOUT_INPUT_SCALE] == tensor->tensor)
		set_plain(side, model, tensor->tensor, tensor->file);
	else if (side->quantized.parts[LAYOUT_CODES] == tensor->tensor)
		set_quantized(side, name);
	else
		*has = false;
	return code;
}

int compare_find(struct compare_side *side, const struct model *model, const char *name, struct error *unread,
                 struct error *error)
{
	bool found;

	*side = (struct compare_side){.unread = false};
	int code = quantized_find(&side->quantized, &found, model, name, error);
	if (code != EXIT_OK) {
		code = note_unread(side, code, unread, error);
		found = false;
	}
	if (code != EXIT_OK)
		return code;
	const struct file *file;
	const struct tensor *tensor = found ? NULL : model_find(model, name, &file);
	if (found)
		set_quantized(side, name);
	else if (tensor != NULL)
		set_plain(side, model, tensor, file);
	return EXIT_OK;
}

static bool same_dims(unsigned rank, const uint64_t *a, unsigned rank_b, const uint64_t *b)
{
	return rank == rank_b && (rank == 0 || memcmp(a, b, rank * sizeof *a) == 0);
}

/* Two quantized tensors are compared as their blocks lie, because not every file says how the tensor lay before. */
static bool same_shape(const struct compare_side *a, const struct compare_side *b)
{
	const struct layout_shape *x = &a->quantized.shape, *y = &b->quantized.shape;

	if (a->decoded && b->decoded)
		return same_dims(x->rank, x->dims, y->rank, y->dims);
	return same_dims(a->shown.rank, a->shown.shape, b->shown.rank, b->shown.shape);
}

static bool same_format(const struct compare_side *a, const struct compare_side *b)
{
	if (a->decoded && b->decoded)
		return a->quantized.choice.form->format == b->quantized.choice.form->format;
	return !a->decoded && !b->decoded && a->tensor->dtype == b->tensor->dtype;
}

static bool has_values(const struct compare_side *side, const struct compare_side *other)
{
	const enum dtype dtype = side->tensor->dtype;

	if (side->decoded)
		return true;
	if (side->unread || !other->decoded)
		return !side->unread && values_are_known(dtype);
	/* What is read in rows beside blocks may begin within a byte of codes of few bits. */
	return elements_are_float(dtype) || (dtype == DTYPE_Q8_0 && !other->quantized.transposed);
}

/* Reads a piece, and decodes it if it is quantized. */
static int read_piece(const struct reader *r, const struct piece *piece, uint64_t cols, struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const enum dtype dtype = r->rows.dtype;
	uint64_t n_bytes;

	if (!r->side->decoded) {
		const struct dtype_info *info = dtype_info(dtype);
		uint64_t from = (piece->row * cols + piece->col) / info->block_elements * info->bits / 8;

		return file_read_rows(r->side->file, &r->rows, from, r->bytes, values_bytes(dtype, piece->rows * piece->cols),
		                      error);
	}
	const struct mxfp_blocks blocks = quantized_blocks(&r->quantized, piece, r->bytes, r->scales);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	int code = quantized_read(&r->quantized, piece, &blocks, &n_bytes, error);
	if (code == EXIT_OK)
		must_succeed(dense_dequantize(r->decoded, MXFP_FORMAT_F32, &matrix, &exec));
	return code;
}

/* Elements below 8 bits are compared by the byte, and blocks whole: how many elements there are in them does not matter
   for equality. */
static void count_bits(struct comparison *c, const struct pair *pair, uint64_t first, size_t n)
{
	const bool decoded = c->a.decoded;
	const struct dtype_info *info = dtype_info(decoded ? DTYPE_F32 : c->a.tensor->dtype);
	const unsigned bits = info->bits, block = info->block_elements;
	const unsigned char *a = decoded ? (const void *)pair->a.decoded : pair->a.bytes;
	const unsigned char *b = decoded ? (const void *)pair->b.decoded : pair->b.bytes;
	const size_t width = bits < 8 ? 1 : bits / 8, units = (n / block * bits + 7) / 8 / width;

	if (memcmp(a, b, units * width) == 0)
		return;
	for (size_t i = 0; i < units; i++)
		if (memcmp(a + i * width, b + i * width, width) != 0 && c->unequal_bits++ == 0 && !c->measured)
			c->first_unequal = first + (bits < 8 ? i * 8 / bits : i * block);
}

/* Elements of a piece as numbers. */
static void decode_values(const struct reader *r, size_t from, double *x, size_t n)
{
	const enum dtype dtype = r->rows.dtype;

	if (!r->side->decoded)
		values_decode(dtype, r->bytes + values_bytes(dtype, from), x, n);
	for (size_t i = 0; r->side->decoded && i < n; i++)
		x[i] = (double)r->decoded[from + i];
}

static int compare_piece(struct pair *pair, const struct piece *piece, struct error *error)
{
	struct comparison *c = pair->c;
	const size_t n = piece->rows * piece->cols;
	int code = read_piece(&pair->a, piece, pair->cols, error);

	if (code == EXIT_OK)
		code = read_piece(&pair->b, piece, pair->cols, error);
	if (code != EXIT_OK)
		return code;
	if (same_format(&c->a, &c->b))
		count_bits(c, pair, piece->row * pair->cols + piece->col, n);
	for (size_t from = 0; c->measured && from < n; from += VALUES_PIECE) {
		const size_t some = n - from < VALUES_PIECE ? n - from : VALUES_PIECE;

		decode_values(&pair->a, from, pair->x, some);
		decode_values(&pair->b, from, pair->y, some);
		stats_add_double(&c->stats, pair->x, pair->y, some);
	}
	return EXIT_OK;
}

/* Moves to the next piece of both. */
static bool next_piece(const struct pair *pair, struct piece *piece)
{
	const bool by_columns = pair->a.rows.by_columns || pair->b.rows.by_columns;

	if (!by_columns || pair->cols > COLUMNS_ELEMENTS)
		return piece_next(piece, pair->rows, pair->cols);
	piece->row += piece->rows;
	if (piece->row >= pair->rows || pair->cols == 0)
		return false;
	piece->rows = (size_t)(COLUMNS_ELEMENTS / pair->cols);
	if (piece->rows > pair->rows - piece->row)
		piece->rows = (size_t)(pair->rows - piece->row);
	piece->cols = (size_t)pair->cols;
	return true;
}

/* Takes memory for pieces as large as the first. */
static bool begin(struct reader *r, const struct piece *first)
{
	const size_t n = first->rows * first->cols;
	struct mxfp_sizes size;

	if (!r->side->decoded) {
		r->bytes = malloc(values_bytes(r->rows.dtype, n) + 1);
		return r->bytes != NULL;
	}
	if (mxfp_blocks_size(&size, r->quantized.choice.form->format, first->rows, first->cols) != MXFP_OK)
		return false;
	layout_read_in_bands(&r->quantized);
	r->bytes = malloc(size.codes_bytes + 1);
	r->scales = malloc(size.scales_bytes + 1);
	r->decoded = malloc((n + 1) * sizeof *r->decoded);
	return r->bytes != NULL && r->scales != NULL && r->decoded != NULL;
}

static void end(struct reader *r)
{
	layout_bands_free(r->quantized.bands);
	free(r->bytes);
	free(r->scales);
	free(r->decoded);
}

/* What is not quantized is read as the other's blocks lie. */
static bool set_rows(struct reader *r, const struct compare_side *other, struct arena *arena)
{
	r->quantized = r->side->quantized;
	r->rows = *r->side->tensor;
	return r->side->decoded || !other->decoded || !other->quantized.transposed ||
	       role_turn(&r->rows, r->side->tensor, arena);
}

/* The matrix that both are; one row if nothing says otherwise, so that pieces are whole bytes and blocks. */
static void set_matrix(struct pair *pair)
{
	const struct compare_side *a = &pair->c->a, *b = &pair->c->b;

	if (a->decoded || b->decoded) {
		pair->rows = (a->decoded ? a : b)->quantized.rows;
		pair->cols = (a->decoded ? a : b)->quantized.cols;
	} else if (pair->a.rows.by_columns || pair->b.rows.by_columns) {
		tensor_matrix(&pair->a.rows, &pair->rows, &pair->cols);
	} else {
		pair->rows = 1;
		pair->cols = tensor_elements(a->tensor);
	}
}

static int compare_values(struct comparison *c, struct progress *progress, struct error *error)
{
	struct pair pair = {.c = c, .a.side = &c->a, .b.side = &c->b};
	struct arena arena = {0};
	struct piece piece = {.rows = 0};
	bool complete = set_rows(&pair.a, &c->b, &arena) && set_rows(&pair.b, &c->a, &arena);

	set_matrix(&pair);
	if (complete && next_piece(&pair, &piece)) {
		complete = begin(&pair.a, &piece);
		complete = begin(&pair.b, &piece) && complete;
	}
	int code = complete ? EXIT_OK : fail_memory(error);
	for (bool more = piece.rows > 0; more && code == EXIT_OK; more = next_piece(&pair, &piece)) {
		code = compare_piece(&pair, &piece, error);
		progress_add(progress, (uint64_t)((double)c->a.tensor->size / (double)pair.rows * (double)piece.rows /
		                                  (double)pair.cols * (double)piece.cols));
	}
	end(&pair.a);
	end(&pair.b);
	arena_free(&arena);
	return code;
}

/* Floats have more bit patterns than values; in every other dtype other bits are another value. */
static bool bits_are_values(const struct compare_side *side)
{
	const enum dtype dtype = side->tensor->dtype;

	if (side->decoded)
		return false;
	return side->unread || (!dtype_info(dtype)->numeric && dtype != DTYPE_F64 && dtype != DTYPE_Q8_0);
}

static enum compare_result conclude(const struct comparison *c)
{
	if (!same_format(&c->a, &c->b))
		return COMPARE_DTYPE;
	if (c->unequal_bits == 0)
		return COMPARE_EQUAL;
	if (bits_are_values(&c->a) || c->stats.unequal > 0)
		return COMPARE_VALUE;
	return COMPARE_SAME_VALUE;
}

/* An element of blocks, of which there are some, as one of the tensor that was [.., in, out]. */
static uint64_t turned_index(const struct quantized *q, uint64_t i)
{
	const uint64_t height = q->shape.dims[q->shape.rank - 2], matrix = height * q->cols, in = i % matrix;

	return i - in + in % q->cols * height + in / q->cols;
}

int compare_tensors(struct comparison *c, struct progress *progress, struct error *error)
{
	const struct compare_side *blocks = c->a.decoded ? &c->a : &c->b;
	int code = EXIT_OK;

	if (c->a.tensor == NULL || c->b.tensor == NULL || !same_shape(&c->a, &c->b)) {
		c->result = c->a.tensor == NULL ? COMPARE_ONLY_B : c->b.tensor == NULL ? COMPARE_ONLY_A : COMPARE_SHAPE;
		return EXIT_OK;
	}
	c->measured = has_values(&c->a, &c->b) && has_values(&c->b, &c->a);
	if (c->measured || same_format(&c->a, &c->b))
		code = compare_values(c, progress, error);
	if (c->measured && c->stats.unequal > 0)
		c->first_unequal = c->stats.first_unequal;
	if (blocks->decoded && blocks->quantized.transposed && c->first_unequal != 0)
		c->first_unequal = turned_index(&blocks->quantized, c->first_unequal);
	c->result = conclude(c);
	return code;
}
