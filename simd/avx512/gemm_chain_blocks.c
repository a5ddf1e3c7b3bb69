/* SPDX-License-Identifier: MIT */
/*
 * Panels of W in block formats for the chain kernel: the codes stay as they are, and are decoded to binary32 where they
 * are multiplied. For few rows of A that is in registers; for more, the panel's pass is expanded once for all of them.
 *
 * A panel: a head; the codes, by dwords of a row, [dword][row], if they have 4 or 6 bits, and by bytes, [k][row], if
 * they have 8; the codes of the scales, [block][row], of which ue4m3 is without its spare bit and 0xFF for NaN.
 *
 * An element times its scale has few bits, so one multiplication decodes it, exactly or to Inf as any conversion would.
 *
 * Few rows need no such multiplication if scales are powers of two and A's numbers moderate: P is kept in units of the
 * block's scale, and multiplied by the ratio of two scales from block to block. Every product and every P is a multiple
 * of the least unit of A times that of W times the least scale, and below 512 times the greatest magnitudes, so rounding
 * commutes with powers of two as long as these bounds are within binary32: FOLD_* say when that is certain.
 */
#include "avx512/fetch_w.h"
#include "avx512/gemm_chain.h"
#include "avx512/gemm_elements.h"
#include "avx512/transpose.h"

_Static_assert((int)GEMM_CHAIN_MR == 6, "functions of up to so many rows");

enum { MR = GEMM_CHAIN_MR, NR = GEMM_CHAIN_NR, VECTORS = NR / LANES, STEP = GEMM_CHAIN_BLOCKS_STEP };

/* How codes become numbers. */
enum kind { FP4, NVFP4_TIMES, NVFP4_OVER, FP6, E4M3, E4M3_SPECIAL, E5M2, INT8, N_KINDS };

struct head {
	uint32_t special; /* MXFP8_E4M3: an element is NaN, or a scale has no room for the factor of E4M3_UNIT */
	uint32_t over;    /* the tensor scale divides */
	float tensor_scale;
	uint32_t folds;   /* all scales are within FOLD_SCALE binades of 1 */
	uint32_t spare[12];
};

_Static_assert(sizeof(struct head) == MXFP_GEMM_ALIGN, "the codes of a panel begin a line if the panel does");

/* The elements of e4m3, shifted into binary16, are 2^-8 times their values, and so is ue4m3. */
#define E4M3_UNIT 0x1p8f

enum { E4M3_SCALE_MOST = MXFP_SCALE_NAN - 1 - 8 };

/* Exponents of scales, and of the numbers of A that are not 0. The least unit of an element is 2^-17, so P is a multiple
   of 2^(-50 - 23 - 17 - 48) = 2^-138; elements are below 2^17, so it is below 2^(40 + 17 + 9 + 48) = 2^114. */
enum { FOLD_SCALE = 24, FOLD_A_LEAST = -50, FOLD_A_MOST = 40 };

ALWAYS_INLINE size_t length_of(enum mxfp_format format)
{
	return format == MXFP_FORMAT_NVFP4 ? MXFP_NVFP4_BLOCK : MXFP_MX_BLOCK;
}

ALWAYS_INLINE size_t blocks_of(enum mxfp_format format, size_t k)
{
	return (k + length_of(format) - 1) / length_of(format);
}

/* The bytes of a row's codes in a panel, whole dwords. */
ALWAYS_INLINE size_t row_bytes(enum mxfp_format format, size_t k)
{
	return code_bytes(format, blocks_of(format, k) * length_of(format));
}

size_t TIER(gemm_chain_blocks_bytes)(enum mxfp_format format, size_t k)
{
	return sizeof(struct head) + (row_bytes(format, k) + blocks_of(format, k)) * NR;
}

size_t TIER(gemm_chain_blocks_codes)(enum mxfp_format format, size_t k)
{
	return sizeof(struct head) + code_bytes(format, k) * NR;
}

static enum kind kind_of(enum mxfp_format format, const struct head *head)
{
	switch (format) {
	case MXFP_FORMAT_MXFP4: return FP4;
	case MXFP_FORMAT_NVFP4: return head->over != 0 ? NVFP4_OVER : NVFP4_TIMES;
	case MXFP_FORMAT_MXFP8_E4M3: return head->special != 0 ? E4M3_SPECIAL : E4M3;
	case MXFP_FORMAT_MXFP8_E5M2: return E5M2;
	case MXFP_FORMAT_MXINT8: return INT8;
	default: return FP6;
	}
}

/* Packing. */

/* Loads what is left of a row's codes, a vector at most. */
ALWAYS_INLINE __m512i load_codes(const uint8_t *codes, size_t left)
{
	return _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, left < VECTOR_BYTES ? (unsigned)left : VECTOR_BYTES), codes);
}

static bool has_e4m3_nan(__m512i codes)
{
	const __m512i magnitude = _mm512_set1_epi8(0x7F);

	return _mm512_cmpeq_epi8_mask(_mm512_and_si512(codes, magnitude), magnitude) != 0;
}

/* Stores dword i of LANES rows at `to`, where the panel has it. */
ALWAYS_INLINE void store_dwords(uint8_t *to, bool bytes, size_t i, __m512i x)
{
	const __m512i by_row = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m512i by_lane = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);

	if (!bytes) {
		_mm512_storeu_si512(to + i * NR * sizeof(uint32_t), x);
		return;
	}
	x = _mm512_permutexvar_epi32(by_lane, _mm512_shuffle_epi8(x, by_row));
	to += i * NR * sizeof(uint32_t);
	_mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(x));
	_mm_storeu_si128((__m128i *)(to + NR), _mm512_extracti32x4_epi32(x, 1));
	_mm_storeu_si128((__m128i *)(to + 2 * NR), _mm512_extracti32x4_epi32(x, 2));
	_mm_storeu_si128((__m128i *)(to + 3 * NR), _mm512_extracti32x4_epi32(x, 3));
}

/* Packs the codes of LANES rows from `first` on. */
static void pack_codes(const struct mxfp_gemm_pack_job *job, size_t first, uint8_t *to, struct head *head)
{
	const struct mxfp_matrix *m = job->matrix;
	const size_t dwords = row_bytes(m->format, job->k) / sizeof(uint32_t);
	const size_t bytes = (job->k * mxfp_code_bits(m->format) + 7) / 8;
	const bool wide = mxfp_code_bits(m->format) == 8;

	for (size_t j = 0; j < dwords; j += LANES) {
		const size_t done = j * sizeof(uint32_t);
		__m512 x[LANES];

		for (size_t i = 0; i < LANES; i++) {
			__m512i codes = _mm512_setzero_si512();

			if (first + i < job->rows && done < bytes)
				codes = load_codes(codes_at(m, job->row + first + i, job->k0) + done, bytes - done);
			if (m->format == MXFP_FORMAT_MXFP8_E4M3 && has_e4m3_nan(codes))
				head->special = 1;
			x[i] = _mm512_castsi512_ps(codes);
		}
		transpose_16x16(x);
		for (size_t i = 0; i < LANES && j + i < dwords; i++)
			store_dwords(to + first * (wide ? 1 : sizeof(uint32_t)), wide, j + i, _mm512_castps_si512(x[i]));
	}
}

static void pack_scales(const struct mxfp_gemm_pack_job *job, uint8_t *to, struct head *head)
{
	const struct mxfp_matrix *m = job->matrix;
	const size_t blocks = blocks_of(m->format, job->k);
	const bool ue4m3 = m->format == MXFP_FORMAT_NVFP4;

	if (job->rows < NR)
		memset(to, MXFP_SCALE_BIAS, blocks * NR);
	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *from = scales_at(m, job->row + row, job->k0 / length_of(m->format));

		for (size_t b = 0; b < blocks; b++) {
			const uint8_t code = ue4m3 ? from[b] & 0x7F : from[b];

			to[b * NR + row] = ue4m3 && code == 0x7F ? UINT8_MAX : code;
			if (code > E4M3_SCALE_MOST)
				head->special = 1;
			if (code < MXFP_SCALE_BIAS - FOLD_SCALE || code > MXFP_SCALE_BIAS + FOLD_SCALE)
				head->folds = 0;
		}
	}
}

void TIER(gemm_chain_blocks_pack)(const struct mxfp_gemm_pack_job *job)
{
	const struct mxfp_matrix *m = job->matrix;
	struct head head = {.over = m->tensor_scale_divides, .folds = m->format != MXFP_FORMAT_NVFP4};
	uint8_t *codes = (uint8_t *)job->panel + sizeof head;

	memcpy(&head.tensor_scale, &m->tensor_scale, sizeof head.tensor_scale);
	for (size_t row = 0; row < NR; row += LANES)
		pack_codes(job, row, codes, &head);
	pack_scales(job, codes + row_bytes(m->format, job->k) * NR, &head);
	memcpy(job->panel, &head, sizeof head);
}

/* Decoding. */

/* A pass of a panel of W and, for few rows, of A. */
struct part {
	const uint8_t *codes, *scales;
	const float *magnitudes; /* FP6 */
	float tensor_scale;
	size_t k;
	const float *a;
	size_t a_stride, rows;
	float *to; /* C, or where W is expanded */
	ptrdiff_t ahead; /* as in fetch_w() */
};

static const float fp6_magnitudes[2][2 * LANES] = {
	{0, .125F, .25F, .375F, .5F, .625F, .75F, .875F, 1, 1.125F, 1.25F, 1.375F, 1.5F, 1.625F, 1.75F, 1.875F,
	 2, 2.25F, 2.5F, 2.75F, 3, 3.25F, 3.5F, 3.75F, 4, 4.5F, 5, 5.5F, 6, 6.5F, 7, 7.5F},
	{0, .0625F, .125F, .1875F, .25F, .3125F, .375F, .4375F, .5F, .625F, .75F, .875F, 1, 1.25F, 1.5F, 1.75F,
	 2, 2.5F, 3, 3.5F, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28},
};

ALWAYS_INLINE size_t bits_of(enum kind kind)
{
	return kind <= NVFP4_OVER ? 4 : kind == FP6 ? 6 : 8;
}

ALWAYS_INLINE size_t length_of_kind(enum kind kind)
{
	return kind == NVFP4_TIMES || kind == NVFP4_OVER ? MXFP_NVFP4_BLOCK : MXFP_MX_BLOCK;
}

/* Element i of the STEP elements of 4 bits in two dwords: a permutation uses the low 4 bits of a lane, so bytes later in memory are
   as good as shifts. */
ALWAYS_INLINE __m512 decode_fp4(const uint8_t *at, size_t i, float half)
{
	const __m512 halves = _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, -0.0F, -1, -2, -3, -4, -6, -8, -12);
	const __m512 values = _mm512_mul_ps(halves, _mm512_set1_ps(half));
	const __m512i x = _mm512_loadu_si512(at + i / 8 * NR * sizeof(uint32_t) + i / 2 % 4);

	return _mm512_permutexvar_ps(i % 2 == 0 ? x : _mm512_srli_epi32(x, 4), values);
}

/* Element i of the STEP elements of 6 bits in three dwords, of which it is in one or two. */
ALWAYS_INLINE __m512 decode_fp6(const uint8_t *at, size_t i, const float *magnitudes)
{
	static const uint32_t shifts[STEP] = {0, 6, 12, 18, 24, 30, 4, 10, 16, 22, 28, 2, 8, 14, 20, 26};
	const __m512 low = _mm512_loadu_ps(magnitudes), high = _mm512_loadu_ps(magnitudes + LANES);
	const __m512i first = _mm512_loadu_si512(at + i * 6 / 32 * NR * sizeof(uint32_t));
	const __m512i second = _mm512_loadu_si512(at + (i * 6 + 5) / 32 * NR * sizeof(uint32_t));
	const __m512i code = _mm512_shrdv_epi32(first, second, _mm512_set1_epi32((int)shifts[i]));
	const __m512 magnitude = _mm512_permutex2var_ps(low, code, high);

	/* The sign is bit 5: magnitude ^ (sign & 2^31). */
	return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude), _mm512_slli_epi32(code, 26),
	                                                     _mm512_set1_epi32(INT32_MIN), 0x78));
}

ALWAYS_INLINE __m512 decode_byte(enum kind kind, const uint8_t *at)
{
	const __m128i codes = _mm_loadu_si128((const __m128i *)at);

	if (kind == INT8) /* in units of 2^-6 */
		return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
	if (kind == E5M2)
		return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8));
	__m512 x = _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7),
	                                            _mm256_set1_epi16((short)0xBF80)));
	if (kind == E4M3)
		return x;
	const __mmask16 nan = _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_cvtepu8_epi32(codes), _mm512_set1_epi32(0x7F)),
	                                              _mm512_set1_epi32(0x7F));
	return _mm512_mask_mov_ps(_mm512_mul_ps(x, _mm512_set1_ps(E4M3_UNIT)), nan,
	                          _mm512_castsi512_ps(_mm512_set1_epi32(F32_NAN)));
}

/* Element i of those from k on, of LANES rows, without its scale. With 6 bits k is a multiple of STEP, with 4 bits of 8. */
ALWAYS_INLINE __m512 decode(enum kind kind, const struct part *p, size_t k, size_t i, size_t v)
{
	const uint8_t *codes = p->codes + k * bits_of(kind) / 8 * NR;

	if (bits_of(kind) == 4)
		return decode_fp4(codes + v * VECTOR_BYTES, i, kind == FP4 ? 0.5F : E4M3_UNIT / 2);
	if (bits_of(kind) == 6)
		return decode_fp6(codes + v * VECTOR_BYTES, i, p->magnitudes);
	return decode_byte(kind, codes + i * NR + v * LANES);
}

/* The scales of the elements from k on, times the unit of what decode() returns. */
ALWAYS_INLINE __m512 scale_of(enum kind kind, const struct part *p, size_t k, size_t v)
{
	const size_t length = length_of_kind(kind);
	const __m512 scale = decode_scales(length != MXFP_MX_BLOCK, p->scales + k / length * NR + v * LANES);

	if (kind == E4M3)
		return _mm512_mul_ps(scale, _mm512_set1_ps(E4M3_UNIT));
	return kind == INT8 ? _mm512_mul_ps(scale, _mm512_set1_ps(0x1p-6F)) : scale;
}

/* The exponent of the unit of what decode() returns from k on, if the panel folds. */
ALWAYS_INLINE __m512i unit_of(enum kind kind, const struct part *p, size_t k, size_t v)
{
	const uint8_t *codes = p->scales + k / MXFP_MX_BLOCK * NR + v * LANES;
	const int bias = MXFP_SCALE_BIAS - (kind == E4M3 ? 8 : 0) + (kind == INT8 ? 6 : 0);

	return _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)codes)), _mm512_set1_epi32(bias));
}

ALWAYS_INLINE __m512 scaled(enum kind kind, __m512 x, __m512 scale, __m512 tensor_scale)
{
	x = _mm512_mul_ps(x, scale);
	if (kind == NVFP4_TIMES)
		return _mm512_mul_ps(x, tensor_scale);
	return kind == NVFP4_OVER ? _mm512_div_ps(x, tensor_scale) : x;
}

/* Expands the pass, and elements up to a multiple of STEP. */
ALWAYS_INLINE void expand(enum kind kind, const struct part *of)
{
	const struct part part = *of, *p = &part; /* a copy that no store can alias */

	for (size_t k = 0; k < p->k; k += STEP)
#pragma GCC unroll 1
		for (size_t v = 0; v < VECTORS; v++) {
			const __m512 scale = scale_of(kind, p, k, v);

#pragma GCC unroll 16
			for (size_t i = 0; i < STEP; i++)
				_mm512_store_ps(p->to + (k + i) * NR + v * LANES,
				                scaled(kind, decode(kind, p, k, i, v), scale, _mm512_set1_ps(p->tensor_scale)));
		}
}

/* Adds the products of elements i to i + n - 1 of those from k on to the sums of all columns: the chains take turns, so that none
   is waited for. More than one are decoded at once where sums leave registers for them. */
ALWAYS_INLINE void add_products(enum kind kind, bool folded, size_t rows, __m512 sums[][VECTORS], const float *const a[],
                                const struct part *p, size_t k, size_t i, size_t n, const __m512 scale[VECTORS])
{
	__m512 w[2][VECTORS];

#pragma GCC unroll 8
	for (size_t j = 0; j < n * VECTORS; j++) {
		const size_t v = j / n;
		const __m512 x = decode(kind, p, k, i + j % n, v);

		w[j % n][v] = folded ? x : scaled(kind, x, scale[v], _mm512_set1_ps(p->tensor_scale));
	}
#pragma GCC unroll 24
	for (size_t j = 0; j < n * rows * VECTORS; j++) {
		const size_t at = j / (rows * VECTORS), r = j / VECTORS % rows, v = j % VECTORS;

		sums[r][v] = _mm512_fmadd_ps(_mm512_set1_ps(a[r][k + i + at]), w[at][v], sums[r][v]);
	}
}

/* Changes the unit of the sums from 2^*unit to 2^to. */
ALWAYS_INLINE void change_unit(size_t rows, __m512 sums[][VECTORS], size_t v, __m512i *unit, __m512i to)
{
	const __m512i exponent = _mm512_add_epi32(_mm512_sub_epi32(*unit, to), _mm512_set1_epi32(MXFP_SCALE_BIAS));
	const __m512 ratio = _mm512_castsi512_ps(_mm512_slli_epi32(exponent, F32_SIGNIFICAND_BITS));

#pragma GCC unroll 6
	for (size_t r = 0; r < rows; r++)
		sums[r][v] = _mm512_mul_ps(sums[r][v], ratio);
	*unit = to;
}

/* Elements that a turn of the loop multiplies. A whole step is several times the code, most of which waits for a compiler, and gains
   where few products hide what else a turn does. */
ALWAYS_INLINE size_t turn_of(enum kind kind, size_t rows)
{
	if (bits_of(kind) == 8)
		return 4;
	return rows <= 2 ? STEP : bits_of(kind) == 6 ? 4 : 8;
}

/* C = fl32(C + P) for `rows` rows of A; those from p->rows on repeat the last. */
ALWAYS_INLINE void multiply(enum kind kind, bool folded, size_t rows, const struct part *of)
{
	const struct part part = *of, *p = &part; /* as in expand() */
	const float *a[MR];
	__m512 sums[MR][VECTORS], scale[VECTORS];
	__m512i unit[VECTORS];
	const size_t at_once = rows > 2 ? 1 : 2, together = turn_of(kind, rows);

#pragma GCC unroll 24
	for (size_t i = 0; i < rows * VECTORS; i++) {
		sums[i / VECTORS][i % VECTORS] = scale[i % VECTORS] = _mm512_setzero_ps();
		unit[i % VECTORS] = _mm512_setzero_si512();
	}
#pragma GCC unroll 6
	for (size_t r = 0; r < rows; r++)
		a[r] = p->a + (r < p->rows ? r : p->rows - 1) * p->a_stride;
	for (size_t k = 0; k < p->k; k += together) {
		const size_t into = bits_of(kind) == 6 && together < STEP ? k % STEP : 0; /* a step, where other widths begin anywhere */

		if (k % length_of_kind(kind) == 0)
#pragma GCC unroll 4
			for (size_t v = 0; v < VECTORS; v++) {
				if (folded)
					change_unit(rows, sums, v, &unit[v], unit_of(kind, p, k, v));
				else
					scale[v] = scale_of(kind, p, k, v);
			}
		for (size_t line = 0; line < together * bits_of(kind) / 8; line++) {
			const uint8_t *at = p->codes + (k * bits_of(kind) / 8 + line) * NR;

			fetch_w(at, p->ahead);
			fetch_w_near(at);
		}
#pragma GCC unroll 16
		for (size_t i = 0; i < together; i += at_once)
			add_products(kind, folded, rows, sums, a, p, k - into, into + i, at_once, scale);
	}
	if (folded)
#pragma GCC unroll 4
		for (size_t v = 0; v < VECTORS; v++)
			change_unit(rows, sums, v, &unit[v], _mm512_setzero_si512());
#pragma GCC unroll 24
	for (size_t i = 0; i < rows * VECTORS; i++) {
		float *c = p->to + i * LANES;

		_mm512_store_ps(c, _mm512_add_ps(_mm512_load_ps(c), sums[i / VECTORS][i % VECTORS]));
	}
}

/* The functions of a kind: expanding, and multiplying 1, 2, up to 4 and up to 6 rows. */
#define MULTIPLY_ROWS(name, kind, is_folded, rows) \
	static NOINLINE void name##_##rows##_##kind(const struct part *p) \
	{ \
		multiply(kind, is_folded, rows, p); \
	}
#define MULTIPLY_MORE(name, kind, is_folded) \
	MULTIPLY_ROWS(name, kind, is_folded, 2) \
	MULTIPLY_ROWS(name, kind, is_folded, 4) \
	MULTIPLY_ROWS(name, kind, is_folded, 6)
#define MULTIPLY(name, kind, is_folded) \
	MULTIPLY_ROWS(name, kind, is_folded, 1) \
	MULTIPLY_MORE(name, kind, is_folded)
#define EXPAND(kind) \
	static NOINLINE void expand_##kind(const struct part *p) \
	{ \
		expand(kind, p); \
	}
#define FUNCTIONS(kind) \
	EXPAND(kind) \
	MULTIPLY(multiply, kind, false)
FUNCTIONS(FP4)
FUNCTIONS(NVFP4_TIMES)
EXPAND(NVFP4_OVER)
MULTIPLY_MORE(multiply, NVFP4_OVER, false)
FUNCTIONS(FP6)
FUNCTIONS(E4M3)
FUNCTIONS(E4M3_SPECIAL)
FUNCTIONS(E5M2)
FUNCTIONS(INT8)
MULTIPLY(folded, FP4, true)
MULTIPLY(folded, FP6, true)
MULTIPLY(folded, E4M3, true)
MULTIPLY(folded, E5M2, true)
MULTIPLY(folded, INT8, true)
#undef FUNCTIONS
#undef EXPAND
#undef MULTIPLY
#undef MULTIPLY_MORE
#undef MULTIPLY_ROWS

/* Dividing takes one row as long as two. */
#define multiply_1_NVFP4_OVER multiply_2_NVFP4_OVER
#define ROW(kind) \
	[kind] = {expand_##kind, multiply_1_##kind, multiply_2_##kind, multiply_4_##kind, multiply_4_##kind, multiply_6_##kind, multiply_6_##kind}
static void (*const functions[N_KINDS][1 + MR])(const struct part *) = {
	ROW(FP4), ROW(NVFP4_TIMES), ROW(NVFP4_OVER), ROW(FP6), ROW(E4M3), ROW(E4M3_SPECIAL), ROW(E5M2), ROW(INT8),
};
#undef ROW
#undef multiply_1_NVFP4_OVER

#define ROW(kind) \
	[kind] = {NULL, folded_1_##kind, folded_2_##kind, folded_4_##kind, folded_4_##kind, folded_6_##kind, folded_6_##kind}
static void (*const folded[N_KINDS][1 + MR])(const struct part *) = {
	ROW(FP4), ROW(FP6), ROW(E4M3), ROW(E5M2), ROW(INT8),
};
#undef ROW

/* Whether the numbers of A that are not 0 have exponents from FOLD_A_LEAST to FOLD_A_MOST. */
static bool is_moderate(const struct part *p)
{
	const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
	const __m512i least = _mm512_set1_epi32((F32_BIAS + FOLD_A_LEAST) << F32_SIGNIFICAND_BITS);
	const __m512i range = _mm512_set1_epi32((FOLD_A_MOST + 1 - FOLD_A_LEAST) << F32_SIGNIFICAND_BITS);
	unsigned beyond = 0;

	for (size_t row = 0; row < p->rows; row++)
		for (size_t k = 0; k < p->k; k += LANES) {
			const __m512i x = _mm512_and_si512(_mm512_loadu_si512(p->a + row * p->a_stride + k), magnitude);
			const __mmask16 counts = _mm512_test_epi32_mask(x, x);

			beyond |= _mm512_mask_cmpge_epu32_mask(counts, _mm512_sub_epi32(x, least), range);
		}
	return beyond == 0;
}

/* Elements k0 to k0 + k - 1 of W's panel, and the first panel of A. */
static struct part part_of(const struct mxfp_gemm_multiply_job *job, size_t k0, size_t k, const struct head *head, float *to)
{
	const enum mxfp_format format = job->shape->w_format;
	const uint8_t *w = job->w;

	return (struct part){
		.codes = w + TIER(gemm_chain_blocks_codes)(format, k0),
		.scales = w + sizeof *head + (row_bytes(format, job->k) + k0 / length_of(format)) * NR,
		.magnitudes = fp6_magnitudes[format == MXFP_FORMAT_MXFP6_E3M2],
		.tensor_scale = head->tensor_scale,
		.k = k,
		.a = (const float *)job->a + k0,
		.a_stride = gemm_chain_a_stride(job->k),
		.to = to,
		.ahead = w_ahead(job),
	};
}

const float *TIER(gemm_chain_blocks_expand)(const struct mxfp_gemm_multiply_job *job, size_t k0, size_t k)
{
	struct head head;

	memcpy(&head, job->w, sizeof head);
	const struct part p = part_of(job, k0, k, &head, job->scratch);
	functions[kind_of(job->shape->w_format, &head)][0](&p);
	return job->scratch;
}

bool TIER(gemm_chain_blocks_multiply)(const struct mxfp_gemm_multiply_job *job, size_t k0, size_t k)
{
	struct head head;

	memcpy(&head, job->w, sizeof head);
	const enum kind kind = kind_of(job->shape->w_format, &head);
	struct part p = part_of(job, k0, k, &head, job->c);
	/* Divisions, and NaN among elements, cost more than the memory of an expanded pass if they are done twice. */
	if ((kind == NVFP4_OVER || kind == E4M3_SPECIAL) && job->rows > MR)
		return false;
	for (size_t row = 0; row < job->rows; row += MR, p.a += MR * p.a_stride, p.to += MR * NR) {
		p.rows = job->rows - row < MR ? job->rows - row : MR;
		(folded[kind][p.rows] != NULL && head.folds != 0 && is_moderate(&p) ? folded : functions)[kind][p.rows](&p);
	}
	return true;
}
