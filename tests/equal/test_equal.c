/* SPDX-License-Identifier: MIT */
/* The harness of equality is tested: kernels that are the reference but for one fault are caught, whatever the slot,
   and one without a fault is not. */
#include <string.h>

#include "equal/equal_slots.h"
#include "body/fp_state.h"
#include "ref.h"
#include "suite.h"

static struct equal equal;

/* A tier with one kernel of its own. */
static struct mxfp_kernels *wrong_tier(void)
{
	equal.share = 1; /* what is wrong may be in any case */
	equal.n_tiers = 1;
	equal.tier[0] = (struct equal_tier){.name = "wrong", .table = equal.reference};
	equal.message[0] = '\0';
	return &equal.tier[0].table;
}

static const enum mxfp_format TO = MXFP_FORMAT_E4M3, FROM = MXFP_FORMAT_F32, BLOCKS = MXFP_FORMAT_MXFP8_E4M3;

/* What must be seen of the kernel: part of the message, or that there is none. */
static void expect_convert(mxfp_convert_kernel *kernel, const char *message)
{
	wrong_tier()->convert[TO][FROM] = kernel;
	ck_assert_int_eq(equal_convert(&equal, TO, FROM), *message == '\0');
	ck_assert_msg(strstr(equal.message, message) != NULL, "%s", equal.message);
}

static void expect_quantize(mxfp_quantize_kernel *kernel, const char *message)
{
	wrong_tier()->quantize[BLOCKS] = kernel;
	ck_assert_int_eq(equal_quantize(&equal, BLOCKS, FROM, false), *message == '\0');
	ck_assert_msg(strstr(equal.message, message) != NULL, "%s", equal.message);
}

static void expect_dequantize(mxfp_dequantize_kernel *kernel, const char *message)
{
	wrong_tier()->dequantize[BLOCKS] = kernel;
	ck_assert_int_eq(equal_dequantize(&equal, BLOCKS, MXFP_FORMAT_BF16), *message == '\0');
	ck_assert_msg(strstr(equal.message, message) != NULL, "%s", equal.message);
}

static void expect_scan(mxfp_scan_kernel *kernel, const char *message)
{
	wrong_tier()->scan[FROM] = kernel;
	ck_assert_int_eq(equal_scan(&equal, FROM), *message == '\0');
	ck_assert_msg(strstr(equal.message, message) != NULL, "%s", equal.message);
}

static uint8_t *last_byte(const struct mxfp_convert_job *j)
{
	return (uint8_t *)j->dst + j->n - 1;
}

static void convert_right(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
}

static void quantize_right(const struct mxfp_quantize_job *j)
{
	mxfp_quantize_mx_ref(j);
}

static void dequantize_right(const struct mxfp_dequantize_job *j)
{
	mxfp_dequantize_mx_ref(j);
}

static void scan_right(struct mxfp_scan_job *j)
{
	mxfp_scan_ref(j);
}

TEST(right_kernels_pass)
{
	expect_convert(convert_right, "");
	expect_quantize(quantize_right, "");
	expect_dequantize(dequantize_right, "");
	expect_scan(scan_right, "");
}

/* Only where 31 of 32 lanes of a tail are in use. */
static void convert_wrong_in_the_last_lane(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (j->n % 32 == 31)
		*last_byte(j) ^= 1;
}

/* Only where three things come together. */
static void convert_wrong_in_one_mode(const struct mxfp_convert_job *j)
{
	uint8_t *code = j->dst;

	mxfp_convert_ref(j);
	for (size_t i = 3; i < j->n; i += 16)
		if (j->rounding.mode == MXFP_ROUND_RHZ && j->rounding.no_negative_zero && code[i] == 0x7E)
			code[i] = 0x7D;
}

static void convert_ignoring_high_index_bits(const struct mxfp_convert_job *j)
{
	struct mxfp_convert_job low = *j;

	low.first_index &= (UINT64_C(1) << 34) - 1;
	mxfp_convert_ref(&low);
}

static void convert_ignoring_one_number(const struct mxfp_convert_job *j)
{
	struct mxfp_convert_job shorter = *j;

	shorter.n -= shorter.n > 128;
	mxfp_convert_ref(&shorter);
}

TEST(wrong_codes_are_caught)
{
	expect_convert(convert_wrong_in_the_last_lane, "output array 0");
	expect_convert(convert_wrong_in_one_mode, "output array 0");
	expect_convert(convert_ignoring_high_index_bits, "output array 0");
	expect_convert(convert_ignoring_one_number, "output array 0");
}

/* The five counts, by their place in the structure. */
static size_t wrong_count;

static void convert_wrong_count(const struct mxfp_convert_job *j)
{
	uint64_t before[5], *count = &j->counts->saturated;

	memcpy(before, count, sizeof before);
	mxfp_convert_ref(j);
	if (count[wrong_count] > before[wrong_count] + 7)
		count[wrong_count]--;
}

static void convert_setting_counts(const struct mxfp_convert_job *j)
{
	memset(j->counts, 0, sizeof *j->counts);
	mxfp_convert_ref(j);
}

/* As if each lane counted in a byte. */
static void convert_counting_in_a_byte(const struct mxfp_convert_job *j)
{
	uint64_t before = j->counts->saturated;

	mxfp_convert_ref(j);
	j->counts->saturated = before + (j->counts->saturated - before) % (64 * 256);
}

TEST(wrong_counts_are_caught)
{
	for (wrong_count = 0; wrong_count < 5; wrong_count++)
		expect_convert(convert_wrong_count, "counts");
	expect_convert(convert_setting_counts, "counts");
	expect_convert(convert_counting_in_a_byte, "counts");
}

static void convert_writing_past_the_end(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (j->n % 16 == 5)
		((volatile uint8_t *)j->dst)[j->n] ^= 1;
}

static void convert_writing_before_the_start(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (j->n % 16 == 5)
		((volatile uint8_t *)j->dst)[-1] ^= 1;
}

/* Where no guard page is near. */
static void convert_writing_beside_a_guard(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (((uintptr_t)j->dst + j->n) % 4096 > 200 && ((uintptr_t)j->dst + j->n) % 4096 < 3800)
		((volatile uint8_t *)j->dst)[j->n + 63] ^= 1;
}

/* The byte is one that nothing compares: only a guard page can tell. */
static void convert_reading_past_the_end(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (j->n % 16 == 5)
		(void)((const volatile uint8_t *)j->src)[4 * j->n];
}

static void convert_reading_before_the_start(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (j->n % 16 == 5)
		(void)((const volatile uint8_t *)j->src)[-1];
}

static void convert_writing_to_the_source(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (j->n == 77)
		*(uint8_t *)(uintptr_t)j->src ^= 1;
}

static void quantize_writing_to_a_gap(const struct mxfp_quantize_job *j)
{
	mxfp_quantize_mx_ref(j);
	if (j->rows > 1 && j->codes_stride > (j->cols + 31) / 32 * 32)
		j->codes[j->codes_stride - 1] ^= 1;
}

static void quantize_reading_a_gap(const struct mxfp_quantize_job *j)
{
	struct mxfp_quantize_job wider = *j;

	wider.cols += wider.cols % 32 != 0 && wider.rows == 1 && wider.src_stride > wider.cols;
	mxfp_quantize_mx_ref(&wider);
}

TEST(memory_beyond_the_arrays_is_caught)
{
	expect_convert(convert_writing_past_the_end, "signal 11");
	expect_convert(convert_writing_before_the_start, "byte -1 is");
	expect_convert(convert_writing_beside_a_guard, "output array 0 of");
	expect_convert(convert_reading_past_the_end, "signal 11");
	expect_convert(convert_reading_before_the_start, "signal 11");
	expect_convert(convert_writing_to_the_source, "input array 1");
	expect_quantize(quantize_writing_to_a_gap, "output array 0");
	expect_quantize(quantize_reading_a_gap, "quantize");
}

static void convert_changing_the_state(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	if (j->n == 33)
		fp_state_set(fp_state_hostile(1));
}

/* An inexact division: a flag, or a trap where the caller wants it. */
static float third(void)
{
	volatile float one = 1, three = 3, quotient = one / three;

	return quotient;
}

static void convert_leaving_a_flag(const struct mxfp_convert_job *j)
{
	mxfp_convert_ref(j);
	third();
}

static void convert_with_the_rounding_of_the_caller(const struct mxfp_convert_job *j)
{
	uint64_t saved = fp_state_get();

	mxfp_convert_ref(j);
	if (third() != (float)(1 / 3.0) && j->n != 0)
		*last_byte(j) ^= 1;
	fp_state_set(saved);
}

/* Subnormals taken for zeros. */
static void quantize_heeding_flush_to_zero(const struct mxfp_quantize_job *j)
{
	volatile float smallest = 0x1p-126F, half = 0.5F;
	uint64_t saved = fp_state_get();

	mxfp_quantize_mx_ref(j);
	if (smallest * half == 0 && j->rows != 0 && j->cols != 0)
		j->scales[0] ^= 1;
	fp_state_set(saved);
}

TEST(floating_point_state_is_watched)
{
	if (FP_STATE_N_HOSTILE == 1)
		return; /* there is nothing to see on this machine */
	expect_convert(convert_changing_the_state, "floating-point state");
	/* These also trap where the caller has asked for it, so the message may be that. */
	wrong_tier()->convert[TO][FROM] = convert_leaving_a_flag;
	ck_assert(!equal_convert(&equal, TO, FROM));
	wrong_tier()->convert[TO][FROM] = convert_with_the_rounding_of_the_caller;
	ck_assert(!equal_convert(&equal, TO, FROM));
	wrong_tier()->quantize[BLOCKS] = quantize_heeding_flush_to_zero;
	ck_assert(!equal_quantize(&equal, BLOCKS, FROM, false));
}

static void quantize_wrong_in_one_block(const struct mxfp_quantize_job *j)
{
	mxfp_quantize_mx_ref(j);
	for (size_t i = 0; j->rule == MXFP_RULE_FIT && j->rows != 0 && i < j->cols / 32; i++)
		if (j->scales[i] == 0 && j->codes[32 * i + 17] != 0)
			j->codes[32 * i + 17] ^= 1;
}

static void dequantize_without_subnormals(const struct mxfp_dequantize_job *j)
{
	uint16_t x;

	mxfp_dequantize_mx_ref(j);
	for (size_t i = 0; j->rows != 0 && i < j->cols; i++) {
		memcpy(&x, (uint8_t *)j->dst + 2 * i, 2);
		x = (x & 0x7F80) == 0 ? x & 0x8000 : x;
		memcpy((uint8_t *)j->dst + 2 * i, &x, 2);
	}
}

static void scan_taking_the_last(struct mxfp_scan_job *j)
{
	struct mxfp_scan_job last = *j;

	mxfp_scan_ref(j);
	if (j->n == 0 || j->first_non_finite < j->first_index)
		return;
	last.src = (const uint8_t *)j->src + 4 * (j->n - 1);
	last.n = 1;
	last.first_non_finite = UINT64_MAX;
	last.first_index += j->n - 1;
	mxfp_scan_ref(&last);
	if (last.first_non_finite != UINT64_MAX)
		j->first_non_finite = last.first_non_finite;
}

TEST(every_slot_is_watched)
{
	expect_quantize(quantize_wrong_in_one_block, "output array 0");
	expect_dequantize(dequantize_without_subnormals, "output array 0");
	expect_scan(scan_taking_the_last, "first non-finite");
}

int main(void)
{
	return equal_main(&equal, NULL);
}
