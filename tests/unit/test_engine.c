/* SPDX-License-Identifier: MIT */
/* The tensor engine's account: every expected number is worked out by hand from the geometry that engine.h states. */
#include "mxfp/engine.h"

#include <string.h>

#include "suite.h"

enum { PRODUCTS_MAX = 12, ARRAYS_MAX = 32 };

/* Room for an account, filled with a pattern that no result has. */
struct account {
	struct mxfp_engine engine;
	struct mxfp_engine_place places[PRODUCTS_MAX];
	uint64_t busy[ARRAYS_MAX];
};

static void prepare(struct account *a, const char *chip, unsigned cores)
{
	memset(a, 0xA5, sizeof *a);
	a->engine.size = sizeof a->engine;
	a->engine.chip = NULL;
	for (int i = 0; mxfp_engine_get_chip(i) != NULL; i++)
		if (strcmp(mxfp_engine_get_chip(i)->name, chip) == 0)
			a->engine.chip = mxfp_engine_get_chip(i);
	ck_assert_ptr_nonnull(a->engine.chip);
	a->engine.cores = cores;
	a->engine.places = a->places;
	a->engine.busy = a->busy;
	a->engine.n_busy = ARRAYS_MAX;
}

/* The matrices of products, which have only pointers to them. */
static struct mxfp_matrix matrices[64];
static size_t n_matrices;

static struct mxfp_matrix *matrix(enum mxfp_format format, size_t rows, size_t cols)
{
	struct mxfp_matrix *m = &matrices[n_matrices++ % 64];

	*m = mxfp_numbers(format, rows, cols, NULL);
	return m;
}

static struct mxfp_product product(size_t m, size_t n, size_t k, enum mxfp_format a, enum mxfp_format w)
{
	return (struct mxfp_product){
		.size = sizeof(struct mxfp_product), .a = matrix(a, m, k), .w = matrix(w, n, k)};
}

/* To spoil one. */
static struct mxfp_matrix *w_of(const struct mxfp_product *p)
{
	return (struct mxfp_matrix *)p->w;
}

/* A W4A8 product. */
static struct mxfp_product w4a8(size_t m, size_t n, size_t k)
{
	return product(m, n, k, MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP4);
}

/* The account of one core of Trainium3. */
static void estimate(struct account *a, const struct mxfp_product *products, size_t n, unsigned pass_k)
{
	const struct mxfp_gemm_options options = {.size = sizeof options, .pass_k = pass_k};

	prepare(a, "trainium3", 1);
	assert_status(mxfp_engine_estimate(&a->engine, NULL, products, n, &options), MXFP_OK);
	ck_assert_uint_eq(a->engine.arrays, pass_k == 0 ? 1 : 512 / pass_k);
	suite_compared(1);
}

/* Cycles of one product, whose sub-array waits for its first tile. */
TEST(cycles_follow_from_the_geometry)
{
	static const struct {
		size_t m, n, k;
		unsigned pass_k;
		uint64_t cycles;
	} cases[] = {
		{512, 128, 512, 0, 64 + 512},
		{512, 128, 512, 256, 64 + 2 * 512},
		{512, 128, 512, 128, 64 + 4 * 512},
		{512, 128, 128, 512, 64 + 512},      /* a quarter of the depth costs as much as all of it */
		{512, 128, 128, 128, 64 + 512},
		{512, 128, 513, 512, 64 + 2 * 512},
		{512, 129, 512, 512, 64 + 512 + 512},
		{1, 4096, 4096, 512, 64 + 32 * 8 * 64},  /* decoding: a load of 64 cycles for each row */
		{63, 128, 512, 512, 64 + 64},
		{65, 128, 512, 512, 64 + 65},
		{16, 32, 512, 512, 32 + 32},         /* 32 columns load in 32 cycles */
		{4096, 128, 512, 512, 64 + 4096},    /* eight banks: all under one load */
		{4097, 128, 512, 512, 64 + 4096 + 64},   /* the last row waits for a load of its own */
		{1025, 128, 128, 128, 64 + 1024 + 64},   /* a quarter has two banks */
		{0, 128, 512, 512, 0},
		{512, 0, 512, 512, 0},
		{512, 128, 0, 512, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct mxfp_product p = w4a8(cases[i].m, cases[i].n, cases[i].k);
		struct account a;

		estimate(&a, &p, 1, cases[i].pass_k);
		ck_assert_uint_eq(a.engine.cycles, cases[i].cycles);
		ck_assert_uint_eq(a.busy[0], cases[i].cycles);
		ck_assert_uint_eq(a.places[0].cycles, cases[i].cycles);
		/* 2400 cycles are a microsecond. */
		ck_assert_uint_eq(a.engine.compute_ps, cases[i].cycles * 1000000 / 2400);
	}
}

/* Depth and cycles of 512 x 128 x 512 in every pair of formats. */
TEST(formats_have_their_rates)
{
	static const struct {
		enum mxfp_format a, w;
		struct mxfp_sparsity sparsity;
		enum mxfp_engine_rate rate;
		uint64_t depth, cycles;
	} cases[] = {
		{MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP4, {0, 0}, MXFP_ENGINE_FP4, 512, 64 + 512},
		{MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXFP8_E4M3, {0, 0}, MXFP_ENGINE_FP8, 512, 64 + 512},
		{MXFP_FORMAT_BF16, MXFP_FORMAT_F16, {0, 0}, MXFP_ENGINE_16BIT, 128, 64 + 4 * 512},
		{MXFP_FORMAT_BF16, MXFP_FORMAT_MXFP4, {0, 0}, MXFP_ENGINE_16BIT, 128, 64 + 4 * 512},
		{MXFP_FORMAT_TF32, MXFP_FORMAT_TF32, {0, 0}, MXFP_ENGINE_16BIT, 128, 64 + 4 * 512},
		{MXFP_FORMAT_F32, MXFP_FORMAT_BF16, {0, 0}, MXFP_ENGINE_F32, 128, 4 * (64 + 4 * 512)},
		{MXFP_FORMAT_BF16, MXFP_FORMAT_BF16, {4, 16}, MXFP_ENGINE_SPARSE, 512, 64 + 512},
		{MXFP_FORMAT_BF16, MXFP_FORMAT_BF16, {4, 12}, MXFP_ENGINE_SPARSE, 384, 64 + 2 * 512},
		{MXFP_FORMAT_BF16, MXFP_FORMAT_BF16, {4, 8}, MXFP_ENGINE_SPARSE, 256, 64 + 2 * 512},
		/* FP8 without block scales: nc_matmul's double_row, two products an element. */
		{MXFP_FORMAT_E4M3, MXFP_FORMAT_E4M3, {0, 0}, MXFP_ENGINE_FP8_PLAIN, 256, 64 + 2 * 512},
		{MXFP_FORMAT_E5M2, MXFP_FORMAT_E4M3, {0, 0}, MXFP_ENGINE_FP8_PLAIN, 256, 64 + 2 * 512},
		{MXFP_FORMAT_E4M3, MXFP_FORMAT_MXFP4, {0, 0}, MXFP_ENGINE_FP8_PLAIN, 256, 64 + 2 * 512},
		{MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_E4M3, {0, 0}, MXFP_ENGINE_FP8_PLAIN, 256, 64 + 2 * 512},
		{MXFP_FORMAT_E4M3, MXFP_FORMAT_BF16, {0, 0}, MXFP_ENGINE_16BIT, 128, 64 + 4 * 512},
		{MXFP_FORMAT_F32, MXFP_FORMAT_E4M3, {0, 0}, MXFP_ENGINE_F32, 128, 4 * (64 + 4 * 512)},
		/* Nothing is published of sparse MX or f32. */
		{MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP4, {4, 16}, MXFP_ENGINE_FP8, 512, 64 + 512},
		{MXFP_FORMAT_F32, MXFP_FORMAT_BF16, {4, 16}, MXFP_ENGINE_F32, 128, 4 * (64 + 4 * 512)},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct mxfp_product p = product(512, 128, 512, cases[i].a, cases[i].w);
		struct account a;

		w_of(&p)->sparsity = cases[i].sparsity;
		estimate(&a, &p, 1, 0);
		ck_assert_int_eq((int)a.places[0].rate, (int)cases[i].rate);
		ck_assert_uint_eq(a.places[0].depth, cases[i].depth);
		ck_assert_uint_eq(a.engine.cycles, cases[i].cycles);
	}
}

/* PSUM has 16 KiB a column: 4096 sums in f32, on Trainium3 8192 in bf16 (nki.isa.nc_matmul_mx since NKI 0.5.0). A row more
   waits for a load of its own, of 64 cycles. */
TEST(sums_in_bf16_take_half_of_the_banks)
{
	static const struct {
		const char *chip;
		enum mxfp_format w, c;
		size_t m;
		unsigned pass_k;
		uint64_t cycles;
	} cases[] = {
		{"trainium3", MXFP_FORMAT_MXFP4, MXFP_FORMAT_F32, 4097, 512, 64 + 4096 + 64},
		{"trainium3", MXFP_FORMAT_MXFP4, MXFP_FORMAT_BF16, 4097, 512, 64 + 4097},
		{"trainium3", MXFP_FORMAT_MXFP4, MXFP_FORMAT_BF16, 8192, 512, 64 + 8192},
		{"trainium3", MXFP_FORMAT_MXFP4, MXFP_FORMAT_BF16, 8193, 512, 64 + 8192 + 64},
		{"trainium3", MXFP_FORMAT_MXFP4, MXFP_FORMAT_BF16, 2049, 128, 64 + 4 * (2048 + 64)},
		{"trainium2", MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_BF16, 4097, 512, 64 + 2 * (4096 + 64)},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct mxfp_gemm_options options = {.size = sizeof options, .pass_k = cases[i].pass_k};
		const struct mxfp_result c = mxfp_to_numbers(cases[i].c, NULL);
		struct mxfp_product p = product(cases[i].m, 128, 512, MXFP_FORMAT_MXFP8_E4M3, cases[i].w);
		struct mxfp_engine_chip chip;
		struct account a;

		p.c = &c;
		prepare(&a, cases[i].chip, 1);
		assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, &options), MXFP_OK);
		ck_assert_uint_eq(a.engine.cycles, cases[i].cycles);
		/* A copy of a chip has what the chip has. */
		chip = *a.engine.chip;
		chip.size = sizeof chip;
		a.engine.chip = &chip;
		assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, &options), MXFP_OK);
		ck_assert_uint_eq(a.engine.cycles, cases[i].cycles);
		suite_compared(2);
	}
}

/* What is filled: K = 96 of depth 512 or 128, N = 130 of 256 columns, 100 rows behind loads of 64 and 2 cycles. */
TEST(waste_is_counted)
{
	const struct mxfp_product p = w4a8(100, 130, 96);
	struct account a;

	estimate(&a, &p, 1, 512);
	ck_assert_uint_eq(a.engine.macs, 100 * 130 * 96);
	ck_assert_uint_eq(a.engine.macs_depth, 100 * 130 * 512);
	ck_assert_uint_eq(a.engine.macs_tiles, 100 * 256 * 512);
	ck_assert_uint_eq(a.engine.moving, 200);
	ck_assert_uint_eq(a.engine.cycles, 64 + 200);
	estimate(&a, &p, 1, 128);
	ck_assert_uint_eq(a.engine.macs_depth, 100 * 130 * 128);
	ck_assert_uint_eq(a.engine.macs_tiles, 100 * 256 * 128);
	ck_assert_uint_eq(a.engine.moving, 200);
}

/* Seven products of lengths 512, 448, ... 128 (512 last but one in the list) on two halves: 512 and 448 start, then the
   half that is done first takes the next. */
TEST(longest_first_on_the_least_busy)
{
	static const size_t rows[] = {128, 192, 256, 320, 384, 512, 448};
	static const struct mxfp_engine_place expected[] = {
		{5, 0, MXFP_ENGINE_FP8, 256, 0, 64 + 512},   {6, 1, MXFP_ENGINE_FP8, 256, 0, 64 + 448},
		{4, 1, MXFP_ENGINE_FP8, 256, 512, 384},      {3, 0, MXFP_ENGINE_FP8, 256, 576, 320},
		{2, 0, MXFP_ENGINE_FP8, 256, 896, 256},      {1, 1, MXFP_ENGINE_FP8, 256, 896, 192},
		{0, 1, MXFP_ENGINE_FP8, 256, 1088, 128},
	};
	enum { N = sizeof rows / sizeof rows[0] };
	struct mxfp_product products[N];
	struct account a;

	for (size_t i = 0; i < N; i++)
		products[i] = w4a8(rows[i], 128, 256);
	estimate(&a, products, N, 256);
	for (size_t i = 0; i < N; i++) {
		ck_assert_uint_eq(a.places[i].product, expected[i].product);
		ck_assert_uint_eq(a.places[i].array, expected[i].array);
		ck_assert_uint_eq(a.places[i].depth, expected[i].depth);
		ck_assert_uint_eq(a.places[i].start, expected[i].start);
		ck_assert_uint_eq(a.places[i].cycles, expected[i].cycles);
	}
	ck_assert_uint_eq(a.busy[0], 1152);
	ck_assert_uint_eq(a.busy[1], 1216);
	ck_assert_uint_eq(a.engine.cycles, 1216);
	/* The busy times beyond the two halves are the caller's. */
	ck_assert_uint_eq(a.busy[2], UINT64_C(0xA5A5A5A5A5A5A5A5));
}

/* Eight equal products on the 32 quarters of a chip, then nine: ties go to the lower index. */
TEST(ties_go_to_the_lower_index)
{
	const struct mxfp_gemm_options options = {.size = sizeof options, .pass_k = 512};
	struct mxfp_product products[9];
	struct account a;

	for (size_t i = 0; i < 9; i++)
		products[i] = w4a8(512, 128, 512);
	prepare(&a, "trainium3", 0);
	assert_status(mxfp_engine_estimate(&a.engine, NULL, products, 9, &options), MXFP_OK);
	ck_assert_uint_eq(a.engine.arrays, 8);
	for (size_t i = 0; i < 9; i++) {
		ck_assert_uint_eq(a.places[i].product, i);
		ck_assert_uint_eq(a.places[i].array, i % 8);
	}
	ck_assert_uint_eq(a.engine.cycles, 64 + 2 * 512);
	ck_assert_uint_eq(a.busy[1], 64 + 512);
}

/* Four heads of depth 128: four sub-arrays do in one move what one array does in four. */
TEST(four_sub_arrays_win_with_short_k)
{
	struct mxfp_product products[4];
	struct account a;

	for (size_t i = 0; i < 4; i++)
		products[i] = w4a8(512, 128, 128);
	estimate(&a, products, 4, 512);
	ck_assert_uint_eq(a.engine.cycles, 64 + 4 * 512);
	estimate(&a, products, 4, 128);
	ck_assert_uint_eq(a.engine.cycles, 64 + 512);
	/* With K = 512 there is nothing to win, and one product alone loses. */
	for (size_t i = 0; i < 4; i++)
		products[i] = w4a8(512, 128, 512);
	estimate(&a, products, 4, 128);
	ck_assert_uint_eq(a.engine.cycles, 64 + 4 * 512);
	estimate(&a, products, 1, 512);
	ck_assert_uint_eq(a.engine.cycles, 64 + 512);
	estimate(&a, products, 1, 128);
	ck_assert_uint_eq(a.engine.cycles, 64 + 4 * 512);
}

/* Bytes of 64 x 96 x 100. A row of 100 is four blocks: MXFP8 128 + 4 bytes, MXFP4 64 + 4; bf16 200. */
TEST(bytes_are_those_in_memory)
{
	struct mxfp_product p = w4a8(64, 96, 100);
	struct mxfp_gemm_options options = {.size = sizeof options};
	const struct mxfp_result bf16 = mxfp_to_numbers(MXFP_FORMAT_BF16, NULL);
	struct account a;

	estimate(&a, &p, 1, 0);
	ck_assert_uint_eq(a.engine.bytes, 64 * 132 + 96 * 68 + 64 * 96 * 4);
	ck_assert_uint_eq(a.engine.memory_ps, (64 * 132 + 96 * 68 + 64 * 96 * 4) * UINT64_C(1000000) / 612500);
	p.c = &bf16;
	prepare(&a, "trainium3", 1);
	assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, &options), MXFP_OK);
	ck_assert_uint_eq(a.engine.bytes, 64 * 132 + 96 * 68 + 64 * 96 * 2);
	options.accumulate = true;
	assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, &options), MXFP_OK);
	ck_assert_uint_eq(a.engine.bytes, 64 * 132 + 96 * 68 + 64 * 96 * 4);
	/* A that is quantized on the way is read as it is stored; 4:16 keeps 28 of seven groups, with 14 bytes of masks. */
	p = product(64, 96, 100, MXFP_FORMAT_BF16, MXFP_FORMAT_BF16);
	w_of(&p)->sparsity = (struct mxfp_sparsity){4, 16};
	estimate(&a, &p, 1, 0);
	ck_assert_uint_eq(a.engine.bytes, 64 * 200 + 96 * (56 + 14) + 64 * 96 * 4);
	options = (struct mxfp_gemm_options){.size = sizeof options, .a_format = MXFP_FORMAT_MXFP8_E5M2};
	assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, &options), MXFP_OK);
	ck_assert_uint_eq(a.engine.bytes, 64 * 200 + 96 * (56 + 14) + 64 * 96 * 4);
}

/* Published peaks: 2 * 4096^3 at 2517 TFLOP/s a chip, an eighth of it a core. */
TEST(peaks_are_the_published_ones)
{
	const uint64_t flop = UINT64_C(2) * 4096 * 4096 * 4096;
	const struct mxfp_product p = w4a8(4096, 4096, 4096);
	struct account a;

	estimate(&a, &p, 1, 0);
	ck_assert_uint_eq(a.engine.ideal_ps, flop * 1000 / 314625);
	prepare(&a, "trainium3", 0);
	assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, NULL), MXFP_OK);
	ck_assert_uint_eq(a.engine.ideal_ps, flop * 1000 / 2517000);
	/* The geometry at 2.4 GHz gives the published peak within 0.1 %; 32 strips of 8 tiles of K. */
	estimate(&a, &p, 1, 0);
	ck_assert_uint_eq(a.engine.cycles, 64 + 32 * 8 * 4096);
	ck_assert_uint_gt(a.engine.ideal_ps * 1001, a.engine.compute_ps * 999);
	ck_assert_uint_le(a.engine.ideal_ps, a.engine.compute_ps);
	/* Trainium2: FP8 at half the depth, 1299 TFLOP/s, 2.9 TB/s. */
	const struct mxfp_product fp8 = product(4096, 4096, 4096, MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E4M3);
	prepare(&a, "trainium2", 1);
	assert_status(mxfp_engine_estimate(&a.engine, NULL, &fp8, 1, NULL), MXFP_OK);
	ck_assert_uint_eq(a.engine.cycles, 64 + 32 * 16 * 4096);
	ck_assert_uint_eq(a.engine.ideal_ps, flop * 1000 / 162375);
	ck_assert_uint_eq(a.engine.memory_ps, a.engine.bytes * 1000000 / 362500);
	/* It has no MXFP4. */
	assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, NULL), MXFP_ERR_FORMAT);
}

TEST(an_announced_chip_has_bounds_only)
{
	const struct mxfp_product p = w4a8(4096, 4096, 4096);
	struct account a;

	prepare(&a, "trainium4", 0);
	ck_assert(a.engine.chip->announced);
	assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, NULL), MXFP_OK);
	ck_assert_uint_eq(a.engine.cycles, 0);
	ck_assert_uint_eq(a.engine.compute_ps, 0);
	ck_assert_uint_eq(a.engine.macs_tiles, 0);
	/* W4A8 at three times 2517 TFLOP/s, four times 4.9 TB/s. */
	ck_assert_uint_eq(a.engine.ideal_ps, UINT64_C(2) * 4096 * 4096 * 4096 * 1000 / 7551000);
	ck_assert_uint_eq(a.engine.memory_ps, a.engine.bytes * 1000000 / 19600000);
}

static const struct mxfp_engine_chip *chip_of(const char *name)
{
	struct account a;

	prepare(&a, name, 0);
	return a.engine.chip;
}

/* The totals of chips and servers that other tables of the same documentation have: SBUF of a chip in MiB and DMA in
   TB/s (trainium2, trainium3), GiB and TB/s of device memory of a server and an UltraServer (trn1-arch, inf2-arch,
   trn2-arch, trn3-arch). */
TEST(constants_make_the_published_totals)
{
	static const struct {
		const char *chip;
		uint32_t sbuf_mib, dma_gb_s, server_gib, ultraserver_gib, ultraserver_gb_s;
	} totals[] = {
		{"trainium3", 256, 4900, 576, 20736, 705600},
		{"trainium2", 224, 3500, 1536, 6144, 185600},
		{"trainium1", 48, 870, 512, 0, 0},
		{"inferentia2", 48, 870, 384, 0, 0},
	};

	for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
		const struct mxfp_engine_chip *c = chip_of(totals[i].chip);
		const uint32_t dma_gb_s = c->dma_engines * c->dma_mb_s / 1000;

		ck_assert_uint_eq(c->sbuf_kib * c->cores, totals[i].sbuf_mib * 1024);
		ck_assert_uint_eq(c->psum_kib, 128 * c->banks * c->bank_rows * 4 / 1024);
		ck_assert_uint_le(dma_gb_s, totals[i].dma_gb_s + 50);
		ck_assert_uint_ge(dma_gb_s + 50, totals[i].dma_gb_s);
		ck_assert_uint_eq(c->server_chips * c->memory_gib, totals[i].server_gib);
		ck_assert_uint_eq(c->ultraserver_chips * c->memory_gib, totals[i].ultraserver_gib);
		ck_assert_uint_eq(c->ultraserver_chips * (c->memory_mb_s / 1000), totals[i].ultraserver_gb_s);
		ck_assert_uint_ge(c->server_chips, 1);
		ck_assert_uint_ge(c->links, 2);
		for (int u = 0; u <= (int)MXFP_ENGINE_GPSIMD; u++) {
			ck_assert_uint_ge(c->units[u].clock_mhz, 960);
			ck_assert_uint_ge(c->units[u].one_16, c->units[u].one_32);
			ck_assert_uint_ge(c->units[u].one_32, 128);
		}
		suite_compared(1);
	}
	/* Four times the scalar engine's rate, at the same clock; 1.2 GHz, before 0.96 and 1.12. */
	const struct mxfp_engine_chip *c = chip_of("trainium3");
	ck_assert_uint_eq(c->units[MXFP_ENGINE_VECTOR].exponential, 4 * c->units[MXFP_ENGINE_SCALAR].functions);
	ck_assert_uint_eq(c->units[MXFP_ENGINE_VECTOR].clock_mhz, c->units[MXFP_ENGINE_SCALAR].clock_mhz);
	ck_assert_uint_eq(chip_of("trainium2")->units[MXFP_ENGINE_VECTOR].exponential, 0);
	/* Nothing but three bounds is announced of the fourth. */
	c = chip_of("trainium4");
	ck_assert_uint_eq(c->sbuf_kib + c->memory_gib + c->dma_engines + c->links + c->units[0].clock_mhz, 0);
}

/* NeuronCore-v2: 128 x 128 x 2 x 2.8 GHz are 91.75 TFLOP/s, the published 92 of a core; 2 cores, of which each page says
   190. f32 is four times slower, and there is no sparsity and no FP4. */
TEST(the_first_generation_has_its_engine)
{
	static const char *const names[] = {"trainium1", "inferentia2"};

	for (size_t i = 0; i < 2; i++) {
		struct mxfp_product p = product(512, 128, 512, MXFP_FORMAT_BF16, MXFP_FORMAT_BF16);
		struct account a;

		prepare(&a, names[i], 1);
		assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, NULL), MXFP_OK);
		ck_assert_uint_eq(a.engine.cycles, 64 + 4 * 512);
		ck_assert_uint_eq(a.engine.compute_ps, (64 + 4 * 512) * 1000000 / 2800);
		ck_assert_uint_eq(a.engine.ideal_ps, UINT64_C(2) * 512 * 128 * 512 * 1000 / 95000);
		ck_assert_uint_eq(a.engine.memory_ps, a.engine.bytes * 1000000 / 410000);
		p = product(512, 128, 512, MXFP_FORMAT_F32, MXFP_FORMAT_BF16);
		assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, NULL), MXFP_OK);
		ck_assert_uint_eq(a.engine.cycles, 4 * (64 + 4 * 512));
		p = product(512, 128, 512, MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E5M2);
		assert_status(mxfp_engine_estimate(&a.engine, NULL, &p, 1, NULL), MXFP_OK);
		ck_assert_uint_eq(a.engine.cycles, 64 + 4 * 512);
		p = w4a8(8, 8, 64);
		ck_assert_int_eq((int)mxfp_engine_estimate(&a.engine, NULL, &p, 1, NULL), (int)MXFP_ERR_FORMAT);
		suite_compared(4);
	}
}

TEST(no_products_take_no_time)
{
	struct account a;

	prepare(&a, "trainium3", 0);
	assert_status(mxfp_engine_estimate(&a.engine, NULL, NULL, 0, NULL), MXFP_OK);
	ck_assert_uint_eq(a.engine.cycles + a.engine.bytes + a.engine.memory_ps + a.engine.ideal_ps, 0);
	ck_assert_uint_eq(a.busy[7], 0);
}
