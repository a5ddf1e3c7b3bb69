/* SPDX-License-Identifier: MIT */
/* Products of attention in every tier that the machine has: any number of rows and of elements, passes that begin anywhere,
   hostile numbers. */
#include <stdio.h>

#include "equal/equal_slots.h"
#include "equal/patterns.h"
#include "format.h"
#include "suite.h"

enum { MOST_ROWS = 20, MOST_K = 300, GAP = 9, CASES = 1500, SINK = 0, A = 1, PANEL = 2 };

static struct equal equal;

struct trial {
	struct equal_case c;
	struct mxfp_attend_job job;
};

static uint32_t a[MOST_ROWS * (MOST_K + GAP)], panel[MOST_K * MXFP_ATTEND_COLS];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	(void)c;
	return (equal_kernel *)table->attend;
}

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_attend_job j = *(const struct mxfp_attend_job *)job;

	(void)outcome;
	j.c = (float *)(void *)array[SINK];
	j.a = (const float *)(const void *)array[A];
	j.panel = (const float *)(const void *)array[PANEL];
	((mxfp_attend_kernel *)k)(&j);
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_attend_job *j = c->job;

	snprintf(text, size, "attend %zu rows x %zu, the first pass %zu, strides %zu and %zu", j->rows, j->k, j->first_pass, j->a_stride,
	         j->c_stride);
}

/* Numbers of one kind, or in a third of the cases of all kinds; exponents whose products and sums stay in range, or any. */
static void fill(struct random *r, uint32_t *x, size_t n)
{
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);
	struct pattern_group g = pattern_any(r, f32, 16);
	const bool mixed = random_below(r, 3) == 0;

	for (size_t i = 0; i < n; i += 16) {
		if (mixed)
			g = pattern_any(r, f32, 16);
		pattern_fill(r, &g, x + i, n - i < 16 ? n - i : 16);
	}
}

/* An array of numbers, which the caller's memory need not align beyond their size. */
static struct equal_array array_of(size_t numbers, const void *input)
{
	struct random *r = &equal.random;

	return (struct equal_array){
		.bytes = numbers * sizeof(float),
		.place = random_below(r, 2) == 0 ? EQUAL_AT_END : (int)(random_below(r, 16) * sizeof(float)),
		.input = input,
	};
}

static void prepare(struct trial *t)
{
	struct random *r = &equal.random;
	struct mxfp_attend_job *j = &t->job;
	const bool small = random_below(r, 2) == 0;

	j->rows = 1 + random_below(r, MOST_ROWS);
	j->k = 1 + random_below(r, small ? 8 : MOST_K);
	j->first_pass = 1 + random_below(r, MXFP_ATTEND_PASS);
	j->a_stride = j->k + random_below(r, GAP);
	j->c_stride = MXFP_ATTEND_COLS + random_below(r, GAP);
	fill(r, a, j->rows * j->a_stride);
	fill(r, panel, j->k * MXFP_ATTEND_COLS);
	t->c.n_elements = j->rows * MXFP_ATTEND_COLS;
	t->c.array[SINK] = array_of((j->rows - 1) * j->c_stride + MXFP_ATTEND_COLS, NULL);
	t->c.array[A] = array_of((j->rows - 1) * j->a_stride + j->k, a);
	t->c.array[PANEL] = array_of(j->k * MXFP_ATTEND_COLS, panel);
}

TEST(products_of_attention)
{
	struct trial t = {.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job}};

	suite_compared(CASES * equal.rounds);
	for (unsigned i = 0; i < CASES * equal.rounds; i++) {
		prepare(&t);
		ck_assert_msg((i % 64 == 0 ? equal_run_in_every_state : equal_run)(&equal, &t.c), "%s", equal.message);
	}
}

int main(void)
{
	return equal_main(&equal, NULL);
}
