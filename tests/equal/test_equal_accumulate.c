/* SPDX-License-Identifier: MIT */
/* Sums in memory in every tier that the machine has: the slot equals the reference, and so does mxfp_accumulate() with
   every format, length, place and number of threads. One case a format of the source: CK_RUN_CASE=accumulate_mxfp4. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "equal/equal_slots.h"
#include "equal/guarded.h"
#include "equal/patterns.h"
#include "mxfp/accumulate.h"
#include "suite.h"

enum { BUFFERS_MAX = 9, LENGTH_MAX = 1200, GROUP = 16, SINK = 0, SOURCES = 2 };

static struct equal equal;

/* A sum of n_src buffers, each of them one of two arrays from some element on. */
struct trial {
	struct equal_case c;
	struct mxfp_reduce_job job;
	unsigned array[BUFFERS_MAX]; /* 1 or 2; SINK: in place */
};

static uint32_t source[1 + SOURCES][LENGTH_MAX];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	(void)c;
	return (equal_kernel *)table->reduce;
}

static const struct trial *current;

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_reduce_job j = *(const struct mxfp_reduce_job *)job;
	const void *src[BUFFERS_MAX];
	const size_t width = mxfp_format_get_info(j.src_format)->storage_bytes;

	(void)outcome;
	for (size_t b = 0; b < j.n_src; b++)
		src[b] = array[current->array[b]] - (current->array[b] == SINK ? j.first * width : 0);
	j.src = src;
	j.dst = (float *)(void *)array[SINK];
	((mxfp_reduce_kernel *)k)(&j);
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_reduce_job *j = c->job;

	snprintf(text, size, "reduce %s, %zu buffers, n %zu from %zu", mxfp_format_get_info(j->src_format)->name, j->n_src,
	         j->n, j->first);
}

static void fill(struct random *r, enum mxfp_format format, void *to, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	uint32_t numbers[GROUP];

	for (size_t done = 0, part; done < n; done += part) {
		struct pattern_group g = pattern_any(r, info, GROUP);

		part = n - done < GROUP ? n - done : GROUP;
		pattern_fill(r, &g, numbers, part);
		pattern_store(r, g.pattern, info, (uint8_t *)to + done * info->storage_bytes, numbers, part);
	}
}

static void prepare(struct trial *t, size_t n)
{
	struct random *r = &equal.random;
	const size_t width = mxfp_format_get_info(t->job.src_format)->storage_bytes;
	const bool in_place = t->job.src_format == MXFP_FORMAT_F32 && random_below(r, 2) == 0;

	t->job.n = n;
	t->job.n_src = 1 + random_below(r, BUFFERS_MAX);
	t->job.first = in_place ? 0 : random_below(r, 20);
	t->c.n_elements = n;
	for (size_t b = 0; b < t->job.n_src; b++)
		t->array[b] = 1 + random_below(r, SOURCES);
	if (in_place)
		t->array[random_below(r, (uint32_t)t->job.n_src)] = SINK;
	for (int a = 0; a <= SOURCES; a++) {
		fill(r, t->job.src_format, source[a], t->job.first + n);
		t->c.array[a] = (struct equal_array){
			.bytes = a == SINK ? n * sizeof(float) : (t->job.first + n) * width,
			.place = equal_place(r),
			.input = a == SINK && !in_place ? NULL : source[a],
		};
	}
}

TEST_LOOP(sums_of_buffers, 2)
{
	struct trial t = {
		.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job},
		.job = {.src_format = _i == 0 ? MXFP_FORMAT_F32 : MXFP_FORMAT_BF16},
	};

	current = &t;
	for (unsigned round = 0; round < 6 * equal.rounds; round++)
		for (size_t i = 0; i < 300; i++) {
			prepare(&t, i < 260 ? i : random_below(&equal.random, LENGTH_MAX - 20));
			ck_assert_msg((i % 32 == 0 ? equal_run_in_every_state : equal_run)(&equal, &t.c), "%s", equal.message);
		}
	current = NULL;
}

static const char *case_name(int i)
{
	static char name[MXFP_N_FORMATS][64];

	if (i >= MXFP_N_FORMATS)
		return NULL;
	snprintf(name[i], sizeof name[i], "accumulate_%s", mxfp_format_get_info((enum mxfp_format)i)->name);
	return name[i];
}

static struct guarded place(const void *bytes, size_t n)
{
	struct random *r = &equal.random;
	struct guarded g = guarded_of(n, random_below(r, 64), random_below(r, 2) == 0);

	if (n != 0)
		memcpy(g.at, bytes, n);
	return g;
}

/* One call on memory beside guard pages, by every tier and by ref, with other numbers of threads. */
static void accumulate_once(enum mxfp_format format, size_t rows, size_t cols, bool threads)
{
	static const unsigned counts[] = {1, 2, 3, 7};
	struct random *r = &equal.random;
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	const bool block = info->kind == MXFP_KIND_BLOCK, bf16 = random_below(r, 2) == 0;
	const enum mxfp_format dst_format = bf16 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	const size_t width = bf16 ? 2 : 4, dst_stride = cols + equal_gap(r);
	struct mxfp_sizes size = {.codes_row_bytes = cols * (block ? 1 : info->storage_bytes)};
	struct mxfp_matrix src = {
		.size = sizeof src, .format = format, .rows = rows, .cols = cols, .tensor_scale = 0.75F,
		.tensor_scale_divides = random_below(r, 2) == 0,
	};
	const struct mxfp_accumulate_options o = {
		.size = sizeof o, .round = bf16 && random_below(r, 2) == 0 ? MXFP_ROUND_SR : MXFP_ROUND_RNE, .seed = random_u64(r),
		.stream = random_u64(r), .first_index = equal_any_index(r, rows * cols),
	};

	if (block)
		ck_assert_int_eq(mxfp_blocks_size(&size, format, rows, cols), MXFP_OK);
	src.stride = (block ? size.codes_row_bytes : cols) + equal_gap(r);
	src.scales_stride = size.scales_row_bytes + equal_gap(r);
	const size_t unit = block ? 1 : info->storage_bytes;
	const size_t data_bytes = equal_span(rows, size.codes_row_bytes, src.stride * unit);
	const size_t scale_bytes = block ? equal_span(rows, size.scales_row_bytes, src.scales_stride) : 0;
	const size_t dst_bytes = equal_span(rows, cols * width, dst_stride * width);
	uint8_t *data = malloc(data_bytes + 1), *scales = malloc(scale_bytes + 1), *before = malloc(dst_bytes + 4);
	uint8_t *want = malloc(dst_bytes + 4);
	ck_assert(data != NULL && scales != NULL && before != NULL && want != NULL);
	for (size_t i = 0; i < data_bytes; i++)
		data[i] = (uint8_t)random_u64(r);
	if (!block)
		fill(r, format, data, data_bytes / unit);
	for (size_t i = 0; i < scale_bytes; i++)
		scales[i] = (uint8_t)(random_below(r, 8) == 0 ? random_u64(r) : 110 + random_below(r, 30));
	fill(r, dst_format, before, dst_bytes / width);
	for (size_t t = 0; t <= equal.n_tiers; t++) {
		struct guarded d = place(data, data_bytes), s = place(scales, scale_bytes), to = place(before, dst_bytes);
		const struct mxfp_exec exec = {
			.size = sizeof exec, .threads = threads ? counts[random_below(r, 4)] : 1,
			.isa = t == 0 ? "ref" : equal.tier[t - 1].name,
		};
		struct mxfp_result sum = mxfp_to_numbers(dst_format, to.at);

		src.data = d.at;
		src.scales = s.at;
		sum.stride = dst_stride;
		assert_status(mxfp_accumulate(&sum, &src, &o, &exec), MXFP_OK);
		if (t == 0)
			memcpy(want, to.at, dst_bytes);
		ck_assert_msg(guarded_is_intact(&to) && (dst_bytes == 0 || memcmp(to.at, want, dst_bytes) == 0),
		              "%s to %s, %zu x %zu, by %s differs, MXFP_TEST_SEED=%" PRIu64, info->name, bf16 ? "bf16" : "f32",
		              rows, cols, exec.isa, suite_seed());
		guarded_free(&d);
		guarded_free(&s);
		guarded_free(&to);
	}
	free(data);
	free(scales);
	free(before);
	free(want);
	suite_compared(rows * cols * equal.n_tiers);
}

TEST_LOOP(accumulation, MXFP_N_FORMATS)
{
	for (unsigned round = 0; round < equal.rounds; round++) {
		for (size_t cols = 0; cols < 100; cols += 1 + random_below(&equal.random, 3))
			accumulate_once((enum mxfp_format)_i, random_below(&equal.random, 4), cols, false);
		for (int i = 0; i < 10; i++)
			accumulate_once((enum mxfp_format)_i, 1 + random_below(&equal.random, 3), random_below(&equal.random, 3000), false);
		accumulate_once((enum mxfp_format)_i, 3, 70001, true);
		accumulate_once((enum mxfp_format)_i, 2000, 33, true);
	}
}

int main(void)
{
	return equal_main(&equal, case_name);
}
