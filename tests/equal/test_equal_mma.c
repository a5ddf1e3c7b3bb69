/* SPDX-License-Identifier: MIT */
/*
 * Accumulators of machines in every tier that the machine has: slot gemm_mma equals the reference for every machine and pair of
 * formats, in hostile floating-point states, with arrays that end before a page that cannot be touched. One case a machine:
 * CK_RUN_CASE=mma_hopper runs that one; MXFP_TEST_ROUNDS repeats them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "body/fp_state.h"
#include "equal/equal.h"
#include "equal/guarded.h"
#include "f32.h"
#include "mma.h"
#include "oracle/matrix.h"
#include "oracle/operands.h"
#include "ref.h"
#include "suite.h"

enum { ROUNDS = 60, MAX_ROWS = 19, MAX_COLS = 80, MAX_K = 150, FEW_K = 5, FIRST = MXFP_ACC_CHAIN + 1 };

enum {
#define MXFP_ACC(id, value, name, meaning) +1
	N_MACHINES = -FIRST
#include "option.def"
};

#define SMALLEST_NORMAL UINT32_C(0x00800000)

static struct equal equal;

static struct operand any_operand(struct random *r, const struct operand_range *range, enum mxfp_format format, size_t rows, size_t k,
                                  bool transposed)
{
	struct operand o = operand_of(r, range, format, transposed ? k : rows, transposed ? rows : k, random_below(r, 2) * random_below(r, 9));

	o.matrix.transposed = transposed;
	o.matrix.rows = rows;
	o.matrix.cols = k;
	return o;
}

struct product {
	struct operand a, w;
	struct mxfp_gemm_ref_job job;
	float c[MAX_ROWS * MAX_COLS], want[MAX_ROWS * MAX_COLS];
};

/* Products do not depend on a NaN's bits. */
static void canonical(float *c, size_t n)
{
	uint32_t x;

	for (size_t i = 0; i < n; i++) {
		memcpy(&x, &c[i], sizeof x);
		if (mxfp_f32_is_nan(x))
			x = MXFP_F32_NAN;
		memcpy(&c[i], &x, sizeof x);
	}
}

/* What C begins with: +0, anything, numbers about as large as products, or what cancels their sum; beside these 2^-126 and zeros. */
static void fill_c(struct random *r, struct product *p, int exponent)
{
	const size_t n = p->job.rows * p->job.cols;
	const uint32_t kind = random_below(r, 4);
	const int low = exponent < -110 ? -126 : exponent > 110 ? 111 : exponent - 16, high = low + 16 + (int)random_below(r, 16);

	memset(p->c, 0, sizeof p->c);
	if (kind == 3) {
		p->job.c = p->c;
		equal.reference.gemm_mma(&p->job);
	}
	for (size_t i = 0; i < n && kind != 0; i++) {
		uint32_t x;

		memcpy(&x, &p->c[i], sizeof x);
		x = kind == 1 ? random_f32(r) : kind == 2 ? random_f32_between(r, low, high > 127 ? 127 : high) : x ^ MXFP_F32_SIGN;
		if (random_below(r, 4) == 0)
			x = kind == 3 ? x ^ random_below(r, 4) : (x & MXFP_F32_SIGN) | SMALLEST_NORMAL >> random_below(r, 2) * 31;
		memcpy(&p->c[i], &x, sizeof x);
	}
}

static void check(const struct product *p, const struct equal_tier *tier)
{
	struct random *r = &equal.random;
	const struct operand *o[2] = {&p->a, &p->w};
	const size_t bytes = p->job.rows * p->job.cols * sizeof(float);
	struct mxfp_matrix m[2] = {p->a.matrix, p->w.matrix};
	struct guarded data[2], scales[2], c = guarded_of(bytes, random_below(r, 2) * 4, random_below(r, 2) == 0);
	struct mxfp_gemm_ref_job job = p->job;

	for (int i = 0; i < 2; i++) {
		data[i] = guarded_of(o[i]->data_bytes, random_below(r, 3), random_below(r, 2) == 0);
		scales[i] = guarded_of(o[i]->scales_bytes, random_below(r, 64), random_below(r, 2) == 0);
		memcpy(data[i].at, m[i].data, o[i]->data_bytes);
		if (o[i]->scales_bytes != 0)
			memcpy(scales[i].at, m[i].scales, o[i]->scales_bytes);
		m[i].data = data[i].at;
		m[i].scales = scales[i].at;
	}
	memcpy(c.at, p->c, bytes);
	job.a = &m[0];
	job.w = &m[1];
	job.c = (float *)(void *)c.at;
	const uint64_t saved = fp_state_get();
	fp_state_set(fp_state_hostile(random_below(r, FP_STATE_N_HOSTILE)));
	const uint64_t before = fp_state_get();
	tier->table.gemm_mma(&job);
	const uint64_t after = fp_state_get();
	fp_state_set(saved);
	ck_assert(before == after && guarded_is_intact(&c));
	canonical(job.c, p->job.rows * p->job.cols);
	for (size_t i = 0; i < p->job.rows * p->job.cols; i++) {
		uint32_t got, want;

		memcpy(&got, &job.c[i], sizeof got);
		memcpy(&want, &p->want[i], sizeof want);
		ck_assert_msg(got == want, "%s, %s, %s by %s%s, %zu x %zu x %zu, pass %zu: C[%zu][%zu] is %08" PRIX32 ", must be %08" PRIX32
		              ", MXFP_TEST_SEED=%" PRIu64, tier->name, mxfp_option_name(MXFP_OPTION_ACC, (int)job.acc),
		              mxfp_format_get_info(m[0].format)->name, mxfp_format_get_info(m[1].format)->name,
		              m[1].transposed ? " transposed" : "", job.rows, job.cols, m[0].cols, job.pass, i / job.cols, i % job.cols, got,
		              want, suite_seed());
	}
	suite_compared(p->job.rows * p->job.cols);
	for (int i = 0; i < 2; i++) {
		guarded_free(&data[i]);
		guarded_free(&scales[i]);
	}
	guarded_free(&c);
}

static void try_product(enum mxfp_acc acc, enum mxfp_format a_format, enum mxfp_format w_format)
{
	struct random *r = &equal.random;
	static struct product p;
	const bool blocks = mxfp_format_get_info(a_format)->kind == MXFP_KIND_BLOCK;
	const size_t rows = 1 + random_below(r, MAX_ROWS), cols = 1 + random_below(r, MAX_COLS);
	const size_t k = 1 + random_below(r, random_below(r, 3) == 0 ? FEW_K : MAX_K);
	struct operand_range range[2];
	const int bias = mxfp_format_get_info(a_format)->bias;
	const int far = blocks ? 254 : bias < 127 ? bias : 200, tiny = far < 150 ? -far : -150 + (int)random_below(r, 24);
	const uint32_t where = random_below(r, 3);
	const int exponent = where == 0 ? 0 : where == 1 ? tiny : (int)random_below(r, 2 * (uint32_t)far) - far;

	operand_ranges(r, exponent, range);
	range[0].special = random_below(r, 4) == 0;
	range[1].special = random_below(r, 4) == 0;
	p.a = any_operand(r, &range[0], a_format, rows, k, false);
	p.w = any_operand(r, &range[1], w_format, cols, k, !blocks && random_below(r, 3) == 0);
	const uint32_t zeros = random_below(r, 8); /* of all, where C alone counts; or of 16 elements of 4 bits */
	for (size_t i = 0; i < p.a.data_bytes && zeros < 3; i += 8)
		if (zeros == 0 || random_below(r, 2) == 0)
			memset((uint8_t *)(uintptr_t)p.a.matrix.data + i, 0, p.a.data_bytes - i < 8 ? p.a.data_bytes - i : 8);
	p.job = (struct mxfp_gemm_ref_job){
		.a = &p.a.matrix, .w = &p.w.matrix, .row = random_below(r, (uint32_t)rows), .col = random_below(r, (uint32_t)cols), .acc = acc,
		.pass = random_below(r, 3) == 0 ? 128 : MXFP_GEMM_NO_PASSES, .psum = random_below(r, 8) == 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32,
		.index_stride = cols,
	};
	p.job.rows = rows - p.job.row;
	p.job.cols = cols - p.job.col;
	fill_c(r, &p, exponent);
	memcpy(p.want, p.c, sizeof p.want);
	p.job.c = p.want;
	equal.reference.gemm_mma(&p.job);
	canonical(p.want, p.job.rows * p.job.cols);
	for (size_t i = 0; i < equal.n_tiers; i++)
		if (equal.tier[i].table.gemm_mma != equal.reference.gemm_mma)
			check(&p, &equal.tier[i]);
	operand_free(&p.a);
	operand_free(&p.w);
}

TEST_LOOP(machines_equal_the_reference, N_MACHINES)
{
	const enum mxfp_acc acc = (enum mxfp_acc)(FIRST + _i);

	for (int pair = 0; pair < MXFP_N_FORMATS * MXFP_N_FORMATS; pair++) {
		const enum mxfp_format a = (enum mxfp_format)(pair / MXFP_N_FORMATS), w = (enum mxfp_format)(pair % MXFP_N_FORMATS);

		for (unsigned i = 0; mxfp_mma_find(acc, a, w) != NULL && i < suite_share(ROUNDS * equal.rounds); i++)
			try_product(acc, a, w);
	}
}

static const char *case_name(int i)
{
	static char name[N_MACHINES][64];

	if (i >= N_MACHINES)
		return NULL;
	snprintf(name[i], sizeof name[i], "mma_%s", mxfp_option_name(MXFP_OPTION_ACC, FIRST + i));
	return name[i];
}

int main(void)
{
	return equal_main(&equal, case_name);
}
