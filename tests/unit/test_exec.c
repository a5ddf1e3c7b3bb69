/* SPDX-License-Identifier: MIT */
/* Threads: the library's and a caller's own give what one kernel call over the uncut matrix gives, counts included. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "body/fp_state.h"
#include "oracle/matrix.h"
#include "exec.h"
#include "internal.h"
#include "pool.h"
#include "mxfp.h"
#include "suite.h"

enum { N_THREADS = 3, N_PIECES = 100, PIECE = 1 << 16 };

/* A caller's pool: thread t does every task i with i % N_THREADS == t, the last first. */
struct pool {
	atomic_uint n_runs;
};

struct share {
	size_t n, first;
	void (*task)(void *argument, size_t i);
	void *argument;
};

static void *run_share(void *context)
{
	const struct share *share = context;

	for (size_t i = share->n; i-- > 0;)
		if (i % N_THREADS == share->first)
			share->task(share->argument, i);
	return NULL;
}

static void pool_run(void *context, size_t n, void (*task)(void *argument, size_t i), void *argument)
{
	struct pool *pool = context;
	struct share shares[N_THREADS];
	pthread_t threads[N_THREADS];

	pool->n_runs++;
	for (size_t t = 0; t < N_THREADS; t++) {
		shares[t] = (struct share){n, t, task, argument};
		if (pthread_create(&threads[t], NULL, run_share, &shares[t]) != 0)
			abort();
	}
	for (size_t t = 0; t < N_THREADS; t++)
		pthread_join(threads[t], NULL);
}

static struct pool pool;

/* Whose threads do the work. */
static const struct mxfp_exec workers[] = {
	{.size = sizeof(struct mxfp_exec), .threads = 1},
	{.size = sizeof(struct mxfp_exec), .threads = 0},
	{.size = sizeof(struct mxfp_exec), .threads = 2},
	{.size = sizeof(struct mxfp_exec), .threads = 1000},
	{.size = sizeof(struct mxfp_exec), .run = pool_run, .run_context = &pool},
	{.size = sizeof(struct mxfp_exec), .threads = 1, .run = pool_run, .run_context = &pool},
};

enum { N_WORKERS = sizeof workers / sizeof workers[0] };

static void mark(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	(void)kernels;
	atomic_uint *const *marks = context;

	(*marks)[piece]++;
	counts->saturated++;
	counts->overflowed += piece;
	counts->flushed += 3 * piece;
	counts->nan += UINT64_C(0x100000000);
	counts->inf += 5;
}

static void count_one(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	(void)kernels, (void)context, (void)piece;
	counts->saturated++;
	counts->inf++;
}

/* So many and so short that workers add at the same time. */
TEST(no_count_is_lost)
{
	static const size_t n = 1 << 20;
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_runner runner;

	ck_assert_int_eq(mxfp_runner_init(&runner, NULL), MXFP_OK);
	mxfp_run_pieces(&runner, n, count_one, NULL, &counts);
	ck_assert_uint_eq(counts.saturated, n);
	ck_assert_uint_eq(counts.inf, n);
}

TEST_LOOP(every_piece_runs_once_and_counts, N_WORKERS)
{
	static const size_t n_pieces[] = {0, 1, 2, N_PIECES};

	for (unsigned k = 0; k < sizeof n_pieces / sizeof n_pieces[0]; k++) {
		uint64_t n = n_pieces[k], sum = n * (n - 1) / 2;
		atomic_uint marks[N_PIECES] = {0}, *const context = marks;
		struct mxfp_counts counts = {.size = sizeof counts, .saturated = 7, .flushed = 1};
		struct mxfp_runner runner;

		ck_assert_int_eq(mxfp_runner_init(&runner, &workers[_i]), MXFP_OK);
		mxfp_run_pieces(&runner, n, mark, &context, &counts);
		for (size_t i = 0; i < N_PIECES; i++)
			ck_assert_uint_eq(marks[i], i < n);
		ck_assert_uint_eq(counts.saturated, 7 + n);
		ck_assert_uint_eq(counts.overflowed, sum);
		ck_assert_uint_eq(counts.flushed, 1 + 3 * sum);
		ck_assert_uint_eq(counts.nan, n << 32);
		ck_assert_uint_eq(counts.inf, 5 * n);
		mxfp_run_pieces(&runner, n, mark, &context, NULL);
	}
}

TEST_LOOP(numbers_are_the_same_whoever_converts, N_WORKERS)
{
	enum { N = 3 * PIECE + 77, FIRST = 1000003 };
	struct random r = {suite_seed()};
	uint32_t *x = malloc(N * sizeof *x);
	uint8_t *codes = malloc(N), *want = malloc(N);
	struct mxfp_counts counts = {.size = sizeof counts}, want_counts = {.size = sizeof want_counts};
	const struct mxfp_convert_job job = {
		.dst_format = MXFP_FORMAT_E4M3,
		.src_format = MXFP_FORMAT_F32,
		.dst = want,
		.src = x,
		.n = N,
		.first_index = FIRST,
		.rounding = {.mode = MXFP_ROUND_SR, .seed = 5, .stream = 6},
		.counts = &want_counts,
	};
	const struct mxfp_convert_options options = {
		.size = sizeof options, .round = MXFP_ROUND_SR, .seed = 5, .stream = 6, .first_index = FIRST,
	};
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, 1, N, x);
	struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_E4M3, codes);

	result.counts = &counts;
	for (size_t i = 0; i < N; i++)
		x[i] = random_f32(&r);
	mxfp_kernels_get()->convert[MXFP_FORMAT_E4M3][MXFP_FORMAT_F32](&job);
	ck_assert_int_eq(mxfp_convert(&result, &numbers, &options, &workers[_i]), MXFP_OK);
	ck_assert_mem_eq(codes, want, N);
	ck_assert_mem_eq(&counts, &want_counts, sizeof counts);
	suite_compared(N);
	free(x);
	free(codes);
	free(want);
}

/* Quantizes the whole matrix by one kernel call. */
static void quantize_uncut(struct matrix *m, uint32_t amax, struct mxfp_counts *counts)
{
	const struct mxfp_quantize_job job = {
		.format = m->blocks.format,
		.src_format = m->src_format,
		.rows = m->rows,
		.cols = m->cols,
		.src = m->src,
		.src_stride = m->stride,
		.codes = m->blocks.codes,
		.scales = m->blocks.scales,
		.codes_stride = m->blocks.codes_stride,
		.scales_stride = m->blocks.scales_stride,
		.rounding = {.mode = MXFP_ROUND_SR},
		.rule = MXFP_RULE_FLOOR,
		.tensor_amax = amax,
		.counts = counts,
	};

	mxfp_kernels_get()->quantize[job.format](&job);
}

static uint32_t amax_uncut(const struct matrix *m)
{
	struct mxfp_scan_job job = {.src_format = m->src_format, .n = m->cols, .non_finite_from = 0x7F800000};

	for (size_t row = 0; row < m->rows; row++) {
		job.src = (const uint8_t *)m->src + row * m->stride * mxfp_format_get_info(m->src_format)->storage_bytes;
		mxfp_kernels_get()->scan[job.src_format](&job);
	}
	return job.amax;
}

static enum mxfp_status quantize(struct matrix *m, const struct mxfp_exec *w, struct mxfp_counts *counts)
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .round = MXFP_ROUND_SR, .rule = MXFP_RULE_FLOOR};
	const struct mxfp_matrix source = matrix_source(m);
	struct mxfp_result result = mxfp_to_blocks(&m->blocks);

	result.counts = counts;
	memset(m->blocks.codes, MATRIX_CANARY, m->codes_bytes);
	memset(m->blocks.scales, MATRIX_CANARY, m->scales_bytes);
	return mxfp_quantize(&result, &source, &options, w);
}

static void check_blocks(const struct matrix *m, const struct matrix *want)
{
	ck_assert_mem_eq(m->blocks.codes, want->blocks.codes, want->codes_bytes);
	ck_assert_mem_eq(m->blocks.scales, want->blocks.scales, want->scales_bytes);
	suite_compared(m->rows * m->cols);
}

static void check_dequantize(const struct matrix *m, const struct mxfp_exec *w)
{
	size_t n = m->rows * m->stride;
	uint8_t *got = matrix_allocate(4 * n), *want = matrix_allocate(4 * n);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&m->blocks);
	struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, got);
	struct mxfp_dequantize_job job = {
		.format = m->blocks.format,
		.dst_format = MXFP_FORMAT_F32,
		.rows = m->rows,
		.cols = m->cols,
		.codes = m->blocks.codes,
		.scales = m->blocks.scales,
		.codes_stride = m->blocks.codes_stride,
		.scales_stride = m->blocks.scales_stride,
		.tensor_scale_divides = m->blocks.tensor_scale_divides,
		.dst = want,
		.dst_stride = m->stride,
	};

	memcpy(&job.tensor_scale, &m->blocks.tensor_scale, sizeof job.tensor_scale);
	mxfp_kernels_get()->dequantize[job.format](&job);
	result.stride = m->stride;
	ck_assert_int_eq(mxfp_dequantize(&result, &matrix, w), MXFP_OK);
	ck_assert_mem_eq(got, want, 4 * n);
	suite_compared(m->rows * m->cols);
	free(got);
	free(want);
}

/* Rows in groups, rows that are pieces, rows in parts with and without a tail. */
static const struct {
	size_t rows, cols;
} shapes[] = {{150, 1000}, {2, PIECE}, {2, PIECE + 1}, {1, 2 * PIECE + 4567}, {70000, 2}};

static const enum mxfp_format block_formats[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_NVFP4};

TEST_LOOP(blocks_are_the_same_whoever_works, sizeof shapes / sizeof shapes[0])
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (unsigned k = 0; k < sizeof block_formats / sizeof block_formats[0]; k++) {
		struct matrix m = matrix_of(block_formats[k], shapes[_i].rows, shapes[_i].cols, 3);
		struct matrix want = matrix_of(block_formats[k], shapes[_i].rows, shapes[_i].cols, 3);
		struct mxfp_counts want_counts = {.size = sizeof want_counts};

		matrix_fill(&m, &r);
		memcpy(want.src, m.src, m.rows * m.stride * 4);
		quantize_uncut(&want, amax_uncut(&m), &want_counts);
		for (int w = 0; w < N_WORKERS; w++) {
			struct mxfp_counts counts = {.size = sizeof counts};

			ck_assert_int_eq(quantize(&m, &workers[w], &counts), MXFP_OK);
			ck_assert_mem_eq(&counts, &want_counts, sizeof counts);
			check_blocks(&m, &want);
			check_dequantize(&m, &workers[w]);
		}
		matrix_free(&m);
		matrix_free(&want);
	}
}

/* The largest is in one piece, the first NaN or Inf neither in the first piece nor in the last. */
TEST_LOOP(scans_find_the_largest_and_the_first, N_WORKERS)
{
	enum { ROWS = 3, COLS = 2 * PIECE + 5 };
	static const size_t non_finite[] = {5 * PIECE, PIECE + 3, 2 * PIECE + 4, 4 * PIECE};
	float *x = calloc((size_t)ROWS * COLS, sizeof *x), amax = 0.5F;
	struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, ROWS, COLS, 0);
	uint64_t first = 0;
	struct mxfp_quantize_options options = {
		.size = sizeof options, .recipe = MXFP_RECIPE_TE, .non_finite = MXFP_NON_FINITE_ERROR, .first_index = 100,
	};
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, x);
	struct mxfp_result result = mxfp_to_blocks(&m.blocks);

	result.first_non_finite = &first;
	x[3 * PIECE + 1] = -7;
	ck_assert_int_eq(mxfp_amax(&amax, &numbers, &workers[_i]), MXFP_OK);
	ck_assert(amax == 7);
	for (unsigned k = 0; k < sizeof non_finite / sizeof non_finite[0]; k++)
		memcpy(&x[non_finite[k]], &(uint32_t){0x7F800000}, 4);
	ck_assert_int_eq(mxfp_quantize(&result, &numbers, &options, &workers[_i]), MXFP_ERR_NON_FINITE);
	ck_assert_uint_eq(first, 100 + PIECE + 3);
	/* With the amax given, the numbers are looked through only after they have been quantized. */
	options.non_finite = MXFP_NON_FINITE_PROPAGATE;
	for (int given = 0; given < 2; given++) {
		options.tensor_amax = (struct mxfp_optional){given != 0, amax};
		first = 0;
		ck_assert_int_eq(mxfp_quantize(&result, &numbers, &options, &workers[_i]), MXFP_OK);
		ck_assert_uint_eq(first, 100 + PIECE + 3);
	}
	free(x);
	matrix_free(&m);
}

enum { N_NESTED = 4 };

/* An outer task has a matrix and counts of its own, for the main thread to look at. */
struct nested {
	struct matrix *matrices;
	struct mxfp_counts *counts;
	const struct mxfp_exec *inner;
};

static void quantize_nested(void *context, size_t i)
{
	const struct nested *nested = context;

	quantize(&nested->matrices[i], nested->inner, &nested->counts[i]);
}

/* Calls from within the tasks of another run, by every pair of workers. */
TEST_LOOP(calls_may_nest, N_WORKERS)
{
	struct random r = {suite_seed()};
	struct matrix matrices[N_NESTED], want = matrix_of(MXFP_FORMAT_MXFP4, 40, 4096, 0);
	struct mxfp_counts want_counts = {.size = sizeof want_counts};

	matrix_fill(&want, &r);
	quantize_uncut(&want, 0, &want_counts);
	for (int i = 0; i < N_NESTED; i++) {
		matrices[i] = matrix_of(MXFP_FORMAT_MXFP4, 40, 4096, 0);
		memcpy(matrices[i].src, want.src, 4 * want.rows * want.cols);
	}
	for (int w = 0; w < N_WORKERS; w++) {
		struct mxfp_counts counts[N_NESTED];
		struct nested nested = {matrices, counts, &workers[w]};

		for (int i = 0; i < N_NESTED; i++)
			counts[i] = (struct mxfp_counts){.size = sizeof counts[i]};
		ck_assert_int_eq(mxfp_parallel_for(&workers[_i], N_NESTED, quantize_nested, &nested), MXFP_OK);
		for (int i = 0; i < N_NESTED; i++) {
			ck_assert_mem_eq(&counts[i], &want_counts, sizeof want_counts);
			check_blocks(&matrices[i], &want);
		}
	}
	for (int i = 0; i < N_NESTED; i++)
		matrix_free(&matrices[i]);
	matrix_free(&want);
}

/* A task that ends when it is told to. */
struct gate {
	atomic_uint entered, open;
};

static void stand(void *context, size_t i)
{
	struct gate *gate = context;

	(void)i;
	gate->entered++;
	while (!gate->open)
		sched_yield();
}

static void *stand_together(void *gate)
{
	mxfp_parallel_for(NULL, 2, stand, gate);
	return NULL;
}

static void count_task(void *argument, size_t i)
{
	(void)i;
	atomic_fetch_add((atomic_uint *)argument, 1);
}

/* Calls end while every other thread is busy with something that does not. */
TEST(a_call_waits_for_no_thread_that_has_no_part_in_it)
{
	struct gate gate = {0};
	atomic_uint n = 0;
	pthread_t thread;

	alarm(60);
	ck_assert_int_eq(pthread_create(&thread, NULL, stand_together, &gate), 0);
	while (gate.entered == 0)
		sched_yield();
	for (unsigned i = 1; i <= 1000; i++) {
		ck_assert_int_eq(mxfp_parallel_for(NULL, 3, count_task, &n), MXFP_OK);
		ck_assert_uint_eq(n, 3 * i);
	}
	gate.open = 1;
	pthread_join(thread, NULL);
	alarm(0);
}

static void *count_often(void *n)
{
	for (int i = 0; i < 2000; i++)
		mxfp_parallel_for(NULL, 5, count_task, n);
	return NULL;
}

TEST(calls_at_the_same_time_share_the_threads)
{
	pthread_t threads[7];
	atomic_uint n = 0;

	for (int i = 0; i < 7; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_often, &n), 0);
	for (int i = 0; i < 7; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(n, 7 * 2000 * 5);
}

/* What is one piece of work is done where it is asked for; more goes to the caller's threads, all of it. */
TEST(one_piece_asks_for_no_threads)
{
	const struct mxfp_convert_options options = {.size = sizeof options};
	float *x = calloc(PIECE + 1, sizeof *x);
	uint8_t *codes = malloc(PIECE + 1);

	pool.n_runs = 0;
	mxfp_convert_array(codes, MXFP_FORMAT_E4M3, x, MXFP_FORMAT_F32, 0, &options, &workers[N_WORKERS - 1]);
	mxfp_convert_array(codes, MXFP_FORMAT_E4M3, x, MXFP_FORMAT_F32, PIECE, &options, &workers[N_WORKERS - 1]);
	ck_assert_uint_eq(pool.n_runs, 0);
	mxfp_convert_array(codes, MXFP_FORMAT_E4M3, x, MXFP_FORMAT_F32, PIECE + 1, &options, &workers[N_WORKERS - 1]);
	ck_assert_uint_eq(pool.n_runs, 1);
	free(x);
	free(codes);
}

/* It has none of the threads that its parent has. */
TEST(a_child_of_a_process_with_threads_works)
{
	const struct mxfp_exec two = {.size = sizeof two, .threads = 2};
	struct random r = {suite_seed()};
	struct matrix m = matrix_of(MXFP_FORMAT_MXFP4, 40, 4096, 0), want = matrix_of(MXFP_FORMAT_MXFP4, 40, 4096, 0);
	int status;

	if (getenv("MXFP_RUN") != NULL) {
		printf("skipped: a child of a process with threads, in which qemu itself fails\n");
		return;
	}
	matrix_fill(&m, &r);
	memcpy(want.src, m.src, 4 * m.rows * m.cols);
	ck_assert_int_eq(quantize(&want, &two, NULL), MXFP_OK);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		alarm(20);
		_exit(quantize(&m, &two, NULL) != MXFP_OK || memcmp(m.blocks.codes, want.blocks.codes, m.codes_bytes) != 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	matrix_free(&m);
	matrix_free(&want);
}

TEST(a_tier_is_chosen_by_name)
{
	const struct mxfp_exec unknown = {.size = sizeof unknown, .isa = "sse2"}, empty = {.size = sizeof empty, .isa = ""};
	const struct mxfp_exec no_size = {.threads = 1};
	struct mxfp_runner runner;
	struct mxfp_kernels table;
	atomic_uint n = 0;

	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		const struct mxfp_exec exec = {.size = sizeof exec, .isa = mxfp_isa_name(tier)};

		ck_assert_int_eq(mxfp_runner_init(&runner, &exec), MXFP_OK);
		mxfp_kernels_init(&table, mxfp_isa_available() & ((UINT32_C(2) << tier) - 1));
		ck_assert_mem_eq(runner.kernels, &table, sizeof table);
	}
	ck_assert_int_eq(mxfp_runner_init(&runner, NULL), MXFP_OK);
	ck_assert_ptr_eq(runner.kernels, mxfp_kernels_get());
	ck_assert_int_eq(mxfp_parallel_for(&unknown, 1, count_task, &n), MXFP_ERR_ISA);
	ck_assert_int_eq(mxfp_parallel_for(&empty, 1, count_task, &n), MXFP_ERR_ISA);
	ck_assert_int_eq(mxfp_parallel_for(&no_size, 1, count_task, &n), MXFP_ERR_VERSION);
	ck_assert_int_eq(mxfp_parallel_for(NULL, 1, NULL, NULL), MXFP_ERR_NULL);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(mxfp_parallel_for(NULL, 7, count_task, &n), MXFP_OK);
	ck_assert_uint_eq(n, 7);
}

enum { STATES = 6 };

/* Tasks that note the state they begin in, and leave another. */
struct noted {
	atomic_uint threads; /* tasks that wait until each is on a thread of its own */
	uint64_t begins_in[STATES];
};

static void note_state(void *argument, size_t i)
{
	struct noted *noted = argument;

	noted->begins_in[i] = fp_state_get();
	fp_state_set(fp_state_hostile((unsigned)i + 1));
	noted->threads++;
	while (noted->threads < 2 && mxfp_processors() > 1)
		sched_yield();
}

/* Of the thread that calls, be it what it may when threads are started, and whatever a task leaves. */
TEST_LOOP(tasks_begin_in_the_state_of_the_caller, N_WORKERS)
{
	const uint64_t own = fp_state_get();
	struct mxfp_exec exec = workers[_i];

	alarm(60);
	for (unsigned state = 0; state < FP_STATE_N_HOSTILE; state++) {
		struct noted noted = {.threads = exec.threads == 1 && exec.run == NULL ? 2 : 0};

		fp_state_set(fp_state_hostile(state));
		const uint64_t before = fp_state_get(); /* a machine may lack some of the bits */
		mxfp_parallel_for(&exec, STATES, note_state, &noted);
		const uint64_t after = fp_state_get();
		fp_state_set(own);
		ck_assert_uint_eq(after, before);
		for (int i = 0; i < STATES; i++)
			ck_assert_msg(noted.begins_in[i] == before, "task %d in state %" PRIX64 " instead of %" PRIX64, i, noted.begins_in[i],
			              before);
		suite_compared(STATES);
	}
	alarm(0);
}

enum { CAUGHT = 100 };

static void fault(int signal)
{
	(void)signal;
	_exit(CAUGHT);
}

static pthread_t calling;

static void fault_elsewhere(void *argument, size_t i)
{
	atomic_uint *threads = argument;

	(void)i;
	++*threads;
	while (*threads < 2)
		sched_yield();
	if (!pthread_equal(pthread_self(), calling))
		__builtin_trap();
	pause();
}

/* A fault of a task is the program's own: its handler runs, on the library's threads as on others. */
TEST(a_fault_reaches_the_handler)
{
	const struct mxfp_exec two = {.size = sizeof two, .threads = 2};
	int status;

	if (mxfp_processors() < 2)
		return;
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		atomic_uint threads = 0;

		alarm(20);
		signal(SIGILL, fault);
		signal(SIGTRAP, fault);
		calling = pthread_self();
		mxfp_parallel_for(&two, 2, fault_elsewhere, &threads);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == CAUGHT);
	suite_compared(1);
}
