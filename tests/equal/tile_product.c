/* SPDX-License-Identifier: MIT */
#include "tier.h"

#include "equal/tile_product.h"

void TIER(tile_product)(struct tile_product *p)
{
	tile_multiply(p);
}
