/* SPDX-License-Identifier: MIT */
/* Error statistics: stats.h has the formulas. */
#include "base/stats.h"

#include <math.h>
#include <stdbool.h>

/* Counts a pair that is not measured. */
static void add_excluded(struct stats *s, double a, double b)
{
	bool equal = isnan(a) ? isnan(b) : a == b;

	if (!equal && s->unequal++ == 0)
		s->first_unequal = s->n + s->excluded;
	s->excluded++;
}

/* Returns the larger of two numbers. fmax() would be a call, because it handles NaN. */
static double larger(double a, double b)
{
	return b > a ? b : a;
}

static void add_pair(struct stats *s, double a, double b)
{
	if (!isfinite(a) || !isfinite(b)) {
		add_excluded(s, a, b);
		return;
	}
	s->signal += a * a;
	s->measured += b * b;
	s->product += a * b;
	if (a != b) {
		double error = fabs(b - a);

		s->noise += error * error;
		s->max_absolute = larger(s->max_absolute, error);
		if (a != 0)
			s->max_relative = larger(s->max_relative, error / fabs(a));
		if (s->unequal++ == 0)
			s->first_unequal = s->n + s->excluded;
	}
	s->n++;
}

void stats_add(struct stats *stats, const float *source, const float *measured, size_t n)
{
	struct stats s = *stats;

	for (size_t i = 0; i < n; i++)
		add_pair(&s, (double)source[i], (double)measured[i]);
	*stats = s;
}

void stats_add_double(struct stats *stats, const double *source, const double *measured, size_t n)
{
	struct stats s = *stats;

	for (size_t i = 0; i < n; i++)
		add_pair(&s, source[i], measured[i]);
	*stats = s;
}

void stats_merge(struct stats *total, const struct stats *part)
{
	if (total->unequal == 0)
		total->first_unequal = total->n + total->excluded + part->first_unequal;
	total->n += part->n;
	total->excluded += part->excluded;
	total->unequal += part->unequal;
	total->signal += part->signal;
	total->noise += part->noise;
	total->measured += part->measured;
	total->product += part->product;
	total->max_absolute = fmax(total->max_absolute, part->max_absolute);
	total->max_relative = fmax(total->max_relative, part->max_relative);
}

double stats_sqnr(const struct stats *stats)
{
	if (stats->n == 0)
		return (double)NAN;
	if (stats->noise == 0)
		return (double)INFINITY;
	if (stats->signal == 0)
		return -(double)INFINITY;
	return 10 * log10(stats->signal / stats->noise);
}

double stats_relative_error(const struct stats *stats)
{
	if (stats->n == 0)
		return (double)NAN;
	if (stats->noise == 0)
		return 0;
	if (stats->signal == 0)
		return (double)INFINITY;
	return sqrt(stats->noise / stats->signal);
}

double stats_cosine(const struct stats *stats)
{
	if (stats->n == 0)
		return (double)NAN;
	if (stats->signal == 0 || stats->measured == 0)
		return stats->signal == stats->measured;
	return fmin(fmax(stats->product / (sqrt(stats->signal) * sqrt(stats->measured)), -1), 1);
}
