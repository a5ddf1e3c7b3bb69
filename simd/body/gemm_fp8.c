/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums where A or W is in MXFP8. W stays codes: of a byte in MXFP8, else those of gemm_codes.h, whose integers have no low
 * parts. Beside NVFP4 blocks have 16 elements, which the significand of its scale multiplies. A block has a unit, a power of two such that its largest element takes 12 bits in A and 14 in
 * W, and one or two more where the root of the sum of its squares is no greater than 32 such elements could make it:
 * 2^14.5 in A, 2^16.5 in W. An element is high + low in it. In A high is the integer part; in W an element is all low if
 * its exponent is below the unit's, else all high. High parts are multiplied as 16-bit integers; by the inequality of
 * Cauchy and Schwarz no sum of products exceeds 2^31. A sum that concerns no low part is rounded once, when it becomes
 * binary32. Low parts are few, and most are added as integers (add_integers()), the others in binary64:
 *
 *     sum a * w = sum high(a) * high(w) + sum a * low(w) + sum low(a) * high(w)
 *
 * low has the sign of its element, so the terms of one product have its sign and at most its magnitude, and no partial
 * sum exceeds 2^31. Each is a multiple of 2^-(A's depth + W's), the bits that elements have below their units, and
 * so is exact if these are at most 53 - 31 together. e4m3, an integer of 18 bits in units of its least number, has at most
 * 6 in A and 4 in W. Panels that are deeper, have an Inf, or whose scales leave the normal numbers take
 * fp8_general_pass(). A block with a NaN has the scale NaN and zeros.
 *
 * A code of FP8 has its sign and significand above its exponent. High parts are significands, looked up by the one, times powers of
 * two, looked up by the other less the exponent of the unit; where a tier can look up in 128 bytes, they are looked up whole. For more
 * than by_codes_most() rows a panel of W is expanded to pairs of integers first.
 */
#include "tier.h"

#include "body/gemm_codes.h"
#include "body/gemm_sum.h"

enum {
	FP8_A_BITS = 12,         /* of high parts; a low part of W concerns more sums than one of A */
	FP8_W_BITS = 14,
	FP8_SUM_BITS = 31,
	FP8_DEPTHS = 53 - FP8_SUM_BITS,
	FP8_UNIT_BIAS = 64,      /* of units as they are stored; they are from -31 to 4 */
	FP8_LINE = INT16_NR * sizeof(float), /* of numbers of W */
	FP8_WORD = INT16_NR * 4,             /* four codes of each column */
	FP8_REST_BITS = 10,                  /* of low parts as integers */
	FP8_NEAR = 2048                      /* bytes of codes that are asked for before they are decoded */
};

/* What is said of a whole panel. */
struct fp8_head {
	int16_t least, greatest; /* exponents of the scales that are not NaN, times their units */
	uint16_t depth;          /* bits of elements below their units */
	uint16_t inf;            /* nonzero: an element is; of 16 bits, since the head of a packed W has no byte without a meaning */
	uint32_t deep; /* bit b: block b has a low part that is no multiple of 2^-FP8_REST_BITS */
};

/*
 * Where the parts of a panel of `width` rows are: of each block, for each row of A and each vector of columns of W, 32
 * bits that say which elements have a low part; the codes of the scales, and units + FP8_UNIT_BIAS, [block][row]. Then
 * come W's codes [k][column]; of A, scales times units as binary32 [block][row], elements in their units and their low
 * parts as binary32 [k][row], high parts [pair of k][row], how many pairs of low parts come
 * before a block, and low parts times 2^FP8_REST_BITS [pair][row] of just those pairs in which
 * a row has one.
 */
struct fp8_parts {
	size_t low, scales, units;
	size_t w_codes;
	size_t a_scales, a_elements, a_lows, a_high, a_before, a_rest, a_end;
};

/* A panel of W, expanded. */
struct fp8_expanded {
	float scales[BLOCKS_MAX][INT16_NR];            /* times units */
	uint32_t high[MXFP_GEMM_CHUNK / 2][INT16_NR]; /* pairs of k */
	uint16_t before[BLOCKS_MAX][INT16_VECTORS];   /* pairs of low parts before those of a block and vector of columns */
	uint32_t rest[MXFP_GEMM_CHUNK / 2 * INT16_VECTORS][LANES]; /* those that are not all 0, times 2^FP8_REST_BITS */
};

/* A panel of A and one of W. */
struct fp8_panels {
	const uint8_t *a, *w;
	struct fp8_parts a_parts, w_parts;
	size_t blocks, length;               /* of a row, and elements in one */
	const struct fp8_expanded *expanded; /* NULL: W is decoded as it is multiplied */
	enum codes_kind kind;
	struct codes_w codes;                /* of integers */
	float w_unit;                        /* of those */
	uint32_t deep;                       /* blocks of either */
	ptrdiff_t ahead;                     /* bytes from a line of W to one that is asked for meanwhile */
};

/* Rows of a panel of `width` rows that share their bits. */
ALWAYS_INLINE size_t fp8_group(size_t width)
{
	return width == INT16_NR ? LANES : 1;
}

static struct fp8_parts fp8_parts(const struct mxfp_gemm_shape *shape, size_t k, size_t width)
{
	struct fp8_parts p = {.low = BLOCKS_HEAD_BYTES};
	const size_t blocks = blocks_count(shape, k), n = blocks * blocks_length(shape), line = width * sizeof(float);

	p.scales = p.low + blocks * width / fp8_group(width) * sizeof(uint32_t);
	p.units = p.scales + blocks * width;
	p.w_codes = p.a_scales = p.units + blocks * width;
	p.a_elements = p.a_scales + blocks * line;
	p.a_lows = p.a_elements + n * line;
	p.a_high = p.a_lows + n * line;
	p.a_before = p.a_high + n * line / 2;
	p.a_rest = p.a_before + panel_align(blocks * sizeof(uint16_t));
	p.a_end = p.a_rest + n * line / 2;
	return p;
}

static enum codes_kind fp8_kind(enum mxfp_format format)
{
	if (format == MXFP_FORMAT_MXFP8_E5M2)
		return CODES_E5M2;
	if (format == MXFP_FORMAT_NVFP4)
		return CODES_WIDE;
	return format == MXFP_FORMAT_MXFP8_E4M3 ? CODES_E4M3 : kind_of(format);
}

/* Whether W is in FP8, in panels of this file; its elements are integers otherwise. */
ALWAYS_INLINE bool fp8_is_float(enum codes_kind kind)
{
	return kind == CODES_E5M2 || kind == CODES_E4M3;
}

static size_t fp8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	if (!fp8_is_float(fp8_kind(shape->w_format)))
		return codes_w_bytes(shape, k);
	return fp8_parts(shape, k, INT16_NR).w_codes + blocks_count(shape, k) * blocks_length(shape) * INT16_NR;
}

static size_t fp8_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return panel_align(fp8_parts(shape, k, INT16_MR).a_end);
}

/* A block of a row. */
struct fp8_block {
	int unit;     /* its exponent */
	uint32_t low; /* bit k: element k has a low part */
	int depth;
	bool inf, deep;
};

/* The high parts of numbers in their unit. Inf has none. */
ALWAYS_INLINE vs32 high_of(vf32 x)
{
	return __builtin_convertvector((vf32)((vs32)x & (((vs32)x & INT32_MAX) < (int32_t)F32_INF)), vs32);
}

/* Notes which of LANES numbers from element k on have a low part. */
static void note_low(vf32 x, vs32 has, size_t k, uint32_t *low, uint32_t *least)
{
	for (size_t i = 0; i < LANES; i++) {
		const uint32_t magnitude = ((vu32)x)[i] & ~F32_SIGN;

		if (has[i] == 0 || magnitude >= F32_INF)
			continue;
		*low |= UINT32_C(1) << (k + i);
		*least = magnitude < *least ? magnitude : *least;
	}
}

/* A panel while it is packed. */
struct fp8_packing {
	const struct mxfp_gemm_pack_job *job;
	size_t width, length; /* rows, and elements in a block */
	int bits, significand; /* of high parts; of an element after the point */
	struct fp8_parts parts;
	struct fp8_head head;
};

/* An exponent field has the unit 2^(field - fp8_least_field()): its elements are significands times that. */
ALWAYS_INLINE int fp8_least_field(bool e4m3)
{
	return e4m3 ? 10 : 17;
}

/* Which of LANES numbers in their unit have a low part. An element of W is all low if its exponent is below the unit's. */
static vs32 have_low(const struct fp8_packing *p, vf32 v)
{
	const vf32 magnitude = (vf32)((vu32)v & ~F32_SIGN);

	if (p->width != INT16_NR)
		return v != __builtin_convertvector(high_of(v), vf32);
	return (magnitude < splat_f32((float)(1 << p->significand))) & (magnitude > splat_f32(0));
}

/* How many more bits high parts may have: the root of the sum of squares must stay below that of 32 numbers of p->bits. */
static int fp8_more_bits(const struct fp8_packing *p, const uint32_t *x, int unit)
{
	const uint32_t most = (uint32_t)(F32_BIAS + 2 * p->bits + 5) << F32_SIGNIFICAND_BITS, margin = 1 << 13, quarter = 2U << F32_SIGNIFICAND_BITS;
	vf32 squares = {0};

	for (size_t i = 0; i < p->length; i += LANES) {
		const vf32 v = (vf32)((vs32)load(x + i) & (((vs32)load(x + i) & INT32_MAX) < (int32_t)F32_INF)) * power_of_two(-unit);

		squares += v * v;
	}
	const uint32_t sum = halving_sum(squares) + margin;
	return sum > most - quarter ? 0 : p->width == INT16_NR || sum > most - 2 * quarter ? 1 : 2;
}

static struct fp8_block fp8_block(const struct fp8_packing *p, const uint32_t *x)
{
	vu32 greatest = {0}, greatest_finite = {0};
	struct fp8_block b = {0};
	uint32_t least = F32_INF;

	for (size_t i = 0; i < p->length; i += LANES) {
		const vu32 magnitude = load(x + i) & ~F32_SIGN;

		greatest = max_u32(greatest, magnitude);
		greatest_finite = max_u32(greatest_finite, magnitude & (vu32)(magnitude < F32_INF));
	}
	const uint32_t most = max_across(greatest_finite);
	b.inf = max_across(greatest) >= F32_INF;
	if (most == 0)
		return b;
	b.unit = exponent_of(most) - p->bits + 1;
	b.unit -= fp8_more_bits(p, x, b.unit);
	if (p->width == INT16_NR && b.unit < 1 - fp8_least_field(p->significand == 3))
		b.unit = 1 - fp8_least_field(p->significand == 3);
	for (size_t i = 0; i < p->length; i += LANES) {
		const vf32 v = (vf32)load(x + i) * power_of_two(-b.unit);
		const vs32 has = have_low(p, v);

		if (any(has))
			note_low(v, has, i, &b.low, &least);
	}
	const int least_bit = b.unit + fp8_least_field(p->significand == 3) - 1; /* of subnormal numbers */
	b.depth = b.low == 0 ? 0 : p->significand - exponent_of(least);
	if (p->width == INT16_NR && b.depth > least_bit)
		b.depth = least_bit;
	b.deep = b.depth > FP8_REST_BITS;
	return b;
}

static struct fp8_packing fp8_begin(const struct mxfp_gemm_pack_job *job, size_t width)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(job->matrix->format)->element);
	struct fp8_packing p = {
		.job = job,
		.width = width,
		.length = blocks_length(job->shape),
		.bits = width == INT16_NR ? FP8_W_BITS : FP8_A_BITS,
		.significand = (int)element->significand_bits,
		.parts = fp8_parts(job->shape, job->k, width),
		.head = {.least = INT16_MAX, .greatest = INT16_MIN},
	};

	memset((uint8_t *)job->panel, 0, p.parts.scales);
	return p;
}

static void fp8_end(const struct fp8_packing *p)
{
	memcpy(p->job->panel, &p->head, sizeof p->head);
}

/* Loads a slice from column k on: its elements, and its scales as they are in `scales`, which begins as a panel does. */
static size_t fp8_load(const struct fp8_packing *p, size_t k, panel_rows rows, uint8_t *scales)
{
	struct mxfp_gemm_pack_job slice = panel_slice(p->job, k);
	struct blocks_range range = blocks_begin();

	slice.panel = scales;
	load_elements(&slice, rows);
	pack_blocks(&slice, 0, false, true, p->width, rows, &range);
	return blocks_count(p->job->shape, slice.k);
}

/* Notes block b of row r of the panel, whose elements are x and whose scale is the binary32 at `scale`. */
static struct fp8_block fp8_note(struct fp8_packing *p, size_t b, size_t r, const uint32_t *x, const uint8_t *scale)
{
	uint8_t *panel = p->job->panel, *at;
	const struct fp8_block block = fp8_block(p, x);
	uint32_t bits, low;

	at = panel + p->parts.low + (b * p->width + r) / fp8_group(p->width) * sizeof low;
	memcpy(&bits, scale, sizeof bits);
	memcpy(&low, at, sizeof low);
	low |= block.low;
	memcpy(at, &low, sizeof low);
	const int code = (int)(bits >> F32_SIGNIFICAND_BITS), exponent = code - F32_BIAS + block.unit;
	panel[p->parts.scales + b * p->width + r] = (uint8_t)code;
	panel[p->parts.units + b * p->width + r] = (uint8_t)(block.unit + FP8_UNIT_BIAS);
	if (code != MXFP_SCALE_NAN) {
		p->head.least = exponent < p->head.least ? (int16_t)exponent : p->head.least;
		p->head.greatest = exponent > p->head.greatest ? (int16_t)exponent : p->head.greatest;
	}
	p->head.depth = block.depth > p->head.depth ? (uint16_t)block.depth : p->head.depth;
	p->head.inf |= block.inf;
	p->head.deep |= (uint32_t)block.deep << b;
	return block;
}

enum { FP8_SLICE_SCALES = BLOCKS_HEAD_BYTES + PANEL_SLICE / MXFP_NVFP4_BLOCK * INT16_NR * 4 };

/* The binary32 of scales times units; where it is not a normal number, the panel is not multiplied by it. */
ALWAYS_INLINE vu32 fp8_scale(vu32 codes, vu32 units)
{
	const vu32 product = (codes + units - FP8_UNIT_BIAS) << F32_SIGNIFICAND_BITS;

	return blend((vs32)(codes == splat(MXFP_SCALE_NAN)), splat(F32_NAN), product);
}

/* Where the code of element k of a column lies: in a word of four, beside those of four columns, pairs of neighbors first. */
static inline size_t fp8_place(size_t k, size_t column)
{
	const size_t in_pair = PAIRS_ARE_SPLIT ? k % 2 * 4 + column % 4 : column % 4 * 2 + k % 2;

	return k / 4 * FP8_WORD + column / 4 * 16 + k % 4 / 2 * 8 + in_pair;
}

#ifdef HAS_WIDE_LOOKUP
/* Where the sign of a code of e4m3 lies that is at `place` of a word: signs are in the order of pairs. */
static inline size_t fp8_sign_place(size_t place)
{
	return place / FP8_WORD * FP8_WORD + place / 8 % 2 * (FP8_WORD / 2) + place % FP8_WORD / 16 * 8 + place % 8;
}

/* Stores a code, whose bytes are 0 before. */
static inline void fp8_put(uint8_t *codes, size_t place, unsigned magnitude, unsigned sign, bool e4m3)
{
	codes[place] |= (uint8_t)(e4m3 ? magnitude : magnitude << 1 | sign);
	if (e4m3)
		codes[fp8_sign_place(place)] |= (uint8_t)(sign << 7);
}

/* The magnitude of a code, and its sign as bit 7. */
static inline unsigned fp8_get(const uint8_t *codes, size_t place, bool e4m3)
{
	return e4m3 ? (codes[place] & 0x7FU) | (codes[fp8_sign_place(place)] & 0x80U) : codes[place] >> 1U | (codes[place] & 1U) << 7;
}
#else
static inline void fp8_put(uint8_t *codes, size_t place, unsigned magnitude, unsigned sign, bool e4m3)
{
	const unsigned bits = e4m3 ? 3 : 2;

	codes[place] = (uint8_t)(sign << 7 | (magnitude & ((1U << bits) - 1)) << (7 - bits) | magnitude >> bits);
}

static inline unsigned fp8_get(const uint8_t *codes, size_t place, bool e4m3)
{
	const unsigned bits = e4m3 ? 3 : 2, code = codes[place];

	return (code & 0x80) | (code << bits & 0x7F) | (code & 0x7F) >> (7 - bits);
}
#endif

/* Converts a slice of a row to codes: e5m2 is the upper half of binary16, and e4m3, times 2^-8, lies a bit lower in it. */
static void fp8_codes(const uint32_t *x, size_t n, bool e4m3, size_t column, uint8_t *to)
{
	for (size_t i = 0; i < n; i += LANES) {
		uint16_t half[LANES];

		store_f16(half, (vf32)load(x + i) * power_of_two(e4m3 ? -8 : 0));
		for (size_t j = 0; j < LANES; j++)
			fp8_put(to, fp8_place(i + j, column), half[j] >> (e4m3 ? 7 : 8) & 0x7F, half[j] >> 15, e4m3);
	}
}

static NOINLINE void fp8_pack_w_rows(const struct mxfp_gemm_pack_job *job)
{
	if (!fp8_is_float(fp8_kind(job->matrix->format))) {
		codes_pack_rows(job);
		return;
	}
	struct fp8_packing p = fp8_begin(job, INT16_NR);
	uint8_t *codes = (uint8_t *)job->panel + p.parts.w_codes, scales[FP8_SLICE_SCALES];
	const bool e4m3 = job->matrix->format == MXFP_FORMAT_MXFP8_E4M3;
	panel_rows rows;

	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		const size_t blocks = fp8_load(&p, k, rows, scales);

		memset(codes + k * INT16_NR, 0, blocks * p.length * INT16_NR);
		for (size_t r = 0; r < INT16_NR; r++) {
			fp8_codes(rows[r], blocks * p.length, e4m3, r, codes + k * INT16_NR);
			for (size_t b = 0; b < blocks; b++)
				fp8_note(&p, k / p.length + b, r, rows[r] + b * p.length,
				         scales + BLOCKS_HEAD_BYTES + (b * INT16_NR + r) * sizeof(float));
		}
	}
	fp8_end(&p);
}

/* Which elements of a block have a low part, by the number of the block's first word and that of a row or vector. */
ALWAYS_INLINE uint32_t low_bits(const uint8_t *panel, size_t i)
{
	uint32_t bits;

	memcpy(&bits, panel + BLOCKS_HEAD_BYTES + i * sizeof bits, sizeof bits);
	return bits;
}

/* The same of `n` rows or vectors. */
ALWAYS_INLINE uint32_t any_low_bits(const uint8_t *panel, size_t i, size_t n)
{
	uint32_t bits = 0;

	for (size_t j = 0; j < n; j++)
		bits |= low_bits(panel, i + j);
	return bits;
}

/* Removes the next pair of bits from those of elements. */
ALWAYS_INLINE size_t next_pair(uint32_t *elements)
{
	const size_t pair = (size_t)__builtin_ctz(*elements) / 2;

	*elements &= ~(UINT32_C(3) << 2 * pair);
	return pair;
}

/* Moves the pairs of rests of A that are not all 0 to the front, where they take few lines of the cache. */
static void fp8_gather_rests(struct fp8_packing *p)
{
	const size_t line = INT16_MR * sizeof(uint32_t);
	uint8_t *panel = p->job->panel, *rests = panel + p->parts.a_rest, *to = rests;

	for (size_t b = 0; b < blocks_count(p->job->shape, p->job->k); b++, rests += p->length / 2 * line) {
		const uint16_t before = (uint16_t)((size_t)(to - (panel + p->parts.a_rest)) / line);

		memcpy(panel + p->parts.a_before + b * sizeof before, &before, sizeof before);
		for (uint32_t low = any_low_bits(panel, b * INT16_MR, INT16_MR); low != 0; to += line)
			memmove(to, rests + next_pair(&low) * line, line);
	}
}

/* Changes a block of row r of A to numbers in its unit, stores the high parts in `high`, and those low parts that are not 0. */
static void fp8_split(const struct fp8_packing *p, const struct fp8_block *block, size_t k, size_t r, uint32_t *x, uint16_t *high)
{
	uint8_t *panel = p->job->panel, *lows = panel + p->parts.a_lows + r * sizeof(float), *rests = panel + p->parts.a_rest + r * sizeof(uint32_t);

	for (size_t i = 0; i < p->length; i += LANES) {
		const vf32 v = (vf32)load(x + i) * power_of_two(-block->unit);
		const vs32 h = high_of(v);
		const vf32 low = v - __builtin_convertvector(h, vf32);

		store(x + i, (vu32)v);
		store_u16(high + i, (vu32)h & 0xFFFF);
		const vs32 rest = __builtin_convertvector(low * splat_f32(1 << FP8_REST_BITS), vs32);
		for (size_t j = 0; j < LANES && block->low != 0; j++) {
			const size_t at = k + i + j;
			const int16_t integer = (int16_t)rest[j];

			memcpy(lows + at * INT16_MR * sizeof(float), (const float *)&low + j, sizeof(float));
			memcpy(rests + at / 2 * INT16_MR * sizeof(uint32_t) + at % 2 * sizeof integer, &integer, sizeof integer);
		}
	}
}

/* Multiplies a block of NVFP4 by the significand of its scale, which becomes a power of two: sums are rounded after both. */
static void fp8_multiply_scale(uint8_t *scale, uint32_t *x)
{
	multiply_scale(scale, x, MXFP_NVFP4_BLOCK);
	for (size_t i = 0; i < MXFP_NVFP4_BLOCK; i += LANES)
		store(x + i, (vu32)((vf32)load(x + i) * power_of_two(-SCALE_BITS)));
}

static NOINLINE void fp8_pack_a_rows(const struct mxfp_gemm_pack_job *job)
{
	struct fp8_packing p = fp8_begin(job, INT16_MR);
	uint8_t *panel = job->panel, scales[FP8_SLICE_SCALES];
	uint32_t high[PANEL_MAX_ROWS][PANEL_SLICE / 2];
	panel_rows rows;

	memset(panel + p.parts.a_lows, 0, p.parts.a_high - p.parts.a_lows);
	memset(panel + p.parts.a_rest, 0, p.parts.a_end - p.parts.a_rest);
	memset(high, 0, sizeof high);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		const size_t blocks = fp8_load(&p, k, rows, scales), n = blocks * p.length;

		for (size_t r = 0; r < INT16_MR; r++)
			for (size_t b = 0; b < blocks; b++) {
				const size_t at = b * p.length;
				uint8_t *scale = scales + BLOCKS_HEAD_BYTES + (b * INT16_MR + r) * sizeof(float);

				if (job->shape->a_format == MXFP_FORMAT_NVFP4)
					fp8_multiply_scale(scale, rows[r] + at);
				const struct fp8_block block = fp8_note(&p, k / p.length + b, r, rows[r] + at, scale);

				fp8_split(&p, &block, k + at, r, rows[r] + at, (uint16_t *)high[r] + at);
			}
		store_columns(panel + p.parts.a_elements + k * INT16_MR * sizeof(float), rows[0], PANEL_SLICE, INT16_MR, n);
		store_columns(panel + p.parts.a_high + k * INT16_MR * sizeof(int16_t), high[0], PANEL_SLICE / 2, INT16_MR, n / 2);
	}
	for (size_t i = 0; i < p.parts.units - p.parts.scales; i++) {
		const vu32 scale = fp8_scale(splat(panel[p.parts.scales + i]), splat(panel[p.parts.units + i]));

		memcpy(panel + p.parts.a_scales + i * sizeof(float), &scale, sizeof(float));
	}
	fp8_gather_rests(&p);
	fp8_end(&p);
}

static FP_KERNEL(fp8_pack_a, mxfp_gemm_pack_job, fp8_pack_a_rows)
static FP_KERNEL(fp8_pack_w, mxfp_gemm_pack_job, fp8_pack_w_rows)

/* 2^-unit of a vector of columns of a block, times 2^8 for e4m3. */
ALWAYS_INLINE vf32 fp8_factor(const uint8_t *units, enum codes_kind kind)
{
	return (vf32)((splat(F32_BIAS + FP8_UNIT_BIAS + (kind == CODES_E4M3 ? 8 : 0)) - load_u8(units)) << F32_SIGNIFICAND_BITS);
}

/* The column of each byte of a word. */
#ifdef HAS_LANE_PRODUCTS
#define COLUMNS(c) c, c + 1, c + 2, c + 3, c, c + 1, c + 2, c + 3
#else
#define COLUMNS(c) c, c, c + 1, c + 1, c + 2, c + 2, c + 3, c + 3
#endif
static const uint8_t column_of[FP8_WORD] = {COLUMNS(0), COLUMNS(0), COLUMNS(4), COLUMNS(4),
                                            COLUMNS(8), COLUMNS(8), COLUMNS(12), COLUMNS(12)};
#undef COLUMNS

#ifdef HAS_WIDE_LOOKUP
enum { FP8_FLOOR_SHIFT = 3 };
#else
enum { FP8_FLOOR_SHIFT = 0 };
#endif

/* Of a vector of columns of a block, for each byte of a word: the greatest exponent field of low parts, where codes are looked up whole 8
   times that; of NVFP4 the significands of the scales. */
ALWAYS_INLINE vu8 fp8_floors(const struct fp8_panels *t, size_t b, size_t v, enum codes_kind kind)
{
	if (kind == CODES_WIDE) {
		return (vu8)equal_pairs(significands(scales_at(&t->codes, b * INT16_NR + v * LANES)));
	}
	if (!fp8_is_float(kind))
		return (vu8){0};
	const vu8 units = lookup((const int8_t *)t->w + t->w_parts.units + b * INT16_NR, (vu8)load(column_of + v * VECTOR_BYTES));

	return (vu8)((vu16)(units + (uint8_t)(fp8_least_field(kind == CODES_E4M3) - 1 - FP8_UNIT_BIAS)) << FP8_FLOOR_SHIFT);
}

#ifdef HAS_WIDE_LOOKUP
/* High parts by an index of 8 p and more: p is the number of a power of two from 1 on, 0 has none. Then come the bits of a code of e4m3,
   or those of one of e5m2 and its sign. */
#define BYTE(x, upper) (uint8_t)((unsigned)(x) >> ((upper) ? 8 : 0))
#define POWER(p) ((p) == 0 ? 0 : 1 << (p) >> 1)
#define E5M2(p, upper) \
	BYTE(4 * POWER(p), upper), BYTE(-4 * POWER(p), upper), BYTE(5 * POWER(p), upper), BYTE(-5 * POWER(p), upper), \
	BYTE(6 * POWER(p), upper), BYTE(-6 * POWER(p), upper), BYTE(7 * POWER(p), upper), BYTE(-7 * POWER(p), upper)
#define E4M3(p, upper) \
	BYTE(8 * POWER(p), upper), BYTE(9 * POWER(p), upper), BYTE(10 * POWER(p), upper), BYTE(11 * POWER(p), upper), \
	BYTE(12 * POWER(p), upper), BYTE(13 * POWER(p), upper), BYTE(14 * POWER(p), upper), BYTE(15 * POWER(p), upper)
#define TABLE(of, upper) \
	{of(0, upper), of(1, upper), of(2, upper), of(3, upper), of(4, upper), of(5, upper), of(6, upper), of(7, upper), \
	 of(8, upper), of(9, upper), of(10, upper), of(11, upper), of(12, upper), of(13, upper), of(14, upper), of(15, upper)}
static const uint8_t e5m2_low[128] = TABLE(E5M2, 0), e5m2_high[128] = TABLE(E5M2, 1);
static const uint8_t e4m3_low[128] = TABLE(E4M3, 0), e4m3_high[128] = TABLE(E4M3, 1);
#undef TABLE
#undef E4M3
#undef E5M2
#undef POWER
#undef BYTE

ALWAYS_INLINE void look_up_words(vu8 index, enum codes_kind kind, vu16 words[2])
{
	interleave_bytes(lookup_128(kind == CODES_E4M3 ? e4m3_low : e5m2_low, index), lookup_128(kind == CODES_E4M3 ? e4m3_high : e5m2_high, index), words);
}

/* The high parts of pairs 2 i and 2 i + 1 of a vector of columns of a block, or their low parts times 2^FP8_REST_BITS, of a block that is
   not deep. kind, rest: constants. */
ALWAYS_INLINE void fp8_decode_part(const struct fp8_panels *t, size_t b, size_t v, size_t i, enum codes_kind kind, bool rest, vu8 floors, vs16 pairs[2])
{
	const vu8 codes = (vu8)load(t->w + t->w_parts.w_codes + (b * (t->length / 4) + i) * FP8_WORD + v * VECTOR_BYTES);
	const vu8 magnitudes = kind == CODES_E4M3 ? codes & (vu8)splat(0x7F7F7F7F) : codes, high = subtract_saturated(magnitudes, floors);
	const vu8 subnormal = (vu8)(magnitudes < 8), low = (magnitudes + (subnormal & 8) - floors + 8 * FP8_REST_BITS) & (vu8)(high < 8);
	vu16 words[2];

	look_up_words(rest ? low : high, kind, words);
	if (rest) { /* those of subnormal codes have no hidden bit */
		vu16 hidden[2];

		look_up_words(low & subnormal & (uint8_t)(kind == CODES_E4M3 ? ~7 : ~6), kind, hidden);
		words[0] -= hidden[0];
		words[1] -= hidden[1];
	}
	if (kind == CODES_E4M3)
		negate(words, codes);
	pairs[0] = (vs16)words[0];
	pairs[1] = (vs16)words[1];
}
#else
/* Powers of two by their number from 1 on, their lower and upper bytes; 0 has none. */
static const int8_t power_low[16] = {0, 1, 2, 4, 8, 16, 32, 64, -128}, power_high[16] = {[9] = 1, 2, 4, 8, 16, 32, 64};

/* Significands by the upper bits of a code, and those of subnormal ones. */
static const int8_t e5m2_normal[16] = {4, 5, 6, 7, -4, -5, -6, -7}, e5m2_subnormal[16] = {0, 1, 2, 3, 0, -1, -2, -3};
static const int8_t e4m3_normal[16] = {8, 9, 10, 11, 12, 13, 14, 15, -8, -9, -10, -11, -12, -13, -14, -15};
static const int8_t e4m3_subnormal[16] = {0, 1, 2, 3, 4, 5, 6, 7, 0, -1, -2, -3, -4, -5, -6, -7};

/* The high parts of pairs 2 i and 2 i + 1 of a vector of columns of a block, or their low parts times 2^FP8_REST_BITS, of a block that is
   not deep. kind, rest: constants. */
ALWAYS_INLINE void fp8_decode_part(const struct fp8_panels *t, size_t b, size_t v, size_t i, enum codes_kind kind, bool rest, vu8 floors, vs16 pairs[2])
{
	const vu8 codes = (vu8)load(t->w + t->w_parts.w_codes + (b * (t->length / 4) + i) * FP8_WORD + v * VECTOR_BYTES);
	const vu8 upper = (vu8)((vu16)codes >> (kind == CODES_E4M3 ? 4 : 5)) & (vu8)splat(kind == CODES_E4M3 ? 0x0F0F0F0F : 0x07070707);
	const vu8 exponents = codes & (vu8)splat(kind == CODES_E4M3 ? 0x0F0F0F0F : 0x1F1F1F1F), high = subtract_saturated(exponents, floors);
	const vu8 subnormal = (vu8)(exponents == 0), low = (exponents + (subnormal & 1) - floors + FP8_REST_BITS) & (vu8)(high == 0);
	vu8 power = high, significand = lookup(kind == CODES_E4M3 ? e4m3_normal : e5m2_normal, upper);
	vu16 powers[2], significands[2];

	if (rest) {
		power = low;
		significand = (lookup(kind == CODES_E4M3 ? e4m3_subnormal : e5m2_subnormal, upper) & subnormal) | (significand & ~subnormal);
	}
	interleave_bytes(lookup(power_low, power), lookup(power_high, power), powers);
	interleave_bytes(significand, (vu8)((vs8)significand < 0), significands);
	pairs[0] = (vs16)(powers[0] * significands[0]);
	pairs[1] = (vs16)(powers[1] * significands[1]);
}
#endif

/* The pairs of high parts of word i of a vector of columns of a block: of all elements if they are integers. floors: for NVFP4 the
   significands of the scales, by which integers are multiplied. */
ALWAYS_INLINE void fp8_decode(const struct fp8_panels *t, size_t b, size_t v, size_t i, enum codes_kind kind, vu8 floors,
                              vs16 pairs[CODES_MOST_PAIRS])
{
	const uint8_t *line = t->codes.codes + words_bytes(b * (t->length / 2 / pairs_of(kind)) + i, kind) + v * VECTOR_BYTES;

	if (fp8_is_float(kind))
		fp8_decode_part(t, b, v, i, kind, false, floors, pairs);
	else
		decode_pairs(load_word(line, kind, i % words_of(kind)), kind, pairs);
	if (kind != CODES_WIDE)
		return;
#pragma GCC unroll 4
	for (size_t p = 0; p < pairs_of(CODES_WIDE); p++)
		pairs[p] *= (vs16)floors;
}

/* The same where the kind is no constant. */
static NOINLINE void fp8_decode_any(const struct fp8_panels *t, size_t b, size_t v, size_t i, vs16 pairs[CODES_MOST_PAIRS])
{
	switch (t->kind) {
	case CODES_E5M2:
		fp8_decode(t, b, v, i, CODES_E5M2, fp8_floors(t, b, v, CODES_E5M2), pairs);
		break;
	case CODES_E4M3:
		fp8_decode(t, b, v, i, CODES_E4M3, fp8_floors(t, b, v, CODES_E4M3), pairs);
		break;
	case CODES_NIBBLES:
		fp8_decode(t, b, v, i, CODES_NIBBLES, (vu8){0}, pairs);
		break;
	case CODES_WIDE:
		fp8_decode(t, b, v, i, CODES_WIDE, fp8_floors(t, b, v, CODES_WIDE), pairs);
		break;
	case CODES_E3M2:
		fp8_decode(t, b, v, i, CODES_E3M2, (vu8){0}, pairs);
		break;
	case CODES_E2M3:
		fp8_decode(t, b, v, i, CODES_E2M3, (vu8){0}, pairs);
		break;
	default:
		fp8_decode(t, b, v, i, CODES_BYTES, (vu8){0}, pairs);
		break;
	}
}

/* Scales times units of a vector of columns of a block, if they are ordinary. */
ALWAYS_INLINE vf32 fp8_w_scales(const struct fp8_panels *t, size_t b, size_t v, enum codes_kind kind)
{
	const size_t at = b * INT16_NR + v * LANES;

	if (kind == CODES_WIDE)
		return powers(scales_at(&t->codes, at)) * t->w_unit;
	if (!fp8_is_float(kind))
		return scales_at(&t->codes, at) * t->w_unit;
	return (vf32)fp8_scale(load_u8(t->w + t->w_parts.scales + at), load_u8(t->w + t->w_parts.units + at));
}

/* Which elements of a vector of columns of a block of W have a low part: no integer does. Hostile panels may name elements that a
   block does not have. */
ALWAYS_INLINE uint32_t w_low_bits(const struct fp8_panels *t, size_t b, size_t v, enum codes_kind kind)
{
	return fp8_is_float(kind) ? low_bits(t->w, b * INT16_VECTORS + v) & UINT32_MAX >> (MXFP_MX_BLOCK - t->length) : 0;
}

/* Line k of a block as numbers in their units. */
ALWAYS_INLINE vf32 fp8_line(const struct fp8_panels *t, size_t b, size_t v, size_t k)
{
	const uint8_t *codes = t->w + t->w_parts.w_codes + (b * (t->length / 4) + k / 4) * FP8_WORD + v * VECTOR_BYTES;
	uint32_t code[LANES];

	for (size_t i = 0; i < LANES; i++)
		code[i] = fp8_get(codes, fp8_place(k % 4, i), t->kind == CODES_E4M3);
	const vu32 x = load(code), magnitude = x & 0x7F;
	const vf32 factor = fp8_factor(t->w + t->w_parts.units + b * INT16_NR + v * LANES, t->kind);
	const vu32 number = (vu32)((vf32)(magnitude << (F32_SIGNIFICAND_BITS - (t->kind == CODES_E4M3 ? 3 : 2))) * power_of_two(F32_BIAS - 15) * factor);
	const vs32 inf = (vs32)(magnitude == splat(t->kind == CODES_E4M3 ? 0xFF : 0x7C));

	return (vf32)(blend(inf, splat(F32_INF), number) | (x & 0x80) << 24);
}

/* Pair `pair` of low parts of a vector of columns of a block of W in FP8, times 2^FP8_REST_BITS. kind: a constant. */
ALWAYS_INLINE vs16 low_pair(const struct fp8_panels *t, size_t b, size_t v, size_t pair, enum codes_kind kind, vu8 floors)
{
	vs16 x[2];

	fp8_decode_part(t, b, v, pair / 2, kind, true, floors, x);
	return pair % 2 == 0 ? x[0] : x[1];
}

/* kind: a constant. later: what to ask for meanwhile. */
ALWAYS_INLINE void fp8_expand(struct fp8_expanded *to, const struct fp8_panels *t, enum codes_kind kind, const uint8_t *later)
{
	const size_t pairs = pairs_of(kind);
	size_t rests = 0;

	for (size_t b = 0; b < t->blocks; b++)
		for (size_t v = 0; v < INT16_VECTORS; v++) {
			const vu8 floors = fp8_floors(t, b, v, kind);

			to->before[b][v] = (uint16_t)rests;
			for (uint32_t low = w_low_bits(t, b, v, kind); low != 0; rests++)
				store(to->rest[rests], (vu32)low_pair(t, b, v, next_pair(&low), kind, floors));
			store(&to->scales[b][v * LANES], (vu32)fp8_w_scales(t, b, v, kind));
			for (size_t i = 0; i < t->length / 2 / pairs; i += words_of(kind), later += line_bytes(kind)) {
#pragma GCC unroll 2
				for (size_t at = 0; at < line_bytes(kind); at += CODES_FETCHED)
					__builtin_prefetch(later + at, 0, 2);
#pragma GCC unroll 4
				for (size_t word = i; word < i + words_of(kind); word++) {
					vs16 x[CODES_MOST_PAIRS];

					fp8_decode(t, b, v, word, kind, floors, x);
#pragma GCC unroll 4
					for (size_t p = 0; p < pairs; p++)
						store(&to->high[b * (t->length / 2) + word * pairs + p][v * LANES], (vu32)x[p]);
				}
			}
		}
}

/* Widens integers, which are in memory. */
ALWAYS_INLINE void widen_s32(const vs32 *v, vf64 to[2])
{
	typedef int32_t half __attribute__((vector_size(VECTOR_BYTES / 2)));
	half x[2];

	memcpy(x, v, sizeof x);
	to[0] = __builtin_convertvector(x[0], vf64);
	to[1] = __builtin_convertvector(x[1], vf64);
}

/* Line k of a block of W's high parts as numbers of a vector of columns. */
ALWAYS_INLINE vf32 high_line(const struct fp8_panels *t, size_t b, size_t k, size_t v)
{
	vs16 pairs;

	if (t->expanded != NULL) {
		pairs = (vs16)load(&t->expanded->high[(b * t->length + k) / 2][v * LANES]);
	} else {
		vs16 x[CODES_MOST_PAIRS];
		const size_t in_word = pairs_of(t->kind);

		fp8_decode_any(t, b, v, k / 2 / in_word, x);
		pairs = x[k / 2 % in_word];
	}

	return __builtin_convertvector(one_of_pairs(pairs, k % 2 != 0), vf32);
}

/* The low parts of a vector of columns of W in a block, and what they are multiplied by. */
struct fp8_lines {
	size_t n;
	const uint8_t *y[MXFP_MX_BLOCK]; /* binary32 of each row of A */
	vf64 x[MXFP_MX_BLOCK][2];
};

static inline void lines_of_block(const struct fp8_panels *t, size_t b, size_t v, struct fp8_lines *lines)
{
	lines->n = 0;
	for (uint32_t low = w_low_bits(t, b, v, t->kind); low != 0; low &= low - 1) {
		const size_t k = (size_t)__builtin_ctz(low);
		const vf32 x = fp8_line(t, b, v, k);
		const vs32 is_low = (vf32)((vu32)x & ~F32_SIGN) < splat_f32(t->kind == CODES_E4M3 ? 8 : 4);

		widen_lanes((vf32)((vs32)x & is_low), lines->x[lines->n]);
		lines->y[lines->n++] = t->a + t->a_parts.a_elements + (b * t->length + k) * INT16_MR * sizeof(float);
	}
}

ALWAYS_INLINE void add_line(vf64 sum[2], const uint8_t *at, const vf64 x[2])
{
	float y;

	memcpy(&y, at, sizeof y);
	sum[0] = fma_f64(splat_f64((double)y), x[0], sum[0]);
	sum[1] = fma_f64(splat_f64((double)y), x[1], sum[1]);
}

/* Adds the low parts of block b to sums of high parts of row r of A, and rounds. */
ALWAYS_INLINE vf32 add_lows(const struct fp8_panels *t, size_t b, size_t r, size_t v, const struct fp8_lines *lines,
                            const vs32 *high)
{
	const uint8_t *lows = t->a + t->a_parts.a_lows;
	vf64 sum[2], x[2];

	widen_s32(high, sum);
	for (size_t i = 0; i < lines->n; i++)
		add_line(sum, lines->y[i] + r * sizeof(float), lines->x[i]);
	for (uint32_t low = low_bits(t->a, b * INT16_MR + r); low != 0; low &= low - 1) {
		const size_t k = (size_t)__builtin_ctz(low);

		widen_lanes(high_line(t, b, k, v), x);
		add_line(sum, lows + ((b * t->length + k) * INT16_MR + r) * sizeof(float), x);
	}
	return narrow_f64(sum[0], sum[1]);
}

/* Whether low parts of a block can be added as integers. */
ALWAYS_INLINE bool lows_are_integers(const struct fp8_panels *t, size_t b)
{
	return (t->deep >> b & 1) == 0;
}

/* Pairs of low parts of A before those of block b. */
ALWAYS_INLINE size_t rests_before(const struct fp8_panels *t, size_t b)
{
	uint16_t n;

	memcpy(&n, t->a + t->a_parts.a_before + b * sizeof n, sizeof n);
	return n;
}

/* Pair `pair` of high parts of a vector of columns of block b. expanded, a constant: W is. */
ALWAYS_INLINE vs16 high_pair(const struct fp8_panels *t, size_t b, size_t v, size_t pair, enum codes_kind kind, bool expanded, vu8 floors)
{
	vs16 x[CODES_MOST_PAIRS];

	if (expanded)
		return (vs16)load(&t->expanded->high[b * (t->length / 2) + pair][v * LANES]);
	fp8_decode(t, b, v, pair / pairs_of(kind), kind, floors, x);
	return x[pair % pairs_of(kind)];
}

/* How many pairs that these bits of elements name come before `pair`. */
ALWAYS_INLINE size_t pairs_before(uint32_t elements, size_t pair)
{
	const uint32_t pairs = (elements | elements >> 1) & UINT32_C(0x55555555);

	return (size_t)__builtin_popcount(pairs & ((UINT32_C(1) << 2 * pair) - 1));
}

/*
 * Sums products of low parts of these elements of A and W by high parts, for `rows` rows and a vector of columns. By the inequality of
 * Cauchy and Schwarz those of W's low parts, below 2^13 each, make at most 2^(14.5 + 15.5), those of A's, below 2^10, 2^(12.5 + 16.5).
 * lowest, unless NULL: where two low parts meet, their products, at most 2^(5 + 10 + 13). kind, expanded: constants; of an expanded W
 * the kind does not matter.
 */
ALWAYS_INLINE void sum_lows(const struct fp8_panels *t, size_t b, size_t v, uint32_t of_a, uint32_t of_w, size_t rows, enum codes_kind kind,
                            bool expanded, vs32 *sum, vs32 *lowest)
{
	const uint32_t *a_high = (const uint32_t *)(t->a + t->a_parts.a_high) + b * (t->length / 2) * INT16_MR;
	const uint32_t *a_rest = (const uint32_t *)(t->a + t->a_parts.a_rest) + rests_before(t, b) * INT16_MR;
	const uint32_t (*w_rests)[LANES] = expanded ? t->expanded->rest + t->expanded->before[b][v] : NULL;
	const vu8 floors = expanded ? (vu8){0} : fp8_floors(t, b, v, kind);
	size_t n = 0;

#pragma GCC unroll 16
	for (size_t r = 0; r < rows; r++)
		sum[r] = (vs32)splat(0);
	for (uint32_t set = of_w; set != 0; n++) {
		const size_t pair = next_pair(&set);
		const vs16 w_rest = expanded ? (vs16)load(w_rests[n]) : low_pair(t, b, v, pair, kind, floors);

		const struct pair_line line = pair_line(a_high + pair * INT16_MR);
#pragma GCC unroll 16
		for (size_t r = 0; r < rows; r++)
			sum[r] = dot_row(sum[r], &line, r, w_rest);
	}
	for (; of_a != 0; a_rest += INT16_MR) {
		const size_t pair = next_pair(&of_a);
		const vs16 w_high = high_pair(t, b, v, pair, kind, expanded, floors);
		const struct pair_line line = pair_line(a_rest);

#pragma GCC unroll 16
		for (size_t r = 0; r < rows; r++)
			sum[r] = dot_row(sum[r], &line, r, w_high);
		if (lowest == NULL || (of_w >> 2 * pair & 3) == 0)
			continue;
		const vs16 w_rest = expanded ? (vs16)load(w_rests[pairs_before(of_w, pair)]) : low_pair(t, b, v, pair, kind, floors);
#pragma GCC unroll 16
		for (size_t r = 0; r < rows; r++)
			lowest[r] = dot_row(lowest[r], &line, r, w_rest);
	}
}

/* Adds products of low parts of these elements, none of which meet, to sums of high parts, and rounds once: the integer part of a sum and
   the rest are regrouped at bit 8, so that the upper part has at most 24 bits. */
ALWAYS_INLINE void add_integers(const struct fp8_panels *t, size_t b, size_t v, uint32_t of_a, uint32_t of_w, size_t rows, enum codes_kind kind,
                                bool expanded, const vs32 *high, vf32 *term)
{
	const int32_t rest = (1 << FP8_REST_BITS) - 1, middle = 0xFF;
	vs32 sum[INT16_MR];

	sum_lows(t, b, v, of_a, of_w, rows, kind, expanded, sum, NULL);
#pragma GCC unroll 16
	for (size_t r = 0; r < rows; r++) {
		const vs32 whole = (vs32)((vu32)high[r] + (vu32)(sum[r] >> FP8_REST_BITS));
		const vs32 lower = (whole & middle) << FP8_REST_BITS | (sum[r] & rest);

		term[r] = fma_f32(__builtin_convertvector(lower, vf32), splat_f32(0x1p-10F), __builtin_convertvector(whole & ~middle, vf32));
	}
}

/* The same where low parts meet, for all rows: three sums of 52 bits together. */
static NOINLINE void add_three(const vs32 high[INT16_MR], const vs32 sum[INT16_MR], const vs32 lowest[INT16_MR], vf32 term[INT16_MR])
{
	for (size_t r = 0; r < INT16_MR; r++) {
		const vs32 parts[3] = {high[r], sum[r], lowest[r]};
		vf64 x[3][2];

		for (size_t i = 0; i < 3; i++)
			widen_s32(&parts[i], x[i]);
		for (size_t i = 0; i < 2; i++)
			x[0][i] = fma_f64(x[2][i], splat_f64(0x1p-20), fma_f64(x[1][i], splat_f64(0x1p-10), x[0][i]));
		term[r] = narrow_f64(x[0][0], x[0][1]);
	}
}

static NOINLINE void add_meeting(const struct fp8_panels *t, size_t b, size_t v, uint32_t of_a, uint32_t of_w, const vs32 high[INT16_MR],
                                 vf32 term[INT16_MR])
{
	vs32 sum[INT16_MR], lowest[INT16_MR] = {{0}};

	if (t->expanded != NULL)
		sum_lows(t, b, v, of_a, of_w, INT16_MR, CODES_E4M3, true, sum, lowest);
	else if (t->kind == CODES_E4M3)
		sum_lows(t, b, v, of_a, of_w, INT16_MR, CODES_E4M3, false, sum, lowest);
	else
		sum_lows(t, b, v, of_a, of_w, INT16_MR, CODES_E5M2, false, sum, lowest);
	add_three(high, sum, lowest, term);
}

/* The sums of a block and a vector of columns, of which some have low parts, where W is expanded, or such parts meet or are no integers. */
static NOINLINE void add_any_lows(const struct fp8_panels *t, size_t b, size_t v, size_t rows, const vs32 sum[INT16_MR], vf32 term[INT16_MR])
{
	const uint32_t of_a = any_low_bits(t->a, b * INT16_MR, INT16_MR), of_w = w_low_bits(t, b, v, t->kind);
	struct fp8_lines lines;

	if (lows_are_integers(t, b)) {
		if (t->expanded == NULL || (of_a & of_w) != 0)
			add_meeting(t, b, v, of_a, of_w, sum, term);
		else
			add_integers(t, b, v, of_a, of_w, INT16_MR, CODES_E4M3, true, sum, term);
		return;
	}
	lines_of_block(t, b, v, &lines);
	for (size_t r = 0; r < rows; r++)
		term[r] = (lines.n | low_bits(t->a, b * INT16_MR + r)) != 0 ? add_lows(t, b, r, v, &lines, &sum[r])
		                                                            : __builtin_convertvector(sum[r], vf32);
}

/* One pass over blocks first to end - 1 for the first `rows` rows, a constant. */
ALWAYS_INLINE void fp8_pass(const struct fp8_panels *t, size_t first, size_t end, size_t rows, float *c)
{
	const float *a_scales = (const float *)(t->a + t->a_parts.a_scales);
	const bool lows = fp8_is_float(t->kind);
	float p[INT16_MR * INT16_NR] = {0};

	for (size_t b = first; b < end; b++) {
		vs32 sum[INT16_MR][INT16_VECTORS] = {0};
		vf32 term[INT16_MR][INT16_VECTORS];

		add_planes(t->a + t->a_parts.a_high + b * (t->length / 2) * INT16_MR * sizeof(uint32_t),
		           (const uint8_t *)t->expanded->high[b * (t->length / 2)], t->length / 2, rows, sum);
		const uint32_t of_a = any_low_bits(t->a, b * INT16_MR, rows);
#pragma GCC unroll 4
		for (size_t v = 0; v < INT16_VECTORS; v++) {
			if ((of_a | (lows ? low_bits(t->w, b * INT16_VECTORS + v) : 0)) == 0) {
#pragma GCC unroll 16
				for (size_t r = 0; r < rows; r++)
					term[r][v] = __builtin_convertvector(sum[r][v], vf32);
				continue;
			}
			/* Copies: numbers whose address another function gets would be kept in memory. */
			vs32 copy[INT16_MR];
			vf32 rounded[INT16_MR];

#pragma GCC unroll 16
			for (size_t r = 0; r < INT16_MR; r++)
				copy[r] = sum[r][v];
			add_any_lows(t, b, v, rows, copy, rounded);
#pragma GCC unroll 16
			for (size_t r = 0; r < rows; r++)
				term[r][v] = rounded[r];
		}
#pragma GCC unroll 64
		for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
			const size_t r = i / INT16_VECTORS, v = i % INT16_VECTORS;
			const vf32 scale = (vf32)load(&t->expanded->scales[b][v * LANES]) * splat_f32(a_scales[b * INT16_MR + r]);
			float *at = p + i * LANES;

			store(at, (vu32)fma_f32(term[r][v], scale, (vf32)load(at)));
		}
	}
	for (size_t i = 0; i < rows * INT16_NR; i += LANES)
		store(c + i, (vu32)((vf32)load(c + i) + (vf32)load(p + i)));
}

/* The same pass by W's codes as they are decoded. kind, a constant: these are. */
ALWAYS_INLINE void few_pass(const struct fp8_panels *t, size_t first, size_t end, size_t rows, enum codes_kind kind, float *c)
{
	const float *a_scales = (const float *)(t->a + t->a_parts.a_scales);
	const size_t pairs = pairs_of(kind);
	uintptr_t at_code = (uintptr_t)t->w + words_bytes(first * (t->length / 2 / pairs), kind); /* and the head's bytes */
	vf32 p[BY_CODES_ROWS][INT16_VECTORS] = {{{0}}};

	for (size_t b = first; b < end; b++)
		for (size_t v = 0; v < INT16_VECTORS; v++) {
			const uint32_t *a = (const uint32_t *)(t->a + t->a_parts.a_high) + b * (t->length / 2) * INT16_MR;
			const vu8 floors = fp8_floors(t, b, v, kind);
			vs32 sum[BY_CODES_ROWS];
			vf32 term[BY_CODES_ROWS];

#pragma GCC unroll 16
			for (size_t r = 0; r < rows; r++)
				sum[r] = (vs32)splat(0);
			for (size_t i = 0; i < t->length / 2 / pairs; i += words_of(kind), at_code += line_bytes(kind)) {
#pragma GCC unroll 2
				for (size_t at = 0; at < line_bytes(kind); at += CODES_FETCHED) {
					__builtin_prefetch((const void *)(at_code + (uintptr_t)t->ahead + at), 0, 2);
					__builtin_prefetch((const void *)(at_code + FP8_NEAR + at));
				}
#pragma GCC unroll 4
				for (size_t word = i; word < i + words_of(kind); word++, a += pairs * INT16_MR) {
					vs16 x[CODES_MOST_PAIRS];

					fp8_decode(t, b, v, word, kind, floors, x);
#pragma GCC unroll 4
					for (size_t pair = 0; pair < pairs; pair++) {
						const struct pair_line line = pair_line(a + pair * INT16_MR);

#pragma GCC unroll 16
						for (size_t r = 0; r < rows; r++) {
							sum[r] = dot_row(sum[r], &line, r, x[pair]);
							if (has_six_bits(kind)) /* others lose by it */
								keep_order(&sum[r]);
						}
					}
				}
			}
			const uint32_t of_a = any_low_bits(t->a, b * INT16_MR, rows), of_w = w_low_bits(t, b, v, kind);
			if ((of_a | of_w) != 0 && (of_a & of_w) == 0 && lows_are_integers(t, b)) {
				add_integers(t, b, v, of_a, of_w, rows, kind, false, sum, term);
			} else if ((of_a | of_w) != 0) {
				vs32 copy[INT16_MR] = {{0}};
				vf32 rounded[INT16_MR];

#pragma GCC unroll 16
				for (size_t r = 0; r < rows; r++)
					copy[r] = sum[r];
				add_any_lows(t, b, v, rows, copy, rounded);
#pragma GCC unroll 16
				for (size_t r = 0; r < rows; r++)
					term[r] = rounded[r];
			} else {
#pragma GCC unroll 16
				for (size_t r = 0; r < rows; r++)
					term[r] = __builtin_convertvector(sum[r], vf32);
			}
			const vf32 scale = fp8_w_scales(t, b, v, kind);
#pragma GCC unroll 16
			for (size_t r = 0; r < rows; r++)
				p[r][v] = fma_f32(term[r], scale * splat_f32(a_scales[b * INT16_MR + r]), p[r][v]);
		}
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
		float *at = c + i * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / INT16_VECTORS][i % INT16_VECTORS]));
	}
}

typedef void fp8_few_passes(const struct fp8_panels *t, size_t first, size_t end, float *c);

#define PASS(name, rows, kind) \
	static NOINLINE void name(const struct fp8_panels *t, size_t first, size_t end, float *c) \
	{ \
		few_pass(t, first, end, rows, kind, c); \
	}
#ifdef HAS_WIDE_LOOKUP
#define PASSES(name, kind) \
	PASS(name##_one_row, 1, kind) \
	PASS(name##_two_rows, 2, kind) \
	PASS(name##_four_rows, 4, kind) \
	PASS(name##_eight_rows, 8, kind) \
	PASS(name##_all_rows, INT16_MR, kind)
#define OF_KIND(name) {name##_one_row, name##_two_rows, name##_four_rows, name##_eight_rows, name##_all_rows}
#else
#define PASSES(name, kind) \
	PASS(name##_one_row, 1, kind) \
	PASS(name##_two_rows, 2, kind) \
	PASS(name##_four_rows, 4, kind)
#define OF_KIND(name) {name##_one_row, name##_two_rows, name##_four_rows}
#endif
PASSES(e5m2, CODES_E5M2)
PASSES(e4m3, CODES_E4M3)
PASSES(e3m2, CODES_E3M2)
PASSES(nibbles, CODES_NIBBLES)
PASSES(bytes, CODES_BYTES)
PASSES(wide, CODES_WIDE)
PASSES(e2m3, CODES_E2M3)
#undef PASSES
#undef PASS

/* By kind, for 1, 2, up to 4, up to 8 rows, and more. */
static fp8_few_passes *const few_passes[CODES_KINDS][5] = {
	[CODES_E5M2] = OF_KIND(e5m2),
	[CODES_E4M3] = OF_KIND(e4m3),
	[CODES_E3M2] = OF_KIND(e3m2),
	[CODES_NIBBLES] = OF_KIND(nibbles),
	[CODES_BYTES] = OF_KIND(bytes),
	[CODES_WIDE] = OF_KIND(wide),
	[CODES_E2M3] = OF_KIND(e2m3),
};
#undef OF_KIND

/* A block of W as numbers in their units, its units and scales. */
struct fp8_general {
	vf32 x[MXFP_MX_BLOCK][INT16_VECTORS], units[INT16_VECTORS], scales[INT16_VECTORS];
};

static void general_block(const struct fp8_panels *t, size_t b, struct fp8_general *to)
{
	const uint8_t *scales = t->w + t->w_parts.scales + b * INT16_NR, *units = t->w + t->w_parts.units + b * INT16_NR;

	for (size_t v = 0; v < INT16_VECTORS; v++) {
		for (size_t k = 0; k < t->length; k++)
			to->x[k][v] = fp8_is_float(t->kind) ? fp8_line(t, b, v, k) : high_line(t, b, k, v);
		if (!fp8_is_float(t->kind)) {
			to->units[v] = splat_f32(t->w_unit);
			to->scales[v] = any_scales_at(&t->codes, b * INT16_NR + v * LANES);
			if (t->kind == CODES_WIDE)
				to->scales[v] = powers(to->scales[v]);
			continue;
		}
		to->units[v] = (vf32)((load_u8(units + v * LANES) + (F32_BIAS - FP8_UNIT_BIAS)) << F32_SIGNIFICAND_BITS);
		const vu32 code = load_u8(scales + v * LANES), normal = fp8_scale(code, splat(FP8_UNIT_BIAS));
		to->scales[v] = (vf32)blend((vs32)(code == splat(0)), splat(F32_HIDDEN / 2), normal);
	}
}

/* Any blocks of normal or special numbers. A row of A at a time: sums in units, then in the formats' own, then rounded. */
static NOINLINE void fp8_general_pass(const struct fp8_panels *t, size_t first, size_t end, float *c)
{
	float p[INT16_MR * INT16_NR] = {0};
	struct fp8_general w;

	for (size_t b = first; b < end; b++) {
		general_block(t, b, &w);
		for (size_t r = 0; r < INT16_MR; r++) {
			const uint8_t code = t->a[t->a_parts.scales + b * INT16_MR + r];
			const int unit = t->a[t->a_parts.units + b * INT16_MR + r] - FP8_UNIT_BIAS;
			const float a_scale = code == MXFP_SCALE_NAN ? float_of(F32_NAN) : power_of_two(code - F32_BIAS);
			double a[MXFP_MX_BLOCK];

			for (size_t k = 0; k < t->length; k++) {
				float x;

				memcpy(&x, t->a + t->a_parts.a_elements + ((b * t->length + k) * INT16_MR + r) * sizeof x, sizeof x);
				a[k] = (double)x;
			}
			for (size_t v = 0; v < INT16_VECTORS; v++) {
				const uint8_t *x = (const uint8_t *)&w.x[0][v];
				vf64 units[2];
				float sum[LANES];

				widen_lanes(w.units[v] * power_of_two(unit), units);
				const vf64 low = exact_sum(a, 1, x, FP8_LINE, t->length);
				const vf64 high = exact_sum(a, 1, x + VECTOR_BYTES / 2, FP8_LINE, t->length);
				store(sum, (vu32)narrow_f64(low * units[0], high * units[1]));
				add_scaled(p + r * INT16_NR + v * LANES, sum, a_scale, (const uint8_t *)&w.scales[v]);
			}
		}
	}
	for (size_t i = 0; i < INT16_MR * INT16_NR; i += LANES)
		store(c + i, (vu32)((vf32)load(c + i) + (vf32)load(p + i)));
}

/* Whether sums are exact in binary64, and scales times units and the products of those are normal numbers. */
static bool fp8_is_ordinary(const struct fp8_head *a, const struct fp8_head *w)
{
	return !a->inf && !w->inf && a->depth + w->depth <= FP8_DEPTHS && a->least > -F32_BIAS && w->least > -F32_BIAS &&
	       a->greatest <= F32_BIAS && w->greatest <= F32_BIAS && a->least + w->least > -F32_BIAS &&
	       a->greatest + w->greatest <= F32_BIAS;
}

/* All passes of a panel of A over a chunk. */
static void fp8_passes(const struct mxfp_gemm_multiply_job *job, const struct fp8_panels *t, bool ordinary, size_t rows,
                       float *c)
{
	const size_t pass = job->shape->pass / t->length;
	fp8_few_passes *const few = few_passes[t->kind][rows > 8 ? 4 : rows > 4 ? 3 : rows > 2 ? 2 : rows - 1];

	for (size_t first = 0; first < t->blocks; first += pass) {
		const size_t end = t->blocks - first < pass ? t->blocks : first + pass;

		if (!ordinary)
			fp8_general_pass(t, first, end, c);
		else if (t->expanded == NULL)
			few(t, first, end, c);
		else if (rows <= INT16_MR / 2)
			fp8_pass(t, first, end, INT16_MR / 2, c);
		else
			fp8_pass(t, first, end, INT16_MR, c);
	}
}

static struct fp8_head fp8_head_of(const uint8_t *panel)
{
	struct fp8_head head;

	memcpy(&head, panel, sizeof head);
	return head;
}

/* What the head of a panel of integers would be. */
static struct fp8_head head_of_codes(const uint8_t *panel, int bits)
{
	struct blocks_head of;

	memcpy(&of, panel, sizeof of);
	return (struct fp8_head){
		.least = (int16_t)(exponent_of(of.least_scale) - bits),
		.greatest = of.greatest_scale >= F32_INF ? INT16_MAX : (int16_t)(exponent_of(of.greatest_scale) - bits),
	};
}

static NOINLINE void expand_any(struct fp8_expanded *to, const struct fp8_panels *t, const uint8_t *later)
{
	switch (t->kind) {
	case CODES_E5M2:
		fp8_expand(to, t, CODES_E5M2, later);
		break;
	case CODES_E4M3:
		fp8_expand(to, t, CODES_E4M3, later);
		break;
	case CODES_NIBBLES:
		fp8_expand(to, t, CODES_NIBBLES, later);
		break;
	case CODES_WIDE:
		fp8_expand(to, t, CODES_WIDE, later);
		break;
	case CODES_E3M2:
		fp8_expand(to, t, CODES_E3M2, later);
		break;
	case CODES_E2M3:
		fp8_expand(to, t, CODES_E2M3, later);
		break;
	default:
		fp8_expand(to, t, CODES_BYTES, later);
		break;
	}
}

static NOINLINE void fp8_rows(const struct mxfp_gemm_multiply_job *job)
{
	const size_t a_bytes = fp8_a_bytes(job->shape, job->k);
	const int w_bits = fraction_bits(job->shape->w_format) + unit_bits(fp8_kind(job->shape->w_format));
	struct fp8_panels t = {
		.a = job->a,
		.w = job->w,
		.a_parts = fp8_parts(job->shape, job->k, INT16_MR),
		.w_parts = fp8_parts(job->shape, job->k, INT16_NR),
		.blocks = blocks_count(job->shape, job->k),
		.length = blocks_length(job->shape),
		.kind = fp8_kind(job->shape->w_format),
		.codes = codes_begin(job),
		.w_unit = power_of_two(-w_bits),
		.ahead = (ptrdiff_t)((uintptr_t)job->w_later - (uintptr_t)job->w),
	};
	struct fp8_head a_head, w_head;
	float *c = job->c;

	w_head = fp8_is_float(t.kind) ? fp8_head_of(t.w) : head_of_codes(t.w, w_bits);
	for (size_t row = 0; row < job->rows; row += INT16_MR, t.a += a_bytes, c += INT16_MR * INT16_NR) {
		memcpy(&a_head, t.a, sizeof a_head);
		t.deep = a_head.deep | w_head.deep;
		const bool ordinary = fp8_is_ordinary(&a_head, &w_head);
		if (ordinary && t.expanded == NULL && job->rows > by_codes_most(job)) {
			expand_any(job->scratch, &t, job->w_later);
			t.expanded = job->scratch;
		}
		fp8_passes(job, &t, ordinary, job->rows - row, c);
	}
}

static FP_KERNEL(fp8_multiply, mxfp_gemm_multiply_job, fp8_rows)

const struct mxfp_gemm_kernel TIER(gemm_fp8) = {
	.id = FP8_ID,
	.name = "fp8-" TIER_NAME,
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = fp8_a_bytes,
	.w_panel_bytes = fp8_w_bytes,
	.scratch_bytes = sizeof(struct fp8_expanded),
	.pack_a = fp8_pack_a,
	.pack_w = fp8_pack_w,
	.multiply = fp8_multiply,
};
