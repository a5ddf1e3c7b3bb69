/* SPDX-License-Identifier: MIT */
/*
 * The chain kernel for W in a block format, which stays in its codes. For few rows of A they are decoded where they are
 * multiplied; for more, some columns of a panel of W are decoded to binary32 once for all of them.
 *
 * A panel of W: a head; the codes, in units of 4 elements of 8 bits, 8 of 4 bits or 16 of 6 bits, [unit][vector of columns], one
 * vector each or three; the codes of the scales, [block][column], of which ue4m3 is without its spare bit.
 *
 * An element in the unit that decoding leaves, times this unit, times its scale, has few bits: every step is exact, or
 * the last is Inf as any conversion would make it.
 *
 * Few rows need no such products if scales are powers of two near 1 and A's numbers moderate: P is kept in units of the
 * block's scale, and multiplied by the ratio of two scales from block to block. Every product and every P is a multiple
 * of the least unit of A times that of W times the least scale, and below 512 times the greatest magnitudes, so rounding
 * commutes with powers of two as long as these bounds are within binary32: FOLD_* say when that is certain.
 */
#include "tier.h"

#include "body/gemm_chain.h"
#include "body/pack.h"
#include "format.h"
#include "scale.h"

enum {
	NR = 64,
	VECTORS = NR / LANES,
	FEW = CHAIN_MR, /* the most rows of A that are multiplied by codes as they are decoded, */
	FEW_PANELS = 2, /* so many times at most, */
	SOME = 4,       /* and the most if their sums cannot have the unit of a block */
	MOST_UNIT = 16, /* elements */
	LINE = 64       /* bytes */
};

/* How codes become numbers. */
enum kind { FP4, NVFP4_TIMES, NVFP4_OVER, FP6, E4M3, E5M2, INT8, N_KINDS };

struct head {
	uint32_t over;    /* the tensor scale divides */
	float tensor_scale;
	uint32_t folds;   /* all scales are within FOLD_SCALE binades of 1, and no element of e4m3 is NaN */
	uint32_t spare[13];
};

_Static_assert((int)FEW == 6, "functions of up to so many rows");
_Static_assert(sizeof(struct head) == MXFP_GEMM_ALIGN, "the codes of a panel begin a line if the panel does");

/* Exponents of scales, and of the numbers of A that are not 0. The least unit of a decoded element is 2^-17, so P is a
   multiple of 2^(-50 - 23 - 17 - 48) = 2^-138; decoded elements are below 2^16, so it is below 2^(41 + 16 + 9 + 48) = 2^114. */
enum { FOLD_SCALE = 24, FOLD_A_LEAST = -50, FOLD_A_MOST = 40 };

ALWAYS_INLINE unsigned bits_of(enum kind kind)
{
	return kind <= NVFP4_OVER ? 4 : kind == FP6 ? 6 : 8;
}

ALWAYS_INLINE size_t length_of(enum kind kind)
{
	return kind == NVFP4_TIMES || kind == NVFP4_OVER ? MXFP_NVFP4_BLOCK : MXFP_MX_BLOCK;
}

/* Elements of a unit. */
ALWAYS_INLINE size_t unit_of(enum kind kind)
{
	return bits_of(kind) == 4 ? 8 : bits_of(kind) == 6 ? MOST_UNIT : 4;
}

static enum kind kind_of(enum mxfp_format format, bool over)
{
	switch (format) {
	case MXFP_FORMAT_MXFP4: return FP4;
	case MXFP_FORMAT_NVFP4: return over ? NVFP4_OVER : NVFP4_TIMES;
	case MXFP_FORMAT_MXFP6_E2M3:
	case MXFP_FORMAT_MXFP6_E3M2: return FP6;
	case MXFP_FORMAT_MXFP8_E4M3: return E4M3;
	case MXFP_FORMAT_MXFP8_E5M2: return E5M2;
	default: return INT8;
	}
}

ALWAYS_INLINE size_t blocks_of(enum kind kind, size_t k)
{
	return (k + length_of(kind) - 1) / length_of(kind);
}

/* The bytes of the codes of a panel, whole blocks. */
static size_t codes_bytes(enum kind kind, size_t k)
{
	return blocks_of(kind, k) * length_of(kind) * bits_of(kind) / 8 * NR;
}

static size_t blocks_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	const enum kind kind = kind_of(shape->w_format, false);

	return sizeof(struct head) + codes_bytes(kind, k) + blocks_of(kind, k) * NR;
}

/* A's panels are those of gemm_chain.h, and a byte: whether their numbers are moderate. */
static size_t blocks_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return chain_panel_bytes(k) + MXFP_GEMM_ALIGN;
}

/* Packing. */

/* Whether numbers that are not 0 have exponents from FOLD_A_LEAST to FOLD_A_MOST. */
static bool are_moderate(const float *a, size_t n)
{
	const uint32_t least = (uint32_t)(F32_BIAS + FOLD_A_LEAST) << F32_SIGNIFICAND_BITS;
	const uint32_t range = (uint32_t)(FOLD_A_MOST + 1 - FOLD_A_LEAST) << F32_SIGNIFICAND_BITS;
	vs32 beyond = {0};

	for (size_t i = 0; i < n; i += LANES) {
		const vu32 x = (n - i < LANES ? load_first(a + i, n - i) : load(a + i)) & ~F32_SIGN;

		beyond |= (vs32)(x != 0) & (vs32)(x - least >= range);
	}
	return !any(beyond);
}

static void blocks_pack_a(const struct mxfp_gemm_pack_job *job)
{
	uint8_t *panel = job->panel;

	chain_pack(job, CHAIN_MR);
	panel[chain_panel_bytes(job->k)] = are_moderate(job->panel, job->k * CHAIN_MR);
}

/* Stores a row of 4-bit codes as column c of the first vector at `to`: in every 128 bits the first two bytes of four columns,
   then the others, so that interleave_bytes() makes lanes of them. */
static void store_4(uint8_t *to, size_t c, const uint8_t *codes, size_t n)
{
	to += 16 * (c / 4) + 2 * (c % 4);
	for (size_t i = 0; i < n / 2; i += 4, to += NR * 4) {
		memcpy(to, codes + i, 2);
		memcpy(to + 8, codes + i + 2, 2);
	}
}

/* 6-bit codes. A unit's 16 elements are eight pairs, halves of a vector of 16-bit words. Three words have six codes, two each in
   their upper bits, and in their lowest four a third of the seventh and the eighth. */
static void store_6(uint8_t *to, size_t c, const uint8_t *codes, size_t n)
{
	for (size_t i = 0; i < n; i += MOST_UNIT, to += NR * MOST_UNIT * 6 / 8)
		for (size_t half = 0; half < 2; half++) {
			const uint8_t *e = codes + i + half;
			const uint16_t words[3] = {
				(uint16_t)(e[0] << 10 | e[2] << 4 | e[12] >> 2),
				(uint16_t)(e[4] << 10 | e[6] << 4 | e[14] >> 2),
				(uint16_t)(e[8] << 10 | e[10] << 4 | (e[12] & 3) << 2 | (e[14] & 3)),
			};

			for (size_t w = 0; w < 3; w++)
				memcpy(to + w * VECTOR_BYTES + (half * LANES + c) * sizeof words[w], &words[w], sizeof words[w]);
		}
}

/* 8-bit codes: integers in their order, others so that interleave_bytes() makes 16-bit words in that order of them. */
static void store_8(uint8_t *to, size_t c, const uint8_t *codes, size_t n, bool integers)
{
	size_t place[4];

	for (size_t k = 0; k < 4; k++) {
		const size_t lane = k % 2 * LANES + c;

		place[k] = integers ? k * LANES + c : 16 * (lane / 8) + 8 * (k / 2) + lane % 8;
	}
	for (size_t i = 0; i < n; i += 4, to += NR * 4)
		for (size_t k = 0; k < 4; k++)
			to[place[k]] = codes[i + k];
}

static bool has_e4m3_nan(const uint8_t *codes, size_t n)
{
	vs8 nan = {0};

	for (size_t i = 0; i < n; i += VECTOR_BYTES)
		nan |= ((vu8)load(codes + i) & 0x7F) == 0x7F;
	return any((vs32)nan);
}

static void pack_row(const struct mxfp_gemm_pack_job *job, enum kind kind, size_t r, struct head *head)
{
	const struct mxfp_matrix *m = job->matrix;
	const size_t blocks = blocks_of(kind, job->k), n = blocks * length_of(kind), c = r % LANES;
	const uint8_t *from = (const uint8_t *)m->scales + mxfp_scales_offset(m->format, m->scales_stride, job->row + r, job->k0);
	uint8_t codes[MXFP_GEMM_CHUNK] = {0}, unpacked[MXFP_GEMM_CHUNK];
	uint8_t *panel = (uint8_t *)job->panel + sizeof *head, *scales = panel + codes_bytes(kind, job->k) + r;
	uint8_t *to = panel + r / LANES * LANES * unit_of(kind) * bits_of(kind) / 8;

	memcpy(codes, (const uint8_t *)m->data + mxfp_codes_offset(m->format, m->stride, job->row + r, job->k0),
	       (job->k * bits_of(kind) + 7) / 8);
	if (bits_of(kind) == 4) {
		store_4(to, c, codes, n);
	} else if (bits_of(kind) == 6) {
		unpack_codes(unpacked, codes, n, 6);
		store_6(to, c, unpacked, n);
	} else {
		store_8(to, c, codes, n, kind == INT8);
	}
	if (kind == E4M3 && has_e4m3_nan(codes, n))
		head->folds = 0;
	for (size_t b = 0; b < blocks; b++) {
		scales[b * NR] = length_of(kind) == MXFP_NVFP4_BLOCK ? from[b] & 0x7F : from[b];
		if (from[b] < MXFP_SCALE_BIAS - FOLD_SCALE || from[b] > MXFP_SCALE_BIAS + FOLD_SCALE)
			head->folds = 0;
	}
}

static void blocks_pack_w(const struct mxfp_gemm_pack_job *job)
{
	const struct mxfp_matrix *m = job->matrix;
	const enum kind kind = kind_of(m->format, false);
	struct head head = {.over = m->tensor_scale_divides, .folds = length_of(kind) == MXFP_MX_BLOCK};

	if (job->rows < NR) {
		memset(job->panel, 0, sizeof head + codes_bytes(kind, job->k));
		memset((uint8_t *)job->panel + sizeof head + codes_bytes(kind, job->k), MXFP_SCALE_BIAS, blocks_of(kind, job->k) * NR);
	}
	memcpy(&head.tensor_scale, &m->tensor_scale, sizeof head.tensor_scale);
	for (size_t r = 0; r < job->rows; r++)
		pack_row(job, kind, r, &head);
	memcpy(job->panel, &head, sizeof head);
}

/* Decoding. */

/* A pass of a panel of W and of A. */
struct part {
	const uint8_t *codes, *scales;
	float tensor_scale;
	size_t k;
	int exponent;    /* of the unit in which elements are decoded */
	int down;        /* FP6: where fields lie in binary16 that begin a word, and the mask of them in two words */
	uint32_t fields;
	const uint32_t *a;
	float *c, *room; /* where W is expanded */
	ptrdiff_t ahead; /* bytes from a line of the panel to that of a later panel which is asked for meanwhile */
};

/* The exponent of what a decoded element is a multiple of, beside its value: 4 bits are looked up, integers are integers,
   and the others become numbers of binary16 with the same fields. */
static int exponent_of(enum mxfp_format format)
{
	switch (format) {
	case MXFP_FORMAT_MXFP6_E2M3: return 14;
	case MXFP_FORMAT_MXFP6_E3M2: return 12;
	case MXFP_FORMAT_MXFP8_E4M3: return 8;
	case MXFP_FORMAT_MXINT8: return -6;
	default: return 0;
	}
}

ALWAYS_INLINE bool has_exponent(enum kind kind)
{
	return kind >= FP6 && kind != E5M2;
}

/* Numbers from 16-bit words that begin with a code, whatever follows it. The arithmetic shift repeats the sign; the mask
   keeps one of its copies. */
ALWAYS_INLINE void widen_words(enum kind kind, const struct part *p, vu16 words, vf32 to[2])
{
	if (kind == FP6)
		words = (vu16)shift_right_s16((vs16)words, p->down) & (vu16)splat(p->fields);
	else if (kind == E4M3)
		words = (vu16)((vs16)words >> 1) & 0xBF80;
	widen_f16(words, to);
}

/* Words that begin with codes 4 i to 4 i + 3, two of columns each, as store_6() stores them. */
ALWAYS_INLINE void words_of_6(const uint8_t *at, size_t i, vu16 words[2])
{
	if (i < 3) {
		words[0] = (vu16)load(at + i * VECTOR_BYTES);
		words[1] = words[0] << 6;
		return;
	}
	const vu16 last = (vu16)load(at + 2 * VECTOR_BYTES);

	words[0] = ((vu16)load(at) << 12) | ((last << 8) & 0x0C00);
	words[1] = ((vu16)load(at + VECTOR_BYTES) << 12) | ((last << 10) & 0x0C00);
}

/* Elements 4 i to 4 i + 3 of a unit. */
ALWAYS_INLINE void decode_four(enum kind kind, const struct part *p, const uint8_t *at, size_t i, vf32 to[4])
{
	/* The upper and the lower halves of the upper 16 bits of binary32. */
	static const int8_t upper[16] = {0x00, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -128, -65, -65, -65, -64, -64, -64, -64};
	static const int8_t lower[16] = {0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64};

	if (bits_of(kind) == 4) {
		const vu8 codes = (vu8)load(at), even = codes & 0x0F, odd = (vu8)((vu16)codes >> 4) & 0x0F;
		vu16 evens[2], odds[2];

		interleave_bytes(lookup(lower, even), lookup(upper, even), evens);
		interleave_bytes(lookup(lower, odd), lookup(upper, odd), odds);
		to[0] = (vf32)((vu32)evens[i] << 16);
		to[1] = (vf32)((vu32)odds[i] << 16);
		to[2] = (vf32)((vu32)evens[i] & UINT32_C(0xFFFF0000));
		to[3] = (vf32)((vu32)odds[i] & UINT32_C(0xFFFF0000));
	} else if (bits_of(kind) == 6) {
		vu16 words[2];

		words_of_6(at, i, words);
		widen_words(kind, p, words[0], to);
		widen_words(kind, p, words[1], to + 2);
	} else if (kind == INT8) {
#pragma GCC unroll 4
		for (size_t k = 0; k < 4; k++)
			to[k] = __builtin_convertvector(load_s8(at + k * LANES), vf32);
	} else {
		vu16 words[2];

		interleave_bytes((vu8)splat(0), (vu8)load(at), words);
		widen_words(kind, p, words[0], to);
		widen_words(kind, p, words[1], to + 2);
	}
}

/* Where the unit of element k of a vector of columns is. */
ALWAYS_INLINE const uint8_t *unit_at(enum kind kind, const struct part *p, size_t k, size_t v)
{
	return p->codes + (k * NR + v * LANES * unit_of(kind)) * bits_of(kind) / 8;
}

ALWAYS_INLINE vu32 scale_codes(enum kind kind, const struct part *p, size_t k, size_t v)
{
	return load_u8(p->scales + k / length_of(kind) * NR + v * LANES);
}

/* The scales of the block of element k. One of e8m0 is the exponent field, but 0 is 2^-127. A code of ue4m3 has the fields of a binary32 that is 2^-120 times its value. */
ALWAYS_INLINE vf32 scale_of(enum kind kind, const struct part *p, size_t k, size_t v)
{
	const vu32 code = scale_codes(kind, p, k, v);

	if (length_of(kind) == MXFP_MX_BLOCK)
		return (vf32)((code << F32_SIGNIFICAND_BITS) | ((vu32)(code == 0) & F32_HIDDEN / 2) | (vu32)(code == MXFP_SCALE_NAN));
	return (vf32)((vu32)((vf32)(code << 20) * splat_f32(power_of_two(120))) | (vu32)(code == 0x7F));
}

/* Decoded elements become numbers. What 7F and FF of e4m3 were decoded to is made a NaN. */
ALWAYS_INLINE vf32 scaled(enum kind kind, const struct part *p, vf32 x, vf32 scale)
{
	if (kind == E4M3)
		x = (vf32)((vu32)x | (vu32)(((vu32)x & ~F32_SIGN) == UINT32_C(0x3FF00000)));
	if (has_exponent(kind))
		x *= splat_f32(power_of_two(p->exponent));
	x *= scale;
	if (kind == NVFP4_TIMES)
		return x * splat_f32(p->tensor_scale);
	return kind == NVFP4_OVER ? x / splat_f32(p->tensor_scale) : x;
}

/* Expands the pass for CHAIN_NR columns from vector `first` on, and elements up to a whole block. */
ALWAYS_INLINE void expand(enum kind kind, const struct part *of, size_t first)
{
	const struct part part = *of, *p = &part; /* a copy that no store can alias */

	for (size_t b = 0; b < p->k; b += length_of(kind))
#pragma GCC unroll 4
		for (size_t v = 0; v < CHAIN_VECTORS; v++) {
			const vf32 scale = scale_of(kind, p, b, first + v);

			for (size_t k = b; k < b + length_of(kind); k += unit_of(kind))
#pragma GCC unroll 4
				for (size_t i = 0; i < unit_of(kind) / 4; i++) {
					float *to = p->room + (k + 4 * i) * CHAIN_NR + v * LANES;
					vf32 w[4];

					decode_four(kind, p, unit_at(kind, p, k, first + v), i, w);
#pragma GCC unroll 4
					for (size_t j = 0; j < 4; j++)
						store(to + j * CHAIN_NR, (vu32)scaled(kind, p, w[j], scale));
				}
		}
}

/* Elements 4 i to 4 i + 3 of a unit, multiplied by their scale unless the sums have its unit. */
ALWAYS_INLINE void decode_scaled(enum kind kind, bool folded, const struct part *p, const uint8_t *at, size_t i, vf32 scale, vf32 w[4])
{
	decode_four(kind, p, at, i, w);
	if (folded)
		return;
#pragma GCC unroll 4
	for (size_t j = 0; j < 4; j++)
		w[j] = scaled(kind, p, w[j], scale);
}

/* Adds products to the sums of one row of A: those of n times four elements of the unit of element k from the i-th four on. */
ALWAYS_INLINE void add_fours(enum kind kind, bool folded, size_t vectors, const struct part *p, size_t k, size_t i, size_t n, size_t first,
                             const vf32 scale[], vf32 sums[][FEW])
{
#pragma GCC unroll 16
	for (size_t v = 0; v < vectors; v++)
#pragma GCC unroll 4
		for (size_t four = i; four < i + n; four++) {
			vf32 w[4];

			decode_scaled(kind, folded, p, unit_at(kind, p, k, first + v), four, scale[v], w);
#pragma GCC unroll 4
			for (size_t j = 0; j < 4; j++)
				sums[v][0] = fma_f32((vf32)splat(p->a[(k + 4 * four + j) * CHAIN_MR]), w[j], sums[v][0]);
		}
}

/* Fours of a unit that are decoded alike, in a loop. */
ALWAYS_INLINE size_t alike_of(enum kind kind)
{
	return kind == FP6 ? 3 : 0;
}

/* Adds the products of the unit of element k to the sums of one row of A. */
ALWAYS_INLINE void add_row(enum kind kind, bool folded, size_t vectors, const struct part *p, size_t k, size_t first,
                           const vf32 scale[], vf32 sums[][FEW])
{
	const size_t alike = alike_of(kind);

#pragma GCC unroll 1
	for (size_t i = 0; i < alike; i++)
		add_fours(kind, folded, vectors, p, k, i, 1, first, scale, sums);
	add_fours(kind, folded, vectors, p, k, alike, unit_of(kind) / 4 - alike, first, scale, sums);
}

/* Decodes the i-th four elements of a vector of columns of the unit of element k to `to`, [k][vector]. */
ALWAYS_INLINE void decode_group(enum kind kind, bool folded, size_t vectors, const struct part *p, size_t k, size_t first, size_t i, size_t v,
                                const vf32 scale[], float *to)
{
	vf32 w[4];

	decode_scaled(kind, folded, p, unit_at(kind, p, k, first + v), i, scale[v], w);
#pragma GCC unroll 4
	for (size_t j = 0; j < 4; j++)
		store(to + ((4 * i + j) * vectors + v) * LANES, (vu32)w[j]);
}

/* Adds the products of several rows and so many elements of the unit of element k, which is at `from`, while those of element `next` are
   decoded to `to`: a unit and the sums are more than the registers hold, and the one does not wait for the other. */
ALWAYS_INLINE void add_fours_of_rows(enum kind kind, bool folded, size_t rows, size_t vectors, const struct part *p, size_t k, size_t next, size_t i,
                                     size_t n, size_t first, const vf32 scale[], const float *from, float *to, vf32 sums[][FEW])
{
#pragma GCC unroll 16
	for (size_t j = 0; j < 4 * n; j++) {
		const struct number_line line = number_line(p->a + (k + 4 * i + j) * CHAIN_MR);

#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++) {
			const vf32 y = number_of(&line, r);

#pragma GCC unroll 8
			for (size_t v = 0; v < vectors; v++)
				sums[v][r] = fma_f32(y, (vf32)load(from + ((4 * i + j) * vectors + v) * LANES), sums[v][r]);
		}
#pragma GCC unroll 4
		for (size_t g = j * vectors / 4; g < (j + 1) * vectors / 4; g++)
			decode_group(kind, folded, vectors, p, next, first, i + g / vectors, g % vectors, scale, to);
	}
}

ALWAYS_INLINE void add_rows(enum kind kind, bool folded, size_t rows, size_t vectors, const struct part *p, size_t k, size_t next,
                            size_t first, const vf32 scale[], const float *from, float *to, vf32 sums[][FEW])
{
	const size_t alike = alike_of(kind);

#pragma GCC unroll 1
	for (size_t i = 0; i < alike; i++)
		add_fours_of_rows(kind, folded, rows, vectors, p, k, next, i, 1, first, scale, from, to, sums);
	add_fours_of_rows(kind, folded, rows, vectors, p, k, next, alike, unit_of(kind) / 4 - alike, first, scale, from, to, sums);
}

/* C = fl32(C + P) for `rows` rows of A, for the columns of `vectors` vectors from `first` on. */
ALWAYS_INLINE void multiply_columns(enum kind kind, bool folded, size_t rows, size_t vectors, const struct part *p, size_t first)
{
	const size_t unit = unit_of(kind), length = length_of(kind);
	vf32 sums[CHAIN_SUMS][FEW] = {0}, scale[CHAIN_SUMS] = {0};
	float *room = p->room, *other = room + unit * vectors * LANES;

#pragma GCC unroll 16
	for (size_t v = 0; v < vectors; v++)
		scale[v] = scale_of(kind, p, 0, first + v);
	for (size_t i = 0; i < vectors * unit / 4 && rows > 1; i++)
		decode_group(kind, folded, vectors, p, 0, first, i / vectors, i % vectors, scale, room);
	for (size_t k = 0; k < p->k; k += unit) {
		const size_t next = k + unit < p->k ? k + unit : k, decoded = rows == 1 ? k : next;

		for (size_t i = 0; i < vectors * LANES * unit * bits_of(kind) / 8; i += LINE)
			__builtin_prefetch((const void *)((uintptr_t)unit_at(kind, p, k, first) + (uintptr_t)p->ahead + i), 0, 2);
		if (folded && k != 0 && k % length == 0)
#pragma GCC unroll 16
			for (size_t v = 0; v < vectors; v++) {
				/* From the unit of the block before to that of this one. */
				const vu32 ratio = scale_codes(kind, p, k - length, first + v) - scale_codes(kind, p, k, first + v) + F32_BIAS;

#pragma GCC unroll 8
				for (size_t r = 0; r < rows; r++)
					sums[v][r] *= (vf32)(ratio << F32_SIGNIFICAND_BITS);
			}
		if (!folded && decoded % length == 0)
#pragma GCC unroll 16
			for (size_t v = 0; v < vectors; v++)
				scale[v] = scale_of(kind, p, decoded, first + v);
		if (rows == 1) {
			add_row(kind, folded, vectors, p, k, first, scale, sums);
		} else {
			add_rows(kind, folded, rows, vectors, p, k, next, first, scale, room, other, sums);
			float *const free_room = room;
			room = other;
			other = free_room;
		}
	}
#pragma GCC unroll 16
	for (size_t v = 0; v < vectors; v++)
#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++) {
			float *c = p->c + r * NR + (first + v) * LANES;
			const vu32 exponent = scale_codes(kind, p, p->k - 1, first + v) + (uint32_t)p->exponent;
			const vf32 sum = folded ? sums[v][r] * (vf32)(exponent << F32_SIGNIFICAND_BITS) : sums[v][r];

			store(c, (vu32)((vf32)load(c) + sum));
		}
}

/* Few rows leave room for the sums of more columns. */
ALWAYS_INLINE void multiply(enum kind kind, bool folded, size_t rows, const struct part *p)
{
	const size_t vectors = rows * CHAIN_VECTORS < CHAIN_SUMS ? CHAIN_SUMS / rows : (size_t)CHAIN_VECTORS;
	const struct part part = *p; /* as in expand() */

	for (size_t first = 0; first < VECTORS; first += vectors)
		multiply_columns(kind, folded, rows, vectors, &part, first);
}

/* The functions of a kind: expanding, and multiplying 1, 2, up to 4 and up to 6 rows; unless sums have the unit of a block, the last only
   where the kind has none. */
#define MULTIPLY_ROWS(name, kind, folded, rows) \
	static NOINLINE void name##_##rows##_##kind(const struct part *p) \
	{ \
		multiply(kind, folded, rows, p); \
	}
#define MULTIPLY_FEW(name, kind, folded) \
	MULTIPLY_ROWS(name, kind, folded, 1) \
	MULTIPLY_ROWS(name, kind, folded, 2) \
	MULTIPLY_ROWS(name, kind, folded, 4)
#define MULTIPLY(name, kind, folded) \
	MULTIPLY_FEW(name, kind, folded) \
	MULTIPLY_ROWS(name, kind, folded, 6)
#define EXPAND(kind) \
	static NOINLINE void expand_##kind(const struct part *p, size_t first) \
	{ \
		expand(kind, p, first); \
	}
#define FUNCTIONS(kind) \
	EXPAND(kind) \
	MULTIPLY_FEW(multiply, kind, false)
FUNCTIONS(FP4)
EXPAND(NVFP4_TIMES)
MULTIPLY(multiply, NVFP4_TIMES, false)
EXPAND(NVFP4_OVER)
MULTIPLY(multiply, NVFP4_OVER, false)
FUNCTIONS(FP6)
FUNCTIONS(E4M3)
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
#undef MULTIPLY_FEW
#undef MULTIPLY_ROWS

#define ROW(kind) [kind] = expand_##kind
static void (*const expand_columns[N_KINDS])(const struct part *, size_t) = {
	ROW(FP4), ROW(NVFP4_TIMES), ROW(NVFP4_OVER), ROW(FP6), ROW(E4M3), ROW(E5M2), ROW(INT8),
};
#undef ROW

#define SOME_ROWS(name, kind) name##_1_##kind, name##_2_##kind, name##_4_##kind, name##_4_##kind
#define ROW(name, kind) [kind] = {SOME_ROWS(name, kind), name##_6_##kind, name##_6_##kind}
static void (*const multiply_few[2][N_KINDS][FEW])(const struct part *) = {
	{[FP4] = {SOME_ROWS(multiply, FP4)}, ROW(multiply, NVFP4_TIMES), ROW(multiply, NVFP4_OVER), [FP6] = {SOME_ROWS(multiply, FP6)},
	 [E4M3] = {SOME_ROWS(multiply, E4M3)}, [E5M2] = {SOME_ROWS(multiply, E5M2)}, [INT8] = {SOME_ROWS(multiply, INT8)}},
	{ROW(folded, FP4), ROW(folded, FP6), ROW(folded, E4M3), ROW(folded, E5M2), ROW(folded, INT8)},
};
#undef ROW
#undef SOME_ROWS

/* One pass for all rows of A, CHAIN_NR columns of W at a time, which stay in L1 if passes are short. */
static void multiply_expanded(const struct mxfp_gemm_multiply_job *job, enum kind kind, const struct part *p)
{
	const size_t a_step = blocks_a_bytes(job->shape, job->k) / sizeof *p->a;

	for (size_t first = 0; first < VECTORS; first += CHAIN_VECTORS) {
		const uint32_t *a = p->a;
		float *c = p->c + first * LANES;

		expand_columns[kind](p, first);
		for (size_t row = 0; row < job->rows; row += CHAIN_MR, a += a_step, c += CHAIN_MR * NR)
			chain_pass_rows(a, (const uint8_t *)p->room, CHAIN_NR * sizeof(float), p->k, job->rows - row, c, NR);
	}
}

/* The same for few rows, by codes. folds: W does. */
static void multiply_codes(const struct mxfp_gemm_multiply_job *job, enum kind kind, bool folds, struct part p)
{
	const size_t a_bytes = blocks_a_bytes(job->shape, job->k);
	const uint8_t *moderate = (const uint8_t *)job->a + chain_panel_bytes(job->k);

	for (size_t row = 0; row < job->rows; row += CHAIN_MR) {
		const size_t rows = job->rows - row < FEW ? job->rows - row : FEW;

		multiply_few[folds && *moderate != 0][kind][rows - 1](&p);
		p.a += a_bytes / sizeof *p.a;
		p.c += CHAIN_MR * NR;
		moderate += a_bytes;
	}
}

/* Whether the sums of all rows of A, which are few, can have the unit of a block. folds: those of W. */
static bool folds_all(const struct mxfp_gemm_multiply_job *job, bool folds)
{
	const size_t a_bytes = blocks_a_bytes(job->shape, job->k);
	const uint8_t *moderate = (const uint8_t *)job->a + chain_panel_bytes(job->k);

	for (size_t row = 0; row < job->rows && row < FEW_PANELS * FEW; row += CHAIN_MR, moderate += a_bytes)
		folds = folds && *moderate != 0;
	return folds;
}

static NOINLINE void blocks_rows(const struct mxfp_gemm_multiply_job *job)
{
	const size_t pass = job->shape->pass;
	const uint8_t *w = job->w;
	struct head head;

	memcpy(&head, w, sizeof head);
	const enum kind kind = kind_of(job->shape->w_format, head.over != 0);
	const bool folds = length_of(kind) == MXFP_MX_BLOCK && head.folds != 0;

	const bool by_codes = job->rows <= (length_of(kind) == MXFP_NVFP4_BLOCK || folds_all(job, folds) ? FEW_PANELS * FEW : SOME);

	for (size_t k = 0; k < job->k; k += pass) {
		const struct part p = {
			.codes = w + sizeof head + k * bits_of(kind) / 8 * NR,
			.scales = w + sizeof head + codes_bytes(kind, job->k) + k / length_of(kind) * NR,
			.tensor_scale = head.tensor_scale,
			.exponent = exponent_of(job->shape->w_format),
			.down = job->shape->w_format == MXFP_FORMAT_MXFP6_E2M3 ? 3 : 2,
			.fields = job->shape->w_format == MXFP_FORMAT_MXFP6_E2M3 ? UINT32_C(0x8F808F80) : UINT32_C(0x9F009F00),
			.k = job->k - k < pass ? job->k - k : pass,
			.a = (const uint32_t *)job->a + k * CHAIN_MR,
			.c = job->c,
			.room = job->scratch,
			.ahead = (ptrdiff_t)((uintptr_t)job->w_later - (uintptr_t)w),
		};

		/* With elements past the end a sum of -0 could become +0. */
		if (by_codes && p.k % MOST_UNIT == 0)
			multiply_codes(job, kind, folds, p);
		else
			multiply_expanded(job, kind, &p);
	}
}

static FP_KERNEL(blocks_multiply, mxfp_gemm_multiply_job, blocks_rows)

const struct mxfp_gemm_kernel TIER(gemm_chain_blocks) = {
	.id = CHAIN_BLOCKS_ID,
	.name = "chain-blocks-" TIER_NAME,
	.mr = CHAIN_MR,
	.nr = NR,
	.a_panel_bytes = blocks_a_bytes,
	.w_panel_bytes = blocks_w_bytes,
	.scratch_bytes = MXFP_GEMM_CHUNK * CHAIN_NR * sizeof(float),
	.pack_a = blocks_pack_a,
	.pack_w = blocks_pack_w,
	.multiply = blocks_multiply,
};
