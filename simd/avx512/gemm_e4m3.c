/* SPDX-License-Identifier: MIT */
/*
 * Exact products of MXFP8_E4M3 by MXFP8_E4M3, or by one of the narrow formats MXFP4, MXFP6_E2M3 and MXINT8, which may
 * be either operand.
 *
 * Elements are integers in a unit of the format. Those of e4m3 have 19 bits with the sign, too many for vpdpwssd, which
 * multiplies 16-bit words. So an element is main * 2^low + rest, where `main` fits a word. Only elements far below the
 * largest of their block have a nonzero rest; a mask for every block says where, so that blocks without any, which are
 * nearly all, cost nothing. low is 3 if the other operand is narrow, and 4 if both are e4m3. Narrow formats have no
 * rests.
 *
 * A pair is two elements that vpdpwssd multiplies at once. Of each 8 elements 0 .. 7 the pairs are (0, 4), (2, 6),
 * (1, 5), (3, 7): the order that results from splitting packed MXFP4 codes into nibbles, and their words into bytes.
 *
 * Panel of W, GEMM_E4M3_NR rows ("columns" here: they are columns of C), all of it bytes:
 *   scales  [blocks][NR]: codes; also 0xFF if an element is NaN, and for a block of zeros another scale of its column.
 *   codes   [words][NR][4 bytes]. MXFP4: a word is 8 elements as stored. Others: each 8 elements are a word of the even
 *           ones, then a word of the odd ones, a byte per element: a code, in MXINT8 an integer. 4 words of MXFP6_E2M3 are
 *           stored in 3 (load_sixes()).
 * A panel of an e4m3 W has two things more, and if both are e4m3 its codes another order, for fast decoding (finish_block()):
 *   rests   [blocks][2 bytes], after the scales: bit 2 i + v: word i of the columns of vector v has nonzero rests.
 *   norms   [blocks][2 bytes]: the high half of struct gemm_e4m3_columns' norm, rounded up; 0 if A is narrow.
 *
 * These loops multiply them, if no scale is extreme; else a general one runs. A narrow W is multiplied as it is stored, byte by
 * byte (multiply_stored()); by more than 12 rows of e4m3, if shuffles of 512 bits do not keep up with products (lib/cpu.def), a
 * panel of it is first expanded to words, struct gemm_e4m3_folded, which is done once for all rows (multiply_folded()). An e4m3 W
 * is multiplied as it is stored by up to 8 rows (multiply_digits(), multiply_few_rows()), and by more of them expanded to struct
 * gemm_e4m3_columns.
 */
#include "tier.h"

#include "avx512/fetch_w.h"
#include "avx512/gemm_elements.h"
#include "body/slots.h"
#include "cpu.h"

enum {
	GEMM_E4M3_MR = 8,
	GEMM_E4M3_FOUR = 4, /* the most rows that are multiplied at once by W as it is stored */
	GEMM_E4M3_VECTORS = 2,
	GEMM_E4M3_NR = GEMM_E4M3_VECTORS * LANES,
	GEMM_E4M3_BLOCK = MXFP_MX_BLOCK,
	LOW_NARROW = 3,    /* low bits of e4m3 elements if the other operand is narrow */
	LOW_BOTH = 4,      /* if both are e4m3 */
	BYTE_OFFSET = 128, /* makes signed bytes unsigned */
	DIGIT = 255,       /* the base of two digits, of which an e4m3 W by few rows of a narrow A is made */
	HALVES = 32640,    /* 127.5 * 255 + 127.5 */
	DIGITS_ROWS = 8,   /* the most */
	STORED_ROWS = 12,  /* of e4m3 by a narrow W, the most if shuffles are slow */
	GEMM_E4M3_PAIRS = GEMM_E4M3_BLOCK / 2,
	GEMM_E4M3_BLOCKS = MXFP_GEMM_CHUNK / GEMM_E4M3_BLOCK,
	/*
	 * The codes of scales, 2^-60 to 2^43, with which no sum of the fast loop is subnormal or overflows. Products are
	 * multiples of 2^-18 times both scales, above 2^-149. The sum of a pass is below 2^27 times both scales, or 2^39
	 * in the loop's unit, that of products of main parts, which is at least 2^-12.
	 */
	GEMM_E4M3_SCALE_LEAST = 67,
	GEMM_E4M3_SCALE_MOST = 170
};

/* A block of a panel of A, row by row. */
struct gemm_e4m3_rows {
	_Alignas(64) int16_t main[GEMM_E4M3_MR][GEMM_E4M3_BLOCK]; /* in the order of pairs */
	int32_t binades[GEMM_E4M3_MR];  /* of the fast loop: of the scale, in the place of a binary32's exponent */
	union {
		float norm[GEMM_E4M3_MR];   /* if both are e4m3: at least the root of the sum of the squares of `main` */
		float factor[GEMM_E4M3_MR]; /* else: the scale, or the power of two nearest to it */
	};
	int32_t exponent[GEMM_E4M3_MR]; /* of the general loop: of the scale times the unit of products */
	uint16_t rests[GEMM_E4M3_MR];   /* bit p: pair p has a nonzero rest */
};

struct gemm_e4m3_rest {
	_Alignas(64) int16_t rest[GEMM_E4M3_MR][GEMM_E4M3_BLOCK]; /* only where the bit in `rests` is set */
};

/* The head of a panel of A. The blocks follow (struct gemm_e4m3_rows), then struct gemm_e4m3_rest for each if A is
   e4m3, then unless both are e4m3 struct gemm_e4m3_bytes for each of the first 4 rows, then of the others. */
struct gemm_e4m3_head {
	_Alignas(64) float last[GEMM_E4M3_MR]; /* of the fast loop: the factor of a pass's sum, or NaN if the row has one */
	float one[GEMM_E4M3_MR];               /* of the general loop: 1, or NaN */
	uint32_t general;                      /* nonzero: the fast loop would be wrong */
};

/*
 * A block of 4 rows of a panel of A a second time, as bytes: unless both operands are e4m3. Elements are in groups of 4 in the order
 * of W's words, even ones before odd ones. Those of e4m3 are 256 part[0] + part[1]; the others have one part. Sums start from
 * minus what the offset of W's elements adds to them.
 */
struct gemm_e4m3_bytes {
	_Alignas(64) int32_t start[GEMM_E4M3_FOUR];
	int32_t binades[GEMM_E4M3_FOUR]; /* of the scale, in the place of a binary32's exponent */
	uint16_t rests[GEMM_E4M3_FOUR];  /* as in struct gemm_e4m3_rows */
	_Alignas(64) int8_t part[][GEMM_E4M3_FOUR][GEMM_E4M3_BLOCK];
};

#define FOUR_BYTES(parts) (sizeof(struct gemm_e4m3_bytes) + (size_t)(parts) * GEMM_E4M3_FOUR * GEMM_E4M3_BLOCK)

/* An expanded block of a panel of W. */
struct gemm_e4m3_columns {
	_Alignas(64) int16_t main[GEMM_E4M3_PAIRS][GEMM_E4M3_NR][2];
	int32_t factor[GEMM_E4M3_NR];   /* the scale as binary32 */
	int32_t exponent[GEMM_E4M3_NR]; /* of the scale alone */
	float norm;                     /* the largest of all columns */
	uint32_t rests;                 /* bit p: pair p of some column has a rest */
};

struct gemm_e4m3_expanded {
	struct gemm_e4m3_columns block[GEMM_E4M3_BLOCKS];
	_Alignas(64) int16_t rest[GEMM_E4M3_BLOCKS][GEMM_E4M3_PAIRS][GEMM_E4M3_NR][2];
	_Alignas(64) float one[GEMM_E4M3_NR]; /* 1, or NaN if the column has one */
	bool general;                         /* the fast loop would be wrong */
};

/* A narrow panel of W, expanded and folded: elements are multiplied so that a column has one scale, its least. Then a block has no
   scale of W to be applied, which is one in 19 instructions. */
struct gemm_e4m3_folded {
	_Alignas(64) int16_t main[GEMM_E4M3_BLOCKS][GEMM_E4M3_PAIRS][GEMM_E4M3_NR][2];
	float last[GEMM_E4M3_NR]; /* that scale, or NaN */
};

/* Elements of e4m3 as 2^low_bits main + rest, in units of 2^-9. A NaN gives any number. */
struct gemm_e4m3_parts {
	__m512i main, rest;
};

ALWAYS_INLINE struct gemm_e4m3_parts gemm_e4m3_split(__m512i codes, int low_bits)
{
	const __m512i one = _mm512_set1_epi16(1), hidden = _mm512_set1_epi16(8);
	__m512i exponent = _mm512_and_si512(_mm512_srli_epi16(codes, 3), _mm512_set1_epi16(15));
	__mmask32 normal = _mm512_test_epi16_mask(exponent, exponent);
	__mmask32 negative = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x80));
	__m512i shift = _mm512_sub_epi16(_mm512_max_epi16(exponent, one), one);
	__m512i significand = _mm512_and_si512(codes, _mm512_set1_epi16(7));
	__m512i down = _mm512_sub_epi16(_mm512_set1_epi16((short)(12 + low_bits)), shift);
	struct gemm_e4m3_parts parts;

	significand = _mm512_mask_add_epi16(significand, normal, significand, hidden);
	parts.main = _mm512_srlv_epi16(_mm512_slli_epi16(significand, 12), down);
	parts.rest = _mm512_and_si512(_mm512_sllv_epi16(significand, shift),
	                              _mm512_set1_epi16((short)((1 << low_bits) - 1)));
	parts.main = _mm512_mask_sub_epi16(parts.main, negative, _mm512_setzero_si512(), parts.main);
	parts.rest = _mm512_mask_sub_epi16(parts.rest, negative, _mm512_setzero_si512(), parts.rest);
	return parts;
}

/*
 * The same by tables of the 128 magnitudes, in bytes. In a panel of W, the codes of a word of 16 columns are 64 bytes:
 * of each 4 columns the first pairs, then the second ones. Interleaving low and high bytes of main parts thus gives
 * words in the order of columns. Bit 7 of byte i is the sign of word i, those of all first pairs being before those of
 * the second ones: a mask of all signs then holds the masks of both vectors of words.
 */
struct gemm_e4m3_tables {
	_Alignas(64) uint8_t low[128], high[128], rest[128];
};

/* The magnitude with code c in units of 2^-9. That of NaN is any number. */
#define INTEGER(c) (((c) % 8 + ((c) > 7 ? 8 : 0)) << (c) / 8 >> ((c) > 7))
#define LOW_3(c) (uint8_t)(INTEGER(c) >> 3)
#define HIGH_3(c) (uint8_t)(INTEGER(c) >> 11)
#define REST_3(c) (uint8_t)(INTEGER(c) & 7)
#define LOW_4(c) (uint8_t)(INTEGER(c) >> 4)
#define HIGH_4(c) (uint8_t)(INTEGER(c) >> 12)
#define REST_4(c) (uint8_t)(INTEGER(c) & 15)
#define DIGIT_0(c) (uint8_t)(255 - ((INTEGER(c) >> 3) + HALVES) % DIGIT)
#define DIGIT_1(c) (uint8_t)(255 - ((INTEGER(c) >> 3) + HALVES) / DIGIT)
#define REST_DIGIT(c) (uint8_t)(BYTE_OFFSET + REST_3(c))
#define EIGHT(of, c) of(c), of((c) + 1), of((c) + 2), of((c) + 3), of((c) + 4), of((c) + 5), of((c) + 6), of((c) + 7)
#define HALF(of, c) \
	EIGHT(of, c), EIGHT(of, (c) + 8), EIGHT(of, (c) + 16), EIGHT(of, (c) + 24), EIGHT(of, (c) + 32), \
	EIGHT(of, (c) + 40), EIGHT(of, (c) + 48), EIGHT(of, (c) + 56)
#define TABLE(of) {HALF(of, 0), HALF(of, 64)}
static const struct gemm_e4m3_tables gemm_e4m3_narrow = {TABLE(LOW_3), TABLE(HIGH_3), TABLE(REST_3)};
static const struct gemm_e4m3_tables gemm_e4m3_both = {TABLE(LOW_4), TABLE(HIGH_4), TABLE(REST_4)};
static const struct gemm_e4m3_tables gemm_e4m3_digits = {TABLE(DIGIT_0), TABLE(DIGIT_1), TABLE(REST_DIGIT)};
#undef TABLE
#undef HALF
#undef EIGHT
#undef REST_DIGIT
#undef DIGIT_1
#undef DIGIT_0
#undef REST_4
#undef HIGH_4
#undef LOW_4
#undef REST_3
#undef HIGH_3
#undef LOW_3
#undef INTEGER

/* A word of each of 16 columns as words for vpdpwssd: its first pair, its second one. */
struct gemm_e4m3_word {
	__m512i pair[2];
};

/* Interleaves bytes and applies the signs of `codes`. */
ALWAYS_INLINE struct gemm_e4m3_word gemm_e4m3_signed(__m512i codes, __m512i low, __m512i high)
{
	const __mmask64 negative = _mm512_movepi8_mask(codes);
	struct gemm_e4m3_word word = {{_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)}};

	for (int i = 0; i < 2; i++)
		word.pair[i] = _mm512_mask_sub_epi16(word.pair[i], (__mmask32)(negative >> 32 * i), _mm512_setzero_si512(),
		                                     word.pair[i]);
	return word;
}

/* What a table says of the magnitudes of codes; bit 7 of an index is not used. */
ALWAYS_INLINE __m512i gemm_e4m3_look_up(__m512i codes, const uint8_t table[128])
{
	return _mm512_permutex2var_epi8(_mm512_load_si512(table), codes, _mm512_load_si512(table + 64));
}

ALWAYS_INLINE struct gemm_e4m3_word gemm_e4m3_main(__m512i codes, bool both)
{
	const struct gemm_e4m3_tables *tables = both ? &gemm_e4m3_both : &gemm_e4m3_narrow;

	return gemm_e4m3_signed(codes, gemm_e4m3_look_up(codes, tables->low), gemm_e4m3_look_up(codes, tables->high));
}

ALWAYS_INLINE struct gemm_e4m3_word gemm_e4m3_rest(__m512i codes, bool both)
{
	const struct gemm_e4m3_tables *tables = both ? &gemm_e4m3_both : &gemm_e4m3_narrow;

	return gemm_e4m3_signed(codes, gemm_e4m3_look_up(codes, tables->rest), _mm512_setzero_si512());
}

ALWAYS_INLINE size_t gemm_e4m3_blocks(size_t k)
{
	return (k + GEMM_E4M3_BLOCK - 1) / GEMM_E4M3_BLOCK;
}

/* Bytes of codes in a block of a column of a panel of W. */
ALWAYS_INLINE size_t gemm_e4m3_code_bytes(enum mxfp_format w_format)
{
	const size_t bits = w_format == MXFP_FORMAT_MXFP4 ? 4 : w_format == MXFP_FORMAT_MXFP6_E2M3 ? 6 : 8;

	return GEMM_E4M3_BLOCK * bits / 8;
}

enum { GEMM_E4M3_NOTE = sizeof(uint16_t) };

/* Bytes of a block of a panel of W besides its codes. */
ALWAYS_INLINE size_t gemm_e4m3_head_bytes(enum mxfp_format w_format)
{
	return GEMM_E4M3_NR + (w_format == MXFP_FORMAT_MXFP8_E4M3 ? 2 * GEMM_E4M3_NOTE : 0);
}

ALWAYS_INLINE bool gemm_e4m3_is_both(const struct mxfp_gemm_shape *shape)
{
	return shape->a_format == shape->w_format;
}

/* 2^x, or the power of two nearest to it among the normal numbers. */
ALWAYS_INLINE float gemm_e4m3_power(int x)
{
	const int least = 1 - F32_BIAS, most = F32_BIAS;

	return power_of_two(x < least ? least : x > most ? most : x);
}

/* An upper bound of the root of a rounded sum of squares: the factor adds more than rounding may have lost. */
ALWAYS_INLINE float gemm_e4m3_norm(float squares)
{
	__m128 root = _mm_sqrt_ps(_mm_set1_ps(squares));

	return _mm_cvtss_f32(_mm_mul_ps(root, _mm_set1_ps(1.001f)));
}

/* Whether any code of e4m3 is NaN, which has all magnitude bits set. */
ALWAYS_INLINE bool has_nan(__m256i codes)
{
	const __m256i magnitude = _mm256_set1_epi8(0x7F);

	return _mm256_cmpeq_epi8_mask(_mm256_and_si256(codes, magnitude), magnitude) != 0;
}

/* Whether all elements are zeros; e4m3 has two codes of zero. */
ALWAYS_INLINE bool all_zero(enum mxfp_format format, __m256i x)
{
	return _mm256_test_epi8_mask(x, _mm256_set1_epi8(format == MXFP_FORMAT_MXFP8_E4M3 ? 0x7F : -1)) == 0;
}

/* The range of a row's scales in a chunk. */
struct scale_range {
	uint8_t least, most; /* of blocks that are neither zeros nor NaN; both 127 if there is none */
	bool nan;
};

/* Replaces the scale of each block of zeros, unless it is NaN, by the least of the others. Returns the range. */
ALWAYS_INLINE struct scale_range even_out(uint8_t *scale, const bool *zero, size_t n)
{
	struct scale_range range = {MXFP_SCALE_NAN, 0, false};

	for (size_t b = 0; b < n; b++) {
		if (scale[b] == MXFP_SCALE_NAN) {
			range.nan = true;
			continue;
		}
		if (zero[b])
			continue;
		range.least = scale[b] < range.least ? scale[b] : range.least;
		range.most = scale[b] > range.most ? scale[b] : range.most;
	}
	if (range.most < range.least)
		range.least = range.most = MXFP_SCALE_BIAS;
	for (size_t b = 0; b < n; b++)
		if (zero[b] && scale[b] != MXFP_SCALE_NAN)
			scale[b] = range.least;
	return range;
}

ALWAYS_INLINE bool is_moderate(struct scale_range range)
{
	return range.least >= GEMM_E4M3_SCALE_LEAST && range.most <= GEMM_E4M3_SCALE_MOST;
}

/* Panels of A. */

static bool has_rests(const struct mxfp_gemm_shape *shape)
{
	return shape->a_format == MXFP_FORMAT_MXFP8_E4M3;
}

/* Bytes of struct gemm_e4m3_bytes; 0: there are none. */
ALWAYS_INLINE size_t bytes_of_four(const struct mxfp_gemm_shape *shape)
{
	return gemm_e4m3_is_both(shape) ? 0 : FOUR_BYTES(has_rests(shape) ? 2 : 1);
}

/* What is added to elements of W to make them unsigned. */
ALWAYS_INLINE int offset_of(enum mxfp_format w_format)
{
	if (w_format == MXFP_FORMAT_MXFP8_E4M3)
		return HALVES * (1 << LOW_NARROW);
	return w_format == MXFP_FORMAT_MXFP4 ? E2M1_OFFSET : BYTE_OFFSET;
}

static size_t a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	size_t block = sizeof(struct gemm_e4m3_rows);

	block += has_rests(shape) ? sizeof(struct gemm_e4m3_rest) : 0;
	block += GEMM_E4M3_MR / GEMM_E4M3_FOUR * bytes_of_four(shape);
	return sizeof(struct gemm_e4m3_head) + gemm_e4m3_blocks(k) * block;
}

/* A row while it is packed. */
struct row {
	const struct mxfp_gemm_pack_job *job;
	size_t index, n_blocks;
	int unit;                         /* the exponent of the unit of products of main parts */
	struct gemm_e4m3_head *head;
	uint8_t *bytes;                   /* where struct gemm_e4m3_bytes begin */
	size_t four;                      /* bytes_of_four() */
	struct gemm_e4m3_rows *rows;
	struct gemm_e4m3_rest *rests;
	uint8_t scale[GEMM_E4M3_BLOCKS];
	bool zero[GEMM_E4M3_BLOCKS];
	struct scale_range range;
};

/* Converts elements to words in the order of pairs. */
ALWAYS_INLINE __m512i in_pairs(__m256i x, bool is_signed)
{
	const __m256i order = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15));

	x = _mm256_shuffle_epi8(x, order);
	return is_signed ? _mm512_cvtepi8_epi16(x) : _mm512_cvtepu8_epi16(x);
}

ALWAYS_INLINE float norm_of(__m512i words)
{
	__m512 squares = _mm512_cvtepi32_ps(_mm512_madd_epi16(words, words));

	return gemm_e4m3_norm(float_of(halving_sum((vf32)squares)));
}

/* Bit p: a word of pair p is nonzero. */
ALWAYS_INLINE uint16_t pairs_set(__m512i words)
{
	return _mm512_test_epi32_mask(words, words);
}

ALWAYS_INLINE void pack_e4m3(struct row *row, size_t b, __m256i codes, int low_bits)
{
	const struct gemm_e4m3_parts parts = gemm_e4m3_split(in_pairs(codes, false), low_bits);
	struct gemm_e4m3_rows *rows = &row->rows[b];
	const size_t i = row->index;

	_mm512_store_si512(rows->main[i], parts.main);
	rows->rests[i] = pairs_set(parts.rest);
	if (rows->rests[i] != 0)
		_mm512_store_si512(row->rests[b].rest[i], parts.rest);
	if (low_bits == 4)
		rows->norm[i] = norm_of(parts.main);
}

ALWAYS_INLINE void load_row(struct row *row, enum mxfp_format format, int low_bits)
{
	const struct mxfp_gemm_pack_job *job = row->job;
	const uint8_t *codes = codes_at(job->matrix, job->row + row->index, job->k0);
	const uint8_t *scales = scales_at(job->matrix, job->row + row->index, job->k0 / GEMM_E4M3_BLOCK);
	const size_t bytes = code_bytes(format, GEMM_E4M3_BLOCK);

	for (size_t b = 0; b < row->n_blocks; b++, codes += bytes) {
		__m256i x = load_integers(format, codes, job->k - b * GEMM_E4M3_BLOCK);

		row->scale[b] = scales[b];
		row->zero[b] = all_zero(format, x);
		if (format == MXFP_FORMAT_MXFP8_E4M3) {
			if (has_nan(x))
				row->scale[b] = MXFP_SCALE_NAN;
			pack_e4m3(row, b, x, low_bits);
		} else {
			_mm512_store_si512(row->rows[b].main[row->index], in_pairs(x, true));
			row->rows[b].rests[row->index] = 0;
		}
	}
}

static void store_scales(struct row *row)
{
	struct gemm_e4m3_head *head = row->head;

	for (size_t b = 0; b < row->n_blocks; b++) {
		const int exponent = row->scale[b] - MXFP_SCALE_BIAS;

		row->rows[b].binades[row->index] = exponent * (1 << F32_SIGNIFICAND_BITS);
		row->rows[b].exponent[row->index] = exponent + row->unit;
		if (!gemm_e4m3_is_both(row->job->shape))
			row->rows[b].factor[row->index] = gemm_e4m3_power(exponent);
	}
	head->one[row->index] = row->range.nan ? __builtin_nanf("") : 1;
	head->last[row->index] = row->range.nan ? __builtin_nanf("") : gemm_e4m3_power(row->unit);
	head->general |= !is_moderate(row->range);
}

/* Fills rows past the end of the matrix. Arrays with an entry per row are cleared whole before the rows are packed. */
static void clear_rows(const struct row *row)
{
	for (size_t b = 0; b < row->n_blocks; b++) {
		struct gemm_e4m3_rows *rows = &row->rows[b];

		_mm256_store_si256((__m256i *)rows->binades, _mm256_setzero_si256());
		_mm256_store_ps(rows->norm, _mm256_setzero_ps());
		_mm256_store_si256((__m256i *)rows->exponent, _mm256_setzero_si256());
		_mm_store_si128((__m128i *)rows->rests, _mm_setzero_si128());
		for (size_t i = row->job->rows; i < GEMM_E4M3_MR; i++)
			_mm512_store_si512(rows->main[i], _mm512_setzero_si512());
	}
	_mm256_store_ps(row->head->last, _mm256_set1_ps(1));
	_mm256_store_ps(row->head->one, _mm256_set1_ps(1));
}

/* Reorders from pairs to the words of W. */
ALWAYS_INLINE __m512i pairs_to_words(__m512i words)
{
	return _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11,
	                                                                       14, 15)));
}

ALWAYS_INLINE int32_t sum_of_words(__m512i words)
{
	return _mm512_reduce_add_epi32(_mm512_madd_epi16(words, _mm512_set1_epi16(1)));
}

/* Packs a block of a row a second time. */
ALWAYS_INLINE void pack_bytes(const struct row *row, size_t b)
{
	const size_t r = row->index % GEMM_E4M3_FOUR;
	struct gemm_e4m3_bytes *to = (void *)(row->bytes + (row->index / GEMM_E4M3_FOUR * row->n_blocks + b) * row->four);
	__m512i main = pairs_to_words(_mm512_load_si512(row->rows[b].main[row->index])), part = main;

	if (has_rests(row->job->shape)) { /* both bytes are signed: adding 128 rounds the high one so that the low one fits */
		part = _mm512_srai_epi16(_mm512_add_epi16(main, _mm512_set1_epi16(128)), 8);
		_mm256_store_si256((__m256i *)to->part[1][r], _mm512_cvtepi16_epi8(main));
	}
	_mm256_store_si256((__m256i *)to->part[0][r], _mm512_cvtepi16_epi8(part));
	to->start[r] = -offset_of(row->job->shape->w_format) * sum_of_words(main);
	to->binades[r] = row->rows[b].binades[row->index];
	if (!has_rests(row->job->shape)) /* sums of digits are in units of rests */
		to->binades[r] -= LOW_NARROW << F32_SIGNIFICAND_BITS;
	to->rests[r] = row->rows[b].rests[row->index];
}

/* The loop is compiled once for each format of A and its low bits. */
static NOINLINE void load_any(struct row *row)
{
	switch (row->job->shape->a_format) {
	case MXFP_FORMAT_MXFP8_E4M3:
		if (gemm_e4m3_is_both(row->job->shape))
			load_row(row, MXFP_FORMAT_MXFP8_E4M3, LOW_BOTH);
		else
			load_row(row, MXFP_FORMAT_MXFP8_E4M3, LOW_NARROW);
		break;
	case MXFP_FORMAT_MXFP4:
		load_row(row, MXFP_FORMAT_MXFP4, 0);
		break;
	case MXFP_FORMAT_MXFP6_E2M3:
		load_row(row, MXFP_FORMAT_MXFP6_E2M3, 0);
		break;
	default:
		load_row(row, MXFP_FORMAT_MXINT8, 0);
		break;
	}
}

static NOINLINE void pack_rows(const struct mxfp_gemm_pack_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	struct row row = {.job = job, .n_blocks = gemm_e4m3_blocks(job->k), .head = job->panel};

	row.unit = unit_of_format(shape->a_format) + unit_of_format(shape->w_format) +
	           (gemm_e4m3_is_both(shape) ? 2 * LOW_BOTH : LOW_NARROW);
	row.rows = (struct gemm_e4m3_rows *)(row.head + 1);
	row.rests = (struct gemm_e4m3_rest *)(row.rows + row.n_blocks);
	row.bytes = (uint8_t *)(row.rests + (has_rests(shape) ? row.n_blocks : 0));
	row.four = bytes_of_four(shape);
	row.head->general = false;
	if (job->rows < GEMM_E4M3_MR)
		clear_rows(&row);
	for (row.index = 0; row.index < job->rows; row.index++) {
		load_any(&row);
		row.range = even_out(row.scale, row.zero, row.n_blocks);
		store_scales(&row);
		if (row.four != 0)
			for (size_t b = 0; b < row.n_blocks; b++)
				pack_bytes(&row, b);
	}
}

static FP_KERNEL(pack_a, mxfp_gemm_pack_job, pack_rows)

/* Panels of W. */

static size_t w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	const size_t codes = gemm_e4m3_code_bytes(shape->w_format) * GEMM_E4M3_NR;

	return gemm_e4m3_blocks(k) * (gemm_e4m3_head_bytes(shape->w_format) + codes);
}

/* A row of W while it is packed into a column of the panel. */
struct column {
	const struct mxfp_gemm_pack_job *job;
	size_t column, n_blocks;
	uint8_t scale[GEMM_E4M3_BLOCKS];
	bool zero[GEMM_E4M3_BLOCKS];
};

/* The codes of block b of the panel. */
static uint8_t *codes_of(const struct column *c, size_t b)
{
	const enum mxfp_format format = c->job->shape->w_format;
	const size_t block = gemm_e4m3_code_bytes(format) * GEMM_E4M3_NR;

	return (uint8_t *)c->job->panel + c->n_blocks * gemm_e4m3_head_bytes(format) + b * block;
}

ALWAYS_INLINE void store_words(const struct column *c, size_t b, const uint8_t *words, size_t bytes)
{
	uint8_t *to = codes_of(c, b) + c->column * 4;

	for (size_t i = 0; i < bytes; i += 4, to += GEMM_E4M3_NR * 4)
		memcpy(to, words + i, 4);
}

/* The words of 32 elements of e2m3, of which those from n on are zeros, in 24 bytes. */
ALWAYS_INLINE __m256i load_words_of_sixes(const uint8_t *codes, size_t n)
{
	const uint32_t bytes = low_mask(n < GEMM_E4M3_BLOCK ? (n * 6 + 7) / 8 : GEMM_E4M3_BLOCK * 6 / 8);
	__m256i x = _mm256_maskz_mov_epi8(low_mask(n), unpack_sixes(_mm256_maskz_loadu_epi8(bytes, codes)));

	x = evens_first(_mm256_and_si256(x, _mm256_set1_epi8(0x3F)));
	__m256i fourth = _mm256_srlv_epi32(_mm256_shuffle_epi32(x, 0xFF), _mm256_setr_epi32(0, 2, 4, 0, 0, 2, 4, 0));
	x = _mm256_or_si256(x, _mm256_slli_epi16(_mm256_and_si256(fourth, _mm256_set1_epi8(0x03)), 6));
	return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
}

static NOINLINE void pack_column(struct column *c)
{
	const struct mxfp_gemm_pack_job *job = c->job;
	const enum mxfp_format format = job->shape->w_format;
	const uint8_t *scales = scales_at(job->matrix, job->row + c->column, job->k0 / GEMM_E4M3_BLOCK);
	_Alignas(32) uint8_t words[GEMM_E4M3_BLOCK];

	for (size_t b = 0; b < c->n_blocks; b++) {
		const size_t k = b * GEMM_E4M3_BLOCK, n = job->k - k;
		const uint8_t *codes = codes_at(job->matrix, job->row + c->column, job->k0 + k);
		__m256i x = load_integers(format, codes, n);

		c->scale[b] = format == MXFP_FORMAT_MXFP8_E4M3 && has_nan(x) ? MXFP_SCALE_NAN : scales[b];
		c->zero[b] = all_zero(format, x);
		if (format == MXFP_FORMAT_MXFP4) {
			_mm_store_si128((__m128i *)words, _mm_maskz_loadu_epi8((__mmask16)low_mask((n + 1) / 2), codes));
			if (n < GEMM_E4M3_BLOCK && n % 2 != 0)
				words[n / 2] &= 0x0F;
		} else if (format == MXFP_FORMAT_MXFP6_E2M3) {
			_mm256_store_si256((__m256i *)words, load_words_of_sixes(codes, n));
		} else {
			_mm256_store_si256((__m256i *)words, evens_first(x));
		}
		store_words(c, b, words, gemm_e4m3_code_bytes(format));
	}
}

/* Fills a column past the end of the matrix. */
static void clear_column(struct column *c)
{
	const uint8_t zeros[GEMM_E4M3_BLOCK] = {0};

	for (size_t b = 0; b < c->n_blocks; b++) {
		c->scale[b] = MXFP_SCALE_BIAS;
		c->zero[b] = true;
		store_words(c, b, zeros, gemm_e4m3_code_bytes(c->job->shape->w_format));
	}
}

/* Brings the codes of a word of 16 columns, 4 bytes of each, into the order that gemm_e4m3_signed() takes. */
ALWAYS_INLINE __m512i reorder(__m512i x)
{
	const __m512i pairs = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
	const __m512i halves = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), magnitude = _mm512_set1_epi8(0x7F);

	x = _mm512_shuffle_epi8(x, pairs);
	__m512i signs = _mm512_permutexvar_epi64(halves, x);
	return _mm512_or_si512(_mm512_and_si512(x, magnitude), _mm512_andnot_si512(magnitude, signs));
}

/* Notes the rests of a block of an e4m3 W by a narrow A. */
static NOINLINE void note_rests(uint8_t *codes, uint8_t *rests, uint8_t *norm)
{
	uint16_t set = 0;

	for (int i = 0; i < GEMM_E4M3_PAIRS; i++) {
		__m512i rest = gemm_e4m3_look_up(_mm512_loadu_si512(codes + i * LANES * 4), gemm_e4m3_narrow.rest);

		set = (uint16_t)(set | (_mm512_test_epi32_mask(rest, rest) != 0) << i);
	}
	memcpy(rests, &set, sizeof set);
	memset(norm, 0, sizeof set);
}

/* Reorders a block of W if both operands are e4m3, and notes its rests and its norm. */
static NOINLINE void finish_block(uint8_t *codes, uint8_t *rests, uint8_t *norm)
{
	__m512 squares[GEMM_E4M3_VECTORS] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
	uint16_t set = 0, high;
	uint32_t bits;

	for (int i = 0; i < GEMM_E4M3_PAIRS; i++, codes += LANES * 4) {
		__m512i x = reorder(_mm512_loadu_si512(codes)), rest = gemm_e4m3_look_up(x, gemm_e4m3_both.rest);
		struct gemm_e4m3_word word = gemm_e4m3_main(x, true);
		__m512 *sum = &squares[i % GEMM_E4M3_VECTORS];

		_mm512_storeu_si512(codes, x);
		set = (uint16_t)(set | (_mm512_test_epi32_mask(rest, rest) != 0) << i);
		for (int p = 0; p < 2; p++)
			*sum = _mm512_add_ps(*sum, _mm512_cvtepi32_ps(_mm512_madd_epi16(word.pair[p], word.pair[p])));
	}
	const float most = gemm_e4m3_norm(float_of(max_across((vu32)_mm512_max_ps(squares[0], squares[1]))));
	memcpy(&bits, &most, sizeof bits);
	high = (uint16_t)((bits >> 16) + 1);
	memcpy(rests, &set, sizeof set);
	memcpy(norm, &high, sizeof high);
}

static void finish_panel(const struct column *c)
{
	uint8_t *notes = (uint8_t *)c->job->panel + c->n_blocks * GEMM_E4M3_NR;

	for (size_t b = 0; b < c->n_blocks; b++, notes += GEMM_E4M3_NOTE)
		(gemm_e4m3_is_both(c->job->shape) ? finish_block : note_rests)(codes_of(c, b), notes, notes + c->n_blocks * GEMM_E4M3_NOTE);
}

static NOINLINE void pack_columns(const struct mxfp_gemm_pack_job *job)
{
	struct column c = {.job = job, .n_blocks = gemm_e4m3_blocks(job->k)};

	for (c.column = 0; c.column < GEMM_E4M3_NR; c.column++) {
		if (c.column < job->rows)
			pack_column(&c);
		else
			clear_column(&c);
		(void)even_out(c.scale, c.zero, c.n_blocks);
		for (size_t b = 0; b < c.n_blocks; b++)
			((uint8_t *)job->panel)[b * GEMM_E4M3_NR + c.column] = c.scale[b];
	}
	if (job->shape->w_format == MXFP_FORMAT_MXFP8_E4M3)
		finish_panel(&c);
}

static FP_KERNEL(pack_w, mxfp_gemm_pack_job, pack_columns)

/* Expanding panels of W to words for vpdpwssd. Any bytes in a panel, which may come from a file, are safe. */

/* Each column's least and largest scale. For a column with a NaN, whose sums are NaN anyway, both are 127. */
struct columns_range {
	__m256i least, most;
	__mmask32 nan;
};

ALWAYS_INLINE __m256i load_column_scales(const uint8_t *panel, size_t b)
{
	return _mm256_loadu_si256((const __m256i *)(panel + b * GEMM_E4M3_NR));
}

static struct columns_range range_of(const uint8_t *panel, size_t blocks)
{
	const __m256i nan = _mm256_set1_epi8((char)MXFP_SCALE_NAN), one = _mm256_set1_epi8(MXFP_SCALE_BIAS);
	struct columns_range range = {nan, _mm256_setzero_si256(), 0};

	for (size_t b = 0; b < blocks; b++) {
		__m256i scales = load_column_scales(panel, b);

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

/* Half v of 32 bytes as lanes. */
ALWAYS_INLINE __m512i lanes_of(__m256i bytes, int v)
{
	return _mm512_cvtepu8_epi32(v == 0 ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1));
}

static void store_ones(struct gemm_e4m3_expanded *to, const struct columns_range *range)
{
	const __m512 nan = _mm512_set1_ps(__builtin_nanf(""));

	for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
		_mm512_store_ps(to->one + v * LANES,
		                _mm512_mask_mov_ps(_mm512_set1_ps(1), (__mmask16)(range->nan >> 16 * v), nan));
}

/* Stores the scales of a block, less `low` binades. */
ALWAYS_INLINE void store_column_scales(struct gemm_e4m3_columns *to, __m256i scales, int low)
{
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		__m512i scale = _mm512_sub_epi32(lanes_of(scales, v), _mm512_set1_epi32(low));

		_mm512_store_si512(to->exponent + v * LANES, _mm512_sub_epi32(scale, _mm512_set1_epi32(MXFP_SCALE_BIAS)));
		_mm512_store_si512(to->factor + v * LANES, _mm512_slli_epi32(scale, F32_SIGNIFICAND_BITS));
	}
}

/* Word w of the columns of vector v as codes of e2m3, whose high bits are others'. */
ALWAYS_INLINE __m512i load_word_of_sixes(const uint8_t *codes, int w, int v)
{
	return load_sixes(codes + (w / 4 * 3 * GEMM_E4M3_NR + v * LANES) * 4, GEMM_E4M3_NR * 4, w % 4);
}

/* Word w of the columns of vector v as bytes: integers, or codes of e4m3. */
ALWAYS_INLINE __m512i load_word(enum mxfp_format format, const uint8_t *codes, int w, int v)
{
	if (format == MXFP_FORMAT_MXFP6_E2M3)
		return _mm512_permutexvar_epi8(load_word_of_sixes(codes, w, v), e2m3_table(0));
	if (format != MXFP_FORMAT_MXFP4)
		return _mm512_loadu_si512(codes + (w * GEMM_E4M3_NR + v * LANES) * 4);
	__m512i x = _mm512_loadu_si512(codes + (w / 2 * GEMM_E4M3_NR + v * LANES) * 4);
	/* The table repeats every 16, so the high half of a byte does not matter. */
	return _mm512_permutexvar_epi8(w % 2 != 0 ? _mm512_srli_epi16(x, 4) : x, _mm512_broadcast_i32x4(e2m1_integers(0)));
}

/* The words of pair p of each 16 columns whose word p / 2 is x, in a narrow format. */
ALWAYS_INLINE __m512i pair_of_word(__m512i x, int p)
{
	return _mm512_srai_epi16(p % 2 != 0 ? x : _mm512_slli_epi16(x, 8), 8);
}

ALWAYS_INLINE void expand_narrow(struct gemm_e4m3_expanded *to, enum mxfp_format format, const uint8_t *panel, size_t blocks)
{
	const uint8_t *codes = panel + blocks * GEMM_E4M3_NR;
	struct columns_range range = range_of(panel, blocks);

	to->general = true;
	store_ones(to, &range);
	for (size_t b = 0; b < blocks; b++, codes += gemm_e4m3_code_bytes(format) * GEMM_E4M3_NR) {
		struct gemm_e4m3_columns *block = &to->block[b];

		for (int p = 0; p < GEMM_E4M3_PAIRS; p++)
			for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
				_mm512_store_si512(block->main[p][v * LANES], pair_of_word(load_word(format, codes, p / 2, v), p));
		block->rests = 0;
		store_column_scales(block, load_column_scales(panel, b), 0);
	}
}

/* By how many binades the scales of a column may differ to be folded: the sum of a block, at most 32 * 28672 times the largest
   element (12, 60 or 128), then stays below 2^31. */
ALWAYS_INLINE int fold_spread(enum mxfp_format narrow)
{
	if (narrow == MXFP_FORMAT_MXFP4)
		return 7;
	return narrow == MXFP_FORMAT_MXINT8 ? 4 : 5;
}

static bool are_foldable(const struct columns_range *range, enum mxfp_format format)
{
	const __m256i spread = _mm256_set1_epi8((char)fold_spread(format));

	return are_moderate(range) && _mm256_cmpgt_epu8_mask(_mm256_sub_epi8(range->most, range->least), spread) == 0;
}

/* Expands a panel. vpmaddubsw widens a byte of a word to the word and multiplies it, if it multiplies the other byte by 0. */
ALWAYS_INLINE void fold(struct gemm_e4m3_folded *to, enum mxfp_format format, const uint8_t *panel, size_t blocks,
                        const struct columns_range *range)
{
	const uint8_t *codes = panel + blocks * GEMM_E4M3_NR;
	const size_t bytes = gemm_e4m3_code_bytes(format) * GEMM_E4M3_NR;

	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		const __m512 one = _mm512_castsi512_ps(_mm512_slli_epi32(lanes_of(range->least, v), F32_SIGNIFICAND_BITS));
		const __mmask16 nan = (__mmask16)(range->nan >> 16 * v);

		_mm512_store_ps(to->last + v * LANES, _mm512_mask_mov_ps(one, nan, _mm512_set1_ps(__builtin_nanf(""))));
	}
	for (size_t b = 0; b < blocks; b++, codes += bytes) {
		const __m256i excess = _mm256_sub_epi8(load_column_scales(panel, b), range->least);

		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			const __m512i even = _mm512_sllv_epi32(_mm512_set1_epi32(0x00010001), lanes_of(excess, v));
			const __m512i odd = _mm512_slli_epi32(even, 8);

#pragma GCC unroll 4
			for (int w = 0; w < GEMM_E4M3_PAIRS / 2; w++) {
				const __m512i x = load_word(format, codes, w, v);

				_mm512_store_si512(to->main[b][2 * w][v * LANES], _mm512_maddubs_epi16(even, x));
				_mm512_store_si512(to->main[b][2 * w + 1][v * LANES], _mm512_maddubs_epi16(odd, x));
			}
		}
	}
}

static NOINLINE void fold_panel(struct gemm_e4m3_folded *to, enum mxfp_format format, const uint8_t *panel, size_t blocks,
                                const struct columns_range *range)
{
	if (format == MXFP_FORMAT_MXFP4)
		fold(to, MXFP_FORMAT_MXFP4, panel, blocks, range);
	else if (format == MXFP_FORMAT_MXFP6_E2M3)
		fold(to, MXFP_FORMAT_MXFP6_E2M3, panel, blocks, range);
	else
		fold(to, MXFP_FORMAT_MXINT8, panel, blocks, range);
}

/* What a panel of an e4m3 W notes of a block. */
struct note {
	uint16_t rests, norm;
};

ALWAYS_INLINE struct note load_note(const uint8_t *notes, size_t blocks, size_t b)
{
	struct note note;

	memcpy(&note.rests, notes + b * GEMM_E4M3_NOTE, sizeof note.rests);
	memcpy(&note.norm, notes + (blocks + b) * GEMM_E4M3_NOTE, sizeof note.norm);
	return note;
}

/* Word i of the columns of vector v in the order that gemm_e4m3_signed() takes. */
ALWAYS_INLINE __m512i load_reordered(bool both, const uint8_t *codes, int i, int v)
{
	__m512i x = load_word(MXFP_FORMAT_MXFP8_E4M3, codes, i, v);

	return both ? x : reorder(x);
}

/* Expands the rests of word i of all columns. Returns which of its pairs have any. */
ALWAYS_INLINE uint32_t expand_rests(int16_t (*to)[GEMM_E4M3_NR][2], const uint8_t *codes, int i, bool both)
{
	uint32_t set = 0;

	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		struct gemm_e4m3_word word = gemm_e4m3_rest(load_reordered(both, codes, i, v), both);

		for (int p = 0; p < 2; p++) {
			_mm512_store_si512(to[2 * i + p][v * LANES], word.pair[p]);
			set |= (uint32_t)(_mm512_test_epi32_mask(word.pair[p], word.pair[p]) != 0) << p;
		}
	}
	return set << 2 * i;
}

ALWAYS_INLINE void expand_e4m3(struct gemm_e4m3_expanded *to, size_t b, const uint8_t *codes, struct note note,
                               bool both, ptrdiff_t ahead)
{
	struct gemm_e4m3_columns *block = &to->block[b];

	for (int i = 0; i < GEMM_E4M3_PAIRS / 2; i++)
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			const uint8_t *at = codes + (i * GEMM_E4M3_VECTORS + v) * LANES * 4;

			fetch_w(at, ahead);
			fetch_w_near(at);
			struct gemm_e4m3_word word = gemm_e4m3_main(load_reordered(both, codes, i, v), both);

			_mm512_store_si512(block->main[2 * i][v * LANES], word.pair[0]);
			_mm512_store_si512(block->main[2 * i + 1][v * LANES], word.pair[1]);
		}
	block->norm = float_of((uint32_t)note.norm << 16);
	block->rests = 0;
	for (uint32_t set = note.rests; set != 0;) {
		int i = __builtin_ctz(set) / 2;

		block->rests |= expand_rests(to->rest[b], codes, i, both);
		set &= ~(UINT32_C(3) << 2 * i);
	}
}

ALWAYS_INLINE void expand_e4m3_panel(struct gemm_e4m3_expanded *to, const uint8_t *panel, size_t blocks, bool both,
                                     ptrdiff_t ahead)
{
	const uint8_t *notes = panel + blocks * GEMM_E4M3_NR, *codes = notes + 2 * blocks * GEMM_E4M3_NOTE;
	struct columns_range range = range_of(panel, blocks);

	to->general = !are_moderate(&range);
	store_ones(to, &range);
	for (size_t b = 0; b < blocks; b++, codes += GEMM_E4M3_BLOCK * GEMM_E4M3_NR) {
		expand_e4m3(to, b, codes, load_note(notes, blocks, b), both, ahead);
		store_column_scales(&to->block[b], load_column_scales(panel, b), !both && to->block[b].rests != 0 ? LOW_NARROW : 0);
	}
}

static void expand(struct gemm_e4m3_expanded *to, const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const uint8_t *panel = job->w;
	const size_t blocks = gemm_e4m3_blocks(job->k);
	const ptrdiff_t ahead = w_ahead(job);

	switch (shape->w_format) {
	case MXFP_FORMAT_MXFP4:
		expand_narrow(to, MXFP_FORMAT_MXFP4, panel, blocks);
		break;
	case MXFP_FORMAT_MXFP6_E2M3:
		expand_narrow(to, MXFP_FORMAT_MXFP6_E2M3, panel, blocks);
		break;
	case MXFP_FORMAT_MXINT8:
		expand_narrow(to, MXFP_FORMAT_MXINT8, panel, blocks);
		break;
	default:
		if (gemm_e4m3_is_both(shape))
			expand_e4m3_panel(to, panel, blocks, true, ahead);
		else
			expand_e4m3_panel(to, panel, blocks, false, ahead);
		break;
	}
}

/*
 * Rows of e4m3 by a panel of a narrow W as it is stored, 4 at a time: nothing is expanded in memory, so that one row runs at the
 * speed at which W can be read. vpermb turns nibbles into bytes of 0 .. 24 (halves plus an offset of 12); its table of 64
 * repeats every 16, so the other bits of a byte do not matter. Bytes get an offset of 128. vpdpbusd then multiplies 4
 * elements at once, by each of the two bytes of A's main parts. The few rows of a block that have rests are seen to after that.
 */

enum {
	GROUPS = GEMM_E4M3_BLOCK / 4,
	/* Changing the control word takes as long as some blocks. Instructions with embedded rounding, which also suppress
	   exceptions, need it changed only if the caller flushes subnormals. */
	TO_NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC,
	FLUSHES = 0x8040
};

ALWAYS_INLINE __m512 to_float(__m512i x)
{
	return _mm512_cvt_roundepi32_ps(x, TO_NEAREST);
}

ALWAYS_INLINE __m512 multiply_nearest(__m512 a, __m512 b)
{
	return _mm512_mul_round_ps(a, b, TO_NEAREST);
}

/* Whether no scale is out of range; a NaN is. */
ALWAYS_INLINE bool scales_are_moderate(const uint8_t *scales, size_t blocks)
{
	const __m256i first = _mm256_set1_epi8(GEMM_E4M3_SCALE_LEAST);
	__m256i most = _mm256_setzero_si256();

	for (size_t b = 0; b < blocks; b++) {
		__m256i x = _mm256_loadu_si256((const __m256i *)(scales + b * GEMM_E4M3_NR));

		most = _mm256_max_epu8(most, _mm256_sub_epi8(x, first)); /* smaller scales wrap around */
	}
	return _mm256_cmpgt_epu8_mask(most, _mm256_set1_epi8(GEMM_E4M3_SCALE_MOST - GEMM_E4M3_SCALE_LEAST)) == 0;
}

/* Adds the sums of a pass to C and clears them. */
ALWAYS_INLINE void end_pass(float *c, __m512 p[GEMM_E4M3_VECTORS], float last)
{
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++, c += LANES) {
		_mm512_store_ps(c, _mm512_fmadd_round_ps(p[v], _mm512_set1_ps(last), _mm512_load_ps(c), TO_NEAREST));
		p[v] = _mm512_setzero_ps();
	}
}

/* A panel of A and one of W. */
struct stored {
	const struct gemm_e4m3_head *head;
	const struct gemm_e4m3_rest *rests;
	const uint8_t *bytes;
	size_t four; /* bytes_of_four() */
	const uint8_t *scales, *notes, *codes;
	ptrdiff_t ahead; /* as in fetch_w() */
	size_t next;     /* bytes to the bytes of the next 4 rows */
	size_t blocks, pass_blocks;
	bool has_rests;  /* of A */
};

/* Takes the panel of A at `panel`. */
ALWAYS_INLINE void find_panel(struct stored *s, const void *panel)
{
	s->head = panel;
	s->rests = (const struct gemm_e4m3_rest *)((const struct gemm_e4m3_rows *)(s->head + 1) + s->blocks);
	s->bytes = (const uint8_t *)(s->rests + (s->has_rests ? s->blocks : 0));
}

/* Group g of the columns of vector v, plus offset_of(). */
ALWAYS_INLINE __m512i load_group(enum mxfp_format format, const uint8_t *codes, int g, int v)
{
	const __m512i table = _mm512_broadcast_i32x4(e2m1_integers(E2M1_OFFSET));

	if (format == MXFP_FORMAT_MXFP6_E2M3) /* a table of 64, too */
		return _mm512_permutexvar_epi8(load_word_of_sixes(codes, g, v), e2m3_table((int8_t)BYTE_OFFSET));
	if (format != MXFP_FORMAT_MXFP4)
		return _mm512_xor_si512(load_word(format, codes, g, v), _mm512_set1_epi8((char)BYTE_OFFSET));
	__m512i x = _mm512_loadu_si512(codes + (g / 2 * GEMM_E4M3_NR + v * LANES) * 4);
	return _mm512_permutexvar_epi8(g % 2 != 0 ? _mm512_srli_epi16(x, 4) : x, table);
}

/* RN24(sum + rests / 8) for the columns of vector v, where `set` are the pairs of a row's block that have rests. */
ALWAYS_INLINE __m512 round_with_rests(__m512i sum, enum mxfp_format format, const uint8_t *codes, int v, uint32_t set,
                                      const int16_t *rests)
{
	sum = _mm512_slli_epi32(sum, 3); /* has at most 30 bits */
	for (; set != 0; set &= set - 1) {
		const int p = __builtin_ctz(set);

		sum = dot_words(sum, pair_of_word(load_word(format, codes, p / 2, v), p), broadcast(rests + 2 * p));
	}
	return multiply_nearest(to_float(sum), _mm512_set1_ps(0x1p-3f));
}

/* Adds a block to the sums of n rows from row `first` on. */
ALWAYS_INLINE void add_stored(__m512 p[][GEMM_E4M3_VECTORS], const struct stored *s, size_t b, enum mxfp_format format, size_t first,
                              int n)
{
	const struct gemm_e4m3_bytes *a = (const void *)(s->bytes + b * FOUR_BYTES(2));
	const uint8_t *codes = s->codes + b * gemm_e4m3_code_bytes(format) * GEMM_E4M3_NR;
	const __m256i scales = load_column_scales(s->scales, b);
	__m512i high[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS], low[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS], scale[GEMM_E4M3_VECTORS];

#pragma GCC unroll 4
	for (int r = 0; r < n; r++) {
		high[r][0] = high[r][1] = _mm512_setzero_si512();
		low[r][0] = low[r][1] = broadcast(a->start + r);
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < gemm_e4m3_code_bytes(format) * GEMM_E4M3_NR; i += VECTOR_BYTES) {
		fetch_w(codes + i, s->ahead);
		fetch_w_near(codes + i);
	}
	if (n == GEMM_E4M3_FOUR)
#pragma GCC unroll 5
		for (size_t i = 0; i < FOUR_BYTES(2); i += VECTOR_BYTES)
			_mm_prefetch((const char *)a + s->next + i, _MM_HINT_T0);
#pragma GCC unroll 8
	for (int g = 0; g < GROUPS; g++) {
		const __m512i w[] = {load_group(format, codes, g, 0), load_group(format, codes, g, 1)};

#pragma GCC unroll 4
		for (int r = 0; r < n; r++) {
			const __m512i upper = broadcast(a->part[0][r] + 4 * g), lower = broadcast(a->part[1][r] + 4 * g);

#pragma GCC unroll 2
			for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
				high[r][v] = dot_bytes(high[r][v], w[v], upper);
				low[r][v] = dot_bytes(low[r][v], w[v], lower);
			}
		}
	}
#pragma GCC unroll 2
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
		scale[v] = _mm512_slli_epi32(lanes_of(scales, v), F32_SIGNIFICAND_BITS);
#pragma GCC unroll 4
	for (int r = 0; r < n; r++) {
		const uint32_t set = a->rests[r];

#pragma GCC unroll 2
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[r][v], 8), low[r][v]);
			const __m512 factor = _mm512_castsi512_ps(_mm512_add_epi32(scale[v], broadcast(a->binades + r)));
			__m512 t = to_float(sum);

			if (__builtin_expect(set != 0, 0))
				t = round_with_rests(sum, format, codes, v, set, s->rests[b].rest[first + r]);
			p[r][v] = _mm512_fmadd_round_ps(t, factor, p[r][v], TO_NEAREST);
		}
	}
}

ALWAYS_INLINE void multiply_stored(const struct stored *s, float *c, enum mxfp_format format, size_t first, int n)
{
	__m512 p[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS];

#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
		p[r][0] = p[r][1] = _mm512_setzero_ps();
	for (size_t b = 0; b < s->blocks; b++) {
		add_stored(p, s, b, format, first, n);
		if (((b + 1) & (s->pass_blocks - 1)) == 0 || b + 1 == s->blocks)
#pragma GCC unroll 4
			for (int r = 0; r < n; r++)
				end_pass(c + r * GEMM_E4M3_NR, p[r], s->head->last[first + r]);
	}
}

#define MULTIPLY_STORED(name, format, n) \
	static NOINLINE void name(const struct stored *s, float *c, size_t first) \
	{ \
		multiply_stored(s, c, format, first, n); \
	}
MULTIPLY_STORED(multiply_nibbles_1, MXFP_FORMAT_MXFP4, 1)
MULTIPLY_STORED(multiply_nibbles_2, MXFP_FORMAT_MXFP4, 2)
MULTIPLY_STORED(multiply_nibbles_3, MXFP_FORMAT_MXFP4, 3)
MULTIPLY_STORED(multiply_nibbles_4, MXFP_FORMAT_MXFP4, 4)
MULTIPLY_STORED(multiply_bytes_1, MXFP_FORMAT_MXINT8, 1)
MULTIPLY_STORED(multiply_bytes_2, MXFP_FORMAT_MXINT8, 2)
MULTIPLY_STORED(multiply_bytes_3, MXFP_FORMAT_MXINT8, 3)
MULTIPLY_STORED(multiply_bytes_4, MXFP_FORMAT_MXINT8, 4)
MULTIPLY_STORED(multiply_sixes_1, MXFP_FORMAT_MXFP6_E2M3, 1)
MULTIPLY_STORED(multiply_sixes_2, MXFP_FORMAT_MXFP6_E2M3, 2)
MULTIPLY_STORED(multiply_sixes_3, MXFP_FORMAT_MXFP6_E2M3, 3)
MULTIPLY_STORED(multiply_sixes_4, MXFP_FORMAT_MXFP6_E2M3, 4)
#undef MULTIPLY_STORED

/*
 * A few rows of a narrow format by a panel of an e4m3 W. A main part is 255 (x - 127.5) + y - 127.5, with bytes x and y, so that
 * flipping all bits of both changes its sign: they are looked up by the magnitude. vpdpbusd multiplies 4 elements at once by each.
 * A thirtieth of the vectors of codes have rests, too many for a branch each: products with rests are summed first, for some
 * blocks at a time.
 */

enum {
	FEW_BLOCKS = 4, /* summed at a time; every pass but the last is a multiple */
	FEW_VECTORS = GEMM_E4M3_PAIRS / 2 * GEMM_E4M3_VECTORS, /* of codes in a block */
	FEW_BYTES = LANES * 4 /* of a vector of codes */
};

/* Sums of products with a rest, by block and row. */
typedef __m512i few_rests[FEW_BLOCKS][GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS];

/* The rests of 64 codes, plus BYTE_OFFSET. */
ALWAYS_INLINE __m512i look_up_rests(__m512i codes)
{
	__m512i x = gemm_e4m3_look_up(codes, gemm_e4m3_digits.rest);

	return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(codes), _mm512_setzero_si512(), x);
}

ALWAYS_INLINE const struct gemm_e4m3_bytes *four_rows(const struct stored *s, size_t b)
{
	return (const void *)(s->bytes + b * FOUR_BYTES(1));
}

/* The notes of rests of n blocks from b on. */
ALWAYS_INLINE uint64_t load_rests(const uint8_t *notes, size_t b, size_t n)
{
	uint64_t set = 0;

	if (n == FEW_BLOCKS)
		memcpy(&set, notes + b * GEMM_E4M3_NOTE, FEW_BLOCKS * GEMM_E4M3_NOTE);
	else
		memcpy(&set, notes + b * GEMM_E4M3_NOTE, n * GEMM_E4M3_NOTE);
	return set;
}

/* Starts the sums of n blocks of `rows` rows, and adds to them the products with rests. */
ALWAYS_INLINE void start_digits(few_rests sum, const struct stored *s, size_t b, size_t n, int rows)
{
	const uint8_t *codes = s->codes + b * FEW_VECTORS * FEW_BYTES;
	const __m512i offset = _mm512_set1_epi8((char)BYTE_OFFSET), zero = _mm512_setzero_si512();

	for (size_t i = 0; i < n; i++)
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++)
			sum[i][r][0] = sum[i][r][1] = broadcast(four_rows(s, b + i)->start + r);
	for (uint64_t set = load_rests(s->notes, b, n); set != 0; set &= set - 1) {
		const unsigned i = (unsigned)__builtin_ctzll(set), block = i / FEW_VECTORS, word = i % FEW_VECTORS / 2;
		const struct gemm_e4m3_bytes *a = four_rows(s, b + block);
		const __m512i x = look_up_rests(_mm512_loadu_si512(codes + i * FEW_BYTES));

#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			const __m512i y = broadcast(a->part[0][r] + 4 * word);
			__m512i *to = &sum[block][r][i % 2];

			*to = _mm512_sub_epi32(dot_bytes(*to, x, y), dot_bytes(zero, offset, y));
		}
	}
}

/* Adds a block whose products with rests are summed. */
ALWAYS_INLINE void add_digits(__m512 p[][GEMM_E4M3_VECTORS], const struct stored *s, size_t b,
                              __m512i start[][GEMM_E4M3_VECTORS], int rows)
{
	const struct gemm_e4m3_bytes *a = four_rows(s, b);
	const uint8_t *codes = s->codes + b * FEW_VECTORS * FEW_BYTES;
	const __m256i scales = load_column_scales(s->scales, b);
	__m512i high[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS], low[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS];

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		high[r][0] = high[r][1] = low[r][0] = low[r][1] = _mm512_setzero_si512();
	if (rows == GEMM_E4M3_FOUR)
#pragma GCC unroll 3
		for (size_t i = 0; i < FOUR_BYTES(1); i += VECTOR_BYTES)
			_mm_prefetch((const char *)a + s->next + i, _MM_HINT_T0);
#pragma GCC unroll 8
	for (int g = 0; g < GROUPS; g++)
#pragma GCC unroll 2
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			const uint8_t *at = codes + (GEMM_E4M3_VECTORS * g + v) * FEW_BYTES;
			const __m512i x = _mm512_loadu_si512(at);
			const __m512i plus = _mm512_shuffle_epi8(_mm512_set1_epi8(-1), x); /* 0 where bit 7 is set */
			const __m512i upper = _mm512_xor_si512(gemm_e4m3_look_up(x, gemm_e4m3_digits.high), plus);
			const __m512i lower = _mm512_xor_si512(gemm_e4m3_look_up(x, gemm_e4m3_digits.low), plus);

			fetch_w(at, s->ahead);
			fetch_w_near(at);
#pragma GCC unroll 4
			for (int r = 0; r < rows; r++) {
				const __m512i y = broadcast(a->part[0][r] + 4 * g);

				high[r][v] = dot_bytes(high[r][v], upper, y);
				low[r][v] = dot_bytes(low[r][v], lower, y);
			}
		}
#pragma GCC unroll 2
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		const __m512i scale = _mm512_slli_epi32(lanes_of(scales, v), F32_SIGNIFICAND_BITS);

#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			const __m512i digit = _mm512_sub_epi32(_mm512_slli_epi32(high[r][v], 8), high[r][v]);
			const __m512i main = _mm512_slli_epi32(_mm512_add_epi32(digit, low[r][v]), LOW_NARROW);
			const __m512i sum = _mm512_add_epi32(main, start[r][v]); /* of 30 bits */
			const __m512 factor = _mm512_castsi512_ps(_mm512_add_epi32(scale, broadcast(a->binades + r)));

			p[r][v] = _mm512_fmadd_round_ps(to_float(sum), factor, p[r][v], TO_NEAREST);
		}
	}
}

ALWAYS_INLINE void multiply_digits(const struct stored *s, float *c, size_t first, int rows)
{
	__m512 p[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS];
	few_rests start;

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		p[r][0] = p[r][1] = _mm512_setzero_ps();
	for (size_t b = 0, n; b < s->blocks; b += n) {
		n = s->blocks - b < FEW_BLOCKS ? s->blocks - b : FEW_BLOCKS;
		start_digits(start, s, b, n, rows);
		for (size_t i = 0; i < n; i++)
			add_digits(p, s, b + i, start[i], rows);
		if (((b + n) & (s->pass_blocks - 1)) == 0 || b + n == s->blocks)
#pragma GCC unroll 4
			for (int r = 0; r < rows; r++)
				end_pass(c + r * GEMM_E4M3_NR, p[r], s->head->last[first + (size_t)r]);
	}
}

#define MULTIPLY_DIGITS(name, rows) \
	static NOINLINE void name(const struct stored *s, float *c, size_t first) \
	{ \
		multiply_digits(s, c, first, rows); \
	}
MULTIPLY_DIGITS(multiply_digits_1, 1)
MULTIPLY_DIGITS(multiply_digits_2, 2)
MULTIPLY_DIGITS(multiply_digits_3, 3)
MULTIPLY_DIGITS(multiply_digits_4, 4)
#undef MULTIPLY_DIGITS

typedef void stored_multiply(const struct stored *s, float *c, size_t first);

/* Multiplies all rows of the job by W as it is stored; all scales are moderate. */
static NOINLINE void multiply_rows(const struct mxfp_gemm_multiply_job *job, struct stored *s)
{
	static stored_multiply *const loops[][GEMM_E4M3_FOUR] = {
		[MXFP_FORMAT_MXINT8] = {multiply_bytes_1, multiply_bytes_2, multiply_bytes_3, multiply_bytes_4},
		[MXFP_FORMAT_MXFP6_E2M3] = {multiply_sixes_1, multiply_sixes_2, multiply_sixes_3, multiply_sixes_4},
		[MXFP_FORMAT_MXFP4] = {multiply_nibbles_1, multiply_nibbles_2, multiply_nibbles_3, multiply_nibbles_4},
		[MXFP_FORMAT_MXFP8_E4M3] = {multiply_digits_1, multiply_digits_2, multiply_digits_3, multiply_digits_4},
	};
	const size_t bytes = a_bytes(job->shape, job->k);
	float *c = job->c;

	for (size_t row = 0, n; row < job->rows; row += n, c += n * GEMM_E4M3_NR) {
		const size_t first = row % GEMM_E4M3_MR;

		if (first == 0)
			find_panel(s, (const uint8_t *)job->a + row / GEMM_E4M3_MR * bytes);
		else
			s->bytes += s->blocks * s->four;
		s->next = first == 0 ? s->blocks * s->four : bytes - s->blocks * s->four;
		n = job->rows - row < GEMM_E4M3_FOUR ? job->rows - row : GEMM_E4M3_FOUR;
		loops[job->shape->w_format][n - 1](s, c, first);
	}
}

/*
 * Multiplication of expanded panels. A block of 32 takes 16 vpdpwssd for 16 sums, which are then converted and added to
 * the pass by one FMA. Rows with rests leave that path one at a time. One body is compiled for each kind of pair, for
 * the fast and the general loop, and for few rows.
 */

enum rests { RESTS_A, RESTS_W, RESTS_BOTH };

enum { LINES_AT_ONCE = 5 }; /* of a later panel of W that are asked for in a block */

/* A block of both panels. */
struct place {
	const struct gemm_e4m3_rows *a;
	const struct gemm_e4m3_rest *a_rest;
	const struct gemm_e4m3_columns *w;
	const int16_t (*w_rest)[GEMM_E4M3_NR][2];
};

/* A panel of A and the expanded panel of W. */
struct panels {
	const struct gemm_e4m3_head *head;
	const struct gemm_e4m3_expanded *w;
	float *c;
	size_t blocks, pass_blocks;
	enum rests rests;
};

/* Sums the products of main parts for the first `rows` rows. */
ALWAYS_INLINE void sum_block(__m512i sum[][GEMM_E4M3_VECTORS], const int16_t (*main)[GEMM_E4M3_BLOCK],
                             const int16_t (*w)[GEMM_E4M3_NR][2], int rows)
{
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++)
		sum[r][0] = sum[r][1] = _mm512_setzero_si512();
#pragma GCC unroll 16
	for (int p = 0; p < GEMM_E4M3_PAIRS; p++) {
		__m512i w0 = _mm512_load_si512(w[p]), w1 = _mm512_load_si512(w[p][LANES]);

#pragma GCC unroll 8
		for (int r = 0; r < rows; r++) {
			__m512i a = broadcast(main[r] + 2 * p);

			sum[r][0] = dot_words(sum[r][0], w0, a);
			sum[r][1] = dot_words(sum[r][1], w1, a);
		}
	}
}

/* The rows whose sums may have overflowed. By the Cauchy-Schwarz inequality no sum of another row has. */
ALWAYS_INLINE uint32_t may_overflow(__m256 a_norms, const struct gemm_e4m3_columns *w)
{
	return _mm256_cmp_ps_mask(_mm256_mul_ps(a_norms, _mm256_set1_ps(w->norm)), _mm256_set1_ps(0x1p31f), _CMP_NLT_UQ);
}

/* Bit r: the sums of row r need more than sum_block() computes. */
ALWAYS_INLINE uint32_t special_rows(const struct place *at, enum rests rests)
{
	__m128i a_rests = _mm_load_si128((const __m128i *)at->a->rests);
	uint32_t rows = _mm_test_epi16_mask(a_rests, a_rests);

	if (rests == RESTS_W)
		return 0;
	if (rests == RESTS_BOTH && at->w->rests != 0)
		rows = UINT8_MAX;
	if (rests == RESTS_BOTH)
		rows |= may_overflow(_mm256_load_ps(at->a->norm), at->w);
	return rows;
}

/* Adds products with rests of W to sums of products of main parts by a narrow A; their unit becomes that of rests, and they
   have 30 bits. */
ALWAYS_INLINE void add_rests(__m512i sum[][GEMM_E4M3_VECTORS], const struct place *at, int rows)
{
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
			sum[r][v] = _mm512_slli_epi32(sum[r][v], LOW_NARROW);
	for (uint32_t set = at->w->rests; set != 0; set &= set - 1) {
		const int p = __builtin_ctz(set);
		__m512i w0 = _mm512_load_si512(at->w_rest[p]), w1 = _mm512_load_si512(at->w_rest[p][LANES]);

#pragma GCC unroll 8
		for (int r = 0; r < rows; r++) {
			__m512i a = broadcast(at->a->main[r] + 2 * p);

			sum[r][0] = dot_words(sum[r][0], w0, a);
			sum[r][1] = dot_words(sum[r][1], w1, a);
		}
	}
}

/* Sums the products of a main part and a rest for row r. */
ALWAYS_INLINE void sum_rests(__m512i sum[GEMM_E4M3_VECTORS], const struct place *at, int r, enum rests rests)
{
	sum[0] = sum[1] = _mm512_setzero_si512();
	if (rests != RESTS_W)
		for (uint32_t set = at->a->rests[r]; set != 0; set &= set - 1) {
			int p = __builtin_ctz(set);
			__m512i a = broadcast(at->a_rest->rest[r] + 2 * p);

			sum[0] = dot_words(sum[0], _mm512_load_si512(at->w->main[p]), a);
			sum[1] = dot_words(sum[1], _mm512_load_si512(at->w->main[p][LANES]), a);
		}
	if (rests != RESTS_A)
		for (uint32_t set = at->w->rests; set != 0; set &= set - 1) {
			int p = __builtin_ctz(set);
			__m512i a = broadcast(at->a->main[r] + 2 * p);

			sum[0] = dot_words(sum[0], _mm512_load_si512(at->w_rest[p]), a);
			sum[1] = dot_words(sum[1], _mm512_load_si512(at->w_rest[p][LANES]), a);
		}
}

/* RN24(main + rest / 2^low_bits) by one FMA of two exact halves. |rest| is below 2^24 - 2^12. */
ALWAYS_INLINE __m512 round_sum(__m512i main, __m512i rest, int low_bits)
{
	const __m512i low = _mm512_set1_epi32(0xFF);
	__m512i lower = _mm512_add_epi32(_mm512_slli_epi32(_mm512_and_si512(main, low), (unsigned)low_bits), rest);
	__m512 unit = _mm512_set1_ps(low_bits == LOW_BOTH ? 0x1p-4f : 0x1p-3f);

	return _mm512_fmadd_round_ps(to_float(lower), unit, to_float(_mm512_andnot_si512(low, main)), TO_NEAREST);
}

/* 16 sums of 64 bits. */
struct wide {
	__m512i low, high;
};

ALWAYS_INLINE void add_wide(struct wide *to, __m512i x, unsigned shift)
{
	__m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x));
	__m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1));

	to->low = _mm512_add_epi64(to->low, _mm512_slli_epi64(low, shift));
	to->high = _mm512_add_epi64(to->high, _mm512_slli_epi64(high, shift));
}

/* The sums of row r if both operands are e4m3, for any elements: sums of 4 pairs of main parts stay below 2^31. */
static NOINLINE void sum_wide(__m512 sum[GEMM_E4M3_VECTORS], const struct place *at, int r)
{
	__m512i rests[GEMM_E4M3_VECTORS];

	sum_rests(rests, at, r, RESTS_BOTH);
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		struct wide wide = {_mm512_setzero_si512(), _mm512_setzero_si512()};
		__m512i both = _mm512_setzero_si512();

		for (int p = 0; p < GEMM_E4M3_PAIRS; p += 4) {
			__m512i x = _mm512_setzero_si512();

			for (int i = p; i < p + 4; i++)
				x = dot_words(x, _mm512_load_si512(at->w->main[i][v * LANES]), broadcast(at->a->main[r] + 2 * i));
			add_wide(&wide, x, 8);
		}
		for (uint32_t set = at->a->rests[r] & at->w->rests; set != 0; set &= set - 1) {
			int p = __builtin_ctz(set);

			both = dot_words(both, _mm512_load_si512(at->w_rest[p][v * LANES]), broadcast(at->a_rest->rest[r] + 2 * p));
		}
		add_wide(&wide, rests[v], 4);
		add_wide(&wide, both, 0);
		__m512 t = _mm512_castps256_ps512(_mm512_cvtepi64_ps(wide.low));
		t = _mm512_insertf32x8(t, _mm512_cvtepi64_ps(wide.high), 1);
		sum[v] = _mm512_mul_ps(t, _mm512_set1_ps(0x1p-8f));
	}
}

ALWAYS_INLINE void special_sum(__m512 t[GEMM_E4M3_VECTORS], const __m512i sum[GEMM_E4M3_VECTORS],
                               const struct place *at, int r, enum rests rests)
{
	__m512i rest[GEMM_E4M3_VECTORS];

	if (rests == RESTS_BOTH) {
		bool overflows = may_overflow(_mm256_set1_ps(at->a->norm[r]), at->w) != 0;

		if (overflows || (at->a->rests[r] & at->w->rests) != 0) {
			sum_wide(t, at, r);
			return;
		}
	}
	sum_rests(rest, at, r, rests);
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
		t[v] = round_sum(sum[v], rest[v], rests == RESTS_A ? LOW_NARROW : LOW_BOTH);
}

ALWAYS_INLINE __m512 power(__m512i exponent)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(exponent, _mm512_set1_epi32(F32_BIAS)),
	                                             F32_SIGNIFICAND_BITS));
}

ALWAYS_INLINE __m512i clamp(__m512i x, int least, int most)
{
	return _mm512_min_epi32(_mm512_max_epi32(x, _mm512_set1_epi32(least)), _mm512_set1_epi32(most));
}

/* fl32(p + t 2^exponent) for any exponent. Beyond -190 and 180 the result no longer changes; the part of the exponent
   that a factor cannot hold multiplies t first. */
ALWAYS_INLINE __m512 add_general(__m512 p, __m512 t, __m512i exponent)
{
	exponent = clamp(exponent, -190, 180);
	__m512i held = clamp(exponent, 1 - F32_BIAS, F32_BIAS);
	return _mm512_fmadd_ps(_mm512_mul_ps(t, power(_mm512_sub_epi32(exponent, held))), power(held), p);
}

ALWAYS_INLINE __m512 add_term(__m512 p, __m512 t, const struct place *at, int r, int v)
{
	const __m512i factor = _mm512_add_epi32(_mm512_load_si512(at->w->factor + v * LANES), broadcast(at->a->binades + r));

	return _mm512_fmadd_ps(t, _mm512_castsi512_ps(factor), p);
}

ALWAYS_INLINE void add_block(__m512 p[][GEMM_E4M3_VECTORS], const struct place *at, enum rests rests, bool general,
                             int rows)
{
	__m512i sum[GEMM_E4M3_MR][GEMM_E4M3_VECTORS];
	const uint32_t special = special_rows(at, rests);

	sum_block(sum, at->a->main, at->w->main, rows);
	if (rests == RESTS_W && at->w->rests != 0)
		add_rests(sum, at, rows);
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++) {
		__m512 t[GEMM_E4M3_VECTORS] = {_mm512_cvtepi32_ps(sum[r][0]), _mm512_cvtepi32_ps(sum[r][1])};

		if (__builtin_expect(special >> r & 1, 0))
			special_sum(t, sum[r], at, r, rests);
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			__m512i exponent = _mm512_load_si512(at->w->exponent + v * LANES);

			exponent = _mm512_add_epi32(exponent, _mm512_set1_epi32(at->a->exponent[r]));
			p[r][v] = general ? add_general(p[r][v], t[v], exponent) : add_term(p[r][v], t[v], at, r, v);
		}
	}
}

ALWAYS_INLINE void add_pass(float *c, __m512 p[][GEMM_E4M3_VECTORS], const float *a_last, const float *w_last, int rows)
{
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++)
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			float *at = c + r * GEMM_E4M3_NR + v * LANES;
			__m512 last = _mm512_mul_ps(_mm512_set1_ps(a_last[r]), _mm512_load_ps(w_last + v * LANES));

			_mm512_store_ps(at, _mm512_fmadd_ps(p[r][v], last, _mm512_load_ps(at)));
		}
}

ALWAYS_INLINE void multiply_panels(const struct panels *panels, enum rests rests, bool general, int rows)
{
	const struct gemm_e4m3_head *head = panels->head;
	const struct gemm_e4m3_expanded *w = panels->w;
	const struct gemm_e4m3_rows *a = (const struct gemm_e4m3_rows *)(head + 1);
	const struct gemm_e4m3_rest *a_rest = (const struct gemm_e4m3_rest *)(a + panels->blocks);

	for (size_t first = 0; first < panels->blocks; first += panels->pass_blocks) {
		size_t end = first + panels->pass_blocks < panels->blocks ? first + panels->pass_blocks : panels->blocks;
		__m512 p[GEMM_E4M3_MR][GEMM_E4M3_VECTORS];

#pragma GCC unroll 8
		for (int r = 0; r < rows; r++)
			p[r][0] = p[r][1] = _mm512_setzero_ps();
		for (size_t b = first; b < end; b++) {
			const struct place at = {a + b, a_rest + b, &w->block[b], w->rest[b]};

			add_block(p, &at, rests, general, rows);
		}
		add_pass(panels->c, p, general ? head->one : head->last, w->one, rows);
	}
}

/*
 * Rows of e4m3 by a folded panel of W. The scale of A's block is the factor of the one FMA. With sums of 8 rows in registers, those
 * of the pass are in memory; 4 or 6 rows, for which both have room, are slower: their sums are too few to wait for.
 */
struct folded_panels {
	const struct gemm_e4m3_head *head;
	const struct gemm_e4m3_folded *w;
	float *c;
	const uint8_t *later, *later_end; /* what is still to be asked for of a later panel of W */
	size_t blocks, pass_blocks;
};

/* Sums the products of a row's rests, whose pairs are `set`, and rounds them with those of main parts. */
ALWAYS_INLINE void add_folded_rests(__m512 t[GEMM_E4M3_VECTORS], const __m512i sum[GEMM_E4M3_VECTORS], uint32_t set,
                                    const int16_t *rests, const int16_t (*w)[GEMM_E4M3_NR][2])
{
	__m512i rest[GEMM_E4M3_VECTORS] = {_mm512_setzero_si512(), _mm512_setzero_si512()};

	for (; set != 0; set &= set - 1) {
		const int p = __builtin_ctz(set);
		const __m512i a = broadcast(rests + 2 * p);

		for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
			rest[v] = dot_words(rest[v], _mm512_load_si512(w[p][v * LANES]), a);
	}
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
		t[v] = round_sum(sum[v], rest[v], LOW_NARROW);
}

ALWAYS_INLINE void multiply_folded(struct folded_panels *panels, int rows)
{
	const struct gemm_e4m3_head *head = panels->head;
	const struct gemm_e4m3_rows *a = (const struct gemm_e4m3_rows *)(head + 1);
	const struct gemm_e4m3_rest *rest = (const struct gemm_e4m3_rest *)(a + panels->blocks);

	for (size_t b = 0; b < panels->blocks;) {
		const size_t end = b + panels->pass_blocks < panels->blocks ? b + panels->pass_blocks : panels->blocks;
		__m512 p[GEMM_E4M3_MR][GEMM_E4M3_VECTORS];

#pragma GCC unroll 8
		for (int r = 0; r < rows; r++)
			p[r][0] = p[r][1] = _mm512_setzero_ps();
		for (; b < end; b++) {
			const __m128i a_rests = _mm_load_si128((const __m128i *)a[b].rests);
			const uint32_t special = _mm_test_epi16_mask(a_rests, a_rests);
			__m512i sum[GEMM_E4M3_MR][GEMM_E4M3_VECTORS];

			if (panels->later < panels->later_end) {
				for (int i = 0; i < LINES_AT_ONCE; i++)
					_mm_prefetch((const char *)panels->later + i * VECTOR_BYTES, _MM_HINT_T1);
				panels->later += LINES_AT_ONCE * VECTOR_BYTES;
			}
			sum_block(sum, a[b].main, panels->w->main[b], rows);
#pragma GCC unroll 8
			for (int r = 0; r < rows; r++) {
				const __m512 factor = _mm512_set1_ps(a[b].factor[r]);
				__m512 t[GEMM_E4M3_VECTORS] = {_mm512_cvtepi32_ps(sum[r][0]), _mm512_cvtepi32_ps(sum[r][1])};

				if (__builtin_expect(special >> r & 1, 0))
					add_folded_rests(t, sum[r], a[b].rests[r], rest[b].rest[r], panels->w->main[b]);
				for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
					p[r][v] = _mm512_fmadd_ps(t[v], factor, p[r][v]);
			}
		}
		add_pass(panels->c, p, head->last, panels->w->last, rows);
	}
}

static NOINLINE void multiply_folded_8(struct folded_panels *panels)
{
	multiply_folded(panels, GEMM_E4M3_MR);
}

static NOINLINE void multiply_folded_4(struct folded_panels *panels)
{
	multiply_folded(panels, GEMM_E4M3_FOUR);
}

/* The fast loops are compiled for each kind of pair; the general one asks for it in each block. */
#define MULTIPLY_PANELS(name, rests, general, rows) \
	static NOINLINE void name(const struct panels *panels) \
	{ \
		multiply_panels(panels, rests, general, rows); \
	}
MULTIPLY_PANELS(multiply_w, RESTS_W, false, GEMM_E4M3_MR)
MULTIPLY_PANELS(multiply_w_half, RESTS_W, false, GEMM_E4M3_MR / 2)
MULTIPLY_PANELS(multiply_both, RESTS_BOTH, false, GEMM_E4M3_MR)
MULTIPLY_PANELS(multiply_both_half, RESTS_BOTH, false, GEMM_E4M3_MR / 2)
MULTIPLY_PANELS(multiply_general, panels->rests, true, GEMM_E4M3_MR)
#undef MULTIPLY_PANELS

static void multiply_panel(const struct panels *panels, size_t rows, bool general)
{
	if (general || panels->rests == RESTS_A)
		multiply_general(panels);
	else if (panels->rests == RESTS_W)
		(rows <= GEMM_E4M3_MR / 2 ? multiply_w_half : multiply_w)(panels);
	else
		(rows <= GEMM_E4M3_MR / 2 ? multiply_both_half : multiply_both)(panels);
}

/*
 * A few rows of e4m3 by a panel of an e4m3 W: codes become words in registers. A fifteenth of the vectors of codes have
 * rests, too many for a branch each: products with rests are summed first, for some blocks at a time, so that the loop
 * over the codes has only to add what it finds. Blocks in which sums might overflow, or rests might meet, which are
 * hardly ever, are expanded.
 */

struct few_panels {
	const struct gemm_e4m3_head *head;
	const struct gemm_e4m3_rows *a;
	const struct gemm_e4m3_rest *a_rest;
	const uint8_t *scales, *notes, *codes;
	ptrdiff_t ahead; /* as in fetch_w() */
	size_t blocks, first; /* the first row of the panel that is multiplied */
	struct gemm_e4m3_expanded *scratch;
};

/* Adds to `sum` the products of a vector of codes by one of A's words, for each row; that of the first is at `a`, and
   `step` words from it that of the next. */
ALWAYS_INLINE void add_word(__m512i (*sum)[GEMM_E4M3_VECTORS], struct gemm_e4m3_word word, const int16_t *a, int v, int rows)
{
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++, a += GEMM_E4M3_BLOCK) {
		sum[r][v] = dot_words(sum[r][v], word.pair[0], broadcast(a));
		sum[r][v] = dot_words(sum[r][v], word.pair[1], broadcast(a + 2));
	}
}

/* Adds the rests of a block of A times main parts of W. */
static NOINLINE void add_a_rests(__m512i (*sum)[GEMM_E4M3_VECTORS], const struct few_panels *few, size_t b, int rows)
{
	const uint8_t *codes = few->codes + b * FEW_VECTORS * FEW_BYTES;

	for (size_t r = 0; r < (size_t)rows; r++)
		for (uint32_t set = few->a[b].rests[few->first + r]; set != 0; set &= set - 1) {
			int p = __builtin_ctz(set);
			__m512i a = broadcast(few->a_rest[b].rest[few->first + r] + 2 * p);

			for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
				__m512i x = load_word(MXFP_FORMAT_MXFP8_E4M3, codes, p / 2, v);

				sum[r][v] = dot_words(sum[r][v], gemm_e4m3_main(x, true).pair[p % 2], a);
			}
		}
}

/* Whether the sums of a block need more than the fast loop computes. `rests`: of A, bit p if a row's pair p has one. */
ALWAYS_INLINE bool is_special(const struct few_panels *few, size_t b, uint32_t rests)
{
	const struct note note = load_note(few->notes, few->blocks, b);
	const uint32_t words = (rests | rests >> 1) & (note.rests | note.rests >> 1) & 0x5555;
	__m512 norm = _mm512_set1_ps(float_of((uint32_t)note.norm << 16)), most = _mm512_set1_ps(0x1p31f);
	__m512 norms = multiply_nearest(_mm512_zextps256_ps512(_mm256_load_ps(few->a[b].norm)), norm);

	return words != 0 || _mm512_cmp_round_ps_mask(norms, most, _CMP_NLT_UQ, _MM_FROUND_NO_EXC) != 0;
}

/* Sums products with rests of n blocks. Returns which blocks are special. */
ALWAYS_INLINE uint32_t sum_few_rests(few_rests sum, const struct few_panels *few, size_t b, size_t n, int rows)
{
	const uint8_t *codes = few->codes + b * FEW_VECTORS * FEW_BYTES;
	uint32_t special = 0;

	for (int i = 0; i < FEW_BLOCKS; i++)
		for (int r = 0; r < rows; r++)
			sum[i][r][0] = sum[i][r][1] = _mm512_setzero_si512();
	for (uint64_t set = load_rests(few->notes, b, n); set != 0; set &= set - 1) {
		unsigned i = (unsigned)__builtin_ctzll(set), block = i / FEW_VECTORS, word = i % FEW_VECTORS / 2;
		__m512i x = _mm512_loadu_si512(codes + i * FEW_BYTES);

		add_word(sum[block], gemm_e4m3_rest(x, true), few->a[b + block].main[few->first] + 4 * word, i % 2, rows);
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t rests = 0;

		for (int r = 0; r < rows; r++)
			rests |= few->a[b + i].rests[few->first + (size_t)r];
		if (__builtin_expect(rests != 0, 0))
			add_a_rests(sum[i], few, b + i, rows);
		special |= (uint32_t)is_special(few, b + i, rests) << i;
	}
	return special;
}

/* Adds a special block, row by row. */
static NOINLINE void add_expanded(__m512 p[][GEMM_E4M3_VECTORS], const struct few_panels *few, size_t b)
{
	const struct gemm_e4m3_expanded *w = few->scratch;
	const struct place at = {few->a + b, few->a_rest + b, w->block, w->rest[0]};

	expand_e4m3(few->scratch, 0, few->codes + b * FEW_VECTORS * FEW_BYTES, load_note(few->notes, few->blocks, b), true, 0);
	store_column_scales(few->scratch->block, load_column_scales(few->scales, b), 0);
	for (int r = 0; r < GEMM_E4M3_FOUR; r++) {
		const int row = (int)few->first + r;
		__m512 t[GEMM_E4M3_VECTORS];

		sum_wide(t, &at, row);
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
			p[r][v] = add_term(p[r][v], t[v], &at, row, v);
	}
}

static NOINLINE void add_special(__m512 p[][GEMM_E4M3_VECTORS], const struct few_panels *few, size_t b)
{
	struct fp_state state = fp_enter();

	add_expanded(p, few, b);
	fp_leave(state);
}

/* Adds a block whose products with rests are summed. */
ALWAYS_INLINE void add_few(__m512 p[][GEMM_E4M3_VECTORS], const struct few_panels *few, size_t b,
                           __m512i rests[][GEMM_E4M3_VECTORS], int rows)
{
	const struct gemm_e4m3_rows *a = &few->a[b];
	const uint8_t *codes = few->codes + b * FEW_VECTORS * FEW_BYTES;
	__m512i sum[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS];

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		sum[r][0] = sum[r][1] = _mm512_setzero_si512();
#pragma GCC unroll 8
	for (int i = 0; i < GEMM_E4M3_PAIRS / 2; i++)
#pragma GCC unroll 2
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			const uint8_t *at = codes + (GEMM_E4M3_VECTORS * i + v) * FEW_BYTES;
			__m512i x = _mm512_loadu_si512(at);

			fetch_w(at, few->ahead);
			fetch_w_near(at);
			add_word(sum, gemm_e4m3_main(x, true), a->main[few->first] + 4 * i, v, rows);
		}
#pragma GCC unroll 2
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		__m512i scale = lanes_of(load_column_scales(few->scales, b), v);

		scale = _mm512_slli_epi32(scale, F32_SIGNIFICAND_BITS);

#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			const __m512 factor = _mm512_castsi512_ps(_mm512_add_epi32(scale, broadcast(a->binades + few->first + r)));

			p[r][v] = _mm512_fmadd_round_ps(round_sum(sum[r][v], rests[r][v], LOW_BOTH), factor, p[r][v], TO_NEAREST);
		}
	}
}

ALWAYS_INLINE void multiply_few_rows(const struct few_panels *few, float *c, size_t pass_blocks, int rows)
{
	__m512 p[GEMM_E4M3_FOUR][GEMM_E4M3_VECTORS];
	few_rests rests;

	for (int r = 0; r < GEMM_E4M3_FOUR; r++)
		p[r][0] = p[r][1] = _mm512_setzero_ps();
	for (size_t b = 0, n; b < few->blocks; b += n) {
		n = few->blocks - b < FEW_BLOCKS ? few->blocks - b : FEW_BLOCKS;
		uint32_t special = sum_few_rests(rests, few, b, n, rows);

		for (size_t i = 0; i < n; i++)
			if (__builtin_expect(special >> i & 1, 0))
				add_special(p, few, b + i);
			else
				add_few(p, few, b + i, rests[i], rows);
		if (((b + n) & (pass_blocks - 1)) == 0 || b + n == few->blocks)
			for (int r = 0; r < rows; r++)
				end_pass(c + r * GEMM_E4M3_NR, p[r], few->head->last[few->first + (size_t)r]);
	}
}

#define MULTIPLY_FEW_ROWS(name, rows) \
	static NOINLINE void name(const struct few_panels *few, float *c, size_t pass_blocks) \
	{ \
		multiply_few_rows(few, c, pass_blocks, rows); \
	}
MULTIPLY_FEW_ROWS(multiply_1, 1)
MULTIPLY_FEW_ROWS(multiply_2, 2)
MULTIPLY_FEW_ROWS(multiply_3, 3)
MULTIPLY_FEW_ROWS(multiply_4, 4)
#undef MULTIPLY_FEW_ROWS

static NOINLINE void multiply_expanded(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const size_t bytes = a_bytes(shape, job->k);
	struct gemm_e4m3_expanded *w = job->scratch;
	struct panels panels = {.head = job->a, .w = w, .c = job->c, .blocks = gemm_e4m3_blocks(job->k)};

	panels.pass_blocks = shape->pass / GEMM_E4M3_BLOCK;
	panels.rests = !has_rests(shape) ? RESTS_W : gemm_e4m3_is_both(shape) ? RESTS_BOTH : RESTS_A;
	expand(w, job);
	for (size_t row = 0; row < job->rows; row += GEMM_E4M3_MR) {
		multiply_panel(&panels, job->rows - row, w->general || panels.head->general);
		panels.head = (const void *)((const uint8_t *)panels.head + bytes);
		panels.c += GEMM_E4M3_MR * GEMM_E4M3_NR;
	}
}

/* Multiplies a few rows without expanding W, if there is a loop for that and it is right. Returns whether it did. */
static bool multiply_few(const struct mxfp_gemm_multiply_job *job)
{
	static void (*const loops[])(const struct few_panels *few, float *c, size_t pass_blocks) = {
		multiply_1, multiply_2, multiply_3, multiply_4,
	};
	const struct mxfp_gemm_shape *shape = job->shape;
	const size_t blocks = gemm_e4m3_blocks(job->k);
	const uint8_t *scales = job->w;
	struct few_panels few = {
		.head = job->a,
		.scales = scales,
		.ahead = w_ahead(job),
		.blocks = blocks,
		.scratch = job->scratch,
	};

	if (job->rows > GEMM_E4M3_MR || !gemm_e4m3_is_both(shape) || few.head->general || !scales_are_moderate(scales, blocks))
		return false;
	few.a = (const struct gemm_e4m3_rows *)(few.head + 1);
	few.a_rest = (const struct gemm_e4m3_rest *)(few.a + blocks);
	few.notes = scales + blocks * GEMM_E4M3_NR;
	few.codes = few.notes + 2 * blocks * GEMM_E4M3_NOTE;
	bool flushes = (_mm_getcsr() & FLUSHES) != 0;
	struct fp_state state = {0};

	if (flushes)
		state = fp_enter();
	for (size_t n; few.first < job->rows; few.first += n) {
		n = job->rows - few.first < GEMM_E4M3_FOUR ? job->rows - few.first : GEMM_E4M3_FOUR;
		loops[n - 1](&few, job->c + few.first * GEMM_E4M3_NR, shape->pass / GEMM_E4M3_BLOCK);
	}
	if (flushes)
		fp_leave(state);
	return true;
}

/* Whether no panel of A needs the general loop. */
static bool rows_are_moderate(const struct mxfp_gemm_multiply_job *job)
{
	const size_t bytes = a_bytes(job->shape, job->k);
	const uint8_t *a = job->a;
	uint32_t general = 0;

	for (size_t row = 0; row < job->rows; row += GEMM_E4M3_MR, a += bytes)
		general |= ((const struct gemm_e4m3_head *)(const void *)a)->general;
	return general == 0;
}

/* Multiplies without expanding W, if one operand is narrow and no scale is extreme. Returns whether it did. */
static bool multiply_by_bytes(const struct mxfp_gemm_multiply_job *job)
{
	const size_t blocks = gemm_e4m3_blocks(job->k);
	struct stored s = {
		.four = bytes_of_four(job->shape),
		.ahead = w_ahead(job),
		.blocks = blocks,
		.pass_blocks = job->shape->pass / GEMM_E4M3_BLOCK,
		.scales = job->w,
		.has_rests = has_rests(job->shape),
	};

	if (s.four == 0 || (!s.has_rests && job->rows > DIGITS_ROWS) || !rows_are_moderate(job) || !scales_are_moderate(s.scales, blocks))
		return false;
	s.notes = s.scales + blocks * GEMM_E4M3_NR;
	s.codes = s.scales + blocks * gemm_e4m3_head_bytes(job->shape->w_format);
	bool flushes = (_mm_getcsr() & FLUSHES) != 0;
	struct fp_state state = {0};

	if (flushes)
		state = fp_enter();
	multiply_rows(job, &s);
	if (flushes)
		fp_leave(state);
	return true;
}

/* Multiplies many rows of e4m3 by a narrow W expanded to words, if shuffles are slow and scales allow it. Returns whether it
   did. */
static bool multiply_by_words(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const size_t bytes = a_bytes(shape, job->k), blocks = gemm_e4m3_blocks(job->k);
	struct gemm_e4m3_folded *w = job->scratch;
	struct folded_panels panels = {.head = job->a, .w = w, .c = job->c, .later = job->w_later, .blocks = blocks};

	if (!has_rests(shape) || gemm_e4m3_is_both(shape) || (job->cpu & MXFP_CPU_FAST_SHUFFLES) || job->rows <= STORED_ROWS ||
	    !rows_are_moderate(job))
		return false;
	const struct columns_range range = range_of(job->w, blocks);
	if (!are_foldable(&range, shape->w_format))
		return false;
	panels.later_end = panels.later + w_bytes(shape, job->k);
	panels.pass_blocks = shape->pass / GEMM_E4M3_BLOCK;
	struct fp_state state = fp_enter();
	fold_panel(w, shape->w_format, job->w, blocks, &range);
	for (size_t row = 0; row < job->rows; row += GEMM_E4M3_MR) {
		(job->rows - row <= GEMM_E4M3_FOUR ? multiply_folded_4 : multiply_folded_8)(&panels);
		panels.head = (const void *)((const uint8_t *)panels.head + bytes);
		panels.c += GEMM_E4M3_MR * GEMM_E4M3_NR;
	}
	fp_leave(state);
	return true;
}

static void multiply(const struct mxfp_gemm_multiply_job *job)
{
	if (multiply_by_words(job) || multiply_by_bytes(job) || multiply_few(job))
		return;
	struct fp_state state = fp_enter();
	multiply_expanded(job);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_e4m3) = {
	.id = 0x0203,
	.name = "exact-e4m3-avx512",
	.mr = GEMM_E4M3_MR,
	.nr = GEMM_E4M3_NR,
	.a_panel_bytes = a_bytes,
	.w_panel_bytes = w_bytes,
	.scratch_bytes = sizeof(struct gemm_e4m3_expanded),
	.pack_a = pack_a,
	.pack_w = pack_w,
	.multiply = multiply,
};
