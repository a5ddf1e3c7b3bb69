/* SPDX-License-Identifier: MIT */
/* Cases of the kind `nvfp4`, and of casts to ue4m3, which only exist as ggml's scale of a block. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interop/vectors.h"

enum { LENGTH = 16, GGUF_LENGTH = 64, GGUF_BYTES = GGUF_LENGTH / LENGTH + GGUF_LENGTH / 2 };

static const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};

/* A case, and what the library makes of its input. */
struct tensor {
	struct vector_set *set;
	struct vector_case *c;
	struct vector_array x;
	struct vector_outputs theirs;
	struct mxfp_blocks ours;
	uint8_t *packed, *scales;
	float amax;
};

static enum mxfp_recipe recipe_of(const struct vector_case *c)
{
	if (vectors_by(c, "libggml"))
		return MXFP_RECIPE_GGML;
	if (vectors_by(c, "vllm-project"))
		return MXFP_RECIPE_COMPRESSED_TENSORS;
	ck_assert_msg(vectors_by(c, "pytorch/ao"), "%s: unknown recipe", c->name);
	return strstr(c->name, "onelevel") != NULL ? MXFP_RECIPE_TORCHAO_1 : MXFP_RECIPE_TORCHAO;
}

static void compare(const struct tensor *t, size_t i, uint32_t input, uint32_t ours, uint32_t theirs,
                    int excuse)
{
	vectors_compare(t->set, t->c, &(struct vector_pair){i, input, ours, theirs, excuse});
}

static uint32_t our_code(const struct tensor *t, size_t i)
{
	return t->packed[i / 2] >> i % 2 * 4 & 15;
}

static float number_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static float decoded(enum mxfp_format format, uint32_t code)
{
	return number_of(vectors_decode_code(format, code));
}

static uint8_t encoded(enum mxfp_format format, float x)
{
	uint8_t code;

	ck_assert_int_eq(mxfp_convert_array(&code, format, &x, MXFP_FORMAT_F32, 1, NULL, &one_thread), MXFP_OK);
	return code;
}

static float largest(const struct vector_array *x, size_t first, size_t n)
{
	float amax = 0;

	for (size_t i = first; i < first + n; i++)
		amax = fmaxf(amax, fabsf(number_of(x->at[i])));
	return amax;
}

static int excuse_if(bool condition)
{
	return condition ? 17 : VECTOR_NO_EXCUSE;
}

/* 17: "All-zero tensor: torchao tensor_scale 0 -> scales 0xff (NaN), codes 0xC"; section 4 of the contract
   wants numbers. */
static int excuse_zero_tensor(const struct tensor *t, uint32_t theirs, uint32_t stated)
{
	return excuse_if(!(t->amax > 0) && recipe_of(t->c) == MXFP_RECIPE_TORCHAO && theirs == stated);
}

/* Each step below has a variable of its own, which rounds it where expressions are computed in a wider format (s390x).
   17: torchao's g has no lower limit. */
static float unlimited_scale(const struct tensor *t)
{
	return t->amax / 2688;
}

static bool is_limited(const struct tensor *t)
{
	return recipe_of(t->c) == MXFP_RECIPE_TORCHAO && t->amax > 0 && unlimited_scale(t) < 0x1p-121F;
}

/* The block scale and the quotient of element i with such a g. */
static uint8_t unlimited_byte(const struct tensor *t, size_t i)
{
	const float sixth = largest(&t->x, i / LENGTH * LENGTH, LENGTH) / 6, v = sixth / unlimited_scale(t);

	return encoded(MXFP_FORMAT_UE4M3, fminf(fmaxf(v, 0x1p-6F), 448));
}

static float unlimited_quotient(const struct tensor *t, size_t i)
{
	const float reciprocal = 1 / unlimited_scale(t);
	const float scale = reciprocal / decoded(MXFP_FORMAT_UE4M3, unlimited_byte(t, i));

	return number_of(t->x.at[i]) * scale;
}

/* Whether it is the code with such a g: of 0 * Inf, a NaN, it is unspecified. */
static bool is_unlimited_code(const struct tensor *t, size_t i, uint32_t code)
{
	float q = unlimited_quotient(t, i);

	return isnan(q) || code == encoded(MXFP_FORMAT_E2M1, q);
}

static int excuse_scale(const struct tensor *t, size_t i, uint32_t theirs)
{
	if (is_limited(t))
		return excuse_if(theirs == unlimited_byte(t, i));
	return excuse_zero_tensor(t, theirs, 0xFF);
}

static int excuse_packed(const struct tensor *t, size_t i, uint32_t theirs)
{
	if (is_limited(t))
		return excuse_if(is_unlimited_code(t, 2 * i, theirs & 15) && is_unlimited_code(t, 2 * i + 1, theirs >> 4));
	return excuse_zero_tensor(t, theirs, 0xCC);
}

static void compare_blocks(const struct tensor *t)
{
	const struct vector_outputs *o = &t->theirs;

	for (size_t i = 0; i < o->scales.n; i++)
		compare(t, i, t->x.at[i * LENGTH], t->scales[i], o->scales.at[i],
		        excuse_scale(t, i * LENGTH, o->scales.at[i]));
	for (size_t i = 0; i < o->codes.n; i++)
		compare(t, i, t->x.at[i], our_code(t, i), o->codes.at[i],
		        is_limited(t) ? excuse_if(is_unlimited_code(t, i, o->codes.at[i]))
		                      : excuse_zero_tensor(t, o->codes.at[i], 0x0C));
	for (size_t i = 0; i < o->packed.n; i++)
		compare(t, i, t->x.at[2 * i], t->packed[i], o->packed.at[i],
		        excuse_packed(t, i, o->packed.at[i]));
}

/* Four scales, then element j of each 16 in the low nibbles and j + 8 in the high ones. */
static void compare_gguf(const struct tensor *t)
{
	const struct vector_array *gguf = &t->theirs.gguf_blocks;

	for (size_t i = 0; i < gguf->n; i++) {
		size_t block = i / GGUF_BYTES, at = i % GGUF_BYTES, n_scales = GGUF_LENGTH / LENGTH,
		       half = LENGTH / 2;
		uint32_t ours;

		if (at < n_scales) {
			ours = t->scales[block * n_scales + at];
		} else {
			size_t j = at - n_scales, first = block * GGUF_LENGTH + j / half * LENGTH + j % half;
			ours = our_code(t, first) | our_code(t, first + half) << 4;
		}
		compare(t, i, 0, ours, gguf->at[i], VECTOR_NO_EXCUSE);
	}
}

static void compare_values(const struct tensor *t, const struct vector_array *values)
{
	uint32_t *ours = calloc(t->x.n, sizeof *ours);

	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&t->ours);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, ours);
	ck_assert_int_eq(mxfp_dequantize(&result, &matrix, NULL), MXFP_OK);
	for (size_t i = 0; i < values->n; i++)
		compare(t, i, t->x.at[i], ours[i], values->at[i], VECTOR_NO_EXCUSE);
	free(ours);
}

/* 25: torchao and compressed-tensors "round the product, or quotient, of the two scales first". */
static int excuse_dequantized(const struct tensor *t, size_t i, uint32_t theirs)
{
	float sf = decoded(MXFP_FORMAT_UE4M3, t->scales[i / LENGTH]), g = t->ours.tensor_scale;
	const float both = t->ours.tensor_scale_divides ? sf / g : sf * g;
	float x = decoded(MXFP_FORMAT_E2M1, our_code(t, i)) * both;

	if (memcmp(&x, &theirs, sizeof x) == 0)
		return 25;
	/* 17: NaN for an all-zero tensor, and what is unspecified as a code. */
	if (!is_limited(t))
		return excuse_if(!(t->amax > 0) && recipe_of(t->c) == MXFP_RECIPE_TORCHAO && isnan(number_of(theirs)));
	float q = unlimited_quotient(t, i);
	g = unlimited_scale(t) * decoded(MXFP_FORMAT_UE4M3, unlimited_byte(t, i));
	x = isnan(q) ? 0 : decoded(MXFP_FORMAT_E2M1, encoded(MXFP_FORMAT_E2M1, q)) * g;
	return excuse_if(isnan(q) || memcmp(&x, &theirs, sizeof x) == 0);
}

static void compare_dequantized(const struct tensor *t)
{
	const struct vector_array *theirs = &t->theirs.dequantized;
	uint32_t *ours = calloc(t->x.n, sizeof *ours);

	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&t->ours);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, ours);
	ck_assert_int_eq(mxfp_dequantize(&result, &matrix, NULL), MXFP_OK);
	for (size_t i = 0; i < theirs->n; i++)
		compare(t, i, t->x.at[i], ours[i], theirs->at[i], excuse_dequantized(t, i, theirs->at[i]));
	free(ours);
}

/* compressed-tensors has the element's number, before its scales, as `values`. */
static void compare_element_values(const struct tensor *t, const struct vector_array *values)
{
	for (size_t i = 0; i < values->n; i++)
		compare(t, i, t->x.at[i], vectors_decode_code(MXFP_FORMAT_E2M1, our_code(t, i)),
		        values->at[i], VECTOR_NO_EXCUSE);
}

static void compare_tensor_scale(const struct tensor *t, const struct vector_array *scale, bool divides)
{
	uint32_t ours;

	if (scale->n == 0)
		return;
	memcpy(&ours, &t->ours.tensor_scale, sizeof ours);
	ck_assert_int_eq(t->ours.tensor_scale_divides, divides);
	float theirs = number_of(scale->at[0]);
	compare(t, 0, 0, ours, scale->at[0],
	        is_limited(t) ? excuse_if(theirs >= unlimited_scale(t) && theirs <= unlimited_scale(t))
	                      : excuse_zero_tensor(t, scale->at[0], 0));
}

static void quantize(struct tensor *t)
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .recipe = recipe_of(t->c)};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, t->x.rows, t->x.cols, t->x.at);
	const struct mxfp_result result = mxfp_to_blocks(&t->ours);
	struct mxfp_sizes size;

	t->ours = mxfp_blocks_at(MXFP_FORMAT_NVFP4, t->x.rows, t->x.cols, NULL, NULL);
	ck_assert_int_eq(mxfp_blocks_size(&size, MXFP_FORMAT_NVFP4, t->x.rows, t->x.cols), MXFP_OK);
	t->ours.codes = t->packed = malloc(size.codes_bytes);
	t->ours.scales = t->scales = malloc(size.scales_bytes);
	ck_assert_int_eq(mxfp_quantize(&result, &source, &options, &one_thread), MXFP_OK);
	t->amax = largest(&t->x, 0, t->x.n);
}

void vectors_run_nvfp4(struct vector_set *set, struct vector_case *c)
{
	struct tensor t = {.set = set, .c = c, .x = vectors_input(set, c->input), .theirs = vectors_outputs(set, c)};

	ck_assert_uint_eq(t.theirs.scales.n, t.x.n / LENGTH);
	quantize(&t);
	compare_tensor_scale(&t, &t.theirs.tensor_scale, false);
	compare_tensor_scale(&t, &t.theirs.global_scale, true);
	compare_blocks(&t);
	compare_gguf(&t);
	if (recipe_of(c) == MXFP_RECIPE_COMPRESSED_TENSORS)
		compare_element_values(&t, &t.theirs.values);
	else
		compare_values(&t, &t.theirs.values);
	compare_values(&t, &t.theirs.values_gguf_py);
	compare_dequantized(&t);
	free(t.packed);
	free(t.scales);
	free(t.x.at);
	vectors_free_outputs(&t.theirs);
}

/* The scale that the recipe ggml gives a block of largest magnitude `amax`. */
static uint8_t ggml_scale(float amax)
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .recipe = MXFP_RECIPE_GGML};
	const float x[LENGTH] = {amax};
	uint8_t codes[LENGTH / 2], scale = 0;
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, LENGTH, x);
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 1, LENGTH, codes, &scale);
	const struct mxfp_result result = mxfp_to_blocks(&blocks);

	if (mxfp_quantize(&result, &source, &options, &one_thread) != MXFP_OK)
		ck_abort_msg("cannot quantize a block");
	return scale;
}

/* A number that is v when binary32 divides it by 6, or 0 if there is none: a third of all v have none. */
static float six_times(float v)
{
	float near = 6 * v, candidates[] = {near, nextafterf(near, 0), nextafterf(near, INFINITY)};

	for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
		float quotient = candidates[i] / 6;

		if (isfinite(candidates[i]) && memcmp(&quotient, &v, sizeof v) == 0)
			return candidates[i];
	}
	return 0;
}

/* 19: where v = amax/6 "subnormals are min(7, trunc(512 v + 0.5))", "every v >= 248 gives 0x7E", and ties go
   away from zero between, which is rna. */
static int excuse_ue4m3(float v, uint32_t theirs)
{
	if (v >= 248 && theirs == 0x7E)
		return 19;
	uint32_t n = v < 0x1p-6f ? (uint32_t)(512 * v + 0.5f) : 0;
	return v < 0x1p-6f && theirs == (n < 7 ? n : 7) ? 19 : VECTOR_NO_EXCUSE;
}

void vectors_run_ue4m3(struct vector_set *set, struct vector_case *c)
{
	const struct mxfp_convert_options rna = {.size = sizeof rna, .round = MXFP_ROUND_RNA};
	struct vector_array input = vectors_input(set, c->input), codes = vectors_output(set, c, "codes");

	for (size_t i = 0; i < codes.n; i++) {
		uint32_t theirs = codes.at[i];
		int excuse = VECTOR_NO_EXCUSE;
		uint8_t ours = 0;
		float v;

		memcpy(&v, &input.at[i], sizeof v);
		float amax = v > 0 ? six_times(v) : 0;
		if (amax > 0) {
			ours = ggml_scale(amax);
		} else {
			mxfp_convert_array(&ours, MXFP_FORMAT_UE4M3, &v, MXFP_FORMAT_F32, 1, &rna, &one_thread);
			/* The notes: "negative -> 0"; NaN here. */
			excuse = v < 0 && theirs == 0 ? VECTOR_NOTES
			         : v > 0              ? excuse_ue4m3(v, theirs)
			                              : VECTOR_NO_EXCUSE;
		}
		vectors_compare(set, c, &(struct vector_pair){i, input.at[i], ours, theirs, excuse});
	}
	free(input.at);
	free(codes.at);
}
