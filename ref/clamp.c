/* SPDX-License-Identifier: MIT */
/* Which elements a block clamps: doc/numerics.md, section 11. */
#include "f32.h"
#include "minifloat.h"
#include "ref.h"
#include "scale.h"

/* The largest element times the scale has at most 8 significant bits, so it is a bf16 number. Magnitudes up to halfway to
   the next one round to it, that one included if the number is even. */
static uint32_t up_to_rounding(uint32_t limit)
{
	return limit + (limit & 0x10000 ? 0x7FFF : 0x8000);
}

uint32_t mxfp_mx_limit_ref(enum mxfp_format format, bool via_bf16, uint8_t scale)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(format)->element);

	if (scale == MXFP_SCALE_NAN)
		return MXFP_LIMIT_NONE;
	uint32_t limit = mxfp_f32_scale(mxfp_minifloat_decode(element, element->max_code), scale - MXFP_SCALE_BIAS);
	return via_bf16 && limit < MXFP_F32_INF ? up_to_rounding(limit) : limit;
}

void mxfp_clamp_ref(const struct mxfp_clamp_job *job)
{
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);

	for (size_t i = 0; i < job->n; i++)
		job->clamped[i] = (mxfp_ref_load(f32, job->x, i) & ~MXFP_F32_SIGN) > job->limits[i / job->block_length];
}
