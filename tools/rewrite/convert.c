/* SPDX-License-Identifier: MIT */
/* Decides what becomes of each tensor in another layout or format, and makes config.json of it. */
#include "config.h"

#include "rewrite/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "io/directory.h"
#include "io/file_safetensors.h"
#include "model/layout_cache.h"
#include "model/layout_config.h"
#include "model/meaning.h"
#include "model/model_output.h"
#include "model/scaled.h"
#include "model/section.h"
#include "rewrite/decode.h"

static const char ignore_option[] = "--ignore";

bool convert_makes_file(const struct convert_settings *settings)
{
	return file_format_named(settings->out) == settings->layout->file_format;
}

uint64_t convert_blocks_of(const struct convert_entry *entry)
{
	const unsigned from = mxfp_format_get_info(entry->quantized.choice.form->format)->block_length;
	const unsigned to = mxfp_format_get_info(entry->choice.form->format)->block_length;
	const uint64_t length = from > to ? from : to;

	return entry->quantized.rows * ((entry->quantized.cols + length - 1) / length);
}

/* Whether a tensor is to get another format. */
static bool is_asked(const struct convert_plan *plan, const struct convert_entry *entry)
{
	return plan->settings->to != OPTION_FORMAT_NONE && plan->settings->to != entry->quantized.choice.form->format && !entry->ignored;
}

/* Whether it gets one. */
static bool is_changed(const struct convert_plan *plan, const struct convert_entry *entry)
{
	return is_asked(plan, entry) && !entry->quantized.choice.form->sparse;
}

/* Returns the form that a tensor gets. Only one layout has sparse forms, so sparse tensors stay or are refused. */
static const struct layout_form *target_form(const struct convert_plan *plan, const struct convert_entry *entry)
{
	const struct layout_form *own = entry->quantized.choice.form;

	if (is_asked(plan, entry))
		return own->sparse ? NULL : layout_form(plan->settings->layout, plan->settings->to, false);
	return layout_form(plan->settings->layout, own->format, own->sparse);
}

static int fail_not_held(const struct convert_plan *plan, const struct convert_entry *entry, const struct file *file,
                         const char *why, struct error *error)
{
	const struct layout_form *form = entry->quantized.choice.form;
	const char *sparse = form->sparse ? "sparse " : "", *format = mxfp_format_get_info(form->format)->name;

	if (why != NULL)
		return fail_tensor(error, file->path, entry->source->name, "layout %s does not hold it: %s; --decode-rest f32 decodes "
		                   "it", plan->settings->layout->name, why);
	if (form->sparse && is_asked(plan, entry))
		return fail_tensor(error, file->path, entry->source->name, "is sparse %s, which --to does not change; --decode-rest f32 "
		                   "decodes it", format);
	return fail_tensor(error, file->path, entry->source->name, "is %s%s, which layout %s does not hold; --decode-rest f32 "
	                   "decodes it, or give another --layout", sparse, format, plan->settings->layout->name);
}

/* Finds the number that, by the metadata, a tensor scale is the rounded reciprocal of; false if none is noted. */
static bool noted_inverse(const struct file *file, const char *part, float scale, float *noted)
{
	size_t size = sizeof CONVERT_INVERSE + strlen(part);
	char *key = malloc(size), *end;

	if (key == NULL)
		return false;
	snprintf(key, size, CONVERT_INVERSE "%s", part);
	const char *text = file_metadata(file, key);
	free(key);
	if (text == NULL)
		return false;
	*noted = strtof(text, &end);
	return end != text && *end == '\0' && 1 / *noted == scale;
}

static int invert(struct convert_scale *scale, const struct convert_plan *plan, const struct tensor *part,
                  const struct file *file, struct error *error)
{
	scale->is = 1 / scale->was;
	/* Both are binary32 numbers, so their product is exact in binary64. */
	scale->change = fabs((double)scale->is * (double)scale->was - 1);
	if (!isfinite(scale->is) || !isfinite(scale->was) || scale->is == 0)
		return fail_tensor(error, file->path, part->name, "is %g, whose reciprocal, which layout %s wants, is not an F32 "
		                   "number", (double)scale->was, plan->settings->layout->name);
	if (scale->change == 0)
		scale->how = CONVERT_INVERSE_EXACT;
	else if (noted_inverse(file, part->name, scale->was, &scale->is))
		scale->how = CONVERT_INVERSE_NOTED;
	else
		scale->how = CONVERT_INVERSE_ROUNDED;
	if (scale->how != CONVERT_INVERSE_ROUNDED || plan->settings->allow_rounding)
		return EXIT_OK;
	return fail_tensor(error, file->path, part->name, "is %.9g, and its reciprocal, which layout %s wants, has to be "
	                   "rounded: that changes numbers by %.1e of themselves; --allow-rounding accepts it, and notes "
	                   "the scale for the way back", (double)scale->was, plan->settings->layout->name, scale->change);
}

/* Reads a tensor scale and decides what becomes of it. */
static int plan_scale(struct convert_plan *plan, struct convert_entry *entry, enum layout_part part,
                      struct error *error)
{
	const struct tensor *source = entry->quantized.parts[part];
	const struct file *file = entry->quantized.files[part];
	struct convert_scale *scale = &entry->scales[part];

	if (source->dtype != DTYPE_F32 || tensor_elements(source) != 1)
		return fail_tensor(error, file->path, source->name, "is not one F32 number");
	int code = file_read(file, source, 0, &scale->was, sizeof scale->was, error);
	dtype_swap(DTYPE_F32, &scale->was, sizeof scale->was);
	if (code != EXIT_OK)
		return code;
	scale->is = scale->was;
	scale->how = CONVERT_SAME;
	if (entry->quantized.choice.layout->divides == entry->choice.layout->divides)
		return EXIT_OK;
	return invert(scale, plan, source, file, error);
}

/* Whether the layout can hold the tensor's input scale: not if it has no tensor scale, and so no convention for one. */
static bool holds_input_scale(const struct convert_entry *entry)
{
	bool fits;

	/* MX activations have none. */
	if (entry->what == CONVERT_CHANGED && !mxfp_format_get_info(entry->choice.form->format)->tensor_scale)
		return false;
	if (!mxfp_format_get_info(entry->choice.form->format)->tensor_scale &&
	    entry->choice.layout->divides != entry->quantized.choice.layout->divides)
		return false;
	char *name = layout_part_name(entry->choice.form, LAYOUT_INPUT_SCALE, entry->name, &fits);
	free(name);
	return fits;
}

static int plan_scales(struct convert_plan *plan, struct convert_entry *entry, struct error *error)
{
	int code = EXIT_OK;

	if (entry->what == CONVERT_CHANGED && layout_has(&entry->choice, LAYOUT_TENSOR_SCALE)) {
		entry->scales[LAYOUT_TENSOR_SCALE].how = CONVERT_MADE;
	} else if (layout_has(&entry->choice, LAYOUT_TENSOR_SCALE)) {
		entry->scales[LAYOUT_TENSOR_SCALE] = (struct convert_scale){CONVERT_SAME, 1, 1, 0};
		if (entry->quantized.parts[LAYOUT_TENSOR_SCALE] != NULL)
			code = plan_scale(plan, entry, LAYOUT_TENSOR_SCALE, error);
	}
	if (code != EXIT_OK || entry->quantized.parts[LAYOUT_INPUT_SCALE] == NULL)
		return code;
	if (holds_input_scale(entry))
		return plan_scale(plan, entry, LAYOUT_INPUT_SCALE, error);
	entry->scales[LAYOUT_INPUT_SCALE].how = CONVERT_LEFT_OUT;
	return EXIT_OK;
}

/* Returns the tensor as it was before it was quantized. */
static struct tensor original(const struct convert_entry *entry)
{
	return (struct tensor){
		.name = entry->name,
		.dtype = DTYPE_F32,
		.rank = entry->quantized.shape.rank,
		.shape = entry->quantized.shape.dims,
	};
}

static int plan_parts(struct convert_plan *plan, struct convert_entry *entry, const struct file *file,
                      struct error *error)
{
	const struct tensor whole = original(entry);
	const struct file *other;

	for (int i = 0; i < N_LAYOUT_PARTS; i++) {
		enum layout_part part = (enum layout_part)i;
		enum convert_how how = entry->scales[part].how;
		bool carried = part == LAYOUT_INPUT_SCALE && how != CONVERT_ABSENT && how != CONVERT_LEFT_OUT;

		if (!carried && !layout_has(&entry->choice, part))
			continue;
		if (!layout_describe(&entry->choice, part, &whole, &plan->arena, &entry->parts[part]))
			return fail_memory(error);
		const char *name = entry->parts[part].name;
		const struct tensor *there = model_find(plan->model, name, &other);
		bool own = there == NULL;
		own |= there == entry->source;
		for (int k = 0; k < N_LAYOUT_PARTS; k++)
			own |= there == entry->quantized.parts[k];
		if (!own)
			return fail_tensor(error, file->path, entry->source->name, "in layout %s it needs the name '%s', which "
			                   "another tensor has", plan->settings->layout->name, name);
	}
	return EXIT_OK;
}

static int plan_decoded(struct convert_plan *plan, struct convert_entry *entry, struct error *error)
{
	uint64_t *shape = arena_take(&plan->arena, (entry->quantized.shape.rank + 1) * sizeof *shape);

	if (shape == NULL)
		return fail_memory(error);
	decode_shape(shape, &entry->quantized);
	entry->what = CONVERT_DECODED;
	entry->parts[0] = original(entry);
	entry->parts[0].dtype = decode_dtype(plan->settings->decode);
	entry->parts[0].shape = shape;
	return EXIT_OK;
}

/* NULL, or why the layout does not hold a tensor that it has a form for, as a phrase. Tensors without a config.json are
   no model for a loader: those are moved into every layout. */
static const char *refuses(const struct convert_plan *plan, const struct convert_entry *entry)
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

/* The tensor scale of what is changed is a number that can be divided by. */
static int check_factor(const struct convert_entry *entry, struct error *error)
{
	const struct quantized *q = &entry->quantized;
	const struct block_factor factor = {q->tensor_scale, q->choice.layout->divides};
	const struct tensor *part = q->parts[LAYOUT_TENSOR_SCALE];

	if (!mxfp_format_get_info(q->choice.form->format)->tensor_scale || part == NULL || block_factor_is_valid(&factor))
		return EXIT_OK;
	return fail_tensor(error, q->files[LAYOUT_TENSOR_SCALE]->path, part->name, "is %g, which is not a valid tensor scale; write the file again",
	                   (double)factor.scale);
}

/* NULL, or why blocks of the format cannot be those of the tensor, as a phrase. */
static const char *refuses_rows(const struct convert_entry *entry)
{
	const struct quantized *q = &entry->quantized;

	if (q->cols % layout_unit(&entry->choice) == 0 || q->cols % layout_unit(&q->choice) != 0)
		return NULL;
	return "its rows are not whole blocks of the format";
}

static int fail_each(const struct file *file, const struct tensor *tensor, struct error *error)
{
	return fail_tensor(error, file->path, tensor->name, "has a tensor scale for each of several matrices, for which no layout has a place "
	                   "where one tensor holds them; mxfp dequantize decodes it");
}

static int plan_codes(struct convert_plan *plan, struct convert_entry *entry, const struct file *file,
                      struct error *error)
{
	if (entry->quantized.n_scales > 1)
		return fail_each(file, entry->source, error);
	entry->what = is_changed(plan, entry) ? CONVERT_CHANGED : CONVERT_MOVED;
	entry->choice = (struct layout_choice){
		.layout = plan->settings->layout,
		.form = target_form(plan, entry),
		.sparsity = entry->quantized.choice.sparsity,
		.unscaled = entry->what == CONVERT_MOVED && entry->quantized.tensor_scale == 1,
	};
	const char *why = entry->choice.form != NULL ? refuses(plan, entry) : NULL;
	/* A layout that has no place for a tensor scale has blocks with the scale 1. */
	if (why != NULL && entry->what == CONVERT_CHANGED && mxfp_format_get_info(entry->choice.form->format)->tensor_scale) {
		entry->choice.unscaled = true;
		if (refuses(plan, entry) == NULL)
			why = NULL;
	}
	if (entry->choice.form != NULL && why == NULL && entry->what == CONVERT_CHANGED)
		why = refuses_rows(entry);
	if (entry->choice.form == NULL || why != NULL)
		return plan->settings->decode != OPTION_FORMAT_NONE ? plan_decoded(plan, entry, error)
		                                                : fail_not_held(plan, entry, file, why, error);
	int code = entry->what == CONVERT_CHANGED ? check_factor(entry, error) : EXIT_OK;
	if (code == EXIT_OK && entry->what == CONVERT_CHANGED) {
		entry->tally = arena_take(&plan->arena, sizeof *entry->tally);
		if (entry->tally == NULL)
			return fail_memory(error);
		*entry->tally = (struct convert_tally){0};
	}
	if (code == EXIT_OK)
		code = plan_scales(plan, entry, error);
	return code != EXIT_OK ? code : plan_parts(plan, entry, file, error);
}

static int plan_copied(const struct convert_plan *plan, struct convert_entry *entry, const struct file *file,
                       struct error *error)
{
	entry->parts[0] = *entry->source;
	if (plan->settings->layout->file_format == file->format || dtype_info(entry->source->dtype)->block_elements == 1)
		return EXIT_OK;
	if (entry->source->dtype == DTYPE_Q8_0 && plan->settings->decode != OPTION_FORMAT_NONE) {
		entry->what = CONVERT_DECODED;
		entry->parts[0].dtype = decode_dtype(plan->settings->decode);
		return EXIT_OK;
	}
	return fail_tensor(error, file->path, entry->source->name, "is %s, which %s files do not hold; %s--layout gguf "
	                   "does", dtype_info(entry->source->dtype)->name, plan->settings->layout->file_format->name,
	                   entry->source->dtype == DTYPE_Q8_0 ? "--decode-rest f32 decodes it, and " : "");
}

/* What is quantized with scales that are numbers is F32 by now, and each number a block of its own. */
static const struct layout_form form_of_numbers = {.format = MXFP_FORMAT_F32};
static const struct layout layout_of_numbers = {.name = "numbers", .order = &layout_rows};

static int plan_numbers(struct convert_plan *plan, struct convert_entry *entry, struct error *error)
{
	const struct tensor *tensor = entry->source;
	struct quantized *q = &entry->quantized;

	*q = (struct quantized){
		.choice = {.layout = &layout_of_numbers, .form = &form_of_numbers},
		.parts = {[LAYOUT_CODES] = tensor},
		.files = {[LAYOUT_CODES] = entry->file},
		.shape.rank = tensor->rank,
	};
	if (plan->settings->to == OPTION_FORMAT_NONE && scaled_of(tensor->decoder) == NULL)
		return fail_each(entry->file, tensor, error);
	if (tensor->rank > LAYOUT_RANK_MAX)
		return fail_tensor(error, entry->file->path, tensor->name, "has too many dimensions");
	memcpy(q->shape.dims, tensor->shape, tensor->rank * sizeof *tensor->shape);
	tensor_matrix(tensor, &q->rows, &q->cols);
	entry->name = tensor->name;
	if (patterns_match(&plan->ignored, entry->name))
		return fail_tensor(error, entry->file->path, tensor->name, "has scales that are numbers, which no layout that is written holds; take "
		                   "it out of --ignore");
	return plan_codes(plan, entry, entry->file, error);
}

static int plan_entry(struct convert_plan *plan, struct convert_entry *entry, const struct file *file,
                      const struct tensor *tensor, struct error *error)
{
	entry->source = tensor;
	entry->file = file;
	entry->what = CONVERT_COPIED;
	if (tensor->decoder != NULL)
		return plan_numbers(plan, entry, error);
	const struct tensor *codes = NULL;
	int code = quantized_owner(&entry->quantized, &entry->name, plan->model, tensor, &plan->arena, error);
	if (code == EXIT_OK && entry->name == NULL && plan->settings->to == OPTION_FORMAT_NONE)
		code = scaled_owner(&codes, plan->model, tensor, error);
	if (code != EXIT_OK)
		return code;
	if (codes != NULL)
		return fail_tensor(error, file->path, codes->name, "is %s with scales that are numbers, which layout %s does not hold; --to "
		                   "%s makes blocks of it, --decode-rest bf16 numbers", dtype_info(codes->dtype)->name, plan->settings->layout->name,
		                   codes->dtype == DTYPE_F8_E5M2 ? "mxfp8-e5m2" : "mxfp8-e4m3");
	entry->ignored = entry->name != NULL && patterns_match(&plan->ignored, entry->name);
	/* A tensor that is already in the layout is copied part by part, also in a form that is only read. */
	const struct layout_form *target = entry->name != NULL ? target_form(plan, entry) : NULL;
	if (entry->name == NULL || (entry->quantized.choice.layout == plan->settings->layout && !entry->quantized.repeated &&
	                            ((target == NULL && (plan->settings->to == OPTION_FORMAT_NONE || entry->ignored)) || target == entry->quantized.choice.form)))
		return plan_copied(plan, entry, file, error);
	if (entry->quantized.parts[LAYOUT_CODES] == tensor)
		return plan_codes(plan, entry, file, error);
	entry->what = CONVERT_PART;
	return EXIT_OK;
}

static int plan_entries(struct convert_plan *plan, struct error *error)
{
	const struct model *model = plan->model;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files; f++)
		plan->n_entries += model->files[f].n_tensors;
	struct convert_entry *entry = plan->entries = calloc(plan->n_entries + 1, sizeof *plan->entries);
	if (entry == NULL)
		return fail_memory(error);
	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++) {
			code = plan_entry(plan, entry, &model->files[f], &model->files[f].tensors[t], error);
			plan->n_held += entry->name != NULL && entry->quantized.parts[LAYOUT_CODES] == entry->source &&
			                entry->what != CONVERT_DECODED;
			entry++;
		}
	return code;
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
static bool is_unchanged(const struct convert_plan *plan, const json_t *old)
{
	const char *method = json_string_value(json_object_get(old, "quant_method"));

	if (method == NULL || plan->settings->layout->method == NULL || strcmp(method, plan->settings->layout->method) != 0)
		return false;
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct convert_entry *entry = &plan->entries[i];

		if (entry->what == CONVERT_DECODED || entry->what == CONVERT_CHANGED ||
		    (entry->what == CONVERT_MOVED && (entry->quantized.repeated || !same_parts(entry->choice.form, entry->quantized.choice.form) ||
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
static enum mxfp_format kept_activations(const struct convert_plan *plan, const json_t *section)
{
	const enum mxfp_format activations = layout_config_activations(section);

	for (size_t i = 0; i < plan->n_entries && activations != OPTION_FORMAT_NONE; i++) {
		const struct convert_entry *entry = &plan->entries[i];
		const struct layout_form *form = convert_is_held_anew(entry) ? entry->choice.form : entry->quantized.choice.form;

		if (entry->what == CONVERT_DECODED || entry->name == NULL || entry->quantized.parts[LAYOUT_CODES] != entry->source)
			continue;
		return (form->activations >> activations & 1) != 0 ? activations : OPTION_FORMAT_NONE;
	}
	return activations;
}

/* Whether the output has tensor scales of activations, which say that they are quantized. */
static bool keeps_input_scales(const struct convert_plan *plan)
{
	for (size_t i = 0; i < plan->n_entries; i++)
		if (plan->entries[i].parts[LAYOUT_INPUT_SCALE].name != NULL ||
		    (plan->entries[i].what == CONVERT_COPIED && plan->entries[i].name != NULL &&
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
static int plan_cache(struct convert_plan *plan, struct error *error)
{
	const struct layout *layout = plan->settings->layout;
	json_t *config = json_deep_copy(plan->model->config), *second = NULL;
	char *path = NULL;
	bool said = false;
	int code = config != NULL ? EXIT_OK : model_config_copy(plan->model, &config, error);

	if (code == EXIT_OK)
		code = model_read_member(plan->model, layout_modelopt.second_name, &path, &second, error);
	json_prepare();
	if (code == EXIT_OK)
		plan->cache = layout_cache_read(section_find(config), second, &said);
	if (plan->cache != NULL && (convert_makes_file(plan->settings) || layout->holds_cache == NULL ||
	                            !layout->holds_cache(plan->cache) ||
	                            (!layout->output_scales && has_output_scales(plan->model)))) {
		json_decref(plan->cache);
		plan->cache = NULL;
	}
	plan->cache_lost = said && plan->cache == NULL &&
	                   (convert_makes_file(plan->settings) || !is_unchanged(plan, section_find(config)));
	plan->activations_lost = says_activations(section_find(config)) && plan->n_held > 0 && !convert_makes_file(plan->settings) &&
	                         !is_unchanged(plan, section_find(config)) && !keeps_input_scales(plan) &&
	                         kept_activations(plan, section_find(config)) == OPTION_FORMAT_NONE;
	free(path);
	json_decref(second);
	json_decref(config);
	return code == EXIT_OK && json_out_of_memory() ? fail_memory(error) : code;
}

/* Shares the files among the parts. */
static int share(struct convert_plan *plan, struct error *error)
{
	const size_t n = plan->model->n_files;
	const struct part_choice *part = &plan->settings->part;
	uint64_t *bytes = calloc(n + 1, sizeof *bytes);
	size_t f = 0, left = 0;

	plan->owners = calloc(n + 1, sizeof *plan->owners);
	int code = bytes == NULL || plan->owners == NULL ? fail_memory(error) : EXIT_OK;
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		bytes[i] = plan->model->files[i].data_bytes;
	if (code == EXIT_OK)
		code = part_share(plan->owners, bytes, n, part->of, error);
	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++, left++) {
		for (; left == plan->model->files[f].n_tensors; left = 0)
			f++;
		plan->entries[i].elsewhere = plan->owners[f] != part->number - 1;
	}
	free(bytes);
	return code;
}

/* Refuses a pattern that matches nothing quantized. */
static int check_ignored(const struct convert_plan *plan, struct error *error)
{
	const struct string_list *ignore = &plan->settings->ignore;

	for (size_t k = 0; k < ignore->n; k++) {
		struct patterns one;
		bool any = false;
		int code = patterns_compile(&one, &ignore->items[k], 1, ignore_option, error);

		for (size_t i = 0; i < plan->n_entries && code == EXIT_OK && !any; i++)
			any = plan->entries[i].name != NULL && patterns_match(&one, plan->entries[i].name);
		patterns_free(&one);
		if (code == EXIT_OK && !any)
			code = fail(error, EXIT_USAGE, "convert: %s '%s': matches no quantized tensor of %s; names are those that mxfp inspect lists without "
			            "the endings of their parts", ignore_option, ignore->items[k], plan->settings->in);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

int convert_plan(struct convert_plan *plan, const struct convert_settings *settings, const struct model *model,
                  struct error *error)
{
	*plan = (struct convert_plan){.settings = settings, .model = model};
	int code = model_output_check_source(model, settings->out, error);

	/* One array can go from .npy to safetensors and back as it is; any other file would be only a copy, that says of a
	   quantized model that it is not. */
	if (code == EXIT_OK && model->n_files > 0 && model->files[0].format == settings->layout->file_format)
		code = quantized_check_any(model, error);
	if (code == EXIT_OK && !convert_makes_file(settings))
		code = carry_list(&plan->carry, model, error);
	if (code == EXIT_OK)
		code = patterns_compile(&plan->ignored, settings->ignore.items, settings->ignore.n, ignore_option, error);
	if (code == EXIT_OK)
		code = plan_entries(plan, error);
	if (code == EXIT_OK)
		code = check_ignored(plan, error);
	if (code == EXIT_OK)
		code = convert_fuse(plan, error);
	if (code == EXIT_OK && settings->part.of > 0)
		code = share(plan, error);
	if (code == EXIT_OK && model->n_files > 0 && model->files[0].format == &file_safetensors)
		code = plan_cache(plan, error);
	if (code != EXIT_OK || plan->n_held > 0 || plan->carry.n == 0)
		return code;
	plan->carried = carry_text(&plan->carry);
	return plan->carried == NULL ? fail_memory(error) : EXIT_OK;
}

void convert_plan_free(struct convert_plan *plan)
{
	carry_free(&plan->carry);
	patterns_free(&plan->ignored);
	json_decref(plan->cache);
	free(plan->entries);
	free(plan->owners);
	arena_free(&plan->arena);
	*plan = (struct convert_plan){0};
}

static json_t *make_section(const struct convert_plan *plan, enum mxfp_format activations)
{
	struct layout_facts facts;

	layout_facts_begin(&facts, plan->settings->layout, activations, plan->model);
	facts.cache = plan->cache;
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct convert_entry *entry = &plan->entries[i];
		const struct quantized *q = &entry->quantized;
		const bool copied = entry->what == CONVERT_COPIED;

		if (entry->what == CONVERT_DECODED || (copied && entry->name == NULL))
			layout_facts_keep(&facts, &entry->parts[0]);
		else if (q->parts[LAYOUT_CODES] == entry->source)
			layout_facts_add(&facts, convert_is_held_anew(entry) ? &entry->choice : &q->choice, entry->name);
		facts.pre_quant_scales |= copied && entry->name != NULL && q->parts[LAYOUT_PRE_QUANT_SCALE] == entry->source;
	}
	facts.input_scales = keeps_input_scales(plan);
	json_t *section = layout_config(&facts);
	layout_facts_free(&facts);
	return section;
}

static bool any_changed(const struct convert_plan *plan)
{
	for (size_t i = 0; i < plan->n_entries; i++)
		if (plan->entries[i].what == CONVERT_CHANGED)
			return true;
	return false;
}

/* Returns the layout's configuration, with what `mxfp quantize` noted in the source's if that still holds. */
static json_t *new_config(const struct convert_plan *plan, const json_t *before)
{
	static const char cache[] = "kv_cache_scheme";
	const json_t *old = section_find(before);
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
	json_t *own = any_changed(plan) ? NULL : json_deep_copy(json_object_get(old, "mxfp"));
	own = own != NULL ? own : json_object();
	if (any_changed(plan))
		json_object_set_new(own, "weights", json_string(mxfp_format_get_info(plan->settings->to)->name));
	json_object_del(own, DIRECTORY_CARRIED);
	if (plan->carry.n > 0)
		json_object_set_new(own, DIRECTORY_CARRIED, carry_facts(&plan->carry));
	json_object_set_new(config, "mxfp", own);
	return config;
}

int convert_config(const struct convert_plan *plan, json_t **config, struct error *error)
{
	int code = model_config_copy(plan->model, config, error);

	if (code != EXIT_OK)
		return code;
	json_prepare();
	if (*config == NULL)
		*config = json_object();
	/* Of what is decoded the section is gone there, and it says how the others are quantized. */
	json_t *quantization = new_config(plan, plan->settings->to == OPTION_FORMAT_NONE && plan->model->config != NULL ? plan->model->config : *config);
	section_remove_all(*config);
	if (quantization != NULL)
		layout_config_put(*config, plan->settings->layout, quantization);
	for (size_t i = 0; i < plan->n_entries; i++)
		if (plan->entries[i].what == CONVERT_DECODED)
			model_config_widen(*config, plan->settings->decode, false);
	if (!json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}
