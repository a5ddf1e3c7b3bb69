/* SPDX-License-Identifier: MIT */
/*
 * Arm's FP8 instructions as a program for mxfp conform: casts, values, sums by FMMLA. On a processor or emulator that has them:
 * aarch64-linux-gnu-gcc -O2 -static -o arm arm.c && mxfp conform 'qemu-aarch64 -cpu max ./arm' --like arm
 * Instructions are numbers here, since few assemblers know their names.
 */
#include <arm_neon.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[4096];

static int has(const char *part)
{
	return strstr(line, part) != NULL;
}

static long number(const char *key)
{
	const char *at = strstr(line, key);

	return at != NULL ? atol(at + strlen(key)) : 0;
}

/* FPMR: formats of both sources and the result, 0 for E5M2 and 1 for E4M3; whether what overflows saturates. Scales are 0. */
static void set_mode(uint64_t e4m3, uint64_t saturates)
{
	__asm__ volatile("msr S3_3_C4_C4_2, %0" : : "r"(e4m3 | e4m3 << 3 | e4m3 << 6 | saturates << 15));
}

/* FCVTN v0.8B, v0.4S, v1.4S: n binary32 to FP8. */
static void cast(const float *in, uint8_t *out, long n)
{
	for (long i = 0; i < n; i += 8) {
		float padded[8] = {0};
		uint8_t codes[8];

		memcpy(padded, in + i, (size_t)(n - i < 8 ? n - i : 8) * 4);
		register float32x4_t v0 __asm__("v0") = vld1q_f32(padded);
		register float32x4_t v1 __asm__("v1") = vld1q_f32(padded + 4);
		__asm__ volatile(".inst 0x0E01F400" : "+w"(v0) : "w"(v1));
		vst1_u8(codes, vget_low_u8(vreinterpretq_u8_f32(v0)));
		memcpy(out + i, codes, (size_t)(n - i < 8 ? n - i : 8));
	}
}

/* BF1CVTL v0.8H, v0.8B: n FP8 to bf16, which is the top of binary32. */
static void decode(const uint8_t *in, uint32_t *out, long n)
{
	for (long i = 0; i < n; i++) {
		register uint8x16_t v0 __asm__("v0") = vdupq_n_u8(in[i]);

		__asm__ volatile(".inst 0x2EA17800" : "+w"(v0));
		out[i] = (uint32_t)vgetq_lane_u16(vreinterpretq_u16_u8(v0), 0) << 16;
	}
}

/* FMMLA v0.4S, v1.16B, v2.16B: sums of 8 products, of rows that are n x k. */
static void dot(const uint8_t *a, const uint8_t *w, float *out, long n, long k)
{
	for (long i = 0; i < n; i++) {
		register float32x4_t v0 __asm__("v0") = vdupq_n_f32(0);

		for (long at = 0; at < k; at += 8) {
			register uint8x16_t v1 __asm__("v1") = vcombine_u8(vld1_u8(a + i * k + at), vdup_n_u8(0));
			register uint8x16_t v2 __asm__("v2") = vcombine_u8(vld1_u8(w + i * k + at), vdup_n_u8(0));

			__asm__ volatile(".inst 0x6E82EC20" : "+w"(v0) : "w"(v1), "w"(v2));
		}
		out[i] = vgetq_lane_f32(v0, 0);
	}
}

int main(void)
{
	while (fgets(line, sizeof line, stdin) != NULL) {
		const long n = number("\"n\":"), bytes = number("\"bytes\":"), k = number("\"k\":");
		uint8_t *in = malloc((size_t)bytes + 8), *out = malloc((size_t)n * 4 + 1);
		long n_out = 0;

		if (in == NULL || out == NULL || fread(in, 1, (size_t)bytes, stdin) != (size_t)bytes)
			return 1;
		set_mode(has("\"e4m3\""), has("\"sat\""));
		if (has("\"cast\",\"to\":\"e") && (has("\"e4m3\"") || has("\"e5m2\"")) && has("\"rne\""))
			cast((const float *)in, out, n_out = n);
		else if (has("\"decode\",\"from\":\"e4m3\"") || has("\"decode\",\"from\":\"e5m2\""))
			decode(in, (uint32_t *)out, (n_out = 4 * n) / 4);
		else if (has("\"acc\":\"fmmla\"") && (has("\"a\":\"e4m3\",\"w\":\"e4m3\"") || has("\"a\":\"e5m2\",\"w\":\"e5m2\"")))
			dot(in, in + n * k, (float *)out, (n_out = 4 * n) / 4, k);
		if (has("\"hello\""))
			puts("{\"version\":1,\"name\":\"arm.c\",\"batch\":65536}");
		else if (n_out == 0)
			puts("{\"unsupported\":true}");
		else
			printf("{\"bytes\":%ld}\n", n_out);
		fwrite(out, 1, (size_t)n_out, stdout);
		fflush(stdout);
		free(in);
		free(out);
	}
	return 0;
}
