/* SPDX-License-Identifier: MIT */
/*
 * The chain kernel for a sparse W, of which 4 of 16 or 4 of 8 elements are kept. Panels hold binary32.
 *
 * A panel of W has units of 16 elements of K. First come the tags, one 16-bit word per output at 4:16 and two at 4:8: a
 * tag holds the places of four kept elements in the unit, ascending, from the low half byte on. Then come those
 * elements, [place in order][NR].
 *
 * A panel of A has a head, then K padded to whole units with -0, whose product with +0 in W changes no sum. With few
 * rows it is [row][k], so that a unit of a row is a vector from which the places select, for 16 outputs at a time. With
 * more rows it is [k][row], so that a kept element is multiplied by a vector of rows.
 *
 * The chain has a product a * +0 for each element that is not kept, which is skipped here. That changes the result in
 * two cases only: a NaN or Inf in A, which the head records, and P = -0, to which a skipped +0 would have been added. P
 * becomes -0 only by underflow, and the difference matters only if P is -0 at the end of the pass. In these cases the
 * pass is computed again with all its products.
 */
#include "tier.h"

#include "avx512/fetch_w.h"
#include "avx512/gemm_chain.h"
#include "avx512/transpose.h"
#include "body/slots.h"

enum {
	SPARSE_CHAIN_MR = 64,
	SPARSE_CHAIN_NR = 64,
	SPARSE_CHAIN_UNIT = 16,
	SPARSE_CHAIN_FEW = 12 /* the most rows of a panel that is [row][k] */
};

struct sparse_chain_head {
	_Alignas(MXFP_GEMM_ALIGN) uint32_t non_finite;
};

ALWAYS_INLINE size_t sparse_chain_units(size_t k)
{
	return (k + SPARSE_CHAIN_UNIT - 1) / SPARSE_CHAIN_UNIT;
}

/* Tags per unit and output. */
ALWAYS_INLINE size_t sparse_chain_tags(struct mxfp_sparsity sparsity)
{
	return SPARSE_CHAIN_UNIT / sparsity.m;
}

/* The bytes of the tags of a unit of W, and of the whole unit. */
ALWAYS_INLINE size_t sparse_chain_tag_bytes(size_t tags)
{
	return tags * SPARSE_CHAIN_NR * sizeof(uint16_t);
}

ALWAYS_INLINE size_t sparse_chain_unit_bytes(size_t tags)
{
	return sparse_chain_tag_bytes(tags) + tags * 4 * SPARSE_CHAIN_NR * sizeof(float);
}

enum {
	MR = SPARSE_CHAIN_MR,
	NR = SPARSE_CHAIN_NR,
	UNIT = SPARSE_CHAIN_UNIT,
	VECTORS = NR / LANES,
	SLICE = 4, /* units of A that fit L1 together with the sums of all outputs */
	STRIDE = PANEL_SLICE + LANES /* not a power of two, so that rows do not compete for the same sets of L1 */
};

static size_t a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return sizeof(struct sparse_chain_head) + sparse_chain_units(k) * UNIT * MR * sizeof(float);
}

static size_t w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return sparse_chain_units(k) * sparse_chain_unit_bytes(sparse_chain_tags(shape->sparsity));
}

static bool has_non_finite(const float *x, size_t n)
{
	enum { INF_OR_NAN = 0x99 };
	unsigned found = 0;

	for (size_t i = 0; i < n; i += LANES)
		found |= _mm512_fpclass_ps_mask(_mm512_loadu_ps(x + i), INF_OR_NAN);
	return found != 0;
}

/* Sets numbers n to end - 1 of each row to -0. */
static void pad(float *to, size_t rows, size_t stride, size_t n, size_t end)
{
	for (size_t row = 0; row < rows; row++)
		for (size_t k = n; k < end; k++)
			to[row * stride + k] = -0.0F;
}

/* Transposes sixteen rows into the panel; rows past the end of the matrix become zeros. Returns whether any number is
   a NaN or an Inf. */
static bool pack_columns(const struct mxfp_gemm_pack_job *job, size_t first, float *to)
{
	const size_t left = job->rows > first ? job->rows - first : 0, n = left < LANES ? left : LANES;
	float rows[LANES][STRIDE];
	bool found = false;

	if (n < LANES)
		memset(rows, 0, sizeof rows);
	for (size_t k0 = 0; k0 < job->k; k0 += PANEL_SLICE) {
		const struct mxfp_gemm_pack_job slice = panel_slice(job, k0);
		const size_t end = sparse_chain_units(slice.k) * UNIT;

		if (n != 0)
			TIER(gemm_chain_decode)(&slice, job->row + first, n, rows[0], STRIDE);
		pad(rows[0], n, STRIDE, slice.k, end);
		for (size_t k = 0; k < end; k += LANES) {
			__m512 x[LANES];

			load_transposed(x, &rows[0][k], STRIDE);
#pragma GCC unroll 16
			for (size_t i = 0; i < LANES; i++)
				_mm512_storeu_ps(to + (k0 + k + i) * MR + first, x[i]);
		}
		for (size_t row = 0; row < n; row++)
			found |= has_non_finite(rows[row], end);
	}
	return found;
}

static void pack_a(const struct mxfp_gemm_pack_job *job)
{
	const size_t end = sparse_chain_units(job->k) * UNIT;
	struct sparse_chain_head *head = job->panel;
	float *to = (float *)(head + 1);

	head->non_finite = 0;
	if (job->rows <= SPARSE_CHAIN_FEW) {
		TIER(gemm_chain_decode)(job, job->row, job->rows, to, end);
		pad(to, job->rows, end, job->k, end);
		head->non_finite = has_non_finite(to, job->rows * end);
		return;
	}
	for (size_t row = 0; row < MR; row += LANES)
		if (pack_columns(job, row, to))
			head->non_finite = 1;
}

/* Expands the chunk of one row of W to binary32, with +0 for elements that are not kept, and copies its masks. */
static void expand_row(const struct mxfp_gemm_pack_job *job, size_t row, float *numbers, uint16_t *masks)
{
	const struct mxfp_matrix *m = job->matrix;
	const struct mxfp_format_info *format = mxfp_format_get_info(m->format);
	const bool block = format->kind == MXFP_KIND_BLOCK;
	const size_t groups = (job->k + m->sparsity.m - 1) / m->sparsity.m;
	const uint8_t *mask = (const uint8_t *)m->masks + row * m->masks_stride + job->k0 / 8;
	uint32_t codes[MXFP_GEMM_CHUNK];
	const struct mxfp_sparse_job expand = {
		.format = m->format,
		.sparsity = m->sparsity,
		.rows = 1,
		.cols = job->k,
		.src = (const uint8_t *)m->data + row * m->stride * mxfp_stride_unit(m->format) +
		       job->k0 / m->sparsity.m * m->sparsity.n * mxfp_code_bits(m->format) / 8,
		.masks = mask,
		.dst = (uint8_t *)codes,
	};
	const struct mxfp_matrix dense = {
		.format = m->format,
		.rows = 1,
		.cols = job->k,
		.data = codes,
		.scales = block ? (const uint8_t *)m->scales + row * m->scales_stride + job->k0 / format->block_length : NULL,
		.tensor_scale = m->tensor_scale,
		.tensor_scale_divides = m->tensor_scale_divides,
	};
	const struct mxfp_gemm_pack_job decode = {.shape = job->shape, .matrix = &dense, .rows = 1, .k = job->k};

	TIER(expand)(&expand);
	TIER(gemm_chain_decode)(&decode, 0, 1, numbers, 0);
	memset(masks, 0, sparse_chain_units(job->k) * sizeof *masks);
	memcpy(masks, mask, (groups * m->sparsity.m + 7) / 8);
}

/* Stores the places and kept elements of one unit of one output. A short row is filled up with +0 at the last place,
   which is padding in A. */
ALWAYS_INLINE void store_kept(uint8_t *unit, size_t tags, size_t n, __m512 numbers, __mmask16 mask)
{
	const __m128i place = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	uint8_t places[UNIT];
	float kept[UNIT];

	_mm_storeu_si128((__m128i *)places, _mm_mask_compress_epi8(_mm_set1_epi8(UNIT - 1), mask, place));
	_mm512_storeu_ps(kept, _mm512_maskz_compress_ps(mask, numbers));
	for (size_t t = 0; t < tags; t++) {
		const uint8_t *four = places + 4 * t;
		const uint16_t tag = (uint16_t)(four[0] | four[1] << 4 | four[2] << 8 | four[3] << 12);

		memcpy(unit + (t * NR + n) * sizeof tag, &tag, sizeof tag);
	}
	for (size_t i = 0; i < 4 * tags; i++)
		memcpy(unit + sparse_chain_tag_bytes(tags) + (i * NR + n) * sizeof(float), &kept[i], sizeof(float));
}

static void pack_w(const struct mxfp_gemm_pack_job *job)
{
	const size_t tags = sparse_chain_tags(job->shape->sparsity), units = sparse_chain_units(job->k);
	float numbers[MXFP_GEMM_CHUNK] = {0};
	uint16_t masks[MXFP_GEMM_CHUNK / UNIT] = {0};

	for (size_t n = 0; n < NR; n++) {
		uint8_t *unit = job->panel;

		if (n < job->rows)
			expand_row(job, job->row + n, numbers, masks);
		else if (n == job->rows)
			memset(numbers, 0, sizeof numbers);
		for (size_t u = 0; u < units; u++, unit += sparse_chain_unit_bytes(tags))
			store_kept(unit, tags, n, _mm512_loadu_ps(numbers + u * UNIT), masks[u]);
	}
}

/* The sums of a pass, [output][row]. */
struct sums {
	_Alignas(VECTOR_BYTES) float at[NR][MR];
};

/* One panel of A in one pass. */
struct part {
	const float *a;
	size_t k_step, row_step; /* strides of A in numbers */
	const uint8_t *w;
	ptrdiff_t ahead;         /* as in fetch_w() */
	size_t units, rows;
	struct sums *sums;
	float *c;
};

/* The addresses of places and kept elements in a unit of W. */
ALWAYS_INLINE const uint8_t *tag_at(const uint8_t *unit, size_t t, size_t n)
{
	return unit + (t * NR + n) * sizeof(uint16_t);
}

ALWAYS_INLINE const float *kept_at(const uint8_t *unit, size_t tags, size_t i, size_t n)
{
	return (const float *)(unit + sparse_chain_tag_bytes(tags)) + i * NR + n;
}

/* The place of element j of tag t, of 16 outputs, in the low 4 bits of each lane. */
ALWAYS_INLINE __m512i places(const uint8_t *unit, size_t t, size_t j, size_t n)
{
	__m512i tag = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)tag_at(unit, t, n)));

	return _mm512_srli_epi32(tag, (unsigned)(4 * j));
}

/* The sums of one row and 16 outputs over all products, skipped ones included. */
static NOINLINE __m512 dense_pass(const struct part *p, size_t tags, size_t row, size_t n)
{
	const __m512i low = _mm512_set1_epi32(UNIT - 1);
	__m512 sum = _mm512_setzero_ps();

	for (size_t u = 0; u < p->units; u++)
		for (size_t k = 0; k < UNIT; k++) {
			const uint8_t *unit = p->w + u * sparse_chain_unit_bytes(tags);
			__m512 w = _mm512_setzero_ps();

			for (size_t i = 0; i < 4 * tags; i++) {
				__m512i place = _mm512_and_si512(places(unit, i / 4, i % 4, n), low);
				__mmask16 here = _mm512_cmpeq_epi32_mask(place, _mm512_set1_epi32((int)k));
				w = _mm512_mask_loadu_ps(w, here, kept_at(unit, tags, i, n));
			}
			sum = _mm512_fmadd_ps(_mm512_set1_ps(p->a[row * p->row_step + (u * UNIT + k) * p->k_step]), w, sum);
		}
	return sum;
}

ALWAYS_INLINE void add_to(float *c, __m512 sum)
{
	_mm512_store_ps(c, _mm512_add_ps(_mm512_load_ps(c), sum));
}

/* C = fl32(C + P), where P includes all products. */
static NOINLINE void multiply_dense(const struct part *p, size_t tags)
{
	for (size_t row = 0; row < p->rows; row++)
		for (size_t n = 0; n < NR; n += LANES)
			add_to(p->c + row * NR + n, dense_pass(p, tags, row, n));
}

ALWAYS_INLINE __mmask16 is_negative_zero(__m512 sum)
{
	return _mm512_cmpeq_epi32_mask(_mm512_castps_si512(sum), _mm512_set1_epi32(INT32_MIN));
}

/* Multiplies `rows` rows from `row` on of a panel that is [row][k]. */
ALWAYS_INLINE void multiply_rows(const struct part *p, size_t tags, size_t row, size_t rows)
{
	const size_t bytes = sparse_chain_unit_bytes(tags);
	__m512 sum[4][VECTORS];
	unsigned negative_zero = 0;

#pragma GCC unroll 16
	for (size_t i = 0; i < rows * VECTORS; i++)
		sum[i / VECTORS][i % VECTORS] = _mm512_setzero_ps();
	for (size_t u = 0; u < p->units; u++) {
		const uint8_t *unit = p->w + u * bytes;
		__m512 a[4];

		for (size_t i = 0; i < bytes; i += 64) {
			fetch_w(unit + i, p->ahead);
			fetch_w_near(unit + i);
		}
#pragma GCC unroll 4
		for (size_t r = 0; r < rows; r++)
			a[r] = _mm512_load_ps(p->a + (row + r) * p->row_step + u * UNIT);
#pragma GCC unroll 32
		for (size_t i = 0; i < 4 * tags * VECTORS; i++) {
			const size_t j = i / VECTORS, v = i % VECTORS;
			const __m512i place = places(unit, j / 4, j % 4, v * LANES);
			const __m512 w = _mm512_loadu_ps(kept_at(unit, tags, j, v * LANES));
#pragma GCC unroll 4
			for (size_t r = 0; r < rows; r++)
				sum[r][v] = _mm512_fmadd_ps(_mm512_permutexvar_ps(place, a[r]), w, sum[r][v]);
		}
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * VECTORS; i++)
		negative_zero |= is_negative_zero(sum[i / VECTORS][i % VECTORS]);
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * VECTORS; i++) {
		const size_t r = row + i / VECTORS, n = i % VECTORS * LANES;

		if (__builtin_expect(negative_zero != 0, 0))
			sum[i / VECTORS][i % VECTORS] = dense_pass(p, tags, r, n);
		add_to(p->c + r * NR + n, sum[i / VECTORS][i % VECTORS]);
	}
}

ALWAYS_INLINE void multiply_few(const struct part *p, size_t tags)
{
	size_t row = 0;

	for (; row + 4 <= p->rows; row += 4)
		multiply_rows(p, tags, row, 4);
	if (p->rows - row == 3)
		multiply_rows(p, tags, row, 3);
	else if (p->rows - row == 2)
		multiply_rows(p, tags, row, 2);
	else if (p->rows - row == 1)
		multiply_rows(p, tags, row, 1);
}

/* Adds the product of one kept element to one output: element j of tag o of the four in `tags`. */
ALWAYS_INLINE void add_product(__m512 *sum, const float *a, uint64_t tags, size_t o, size_t j, const uint8_t *kept,
                               size_t vectors)
{
	enum { ROW = MR * sizeof(float) };
	const unsigned by = (unsigned)(16 * o + 4 * j + 56) % 64; /* rotates the place to a multiple of ROW */
	const char *rows = (const char *)a + ((by == 0 ? tags : tags >> by | tags << (64 - by)) & (UNIT - 1) * ROW);
	float kept_number;

	memcpy(&kept_number, kept, sizeof kept_number);
	const __m512 w = _mm512_set1_ps(kept_number);

	__asm__("" : "+r"(rows)); /* one base register for all its vectors */
#pragma GCC unroll 4
	for (size_t v = 0; v < vectors; v++)
		__asm__("vfmadd231ps %2, %1, %0" : "+v"(sum[v]) : "v"(w), "m"(*((const __m512 *)rows + v)));
}

/* Adds a slice of K to `outputs` outputs from n on, of `vectors` vectors of rows. */
ALWAYS_INLINE void add_slice(struct sums *sums, const float *a, const uint8_t *w, size_t units, size_t tags, size_t n,
                             size_t outputs, size_t vectors)
{
	__m512 sum[16];

#pragma GCC unroll 16
	for (size_t i = 0; i < outputs * vectors; i++)
		sum[i] = _mm512_load_ps(&sums->at[n + i / vectors][i % vectors * LANES]);
	w += n * sizeof(uint16_t);
	for (size_t u = 0; u < units; u++) {
		const uint8_t *kept = w + sparse_chain_tag_bytes(tags) + n * (sizeof(float) - sizeof(uint16_t));

		__asm__("" : "+r"(kept)); /* the loop has registers for one base and offsets from it only */
#pragma GCC unroll 4
		for (size_t i = 0; i < 2 * tags; i++) {
			const size_t t = i / 2, four = i % 2 * 4;
			uint64_t some;

			if (four >= outputs)
				continue;
			memcpy(&some, w + (t * NR + four) * sizeof(uint16_t), sizeof some);
#pragma GCC unroll 16
			for (size_t p = 0; p < 16; p++) {
				const size_t j = p / 4, o = p % 4;

				add_product(&sum[(four + o) * vectors], a, some, o, j,
				            kept + ((t * 4 + j) * NR + four + o) * sizeof(float), vectors);
			}
		}
		w += sparse_chain_unit_bytes(tags);
		a += UNIT * MR;
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < outputs * vectors; i++)
		_mm512_store_ps(&sums->at[n + i / vectors][i % vectors * LANES], sum[i]);
}

/* Adds the sums to C and returns true, or returns false if one of them is -0. */
ALWAYS_INLINE bool add_sums(const struct sums *sums, float *c, size_t vectors)
{
	unsigned negative_zero = 0;

	for (size_t n = 0; n < NR; n++)
		for (size_t v = 0; v < vectors; v++)
			negative_zero |= is_negative_zero(_mm512_load_ps(&sums->at[n][v * LANES]));
	if (negative_zero != 0)
		return false;
	for (size_t n = 0; n < NR; n += LANES)
		for (size_t v = 0; v < vectors; v++) {
			__m512 x[LANES];

			load_transposed(x, &sums->at[n][v * LANES], MR);
#pragma GCC unroll 16
			for (size_t i = 0; i < LANES; i++)
				add_to(c + (v * LANES + i) * NR + n, x[i]);
		}
	return true;
}

/* C = fl32(C + P) for a panel that is [k][row]. */
ALWAYS_INLINE void multiply_many(const struct part *p, size_t tags, size_t vectors)
{
	const size_t outputs = vectors == 1 ? 8 : 16 / vectors;

	memset(p->sums, 0, sizeof *p->sums);
	for (size_t u = 0; u < p->units; u += SLICE) {
		const size_t units = p->units - u < SLICE ? p->units - u : SLICE;

		for (size_t n = 0; n < NR; n += outputs)
			add_slice(p->sums, p->a + u * UNIT * MR, p->w + u * sparse_chain_unit_bytes(tags), units, tags, n,
			          outputs, vectors);
	}
	if (__builtin_expect(!add_sums(p->sums, p->c, vectors), 0))
		multiply_dense(p, tags);
}

/* The functions for few and for many rows of each pattern, which has `tags` tags per unit. */
#define MULTIPLY(few, many, tags) \
	static NOINLINE void few(const struct part *p) \
	{ \
		multiply_few(p, tags); \
	} \
	static NOINLINE void many(const struct part *p) \
	{ \
		if (p->rows > 2 * LANES) \
			multiply_many(p, tags, 4); \
		else if (p->rows > LANES) \
			multiply_many(p, tags, 2); \
		else \
			multiply_many(p, tags, 1); \
	}
MULTIPLY(multiply_few_4_16, multiply_many_4_16, 1)
MULTIPLY(multiply_few_4_8, multiply_many_4_8, 2)
#undef MULTIPLY

/* Multiplies one panel of A in all passes. */
static void multiply_panel(const struct mxfp_gemm_multiply_job *job, const uint8_t *panel, size_t rows, float *c)
{
	const size_t tags = sparse_chain_tags(job->shape->sparsity), units = sparse_chain_units(job->k);
	const bool few = rows <= SPARSE_CHAIN_FEW;
	const struct sparse_chain_head *head = (const void *)panel;
	struct part p = {
		.k_step = few ? 1 : MR,
		.row_step = few ? units * UNIT : 1,
		.ahead = w_ahead(job),
		.rows = rows < MR ? rows : MR,
		.sums = job->scratch,
		.c = c,
	};

	for (size_t u = 0; u < units; u += p.units) {
		const size_t pass = job->shape->pass / UNIT;

		p.units = units - u < pass ? units - u : pass;
		p.a = (const float *)(head + 1) + u * UNIT * p.k_step;
		p.w = (const uint8_t *)job->w + u * sparse_chain_unit_bytes(tags);
		if (head->non_finite != 0)
			multiply_dense(&p, tags);
		else if (few)
			(tags == 1 ? multiply_few_4_16 : multiply_few_4_8)(&p);
		else
			(tags == 1 ? multiply_many_4_16 : multiply_many_4_8)(&p);
	}
}

static void multiply(const struct mxfp_gemm_multiply_job *job)
{
	struct fp_state state = fp_enter();

	multiply_each(job, a_bytes(job->shape, job->k), MR, NR, multiply_panel);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_sparse_chain) = {
	.id = 0x0500,
	.name = "sparse-chain-avx512",
	.mr = MR,
	.nr = NR,
	.a_panel_bytes = a_bytes,
	.w_panel_bytes = w_bytes,
	.scratch_bytes = sizeof(struct sums),
	.pack_a = pack_a,
	.pack_w = pack_w,
	.multiply = multiply,
};
