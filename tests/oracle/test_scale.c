/* SPDX-License-Identifier: MIT */
/* The rules that choose a block's scale against exact comparisons written from the contract's table. `mse`, which
   looks at the whole block, is in test_mx.c. */
#include "scale.h"

#include <inttypes.h>

#include "bits.h"
#include "oracle/inputs.h"
#include "oracle/oracle_mx.h"
#include "suite.h"

static const enum mxfp_format elements[] = {MXFP_FORMAT_E5M2, MXFP_FORMAT_E4M3, MXFP_FORMAT_E3M2,
                                            MXFP_FORMAT_E2M3, MXFP_FORMAT_E2M1, MXFP_FORMAT_INT8};

enum { N_ELEMENTS = sizeof elements / sizeof elements[0], N_RULES = MXFP_RULE_LOG_NEAREST + 1 };

static struct oracle oracles[N_ELEMENTS];

static void compare(enum mxfp_rule rule, const struct oracle *o, uint32_t amax)
{
	int want = oracle_scale_clamp(oracle_scale_unclamped(rule, o, amax)), s = mxfp_ref_scale(rule, o->format, amax);

	if (s != want)
		ck_abort_msg("%s %s amax %08" PRIX32 ": %d instead of %d", o->format->name,
		             mxfp_option_name(MXFP_OPTION_RULE, (int)rule), amax, s, want);
}

/* Every exponent with every significand at which some rule changes its mind: k / 128, and the units beside it. */
TEST_LOOP(thresholds_at_every_exponent, N_ELEMENTS * N_RULES)
{
	const struct oracle *o = &oracles[_i / N_RULES];
	enum mxfp_rule rule = (enum mxfp_rule)(_i % N_RULES);

	for (uint32_t field = 0; field < 255; field++)
		for (uint32_t k = 0; k < 128; k += field % 16 == 0 || k >= 96 ? 1 : 8) {
			uint32_t amax = field << 23 | k << 16;
			compare(rule, o, amax + 1);
			if (amax == 0)
				continue;
			compare(rule, o, amax);
			compare(rule, o, amax - 1);
			suite_compared(3);
		}
}

/* The only threshold that is no such k / 128. */
TEST_LOOP(largest_over_root_of_two, N_ELEMENTS)
{
	const struct oracle *o = &oracles[_i];
	double edge = mpfr_get_d(o->magnitude[o->n - 1], MPFR_RNDN) / 1.4142135623730950488;
	uint32_t near = mxfp_f32_bits((float)edge) & 0x7FFFFF;

	for (uint32_t field = 1; field < 255; field++)
		for (uint32_t i = 0; i < 9; i++)
			compare(MXFP_RULE_LOG_NEAREST, o, (field << 23 | near) - 4 + i);
	suite_compared(254 * 9);
}

/* Subnormals: the exponent is that of the leading bit, wherever it is. */
TEST_LOOP(subnormal_amax, N_ELEMENTS * N_RULES)
{
	const struct oracle *o = &oracles[_i / N_RULES];
	enum mxfp_rule rule = (enum mxfp_rule)(_i % N_RULES);

	for (int top = 0; top < 23; top++)
		for (uint32_t k = 0; k < 64; k++) {
			uint32_t amax = top >= 6 ? (64 + k) << (top - 6) : (64 + k) >> (6 - top);
			compare(rule, o, amax);
			compare(rule, o, amax + 1);
			if (amax > 1)
				compare(rule, o, amax - 1);
			suite_compared(3);
		}
}

TEST_LOOP(random_amax, N_ELEMENTS * N_RULES)
{
	const struct oracle *o = &oracles[_i / N_RULES];
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(20000); i++) {
		uint32_t amax = random_f32(&r) & 0x7FFFFFFF;
		if (amax != 0 && amax < 0x7F800000)
			compare((enum mxfp_rule)(_i % N_RULES), o, amax);
	}
	suite_compared(suite_share(20000));
}

/* Worked by hand: amax as a float, s. The column of thresholds is the contract's and formats.md's table. */
TEST(values_by_hand)
{
	static const struct {
		enum mxfp_format format;
		enum mxfp_rule rule;
		uint32_t amax;
		int s;
	} known[] = {
		{MXFP_FORMAT_E2M1, MXFP_RULE_FLOOR, 0x40C00000, 0},    /* 6 = 1.5 * 2^2 */
		{MXFP_FORMAT_E2M1, MXFP_RULE_FLOOR, 0x40FFFFFF, 0},
		{MXFP_FORMAT_E2M1, MXFP_RULE_RCEIL, 0x40C00000, 0},
		{MXFP_FORMAT_E2M1, MXFP_RULE_RCEIL, 0x40C00001, 1},
		{MXFP_FORMAT_E2M1, MXFP_RULE_EVEN, 0x40DFFFFF, 0},     /* below 7 */
		{MXFP_FORMAT_E2M1, MXFP_RULE_EVEN, 0x40E00000, 1},
		{MXFP_FORMAT_E2M1, MXFP_RULE_FIT, 0x40E00000, 1},
		{MXFP_FORMAT_E2M1, MXFP_RULE_CEIL, 0x40800000, 0},     /* 4 */
		{MXFP_FORMAT_E2M1, MXFP_RULE_CEIL, 0x40800001, 1},
		{MXFP_FORMAT_E2M1, MXFP_RULE_TRN3, 0x40800000, 1},
		{MXFP_FORMAT_E4M3, MXFP_RULE_RCEIL, 0x43E00000, 0},    /* 448 */
		{MXFP_FORMAT_E4M3, MXFP_RULE_RCEIL, 0x43E00001, 1},
		{MXFP_FORMAT_E4M3, MXFP_RULE_FIT, 0x43E80000, 0},      /* 464 rounds to 448 */
		{MXFP_FORMAT_E4M3, MXFP_RULE_FIT, 0x43E80001, 1},
		{MXFP_FORMAT_E4M3, MXFP_RULE_EVEN, 0x43F7FFFF, 0},     /* below 496 = 1.9375 * 256 */
		{MXFP_FORMAT_E4M3, MXFP_RULE_EVEN, 0x43F80000, 1},
		{MXFP_FORMAT_E4M3, MXFP_RULE_EVEN_M1, 0x43DFFFFF, 0},  /* 1.75 * 256 */
		{MXFP_FORMAT_E4M3, MXFP_RULE_EVEN_M1, 0x43E00000, 1},
		{MXFP_FORMAT_E4M3, MXFP_RULE_TRN3, 0x43800000, 1},
		{MXFP_FORMAT_E5M2, MXFP_RULE_FIT, 0x476FFFFF, 0},      /* below 61440 = 1.875 * 2^15 */
		{MXFP_FORMAT_E5M2, MXFP_RULE_FIT, 0x47700000, 1},
		{MXFP_FORMAT_E2M3, MXFP_RULE_RCEIL, 0x40F00000, 0},    /* 7.5 */
		{MXFP_FORMAT_E2M3, MXFP_RULE_RCEIL, 0x40F00001, 1},
		{MXFP_FORMAT_E3M2, MXFP_RULE_EVEN, 0x41EFFFFF, 0},     /* below 30 */
		{MXFP_FORMAT_E3M2, MXFP_RULE_EVEN, 0x41F00000, 1},
		{MXFP_FORMAT_INT8, MXFP_RULE_EVEN, 0x3FFEFFFF, 0},     /* 2 - 2^-7 = 1.9921875 */
		{MXFP_FORMAT_INT8, MXFP_RULE_EVEN, 0x3FFF0000, 1},
		{MXFP_FORMAT_INT8, MXFP_RULE_RCEIL, 0x3FFE0000, 0},    /* 127/64 */
		{MXFP_FORMAT_INT8, MXFP_RULE_RCEIL, 0x3FFE0001, 1},
		{MXFP_FORMAT_INT8, MXFP_RULE_TRN3, 0x3F800000, 1},
		{MXFP_FORMAT_INT8, MXFP_RULE_CEIL, 0x7F7FFFFF, 127},   /* 128 clamps */
		{MXFP_FORMAT_E5M2, MXFP_RULE_CEIL, 0x00000001, -127},  /* -164 clamps */
		{MXFP_FORMAT_INT8, MXFP_RULE_FLOOR, 0x00400000, -127}, /* 2^-127 */
		{MXFP_FORMAT_INT8, MXFP_RULE_FLOOR, 0x00800000, -126},
		{MXFP_FORMAT_E2M1, MXFP_RULE_RNE, 0x408FFFFF, -1},     /* 4.5 = 0.75 * 6 is the tie of 2^-1 and 2^0 */
		{MXFP_FORMAT_E2M1, MXFP_RULE_RNE, 0x40900000, 0},
		{MXFP_FORMAT_E2M1, MXFP_RULE_RNE, 0x40FFFFFF, 0},
		{MXFP_FORMAT_E4M3, MXFP_RULE_RNE, 0x43A7FFFF, -1},     /* 336 = 0.75 * 448 */
		{MXFP_FORMAT_E4M3, MXFP_RULE_RNE, 0x43A80000, 0},
		{MXFP_FORMAT_INT8, MXFP_RULE_RNE, 0x3FBE7FFF, -1},     /* 0.75 * 127/64 */
		{MXFP_FORMAT_INT8, MXFP_RULE_RNE, 0x3FBE8000, 0},
		/* The least significand t with 2 t^2 >= the largest's squared, for each format. */
		{MXFP_FORMAT_E2M1, MXFP_RULE_LOG_NEAREST, 0x4087C3B6, -1}, /* 6 / sqrt 2 = 4.24264 */
		{MXFP_FORMAT_E2M1, MXFP_RULE_LOG_NEAREST, 0x4087C3B7, 0},
		{MXFP_FORMAT_E2M3, MXFP_RULE_LOG_NEAREST, 0x40A9B4A4, -1},
		{MXFP_FORMAT_E2M3, MXFP_RULE_LOG_NEAREST, 0x40A9B4A5, 0},
		{MXFP_FORMAT_E3M2, MXFP_RULE_LOG_NEAREST, 0x419E6454, -1},
		{MXFP_FORMAT_E3M2, MXFP_RULE_LOG_NEAREST, 0x419E6455, 0},
		{MXFP_FORMAT_E4M3, MXFP_RULE_LOG_NEAREST, 0x439E6454, -1}, /* 448 / sqrt 2 = 316.784 */
		{MXFP_FORMAT_E4M3, MXFP_RULE_LOG_NEAREST, 0x439E6455, 0},
		{MXFP_FORMAT_E5M2, MXFP_RULE_LOG_NEAREST, 0x471E6454, -1},
		{MXFP_FORMAT_E5M2, MXFP_RULE_LOG_NEAREST, 0x471E6455, 0},
		{MXFP_FORMAT_INT8, MXFP_RULE_LOG_NEAREST, 0x3FB39AE9, -1},
		{MXFP_FORMAT_INT8, MXFP_RULE_LOG_NEAREST, 0x3FB39AEA, 0},
		{MXFP_FORMAT_E2M1, MXFP_RULE_LOG_NEAREST, 0x7F7FFFFF, 125}, /* log2(FLT_MAX / 6) = 125.415 */
		{MXFP_FORMAT_E2M1, MXFP_RULE_LOG_NEAREST, 0x00000001, -127},
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (mxfp_ref_scale(known[i].rule, mxfp_format_get_info(known[i].format), known[i].amax) != known[i].s)
			ck_abort_msg("row %d", (int)i);
	suite_compared(sizeof known / sizeof known[0]);
}

/* Two rules may have one less. */
TEST_LOOP(rules_stay_within_one_of_floor, N_ELEMENTS)
{
	const struct oracle *o = &oracles[_i];
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(20000); i++) {
		uint32_t amax = random_f32_between(&r, -126, 127) & 0x7FFFFFFF;
		int floor = mxfp_ref_scale(MXFP_RULE_FLOOR, o->format, amax);
		for (int rule = 0; rule < N_RULES; rule++) {
			int s = mxfp_ref_scale((enum mxfp_rule)rule, o->format, amax);
			int least = rule == MXFP_RULE_RNE || rule == MXFP_RULE_LOG_NEAREST ? floor - 1 : floor;

			if (s < least || s > least + 1 || s < -127 || s > 127)
				ck_abort_msg("%s rule %d amax %08" PRIX32 ": %d", o->format->name, rule, amax, s);
		}
	}
	suite_compared(suite_share(20000) * N_RULES);
}

int main(void)
{
	for (int i = 0; i < N_ELEMENTS; i++)
		oracle_init(&oracles[i], elements[i]);
	int status = suite_run(NULL);
	for (int i = 0; i < N_ELEMENTS; i++)
		oracle_clear(&oracles[i]);
	return status;
}
