/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/layout_bands.h"

#include <stdlib.h>

struct layout_bands *layout_bands_new(uint64_t rows, uint64_t cols, size_t band, size_t row_bytes, unsigned n)
{
	struct piece piece = {.band = band};

	if (!piece_next(&piece, rows, cols) || row_bytes > LAYOUT_BAND_BYTES)
		return NULL;
	size_t band_rows = LAYOUT_BAND_BYTES / row_bytes / piece.rows * piece.rows;
	if (band_rows > rows)
		band_rows = (size_t)rows;
	struct layout_bands *bands = band_rows > piece.rows ? malloc(sizeof *bands) : NULL;
	unsigned char *bytes = bands != NULL ? malloc(n * band_rows * row_bytes) : NULL;
	if (bytes == NULL) {
		free(bands);
		return NULL;
	}
	*bands = (struct layout_bands){.rows = band_rows, .matrix_rows = rows, .matrix_cols = cols, .n = n};
	pthread_mutex_init(&bands->lock, NULL);
	for (unsigned i = 0; i < n; i++)
		bands->bands[i].bytes = bytes + i * band_rows * row_bytes;
	return bands;
}

void layout_bands_free(struct layout_bands *bands)
{
	if (bands == NULL)
		return;
	free(bands->bands[0].bytes);
	pthread_mutex_destroy(&bands->lock);
	free(bands);
}

void layout_bands_announce(struct layout_bands *bands, const struct piece *piece)
{
	if (piece->row % bands->rows != 0 || piece->col != 0)
		return;
	pthread_mutex_lock(&bands->lock);
	for (unsigned i = 0; i < bands->n; i++)
		if (bands->bands[i].left == 0) {
			uint64_t rows = bands->matrix_rows - piece->row;

			bands->bands[i].row = piece->row;
			bands->bands[i].rows = rows < bands->rows ? (size_t)rows : bands->rows;
			bands->bands[i].left = bands->bands[i].rows * bands->matrix_cols;
			break;
		}
	pthread_mutex_unlock(&bands->lock);
}

struct layout_band *layout_bands_find(struct layout_bands *bands, const struct piece *piece)
{
	struct layout_band *found = NULL;

	pthread_mutex_lock(&bands->lock);
	for (unsigned i = 0; i < bands->n; i++)
		if (bands->bands[i].left != 0 && bands->bands[i].row == piece->row / bands->rows * bands->rows)
			found = &bands->bands[i];
	pthread_mutex_unlock(&bands->lock);
	return found;
}

/* One element is left until the band is written, so that it is not taken for free. */
bool layout_bands_add(struct layout_bands *bands, struct layout_band *band, const struct piece *piece)
{
	const uint64_t n = (uint64_t)piece->rows * piece->cols;

	pthread_mutex_lock(&bands->lock);
	bool last = band->left == n;
	band->left = last ? 1 : band->left - n;
	pthread_mutex_unlock(&bands->lock);
	return last;
}

void layout_bands_release(struct layout_bands *bands, struct layout_band *band)
{
	pthread_mutex_lock(&bands->lock);
	band->left = 0;
	pthread_mutex_unlock(&bands->lock);
}
