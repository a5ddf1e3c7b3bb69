/* SPDX-License-Identifier: MIT */
/* The other side of mxfp conform, for a caster from binary32 to FP8 E4M3: cc -o caster caster.c -lm */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is to be checked: to nearest, ties to even, saturating. */
static uint8_t e4m3(float x)
{
	uint8_t sign = signbit(x) ? 0x80 : 0;
	double v = fabs((double)x);

	if (isnan(x))
		return sign | 0x7F;
	if (v >= 448)
		return sign | 0x7E;
	int exponent = v < 0x1p-6 ? -6 : ilogb(v);
	int n = (int)nearbyint(ldexp(v, 3 - exponent)); /* 8 to 16, or less for subnormals; 16 carries into the exponent */
	return sign | (uint8_t)(((exponent + 6) << 3) + n);
}

/* The integer after "key": in a line, -1 if there is none. */
static long number(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at != NULL ? atol(at + strlen(key)) : -1;
}

int main(void)
{
	char line[4096];

	while (fgets(line, sizeof line, stdin) != NULL) {
		long n = number(line, "\"n\":"), bytes = number(line, "\"bytes\":");
		uint8_t *in = malloc(bytes > 0 ? (size_t)bytes : 1), *out = malloc(n > 0 ? (size_t)n : 1);

		if (in == NULL || out == NULL || (bytes > 0 && fread(in, 1, (size_t)bytes, stdin) != (size_t)bytes))
			return 1;
		if (strstr(line, "\"op\":\"hello\"") != NULL) {
			puts("{\"version\":1,\"name\":\"caster.c\"}");
		} else if (strstr(line, "\"op\":\"cast\",\"to\":\"e4m3\",\"round\":\"rne\",\"overflow\":\"sat\"") != NULL) {
			for (long i = 0; i < n; i++) {
				float x;

				memcpy(&x, in + 4 * i, 4); /* on a little-endian machine */
				out[i] = e4m3(x);
			}
			printf("{\"bytes\":%ld}\n", n);
			fwrite(out, 1, (size_t)n, stdout);
		} else {
			puts("{\"unsupported\":true}");
		}
		fflush(stdout);
		free(in);
		free(out);
	}
	return 0;
}
