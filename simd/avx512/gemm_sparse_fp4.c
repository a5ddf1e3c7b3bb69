/* SPDX-License-Identifier: MIT */
/*
 * Exact products of the MX formats up to E4M3 by a sparse MXFP4 W, of which 4 of 16 or 4 of 8 elements are kept. The others
 * add nothing to an exact sum and are not multiplied.
 *
 * In a step vpermb selects for each of 16 columns four of A's elements, and vpdpbusd multiplies them. A's bytes are the
 * unsigned ones, with 128 added, so each sum starts from -128 times the sum of the block's kept elements. Elements of
 * MXFP8_E4M3, without their lower 3 bits, and of MXFP6_E3M2 are integers of more than a byte, 256 * high + low, with a plane
 * of bytes for each, of which only `high` has a sign and the 128. Its sum is multiplied by 256 and goes on with `low`; that has
 * at most 24 bits. The lower bits of e4m3 are a third plane, multiplied only in the few blocks where they are not all zeros,
 * and then the sum has 27.
 *
 * Panels of A have so many rows that W can be decoded as it is multiplied. vpermb takes its table from a whole vector,
 * because broadcasting a part takes a processor as long as selecting from it.
 *
 * Panel of A: head, scales as binary32 [block][row], [block][row][plane] bytes, [block][row] lower bits. In the head is for
 * each block which rows have lower bits.
 * Panel of W: head, codes of scales [block][column], and [block][vector] words of 4 bytes of 16 columns. At 4:16 a word of
 * places in a run of 16 elements, then one of codes: the low halves of bytes are for a step, the high ones for the next.
 * At 4:8, where places would take twice the bytes of masks, a word of the masks of groups 0, 2, 1 and 3 of the block, then
 * one of the codes of groups 0 and 1, one of 2 and 3.
 */
#include "tier.h"

#include "avx512/fetch_w.h"
#include "avx512/gemm_elements.h"
#include "body/gemm_blocks.h"
#include "body/slots.h"

enum {
	MR = 16,
	VECTORS = 4,
	NR = VECTORS * LANES,
	BLOCK = MXFP_MX_BLOCK,
	BLOCKS = MXFP_GEMM_CHUNK / BLOCK,
	RUN = 16,     /* elements from which a step selects */
	MOST_STEPS = BLOCK / 8,
	AT_ONCE = 8,  /* steps of vectors whose places and elements are in registers */
	OFFSET = 128, /* of A's bytes with a sign */
	LOW_BITS = 3,
	W_AHEAD = 16384, /* bytes ahead that a line of W is asked for into L2 */
	FLAGS = sizeof(struct blocks_head) /* in the head of A, 16 bits a block */
};

_Static_assert((int)FLAGS + BLOCKS * (int)sizeof(uint16_t) <= (int)BLOCKS_HEAD_BYTES, "flags fit the head");

/* Whether integers of a format have lower bits of their own. */
ALWAYS_INLINE bool has_low(enum mxfp_format format)
{
	return format == MXFP_FORMAT_MXFP8_E4M3;
}

/* Whether integers of a format have two planes. */
ALWAYS_INLINE bool has_two(enum mxfp_format format)
{
	return has_low(format) || format == MXFP_FORMAT_MXFP6_E3M2;
}

/* Panels of A. */

struct a_panel {
	uint8_t *head, *scales, *planes, *low;
	size_t bytes;
};

ALWAYS_INLINE struct a_panel a_panel(const void *panel, const struct mxfp_gemm_shape *shape, size_t k)
{
	const size_t rows = blocks_count(shape, k) * MR, planes = BLOCKS_HEAD_BYTES + rows * sizeof(float);
	const size_t low = planes + rows * (has_two(shape->a_format) ? 2 : 1) * BLOCK;
	/* The last load may reach into a vector more. */
	struct a_panel a = {.head = (uint8_t *)(uintptr_t)panel, .bytes = low + (has_low(shape->a_format) ? rows * BLOCK : 0) + VECTOR_BYTES};

	if (panel == NULL)
		return a; /* for its size alone */
	a.scales = a.head + BLOCKS_HEAD_BYTES;
	a.planes = a.head + planes;
	a.low = a.head + low;
	return a;
}

static size_t a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return a_panel(NULL, shape, k).bytes;
}

/* The bits of a scale as binary32. */
ALWAYS_INLINE uint32_t scale_bits(uint8_t code)
{
	if (code == MXFP_SCALE_NAN)
		return F32_NAN;
	return code == 0 ? F32_HIDDEN / 2 : (uint32_t)code << F32_SIGNIFICAND_BITS;
}

/* With NaN no scale of the other panel is ordinary. */
ALWAYS_INLINE void extend(struct blocks_head *range, uint32_t scale)
{
	const uint32_t most = scale == F32_NAN ? UINT32_MAX : scale;

	range->least_scale = scale < range->least_scale ? scale : range->least_scale;
	range->greatest_scale = most > range->greatest_scale ? most : range->greatest_scale;
}

/* Loads the first n elements of a block as words of 16 bits with their codes. */
ALWAYS_INLINE __m512i load_words(enum mxfp_format format, const uint8_t *codes, size_t n)
{
	if (format == MXFP_FORMAT_MXFP8_E4M3)
		return _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(low_mask(n), codes));
	__m256i x = unpack_sixes(_mm256_maskz_loadu_epi8(low_mask((n * 6 + 7) / 8), codes));
	return _mm512_cvtepu8_epi16(_mm256_and_si256(_mm256_maskz_mov_epi8(low_mask(n), x), _mm256_set1_epi8(0x3F)));
}

/* Integers as 2^low_bits main + rest, rest >= 0. A NaN gives any number. */
struct parts {
	__m512i main, rest;
};

ALWAYS_INLINE struct parts split(__m512i codes, enum mxfp_format format)
{
	const bool e4m3 = format == MXFP_FORMAT_MXFP8_E4M3;
	const int significand_bits = e4m3 ? 3 : 2, low_bits = has_low(format) ? LOW_BITS : 0;
	const __m512i one = _mm512_set1_epi16(1), low = _mm512_set1_epi16((short)((1 << low_bits) - 1));
	__mmask32 negative = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(e4m3 ? 0x80 : 0x20));
	__m512i exponent = _mm512_and_si512(_mm512_srli_epi16(codes, (unsigned)significand_bits), _mm512_set1_epi16(e4m3 ? 15 : 7));
	__m512i significand = _mm512_and_si512(codes, _mm512_set1_epi16((short)((1 << significand_bits) - 1)));
	__m512i shift = _mm512_sub_epi16(_mm512_max_epi16(exponent, one), one);
	__m512i down = _mm512_sub_epi16(_mm512_set1_epi16((short)(12 + low_bits)), shift);
	struct parts parts;

	significand = _mm512_mask_add_epi16(significand, _mm512_test_epi16_mask(exponent, exponent), significand,
	                                    _mm512_set1_epi16((short)(1 << significand_bits)));
	parts.main = _mm512_srlv_epi16(_mm512_slli_epi16(significand, 12), down);
	parts.rest = _mm512_and_si512(_mm512_sllv_epi16(significand, shift), low);
	/* -(2^n m + r) = 2^n (-m - 1) + 2^n - r if r is not 0. */
	parts.main = _mm512_mask_sub_epi16(parts.main, negative, _mm512_setzero_si512(), parts.main);
	parts.main = _mm512_mask_sub_epi16(parts.main, _mm512_mask_test_epi16_mask(negative, parts.rest, parts.rest), parts.main, one);
	parts.rest = _mm512_mask_sub_epi16(parts.rest, negative, _mm512_setzero_si512(), parts.rest);
	parts.rest = _mm512_and_si512(parts.rest, low);
	return parts;
}

/* Stores the low bytes of words. */
ALWAYS_INLINE void store_bytes(uint8_t *to, __m512i words)
{
	_mm256_store_si256((__m256i *)to, _mm512_cvtepi16_epi8(words));
}

/* Packs block `at` of the panel. Returns whether it has lower bits. */
ALWAYS_INLINE bool pack_two(const struct a_panel *a, size_t at, __m512i codes, enum mxfp_format format)
{
	const struct parts parts = split(codes, format);

	store_bytes(a->planes + at * 2 * BLOCK, _mm512_srli_epi16(_mm512_xor_si512(parts.main, _mm512_set1_epi16(INT16_MIN)), 8));
	store_bytes(a->planes + (at * 2 + 1) * BLOCK, parts.main);
	if (!has_low(format) || _mm512_test_epi16_mask(parts.rest, parts.rest) == 0)
		return false;
	store_bytes(a->low + at * BLOCK, parts.rest);
	return true;
}

/* Packs row r of the panel. A block of zeros has the scale 1, unless it is NaN; NaN in an element is in the scale. */
ALWAYS_INLINE void pack_row(const struct mxfp_gemm_pack_job *job, const struct a_panel *a, size_t r, enum mxfp_format format,
                            struct blocks_head *range)
{
	const uint8_t *codes = codes_at(job->matrix, job->row + r, job->k0);
	const uint8_t *scales = scales_at(job->matrix, job->row + r, job->k0 / BLOCK);
	uint16_t *low = (uint16_t *)(a->head + FLAGS);

	for (size_t b = 0; b * BLOCK < job->k; b++, codes += code_bytes(format, BLOCK)) {
		const size_t at = b * MR + r, n = job->k - b * BLOCK;
		uint32_t scale = scale_bits(scales[b]);
		bool zero, nan = false;

		if (has_two(format)) {
			const __m512i x = load_words(format, codes, n), magnitude = _mm512_set1_epi16(has_low(format) ? 0x7F : 0x1F);

			zero = _mm512_test_epi16_mask(x, magnitude) == 0;
			nan = has_low(format) && _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, magnitude), magnitude) != 0;
			low[b] = (uint16_t)(low[b] | pack_two(a, at, x, format) << r);
		} else {
			const __m256i x = load_integers(format, codes, n);

			zero = _mm256_testz_si256(x, x);
			_mm256_store_si256((__m256i *)(a->planes + at * BLOCK), _mm256_xor_si256(x, _mm256_set1_epi8((char)OFFSET)));
		}
		if (nan)
			scale = F32_NAN;
		else if (zero && scale != F32_NAN)
			scale = F32_ONE;
		extend(range, scale);
		memcpy(a->scales + at * sizeof scale, &scale, sizeof scale);
	}
}

ALWAYS_INLINE void pack_rows(const struct mxfp_gemm_pack_job *job, enum mxfp_format format)
{
	const struct a_panel a = a_panel(job->panel, job->shape, job->k);
	struct blocks_head head = {UINT32_MAX, 0, F32_ONE, F32_ONE};

	memset(a.head, 0, BLOCKS_HEAD_BYTES);
	for (size_t r = 0; r < job->rows; r++)
		pack_row(job, &a, r, format, &head);
	memcpy(a.head, &head, sizeof head);
}

static void pack_a(const struct mxfp_gemm_pack_job *job)
{
	switch (job->shape->a_format) {
	case MXFP_FORMAT_MXFP8_E4M3:
		pack_rows(job, MXFP_FORMAT_MXFP8_E4M3);
		break;
	case MXFP_FORMAT_MXFP6_E3M2:
		pack_rows(job, MXFP_FORMAT_MXFP6_E3M2);
		break;
	case MXFP_FORMAT_MXFP6_E2M3:
		pack_rows(job, MXFP_FORMAT_MXFP6_E2M3);
		break;
	case MXFP_FORMAT_MXFP4:
		pack_rows(job, MXFP_FORMAT_MXFP4);
		break;
	default:
		pack_rows(job, MXFP_FORMAT_MXINT8);
		break;
	}
}

/* Panels of W. */

/* Words of a column in a block that takes so many steps. */
ALWAYS_INLINE size_t words_of(size_t steps)
{
	return 1 + steps / 2;
}

static size_t w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return BLOCKS_HEAD_BYTES + blocks_count(shape, k) * NR * (1 + words_of(BLOCK / shape->sparsity.m) * sizeof(uint32_t));
}

/* The places in a run of the elements in a mask of 16, 4 bits each; at most the first 4. */
ALWAYS_INLINE uint16_t places_of(uint32_t mask)
{
	return (uint16_t)_pext_u64(0xFEDCBA9876543210, _pdep_u64(mask, 0x1111111111111111) * 15);
}

/* The low and the high halves of bytes. */
ALWAYS_INLINE uint32_t halves(uint16_t low, uint16_t high)
{
	return _pdep_u32(low, 0x0F0F0F0F) | _pdep_u32(high, 0xF0F0F0F0);
}

/* Packs column n of the panel. A block of zeros has the scale 1, unless it is NaN. */
static void pack_column(const struct mxfp_gemm_pack_job *job, size_t n, struct blocks_head *range)
{
	const struct mxfp_matrix *w = job->matrix;
	const size_t m = w->sparsity.m, in_block = BLOCK / m, words = words_of(in_block), row = job->row + n;
	const size_t groups = (job->k + m - 1) / m, blocks = blocks_count(job->shape, job->k);
	const uint8_t *codes = (const uint8_t *)w->data + row * w->stride + job->k0 / m * sizeof(uint16_t);
	const uint8_t *masks = (const uint8_t *)w->masks + row * w->masks_stride + job->k0 / 8;
	const uint8_t *from = scales_at(w, row, job->k0 / BLOCK);
	uint8_t *scales = (uint8_t *)job->panel + BLOCKS_HEAD_BYTES;
	uint8_t *to = scales + blocks * NR + (n / LANES * words * LANES + n % LANES) * sizeof(uint32_t);

	for (size_t b = 0; b < blocks; b++, to += words * NR * sizeof(uint32_t)) {
		const size_t left = groups - b * in_block, count = left < in_block ? left : in_block;
		uint16_t code[MOST_STEPS] = {0};
		uint8_t mask[MOST_STEPS] = {0};
		uint32_t word[1 + MOST_STEPS / 2];

		memcpy(code, codes + b * in_block * sizeof code[0], count * sizeof code[0]);
		memcpy(mask, masks + b * BLOCK / 8, count * m / 8);
		if (m == 16) {
			word[0] = halves(places_of(mask[0] | (uint32_t)mask[1] << 8), places_of(mask[2] | (uint32_t)mask[3] << 8));
			word[1] = halves(code[0], code[1]);
		} else {
			word[0] = mask[0] | (uint32_t)mask[2] << 8 | (uint32_t)mask[1] << 16 | (uint32_t)mask[3] << 24;
			word[1] = code[0] | (uint32_t)code[1] << 16;
			word[2] = code[2] | (uint32_t)code[3] << 16;
		}
		for (size_t i = 0; i < words; i++)
			memcpy(to + i * VECTOR_BYTES, &word[i], sizeof word[i]);
		const bool zero = ((code[0] | code[1] | code[2] | code[3]) & 0x7777) == 0;
		const uint8_t scale = zero && from[b] != MXFP_SCALE_NAN ? MXFP_SCALE_BIAS : from[b];
		scales[b * NR + n] = scale;
		extend(range, scale_bits(scale));
	}
}

static void pack_w(const struct mxfp_gemm_pack_job *job)
{
	struct blocks_head head = {UINT32_MAX, 0, F32_ONE, F32_ONE};

	memset(job->panel, 0, w_bytes(job->shape, job->k));
	memset((uint8_t *)job->panel + BLOCKS_HEAD_BYTES, MXFP_SCALE_BIAS, blocks_count(job->shape, job->k) * NR);
	for (size_t n = 0; n < job->rows; n++)
		pack_column(job, n, &head);
	memcpy(job->panel, &head, sizeof head);
}

/* Multiplication. */

struct panels {
	struct a_panel a;
	const uint8_t *w_scales, *w;
	float *c;
	size_t blocks, pass;
	size_t ahead; /* bytes to the next panel of A, or 0 */
	int unit;     /* the exponent of the unit of sums without lower bits */
};

/* A block of W, or as many of its vectors as registers hold. Places are within the block. */
struct block {
	__m512i places[VECTORS][MOST_STEPS], kept[VECTORS][MOST_STEPS], start[VECTORS], scale[VECTORS];
	int vectors, first;
};

/* Constants of the functions below. */
struct kind {
	int planes, steps; /* steps: of a block */
	bool general;      /* the scales are not ordinary */
};

/* The places of 4:8 by half a mask: of its low four bits from the first place on, of its high four up to the last. */
#define TWICE(...) {__VA_ARGS__, __VA_ARGS__}
static const _Alignas(VECTOR_BYTES) uint16_t first_places[32] = TWICE(0, 0x0, 0x1, 0x10, 0x2, 0x20, 0x21, 0x210, 0x3, 0x30,
                                                                      0x31, 0x310, 0x32, 0x320, 0x321, 0x3210);
static const _Alignas(VECTOR_BYTES) uint16_t last_places[32] = TWICE(0, 0x4000, 0x5000, 0x5400, 0x6000, 0x6400, 0x6500,
                                                                     0x6540, 0x7000, 0x7400, 0x7500, 0x7540, 0x7600, 0x7640,
                                                                     0x7650, 0x7654);
#undef TWICE

/* The places of the groups whose masks begin at bit `shift` of the halves of words. Every second group has the second
   half of a run. */
ALWAYS_INLINE __m512i places_by_masks(__m512i masks, unsigned shift)
{
	const __m512i second = _mm512_set1_epi32((int)0x88880000);
	__m512i first = _mm512_permutexvar_epi16(_mm512_srli_epi32(masks, shift), _mm512_load_si512(first_places));
	__m512i last = _mm512_permutexvar_epi16(_mm512_srli_epi32(masks, shift + 4), _mm512_load_si512(last_places));

	return _mm512_ternarylogic_epi32(first, last, second, 0xFE); /* or */
}

/* Places in the block by those in a run in the low halves of bytes. */
ALWAYS_INLINE __m512i places_in_block(__m512i places, int run)
{
	return _mm512_ternarylogic_epi32(places, _mm512_set1_epi8(0x0F), _mm512_set1_epi8((char)(run * RUN)), 0xEA); /* (a & b) | c */
}

/* Elements by codes in the low halves of bytes; the table repeats, so the high halves do not matter. */
ALWAYS_INLINE __m512i elements_of(__m512i codes)
{
	return _mm512_permutexvar_epi8(codes, _mm512_broadcast_i32x4(e2m1_integers(0)));
}

ALWAYS_INLINE const uint8_t *fetched(const uint8_t *at)
{
	fetch_w(at, W_AHEAD);
	fetch_w_near(at);
	return at;
}

/* Decodes vector i of block b as vector v. steps: of a block, a constant here and below. */
ALWAYS_INLINE void decode(struct block *to, int v, const struct panels *t, size_t b, int i, int steps)
{
	const uint8_t *at = t->w + (b * VECTORS + (size_t)i) * words_of((size_t)steps) * VECTOR_BYTES;
	const uint8_t *scales = t->w_scales + b * NR;
	const __m512i first = _mm512_loadu_si512(fetched(at));
	const __m512i zero = _mm512_setzero_si512(), offset = _mm512_set1_epi8((char)OFFSET);
	const __m512i scale = (__m512i)load_u8((i == 0 ? fetched(scales) : scales) + i * LANES);
	__m512i sum = zero;

#pragma GCC unroll 2
	for (int s = 0; s < steps; s += 2) {
		const __m512i places = steps == 2 ? first : places_by_masks(first, 4 * (unsigned)s);
		const __m512i codes = _mm512_loadu_si512(fetched(at + (1 + s / 2) * VECTOR_BYTES));

		to->places[v][s] = places_in_block(places, s * 2 / steps);
		to->places[v][s + 1] = places_in_block(_mm512_srli_epi32(places, 4), (s + 1) * 2 / steps);
		to->kept[v][s] = elements_of(codes);
		to->kept[v][s + 1] = elements_of(_mm512_srli_epi32(codes, 4));
		sum = _mm512_add_epi8(sum, _mm512_add_epi8(to->kept[v][s], to->kept[v][s + 1]));
	}
	to->start[v] = _mm512_sub_epi32(zero, dot_bytes(zero, offset, sum));
	/* So that adding the bits of A's scale gives those of the product of scales, in the unit. */
	to->scale[v] = _mm512_add_epi32(_mm512_slli_epi32(scale, F32_SIGNIFICAND_BITS),
	                                _mm512_set1_epi32((t->unit - F32_BIAS) * (int)F32_HIDDEN));
}

/* Adds the products of a plane of a block of a row of A. The table of vpermb has more than the block; that is not used. */
ALWAYS_INLINE void add_plane(__m512i sum[VECTORS], const uint8_t *plane, const struct block *w, int steps)
{
	const __m512i x = _mm512_loadu_si512(plane);

#pragma GCC unroll 4
	for (int s = 0; s < steps; s++)
#pragma GCC unroll 4
		for (int v = 0; v < w->vectors; v++)
			sum[v] = dot_bytes(sum[v], _mm512_permutexvar_epi8(w->places[v][s], x), w->kept[v][s]);
}

/* p = fl32(p + term * scales), where a product of scales may be no normal number. */
static NOINLINE __m512 add_general(__m512 p, __m512 term, float a_scale, const uint8_t *w_scales)
{
	float at[LANES], part[LANES], scales[LANES];

	_mm512_storeu_ps(at, p);
	_mm512_storeu_ps(part, term);
	_mm512_storeu_ps(scales, decode_scales(false, w_scales));
	add_scaled(at, part, a_scale, (const uint8_t *)scales);
	return _mm512_loadu_ps(at);
}

/* Adds block b of row r, for the vectors of w. low: it has lower bits. */
ALWAYS_INLINE void add_row(__m512 p[VECTORS], const struct panels *t, const struct block *w, size_t b, size_t r, bool low,
                           const struct kind *kind)
{
	const uint8_t *planes = t->a.planes + (b * MR + r) * (size_t)kind->planes * BLOCK;
	const uint8_t *scale = t->a.scales + (b * MR + r) * sizeof(float);
	__m512i sum[VECTORS], factor[VECTORS];

	if (w->first == 0)
		_mm_prefetch((const char *)planes + t->ahead, _MM_HINT_T0);
#pragma GCC unroll 4
	for (int v = 0; v < w->vectors; v++) {
		factor[v] = _mm512_add_epi32(w->scale[v], broadcast(scale));
		sum[v] = w->start[v];
	}
	add_plane(sum, planes, w, kind->steps);
	if (kind->planes == 2) {
#pragma GCC unroll 4
		for (int v = 0; v < w->vectors; v++)
			sum[v] = _mm512_slli_epi32(sum[v], 8);
		add_plane(sum, planes + BLOCK, w, kind->steps);
	}
	if (kind->planes == 2 && __builtin_expect(low, 0)) {
#pragma GCC unroll 4
		for (int v = 0; v < w->vectors; v++) {
			sum[v] = _mm512_slli_epi32(sum[v], LOW_BITS);
			factor[v] = _mm512_sub_epi32(factor[v], _mm512_set1_epi32(LOW_BITS * (int)F32_HIDDEN));
		}
		add_plane(sum, t->a.low + (b * MR + r) * BLOCK, w, kind->steps);
	}
#pragma GCC unroll 4
	for (int v = 0; v < w->vectors; v++) {
		const __m512 term = _mm512_cvtepi32_ps(sum[v]);

		if (kind->general) {
			const __m512 unit = _mm512_set1_ps(power_of_two(t->unit - (low ? LOW_BITS : 0)));
			float a_scale;

			memcpy(&a_scale, scale, sizeof a_scale);
			p[w->first + v] = add_general(p[w->first + v], _mm512_mul_ps(term, unit), a_scale, t->w_scales + b * NR + (size_t)(w->first + v) * LANES);
		} else {
			p[w->first + v] = _mm512_fmadd_ps(term, _mm512_castsi512_ps(factor[v]), p[w->first + v]);
		}
	}
}

/* Multiplies the first `rows` rows of a panel, a constant if it is 1. */
ALWAYS_INLINE void multiply_rows(const struct panels *t, size_t rows, struct kind kind)
{
	const uint16_t *low = (const uint16_t *)(t->a.head + FLAGS);

	for (size_t first = 0; first < t->blocks; first += t->pass) {
		const size_t end = t->blocks - first < t->pass ? t->blocks : first + t->pass;
		__m512 p[MR][VECTORS];

		for (size_t i = 0; i < rows * VECTORS; i++)
			p[i / VECTORS][i % VECTORS] = _mm512_setzero_ps();
		for (size_t b = first; b < end; b++)
#pragma GCC unroll 2
			for (int i = 0; i < VECTORS; i += AT_ONCE / kind.steps) {
				struct block w = {.vectors = AT_ONCE / kind.steps, .first = i};

#pragma GCC unroll 4
				for (int v = 0; v < w.vectors; v++)
					decode(&w, v, t, b, i + v, kind.steps);
				for (size_t r = 0; r < rows; r++)
					add_row(p[r], t, &w, b, r, low[b] >> r & 1, &kind);
			}
		for (size_t i = 0; i < rows * VECTORS; i++) {
			float *at = t->c + i * LANES;

			_mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), p[i / VECTORS][i % VECTORS]));
		}
	}
}

/* The functions for a number of planes and a pattern. */
#define ROWS(name, planes, steps) \
	static NOINLINE void name##_one(const struct panels *t) \
	{ \
		multiply_rows(t, 1, (struct kind){planes, steps, false}); \
	} \
	static NOINLINE void name##_some(const struct panels *t, size_t rows) \
	{ \
		multiply_rows(t, rows, (struct kind){planes, steps, false}); \
	} \
	static NOINLINE void name##_general(const struct panels *t, size_t rows) \
	{ \
		multiply_rows(t, rows, (struct kind){planes, steps, true}); \
	} \
	static void name(const struct panels *t, size_t rows, bool general) \
	{ \
		if (general) \
			name##_general(t, rows); \
		else if (rows == 1) \
			name##_one(t); \
		else \
			name##_some(t, rows); \
	}
ROWS(one_plane_4_16, 1, 2)
ROWS(one_plane_4_8, 1, 4)
ROWS(two_planes_4_16, 2, 2)
ROWS(two_planes_4_8, 2, 4)
#undef ROWS

static NOINLINE void multiply_panels(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const bool many = shape->sparsity.m == 8;
	const uint8_t *w = job->w, *a = job->a;
	struct panels t = {
		.w_scales = w + BLOCKS_HEAD_BYTES,
		.c = job->c,
		.blocks = blocks_count(shape, job->k),
		.pass = shape->pass / BLOCK,
		.unit = unit_of_format(shape->a_format) + unit_of_format(shape->w_format) + (has_low(shape->a_format) ? LOW_BITS : 0),
	};
	struct blocks_head a_head, w_head;

	t.w = t.w_scales + t.blocks * NR;
	memcpy(&w_head, w, sizeof w_head);
	for (size_t row = 0; row < job->rows; row += MR, a += t.a.bytes, t.c += MR * NR) {
		const size_t left = job->rows - row, rows = left < MR ? left : MR;

		t.a = a_panel(a, shape, job->k);
		t.ahead = left > MR ? t.a.bytes : 0;
		memcpy(&a_head, a, sizeof a_head);
		const bool general = !scales_are_ordinary(&a_head, &w_head);
		if (has_two(shape->a_format))
			(many ? two_planes_4_8 : two_planes_4_16)(&t, rows, general);
		else
			(many ? one_plane_4_8 : one_plane_4_16)(&t, rows, general);
	}
}

static PANELS_KERNEL(multiply, MR, NR, multiply_panels)

const struct mxfp_gemm_kernel TIER(gemm_sparse_fp4) = {
	.id = 0x0503,
	.name = "sparse-fp4-" TIER_NAME,
	.mr = MR,
	.nr = NR,
	.a_panel_bytes = a_bytes,
	.w_panel_bytes = w_bytes,
	.takes_panels = true,
	.pack_a = pack_a,
	.pack_w = pack_w,
	.multiply = multiply,
};
