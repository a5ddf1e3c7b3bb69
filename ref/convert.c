/* SPDX-License-Identifier: MIT */
/* Converts arrays, and loads and stores single numbers. Every number of an element format is exact in binary32, so a
   conversion is one decode and one encode. */
#include <string.h>

#include "minifloat.h"
#include "mxfp/philox.h"
#include "ref.h"

/* A code of more than 16 bits is in the top bits of its 32-bit word; tf32 has 13 unused bits below. */
static unsigned word_shift(const struct mxfp_format_info *f)
{
	return f->storage_bytes == 4 ? 32 - f->bits : 0;
}

uint32_t mxfp_ref_load(const struct mxfp_format_info *f, const void *array, size_t i)
{
	const uint8_t *at = (const uint8_t *)array + i * f->storage_bytes;
	uint16_t half;
	uint32_t word;

	if (f->storage_bytes == 1)
		return mxfp_minifloat_decode(f, *at);
	if (f->storage_bytes == 2) {
		memcpy(&half, at, sizeof half);
		return mxfp_minifloat_decode(f, half);
	}
	memcpy(&word, at, sizeof word);
	if (f->format == MXFP_FORMAT_F32)
		return word; /* unchanged; encoding quiets a NaN */
	return mxfp_minifloat_decode(f, word >> word_shift(f));
}

void mxfp_ref_store(const struct mxfp_format_info *f, void *array, size_t i, uint32_t code)
{
	uint8_t *at = (uint8_t *)array + i * f->storage_bytes;
	uint16_t half = (uint16_t)code;
	uint32_t word = code << word_shift(f);

	if (f->storage_bytes == 1)
		*at = (uint8_t)code;
	else if (f->storage_bytes == 2)
		memcpy(at, &half, sizeof half);
	else
		memcpy(at, &word, sizeof word);
}

void mxfp_convert_ref(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *to = mxfp_format_get_info(job->dst_format), *from = mxfp_format_get_info(job->src_format);
	const struct mxfp_rounding *r = &job->rounding;

	for (size_t i = 0; i < job->n; i++) {
		uint32_t random =
			r->mode == MXFP_ROUND_SR ? mxfp_philox_word(r->seed, r->stream, job->first_index + i) : 0;
		uint32_t x = mxfp_ref_load(from, job->src, i);

		mxfp_ref_store(to, job->dst, i, mxfp_minifloat_encode(to, x, 0, r, random, job->counts));
	}
}
