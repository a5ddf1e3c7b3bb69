/* SPDX-License-Identifier: MIT */
/* Decides what becomes of every tensor of a model. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/file_gguf.h"
#include "model/allow.h"
#include "model/gguf_name.h"
#include "model/model_output.h"
#include "model/quantized.h"
#include "quantize/quantize.h"

bool quantize_makes_file(const struct quantize_settings *settings)
{
	return settings->layout->file_format == &file_gguf ||
	       (settings->out != NULL && file_format_named(settings->out) == settings->layout->file_format);
}

static int check_unquantized(const struct model *model, struct error *error)
{
	static const char remedy[] = "give the unquantized model, or mxfp dequantize it";
	struct error ignored;
	json_t *config;
	bool readable;

	if (model->n_decoded > 0)
		return EXIT_OK;
	if (model_quantized_by(model) != NULL) {
		int code = quantized_any(model, &readable, &ignored);

		if (code == EXIT_MEMORY)
			return fail_memory(error);
		return fail(error, EXIT_INPUT, "%s: is already quantized: %s; %s", model->path, model_quantized_by(model),
		            code == EXIT_OK && readable ? remedy
		                                        : "no weight is; remove quantization_config from config.json, if what it says of "
		                                          "keys and values may be lost");
	}
	for (size_t i = 0; i < model->n_files; i++) {
		const char *weights = file_metadata(&model->files[i], METADATA_WEIGHTS);

		if (weights != NULL)
			return fail(error, EXIT_INPUT, "%s: is already quantized: by mxfp, %s; %s",
			            model->path, weights, remedy);
	}
	int code = model_config_copy(model, &config, error);
	const json_t *quantization = json_object_get(config, "quantization_config");
	if (code == EXIT_OK && json_object_size(quantization) > 0)
		code = fail(error, EXIT_INPUT, "%s: is already quantized: the config.json beside it has "
		            "quantization_config; move the file away from it if that belongs to another model", model->path);
	json_decref(config);
	return code;
}

/* Refuses a GGUF file whose numbers are no weights: changes to a model's weights, or sums over its inputs. A projector
   (mmproj) has weights as a model has. */
static int check_holds(const struct model *model, struct error *error)
{
	const char *holds = model->n_files > 0 ? gguf_holds(&model->files[0]) : "model";

	if (strcmp(holds, "model") == 0 || strcmp(holds, "mmproj") == 0 || allowed_unknown("general.type"))
		return EXIT_OK;
	return fail(error, EXIT_INPUT, "%s: general.type: is '%.40s', so it holds no weights of a model, which alone are "
	            "quantized; give the model", model->path, holds);
}

static int check_source(const struct quantize_settings *settings, const struct model *model, struct error *error)
{
	const bool makes_gguf = settings->layout->file_format == &file_gguf, makes_file = quantize_makes_file(settings);
	const char *out = settings->out != NULL ? settings->out : makes_gguf ? "OUT.gguf" : NULL;
	int code = check_holds(model, error);

	if (code == EXIT_OK && out != NULL)
		code = model_output_check_source(model, out, error);
	if (code == EXIT_OK && makes_file && model->is_directory)
		code = fail(error, EXIT_USAGE, "%s: is named like one file, and a model directory becomes a directory, with a "
		            "config.json; leave out the suffix, or give one file of the model", out);
	if (code == EXIT_OK && makes_file && settings->shard_bytes != 0)
		code = fail(error, EXIT_USAGE, "quantize: --shard-size: %s is one file; leave it out, %s", out,
		            makes_gguf ? "and cut the file with llama-gguf-split" : "or name a directory");
	return code;
}

/* The parts of the output. */
static int plan_parts(struct quantize_plan *plan, struct quantize_entry *entry, struct error *error)
{
	const struct layout_choice layout = quantize_layout(plan->settings->layout, &entry->choice);
	const struct file *other;
	unsigned n = entry->quantized ? N_LAYOUT_PARTS : 1;

	while (entry->quantized && n > 0 && !layout_has(&layout, (enum layout_part)(n - 1)))
		n--;
	entry->n_parts = n;
	entry->parts = entry->stored;
	if (!entry->quantized)
		entry->output_bytes = entry->source->size;
	if (!entry->quantized && !entry->stored->by_columns)
		return EXIT_OK;
	struct tensor *parts = arena_take(&plan->arena, n * sizeof *parts);
	if (parts == NULL)
		return fail_memory(error);
	memset(parts, 0, n * sizeof *parts);
	entry->parts = parts;
	if (!entry->quantized) {
		*parts = *entry->stored;
		parts->by_columns = false;
		parts->pitch = 0;
		return EXIT_OK;
	}
	for (unsigned i = 0; i < n; i++) {
		struct tensor *part = &parts[i];

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
   it; EXIT_INPUT: the orientation of its rows is unknown. */
static int check_role(const struct quantize_plan *plan, struct quantize_entry *entry, const struct role *role,
                      struct error *error)
{
	const struct quantize_settings *s = plan->settings;
	const char *refusal = layout_refuses_role(s->layout, &plan->model->role_model, role, entry->stored);
	const bool asked = patterns_match(&s->select.included, entry->stored->name);
	const bool by_recipe = s->select.recipe != NULL && patterns_match(s->select.recipe, entry->stored->name);

	if (refusal != NULL && (asked || by_recipe))
		return fail(error, EXIT_USAGE, "quantize: %s: tensor '%s': %s (--layout %s); --ignore it, or give another layout",
		            asked ? "--include" : "the recipe's include",
		            entry->stored->name, refusal, s->layout->name);
	if (role->kind == ROLE_SEQUENTIAL && role->axis == ROLE_UNKNOWN)
		return fail_tensor(error, entry->file->path, entry->stored->name, "%s; or --ignore it", role->unknown);
	if (refusal != NULL) {
		entry->quantized = false;
		entry->reason = refusal;
	} else if (role->axis == ROLE_UNKNOWN) {
		return fail_tensor(error, entry->file->path, entry->stored->name, "%s; or --ignore it", role->unknown);
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
	entry->unheld = entry->quantized && !quantize_is_held(plan, entry);
	entry->quantized = entry->quantized && !entry->unheld;
	plan->n_quantized += entry->quantized;
	return EXIT_OK;
}

/* The length of a name up to the number of an expert: "model.layers.0.mlp.experts."; 0: it is of none. */
static size_t experts_stem(const char *name)
{
	static const char part[] = ".experts.";
	const char *at = strstr(name, part);

	return at != NULL && at[sizeof part - 1] >= '0' && at[sizeof part - 1] <= '9' ? (size_t)(at - name) + sizeof part - 1 : 0;
}

/* Loaders make one layer of all experts of a module, which is quantized or is not (vLLM: CompressedTensorsMoEMethod). So what
   one of them cannot be keeps the others as they are, but for those that the user names. */
static int keep_alike(struct quantize_plan *plan, struct error *error)
{
	const struct model_tensor *by_name = plan->model->by_name;
	const size_t n = plan->model->n_tensors;
	size_t end;

	for (size_t i = 0; i < n; i = end) {
		const size_t stem = experts_stem(by_name[i].tensor->name);
		const char *unheld = NULL;
		char reason[256];

		for (end = i; end < n && stem != 0 && strncmp(by_name[end].tensor->name, by_name[i].tensor->name, stem) == 0; end++) {
			const struct quantize_entry *entry = quantize_entry_of(plan, by_name[end].tensor, by_name[end].file);

			unheld = entry->unheld ? entry->reason : unheld;
		}
		end += end == i;
		snprintf(reason, sizeof reason, "of other experts, which loaders take alike, %s", unheld != NULL ? unheld : "");
		if (unheld != NULL && (unheld = arena_string(&plan->arena, reason)) == NULL)
			return fail_memory(error);
		for (size_t k = i; k < end && unheld != NULL; k++) {
			const struct model_tensor *at = &by_name[k];
			struct quantize_entry *entry = &plan->entries[quantize_entry_of(plan, at->tensor, at->file) - plan->entries];

			if (!entry->quantized || patterns_match(&plan->settings->select.included, at->tensor->name))
				continue;
			entry->quantized = false;
			entry->reason = unheld;
			plan->n_quantized--;
		}
	}
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
	if (code == EXIT_OK && plan->settings->layout->one_expert_each)
		code = keep_alike(plan, error);
	if (code == EXIT_OK && plan->settings->bits != 0)
		code = quantize_mix(plan, error);
	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		code = plan_parts(plan, &plan->entries[i], error);
		plan->output_bytes += plan->entries[i].output_bytes;
	}
	return code;
}

int quantize_check_memory(const struct quantize_settings *settings, uint64_t least, struct error *error)
{
	if (settings->memory_bytes == 0 || settings->memory_bytes >= least)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "quantize: --mem: %" PRIu64 " bytes are too few for this model; "
	            "give --mem %" PRIu64 "M or more", settings->memory_bytes, (least >> 20) + 1);
}

/* Checks --mem before the plan takes any, which for many small tensors is most of what is needed. */
static int check_memory(const struct quantize_settings *settings, const struct model *model, struct error *error)
{
	enum { PART_BYTES = 64 }; /* its shape, and what is added to the name; 60 were measured */
	const struct layout_choice layout = quantize_layout(settings->layout, &settings->choice);
	const bool varies = settings->recipe != NULL || settings->bits != 0;
	uint64_t least = memory_used() + TRANSFER_WORKER_BYTES, most = 0, all = 0;
	unsigned n_parts = 0;

	for (int i = 0; i < N_LAYOUT_PARTS; i++)
		n_parts += varies ? i <= LAYOUT_TENSOR_SCALE : layout_has(&layout, (enum layout_part)i);
	for (size_t f = 0; f < model->n_files; f++) {
		const struct file *file = &model->files[f];
		uint64_t parts = 0;

		for (size_t t = 0; t < file->n_tensors; t++) {
			const struct tensor *tensor = &file->tensors[t];
			const unsigned n = tensor->rank > 1 ? n_parts : 1; /* vectors stay as they are */

			least += sizeof(struct quantize_entry) + n * (sizeof(struct tensor) + PART_BYTES + strlen(tensor->name));
			parts += n;
		}
		most = parts > most ? parts : most;
		all += parts;
	}
	least += (settings->shard_bytes == 0 ? most : all) * QUANTIZE_RECORD_BYTES;
	return quantize_check_memory(settings, least, error);
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
		code = check_memory(settings, model, error);
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

/* Lists a few tensors with different reasons: those that are refused though selected, or those that are not selected.
   Returns how many. */
enum { KEPT_MAX = 5, KEPT_TEXT = 2048 };
static size_t list_kept(const struct quantize_plan *plan, bool refused, char list[KEPT_TEXT])
{
	const char *reasons[KEPT_MAX];
	size_t n = 0, used = 0;

	for (size_t i = 0; i < plan->n_entries && n < KEPT_MAX; i++) {
		const struct quantize_entry *entry = &plan->entries[i];
		size_t seen = 0;

		if (select_tensor(&plan->settings->select, &plan->model->role_model, entry->stored).quantized != refused)
			continue;
		while (seen < n && strcmp(reasons[seen], entry->reason) != 0)
			seen++;
		if (seen < n)
			continue;
		used += (size_t)snprintf(list + used, KEPT_TEXT - used, "%s'%.100s' (%.200s)", n > 0 ? ", " : "",
		                         entry->stored->name, entry->reason);
		reasons[n++] = entry->reason;
	}
	return n;
}

int quantize_check_any(const struct quantize_plan *plan, struct error *error)
{
	char list[KEPT_TEXT];

	if (plan->n_quantized > 0)
		return EXIT_OK;
	if (plan->n_entries == 0)
		return fail(error, EXIT_INPUT, "%s: has no tensors, so nothing is to be quantized", plan->model->path);
	if (list_kept(plan, true, list) > 0)
		return fail(error, EXIT_INPUT, "%s: nothing can be quantized: %s; mxfp quantize -n lists all; another --layout, "
		            "--weights or --pad-tail may take them", plan->model->path, list);
	list_kept(plan, false, list);
	return fail(error, EXIT_INPUT, "%s: nothing is to be quantized: %s; mxfp quantize -n lists all; --include PATTERN takes "
	            "float tensors of at least 2 dimensions", plan->model->path, list);
}

void quantize_plan_free(struct quantize_plan *plan)
{
	free(plan->entries);
	free(plan->files);
	carry_free(&plan->carry);
	arena_free(&plan->arena);
	*plan = (struct quantize_plan){0};
}
