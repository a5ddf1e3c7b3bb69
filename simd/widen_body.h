/* SPDX-License-Identifier: MIT */
/*
 * Codes to binary32: a fast path before convert_body.h. A code of at most 8 bits becomes the binary16 with the same
 * fields, of which the machine makes a binary32, and one exact product corrects the bias. Groups that have a NaN or an
 * Inf are done again by the general kernel, and so is what does not fill a group.
 */
#include "kernels.h"

enum { UNIT = 4 * LANES, GROUP_UNITS = 8, GROUP = GROUP_UNITS * UNIT };

enum { F16_EXPONENT_BITS = 5, F16_SIGNIFICAND_BITS = 10, F16_BIAS = 15 };

struct widener {
	uint8_t magnitudes, last_finite;
	uint16_t up, down, fields;
	float scale;
};

static inline void widener_init(struct widener *w, const struct mxfp_format_info *f)
{
	unsigned below = F16_SIGNIFICAND_BITS - f->significand_bits;
	uint32_t exponent = f->kind == MXFP_KIND_FIXED ? -f->significand_bits : (uint32_t)(F16_BIAS - f->bias);
	uint32_t scale = (F32_BIAS + exponent) << F32_SIGNIFICAND_BITS;

	*w = (struct widener){
		.magnitudes = (uint8_t)((1U << (f->bits - 1)) - 1),
		.last_finite = (uint8_t)(f->special == MXFP_SPECIAL_NONE ? INT8_MAX : f->max_code),
		.up = (uint16_t)(16 - f->bits),
		.down = (uint16_t)(F16_EXPONENT_BITS - f->exponent_bits),
	};
	w->fields = (uint16_t)(w->magnitudes << below | (f->kind == MXFP_KIND_FLOAT ? 0x8000 : 0));
	memcpy(&w->scale, &scale, sizeof scale);
}

/* Bytes in words to numbers. The sign is at the top twice or more until the fields are cut out. */
ALWAYS_INLINE void store_floats(const struct widener *w, vu16 codes, uint8_t *to)
{
	vf32 x[2];

	widen_f16((vu16)((vs16)(codes << w->up) >> w->down) & w->fields, x);
	store(to, (vu32)(x[0] * w->scale));
	store(to + VECTOR_BYTES, (vu32)(x[1] * w->scale));
}

/* Each of these gives false if the group has a NaN or an Inf. */
ALWAYS_INLINE bool group_of_floats(const struct widener *widener, const uint8_t *from, uint8_t *to)
{
	const struct widener local = *widener, *w = &local; /* what no store can change */
	vs8 special = {0};

	for (size_t i = 0; i < GROUP; i += UNIT) {
		vu8 codes = (vu8)load(from + i);
		vu16 half[2];

		special |= (vs8)(codes & w->magnitudes) > (int8_t)w->last_finite;
		widen_bytes(codes, half);
		store_floats(w, half[0], to + 4 * i);
		store_floats(w, half[1], to + 4 * i + 2 * VECTOR_BYTES);
	}
	return !any((vs32)special);
}

ALWAYS_INLINE bool group_of_integers(const struct widener *w, const uint8_t *from, uint8_t *to)
{
	for (size_t i = 0; i < GROUP; i += LANES) {
		vs32 x = (vs32)(load_u8(from + i) << 24) >> 24;

		store(to + 4 * i, (vu32)(__builtin_convertvector(x, vf32) * w->scale));
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
	const struct mxfp_format_info *from = mxfp_format_info(job->src_format);
	struct mxfp_convert_job part = *job;
	struct widener w;

	widener_init(&w, from);
	part.n = GROUP;
	for (size_t i = 0; i + GROUP <= job->n; i += GROUP) {
		part.src = (const uint8_t *)job->src + i * from->storage_bytes;
		part.dst = (uint8_t *)job->dst + i * sizeof(float);
		if (!group_of(format, &w, part.src, part.dst))
			TIER_NAME(convert)(&part);
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

void TIER_NAME(widen)(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *from = mxfp_format_info(job->src_format);
	struct mxfp_convert_job rest = *job;

	if (from->bits <= 16 && from->kind != MXFP_KIND_EXPONENT && !job->rounding.no_negative_zero) {
		struct fp_state state = fp_enter();

		widen(job);
		fp_leave(state);
		rest.src = (const uint8_t *)job->src + from->storage_bytes * (job->n - job->n % GROUP);
		rest.dst = (uint8_t *)job->dst + sizeof(float) * (job->n - job->n % GROUP);
		rest.n %= GROUP;
	}
	if (rest.n != 0)
		TIER_NAME(convert)(&rest);
}
