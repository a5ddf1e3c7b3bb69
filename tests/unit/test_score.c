/* SPDX-License-Identifier: MIT */
/* Statistics of logits: by hand, and beside what score.py computes with decimal numbers of 40 digits. */
#include "eval/score.h"

#include <math.h>
#include <sleef.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lanes.h"
#include "eval/judge.h"
#include "suite.h"

enum { VOCABULARY = 50, ROWS = 40 };

/* SLEEF's functions err by 1 ulp, and sums of some thousand terms by little more. */
static void assert_near(double x, double want)
{
	ck_assert_msg(fabs(x - want) <= 4e-14 * fabs(want), "%.17g, not %.17g", x, want);
}

static void assert_mean(struct score_mean x, struct score_mean want)
{
	assert_near(x.mean, want.mean);
	assert_near(x.error, want.error);
}

TEST(two_equal_logits_are_one_bit)
{
	const float logits[] = {3, 3};
	struct score score;

	score_row(&score, logits, 2, 1);
	assert_near(score.nll, 0.69314718055994530942);
	ck_assert_double_eq(score.divergence, 0);
}

/* p_base = 1/2, 1/2 and p = 1/4, 1/4, 1/2 with a third token that the base excludes: divergence ln 2. */
TEST(excluded_tokens_count_nothing_in_the_base)
{
	const float base[] = {0, 0, -INFINITY}, logits[] = {0, 0, (float)0.69314718055994530942};
	struct score score;

	score_beside(&score, logits, base, 3, 0);
	ck_assert_double_eq_tol(score.divergence, 0.69314718055994530942, 1e-8); /* ln 2 in binary32 */
	ck_assert_double_eq_tol(score.change, -0.25, 1e-8);
	ck_assert(!score.agrees);
	score_beside(&score, base, logits, 3, 2);
	ck_assert_double_eq(score.divergence, (double)INFINITY);
	ck_assert_double_eq(score.nll, (double)INFINITY);
	ck_assert_double_eq_tol(score.change, -0.5, 1e-8);
}

TEST(the_same_distribution_diverges_by_nothing)
{
	const float base[] = {1.5F, -2, 7.25F, 7.25F}, moved[] = {101.5F, 98, 107.25F, 107.25F};
	struct score score;

	score_beside(&score, moved, base, 4, 1);
	ck_assert_double_eq(score.divergence, 0);
	ck_assert_double_eq(score.change, 0);
	ck_assert_double_eq(score.nll, score.base_nll);
	ck_assert(score.agrees);
}

TEST(large_logits_do_not_overflow)
{
	const float logits[] = {3e38F, -3e38F, 3e38F};
	struct score score;

	score_row(&score, logits, 3, 2);
	assert_near(score.nll, 0.69314718055994530942);
	score_row(&score, logits, 3, 1);
	assert_near(score.nll, 2 * (double)3e38F);
}

TEST_LOOP(rows_without_a_prediction_are_nan, 3)
{
	const float rows[][3] = {{0, NAN, 1}, {INFINITY, 0, 0}, {-INFINITY, -INFINITY, -INFINITY}}, base[] = {0, 1, 2};
	struct score scores[2];
	struct score_summary s;
	double scratch[2];

	score_row(&scores[0], rows[_i], 3, 0);
	ck_assert_double_nan(scores[0].nll);
	score_beside(&scores[0], base, rows[_i], 3, 0);
	ck_assert_double_nan(scores[0].nll);
	score_beside(&scores[0], rows[_i], base, 3, 0);
	ck_assert_double_nan(scores[0].divergence);
	score_beside(&scores[1], base, base, 3, 0);
	score_summarize(&s, scores, 2, true, scratch);
	ck_assert_uint_eq(s.n_nan, 1);
	ck_assert_double_nan(s.perplexity.mean);
	ck_assert_double_nan(s.divergence.mean);
	ck_assert_double_nan(s.most);
	ck_assert_uint_eq(score_sample(rows[_i], 3, 0, 0), SIZE_MAX);
	ck_assert_uint_eq(score_sample(rows[_i], 3, 1, 0.5), SIZE_MAX);
}

/* nll 1, 2, 3 beside 1, 1, 1: means 2 and 1, squares of deviations 2, over 2 and 3. */
TEST(summary_by_hand)
{
	const struct score scores[] = {
		{1, 1, 0, 0, true}, {2, 1, 0.5, -0.5, true}, {3, 1, 4, 0.5, false},
	};
	struct score_summary s;
	double scratch[3];

	score_summarize(&s, scores, 3, true, scratch);
	ck_assert_uint_eq(s.n, 3);
	ck_assert_uint_eq(s.n_nan, 0);
	assert_mean(s.nll, (struct score_mean){2, sqrt(1.0 / 3)});
	assert_mean(s.perplexity, (struct score_mean){7.3890560989306502272, 7.3890560989306502272 * sqrt(1.0 / 3)});
	assert_mean(s.base_perplexity, (struct score_mean){2.7182818284590452354, 0});
	assert_mean(s.ratio, (struct score_mean){1, sqrt(1.0 / 3)});
	assert_near(s.divergence.mean, 1.5);
	ck_assert_double_eq(s.median, 0.5);
	assert_near(s.percentile_99, 0.98 * 4 + 0.02 * 0.5);
	ck_assert_double_eq(s.most, 4);
	assert_mean(s.agreement, (struct score_mean){2.0 / 3, sqrt(2.0 / 9 / 2)});
	assert_mean(s.change, (struct score_mean){0, sqrt(0.5 / 2 / 3)});
	/* Squares 0, 1/4, 1/4: mean 1/6, squares of deviations 1/24. */
	assert_mean(s.change_rms, (struct score_mean){sqrt(1.0 / 6), sqrt(1.0 / 24 / 2 / 3) / 2 / sqrt(1.0 / 6)});
}

TEST(few_predictions_have_no_error)
{
	const struct score one = {1, 1, 0.25, 0, true};
	struct score_summary s;
	double scratch[1];

	score_summarize(&s, &one, 1, true, scratch);
	ck_assert_double_eq(s.nll.mean, 1);
	ck_assert_double_nan(s.nll.error);
	ck_assert_double_eq(s.median, 0.25);
	ck_assert_double_eq(s.percentile_99, 0.25);
	score_summarize(&s, &one, 0, true, scratch);
	ck_assert_double_nan(s.nll.mean);
	ck_assert_double_nan(s.most);
}

static uint64_t state;

static unsigned bits(int n)
{
	state = state * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)(state >> (64 - n));
}

static float logit(void)
{
	return ((float)bits(10) - 512) / 64;
}

TEST(made_up_logits_score_as_in_decimal_numbers)
{
	static const struct score_summary want = {
		.nll = {1.045240045020995900e+01, 7.237810038863941031e-01},
		.ratio = {1.251331963848368312e-01, 1.649421852084806128e-01},
		.divergence = {5.251701333569001040e-01, 3.240185722227918036e-02},
		.agreement = {4.000000000000000222e-01, 7.844645405527361781e-02},
		.change = {-4.455156370207154909e-03, 2.731591756132330153e-03},
		.perplexity = {3.462739636561242514e+04, 2.506265170347503590e+04},
		.base_perplexity = {3.055450001722929301e+04, 2.178342879816014829e+04},
		.change_rms = {1.763095475712054411e-02, 5.138640328426276500e-03},
		.median = 5.373889433888419109e-01, .percentile_99 = 9.680590874203640617e-01,
		.most = 9.989168073361056610e-01,
	};
	struct score scores[ROWS];
	struct score_summary s;
	double scratch[ROWS];

	state = 1;
	for (size_t row = 0; row < ROWS; row++) {
		float base[VOCABULARY], logits[VOCABULARY];
		struct score alone;

		for (size_t i = 0; i < VOCABULARY; i++)
			base[i] = logit();
		for (size_t i = 0; i < VOCABULARY; i++)
			logits[i] = base[i] + logit() / 4;
		const uint32_t token = bits(10) % VOCABULARY;
		score_beside(&scores[row], logits, base, VOCABULARY, token);
		score_row(&alone, logits, VOCABULARY, token);
		ck_assert_double_eq(alone.nll, scores[row].nll);
		score_row(&alone, base, VOCABULARY, token);
		ck_assert_double_eq(alone.nll, scores[row].base_nll);
	}
	score_summarize(&s, scores, ROWS, true, scratch);
	assert_mean(s.nll, want.nll);
	assert_mean(s.perplexity, want.perplexity);
	assert_mean(s.base_perplexity, want.base_perplexity);
	assert_mean(s.ratio, want.ratio);
	assert_mean(s.divergence, want.divergence);
	assert_near(s.median, want.median);
	assert_near(s.percentile_99, want.percentile_99);
	assert_near(s.most, want.most);
	assert_mean(s.agreement, want.agreement);
	assert_mean(s.change, want.change);
	assert_mean(s.change_rms, want.change_rms);
	suite_compared(ROWS);
}

/* The exponentials of each tier are those of SLEEF's plain C, also where they are tiny, 0 or few. */
TEST(exponentials_have_the_same_bits)
{
	const struct lanes *lanes = lanes_active();
	float logits[1000];
	double x[1000], e[1000];

	state = 3;
	for (size_t n = 1; n <= 1000; n += n < 20 ? 1 : 49) {
		for (size_t i = 0; i < n; i++)
			logits[i] = i % 7 == 3 ? -INFINITY : i % 5 == 4 ? 100 * logit() : logit();
		lanes->exponentials(x, e, logits, n, 9);
		for (size_t i = 0; i < n; i++) {
			const double want = (double)logits[i] - 9;

			ck_assert_mem_eq(&x[i], &want, sizeof want);
			const double power = Sleef_cinz_expd1_u10purec(want);
			ck_assert_mem_eq(&e[i], &power, sizeof power);
		}
	}
}

/* Of rows of some batches, each place once: the first of two largest, and the first NaN. */
TEST(the_top_is_found_everywhere)
{
	const struct lanes *lanes = lanes_active();
	float x[300];

	for (size_t n = 1; n <= 300; n += 13)
		for (size_t i = 0; i < n; i++) {
			for (size_t j = 0; j < n; j++)
				x[j] = -(float)(j % 3);
			x[i] = x[n - 1] = 0.5F;
			ck_assert_uint_eq(lanes->find_top(x, n), i);
			x[n / 2] = NAN;
			ck_assert_uint_eq(lanes->find_top(x, n), n / 2);
			for (size_t j = 0; j < n; j++)
				x[j] = -INFINITY;
			ck_assert_uint_eq(lanes->find_top(x, n), 0);
			x[i] = -3e38F;
			ck_assert_uint_eq(lanes->find_top(x, n), i);
		}
}

/* The true divergence of such neighbours is about 1e-16, less than what rounding changes. */
TEST(a_divergence_is_never_negative)
{
	float base[VOCABULARY], logits[VOCABULARY];
	struct score score;

	state = 2;
	for (int row = 0; row < 2000; row++) {
		for (size_t i = 0; i < VOCABULARY; i++) {
			base[i] = logit();
			logits[i] = nextafterf(base[i], 9);
		}
		score_beside(&score, logits, base, VOCABULARY, 0);
		ck_assert(score.divergence >= 0 && score.divergence < 1e-12);
	}
}

/* ln 1.02 is 0.0198: what is sure by two standard errors, on either side, and what is not. */
TEST(judged_by_two_errors)
{
	const struct {
		struct score_mean ratio, divergence;
		enum judgement want;
	} rows[] = {
		{{0.01, 0.0048}, {0.03, 0.009}, JUDGE_FINE},  {{0.01, 0.0050}, {0.03, 0.009}, JUDGE_OPEN},
		{{0.01, 0.0048}, {0.03, 0.011}, JUDGE_OPEN},  {{0.03, 0.0050}, {0.03, 0.009}, JUDGE_COSTLY},
		{{0.03, 0.0052}, {0.03, 0.009}, JUDGE_OPEN},  {{-0.5, 0.0010}, {0.06, 0.004}, JUDGE_COSTLY},
		{{0.01, (double)NAN}, {0.03, (double)NAN}, JUDGE_OPEN}, {{(double)NAN, 0}, {0.03, 0}, JUDGE_BROKEN},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const struct score_summary s = {.ratio = rows[i].ratio, .divergence = rows[i].divergence};

		ck_assert_msg(judge(&s) == rows[i].want, "row %zu", i);
	}
	const struct score_summary broken = {.n_nan = 1};
	ck_assert_int_eq(judge(&broken), JUDGE_BROKEN);
}

/* Fine ones by bits, then those that may be, then by divergence, and what is broken last. */
/* 2 errors / margin, squared, times 1,000 tokens: all criteria must be under to be fine, and one over tells that it is not. */
TEST(tokens_that_tell)
{
	const double perplexity = log1p(0.02);
	const struct {
		double ratio, ratio_error, divergence, divergence_error, tokens;
		const char *words;
	} rows[] = {
		{perplexity - 0.01, 0.01, 0.03, 0.015, 4000, "takes about 4000 tokens to tell"},
		{perplexity - 0.01, 0.001, 0.03, 0.015, 2250, "takes about 2300 tokens to tell"},
		{perplexity + 0.01, 0.01, 0.03, 0.001, 4000, "takes about 4000 tokens to tell"},
		{perplexity + 0.01, 0.01, 0.06, 0.0075, 2250, "takes about 2300 tokens to tell"},
		{perplexity - 0.01, 0.01, 0.06, 0.015, 9000, "takes about 9000 tokens to tell"},
		{perplexity, 0.01, 0.03, 0.001, HUGE_VAL, "takes more tokens to tell"},
	};
	struct evaluation *e = calloc(1, sizeof *e);
	char words[JUDGE_WORDS];

	ck_assert_ptr_nonnull(e);
	e->n_tokens = 1000;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const struct score_summary s = {.ratio = {rows[i].ratio, rows[i].ratio_error},
		                                .divergence = {rows[i].divergence, rows[i].divergence_error}};
		const double tokens = judge_tokens(&s, e);

		ck_assert_int_eq(judge(&s), JUDGE_OPEN);
		ck_assert_msg(isinf(rows[i].tokens) ? isinf(tokens) : fabs(tokens - rows[i].tokens) < 1e-6 * tokens, "row %zu: %g", i, tokens);
		ck_assert_str_eq(judge_words(&s, e, words), rows[i].words);
	}
	free(e);
}

TEST(ranked_by_judgement)
{
	static const struct {
		uint64_t bytes;
		double ratio, divergence;
	} rows[] = {{8, 0, 0.001}, {4, 0.3, 0.30}, {6, 0, 0.020}, {4, (double)NAN, 0}, {5, 0.2, 0.20}, {6, 0, 0.010}};
	static const size_t want[] = {6, 3, 1, 5, 2, 4};
	struct evaluation *e = calloc(1, sizeof *e);
	size_t order[EVALUATE_TRIALS];

	ck_assert_ptr_nonnull(e);
	e->n_results = 7;
	for (size_t i = 0; i < 6; i++) {
		e->results[i + 1].size = (struct network_size){8, rows[i].bytes};
		e->results[i + 1].summary.ratio.mean = rows[i].ratio;
		e->results[i + 1].summary.divergence.mean = rows[i].divergence;
	}
	ck_assert_uint_eq(judge_rank(order, e), 6);
	for (size_t i = 0; i < 6; i++)
		ck_assert_uint_eq(order[i], want[i]);
	free(e);
}

/* Logits ln 1, ln 2, ln 1 at temperature 1: shares 1/4, 1/2, 1/4. */
TEST(sampling_draws_by_the_sums)
{
	const float logits[] = {0, (float)0.69314718055994530942, 0};

	ck_assert_uint_eq(score_sample(logits, 3, 0, 0), 1);
	ck_assert_uint_eq(score_sample(logits, 3, 1, 0), 0);
	ck_assert_uint_eq(score_sample(logits, 3, 1, 0.2499), 0);
	ck_assert_uint_eq(score_sample(logits, 3, 1, 0.2501), 1);
	ck_assert_uint_eq(score_sample(logits, 3, 1, 0.7499), 1);
	ck_assert_uint_eq(score_sample(logits, 3, 1, 0.7501), 2);
	/* At temperature 1/2 the shares are 1/6, 2/3, 1/6, and at 1e300 thirds. */
	ck_assert_uint_eq(score_sample(logits, 3, 0.5, 0.1666), 0);
	ck_assert_uint_eq(score_sample(logits, 3, 0.5, 0.1667), 1);
	ck_assert_uint_eq(score_sample(logits, 3, 0.5, 0.8334), 2);
	ck_assert_uint_eq(score_sample(logits, 3, 1e300, 0.3334), 1);
	ck_assert_uint_eq(score_sample(logits, 3, 1e300, 0.6667), 2);
	/* What cannot come is never drawn, not even by 0. */
	const float masked[] = {-INFINITY, 0, -INFINITY};
	ck_assert_uint_eq(score_sample(masked, 3, 1, 0), 1);
	ck_assert_uint_eq(score_sample(masked, 3, 1, 0x1.fffffffffffffp-1), 1);
	ck_assert_uint_eq(score_sample(masked, 3, 0x1p-1074, 0.5), 1);
}
