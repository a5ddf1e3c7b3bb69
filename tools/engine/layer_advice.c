/* SPDX-License-Identifier: MIT */
/* What would help a layer: the same layer with one thing changed, again through the model. */
#include <stdio.h>

#include "engine/layer.h"

enum { BATCH_MAX = 4096 }; /* tokens; more, and more than 64 times as many as asked about, are not tried */

/* Keeps a change if it saves at least 1 % of the time of a token, or makes the model fit the memory. EXIT_USAGE of the
   changed layer says that it cannot be. */
static int offer(struct layer_report *r, const struct layer_setup *changed, const char *text, struct error *error)
{
	struct layer_time time;
	struct error ignored;
	int code = layer_run(&time, changed, &ignored);
	const uint64_t ps = time.end - time.begin;
	const bool fits = !r->fits && layer_fits(changed);
	const bool saves = (double)ps / (double)changed->tokens <
	                   0.99 * (double)(r->time.end - r->time.begin) / (double)r->setup.tokens;

	if (code == EXIT_OK && r->n_advice < ADVICE_MAX && (saves || fits)) {
		struct layer_advice *a = &r->advice[r->n_advice++];

		*a = (struct layer_advice){.ps = ps, .tokens = changed->tokens, .limit = time.limit, .fits = fits};
		snprintf(a->text, sizeof a->text, "%s", text);
	}
	layer_time_free(&time);
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

/* The same with another number of sequences, each of as many tokens. */
static struct layer_setup with_sequences(const struct layer_setup *s, uint64_t sequences)
{
	struct layer_setup changed = *s;

	changed.tokens = s->tokens / s->sequences * sequences;
	changed.sequences = sequences;
	return changed;
}

/* The largest number of sequences from `fits`, which fit, to below `above`, which do not. */
static uint64_t most_sequences(const struct layer_setup *s, uint64_t fits, uint64_t above)
{
	while (above - fits > 1) {
		const uint64_t middle = fits + (above - fits) / 2;
		const struct layer_setup changed = with_sequences(s, middle);

		if (layer_fits(&changed))
			fits = middle;
		else
			above = middle;
	}
	return fits;
}

static int offer_sequences(struct layer_report *r, uint64_t sequences, bool most, struct error *error)
{
	const struct layer_setup s = with_sequences(&r->setup, sequences);
	char text[sizeof r->advice[0].text];

	snprintf(text, sizeof text, "%llu tokens of %llu sequence%s%s", (unsigned long long)s.tokens,
	         (unsigned long long)s.sequences, s.sequences == 1 ? "" : "s", most ? ", the most that memory holds" : "");
	return offer(r, &s, text, error);
}

/* Twice as many sequences, and so on, until memory no longer is the limit, or holds no more. */
static int offer_batch(struct layer_report *r, struct error *error)
{
	const struct layer_setup *s = &r->setup;
	uint64_t sequences = s->sequences;
	int code = EXIT_OK;

	if (r->time.limit != LANE_DMA)
		return EXIT_OK;
	for (enum lane limit = LANE_DMA; limit == LANE_DMA; sequences *= 2) {
		const struct layer_setup more = with_sequences(s, 2 * sequences);
		struct layer_time time;
		struct error ignored;

		if (more.tokens > TOKENS_MAX / 2 || (sequences >= 64 * s->sequences && sequences > BATCH_MAX))
			break;
		if (!layer_fits(&more)) {
			const uint64_t most = most_sequences(s, sequences, 2 * sequences);

			return most > s->sequences ? offer_sequences(r, most, true, error) : EXIT_OK;
		}
		code = layer_run(&time, &more, &ignored);
		limit = time.limit;
		layer_time_free(&time);
		if (code != EXIT_OK)
			break;
	}
	if (code == EXIT_MEMORY)
		return fail_memory(error);
	return sequences > s->sequences ? offer_sequences(r, sequences, false, error) : EXIT_OK;
}

/* What makes a model fit that does not: more chips, fewer sequences. Formats and twice the chips are offered anyway. */
static int offer_room(struct layer_report *r, struct error *error)
{
	struct layer_setup s = r->setup;
	const struct layer_setup one = with_sequences(&s, 1);
	int code = EXIT_OK;

	for (s.chips *= 2; !layer_fits(&s) && s.chips <= CHIPS_LINKED_MAX / 2;)
		s.chips *= 2;
	if (s.chips > 2 * r->setup.chips && s.chips <= CHIPS_LINKED_MAX && layer_fits(&s)) {
		char text[sizeof r->advice[0].text];

		snprintf(text, sizeof text, "%u chips", s.chips);
		code = offer(r, &s, text, error);
	}
	if (code == EXIT_OK && layer_fits(&one))
		code = offer_sequences(r, most_sequences(&r->setup, 1, r->setup.sequences), true, error);
	return code;
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
	if (code == EXIT_OK && r->fits)
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

/* The time of a layer with the model's window. */
static int run_window(struct layer_report *r, struct error *error)
{
	struct layer_setup s = r->setup;
	struct layer_time time;

	s.context = layer_window(&s);
	if (s.context == r->setup.context)
		return EXIT_OK;
	const int code = layer_run(&time, &s, error);
	r->window_ps = time.end - time.begin;
	layer_time_free(&time);
	return code;
}

int layer_estimate(struct layer_report *r, struct error *error)
{
	int code = layer_run(&r->time, &r->setup, error);

	if (code == EXIT_OK)
		code = run_window(r, error);
	r->fits = code == EXIT_OK && layer_fits(&r->setup);
	if (code == EXIT_OK)
		code = offer_all(r, error);
	return code == EXIT_OK && !r->fits ? offer_room(r, error) : code;
}
