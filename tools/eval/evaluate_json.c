/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/evaluate.h"
#include "io/facts.h"

static json_t *mean_facts(struct score_mean mean)
{
	return json_pack("{s:o, s:o}", "mean", facts_number(mean.mean), "error", facts_number(mean.error));
}

static json_t *summary_facts(const struct score_summary *s)
{
	json_t *facts = json_pack("{s:o, s:o, s:I}", "nll", mean_facts(s->nll), "perplexity", mean_facts(s->perplexity),
	                          "nan_predictions", (json_int_t)s->n_nan);
	json_t *divergence;

	if (!s->beside)
		return facts;
	divergence = json_pack("{s:o, s:o, s:o, s:o, s:o}", "mean", facts_number(s->divergence.mean), "error",
	                       facts_number(s->divergence.error), "median", facts_number(s->median), "percentile_99",
	                       facts_number(s->percentile_99), "max", facts_number(s->most));
	facts = facts_set(facts, "base_perplexity", mean_facts(s->base_perplexity));
	facts = facts_set(facts, "ln_perplexity_ratio", mean_facts(s->ratio));
	facts = facts_set(facts, "kl_divergence", divergence);
	facts = facts_set(facts, "same_top", mean_facts(s->agreement));
	facts = facts_set(facts, "probability_change", mean_facts(s->change));
	return facts_set(facts, "probability_change_rms", mean_facts(s->change_rms));
}

static json_t *run_facts(const struct evaluate_result *r)
{
	json_t *facts = json_pack("{s:o, s:o, s:s, s:s}", "name", facts_text(r->name), "path", facts_text(r->path),
	                          "weights", r->weights, "activations", r->activations);

	if (r->acc != NULL) {
		facts = facts_set(facts, "acc", json_string(r->acc));
		facts = facts_set(facts, "pass_k", json_integer((json_int_t)r->pass_k));
	}
	if (r->profile.done != NULL)
		facts = facts_set(facts, "profile", profile_facts(&r->profile));
	if (!r->loaded)
		return facts;
	facts = facts_set(facts, "elements", json_integer((json_int_t)r->size.elements));
	facts = facts_set(facts, "weight_bytes", json_integer((json_int_t)r->size.bytes));
	facts = facts_set(facts, "bits_per_weight", json_real(evaluate_bits(r)));
	facts = facts_set(facts, "quantized_matrices", json_integer((json_int_t)r->quantized));
	return r->stays.items == NULL ? facts : facts_set(facts, "as_stored", stays_facts(&r->stays));
}

static json_t *part_facts(const struct evaluate_part *part)
{
	json_t *facts = part->name[0] == '\0' ? json_pack("{s:I}", "layer", (json_int_t)part->layer)
	                                      : json_pack("{s:o}", "kind", facts_text(part->name));

	facts = facts_set(facts, "elements", json_integer((json_int_t)part->elements));
	return facts_update(facts, summary_facts(&part->result.summary));
}

json_t *evaluate_facts(const struct evaluation *e, const char *source)
{
	json_t *runs = json_array(), *parts[2] = {json_array(), json_array()};

	for (size_t i = 0; i < e->n_results; i++)
		runs = facts_append(runs, facts_update(run_facts(&e->results[i]), summary_facts(&e->results[i].summary)));
	for (size_t i = 0; i < e->n_parts; i++) {
		json_t **list = &parts[e->parts[i].name[0] == '\0' ? 0 : 1];

		*list = facts_append(*list, part_facts(&e->parts[i]));
	}
	json_t *facts = json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "source", facts_text(source), "tokens",
	                          (json_int_t)e->n_tokens, "windows", (json_int_t)e->settings->tokens->n, "context",
	                          (json_int_t)e->settings->context, "skip", (json_int_t)e->settings->skip, "predictions",
	                          (json_int_t)e->n_predictions, "runs", runs);
	if (e->settings->note != NULL)
		facts = facts_set(facts, "note", facts_text(e->settings->note));
	if (e->n_parts > 0) {
		facts = facts_set(facts, "layers", parts[0]);
		facts = facts_set(facts, "kinds", parts[1]);
	} else {
		json_decref(parts[0]);
		json_decref(parts[1]);
	}
	return facts;
}

int evaluate_print_json(const struct evaluation *e, const char *source, struct error *error)
{
	return facts_print(stdout, evaluate_facts(e, source), error);
}

static int print_profiles(const struct evaluate_generation *generation, struct error *error)
{
	int code = EXIT_OK;

	if (generation->result.profile.done != NULL) {
		putchar('\n');
		code = profile_print(&generation->result.profile, "the prompt", stdout, error);
	}
	if (code == EXIT_OK && generation->added.done != NULL)
		code = profile_print(&generation->added, "what was added", stdout, error);
	return code;
}

int evaluate_print_generation(const struct evaluate_generation *generation, bool json, struct error *error)
{
	const struct token_sequences *tokens = &generation->tokens;
	json_t *ids, *facts;
	char *text;

	if (!json)
		return print_profiles(generation, error);
	ids = json_array();
	for (size_t i = 0; i < tokens->n_ids; i++)
		ids = facts_append(ids, json_integer((json_int_t)tokens->ids[i]));
	text = malloc(generation->n_text + 1);
	if (text == NULL) {
		json_decref(ids);
		return fail_memory(error);
	}
	memcpy(text, generation->text != NULL ? generation->text : "", generation->n_text);
	text[generation->n_text] = '\0';
	facts = facts_set(run_facts(&generation->result), "prompt_tokens",
	                  json_integer((json_int_t)generation->prompt->n_ids));
	if (generation->added.done != NULL)
		facts = facts_set(facts, "added_profile", profile_facts(&generation->added));
	facts = facts_set(facts, "ids", ids);
	facts = facts_set(facts, "text", facts_text(text));
	free(text);
	return facts_print(stdout, facts, error);
}
