/* SPDX-License-Identifier: MIT */
/* Cases whose expectation is the reference: what depends on an index, and what has few inputs. */
#include <string.h>

#include "oracle/exhaustive.h"
#include "oracle/inputs.h"
#include "suite.h"

enum {
	PIECE = EXHAUSTIVE_PIECE,
	SPREAD = 256,                   /* distance of the sampled numbers, about */
	N_SAMPLES = (1 << 16) / SPREAD, /* pieces */
	N_OPTIONS = (MXFP_ROUND_SR + 1) * (MXFP_OVERFLOW_OVF + 1) * 2
};

struct duel {
	const struct exhaustive_case *c;
	size_t n_numbers; /* of the source format */
	atomic_uint *n_wrong;
};

static _Thread_local uint32_t numbers[PIECE];
static _Thread_local uint32_t codes[PIECE], want_codes[PIECE]; /* of any width */

/* Both kernels on n stored numbers; `number` is the first, for the message. */
static void compare(const struct duel *d, const struct exhaustive_case *c, size_t n, uint64_t first_index,
                    uint32_t number)
{
	struct mxfp_counts counts = {.size = sizeof counts}, want = {.size = sizeof want};
	struct mxfp_convert_job job = {.dst = codes, .src = numbers, .n = n, .first_index = first_index, .counts = &counts};

	exhaustive_convert(c, c->table, &job);
	job.dst = want_codes;
	job.counts = &want;
	exhaustive_convert(c, c->reference, &job);
	if (memcmp(codes, want_codes, n * mxfp_format_get_info(c->dst_format)->storage_bytes) != 0)
		exhaustive_wrong(c, d->n_wrong, "codes from", number);
	else if (memcmp(&counts, &want, sizeof want) != 0)
		exhaustive_wrong(c, d->n_wrong, "counts from", number);
}

static void run_sample(void *context, size_t piece)
{
	const struct duel *d = context;
	struct exhaustive_case c = *d->c;
	struct random r = {suite_seed() + piece};

	c.rounding.seed = random_u64(&r);
	c.rounding.stream = random_u64(&r);
	for (size_t i = 0; i < PIECE; i++)
		numbers[i] = (uint32_t)(piece * PIECE + i) * SPREAD + random_below(&r, SPREAD);
	compare(d, &c, PIECE, random_u64(&r) >> (1 + piece % 60), numbers[0]);
}

struct exhaustive_result exhaustive_sample(const struct exhaustive_case *c)
{
	atomic_uint n_wrong = 0;
	struct duel d = {.c = c, .n_wrong = &n_wrong};

	exhaustive_run(c, N_SAMPLES, run_sample, &d);
	return (struct exhaustive_result){(uint64_t)PIECE * N_SAMPLES, n_wrong};
}

/* The number as it lies in memory; spare bits are set in every other one. */
static void store(const struct mxfp_format_info *f, size_t i, uint32_t code)
{
	uint32_t spare = code % 2 != 0 ? UINT32_MAX : 0;
	uint32_t word = code << (32 - f->bits) | (spare & ((UINT32_C(1) << (32 - f->bits)) - 1));
	uint16_t half = (uint16_t)code;

	if (f->storage_bytes == 1)
		((uint8_t *)numbers)[i] = (uint8_t)(code | spare << f->bits);
	else if (f->storage_bytes == 2)
		memcpy((uint8_t *)numbers + 2 * i, &half, 2);
	else
		numbers[i] = word;
}

/* One choice of options and at most PIECE numbers. */
static void run_narrow(void *context, size_t piece)
{
	const struct duel *d = context;
	struct exhaustive_case c = *d->c;
	struct random r = {suite_seed() + piece};
	size_t n = d->n_numbers < PIECE ? d->n_numbers : PIECE;
	size_t first = piece / N_OPTIONS * PIECE, option = piece % N_OPTIONS;

	c.rounding = (struct mxfp_rounding){
		.mode = (enum mxfp_round)(option / 4),
		.overflow = (enum mxfp_overflow)(option / 2 % 2),
		.no_negative_zero = option % 2 != 0,
		.seed = random_u64(&r),
		.stream = random_u64(&r),
	};
	for (size_t i = 0; i < n; i++)
		store(mxfp_format_get_info(c.src_format), i, (uint32_t)(first + i));
	compare(d, &c, n, random_u64(&r) >> (1 + piece % 60), (uint32_t)first);
}

struct exhaustive_result exhaustive_narrow(const struct exhaustive_case *c)
{
	atomic_uint n_wrong = 0;
	struct duel d = {
		.c = c,
		.n_numbers = (size_t)1 << mxfp_format_get_info(c->src_format)->bits,
		.n_wrong = &n_wrong,
	};
	size_t pieces = d.n_numbers / PIECE + (d.n_numbers % PIECE != 0);

	exhaustive_run(c, pieces * N_OPTIONS, run_narrow, &d);
	return (struct exhaustive_result){d.n_numbers * N_OPTIONS, n_wrong};
}
