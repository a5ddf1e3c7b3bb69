/* SPDX-License-Identifier: MIT */
/* Decides what becomes of every tensor of a model. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file_gguf.h"
#include "model/model_output.h"
#include "quantize/quantize.h"

bool quantize_makes_file(const struct quantize_settings *settings)
{
	return settings->layout->file_format == &file_gguf;
}

static int check_unquantized(const struct model *model, struct error *error)
{
	static const char remedy[] = "give the unquantized model, or mxfp dequantize it";
	json_t *config;

	if (model_quantized_by(model) != NULL)
		return fail(error, EXIT_INPUT, "%s: is already quantized: %s; %s", model->path,
		            model_quantized_by(model), remedy);
	for (size_t i = 0; i < model->n_files; i++) {
		const char *weights = file_metadata(&model->files[i], "mxfp.weights");

		if (weights != NULL)
			return fail(error, EXIT_INPUT, "%s: is already quantized: by mxfp, %s; %s",
			            model->path, weights, remedy);
	}
	int code = model_config_copy(model, &config, error);
	const json_t *quantization = json_object_get(config, "quantization_config");
	if (code == EXIT_OK && quantization != NULL && !json_is_null(quantization))
		code = fail(error, EXIT_INPUT, "%s: is already quantized: the config.json beside it has "
		            "quantization_config; move the file away from it if that is of another model", model->path);
	json_decref(config);
	return code;
}

static int check_source(const struct quantize_settings *settings, const struct model *model, struct error *error)
{
	if (!quantize_makes_file(settings))
		return EXIT_OK;
	if (settings->shard_bytes != 0)
		return fail(error, EXIT_USAGE, "quantize: --shard-size: the output is one GGUF file; leave it out, and cut "
		            "the file with llama-gguf-split");
	return model_output_check_gguf(model, settings->out != NULL ? settings->out : "OUT.gguf", error);
}

/* The parts of the output. */
static int plan_parts(struct quantize_plan *plan, struct quantize_entry *entry, struct error *error)
{
	const struct layout_choice layout = quantize_layout(plan->settings->layout, &entry->choice);
	const struct file *other;

	if (!entry->quantized) {
		entry->parts[0] = *entry->stored;
		entry->parts[0].by_columns = false;
		entry->parts[0].pitch = 0;
		entry->output_bytes = entry->source->size;
		return EXIT_OK;
	}
	for (int i = 0; i < N_LAYOUT_PARTS; i++) {
		struct tensor *part = &entry->parts[i];

		if (!layout_has(&layout, (enum layout_part)i))
			continue;
		if (!layout_describe(&layout, (enum layout_part)i, entry->source, &plan->arena, part))
			return fail_memory(error);
		if (strcmp(part->name, entry->source->name) != 0 && model_find(plan->model, part->name, &other) != NULL)
			return fail_tensor(error, entry->file->path, entry->source->name,
			                   "quantized it needs the name '%s', which "
			                   "another tensor has; --ignore one of them", part->name);
		if (!tensor_size(part, &part->size))
			return fail_tensor(error, entry->file->path, entry->source->name, "padded it is too large");
		entry->output_bytes += part->size;
	}
	return EXIT_OK;
}

/* Decides whether and how a selected tensor is quantized, by the recipe's first rule that matches it. False if memory
   ran out. */
static bool choose(struct quantize_plan *plan, struct quantize_entry *entry)
{
	const struct recipe *recipe = plan->settings->recipe;
	const struct recipe_rule *rule = NULL;
	char reason[128];

	entry->choice = plan->settings->choice;
	if (recipe != NULL && entry->quantized)
		rule = recipe_find(recipe, entry->source->name);
	if (rule == NULL)
		return true;
	entry->quantized = !rule->keep;
	recipe_apply(&rule->change, &entry->choice);
	if (rule->keep)
		snprintf(reason, sizeof reason, "kept by rules[%td]", rule - recipe->rules);
	else
		snprintf(reason, sizeof reason, "%s, rules[%td]", entry->reason, rule - recipe->rules);
	entry->reason = arena_string(&plan->arena, reason);
	return entry->reason != NULL;
}

/* Whether the layout's loaders take a tensor that is to be quantized. EXIT_USAGE: they do not, and the user asked for
   it; EXIT_INPUT: nobody knows what its rows are. */
static int check_role(const struct quantize_plan *plan, struct quantize_entry *entry, const struct role *role,
                      struct error *error)
{
	const struct quantize_settings *s = plan->settings;
	const char *refusal = layout_refuses_role(s->layout, &plan->model->role_model, role, entry->stored);
	const bool asked = patterns_match(&s->select.included, entry->stored->name);

	if (refusal != NULL && asked)
		return fail(error, EXIT_USAGE, "quantize: --include: tensor '%s': %s (--layout %s)", entry->stored->name, refusal,
		            s->layout->name);
	if (refusal != NULL) {
		entry->quantized = false;
		entry->reason = refusal;
	} else if (role->axis == ROLE_UNKNOWN) {
		return fail_tensor(error, entry->file->path, entry->stored->name, "%s; or --ignore it", role_unknown);
	}
	return EXIT_OK;
}

static int plan_entry(struct quantize_plan *plan, struct quantize_entry *entry, const struct file *file,
                      const struct tensor *tensor, struct error *error)
{
	const struct role role = select_tensor(&plan->settings->select, &plan->model->role_model, tensor);
	int code = EXIT_OK;

	entry->stored = tensor;
	entry->file = file;
	entry->quantized = role.quantized;
	entry->reason = role.reason;
	entry->source = role.quantized ? role_rows(&role, tensor, &plan->arena) : tensor;
	if (entry->source == NULL)
		return fail_memory(error);
	tensor_matrix(entry->source, &entry->rows, &entry->cols);
	if (!choose(plan, entry))
		return fail_memory(error);
	if (entry->quantized)
		code = check_role(plan, entry, &role, error);
	if (code != EXIT_OK)
		return code;
	entry->quantized = entry->quantized && quantize_is_held(plan, entry);
	plan->n_quantized += entry->quantized;
	plan->input_bytes += tensor->size;
	return EXIT_OK;
}

static int plan_entries(struct quantize_plan *plan, struct error *error)
{
	const struct model *model = plan->model;
	struct quantize_entry *entry;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files; f++)
		plan->n_entries += model->files[f].n_tensors;
	entry = plan->entries = calloc(plan->n_entries + 1, sizeof *plan->entries);
	if (entry == NULL)
		return fail_memory(error);
	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++)
			code = plan_entry(plan, entry++, &model->files[f], &model->files[f].tensors[t], error);
	if (code == EXIT_OK && plan->settings->bits != 0)
		code = quantize_mix(plan, error);
	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		code = plan_parts(plan, &plan->entries[i], error);
		plan->output_bytes += plan->entries[i].output_bytes;
	}
	return code;
}

int quantize_plan(struct quantize_plan *plan, const struct quantize_settings *settings, const struct model *model,
                  struct error *error)
{
	*plan = (struct quantize_plan){
		.settings = settings,
		.model = model,
	};
	if (settings->choice.sparsity.m != 0)
		sparsity_text(settings->choice.sparsity, plan->sparsity);
	snprintf(plan->seed, sizeof plan->seed, "%" PRIu64, settings->seed);
	int code = check_unquantized(model, error);

	if (code == EXIT_OK)
		code = check_source(settings, model, error);
	if (code == EXIT_OK)
		code = select_check(&settings->select, model, error);
	if (code == EXIT_OK && settings->recipe != NULL)
		code = recipe_check(settings->recipe, model, error);
	if (code == EXIT_OK)
		code = plan_entries(plan, error);
	if (code == EXIT_OK && settings->fuse)
		code = quantize_fuse(plan, error);
	return code != EXIT_OK ? code : quantize_plan_files(plan, error);
}

void quantize_plan_free(struct quantize_plan *plan)
{
	free(plan->entries);
	free(plan->files);
	carry_free(&plan->carry);
	arena_free(&plan->arena);
	*plan = (struct quantize_plan){0};
}
