/* SPDX-License-Identifier: MIT */
#include "tier.h"

#include "amx/tiles.h"
#include "equal/tile_product.h"

void TIER(tile_product)(struct tile_product *p)
{
	_Alignas(64) struct tile_config config = {
		.palette = 1,
		.bytes = {(uint16_t)(4 * p->cols), (uint16_t)(4 * p->fours), (uint16_t)(4 * p->cols)},
		.rows = {p->rows, p->rows, p->fours},
	};

	tile_configure(&config);
	tile_load(0, p->sum, sizeof p->sum[0]);
	tile_load(1, p->a, sizeof p->a[0]);
	tile_load(2, p->b, sizeof p->b[0]);
	tile_dot(0, 1, 2);
	tile_store(0, p->sum, sizeof p->sum[0]);
	tile_release();
}
