/* SPDX-License-Identifier: MIT */
/* Transposes sixteen vectors of sixteen words in registers. */
#ifndef MXFP_AVX512_TRANSPOSE_H
#define MXFP_AVX512_TRANSPOSE_H

#include "tier.h"

/* Lane i of vector j becomes lane j of vector i. */
ALWAYS_INLINE void transpose_16x16(__m512 v[LANES])
{
	__m512 t[LANES];

#pragma GCC unroll 8
	for (int i = 0; i < LANES; i += 2) {
		t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < LANES; i += 4) {
		v[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
		v[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
		v[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
		v[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
	}
	/* v[4 i + j] has lanes j, j + 4, j + 8 and j + 12 of vectors 4 i to 4 i + 3. */
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		t[j] = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x44);
		t[4 + j] = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xEE);
		t[8 + j] = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x44);
		t[12 + j] = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xEE);
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		v[j] = _mm512_shuffle_f32x4(t[j], t[8 + j], 0x88);
		v[4 + j] = _mm512_shuffle_f32x4(t[j], t[8 + j], 0xDD);
		v[8 + j] = _mm512_shuffle_f32x4(t[4 + j], t[12 + j], 0x88);
		v[12 + j] = _mm512_shuffle_f32x4(t[4 + j], t[12 + j], 0xDD);
	}
}

/* Loads 16 columns of sixteen rows, `stride` numbers apart, each column into a vector. */
ALWAYS_INLINE void load_transposed(__m512 v[LANES], const float *rows, size_t stride)
{
#pragma GCC unroll 16
	for (size_t i = 0; i < LANES; i++)
		v[i] = _mm512_loadu_ps(rows + i * stride);
	transpose_16x16(v);
}

#endif
