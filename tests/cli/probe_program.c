/* SPDX-License-Identifier: MIT */
/* Machines that nobody makes, for test_probe.sh: argv[1] says which. With none of the library's code; rows of f32 or of bf16. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *machine;
static char line[4096];

static int is(const char *name)
{
	return strcmp(machine, name) == 0;
}

static long number(const char *key)
{
	const char *at = strstr(line, key);

	return at != NULL ? atol(at + strlen(key)) : 0;
}

/* To a multiple of 2^unit. */
static double cut(double x, int unit, char how)
{
	const double q = ldexp(x, -unit);

	return ldexp(how == 'z' ? trunc(q) : how == 'd' ? floor(q) : nearbyint(q), unit);
}

static double to_bits(double x, int bits, char how)
{
	const int e = x == 0 || !isfinite(x) ? 0 : ilogb(x);

	if (isfinite(x))
		x = cut(x, (e > -126 ? e : -126) - (bits - 1), how);
	return fabs(x) >= 0x1p128 ? copysign((double)INFINITY, x) : x;
}

static int exponent(double x)
{
	return x == 0 ? -126 : ilogb(x) > -126 ? ilogb(x) : -126;
}

/* `of` products, `apart` from each other, and the sum: aligned to the largest exponent, cut at `fraction` bits, `bits` left. */
static double step(double sum, const float *a, const float *w, long from, long of, long apart, int fraction, char term, int bits, char result)
{
	int most = sum != 0 ? exponent(sum) : -999;
	double total = 0, plain = sum;
	int special = !isfinite(sum);

	for (long i = from; i < from + of * apart; i += apart) {
		const int e = exponent((double)a[i]) + exponent((double)w[i]);

		special |= !isfinite(a[i]) || !isfinite(w[i]);
		plain += a[i] * (double)w[i];
		if (a[i] * (double)w[i] != 0 && e > most)
			most = e;
	}
	if (special || most == -999)
		return plain;
	for (long i = from; i < from + of * apart; i += apart)
		total += cut((double)a[i] * (double)w[i], most - fraction, term);
	return to_bits(total + cut(sum, most - fraction, term), bits, result);
}

static float flush(float x)
{
	return fabsf(x) < FLT_MIN ? 0 : x;
}

/* Neighbours first. */
static float pairs(const float *a, const float *w, long n)
{
	return n == 1 ? *a * *w : pairs(a, w, n / 2) + pairs(a + n / 2, w + n / 2, n / 2);
}

static int by_magnitude(const void *x, const void *y)
{
	const double d = fabs((double)*(const float *)x) - fabs((double)*(const float *)y);

	return d < 0 ? -1 : d > 0;
}

static float dot(const float *a, const float *w, long k)
{
	float lanes[4] = {0, 0, 0, 0}, products[4096];
	double sum = 0;

	if (is("cut-22")) {
		for (long i = 0; i < k / 8; i++)
			sum = step(sum, a, w, i, 8, k / 8, 22, 'z', 22, 'z');
	} else if (is("down")) {
		for (long i = 0; i < k; i += 4)
			sum = step(sum, a, w, i, 4, 1, 20, 'd', 24, 'n');
	} else if (is("fours")) {
		for (long i = 0; i < k; i += 4)
			sum = step(sum, a, w, i, 4, 1, 22, 'z', 24, 'z');
	} else if (is("pairs")) {
		return pairs(a, w, k);
	} else if (is("binary64")) {
		for (long i = k; i-- > 0;)
			sum += (double)a[i] * (double)w[i];
	} else if (is("eights")) {
		for (long i = 0; i < k; i += 8) {
			double eight = 0;

			for (long j = i; j < i + 8 && j < k; j++)
				eight += (double)a[j] * (double)w[j];
			sum = (double)((float)sum + (float)eight);
		}
	} else if (is("bf16")) {
		for (long i = 0; i < k; i++)
			sum = to_bits((double)a[i] * (double)w[i] + sum, 8, 'n');
	} else if (is("lanes")) {
		for (long i = 0; i < k; i++)
			lanes[i % 4] = flush(fmaf(a[i], w[i], lanes[i % 4]));
		return flush(flush(flush(lanes[3] + lanes[2]) + lanes[1]) + lanes[0]);
	} else if (is("gathered")) {
		const float ones[4] = {1, 1, 1, 1};

		for (long i = 0; i < k; i++)
			lanes[i % 4] = fmaf(a[i], w[i], lanes[i % 4]);
		sum = step(0, lanes, ones, 0, 4, 1, 18, 'z', 19, 'z');
	} else if (is("sorted")) {
		for (long i = 0; i < k; i++)
			products[i] = a[i] * w[i];
		qsort(products, (size_t)k, sizeof *products, by_magnitude);
		for (long i = 0; i < k; i++)
			sum = (double)(float)(sum + (double)products[i]);
	}
	return (float)sum;
}

int main(int argc, char **argv)
{
	machine = argc > 1 ? argv[1] : "";
	while (fgets(line, sizeof line, stdin) != NULL) {
		const long n = number("\"n\":"), k = number("\"k\":"), bytes = number("\"bytes\":");
		const int bf16 = strstr(line, "\"a\":\"bf16\",\"w\":\"bf16\"") != NULL, f32 = strstr(line, "\"a\":\"f32\"") != NULL;
		uint8_t *in = malloc((size_t)bytes + 1);
		float *x = malloc((size_t)bytes * 2 + 1);

		if (in == NULL || x == NULL || fread(in, 1, (size_t)bytes, stdin) != (size_t)bytes)
			return 1;
		if (strstr(line, "\"hello\"") != NULL) {
			printf("{\"version\":1,\"name\":\"%s\"}\n", machine);
		} else if (!bf16 && !f32) {
			puts("{\"unsupported\":true}");
		} else {
			printf("{\"bytes\":%ld}\n", 4 * n);
			for (long i = 0; i < 2 * n * k; i++) {
				uint32_t word = bf16 ? (uint32_t)in[2 * i] << 16 | (uint32_t)in[2 * i + 1] << 24 : 0;

				if (f32)
					memcpy(&word, in + 4 * i, 4);
				memcpy(&x[i], &word, 4);
			}
			for (long i = 0; i < n; i++) {
				const float c = dot(x + i * k, x + (n + i) * k, k);

				fwrite(&c, 4, 1, stdout);
			}
		}
		fflush(stdout);
		free(in);
		free(x);
	}
	return 0;
}
