/* SPDX-License-Identifier: MIT */
/* Finds the largest finite magnitude and the first non-finite number of an array in any element format. */
#include "tier.h"

#include "body/decode.h"
#include "body/slots.h"

enum { CHUNK = 1024 };

/* Updates *amax from a chunk. Returns false, with nothing changed, if the chunk has a non-finite number. */
static inline bool scan_finite(const uint32_t *x, size_t n, uint32_t non_finite_from, vu32 *amax)
{
	vu32 largest = {0};

	for (size_t i = 0; i < n; i += LANES)
		largest = max_u32(largest, load(x + i) & ~F32_SIGN);
	if (any((vs32)largest >= (int32_t)non_finite_from))
		return false;
	*amax = max_u32(*amax, largest);
	return true;
}

static void scan_numbers(struct mxfp_scan_job *job, const uint32_t *x, size_t n, uint64_t first_index, vu32 *amax)
{
	vs32 below = (vs32)splat(job->non_finite_from);

	for (size_t i = 0; i < n; i += LANES) {
		vu32 magnitude = load(x + i) & ~F32_SIGN;

		*amax = max_u32(*amax, (vu32)((vs32)magnitude < below) & magnitude);
	}
	for (size_t i = 0; i < n && first_index + i < job->first_non_finite; i++)
		if ((x[i] & ~F32_SIGN) >= job->non_finite_from)
			job->first_non_finite = first_index + i;
}

void TIER(scan)(struct mxfp_scan_job *job)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(job->src_format);
	uint32_t x[CHUNK];
	struct decoder decoder;
	vu32 amax = {0};

	decoder_init(&decoder, format);
	for (size_t i = 0; i < job->n; i += CHUNK) {
		size_t n = job->n - i < CHUNK ? job->n - i : CHUNK;

		decode_array(&decoder, (const uint8_t *)job->src + i * format->storage_bytes, n, x);
		if (!scan_finite(x, n, job->non_finite_from, &amax))
			scan_numbers(job, x, n, job->first_index + i, &amax);
	}
	for (int lane = 0; lane < LANES; lane++)
		if (amax[lane] > job->amax)
			job->amax = amax[lane];
}
