/* SPDX-License-Identifier: MIT */
/* MX blocks to numbers: fl32(code * 2^s), then one rounding if the destination is narrower. */
#include "decode_body.h"
#include "encode_body.h"
#include "pack_body.h"
#include "store_body.h"

enum { BLOCK = 32, GROUP_BLOCKS = 16, GROUP = GROUP_BLOCKS * BLOCK, SCALE_NAN = 0xFF };

struct dequantizer {
	const struct mxfp_dequantize_job *job;
	const struct mxfp_format_info *element, *destination;
	struct encoder encoder;
	struct decoder codes;
};

/* A scale's value; NaN is left to the caller. */
static inline float scale_value(uint8_t scale)
{
	uint32_t bits = scale == 0 ? F32_HIDDEN / 2 : (uint32_t)scale << F32_SIGNIFICAND_BITS;
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static void dequantize_group(const struct dequantizer *d, size_t row, size_t first_block, size_t n_blocks)
{
	const struct mxfp_dequantize_job *job = d->job;
	const uint8_t *scales = job->scales + row * job->scales_stride + first_block;
	size_t start = first_block * BLOCK, n = job->cols - start < n_blocks * BLOCK ? job->cols - start : n_blocks * BLOCK;
	uint8_t *dst = (uint8_t *)job->dst + (row * job->dst_stride + start) * d->destination->storage_bytes;
	uint8_t bytes[GROUP];
	uint32_t x[GROUP], codes[GROUP];
	struct lane_counts unused = {0};
	struct encode_span span = {.n = n, .x = x, .codes = codes};

	unpack_codes(bytes, job->codes + row * job->codes_stride + start * d->element->bits / 8, n_blocks * BLOCK,
	             d->element->bits);
	decode_array(&d->codes, bytes, n_blocks * BLOCK, x);
	for (size_t i = 0; i < n_blocks * BLOCK; i += LANES) {
		uint8_t scale = scales[i / BLOCK];

		store(x + i, scale == SCALE_NAN ? splat(F32_NAN) : (vu32)((vf32)load(x + i) * scale_value(scale)));
	}
	if (d->destination->format == MXFP_FORMAT_F32) {
		memcpy(dst, x, n * sizeof x[0]);
		return;
	}
	encode_array(&d->encoder, MXFP_ROUND_RNE, &span, d->encoder.normal_field, &unused);
	store_codes(d->destination, dst, codes, n);
}

static NOINLINE void dequantize(const struct mxfp_dequantize_job *job)
{
	static const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE};
	size_t blocks = job->cols / BLOCK + (job->cols % BLOCK != 0);
	struct dequantizer d = {
		.job = job,
		.element = mxfp_format_info(mxfp_format_info(job->format)->element),
		.destination = mxfp_format_info(job->dst_format),
	};

	encoder_init(&d.encoder, d.destination, &rne);
	decoder_init(&d.codes, d.element);
	for (size_t row = 0; row < job->rows; row++)
		for (size_t block = 0; block < blocks; block += GROUP_BLOCKS)
			dequantize_group(&d, row, block, blocks - block < GROUP_BLOCKS ? blocks - block : GROUP_BLOCKS);
}

void TIER_NAME(dequantize_mx)(const struct mxfp_dequantize_job *job)
{
	struct fp_state state = fp_enter();

	dequantize(job);
	fp_leave(state);
}
