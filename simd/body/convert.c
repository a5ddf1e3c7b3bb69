/* SPDX-License-Identifier: MIT */
/*
 * The general conversion: any element format to any other, in every rounding mode. It decodes to binary32 and encodes,
 * a chunk at a time, through buffers that stay in the L1 cache. The arithmetic is on integers except for products that
 * are exact, so the caller's floating-point state does not matter.
 */
#include "tier.h"

#include "body/decode.h"
#include "body/encode.h"
#include "body/philox.h"
#include "body/slots.h"
#include "body/store.h"

enum { CHUNK = 1024 };

static NOINLINE void encode_exponents(const struct encoder *e, enum mxfp_round mode, struct encode_span *span,
                                      struct lane_counts *counts)
{
	switch (mode) {
#define MXFP_ROUND(id, value, name, meaning) \
	case MXFP_ROUND_##id: \
		encode_mode(e, true, MXFP_ROUND_##id, span, 0, counts); \
		break;
#include "option.def"
	}
}

void TIER(convert)(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *to = mxfp_format_get_info(job->dst_format), *from = mxfp_format_get_info(job->src_format);
	const struct mxfp_rounding *r = &job->rounding;
	uint32_t x[CHUNK], codes[CHUNK], words[CHUNK + PHILOX_SLACK];
	struct lane_counts counts = {0};
	struct encode_span span = {.x = x, .codes = codes};
	struct encoder encoder;
	struct decoder decoder;

	encoder_init(&encoder, to, r);
	decoder_init(&decoder, from);
	for (size_t i = 0; i < job->n; i += CHUNK) {
		span.n = job->n - i < CHUNK ? job->n - i : CHUNK;
		decode_array(&decoder, (const uint8_t *)job->src + i * from->storage_bytes, span.n, x);
		if (r->mode == MXFP_ROUND_SR)
			span.random = philox_fill(words, r->seed, r->stream, job->first_index + i, span.n);
		if (to->format == MXFP_FORMAT_F32)
			encode_f32_array(&encoder, &span, &counts);
		else if (to->kind == MXFP_KIND_EXPONENT)
			encode_exponents(&encoder, r->mode, &span, &counts);
		else
			encode_array(&encoder, r->mode, &span, encoder.normal_field, &counts);
		store_codes(to, (uint8_t *)job->dst + i * to->storage_bytes, codes, span.n);
	}
	lane_counts_add(job->counts, &counts);
}
