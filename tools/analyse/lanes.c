/* SPDX-License-Identifier: MIT */
/* Vectors of the compiler: lane by lane, with the roundings of C. LANES and LANES_TIER come from the command line for a
   tier; the default is that of every machine. */
#include "config.h"

#include "analyse/lanes.h"

#include <math.h>
#include <sleef.h>
#include <string.h>

#ifndef LANES
#define LANES 2
#define LANES_TIER lanes_plain
#endif

typedef double vf64 __attribute__((vector_size(8 * LANES)));
typedef int64_t vs64 __attribute__((vector_size(8 * LANES)));
typedef uint64_t vu64 __attribute__((vector_size(8 * LANES)));
typedef int16_t vs16 __attribute__((vector_size(8 * LANES)));
typedef float lanes_f32 __attribute__((vector_size(4 * LANES)));
typedef float wide_f32 __attribute__((vector_size(8 * LANES)));
typedef int32_t wide_s32 __attribute__((vector_size(8 * LANES)));
typedef uint32_t lanes_u32 __attribute__((vector_size(4 * LANES)));
typedef int16_t lanes_s16 __attribute__((vector_size(2 * LANES)));
typedef int8_t vs8 __attribute__((vector_size(8 * LANES)));
typedef int8_t half_s8 __attribute__((vector_size(4 * LANES)));
typedef int8_t eight_s8 __attribute__((vector_size(8)));
typedef int16_t eight_s16 __attribute__((vector_size(16)));

enum { BINS_AT_ONCE = 5, EXPONENT_BITS = 52, TOP_BATCH = 64 };

/* What is between the reading of a chunk and its sums: elements as pairs of neighbours, and the exponents of their errors,
   which become bins. */
struct chunk {
	uint64_t pairs[LANES_CHUNK / 2 * LANES];
	_Alignas(64) int16_t exponents[LANES_CHUNK * LANES];
	_Alignas(64) int8_t bins[LANES_CHUNK * LANES];
};

/* In the lanes of a mask `a`, in others `b`. */
#define CHOOSE(mask, a, b) (((a) & (mask)) | ((b) & ~(mask)))

/* Pairs in the order of the lanes: two elements are moved at once. The last pair may be half of one. */
static void interleave(struct chunk *chunk, const struct lanes_elements *e)
{
	for (size_t lane = 0; lane < LANES; lane++) {
		const float *from = e->measured[lane];
		size_t pair = 0;

		for (; pair + 4 <= e->n / 2; pair += 4) {
			uint64_t four[4];

			memcpy(four, from + 2 * pair, sizeof four);
			chunk->pairs[pair * LANES + lane] = four[0];
			chunk->pairs[(pair + 1) * LANES + lane] = four[1];
			chunk->pairs[(pair + 2) * LANES + lane] = four[2];
			chunk->pairs[(pair + 3) * LANES + lane] = four[3];
		}
		for (; 2 * pair < e->n; pair++) {
			float two[2] = {from[2 * pair], 2 * pair + 1 < e->n ? from[2 * pair + 1] : 0};

			memcpy(&chunk->pairs[pair * LANES + lane], two, sizeof two);
		}
	}
}

struct sums {
	vf64 signal, noise, measured, product, max_absolute, limit;
	vs64 above, flushed;
};

/*
 * Adds an element. The exponent of the quotient e / |a| of two binary64 numbers, rounded, takes no division: with |a|
 * of 24 bits it is that of e less that of a, less 1 if the significand of e is the smaller one, for the quotient of
 * the significands is then below 1 by more than rounding takes away. Both come of subtracting the words. Elements
 * without an error have bin 0, others the exponent and UNBINNED.
 */
enum { UNBINNED = 4096 };

static inline __attribute__((always_inline)) void add_element(struct sums *s, double source, const lanes_u32 *word,
                                                              int16_t *exponent, bool noise_only)
{
	const vs64 magnitude = (vs64){0} + INT64_MAX;
	const vf64 a = (vf64){0} + source, b = __builtin_convertvector((lanes_f32)*word, vf64);
	const vf64 size = (vf64)((vs64)a & magnitude), difference = b - a;
	const vf64 error = (vf64)((vs64)difference & magnitude);
	const vs64 unequal = difference != 0;

	s->signal += a * a;
	s->noise += difference * difference;
	if (noise_only)
		return;
	s->measured += b * b;
	s->product += a * b;
	s->max_absolute = (vf64)CHOOSE(error > s->max_absolute, (vs64)error, (vs64)s->max_absolute);
	s->above |= error > s->limit * size;
	s->flushed -= (b == 0) & unequal;
	const vs64 bin = ((((vs64)error - (vs64)size) >> EXPONENT_BITS) + UNBINNED) & unequal;
	const lanes_s16 narrow = __builtin_convertvector(bin, lanes_s16);
	memcpy(exponent, &narrow, sizeof narrow);
}

static inline __attribute__((always_inline)) void add_chunk(struct lanes_elements *e, struct chunk *chunk,
                                                            bool noise_only)
{
	struct sums s = {.above = {0}};
	const int big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

	memcpy(&s.signal, e->signal, sizeof s.signal);
	memcpy(&s.noise, e->noise, sizeof s.noise);
	memcpy(&s.measured, e->sum_measured, sizeof s.measured);
	memcpy(&s.product, e->product, sizeof s.product);
	memcpy(&s.max_absolute, e->max_absolute, sizeof s.max_absolute);
	memcpy(&s.limit, e->limit, sizeof s.limit);
	for (size_t i = 0; i < e->n; i += 2) {
		vu64 pair;

		memcpy(&pair, &chunk->pairs[i / 2 * LANES], sizeof pair);
		const lanes_u32 low = __builtin_convertvector(pair, lanes_u32);
		const lanes_u32 high = __builtin_convertvector(pair >> 32, lanes_u32);
		add_element(&s, (double)e->source[i], big ? &high : &low, chunk->exponents + i * LANES, noise_only);
		if (i + 1 < e->n)
			add_element(&s, (double)e->source[i + 1], big ? &low : &high, chunk->exponents + (i + 1) * LANES,
			            noise_only);
	}
	memcpy(e->signal, &s.signal, sizeof s.signal);
	memcpy(e->noise, &s.noise, sizeof s.noise);
	memcpy(e->sum_measured, &s.measured, sizeof s.measured);
	memcpy(e->product, &s.product, sizeof s.product);
	memcpy(e->max_absolute, &s.max_absolute, sizeof s.max_absolute);
	memcpy(e->above, &s.above, sizeof s.above);
	memcpy(e->flushed, &s.flushed, sizeof s.flushed);
}

/* Adds what a bin's counters hold, one for each place that a vector has: eight of them are whole elements. */
static void add_counters(struct lanes_elements *e, unsigned bin, const vs8 *counters)
{
	eight_s16 sum = {0};

	for (size_t i = 0; i < LANES; i++) {
		eight_s8 x;

		memcpy(&x, (const int8_t *)counters + i * sizeof x, sizeof x);
		sum += __builtin_convertvector(x, eight_s16);
	}
	for (size_t i = 0; i < 8; i++)
		e->relative[i % LANES][bin] += (uint32_t)sum[i];
}

static void find_bins(struct chunk *chunk, size_t n)
{
	enum { PLACES = sizeof(vs16) / sizeof(int16_t) };
	enum { LEAST = UNBINNED + ERROR_EXPONENT_MIN, MOST = UNBINNED + ERROR_EXPONENT_MAX };

	for (size_t i = 0; i < n; i += PLACES) {
		vs16 x;

		memcpy(&x, chunk->exponents + i, sizeof x);
		const vs16 some = x > 0;
		x = CHOOSE(x < LEAST, (vs16){0} + LEAST, x);
		x = CHOOSE(x > MOST, (vs16){0} + MOST, x);
		const half_s8 bins = __builtin_convertvector((x - (LEAST - 1)) & some, half_s8);
		memcpy(chunk->bins + i, &bins, sizeof bins);
	}
}

/* Past the last element are bins that no element has. A counter gets no more than LANES_CHUNK / 8. */
static void count_bins(struct lanes_elements *e, struct chunk *chunk)
{
	enum { PLACES = sizeof(vs8) };
	const size_t used = e->n * LANES, n = (used + PLACES - 1) / PLACES * PLACES;

	_Static_assert(LANES_CHUNK / 8 <= INT8_MAX, "counters");
	memset(chunk->exponents + used, 0, (n - used) * sizeof chunk->exponents[0]);
	find_bins(chunk, n);
	memset(chunk->bins + used, -1, n - used);
	for (unsigned first = 0; first < N_ERROR_BINS; first += BINS_AT_ONCE) {
		const int8_t k = (int8_t)first;
		vs8 counts[BINS_AT_ONCE] = {{0}};

		for (size_t i = 0; i < n; i += PLACES) {
			vs8 x;

			memcpy(&x, chunk->bins + i, sizeof x);
			counts[0] -= x == k;
			counts[1] -= x == (int8_t)(k + 1);
			counts[2] -= x == (int8_t)(k + 2);
			counts[3] -= x == (int8_t)(k + 3);
			counts[4] -= x == (int8_t)(k + 4);
		}
		for (unsigned i = 0; i < BINS_AT_ONCE && first + i < N_ERROR_BINS; i++)
			add_counters(e, first + i, &counts[i]);
	}
}

static void add_elements(struct lanes_elements *e)
{
	struct chunk chunk;

	interleave(&chunk, e);
	if (e->noise_only) {
		add_chunk(e, &chunk, true);
		return;
	}
	add_chunk(e, &chunk, false);
	count_bins(e, &chunk);
}

/* A product of two binary32 numbers is exact, so it does not matter whether the compiler fuses it with its addition.
   The sums are written out so that compilers keep all of them in registers. */
static void add_products(const struct lanes_product *p)
{
	const double *w0 = p->w[0], *w1 = p->w[1], *w2 = p->w[2], *w3 = p->w[3];
	vf64 s[LANES_ROWS][LANES_VECTORS];

	for (size_t row = 0; row < LANES_ROWS; row++)
		memcpy(s[row], p->sums[row], sizeof s[row]);
	for (size_t k = 0; k < p->n; k++) {
		vf64 x[LANES_VECTORS];

		memcpy(x, p->x + k * LANES_VECTORS * LANES, sizeof x);
		s[0][0] += w0[k] * x[0];
		s[0][1] += w0[k] * x[1];
		s[1][0] += w1[k] * x[0];
		s[1][1] += w1[k] * x[1];
		s[2][0] += w2[k] * x[0];
		s[2][1] += w2[k] * x[1];
		s[3][0] += w3[k] * x[0];
		s[3][1] += w3[k] * x[1];
	}
	for (size_t row = 0; row < LANES_ROWS; row++)
		memcpy(p->sums[row], s[row], sizeof s[row]);
}

/* SLEEF gives the same bits by all of these. */
static inline __attribute__((always_inline)) vf64 exponential(vf64 x)
{
#if LANES == 8
	return Sleef_cinz_expd8_u10avx512fnofma(x);
#elif LANES == 4
	return Sleef_cinz_expd4_u10avx(x);
#else
	return (vf64){Sleef_cinz_expd1_u10purec(x[0]), Sleef_cinz_expd1_u10purec(x[1])};
#endif
}

static void exponentials(double *x, double *e, const float *logits, size_t n, double largest)
{
	for (size_t i = 0, some; i < n; i += some) {
		lanes_f32 some_logits = {0};

		some = n - i < LANES ? n - i : LANES;
		if (some == LANES)
			memcpy(&some_logits, logits + i, sizeof some_logits);
		else
			memcpy(&some_logits, logits + i, some * sizeof *logits);
		const vf64 away = __builtin_convertvector(some_logits, vf64) - largest, powers = exponential(away);
		if (some == LANES) {
			memcpy(x + i, &away, sizeof away);
			memcpy(e + i, &powers, sizeof powers);
		} else {
			memcpy(x + i, &away, some * sizeof *x);
			memcpy(e + i, &powers, some * sizeof *e);
		}
	}
}

/* Whether any number of a batch is above the largest, or NaN. */
static bool is_above(const float *x, float largest)
{
	wide_s32 above = {0};
	uint64_t words[LANES], any = 0;

	for (size_t i = 0; i < TOP_BATCH; i += 2 * LANES) {
		wide_f32 some;

		memcpy(&some, x + i, sizeof some);
		above |= ~(some <= largest);
	}
	memcpy(words, &above, sizeof words);
	for (size_t i = 0; i < LANES; i++)
		any |= words[i];
	return any != 0;
}

static size_t find_top(const float *x, size_t n)
{
	size_t top = 0;
	float largest = -HUGE_VALF;

	for (size_t from = 0; from < n && !isnan(largest); from += TOP_BATCH) {
		const size_t end = n - from < TOP_BATCH ? n : from + TOP_BATCH;

		/* A row has few numbers that are larger than all before them. */
		if (end - from == TOP_BATCH && !is_above(x + from, largest))
			continue;
		for (size_t i = from; i < end && !isnan(largest); i++)
			if (!(x[i] <= largest)) {
				largest = x[i];
				top = i;
			}
	}
	return top;
}

const struct lanes LANES_TIER = {LANES, add_elements, add_products, exponentials, find_top};
