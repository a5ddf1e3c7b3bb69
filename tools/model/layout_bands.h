/* SPDX-License-Identifier: MIT */
/*
 * Bands: many rows of a quantized tensor in memory, in the order of a file that holds columns. A piece has few rows, so few
 * bytes of each column; a band has thousands of them, so that a column of it is worth a system call.
 *
 * Whoever writes a tensor announces its pieces in their order and then brings them in any order, from several threads;
 * whoever brings the last piece of a band writes the band. Should all bands be in use, because a thread has fallen behind,
 * the pieces of the next one go to the file on their own: no thread waits.
 */
#ifndef TOOLS_MODEL_LAYOUT_BANDS_H
#define TOOLS_MODEL_LAYOUT_BANDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/piece.h"

enum { LAYOUT_BANDS = 3, LAYOUT_BAND_BYTES = 1 << 22 };

struct layout_band {
	uint64_t row;         /* its first */
	size_t rows;
	uint64_t left;        /* elements that are to be brought; 0: the band is free */
	unsigned char *bytes; /* columns of layout_bands.rows rows */
};

struct layout_bands {
	size_t rows; /* of a band, a multiple of those of a piece */
	uint64_t matrix_rows, matrix_cols;
	pthread_mutex_t lock;
	unsigned n;
	struct layout_band bands[LAYOUT_BANDS];
};

/* `n` bands for a matrix that comes in pieces of `band` rows (piece.h), whose rows take row_bytes in them. NULL if a band would have no more rows than a piece, or
   without memory: the pieces go to the file on their own then. */
struct layout_bands *layout_bands_new(uint64_t rows, uint64_t cols, size_t band, size_t row_bytes, unsigned n);
void layout_bands_free(struct layout_bands *bands);

/* Announces the next piece. */
void layout_bands_announce(struct layout_bands *bands, const struct piece *piece);

/* The band that an announced piece is to be put into; NULL: none. */
struct layout_band *layout_bands_find(struct layout_bands *bands, const struct piece *piece);

/* After a piece was put into its band: whether it was the last, so that the caller writes the band and then frees it. */
bool layout_bands_add(struct layout_bands *bands, struct layout_band *band, const struct piece *piece);
void layout_bands_release(struct layout_bands *bands, struct layout_band *band);

#endif
