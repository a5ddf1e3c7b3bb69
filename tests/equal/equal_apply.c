/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "equal/equal_slots.h"
#include "equal/patterns.h"
#include "minifloat.h"
#include "mxfp/options.h"

enum { LANES = 16, MANY = 600 };

struct trial {
	struct equal_case c;
	struct mxfp_apply_job job;
};

static uint32_t source[MANY];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	const struct mxfp_apply_job *job = c->job;

	return (equal_kernel *)table->apply[job->function];
}

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_apply_job j = *(const struct mxfp_apply_job *)job;

	(void)outcome;
	j.src = (const float *)array[0];
	j.dst = (float *)(j.dst != NULL ? array[1] : array[0]);
	((mxfp_apply_kernel *)k)(&j);
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_apply_job *j = c->job;

	snprintf(text, size, "%s%s, parameter %08X, n %zu", mxfp_option_name(MXFP_OPTION_FUNCTION, (int)j->function),
	         j->dst == NULL ? " in place" : "", (unsigned)j->parameter, j->n);
}

/* Numbers about which kernels change their way: where results leave the normal numbers or binary32, where they become x
   or 1, ends of polynomials' ranges, the largest angle, and 2^-100. */
static const uint32_t boundary[] = {
	0x00800000, 0x0D800000, 0x33000000, 0x38800000, 0x3D800000, 0x3EB17218, 0x3F317218, 0x3F800000, 0x3FC90FDB,
	0x40700000, 0x41100000, 0x41A00000, 0x42800000, 0x42AE0000, 0x42AEAC50, 0x42B17218, 0x42CFF1B5, 0x42FC0000,
	0x43160000, 0x4D000000, 0x7F7FFFFF, 0x7F800000,
};

static uint32_t any_number(struct random *r)
{
	switch (random_below(r, 4)) {
	case 0:
		return random_f32(r);
	case 1:
		return (boundary[random_below(r, sizeof boundary / sizeof boundary[0])] + random_below(r, 9) - 4) ^
		       random_below(r, 2) << 31;
	default:
		return random_f32_between(r, -30, 8);
	}
}

/* A vector of ordinary numbers, of a pattern, or of any. */
static void fill(struct random *r, size_t n)
{
	for (size_t done = 0, part; done < n; done += part) {
		struct pattern_group g = pattern_any(r, mxfp_format_get_info(MXFP_FORMAT_F32), LANES);
		const uint32_t kind = random_below(r, 3);

		part = n - done < LANES ? n - done : LANES;
		if (kind == 0)
			pattern_fill(r, &g, source + done, part);
		for (size_t i = 0; i < part && kind != 0; i++)
			source[done + i] = kind == 1 ? random_f32_between(r, -6, 1) : any_number(r);
		if (kind == 1 && random_below(r, 2) == 0) /* one lane is not like the others */
			source[done + random_below(r, (uint32_t)part)] = any_number(r);
	}
}

/* Defaults, moderate ones, and any finite number. */
static uint32_t any_parameter(struct random *r)
{
	static const uint32_t known[] = {0x3F800000, 0x3C23D70A, 0x3FD9DB23, 0xBF800000, 0, 0x80000000, 1, 0x7F7FFFFF};
	uint32_t x = random_f32(r);

	switch (random_below(r, 3)) {
	case 0:
		return known[random_below(r, sizeof known / sizeof known[0])];
	case 1:
		return random_f32_between(r, -8, 8);
	default:
		return (x & MXFP_F32_INF) == MXFP_F32_INF ? x & MXFP_F32_SIGN : x;
	}
}

static int any_place(struct random *r)
{
	return random_below(r, 3) == 0 ? EQUAL_AT_END : 4 * (int)random_below(r, LANES);
}

static void prepare(struct equal *e, struct trial *t, size_t n)
{
	struct random *r = &e->random;
	static float elsewhere;

	fill(r, n);
	t->job.n = n;
	t->job.parameter = any_parameter(r);
	t->job.dst = random_below(r, 4) == 0 ? NULL : &elsewhere; /* in place */
	t->c.n_elements = n;
	t->c.array[0] = (struct equal_array){.bytes = n * sizeof *source, .place = any_place(r), .input = source};
	t->c.array[1] = (struct equal_array){.bytes = t->job.dst == NULL ? 0 : n * sizeof *source, .place = any_place(r)};
}

bool equal_apply(struct equal *e, enum mxfp_function function)
{
	struct trial t = {
		.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job},
		.job = {.function = function},
	};

	if (!equal_is_wanted(e, &t.c))
		return true;
	for (unsigned round = 0; round < 4 * e->rounds; round++) {
		for (size_t i = 0; i < 4 * (3 * LANES + 1); i++) {
			prepare(e, &t, i / 4);
			if (!equal_run(e, &t.c))
				return false;
		}
		for (int i = 0; i < 8; i++) {
			prepare(e, &t, random_below(&e->random, MANY));
			if (!equal_run(e, &t.c))
				return false;
		}
		prepare(e, &t, 2 * LANES + 3);
		if (!equal_run_in_every_state(e, &t.c))
			return false;
	}
	return true;
}
