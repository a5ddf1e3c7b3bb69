/* SPDX-License-Identifier: MIT */
/* Computes a workload on this machine: operands in memory, one run for each split. */
#include "config.h"

#include <stdlib.h>

#include <xxhash.h>

#include "analyse/activations.h"
#include "base/clock.h"
#include "base/library.h"
#include "engine/engine.h"
#include "io/file.h"
#include "mxfp/convert.h"

/* The list of what a run allocates, so that all of it can be released after any failure. */
struct memory {
	size_t n;
	void **pieces;
};

enum { PIECES = 7 }; /* the most per product: source, codes and scales of A and of W, and C */

static void *take(struct memory *memory, size_t n)
{
	void *piece = malloc(n + 1);

	if (piece != NULL)
		memory->pieces[memory->n++] = piece;
	return piece;
}

/* Fills a matrix with normal numbers in its format. */
static int fill(struct mxfp_matrix *x, const struct engine_report *r, uint64_t stream, struct memory *memory,
                struct error *error)
{
	const struct mxfp_quantize_options quantize = {.size = sizeof quantize, .rule = MXFP_RULE_RCEIL};
	struct mxfp_sizes sizes = {.codes_bytes = x->rows * x->cols * mxfp_format_get_info(x->format)->storage_bytes};
	bool block = mxfp_blocks_size(&sizes, x->format, x->rows, x->cols) == MXFP_OK;
	float *numbers = take(memory, x->rows * x->cols * sizeof *numbers);
	void *codes = take(memory, sizes.codes_bytes), *scales = take(memory, sizes.scales_bytes);

	if (numbers == NULL || codes == NULL || scales == NULL)
		return fail_memory(error);
	activations_fill(numbers, x->rows, x->cols, ACTIVATIONS_NORMAL, r->seed, stream);
	struct mxfp_blocks blocks = {
		.size = sizeof blocks, .format = x->format, .rows = x->rows, .cols = x->cols, .codes = codes, .scales = scales};
	enum mxfp_status status =
		block ? dense_quantize(&blocks, MXFP_FORMAT_F32, numbers, &quantize, &r->exec)
		      : mxfp_convert_array(codes, x->format, numbers, MXFP_FORMAT_F32, x->rows * x->cols, NULL, &r->exec);
	x->data = codes;
	x->scales = scales;
	return status == MXFP_OK ? EXIT_OK : fail(error, EXIT_USAGE, "engine: --run: %s", mxfp_status_text(status));
}

/* Makes the operands and results of every product. */
static int make_operands(struct engine_report *r, struct memory *memory, struct error *error)
{
	const size_t c_bytes = mxfp_format_get_info(r->c)->storage_bytes;
	int code = EXIT_OK;

	for (size_t i = 0; i < r->workload->n_items && code == EXIT_OK; i++) {
		struct mxfp_matrix *a = &r->matrices[2 * i], *w = &r->matrices[2 * i + 1];

		code = fill(a, r, 2 * i, memory, error);
		if (code == EXIT_OK)
			code = fill(w, r, 2 * i + 1, memory, error);
		r->results[i].data = code == EXIT_OK ? take(memory, a->rows * w->rows * c_bytes) : NULL;
		if (code == EXIT_OK && r->results[i].data == NULL)
			code = fail_memory(error);
	}
	return code;
}

static int hash_results(uint64_t *hash, const struct engine_report *r, struct error *error)
{
	XXH3_state_t *state = XXH3_createState();

	if (state == NULL)
		return fail_memory(error);
	XXH3_64bits_reset(state);
	for (size_t i = 0; i < r->workload->n_items; i++) {
		const struct mxfp_product *p = &r->products[i];
		size_t n = p->a->rows * p->w->rows * mxfp_format_get_info(r->c)->storage_bytes;

		dtype_swap(r->c == MXFP_FORMAT_F32 ? DTYPE_F32 : DTYPE_BF16, p->c->data, n);
		XXH3_64bits_update(state, p->c->data, n);
	}
	*hash = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return EXIT_OK;
}

static int run_split(struct engine_report *r, int s, struct error *error)
{
	const struct mxfp_gemm_options options = engine_options(s);
	const size_t n = r->workload->n_items;
	size_t bytes;
	enum mxfp_status status = mxfp_gemm_workspace_size(&bytes, r->products, n, &options, &r->exec);
	void *workspace = status == MXFP_OK ? malloc(bytes + 1) : NULL;

	if (status == MXFP_OK && workspace == NULL)
		return fail_memory(error);
	const double start = clock_seconds();
	if (status == MXFP_OK)
		status = mxfp_engine_run(&r->splits[s], NULL, r->products, n, &options, workspace, bytes, &r->exec);
	r->runs[s].seconds = clock_seconds() - start;
	free(workspace);
	if (status != MXFP_OK)
		return fail(error, EXIT_USAGE, "engine: --run: %s", mxfp_status_text(status));
	return hash_results(&r->runs[s].hash, r, error);
}

int engine_run(struct engine_report *r, struct error *error)
{
	struct memory memory = {.pieces = calloc(PIECES * r->workload->n_items + 1, sizeof *memory.pieces)};

	if (memory.pieces == NULL)
		return fail_memory(error);
	int code = make_operands(r, &memory, error);
	for (int s = 0; s < N_SPLITS && code == EXIT_OK; s++)
		code = run_split(r, s, error);
	while (memory.n > 0)
		free(memory.pieces[--memory.n]);
	free(memory.pieces);
	r->ran = code == EXIT_OK;
	return code;
}
