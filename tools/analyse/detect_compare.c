/* SPDX-License-Identifier: MIT */
/* Pieces of one tensor, quantized in many ways and compared with those of the file. */
#include "config.h"

#include "analyse/detect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "io/elements.h"
#include "model/gguf_name.h"
#include "mxfp/convert.h"

enum {
	SAMPLE_ELEMENTS = 1 << 14, /* of a piece, unless a row that may not be cut is longer */
	SAMPLE_PIECES_MIN = 8,     /* even when one way is left */
	SAMPLE_PIECES = 64,        /* a power of 2; all with --all */
	NEAREST = 8,               /* ways that stay when none is exact */
};

/* A tensor at work. Its numbers lie in one allocation, and so do its bytes. */
struct comparing {
	const struct detect_ways *ways;
	const struct detect_tensor *tensor;
	const struct detect_settings *settings;
	struct detect_result *result;
	struct piece piece;
	float *x, *rounded;                                     /* the source, and the same via another format */
	uint8_t *codes, *scales, *made_codes, *made_scales; /* the file's, and those of a way */
};

/* How a matrix is cut into pieces. */
struct cut {
	uint64_t rows, cols;         /* of a piece */
	uint64_t n_across, n_pieces; /* in a row of pieces; in all */
};

static struct cut cut_of(const struct quantized *q)
{
	uint64_t longest = q->choice.form->sparse ? PIECE_ELEMENTS : q->squares ? q->cols : SAMPLE_ELEMENTS;
	struct cut cut = {.cols = q->cols < longest ? q->cols : longest};
	uint64_t padded = (cut.cols + PIECE_BLOCK - 1) / PIECE_BLOCK * PIECE_BLOCK;

	cut.rows = padded < SAMPLE_ELEMENTS ? SAMPLE_ELEMENTS / padded : 1;
	if (q->squares)
		cut.rows = (cut.rows + DETECT_SQUARE - 1) / DETECT_SQUARE * DETECT_SQUARE;
	cut.n_across = (q->cols - 1) / cut.cols + 1;
	cut.n_pieces = ((q->rows - 1) / cut.rows + 1) * cut.n_across;
	return cut;
}

static struct piece piece_at(const struct quantized *q, const struct cut *cut, uint64_t i)
{
	struct piece piece = {.row = i / cut->n_across * cut->rows, .col = i % cut->n_across * cut->cols};

	piece.rows = (size_t)(q->rows - piece.row < cut->rows ? q->rows - piece.row : cut->rows);
	piece.cols = (size_t)(q->cols - piece.col < cut->cols ? q->cols - piece.col : cut->cols);
	return piece;
}

/* The i-th of the pieces to look at: of many, some from all over the tensor, far apart from the start. */
static uint64_t place_of(uint64_t n_pieces, uint64_t i, bool all)
{
	uint64_t reversed = 0;

	if (all || n_pieces <= SAMPLE_PIECES)
		return i;
	for (uint64_t bit = 1; bit < SAMPLE_PIECES; bit *= 2)
		reversed = reversed * 2 + ((i & bit) != 0);
	return n_pieces / SAMPLE_PIECES * reversed + n_pieces % SAMPLE_PIECES * reversed / SAMPLE_PIECES;
}

static size_t n_elements(const struct comparing *c)
{
	return c->piece.rows * c->piece.cols;
}

/* Reads the rows of the source that those of the quantized piece were. */
static int read_rows(const struct comparing *c, struct error *error)
{
	const struct detect_tensor *t = c->tensor;
	int code = EXIT_OK;

	if (t->head_rows == 0)
		return elements_read(t->file, t->source, c->piece.row * t->quantized.cols + c->piece.col, c->x, n_elements(c),
		                     error);
	for (size_t i = 0; i < c->piece.rows && code == EXIT_OK; i++)
		code = elements_read(t->file, t->source,
		                     gguf_row(c->piece.row + i, t->head_rows, t->from_gguf) * t->quantized.cols + c->piece.col,
		                     c->x + i * c->piece.cols, c->piece.cols, error);
	return code;
}

static int read_source(const struct comparing *c, struct error *error)
{
	const struct detect_tensor *t = c->tensor;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	int code = read_rows(c, error);

	if (code != EXIT_OK || !t->quantized.choice.form->sparse)
		return code;
	struct mxfp_sparse masks = {
		.size = sizeof masks, .format = MXFP_FORMAT_F32,
		.sparsity = t->quantized.choice.sparsity,
		.rows = c->piece.rows,
		.cols = c->piece.cols,
		.masks = c->made_codes,
	};
	must_succeed(dense_prune(&masks, c->x, MXFP_FORMAT_F32, c->x, &exec));
	return EXIT_OK;
}

/* The numbers of the piece as a way has them. Ways via one format follow each other. */
static const float *source_via(const struct comparing *c, enum mxfp_format via, enum mxfp_format *last)
{
	if (via == MXFP_FORMAT_F32)
		return c->x;
	if (via != *last) {
		mxfp_convert_array(c->made_codes, via, c->x, MXFP_FORMAT_F32, n_elements(c), NULL, ONE_THREAD);
		mxfp_convert_array(c->rounded, MXFP_FORMAT_F32, c->made_codes, via, n_elements(c), NULL, ONE_THREAD);
		*last = via;
	}
	return c->rounded;
}

static float amax_via(float amax, enum mxfp_format via)
{
	uint16_t narrow;
	float rounded;

	if (via == MXFP_FORMAT_F32)
		return amax;
	mxfp_convert_array(&narrow, via, &amax, MXFP_FORMAT_F32, 1, NULL, ONE_THREAD);
	mxfp_convert_array(&rounded, MXFP_FORMAT_F32, &narrow, via, 1, NULL, ONE_THREAD);
	return isfinite(rounded) ? rounded : amax; /* not what overflowed */
}

static unsigned code_at(const uint8_t *row, size_t i, unsigned bits)
{
	size_t at = i * bits;
	unsigned low = row[at / 8], high = at % 8 + bits > 8 ? row[at / 8 + 1] : 0;

	return ((high << 8 | low) >> at % 8) & ((1u << bits) - 1);
}

/* Codes of one row that are equal, or in a block whose scale is NaN, where codes mean nothing. */
static uint64_t count_equal_codes(const struct comparing *c, const uint8_t *codes, const uint8_t *made,
                                  const uint8_t *scales)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(c->ways->format);
	unsigned bits = mxfp_format_get_info(info->element)->bits;
	uint64_t equal = 0;

	for (size_t i = 0; i < c->piece.cols; i++)
		equal += code_at(codes, i, bits) == code_at(made, i, bits) ||
		         quantized_scale_is_nan(c->ways->format, scales[i / info->block_length]);
	return equal;
}

static void add_score(const struct comparing *c, struct detect_score *score)
{
	const struct mxfp_sizes size = layout_slice(c->ways->format, c->tensor->quantized.cols, &c->piece).size;

	for (size_t row = 0; row < c->piece.rows; row++) {
		const uint8_t *codes = c->codes + row * size.codes_row_bytes;
		const uint8_t *made = c->made_codes + row * size.codes_row_bytes;

		if (memcmp(codes, made, size.codes_row_bytes) == 0)
			score->equal_codes += c->piece.cols;
		else
			score->equal_codes +=
				count_equal_codes(c, codes, made, c->scales + row * size.scales_row_bytes);
	}
	score->elements += n_elements(c);
	for (size_t i = 0; i < size.scales_bytes; i++)
		score->equal_scales += c->scales[i] == c->made_scales[i];
	score->scales += size.scales_bytes;
}

/* Quantizes the piece in one way. */
static void quantize(const struct comparing *c, const struct detect_way *way, const float *x, float amax)
{
	struct mxfp_quantize_options options = detect_options(way, c->tensor, &c->piece, c->settings);
	struct mxfp_blocks made = {
		.size = sizeof made, .format = c->ways->format,
		.rows = c->piece.rows,
		.cols = c->piece.cols,
		.codes = c->made_codes,
		.scales = c->made_scales,
	};

	options.tensor_amax = mxfp_some(amax);
	must_succeed(dense_quantize(&made, MXFP_FORMAT_F32, x, &options, ONE_THREAD));
}

static void try_ways(const struct comparing *c)
{
	const struct mxfp_blocks file = quantized_blocks(&c->tensor->quantized, &c->piece, c->codes, c->scales);
	bool has_scale = mxfp_format_get_info(c->ways->format)->tensor_scale;
	enum mxfp_format last = MXFP_FORMAT_F32;

	for (size_t i = 0; i < c->ways->n; i++) {
		const struct detect_way *way = &c->ways->items[i];
		enum detect_scale found = DETECT_SCALE_OWN;
		float amax = amax_via(c->tensor->amax, way->via);

		if (!c->result->alive[i])
			continue;
		if (has_scale)
			amax = detect_amax(c->ways, way, amax, &file, &found);
		c->result->tensor_scale[i] = found;
		quantize(c, way, source_via(c, way->via, &last), amax);
		add_score(c, &c->result->scores[i]);
	}
}

bool detect_is_exact(const struct detect_result *result, size_t way)
{
	const struct detect_score *score = &result->scores[way];

	return score->equal_codes == score->elements && score->equal_scales == score->scales &&
	       result->tensor_scale[way] != DETECT_SCALE_NONE;
}

double detect_nearness(const struct detect_score *score)
{
	if (score->elements == 0)
		return 0;
	return (double)score->equal_codes / (double)score->elements +
	       (double)score->equal_scales / (double)score->scales;
}

static size_t n_alive(const struct comparing *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->ways->n; i++)
		n += c->result->alive[i];
	return n;
}

/* The nearest way that is alive and not kept yet. */
static size_t nearest(const struct comparing *c, const bool *kept)
{
	const struct detect_score *scores = c->result->scores;
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < c->ways->n; i++)
		if (c->result->alive[i] && !kept[i] &&
		    (best == SIZE_MAX || detect_nearness(&scores[i]) > detect_nearness(&scores[best])))
			best = i;
	return best;
}

/* Drops ways that differ; if all do, all but the nearest. A way that gives the tensor scale by itself explains more
   than one to which a largest magnitude must be lent. */
static void drop(const struct comparing *c)
{
	bool kept[DETECT_WAYS_MAX] = {false};
	size_t n = 0;

	for (int scale = DETECT_SCALE_OWN; scale < DETECT_SCALE_NONE && n == 0; scale++)
		for (size_t i = 0; i < c->ways->n; i++) {
			kept[i] = c->result->alive[i] && detect_is_exact(c->result, i) &&
			          c->result->tensor_scale[i] == (enum detect_scale)scale;
			n += kept[i];
		}
	for (size_t k = 0; n == 0 && k < NEAREST && nearest(c, kept) != SIZE_MAX; k++)
		kept[nearest(c, kept)] = true;
	memcpy(c->result->alive, kept, sizeof kept);
}

static int compare_piece(const struct comparing *c, struct error *error)
{
	const struct mxfp_blocks blocks = quantized_blocks(&c->tensor->quantized, &c->piece, c->codes, c->scales);
	uint64_t n_bytes;
	int code = read_source(c, error);

	if (code == EXIT_OK)
		code = quantized_read(&c->tensor->quantized, &c->piece, &blocks, &n_bytes, error);
	if (code != EXIT_OK)
		return code;
	try_ways(c);
	drop(c);
	return EXIT_OK;
}

int detect_compare(struct detect_result *result, const struct detect_ways *ways, const struct detect_tensor *tensor,
                   const struct detect_settings *settings, struct error *error)
{
	struct comparing c = {.ways = ways, .tensor = tensor, .settings = settings, .result = result};
	int code = EXIT_OK;

	if (tensor->quantized.rows == 0 || tensor->quantized.cols == 0)
		return EXIT_OK;
	const struct cut cut = cut_of(&tensor->quantized);
	const uint64_t most = cut.rows * ((cut.cols - 1) / PIECE_BLOCK + 1) * PIECE_BLOCK;
	const size_t n = most < SIZE_MAX / 8 ? (size_t)most : SIZE_MAX / 8;
	c.x = malloc(2 * n * sizeof *c.x);
	c.codes = malloc(5 * n);
	if (c.x == NULL || c.codes == NULL)
		code = fail_memory(error);
	else {
		c.rounded = c.x + n;
		c.scales = c.codes + n;
		c.made_scales = c.scales + n;
		c.made_codes = c.made_scales + n; /* or numbers of 16 bits */
	}
	for (uint64_t i = 0; i < cut.n_pieces && code == EXIT_OK; i++) {
		if (!settings->all && (i == SAMPLE_PIECES || (i >= SAMPLE_PIECES_MIN && n_alive(&c) == 1)))
			break;
		c.piece = piece_at(&tensor->quantized, &cut, place_of(cut.n_pieces, i, settings->all));
		code = compare_piece(&c, error);
	}
	free(c.x);
	free(c.codes);
	return code;
}
