/* SPDX-License-Identifier: MIT */
/*
 * The chain kernel (doc/numerics.md, section 5): P = fma(a, w, P) in ascending k. Lanes are columns of C, so the order
 * of every sum is kept. The sums of 6 rows of A by 64 of W fill 24 registers: 10 loads serve 24 FMAs, which keeps both
 * FMA ports busy as long as A and W are in L2. W has 64 rows so that even a single row of A has four independent
 * chains, which hide part of the latency of an FMA.
 */
#include "avx512/gemm_chain.h"
#include "avx512/transpose.h"

#include "args.h"
#include "cpu.h"

/* Panels: numbers of any format become binary32, exactly except where a tensor scale rounds. */

enum {
	MR = GEMM_CHAIN_MR,
	NR = GEMM_CHAIN_NR,
	VECTORS = NR / LANES
};

void TIER(gemm_chain_decode)(const struct mxfp_gemm_pack_job *job, size_t row, size_t rows, void *to, size_t stride)
{
	struct mxfp_gemm_pack_job part = *job;

	part.row = row;
	part.rows = rows;
	widen_rows(&part, TIER(decode_wide), to, stride);
}

static size_t a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return MR * gemm_chain_a_stride(k) * sizeof(float);
}

static size_t w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return mxfp_is_block(shape->w_format) ? TIER(gemm_chain_blocks_bytes)(shape->w_format, k)
	                                      : NR * k * gemm_chain_w_width(shape->w_format);
}

/* Rows past the end of the matrix are left unwritten: the kernel does not read them. */
static void pack_a(const struct mxfp_gemm_pack_job *job)
{
	TIER(gemm_chain_decode)(job, job->row, job->rows, job->panel, gemm_chain_a_stride(job->k));
}

/* Stores numbers in the format they were decoded from if that is bf16 or f16, else as binary32. */
ALWAYS_INLINE void store_numbers(enum mxfp_format format, void *to, __m512 x)
{
	if (format == MXFP_FORMAT_BF16)
		_mm256_storeu_si256(to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x), 16)));
	else if (format == MXFP_FORMAT_F16)
		_mm256_storeu_si256(to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	else
		_mm512_storeu_ps(to, x);
}

/* Packs columns k, k + 1, ... of the chunk for LANES rows of the panel, from `row` on. Whole vectors of binary32 are not
   copied into `rows` first: a copy of 512 bytes a row costs more than to transpose them. */
ALWAYS_INLINE void pack_slice(const struct mxfp_gemm_pack_job *job, size_t row, size_t k, float rows[][PANEL_SLICE])
{
	const struct mxfp_gemm_pack_job slice = panel_slice(job, k);
	const enum mxfp_format format = job->matrix->format;
	const size_t left = job->rows > row ? job->rows - row : 0, width = gemm_chain_w_width(format);
	uint8_t *to = (uint8_t *)job->panel + (k * NR + row) * width;
	const float *from = rows[0];
	size_t stride = PANEL_SLICE;
	__m512 columns[LANES];

	if (format == MXFP_FORMAT_F32 && left >= LANES && slice.k % LANES == 0) {
		stride = job->matrix->stride;
		from = (const float *)job->matrix->data + (job->row + row) * stride + slice.k0;
	} else if (left != 0) {
		TIER(gemm_chain_decode)(&slice, job->row + row, left < LANES ? left : LANES, rows[0], PANEL_SLICE);
	}
	for (size_t i = 0; i < slice.k; i++) {
		if (i % LANES == 0)
			load_transposed(columns, from + i, stride);
		store_numbers(format, to + i * NR * width, columns[i % LANES]);
	}
}

static NOINLINE void pack_columns(const struct mxfp_gemm_pack_job *job)
{
	float rows[LANES][PANEL_SLICE];

	for (size_t row = 0; row < NR; row += LANES) {
		if (job->rows < row + LANES)
			memset(rows, 0, sizeof rows);
		for (size_t k = 0; k < job->k; k += PANEL_SLICE)
			pack_slice(job, row, k, rows);
	}
}

static FP_KERNEL(pack_numbers, mxfp_gemm_pack_job, pack_columns)

/* Packs a transposed W, whose numbers lie in the panel's order. */
static void pack_transposed(const struct mxfp_gemm_pack_job *job)
{
	const enum mxfp_format format = job->matrix->format;
	const size_t width = gemm_chain_w_width(format), stride = job->matrix->stride * width;
	const uint8_t *from = (const uint8_t *)job->matrix->data + job->k0 * stride + job->row * width;
	uint8_t *to = job->panel;

	if (job->rows < NR)
		memset(to, 0, job->k * NR * width);
	if (format == MXFP_FORMAT_TF32)
		widen_transposed(job, TIER(decode_wide), to, NR);
	else if (format == MXFP_FORMAT_F32 && job->rows == NR)
		for (size_t k = 0; k < job->k; k++)
			memcpy(to + k * NR * sizeof(float), from + k * stride, NR * sizeof(float));
	else
		for (size_t k = 0; k < job->k; k++)
			memcpy(to + k * NR * width, from + k * stride, job->rows * width);
}

static void pack_w(const struct mxfp_gemm_pack_job *job)
{
	if (job->matrix->transposed)
		pack_transposed(job);
	else
		(mxfp_is_block(job->matrix->format) ? TIER(gemm_chain_blocks_pack) : pack_numbers)(job);
}

/* Products between prefetches: a cache line of a row of A. */
enum { STEP = 16 };

/* A part of the product: one panel of A in one pass. */
struct part {
	const float *a;
	const void *w;
	size_t a_stride, k;
	float *c;
	const float *a_next; /* prefetched into L1 for the next part */
	const char *ahead;   /* prefetched into L2, ahead_lines lines per step */
	size_t ahead_lines;
};

/* Loads numbers i, i + 1, ... of a panel of W. */
ALWAYS_INLINE __m512 load_w(enum mxfp_format format, const void *w, size_t i)
{
	if (gemm_chain_w_width(format) == sizeof(float))
		return _mm512_loadu_ps((const float *)w + i);
	__m256i narrow = _mm256_loadu_si256((const __m256i *)((const uint16_t *)w + i));
	if (format == MXFP_FORMAT_F16)
		return _mm512_cvtph_ps(narrow);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}

/* Adds product k to the sums of `rows` rows; `format` is that of W's panel. */
ALWAYS_INLINE void add_product(__m512 sums[MR][VECTORS], enum mxfp_format format, size_t rows, const struct part *p,
                               size_t k)
{
	__m512 w[VECTORS];

#pragma GCC unroll 4
	for (size_t v = 0; v < VECTORS; v++)
		w[v] = load_w(format, p->w, k * NR + v * LANES);
#pragma GCC unroll 6
	for (size_t row = 0; row < rows; row++) {
		__m512 a = _mm512_set1_ps(p->a[row * p->a_stride + k]);

#pragma GCC unroll 4
		for (size_t v = 0; v < VECTORS; v++)
			sums[row][v] = _mm512_fmadd_ps(a, w[v], sums[row][v]);
	}
}

/* Adds STEP products. They are unrolled because the processor mispredicts the end of a loop over them; fewer rows than
   a panel's are not worth the code. */
ALWAYS_INLINE void add_step(__m512 sums[MR][VECTORS], enum mxfp_format format, size_t rows, const struct part *p,
                            size_t k)
{
	if (rows < MR) {
#pragma GCC unroll 1
		for (size_t i = 0; i < STEP; i++)
			add_product(sums, format, rows, p, k + i);
		return;
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < STEP; i++)
		add_product(sums, format, rows, p, k + i);
}

ALWAYS_INLINE void prefetch(const struct part *p, size_t rows, size_t k)
{
#pragma GCC unroll 6
	for (size_t row = 0; row < rows; row++)
		_mm_prefetch((const char *)(p->a_next + row * p->a_stride + k), _MM_HINT_T0);
	for (size_t line = 0; line < p->ahead_lines; line++)
		_mm_prefetch(p->ahead + (k / STEP * p->ahead_lines + line) * 64, _MM_HINT_T1);
}

/* C = fl32(C + P) for the first `rows` rows. */
ALWAYS_INLINE void multiply_rows(enum mxfp_format format, size_t rows, const struct part *p)
{
	const size_t whole = p->k / STEP * STEP;
	__m512 sums[MR][VECTORS];

#pragma GCC unroll 24
	for (size_t i = 0; i < rows * VECTORS; i++) {
		sums[i / VECTORS][i % VECTORS] = _mm512_setzero_ps();
		_mm_prefetch((const char *)(p->c + i * LANES), _MM_HINT_T0);
	}
	for (size_t k = 0; k < whole; k += STEP) {
		prefetch(p, rows, k);
		add_step(sums, format, rows, p, k);
	}
#pragma GCC unroll 1
	for (size_t k = whole; k < p->k; k++)
		add_product(sums, format, rows, p, k);
#pragma GCC unroll 24
	for (size_t i = 0; i < rows * VECTORS; i++) {
		float *c = p->c + i * LANES;

		_mm512_store_ps(c, _mm512_add_ps(_mm512_load_ps(c), sums[i / VECTORS][i % VECTORS]));
	}
}

/* A function for each number of rows, and for each format of W's panel that is multiplied without expanding it. */
#define MULTIPLY_ROWS(name, format, rows) \
	static NOINLINE void name(const struct part *p) \
	{ \
		multiply_rows(format, rows, p); \
	}
#define FUNCTIONS(name, format) \
	MULTIPLY_ROWS(name##_1, format, 1) \
	MULTIPLY_ROWS(name##_2, format, 2) \
	MULTIPLY_ROWS(name##_3, format, 3) \
	MULTIPLY_ROWS(name##_4, format, 4) \
	MULTIPLY_ROWS(name##_5, format, 5) \
	MULTIPLY_ROWS(name##_6, format, 6)
FUNCTIONS(multiply_f32, MXFP_FORMAT_F32)
FUNCTIONS(multiply_bf16, MXFP_FORMAT_BF16)
FUNCTIONS(multiply_f16, MXFP_FORMAT_F16)
#undef FUNCTIONS
#undef MULTIPLY_ROWS

typedef void multiply_function(const struct part *p);

#define ROW(name) {NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6}
static multiply_function *const multiply_f32[1 + MR] = ROW(multiply_f32);
static multiply_function *const multiply_bf16[1 + MR] = ROW(multiply_bf16);
static multiply_function *const multiply_f16[1 + MR] = ROW(multiply_f16);
#undef ROW

/* W from k0 on as binary32: bf16 and f16, whose passes are short, and block formats are expanded into the scratch
   memory. */
static const float *expand(const struct mxfp_gemm_multiply_job *job, size_t k0, size_t k)
{
	float *scratch = job->scratch;
	const enum mxfp_format format = job->shape->w_format;
	const uint16_t *from = (const uint16_t *)job->w + k0 * NR;

	if (mxfp_is_block(format))
		return TIER(gemm_chain_blocks_expand)(job, k0, k);
	if (gemm_chain_w_width(format) == sizeof(float))
		return (const float *)job->w + k0 * NR;
	if (format == MXFP_FORMAT_BF16)
		for (size_t i = 0; i < k * NR; i += LANES)
			_mm512_store_ps(scratch + i, load_w(MXFP_FORMAT_BF16, from, i));
	else
		for (size_t i = 0; i < k * NR; i += LANES)
			_mm512_store_ps(scratch + i, load_w(MXFP_FORMAT_F16, from, i));
	return scratch;
}

/* Multiplies all panels of A in one pass: W's part stays in L1, or in L2 if passes are long. functions: by rows. */
static void multiply_panels(const struct mxfp_gemm_multiply_job *job, size_t k0, multiply_function *const functions[1 + MR], struct part *p)
{
	const size_t panels = (job->rows + MR - 1) / MR;
	const char *ahead = p->ahead;

	for (size_t panel = 0; panel < panels; panel++) {
		const size_t rows = job->rows - panel * MR < MR ? job->rows - panel * MR : MR;

		p->a = (const float *)job->a + panel * MR * p->a_stride + k0;
		p->a_next = panel + 1 < panels ? p->a + MR * p->a_stride : (const float *)job->a + k0 + p->k;
		p->c = job->c + panel * MR * NR;
		p->ahead = ahead + panel * (p->k / STEP) * p->ahead_lines * 64;
		functions[rows](p);
	}
}

/* The most rows that are multiplied by bf16 and f16 as they are widened. */
static size_t few_by_numbers(const struct mxfp_gemm_multiply_job *job)
{
	return job->cpu & MXFP_CPU_FAST_SHUFFLES ? 24 : 16;
}

/* And by W in a block format as it is decoded, which takes more for 6 and 8 bits of floating point, and for scales of 16. */
static size_t few_by_blocks(const struct mxfp_gemm_multiply_job *job)
{
	const enum mxfp_format format = job->shape->w_format;

	return job->cpu & MXFP_CPU_FAST_SHUFFLES || format == MXFP_FORMAT_MXFP4 || format == MXFP_FORMAT_MXINT8 ? 12 : MR;
}

static void multiply_pass(const struct mxfp_gemm_multiply_job *job, size_t k0, size_t k)
{
	const enum mxfp_format format = job->shape->w_format;
	const bool blocks = mxfp_is_block(format);
	const size_t w_row = blocks ? NR * mxfp_code_bits(format) / 8 : NR * gemm_chain_w_width(format);
	const size_t w_first = blocks ? TIER(gemm_chain_blocks_codes)(format, k0) : k0 * w_row;
	const size_t steps = (job->rows + MR - 1) / MR * ((k + STEP - 1) / STEP);
	struct part p = {
		.a = (const float *)job->a + k0,
		.a_next = (const float *)job->a + k0 + k,
		.w = (const char *)job->w + w_first,
		.a_stride = gemm_chain_a_stride(job->k),
		.k = k,
		.c = job->c,
		.ahead = (const char *)job->w + w_first + k * w_row,
		.ahead_lines = (k * w_row / 64 + steps - 1) / steps,
	};

	if (blocks && job->rows <= few_by_blocks(job) && k % GEMM_CHAIN_BLOCKS_STEP == 0 && TIER(gemm_chain_blocks_multiply)(job, k0, k))
		return;
	if (job->rows <= few_by_numbers(job) && (format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_F16)) {
		multiply_panels(job, k0, format == MXFP_FORMAT_BF16 ? multiply_bf16 : multiply_f16, &p);
		return;
	}
	p.w = expand(job, k0, k);
	multiply_panels(job, k0, multiply_f32, &p);
}

static NOINLINE void multiply_all(const struct mxfp_gemm_multiply_job *job)
{
	const size_t pass = job->shape->pass;

	for (size_t k = 0; k < job->k; k += pass)
		multiply_pass(job, k, job->k - k < pass ? job->k - k : pass);
}

static FP_KERNEL(multiply, mxfp_gemm_multiply_job, multiply_all)

const struct mxfp_gemm_kernel TIER(gemm_chain) = {
	.id = 0x0402,
	.name = "chain-avx512",
	.mr = MR,
	.nr = NR,
	.a_panel_bytes = a_bytes,
	.w_panel_bytes = w_bytes,
	.scratch_bytes = MXFP_GEMM_CHUNK * NR * sizeof(float),
	.pack_a = pack_a,
	.pack_w = pack_w,
	.multiply = multiply,
};
