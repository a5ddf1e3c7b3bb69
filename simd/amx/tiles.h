/* SPDX-License-Identifier: MIT */
/*
 * Instructions of AMX-TILE and AMX-INT8 (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG,
 * TILELOADD, TILEZERO, TDPBSUD, TILESTORED, TILERELEASE). Numbers of tiles are literals. Assembly instead of the compilers'
 * intrinsics, whose macros do not say that they read and write memory.
 *
 * EMULATED_TILES: the same in C, by the manual's pseudocode, for tests on machines without them.
 */
#ifndef MXFP_AMX_TILES_H
#define MXFP_AMX_TILES_H

#include <stddef.h>
#include <stdint.h>

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64 /* of a row */ };

/* What LDTILECFG reads. */
struct tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t bytes[16]; /* of a row of each tile */
	uint8_t rows[16];
};

#ifdef EMULATED_TILES

#include "amx/tiles_emulated.h"

#else

static inline void tile_configure(const struct tile_config *config)
{
	__asm__ volatile("ldtilecfg %0" : : "m"(*config));
}

static inline void tile_release(void)
{
	__asm__ volatile("tilerelease");
}

/* The numbers of tiles may be macros, too. */
#define TILE_LOAD(tile, at, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(at), "r"((ptrdiff_t)(stride)) : "memory")
#define TILE_STORE(tile, at, stride) \
	__asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(at), "r"((ptrdiff_t)(stride)) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
#define TILE_DOT(sum, a, b) __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

/* Loads or stores the configured rows of a tile, `stride` bytes apart. */
#define tile_load(tile, at, stride) TILE_LOAD(tile, at, stride)
#define tile_store(tile, at, stride) TILE_STORE(tile, at, stride)
#define tile_zero(tile) TILE_ZERO(tile)
/* sum[m][n] += the products of signed bytes a[m][4 k + i] and unsigned ones b[k][4 n + i], in integers of 32 bits. */
#define tile_dot(sum, a, b) TILE_DOT(sum, a, b)

#endif
#endif
