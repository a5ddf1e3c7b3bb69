/* SPDX-License-Identifier: MIT */
/* Instructions of tiles.h in C. A configuration or a product that the processor would refuse ends the program. */
#ifndef MXFP_AMX_TILES_EMULATED_H
#define MXFP_AMX_TILES_EMULATED_H

#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
	struct tile_config config;
	uint8_t data[TILES][TILE_ROWS][TILE_BYTES];
} tiles;

static inline void tile_demand(int holds)
{
	if (!holds)
		abort();
}

static inline void tile_configure(const struct tile_config *config)
{
	tile_demand(config->palette == 1);
	for (int t = 0; t < 16; t++) {
		tile_demand(config->bytes[t] <= TILE_BYTES && config->rows[t] <= TILE_ROWS);
		tile_demand((config->bytes[t] == 0) == (config->rows[t] == 0) && (t < TILES || config->rows[t] == 0));
	}
	memset(&tiles, 0, sizeof tiles);
	tiles.config = *config;
}

static inline void tile_release(void)
{
	memset(&tiles, 0, sizeof tiles);
}

static inline void tile_load(int tile, const void *at, ptrdiff_t stride)
{
	tile_demand(tiles.config.rows[tile] != 0);
	memset(tiles.data[tile], 0, sizeof tiles.data[tile]);
	for (int m = 0; m < tiles.config.rows[tile]; m++)
		memcpy(tiles.data[tile][m], (const uint8_t *)at + m * stride, tiles.config.bytes[tile]);
}

static inline void tile_store(int tile, void *at, ptrdiff_t stride)
{
	tile_demand(tiles.config.rows[tile] != 0);
	for (int m = 0; m < tiles.config.rows[tile]; m++)
		memcpy((uint8_t *)at + m * stride, tiles.data[tile][m], tiles.config.bytes[tile]);
}

static inline void tile_zero(int tile)
{
	tile_demand(tiles.config.rows[tile] != 0);
	memset(tiles.data[tile], 0, sizeof tiles.data[tile]);
}

static inline void tile_dot(int sum, int a, int b)
{
	const struct tile_config *c = &tiles.config;

	tile_demand(sum != a && sum != b && a != b);
	tile_demand(c->rows[sum] == c->rows[a] && c->bytes[sum] == c->bytes[b] && c->bytes[a] == 4 * c->rows[b]);
	tile_demand(c->bytes[sum] % 4 == 0 && c->rows[sum] != 0 && c->rows[b] != 0);
	for (int m = 0; m < c->rows[sum]; m++)
		for (int n = 0; n < c->bytes[sum] / 4; n++) {
			uint32_t total; /* sums wrap around */

			memcpy(&total, &tiles.data[sum][m][4 * n], sizeof total);
			for (int k = 0; k < c->rows[b]; k++)
				for (int i = 0; i < 4; i++)
					total += (uint32_t)((int8_t)tiles.data[a][m][4 * k + i] * (int32_t)tiles.data[b][k][4 * n + i]);
			memcpy(&tiles.data[sum][m][4 * n], &total, sizeof total);
		}
}

#endif
