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

/*
 * A sum of squares in binary64 holds those of numbers from 2^-448 to 2^480, and of their differences: one that is not 0
 * is at least 2^-53 of the larger number. All numbers of at most 32 bits and their products are such. The sums of others
 * are of numbers times 2^-unit.
 */
enum { EXPONENT_MIN = -448, EXPONENT_MAX = 480 };

static bool is_near(double x)
{
	const double magnitude = fabs(x);

	return magnitude == 0 || (magnitude >= 0x1p-448 && magnitude <= 0x1p480);
}

/* The unit for a sum of squares once x is added: its own, unless that is too small, or the sum is 0 and x too small. */
static int unit_for(double sum, int unit, double x)
{
	const int exponent = x == 0 ? 0 : ilogb(x) - unit;

	return exponent > EXPONENT_MAX || (sum == 0 && exponent < EXPONENT_MIN) ? ilogb(x) : unit;
}

/* Turns a sum of squares into another unit. What that underflows is nothing beside the number that it is for. */
static void set_unit(double *sum, int *unit, int other)
{
	*sum = ldexp(*sum, 2 * (*unit - other));
	*unit = other;
}

static void set_units(struct stats *s, int signal, int measured, int noise)
{
	s->product = ldexp(s->product, s->signal_unit - signal + s->measured_unit - measured);
	set_unit(&s->signal, &s->signal_unit, signal);
	set_unit(&s->measured, &s->measured_unit, measured);
	set_unit(&s->noise, &s->noise_unit, noise);
}

/* Finite numbers of any size. Half of a difference never overflows; `halved` is 1 if it is that. */
static void add_far(struct stats *s, double a, double b)
{
	const int halved = isinf(b - a) ? 1 : 0;
	const double error = halved ? b / 2 - a / 2 : b - a;

	set_units(s, unit_for(s->signal, s->signal_unit, a), unit_for(s->measured, s->measured_unit, b),
	          unit_for(s->noise, s->noise_unit, error));
	const double x = ldexp(a, -s->signal_unit), y = ldexp(b, -s->measured_unit);
	const double z = ldexp(error, halved - s->noise_unit);
	s->signal += x * x;
	s->measured += y * y;
	s->product += x * y;
	s->noise += z * z;
	s->max_absolute = larger(s->max_absolute, ldexp(fabs(error), halved));
	if (a != 0)
		s->max_relative = larger(s->max_relative, ldexp(fabs(error) / fabs(a), halved));
}

static void add_near(struct stats *s, double a, double b)
{
	const double error = fabs(b - a);

	s->signal += a * a;
	s->measured += b * b;
	s->product += a * b;
	s->noise += error * error;
	s->max_absolute = larger(s->max_absolute, error);
	if (a != b && a != 0)
		s->max_relative = larger(s->max_relative, error / fabs(a));
}

static void add_pair(struct stats *s, double a, double b)
{
	if (!isfinite(a) || !isfinite(b)) {
		add_excluded(s, a, b);
		return;
	}
	if (is_near(a) && is_near(b) && s->signal_unit == 0 && s->measured_unit == 0 && s->noise_unit == 0)
		add_near(s, a, b);
	else
		add_far(s, a, b);
	if (a != b && s->unequal++ == 0)
		s->first_unequal = s->n + s->excluded;
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

/* The unit in which two sums of squares can be added: that of the larger one. */
static int merged_unit(double sum, int unit, double other, int other_unit)
{
	if (other == 0 || unit == other_unit)
		return unit;
	return sum == 0 || ilogb(other) / 2 + other_unit > ilogb(sum) / 2 + unit ? other_unit : unit;
}

void stats_merge(struct stats *total, const struct stats *part)
{
	if (total->unequal == 0)
		total->first_unequal = total->n + total->excluded + part->first_unequal;
	struct stats p = *part;
	const int signal = merged_unit(total->signal, total->signal_unit, p.signal, p.signal_unit);
	const int measured = merged_unit(total->measured, total->measured_unit, p.measured, p.measured_unit);
	const int noise = merged_unit(total->noise, total->noise_unit, p.noise, p.noise_unit);
	set_units(total, signal, measured, noise);
	set_units(&p, signal, measured, noise);
	total->n += part->n;
	total->excluded += part->excluded;
	total->unequal += part->unequal;
	total->signal += p.signal;
	total->noise += p.noise;
	total->measured += p.measured;
	total->product += p.product;
	total->max_absolute = fmax(total->max_absolute, part->max_absolute);
	total->max_relative = fmax(total->max_relative, part->max_relative);
}

void stats_scale(struct stats *stats, int exponent)
{
	stats->signal = ldexp(stats->signal, 2 * exponent);
	stats->noise = ldexp(stats->noise, 2 * exponent);
	stats->measured = ldexp(stats->measured, 2 * exponent);
	stats->product = ldexp(stats->product, 2 * exponent);
	stats->max_absolute = ldexp(stats->max_absolute, exponent);
}

double stats_sqnr(const struct stats *stats)
{
	if (stats->n == 0)
		return (double)NAN;
	if (stats->noise == 0)
		return (double)INFINITY;
	if (stats->signal == 0)
		return -(double)INFINITY;
	const double ratio = stats->signal / stats->noise;
	if (stats->signal_unit == stats->noise_unit && isnormal(ratio))
		return 10 * log10(ratio);
	return 10 * (log10(stats->signal) - log10(stats->noise)) +
	       20 * log10(2) * (double)(stats->signal_unit - stats->noise_unit);
}

double stats_relative_error(const struct stats *stats)
{
	if (stats->n == 0)
		return (double)NAN;
	if (stats->noise == 0)
		return 0;
	if (stats->signal == 0)
		return (double)INFINITY;
	const double ratio = stats->noise / stats->signal;
	if (stats->signal_unit == stats->noise_unit && isnormal(ratio))
		return sqrt(ratio);
	return ldexp(sqrt(stats->noise) / sqrt(stats->signal), stats->noise_unit - stats->signal_unit);
}

double stats_cosine(const struct stats *stats)
{
	if (stats->n == 0)
		return (double)NAN;
	if (stats->signal == 0 || stats->measured == 0)
		return stats->signal == stats->measured;
	return fmin(fmax(stats->product / (sqrt(stats->signal) * sqrt(stats->measured)), -1), 1);
}
