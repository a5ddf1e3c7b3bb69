/* SPDX-License-Identifier: MIT */
/* Gives weights that loaders fuse one tensor scale, which comes from the largest magnitude of them all. */
#include "config.h"

#include <stdlib.h>

#include "model/fused.h"
#include "quantize/quantize.h"

const struct quantize_entry *quantize_entry_of(const struct quantize_plan *plan, const struct tensor *tensor,
                                               const struct file *file)
{
	const struct quantize_entry *entry = plan->entries;

	for (const struct file *other = plan->model->files; other != file; other++)
		entry += other->n_tensors;
	return entry + (tensor - file->tensors);
}

static bool has_tensor_scale(const struct quantize_entry *entry)
{
	return entry->quantized && mxfp_format_get_info(entry->choice.format)->tensor_scale &&
	       !layout_recipe_unscaled((enum mxfp_recipe)entry->choice.recipe);
}

static bool has_tensor(const void *model, const char *name)
{
	const struct file *file;

	return model_find(model, name, &file) != NULL;
}

/* Puts an entry into a ring with the first of its set that has a tensor scale too. */
static int fuse(struct quantize_plan *plan, struct quantize_entry *entry, const struct fused *fused, struct error *error)
{
	for (size_t i = 0; i < fused->which; i++) {
		char *name = fused_name(fused, i);
		struct model_tensor other;

		if (name == NULL)
			return fail_memory(error);
		other.tensor = model_find(plan->model, name, &other.file);
		free(name);
		if (other.tensor == NULL)
			continue;
		struct quantize_entry *first = &plan->entries[quantize_entry_of(plan, other.tensor, other.file) - plan->entries];
		if (!has_tensor_scale(first))
			continue;
		entry->fused = first->fused != NULL ? first->fused : first;
		first->fused = entry;
		break;
	}
	return EXIT_OK;
}

int quantize_fuse(struct quantize_plan *plan, struct error *error)
{
	const struct fused_names names = {has_tensor, plan->model};
	int code = EXIT_OK;

	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		struct quantize_entry *entry = &plan->entries[i];
		struct fused fused;
		bool found;

		if (!has_tensor_scale(entry))
			continue;
		code = fused_find(&fused, &found, entry->source->name, &names, error);
		if (code == EXIT_OK && found)
			code = fuse(plan, entry, &fused, error);
	}
	return code;
}
