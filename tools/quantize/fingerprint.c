/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "quantize/fingerprint.h"

#include <string.h>

#include "model/fingerprint.h"

static void hash_entry(XXH3_state_t *hash, const struct quantize_entry *entry)
{
	char choice[QUANTIZE_TEXT];

	fingerprint_tensor(hash, entry->stored);
	fingerprint_number(hash, entry->source->offset);
	fingerprint_number(hash, entry->quantized);
	fingerprint_number(hash, entry->source->by_columns);
	fingerprint_number(hash, entry->padded);
	if (entry->quantized)
		fingerprint_string(hash, quantize_text(&entry->choice, choice));
	for (unsigned part = 0; part < entry->n_parts; part++)
		if (entry->parts[part].name != NULL)
			fingerprint_tensor(hash, &entry->parts[part]);
}

/* Adds the plan: what tensors become, and in which files. */
static bool add_plan(json_t *fingerprint, XXH3_state_t *hash, const struct quantize_plan *plan, const json_t *config)
{
	char *text = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
	bool whole = text != NULL;

	XXH3_128bits_reset(hash);
	for (size_t i = 0; i < plan->n_entries; i++)
		hash_entry(hash, &plan->entries[i]);
	whole = whole && fingerprint_add(fingerprint, "plan of the tensors (--include, --ignore, --pad-tail or --recipe)",
	                                 XXH3_128bits_digest(hash));
	XXH3_128bits_reset(hash);
	for (size_t f = 0; f < plan->n_files; f++) {
		fingerprint_string(hash, plan->files[f].name);
		fingerprint_number(hash, plan->files[f].n);
	}
	whole = whole && fingerprint_add(fingerprint, "set of output files", XXH3_128bits_digest(hash));
	whole = whole && fingerprint_add(fingerprint, "config.json", XXH3_128bits(text, strlen(text)));
	json_release(text);
	return whole;
}

static bool add_choices(json_t *fingerprint, const struct quantize_plan *plan)
{
	struct metadata choices[QUANTIZE_CHOICES_MAX];
	size_t n = quantize_choices(plan, choices);
	bool whole = true;

	for (size_t i = 0; i < n; i++)
		whole &= json_object_set_new(fingerprint, choices[i].key, json_string(choices[i].value)) == 0;
	return whole;
}

int quantize_fingerprint(json_t **fingerprint, const struct quantize_plan *plan, const json_t *config, bool times,
                         struct error *error)
{
	XXH3_state_t *hash = XXH3_createState();
	int code = EXIT_OK;

	json_prepare();
	*fingerprint = json_pack("{s:s}", "command", "quantize");
	if (hash == NULL || !add_choices(*fingerprint, plan))
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = fingerprint_sources(*fingerprint, plan->model, times, error);
	if (code == EXIT_OK && (!add_plan(*fingerprint, hash, plan, config) || json_out_of_memory()))
		code = fail_memory(error);
	XXH3_freeState(hash);
	if (code == EXIT_OK)
		return EXIT_OK;
	json_decref(*fingerprint);
	*fingerprint = NULL;
	return code;
}
