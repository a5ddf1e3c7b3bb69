/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "rewrite/convert_blocks.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "model/quantized.h"
#include "model/scaled.h"
#include "mxfp/quantize.h"

/* A worker's memory: what is read, and the decoded numbers behind it; what is written, how it fits, and what rounding gives. */
enum {
	SOURCE_SCALES = PIECE_ELEMENTS,
	NUMBERS = PIECE_ELEMENTS * 4,
	TARGET_SCALES = PIECE_ELEMENTS,
	FITS = TARGET_SCALES + PIECE_ELEMENTS / 8,
	ROUNDED_CODES = PIECE_ELEMENTS * 2,
	ROUNDED_SCALES = PIECE_ELEMENTS * 3,
	DECODED = 1 << 12 /* numbers that are decoded at once, behind the target */
};

_Static_assert(NUMBERS + PIECE_ELEMENTS * 4 <= TRANSFER_READ_BYTES, "room for the source and its numbers");
_Static_assert(ROUNDED_SCALES + PIECE_ELEMENTS / 8 <= TRANSFER_RESULT_BYTES, "room for the target twice");
_Static_assert(sizeof(struct block_spread) <= TRANSFER_RESULT_BYTES, "room for a spread");

struct running {
	const struct convert_blocks *blocks;
	const struct layout_target *target;
	struct block_change change;
	size_t counted; /* elements of what is counted as a block */
	pthread_mutex_t lock; /* over what follows */
	struct convert_tally *tally;
	struct block_spread *spread;
};

void convert_tally_add(struct convert_tally *sum, const struct convert_tally *tally)
{
	const bool earlier = tally->row < sum->row || (tally->row == sum->row && tally->col < sum->col);

	if (tally->rounded > 0 && (sum->rounded == 0 || earlier)) {
		sum->row = tally->row;
		sum->col = tally->col;
		sum->is_special = tally->is_special;
	}
	sum->blocks += tally->blocks;
	sum->rounded += tally->rounded;
	sum->special += tally->special;
	sum->error = tally->error > sum->error ? tally->error : sum->error;
}

static struct mxfp_blocks source_of(const struct running *r, const struct transfer_piece *piece)
{
	return quantized_blocks(r->blocks->source, &piece->piece, piece->bytes, piece->bytes + SOURCE_SCALES);
}

static struct mxfp_blocks target_of(const struct running *r, const struct transfer_piece *piece, unsigned char *codes,
                                    unsigned char *scales)
{
	return (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = r->blocks->to,
		.rows = piece->piece.rows,
		.cols = piece->piece.cols,
		.codes = codes,
		.scales = scales,
		.tensor_scale = r->blocks->factor.scale,
		.tensor_scale_divides = r->blocks->factor.divides,
	};
}

static struct mxfp_sizes size_of(enum mxfp_format format, const struct piece *piece)
{
	struct mxfp_sizes size = {0};

	must_succeed(mxfp_blocks_size(&size, format, piece->rows, piece->cols));
	return size;
}

static const struct tensor *numbers_of(const struct running *r)
{
	return r->blocks->source->parts[LAYOUT_CODES];
}

/* Reads the numbers of a piece, of which the decoder does most of the work, so that each thread does it for itself. */
static int read_numbers(const struct running *r, const struct transfer_piece *piece, struct error *error)
{
	const struct piece *p = &piece->piece;
	const size_t n = p->rows * p->cols * sizeof(float);
	const int code = file_read(r->blocks->source->files[LAYOUT_CODES], numbers_of(r),
	                           (p->row * r->blocks->source->cols + p->col) * sizeof(float), piece->bytes + NUMBERS, n, error);

	dtype_swap(DTYPE_F32, piece->bytes + NUMBERS, n);
	return code;
}

static int read_piece(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct running *r = context;
	const struct mxfp_blocks source = source_of(r, piece);

	if (r->target != NULL && r->target->bands != NULL)
		layout_bands_announce(r->target->bands, &piece->piece);
	if (r->change.numbers) {
		*n_bytes = piece->piece.rows * piece->piece.cols * sizeof(float);
		return EXIT_OK;
	}
	return quantized_read(r->blocks->source, &piece->piece, &source, n_bytes, error);
}

/* Decodes what was read. */
static float *decode(const struct running *r, const struct transfer_piece *piece)
{
	const struct mxfp_blocks source = source_of(r, piece);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&source);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	float *numbers = (float *)(void *)(piece->bytes + NUMBERS);

	if (r->change.numbers)
		return numbers;
	must_succeed(dense_dequantize(numbers, MXFP_FORMAT_F32, &matrix, &exec));
	return numbers;
}

/* The magnitude that makes recipe te take the target's tensor scale, a power of two: te divides it by 2688. */
static float amax_of(const struct block_factor *factor)
{
	return factor->divides ? 2688 / factor->scale : 2688 * factor->scale;
}

/* Rounds the numbers of a piece, all of them. */
static void round_all(const struct running *r, const struct transfer_piece *piece, const float *numbers)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = (enum mxfp_rule)r->blocks->rule,
		.recipe = MXFP_RECIPE_TE,
		.non_finite = r->blocks->non_finite == MXFP_NON_FINITE_ERROR ? MXFP_NON_FINITE_PROPAGATE
		                                                             : (enum mxfp_non_finite)r->blocks->non_finite,
		.tensor_amax = mxfp_some(amax_of(&r->blocks->factor)),
	};
	struct mxfp_blocks rounded = target_of(r, piece, piece->result + ROUNDED_CODES, piece->result + ROUNDED_SCALES);

	must_succeed(dense_quantize(&rounded, MXFP_FORMAT_F32, numbers, &options, &exec));
}

/* The largest error of a block of the target, as a part of its largest number; *special: it has a NaN or Inf. */
static double error_of(const struct running *r, const float *numbers, size_t n, unsigned char *codes, unsigned char *scale,
                       bool *special)
{
	const struct mxfp_blocks block = {
		.size = sizeof block, .format = r->blocks->to,
		.rows = 1,
		.cols = n,
		.codes = codes,
		.scales = scale,
		.tensor_scale = r->blocks->factor.scale,
		.tensor_scale_divides = r->blocks->factor.divides,
	};
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&block);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	float decoded[BLOCK_UNIT];
	double most = 0, largest = 0;

	must_succeed(dense_dequantize(decoded, MXFP_FORMAT_F32, &matrix, &exec));
	for (size_t i = 0; i < n; i++) {
		const double x = (double)numbers[i], difference = fabs(x - (double)decoded[i]);

		if (!isfinite(x)) {
			*special = true;
			continue;
		}
		largest = fabs(x) > largest ? fabs(x) : largest;
		most = difference > most ? difference : most;
	}
	return largest > 0 && isfinite(most) ? most / largest : 0;
}

/* The blocks of a row: those that are not held are taken from what rounding gave, and all are counted. */
static void take_row(const struct running *r, const struct transfer_piece *piece, size_t row, const float *numbers,
                     struct convert_tally *tally)
{
	const struct block_form *to = &r->change.to;
	const struct mxfp_sizes size = size_of(r->blocks->to, &piece->piece);
	const size_t cols = piece->piece.cols, bytes = to->bits * to->length / 8;
	const uint8_t *fits = piece->result + FITS + row * size.scales_row_bytes;

	for (size_t at = 0; at < cols; at += r->counted) {
		bool rounded = false, special = false;

		for (size_t i = at; i < at + r->counted && i < cols; i += to->length) {
			const size_t code_at = row * size.codes_row_bytes + i / to->length * bytes;
			const size_t scale_at = row * size.scales_row_bytes + i / to->length;
			const enum block_fit fit = (enum block_fit)fits[i / to->length];

			if (fit == BLOCK_SAME || fit == BLOCK_EXACT)
				continue;
			rounded = true;
			memcpy(piece->result + code_at, piece->result + ROUNDED_CODES + code_at, bytes);
			piece->result[TARGET_SCALES + scale_at] = piece->result[ROUNDED_SCALES + scale_at];
			const size_t n = cols - i < to->length ? cols - i : to->length;
			const double e = error_of(r, numbers + row * cols + i, n, piece->result + code_at,
			                          piece->result + TARGET_SCALES + scale_at, &special);
			tally->error = e > tally->error ? e : tally->error;
		}
		tally->blocks++;
		if (rounded && tally->rounded == 0) {
			tally->row = piece->piece.row + row;
			tally->col = piece->piece.col + at;
			tally->is_special = special;
		}
		tally->rounded += rounded;
		tally->special += special;
	}
}

/* Numbers in MX: those that are exact are what the smallest scale gives, by which the library quantizes at its own speed. What
   decodes to other bits is looked at alone. */
static void change_numbers(const struct running *r, const struct transfer_piece *piece)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_quantize_options options = {.size = sizeof options, .rule = MXFP_RULE_RCEIL};
	const float *numbers = (const float *)(const void *)(piece->bytes + NUMBERS);
	const struct mxfp_sizes to = size_of(r->blocks->to, &piece->piece);
	struct mxfp_blocks target = target_of(r, piece, piece->result, piece->result + TARGET_SCALES);
	const unsigned length = r->change.to.length;
	float *decoded = (float *)(void *)(piece->result + ROUNDED_CODES);
	uint8_t *fits = piece->result + FITS;

	must_succeed(dense_quantize(&target, MXFP_FORMAT_F32, numbers, &options, &exec));
	memset(fits, BLOCK_EXACT, to.scales_bytes);
	for (size_t row = 0; row < piece->piece.rows; row++)
		for (size_t at = 0, n; at < piece->piece.cols; at += n) {
			n = piece->piece.cols - at < DECODED ? piece->piece.cols - at : DECODED;
			const struct mxfp_matrix part = {
				.size = sizeof part, .format = r->blocks->to,
				.rows = 1,
				.cols = n,
				.data = piece->result + row * to.codes_row_bytes + at * r->change.to.bits / 8,
				.scales = piece->result + TARGET_SCALES + row * to.scales_row_bytes + at / length,
			};
			const float *own = numbers + row * piece->piece.cols + at;

			must_succeed(dense_dequantize(decoded, MXFP_FORMAT_F32, &part, &exec));
			for (size_t i = 0; i < n; i += length) {
				const size_t left = n - i < length ? n - i : length;

				if (memcmp(own + i, decoded + i, left * sizeof *own) != 0)
					block_change_row(&r->change, left, own + i, NULL, (uint8_t *)(uintptr_t)part.data + i * r->change.to.bits / 8,
					                 (uint8_t *)(uintptr_t)part.scales + i / length,
					                 fits + row * to.scales_row_bytes + (at + i) / length);
			}
		}
}

/* The byte of a scale that is a power of two, with which no code of 8 bits is Inf or rounded in binary32; 0: it is none. */
static uint8_t byte_of(float scale)
{
	enum { BIAS = 127, LARGEST = 112 }; /* 57344 is below 2^16 */
	int exponent;

	if (frexpf(scale, &exponent) != 0.5F || exponent - 1 <= -BIAS || exponent - 1 >= LARGEST)
		return 0;
	return (uint8_t)(exponent - 1 + BIAS);
}

/* The bytes of the scales of a row's blocks; returns how many are one. */
static size_t bytes_of_row(uint8_t *bytes, const struct piece *p, const struct scaled *s, unsigned length, const float *scales)
{
	size_t same = 0;

	for (size_t at = 0, n; at < p->cols; at += n) {
		const uint64_t col = p->col + at, cell = col / s->block_cols, left = s->block_cols - col % s->block_cols;
		const uint8_t byte = byte_of(scales[cell]);

		n = left < p->cols - at ? (size_t)left : p->cols - at;
		const size_t blocks = (n + length - 1) / length;
		memset(bytes, byte, blocks);
		bytes += blocks;
		same += byte != 0 ? blocks : 0;
	}
	return same;
}

/* 8-bit floats with scales that are powers of two, each of whole blocks, are MX blocks as they are. Reads the codes of a piece,
   to where they are written if all are such, and makes the bytes of its blocks' scales behind where those that are read are, 0 where
   that is none; *same: how many are one, of *n. */
static int read_same(const struct running *r, const struct transfer_piece *piece, size_t *same, size_t *n, struct error *error)
{
	const struct scaled *s = scaled_of(numbers_of(r)->decoder);
	const struct piece *p = &piece->piece;
	const unsigned length = r->change.to.length;
	uint8_t *bytes = piece->bytes + SOURCE_SCALES;
	float *scales;

	*same = 0;
	*n = size_of(r->blocks->to, p).scales_bytes;
	if (s == NULL || dtype_info(s->codes.dtype)->format != r->change.to.element || numbers_of(r)->offset != s->decoder.base ||
	    (s->grid_cols > 1 && s->block_cols % length != 0))
		return EXIT_OK;
	const uint64_t from = scaled_grid_row(s, p->row), last = scaled_grid_row(s, p->row + p->rows - 1);
	int code = scaled_read_scales(&scales, s, from, last - from + 1, error);
	if (code != EXIT_OK)
		return code;
	const size_t per_row = *n / p->rows;
	size_t of_last = 0;
	for (size_t row = 0; row < p->rows; row++, bytes += per_row) {
		const uint64_t grid_row = scaled_grid_row(s, p->row + row);

		if (row > 0 && grid_row == scaled_grid_row(s, p->row + row - 1))
			memcpy(bytes, bytes - per_row, per_row);
		else
			of_last = bytes_of_row(bytes, p, s, length, scales + (grid_row - from) * s->grid_cols);
		*same += of_last;
	}
	free(scales);
	unsigned char *codes = *same == *n ? piece->result : piece->bytes;
	return *same == 0 ? EXIT_OK : file_read(s->codes_file, &s->codes, p->row * s->cols + p->col, codes, p->rows * p->cols, error);
}

/* Takes those blocks as they are; all: their codes are there. */
static void take_same(const struct running *r, const struct transfer_piece *piece, size_t n, bool all)
{
	const uint8_t *bytes = piece->bytes + SOURCE_SCALES;
	const unsigned length = r->change.to.length;

	if (all) {
		memcpy(piece->result + TARGET_SCALES, bytes, n);
		memset(piece->result + FITS, BLOCK_SAME, n);
	}
	for (size_t i = 0; i < n && !all; i++)
		if (bytes[i] != 0) {
			memcpy(piece->result + i * length, piece->bytes + i * length, length);
			piece->result[TARGET_SCALES + i] = bytes[i];
			piece->result[FITS + i] = BLOCK_SAME;
		}
}

/* Whether some blocks of a piece are not held. */
static bool any_rounded(const struct running *r, const struct transfer_piece *piece)
{
	const size_t n = size_of(r->blocks->to, &piece->piece).scales_bytes;
	bool any = false;

	for (size_t i = 0; i < n; i++)
		any |= piece->result[FITS + i] >= BLOCK_ROUNDED;
	return any;
}

/* Changes the blocks of a piece. */
static void change_all(const struct running *r, const struct transfer_piece *piece)
{
	const struct mxfp_sizes to = size_of(r->blocks->to, &piece->piece);
	uint8_t *fits = piece->result + FITS;

	if (r->change.numbers && !r->change.to.ue4m3)
		change_numbers(r, piece);
	for (size_t row = 0; row < piece->piece.rows && r->change.numbers && r->change.to.ue4m3; row++)
		block_change_row(&r->change, piece->piece.cols, (const float *)(const void *)(piece->bytes + NUMBERS) + row * piece->piece.cols, NULL,
		                 piece->result + row * to.codes_row_bytes,
		                 piece->result + TARGET_SCALES + row * to.scales_row_bytes, fits + row * to.scales_row_bytes);
	const struct mxfp_sizes from = r->change.numbers ? to : size_of(r->change.from.format, &piece->piece);
	for (size_t row = 0; row < piece->piece.rows && !r->change.numbers; row++)
		block_change_row(&r->change, piece->piece.cols, piece->bytes + row * from.codes_row_bytes,
		                 piece->bytes + SOURCE_SCALES + row * from.scales_row_bytes,
		                 piece->result + row * to.codes_row_bytes,
		                 piece->result + TARGET_SCALES + row * to.scales_row_bytes, fits + row * to.scales_row_bytes);
}

/* Reads a piece of numbers and changes it. */
static int change_read_numbers(const struct running *r, const struct transfer_piece *piece, struct error *error)
{
	size_t same, n;
	int code = read_same(r, piece, &same, &n, error);

	if (code == EXIT_OK && same < n)
		code = read_numbers(r, piece, error);
	if (code != EXIT_OK)
		return code;
	if (same < n)
		change_all(r, piece);
	if (same > 0)
		take_same(r, piece, n, same == n);
	return EXIT_OK;
}

static int write_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                       struct error *error)
{
	struct running *r = (struct running *)context;
	const struct mxfp_blocks target = target_of(r, piece, piece->result, piece->result + TARGET_SCALES);
	const float *numbers = NULL;
	struct convert_tally tally = {0};

	(void)counts;
	int code = EXIT_OK;
	if (r->change.numbers)
		code = change_read_numbers(r, piece, error);
	else
		change_all(r, piece);
	if (code != EXIT_OK)
		return code;
	if (any_rounded(r, piece)) {
		if (!isfinite(amax_of(&r->blocks->factor)))
			return fail_tensor(error, r->blocks->source->files[LAYOUT_CODES]->path,
			                   r->blocks->source->parts[LAYOUT_CODES]->name, "has numbers too large to be rounded to %s",
			                   mxfp_format_get_info(r->blocks->to)->name);
		numbers = decode(r, piece);
		round_all(r, piece, numbers);
	}
	if (numbers == NULL)
		tally.blocks = piece->piece.rows * ((piece->piece.cols + r->counted - 1) / r->counted);
	for (size_t row = 0; row < piece->piece.rows && numbers != NULL; row++)
		take_row(r, piece, row, numbers, &tally);
	pthread_mutex_lock(&r->lock);
	convert_tally_add(r->tally, &tally);
	pthread_mutex_unlock(&r->lock);
	return layout_write(r->target, &piece->piece, &target, error);
}

static void begin(struct running *r, const struct convert_blocks *blocks)
{
	static const struct block_factor one = {1, false};
	const struct quantized *source = blocks->source;
	const enum mxfp_format from = source->choice.form->format;
	const struct block_factor factor = {source->tensor_scale, source->choice.layout->divides};

	block_change_begin(&r->change, from, mxfp_format_get_info(from)->tensor_scale ? &factor : &one, blocks->to,
	                   &blocks->factor);
	r->counted = r->change.from.length > r->change.to.length ? r->change.from.length : r->change.to.length;
}

int convert_blocks_write(struct transfer *transfer, const struct convert_blocks *blocks, const struct layout_target *target,
                         struct convert_tally *tally, struct error *error)
{
	struct quantized in_bands = *blocks->source;
	struct convert_blocks own = *blocks;
	struct layout_target to = *target;
	struct running r = {.blocks = &own, .target = &to, .lock = PTHREAD_MUTEX_INITIALIZER, .tally = tally};
	const struct transfer_job job = {
		.rows = in_bands.rows,
		.cols = in_bands.cols,
		.read = read_piece,
		.work = write_piece,
		.context = &r,
	};

	own.source = &in_bands;
	begin(&r, &own);
	layout_read_in_bands(&in_bands);
	layout_write_in_bands(&to, 0);
	const int code = transfer_run(transfer, &job, error);
	layout_bands_free(in_bands.bands);
	layout_bands_free(to.bands);
	return code;
}

static int spread_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                        struct error *error)
{
	struct running *r = (struct running *)context;
	const struct piece *p = &piece->piece;
	struct block_spread *own = (struct block_spread *)(void *)piece->result;
	int code = r->change.numbers ? read_numbers(r, piece, error) : EXIT_OK;

	(void)counts;
	if (code != EXIT_OK)
		return code;
	memset(own, 0, sizeof *own);
	for (size_t row = 0; row < p->rows && r->change.numbers; row++)
		block_spread_row(own, &r->change, p->cols, (const float *)(const void *)(piece->bytes + NUMBERS) + row * p->cols, NULL);
	const struct mxfp_sizes from = r->change.numbers ? (struct mxfp_sizes){0} : size_of(r->change.from.format, p);
	for (size_t row = 0; row < p->rows && !r->change.numbers; row++)
		block_spread_row(own, &r->change, p->cols, piece->bytes + row * from.codes_row_bytes,
		                 piece->bytes + SOURCE_SCALES + row * from.scales_row_bytes);
	pthread_mutex_lock(&r->lock);
	block_spread_add(r->spread, own);
	pthread_mutex_unlock(&r->lock);
	return EXIT_OK;
}

/* Reads the scales of a piece, and its codes if one of them is the least, which blocks of zeros have. */
static int read_scales(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct running *r = context;
	const struct mxfp_blocks source = source_of(r, piece);
	const struct mxfp_sizes size = size_of(source.format, &piece->piece);
	const int code = layout_read_scales(r->blocks->source, &piece->piece, source.scales, error);

	*n_bytes = 0;
	if (code != EXIT_OK || memchr(source.scales, 0, size.scales_bytes) == NULL)
		return code;
	return quantized_read(r->blocks->source, &piece->piece, &source, n_bytes, error);
}

/* The same as spread_piece() if there is no zero among the scales, under the condition that scales are kept. */
static int spread_scales(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                         struct error *error)
{
	struct running *r = (struct running *)context;
	const struct mxfp_sizes size = size_of(r->change.from.format, &piece->piece);
	const uint8_t *scales = piece->bytes + SOURCE_SCALES;
	const unsigned halves = r->change.from.length / r->change.to.length;
	uint64_t n[256] = {0};

	if (memchr(scales, 0, size.scales_bytes) != NULL)
		return spread_piece(context, piece, counts, error);
	for (size_t i = 0; i < size.scales_bytes; i++)
		n[scales[i]] += halves;
	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < 256; i++)
		block_spread_scale(r->spread, &r->change, (uint8_t)i, n[i]);
	pthread_mutex_unlock(&r->lock);
	return EXIT_OK;
}

int convert_blocks_spread(struct transfer *transfer, const struct convert_blocks *blocks, bool by_scales,
                          struct block_spread *spread, struct error *error)
{
	struct quantized in_bands = *blocks->source;
	struct convert_blocks own = *blocks;
	struct running r = {.blocks = &own, .lock = PTHREAD_MUTEX_INITIALIZER, .spread = spread};
	struct transfer_job job = {
		.rows = in_bands.rows,
		.cols = in_bands.cols,
		.read = read_piece,
		.work = spread_piece,
		.context = &r,
	};
	const struct layout_order *order = in_bands.choice.layout->order;

	own.source = &in_bands;
	begin(&r, &own);
	/* They tell it alone if every code is one of the target, too, and can be read alone where they lie in order. */
	if (by_scales && r.change.all_same && !r.change.from.ue4m3 && (order == &layout_rows || order == &layout_block_rows)) {
		job.read = read_scales;
		job.work = spread_scales;
		return transfer_run(transfer, &job, error);
	}
	layout_read_in_bands(&in_bands);
	const int code = transfer_run(transfer, &job, error);
	layout_bands_free(in_bands.bands);
	return code;
}
