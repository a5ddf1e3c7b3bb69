/* SPDX-License-Identifier: MIT */
/* mxfp_convert() on arrays: every pair of element formats, mode and overflow mode against the oracle, counts
   included. */
#include "mxfp/convert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/inputs.h"
#include "oracle/oracle.h"
#include "mxfp/philox.h"
#include "suite.h"
#include "oracle/thresholds.h"

static const enum mxfp_format elements[] = {
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) MXFP_FORMAT_##id,
#include "format.def"
};

enum { N_ELEMENTS = sizeof elements / sizeof elements[0], N_MODES = MXFP_ROUND_SR + 1, N_CASES = N_ELEMENTS * N_MODES * 2 };

/* Made when it is first asked for: each test's process has need of one, and the leak sanitizer looks through all that there are. */
static const struct oracle *oracle_of(enum mxfp_format format)
{
	static struct oracle oracles[MXFP_N_FORMATS];

	if (oracles[format].magnitude == NULL)
		oracle_init(&oracles[format], format);
	return &oracles[format];
}

/* Case i of N_CASES: a target, a mode, an overflow mode; and a seed and a stream of its own. */
static const struct oracle *nth_case(int i, struct mxfp_convert_options *options)
{
	struct random r = {suite_seed() ^ (uint64_t)i};

	*options = (struct mxfp_convert_options){
		.size = sizeof(struct mxfp_convert_options),
		.round = (enum mxfp_round)(i / 2 % N_MODES),
		.overflow = (enum mxfp_overflow)(i % 2),
		.seed = random_u64(&r),
		.stream = random_u64(&r),
		.first_index = random_u64(&r) >> 8,
	};
	return oracle_of(elements[i / 2 / N_MODES]);
}

static uint32_t stored(const struct mxfp_format_info *f, const void *array, size_t i)
{
	uint32_t code = 0;

	if (f->storage_bytes == 2) {
		uint16_t half;
		memcpy(&half, (const uint8_t *)array + 2 * i, sizeof half);
		return half;
	}
	memcpy(&code, (const uint8_t *)array + i * f->storage_bytes, f->storage_bytes);
	return f->storage_bytes == 1 ? ((const uint8_t *)array)[i] : code;
}

/* mxfp_convert() of an array, with counts. */
static enum mxfp_status convert(void *dst, enum mxfp_format dst_format, const void *src, enum mxfp_format src_format, size_t n,
                                const struct mxfp_convert_options *options, struct mxfp_counts *counts,
                                const struct mxfp_exec *exec)
{
	const struct mxfp_matrix numbers = mxfp_numbers(src_format, 1, n, src);
	struct mxfp_result result = mxfp_to_numbers(dst_format, dst);

	result.counts = counts;
	return mxfp_convert(&result, &numbers, options, exec);
}

/* Converts n numbers, fails if a code, the counts or a byte beyond the end is not what it must be. */
static void compare(const struct oracle *o, const void *src, enum mxfp_format src_format, size_t n,
                    const struct mxfp_convert_options *options)
{
	const struct mxfp_format_info *to = o->format, *from = mxfp_format_get_info(src_format);
	const struct mxfp_rounding r = {options->round, options->overflow, options->no_negative_zero, 0, 0};
	struct mxfp_counts counts = {sizeof counts, 1, 2, 3, 4, 5}, want_counts = counts;
	size_t bytes = n * to->storage_bytes;
	uint8_t *dst = malloc(bytes + 1);

	ck_assert_ptr_nonnull(dst);
	dst[bytes] = 0xA5;
	assert_status(convert(dst, to->format, src, src_format, n, options, &counts, NULL), MXFP_OK);
	for (size_t i = 0; i < n; i++) {
		uint32_t x = oracle_decode(from, stored(from, src, i));
		uint32_t random = r.mode == MXFP_ROUND_SR ?
		                  mxfp_philox_word(options->seed, options->stream, options->first_index + i) : 0;
		uint32_t want = oracle_encode(o, x, 0, &r, random, &want_counts), code = stored(to, dst, i);
		if (code != want)
			ck_abort_msg("%s %" PRIX32 " to %s, %s %s, random %08" PRIX32 ": %" PRIX32 " instead of %" PRIX32,
			             from->name, stored(from, src, i), to->name,
			             mxfp_option_name(MXFP_OPTION_ROUND, (int)r.mode),
			             mxfp_option_name(MXFP_OPTION_OVERFLOW, (int)r.overflow), random, code, want);
	}
	ck_assert_mem_eq(&counts, &want_counts, sizeof counts);
	ck_assert_uint_eq(dst[bytes], 0xA5);
	suite_compared(n);
	free(dst);
}

TEST_LOOP(every_16_bit_number_to_every_format, N_CASES)
{
	static uint16_t all[1 << 16];
	struct mxfp_convert_options options;
	const struct oracle *o = nth_case(_i, &options);

	if (options.overflow != MXFP_OVERFLOW_SAT && !oracle_has_overflow_modes(o->format))
		return; /* the same again; the tests below try it on less */
	/* Of a share, others in each case. */
	const size_t n = (size_t)suite_share(1 << 16);
	for (size_t i = 0; i < n; i++)
		all[i] = (uint16_t)(i * suite_shares() + (size_t)_i % suite_shares());
	compare(o, all, MXFP_FORMAT_BF16, n, &options);
	compare(o, all, MXFP_FORMAT_F16, n, &options);
}

/* With the spare bits of narrow codes set too. */
TEST_LOOP(every_8_bit_number_to_every_format, N_CASES)
{
	uint8_t all[256];
	struct mxfp_convert_options options;
	const struct oracle *o = nth_case(_i, &options);

	for (int c = 0; c < 256; c++)
		all[c] = (uint8_t)c;
	for (int f = 0; f < N_ELEMENTS; f++)
		if (mxfp_format_get_info(elements[f])->storage_bytes == 1)
			compare(o, all, elements[f], 256, &options);
}

/* Bits of a number that binary32 holds; bits past the largest are the largest. */
static uint32_t bits_of(mpfr_srcptr x)
{
	float number = mpfr_get_flt(x, MPFR_RNDZ);
	uint32_t bits;

	memcpy(&bits, &number, sizeof bits);
	return bits;
}

/* Appends a magnitude, one unit less and one more, with both signs. */
static size_t append_around(uint32_t *to, uint32_t magnitude)
{
	size_t n = 0;

	for (uint32_t m = magnitude == 0 ? 0 : magnitude - 1; m <= magnitude + 1; m++) {
		to[n++] = m;
		to[n++] = m | F32_SIGN;
	}
	return n;
}

/* Every magnitude of the format and every midpoint, or one in `step` of them, and the overflow threshold. */
static size_t boundaries(const struct oracle *o, uint32_t step, uint32_t *to)
{
	mpfr_t middle;
	size_t n = 0;

	mpfr_init2(middle, 64);
	for (uint32_t c = 0; c < o->n; c += c + step < o->n || c == o->n - 1 ? step : o->n - 1 - c) {
		n += append_around(to + n, bits_of(o->magnitude[c]));
		mpfr_add(middle, o->magnitude[c], o->magnitude[c + 1], MPFR_RNDN);
		mpfr_div_2ui(middle, middle, 1, MPFR_RNDN);
		n += append_around(to + n, bits_of(middle));
	}
	n += append_around(to + n, bits_of(o->magnitude[o->n]));
	mpfr_clear(middle);
	return n;
}

TEST_LOOP(binary32_boundaries, N_CASES)
{
	struct mxfp_convert_options options;
	const struct oracle *o = nth_case(_i, &options);
	/* tf32 has 2^18 magnitudes: a tenth of them, and other ones in each case; of a share, as many of those of 16 bits. */
	uint32_t step = (o->format->bits > 16 ? 8 + (uint32_t)(options.seed % 8) : 1) * (o->format->bits > 8 ? suite_shares() : 1);
	uint32_t *src = malloc((12 * (size_t)o->n / step + 100) * sizeof *src);

	ck_assert_ptr_nonnull(src);
	if (o->n != 0 && (oracle_has_overflow_modes(o->format) || options.overflow == MXFP_OVERFLOW_SAT))
		compare(o, src, MXFP_FORMAT_F32, boundaries(o, step, src), &options);
	free(src);
}

enum { N_RANDOM = 20000 };

static void random_inputs(uint32_t *to, size_t n, uint64_t seed)
{
	struct random r = {seed};

	memcpy(to, inputs_edge, inputs_n_edge * sizeof *to);
	for (size_t i = inputs_n_edge; i < n; i++)
		to[i] = random_f32(&r);
}

TEST_LOOP(binary32_edges_and_random_patterns, N_CASES)
{
	static uint32_t src[N_RANDOM];
	struct mxfp_convert_options options;
	const struct oracle *o = nth_case(_i, &options);

	const size_t n = (size_t)suite_share(N_RANDOM);
	random_inputs(src, n, options.seed);
	compare(o, src, MXFP_FORMAT_F32, n, &options);
	options.no_negative_zero = true;
	compare(o, src, MXFP_FORMAT_F32, n / 4, &options);
	/* The low 13 bits of a tf32 word are set at random, and must not matter. */
	compare(o, src, MXFP_FORMAT_TF32, n / 4, &options);
}

/* The intervals of all inputs that make check-exhaustive uses: both sides of every change of code. */
TEST_LOOP(intervals_hold_on_both_sides_of_every_threshold, N_CASES)
{
	struct mxfp_convert_options options;
	const struct oracle *o = nth_case(_i, &options);
	const struct mxfp_rounding r = {options.round, options.overflow, false, 0, 0};

	if (o->n == 0 || o->format->bits > 8 || r.mode == MXFP_ROUND_SR)
		return;
	for (uint32_t negative = 0; negative < 2; negative++) {
		struct thresholds t;
		thresholds_init(&t, o, &r, negative != 0);
		for (size_t i = 1; i < t.n; i++) {
			struct mxfp_counts counts = {.size = sizeof counts}, want = {.size = sizeof want};
			uint32_t first = t.interval[i].start - 1, src[2] = {first | negative << 31, (first + 1) | negative << 31};
			uint8_t codes[2];
			convert(codes, o->format->format, src, MXFP_FORMAT_F32, 2, &options, &counts, NULL);
			if (thresholds_mismatch(&t, o->format, first, codes, 2, &want) != 2 ||
			    memcmp(&counts, &want, sizeof want) != 0)
				ck_abort_msg("%s at %08" PRIX32 ": %X %X", o->format->name, first, codes[0], codes[1]);
		}
		suite_compared(2 * (t.n - 1));
		thresholds_clear(&t);
	}
}

/* The examiner examined: an interval that starts one input early or late, or has another code, is seen. */
TEST(wrong_thresholds_are_caught)
{
	const struct oracle *o = oracle_of(MXFP_FORMAT_E4M3);
	const struct mxfp_rounding r = {0};
	struct mxfp_counts counts = {.size = sizeof counts};
	struct thresholds t;
	enum { N = 1000 };
	uint32_t src[N];
	uint8_t codes[N];

	thresholds_init(&t, o, &r, false);
	for (size_t i = 1; i < t.n; i++) {
		struct interval *interval = &t.interval[i];
		uint32_t first = interval->start - N / 2;
		for (uint32_t k = 0; k < N; k++)
			src[k] = first + k;
		mxfp_convert_array(codes, MXFP_FORMAT_E4M3, src, MXFP_FORMAT_F32, N, NULL, NULL);
		ck_assert_uint_eq(thresholds_mismatch(&t, o->format, first, codes, N, &counts), N);
		if (interval->code == interval[-1].code)
			continue; /* it differs from the one before in what it counts as */
		interval->start++;
		ck_assert_uint_eq(thresholds_mismatch(&t, o->format, first, codes, N, &counts), N / 2);
		interval->start -= 2;
		ck_assert_uint_eq(thresholds_mismatch(&t, o->format, first, codes, N, &counts), N / 2 - 1);
		interval->start++;
		interval->code ^= 1;
		ck_assert_uint_eq(thresholds_mismatch(&t, o->format, first, codes, N, &counts), N / 2);
		interval->code ^= 1;
	}
	thresholds_clear(&t);
}

/* One call, calls on pieces with their first_index, and any number of threads give the same codes and counts. */
TEST(pieces_and_threads_do_not_matter)
{
	enum { N = 300001 };
	static uint32_t src[N];
	static uint8_t whole[N], part[N];
	struct mxfp_counts counts = {.size = sizeof counts}, part_counts = {.size = sizeof part_counts};
	struct mxfp_convert_options options;

	random_inputs(src, N, suite_seed());
	nth_case(N_MODES * 2 * MXFP_FORMAT_E4M3 + 2 * MXFP_ROUND_SR, &options);
	ck_assert_int_eq((int)options.round, (int)MXFP_ROUND_SR);
	const struct mxfp_exec one = {.size = sizeof one, .threads = 1};
	convert(whole, MXFP_FORMAT_E4M3, src, MXFP_FORMAT_F32, N, &options, &counts, &one);
	for (unsigned threads = 0; threads < 5; threads++) {
		struct mxfp_counts again = {.size = sizeof again};
		const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads};
		convert(part, MXFP_FORMAT_E4M3, src, MXFP_FORMAT_F32, N, &options, &again, &exec);
		ck_assert_mem_eq(part, whole, N);
		ck_assert_mem_eq(&again, &counts, sizeof counts);
	}
	for (size_t start = 0, n = 1; start < N; start += n, n = n * 3 + 1) {
		struct mxfp_convert_options piece = options;
		n = n < N - start ? n : N - start;
		piece.first_index += start;
		convert(part + start, MXFP_FORMAT_E4M3, src + start, MXFP_FORMAT_F32, n, &piece, &part_counts, &one);
	}
	ck_assert_mem_eq(part, whole, N);
	ck_assert_mem_eq(&part_counts, &counts, sizeof counts);
}

/* The distribution, roughly: 1/4 of the way from 1 to 1.125 goes up a quarter of the time. */
TEST(stochastic_rounding_is_unbiased)
{
	enum { N = 1 << 16 };
	static float src[N];
	static uint8_t codes[N];
	struct mxfp_convert_options options = {.size = sizeof options, .round = MXFP_ROUND_SR, .seed = suite_seed()};
	int up = 0;

	for (int i = 0; i < N; i++)
		src[i] = 1.03125f;
	mxfp_convert_array(codes, MXFP_FORMAT_E4M3, src, MXFP_FORMAT_F32, N, &options, NULL);
	for (int i = 0; i < N; i++) {
		ck_assert(codes[i] == 0x38 || codes[i] == 0x39);
		up += codes[i] == 0x39;
	}
	/* Six standard deviations of a binomial distribution: sqrt(N / 4 * 3 / 4) = 111. */
	ck_assert_int_gt(up, N / 4 - 6 * 111);
	ck_assert_int_lt(up, N / 4 + 6 * 111);
}

TEST(unaligned_arrays_are_allowed)
{
	enum { N = 201 };
	uint8_t src[4 * N + 1], dst[2 * N + 1], want[2 * N];
	uint32_t numbers[N];

	random_inputs(numbers, N, suite_seed());
	memcpy(src + 1, numbers, sizeof numbers);
	mxfp_convert_array(want, MXFP_FORMAT_F16, numbers, MXFP_FORMAT_F32, N, NULL, NULL);
	mxfp_convert_array(dst + 1, MXFP_FORMAT_F16, src + 1, MXFP_FORMAT_F32, N, NULL, NULL);
	ck_assert_mem_eq(dst + 1, want, sizeof want);
}
