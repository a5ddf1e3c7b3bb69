/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums of MXFP8_E4M3 by MXFP8_E4M3. Elements are multiples of 2^-9 of 18 bits. A block has a unit, 2^(low - 9), and
 * each of its elements is either a multiple of it that fits 16 bits, its main part, or all rest. Those of an exponent field of
 * `low` and less, below 8 units, are rests: one in a thousand where numbers are normal. With rests in 64ths of the unit,
 *
 *     sum a * w = sum main(a) main(w) + (sum main(a) rest(w) + rest(a) main(w)) / 64 + sum rest(a) rest(w) / 64^2
 *
 * The unit is the least for which main parts are at most 15 * 2^11 and the root of the sum of a block's squares is below 2^14.5 in A
 * and 2^16.5 in W, less a little for the rests, whose squares make at most 32 * 7.5^2 = 1800 units. So no sum exceeds 2^31, by the
 * Cauchy-Schwarz inequality, nor does any part of it: rests are at most 480 64ths, and the second sum is at most
 * (2^14.5 + 2^16.5) * 480 * 32^0.5 < 2^29. W has the greater part of the bits because a rest of W concerns more sums.
 *
 * A panel of W stays codes of a byte, with sign and significand in the upper nibble and the exponent in the lower one. An element
 * is a significand, looked up by the one, times a power of two, looked up by the other: vpmaddubsw adds n * low + n' * high, where
 * n' is 8 n, since 2^11 needs more than a byte. For more than a few rows a panel is expanded to 16-bit integers first.
 */
#include "tier.h"

#include "body/gemm_fp4.h"
#include "body/gemm_int16.h"

enum {
	E4M3_MR = INT16_MR,
	E4M3_NR = INT16_NR,
	E4M3_FEW_ROWS = 4,
	E4M3_PAIRS = MXFP_MX_BLOCK / 2,
	E4M3_BLOCKS = MXFP_GEMM_CHUNK / MXFP_MX_BLOCK,
	E4M3_WORD = E4M3_NR * 4,     /* four codes of each column */
	E4M3_AHEAD = 8192,
	E4M3_UNIT = 9,               /* -log2 of the least number */
	E4M3_REST_BITS = 6,          /* of rests below the unit: A's is at most 2^6 times the least number */
	E4M3_SQUARES = 5,            /* squares are counted in units of 2^5 */
	E4M3_A_SQUARES = (1 << 24) - (1 << 8),
	E4M3_W_SQUARES = (1 << 28) - (1 << 12)
};

/* What is said of a whole panel: the range of exponents of the scales that are not NaN, times their units. */
struct mxfp8_head {
	int16_t least, greatest;
	uint8_t nan, spare; /* spare: 0, so that panels have no byte that nobody wrote */
};

/*
 * Where the parts of a panel of `width` rows are: of each block, and of W for each vector of columns, 16 bits that say which pairs
 * of elements of some row have a rest; codes of scales [block][row]; `low` [block][row of A, or vector of columns]. Then W's codes, or A's scales times units as
 * binary32 [block][row], main parts and rests [pair][row].
 */
struct mxfp8_parts {
	size_t rests, scales, lows;
	size_t codes;
	size_t factors, a_main, a_rest, a_end;
};

static struct mxfp8_parts mxfp8_parts(size_t blocks, size_t width, size_t lows)
{
	const size_t masks = width == E4M3_NR ? INT16_VECTORS : 1, plane = blocks * E4M3_PAIRS * width * sizeof(uint32_t);
	struct mxfp8_parts p = {.rests = BLOCKS_HEAD_BYTES};

	p.scales = p.rests + blocks * masks * sizeof(uint16_t);
	p.lows = p.scales + blocks * width;
	p.codes = p.lows + blocks * lows;
	p.factors = panel_align(p.codes);
	p.a_main = p.factors + blocks * width * sizeof(float);
	p.a_rest = p.a_main + plane;
	p.a_end = p.a_rest + plane;
	return p;
}

static struct mxfp8_parts parts_of_a(size_t k)
{
	return mxfp8_parts((k + MXFP_MX_BLOCK - 1) / MXFP_MX_BLOCK, E4M3_MR, E4M3_MR);
}

static struct mxfp8_parts parts_of_w(size_t k)
{
	return mxfp8_parts((k + MXFP_MX_BLOCK - 1) / MXFP_MX_BLOCK, E4M3_NR, INT16_VECTORS);
}

static size_t mxfp8_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return panel_align(parts_of_a(k).a_end);
}

static size_t mxfp8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return parts_of_w(k).codes + blocks_count(shape, k) * MXFP_MX_BLOCK * E4M3_NR;
}

/* For each `low`, what the significands of an exponent are multiplied by in main parts and in rests. */
struct powers {
	uint8_t main[2][16], rest[2][16];
};

/* e: the exponent of an element. 2^11 is 8 + 8 * 255; e = 0 is a subnormal, whose significand is without the hidden bit. */
#define MAIN_LOW(low, e) ((e) <= (low) ? 0 : (e) - (low) <= 8 ? 1 << (((e) - (low) - 1) & 7) : (e) - (low) == 12 ? 8 : 0)
#define MAIN_HIGH(low, e) ((e) - (low) <= 8 || (e) - (low) > 12 ? 0 : (e) - (low) == 12 ? 255 : 1 << (((e) - (low) - 4) & 7))
#define REST_LOW(low, e) ((e) == 0 || (e) > (low) ? 0 : 1 << ((E4M3_REST_BITS + (e) - 1 - (low)) & 7))
#define REST_HIGH(low, e) ((e) == 0 ? 1 << ((E4M3_REST_BITS - (low)) & 7) : 0)
#define EXPONENTS(of, low) \
	{of(low, 0), of(low, 1), of(low, 2), of(low, 3), of(low, 4), of(low, 5), of(low, 6), of(low, 7), \
	 of(low, 8), of(low, 9), of(low, 10), of(low, 11), of(low, 12), of(low, 13), of(low, 14), of(low, 15)}
#define POWERS(low) \
	{{EXPONENTS(MAIN_LOW, low), EXPONENTS(MAIN_HIGH, low)}, {EXPONENTS(REST_LOW, low), EXPONENTS(REST_HIGH, low)}}
enum { N_LOWS = 8 }; /* the last is never used, but a panel that comes from a file may say so */
static const struct powers powers[N_LOWS] = {POWERS(0), POWERS(1), POWERS(2), POWERS(3), POWERS(4), POWERS(5), POWERS(6)};
#undef POWERS
#undef EXPONENTS
#undef REST_HIGH
#undef REST_LOW
#undef MAIN_HIGH
#undef MAIN_LOW

/* Significands by the upper nibble of a code: with the hidden bit, 8 times that, and without. */
static const int8_t significands[16] = {8, 9, 10, 11, 12, 13, 14, 15, -8, -9, -10, -11, -12, -13, -14, -15};
static const int8_t eightfold[16] = {64, 72, 80, 88, 96, 104, 112, 120, -64, -72, -80, -88, -96, -104, -112, -120};
static const int8_t bare[16] = {0, 1, 2, 3, 4, 5, 6, 7, 0, -1, -2, -3, -4, -5, -6, -7};

ALWAYS_INLINE __m256i table_of(const void *table)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

/* What decodes main parts or rests. */
struct decoding {
	__m256i power[2], significand[2];
};

ALWAYS_INLINE struct decoding decoding_main(unsigned low)
{
	const struct powers *p = &powers[low % N_LOWS];

	return (struct decoding){{table_of(p->main[0]), table_of(p->main[1])}, {table_of(significands), table_of(eightfold)}};
}

ALWAYS_INLINE struct decoding decoding_rest(unsigned low)
{
	const struct powers *p = &powers[low % N_LOWS];

	return (struct decoding){{table_of(p->rest[0]), table_of(p->rest[1])}, {table_of(significands), table_of(bare)}};
}

/* Integers of the first 8 codes of each half, and of the others. */
ALWAYS_INLINE void decode_codes(const struct decoding *d, __m256i codes, vs16 to[2])
{
	const __m256i nibble = _mm256_set1_epi8(0x0F);
	const __m256i exponents = _mm256_and_si256(codes, nibble), signs = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
	const __m256i p0 = _mm256_shuffle_epi8(d->power[0], exponents), p1 = _mm256_shuffle_epi8(d->power[1], exponents);
	const __m256i s0 = _mm256_shuffle_epi8(d->significand[0], signs), s1 = _mm256_shuffle_epi8(d->significand[1], signs);

	to[0] = (vs16)_mm256_maddubs_epi16(_mm256_unpacklo_epi8(p0, p1), _mm256_unpacklo_epi8(s0, s1));
	to[1] = (vs16)_mm256_maddubs_epi16(_mm256_unpackhi_epi8(p0, p1), _mm256_unpackhi_epi8(s0, s1));
}

/* The same in the order of codes. */
ALWAYS_INLINE void decode_in_order(const struct decoding *d, __m256i codes, __m256i to[2])
{
	vs16 x[2];

	decode_codes(d, codes, x);
	to[0] = _mm256_permute2x128_si256((__m256i)x[0], (__m256i)x[1], 0x20);
	to[1] = _mm256_permute2x128_si256((__m256i)x[0], (__m256i)x[1], 0x31);
}

/* A block of a row while it is packed. */
struct mxfp8_block {
	__m256i codes;  /* as a panel of W has them */
	uint8_t scale;
	unsigned low;
};

static unsigned greatest_byte(__m256i x)
{
	__m128i v = _mm_max_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	v = _mm_max_epu8(v, _mm_srli_si128(v, 8));
	v = _mm_max_epu8(v, _mm_srli_si128(v, 4));
	v = _mm_max_epu8(v, _mm_srli_si128(v, 2));
	return (unsigned)_mm_extract_epi8(_mm_max_epu8(v, _mm_srli_si128(v, 1)), 0);
}

/* An upper bound of the sum of squares of main parts. */
static uint32_t squares_of(__m256i codes, unsigned low)
{
	const struct decoding d = decoding_main(low);
	vu32 sum = {0};
	vs16 x[2];

	decode_codes(&d, codes, x);
	for (size_t i = 0; i < 2; i++)
		sum += (vu32)_mm256_madd_epi16((__m256i)x[i], (__m256i)x[i]) >> E4M3_SQUARES;
	return (uint32_t)sum_lanes(sum) + 2 * LANES;
}

/* The least `low` of a block: with it main parts fit 16 bits, and their squares are at most `most`. */
static unsigned low_of(__m256i codes, uint32_t most)
{
	const unsigned exponent = greatest_byte(_mm256_and_si256(codes, _mm256_set1_epi8(0x0F)));
	unsigned low = exponent > 12 ? exponent - 12 : 0;

	for (uint32_t squares = squares_of(codes, low); squares > most; squares = squares / 4 + 1)
		low++;
	return low;
}

/* Loads block b of row r of the job's. A block with a NaN becomes zeros with the scale NaN, one of zeros has the scale 1. */
static struct mxfp8_block load_block(const struct mxfp_gemm_pack_job *job, size_t r, size_t b, uint32_t most_squares)
{
	const struct mxfp_matrix *m = job->matrix;
	const size_t k = b * MXFP_MX_BLOCK, n = job->k - k < MXFP_MX_BLOCK ? job->k - k : MXFP_MX_BLOCK;
	const size_t at = mxfp_codes_offset(m->format, m->stride, job->row + r, job->k0 + k);
	const size_t scale_at = mxfp_scales_offset(m->format, m->scales_stride, job->row + r, job->k0 + k);
	const __m256i magnitudes = _mm256_set1_epi8(0x7F);
	struct mxfp8_block block = {.scale = ((const uint8_t *)m->scales)[scale_at]};
	uint8_t codes[MXFP_MX_BLOCK] = {0};

	memcpy(codes, (const uint8_t *)m->data + at, n);
	const __m256i x = _mm256_loadu_si256((const __m256i *)codes), magnitude = _mm256_and_si256(x, magnitudes);
	if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(magnitude, magnitudes)) != 0) {
		block.scale = MXFP_SCALE_NAN;
		return block;
	}
	if (_mm256_testz_si256(x, magnitudes) && block.scale != MXFP_SCALE_NAN)
		block.scale = MXFP_SCALE_BIAS;
	const __m256i exponents = _mm256_and_si256(_mm256_srli_epi16(x, 3), _mm256_set1_epi8(0x0F));
	const __m256i bits = _mm256_and_si256(_mm256_slli_epi16(x, 4), _mm256_set1_epi8(0x70));
	block.codes = _mm256_or_si256(_mm256_or_si256(exponents, bits), _mm256_andnot_si256(magnitudes, x));
	block.low = low_of(block.codes, most_squares);
	return block;
}

/* Bit p: an element of pair p is a rest. */
static uint16_t pairs_with_rests(__m256i codes, unsigned low)
{
	const struct decoding d = decoding_rest(low);
	const __m256i zero = _mm256_setzero_si256();
	__m256i x[2];

	decode_in_order(&d, codes, x);
	const int first = _mm256_movemask_ps((__m256)_mm256_cmpeq_epi32(x[0], zero));
	const int second = _mm256_movemask_ps((__m256)_mm256_cmpeq_epi32(x[1], zero));
	return (uint16_t)~(first | second << LANES);
}

static void add_pairs(uint8_t *rests, uint16_t pairs)
{
	uint16_t all;

	memcpy(&all, rests, sizeof all);
	all |= pairs;
	memcpy(rests, &all, sizeof all);
}

/* Extends the ranges of a head by a block of this scale. */
static void note_scale(struct mxfp8_head *head, uint8_t scale, unsigned low)
{
	const int exponent = scale - MXFP_SCALE_BIAS + (int)low - E4M3_UNIT;

	if (scale == MXFP_SCALE_NAN) {
		head->nan = 1;
		return;
	}
	head->least = exponent < head->least ? (int16_t)exponent : head->least;
	head->greatest = exponent > head->greatest ? (int16_t)exponent : head->greatest;
}

static const struct mxfp8_head no_blocks = {.least = INT16_MAX, .greatest = INT16_MIN};

/* The binary32 of a scale times its unit; where it is not a normal number, the panel is not multiplied by it. */
static uint32_t factor_of(uint8_t scale, unsigned low)
{
	if (scale == MXFP_SCALE_NAN)
		return F32_NAN;
	return (scale + low - E4M3_UNIT) << F32_SIGNIFICAND_BITS;
}

enum { E4M3_SLICE = PANEL_SLICE / MXFP_MX_BLOCK }; /* blocks */

/* Packs blocks first to end - 1, at most E4M3_SLICE. */
static void pack_a_slice(const struct mxfp_gemm_pack_job *job, size_t first, size_t end, struct mxfp8_head *head)
{
	const struct mxfp8_parts parts = parts_of_a(job->k);
	uint32_t main[PANEL_MAX_ROWS][PANEL_SLICE / 2] = {{0}}, rest[PANEL_MAX_ROWS][PANEL_SLICE / 2] = {{0}};
	uint8_t *panel = job->panel;

	for (size_t r = 0; r < E4M3_MR; r++)
		for (size_t b = first; b < end; b++) {
			struct mxfp8_block block = {.scale = MXFP_SCALE_BIAS};
			__m256i x[2];

			if (r < job->rows)
				block = load_block(job, r, b, E4M3_A_SQUARES);
			const struct decoding of_main = decoding_main(block.low), of_rest = decoding_rest(block.low);
			const uint32_t factor = factor_of(block.scale, block.low);
			decode_in_order(&of_main, block.codes, x);
			memcpy(&main[r][(b - first) * E4M3_PAIRS], x, sizeof x);
			decode_in_order(&of_rest, block.codes, x);
			memcpy(&rest[r][(b - first) * E4M3_PAIRS], x, sizeof x);
			panel[parts.scales + b * E4M3_MR + r] = block.scale;
			panel[parts.lows + b * E4M3_MR + r] = (uint8_t)block.low;
			memcpy(panel + parts.factors + (b * E4M3_MR + r) * sizeof factor, &factor, sizeof factor);
			add_pairs(panel + parts.rests + b * sizeof(uint16_t), pairs_with_rests(block.codes, block.low));
			note_scale(head, block.scale, block.low);
		}
	const size_t at = first * E4M3_PAIRS * E4M3_MR * sizeof(uint32_t), n = (end - first) * E4M3_PAIRS;
	store_columns(panel + parts.a_main + at, main[0], PANEL_SLICE / 2, E4M3_MR, n);
	store_columns(panel + parts.a_rest + at, rest[0], PANEL_SLICE / 2, E4M3_MR, n);
}

static void mxfp8_pack_a(const struct mxfp_gemm_pack_job *job)
{
	const size_t blocks = blocks_count(job->shape, job->k);
	const struct mxfp8_parts parts = parts_of_a(job->k);
	struct mxfp8_head head = no_blocks;

	memset(job->panel, 0, parts.scales);
	for (size_t b = 0; b < blocks; b += E4M3_SLICE)
		pack_a_slice(job, b, blocks - b < E4M3_SLICE ? blocks : b + E4M3_SLICE, &head);
	memcpy(job->panel, &head, sizeof head);
}

/* Puts the codes of a block of a column where decode_codes() finds pairs of neighbors in the order of columns. */
static void place_codes(__m256i codes, size_t column, uint8_t *to)
{
	uint8_t bytes[MXFP_MX_BLOCK];

	_mm256_storeu_si256((__m256i *)bytes, codes);
	to += column / 4 * 16 + column % 4 * 2;
	for (size_t i = 0; i < MXFP_MX_BLOCK; i += 4, to += E4M3_WORD) {
		memcpy(to, bytes + i, 2);
		memcpy(to + 8, bytes + i + 2, 2);
	}
}

static void mxfp8_pack_w(const struct mxfp_gemm_pack_job *job)
{
	const size_t blocks = blocks_count(job->shape, job->k);
	const struct mxfp8_parts parts = parts_of_w(job->k);
	struct mxfp8_head head = no_blocks;
	uint8_t *panel = job->panel;

	memset(panel, 0, parts.scales);
	for (size_t b = 0; b < blocks; b++)
		for (size_t v = 0; v < INT16_VECTORS; v++) {
			struct mxfp8_block block[LANES];
			unsigned low = 0;

			for (size_t i = 0; i < LANES; i++) {
				const size_t r = v * LANES + i;

				block[i] = (struct mxfp8_block){.scale = MXFP_SCALE_BIAS};
				if (r < job->rows)
					block[i] = load_block(job, r, b, E4M3_W_SQUARES);
				low = block[i].low > low ? block[i].low : low;
				panel[parts.scales + b * E4M3_NR + r] = block[i].scale;
				place_codes(block[i].codes, r, panel + parts.codes + b * MXFP_MX_BLOCK * E4M3_NR);
			}
			panel[parts.lows + b * INT16_VECTORS + v] = (uint8_t)low;
			for (size_t i = 0; i < LANES; i++) {
				add_pairs(panel + parts.rests + (b * INT16_VECTORS + v) * sizeof(uint16_t), pairs_with_rests(block[i].codes, low));
				note_scale(&head, block[i].scale, low);
			}
		}
	memcpy(panel, &head, sizeof head);
}

/* A panel of W, expanded. */
struct mxfp8_expanded {
	float factors[E4M3_BLOCKS][E4M3_NR];
	uint32_t main[E4M3_BLOCKS][E4M3_PAIRS][E4M3_NR];
	uint32_t rest[E4M3_BLOCKS][E4M3_PAIRS][E4M3_NR]; /* only pairs that have some */
};

/* A panel of A and one of W. */
struct mxfp8_panels {
	const uint8_t *a, *w;
	struct mxfp8_parts a_parts, w_parts;
	const struct mxfp8_expanded *expanded;
};

/* Entry i of those that say which pairs have a rest. */
ALWAYS_INLINE uint32_t rests_at(const uint8_t *panel, size_t i)
{
	uint16_t pairs;

	memcpy(&pairs, panel + BLOCKS_HEAD_BYTES + i * sizeof pairs, sizeof pairs);
	return pairs;
}

/* The same of a block of all columns. */
ALWAYS_INLINE uint32_t rests_of_w(const uint8_t *panel, size_t b)
{
	uint32_t pairs = 0;

	for (size_t v = 0; v < INT16_VECTORS; v++)
		pairs |= rests_at(panel, b * INT16_VECTORS + v);
	return pairs;
}

ALWAYS_INLINE unsigned low_of_w(const struct mxfp8_panels *t, size_t b, size_t v)
{
	return t->w[t->w_parts.lows + b * INT16_VECTORS + v];
}

/* Pairs 2 i and 2 i + 1 of a vector of columns of a block. */
ALWAYS_INLINE void decode_word(const struct mxfp8_panels *t, const struct decoding *d, size_t b, size_t v, size_t i, vs16 pairs[2])
{
	const uint8_t *codes = t->w + t->w_parts.codes + (b * MXFP_MX_BLOCK / 4 + i) * E4M3_WORD + v * VECTOR_BYTES;

	decode_codes(d, (__m256i)load(codes), pairs);
}

/* Asks for the codes E4M3_AHEAD bytes behind those: processors stop at pages. */
ALWAYS_INLINE void fetch_word(const struct mxfp8_panels *t, size_t b, size_t v, size_t i)
{
	const uint8_t *codes = t->w + t->w_parts.codes + (b * MXFP_MX_BLOCK / 4 + i) * E4M3_WORD + v * VECTOR_BYTES;

	__builtin_prefetch((const void *)((uintptr_t)codes + E4M3_AHEAD));
}

/* Scales times units of a vector of columns. */
ALWAYS_INLINE vf32 factors_of_w(const struct mxfp8_panels *t, size_t b, size_t v)
{
	const vu32 scales = load_u8(t->w + t->w_parts.scales + b * E4M3_NR + v * LANES);

	return (vf32)((scales + (low_of_w(t, b, v) - E4M3_UNIT)) << F32_SIGNIFICAND_BITS);
}

static NOINLINE void expand(struct mxfp8_expanded *to, const struct mxfp8_panels *t, size_t blocks)
{
	for (size_t b = 0; b < blocks; b++)
		for (size_t v = 0; v < INT16_VECTORS; v++) {
			const struct decoding of_main = decoding_main(low_of_w(t, b, v)), of_rest = decoding_rest(low_of_w(t, b, v));
			const vu32 scales = load_u8(t->w + t->w_parts.scales + b * E4M3_NR + v * LANES);
			vs16 x[2];

			store(&to->factors[b][v * LANES],
			      blend((vs32)(scales == splat(MXFP_SCALE_NAN)), splat(F32_NAN), (vu32)factors_of_w(t, b, v)));
			for (size_t i = 0; i < E4M3_PAIRS / 2; i++) {
				decode_word(t, &of_main, b, v, i, x);
				store(&to->main[b][2 * i][v * LANES], (vu32)x[0]);
				store(&to->main[b][2 * i + 1][v * LANES], (vu32)x[1]);
			}
			for (uint32_t pairs = rests_of_w(t->w, b); pairs != 0; pairs &= pairs - 1) {
				const size_t p = (size_t)__builtin_ctz(pairs);

				decode_word(t, &of_rest, b, v, p / 2, x);
				store(&to->rest[b][p][v * LANES], (vu32)x[p % 2]);
			}
		}
}

/*
 * main + cross / 64 + both / 64^2, rounded once: its integer part h and its rest, in 64^2ths, are regrouped at bit 8, so that the
 * upper part has at most 24 bits and the lower one 8 + 12.
 */
ALWAYS_INLINE vf32 round_sum(vs32 main, vs32 cross, vs32 both)
{
	const int32_t rest = (1 << E4M3_REST_BITS) - 1, middle = 0xFF;

	cross += both >> E4M3_REST_BITS;
	const vs32 h = (vs32)((vu32)main + (vu32)(cross >> E4M3_REST_BITS));
	const vs32 lower = (((h & middle) << E4M3_REST_BITS | (cross & rest)) << E4M3_REST_BITS) | (both & rest);
	return fma_f32(__builtin_convertvector(lower, vf32), splat_f32(0x1p-12F), __builtin_convertvector(h & ~middle, vf32));
}

/* Adds to sums the products of pairs of two planes of a block. */
ALWAYS_INLINE void add_some_pairs(const uint8_t *a, const uint32_t (*w)[E4M3_NR], uint32_t pairs, vs32 sum[E4M3_MR][INT16_VECTORS])
{
	for (; pairs != 0; pairs &= pairs - 1) {
		const size_t p = (size_t)__builtin_ctz(pairs);

		add_planes(a + p * E4M3_MR * sizeof(uint32_t), (const uint8_t *)w[p], 1, E4M3_MR, sum);
	}
}

ALWAYS_INLINE void clear_sums(vs32 sum[E4M3_MR][INT16_VECTORS])
{
#pragma GCC unroll 16
	for (size_t i = 0; i < E4M3_MR * INT16_VECTORS; i++)
		sum[i / INT16_VECTORS][i % INT16_VECTORS] = (vs32)splat(0);
}

/* The sums of block b, of which some have rests. */
static NOINLINE void add_rests(const struct mxfp8_panels *t, size_t b, const vs32 main[E4M3_MR][INT16_VECTORS],
                               vf32 term[E4M3_MR][INT16_VECTORS])
{
	const size_t first = b * E4M3_PAIRS * E4M3_MR * sizeof(uint32_t);
	const uint8_t *a_main = t->a + t->a_parts.a_main + first, *a_rest = t->a + t->a_parts.a_rest + first;
	const uint32_t of_a = rests_at(t->a, b), of_w = rests_of_w(t->w, b);
	vs32 cross[E4M3_MR][INT16_VECTORS], both[E4M3_MR][INT16_VECTORS];

	clear_sums(cross);
	add_some_pairs(a_main, t->expanded->rest[b], of_w, cross);
	add_some_pairs(a_rest, t->expanded->main[b], of_a, cross);
	if ((of_a & of_w) == 0) {
#pragma GCC unroll 16
		for (size_t i = 0; i < E4M3_MR * INT16_VECTORS; i++)
			term[i / INT16_VECTORS][i % INT16_VECTORS] = round_sum(
				main[i / INT16_VECTORS][i % INT16_VECTORS], cross[i / INT16_VECTORS][i % INT16_VECTORS], (vs32)splat(0));
		return;
	}
	clear_sums(both);
	add_some_pairs(a_rest, t->expanded->rest[b], of_a & of_w, both);
	for (size_t r = 0; r < E4M3_MR; r++)
		for (size_t v = 0; v < INT16_VECTORS; v++)
			term[r][v] = round_sum(main[r][v], cross[r][v], both[r][v]);
}

/* One pass over blocks first to end - 1 for the first `rows` rows, a constant, by the expanded panel. general, a constant: scales
   times units are not ordinary. */
ALWAYS_INLINE void mxfp8_pass(const struct mxfp8_panels *t, size_t first, size_t end, size_t rows, bool general, float *c)
{
	const float *a_factors = (const float *)(t->a + t->a_parts.factors);
	float p[E4M3_MR * E4M3_NR] = {0};

	for (size_t b = first; b < end; b++) {
		vs32 sum[E4M3_MR][INT16_VECTORS] = {{{0}}};
		vf32 term[E4M3_MR][INT16_VECTORS];

		add_planes(t->a + t->a_parts.a_main + b * E4M3_PAIRS * E4M3_MR * sizeof(uint32_t),
		           (const uint8_t *)t->expanded->main[b], E4M3_PAIRS, rows, sum);
		if ((rests_at(t->a, b) | rests_of_w(t->w, b)) != 0) {
			/* Copies: numbers whose address another function gets would be kept in memory. */
			vs32 copy[E4M3_MR][INT16_VECTORS];
			vf32 rounded[E4M3_MR][INT16_VECTORS];

			if (rows < E4M3_MR)
				clear_sums(copy);
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * INT16_VECTORS; i++)
				copy[i / INT16_VECTORS][i % INT16_VECTORS] = sum[i / INT16_VECTORS][i % INT16_VECTORS];
			add_rests(t, b, (const vs32(*)[INT16_VECTORS])copy, rounded);
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * INT16_VECTORS; i++)
				term[i / INT16_VECTORS][i % INT16_VECTORS] = rounded[i / INT16_VECTORS][i % INT16_VECTORS];
		} else {
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * INT16_VECTORS; i++)
				term[i / INT16_VECTORS][i % INT16_VECTORS] =
					__builtin_convertvector(sum[i / INT16_VECTORS][i % INT16_VECTORS], vf32);
		}
#pragma GCC unroll 16
		for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
			const size_t r = i / INT16_VECTORS, v = i % INT16_VECTORS;
			float *at = p + i * LANES;

			if (general) {
				const uint8_t *w_codes = t->w + t->w_parts.scales + b * E4M3_NR + v * LANES;
				const int a_low = t->a[t->a_parts.lows + b * E4M3_MR + r], w_low = (int)(low_of_w(t, b, v) % N_LOWS);
				uint32_t w_scales[LANES];
				float part[LANES];

				for (size_t j = 0; j < LANES; j++)
					w_scales[j] = fp4_scale(w_codes[j]);
				store(part, (vu32)(term[r][v] * power_of_two(a_low + w_low - 2 * E4M3_UNIT)));
				add_scaled(at, part, float_of(fp4_scale(t->a[t->a_parts.scales + b * E4M3_MR + r])), (const uint8_t *)w_scales);
			} else {
				const vf32 factor = (vf32)load(&t->expanded->factors[b][v * LANES]) * splat_f32(a_factors[b * E4M3_MR + r]);

				store(at, (vu32)fma_f32(term[r][v], factor, (vf32)load(at)));
			}
		}
	}
	for (size_t i = 0; i < rows * E4M3_NR; i += LANES)
		store(c + i, (vu32)((vf32)load(c + i) + (vf32)load(p + i)));
}

/* Rounds the sums of `rows` rows, a constant, and a vector of columns of block b, which have rests in these pairs. */
ALWAYS_INLINE void add_few_rests(const struct mxfp8_panels *t, size_t b, size_t v, uint32_t pairs, size_t rows,
                                 const vs32 main[E4M3_FEW_ROWS], vf32 term[E4M3_FEW_ROWS])
{
	const size_t first = b * E4M3_PAIRS * E4M3_MR;
	const uint32_t *a_main = (const uint32_t *)(t->a + t->a_parts.a_main) + first;
	const uint32_t *a_rest = (const uint32_t *)(t->a + t->a_parts.a_rest) + first;
	const struct decoding of_main = decoding_main(low_of_w(t, b, v)), of_rest = decoding_rest(low_of_w(t, b, v));
	vs32 cross[E4M3_FEW_ROWS], both[E4M3_FEW_ROWS];

#pragma GCC unroll 4
	for (size_t r = 0; r < rows; r++)
		cross[r] = both[r] = (vs32)splat(0);
	for (; pairs != 0; pairs &= pairs - 1) {
		const size_t p = (size_t)__builtin_ctz(pairs);
		vs16 x[2], y[2];

		decode_word(t, &of_main, b, v, p / 2, x);
		decode_word(t, &of_rest, b, v, p / 2, y);
		const vs16 w_main = p % 2 == 0 ? x[0] : x[1], w_rest = p % 2 == 0 ? y[0] : y[1];
#pragma GCC unroll 4
		for (size_t r = 0; r < rows; r++) {
			const vs16 m = (vs16)splat(a_main[p * E4M3_MR + r]), n = (vs16)splat(a_rest[p * E4M3_MR + r]);

			cross[r] = dot_pairs(dot_pairs(cross[r], m, w_rest), n, w_main);
			both[r] = dot_pairs(both[r], n, w_rest);
		}
	}
#pragma GCC unroll 4
	for (size_t r = 0; r < rows; r++)
		term[r] = round_sum(main[r], cross[r], both[r]);
}

/* One pass over blocks first to end - 1 for `rows` rows, a constant, by W's codes. */
ALWAYS_INLINE void few_pass(const struct mxfp8_panels *t, size_t first, size_t end, size_t rows, float *c)
{
	const float *a_factors = (const float *)(t->a + t->a_parts.factors);
	vf32 p[E4M3_FEW_ROWS][INT16_VECTORS] = {{{0}}};

	for (size_t b = first; b < end; b++)
#pragma GCC unroll 2
		for (size_t v = 0; v < INT16_VECTORS; v++) {
			const uint32_t *a = (const uint32_t *)(t->a + t->a_parts.a_main) + b * E4M3_PAIRS * E4M3_MR;
			const struct decoding of_main = decoding_main(low_of_w(t, b, v));
			vs32 sum[E4M3_FEW_ROWS];
			vf32 term[E4M3_FEW_ROWS];

#pragma GCC unroll 4
			for (size_t r = 0; r < rows; r++)
				sum[r] = (vs32)splat(0);
			for (size_t i = 0; i < E4M3_PAIRS / 2; i++, a += 2 * E4M3_MR) {
				vs16 x[2];

				fetch_word(t, b, v, i);
				decode_word(t, &of_main, b, v, i, x);
#pragma GCC unroll 4
				for (size_t r = 0; r < rows; r++)
					sum[r] = dot_pairs(dot_pairs(sum[r], (vs16)splat(a[r]), x[0]), (vs16)splat(a[E4M3_MR + r]), x[1]);
			}
			const uint32_t pairs = rests_at(t->a, b) | rests_at(t->w, b * INT16_VECTORS + v);
			if (pairs != 0) {
				add_few_rests(t, b, v, pairs, rows, sum, term);
			} else {
#pragma GCC unroll 4
				for (size_t r = 0; r < rows; r++)
					term[r] = __builtin_convertvector(sum[r], vf32);
			}
#pragma GCC unroll 4
			for (size_t r = 0; r < rows; r++)
				p[r][v] = fma_f32(term[r], factors_of_w(t, b, v) * splat_f32(a_factors[b * E4M3_MR + r]), p[r][v]);
		}
#pragma GCC unroll 8
	for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
		float *at = c + i * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / INT16_VECTORS][i % INT16_VECTORS]));
	}
}

typedef void mxfp8_passes(const struct mxfp8_panels *t, size_t first, size_t end, float *c);

/* Defines a pass. */
#define PASS(name, ...) \
	static NOINLINE void name(const struct mxfp8_panels *t, size_t first, size_t end, float *c) \
	{ \
		__VA_ARGS__; \
	}
PASS(one_row, few_pass(t, first, end, 1, c))
PASS(two_rows, few_pass(t, first, end, 2, c))
PASS(four_rows, few_pass(t, first, end, 4, c))
PASS(half_panel, mxfp8_pass(t, first, end, E4M3_MR / 2, false, c))
PASS(whole_panel, mxfp8_pass(t, first, end, E4M3_MR, false, c))
PASS(general_panel, mxfp8_pass(t, first, end, E4M3_MR, true, c))
#undef PASS

/* Whether scales times units and the products of those are normal numbers. */
static bool are_ordinary(const struct mxfp8_head *a, const struct mxfp8_head *w)
{
	return a->least > -F32_BIAS && w->least > -F32_BIAS && a->greatest <= F32_BIAS && w->greatest <= F32_BIAS &&
	       a->least + w->least > -F32_BIAS && a->greatest + w->greatest <= F32_BIAS;
}

static NOINLINE void mxfp8_rows(const struct mxfp_gemm_multiply_job *job)
{
	const size_t blocks = blocks_count(job->shape, job->k), pass = job->shape->pass / MXFP_MX_BLOCK;
	struct mxfp8_panels t = {job->a, job->w, parts_of_a(job->k), parts_of_w(job->k), job->scratch};
	mxfp8_passes *few = job->rows == 1 ? one_row : job->rows == 2 ? two_rows : job->rows <= E4M3_FEW_ROWS ? four_rows : NULL;
	struct mxfp8_head a_head, w_head;
	bool is_expanded = false;
	float *c = job->c;

	memcpy(&w_head, t.w, sizeof w_head);
	for (size_t row = 0; row < job->rows; row += E4M3_MR, t.a += mxfp8_a_bytes(job->shape, job->k), c += E4M3_MR * E4M3_NR) {
		memcpy(&a_head, t.a, sizeof a_head);
		const bool ordinary = are_ordinary(&a_head, &w_head), by_codes = ordinary && few != NULL && !w_head.nan;
		mxfp8_passes *const panel = job->rows - row <= E4M3_MR / 2 ? half_panel : whole_panel;
		mxfp8_passes *const multiply = by_codes ? few : ordinary ? panel : general_panel;

		if (!by_codes && !is_expanded) {
			expand(job->scratch, &t, blocks);
			is_expanded = true;
		}
		for (size_t first = 0; first < blocks; first += pass)
			multiply(&t, first, blocks - first < pass ? blocks : first + pass, c);
	}
}

static FP_KERNEL(mxfp8_multiply, mxfp_gemm_multiply_job, mxfp8_rows)

const struct mxfp_gemm_kernel TIER(gemm_mxfp8) = {
	.id = MXFP8_ID,
	.name = "mxfp8-" TIER_NAME,
	.mr = E4M3_MR,
	.nr = E4M3_NR,
	.a_panel_bytes = mxfp8_a_bytes,
	.w_panel_bytes = mxfp8_w_bytes,
	.scratch_bytes = sizeof(struct mxfp8_expanded),
	.pack_a = mxfp8_pack_a,
	.pack_w = mxfp8_pack_w,
	.multiply = mxfp8_multiply,
};
