/* SPDX-License-Identifier: MIT */
/*
 * The layout of ggml in GGUF files (ggml/src/ggml-common.h). A tensor [..., N, K] stays one tensor of its name and
 * shape, whose dtype is that of its blocks:
 *
 *   MXFP4  32 elements in 17 bytes: the scale (E8M0), 16 bytes of codes
 *   NVFP4  64 elements in 36 bytes: 4 scales (UE4M3), then of each 16 elements 8 bytes of codes; and beside *.weight
 *          *.scale F32 [1], or [E] of experts [E, N, K], which multiplies, and may be missing
 *
 * The bytes of a scale's elements hold the first half of them in their low nibbles and the second half in the high
 * ones. No sign of a UE4M3 scale is read. As ggml has it, the scale byte 0xFF of MXFP4 is 2^128; here it is NaN.
 */
#include "config.h"

#include <assert.h>

#include "io/file_gguf.h"
#include "model/layout.h"
#include "model/quantized.h"

/* Bytes of blocks that are read or written at once. */
enum { BUFFER_BYTES = 1 << 14, UE4M3_MASK = 0x7F };

static const struct layout_form forms[] = {
	{MXFP_FORMAT_MXFP4, NULL, true, false, {[LAYOUT_CODES] = {"", "", DTYPE_MXFP4}}, 0, 0},
	{MXFP_FORMAT_NVFP4, NULL, true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_NVFP4},
	  [LAYOUT_TENSOR_SCALE] = {".weight", ".scale", DTYPE_F32},
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32}}, 0, 1},
};

/* The blocks of a form: `n` elements in `bytes`, in which `n_scales` scales of `length` elements stand first. */
struct block {
	unsigned n, bytes, n_scales, length;
	uint8_t scale_mask;
};

static struct block block_of(const struct layout_choice *choice)
{
	const struct dtype_info *info = dtype_info(choice->form->parts[LAYOUT_CODES].dtype);
	const unsigned length = mxfp_format_get_info(choice->form->format)->block_length;

	return (struct block){
		.n = info->block_elements,
		.bytes = info->bits / 8,
		.n_scales = info->block_elements / length,
		.length = length,
		.scale_mask = choice->form->format == MXFP_FORMAT_NVFP4 ? UE4M3_MASK : UINT8_MAX,
	};
}

static const char *refuses(const struct layout_choice *choice, const struct layout_shape *source)
{
	const bool nvfp4 = choice->form->format == MXFP_FORMAT_NVFP4;

	if (source->dims[source->rank - 1] % block_of(choice).n != 0)
		return nvfp4 ? "row length is not a multiple of 64, as NVFP4 in GGUF needs"
		             : "row length is not a multiple of 32, as MXFP4 in GGUF needs";
	if (source->rank > GGUF_RANK_MAX)
		return "has too many dimensions for GGUF";
	/* ggml has one for each matrix of them. */
	if (source->rank > 2 && layout_has(choice, LAYOUT_TENSOR_SCALE))
		return "one tensor scale cannot be that of several matrices; --nvfp4-recipe ggml has none";
	return NULL;
}

static void describe(const struct layout_choice *choice, enum layout_part part, const struct layout_shape *source,
                     struct layout_shape *shape)
{
	(void)choice, (void)part;
	*shape = *source;
}

static bool source_shape(const struct layout_choice *choice, const struct tensor *const *parts,
                         struct layout_shape *source)
{
	const struct tensor *codes = parts[LAYOUT_CODES];

	(void)choice;
	if (codes->rank < 1 || codes->rank > GGUF_RANK_MAX)
		return false;
	*source = (struct layout_shape){.rank = codes->rank};
	for (unsigned i = 0; i < codes->rank; i++)
		source->dims[i] = codes->shape[i];
	return true;
}

/* n codes, the even element in the low nibble, into halves, and back. */
static void to_halves(uint8_t *halves, const uint8_t *pairs, unsigned n)
{
	for (unsigned i = 0; i < n / 4; i++) {
		const uint8_t low = pairs[i], high = pairs[n / 4 + i];

		halves[2 * i] = (uint8_t)((low & 0x0F) | high << 4);
		halves[2 * i + 1] = (uint8_t)(low >> 4 | (high & 0xF0));
	}
}

static void from_halves(uint8_t *pairs, const uint8_t *halves, unsigned n)
{
	for (unsigned i = 0; i < n / 4; i++) {
		const uint8_t even = halves[2 * i], odd = halves[2 * i + 1];

		pairs[i] = (uint8_t)((even & 0x0F) | odd << 4);
		pairs[n / 4 + i] = (uint8_t)(even >> 4 | (odd & 0xF0));
	}
}

/* Where a run of blocks stands in a piece's codes and scales. */
struct run {
	struct block block;
	uint8_t *codes, *scales;
};

static struct run run_at(const struct block *block, const struct mxfp_blocks *blocks, size_t i)
{
	return (struct run){
		.block = *block,
		.codes = (uint8_t *)blocks->codes + i * (block->n / 2),
		.scales = (uint8_t *)blocks->scales + i * block->n_scales,
	};
}

static void unpack(const struct run *run, const uint8_t *bytes, size_t n_blocks)
{
	const struct block *block = &run->block;

	for (size_t i = 0; i < n_blocks; i++, bytes += block->bytes)
		for (unsigned k = 0; k < block->n_scales; k++) {
			const size_t at = i * block->n_scales + k;

			run->scales[at] = bytes[k] & block->scale_mask;
			from_halves(run->codes + at * (block->length / 2), bytes + block->n_scales + k * (block->length / 2),
			            block->length);
		}
}

static void pack(uint8_t *bytes, const struct run *run, size_t n_blocks)
{
	const struct block *block = &run->block;

	for (size_t i = 0; i < n_blocks; i++, bytes += block->bytes)
		for (unsigned k = 0; k < block->n_scales; k++) {
			const size_t at = i * block->n_scales + k;

			bytes[k] = run->scales[at];
			to_halves(bytes + block->n_scales + k * (block->length / 2), run->codes + at * (block->length / 2),
			          block->length);
		}
}

/* The blocks of a piece, which is a run of whole ones: a part of a row, or whole rows. */
struct extent {
	uint64_t first;
	size_t n;
};

static struct extent extent_of(const struct block *block, const struct piece *piece, uint64_t cols)
{
	const uint64_t first = piece->row * cols + piece->col;

	assert(first % block->n == 0 && piece->rows * piece->cols % block->n == 0);
	return (struct extent){first / block->n, piece->rows * piece->cols / block->n};
}

static size_t at_once(const struct block *block, size_t left)
{
	const size_t most = BUFFER_BYTES / block->bytes;

	return left < most ? left : most;
}

static int read_blocks(const struct quantized *q, const struct piece *piece, const struct mxfp_blocks *blocks,
                       struct error *error)
{
	const struct block block = block_of(&q->choice);
	const struct extent extent = extent_of(&block, piece, q->cols);
	uint8_t bytes[BUFFER_BYTES];
	int code = EXIT_OK;

	for (size_t i = 0; i < extent.n && code == EXIT_OK;) {
		const size_t n = at_once(&block, extent.n - i);
		const struct run run = run_at(&block, blocks, i);

		code = file_read(q->files[LAYOUT_CODES], q->parts[LAYOUT_CODES], (extent.first + i) * block.bytes, bytes,
		                 n * block.bytes, error);
		if (code == EXIT_OK)
			unpack(&run, bytes, n);
		i += n;
	}
	return code;
}

static int write_blocks(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
                        struct error *error)
{
	const struct block block = block_of(&target->choice);
	const struct extent extent = extent_of(&block, piece, target->cols);
	uint8_t bytes[BUFFER_BYTES];
	int code = EXIT_OK;

	for (size_t i = 0; i < extent.n && code == EXIT_OK;) {
		const size_t n = at_once(&block, extent.n - i);
		const struct run run = run_at(&block, blocks, i);

		pack(bytes, &run, n);
		code = writer_write(target->writer, target->parts[LAYOUT_CODES], (extent.first + i) * block.bytes, bytes,
		                    n * block.bytes, error);
		i += n;
	}
	return code;
}

static const struct layout_order order = {
	.refuses = refuses,
	.describe = describe,
	.source = source_shape,
	.read = read_blocks,
	.write = write_blocks,
};

const struct layout layout_gguf = {
	.name = "gguf",
	.meaning = "MXFP4 and NVFP4 as llama.cpp has them in GGUF files",
	.file_format = &file_gguf,
	.order = &order,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.tensor_scale_optional = true,
	.positive_zeros = true,
	.tensor_scale_rank = 1,
	.recipe = MXFP_RECIPE_GGML,
};
