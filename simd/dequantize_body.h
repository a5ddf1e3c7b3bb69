/* SPDX-License-Identifier: MIT */
/*
 * Blocks of every format to numbers (ref/mx.c, ref/nvfp4.c): fl32(code * scale), with a tensor scale one more product
 * or quotient, then one rounding if the destination is narrower.
 */
#include "decode_body.h"
#include "encode_body.h"
#include "pack_body.h"
#include "store_body.h"

enum { MIN_BLOCK = 16, GROUP = 512 /* numbers, whole blocks of each format, MIN_BLOCK * LANES or more */ };

struct dequantizer {
	const struct mxfp_dequantize_job *job;
	const struct mxfp_format_info *block, *element, *destination;
	struct encoder encoder;
	struct decoder codes, scales;
	float tensor_scale;
};

/* Numbers of one block: NaN keeps its sign unless it comes from the scale or the tensor scale. */
static inline vu32 scaled(const struct dequantizer *d, vf32 x, uint32_t scale)
{
	vf32 y = x * (vf32)splat(scale);

	if (scale == F32_NAN)
		return splat(F32_NAN);
	if (!d->block->tensor_scale)
		return (vu32)y;
	y = d->job->tensor_scale_divides ? y / d->tensor_scale : y * d->tensor_scale;
	return blend(y == y, (vu32)y, splat(F32_NAN));
}

/* Numbers `start` to start + n - 1 of a row; a group starts at the first of a block. */
static void dequantize_group(const struct dequantizer *d, size_t row, size_t start, size_t n)
{
	const struct mxfp_dequantize_job *job = d->job;
	size_t length = d->block->block_length, n_blocks = n / length + (n % length != 0);
	uint8_t *dst = (uint8_t *)job->dst + (row * job->dst_stride + start) * d->destination->storage_bytes;
	uint8_t bytes[GROUP];
	uint32_t x[GROUP], codes[GROUP], scales[GROUP / MIN_BLOCK];
	struct lane_counts unused = {0};
	struct encode_span span = {.n = n, .x = x, .codes = codes};

	unpack_codes(bytes, job->codes + row * job->codes_stride + start * d->element->bits / 8, n_blocks * length,
	             d->element->bits);
	decode_array(&d->codes, bytes, n_blocks * length, x);
	decode_array(&d->scales, job->scales + row * job->scales_stride + start / length, n_blocks, scales);
	for (size_t i = 0; i < n; i += LANES)
		store(x + i, scaled(d, (vf32)load(x + i), scales[i / length]));
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
	const struct mxfp_format_info *block = mxfp_format_info(job->format);
	struct dequantizer d = {
		.job = job,
		.block = block,
		.element = mxfp_format_info(block->element),
		.destination = mxfp_format_info(job->dst_format),
	};

	encoder_init(&d.encoder, d.destination, &rne);
	decoder_init(&d.codes, d.element);
	decoder_init(&d.scales, mxfp_format_info(block->scale));
	memcpy(&d.tensor_scale, &job->tensor_scale, sizeof d.tensor_scale);
	for (size_t row = 0; row < job->rows; row++)
		for (size_t start = 0; start < job->cols; start += GROUP)
			dequantize_group(&d, row, start, job->cols - start < GROUP ? job->cols - start : GROUP);
}

void TIER_NAME(dequantize)(const struct mxfp_dequantize_job *job)
{
	struct fp_state state = fp_enter();

	dequantize(job);
	fp_leave(state);
}
