/* SPDX-License-Identifier: MIT */
/* Prints the time line of a layer as JSON. */
#include "engine/layer.h"
#include "io/facts.h"

/* The constants of the engines beside the tensor engine, as chip.def names them. */
static json_t *unit_facts(const struct mxfp_engine_chip *chip)
{
	json_t *units = json_object();

	for (int u = 0; u <= (int)MXFP_ENGINE_GPSIMD; u++) {
		json_t *unit = json_pack(
			"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "clock_mhz", (json_int_t)chip->units[u].clock_mhz,
			"start_cycles", (json_int_t)chip->units[u].start_cycles, "one_16", (json_int_t)chip->units[u].one_16,
			"one_32", (json_int_t)chip->units[u].one_32, "two_16", (json_int_t)chip->units[u].two_16, "two_32",
			(json_int_t)chip->units[u].two_32, "functions", (json_int_t)chip->units[u].functions, "exponential",
			(json_int_t)chip->units[u].exponential, "quantize", (json_int_t)chip->units[u].quantize);

		units = facts_set(units, layer_lane_name((enum lane)((int)LANE_VECTOR + u)), unit);
	}
	return units;
}

static json_t *chip_facts(const struct layer_setup *s)
{
	const struct mxfp_engine_chip *c = &s->chip;
	json_t *facts = json_pack(
		"{s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "name", c->name, "source", c->source, "chips",
		(int)s->chips, "cores", (int)c->cores, "cores_used", (int)s->cores, "clock_mhz", (json_int_t)c->clock_mhz,
		"memory_mb_s", (json_int_t)c->memory_mb_s, "memory_gib", (json_int_t)c->memory_gib, "sbuf_kib",
		(json_int_t)c->sbuf_kib, "psum_kib", (json_int_t)c->psum_kib);
	json_t *moves = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "dma_engines", (json_int_t)c->dma_engines, "dma_mb_s",
		(json_int_t)c->dma_mb_s, "dma_add_percent", (json_int_t)c->dma_add_percent, "links", (json_int_t)c->links,
		"link_mb_s", (json_int_t)c->link_mb_s, "server_chips", (json_int_t)c->server_chips, "ultraserver_chips",
		(json_int_t)c->ultraserver_chips, "units", unit_facts(c));

	return facts_update(facts, moves);
}

static json_t *model_facts(const struct decoder *d)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", facts_text(d->name), "hidden",
	                 (json_int_t)d->hidden, "heads", (json_int_t)d->heads, "kv_heads", (json_int_t)d->kv_heads, "head_dim",
	                 (json_int_t)d->head_dim, "intermediate", (json_int_t)d->intermediate, "experts",
	                 (json_int_t)d->experts, "experts_per_token", (json_int_t)d->experts_per_token,
	                 "expert_intermediate", (json_int_t)d->expert_intermediate, "layers", (json_int_t)d->layers,
	                 "window", (json_int_t)d->window, "windowed_layers", (json_int_t)d->windowed);
}

static json_t *lane_facts(const struct layer_report *r)
{
	json_t *array = json_array();

	for (enum lane lane = 0; lane < N_LANES; lane++) {
		const struct layer_lane *x = &r->time.lanes[lane];

		if (layer_has_lane(r, lane))
			array = facts_append(array, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "engine", layer_lane_name(lane),
			                                      "busy_ps", (json_int_t)x->busy, "critical_ps",
			                                      (json_int_t)x->critical, "macs", (json_int_t)x->macs, "bytes",
			                                      (json_int_t)x->bytes, "elements", (json_int_t)x->elements));
	}
	return array;
}

/* Everything that runs within the layer's time, also what belongs to the layers before and after it. */
static json_t *operation_facts(const struct layer_time *t)
{
	json_t *array = json_array();

	for (size_t i = 0; i < t->schedule.n; i++) {
		const struct operation *x = &t->schedule.operations[i];

		if (x->end > t->begin && x->start < t->end)
			array = facts_append(array, json_pack(
				"{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I}", "name", x->name, "engine", layer_lane_name(x->lane), "part",
				layer_part_name(x->part), "layer", (int)x->layer - (int)t->layer, "start_ps",
				(json_int_t)x->start - (json_int_t)t->begin, "time_ps", (json_int_t)x->ps, "macs", (json_int_t)x->macs,
				"bytes", (json_int_t)x->bytes, "elements", (json_int_t)x->elements));
	}
	return array;
}

static json_t *advice_facts(const struct layer_report *r)
{
	json_t *array = json_array();

	for (size_t i = 0; i < r->n_advice; i++)
		array = facts_append(array, json_pack("{s:s, s:I, s:I, s:s, s:b}", "change", r->advice[i].text, "time_ps",
		                                      (json_int_t)r->advice[i].ps, "tokens", (json_int_t)r->advice[i].tokens,
		                                      "limit", layer_lane_name(r->advice[i].limit), "fits",
		                                      (int)r->advice[i].fits));
	return array;
}

json_t *layer_json(const struct layer_report *r)
{
	const struct layer_setup *s = &r->setup;
	const struct layer_time *t = &r->time;

	return json_pack("{s:o, s:o, s:I, s:I, s:I, s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o}", "model",
	                 model_facts(&s->decoder), "chip", chip_facts(s), "tokens", (json_int_t)s->tokens, "sequences",
	                 (json_int_t)s->sequences, "context", (json_int_t)s->context, "activations",
	                 mxfp_format_get_info(s->a)->name, "weights", mxfp_format_get_info(s->w)->name, "cache",
	                 mxfp_format_get_info(s->cache)->name, "time_ps", (json_int_t)(t->end - t->begin), "limit",
	                 layer_lane_name(t->limit), "weight_bytes", (json_int_t)t->weight_bytes, "cache_bytes",
	                 (json_int_t)t->cache_bytes, "activation_bytes", (json_int_t)t->activation_bytes, "window_time_ps",
	                 (json_int_t)r->window_ps, "fits", (int)r->fits, "engines",
	                 lane_facts(r), "operations", operation_facts(t), "advice", advice_facts(r));
}
