/* SPDX-License-Identifier: MIT */
/* One number in every element format: ref/minifloat.c against the oracle and against values worked by hand. */
#include "minifloat.h"

#include <inttypes.h>
#include <string.h>

#include "oracle/inputs.h"
#include "oracle/oracle.h"
#include "suite.h"

/* Element formats whose encoding is not the identity. */
static const enum mxfp_format targets[] = {
	MXFP_FORMAT_E5M2, MXFP_FORMAT_E4M3,     MXFP_FORMAT_E3M2, MXFP_FORMAT_E2M3,  MXFP_FORMAT_E2M1,
	MXFP_FORMAT_INT8, MXFP_FORMAT_E8M0,     MXFP_FORMAT_UE4M3, MXFP_FORMAT_E4M3IEEE, MXFP_FORMAT_E3M4,
	MXFP_FORMAT_BF16, MXFP_FORMAT_F16,      MXFP_FORMAT_E4M3FNUZ, MXFP_FORMAT_E5M2FNUZ,
};

enum { N_TARGETS = sizeof targets / sizeof targets[0], N_MODES = MXFP_ROUND_SR + 1, N_CASES = N_TARGETS * N_MODES * 2 };

static struct oracle oracles[N_TARGETS];

/* Case i of N_CASES: a format, a mode and an overflow mode. */
static const struct oracle *nth_case(int i, struct mxfp_rounding *r)
{
	*r = (struct mxfp_rounding){.mode = (enum mxfp_round)(i / 2 % N_MODES), .overflow = (enum mxfp_overflow)(i % 2)};
	return &oracles[i / 2 / N_MODES];
}

/* Encodes x * 2^-shift both ways and fails if code or counts differ. */
static void compare(const struct oracle *o, uint32_t x, int shift, const struct mxfp_rounding *r, uint32_t random)
{
	struct mxfp_counts want_counts = {.size = sizeof want_counts}, counts = {.size = sizeof counts};
	uint32_t want = oracle_encode(o, x, shift, r, random, &want_counts);
	uint32_t code = mxfp_minifloat_encode(o->format, x, shift, r, random, &counts);

	suite_compared(1);
	if (code != want || memcmp(&counts, &want_counts, sizeof counts) != 0)
		ck_abort_msg("%s of %08" PRIX32 " * 2^%d, %s %s, random %08" PRIX32 ": %" PRIX32 " instead of %" PRIX32
		             " (saturated %d overflowed %d flushed %d nan %d inf %d)", o->format->name, x, -shift,
		             mxfp_option_name(MXFP_OPTION_ROUND, (int)r->mode),
		             mxfp_option_name(MXFP_OPTION_OVERFLOW, (int)r->overflow), random, code, want,
		             (int)counts.saturated, (int)counts.overflowed, (int)counts.flushed, (int)counts.nan,
		             (int)counts.inf);
}

TEST(every_code_decodes_to_its_value)
{
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)f);
		if (info->kind == MXFP_KIND_BLOCK || info->bits > 19)
			continue;
		/* Codes of one byte with their spare bits set too: those are ignored. */
		uint32_t n = UINT32_C(1) << (info->bits <= 8 ? 8 : info->bits);
		for (uint32_t c = 0; c < n; c++) {
			uint32_t want = oracle_decode(info, info->bits == 19 ? c << 13 : c), x = mxfp_minifloat_decode(info, c);
			if (x != want)
				ck_abort_msg("%s %" PRIX32 ": %08" PRIX32 " instead of %08" PRIX32, info->name, c, x, want);
		}
		suite_compared(n);
	}
}

/* Numbers and codes that doc/numerics.md, OCP OFP8 and OCP MX state. 43E80000 is 464, 47700000 is 61440. */
TEST(values_of_the_contract)
{
	static const struct {
		uint32_t x;
		enum mxfp_format format;
		enum mxfp_round mode;
		enum mxfp_overflow overflow;
		uint32_t code;
	} known[] = {
		{0x43E80000, MXFP_FORMAT_E4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7E},  /* 464: the tie goes to 448 */
		{0x43E80001, MXFP_FORMAT_E4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7F},
		{0x43E80001, MXFP_FORMAT_E4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7E},
		{0x476FFFFF, MXFP_FORMAT_E5M2, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7B},
		{0x47700000, MXFP_FORMAT_E5M2, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7C},  /* 61440 */
		{0xC7700000, MXFP_FORMAT_E5M2, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFB},
		{0x40E00000, MXFP_FORMAT_E2M1, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7},   /* 7 -> 6 */
		{0x7F800000, MXFP_FORMAT_E4M3, MXFP_ROUND_RTZ, MXFP_OVERFLOW_OVF, 0x7F},  /* Inf overflows in any mode */
		{0x7F7FFFFF, MXFP_FORMAT_E4M3, MXFP_ROUND_RTZ, MXFP_OVERFLOW_OVF, 0x7E},  /* a finite number does not */
		{0xFF7FFFFF, MXFP_FORMAT_E5M2, MXFP_ROUND_RTP, MXFP_OVERFLOW_OVF, 0xFB},
		{0xFF7FFFFF, MXFP_FORMAT_E5M2, MXFP_ROUND_RTN, MXFP_OVERFLOW_OVF, 0xFC},
		{0xFFC00001, MXFP_FORMAT_E4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFF},
		{0x7F800001, MXFP_FORMAT_E5M2, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7E},
		{0x7FFFFFFF, MXFP_FORMAT_E4M3IEEE, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7C},
		{0xFFC00000, MXFP_FORMAT_E3M4, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xF8},
		{0xFFC00000, MXFP_FORMAT_E2M1, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7},   /* PTX's rule */
		{0x7FC00000, MXFP_FORMAT_E3M2, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x1F},
		{0xFFC00000, MXFP_FORMAT_INT8, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7F},
		{0xC0000000, MXFP_FORMAT_INT8, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x81},  /* -2: -128 is never made */
		{0x80000000, MXFP_FORMAT_INT8, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x00},
		{0x80000001, MXFP_FORMAT_INT8, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x00},
		{0x80000001, MXFP_FORMAT_E4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x80},
		{0x80000001, MXFP_FORMAT_E4M3, MXFP_ROUND_RTN, MXFP_OVERFLOW_SAT, 0x81},
		{0x43700000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7F}, /* 240 */
		{0x4377FFFF, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7F},
		{0x43780000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x80}, /* 248: the tie goes to the even code */
		{0xC3780000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x80},
		{0xC3780000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFF},
		{0xFF800000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x80},
		{0xFF800000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFF},
		{0x7FC00000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x80}, /* one NaN, of no sign */
		{0xFFC00001, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x80},
		{0x80000000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x00}, /* one zero, too */
		{0xBA000000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x00}, /* -2^-11, half of the least */
		{0xBA000001, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x81},
		{0x3C000000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x08}, /* 2^-7, the least normal */
		{0x3F800000, MXFP_FORMAT_E4M3FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x40},
		{0x3F800000, MXFP_FORMAT_E5M2FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x40},
		{0x476FFFFF, MXFP_FORMAT_E5M2FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x7F}, /* below 61440 */
		{0xC7700000, MXFP_FORMAT_E5M2FNUZ, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0x80},
		{0xC7700000, MXFP_FORMAT_E5M2FNUZ, MXFP_ROUND_RTP, MXFP_OVERFLOW_OVF, 0xFF},
		{0xB7000000, MXFP_FORMAT_E5M2FNUZ, MXFP_ROUND_RTP, MXFP_OVERFLOW_OVF, 0x81}, /* -2^-17 */
		{0xB6FFFFFF, MXFP_FORMAT_E5M2FNUZ, MXFP_ROUND_RTP, MXFP_OVERFLOW_OVF, 0x00},
		{0x3FC00000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x80},  /* 1.5: ties go up */
		{0x3FC00000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNA, MXFP_OVERFLOW_SAT, 0x80},
		{0x3FC00000, MXFP_FORMAT_E8M0, MXFP_ROUND_RHZ, MXFP_OVERFLOW_SAT, 0x7F},
		{0x40400000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x81},
		{0x3F800001, MXFP_FORMAT_E8M0, MXFP_ROUND_RTP, MXFP_OVERFLOW_SAT, 0x80},
		{0x3FFFFFFF, MXFP_FORMAT_E8M0, MXFP_ROUND_RTN, MXFP_OVERFLOW_SAT, 0x7F},
		{0x003FFFFF, MXFP_FORMAT_E8M0, MXFP_ROUND_RTP, MXFP_OVERFLOW_SAT, 0x00},
		{0x00400000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x00},
		{0x00600000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x01},
		{0x80000000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x00},
		{0xBF800000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFF},
		{0x7F400000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFE},
		{0x7F400000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, 0xFF},
		{0x7F800000, MXFP_FORMAT_E8M0, MXFP_ROUND_RTZ, MXFP_OVERFLOW_OVF, 0xFF},
		{0x7F800000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFE},
		{0xFF800000, MXFP_FORMAT_E8M0, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFF},  /* no sign, hence NaN */
		{0x80000000, MXFP_FORMAT_UE4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x00},
		{0x80000001, MXFP_FORMAT_UE4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7F},
		{0xFF800000, MXFP_FORMAT_UE4M3, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7F},
		{0x7F800001, MXFP_FORMAT_BF16, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7FC0}, /* payload below is lost */
		{0xFFA55555, MXFP_FORMAT_BF16, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0xFFE5},
		{0x7F812345, MXFP_FORMAT_F16, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7E09},
		{0x7F7FFFFF, MXFP_FORMAT_BF16, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7F80}, /* wide formats always overflow */
		{0x477FF000, MXFP_FORMAT_F16, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7C00},  /* 65520 */
		{0x477FEFFF, MXFP_FORMAT_F16, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT, 0x7BFF},
		{0x477FF000, MXFP_FORMAT_F16, MXFP_ROUND_RTZ, MXFP_OVERFLOW_SAT, 0x7BFF},
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		const struct mxfp_format_info *info = mxfp_format_get_info(known[i].format);
		struct mxfp_rounding r = {.mode = known[i].mode, .overflow = known[i].overflow};
		struct mxfp_counts counts = {.size = sizeof counts};
		uint32_t code = mxfp_minifloat_encode(info, known[i].x, 0, &r, 0, &counts);
		if (code != known[i].code)
			ck_abort_msg("%s of %08" PRIX32 ": %" PRIX32 " instead of %" PRIX32, info->name, known[i].x, code,
			             known[i].code);
	}
	suite_compared(sizeof known / sizeof known[0]);
}

/* x * 2^-shift, as blocks need it: x of any class, shift over all scales, aimed at the target's range half of the
   time. */
TEST_LOOP(scaled_numbers_round_once, N_CASES)
{
	struct mxfp_rounding r;
	const struct oracle *o = nth_case(_i, &r);
	struct random random = {suite_seed() + (uint64_t)_i};
	int n = o->format->bits <= 8 ? 12000 : 4000;

	for (int i = 0; i < n; i++) {
		uint32_t x = random_f32(&random);
		int shift = (int)random_below(&random, 255) - 127, exponent = (int)(x >> 23 & 0xFF) - 127;
		int near = exponent - o->format->emax - 1 + (int)random_below(&random, 12);
		if (i % 2 != 0 && near >= -127 && near <= 127)
			shift = near;
		r.no_negative_zero = i % 16 == 0;
		compare(o, x, shift, &r, (uint32_t)random_u64(&random));
	}
}

/* r < f * 2^32, exactly: words on both sides of f * 2^32, and the ends. Uses gaps at the bottom, in the middle,
   and past the largest value. */
TEST_LOOP(stochastic_rounding_compares_exactly, N_TARGETS)
{
	const struct oracle *o = &oracles[_i];
	struct mxfp_rounding r = {.mode = MXFP_ROUND_SR};
	struct random random = {suite_seed() + (uint64_t)_i};
	mpfr_t x, f, gap;

	mpfr_inits2(64, x, f, gap, (mpfr_ptr)NULL);
	for (int i = 0; i < (int)suite_share(6000); i++) {
		uint32_t below = i % 3 == 0 ? o->n - 1 : random_below(&random, o->n);
		mpfr_sub(gap, o->magnitude[below + 1], o->magnitude[below], MPFR_RNDN);
		/* A binary32 in the gap: its low end plus a share with few or many bits. */
		mpfr_set_ui_2exp(f, random_below(&random, 1 << 22) >> random_below(&random, 22), -22, MPFR_RNDN);
		mpfr_fma(x, f, gap, o->magnitude[below], MPFR_RNDN);
		mpfr_prec_round(x, 24, MPFR_RNDZ);
		mpfr_prec_round(x, 64, MPFR_RNDZ);
		float number = mpfr_get_flt(x, MPFR_RNDZ);
		uint32_t bits, edge;
		memcpy(&bits, &number, sizeof bits);
		oracle_set_f32(x, bits);
		mpfr_sub(f, x, o->magnitude[below], MPFR_RNDN);
		mpfr_div(f, f, gap, MPFR_RNDN);
		mpfr_mul_2ui(f, f, 32, MPFR_RNDN);
		edge = (uint32_t)mpfr_get_ui(f, MPFR_RNDU);
		r.overflow = (enum mxfp_overflow)(i & 1);
		compare(o, bits, 0, &r, edge);
		compare(o, bits, 0, &r, edge + 1);
		compare(o, bits, 0, &r, edge - 1);
		compare(o, bits | UINT32_C(0x80000000), 0, &r, edge);
		compare(o, bits | UINT32_C(0x80000000), 0, &r, edge - 1);
		compare(o, bits, 0, &r, 0);
		compare(o, bits, 0, &r, UINT32_MAX);
	}
	mpfr_clears(x, f, gap, (mpfr_ptr)NULL);
}

/* The canonical code of every value: not the other NaNs, nor int8's -128. */
static bool is_canonical(const struct mxfp_format_info *f, uint32_t code)
{
	uint32_t x = oracle_decode(f, code), magnitude = x & 0x7FFFFFFF;

	if (f->kind == MXFP_KIND_FIXED)
		return code != 0x80;
	if (f->kind == MXFP_KIND_UFLOAT && (code & 0x80) != 0)
		return false;
	return magnitude <= 0x7F800000 || (f->bits > 8 && (code >> (f->significand_bits - 1) & 1) != 0);
}

TEST_LOOP(decoded_codes_encode_to_themselves, N_CASES)
{
	struct mxfp_rounding r;
	const struct oracle *o = nth_case(_i, &r);
	struct mxfp_counts counts = {.size = sizeof counts};

	for (uint32_t c = 0; c < UINT32_C(1) << o->format->bits; c++) {
		uint32_t x = mxfp_minifloat_decode(o->format, c);
		bool inf = (x & 0x7FFFFFFF) == 0x7F800000, nan = (x & 0x7FFFFFFF) > 0x7F800000;
		if (!is_canonical(o->format, c) || (inf && o->format->bits <= 8 && r.overflow == MXFP_OVERFLOW_SAT) ||
		    (nan && o->format->special != MXFP_SPECIAL_NAN && o->format->special != MXFP_SPECIAL_FNUZ && o->format->bits <= 8))
			continue;
		uint32_t again = mxfp_minifloat_encode(o->format, x, 0, &r, 0, &counts);
		if (again != c)
			ck_abort_msg("%s %" PRIX32 " comes back as %" PRIX32, o->format->name, c, again);
	}
	ck_assert_uint_eq(counts.flushed + counts.saturated + counts.overflowed, 0);
	suite_compared(UINT32_C(1) << o->format->bits);
}

/* The mode that does to -x what `mode` does to x. */
static enum mxfp_round mirrored(enum mxfp_round mode)
{
	return mode == MXFP_ROUND_RTP ? MXFP_ROUND_RTN : mode == MXFP_ROUND_RTN ? MXFP_ROUND_RTP : mode;
}

TEST_LOOP(signs_are_symmetric, N_CASES)
{
	struct mxfp_rounding r;
	const struct oracle *o = nth_case(_i, &r);
	struct mxfp_rounding other = r;
	struct random random = {suite_seed() + (uint64_t)_i};

	if (o->format->kind == MXFP_KIND_UFLOAT || o->format->kind == MXFP_KIND_EXPONENT)
		return;
	other.mode = mirrored(r.mode);
	for (int i = 0; i < (int)suite_share(20000); i++) {
		struct mxfp_counts counts = {.size = sizeof counts};
		uint32_t x = random_f32(&random), word = (uint32_t)random_u64(&random);
		int shift = (int)random_below(&random, 41) - 20;
		uint32_t code = mxfp_minifloat_encode(o->format, x, shift, &r, word, &counts);
		uint32_t negated = mxfp_minifloat_encode(o->format, x ^ UINT32_C(0x80000000), shift, &other, word, &counts);
		uint32_t want = o->format->kind == MXFP_KIND_FIXED ? -code & 0xFF :
		                code ^ UINT32_C(1) << (o->format->bits - 1);
		if (o->format->special == MXFP_SPECIAL_NONE && (x & UINT32_C(0x7FFFFFFF)) > UINT32_C(0x7F800000))
			want = code; /* a NaN has no sign there */
		if (o->format->special == MXFP_SPECIAL_FNUZ && (code & 0x7F) == 0)
			want = code; /* neither has zero here */
		if (negated != want)
			ck_abort_msg("%s of -(%08" PRIX32 "): %" PRIX32 " beside %" PRIX32, o->format->name, x, negated, code);
	}
	suite_compared(20000);
}

/* Magnitudes of ascending positive numbers ascend, whatever the mode; for sr under one random word. */
TEST_LOOP(encoding_is_monotone, N_CASES)
{
	struct mxfp_rounding r;
	const struct oracle *o = nth_case(_i, &r);
	uint32_t last = 0, step = 0x7F7FFFFF / 20000;

	for (uint32_t x = 1; x < 0x7F800000; x += step) {
		struct mxfp_counts counts = {.size = sizeof counts};
		uint32_t code = mxfp_minifloat_encode(o->format, x, 0, &r, 0x80000000, &counts);
		if (code < last)
			ck_abort_msg("%s of %08" PRIX32 ": %" PRIX32 " after %" PRIX32, o->format->name, x, code, last);
		last = code;
	}
	suite_compared(20000);
}

int main(void)
{
	for (int i = 0; i < N_TARGETS; i++)
		oracle_init(&oracles[i], targets[i]);
	int status = suite_run(NULL);
	for (int i = 0; i < N_TARGETS; i++)
		oracle_clear(&oracles[i]);
	return status;
}
