/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "analyse/element_errors.h"

#include <math.h>
#include <string.h>

#include "analyse/lanes.h"
#include "mxfp/isa.h"

/* The tiers of the library that these loops have too. */
const struct lanes *lanes_active(void)
{
	static const struct {
		const char *isa;
		const struct lanes *lanes;
	} tiers[] = {
#if defined MXFP_TIER_AMX && defined MXFP_TIER_AVX512
		{"amx", &lanes_avx512},
#endif
#ifdef MXFP_TIER_AVX512
		{"avx512", &lanes_avx512},
#endif
#ifdef MXFP_TIER_AVX2
		{"avx2", &lanes_avx2},
#endif
		{"", &lanes_plain},
	};
	const char *isa = mxfp_isa_name(mxfp_isa_active());
	size_t i = 0;

	while (tiers[i].isa[0] != '\0' && strcmp(tiers[i].isa, isa) != 0)
		i++;
	return tiers[i].lanes;
}

/* The bin of two finite numbers. An error where the exact number is 0 has an infinite quotient: the last bin. */
static unsigned relative_bin(double exact, double measured)
{
	double quotient = fabs(measured - exact) / fabs(exact);
	uint64_t bits;

	if (exact == measured)
		return 0;
	memcpy(&bits, &quotient, sizeof bits);
	/* The exponent of a binary64 number above those that are subnormal: ilogb() is a call. */
	int exponent = (int)(bits >> 52) - 1023;
	if (exponent < ERROR_EXPONENT_MIN)
		exponent = ERROR_EXPONENT_MIN;
	if (exponent > ERROR_EXPONENT_MAX)
		exponent = ERROR_EXPONENT_MAX;
	return (unsigned)(exponent - ERROR_EXPONENT_MIN + 1);
}

/* Elements some of which are NaN or Inf, one by one. */
static void add_slowly(struct element_errors *errors, const float *measured, const float *source, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		errors->non_finite += !isfinite(source[i]);
		errors->flushed += source[i] != 0 && measured[i] == 0;
		if (isfinite(source[i]) && isfinite(measured[i]))
			errors->relative[relative_bin((double)source[i], (double)measured[i])]++;
	}
	stats_add(&errors->stats, source, measured, n);
}

/* The maximum over elements that are finite. */
static double max_relative(double most, const float *measured, const float *source, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double a = (double)source[i], error = fabs((double)measured[i] - a);

		if (a != 0 && error / fabs(a) > most)
			most = error / fabs(a);
	}
	return most;
}

static uint64_t first_unequal(const float *measured, const float *source)
{
	uint64_t i = 0;

	while (measured[i] == source[i])
		i++;
	return i;
}

/*
 * Elements above what errors are at most so far have to be divided. With a limit that is a little less than that
 * maximum, an error whose quotient is larger is certainly more than its product with the limit, rounded; so it is with
 * a limit of 1 itself, which takes no rounding, and which all the elements are at that became zero.
 */
static double limit_below(double maximum)
{
	return maximum == 1 ? 1 : maximum * (1 - 0x1p-50);
}

static void load(struct lanes_elements *e, unsigned lane, const struct stats *s)
{
	e->signal[lane] = s->signal;
	e->noise[lane] = s->noise;
	e->sum_measured[lane] = s->measured;
	e->product[lane] = s->product;
	e->max_absolute[lane] = s->max_absolute;
	e->limit[lane] = limit_below(s->max_relative);
}

static void store(struct element_errors *errors, unsigned lane, const struct lanes_elements *e)
{
	struct stats *s = &errors->stats;
	uint64_t unequal = e->n - e->relative[lane][0];

	s->signal = e->signal[lane];
	s->noise = e->noise[lane];
	s->n += e->n;
	if (e->noise_only)
		return;
	s->measured = e->sum_measured[lane];
	s->product = e->product[lane];
	s->max_absolute = e->max_absolute[lane];
	if (e->above[lane] != 0)
		s->max_relative = max_relative(s->max_relative, e->measured[lane], e->source, e->n);
	if (s->unequal == 0 && unequal > 0)
		s->first_unequal = s->n - e->n + s->excluded + first_unequal(e->measured[lane], e->source);
	s->unequal += unequal;
	errors->flushed += (uint64_t)e->flushed[lane];
	for (unsigned i = 0; i < N_ERROR_BINS; i++)
		errors->relative[i] += e->relative[lane][i];
}

/* A chunk of as many variants as there are lanes, or fewer: then the last one stands in the other lanes. */
static void add_chunk(const struct lanes *lanes, struct element_errors *const *errors, const float *const *measured,
                      size_t n_variants, const float *source, size_t first, size_t n, bool noise_only)
{
	struct lanes_elements e = {.n = n, .source = source + first, .noise_only = noise_only};

	for (unsigned lane = 0; lane < lanes->n; lane++) {
		size_t v = lane < n_variants ? lane : n_variants - 1;

		e.measured[lane] = measured[v] + first;
		load(&e, lane, &errors[v]->stats);
	}
	lanes->add_elements(&e);
	for (unsigned lane = 0; lane < n_variants; lane++)
		if (isfinite(e.signal[lane]) && isfinite(e.noise[lane]))
			store(errors[lane], lane, &e);
		else
			add_slowly(errors[lane], e.measured[lane], e.source, n);
}

void element_errors_add(struct element_errors *const *errors, const float *const *measured, size_t n_variants,
                        const float *source, size_t n, bool noise_only)
{
	const struct lanes *lanes = lanes_active();

	for (size_t v = 0; v < n_variants; v += lanes->n) {
		size_t some = n_variants - v < lanes->n ? n_variants - v : lanes->n;

		for (size_t first = 0; first < n; first += LANES_CHUNK)
			add_chunk(lanes, errors + v, measured + v, some, source, first,
			          n - first < LANES_CHUNK ? n - first : LANES_CHUNK, noise_only);
	}
}
