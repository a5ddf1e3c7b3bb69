/* SPDX-License-Identifier: MIT */
/*
 * Decides what becomes of each tensor in another layout, writes the model with its config.json, and prints the
 * decisions as a table. Each file of the source becomes one, or all become the one that the user named.
 */
#include "config.h"

#include "rewrite/relayout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/suffix.h"
#include "base/table.h"
#include "io/directory.h"
#include "io/facts.h"
#include "io/file_safetensors.h"
#include "io/resumed.h"
#include "io/shape.h"
#include "model/layout_cache.h"
#include "model/layout_config.h"
#include "model/meaning.h"
#include "model/model_output.h"
#include "model/scaled.h"
#include "mxfp.h"
#include "rewrite/decode.h"

/* Returns the form that a tensor gets. Only one layout has sparse forms, so sparse tensors stay or are refused. */
static const struct layout_form *target_form(const struct relayout_plan *plan, const struct quantized *q)
{
	return layout_form(plan->settings->layout, q->choice.form->format, q->choice.form->sparse);
}

static int fail_not_held(const struct relayout_plan *plan, const struct relayout_entry *entry, const struct file *file,
                         const char *why, struct error *error)
{
	const struct layout_form *form = entry->quantized.choice.form;
	const char *sparse = form->sparse ? "sparse " : "", *format = mxfp_format_get_info(form->format)->name;

	if (why != NULL)
		return fail_tensor(error, file->path, entry->source->name, "layout %s does not hold it: %s; --to f32 decodes "
		                   "it", plan->settings->layout->name, why);
	return fail_tensor(error, file->path, entry->source->name, "is %s%s, which layout %s does not hold; --to f32 "
	                   "decodes it, or give another --layout", sparse, format, plan->settings->layout->name);
}

/* Finds the number that, by the metadata, a tensor scale is the rounded reciprocal of; false if none is noted. */
static bool noted_inverse(const struct file *file, const char *part, float scale, float *noted)
{
	size_t size = sizeof RELAYOUT_INVERSE + strlen(part);
	char *key = malloc(size), *end;

	if (key == NULL)
		return false;
	snprintf(key, size, RELAYOUT_INVERSE "%s", part);
	const char *text = file_metadata(file, key);
	free(key);
	if (text == NULL)
		return false;
	*noted = strtof(text, &end);
	return end != text && *end == '\0' && 1 / *noted == scale;
}

static int invert(struct relayout_scale *scale, const struct relayout_plan *plan, const struct tensor *part,
                  const struct file *file, struct error *error)
{
	scale->is = 1 / scale->was;
	/* Both are binary32 numbers, so their product is exact in binary64. */
	scale->change = fabs((double)scale->is * (double)scale->was - 1);
	if (!isfinite(scale->is) || !isfinite(scale->was) || scale->is == 0)
		return fail_tensor(error, file->path, part->name, "is %g, whose reciprocal, which layout %s wants, is not an F32 "
		                   "number", (double)scale->was, plan->settings->layout->name);
	if (scale->change == 0)
		scale->how = RELAYOUT_INVERSE_EXACT;
	else if (noted_inverse(file, part->name, scale->was, &scale->is))
		scale->how = RELAYOUT_INVERSE_NOTED;
	else
		scale->how = RELAYOUT_INVERSE_ROUNDED;
	if (scale->how != RELAYOUT_INVERSE_ROUNDED || plan->settings->allow_rounding)
		return EXIT_OK;
	return fail_tensor(error, file->path, part->name, "is %.9g, and its reciprocal, which layout %s wants, has to be "
	                   "rounded: that changes numbers by %.1e of themselves; --allow-rounding accepts it, and notes "
	                   "the scale for the way back", (double)scale->was, plan->settings->layout->name, scale->change);
}

/* Reads a tensor scale and decides what becomes of it. */
static int plan_scale(struct relayout_plan *plan, struct relayout_entry *entry, enum layout_part part,
                      struct error *error)
{
	const struct tensor *source = entry->quantized.parts[part];
	const struct file *file = entry->quantized.files[part];
	struct relayout_scale *scale = &entry->scales[part];

	if (source->dtype != DTYPE_F32 || tensor_elements(source) != 1)
		return fail_tensor(error, file->path, source->name, "is not one F32 number");
	int code = file_read(file, source, 0, &scale->was, sizeof scale->was, error);
	dtype_swap(DTYPE_F32, &scale->was, sizeof scale->was);
	if (code != EXIT_OK)
		return code;
	scale->is = scale->was;
	scale->how = RELAYOUT_SAME;
	if (entry->quantized.choice.layout->divides == entry->choice.layout->divides)
		return EXIT_OK;
	return invert(scale, plan, source, file, error);
}

/* Whether the layout can hold the tensor's input scale: not if it has no tensor scale, and so no convention for one. */
static bool holds_input_scale(const struct relayout_entry *entry)
{
	bool fits;

	if (!mxfp_format_get_info(entry->choice.form->format)->tensor_scale &&
	    entry->choice.layout->divides != entry->quantized.choice.layout->divides)
		return false;
	char *name = layout_part_name(entry->choice.form, LAYOUT_INPUT_SCALE, entry->name, &fits);
	free(name);
	return fits;
}

static int plan_scales(struct relayout_plan *plan, struct relayout_entry *entry, struct error *error)
{
	int code = EXIT_OK;

	if (layout_has(&entry->choice, LAYOUT_TENSOR_SCALE)) {
		entry->scales[LAYOUT_TENSOR_SCALE] = (struct relayout_scale){RELAYOUT_SAME, 1, 1, 0};
		if (entry->quantized.parts[LAYOUT_TENSOR_SCALE] != NULL)
			code = plan_scale(plan, entry, LAYOUT_TENSOR_SCALE, error);
	}
	if (code != EXIT_OK || entry->quantized.parts[LAYOUT_INPUT_SCALE] == NULL)
		return code;
	if (holds_input_scale(entry))
		return plan_scale(plan, entry, LAYOUT_INPUT_SCALE, error);
	entry->scales[LAYOUT_INPUT_SCALE].how = RELAYOUT_LEFT_OUT;
	return EXIT_OK;
}

/* Returns the tensor as it was before it was quantized. */
static struct tensor original(const struct relayout_entry *entry)
{
	return (struct tensor){
		.name = entry->name,
		.dtype = DTYPE_F32,
		.rank = entry->quantized.shape.rank,
		.shape = entry->quantized.shape.dims,
	};
}

static int plan_parts(struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                      struct error *error)
{
	const struct tensor whole = original(entry);
	const struct file *other;

	for (int i = 0; i < N_LAYOUT_PARTS; i++) {
		enum layout_part part = (enum layout_part)i;
		enum relayout_how how = entry->scales[part].how;
		bool carried = part == LAYOUT_INPUT_SCALE && how != RELAYOUT_ABSENT && how != RELAYOUT_LEFT_OUT;

		if (!carried && !layout_has(&entry->choice, part))
			continue;
		if (!layout_describe(&entry->choice, part, &whole, &plan->arena, &entry->parts[part]))
			return fail_memory(error);
		const char *name = entry->parts[part].name;
		const struct tensor *there = model_find(plan->model, name, &other);
		bool own = there == NULL;
		for (int k = 0; k < N_LAYOUT_PARTS; k++)
			own |= there == entry->quantized.parts[k];
		if (!own)
			return fail_tensor(error, file->path, entry->source->name, "in layout %s it needs the name '%s', which "
			                   "another tensor has", plan->settings->layout->name, name);
	}
	return EXIT_OK;
}

static int plan_decoded(struct relayout_plan *plan, struct relayout_entry *entry, struct error *error)
{
	uint64_t *shape = arena_take(&plan->arena, (entry->quantized.shape.rank + 1) * sizeof *shape);

	if (shape == NULL)
		return fail_memory(error);
	decode_shape(shape, &entry->quantized);
	entry->what = RELAYOUT_DECODED;
	entry->parts[0] = original(entry);
	entry->parts[0].dtype = decode_dtype(plan->settings->to);
	entry->parts[0].shape = shape;
	return EXIT_OK;
}

/* NULL, or why the layout does not hold a tensor that it has a form for, as a phrase. Tensors without a config.json are
   no model for a loader: those are moved into every layout. */
static const char *refuses(const struct relayout_plan *plan, const struct relayout_entry *entry)
{
	const struct role_model *model = &plan->model->role_model;
	const struct tensor whole = original(entry);
	const struct role role = role_of(model, &whole);
	const char *why = NULL;

	if (entry->quantized.parts[LAYOUT_PRE_QUANT_SCALE] != NULL &&
	    entry->choice.form->parts[LAYOUT_PRE_QUANT_SCALE].append == NULL)
		return "it has a pre_quant_scale, for which there is no place";
	if (model->type[0] != '\0')
		why = layout_refuses_role(plan->settings->layout, model, &role, &whole);
	return why != NULL ? why : layout_refuses(&entry->choice, &whole);
}

static int plan_codes(struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                      struct error *error)
{
	entry->what = RELAYOUT_MOVED;
	entry->choice = (struct layout_choice){
		.layout = plan->settings->layout,
		.form = target_form(plan, &entry->quantized),
		.sparsity = entry->quantized.choice.sparsity,
		.unscaled = entry->quantized.tensor_scale == 1,
	};
	const char *why = entry->choice.form != NULL ? refuses(plan, entry) : NULL;
	if (entry->choice.form == NULL || why != NULL)
		return plan->settings->to != OPTION_FORMAT_NONE ? plan_decoded(plan, entry, error)
		                                                : fail_not_held(plan, entry, file, why, error);
	int code = plan_scales(plan, entry, error);
	return code != EXIT_OK ? code : plan_parts(plan, entry, file, error);
}

static int plan_copied(const struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                       struct error *error)
{
	entry->parts[0] = *entry->source;
	if (plan->settings->layout->file_format == file->format || dtype_info(entry->source->dtype)->block_elements == 1)
		return EXIT_OK;
	if (entry->source->dtype == DTYPE_Q8_0 && plan->settings->to != OPTION_FORMAT_NONE) {
		entry->what = RELAYOUT_DECODED;
		entry->parts[0].dtype = decode_dtype(plan->settings->to);
		return EXIT_OK;
	}
	return fail_tensor(error, file->path, entry->source->name, "is %s, which %s files do not hold; %s--layout gguf "
	                   "does", dtype_info(entry->source->dtype)->name, plan->settings->layout->file_format->name,
	                   entry->source->dtype == DTYPE_Q8_0 ? "--to f32 decodes it, and " : "");
}

static int plan_entry(struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                      const struct tensor *tensor, struct error *error)
{
	entry->source = tensor;
	entry->file = file;
	entry->what = RELAYOUT_COPIED;
	const struct tensor *codes = NULL;
	int code = quantized_owner(&entry->quantized, &entry->name, plan->model, tensor, &plan->arena, error);
	if (code == EXIT_OK && entry->name == NULL)
		code = scaled_owner(&codes, plan->model, tensor, error);
	if (code != EXIT_OK)
		return code;
	if (codes != NULL)
		return fail_tensor(error, file->path, codes->name, "is %s with scales that are numbers, which layout %s does not hold; mxfp "
		                   "dequantize makes numbers of it, and mxfp quantize blocks", dtype_info(codes->dtype)->name,
		                   plan->settings->layout->name);
	/* A tensor that is already in the layout is copied part by part. */
	if (entry->name == NULL || (entry->quantized.choice.layout == plan->settings->layout &&
	                            entry->quantized.choice.form == target_form(plan, &entry->quantized)))
		return plan_copied(plan, entry, file, error);
	if (entry->quantized.parts[LAYOUT_CODES] == tensor)
		return plan_codes(plan, entry, file, error);
	entry->what = RELAYOUT_PART;
	return EXIT_OK;
}

static int plan_entries(struct relayout_plan *plan, struct error *error)
{
	const struct model *model = plan->model;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files; f++)
		plan->n_entries += model->files[f].n_tensors;
	struct relayout_entry *entry = plan->entries = calloc(plan->n_entries + 1, sizeof *plan->entries);
	if (entry == NULL)
		return fail_memory(error);
	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++) {
			code = plan_entry(plan, entry, &model->files[f], &model->files[f].tensors[t], error);
			plan->n_held += entry->name != NULL && entry->quantized.parts[LAYOUT_CODES] == entry->source &&
			                entry->what != RELAYOUT_DECODED;
			entry++;
		}
	return code;
}

/* Whether the output is one file, beside which nothing is written. */
static bool makes_file(const struct relayout_settings *settings)
{
	return file_format_named(settings->out) == settings->layout->file_format;
}

/* Whether two forms are the same tensors. */
static bool same_parts(const struct layout_form *a, const struct layout_form *b)
{
	for (int i = 0; i < N_LAYOUT_PARTS; i++) {
		const struct layout_part_form *x = &a->parts[i], *y = &b->parts[i];

		if (i == LAYOUT_INPUT_SCALE || i == LAYOUT_PRE_QUANT_SCALE)
			continue;
		if ((x->append == NULL) != (y->append == NULL) || (x->append != NULL && strcmp(x->append, y->append) != 0))
			return false;
	}
	return true;
}

/* Whether the output has the tensors of the source, in the layout that its configuration names: then it says what it
   said. */
static bool is_unchanged(const struct relayout_plan *plan, const json_t *old)
{
	const char *method = json_string_value(json_object_get(old, "quant_method"));

	if (method == NULL || plan->settings->layout->method == NULL || strcmp(method, plan->settings->layout->method) != 0)
		return false;
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct relayout_entry *entry = &plan->entries[i];

		if (entry->what == RELAYOUT_DECODED ||
		    (entry->what == RELAYOUT_MOVED && (!same_parts(entry->choice.form, entry->quantized.choice.form) ||
		                                       entry->choice.layout->order != entry->quantized.choice.layout->order)))
			return false;
	}
	return true;
}

/* Whether scales of the cache have Quark's names. */
static bool has_output_scales(const struct model *model)
{
	for (size_t i = 0; i < model->n_tensors; i++)
		if (suffix_stem(model->by_name[i].tensor->name, ".output_scale") != 0)
			return true;
	return false;
}

/* The format of activations that a section names, if the output's can say so, too. */
static enum mxfp_format kept_activations(const struct relayout_plan *plan, const json_t *section)
{
	const enum mxfp_format activations = layout_config_activations(section);

	for (size_t i = 0; i < plan->n_entries && activations != OPTION_FORMAT_NONE; i++) {
		const struct relayout_entry *entry = &plan->entries[i];
		const struct layout_form *form = entry->what == RELAYOUT_MOVED ? entry->choice.form : entry->quantized.choice.form;

		if (entry->what == RELAYOUT_DECODED || entry->name == NULL || entry->quantized.parts[LAYOUT_CODES] != entry->source)
			continue;
		return (form->activations >> activations & 1) != 0 ? activations : OPTION_FORMAT_NONE;
	}
	return activations;
}

/* Whether the output has tensor scales of activations, which say that they are quantized. */
static bool keeps_input_scales(const struct relayout_plan *plan)
{
	for (size_t i = 0; i < plan->n_entries; i++)
		if (plan->entries[i].parts[LAYOUT_INPUT_SCALE].name != NULL ||
		    (plan->entries[i].what == RELAYOUT_COPIED && plan->entries[i].name != NULL &&
		     plan->entries[i].quantized.parts[LAYOUT_INPUT_SCALE] == plan->entries[i].source))
			return true;
	return false;
}

/* Whether a section of compressed-tensors or Quark says that activations are quantized; what ModelOpt says is in the name of
   its algorithm and in scales. */
static bool says_activations(const json_t *section)
{
	json_t *groups = json_object_get(section, "config_groups");

	for (void *at = json_object_iter(groups); at != NULL; at = json_object_iter_next(groups, at))
		if (json_object_size(json_object_get(json_object_iter_value(at), "input_activations")) > 0)
			return true;
	return json_object_size(json_object_get(json_object_get(section, "global_quant_config"), "input_tensors")) > 0;
}

/* Finds how the source's cache of keys and values is quantized, which config.json of the output says, too. */
static int plan_cache(struct relayout_plan *plan, struct error *error)
{
	const struct layout *layout = plan->settings->layout;
	json_t *config = NULL, *second = NULL;
	char *path = NULL;
	bool said = false;
	int code = model_config_copy(plan->model, &config, error);

	if (code == EXIT_OK)
		code = model_read_member(plan->model, layout_modelopt.second_name, &path, &second, error);
	json_prepare();
	if (code == EXIT_OK)
		plan->cache = layout_cache_read(meaning_section(config), second, &said);
	if (plan->cache != NULL && (makes_file(plan->settings) || layout->holds_cache == NULL ||
	                            !layout->holds_cache(plan->cache) ||
	                            (!layout->output_scales && has_output_scales(plan->model)))) {
		json_decref(plan->cache);
		plan->cache = NULL;
	}
	plan->cache_lost = said && plan->cache == NULL &&
	                   (makes_file(plan->settings) || !is_unchanged(plan, meaning_section(config)));
	plan->activations_lost = says_activations(meaning_section(config)) && plan->n_held > 0 && !makes_file(plan->settings) &&
	                         !is_unchanged(plan, meaning_section(config)) && !keeps_input_scales(plan) &&
	                         kept_activations(plan, meaning_section(config)) == OPTION_FORMAT_NONE;
	free(path);
	json_decref(second);
	json_decref(config);
	return code == EXIT_OK && json_out_of_memory() ? fail_memory(error) : code;
}

int relayout_plan(struct relayout_plan *plan, const struct relayout_settings *settings, const struct model *model,
                  struct error *error)
{
	*plan = (struct relayout_plan){.settings = settings, .model = model};
	int code = model_output_check_source(model, settings->out, error);

	/* One array can go from .npy to safetensors and back as it is; any other file would be only a copy, that says of a
	   quantized model that it is not. */
	if (code == EXIT_OK && model->n_files > 0 && model->files[0].format == settings->layout->file_format)
		code = quantized_check_any(model, error);
	if (code == EXIT_OK && !makes_file(settings))
		code = carry_list(&plan->carry, model, error);
	if (code == EXIT_OK)
		code = plan_entries(plan, error);
	if (code == EXIT_OK && model->n_files > 0 && model->files[0].format == &file_safetensors)
		code = plan_cache(plan, error);
	if (code != EXIT_OK || plan->n_held > 0 || plan->carry.n == 0)
		return code;
	plan->carried = carry_text(&plan->carry);
	return plan->carried == NULL ? fail_memory(error) : EXIT_OK;
}

void relayout_plan_free(struct relayout_plan *plan)
{
	carry_free(&plan->carry);
	json_decref(plan->cache);
	free(plan->entries);
	arena_free(&plan->arena);
	*plan = (struct relayout_plan){0};
}

static json_t *make_section(const struct relayout_plan *plan, enum mxfp_format activations)
{
	struct layout_facts facts;

	layout_facts_begin(&facts, plan->settings->layout, activations, plan->model);
	facts.cache = plan->cache;
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct relayout_entry *entry = &plan->entries[i];
		const struct quantized *q = &entry->quantized;
		const bool copied = entry->what == RELAYOUT_COPIED;

		if (entry->what == RELAYOUT_DECODED || (copied && entry->name == NULL))
			layout_facts_keep(&facts, &entry->parts[0]);
		else if (q->parts[LAYOUT_CODES] == entry->source)
			layout_facts_add(&facts, entry->what == RELAYOUT_MOVED ? &entry->choice : &q->choice, entry->name);
		facts.pre_quant_scales |= copied && entry->name != NULL && q->parts[LAYOUT_PRE_QUANT_SCALE] == entry->source;
	}
	facts.input_scales = keeps_input_scales(plan);
	json_t *section = layout_config(&facts);
	layout_facts_free(&facts);
	return section;
}

/* Returns the layout's configuration, with what `mxfp quantize` noted in the source's. */
static json_t *new_config(const struct relayout_plan *plan, const json_t *before)
{
	static const char cache[] = "kv_cache_scheme";
	const json_t *old = meaning_section(before);
	json_t *config = make_section(plan, kept_activations(plan, old));

	if (config == NULL)
		return NULL;
	if (is_unchanged(plan, old)) {
		json_t *kept = json_deep_copy(old), *scheme = json_object_get(config, cache);

		/* It may stand in hf_quant_config.json alone. */
		if (!json_is_object(json_object_get(kept, cache)) && scheme != NULL)
			json_object_set(kept, cache, scheme);
		json_decref(config);
		config = kept;
	}
	json_t *own = json_deep_copy(json_object_get(old, "mxfp"));
	own = own != NULL ? own : json_object();
	json_object_del(own, DIRECTORY_CARRIED);
	if (plan->carry.n > 0)
		json_object_set_new(own, DIRECTORY_CARRIED, carry_facts(&plan->carry));
	json_object_set_new(config, "mxfp", own);
	return config;
}

/* Makes config.json of the output; *config is NULL if it has none. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
static int make_config(const struct relayout_plan *plan, json_t **config, struct error *error)
{
	int code = model_config_copy(plan->model, config, error);

	if (code != EXIT_OK)
		return code;
	json_prepare();
	if (*config == NULL)
		*config = json_object();
	json_t *quantization = new_config(plan, *config);
	meaning_remove_sections(*config);
	if (quantization != NULL)
		json_object_set_new(*config, "quantization_config", quantization);
	for (size_t i = 0; i < plan->n_entries; i++)
		if (plan->entries[i].what == RELAYOUT_DECODED)
			model_config_widen(*config, plan->settings->to);
	if (!json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}

enum { SCALE_TEXT = 32 };

/* The metadata key that only loaders of safetensors want. */
static const char format_key[] = "format";

struct running {
	const struct relayout_plan *plan;
	struct model_output output;
	struct transfer transfer;
	struct arena arena; /* metadata of the current file */
};

/* Files of the source that become one of the output, and their entries. */
struct range {
	const struct file *files;
	size_t n_files;
	const struct relayout_entry *entries;
	size_t n_entries;
};

static int list_parts(struct writer *writer, const struct range *range, struct error *error)
{
	writer->tensors = calloc(range->n_entries * N_LAYOUT_PARTS + 1, sizeof *writer->tensors);
	if (writer->tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < range->n_entries; i++)
		for (int part = 0; part < N_LAYOUT_PARTS; part++)
			if (range->entries[i].parts[part].name != NULL)
				writer->tensors[writer->n_tensors++] = range->entries[i].parts[part];
	return EXIT_OK;
}

static int add_pair(struct running *r, const char *prefix, const char *name, const char *value, struct error *error)
{
	struct writer *writer = &r->transfer.writer;
	size_t size = strlen(prefix) + strlen(name) + 1;
	char *key = arena_take(&r->arena, size);
	const char *copy = arena_string(&r->arena, value);

	if (key == NULL || copy == NULL)
		return fail_memory(error);
	snprintf(key, size, "%s%s", prefix, name);
	writer->metadata[writer->n_metadata++] = (struct metadata){key, copy};
	return EXIT_OK;
}

/* Adds metadata about a tensor: the length of its rows if they are padded, whether it was transposed, and the numbers whose
   reciprocals its scales are. */
static int add_tensor(struct running *r, const struct relayout_entry *entry, struct error *error)
{
	const struct quantized *q = &entry->quantized;
	const struct layout_choice *choice = entry->what == RELAYOUT_MOVED ? &entry->choice : &q->choice;
	bool held = entry->name != NULL && q->parts[LAYOUT_CODES] == entry->source && entry->what != RELAYOUT_DECODED;
	char text[SCALE_TEXT];
	int code = EXIT_OK;

	if (held && q->cols % layout_unit(choice) != 0) {
		snprintf(text, sizeof text, "%" PRIu64, q->cols);
		code = add_pair(r, LAYOUT_COLS, entry->name, text, error);
	}
	if (code == EXIT_OK && held && q->transposed)
		code = add_pair(r, LAYOUT_TRANSPOSED, entry->name, "yes", error);
	for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK; part++) {
		if (entry->scales[part].how != RELAYOUT_INVERSE_ROUNDED)
			continue;
		snprintf(text, sizeof text, "%a", (double)entry->scales[part].was);
		code = add_pair(r, RELAYOUT_INVERSE, entry->parts[part].name, text, error);
	}
	return code;
}

/* Whether a pair of the source is dropped: it is not for such files, is written anew, is about a scale that no longer
   exists, or is ours though nothing quantized is left. */
static bool is_outdated(const struct running *r, const struct range *range, const struct metadata *pair)
{
	const size_t prefix = strlen(RELAYOUT_INVERSE);

	if (r->transfer.writer.format != &file_safetensors && strcmp(pair->key, format_key) == 0)
		return true;
	if (r->plan->n_held == 0 && metadata_is_own(pair->key))
		return true;
	if (strncmp(pair->key, LAYOUT_COLS, strlen(LAYOUT_COLS)) == 0 ||
	    strncmp(pair->key, LAYOUT_TRANSPOSED, strlen(LAYOUT_TRANSPOSED)) == 0)
		return true;
	if (strncmp(pair->key, RELAYOUT_INVERSE, prefix) != 0)
		return false;
	const struct tensor *scale = file_find(&range->files[0], pair->key + prefix);
	return scale == NULL || range->entries[scale - range->files[0].tensors].what != RELAYOUT_COPIED;
}

/* Makes the metadata: that of the first file, and that about tensors. */
static int make_metadata(struct running *r, const struct range *range, struct error *error)
{
	const struct file *file = &range->files[0];
	struct writer *writer = &r->transfer.writer;
	int code = EXIT_OK;

	writer->metadata = calloc(file->n_metadata + 4 * range->n_entries + 4, sizeof *writer->metadata);
	if (writer->metadata == NULL)
		return fail_memory(error);
	if (writer->format == &file_safetensors && file_metadata(file, format_key) == NULL)
		writer->metadata[writer->n_metadata++] = (struct metadata){format_key, "pt"};
	for (size_t i = 0; i < file->n_metadata; i++)
		if (!is_outdated(r, range, &file->metadata[i]))
			writer->metadata[writer->n_metadata++] = file->metadata[i];
	/* Unless one was copied. By it --force knows whose the file is. */
	if (writer->format == &file_safetensors && (r->plan->n_held == 0 || file_metadata(file, METADATA_VERSION) == NULL))
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_VERSION, mxfp_version()};
	if (r->plan->carried != NULL)
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_CARRIED, r->plan->carried};
	for (size_t i = 0; i < range->n_entries && code == EXIT_OK; i++)
		code = add_tensor(r, &range->entries[i], error);
	return code;
}

/* The state of moving a tensor. */
struct moving {
	const struct quantized *quantized;
	struct layout_target target;
};

static struct mxfp_blocks blocks_of(const struct moving *m, const struct transfer_piece *piece)
{
	return quantized_blocks(m->quantized, &piece->piece, piece->bytes, piece->bytes + PIECE_ELEMENTS);
}

static int read_piece(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct moving *m = context;
	const struct mxfp_blocks blocks = blocks_of(m, piece);

	if (m->target.bands != NULL)
		layout_bands_announce(m->target.bands, &piece->piece);
	return quantized_read(m->quantized, &piece->piece, &blocks, n_bytes, error);
}

static int write_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                       struct error *error)
{
	const struct moving *m = context;
	const struct mxfp_blocks blocks = blocks_of(m, piece);

	(void)counts;
	return layout_write(&m->target, &piece->piece, &blocks, error);
}

static int write_scales(struct writer *writer, const struct relayout_entry *entry, struct error *error)
{
	int code = EXIT_OK;

	for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK; part++) {
		float scale = entry->scales[part].is;

		if (entry->scales[part].how == RELAYOUT_ABSENT || entry->scales[part].how == RELAYOUT_LEFT_OUT)
			continue;
		dtype_swap(DTYPE_F32, &scale, sizeof scale);
		code = writer_write(writer, writer_find(writer, entry->parts[part].name), 0, &scale, sizeof scale, error);
	}
	return code;
}

static int move(struct running *r, const struct relayout_entry *entry, struct error *error)
{
	struct quantized in_bands = entry->quantized, *q = &in_bands;
	const struct tensor whole = {.name = entry->name, .rank = q->shape.rank, .shape = q->shape.dims};
	struct moving m = {q, layout_target(&entry->choice, &whole, entry->parts, &r->transfer.writer)};
	const struct transfer_job job = {
		.rows = q->rows,
		.cols = q->cols,
		.read = read_piece,
		.work = write_piece,
		.context = &m,
	};
	layout_read_in_bands(q);
	layout_write_in_bands(&m.target, 0);
	int code = transfer_run(&r->transfer, &job, error);
	layout_bands_free(q->bands);
	layout_bands_free(m.target.bands);
	return code != EXIT_OK ? code : write_scales(&r->transfer.writer, entry, error);
}

/* The state of writing a file. */
struct writing {
	struct running *r;
	const struct range *range;
};

static int write_entry(const void *context, size_t i, struct journal_record *record, struct error *error)
{
	const struct writing *w = context;
	const struct relayout_entry *entry = &w->range->entries[i];
	struct transfer *transfer = &w->r->transfer;
	const struct decode_target target = {
		.name = entry->name != NULL ? entry->name : entry->source->name,
		.overflow = OPTION_CHOICE_NONE,
		.remedy = "mxfp dequantize has --overflow",
		.counts = &record->counts,
	};

	transfer->file = entry->file;
	switch (entry->what) {
	case RELAYOUT_COPIED:
		return transfer_copy(transfer, entry->source, error);
	case RELAYOUT_MOVED:
		return move(w->r, entry, error);
	case RELAYOUT_DECODED:
		if (entry->name == NULL)
			return decode_numbers(transfer, entry->source, &target, error);
		return decode_tensor(transfer, &entry->quantized, &target, error);
	case RELAYOUT_PART:
		break;
	}
	return EXIT_OK;
}

static void sizes_of(const void *context, size_t i, uint64_t *read, uint64_t *written)
{
	const struct writing *w = context;
	const struct relayout_entry *entry = &w->range->entries[i];
	uint64_t size;

	*read = entry->source->size;
	*written = 0;
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (entry->parts[part].name != NULL && tensor_size(&entry->parts[part], &size))
			*written += size;
}

static int write_data(struct running *r, const struct range *range, struct resumed *resumed, struct error *error)
{
	const struct writing w = {r, range};
	const struct resumed_job job = {write_entry, sizes_of, &w};
	struct writer *writer = &r->transfer.writer;
	int code = list_parts(writer, range, error);

	if (code == EXIT_OK)
		code = make_metadata(r, range, error);
	if (code == EXIT_OK)
		code = resumed_write(resumed, &r->transfer, &job, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	return code == EXIT_OK ? model_output_add(&r->output, &range->files[0], writer, error) : code;
}

static int write_file(struct running *r, const struct range *range, struct error *error)
{
	struct writer *writer = &r->transfer.writer;
	struct resumed resumed;
	int code = resumed_begin(&resumed, &r->output.partial, model_output_name(&r->output, &range->files[0]),
	                         range->n_entries, error);

	*writer = (struct writer){
		.path = resumed.path,
		.fd = -1,
		.format = r->plan->settings->layout->file_format,
		.source = &range->files[0],
	};
	if (code == EXIT_OK)
		code = write_data(r, range, &resumed, error);
	writer_abandon(writer);
	free(writer->tensors);
	free(writer->metadata);
	arena_free(&r->arena);
	resumed_end(&resumed);
	return code;
}

static int write_files(struct running *r, struct error *error)
{
	const struct model *model = r->plan->model;
	struct range range = {model->files, model->n_files, r->plan->entries, r->plan->n_entries};
	int code = EXIT_OK;

	if (!r->output.partial.output.is_directory)
		return write_file(r, &range, error);
	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++) {
		range.files = &model->files[f];
		range.n_files = 1;
		range.n_entries = model->files[f].n_tensors;
		code = write_file(r, &range, error);
		range.entries += range.n_entries;
	}
	return code;
}

static int begin(struct running *r, struct error *error)
{
	const struct relayout_settings *s = r->plan->settings;

	json_prepare();
	json_t *fingerprint = json_pack("{s:s, s:s, s:s, s:s}", "command", "relayout", "--layout", s->layout->name, "--to",
	                                s->to == OPTION_FORMAT_NONE ? "nothing" : mxfp_format_get_info(s->to)->name,
	                                "--allow-rounding", s->allow_rounding ? "yes" : "no");
	carry_fingerprint(&r->plan->carry, fingerprint);
	int code = json_out_of_memory() ? fail_memory(error)
	                                : model_output_begin(&r->output, r->plan->model,
	                                                     &(struct partial_target){s->out, makes_file(s), s->force, s->resume, false},
	                                                     fingerprint, error);
	json_decref(fingerprint);
	return code;
}

/* Writes what has not been written. */
static int write_all(struct running *r, struct error *error)
{
	const struct relayout_plan *plan = r->plan;
	int code = transfer_begin(&r->transfer, error);

	progress_start(&r->transfer.progress, "moving", plan->model->data_bytes, plan->settings->quiet);
	if (code == EXIT_OK)
		code = write_files(r, error);
	progress_end(&r->transfer.progress);
	transfer_end(&r->transfer);
	if (code == EXIT_OK && r->output.partial.output.is_directory)
		code = carry_copy(&plan->carry, plan->model->directory, r->output.partial.output.temporary, error);
	return code;
}

int relayout_run(const struct relayout_plan *plan, struct error *error)
{
	struct running r = {.plan = plan, .transfer.threads = plan->settings->threads};
	json_t *config = NULL;
	int code = begin(&r, error);

	if (code == EXIT_OK)
		code = make_config(plan, &config, error);
	if (code == EXIT_OK && !r.output.partial.appeared)
		code = write_all(&r, error);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, config, error);
	code = model_output_end(&r.output, code, error);
	json_decref(config);
	return code;
}

/* Returns "codes as they are", or how they lie now. */
static const char *codes_text(const struct relayout_entry *entry)
{
	return entry->quantized.choice.layout->order->write == entry->choice.layout->order->write ? "as they are"
	                                                                                          : "reordered";
}

static void scale_text(char *text, size_t size, const struct relayout_scale *scale)
{
	switch (scale->how) {
	case RELAYOUT_ABSENT:
		snprintf(text, size, "-");
		break;
	case RELAYOUT_SAME:
		snprintf(text, size, "as it is");
		break;
	case RELAYOUT_INVERSE_EXACT:
		snprintf(text, size, "1/x, exact");
		break;
	case RELAYOUT_INVERSE_NOTED:
		snprintf(text, size, "1/x, as noted");
		break;
	case RELAYOUT_INVERSE_ROUNDED:
		snprintf(text, size, "1/x, rounded: %.1e", scale->change);
		break;
	case RELAYOUT_LEFT_OUT:
		snprintf(text, size, "left out");
		break;
	}
}

static void add_row(struct table *table, const struct relayout_plan *plan, const struct relayout_entry *entry)
{
	const struct tensor whole = {.rank = entry->quantized.shape.rank, .shape = entry->quantized.shape.dims};
	bool whole_known = entry->name != NULL;
	char shape[SHAPE_TEXT], scale[64], input[64];

	scale_text(scale, sizeof scale, &entry->scales[LAYOUT_TENSOR_SCALE]);
	scale_text(input, sizeof input, &entry->scales[LAYOUT_INPUT_SCALE]);
	table_cell(table, "%s", whole_known ? entry->name : entry->source->name);
	table_cell(table, "%s %s", whole_known ? mxfp_format_get_info(entry->quantized.choice.form->format)->name
	                                       : dtype_info(entry->source->dtype)->name,
	           shape_text(whole_known ? &whole : entry->source, shape));
	if (entry->what == RELAYOUT_DECODED)
		table_cell(table, "decoded to %s", mxfp_format_get_info(plan->settings->to)->name);
	else
		table_cell(table, "%s", entry->what == RELAYOUT_MOVED ? codes_text(entry) : "as they are");
	table_cell(table, "%s", scale);
	table_cell(table, "%s", input);
}

/* Whether a tensor has a row of the table: parts have none, because their codes have one. */
static bool has_row(const struct relayout_entry *entry)
{
	return entry->what != RELAYOUT_PART &&
	       (entry->name == NULL || entry->quantized.parts[LAYOUT_CODES] == entry->source);
}

struct totals {
	size_t copied, moved, decoded, rounded, left_out;
	double change; /* the largest of those that are rounded */
};

static struct totals sum_up(const struct relayout_plan *plan)
{
	struct totals totals = {0};

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct relayout_entry *entry = &plan->entries[i];

		totals.copied += has_row(entry) && entry->what == RELAYOUT_COPIED;
		totals.moved += entry->what == RELAYOUT_MOVED;
		totals.decoded += entry->what == RELAYOUT_DECODED;
		for (int part = 0; part < N_LAYOUT_PARTS; part++) {
			const struct relayout_scale *scale = &entry->scales[part];

			totals.left_out += scale->how == RELAYOUT_LEFT_OUT;
			totals.rounded += scale->how == RELAYOUT_INVERSE_ROUNDED;
			if (scale->how == RELAYOUT_INVERSE_ROUNDED && scale->change > totals.change)
				totals.change = scale->change;
		}
	}
	return totals;
}

static void print_totals(const struct relayout_plan *plan)
{
	const struct totals totals = sum_up(plan);

	printf("%zu tensors brought into layout %s without a change to codes and block scales, %zu copied, %zu decoded\n",
	       totals.moved, plan->settings->layout->name, totals.copied, totals.decoded);
	if (totals.rounded > 0)
		printf("%zu scales were rounded, which changes numbers by at most %.1e of themselves\n", totals.rounded,
		       totals.change);
	if (totals.left_out > 0)
		printf("%zu scales of activations were left out: the layout has no place for them\n", totals.left_out);
	if (plan->activations_lost)
		printf("how activations are quantized was left out: layout %s does not say it of such weights\n",
		       plan->settings->layout->name);
	if (plan->cache_lost)
		printf("kv_cache_scheme, how keys and values are quantized, was left out: %s%s has no place for it; their scales were "
		       "copied\n", makes_file(plan->settings) ? "a file alone" : "layout ",
		       makes_file(plan->settings) ? "" : plan->settings->layout->name);
	carry_print(&plan->carry, stdout);
	if (makes_file(plan->settings) && plan->n_held > 0 && plan->settings->layout->config != NULL)
		puts(model_output_alone);
	printf("written to ");
	print_printable(stdout, plan->settings->out);
	putchar('\n');
}

static json_t *head_facts(const struct relayout_plan *plan)
{
	const struct totals totals = sum_up(plan);
	const struct relayout_settings *s = plan->settings;

	return json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:s?, s:o}", "input", facts_text(s->in), "output",
	                 facts_text(s->out), "layout", s->layout->name, "tensors_moved", (json_int_t)totals.moved,
	                 "tensors_copied", (json_int_t)totals.copied, "tensors_decoded", (json_int_t)totals.decoded,
	                 "scales_rounded", (json_int_t)totals.rounded, "largest_change", totals.change, "scales_left_out",
	                 (json_int_t)totals.left_out, "kv_cache_scheme",
	                 plan->cache_lost      ? "left out"
	                 : plan->cache != NULL ? "kept"
	                                       : NULL,
	                 "copied", carry_facts(&plan->carry));
}

/* null for a scale that there is none of. */
static json_t *scale_facts(const struct relayout_scale *scale)
{
	static const char *const names[] = {
		[RELAYOUT_SAME] = "same",
		[RELAYOUT_INVERSE_EXACT] = "reciprocal",
		[RELAYOUT_INVERSE_NOTED] = "reciprocal, as noted",
		[RELAYOUT_INVERSE_ROUNDED] = "reciprocal, rounded",
		[RELAYOUT_LEFT_OUT] = "left out",
	};

	if (scale->how == RELAYOUT_ABSENT)
		return json_null();
	json_t *facts = json_pack("{s:s}", "became", names[scale->how]);
	if (scale->how == RELAYOUT_LEFT_OUT)
		return facts;
	return facts_update(facts, json_pack("{s:o, s:o, s:f}", "was", facts_number((double)scale->was), "is",
	                                     facts_number((double)scale->is), "change", scale->change));
}

static json_t *entry_facts(const struct relayout_plan *plan, const struct relayout_entry *entry)
{
	static const char *const names[] = {
		[RELAYOUT_COPIED] = "copied", [RELAYOUT_MOVED] = "moved", [RELAYOUT_DECODED] = "decoded",
	};
	const struct tensor whole = original(entry);
	const bool held = entry->name != NULL;

	return json_pack("{s:s, s:s, s:o, s:s, s:s*, s:o, s:o}", "name", held ? entry->name : entry->source->name,
	                 held ? "weights" : "dtype",
	                 held ? mxfp_format_get_info(entry->quantized.choice.form->format)->name
	                      : dtype_info(entry->source->dtype)->name,
	                 "shape", shape_facts(held ? &whole : entry->source), "became", names[entry->what], "to",
	                 entry->what == RELAYOUT_DECODED ? mxfp_format_get_info(plan->settings->to)->name : NULL,
	                 "tensor_scale", scale_facts(&entry->scales[LAYOUT_TENSOR_SCALE]), "input_scale",
	                 scale_facts(&entry->scales[LAYOUT_INPUT_SCALE]));
}

/* One tensor at a time, for large models. */
static int print_json(const struct relayout_plan *plan, struct error *error)
{
	bool first = true;

	fputs("{\n\"summary\": ", stdout);
	int code = facts_print_part(stdout, head_facts(plan), JSON_INDENT(2), error);

	fputs(",\n\"tensors\": [", stdout);
	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		if (!has_row(&plan->entries[i]))
			continue;
		fputs(first ? "\n" : ",\n", stdout);
		first = false;
		code = facts_print_part(stdout, entry_facts(plan, &plan->entries[i]), 0, error);
	}
	fputs("\n]\n}\n", stdout);
	return code;
}

int relayout_summary(const struct relayout_plan *plan, struct error *error)
{
	static const char *const heading[] = {"tensor", "held as", "codes", "tensor scale", "input scale"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 5};

	if (plan->settings->json)
		return print_json(plan, error);
	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (size_t i = 0; i < plan->n_entries; i++)
		if (has_row(&plan->entries[i]))
			add_row(&table, plan, &plan->entries[i]);
	int code = table_print(&table, stdout, error);
	if (code == EXIT_OK)
		print_totals(plan);
	return code;
}
