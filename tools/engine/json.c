/* SPDX-License-Identifier: MIT */
/* Prints the account as JSON. */
#include <stdlib.h>

#include "engine/engine.h"
#include "io/facts.h"

static json_t *product_facts(const struct engine_report *r)
{
	json_t *array = json_array();

	for (size_t i = 0; i < r->workload->n_items; i++) {
		const struct workload_item *item = &r->workload->items[i];

		array = facts_append(array, json_pack("{s:o, s:I, s:I, s:I}", "name", facts_text(item->name), "m",
		                                      (json_int_t)item->m, "n", (json_int_t)item->n, "k",
		                                      (json_int_t)item->k));
	}
	return array;
}

static json_t *busy_facts(const struct mxfp_engine *e)
{
	json_t *array = json_array();

	for (size_t i = 0; i < e->arrays; i++)
		array = facts_append(array, json_integer((json_int_t)e->busy[i]));
	return array;
}

static json_t *place_facts(const struct mxfp_engine *e, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		array = facts_append(array, json_pack("{s:I, s:i, s:I, s:I}", "product", (json_int_t)e->places[i].product,
		                                      "array", (int)e->places[i].array, "start",
		                                      (json_int_t)e->places[i].start, "cycles",
		                                      (json_int_t)e->places[i].cycles));
	return array;
}

static json_t *split_facts(const struct engine_report *r, int s)
{
	const struct mxfp_engine *e = &r->splits[s];
	const size_t n = r->workload->n_items;
	json_t *facts = json_pack(
		"{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o}", "sub_arrays", (int)engine_sub_arrays(s),
		"depth", (json_int_t)(n != 0 ? e->places[0].depth : 0), "cycles", (json_int_t)e->cycles, "moving_cycles",
		(json_int_t)e->moving, "macs_depth", (json_int_t)e->macs_depth, "macs_tiles", (json_int_t)e->macs_tiles,
		"array_ps", (json_int_t)e->compute_ps, "time_ps", (json_int_t)engine_time_ps(e), "utilization_percent",
		engine_utilization(e), "busy_cycles", busy_facts(e), "places", place_facts(e, n));
	char hash[17];

	if (!r->ran)
		return facts;
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->runs[s].hash);
	return facts_set(facts, "run", json_pack("{s:f, s:s}", "seconds", r->runs[s].seconds, "hash", hash));
}

static json_t *all_splits(const struct engine_report *r)
{
	json_t *array = json_array();

	for (int s = 0; s < N_SPLITS; s++)
		array = facts_append(array, split_facts(r, s));
	return array;
}

json_t *engine_json(const struct engine_report *r)
{
	const struct mxfp_engine *e = &r->splits[0];
	json_t *chip = json_pack("{s:s, s:s, s:b, s:i, s:i, s:I, s:I}", "name", r->chip.name, "source", r->chip.source,
	                         "announced", (int)r->chip.announced, "cores", (int)r->chip.cores, "cores_used",
	                         (int)r->cores, "clock_mhz", (json_int_t)r->chip.clock_mhz, "memory_mb_s",
	                         (json_int_t)r->chip.memory_mb_s);

	return json_pack("{s:o, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:o, s:o}", "chip", chip, "a",
	                 mxfp_format_get_info(r->a)->name, "w", mxfp_format_get_info(r->w)->name, "c",
	                 mxfp_format_get_info(r->c)->name, "kept", (int)r->sparsity.n, "of", (int)r->sparsity.m, "macs",
	                 (json_int_t)e->macs, "bytes", (json_int_t)e->bytes, "memory_ps", (json_int_t)e->memory_ps,
	                 "ideal_ps", (json_int_t)e->ideal_ps, "products", product_facts(r), "splits", all_splits(r));
}
