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

static int fuse(const struct quantize_plan *plan, struct quantize_entry *entry, const struct fused *fused,
                struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < fused->n; i++) {
		char *name = fused_name(fused, i);
		struct model_tensor other;

		if (name == NULL)
			return fail_memory(error);
		other.tensor = model_find(plan->model, name, &other.file);
		free(name);
		if (other.tensor == NULL || other.tensor == entry->stored)
			continue;
		const struct quantize_entry *its = quantize_entry_of(plan, other.tensor, other.file);
		if (has_tensor_scale(its))
			entry->fused[n++] = its;
	}
	return EXIT_OK;
}

int quantize_fuse(struct quantize_plan *plan, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		struct quantize_entry *entry = &plan->entries[i];
		struct fused fused;

		if (has_tensor_scale(entry) && fused_find(&fused, entry->source->name))
			code = fuse(plan, entry, &fused, error);
	}
	return code;
}
