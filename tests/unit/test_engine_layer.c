/* SPDX-License-Identifier: MIT */
/* The time line of a decoder layer: schedules and times that were worked out by hand from the constants of chip.def. */
#include "engine/layer.h"

#include <string.h>

#include "suite.h"

static struct error problem;

/* A layer of a model on some cores of a chip, all in bf16; the context is that of decoding. */
static struct layer_setup setup_of(const char *chip, unsigned cores, const struct decoder *decoder, uint64_t tokens,
                                   uint64_t context)
{
	struct layer_setup s = {
		.decoder = *decoder, .cores = cores, .chips = 1, .tokens = tokens, .sequences = tokens, .context = context,
		.a = MXFP_FORMAT_BF16, .w = MXFP_FORMAT_BF16, .cache = MXFP_FORMAT_BF16};

	for (int i = 0; mxfp_engine_get_chip(i) != NULL; i++)
		if (strcmp(mxfp_engine_get_chip(i)->name, chip) == 0)
			s.chip = *mxfp_engine_get_chip(i);
	ck_assert_ptr_nonnull(s.chip.name);
	return s;
}

static struct layer_time run(const struct layer_setup *setup)
{
	struct layer_time t;

	problem.text[0] = '\0';
	ck_assert_msg(layer_run(&t, setup, &problem) == EXIT_OK, "%s", problem.text);
	suite_compared(1);
	return t;
}

/* The i-th piece of an operation of the layer that is shown; NULL: there are fewer. */
static const struct operation *find(const struct layer_time *t, const char *name, enum lane lane, size_t i)
{
	for (size_t j = 0; j < t->schedule.n; j++) {
		const struct operation *x = &t->schedule.operations[j];

		if (x->layer == t->layer && x->lane == lane && strcmp(x->name, name) == 0 && i-- == 0)
			return x;
	}
	return NULL;
}

static void has_pieces(const struct layer_time *t, const char *name, enum lane lane, size_t n, uint64_t ps)
{
	for (size_t i = 0; i < n; i++) {
		const struct operation *x = find(t, name, lane, i);

		ck_assert_msg(x != NULL, "%s has %zu pieces", name, i);
		ck_assert_msg(x->ps == ps, "%s: %llu ps, not %llu", name, (unsigned long long)x->ps, (unsigned long long)ps);
	}
	ck_assert_msg(find(t, name, lane, n) == NULL, "%s has more than %zu pieces", name, n);
}

/* Picoseconds of cycles at 1.2 and 2.4 GHz, and of bytes at an eighth of 4.9 TB/s. */
static uint64_t at_1200(uint64_t cycles)
{
	return cycles * 1000000 / 1200;
}

static uint64_t at_2400(uint64_t cycles)
{
	return cycles * 1000000 / 2400;
}

static uint64_t from_memory(uint64_t bytes)
{
	return bytes * 8000000 / 4900000;
}

/* One core: no sums are exchanged. 128 tokens of hidden size 512; 4 heads of 128, 2 of keys; 1024 in between. */
TEST(times_follow_from_published_rates)
{
	const struct decoder d = {.hidden = 512, .heads = 4, .kv_heads = 2, .head_dim = 128, .intermediate = 1024};
	const struct layer_setup s = setup_of("trainium3", 1, &d, 128, 256);
	struct layer_time t = run(&s);

	/* 128 * 512 numbers by 128 a cycle: a function's rate, and that of two tensors of 16 bits. */
	has_pieces(&t, "norm 1: squares", LANE_SCALAR, 1, at_1200(512));
	has_pieces(&t, "norm 2: scale", LANE_VECTOR, 1, at_1200(512));
	has_pieces(&t, "residual 1", LANE_VECTOR, 1, at_1200(512));
	/* [1024][512]: 8 strips of 4 tiles, 128 rows each; 1 MiB. */
	has_pieces(&t, "Q K V", LANE_TENSOR, 1, at_2400(8 * 4 * 128));
	has_pieces(&t, "Q K V weights", LANE_DMA, 1, from_memory(1048576));
	/* Two products and a sum for 6 heads of 128. */
	has_pieces(&t, "rotary", LANE_VECTOR, 1, at_1200(3 * 128 * 6));
	has_pieces(&t, "store keys, values", LANE_DMA, 1, from_memory(128 * 4 * 128 * 2));
	/* 256 pairs of a sequence and a head of keys in 16 groups: 2 queries, 256 keys of which one is new. Two tiles of 64
	   cycles each, loaded while 2 rows move. */
	has_pieces(&t, "cached keys, values", LANE_DMA, 32, from_memory(16 * 255 * 128 * 2));
	has_pieces(&t, "scores", LANE_TENSOR, 16, at_2400(16 * 2 * 64));
	has_pieces(&t, "values", LANE_TENSOR, 16, at_2400(16 * 2 * 64));
	/* 16 * 2 * 256 scores by 256 or 512 a cycle, and 16 * 2 * 128 results by 128: the least of an instruction is more. */
	has_pieces(&t, "softmax: maxima", LANE_VECTOR, 16, at_1200(64));
	has_pieces(&t, "softmax: exp", LANE_VECTOR, 16, at_1200(64));
	has_pieces(&t, "divide by sums", LANE_SCALAR, 16, at_1200(64));
	has_pieces(&t, "output", LANE_TENSOR, 1, at_2400(4 * 4 * 128));
	/* [2048][512] in two pieces of 1 MiB; [512][1024]. */
	has_pieces(&t, "gate, up", LANE_TENSOR, 2, at_2400(8 * 4 * 128));
	has_pieces(&t, "SiLU", LANE_SCALAR, 2, at_1200(512));
	has_pieces(&t, "gate * up", LANE_VECTOR, 2, at_1200(512));
	has_pieces(&t, "down", LANE_TENSOR, 1, at_2400(4 * 8 * 128));
	has_pieces(&t, "copy sums", LANE_SCALAR, 2, at_1200(512));
	ck_assert_ptr_null(find(&t, "quantize", LANE_VECTOR, 0));
	ck_assert_ptr_null(find(&t, "all-gather 1", LANE_DMA, 0));
	/* Memory never waits, as 16 MiB of SBUF are ahead: the layer's time is that of its bytes. */
	ck_assert_uint_eq(t.end - t.begin, from_memory(1048576) + 32 * from_memory(16 * 255 * 128 * 2) +
	                                       from_memory(128 * 4 * 128 * 2) + from_memory(524288) +
	                                       2 * from_memory(1048576) + from_memory(1048576));
	ck_assert_int_eq((int)t.limit, (int)LANE_DMA);
	ck_assert_uint_eq(t.lanes[LANE_DMA].busy, t.end - t.begin);
	ck_assert_uint_eq(t.weight_bytes, (1024 + 512 + 3 * 1024) * 512 * 2);
	ck_assert_uint_eq(t.cache_bytes, UINT64_C(2) * 2 * 128 * 256 * 128 * 2);
	layer_time_free(&t);
}

/* One token: every instruction of the vector and scalar engines takes its least, 64 cycles. Two engines never work at the
   same time, so the time is the sum of 14 of them and of the products: 3 strips of 64 cycles; scores, values, output and
   down one each; gate and up two. */
TEST(a_chain_takes_the_sum_of_its_operations)
{
	const struct decoder d = {.hidden = 128, .heads = 1, .kv_heads = 1, .head_dim = 128, .intermediate = 128};
	const struct layer_setup s = setup_of("trainium3", 1, &d, 1, 100);
	struct layer_time t = run(&s);
	const uint64_t tensor = at_2400(3 * 64) + 4 * at_2400(64) + at_2400(2 * 64);

	ck_assert_uint_eq(t.end - t.begin, 14 * at_1200(64) + tensor);
	ck_assert_uint_eq(t.lanes[LANE_TENSOR].critical, tensor);
	ck_assert_uint_eq(t.lanes[LANE_VECTOR].critical, 8 * at_1200(64));
	ck_assert_uint_eq(t.lanes[LANE_SCALAR].critical, 6 * at_1200(64));
	ck_assert_uint_eq(t.lanes[LANE_DMA].critical, 0);
	layer_time_free(&t);
}

/* On the other chips: 0.96 GHz, exp by the scalar engine at 1.2 GHz, conversion in place of quantization at 512 a cycle;
   1.12 and 1.4 GHz, and two tensors at 64 a cycle. 64 tokens of hidden size 512. */
TEST(chips_differ)
{
	const struct decoder d = {.hidden = 512, .heads = 8, .kv_heads = 8, .head_dim = 64, .intermediate = 512};
	struct layer_setup s = setup_of("trainium2", 1, &d, 64, 1024);

	s.a = s.w = MXFP_FORMAT_MXFP8_E4M3;
	struct layer_time t = run(&s);
	has_pieces(&t, "norm 1: scale", LANE_VECTOR, 1, UINT64_C(256) * 1000000 / 960);
	has_pieces(&t, "quantize 1", LANE_VECTOR, 1, UINT64_C(64) * 1000000 / 960);
	/* 512 pairs in 64 groups of 1 MiB: 8 * 1024 scores. */
	has_pieces(&t, "softmax: exp", LANE_SCALAR, 64, at_1200(64));
	layer_time_free(&t);
	s = setup_of("trainium1", 1, &d, 64, 1024);
	t = run(&s);
	has_pieces(&t, "norm 1: squares", LANE_SCALAR, 1, UINT64_C(256) * 1000000 / 1400);
	has_pieces(&t, "norm 1: scale", LANE_VECTOR, 1, UINT64_C(512) * 1000000 / 1120);
	layer_time_free(&t);
	s = setup_of("trainium4", 1, &d, 64, 1024);
	ck_assert_int_eq(layer_run(&t, &s, &problem), EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(problem.text, "nothing is published"));
	s = setup_of("inferentia2", 1, &d, 64, 1024);
	s.w = MXFP_FORMAT_MXFP4;
	ck_assert_int_eq(layer_run(&t, &s, &problem), EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(problem.text, "multiplies no bf16 by mxfp4"));
	layer_time_free(&t);
}

/* Between two cores half of 128 * 512 numbers of 16 bits moves, by 16 DMA engines of 38.4 GB/s, or of 27.2 GB/s which add
   at half of that; between two chips by half of 2.56 TB/s each way. Of four cores each has a fourth of the norms. */
TEST(cores_exchange_sums)
{
	const struct decoder d = {.hidden = 512, .heads = 4, .kv_heads = 4, .head_dim = 128, .intermediate = 512};
	const uint64_t half = 128 * 512 * 2 / 2;
	struct layer_setup s = setup_of("trainium3", 2, &d, 128, 128);
	struct layer_time t = run(&s);

	has_pieces(&t, "all-gather 1", LANE_DMA, 1, half * 1000000 / (16 * 38400));
	has_pieces(&t, "reduce-scatter 2", LANE_DMA, 1, half * 1000000 / (16 * 38400));
	has_pieces(&t, "norm 2: squares", LANE_SCALAR, 1, at_1200(256));
	layer_time_free(&t);
	s = setup_of("trainium2", 2, &d, 128, 128);
	t = run(&s);
	has_pieces(&t, "all-gather 2", LANE_DMA, 1, half * 1000000 / (16 * 27200));
	has_pieces(&t, "reduce-scatter 1", LANE_DMA, 1, half * 1000000 / (8 * 27200));
	layer_time_free(&t);
	s = setup_of("trainium3", 1, &d, 128, 128);
	s.chips = 2;
	t = run(&s);
	has_pieces(&t, "all-gather 1", LANE_LINKS, 1, half * 1000000 / 1280000);
	has_pieces(&t, "all-gather 1", LANE_DMA, 0, 0);
	layer_time_free(&t);
	s.cores = 2;
	t = run(&s);
	has_pieces(&t, "norm 1: squares", LANE_SCALAR, 1, at_1200(128));
	has_pieces(&t, "reduce-scatter 1", LANE_DMA, 1, half * 1000000 / (16 * 38400));
	/* Half of what a core has, by its half of the links. */
	has_pieces(&t, "reduce-scatter 1", LANE_LINKS, 1, half / 2 * 1000000 / 640000);
	/* The sums of a chip are made before those of chips, and results go the other way. */
	ck_assert_uint_le(find(&t, "reduce-scatter 1", LANE_DMA, 0)->end, find(&t, "reduce-scatter 1", LANE_LINKS, 0)->start);
	ck_assert_uint_le(find(&t, "all-gather 1", LANE_LINKS, 0)->end, find(&t, "all-gather 1", LANE_DMA, 0)->start);
	layer_time_free(&t);
	s.cores = 3;
	ck_assert_int_eq(layer_run(&t, &s, &problem), EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(problem.text, "4 heads cannot be shared by 6 cores"));
	layer_time_free(&t);
}

/* Eight tokens take all four experts of 128. Router: 8 x 4 x 128 in 16 bits, one strip of 4 columns and one tile, for
   which 8 rows move. Eight tokens are sorted at once, in 4 * 4 + 4 cycles and 150 to start. */
TEST(experts_have_their_tokens)
{
	const struct decoder d = {.hidden = 128, .heads = 1, .kv_heads = 1, .head_dim = 128, .experts = 4,
	                          .experts_per_token = 4, .expert_intermediate = 128};
	struct layer_setup s = setup_of("trainium3", 1, &d, 8, 128);
	struct layer_time t = run(&s);

	has_pieces(&t, "router", LANE_TENSOR, 1, at_2400(8));
	has_pieces(&t, "router weights", LANE_DMA, 1, from_memory(4 * 128 * 2));
	has_pieces(&t, "top experts", LANE_GPSIMD, 1, at_1200(4 * 4 + 4 + 150));
	has_pieces(&t, "experts: gate, up", LANE_TENSOR, 4, at_2400(2 * 64));
	has_pieces(&t, "experts: down", LANE_TENSOR, 4, at_2400(64));
	has_pieces(&t, "weigh, add", LANE_VECTOR, 4, at_1200(64));
	has_pieces(&t, "gate, up", LANE_TENSOR, 0, 0);
	ck_assert_uint_ge(find(&t, "experts: gate, up", LANE_TENSOR, 0)->start, find(&t, "top experts", LANE_GPSIMD, 0)->end);
	layer_time_free(&t);
	/* Each takes one of two experts; those nobody takes are not read. All take the first if it has all the weight. */
	s.decoder.experts_per_token = 1;
	s.routing.skew = 64;
	t = run(&s);
	has_pieces(&t, "experts: gate, up", LANE_TENSOR, 1, at_2400(2 * 64));
	ck_assert_uint_eq(find(&t, "expert weights", LANE_DMA, 0)->ps, from_memory(256 * 128 * 2));
	ck_assert_uint_eq(find(&t, "expert weights", LANE_DMA, 1)->ps, from_memory(128 * 128 * 2));
	ck_assert_ptr_null(find(&t, "expert weights", LANE_DMA, 2));
	layer_time_free(&t);
}

/* 256 new tokens of one sequence see 128.5 of 256 keys on average: 129 of the rows, in two parts of 65. */
TEST(new_tokens_see_those_before_them)
{
	const struct decoder d = {.hidden = 128, .heads = 1, .kv_heads = 1, .head_dim = 128, .intermediate = 128};
	struct layer_setup s = setup_of("trainium3", 1, &d, 256, 256);

	s.sequences = 1;
	struct layer_time t = run(&s);
	has_pieces(&t, "scores", LANE_TENSOR, 2, at_2400(2 * 65));
	has_pieces(&t, "cached keys, values", LANE_DMA, 0, 0);
	has_pieces(&t, "softmax: maxima", LANE_VECTOR, 2, at_1200(65));
	/* 128 rows of a part and their last 128 keys. */
	has_pieces(&t, "causal mask", LANE_GPSIMD, 2, at_1200(150 + 128));
	layer_time_free(&t);
	s.context = 255;
	ck_assert_int_eq(layer_run(&t, &s, &problem), EXIT_USAGE);
	s.context = 512;
	s.sequences = 3;
	ck_assert_int_eq(layer_run(&t, &s, &problem), EXIT_USAGE);
}

/* 4 layers; a key and its value have 2 * 32 numbers of 16 bits; 1024 of them in two layers and 128 in two others. Chips
   share weights, but not a head of keys. */
TEST(memory_holds_weights_and_cache)
{
	const struct decoder d = {.hidden = 128, .heads = 4, .kv_heads = 1, .head_dim = 32, .intermediate = 128, .layers = 4,
	                          .window = 128, .windowed = 2};
	struct layer_setup s = setup_of("trainium3", 1, &d, 1, 1024);
	const uint64_t weights = 4 * (128 * (128 + 64) + 128 * 128 + 3 * 128 * 128) * 2;
	const uint64_t key = 2 * 32 * 2, cache = 2 * key * (1024 + 128);

	ck_assert_uint_eq(layer_weights_held(&s), weights);
	ck_assert_uint_eq(layer_cache_held(&s), cache);
	s.chip.memory_gib = 1;
	/* The most that 2^30 bytes hold of such sequences. */
	s.sequences = s.tokens = ((UINT64_C(1) << 30) - weights) / cache;
	ck_assert(layer_fits(&s));
	s.sequences = s.tokens = s.tokens + 1;
	ck_assert(!layer_fits(&s));
	s.sequences = s.tokens = 2 * s.tokens;
	s.chips = 4;
	ck_assert(!layer_fits(&s));
	s.decoder.kv_heads = 2;
	s.sequences = s.tokens = s.tokens / 2 - 1;
	ck_assert(layer_fits(&s));
	/* In MXFP8 Neuron's kernels have 160 bytes for 128 elements of a token on Trainium3; elsewhere 33 for each 32. */
	s = setup_of("trainium3", 1, &d, 1, 1024);
	s.cache = MXFP_FORMAT_MXFP8_E4M3;
	ck_assert_uint_eq(layer_cache_held(&s), 2 * 2 * 32 * 160 / 128 * (1024 + 128));
	s = setup_of("trainium2", 1, &d, 1, 1024);
	s.cache = MXFP_FORMAT_MXFP8_E4M3;
	ck_assert_uint_eq(layer_cache_held(&s), 2 * 2 * 33 * (1024 + 128));
	/* 300 new tokens of a sequence are more than its window. */
	s.sequences = 1;
	s.tokens = 300;
	ck_assert_uint_eq(layer_window(&s), 300);
	suite_compared(10);
}

/* Two queues share the DMA engines: what comes ahead does not wait for operations before it, and gives way to others that
   could start as early. */
TEST(operations_start_as_early_as_they_can)
{
	struct operation x[] = {
		{.name = "a", .lane = LANE_TENSOR, .ps = 10},
		{.name = "b", .lane = LANE_DMA, .ps = 3, .causes = {0}, .n_causes = 1},
		{.name = "c", .lane = LANE_DMA, .ahead = true, .ps = 4},
		{.name = "d", .lane = LANE_DMA, .ahead = true, .ps = 6},
		{.name = "e", .lane = LANE_DMA, .ahead = true, .ps = 5},
		{.name = "f", .lane = LANE_TENSOR, .ps = 1, .causes = {4, 1}, .n_causes = 2},
		{.name = "g", .lane = LANE_VECTOR, .ps = 2},
	};
	static const uint64_t starts[] = {0, 10, 0, 4, 13, 18, 0};
	static const size_t causes[] = {NO_OPERATION, 3, NO_OPERATION, 2, 1, 4, NO_OPERATION};
	struct schedule s = {.operations = x, .n = sizeof x / sizeof x[0]};

	ck_assert_int_eq(schedule_run(&s, &problem), EXIT_OK);
	for (size_t i = 0; i < s.n; i++) {
		ck_assert_uint_eq(x[i].start, starts[i]);
		ck_assert_uint_eq(x[i].end, starts[i] + x[i].ps);
		ck_assert_msg(x[i].cause == causes[i], "cause of %s: %zu", x[i].name, x[i].cause);
	}
	suite_compared(s.n);
}

/* Whatever the model: causes end before, lanes do one thing at a time, layers follow each other at equal distances, and
   the critical path is as long as the layer. */
TEST(schedules_hold_together)
{
	static const struct {
		const char *model, *chip;
		uint64_t tokens, sequences, context;
		unsigned chips;
	} cases[] = {
		{"llama-70b", "trainium3", 64, 64, 2048, 1},   {"gpt-oss-120b", "trainium3", 64, 64, 2048, 1},
		{"llama-8b", "trainium3", 4096, 2, 4096, 1},   {"gpt-oss-20b", "trainium2", 1024, 1024, 300, 2},
		{"llama-70b", "trainium2", 1, 1, 131072, 4},   {"llama-8b", "inferentia2", 16, 16, 1000, 1},
	};

	for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
		struct decoder d;
		uint64_t ends[N_LANES] = {0}, critical = 0, begins[8] = {0};

		ck_assert_int_eq(decoder_find(&d, cases[c].model, &problem), EXIT_OK);
		struct layer_setup s = setup_of(cases[c].chip, 2, &d, cases[c].tokens, cases[c].context);
		s.sequences = cases[c].sequences;
		s.chips = cases[c].chips;
		struct layer_time t = run(&s);
		for (size_t i = 0; i < t.schedule.n; i++) {
			const struct operation *x = &t.schedule.operations[i];

			ck_assert_uint_eq(x->end, x->start + x->ps);
			for (size_t j = 0; j < x->n_causes; j++)
				ck_assert_uint_le(t.schedule.operations[x->causes[j]].end, x->start);
			if (x->lane != LANE_DMA) {
				ck_assert_uint_le(ends[x->lane], x->start);
				ends[x->lane] = x->end;
			}
			if (strcmp(x->name, "norm 1: squares") == 0)
				begins[x->layer] = x->start;
		}
		const double last = (double)(begins[7] - begins[6]), before = (double)(begins[6] - begins[5]);
		ck_assert_uint_eq(t.end - t.begin, begins[7] - begins[6]);
		ck_assert_msg(last < 1.01 * before && before < 1.01 * last, "%s: %g and %g ps", d.name, before, last);
		for (enum lane lane = 0; lane < N_LANES; lane++) {
			ck_assert_uint_le(t.lanes[lane].busy, t.end - t.begin);
			critical += t.lanes[lane].critical;
		}
		ck_assert_uint_eq(critical, t.end - t.begin);
		layer_time_free(&t);
	}
}
