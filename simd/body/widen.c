/* SPDX-License-Identifier: MIT */
/* A fast path before convert.c: codes to binary32. convert.c converts groups with a NaN or an Inf again, and the codes
   after the last whole group; and all of the FNUZ formats, as binary16 has Inf and NaN where e5m2fnuz has its largest numbers. */
#include "tier.h"

#include "body/slots.h"
#include "body/widener.h"

enum { UNIT = 4 * LANES, GROUP_UNITS = 8, GROUP = GROUP_UNITS * UNIT };

/* Each of these converts a group and returns false if it has a NaN or an Inf. */
ALWAYS_INLINE bool group_of_floats(const struct widener *widener, const uint8_t *from, uint8_t *to)
{
	const struct widener local = *widener, *w = &local; /* a copy that no store can alias */
	vs8 special = {0};

	for (size_t i = 0; i < GROUP; i += UNIT) {
		vu8 codes = (vu8)load(from + i);
		vf32 x[4];

		special |= special_codes(w, codes);
		widen_codes(w, codes, x);
		store(to + 4 * i, (vu32)x[0]);
		store(to + 4 * i + VECTOR_BYTES, (vu32)x[1]);
		store(to + 4 * i + 2 * VECTOR_BYTES, (vu32)x[2]);
		store(to + 4 * i + 3 * VECTOR_BYTES, (vu32)x[3]);
	}
	return !any((vs32)special);
}

ALWAYS_INLINE bool group_of_integers(const struct widener *w, const uint8_t *from, uint8_t *to)
{
	for (size_t i = 0; i < GROUP; i += LANES) {
		store(to + 4 * i, (vu32)widen_integers(w, load_u8(from + i)));
	}
	return true;
}

ALWAYS_INLINE bool group_of_words(enum mxfp_format format, const uint8_t *from, uint8_t *to)
{
	vu32 max = {0};

	for (size_t i = 0; i < GROUP; i += 2 * LANES) {
		vf32 x[2];

		if (format == MXFP_FORMAT_F16) {
			widen_f16((vu16)load(from + 2 * i), x);
		} else {
			x[0] = (vf32)(load_u16(from + 2 * i) << 16);
			x[1] = (vf32)(load_u16(from + 2 * (i + LANES)) << 16);
		}
		max = max_u32(max, max_u32((vu32)x[0] & ~F32_SIGN, (vu32)x[1] & ~F32_SIGN));
		store(to + 4 * i, (vu32)x[0]);
		store(to + 4 * (i + LANES), (vu32)x[1]);
	}
	return !any((vs32)max >= (int32_t)F32_INF);
}

ALWAYS_INLINE bool group_of(enum mxfp_format format, const struct widener *w, const uint8_t *from, uint8_t *to)
{
	switch (format) {
	case MXFP_FORMAT_BF16:
	case MXFP_FORMAT_F16:
		return group_of_words(format, from, to);
	case MXFP_FORMAT_INT8:
		return group_of_integers(w, from, to);
	default:
		return group_of_floats(w, from, to);
	}
}

ALWAYS_INLINE void widen_groups(enum mxfp_format format, const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(job->src_format);
	struct mxfp_convert_job part = *job;
	struct widener w;

	widener_init(&w, from);
	part.n = GROUP;
	for (size_t i = 0; i + GROUP <= job->n; i += GROUP) {
		part.src = (const uint8_t *)job->src + i * from->storage_bytes;
		part.dst = (uint8_t *)job->dst + i * sizeof(float);
		if (!group_of(format, &w, part.src, part.dst))
			TIER(convert)(&part);
	}
}

static NOINLINE void widen(const struct mxfp_convert_job *job)
{
	switch (job->src_format) {
	case MXFP_FORMAT_BF16:
		widen_groups(MXFP_FORMAT_BF16, job);
		break;
	case MXFP_FORMAT_F16:
		widen_groups(MXFP_FORMAT_F16, job);
		break;
	case MXFP_FORMAT_INT8:
		widen_groups(MXFP_FORMAT_INT8, job);
		break;
	default:
		widen_groups(MXFP_FORMAT_E4M3, job);
	}
}

void TIER(widen)(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(job->src_format);
	struct mxfp_convert_job rest = *job;

	if (from->bits <= 16 && from->kind != MXFP_KIND_EXPONENT && from->special != MXFP_SPECIAL_FNUZ &&
	    !job->rounding.no_negative_zero) {
		struct fp_state state = fp_enter();

		widen(job);
		fp_leave(state);
		rest.src = (const uint8_t *)job->src + from->storage_bytes * (job->n - job->n % GROUP);
		rest.dst = (uint8_t *)job->dst + sizeof(float) * (job->n - job->n % GROUP);
		rest.n %= GROUP;
	}
	if (rest.n != 0)
		TIER(convert)(&rest);
}
