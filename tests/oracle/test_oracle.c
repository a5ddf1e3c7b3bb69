/* SPDX-License-Identifier: MIT */
/* The oracle itself: against IEEE rounding as MPFR does it without any table, and against tables of the
   specifications. */
#include "oracle/oracle.h"

#include <inttypes.h>

#include "bits.h"
#include "oracle/inputs.h"
#include "suite.h"

/* Rounds x by MPFR's own emulation of a format: precision, exponent range, mpfr_subnormalize(). */
static uint32_t emulated(const struct mxfp_format_info *f, uint32_t x, mpfr_rnd_t mode)
{
	MPFR_DECL_INIT(in, 24);
	mpfr_t out;
	int emin = 1 - f->bias;

	oracle_set_f32(in, x);
	mpfr_init2(out, (mpfr_prec_t)f->significand_bits + 1);
	mpfr_set_emin(emin - (int)f->significand_bits + 1);
	mpfr_set_emax(f->emax + 1);
	int ternary = mpfr_set(out, in, mode);
	ternary = mpfr_check_range(out, ternary, mode);
	mpfr_subnormalize(out, ternary, mode);
	mpfr_set_emin(mpfr_get_emin_min());
	mpfr_set_emax(mpfr_get_emax_max());
	float rounded = mpfr_get_flt(out, MPFR_RNDN);
	mpfr_clear(out);
	return mxfp_f32_bits(rounded);
}

TEST_LOOP(wide_formats_round_as_mpfr_emulates_them, 3)
{
	static const enum mxfp_format formats[] = {MXFP_FORMAT_BF16, MXFP_FORMAT_F16, MXFP_FORMAT_TF32};
	static const mpfr_rnd_t modes[] = {[MXFP_ROUND_RNE] = MPFR_RNDN, [MXFP_ROUND_RTZ] = MPFR_RNDZ,
	                                   [MXFP_ROUND_RTP] = MPFR_RNDU, [MXFP_ROUND_RTN] = MPFR_RNDD};
	struct random r = {suite_seed()};
	struct oracle o;

	oracle_init(&o, formats[_i]);
	for (int i = 0; i < (int)suite_share(200000); i++) {
		static const enum mxfp_round turns[] = {MXFP_ROUND_RNE, MXFP_ROUND_RTZ, MXFP_ROUND_RTP, MXFP_ROUND_RTN};
		const struct mxfp_rounding rounding = {.mode = turns[i % 4]};
		struct mxfp_counts counts = {.size = sizeof counts};
		int emax = o.format->emax;
		uint32_t x = i % 3 == 0 ? random_f32(&r) : random_f32_between(&r, emax - 31 - i % 2 * 120, emax);
		if ((x & 0x7FFFFFFF) > 0x7F800000)
			continue;
		uint32_t code = oracle_encode(&o, x, 0, &rounding, 0, &counts);
		uint32_t want = emulated(o.format, x, modes[rounding.mode]);
		if (oracle_decode(o.format, code) != want)
			ck_abort_msg("%s of %08" PRIX32 " is %08" PRIX32 ", MPFR says %08" PRIX32, o.format->name, x, code, want);
	}
	suite_compared(suite_share(200000));
	oracle_clear(&o);
}

/* OCP MX v1.0, table of FP4 E2M1; and int8, whose 80 is -2. */
TEST(small_formats_have_the_values_of_their_tables)
{
	static const float e2m1[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
	const struct mxfp_format_info *f = mxfp_format_get_info(MXFP_FORMAT_E2M1);

	for (uint32_t c = 0; c < 8; c++) {
		ck_assert_uint_eq(oracle_decode(f, c), mxfp_f32_bits(e2m1[c]));
		ck_assert_uint_eq(oracle_decode(f, c | 8), mxfp_f32_bits(-e2m1[c]));
	}
	f = mxfp_format_get_info(MXFP_FORMAT_INT8);
	for (int c = -128; c < 128; c++)
		ck_assert_uint_eq(oracle_decode(f, (uint32_t)c & 0xFF), mxfp_f32_bits((float)c / 64));
	/* ONNX, "Float stored in 8 bits": of both the only zero is 00, NaN is 80, and 01 is 2^-10, or 2^-17. */
	for (int i = 0; i < 2; i++) {
		f = mxfp_format_get_info(i == 0 ? MXFP_FORMAT_E4M3FNUZ : MXFP_FORMAT_E5M2FNUZ);
		ck_assert_uint_eq(oracle_decode(f, 0), 0);
		ck_assert_uint_eq(oracle_decode(f, 0x80), 0x7FC00000);
		ck_assert_uint_eq(oracle_decode(f, 0x81), mxfp_f32_bits(i == 0 ? -0x1p-10F : -0x1p-17F));
	}
	suite_compared(16 + 256 + 6);
}

/* What overflow is decided by: the next exponent, significand or integer. */
TEST(the_magnitude_past_the_largest_follows_the_pattern)
{
	static const struct {
		enum mxfp_format format;
		float largest, next;
	} known[] = {{MXFP_FORMAT_E4M3, 448, 480},  {MXFP_FORMAT_E5M2, 57344, 65536},   {MXFP_FORMAT_E2M1, 6, 8},
	             {MXFP_FORMAT_E2M3, 7.5F, 8},   {MXFP_FORMAT_E3M2, 28, 32},         {MXFP_FORMAT_INT8, 127 / 64.0F, 2},
	             {MXFP_FORMAT_E3M4, 15.5F, 16}, {MXFP_FORMAT_E4M3IEEE, 240, 256}, {MXFP_FORMAT_F16, 65504, 65536},
	             {MXFP_FORMAT_E4M3FNUZ, 240, 256}, {MXFP_FORMAT_E5M2FNUZ, 57344, 65536}};
	struct oracle o;

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		oracle_init(&o, known[i].format);
		ck_assert(mpfr_cmp_d(o.magnitude[o.n - 1], (double)known[i].largest) == 0);
		ck_assert(mpfr_cmp_d(o.magnitude[o.n], (double)known[i].next) == 0);
		oracle_clear(&o);
	}
	suite_compared(2 * sizeof known / sizeof known[0]);
}
