/* SPDX-License-Identifier: MIT */
/*
 * The x4 tiles of AWS Trainium3, in the order in which the kernels of nki-library load weights of experts. A tensor
 * NAME [..., N, K] in MXFP4 or MXFP8 becomes
 *
 *   NAME_e2m1_x4   U16 [..., 128, K / 512, N]  four codes a word, the first in bits 3:0; or, with 8-bit codes,
 *   NAME_e4m3_x4   U32 [..., 128, K / 512, N]  four codes a word, the first in the lowest byte; likewise NAME_e5m2_x4
 *   NAME_x4_scale  U8 (E8M0) [..., 16, K / 512, N]
 *
 * Word (p, t, n) holds elements k = 512 t + 4 p + 0, 1, 2, 3 of row n: p is the partition, the place in the word the
 * lane. 8 partitions of 4 lanes are a block; scale (s, t, n) is that of partitions 8 s to 8 s + 7, and a kernel puts it
 * into partition 32 (s / 4) + s mod 4, the first four of its quadrant. Rows are padded to whole tiles of 512 with codes
 * of zero and scales of 1.
 */
#include "config.h"

#include <string.h>

#include "io/file_safetensors.h"
#include "model/layout_config.h"
#include "model/quantized.h"

enum { PARTITIONS = 128, LANES = 4, TILE = PARTITIONS * LANES, SCALES = TILE / 32, RUN = 1024, SCALE_OF_PADDING = 127 };

/* The parts of a form. */
#define PARTS(suffix, codes) \
	{[LAYOUT_CODES] = {"", suffix, DTYPE_##codes}, [LAYOUT_SCALES] = {"", "_x4_scale", DTYPE_U8}}

#define ACTIVATIONS (1u << MXFP_FORMAT_MXFP8_E4M3 | 1u << MXFP_FORMAT_MXFP8_E5M2)

static const struct layout_form forms[] = {
	{MXFP_FORMAT_MXFP4, "mxfp4-x4", true, false, PARTS("_e2m1_x4", U16), ACTIVATIONS},
	{MXFP_FORMAT_MXFP8_E4M3, "mxfp8-e4m3-x4", true, false, PARTS("_e4m3_x4", U32), ACTIVATIONS},
	{MXFP_FORMAT_MXFP8_E5M2, "mxfp8-e5m2-x4", true, false, PARTS("_e5m2_x4", U32), ACTIVATIONS},
};

static const char *refuses(const struct layout_choice *choice, const struct layout_shape *source)
{
	(void)choice;
	if (source->rank < 2)
		return "has one dimension";
	return source->dims[source->rank - 1] > SIZE_MAX / 64 ? "its rows are too long" : NULL;
}

static uint64_t tiles_of(uint64_t cols)
{
	return cols / TILE + (cols % TILE != 0);
}

static void describe(const struct layout_choice *choice, enum layout_part part, const struct layout_shape *source,
                     struct layout_shape *shape)
{
	uint64_t *last = &shape->dims[source->rank - 2];

	(void)choice;
	*shape = *source;
	shape->rank++;
	last[0] = part == LAYOUT_CODES ? PARTITIONS : SCALES;
	last[1] = tiles_of(source->dims[source->rank - 1]);
	last[2] = source->dims[source->rank - 2];
}

static bool padded_shape(const struct layout_choice *choice, const struct tensor *const *parts,
                         struct layout_shape *source)
{
	const struct tensor *scales = parts[LAYOUT_SCALES];

	if (scales->rank < 3 || scales->rank > LAYOUT_RANK_MAX || scales->shape[scales->rank - 2] > SIZE_MAX / 64 / TILE)
		return false;
	*source = (struct layout_shape){.rank = scales->rank - 1};
	for (unsigned i = 0; i + 3 < scales->rank; i++)
		source->dims[i] = scales->shape[i];
	source->dims[source->rank - 2] = scales->shape[scales->rank - 1];
	source->dims[source->rank - 1] = scales->shape[scales->rank - 2] * TILE;
	return refuses(choice, source) == NULL;
}

/* Columns of words or of scales: `count` of them, of `width` bytes each, are a column in `per_tile` of every tile. */
struct column {
	const struct layout_shape *source;
	uint64_t number; /* within a row */
	uint64_t per_tile;
	size_t width;
};

/* The byte at which row `row` of a column lies in its part, and how many rows follow each other from there on. */
static uint64_t place_of(const struct column *c, uint64_t row, uint64_t *n_rows)
{
	uint64_t n = c->source->dims[c->source->rank - 2], tiles = tiles_of(c->source->dims[c->source->rank - 1]);
	uint64_t line = (row / n * c->per_tile + c->number % c->per_tile) * tiles + c->number / c->per_tile;

	*n_rows = n - row % n;
	return (line * n + row % n) * c->width;
}

/* How many rows of a piece from its row `at` on are moved at once. */
static size_t run_length(const struct piece *piece, size_t at, uint64_t n_rows)
{
	size_t run = piece->rows - at < RUN ? piece->rows - at : RUN;

	return n_rows < run ? (size_t)n_rows : run;
}

/* Reads a column of a piece into rows that are `stride` bytes apart. */
static int read_column(const struct quantized *q, enum layout_part part, const struct column *c,
                       const struct piece *piece, unsigned char *rows, size_t stride, struct error *error)
{
	unsigned char words[RUN * sizeof(uint32_t)];
	uint64_t n_rows;
	size_t n;

	for (size_t at = 0; at < piece->rows; at += n) {
		uint64_t from = place_of(c, piece->row + at, &n_rows);

		n = run_length(piece, at, n_rows);
		int code = file_read(q->files[part], q->parts[part], from, words, n * c->width, error);
		if (code != EXIT_OK)
			return code;
		for (size_t i = 0; i < n; i++)
			memcpy(rows + (at + i) * stride, words + i * c->width, c->width);
	}
	return EXIT_OK;
}

/* Writes a column of a piece out of such rows; without rows, one of padding. */
static int write_column(const struct layout_target *target, enum layout_part part, const struct column *c,
                        const struct piece *piece, const unsigned char *rows, size_t stride, struct error *error)
{
	unsigned char words[RUN * sizeof(uint32_t)];
	uint64_t n_rows;
	size_t n;

	memset(words, part == LAYOUT_SCALES ? SCALE_OF_PADDING : 0, sizeof words);
	for (size_t at = 0; at < piece->rows; at += n) {
		uint64_t from = place_of(c, piece->row + at, &n_rows);

		n = run_length(piece, at, n_rows);
		for (size_t i = 0; i < n && rows != NULL; i++)
			memcpy(words + i * c->width, rows + (at + i) * stride, c->width);
		int code = writer_write(target->writer, target->parts[part], from, words, n * c->width, error);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

/* The columns of a part that a piece holds: those of codes, of LANES elements each, or those of scales. */
struct columns {
	struct column first;
	size_t count, stride;
	uint64_t end; /* of a row: columns from the last one of the last piece to here are padding */
};

static struct columns columns_of(const struct layout_choice *choice, enum layout_part part,
                                 const struct layout_shape *source, const struct piece *piece)
{
	const struct piece row = {.rows = 1, .cols = piece->cols};
	const struct layout_slice slice = layout_slice(choice->form->format, piece->cols, &row);
	unsigned per_tile = part == LAYOUT_CODES ? PARTITIONS : SCALES, elements = TILE / per_tile;
	size_t blocks = slice.size.scales_row_bytes, count = part == LAYOUT_CODES ? blocks * 32 / LANES : blocks;
	size_t stride = part == LAYOUT_CODES ? slice.size.codes_row_bytes : blocks;

	return (struct columns){
		.first = {source, piece->col / elements, per_tile, stride / count},
		.count = count,
		.stride = stride,
		.end = tiles_of(source->dims[source->rank - 1]) * per_tile,
	};
}

static int read_columns(const struct quantized *q, enum layout_part part, const struct piece *piece,
                        unsigned char *rows, struct error *error)
{
	const struct columns columns = columns_of(&q->choice, part, &q->shape, piece);
	struct column column = columns.first;
	int code = EXIT_OK;

	for (size_t i = 0; i < columns.count && code == EXIT_OK; i++, column.number++)
		code = read_column(q, part, &column, piece, rows + i * column.width, columns.stride, error);
	return code;
}

static int write_columns(const struct layout_target *target, enum layout_part part, const struct piece *piece,
                         const unsigned char *rows, struct error *error)
{
	const struct columns columns = columns_of(&target->choice, part, &target->source, piece);
	struct column column = columns.first;
	int code = EXIT_OK;

	for (size_t i = 0; i < columns.count && code == EXIT_OK; i++, column.number++)
		code = write_column(target, part, &column, piece, rows + i * column.width, columns.stride, error);
	if (piece->col + piece->cols < target->cols)
		return code;
	for (; column.number < columns.end && code == EXIT_OK; column.number++)
		code = write_column(target, part, &column, piece, NULL, 0, error);
	return code;
}

static int read_piece(const struct quantized *q, const struct piece *piece, const struct mxfp_blocks *blocks,
                      struct error *error)
{
	int code = read_columns(q, LAYOUT_CODES, piece, blocks->codes, error);

	return code != EXIT_OK ? code : read_columns(q, LAYOUT_SCALES, piece, blocks->scales, error);
}

static int write_piece(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
                       struct error *error)
{
	int code = write_columns(target, LAYOUT_CODES, piece, blocks->codes, error);

	return code != EXIT_OK ? code : write_columns(target, LAYOUT_SCALES, piece, blocks->scales, error);
}

static const struct layout_order order = {refuses, describe, padded_shape, TILE, read_piece, write_piece};

/* No loader reads it; it says that the weights are not plain, and which modules' are. */
static json_t *config(const struct layout_facts *facts)
{
	return json_pack("{s:O}", "ignore", facts->ignore);
}

const struct layout layout_trn_x4 = {
	.name = "trn-x4",
	.meaning = "MXFP4 and MXFP8 in tiles for AWS Trainium3",
	.file_format = &file_safetensors,
	.order = &order,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.method = "trn-x4",
	.config = config,
};
