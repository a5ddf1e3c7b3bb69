/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "equal/equal_slots.h"
#include "minifloat.h"
#include "equal/patterns.h"

enum {
	LENGTHS = 300,
	LANES = 16,
	LONG = 100000
};

struct trial {
	struct equal_case c;
	struct mxfp_scan_job job;
};

static uint32_t source[LONG];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	const struct mxfp_scan_job *job = c->job;

	return (equal_kernel *)table->scan[job->src_format];
}

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_scan_job j = *(const struct mxfp_scan_job *)job;

	j.src = array[0];
	j.amax = outcome->amax;
	j.first_non_finite = outcome->first_non_finite;
	((mxfp_scan_kernel *)k)(&j);
	outcome->amax = j.amax;
	outcome->first_non_finite = j.first_non_finite;
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_scan_job *j = c->job;

	snprintf(text, size, "scan %s, n %zu, first index %" PRIu64 ", non-finite from %08" PRIX32 ", start %08" PRIX32 " %"
	         PRIu64, mxfp_format_get_info(j->src_format)->name, j->n, j->first_index, j->non_finite_from, c->start.amax,
	         c->start.first_non_finite);
}

static void prepare(struct equal *e, struct trial *t, size_t n)
{
	struct random *r = &e->random;
	struct mxfp_scan_job *j = &t->job;

	j->n = n;
	j->first_index = equal_any_index(r, n);
	j->non_finite_from = random_below(r, 4) == 0 ? random_f32(r) & ~MXFP_F32_SIGN : MXFP_F32_INF;
	if (j->non_finite_from > MXFP_F32_INF)
		j->non_finite_from = MXFP_F32_INF;
	t->c.n_elements = n;
	t->c.start.amax = random_below(r, 2) == 0 ? 0 : random_f32_between(r, -126, 127) & ~MXFP_F32_SIGN;
	t->c.start.first_non_finite = random_below(r, 4) == 0 ? j->first_index + random_below(r, 100) : UINT64_MAX;
	t->c.array[0] = (struct equal_array){
		.bytes = n * mxfp_format_get_info(j->src_format)->storage_bytes,
		.place = equal_place(r),
		.input = source,
	};
}

/* Ordinary numbers, or a mixture of patterns. */
static void fill(struct equal *e, const struct trial *t)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(t->job.src_format);
	bool ordinary = random_below(&e->random, 2) == 0;
	uint32_t numbers[LANES];

	for (size_t done = 0, part; done < t->job.n; done += part) {
		struct pattern_group g = pattern_any(&e->random, from, LANES);

		if (ordinary)
			g.pattern = PATTERN_NORMAL;
		part = t->job.n - done < LANES ? t->job.n - done : LANES;
		pattern_fill(&e->random, &g, numbers, part);
		pattern_store(&e->random, g.pattern, from, (uint8_t *)source + done * from->storage_bytes, numbers, part);
	}
}

/* One number of n is the largest or is not finite, in each place. */
static bool places(struct equal *e, struct trial *t)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(t->job.src_format);

	for (size_t i = 0; i < LENGTHS; i++) {
		struct pattern_group g = {.pattern = i % 2 != 0 ? PATTERN_NAN : PATTERN_INF, .format = from, .top = 0};
		uint32_t x;

		prepare(e, t, LENGTHS);
		fill(e, t);
		pattern_fill(&e->random, &g, &x, 1);
		if (random_below(&e->random, 2) == 0)
			x = MXFP_F32_MAX;
		pattern_store(&e->random, g.pattern, from, (uint8_t *)source + i * from->storage_bytes, &x, 1);
		if (!(i % 16 == 0 ? equal_run_in_every_state : equal_run)(e, &t->c))
			return false;
	}
	return true;
}

bool equal_scan(struct equal *e, enum mxfp_format src_format)
{
	struct trial t = {
		.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job},
		.job = {.src_format = src_format},
	};

	if (!equal_is_wanted(e, &t.c))
		return true;
	for (unsigned round = 0; round < 4 * e->rounds; round++) {
		if (!places(e, &t))
			return false;
		for (size_t i = 0; i < 3 * LENGTHS; i++) {
			prepare(e, &t, i < 2 * LENGTHS ? i / 2 : random_below(&e->random, LENGTHS));
			t.c.array[0].place = i >= 2 * LENGTHS ? (int)(i % 64) : i % 2 != 0 ? EQUAL_AT_END : 0;
			fill(e, &t);
			if (!equal_run(e, &t.c))
				return false;
		}
		prepare(e, &t, LONG);
		fill(e, &t);
		if (!equal_run(e, &t.c))
			return false;
	}
	return true;
}
