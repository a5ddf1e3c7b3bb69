/* SPDX-License-Identifier: MIT */
/* Panels of W become words that vpdpwssd takes: gemm_e4m3.h. Whatever a panel holds, it gives some numbers. */
#include "avx512/gemm_e4m3_load.h"

/* Each column's least and largest scale. One that has a NaN becomes NaN anyhow and is to disturb no other: 127. */
struct columns_range {
	__m256i least, most;
	__mmask32 nan;
};

ALWAYS_INLINE __m256i load_scales(const uint8_t *panel, size_t b)
{
	return _mm256_loadu_si256((const __m256i *)(panel + b * GEMM_E4M3_NR));
}

static struct columns_range range_of(const uint8_t *panel, size_t blocks)
{
	const __m256i nan = _mm256_set1_epi8((char)E8M0_NAN), one = _mm256_set1_epi8(E8M0_BIAS);
	struct columns_range range = {nan, _mm256_setzero_si256(), 0};

	for (size_t b = 0; b < blocks; b++) {
		__m256i scales = load_scales(panel, b);

		range.least = _mm256_min_epu8(range.least, scales);
		range.most = _mm256_max_epu8(range.most, scales);
	}
	range.nan = _mm256_cmpeq_epi8_mask(range.most, nan);
	range.least = _mm256_mask_mov_epi8(range.least, range.nan, one);
	range.most = _mm256_mask_mov_epi8(range.most, range.nan, one);
	return range;
}

static bool are_moderate(const struct columns_range *range)
{
	const __m256i least = _mm256_set1_epi8(GEMM_E4M3_SCALE_LEAST), most = _mm256_set1_epi8((char)GEMM_E4M3_SCALE_MOST);

	return _mm256_cmplt_epu8_mask(range->least, least) == 0 && _mm256_cmpgt_epu8_mask(range->most, most) == 0;
}

static bool are_foldable(const struct columns_range *range, enum mxfp_format format)
{
	const __m256i spread = _mm256_set1_epi8((char)gemm_e4m3_fold_spread(format));

	return _mm256_cmpgt_epu8_mask(_mm256_sub_epi8(range->most, range->least), spread) == 0;
}

/* 16 of 32 bytes as lanes. */
ALWAYS_INLINE __m512i lanes_of(__m256i bytes, int v)
{
	return _mm512_cvtepu8_epi32(v == 0 ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1));
}

/* What holds for all columns of the panel; `least` replaces the scales of blocks where columns are folded. */
static void store_last(struct gemm_e4m3_expanded *to, const struct columns_range *range, bool folded)
{
	const __m512 nan = _mm512_set1_ps(__builtin_nanf(""));

	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		__mmask16 is_nan = (__mmask16)(range->nan >> 16 * v);
		__m512 one = _mm512_mask_mov_ps(_mm512_set1_ps(1), is_nan, nan);
		__m512i scale = folded ? lanes_of(range->least, v) : _mm512_set1_epi32(E8M0_BIAS);

		_mm512_store_ps(to->one + v * LANES, one);
		_mm512_store_ps(to->last + v * LANES,
		                _mm512_mul_ps(one, _mm512_castsi512_ps(_mm512_slli_epi32(scale, F32_SIGNIFICAND_BITS))));
	}
}

ALWAYS_INLINE void store_scales(struct gemm_e4m3_columns *to, __m256i scales)
{
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		__m512i scale = lanes_of(scales, v);

		_mm512_store_si512(to->exponent + v * LANES, _mm512_sub_epi32(scale, _mm512_set1_epi32(E8M0_BIAS)));
		_mm512_store_si512(to->factor + v * LANES, _mm512_slli_epi32(scale, F32_SIGNIFICAND_BITS));
	}
}

/* Word w of the columns of vector v, as bytes: integers, or codes of e4m3. */
ALWAYS_INLINE __m512i load_word(enum mxfp_format format, const uint8_t *codes, int w, int v)
{
	const __m512i nibble = _mm512_set1_epi8(0x0F);

	if (format != MXFP_FORMAT_MXFP4)
		return _mm512_loadu_si512(codes + (w * GEMM_E4M3_NR + v * LANES) * 4);
	__m512i x = _mm512_loadu_si512(codes + (w / 2 * GEMM_E4M3_NR + v * LANES) * 4);
	x = _mm512_and_si512(w % 2 != 0 ? _mm512_srli_epi16(x, 4) : x, nibble);
	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(e2m1_halves()), x);
}

/* A block of narrow elements, each times 2^(scale - least). */
ALWAYS_INLINE void expand_narrow(struct gemm_e4m3_columns *to, enum mxfp_format format, const uint8_t *codes,
                                 __m256i excess)
{
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		__m512i lanes = lanes_of(excess, v), words = _mm512_or_si512(lanes, _mm512_slli_epi32(lanes, 16));
		/* An element arrives in the high byte of a word. */
		__m512i down = _mm512_sub_epi16(_mm512_set1_epi16(8), words);

		for (int w = 0; w < GEMM_E4M3_PAIRS / 2; w++) {
			__m512i x = load_word(format, codes, w, v), odd = _mm512_and_si512(x, _mm512_set1_epi16((short)0xFF00));

			_mm512_store_si512(to->main[2 * w][v * LANES], _mm512_srav_epi16(_mm512_slli_epi16(x, 8), down));
			_mm512_store_si512(to->main[2 * w + 1][v * LANES], _mm512_srav_epi16(odd, down));
		}
	}
	to->rests = 0;
}

ALWAYS_INLINE void expand_narrow_panel(struct gemm_e4m3_expanded *to, enum mxfp_format format, const uint8_t *panel,
                                       size_t blocks)
{
	const uint8_t *codes = panel + blocks * GEMM_E4M3_NR;
	struct columns_range range = range_of(panel, blocks);
	const bool foldable = are_foldable(&range, format);

	to->general = !foldable || !are_moderate(&range);
	store_last(to, &range, true);
	for (size_t b = 0; b < blocks; b++, codes += gemm_e4m3_code_bytes(format) * GEMM_E4M3_NR) {
		__m256i scales = load_scales(panel, b), least = foldable ? range.least : scales;

		expand_narrow(&to->block[b], format, codes, _mm256_sub_epi8(scales, least));
		store_scales(&to->block[b], least);
	}
}

/* A pair of all columns; returns whether it has a rest. */
ALWAYS_INLINE bool expand_pair(int16_t (*main)[2], int16_t (*rest)[2], const __m512i codes[GEMM_E4M3_VECTORS],
                               int low_bits, __m512 squares[GEMM_E4M3_VECTORS])
{
	struct gemm_e4m3_parts parts[GEMM_E4M3_VECTORS];
	__m512i any = _mm512_setzero_si512();

	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		parts[v] = gemm_e4m3_split(codes[v], low_bits);
		any = _mm512_or_si512(any, parts[v].rest);
		_mm512_store_si512(main[v * LANES], parts[v].main);
		squares[v] = _mm512_add_ps(squares[v], _mm512_cvtepi32_ps(_mm512_madd_epi16(parts[v].main, parts[v].main)));
	}
	if (_mm512_test_epi32_mask(any, any) == 0)
		return false;
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
		_mm512_store_si512(rest[v * LANES], parts[v].rest);
	return true;
}

ALWAYS_INLINE void expand_e4m3(struct gemm_e4m3_expanded *to, size_t b, const uint8_t *codes, int low_bits)
{
	struct gemm_e4m3_columns *block = &to->block[b];
	__m512 squares[GEMM_E4M3_VECTORS] = {_mm512_setzero_ps(), _mm512_setzero_ps()};

	block->rests = 0;
	for (int p = 0; p < GEMM_E4M3_PAIRS; p++) {
		__m512i x[GEMM_E4M3_VECTORS];

		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			x[v] = load_word(MXFP_FORMAT_MXFP8_E4M3, codes, p / 2, v);
			x[v] = p % 2 != 0 ? _mm512_srli_epi16(x[v], 8) : _mm512_and_si512(x[v], _mm512_set1_epi16(0xFF));
		}
		block->rests |= (uint32_t)expand_pair(block->main[p], to->rest[b][p], x, low_bits, squares) << p;
	}
	block->norm = gemm_e4m3_norm(float_of(max_across((vu32)_mm512_max_ps(squares[0], squares[1]))));
}

ALWAYS_INLINE void expand_e4m3_panel(struct gemm_e4m3_expanded *to, const uint8_t *panel, size_t blocks, int low_bits)
{
	const uint8_t *codes = panel + blocks * GEMM_E4M3_NR;
	struct columns_range range = range_of(panel, blocks);

	to->general = !are_moderate(&range);
	store_last(to, &range, false);
	for (size_t b = 0; b < blocks; b++, codes += GEMM_E4M3_BLOCK * GEMM_E4M3_NR) {
		expand_e4m3(to, b, codes, low_bits);
		store_scales(&to->block[b], load_scales(panel, b));
	}
}

void mxfp_gemm_e4m3_expand(struct gemm_e4m3_expanded *to, const struct mxfp_gemm_shape *shape, const uint8_t *panel,
                           size_t blocks)
{
	switch (shape->w_format) {
	case MXFP_FORMAT_MXFP4:
		expand_narrow_panel(to, MXFP_FORMAT_MXFP4, panel, blocks);
		break;
	case MXFP_FORMAT_MXFP6_E2M3:
		expand_narrow_panel(to, MXFP_FORMAT_MXFP6_E2M3, panel, blocks);
		break;
	case MXFP_FORMAT_MXINT8:
		expand_narrow_panel(to, MXFP_FORMAT_MXINT8, panel, blocks);
		break;
	default:
		if (gemm_e4m3_low_bits(shape) == 4)
			expand_e4m3_panel(to, panel, blocks, 4);
		else
			expand_e4m3_panel(to, panel, blocks, 3);
		break;
	}
}
