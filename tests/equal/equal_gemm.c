/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "equal/equal_gemm.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "body/fp_state.h"
#include "cpu.h"
#include "equal/gemm_case.h"
#include "equal/guarded.h"
#include "oracle/matrix.h"
#include "gemm/plan.h"
#include "suite.h"

enum {
	SMALL_BUDGET = 60000,    /* multiplications */
	LARGE_BUDGET = 3000000,  /* more than a tile of C each way */
	CASES_OF_KERNELS = 3,    /* a round, of a pair with a kernel for W in blocks in some tier */
	CASES_OF_OTHERS = 1,     /* of any other pair */
	MAX_ROWS = 40,           /* of A, each number of them in a round for a pair with a kernel, */
	FEW_ROWS = 5,            /* and some of them, for which kernels have loops of their own, */
	CASES_OF_FEW_ROWS = 6,   /* so often; */
	SHARE_OF_ROWS = 5,       /* of a share, one in so many of the other numbers, which has no factor of the rows of panels */
	ROWS_BUDGET = 20000,     /* multiplications then */
	MAX_ARRAYS = 11
};

/* One call on one tier. */
struct run {
	const struct gemm_case *c;
	const struct equal_tier *tier;
	bool packed;
	unsigned threads;
	bool own_threads;
	bool fast_shuffles; /* kernels choose their loops as where those are */
	struct mxfp_exec exec;
	uint64_t state;    /* floating point */
	struct mxfp_product products[GEMM_CASE_MAX_PRODUCTS];
	struct mxfp_matrix a[GEMM_CASE_MAX_PRODUCTS], w[GEMM_CASE_MAX_PRODUCTS], like[GEMM_CASE_MAX_PRODUCTS][2];
	struct mxfp_result results[GEMM_CASE_MAX_PRODUCTS];
	struct mxfp_blocks blocks[GEMM_CASE_MAX_PRODUCTS];
	struct mxfp_gemm_options options;
	struct mxfp_counts counts[GEMM_CASE_MAX_PRODUCTS];
	struct guarded arrays[GEMM_CASE_MAX_PRODUCTS][MAX_ARRAYS];
	struct guarded workspace;
};

/* Where a product's arrays are. */
enum { A_DATA, A_SCALES, W_DATA, W_SCALES, C, BIAS, PACKED, GATE, RESIDUAL, CODES, SCALES };

static char text[1200]; /* of the call that runs */

static void on_fault(int number)
{
	/* Nothing to be done if it fails. */
	if (write(STDERR_FILENO, text, strlen(text)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
		_exit(number);
	signal(number, SIG_DFL);
	raise(number);
}

/* Tasks one after the other, the last first. */
static void run_backwards(void *context, size_t n, void (*task)(void *argument, size_t i), void *argument)
{
	(void)context;
	while (n-- != 0)
		task(argument, n);
}

/* A copy of an array at a place that no kernel can expect. Numbers lie at multiples of their size. */
static void place(struct guarded *g, struct random *r, const void *bytes, size_t n, size_t width)
{
	*g = guarded_of(n, random_below(r, 3) * random_below(r, 64) * width, random_below(r, 2) == 0);
	if (n != 0 && bytes != NULL)
		memcpy(g->at, bytes, n);
}

static size_t width_of(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK ? 1 : mxfp_format_get_info(format)->storage_bytes;
}

/* Places what is read beside C; returns it as a product has it. */
static const struct mxfp_matrix *place_like(const struct gemm_case_like *like, struct mxfp_matrix *matrix,
                                            struct guarded *array, struct random *r, const void *c)
{
	const struct operand *numbers = &like->numbers;

	if (!like->wanted)
		return NULL;
	if (!like->is_c)
		place(array, r, numbers->matrix.data, numbers->data_bytes, width_of(numbers->matrix.format));
	*matrix = numbers->matrix;
	matrix->data = like->is_c ? c : array->at;
	return matrix;
}

static void place_blocks(const struct gemm_case_product *p, struct mxfp_blocks *blocks, struct guarded *arrays,
                         struct random *r)
{
	place(&arrays[CODES], r, NULL, p->codes_bytes, 1);
	place(&arrays[SCALES], r, NULL, p->scales_bytes, 1);
	memset(arrays[CODES].at, MATRIX_CANARY, p->codes_bytes);
	memset(arrays[SCALES].at, MATRIX_CANARY, p->scales_bytes);
	*blocks = p->blocks;
	blocks->codes = arrays[CODES].at;
	blocks->scales = arrays[SCALES].at;
	blocks->tensor_scale = 0;
	blocks->tensor_scale_divides = false;
}

static void place_product(struct run *run, struct random *r, size_t i)
{
	const struct gemm_case_product *p = &run->c->product[i];
	struct guarded *arrays = run->arrays[i];
	struct mxfp_product *product = &run->products[i];
	struct mxfp_matrix *a = &run->a[i], *w = &run->w[i];
	struct mxfp_result *result = &run->results[i];

	place(&arrays[A_DATA], r, p->a.matrix.data, p->a.data_bytes, width_of(p->a.matrix.format));
	place(&arrays[A_SCALES], r, p->a.matrix.scales, p->a.scales_bytes, 1);
	place(&arrays[W_DATA], r, p->w.matrix.data, p->w.data_bytes, width_of(p->w.matrix.format));
	place(&arrays[W_SCALES], r, p->w.matrix.scales, p->w.scales_bytes, 1);
	place(&arrays[C], r, p->given, p->c_bytes, width_of(p->c_format));
	place(&arrays[BIAS], r, p->bias, p->bias != NULL ? p->n * sizeof *p->bias : 0, sizeof *p->bias);
	*a = p->a.matrix;
	a->data = arrays[A_DATA].at;
	a->scales = p->a.matrix.scales != NULL ? arrays[A_SCALES].at : NULL;
	*w = p->w.matrix;
	w->data = arrays[W_DATA].at;
	w->scales = p->w.matrix.scales != NULL ? arrays[W_SCALES].at : NULL;
	product->size = sizeof *product;
	product->a = a;
	product->w = w;
	product->c = result;
	*result = mxfp_to_numbers(p->c_format, p->no_c ? NULL : arrays[C].at);
	result->stride = p->c_stride;
	result->counts = p->counts >= 0 ? &run->counts[p->counts] : NULL;
	product->bias = p->bias != NULL ? (const float *)arrays[BIAS].at : NULL;
	product->gate = place_like(&p->gate, &run->like[i][0], &arrays[GATE], r, result->data);
	product->residual = place_like(&p->residual, &run->like[i][1], &arrays[RESIDUAL], r, result->data);
	if (p->blocks.codes != NULL) {
		place_blocks(p, &run->blocks[i], arrays, r);
		result->blocks = &run->blocks[i];
	}
}

static bool report(struct equal *e, const char *what)
{
	snprintf(e->message, sizeof e->message, "%.100s: %.1100s", what, text);
	return false;
}

/* Packs W of product i; the bytes must not depend on the number of threads. */
static bool pack(struct equal *e, struct run *run, size_t i)
{
	const enum mxfp_format a_format = run->c->product[i].seen.format;
	const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1, .isa = run->tier->name};
	struct mxfp_product *product = &run->products[i];
	struct mxfp_gemm_options options = run->options;
	size_t bytes;

	options.a_format = mxfp_format_get_info(a_format)->kind == MXFP_KIND_BLOCK ? a_format : MXFP_FORMAT_F32;
	if (mxfp_pack_size(&bytes, product->w, &options, &run->exec) != MXFP_OK)
		return report(e, "mxfp_pack_size() failed");
	place(&run->arrays[i][PACKED], &e->random, NULL, bytes, 1);
	uint8_t *packed = run->arrays[i][PACKED].at, *again = malloc(bytes);
	if (again == NULL)
		abort();
	bool same = mxfp_pack(packed, bytes, product->w, &options, &run->exec) == MXFP_OK &&
	            mxfp_pack(again, bytes, product->w, &options, &one_thread) == MXFP_OK &&
	            memcmp(packed, again, bytes) == 0;
	free(again);
	product->n = product->w->rows;
	product->w = NULL;
	product->w_packed = packed;
	product->w_packed_bytes = bytes;
	return same || report(e, "packed bytes differ");
}

/* The first byte of C that is wrong; false if there is none. */
static bool find_difference(struct equal *e, const struct run *run, size_t i)
{
	const struct gemm_case_product *p = &run->c->product[i];
	const uint8_t *got = run->arrays[i][C].at;
	size_t width = width_of(p->c_format), at = 0;
	uint32_t is = 0, wanted = 0;
	char what[100];

	if (p->c_bytes == 0 || memcmp(got, p->want, p->c_bytes) == 0)
		return false;
	while (memcmp(got + at * width, p->want + at * width, width) == 0)
		at++;
	memcpy(&is, got + at * width, width);
	memcpy(&wanted, p->want + at * width, width);
	snprintf(what, sizeof what, "product %zu, C[%zu][%zu] is %08" PRIX32 ", must be %08" PRIX32, i, at / p->c_stride,
	         at % p->c_stride, is, wanted);
	report(e, what);
	return true;
}

/* memcmp() wants pointers even to no bytes. */
static bool is_same(const void *a, const void *b, size_t bytes)
{
	return bytes == 0 || memcmp(a, b, bytes) == 0;
}

/* Whether what is read beside C is as it was. */
static bool like_is_same(const struct gemm_case_like *like, const struct guarded *array)
{
	return !like->wanted || like->is_c || is_same(array->at, like->numbers.matrix.data, like->numbers.data_bytes);
}

static bool blocks_are_right(const struct run *run, size_t i)
{
	const struct gemm_case_product *p = &run->c->product[i];
	const struct mxfp_blocks *got = &run->blocks[i];

	return p->blocks.codes == NULL || (is_same(got->codes, p->blocks.codes, p->codes_bytes) &&
	                                   is_same(got->scales, p->blocks.scales, p->scales_bytes) &&
	                                   memcmp(&got->tensor_scale, &p->blocks.tensor_scale, sizeof(float)) == 0 &&
	                                   got->tensor_scale_divides == p->blocks.tensor_scale_divides);
}

/* Inputs as they were, canaries around all arrays as they were, C and its blocks as they must be. */
static bool check(struct equal *e, const struct run *run)
{
	for (size_t i = 0; i < run->c->n; i++) {
		const struct gemm_case_product *p = &run->c->product[i];
		const struct guarded *arrays = run->arrays[i];

		if (find_difference(e, run, i))
			return false;
		if (!blocks_are_right(run, i))
			return report(e, "blocks of C differ");
		for (int array = 0; array < MAX_ARRAYS; array++)
			if (arrays[array].pages != NULL && !guarded_is_intact(&arrays[array]))
				return report(e, "a byte beside an array was written");
		if (!is_same(arrays[A_DATA].at, p->a.matrix.data, p->a.data_bytes) ||
		    !is_same(arrays[A_SCALES].at, p->a.matrix.scales, p->a.scales_bytes) ||
		    !is_same(arrays[W_DATA].at, p->w.matrix.data, p->w.data_bytes) ||
		    !is_same(arrays[W_SCALES].at, p->w.matrix.scales, p->w.scales_bytes) ||
		    !like_is_same(&p->gate, &arrays[GATE]) || !like_is_same(&p->residual, &arrays[RESIDUAL]))
			return report(e, "an input was written");
	}
	if (memcmp(run->counts, run->c->counts, sizeof run->counts) != 0)
		return report(e, "counts of C's blocks differ");
	return guarded_is_intact(&run->workspace) || report(e, "a byte beside the workspace was written");
}

static bool call(struct equal *e, struct run *run)
{
	const uint64_t saved = fp_state_get();
	size_t bytes;

	if (mxfp_gemm_workspace_size(&bytes, run->products, run->c->n, &run->options, &run->exec) != MXFP_OK)
		return report(e, "mxfp_gemm_workspace_size() failed");
	run->workspace = guarded_of(bytes, random_below(&e->random, 64), random_below(&e->random, 2) == 0);
	fp_state_set(run->state);
	uint64_t before = fp_state_get(); /* a machine may lack some of the bits */
	enum mxfp_status status = mxfp_gemm_grouped(NULL, run->products, run->c->n, &run->options, run->workspace.at, bytes,
	                                            &run->exec);
	uint64_t after = fp_state_get();
	fp_state_set(saved);
	if (status != MXFP_OK)
		return report(e, mxfp_status_text(status));
	return before == after ? check(e, run) : report(e, "the floating-point state was changed");
}

/* Whether the same call with other bytes in the packed weights, which may come from a file, ends and writes nothing beside its arrays. */
static bool survives(struct equal *e, struct run *run)
{
	struct random *r = &e->random;

	for (size_t i = 0; i < run->c->n; i++) {
		const struct guarded *packed = &run->arrays[i][PACKED];

		for (uint32_t n = 1 + random_below(r, 200); packed->bytes > MXFP_GEMM_HEADER_BYTES && n > 0; n--)
			packed->at[MXFP_GEMM_HEADER_BYTES + random_below(r, (uint32_t)(packed->bytes - MXFP_GEMM_HEADER_BYTES))] =
				random_below(r, 4) == 0 ? 0xFF : (uint8_t)random_below(r, 256);
	}
	if (mxfp_gemm_grouped(NULL, run->products, run->c->n, &run->options, run->workspace.at, run->workspace.bytes,
	                      &run->exec) != MXFP_OK)
		return report(e, "damaged weights are refused");
	for (size_t i = 0; i < run->c->n * MAX_ARRAYS; i++)
		if (run->arrays[i / MAX_ARRAYS][i % MAX_ARRAYS].pages != NULL && !guarded_is_intact(&run->arrays[i / MAX_ARRAYS][i % MAX_ARRAYS]))
			return report(e, "with damaged weights a byte beside an array was written");
	return guarded_is_intact(&run->workspace) || report(e, "with damaged weights a byte beside the workspace was written");
}

static void describe(const struct run *run)
{
	int n = snprintf(text, sizeof text,
	                 "%s, %s, threads %u%s%s, floating-point state %" PRIX64 ", MXFP_TEST_SEED=%" PRIu64 ", ",
	                 run->tier->name, run->packed ? "packed" : "not packed", run->threads,
	                 run->own_threads ? " of the caller" : "", run->fast_shuffles ? ", fast shuffles" : "", run->state, suite_seed());

	gemm_case_describe(run->c, text + n, sizeof text - (size_t)n);
}

/* Kernels take their loops for the one kind of processor and for the other, whichever this machine has. */
static void choose_loops(const struct equal_tier *tier, bool fast_shuffles)
{
	/* dispatch.c's, which is const to the library alone. */
	struct mxfp_kernels *table = (struct mxfp_kernels *)(uintptr_t)mxfp_kernels_up_to(tier->name);

	table->cpu = (table->cpu & ~(uint32_t)MXFP_CPU_FAST_SHUFFLES) | (fast_shuffles ? MXFP_CPU_FAST_SHUFFLES : 0);
}

static bool run_case(struct equal *e, const struct equal_tier *tier, const struct gemm_case *c, bool packed, bool fast_shuffles)
{
	static const unsigned threads[] = {1, 2, 3, 7, 0};
	struct random *r = &e->random;
	struct run run = {.c = c, .tier = tier, .packed = packed, .fast_shuffles = fast_shuffles, .options = c->options};
	bool equal = true;

	run.threads = threads[random_below(r, 5)];
	run.own_threads = random_below(r, 4) == 0;
	run.state = fp_state_hostile(random_below(r, FP_STATE_N_HOSTILE));
	run.exec = (struct mxfp_exec){
		.size = sizeof run.exec,
		.threads = run.threads,
		.isa = tier->name,
		.run = run.own_threads ? run_backwards : NULL,
	};
	for (int i = 0; i < GEMM_CASE_MAX_PRODUCTS; i++)
		run.counts[i].size = sizeof run.counts[i];
	if (mxfp_format_get_info(c->product[0].seen.format)->kind == MXFP_KIND_BLOCK && random_below(r, 2) == 0)
		run.options.a_format = c->product[0].seen.format; /* also where A is in it already */
	describe(&run);
	choose_loops(tier, fast_shuffles);
	for (size_t i = 0; i < c->n; i++) {
		place_product(&run, r, i);
		equal = equal && (!packed || pack(e, &run, i));
	}
	equal = equal && call(e, &run);
	if (equal && packed && random_below(r, 4) == 0)
		equal = survives(e, &run);
	for (size_t i = 0; i < GEMM_CASE_MAX_PRODUCTS * MAX_ARRAYS; i++)
		if (run.arrays[i / MAX_ARRAYS][i % MAX_ARRAYS].pages != NULL)
			guarded_free(&run.arrays[i / MAX_ARRAYS][i % MAX_ARRAYS]);
	if (run.workspace.pages != NULL)
		guarded_free(&run.workspace);
	for (size_t i = 0; i < c->n; i++)
		suite_compared(c->product[i].m * c->product[i].n);
	return equal;
}

static bool has_kernel(const struct equal_tier *tier, const struct gemm_case_wish *wish)
{
	static const struct mxfp_sparsity dense;

	return mxfp_gemm_kernel(&tier->table, wish->acc, wish->a_format, wish->w_format, dense) != NULL;
}

/* One case on the tiers that have a kernel, and on the reference where there are none, or now and then. */
static bool try_case(struct equal *e, const struct equal_tier *reference, const struct gemm_case_wish *wish,
                     bool kernels)
{
	const bool fast = random_below(&e->random, 2) == 0;
	struct gemm_case c;
	bool equal = true;

	gemm_case_init(&c, &e->random, wish);
	for (size_t i = 0; i < e->n_tiers && equal; i++)
		if (has_kernel(&e->tier[i], wish))
			equal = run_case(e, &e->tier[i], &c, false, fast) && run_case(e, &e->tier[i], &c, true, !fast);
	if (equal && (!kernels || random_below(&e->random, 8) == 0))
		equal = run_case(e, reference, &c, random_below(&e->random, 2) == 0, fast);
	gemm_case_clear(&c);
	return equal;
}

/* Every number of rows. */
static bool try_rows(struct equal *e, const struct equal_tier *reference, struct gemm_case_wish wish)
{
	const size_t place = (size_t)wish.a_format + (size_t)wish.w_format + (size_t)wish.acc;

	wish.budget = ROWS_BUDGET;
	for (wish.rows = 1; wish.rows <= MAX_ROWS; wish.rows++) {
		if (suite_shares() > 1 && wish.rows > FEW_ROWS && (wish.rows + place) % SHARE_OF_ROWS != 0)
			continue;
		for (unsigned i = 0; i < suite_share(e->rounds * (wish.rows <= FEW_ROWS ? CASES_OF_FEW_ROWS : 1)); i++)
			if (!try_case(e, reference, &wish, true))
				return false;
	}
	return true;
}

bool equal_gemm(struct equal *e, enum mxfp_format a_format, enum mxfp_format w_format)
{
	static struct equal_tier reference = {.name = "ref"};

	equal_catch_faults(on_fault);
	reference.table = e->reference;
	for (int acc = MXFP_ACC_EXACT; acc <= MXFP_ACC_CHAIN; acc++) { /* no tier has kernels for machines */
		struct gemm_case_wish wish = {.a_format = a_format, .w_format = w_format, .acc = (enum mxfp_acc)acc};
		bool kernels = false, blocks = mxfp_format_get_info(a_format)->kind == MXFP_KIND_BLOCK &&
		                               mxfp_format_get_info(w_format)->kind == MXFP_KIND_BLOCK;

		if (acc != MXFP_ACC_CHAIN && !blocks)
			continue;
		for (size_t i = 0; i < e->n_tiers; i++)
			kernels |= has_kernel(&e->tier[i], &wish);
		bool most = kernels && mxfp_format_get_info(w_format)->kind == MXFP_KIND_BLOCK;
		uint64_t cases = suite_share(e->rounds * (most ? CASES_OF_KERNELS : CASES_OF_OTHERS));
		for (uint64_t i = 0; i < cases; i++) {
			wish.budget = kernels && random_below(&e->random, 48) == 0 ? LARGE_BUDGET : SMALL_BUDGET;
			if (!try_case(e, &reference, &wish, kernels))
				return false;
		}
		if (kernels && !try_rows(e, &reference, wish))
			return false;
	}
	return true;
}
