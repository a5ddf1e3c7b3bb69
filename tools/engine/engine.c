/* SPDX-License-Identifier: MIT */
/* Makes the accounts of a workload on whole and split arrays. */
#include "engine/engine.h"

#include <stdlib.h>

enum { WHOLE_PASS = 512 }; /* pass_k of whole arrays */

unsigned engine_sub_arrays(int split)
{
	return 1U << split;
}

struct mxfp_gemm_options engine_options(int split)
{
	return (struct mxfp_gemm_options){
		.size = sizeof(struct mxfp_gemm_options),
		.pass_k = WHOLE_PASS / engine_sub_arrays(split),
	};
}

uint64_t engine_time_ps(const struct mxfp_engine *engine)
{
	return engine->compute_ps > engine->memory_ps ? engine->compute_ps : engine->memory_ps;
}

double engine_utilization(const struct mxfp_engine *engine)
{
	uint64_t time = engine_time_ps(engine);

	return time == 0 ? 0 : 100.0 * (double)engine->ideal_ps / (double)time;
}

static int make_products(struct engine_report *r, struct error *error)
{
	const struct workload *load = r->workload;

	r->products = calloc(load->n_items + 1, sizeof *r->products);
	r->matrices = calloc(2 * load->n_items + 1, sizeof *r->matrices);
	r->results = calloc(load->n_items + 1, sizeof *r->results);
	if (r->products == NULL || r->matrices == NULL || r->results == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < load->n_items; i++) {
		const struct workload_item *item = &load->items[i];
		struct mxfp_matrix *a = &r->matrices[2 * i], *w = &r->matrices[2 * i + 1];

		*a = (struct mxfp_matrix){.size = sizeof(struct mxfp_matrix), .format = r->a, .rows = item->m, .cols = item->k};
		*w = (struct mxfp_matrix){.size = sizeof(struct mxfp_matrix), .format = r->w, .rows = item->n, .cols = item->k, .sparsity = r->sparsity};
		r->results[i] = mxfp_to_numbers(r->c, NULL);
		r->products[i] = (struct mxfp_product){.size = sizeof *r->products, .c = &r->results[i], .a = a, .w = w};
	}
	return EXIT_OK;
}

/* Says why the library refused an estimate. */
static int fail_status(const struct engine_report *r, enum mxfp_status status, struct error *error)
{
	if (status == MXFP_ERR_FORMAT)
		return fail(error, EXIT_USAGE, "engine: %s multiplies no %s by %s to %s; mxfp8-e4m3, mxfp8-e5m2, mxfp4, e4m3, e5m2, "
		            "bf16, f16, tf32, f32 are what engines have, f32 and bf16 the results", r->chip.name,
		            mxfp_format_get_info(r->a)->name, mxfp_format_get_info(r->w)->name, mxfp_format_get_info(r->c)->name);
	if (status == MXFP_ERR_OPTION)
		return fail(error, EXIT_USAGE, "engine: --sparsity %u:%u is unknown, or the clock or bandwidth cannot be",
		            r->sparsity.n, r->sparsity.m);
	return fail(error, EXIT_USAGE, "engine: %s", mxfp_status_text(status));
}

int engine_estimate(struct engine_report *r, struct error *error)
{
	const size_t n = r->workload->n_items;
	int code = make_products(r, error);

	for (int s = 0; s < N_SPLITS && code == EXIT_OK; s++) {
		struct mxfp_engine *engine = &r->splits[s];
		const struct mxfp_gemm_options options = engine_options(s);

		engine->size = sizeof *engine;
		engine->chip = &r->chip;
		engine->cores = r->cores;
		engine->n_busy = (size_t)r->cores * engine_sub_arrays(s);
		engine->places = calloc(n + 1, sizeof *engine->places);
		engine->busy = calloc(engine->n_busy, sizeof *engine->busy);
		if (engine->places == NULL || engine->busy == NULL)
			return fail_memory(error);
		enum mxfp_status status = mxfp_engine_estimate(engine, NULL, r->products, n, &options);
		code = status == MXFP_OK ? EXIT_OK : fail_status(r, status, error);
	}
	return code;
}

void engine_free(struct engine_report *r)
{
	free(r->products);
	free(r->matrices);
	free(r->results);
	for (int s = 0; s < N_SPLITS; s++) {
		free(r->splits[s].places);
		free(r->splits[s].busy);
	}
}
