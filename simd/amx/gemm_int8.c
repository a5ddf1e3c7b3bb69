/* SPDX-License-Identifier: MIT */
/*
 * The products of avx512/gemm_int8.h in tiles. Its panels are used as they are: an expanded panel of W has the four elements of
 * 16 columns beside each other, 64 bytes, which is a row of the second operand of TDPBSUD, and the elements of A, which are
 * signed, are the first one's. Sums are integers, so they are the same in any order; what is done with the sum of a block is
 * what avx512/gemm_int8.c does.
 *
 * Four panels of A make the 16 rows of a tile. Their elements are copied beside each other, 64 of a row: a block of 32 is half a
 * row of that. Not folded, a block is one product of tiles, whose 16 x 16 sums go through memory to the vector unit; those of
 * several blocks are made while others are added up. Folded, a pass is one sum, in three tiles for the 48 columns.
 *
 * Up to GEMM_TILES_FEW rows, and panels whose scales are so large that they need an excess, are multiplied by avx512's kernel.
 */
#include "tier.h"

#include "amx/tiles.h"
#include "avx512/gemm_int8.h"

enum {
	GEMM_TILES_FEW = 8,
	PANELS = TILE_ROWS / MR,
	ELEMENTS = TILE_BYTES,     /* of a row of A in a tile */
	SUMS = 4                   /* blocks whose sums are made at once, in tiles 0 .. 3 */
};

/* Tiles 0 .. 3: sums. 4 and 5: a block of A and of W. 6 and 7: 64 elements of each. */
#define BLOCK_OF_A 4
#define BLOCK_OF_W 5
#define ELEMENTS_OF_A 6
#define ELEMENTS_OF_W 7

typedef int32_t tile_sums[TILE_ROWS][LANES];

struct tiles_scratch {
	_Alignas(VECTOR_BYTES) int8_t a[MXFP_GEMM_CHUNK / ELEMENTS][TILE_ROWS][ELEMENTS];
	_Alignas(VECTOR_BYTES) tile_sums sums[2][SUMS];
	struct gemm_int8_source w;
};

/* 16 rows of A: panels from `first` on, the last one again for those that are missing. */
struct group {
	struct rows panel[PANELS];
	size_t n;    /* panels */
	bool folded; /* every row */
};

static void configure(int block)
{
	_Alignas(64) struct tile_config config = {.palette = 1};

	for (int t = 0; t < TILES; t++) {
		config.bytes[t] = TILE_BYTES;
		config.rows[t] = TILE_ROWS;
	}
	config.bytes[BLOCK_OF_A] = (uint16_t)block;
	config.rows[BLOCK_OF_W] = (uint8_t)(block / 4);
	tile_configure(&config);
}

static struct group group_at(const struct rows *first, size_t i, size_t panels)
{
	struct group g = {.n = panels - i < PANELS ? panels - i : PANELS, .folded = true};

	for (size_t p = 0; p < PANELS; p++) {
		g.panel[p] = later_rows(first, i + (p < g.n ? p : g.n - 1));
		g.folded &= g.panel[p].head->folded != 0;
	}
	return g;
}

/* Copies the elements of a group; those of an odd last unit have zeros beside them. */
static void gather(struct tiles_scratch *s, const struct group *g, size_t k)
{
	const size_t units = gemm_int8_count(k, GEMM_INT8_UNIT);

	for (size_t unit = 0; unit < units + units % 2; unit++)
		for (size_t row = 0; row < TILE_ROWS; row++) {
			const int8_t *from = g->panel[row / MR].codes + (unit * MR + row % MR) * GEMM_INT8_UNIT;
			__m256i x = unit < units ? _mm256_load_si256((const __m256i *)from) : _mm256_setzero_si256();

			_mm256_store_si256((__m256i *)(s->a[unit / 2][row] + unit % 2 * GEMM_INT8_UNIT), x);
		}
}

/* Makes the sums of n blocks from b on, for the columns of vector v. */
ALWAYS_INLINE void sum_blocks(const struct tiles_scratch *s, const struct gemm_int8_columns *w, int v, size_t b, size_t n,
                              size_t block, tile_sums *to)
{
#define SUM_BLOCK(i) \
	if ((i) < n) { \
		const size_t k = (b + (i)) * block; \
\
		tile_zero(i); \
		tile_load(BLOCK_OF_A, s->a[k / ELEMENTS][0] + k % ELEMENTS, ELEMENTS); \
		tile_load(BLOCK_OF_W, w->codes + k * NR + v * VECTOR_BYTES, NR * 4); \
		tile_dot(i, BLOCK_OF_A, BLOCK_OF_W); \
		tile_store(i, to[i], VECTOR_BYTES); \
	}
	SUM_BLOCK(0)
	SUM_BLOCK(1)
	SUM_BLOCK(2)
	SUM_BLOCK(3)
#undef SUM_BLOCK
}

/* Adds the sums of block b, times A's scales and W's, to p. */
ALWAYS_INLINE void add_sums(__m512 p[TILE_ROWS], int32_t (*sums)[LANES], const struct group *g, size_t b, __m512 scale)
{
#pragma GCC unroll 16
	for (int r = 0; r < TILE_ROWS; r++) {
		const struct gemm_int8_block *block = g->panel[r / MR].blocks + b * MR + r % MR;
		const __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums[r]), _mm512_set1_epi32(block->start));
		const __m512 term =
			_mm512_fmadd_ps(_mm512_castsi512_ps(sum), _mm512_set1_ps(block->factor), _mm512_set1_ps(block->less));

		p[r] = _mm512_fmadd_ps(term, scale, p[r]);
	}
}

/* Multiplies the group by the columns of vector v of a plain panel. */
ALWAYS_INLINE void multiply_plain(const struct mxfp_gemm_multiply_job *job, struct tiles_scratch *s, const struct group *g,
                                  const struct gemm_int8_columns *w, float *c, int v, size_t block)
{
	const size_t n_blocks = gemm_int8_count(job->k, block), per_pass = job->shape->pass / block;

	for (size_t b = 0; b < n_blocks;) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		size_t n = end - b < SUMS ? end - b : SUMS, turn = 0;
		__m512 p[TILE_ROWS] = {0};

		sum_blocks(s, w, v, b, n, block, s->sums[turn]);
		while (n != 0) {
			const size_t next = b + n, n_next = end - next < SUMS ? end - next : SUMS;

			sum_blocks(s, w, v, next, n_next, block, s->sums[1 - turn]);
			for (size_t i = 0; i < n; i++)
				add_sums(p, s->sums[turn][i], g, b + i, _mm512_load_ps(w->scales + (b + i) * NR + v * LANES));
			b = next;
			n = n_next;
			turn = 1 - turn;
		}
#pragma GCC unroll 16
		for (size_t r = 0; r < TILE_ROWS; r++) {
			float *at = c + r * NR + v * LANES;

			if (r < g->n * MR)
				_mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), p[r]));
		}
	}
}

#define MULTIPLY_PLAIN(name, block) \
	static NOINLINE void name(const struct mxfp_gemm_multiply_job *job, struct tiles_scratch *s, const struct group *g, \
	                          const struct gemm_int8_columns *w, float *c) \
	{ \
		for (int v = 0; v < VECTORS; v++) \
			multiply_plain(job, s, g, w, c, v, block); \
	}
MULTIPLY_PLAIN(multiply_32, MXFP_MX_BLOCK)
MULTIPLY_PLAIN(multiply_16, MXFP_NVFP4_BLOCK)
#undef MULTIPLY_PLAIN

/* C += P for the sums of a pass if both panels are folded. */
ALWAYS_INLINE void end_folded_pass(float *c, tile_sums *sums, const struct group *g, size_t pass, const float *scales)
{
	for (size_t r = 0; r < g->n * MR; r++) {
		const struct gemm_int8_head *head = g->panel[r / MR].head;
		const __m512i start = _mm512_set1_epi32(head->folded_start[pass][r % MR]);
		const __m512 factor = _mm512_set1_ps(head->folded_factor[r % MR]);

#pragma GCC unroll 3
		for (int v = 0; v < VECTORS; v++) {
			const __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums[v][r]), start);
			float *at = c + r * NR + v * LANES;

			_mm512_store_ps(at, _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), factor),
			                                    _mm512_load_ps(scales + v * LANES), _mm512_load_ps(at)));
		}
	}
}

/* A pass has a multiple of 128 elements. Past an odd last unit A's are zeros, whatever W's are. */
static NOINLINE void multiply_folded(const struct mxfp_gemm_multiply_job *job, struct tiles_scratch *s, const struct group *g,
                                     const struct gemm_int8_columns *w, float *c)
{
	for (size_t k = 0, pass = 0; k < job->k; pass++) {
		const size_t end = job->k - k < job->shape->pass ? job->k : k + job->shape->pass;

		tile_zero(0);
		tile_zero(1);
		tile_zero(2);
		for (; k < end; k += ELEMENTS) {
			const uint8_t *codes = w->codes + k * NR;

			tile_load(ELEMENTS_OF_A, s->a[k / ELEMENTS], ELEMENTS);
			tile_load(ELEMENTS_OF_W, codes, NR * 4);
			tile_dot(0, ELEMENTS_OF_A, ELEMENTS_OF_W);
			tile_load(ELEMENTS_OF_W, codes + VECTOR_BYTES, NR * 4);
			tile_dot(1, ELEMENTS_OF_A, ELEMENTS_OF_W);
			tile_load(ELEMENTS_OF_W, codes + 2 * VECTOR_BYTES, NR * 4);
			tile_dot(2, ELEMENTS_OF_A, ELEMENTS_OF_W);
		}
		tile_store(0, s->sums[0][0], VECTOR_BYTES);
		tile_store(1, s->sums[0][1], VECTOR_BYTES);
		tile_store(2, s->sums[0][2], VECTOR_BYTES);
		end_folded_pass(c, s->sums[0], g, pass, w->scales);
	}
}

static void multiply_tiles(const struct mxfp_gemm_multiply_job *job)
{
	const struct kind kind = kind_of(job->shape);
	const size_t panels = gemm_int8_count(job->rows, MR);
	const struct rows first = first_rows(job);
	struct tiles_scratch *s = job->scratch;
	struct fp_state state = fp_enter();

	gemm_int8_source_begin(&s->w, job, &kind);
	configure(kind.block);
	for (size_t i = 0; i < panels; i += PANELS) {
		const struct group g = group_at(&first, i, panels);
		float *c = job->c + i * MR * NR;

		gather(s, &g, job->k);
		if (s->w.foldable && g.folded)
			multiply_folded(job, s, &g, mxfp_gemm_int8_expand_folded(&s->w), c);
		else if (kind.block == MXFP_MX_BLOCK)
			multiply_32(job, s, &g, mxfp_gemm_int8_expand_plain(&s->w), c);
		else
			multiply_16(job, s, &g, mxfp_gemm_int8_expand_plain(&s->w), c);
	}
	tile_release();
	fp_leave(state);
}

static bool has_excess(const struct mxfp_gemm_multiply_job *job)
{
	const struct rows first = first_rows(job);
	uint32_t excess = 0;

	for (size_t i = 0; i < gemm_int8_count(job->rows, MR); i++)
		excess |= later_rows(&first, i).head->excess;
	return excess != 0;
}

extern const struct mxfp_gemm_kernel mxfp_gemm_int8_avx512;

static void multiply(const struct mxfp_gemm_multiply_job *job)
{
	if (job->rows <= GEMM_TILES_FEW || has_excess(job))
		mxfp_gemm_int8_avx512.multiply(job);
	else
		multiply_tiles(job);
}

_Static_assert(sizeof(struct tiles_scratch) >= sizeof(struct gemm_int8_source), "avx512's kernel has enough");

const struct mxfp_gemm_kernel TIER(gemm_int8) = {
	.id = 0x0101, /* avx512's panels */
	.name = "exact-int8-" TIER_NAME,
	.mr = GEMM_INT8_MR,
	.nr = GEMM_INT8_NR,
	.a_panel_bytes = mxfp_gemm_int8_a_bytes,
	.w_panel_bytes = mxfp_gemm_int8_w_bytes,
	.scratch_bytes = sizeof(struct tiles_scratch),
	.pack_a = mxfp_gemm_int8_pack_a,
	.pack_w = mxfp_gemm_int8_pack_w,
	.multiply = multiply,
};
