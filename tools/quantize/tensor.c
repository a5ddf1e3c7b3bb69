/* SPDX-License-Identifier: MIT */
/* Quantizes one tensor of a model, piece by piece. NVFP4 reads it once more, before, for its largest magnitude. */
#include "config.h"

#include "quantize/quantize.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "quantize/finite.h"

/* Rows of a tensor by columns, read for several pieces at once. */
struct ahead {
	const struct quantize_entry *entry; /* NULL: none */
	uint64_t from;
	size_t n;
	unsigned char *bytes; /* QUANTIZE_AHEAD_BYTES; malloc'ed */
};

/* A tensor at work. */
struct quantizing {
	struct transfer *transfer;
	const struct quantize_entry *entry;
	struct mxfp_quantize_options options; /* of each piece, but for its place */
	enum mxfp_format format;
	struct mxfp_sparsity sparsity;
	struct layout_target target;
	struct ahead *ahead;                  /* NULL: none */
	uint64_t first_row;                   /* the first row read; pieces count from here */
	size_t skipped_rows;                  /* leading rows read only for the scale of a square */
	struct mxfp_blocks *into;             /* destination; NULL: the file of `target` */
	bool hashed;                          /* false for the first of two readings */
	float amax[TRANSFER_WORKERS];         /* what each worker has seen */
};

static size_t source_width(const struct quantizing *q)
{
	return dtype_info(q->entry->source->dtype)->bits / 8;
}

static uint64_t first_index(const struct quantizing *q, const struct transfer_piece *piece)
{
	return (q->first_row + piece->piece.row) * q->entry->cols + piece->piece.col;
}

static size_t piece_elements(const struct transfer_piece *piece)
{
	return piece->piece.rows * piece->piece.cols;
}

/* Reads one piece's n bytes. Calls are serialized. */
static int read_rows(const struct quantizing *q, uint64_t from, void *bytes, size_t n, struct error *error)
{
	const struct tensor *source = q->entry->source;
	struct ahead *ahead = q->ahead;
	int code = EXIT_OK;

	if (ahead == NULL || !source->by_columns || q->entry->cols > PIECE_ELEMENTS || n > QUANTIZE_AHEAD_BYTES)
		return file_read_rows(q->transfer->file, source, from, bytes, n, error);
	if (ahead->entry != q->entry || from < ahead->from || from - ahead->from + n > ahead->n) {
		const uint64_t left = source->size - from, most = QUANTIZE_AHEAD_BYTES / n * n;

		*ahead = (struct ahead){q->entry, from, (size_t)(left < most ? left : most), ahead->bytes};
		code = file_read_rows(q->transfer->file, source, from, ahead->bytes, ahead->n, error);
	}
	memcpy(bytes, ahead->bytes + (from - ahead->from), n);
	return code;
}

static int read_piece(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct quantizing *q = context;
	size_t width = source_width(q), n = piece_elements(piece) * width;
	int code = read_rows(q, first_index(q, piece) * width, piece->bytes, n, error);

	*n_bytes = n;
	if (q->target.bands != NULL)
		layout_bands_announce(q->target.bands, &piece->piece);
	if (code == EXIT_OK && q->hashed)
		XXH3_128bits_update(q->transfer->hash, piece->bytes, n);
	return code;
}

/* Turns the bytes read into numbers of the host's byte order and returns their format; f64 is rounded to f32, to
   nearest even, and what that flushes to zero is counted: the library sees only the zeros. */
static enum mxfp_format prepare(const struct quantizing *q, const struct transfer_piece *piece, struct mxfp_counts *counts)
{
	enum dtype dtype = q->entry->source->dtype;
	size_t n = piece_elements(piece);

	dtype_swap(dtype, piece->bytes, n * source_width(q));
	if (dtype != DTYPE_F64)
		return dtype_info(dtype)->format;
	for (size_t i = 0; i < n; i++) {
		double wide;

		memcpy(&wide, piece->bytes + i * sizeof wide, sizeof wide);
		float number = (float)wide;
		counts->flushed += wide != 0 && number == 0;
		memcpy(piece->bytes + i * sizeof number, &number, sizeof number);
	}
	return MXFP_FORMAT_F32;
}

enum { ROOM_ALIGN = 64 };

/* Where a piece's parts lie in its memory for results, behind codes and then scales. */
enum { MASKS_AT = 2 * PIECE_ELEMENTS, KEPT_AT = 3 * PIECE_ELEMENTS };

static struct mxfp_sparse sparse_of(const struct quantizing *q, const struct transfer_piece *piece)
{
	return (struct mxfp_sparse){
		.size = sizeof(struct mxfp_sparse), .format = q->format,
		.sparsity = q->sparsity,
		.rows = piece->piece.rows,
		.cols = piece->piece.cols,
		.codes = piece->result + KEPT_AT,
		.masks = piece->result + MASKS_AT,
	};
}

/* If there is a sparsity, replaces numbers that are not kept by +0; pieces are whole rows then. */
static void prune(const struct quantizing *q, const struct transfer_piece *piece, enum mxfp_format format)
{
	struct mxfp_sparse masks = sparse_of(q, piece);

	if (q->sparsity.m == 0)
		return;
	must_succeed(dense_prune(&masks, piece->bytes, format, piece->bytes, ONE_THREAD));
}

static int fail_non_finite(const struct quantizing *q, uint64_t index, struct error *error)
{
	const struct quantize_entry *entry = q->entry;
	const char *what = entry->source->dtype == DTYPE_F64 ? "NaN or Inf, or too large for f32" : "NaN or Inf";

	return fail_tensor(error, q->transfer->file->path, entry->source->name,
	                   "element %" PRIu64 " (row %" PRIu64 ", column %" PRIu64
	                   ") is %s; mxfp quantize --non-finite propagate goes on, and of Inf saturate%s",
	                   index, index / entry->cols, index % entry->cols, what,
	                   mxfp_format_get_info(q->format)->tensor_scale ? "" : " with --rule floor");
}

/* Refuses what decodes to Inf though no policy lets an Inf through, and a NaN, which MXFP_NON_FINITE_SATURATE does not replace. */
static int check_finite(const struct quantizing *q, const struct transfer_piece *piece, const struct mxfp_blocks *blocks,
                        struct error *error)
{
	const struct quantize_entry *entry = q->entry;
	size_t row, col;
	bool is_nan;

	if (!quantize_finds_non_finite(blocks, &row, &col, &is_nan))
		return EXIT_OK;
	if (is_nan)
		return fail_tensor(error, q->transfer->file->path, entry->source->name,
		                   "row %" PRIu64 " has NaN in the block from column %" PRIu64 " on, which --non-finite saturate does not "
		                   "replace; mxfp quantize --non-finite propagate goes on", piece->piece.row + row, piece->piece.col + col);
	return fail_tensor(error, q->transfer->file->path, entry->source->name,
	                   "row %" PRIu64 ", column %" PRIu64 " is so near to the largest f32 that it becomes Inf in %s; mxfp quantize %s",
	                   piece->piece.row + row, piece->piece.col + col, mxfp_format_get_info(q->format)->name,
	                   mxfp_format_get_info(q->format)->tensor_scale ? "--ignore PATTERN leaves it as it is" : "--rule floor clamps it");
}

/* Writes the kept codes of a piece and their masks. */
static int write_kept(const struct quantizing *q, const struct transfer_piece *piece, struct error *error)
{
	const struct mxfp_sparse kept = sparse_of(q, piece);
	struct writer *writer = &q->transfer->writer;
	struct mxfp_sparse_sizes size;

	must_succeed(mxfp_sparse_size(&size, kept.format, kept.sparsity, kept.rows, kept.cols));
	must_succeed(mxfp_sparse_compress(&kept, piece->result, 0, ONE_THREAD));
	int code = writer_write(writer, q->target.parts[LAYOUT_CODES], piece->piece.row * size.codes_row_bytes,
	                        kept.codes, size.codes_bytes, error);
	if (code != EXIT_OK)
		return code;
	return writer_write(writer, q->target.parts[LAYOUT_MASKS], piece->piece.row * size.masks_row_bytes,
	                    kept.masks, size.masks_bytes, error);
}

/* Copies codes and scales of those rows of a piece that are wanted to their place in memory. */
static void copy_parts(const struct quantizing *q, const struct transfer_piece *piece, const struct mxfp_blocks *blocks)
{
	struct piece from = piece->piece, to = from;
	const uint64_t end = q->skipped_rows + q->into->rows;

	from.row = to.row < q->skipped_rows ? q->skipped_rows - to.row : 0;
	to.row = to.row + from.row - q->skipped_rows;
	to.rows -= (size_t)from.row;
	if (piece->piece.row + piece->piece.rows > end)
		to.rows -= (size_t)(piece->piece.row + piece->piece.rows - end);
	from.col = 0;
	const struct layout_slice slice = layout_slice(q->format, q->entry->cols, &to);
	const struct layout_slice source = layout_slice(q->format, piece->piece.cols, &from);

	memcpy((uint8_t *)q->into->codes + slice.codes_from, (uint8_t *)blocks->codes + source.codes_from,
	       slice.size.codes_bytes);
	memcpy((uint8_t *)q->into->scales + slice.scales_from, (uint8_t *)blocks->scales + source.scales_from,
	       slice.size.scales_bytes);
}

static int write_parts(const struct quantizing *q, const struct transfer_piece *piece, const struct mxfp_blocks *blocks,
                       struct error *error)
{
	struct layout_slice slice = layout_slice(q->format, q->entry->cols, &piece->piece);

	if (q->sparsity.m == 0)
		return layout_write(&q->target, &piece->piece, blocks, error);
	int code = write_kept(q, piece, error);
	if (code != EXIT_OK)
		return code;
	return writer_write(&q->transfer->writer, q->target.parts[LAYOUT_SCALES], slice.scales_from, blocks->scales,
	                    slice.size.scales_bytes, error);
}

/* Replaces each 4-bit code of -0 by that of +0. */
static void clear_signs_of_zeros(unsigned char *codes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const unsigned low = codes[i] & 0x0FU, high = codes[i] & 0xF0U;

		codes[i] = (unsigned char)((low == 0x08 ? 0 : low) | (high == 0x80 ? 0 : high));
	}
}

static int quantize_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                          struct error *error)
{
	const struct quantizing *q = context;
	struct mxfp_quantize_options options = q->options;
	struct mxfp_blocks blocks = {
		.size = sizeof blocks, .format = q->format,
		.rows = piece->piece.rows,
		.cols = piece->piece.cols,
		.codes = piece->result,
	};
	struct mxfp_sizes size;
	enum mxfp_format format = prepare(q, piece, counts);
	uint64_t index = UINT64_MAX;

	must_succeed(mxfp_blocks_size(&size, q->format, blocks.rows, blocks.cols));
	blocks.scales = piece->result + size.codes_bytes;
	prune(q, piece, format);
	options.first_index = first_index(q, piece);
	/* Nothing of a piece that fails is written, so it need not be scanned first. */
	if (options.non_finite == MXFP_NON_FINITE_ERROR)
		options.non_finite = MXFP_NON_FINITE_PROPAGATE;
	const struct mxfp_matrix numbers = mxfp_numbers(format, blocks.rows, blocks.cols, piece->bytes);
	struct mxfp_result result = mxfp_to_blocks(&blocks);
	result.first_non_finite = &index;
	result.counts = counts;
	must_succeed(mxfp_quantize(&result, &numbers, &options, ONE_THREAD));
	if (q->options.non_finite == MXFP_NON_FINITE_ERROR && index != UINT64_MAX)
		return fail_non_finite(q, index, error);
	if (q->into != NULL) {
		copy_parts(q, piece, &blocks);
		return EXIT_OK;
	}
	if (q->options.non_finite != MXFP_NON_FINITE_PROPAGATE) {
		const int code = check_finite(q, piece, &blocks, error);

		if (code != EXIT_OK)
			return code;
	}
	if (q->target.choice.layout->positive_zeros)
		clear_signs_of_zeros(piece->result, piece_elements(piece) / 2);
	return write_parts(q, piece, &blocks, error);
}

static int raise_amax(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                      struct error *error)
{
	struct quantizing *q = (struct quantizing *)context;
	enum mxfp_format format = prepare(q, piece, counts);

	prune(q, piece, format);
	(void)error;
	must_succeed(dense_amax(&q->amax[piece->worker], format, piece->bytes, piece_elements(piece), ONE_THREAD));
	return EXIT_OK;
}

/* Raises *amax to the largest magnitude of an entry. */
static int find_amax(const struct quantizing *of, const struct quantize_entry *entry, float *amax, struct error *error)
{
	struct quantizing q = *of;
	const struct transfer_job job = {
		.rows = entry->rows,
		.cols = entry->cols,
		.read = read_piece,
		.work = raise_amax,
		.context = &q,
	};
	const struct file *file = q.transfer->file;

	q.entry = entry;
	q.first_row = 0;
	q.sparsity = entry->choice.sparsity;
	q.transfer->file = entry->file;
	int code = transfer_run(q.transfer, &job, error);
	q.transfer->file = file;
	for (unsigned i = 0; i < TRANSFER_WORKERS; i++)
		if (q.amax[i] > *amax)
			*amax = q.amax[i];
	return code;
}

/* The largest magnitude that the tensor scale is made from. */
static int find_scale_amax(const struct quantizing *q, float *amax, struct error *error)
{
	const struct quantize_entry *entry = q->entry, *other = entry->fused;
	int code = find_amax(q, entry, amax, error);

	for (; other != NULL && other != entry && code == EXIT_OK; other = other->fused)
		code = find_amax(q, other, amax, error);
	return code;
}

static int write_tensor_scale(const struct quantizing *q, struct error *error)
{
	struct mxfp_blocks none = {.size = sizeof none, .format = q->format};
	bool exact;

	must_succeed(dense_quantize(&none, MXFP_FORMAT_F32, NULL, &q->options, ONE_THREAD));
	int code = layout_write_tensor_scale(&q->target, &none, &exact, error);
	assert(code != EXIT_OK || exact); /* layout_holds_recipe() */
	return code;
}

static struct mxfp_quantize_options options_of(const struct quantize_settings *s, const struct quantize_entry *entry)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options),
		.rule = (enum mxfp_rule)entry->choice.rule,
		.recipe = (enum mxfp_recipe)entry->choice.recipe,
		.round = (enum mxfp_round)s->round,
		.non_finite = (enum mxfp_non_finite)s->non_finite,
		.block_rows = quantize_band(&entry->choice),
		.seed = s->seed,
		.stream = XXH3_64bits(entry->source->name, strlen(entry->source->name)),
	};
}

/* The job of quantizing `rows` rows. */
static struct transfer_job job_of(const struct quantizing *q, uint64_t rows, struct mxfp_counts *counts)
{
	return (struct transfer_job){
		.rows = rows,
		.cols = q->entry->cols,
		.band = quantize_band(&q->entry->choice),
		.read = read_piece,
		.work = quantize_piece,
		.context = q,
		.counts = counts,
	};
}

struct transfer_room quantize_room(const struct quantize_plan *plan)
{
	struct transfer_room room = {TRANSFER_READ_BYTES, TRANSFER_RESULT_BYTES};

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];
		const uint64_t band = quantize_band(&entry->choice), rows = entry->rows < band ? entry->rows : band;

		if (!entry->quantized || rows == 0 || entry->cols == 0)
			continue;
		const struct piece piece = {.rows = 1, .cols = (size_t)entry->cols};
		const struct mxfp_sizes row = layout_slice(entry->choice.format, entry->cols, &piece).size;
		const uint64_t read = rows * entry->cols * (dtype_info(entry->source->dtype)->bits / 8);
		const uint64_t result = rows * (row.codes_row_bytes + row.scales_row_bytes);

		room.read = read > room.read ? read : room.read;
		room.result = result > room.result ? result : room.result;
	}
	/* Each begins where numbers of any width may. */
	room.read = (room.read + ROOM_ALIGN - 1) / ROOM_ALIGN * ROOM_ALIGN;
	room.result = (room.result + ROOM_ALIGN - 1) / ROOM_ALIGN * ROOM_ALIGN;
	return room;
}

int quantize_tensor(struct transfer *transfer, const struct quantize_plan *plan, struct quantize_entry *entry,
                    struct error *error)
{
	const struct layout_choice layout = quantize_layout(plan->settings->layout, &entry->choice);
	struct quantizing q = {
		.transfer = transfer,
		.entry = entry,
		.options = options_of(plan->settings, entry),
		.format = entry->choice.format,
		.sparsity = entry->choice.sparsity,
		.target = layout_target(&layout, entry->source, entry->parts, &transfer->writer),
	};
	const struct transfer_job job = job_of(&q, entry->rows, &entry->counts);
	bool has_tensor_scale = mxfp_format_get_info(entry->choice.format)->tensor_scale;
	struct ahead ahead = {.bytes = NULL};
	float amax = 0;
	int code = EXIT_OK;

	/* Without this memory all goes on, slower. */
	if (entry->source->by_columns && plan->in_bands)
		ahead.bytes = malloc(QUANTIZE_AHEAD_BYTES);
	q.ahead = ahead.bytes != NULL ? &ahead : NULL;

	if (has_tensor_scale) {
		code = find_scale_amax(&q, &amax, error);
		q.options.tensor_amax = mxfp_some(amax);
	}
	q.hashed = true;
	if (plan->in_bands)
		layout_write_in_bands(&q.target, job.band);
	if (code == EXIT_OK)
		code = transfer_run(transfer, &job, error);
	layout_bands_free(q.target.bands);
	free(ahead.bytes);
	if (code == EXIT_OK && q.target.parts[LAYOUT_TENSOR_SCALE] != NULL)
		code = write_tensor_scale(&q, error);
	return code;
}

int quantize_amax(struct transfer *transfer, const struct quantize_plan *plan, const struct quantize_entry *entry,
                  float *amax, struct error *error)
{
	const struct quantizing q = {.transfer = transfer, .entry = entry, .options = options_of(plan->settings, entry)};

	*amax = 0;
	return mxfp_format_get_info(entry->choice.format)->tensor_scale ? find_scale_amax(&q, amax, error) : EXIT_OK;
}

int quantize_rows(struct transfer *transfer, const struct quantize_plan *plan, const struct quantize_entry *entry,
                  uint64_t first_row, float amax, struct mxfp_blocks *blocks, struct error *error)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_blocks none = {.size = sizeof none, .format = blocks->format};
	struct quantizing q = {
		.transfer = transfer,
		.entry = entry,
		.options = options_of(plan->settings, entry),
		.format = entry->choice.format,
		.sparsity = entry->choice.sparsity,
		.first_row = first_row,
		.into = blocks,
	};
	uint64_t rows = blocks->rows;

	/* The squares that the rows are in. */
	if (quantize_in_squares(&entry->choice)) {
		const uint64_t end = (first_row + rows + QUANTIZE_SQUARE - 1) / QUANTIZE_SQUARE * QUANTIZE_SQUARE;

		q.skipped_rows = (size_t)(first_row % QUANTIZE_SQUARE);
		q.first_row -= q.skipped_rows;
		rows = (end < entry->rows ? end : entry->rows) - q.first_row;
	}
	const struct transfer_job job = job_of(&q, rows, &counts);

	q.options.tensor_amax = mxfp_some(amax);
	transfer->file = entry->file;
	must_succeed(dense_quantize(&none, MXFP_FORMAT_F32, NULL, &q.options, ONE_THREAD));
	blocks->tensor_scale = none.tensor_scale;
	blocks->tensor_scale_divides = none.tensor_scale_divides;
	return transfer_run(transfer, &job, error);
}
