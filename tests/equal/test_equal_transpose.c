/* SPDX-License-Identifier: MIT */
/* Transposed codes of squares in every tier that the machine has: every shape about the sides of squares and of what is made
   at once, rows of the memory at any distance. One case a format: CK_RUN_CASE=transpose_mxfp4. */
#include <stdio.h>

#include "equal/equal_slots.h"
#include "format.h"
#include "suite.h"

enum { SIDE = 32, MOST = 300, STRIDE_MOST = MOST + SIDE + 70, SHAPES = 400, SINK = 0, SOURCE = 1 };

static struct equal equal;

struct trial {
	struct equal_case c;
	struct mxfp_transpose_job job;
};

static uint8_t source[MOST * STRIDE_MOST];

static equal_kernel *kernel(const struct mxfp_kernels *table, const struct equal_case *c)
{
	return (equal_kernel *)table->transpose[((const struct mxfp_transpose_job *)c->job)->format];
}

static void call(equal_kernel *k, const void *job, uint8_t *const array[], struct equal_outcome *outcome)
{
	struct mxfp_transpose_job j = *(const struct mxfp_transpose_job *)job;

	(void)outcome;
	j.dst = array[SINK];
	j.src = array[SOURCE];
	((mxfp_transpose_kernel *)k)(&j);
}

static void describe(const struct equal_case *c, char *text, size_t size)
{
	const struct mxfp_transpose_job *j = c->job;

	snprintf(text, size, "transpose %s, %zu x %zu, strides %zu and %zu", mxfp_format_get_info(j->format)->name, j->rows, j->cols,
	         j->src_stride, j->dst_stride);
}

/* Bytes of a row of whole blocks. */
static size_t row_bytes(enum mxfp_format format, size_t cols)
{
	return (cols + SIDE - 1) / SIDE * SIDE / 8 * mxfp_format_get_info(mxfp_format_get_info(format)->element)->bits;
}

static void prepare(struct trial *t, size_t rows, size_t cols)
{
	struct random *r = &equal.random;
	const size_t from = row_bytes(t->job.format, cols), to = row_bytes(t->job.format, rows);

	t->job.rows = rows;
	t->job.cols = cols;
	t->job.src_stride = from + equal_gap(r);
	t->job.dst_stride = to + equal_gap(r);
	t->c.n_elements = rows * cols;
	t->c.array[SINK] = (struct equal_array){.bytes = equal_span(cols, to, t->job.dst_stride), .place = equal_place(r)};
	t->c.array[SOURCE] = (struct equal_array){
		.bytes = equal_span(rows, from, t->job.src_stride), .place = equal_place(r), .input = source};
	for (size_t i = 0; i < t->c.array[SOURCE].bytes; i++)
		source[i] = (uint8_t)random_u64(r);
}

TEST_LOOP(transposed_codes, MXFP_N_FORMATS)
{
	struct trial t = {
		.c = {.kernel = kernel, .call = call, .describe = describe, .job = &t.job},
		.job = {.format = (enum mxfp_format)_i},
	};
	const struct mxfp_format_info *info = mxfp_format_get_info(t.job.format);

	suite_compared(1);
	if (info->kind != MXFP_KIND_BLOCK || info->tensor_scale)
		return;
	for (unsigned i = 0; i < SHAPES * equal.rounds; i++) {
		const bool few = random_below(&equal.random, 2) == 0;

		prepare(&t, 1 + random_below(&equal.random, MOST), 1 + random_below(&equal.random, few ? 2 * SIDE : MOST));
		ck_assert_msg((i % 64 == 0 ? equal_run_in_every_state : equal_run)(&equal, &t.c), "%s", equal.message);
	}
}

static const char *case_name(int i)
{
	static char name[MXFP_N_FORMATS][64];

	if (i >= MXFP_N_FORMATS)
		return NULL;
	snprintf(name[i], sizeof name[i], "transpose_%s", mxfp_format_get_info((enum mxfp_format)i)->name);
	return name[i];
}

int main(void)
{
	return equal_main(&equal, case_name);
}
