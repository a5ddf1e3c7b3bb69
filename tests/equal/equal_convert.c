/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "equal/equal_slots.h"
#include "f32.h"
#include "minifloat.h"
#include "mxfp/philox.h"
#include "equal/patterns.h"

enum {
	LENGTHS = 200,        /* three vectors of 64 codes and more */
	LANES = 16,           /* numbers a group of a pattern */
	LONE = 700,           /* more than the numbers of which a fast path looks at the largest and smallest together */
	N_LONE = 60,
	CHUNKS = 3000,        /* more than a kernel takes at a time */
	LONG = (1 << 16) + 37 /* more than 255 additions to a lane of bytes, or 65535 to the number of lanes */
};

struct trial {
	struct equal_case c;
	struct mxfp_convert_job job;
};

static uint32_t numbers[LONG], source[LONG];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	const struct mxfp_convert_job *job = c->job;

	return (equal_kernel *)table->convert[job->dst_format][job->src_format];
}

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_convert_job j = *(const struct mxfp_convert_job *)job;

	j.dst = array[0];
	j.src = array[1];
	j.counts = &outcome->counts;
	((mxfp_convert_kernel *)k)(&j);
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_convert_job *j = c->job;

	snprintf(text, size, "convert to %s from %s, n %zu, first index %" PRIu64 ", %s, %s%s%s, seed %" PRIu64
	         ", stream %" PRIu64, mxfp_format_get_info(j->dst_format)->name, mxfp_format_get_info(j->src_format)->name, j->n,
	         j->first_index, mxfp_option_name(MXFP_OPTION_ROUND, (int)j->rounding.mode),
	         mxfp_option_name(MXFP_OPTION_OVERFLOW, (int)j->rounding.overflow),
	         j->rounding.no_negative_zero ? ", no -0" : "", j->past_caches ? ", past the caches" : "",
	         j->rounding.seed, j->rounding.stream);
}

/* A trial of n numbers with random options and places; the source is still to be filled. */
static void prepare(struct equal *e, struct trial *t, size_t n)
{
	struct random *r = &e->random;

	t->job.n = n;
	t->job.rounding = equal_any_rounding(r);
	t->job.first_index = equal_any_index(r, n);
	t->job.past_caches = random_below(r, 2) == 0;
	t->c.n_elements = n;
	t->c.start.counts = equal_any_counts(r);
	t->c.array[0] = (struct equal_array){
		.bytes = n * mxfp_format_get_info(t->job.dst_format)->storage_bytes,
		.place = equal_place(r),
	};
	t->c.array[1] = (struct equal_array){
		.bytes = n * mxfp_format_get_info(t->job.src_format)->storage_bytes,
		.place = equal_place(r),
		.input = source,
	};
}

/* Groups of `lanes` numbers, each of pattern `p`, or of any if it is N_PATTERNS. */
static void fill(struct equal *e, const struct trial *t, enum pattern p, size_t lanes)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(t->job.src_format);
	const struct mxfp_format_info *to = mxfp_format_get_info(t->job.dst_format);

	for (size_t done = 0, part; done < t->job.n; done += part) {
		struct pattern_group g = pattern_any(&e->random, to, lanes);

		if (p != N_PATTERNS)
			g.pattern = p;
		part = t->job.n - done < lanes ? t->job.n - done : lanes;
		pattern_fill(&e->random, &g, numbers, part);
		pattern_store(&e->random, g.pattern, from, (uint8_t *)source + done * from->storage_bytes, numbers, part);
	}
}

static bool lengths(struct equal *e, struct trial *t)
{
	for (size_t n = 0; n <= LENGTHS; n++)
		for (int place = EQUAL_AT_END; place <= 0; place++) {
			prepare(e, t, n);
			t->c.array[0].place = t->c.array[1].place = place;
			fill(e, t, N_PATTERNS, LANES);
			if (!equal_run(e, &t->c))
				return false;
		}
	return true;
}

/* Lengths about those that kernels take at a time. */
static bool chunks(struct equal *e, struct trial *t)
{
	for (int i = 0; i < 64; i++) {
		uint32_t power = UINT32_C(1) << (7 + i / 4 % 5);

		prepare(e, t, i % 4 == 0 ? random_below(&e->random, CHUNKS) : power - 1 + random_below(&e->random, 3));
		fill(e, t, N_PATTERNS, LANES);
		if (!equal_run(e, &t->c))
			return false;
	}
	return true;
}

static bool alignments(struct equal *e, struct trial *t)
{
	for (int place = 0; place < 64; place++)
		for (int array = 0; array < 2; array++) {
			prepare(e, t, random_below(&e->random, LENGTHS));
			t->c.array[array].place = place;
			fill(e, t, N_PATTERNS, LANES);
			if (!equal_run(e, &t->c))
				return false;
		}
	return true;
}

/* Every mode, overflow mode and sign of zero on every pattern; and in every floating-point state once. */
static bool options(struct equal *e, struct trial *t)
{
	int n_modes = equal_n_values(MXFP_OPTION_ROUND), n_overflows = equal_n_values(MXFP_OPTION_OVERFLOW);

	for (int i = 0; i < n_modes * n_overflows * 2; i++)
		for (int pattern = 0; pattern <= N_PATTERNS; pattern++) {
			prepare(e, t, LENGTHS / 2 + random_below(&e->random, LENGTHS / 2));
			t->job.rounding.mode = (enum mxfp_round)(i / 2 / n_overflows);
			t->job.rounding.overflow = (enum mxfp_overflow)(i / 2 % n_overflows);
			t->job.rounding.no_negative_zero = i % 2 != 0;
			fill(e, t, (enum pattern)pattern, LANES);
			if (!(pattern == N_PATTERNS ? equal_run_in_every_state : equal_run)(e, &t->c))
				return false;
		}
	return true;
}

/* A number that rounds to 0 or past the largest number, or is the last that does not: half of the smallest, half a step
   past the largest, or one beside it. */
static uint32_t decisive(struct random *r, const struct mxfp_format_info *f)
{
	uint32_t max = mxfp_minifloat_decode(f, f->max_code), below_max = mxfp_minifloat_decode(f, f->max_code - 1);
	uint32_t past = mxfp_f32_add(max, mxfp_f32_scale(mxfp_f32_sub(max, below_max), -1));
	uint32_t half = mxfp_f32_scale(mxfp_minifloat_decode(f, 1), -1);
	uint32_t magnitude = random_below(r, 2) == 0 ? past : half;

	return (magnitude + random_below(r, 3) - (magnitude != 0)) | random_below(r, 2) << 31;
}

/* One number among many for which nothing is counted. */
static bool lone_numbers(struct equal *e, struct trial *t)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(t->job.src_format);
	const struct mxfp_format_info *to = mxfp_format_get_info(t->job.dst_format);

	for (int i = 0; i < N_LONE; i++) {
		struct pattern_group g = pattern_any(&e->random, to, 1);
		size_t at = random_below(&e->random, LONE);

		prepare(e, t, LONE);
		t->job.rounding.mode = i % 2 == 0 ? MXFP_ROUND_RNE : t->job.rounding.mode;
		for (size_t k = 0; k < LONE; k++)
			numbers[k] = 0x3F800000; /* 1 */
		pattern_fill(&e->random, &g, numbers + at, 1);
		if (i % 4 < 2)
			numbers[at] = decisive(&e->random, to);
		pattern_store(&e->random, PATTERN_NORMAL, from, source, numbers, LONE);
		if (!equal_run(e, &t->c))
			return false;
	}
	return true;
}

/* Arrays in which every number is counted, and so often that a narrow counter overflows. */
static bool long_arrays(struct equal *e, struct trial *t)
{
	static const enum pattern all_alike[] = {PATTERN_MAX, PATTERN_SUBNORMAL, PATTERN_NAN, PATTERN_INF, PATTERN_BITS};

	for (size_t i = 0; i < 2 * (sizeof all_alike / sizeof all_alike[0]); i++) {
		prepare(e, t, LONG);
		t->job.rounding.overflow = i % 2 == 0 ? MXFP_OVERFLOW_SAT : MXFP_OVERFLOW_OVF;
		fill(e, t, all_alike[i / 2], 1);
		if (!equal_run(e, &t->c))
			return false;
	}
	return true;
}

/* Numbers that stochastic rounding rounds up if their random words are one less. */
static bool beside_words(struct equal *e, struct trial *t)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(t->job.src_format);
	const struct mxfp_format_info *to = mxfp_format_get_info(t->job.dst_format);
	const struct mxfp_rounding *r = &t->job.rounding;

	if (to->kind == MXFP_KIND_EXPONENT || to->significand_bits == 23)
		return true;
	prepare(e, t, LONG);
	t->job.rounding.mode = MXFP_ROUND_SR;
	t->job.rounding.no_negative_zero = false;
	for (size_t i = 0; i < LONG; i++)
		numbers[i] = equal_beside_word(&e->random, to, mxfp_philox_word(r->seed, r->stream, t->job.first_index + i));
	pattern_store(&e->random, PATTERN_NORMAL, from, source, numbers, LONG);
	return equal_run(e, &t->c);
}

bool equal_convert(struct equal *e, enum mxfp_format dst_format, enum mxfp_format src_format)
{
	struct trial t = {
		.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job},
		.job = {.dst_format = dst_format, .src_format = src_format},
	};

	if (!equal_is_wanted(e, &t.c))
		return true;
	for (unsigned round = 0; round < e->rounds; round++)
		if (!lengths(e, &t) || !chunks(e, &t) || !alignments(e, &t) || !options(e, &t) || !lone_numbers(e, &t))
			return false;
	if (src_format == MXFP_FORMAT_F32 && !beside_words(e, &t))
		return false;
	return mxfp_format_get_info(src_format)->storage_bytes == 1 || long_arrays(e, &t);
}
