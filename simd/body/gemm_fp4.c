/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums with W in MXFP4, which stays in its codes: a panel of W is a head, the codes of the scales
 * [block][column] and the words of codes as they are stored, [word][column], so it takes hardly more than W itself. Few
 * rows of A are multiplied by nibbles as they are decoded; for more, a panel is expanded to 16-bit integers first. The
 * sums are those of gemm_int16.h, and so are the panels of A, in the order of W's words.
 */
#include "tier.h"

#include "body/gemm_int16.h"

enum {
	FP4_WORDS = MXFP_MX_BLOCK / INT16_WORD, /* of a block */
	FP4_WORD_BYTES = INT16_WORD / 2,
	FP4_MAGNITUDES = 0x77777777,
	FP4_BLOCKS = MXFP_GEMM_CHUNK / MXFP_MX_BLOCK
};

/* What a panel of W becomes before it is multiplied; the plane only for more rows than FP4_FEW_ROWS. */
struct fp4_expanded {
	float scales[FP4_BLOCKS * INT16_NR];
	uint32_t plane[FP4_BLOCKS * FP4_WORDS][INT16_WORD / 2][INT16_NR];
};

enum { FP4_FEW_ROWS = INT16_MR / 2 };

static size_t fp4_codes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return BLOCKS_HEAD_BYTES + blocks_count(shape, k) * INT16_NR;
}

static size_t fp4_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return fp4_codes(shape, k) + blocks_count(shape, k) * FP4_WORDS * FP4_WORD_BYTES * INT16_NR;
}

static void fp4_pack_a(const struct mxfp_gemm_pack_job *job)
{
	int16_pack(job, INT16_MR, true);
}

/* The binary32 of a scale: 2^(code - 127), or NaN. */
static uint32_t fp4_scale(uint8_t code)
{
	if (code == MXFP_SCALE_NAN)
		return F32_NAN;
	return code == 0 ? F32_HIDDEN / 2 : (uint32_t)code << F32_SIGNIFICAND_BITS;
}

/* Packs a row as column r of the panel: its words, and scales. A block of zeros has the scale 1, unless it is NaN. */
static void fp4_pack_row(const struct mxfp_gemm_pack_job *job, size_t r, struct blocks_head *head)
{
	const struct mxfp_matrix *m = job->matrix;
	const size_t blocks = blocks_count(job->shape, job->k), row = job->row + r;
	const uint8_t *codes = (const uint8_t *)m->data + mxfp_codes_offset(m->format, m->stride, row, job->k0);
	const uint8_t *from = (const uint8_t *)m->scales + mxfp_scales_offset(m->format, m->scales_stride, row, job->k0);
	uint8_t *scales = (uint8_t *)job->panel + BLOCKS_HEAD_BYTES, *words = (uint8_t *)job->panel + fp4_codes(job->shape, job->k);

	for (size_t b = 0; b < blocks; b++) {
		const size_t k = b * MXFP_MX_BLOCK, n = job->k - k < MXFP_MX_BLOCK ? job->k - k : MXFP_MX_BLOCK;
		uint32_t block[FP4_WORDS] = {0}, any_magnitude = 0;

		memcpy(block, codes + k / 2, (n + 1) / 2);
		if (n % 2 != 0)
			((uint8_t *)block)[n / 2] &= 0x0F;
		for (size_t i = 0; i < FP4_WORDS; i++) {
			memcpy(words + ((b * FP4_WORDS + i) * INT16_NR + r) * FP4_WORD_BYTES, &block[i], FP4_WORD_BYTES);
			any_magnitude |= block[i] & FP4_MAGNITUDES;
		}
		const uint8_t code = any_magnitude == 0 && from[b] != MXFP_SCALE_NAN ? MXFP_SCALE_BIAS : from[b];
		const uint32_t scale = fp4_scale(code);
		scales[b * INT16_NR + r] = code;
		head->least_scale = scale < head->least_scale ? scale : head->least_scale;
		head->greatest_scale = scale > head->greatest_scale ? scale : head->greatest_scale;
	}
}

static void fp4_pack_w(const struct mxfp_gemm_pack_job *job)
{
	struct blocks_head head = {F32_ONE, F32_ONE, F32_ONE, F32_ONE};
	uint8_t *panel = job->panel;
	const size_t codes = fp4_codes(job->shape, job->k);

	memset(panel, 0, BLOCKS_HEAD_BYTES);
	if (job->rows < INT16_NR) {
		memset(panel + BLOCKS_HEAD_BYTES, MXFP_SCALE_BIAS, codes - BLOCKS_HEAD_BYTES);
		memset(panel + codes, 0, fp4_w_bytes(job->shape, job->k) - codes);
	}
	for (size_t r = 0; r < job->rows; r++)
		fp4_pack_row(job, r, &head);
	memcpy(panel, &head, sizeof head);
}

static void fp4_expand_scales(struct fp4_expanded *to, const uint8_t *scales, size_t blocks)
{
	for (size_t i = 0; i < blocks * INT16_NR; i++) {
		const uint32_t scale = fp4_scale(scales[i]);

		memcpy(&to->scales[i], &scale, sizeof scale);
	}
}

/* Words of nibbles as pairs of integers. */
static void fp4_expand_codes(struct fp4_expanded *to, const uint8_t *w, size_t words)
{
	for (size_t i = 0; i < words; i++)
		for (size_t v = 0; v < INT16_VECTORS; v++, w += VECTOR_BYTES) {
			vs16 pairs[INT16_WORD / 2];

			decode_nibbles((vu8)load(w), pairs);
			for (size_t p = 0; p < INT16_WORD / 2; p++)
				store(&to->plane[i][p][v * LANES], (vu32)pairs[p]);
		}
}

/* Few rows of A, of which the first `rows` count, by nibbles. */
ALWAYS_INLINE void fp4_few(const struct mxfp_gemm_multiply_job *job, const struct int16_panels *t, size_t rows)
{
	const size_t blocks = blocks_count(job->shape, job->k), pass = job->shape->pass / blocks_length(job->shape);

	for (size_t first = 0; first < blocks; first += pass)
		int16_pass(t, first, blocks - first < pass ? blocks : first + pass, rows, false, true, job->c);
}

static NOINLINE void fp4_rows(const struct mxfp_gemm_multiply_job *job)
{
	const size_t blocks = blocks_count(job->shape, job->k), a_bytes = int16_a_bytes(job->shape, job->k);
	const uint8_t *w = job->w, *a = job->a, *codes = w + fp4_codes(job->shape, job->k);
	struct fp4_expanded *expanded = job->scratch;
	struct blocks_head a_head, w_head;
	bool is_expanded = false;
	float *c = job->c;

	fp4_expand_scales(expanded, w + BLOCKS_HEAD_BYTES, blocks);
	memcpy(&w_head, w, sizeof w_head);
	for (size_t row = 0; row < job->rows; row += INT16_MR, a += a_bytes, c += INT16_MR * INT16_NR) {
		struct int16_panels t = int16_begin(job, a);

		memcpy(&a_head, a, sizeof a_head);
		const bool ordinary = scales_are_ordinary(&a_head, &w_head);
		t.w_scales = (const uint8_t *)expanded->scales;
		t.w = codes;
		if (ordinary && job->rows == 1) {
			fp4_few(job, &t, 1);
			return;
		}
		if (ordinary && job->rows <= FP4_FEW_ROWS) {
			fp4_few(job, &t, FP4_FEW_ROWS);
			return;
		}
		if (!is_expanded)
			fp4_expand_codes(expanded, codes, blocks * FP4_WORDS);
		is_expanded = true;
		t.w = (const uint8_t *)expanded->plane;
		int16_passes(job, &t, ordinary, job->rows - row, c);
	}
}

static FP_KERNEL(fp4_multiply, mxfp_gemm_multiply_job, fp4_rows)

const struct mxfp_gemm_kernel TIER(gemm_fp4) = {
	.id = FP4_ID,
	.name = "fp4-" TIER_NAME,
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = int16_a_bytes,
	.w_panel_bytes = fp4_w_bytes,
	.scratch_bytes = sizeof(struct fp4_expanded),
	.pack_a = fp4_pack_a,
	.pack_w = fp4_pack_w,
	.multiply = fp4_multiply,
};
