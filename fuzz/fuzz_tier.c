/* SPDX-License-Identifier: MIT */
/*
 * The kernels of each available tier, compared with the reference kernels.
 *
 * Properties: a conversion, a quantization and the dequantization of its result give the same bytes and counts on every
 * tier and write nothing else.
 *
 * Input: destination and source format, block format, rule, recipe, rounding mode, flags (1 ovf, 2 no negative zero,
 * 4 saturate, 8 via bf16), 8 bytes of seed, 8 of first index, 4 of tensor amax, length / 8, length % 8, rows, and then
 * source bytes, which are repeated to fill the source.
 */
#include "config.h"

#include "fuzz.h"
#include "kernels.h"
#include "mxfp/isa.h"

static const enum mxfp_format element_formats[] = {
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) MXFP_FORMAT_##id,
#include "format.def"
};

enum {
	N_ELEMENT_FORMATS = sizeof element_formats / sizeof element_formats[0],
	MAX_COLS = 255 * 8 + 7,
	MAX_ROWS = 2,
	MAX_NUMBERS = MAX_ROWS * MAX_COLS
};

/* The output of the conversion, or of the quantization and dequantization, on a tier. */
struct results {
	struct mxfp_counts counts;
	uint8_t codes[MAX_NUMBERS * 4 + 64], scales[MAX_NUMBERS / 16 + 2];
	uint32_t numbers[MAX_NUMBERS];
};

static uint32_t source[MAX_NUMBERS];

static void fill_source(const struct fuzz_bytes *in)
{
	uint8_t *bytes = (uint8_t *)source;

	for (size_t i = 0; i < sizeof source; i++)
		bytes[i] = in->size != 0 ? in->data[i % in->size] : 0;
}

static void run(const struct mxfp_kernels *table, struct mxfp_convert_job convert, struct mxfp_quantize_job quantize,
                struct mxfp_dequantize_job dequantize, struct results r[2])
{
	memset(r, 0xA5, 2 * sizeof *r);
	memset(&r[0].counts, 0, sizeof r[0].counts);
	memset(&r[1].counts, 0, sizeof r[1].counts);
	convert.dst = r[0].codes;
	convert.counts = &r[0].counts;
	table->convert[convert.dst_format][convert.src_format](&convert);
	quantize.codes = r[1].codes;
	quantize.scales = r[1].scales;
	quantize.counts = &r[1].counts;
	table->quantize[quantize.format](&quantize);
	dequantize.codes = r[1].codes;
	dequantize.scales = r[1].scales;
	dequantize.dst = r[1].numbers;
	table->dequantize[dequantize.format](&dequantize);
}

static void compare_tiers(const struct mxfp_convert_job *convert, const struct mxfp_quantize_job *quantize,
                          const struct mxfp_dequantize_job *dequantize)
{
	static struct results want[2], got[2];
	struct mxfp_kernels table;

	mxfp_kernels_init(&table, 1);
	run(&table, *convert, *quantize, *dequantize, want);
	for (int tier = 1; mxfp_isa_name(tier) != NULL; tier++) {
		if (!(mxfp_isa_available() >> tier & 1))
			continue;
		mxfp_kernels_init(&table, UINT32_C(1) << tier);
		run(&table, *convert, *quantize, *dequantize, got);
		fuzz_check(memcmp(want, got, sizeof want) == 0, mxfp_isa_name(tier));
	}
}

/* Reads the options of both jobs, made valid. */
static void take_choices(struct fuzz_bytes *in, struct mxfp_convert_job *convert, struct mxfp_quantize_job *quantize)
{
	convert->dst_format = element_formats[fuzz_byte(in) % N_ELEMENT_FORMATS];
	convert->src_format = element_formats[fuzz_byte(in) % N_ELEMENT_FORMATS];
	quantize->format = MXFP_FORMAT_MXFP8_E4M3 + fuzz_byte(in) % (MXFP_FORMAT_NVFP4 + 1 - MXFP_FORMAT_MXFP8_E4M3);
	quantize->src_format = convert->src_format % (MXFP_FORMAT_F16 + 1);
	quantize->rule = fuzz_byte(in) % (MXFP_RULE_LOG_NEAREST + 1);
	quantize->recipe = fuzz_byte(in) % (MXFP_RECIPE_MODELOPT_4OVER6 + 1);
	convert->rounding.mode = fuzz_byte(in) % (MXFP_ROUND_SR + 1);
	uint8_t flags = fuzz_byte(in);
	fuzz_take(in, &convert->rounding.seed, sizeof convert->rounding.seed);
	convert->rounding.stream = convert->rounding.seed * 3;
	convert->rounding.no_negative_zero = (flags & 2) != 0;
	quantize->rounding = convert->rounding;
	convert->rounding.overflow = flags & 1;
	quantize->saturate_inf = (flags & 4) != 0;
	bool nvfp4 = mxfp_format_get_info(quantize->format)->tensor_scale;
	quantize->via_bf16 = (flags & 8) != 0 && !nvfp4;
	if (nvfp4 && quantize->recipe == MXFP_RECIPE_GGML)
		quantize->rounding.mode = MXFP_ROUND_RNE;
	fuzz_take(in, &convert->first_index, sizeof convert->first_index);
	convert->first_index >>= 1; /* the last index fits in 64 bits */
	quantize->first_index = convert->first_index;
	fuzz_take(in, &quantize->tensor_amax, sizeof quantize->tensor_amax);
	quantize->tensor_amax = (quantize->tensor_amax & 0x7FFFFFFF) % 0x7F800000; /* finite */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes in = {data, size};
	struct mxfp_convert_job convert = {.src = source};
	struct mxfp_quantize_job quantize = {.src = source};

	take_choices(&in, &convert, &quantize);
	size_t cols = fuzz_byte(&in) * 8;
	cols += fuzz_byte(&in) % 8;
	quantize.rows = 1 + fuzz_byte(&in) % MAX_ROWS;
	fill_source(&in);

	size_t length = mxfp_format_get_info(quantize.format)->block_length;
	convert.n = cols;
	quantize.cols = quantize.src_stride = cols;
	quantize.scales_stride = (cols + length - 1) / length;
	quantize.codes_stride = quantize.scales_stride * length;
	struct mxfp_dequantize_job dequantize = {
		.format = quantize.format,
		.dst_format = quantize.src_format,
		.rows = quantize.rows,
		.cols = cols,
		.codes_stride = quantize.codes_stride,
		.scales_stride = quantize.scales_stride,
		.dst_stride = cols,
	};
	const struct mxfp_nvfp4_tensor tensor = mxfp_nvfp4_tensor_ref(quantize.recipe, quantize.tensor_amax);
	dequantize.tensor_scale = tensor.scale;
	dequantize.tensor_scale_divides = tensor.divides;
	compare_tiers(&convert, &quantize, &dequantize);
	return 0;
}
