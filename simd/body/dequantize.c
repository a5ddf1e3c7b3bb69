/* SPDX-License-Identifier: MIT */
/*
 * Dequantizes blocks of every format (ref/mx.c, ref/nvfp4.c): fl32(code * scale), one more product or quotient for a
 * tensor scale, then one rounding if the destination is narrower. A group runs through one loop from codes to the
 * destination. If an element is a NaN or an Inf, or the tensor scale may turn a finite number into a NaN,
 * dequantize_steps() runs the steps one after the other instead.
 */
#include "tier.h"

#include "body/decode.h"
#include "body/encode.h"
#include "body/nearest.h"
#include "body/pack.h"
#include "body/slots.h"
#include "body/store.h"
#include "body/widener.h"
#include "scale.h"

enum {
	UNIT = 4 * LANES,
	GROUP = 512 /* numbers: a multiple of every block length and of UNIT */
};

struct dequantizer {
	const struct mxfp_dequantize_job *job;
	const struct mxfp_format_info *block, *element, *destination;
	struct encoder encoder;
	struct decoder codes, scales;
	struct widener widener;
	float tensor_scale;
	bool ordinary; /* the tensor scale makes no NaN */
};

/* The codes of a group, one per byte, and the scales of its blocks as binary32. */
struct group {
	uint8_t codes[GROUP];
	uint32_t scales[GROUP / MXFP_NVFP4_BLOCK];
};

/* Scales numbers of one block. A NaN element keeps its sign; a NaN from the scale or the tensor scale is 7FC00000. */
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

/* Dequantizes n numbers of a group, whatever it holds. */
static void dequantize_steps(const struct dequantizer *d, const struct group *g, size_t n, uint8_t *to)
{
	uint32_t x[GROUP], codes[GROUP];
	struct lane_counts unused = {0};
	struct encode_span span = {.n = n, .x = x, .codes = codes};

	decode_array(&d->codes, g->codes, n, x);
	for (size_t i = 0; i < n; i += LANES)
		store(x + i, scaled(d, (vf32)load(x + i), g->scales[i / d->block->block_length]));
	if (d->destination->format == MXFP_FORMAT_F32) {
		memcpy(to, x, n * sizeof x[0]);
		return;
	}
	encode_array(&d->encoder, MXFP_ROUND_RNE, &span, d->encoder.normal_field, &unused);
	store_codes(d->destination, to, codes, n);
}

/* Rounds and stores numbers i to i + 2 * LANES - 1. The only NaN among them may be 7FC00000. */
ALWAYS_INLINE void store_pair(enum mxfp_format format, uint8_t *to, size_t i, vf32 low, vf32 high)
{
	switch (format) {
	case MXFP_FORMAT_BF16:
		store_u16_pair(to + 2 * i, rounded_top_bits((vu32)low, 16) >> 16, rounded_top_bits((vu32)high, 16) >> 16);
		break;
	case MXFP_FORMAT_F16:
		store_f16(to + 2 * i, low);
		store_f16(to + 2 * (i + LANES), high);
		break;
	default:
		store(to + 4 * i, (vu32)low);
		store(to + 4 * (i + LANES), (vu32)high);
	}
}

/* How the tensor scale is applied: a constant where the functions below are inlined. */
enum tensor_scale { NONE, MULTIPLIES, DIVIDES };

ALWAYS_INLINE vf32 scale_numbers(enum tensor_scale kind, vf32 x, uint32_t scale, float tensor_scale)
{
	vf32 y = x * (vf32)splat(scale);

	return kind == NONE ? y : kind == DIVIDES ? y / tensor_scale : y * tensor_scale;
}

/* Dequantizes the first n numbers of a group, n rounded up to whole units. */
ALWAYS_INLINE void dequantize_units(const struct dequantizer *d, enum mxfp_format format, enum tensor_scale kind,
                                    const struct group *g, size_t n, uint8_t *to)
{
	const struct widener w = d->widener; /* a copy that no store can alias */
	size_t length = kind == NONE ? MXFP_MX_BLOCK : MXFP_NVFP4_BLOCK;
	bool fixed = d->element->kind == MXFP_KIND_FIXED;
	float tensor_scale = d->tensor_scale;

	for (size_t i = 0; i < n; i += UNIT) {
		const uint8_t *codes = g->codes + i;
		uint32_t first = g->scales[i / length], second = g->scales[(i + 2 * LANES) / length];
		vf32 x[4];

		if (fixed)
			for (size_t k = 0; k < 4; k++)
				x[k] = widen_integers(&w, load_u8(codes + k * LANES));
		else
			widen_codes(&w, (vu8)load(codes), x);
		store_pair(format, to, i, scale_numbers(kind, x[0], first, tensor_scale),
		           scale_numbers(kind, x[1], first, tensor_scale));
		store_pair(format, to, i + 2 * LANES, scale_numbers(kind, x[2], second, tensor_scale),
		           scale_numbers(kind, x[3], second, tensor_scale));
	}
}

ALWAYS_INLINE void dequantize_units_to(const struct dequantizer *d, enum mxfp_format format, const struct group *g,
                                       size_t n, uint8_t *to)
{
	if (!d->block->tensor_scale)
		dequantize_units(d, format, NONE, g, n, to);
	else if (d->job->tensor_scale_divides)
		dequantize_units(d, format, DIVIDES, g, n, to);
	else
		dequantize_units(d, format, MULTIPLIES, g, n, to);
}

static bool has_special(const struct dequantizer *d, const struct group *g, size_t n)
{
	vs8 special = {0};

	if (d->element->special == MXFP_SPECIAL_NONE)
		return false;
	for (size_t i = 0; i < n; i += UNIT)
		special |= special_codes(&d->widener, (vu8)load(g->codes + i));
	return any((vs32)special);
}

/* Unpacks GROUP 4-bit codes to one per byte. */
ALWAYS_INLINE void unpack_nibbles(uint8_t *codes, const uint8_t *packed)
{
	for (size_t i = 0; i < GROUP; i += 2 * UNIT) {
		vu16 words[2];

		widen_bytes((vu8)load(packed + i / 2), words);
		store(codes + i, (vu32)((words[0] | words[0] << 4) & 0x0F0F));
		store(codes + i + UNIT, (vu32)((words[1] | words[1] << 4) & 0x0F0F));
	}
}

static void load_group(const struct dequantizer *d, size_t row, size_t start, size_t n_blocks, struct group *g)
{
	const struct mxfp_dequantize_job *job = d->job;
	size_t length = d->block->block_length, n = n_blocks * length;
	const uint8_t *packed = job->codes + row * job->codes_stride + start * d->element->bits / 8;

	decode_array(&d->scales, job->scales + row * job->scales_stride + start / length, n_blocks, g->scales);
	if (n == GROUP && d->element->bits == 4) {
		unpack_nibbles(g->codes, packed);
		return;
	}
	unpack_codes(g->codes, packed, n, d->element->bits);
	if (n % UNIT != 0)
		memset(g->codes + n, 0, UNIT - n % UNIT);
}

/* Dequantizes numbers start to start + n - 1 of a row; `start` is the first number of a block. */
static void dequantize_group(const struct dequantizer *d, size_t row, size_t start, size_t n)
{
	const struct mxfp_dequantize_job *job = d->job;
	size_t length = d->block->block_length, n_blocks = n / length + (n % length != 0);
	uint8_t *dst = (uint8_t *)job->dst + (row * job->dst_stride + start) * d->destination->storage_bytes;
	uint8_t part[GROUP * sizeof(float)], *to = n % UNIT == 0 ? dst : part;
	struct group g;

	load_group(d, row, start, n_blocks, &g);
	if (!d->ordinary || has_special(d, &g, n)) {
		dequantize_steps(d, &g, n, dst);
		return;
	}
	if (d->destination->format == MXFP_FORMAT_BF16)
		dequantize_units_to(d, MXFP_FORMAT_BF16, &g, n, to);
	else if (d->destination->format == MXFP_FORMAT_F16)
		dequantize_units_to(d, MXFP_FORMAT_F16, &g, n, to);
	else
		dequantize_units_to(d, MXFP_FORMAT_F32, &g, n, to);
	if (to == part)
		memcpy(dst, part, n * d->destination->storage_bytes);
}

static NOINLINE void dequantize(const struct mxfp_dequantize_job *job)
{
	static const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE};
	const struct mxfp_format_info *block = mxfp_format_get_info(job->format);
	uint32_t tensor_magnitude = job->tensor_scale & ~F32_SIGN;
	struct dequantizer d = {
		.job = job,
		.block = block,
		.element = mxfp_format_get_info(block->element),
		.destination = mxfp_format_get_info(job->dst_format),
		.ordinary = !block->tensor_scale || (tensor_magnitude != 0 && tensor_magnitude < F32_INF),
	};

	encoder_init(&d.encoder, d.destination, &rne);
	decoder_init(&d.codes, d.element);
	decoder_init(&d.scales, mxfp_format_get_info(block->scale));
	widener_init(&d.widener, d.element);
	memcpy(&d.tensor_scale, &job->tensor_scale, sizeof d.tensor_scale);
	for (size_t row = 0; row < job->rows; row++)
		for (size_t start = 0; start < job->cols; start += GROUP)
			dequantize_group(&d, row, start, job->cols - start < GROUP ? job->cols - start : GROUP);
}

FP_KERNEL(TIER(dequantize), mxfp_dequantize_job, dequantize)
