/* SPDX-License-Identifier: MIT */
/* The work of `mxfp blocks`: any number of rows of raw numbers to and from codes and scales, in bounded memory. */
#ifndef TOOLS_IO_BLOCK_STREAM_H
#define TOOLS_IO_BLOCK_STREAM_H

#include "base/progress.h"
#include "io/stream.h"
#include "mxfp/format.h"
#include "mxfp/options.h"

/* The most numbers worked on at a time: whole blocks of every format. */
enum { BLOCK_STREAM_PIECE = 1 << 18 };

struct block_stream {
	/* Set by the caller. */
	enum mxfp_format format, number_format; /* of the blocks; of the numbers */
	uint64_t cols;                          /* at least 1 */
	int rule, recipe, round, non_finite;    /* values of option.def */
	bool no_negative_zero, via_bf16;
	uint64_t seed, stream_number;
	unsigned threads;                       /* the most, 0: one per processor */
	float amax;                             /* of the whole input, for formats with a tensor scale */
	float tensor_scale;                     /* set by encoding, used by decoding */
	bool tensor_scale_divides;
	struct progress progress;               /* started */
	/* Done so far. */
	uint64_t n;                             /* numbers */
	struct mxfp_counts counts;
	/* The current piece. */
	size_t rows, piece_cols;                /* a row longer than a piece is processed in parts */
	uint64_t col;                           /* the column at which it starts */
	void *numbers;
	uint8_t *codes, *scales;
};

/* Allocates the memory for one piece. EXIT_MEMORY. */
int block_stream_begin(struct block_stream *stream, struct error *error);

/* Releases it. */
void block_stream_end(struct block_stream *stream);

/* Raises stream->amax to the largest finite magnitude of the whole source and rewinds it. EXIT_USAGE: it cannot be read
   twice; EXIT_INPUT: it is not a whole number of rows; EXIT_IO. */
int block_stream_amax(struct block_stream *stream, const struct source *source, struct error *error);

/* Sets the tensor scale that the recipe computes from stream->amax, and whether it divides. EXIT_USAGE: the recipe does
   not support the rounding. */
int block_stream_tensor_scale(struct block_stream *stream, struct error *error);

/* Quantizes the whole source to codes (sinks[0]) and scales (sinks[1]). EXIT_INPUT, EXIT_USAGE, EXIT_IO. */
int block_stream_encode(struct block_stream *stream, const struct source *source, const struct sink sinks[2],
                        struct error *error);

/* Dequantizes codes (sources[0]) and scales (sources[1]), which must end together. EXIT_INPUT, EXIT_IO. */
int block_stream_decode(struct block_stream *stream, const struct source sources[2], const struct sink *sink,
                        struct error *error);

#endif
