/* SPDX-License-Identifier: MIT */
/* Quantizes and dequantizes streams in pieces of whole rows; a long row is cut at block boundaries. */
#include "config.h"

#include "io/block_stream.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/byte_order.h"
#include "base/library.h"
#include "mxfp.h"

static const char *format_name(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->name;
}

/* Sets the shape of the next piece to what a buffer may hold, and returns its sizes as blocks. */
static struct mxfp_sizes next_piece(struct block_stream *stream)
{
	struct mxfp_sizes size = {0};

	if (stream->cols <= BLOCK_STREAM_PIECE) {
		stream->rows = (size_t)(BLOCK_STREAM_PIECE / stream->cols);
		stream->piece_cols = (size_t)stream->cols;
	} else {
		uint64_t left = stream->cols - stream->col;
		stream->rows = 1;
		stream->piece_cols = left < BLOCK_STREAM_PIECE ? (size_t)left : BLOCK_STREAM_PIECE;
	}
	mxfp_blocks_size(&size, stream->format, stream->rows, stream->piece_cols);
	return size;
}

int block_stream_begin(struct block_stream *stream, struct error *error)
{
	const struct mxfp_sizes size = next_piece(stream); /* no later piece is larger */

	stream->numbers = malloc((size_t)BLOCK_STREAM_PIECE * mxfp_format_get_info(stream->number_format)->storage_bytes);
	stream->codes = malloc(size.codes_bytes);
	stream->scales = malloc(size.scales_bytes);
	if (stream->numbers == NULL || stream->codes == NULL || stream->scales == NULL) {
		block_stream_end(stream);
		return fail_memory(error);
	}
	return EXIT_OK;
}

void block_stream_end(struct block_stream *stream)
{
	free(stream->numbers);
	free(stream->codes);
	free(stream->scales);
	stream->numbers = NULL;
	stream->codes = stream->scales = NULL;
}

/* Counts the piece as done. */
static void end_piece(struct block_stream *stream)
{
	stream->n += (uint64_t)stream->rows * stream->piece_cols;
	stream->col = (stream->col + stream->piece_cols) % stream->cols;
}

static struct mxfp_blocks piece_blocks(const struct block_stream *stream)
{
	return (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = stream->format,
		.rows = stream->rows,
		.cols = stream->piece_cols,
		.codes = stream->codes,
		.scales = stream->scales,
		.tensor_scale = stream->tensor_scale,
		.tensor_scale_divides = stream->tensor_scale_divides,
	};
}

/* Quantizes the piece; if it has no rows, this only sets the tensor scale. `name` is for messages. */
static int quantize_piece(struct block_stream *stream, const char *name, struct error *error)
{
	struct mxfp_blocks piece = piece_blocks(stream);
	uint64_t first = UINT64_MAX;
	const bool refuses = stream->non_finite == MXFP_NON_FINITE_ERROR; /* nothing of a refused piece is written */
	const struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = (enum mxfp_rule)stream->rule,
		.recipe = (enum mxfp_recipe)stream->recipe,
		.round = (enum mxfp_round)stream->round,
		.non_finite = refuses ? MXFP_NON_FINITE_PROPAGATE : (enum mxfp_non_finite)stream->non_finite,
		.no_negative_zero = stream->no_negative_zero,
		.via_bf16 = stream->via_bf16,
		.seed = stream->seed,
		.stream = stream->stream_number,
		.first_index = stream->n,
		.tensor_amax = mxfp_some(stream->amax),
	};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = stream->threads};
	const struct mxfp_matrix numbers = mxfp_numbers(stream->number_format, piece.rows, piece.cols, stream->numbers);
	struct mxfp_result result = mxfp_to_blocks(&piece);

	result.first_non_finite = &first;
	result.counts = &stream->counts;
	enum mxfp_status status = mxfp_quantize(&result, &numbers, &options, &exec);

	stream->tensor_scale = piece.tensor_scale;
	stream->tensor_scale_divides = piece.tensor_scale_divides;
	if (status == MXFP_OK && refuses && first != UINT64_MAX)
		return fail(error, EXIT_INPUT,
		            "%s: row %" PRIu64 ", column %" PRIu64
		            ": NaN or Inf; --non-finite propagate or saturate takes it",
		            name, first / stream->cols, first % stream->cols);
	if (status == MXFP_ERR_OPTION && options.recipe == MXFP_RECIPE_GGML && options.round != MXFP_ROUND_RNE)
		return fail(error, EXIT_USAGE,
		            "blocks: --round %s: recipe %s has a rounding of its own, so it takes only rne",
		            mxfp_option_name(MXFP_OPTION_ROUND, stream->round),
		            mxfp_option_name(MXFP_OPTION_RECIPE, stream->recipe));
	if (status != MXFP_OK)
		return fail(error, EXIT_INPUT, "%s: %s", name, mxfp_status_text(status));
	return EXIT_OK;
}

int block_stream_tensor_scale(struct block_stream *stream, struct error *error)
{
	next_piece(stream);
	stream->rows = 0;
	return quantize_piece(stream, "", error);
}

/* Reads numbers for the piece that next_piece() has set; at the end of the input there may be fewer rows, or none. */
static int read_numbers(struct block_stream *stream, const struct source *source, struct error *error)
{
	const unsigned width = mxfp_format_get_info(stream->number_format)->storage_bytes;
	const size_t row_bytes = stream->piece_cols * width;
	size_t got;
	int code = source_fill(source, stream->numbers, stream->rows * row_bytes, &got, error);

	if (code != EXIT_OK)
		return code;
	if (got % width != 0)
		return fail(error, EXIT_INPUT, "%s: its end is not a whole %s number: %zu of %u bytes", source->name,
		            format_name(stream->number_format), got % width, width);
	/* In a row that is processed in parts, the input must not end between two parts either. */
	if (got % row_bytes != 0 || (got == 0 && stream->col != 0))
		return fail(error, EXIT_INPUT,
		            "%s: %" PRIu64 " numbers are not a whole number of rows of %" PRIu64 " (--cols)",
		            source->name, stream->n + got / width, stream->cols);
	stream->rows = got / row_bytes;
	little_endian(stream->numbers, got / width, width);
	progress_add(&stream->progress, got);
	return EXIT_OK;
}

int block_stream_amax(struct block_stream *stream, const struct source *source, struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = stream->threads};

	if (!source->seekable)
		return fail(error, EXIT_USAGE,
		            "blocks: %s cannot be read twice, and %s needs its largest magnitude first; give --amax",
		            source->name, format_name(stream->format));
	for (;;) {
		next_piece(stream);
		int code = read_numbers(stream, source, error);
		if (code != EXIT_OK)
			return code;
		if (stream->rows == 0)
			break;
		dense_amax(&stream->amax, stream->number_format, stream->numbers, stream->rows * stream->piece_cols, &exec);
		end_piece(stream);
	}
	stream->n = 0;
	return source_rewind(source, error);
}

int block_stream_encode(struct block_stream *stream, const struct source *source, const struct sink sinks[2],
                        struct error *error)
{
	for (;;) {
		next_piece(stream);
		int code = read_numbers(stream, source, error);
		if (code == EXIT_OK)
			code = quantize_piece(stream, source->name, error);
		if (code != EXIT_OK || stream->rows == 0)
			return code;
		struct mxfp_sizes size;
		mxfp_blocks_size(&size, stream->format, stream->rows, stream->piece_cols);
		code = sink_write(&sinks[0], stream->codes, size.codes_bytes, error);
		if (code == EXIT_OK)
			code = sink_write(&sinks[1], stream->scales, size.scales_bytes, error);
		if (code != EXIT_OK)
			return code;
		end_piece(stream);
	}
}

/* Reads the piece's codes and scales, which must end together. */
static int read_blocks(struct block_stream *stream, const struct source sources[2], struct error *error)
{
	const struct mxfp_sizes size = next_piece(stream);
	size_t codes, scales;
	int code = source_fill(&sources[0], stream->codes, size.codes_bytes, &codes, error);

	if (code == EXIT_OK)
		code = source_fill(&sources[1], stream->scales, size.scales_bytes, &scales, error);
	if (code != EXIT_OK)
		return code;
	if (codes % size.codes_row_bytes != 0 || (codes == 0 && stream->col != 0))
		return fail(error, EXIT_INPUT, "%s: ends inside a row of %" PRIu64 " elements; is --cols right?",
		            sources[0].name, stream->cols);
	stream->rows = codes / size.codes_row_bytes;
	if (scales != stream->rows * size.scales_row_bytes)
		return fail(error, EXIT_INPUT, "%s: holds %s scales than %s has blocks; is --cols right?",
		            sources[1].name, scales < stream->rows * size.scales_row_bytes ? "fewer" : "more",
		            sources[0].name);
	progress_add(&stream->progress, codes);
	return EXIT_OK;
}

int block_stream_decode(struct block_stream *stream, const struct source sources[2], const struct sink *sink,
                        struct error *error)
{
	const unsigned width = mxfp_format_get_info(stream->number_format)->storage_bytes;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = stream->threads};

	for (;;) {
		int code = read_blocks(stream, sources, error);
		if (code != EXIT_OK || stream->rows == 0)
			return code;
		const struct mxfp_blocks blocks = piece_blocks(stream);
		const struct mxfp_matrix piece = mxfp_blocks_matrix(&blocks);
		enum mxfp_status status = dense_dequantize(stream->numbers, stream->number_format, &piece, &exec);
		if (status != MXFP_OK)
			return fail(error, EXIT_INPUT, "%s: %s", sources[0].name, mxfp_status_text(status));
		size_t n = stream->rows * stream->piece_cols;
		little_endian(stream->numbers, n, width);
		code = sink_write(sink, stream->numbers, n * width, error);
		if (code != EXIT_OK)
			return code;
		end_piece(stream);
	}
}
