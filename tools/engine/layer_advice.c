/* SPDX-License-Identifier: MIT */
/* What would help a layer: the same layer with one thing changed, again through the model. */
#include <stdio.h>

#include "engine/layer.h"

enum { BATCH_MAX = 4096 }; /* tokens; more, and more than 64 times as many as asked about, are not tried */

/* Keeps a change if it saves at least 1 % of the time of a token. EXIT_USAGE of the changed layer says that it cannot be. */
static int offer(struct layer_report *r, const struct layer_setup *changed, const char *text, struct error *error)
{
	struct layer_time time;
	struct error ignored;
	int code = layer_run(&time, changed, &ignored);
	const uint64_t ps = time.end - time.begin;

	if (code == EXIT_OK && r->n_advice < ADVICE_MAX &&
	    (double)ps / (double)changed->tokens < 0.99 * (double)(r->time.end - r->time.begin) / (double)r->setup.tokens) {
		struct layer_advice *a = &r->advice[r->n_advice++];

		*a = (struct layer_advice){.ps = ps, .tokens = changed->tokens, .limit = time.limit};
		snprintf(a->text, sizeof a->text, "%s", text);
	}
	layer_time_free(&time);
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

/* Twice as many sequences, and so on, until memory no longer is the limit. */
static int offer_batch(struct layer_report *r, struct error *error)
{
	struct layer_setup s = r->setup;
	int code = EXIT_OK;

	if (r->time.limit != LANE_DMA)
		return EXIT_OK;
	for (enum lane limit = LANE_DMA; limit == LANE_DMA && code == EXIT_OK && s.tokens <= TOKENS_MAX / 4;) {
		struct layer_time time;
		struct error ignored;

		s.tokens *= 2;
		s.sequences *= 2;
		code = layer_run(&time, &s, &ignored);
		limit = time.limit;
		layer_time_free(&time);
		if (code == EXIT_OK && limit != LANE_DMA) {
			char text[sizeof r->advice[0].text];

			snprintf(text, sizeof text, "%llu tokens of %llu sequences", (unsigned long long)s.tokens,
			         (unsigned long long)s.sequences);
			r->batch_helps = true;
			return offer(r, &s, text, error);
		}
		if (s.tokens >= 64 * r->setup.tokens && s.tokens > BATCH_MAX)
			break;
	}
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

static int offer_all(struct layer_report *r, struct error *error)
{
	const struct layer_setup *s = &r->setup;
	struct layer_setup changed = *s;
	int code = EXIT_OK;

	changed.w = MXFP_FORMAT_MXFP4;
	if (s->w != changed.w)
		code = offer(r, &changed, "weights in mxfp4", error);
	changed = *s;
	changed.w = MXFP_FORMAT_MXFP8_E4M3;
	if (code == EXIT_OK && mxfp_format_get_info(s->w)->storage_bytes != 0 && r->n_advice == 0)
		code = offer(r, &changed, "weights in mxfp8-e4m3", error);
	changed = *s;
	changed.cache = MXFP_FORMAT_MXFP8_E4M3;
	if (code == EXIT_OK && mxfp_format_get_info(s->cache)->storage_bytes != 0)
		code = offer(r, &changed, "keys and values in mxfp8-e4m3", error);
	changed = *s;
	changed.a = MXFP_FORMAT_MXFP8_E4M3;
	if (code == EXIT_OK && mxfp_format_get_info(s->a)->storage_bytes != 0)
		code = offer(r, &changed, "activations in mxfp8-e4m3", error);
	if (code == EXIT_OK)
		code = offer_batch(r, error);
	changed = *s;
	changed.chips *= 2;
	if (code == EXIT_OK && s->chips <= CHIPS_LINKED_MAX / 2) {
		char text[sizeof r->advice[0].text];

		snprintf(text, sizeof text, "%u chips", changed.chips);
		code = offer(r, &changed, text, error);
	}
	return code;
}

int layer_estimate(struct layer_report *r, struct error *error)
{
	int code = layer_run(&r->time, &r->setup, error);

	return code == EXIT_OK ? offer_all(r, error) : code;
}
