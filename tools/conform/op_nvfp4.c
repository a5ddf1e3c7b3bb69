/* SPDX-License-Identifier: MIT */
/* NVFP4: tensor scales, blocks both ways. */
#include "config.h"

#include <float.h>

#include "base/library.h"
#include "conform/number.h"

enum { BLOCK = 16, N_RECIPES = MXFP_RECIPE_MODELOPT_4OVER6 + 1, N_ROUNDS = 3 };

static const struct mxfp_format_info *e2m1(void)
{
	return mxfp_format_get_info(MXFP_FORMAT_E2M1);
}

static const struct mxfp_format_info *ue4m3(void)
{
	return mxfp_format_get_info(MXFP_FORMAT_UE4M3);
}

static bool has_tensor_scale(enum mxfp_recipe recipe)
{
	return recipe != MXFP_RECIPE_TORCHAO_1 && recipe != MXFP_RECIPE_GGML;
}

/* Quantizes a block of a tensor with this amax. */
static struct mxfp_blocks quantize(const uint32_t x[BLOCK], uint8_t codes[BLOCK / 2], uint8_t *scale, uint32_t amax,
                                   const struct way *way)
{
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 1, BLOCK, codes, scale);
	const int round = way->choice[MXFP_OPTION_ROUND];
	struct mxfp_quantize_options options = {
		.size = sizeof options, .recipe = (enum mxfp_recipe)way->choice[MXFP_OPTION_RECIPE],
		.round = round < 0 ? MXFP_ROUND_RNE : (enum mxfp_round)round, .tensor_amax = mxfp_some(f32_value(amax)),
		.no_negative_zero = has_quirk(way, QUIRK_NO_NEGATIVE_ZERO),
	};

	if (options.recipe == MXFP_RECIPE_GGML)
		options.round = MXFP_ROUND_RNE;
	must_succeed(dense_quantize(&blocks, MXFP_FORMAT_F32, x, &options, REFERENCE));
	return blocks;
}

static void add_f32(struct items *items, uint32_t x)
{
	uint8_t bytes[4];

	store_f32(bytes, x);
	items_add(items, bytes);
}

/* Tensor scales. */

static bool tensor_question(struct question *q, size_t i)
{
	question_begin(q, OP_NVFP4_TENSOR);
	question_choice(q, "recipe", MXFP_OPTION_RECIPE, (int)i);
	question_in(q, 4, 4);
	question_out(q, 4, 4);
	return has_tensor_scale((enum mxfp_recipe)i);
}

/* From 2^-100 to 2^100, where no package's arithmetic overflows. */
static void tensor_items(const struct question *q, struct items *items)
{
	static const uint32_t edges[] = {0, 0x45280000, 0x44C00000, 0x43E00000, 0x40C00000, 0x3F800000, 0x3EAAAAAB, 0x3F7FFFFF, 0x3F800001};

	(void)q;
	for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
		add_f32(items, edges[i]);
	for (int i = 0; i < (items->quick ? 300 : 5000); i++)
		add_f32(items, number_random(items, 0, 100) & ~F32_SIGN);
}

static void tensor_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                          uint8_t *out)
{
	static const uint32_t zeros[BLOCK];

	(void)q;
	(void)indices;
	for (size_t i = 0; i < n; i++) {
		const uint32_t amax = load_f32(in + 4 * i);
		uint8_t codes[BLOCK / 2], scale;

		if (amax >= F32_INF) { /* of bytes that are read in another order: no amax */
			store_f32(out + 4 * i, F32_NO_ANSWER);
			continue;
		}
		float g = quantize(zeros, codes, &scale, amax, way).tensor_scale;

		if (has_quirk(way, QUIRK_TENSOR_ZERO) && amax == 0)
			g = 0;
		if (has_quirk(way, QUIRK_TENSOR_448))
			g = f32_value(amax) / 448;
		if (has_quirk(way, QUIRK_TENSOR_6))
			g = f32_value(amax) / 6;
		if (has_quirk(way, QUIRK_TENSOR_INVERSE))
			g = 1 / g;
		store_f32(out + 4 * i, f32_bits(g));
	}
}

static const char *tensor_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	(void)q;
	(void)expected;
	return load_f32(in) == 0 ? "zero" : "number";
}

const struct operation operation_nvfp4_tensor = {
	tensor_question, N_RECIPES, tensor_items, tensor_answer, tensor_class, NULL,
};

/* Blocks. */

/* Largest magnitudes of tensors: one that makes all scales powers of two, and one that does not. */
static const uint32_t amaxes[] = {0x45280000, 0x4048F5C3};

static bool nvfp4_question(struct question *q, size_t i)
{
	const enum mxfp_recipe recipe = (enum mxfp_recipe)(i / (2 * N_ROUNDS));
	const int round = (int)(i / 2 % N_ROUNDS);

	question_begin(q, OP_NVFP4);
	question_choice(q, "recipe", MXFP_OPTION_RECIPE, (int)recipe);
	question_choice(q, "round", MXFP_OPTION_ROUND, round);
	q->parameter = amaxes[i % 2];
	question_bits(q, "amax_bits", q->parameter);
	question_in(q, BLOCK * 4, 4);
	question_out(q, BLOCK / 2, 1);
	question_out(q, 1, 1);
	if (recipe == MXFP_RECIPE_GGML)
		return round == MXFP_ROUND_RNE;
	return round == MXFP_ROUND_RNE || recipe == MXFP_RECIPE_TE;
}

static void add_block(struct items *items, const uint32_t x[BLOCK])
{
	uint8_t bytes[BLOCK * 4];

	for (int i = 0; i < BLOCK; i++)
		store_f32(bytes + 4 * i, x[i]);
	items_add(items, bytes);
}

static void nvfp4_items(const struct question *q, struct items *items)
{
	const float amax = f32_value(q->parameter);
	uint32_t x[BLOCK] = {0};

	add_block(items, x);
	x[2] = x[9] = F32_SIGN;
	add_block(items, x);
	for (int i = 0; i < BLOCK; i++)
		x[i] = f32_bits(i % 2 ? -amax : amax);
	add_block(items, x);
	for (int k = 0; k < 2; k++) {
		x[7] = k == 0 ? F32_NAN : F32_INF;
		add_block(items, x);
	}
	for (int k = 0; k < (items->quick ? 400 : 6000); k++) {
		/* Blocks from the largest down to what has a scale of 0; every fourth has multiples of 1/4 of a scale, of which
		   many are ties. */
		const float top = ldexpf(amax, -(int)(items_random(items) % 22)) * (0.5F + 0.5F * (float)(items_random(items) % 1025) / 1024);

		for (int i = 0; i < BLOCK; i++) {
			const float part = k % 4 == 0 ? (float)(items_random(items) % 25) / 24 : ldexpf((float)(items_random(items) & 0xFFFFFF), -24);

			x[i] = f32_bits(items_random(items) & 1 ? -top * part : top * part);
		}
		x[items_random(items) % BLOCK] = f32_bits(items_random(items) & 1 ? -top : top);
		add_block(items, x);
	}
}

/* The scale byte of a block, rounded in another way. */
static uint8_t other_scale(const struct way *way, float block_amax, float g, bool divides, uint8_t scale)
{
	const float u = divides ? g * (block_amax / 6) : block_amax / 6 / g;

	if (block_amax == 0 && has_quirk(way, QUIRK_BLOCK_SCALE_NAN))
		return 0x7F;
	if (block_amax == 0 && has_quirk(way, QUIRK_BLOCK_SCALE_ONE))
		return 0x38;
	if (has_quirk(way, QUIRK_BLOCK_SCALE_RZ))
		return (uint8_t)number_encode(ue4m3(), f32_bits(u), MXFP_ROUND_RTZ, MXFP_OVERFLOW_SAT);
	if (has_quirk(way, QUIRK_BLOCK_SCALE_UP))
		return (uint8_t)number_encode(ue4m3(), f32_bits(u), MXFP_ROUND_RTP, MXFP_OVERFLOW_SAT);
	if (has_quirk(way, QUIRK_BLOCK_SCALE_1) && scale < 1)
		return 1;
	if (has_quirk(way, QUIRK_BLOCK_SCALE_LEAST) && scale < 8)
		return 8;
	return scale;
}

/* The inverse of the tensor scale, of `te` and `4over6`. */
static float inverse(enum mxfp_recipe recipe, uint32_t amax, const struct way *way)
{
	if (amax == 0)
		return 1;
	if (recipe == MXFP_RECIPE_TE && has_quirk(way, QUIRK_INVERSE_IN_TWO))
		return 448 * (6 / f32_value(amax));
	return (recipe == MXFP_RECIPE_4OVER6 ? 1536 : 2688) / f32_value(amax);
}

/* What an element is rounded from, by recipe: divided by the scale sf and the tensor's g; by `ggml` as by torchao-1. */
static float quotient(enum mxfp_recipe recipe, float x, float sf, float g, uint32_t amax, const struct way *way)
{
	const bool divided = has_quirk(way, QUIRK_DIVIDED);
	const float larger = inverse(recipe, amax, way);

	switch (recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return divided ? x / (sf * (1 / larger)) : x * fminf(1 / (sf * (1 / larger)), FLT_MAX);
	case MXFP_RECIPE_TORCHAO:
		return divided ? x / (g * sf) : x * ((1 / g) / sf);
	case MXFP_RECIPE_TORCHAO_1:
	case MXFP_RECIPE_GGML:
		return divided ? x / sf : x * (1 / sf);
	case MXFP_RECIPE_COMPRESSED_TENSORS:
	default: {
		const float y = x / (recipe == MXFP_RECIPE_COMPRESSED_TENSORS ? sf / g : sf * g);

		return y == 0 ? 0 : y;
	}
	}
}

/* A block with quirks: its scale, then each element by itself. */
static void quantize_by_hand(const struct question *q, const struct way *way, const uint8_t *in, uint8_t *out)
{
	static const enum mxfp_format via[] = {MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	struct way element = number_element_way(way);
	uint32_t x[BLOCK], seen[BLOCK];
	uint8_t codes[BLOCK];
	float block_amax = 0;
	bool finite = true;

	for (int i = 0; i < BLOCK; i++) {
		x[i] = load_f32(in + 4 * i);
		for (int v = 0; v < 2; v++) {
			const struct mxfp_format_info *f = mxfp_format_get_info(via[v]);

			if (has_quirk(way, v == 0 ? QUIRK_VIA_BF16 : QUIRK_VIA_F16))
				x[i] = code_decode(f, number_encode(f, x[i], MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF));
		}
		if (has_quirk(way, QUIRK_VIA_BF16_CUT))
			x[i] &= UINT32_C(0xFFFF0000);
		finite &= (x[i] & F32_INF) != F32_INF;
		seen[i] = has_quirk(way, QUIRK_SIGNED_MAX) && x[i] >> 31 ? 0 : x[i];
		block_amax = fmaxf(block_amax, fabsf(f32_value(seen[i])));
	}
	uint8_t scale;
	const struct mxfp_blocks blocks = quantize(seen, out, &scale, has_quirk(way, QUIRK_NO_TENSOR_SCALE) ? 0 : q->parameter, way);
	out[q->out[0]] = scale;
	if (!finite && !way->has_scale)
		return;
	const bool has_g = has_tensor_scale((enum mxfp_recipe)way->choice[MXFP_OPTION_RECIPE]);
	const float g = has_g ? blocks.tensor_scale : 1, six = block_amax / 6;
	const uint32_t amax = has_quirk(way, QUIRK_NO_TENSOR_SCALE) ? 0 : q->parameter;
	const enum mxfp_recipe recipe = (enum mxfp_recipe)way->choice[MXFP_OPTION_RECIPE];
	if (recipe == MXFP_RECIPE_TE && has_quirk(way, QUIRK_INVERSE_IN_TWO))
		scale = (uint8_t)number_encode(ue4m3(), f32_bits(block_amax * (inverse(recipe, amax, way) * (1.0F / 6))),
		                               MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT);
	scale = way->has_scale ? way->scale : other_scale(way, block_amax, g, blocks.tensor_scale_divides, scale);
	const float sf = f32_value(code_decode(ue4m3(), scale));
	for (int i = 0; i < BLOCK; i++) {
		const float y = has_quirk(way, QUIRK_UNROUNDED_SCALE) ? f32_value(x[i]) / six :
		                quotient(recipe, f32_value(x[i]), sf, g, amax, way);

		codes[i] = (uint8_t)number_encode_way(e2m1(), f32_bits(y), &element, 0, 0, 0);
	}
	codes_pack(out, codes, BLOCK, 4, way);
	out[q->out[0]] = scale;
}

static void nvfp4_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                         uint8_t *out)
{
	static const struct way plain;
	bool by_hand = way->has_scale;

	(void)indices;
	for (int quirk = 0; quirk < N_QUIRKS; quirk++)
		by_hand |= has_quirk(way, (enum quirk)quirk) && (quirk < QUIRK_HIGH_FIRST || quirk > QUIRK_NIBBLE_SIGN) &&
		           quirk != QUIRK_NO_TENSOR_SCALE && quirk != QUIRK_NO_NEGATIVE_ZERO;
	for (size_t i = 0; i < n; i++) {
		uint8_t *result = out + i * q->out_bytes, codes[BLOCK];
		uint32_t x[BLOCK];

		if (by_hand) {
			quantize_by_hand(q, way, in + i * q->in_bytes, result);
			continue;
		}
		for (int k = 0; k < BLOCK; k++)
			x[k] = load_f32(in + i * q->in_bytes + 4 * k);
		quantize(x, result, result + q->out[0], has_quirk(way, QUIRK_NO_TENSOR_SCALE) ? 0 : q->parameter, way);
		if (memcmp(way->quirks, plain.quirks, sizeof plain.quirks) == 0)
			continue;
		codes_unpack(codes, result, BLOCK, 4, &plain);
		codes_pack(result, codes, BLOCK, 4, way);
	}
}

static const char *nvfp4_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	const uint8_t scale = expected[q->out[0]];
	uint32_t amax = 0;

	for (int i = 0; i < BLOCK; i++) {
		const uint32_t m = load_f32(in + 4 * i) & ~F32_SIGN;

		amax = m > amax ? m : amax;
	}
	if (amax >= F32_INF)
		return amax > F32_INF ? "block with NaN" : "block with Inf";
	if (amax == 0)
		return "block of zeros";
	return scale == 0 ? "scale 00" : scale < 8 ? "subnormal scale" : scale == 0x7E ? "the largest scale" : "block";
}

/* Codes of a block that is NaN as a whole are nobody's matter. */
static bool nvfp4_same(const struct question *q, const uint8_t *in, const uint8_t *expected, const uint8_t *got)
{
	(void)in;
	return memcmp(expected, got, q->out_bytes) == 0 ||
	       (expected[q->out[0]] == 0x7F && got[q->out[0]] == 0x7F);
}

const struct operation operation_nvfp4 = {
	nvfp4_question, N_RECIPES * N_ROUNDS * 2, nvfp4_items, nvfp4_answer, nvfp4_class, nvfp4_same,
};

/* Decoding. */

static bool decode_question(struct question *q, size_t i)
{
	static const uint32_t scales[] = {0x3F800000, 0x3B124925};

	question_begin(q, OP_NVFP4_DECODE);
	question_key(q, "tensor_scale", i % 2 == 0 ? "multiplies" : "divides");
	q->pass = i % 2;
	q->parameter = scales[i / 2];
	question_bits(q, "scale_bits", q->parameter);
	question_in(q, BLOCK / 2, 1);
	question_in(q, 1, 1);
	question_out(q, BLOCK * 4, 4);
	return true;
}

/* Every scale, with every code. */
static void decode_items(const struct question *q, struct items *items)
{
	(void)q;
	for (int scale = 0; scale < 256; scale++)
		for (int k = 0; k < (items->quick ? 1 : 8); k++) {
			uint8_t item[BLOCK / 2 + 1];

			for (int i = 0; i < BLOCK / 2; i++)
				item[i] = k == 0 ? (uint8_t)(2 * i | (2 * i + 1) << 4) : (uint8_t)items_random(items);
			item[BLOCK / 2] = (uint8_t)scale;
			items_add(items, item);
		}
}

static uint32_t value_of(const struct question *q, const struct way *way, uint8_t code, uint8_t scale)
{
	float g = has_quirk(way, QUIRK_NO_TENSOR_SCALE) ? 1 : f32_value(q->parameter);
	const bool divides = q->pass != has_quirk(way, QUIRK_TENSOR_INVERSE);
	const float x = f32_value(code_decode_way(e2m1(), code, way));
	float sf = f32_value(code_decode(ue4m3(), scale & 0x7F));

	if (has_quirk(way, QUIRK_SCALE_EXPONENT) && sf == sf)
		sf = ldexpf(1, (scale >> 3 & 15) - 7);
	if (has_quirk(way, QUIRK_SCALE_480) && (scale & 0x7F) == 0x7F)
		sf = 480;
	if (has_quirk(way, QUIRK_SCALE_SIGNED) && scale >> 7)
		sf = -sf;
	if (sf != sf)
		return F32_NAN;
	if (has_quirk(way, QUIRK_SCALES_FIRST)) {
		g = divides ? sf / g : sf * g;
		return f32_bits(x * g);
	}
	const float y = x * sf;
	return f32_bits(divides ? y / g : y * g);
}

static void decode_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                          uint8_t *out)
{
	static const struct way plain;
	const bool is_plain = memcmp(way->quirks, plain.quirks, sizeof plain.quirks) == 0;

	(void)indices;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *item = in + i * q->in_bytes;
		struct mxfp_matrix matrix = mxfp_coded(MXFP_FORMAT_NVFP4, 1, BLOCK, item, item + q->in[0]);
		uint8_t codes[BLOCK];
		uint32_t x[BLOCK];

		matrix.tensor_scale = f32_value(q->parameter);
		matrix.tensor_scale_divides = q->pass == 1;
		if (is_plain) {
			must_succeed(dense_dequantize(x, MXFP_FORMAT_F32, &matrix, REFERENCE));
		} else {
			codes_unpack(codes, item, BLOCK, 4, way);
			for (int k = 0; k < BLOCK; k++)
				x[k] = value_of(q, way, codes[k], item[q->in[0]]);
			for (int k = 0; k < BLOCK && has_quirk(way, QUIRK_FLUSH_RESULT); k++)
				x[k] &= (x[k] & F32_INF) == 0 ? F32_SIGN : ~UINT32_C(0);
		}
		for (int k = 0; k < BLOCK; k++)
			store_f32(out + i * q->out_bytes + 4 * k, x[k]);
	}
}

static const char *decode_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	const uint8_t scale = in[q->in[0]];

	(void)expected;
	if ((scale & 0x7F) == 0x7F)
		return "scale 7F";
	if (scale >> 7)
		return "scale with bit 7 set";
	return scale == 0 ? "scale 00" : scale < 8 ? "subnormal scale" : "block";
}

const struct operation operation_nvfp4_decode = {
	decode_question, 4, decode_items, decode_answer, decode_class, f32_results_same,
};
