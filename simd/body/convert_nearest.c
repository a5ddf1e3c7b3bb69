/* SPDX-License-Identifier: MIT */
/*
 * A fast path before convert.c: binary32 to the narrower signed formats, to nearest even. Each group of numbers records
 * its largest and smallest magnitude. If they show a NaN, an Inf or another rare case, convert.c converts the group
 * again; if they show that a number saturates or is flushed, count_group() counts. Numbers after the last whole group
 * also go to convert.c.
 */
#include "tier.h"

#include "body/nearest.h"
#include "body/slots.h"

enum { UNIT = 4 * LANES, GROUP_UNITS = 8, GROUP = GROUP_UNITS * UNIT };

struct range {
	vu32 min; /* of magnitude - 1 in formats wider than a byte, so that zeros do not count */
	vu32 max;
};

/* Loads numbers i, i + 1, ... of a group and extends the range by their magnitudes; `less` is subtracted for `min`. */
ALWAYS_INLINE vu32 load_number(const uint8_t *x, size_t i, uint32_t less, struct range *r)
{
	vu32 v = load(x + 4 * i), magnitude = v & ~F32_SIGN;

	r->min = min_u32(r->min, magnitude - less);
	r->max = max_u32(r->max, magnitude);
	return v;
}

ALWAYS_INLINE vu32 clamped_codes(const struct nearest *e, vu32 x)
{
	return nearest_codes(e, min_u32(x & ~F32_SIGN, splat(e->max)), e->normal_field);
}

ALWAYS_INLINE struct range group_to_bytes(const struct nearest *format, bool negate, bool fnuz, const uint8_t *x, uint8_t *to)
{
	const struct nearest local = *format, *e = &local; /* a copy that no store can alias */
	struct range r = {splat(UINT32_MAX), splat(0)};

	for (size_t i = 0; i < GROUP; i += UNIT) {
		const vu32 v[4] = {load_number(x, i, 0, &r), load_number(x, i + LANES, 0, &r),
		                   load_number(x, i + 2 * LANES, 0, &r), load_number(x, i + 3 * LANES, 0, &r)};
		const vu32 codes[4] = {clamped_codes(e, v[0]), clamped_codes(e, v[1]), clamped_codes(e, v[2]),
		                       clamped_codes(e, v[3])};

		const vu8 bytes = signed_bytes(e, negate, low_bytes(codes), sign_bytes(v));

		store(to + i, (vu32)(fnuz ? without_signed_zeros(e, bytes) : bytes));
	}
	return r;
}

ALWAYS_INLINE struct range group_to_bf16(const uint8_t *x, uint8_t *to)
{
	struct range r = {splat(UINT32_MAX), splat(0)};

	for (size_t i = 0; i < GROUP; i += 2 * LANES)
		store_u16_pair(to + 2 * i, rounded_top_bits(load_number(x, i, 1, &r), 16) >> 16,
		               rounded_top_bits(load_number(x, i + LANES, 1, &r), 16) >> 16);
	return r;
}

ALWAYS_INLINE struct range group_to_tf32(const uint8_t *x, uint8_t *to)
{
	struct range r = {splat(UINT32_MAX), splat(0)};

	for (size_t i = 0; i < GROUP; i += LANES)
		store(to + 4 * i, rounded_top_bits(load_number(x, i, 1, &r), 19) & (UINT32_MAX << (32 - 19)));
	return r;
}

ALWAYS_INLINE struct range group_to_f16(const uint8_t *x, uint8_t *to)
{
	struct range r = {splat(UINT32_MAX), splat(0)};

#pragma GCC unroll 4
	for (size_t i = 0; i < GROUP; i += LANES)
		store_f16(to + 2 * i, (vf32)load_number(x, i, 1, &r));
	return r;
}

/* Counts the numbers that saturate and those that are flushed: zero codes minus zero numbers. */
static NOINLINE void count_group(const struct nearest *e, const struct range *r, const uint8_t *x, const uint8_t *codes,
                                 struct mxfp_counts *counts)
{
	vs32 saturated = {0}, zeros = {0};
	vs8 zero_codes = {0}; /* at most GROUP_UNITS in each byte */

	if (any((vs32)r->max >= (int32_t)e->past))
		for (size_t i = 0; i < GROUP; i += LANES)
			saturated -= (vs32)(load(x + 4 * i) & ~F32_SIGN) >= (int32_t)e->past;
	counts->saturated += sum_lanes((vu32)saturated);
	if (!any((vs32)r->min <= (int32_t)e->flushed))
		return;
	for (size_t i = 0; i < GROUP; i += UNIT)
		zero_codes -= ((vu8)load(codes + i) & (uint8_t)~e->sign_code) == 0;
	for (size_t i = 0; i < UNIT; i++)
		counts->flushed += (uint8_t)zero_codes[i];
	if (!any(r->min == 0))
		return;
	for (size_t i = 0; i < GROUP; i += LANES)
		zeros -= (load(x + 4 * i) & ~F32_SIGN) == 0;
	counts->flushed -= sum_lanes((vu32)zeros);
}

/* Converts a group. Returns false if convert.c must convert it again. */
ALWAYS_INLINE bool group_to(enum mxfp_format format, const struct nearest *e, const uint8_t *x, uint8_t *to,
                            const struct mxfp_convert_job *job)
{
	struct range r = format == MXFP_FORMAT_BF16   ? group_to_bf16(x, to)
	                 : format == MXFP_FORMAT_TF32 ? group_to_tf32(x, to)
	                 : format == MXFP_FORMAT_F16  ? group_to_f16(x, to)
	                                              : group_to_bytes(e, format == MXFP_FORMAT_INT8,
	                                                               format == MXFP_FORMAT_E4M3FNUZ, x, to);
	bool wide = format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_TF32 || format == MXFP_FORMAT_F16;
	uint32_t kept = wide ? e->flushed : e->flushed + 1; /* r.min is at least this if nothing is flushed */
	bool past = any((vs32)r.max >= (int32_t)e->past), flushes = any(min_u32(r.min, splat(kept)) != kept);

	if (wide)
		return !past && !flushes;
	if (past && (!e->clamps || any((vs32)r.max >= (int32_t)F32_INF)))
		return false;
	if (past || flushes)
		count_group(e, &r, x, to, job->counts);
	return true;
}

/* Converts all whole groups. */
ALWAYS_INLINE void convert_groups(enum mxfp_format format, const struct mxfp_convert_job *job, const struct nearest *e)
{
	unsigned storage_bytes = mxfp_format_get_info(job->dst_format)->storage_bytes;
	struct mxfp_convert_job part = *job;

	part.n = GROUP;
	for (size_t i = 0; i + GROUP <= job->n; i += GROUP) {
		part.src = (const uint8_t *)job->src + 4 * i;
		part.dst = (uint8_t *)job->dst + i * storage_bytes;
		if (!group_to(format, e, part.src, part.dst, job))
			TIER(convert)(&part);
	}
}

static NOINLINE void convert_nearest(const struct mxfp_convert_job *job)
{
	struct nearest e;

	nearest_init(&e, mxfp_format_get_info(job->dst_format), job->rounding.overflow);
	switch (job->dst_format) {
	case MXFP_FORMAT_BF16:
		convert_groups(MXFP_FORMAT_BF16, job, &e);
		break;
	case MXFP_FORMAT_TF32:
		convert_groups(MXFP_FORMAT_TF32, job, &e);
		break;
	case MXFP_FORMAT_F16:
		convert_groups(MXFP_FORMAT_F16, job, &e);
		break;
	case MXFP_FORMAT_INT8:
		convert_groups(MXFP_FORMAT_INT8, job, &e);
		break;
	case MXFP_FORMAT_E4M3FNUZ:
	case MXFP_FORMAT_E5M2FNUZ:
		convert_groups(MXFP_FORMAT_E4M3FNUZ, job, &e);
		break;
	default:
		convert_groups(MXFP_FORMAT_E4M3, job, &e);
	}
}

void TIER(convert_nearest)(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *to = mxfp_format_get_info(job->dst_format);
	bool has_sign = to->kind == MXFP_KIND_FLOAT || to->kind == MXFP_KIND_FIXED;
	struct mxfp_convert_job rest = *job;

	if (job->rounding.mode == MXFP_ROUND_SR) {
		TIER(convert_stochastic)(job);
		return;
	}
	if (job->rounding.mode == MXFP_ROUND_RNE && has_sign && !job->rounding.no_negative_zero) {
		struct fp_state state = fp_enter();

		convert_nearest(job);
		fp_leave(state);
		rest.src = (const uint8_t *)job->src + 4 * (job->n - job->n % GROUP);
		rest.dst = (uint8_t *)job->dst + to->storage_bytes * (job->n - job->n % GROUP);
		rest.n %= GROUP;
	}
	if (rest.n != 0)
		TIER(convert)(&rest);
}
