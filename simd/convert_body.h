/* SPDX-License-Identifier: MIT */
/*
 * Any element format to any other, every mode: decode to binary32 and encode, a chunk at a time through buffers that
 * stay in the first-level cache. All is integers but for exact products, so the caller's floating-point state does not
 * matter.
 */
#include "decode_body.h"
#include "encode_body.h"
#include "philox_body.h"

enum { CHUNK = 1024 };

/* Stores n codes in their width. */
static inline void store_codes(const struct mxfp_format_info *f, uint8_t *to, const uint32_t *codes, size_t n)
{
	uint8_t part[VECTOR_BYTES];
	unsigned word_shift = f->storage_bytes == 4 ? 32 - f->bits : 0; /* tf32 stands at the top of its word */

	for (size_t i = 0; i < n; i += LANES) {
		uint8_t *at = n - i < LANES ? part : to + i * f->storage_bytes;
		vu32 code = load(codes + i) << word_shift;

		if (f->storage_bytes == 1)
			store_u8(at, code);
		else if (f->storage_bytes == 2)
			store_u16(at, code);
		else
			store(at, code);
		if (at == part)
			memcpy(to + i * f->storage_bytes, part, (n - i) * f->storage_bytes);
	}
}

void TIER_NAME(convert)(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *to = mxfp_format_info(job->dst_format), *from = mxfp_format_info(job->src_format);
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
