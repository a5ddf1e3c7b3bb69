/* SPDX-License-Identifier: MIT */
/*
 * Conversion between element formats other than binary32, which holds every number of each: one kernel decodes to
 * binary32 and another encodes, through a buffer that stays in the L1 cache. Only the second one counts.
 */
#include "tier.h"
#include "body/slots.h"

/* 15 KiB: a function may have 16 KiB on the stack. */
enum { RELAYED = 3840 };

static mxfp_convert_kernel *decoder_of(enum mxfp_format source)
{
	return mxfp_format_get_info(source)->bits <= 8 ? TIER(decode) : TIER(decode_wide);
}

static mxfp_convert_kernel *encoder_of(enum mxfp_format destination)
{
	return mxfp_format_get_info(destination)->bits <= 8 ? TIER(encode) : TIER(encode_wide);
}

void TIER(relay)(const struct mxfp_convert_job *job)
{
	size_t dst_bytes = mxfp_format_get_info(job->dst_format)->storage_bytes;
	size_t src_bytes = mxfp_format_get_info(job->src_format)->storage_bytes;
	mxfp_convert_kernel *decode = decoder_of(job->src_format), *encode = encoder_of(job->dst_format);
	uint32_t x[RELAYED];
	struct mxfp_counts unused = {0};

	for (size_t i = 0; i < job->n; i += RELAYED) {
		struct mxfp_convert_job first = {.dst_format = MXFP_FORMAT_F32, .src_format = job->src_format, .dst = x};
		struct mxfp_convert_job second = *job;

		first.src = (const uint8_t *)job->src + i * src_bytes;
		first.n = second.n = job->n - i < RELAYED ? job->n - i : RELAYED;
		first.counts = &unused;
		second.src_format = MXFP_FORMAT_F32;
		second.src = x;
		second.dst = (uint8_t *)job->dst + i * dst_bytes;
		second.first_index += i;
		decode(&first);
		encode(&second);
	}
}
