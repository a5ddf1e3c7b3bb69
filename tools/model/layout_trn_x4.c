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
 *
 * Columns of words and of scales lie one after the other. A piece has few rows of each, so a tensor goes through bands
 * (layout_bands.h) of many rows, which hold first the columns of words, then those of scales.
 */
#include "config.h"

#include <string.h>

#include "io/file_safetensors.h"
#include "model/layout_bands.h"
#include "model/layout_config.h"

enum { PARTITIONS = 128, LANES = 4, TILE = PARTITIONS * LANES, SCALES = TILE / 32, RUN = 1024, SCALE_OF_PADDING = 127 };

/* The parts of a form. */
#define PARTS(suffix, codes) \
	{[LAYOUT_CODES] = {"", suffix, DTYPE_##codes}, [LAYOUT_SCALES] = {"", "_x4_scale", DTYPE_U8}}

#define ACTIVATIONS (1u << MXFP_FORMAT_MXFP8_E4M3 | 1u << MXFP_FORMAT_MXFP8_E5M2)

static const struct layout_form forms[] = {
	{MXFP_FORMAT_MXFP4, "mxfp4-x4", true, false, PARTS("_e2m1_x4", U16), ACTIVATIONS, 0},
	{MXFP_FORMAT_MXFP8_E4M3, "mxfp8-e4m3-x4", true, false, PARTS("_e4m3_x4", U32), ACTIVATIONS, 0},
	{MXFP_FORMAT_MXFP8_E5M2, "mxfp8-e5m2-x4", true, false, PARTS("_e5m2_x4", U32), ACTIVATIONS, 0},
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
	uint64_t band_at; /* bytes of a row that stand before all such columns in a band */
};

/* The byte at which row `row` of a column lies in its part, and how many rows follow each other from there on. */
static uint64_t place_of(const struct column *c, uint64_t row, uint64_t *n_rows)
{
	uint64_t n = c->source->dims[c->source->rank - 2], tiles = tiles_of(c->source->dims[c->source->rank - 1]);
	uint64_t line = (row / n * c->per_tile + c->number % c->per_tile) * tiles + c->number / c->per_tile;

	*n_rows = n - row % n;
	return (line * n + row % n) * c->width;
}

/* Takes the words of a column out of rows that are `stride` bytes apart. Of three lengths, for which compilers need no
   call. */
static void gather(unsigned char *words, const unsigned char *rows, size_t n, size_t stride, size_t width)
{
	for (size_t i = 0; i < n && width == 1; i++)
		words[i] = rows[i * stride];
	for (size_t i = 0; i < n && width == 2; i++)
		memcpy(words + i * 2, rows + i * stride, 2);
	for (size_t i = 0; i < n && width == 4; i++)
		memcpy(words + i * 4, rows + i * stride, 4);
}

/* And puts them back. */
static void scatter(unsigned char *rows, const unsigned char *words, size_t n, size_t stride, size_t width)
{
	for (size_t i = 0; i < n && width == 1; i++)
		rows[i * stride] = words[i];
	for (size_t i = 0; i < n && width == 2; i++)
		memcpy(rows + i * stride, words + i * 2, 2);
	for (size_t i = 0; i < n && width == 4; i++)
		memcpy(rows + i * stride, words + i * 4, 4);
}

/* Reads a column of rows from `row` on. */
static int read_words(const struct quantized *q, enum layout_part part, const struct column *c, uint64_t row,
                      unsigned char *words, size_t n_rows, struct error *error)
{
	uint64_t follow;

	for (size_t at = 0, n; at < n_rows; at += n) {
		uint64_t from = place_of(c, row + at, &follow);

		n = follow < n_rows - at ? (size_t)follow : n_rows - at;
		int code = file_read(q->files[part], q->parts[part], from, words + at * c->width, n * c->width, error);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

static int write_words(const struct layout_target *target, enum layout_part part, const struct column *c, uint64_t row,
                       const unsigned char *words, size_t n_rows, struct error *error)
{
	uint64_t follow;

	for (size_t at = 0, n; at < n_rows; at += n) {
		uint64_t from = place_of(c, row + at, &follow);

		n = follow < n_rows - at ? (size_t)follow : n_rows - at;
		int code = writer_write(target->writer, target->parts[part], from, words + at * c->width, n * c->width, error);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

/* Reads a column of a piece into rows that are `stride` bytes apart. */
static int read_column(const struct quantized *q, enum layout_part part, const struct column *c,
                       const struct piece *piece, unsigned char *rows, size_t stride, struct error *error)
{
	unsigned char words[RUN * sizeof(uint32_t)];

	for (size_t at = 0, n; at < piece->rows; at += n) {
		n = piece->rows - at < RUN ? piece->rows - at : RUN;
		int code = read_words(q, part, c, piece->row + at, words, n, error);
		if (code != EXIT_OK)
			return code;
		scatter(rows + at * stride, words, n, stride, c->width);
	}
	return EXIT_OK;
}

/* Writes a column of a piece out of such rows; without rows, one of padding. */
static int write_column(const struct layout_target *target, enum layout_part part, const struct column *c,
                        const struct piece *piece, const unsigned char *rows, size_t stride, struct error *error)
{
	unsigned char words[RUN * sizeof(uint32_t)];

	memset(words, part == LAYOUT_SCALES ? SCALE_OF_PADDING : 0, sizeof words);
	for (size_t at = 0, n; at < piece->rows; at += n) {
		n = piece->rows - at < RUN ? piece->rows - at : RUN;
		if (rows != NULL)
			gather(words, rows + at * stride, n, stride, c->width);
		int code = write_words(target, part, c, piece->row + at, words, n, error);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

/* Bytes of a row's words. */
static uint64_t words_bytes(const struct layout_choice *choice, const struct layout_shape *source)
{
	return tiles_of(source->dims[source->rank - 1]) * PARTITIONS *
	       (dtype_info(choice->form->parts[LAYOUT_CODES].dtype)->bits / 8);
}

static size_t band_row_bytes(const struct layout_choice *choice, const struct layout_shape *source)
{
	return (size_t)(words_bytes(choice, source) + tiles_of(source->dims[source->rank - 1]) * SCALES);
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
	uint64_t band_at = part == LAYOUT_CODES ? 0 : words_bytes(choice, source);

	return (struct columns){
		.first = {source, piece->col / elements, per_tile, stride / count, band_at},
		.count = count,
		.stride = stride,
		.end = tiles_of(source->dims[source->rank - 1]) * per_tile,
	};
}

/* Where a column begins in a band. */
static unsigned char *column_in(const struct layout_bands *bands, const struct layout_band *band, const struct column *c)
{
	return band->bytes + (c->band_at + c->number * c->width) * bands->rows;
}

static const enum layout_part parts[] = {LAYOUT_CODES, LAYOUT_SCALES};

enum { N_PARTS = sizeof parts / sizeof parts[0] };

/* Writes columns of padding, from the last column of a row's data on. */
static int write_padding(const struct layout_target *target, enum layout_part part, struct columns columns,
                         const struct piece *piece, struct error *error)
{
	struct column column = columns.first;
	int code = EXIT_OK;

	for (column.number += columns.count; column.number < columns.end && code == EXIT_OK; column.number++)
		code = write_column(target, part, &column, piece, NULL, 0, error);
	return code;
}

static int write_band(const struct layout_target *target, const struct layout_band *band, struct error *error)
{
	const struct piece whole = {.row = band->row, .rows = band->rows, .cols = (size_t)target->cols};
	int code = EXIT_OK;

	for (size_t p = 0; p < N_PARTS; p++) {
		const struct columns columns = columns_of(&target->choice, parts[p], &target->source, &whole);
		struct column column = columns.first;

		for (size_t i = 0; i < columns.count && code == EXIT_OK; i++, column.number++)
			code = write_words(target, parts[p], &column, band->row, column_in(target->bands, band, &column),
			                   band->rows, error);
		if (code == EXIT_OK)
			code = write_padding(target, parts[p], columns, &whole, error);
	}
	return code;
}

static int write_piece(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
                       struct error *error)
{
	struct layout_band *band = target->bands != NULL ? layout_bands_find(target->bands, piece) : NULL;
	int code = EXIT_OK;

	for (size_t p = 0; p < N_PARTS; p++) {
		const struct columns columns = columns_of(&target->choice, parts[p], &target->source, piece);
		const unsigned char *rows = parts[p] == LAYOUT_CODES ? blocks->codes : blocks->scales;
		struct column column = columns.first;

		for (size_t i = 0; i < columns.count && code == EXIT_OK; i++, column.number++, rows += column.width)
			if (band != NULL)
				gather(column_in(target->bands, band, &column) + (piece->row - band->row) * column.width, rows,
				       piece->rows, columns.stride, column.width);
			else
				code = write_column(target, parts[p], &column, piece, rows, columns.stride, error);
		if (code == EXIT_OK && band == NULL && piece->col + piece->cols == target->cols)
			code = write_padding(target, parts[p], columns, piece, error);
	}
	if (band == NULL || !layout_bands_add(target->bands, band, piece))
		return code;
	code = write_band(target, band, error);
	layout_bands_release(target->bands, band);
	return code;
}

/* Fills the one band of a tensor that is read in order. */
static int read_band(const struct quantized *q, struct layout_band *band, uint64_t row, struct error *error)
{
	const uint64_t rows = q->rows - row;
	const struct piece whole = {
		.row = row,
		.rows = rows < q->bands->rows ? (size_t)rows : q->bands->rows,
		.cols = (size_t)q->cols,
	};
	int code = EXIT_OK;

	band->row = row;
	band->rows = whole.rows;
	band->left = 0;
	for (size_t p = 0; p < N_PARTS; p++) {
		const struct columns columns = columns_of(&q->choice, parts[p], &q->shape, &whole);
		struct column column = columns.first;

		for (size_t i = 0; i < columns.count && code == EXIT_OK; i++, column.number++)
			code = read_words(q, parts[p], &column, row, column_in(q->bands, band, &column), whole.rows, error);
	}
	band->left = code == EXIT_OK; /* it is in use */
	return code;
}

static int read_piece(const struct quantized *q, const struct piece *piece, const struct mxfp_blocks *blocks,
                      struct error *error)
{
	struct layout_band *band = q->bands != NULL ? &q->bands->bands[0] : NULL;
	uint64_t first = band != NULL ? piece->row / q->bands->rows * q->bands->rows : 0;
	int code = EXIT_OK;

	if (band != NULL && piece->row - first + piece->rows > q->bands->rows)
		band = NULL;
	if (band != NULL && (band->left == 0 || band->row != first))
		code = read_band(q, band, first, error);
	for (size_t p = 0; p < N_PARTS; p++) {
		const struct columns columns = columns_of(&q->choice, parts[p], &q->shape, piece);
		unsigned char *rows = parts[p] == LAYOUT_CODES ? blocks->codes : blocks->scales;
		struct column column = columns.first;

		for (size_t i = 0; i < columns.count && code == EXIT_OK; i++, column.number++, rows += column.width)
			if (band != NULL)
				scatter(rows, column_in(q->bands, band, &column) + (piece->row - first) * column.width, piece->rows,
				        columns.stride, column.width);
			else
				code = read_column(q, parts[p], &column, piece, rows, columns.stride, error);
	}
	return code;
}

static const struct layout_order order = {
	.refuses = refuses,
	.describe = describe,
	.source = padded_shape,
	.unit = TILE,
	.read = read_piece,
	.write = write_piece,
	.band_row_bytes = band_row_bytes,
};

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
