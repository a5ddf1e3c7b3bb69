/* SPDX-License-Identifier: MIT */
/* Shards of the source that are deleted while the output is made, one after the other, for disks that have no room for both. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/partial.h"
#include "model/scaled.h"
#include "rewrite/convert.h"

/* The directory of the input as model_open() has it, without slashes at its end. */
static char *source_directory(const char *in)
{
	struct stat status;
	char *directory = stat(in, &status) == 0 && S_ISDIR(status.st_mode) ? strdup(in) : directory_of(in);
	size_t n = directory == NULL ? 0 : strlen(directory);

	while (n > 1 && directory[n - 1] == '/')
		directory[--n] = '\0';
	return directory;
}

int convert_sources_begin(struct convert_sources *sources, const struct convert_settings *s, bool *complete, struct error *error)
{
	bool any;

	*sources = (struct convert_sources){0};
	*complete = false;
	int code = partial_find_kept(s->out, &sources->kept, &any, error);
	if (code != EXIT_OK || (!s->delete_sources && !any))
		return code;
	if (any && !s->resume)
		return fail(error, EXIT_USAGE, "%s: belongs to a run that was stopped, and has the only copy of shards that are deleted; --resume "
		            "continues it", sources->kept);
	if (s->resume)
		code = partial_clean(&(struct partial_target){.path = s->out, .as_file = convert_makes_file(s), .force = s->force}, complete, error);
	if (code != EXIT_OK || *complete)
		return code;
	sources->directory = source_directory(s->in);
	if (sources->directory == NULL)
		return fail_memory(error);
	handle_keep(sources->directory, sources->kept);
	return EXIT_OK;
}

void convert_sources_end(struct convert_sources *sources)
{
	handle_keep(NULL, NULL);
	free(sources->directory);
	free(sources->kept);
	*sources = (struct convert_sources){0};
}

int convert_check_delete(const struct convert_plan *plan, struct error *error)
{
	static const char option[] = "convert: --delete-source-shards";
	const struct convert_settings *s = plan->settings;
	const struct model *model = plan->model;
	struct stat status;

	if (!s->delete_sources)
		return EXIT_OK;
	if (!model->is_directory || !model->has_index)
		return fail(error, EXIT_USAGE, "%s: %s is not a directory of shards with an index, which could be deleted one by one; leave it out", option,
		            s->in);
	if (convert_makes_file(s))
		return fail(error, EXIT_USAGE, "%s: %s is one file, which is whole only at the end; name a directory, or leave it out", option, s->out);
	if (s->part.of > 0)
		return fail(error, EXIT_USAGE, "%s: the other parts need the shards, too; leave it out, or --part", option);
	for (size_t f = 0; f < model->n_files; f++)
		if (!handle_is_kept(model->files[f].handle) && lstat(model->files[f].path, &status) == 0 && S_ISLNK(status.st_mode))
			return fail(error, EXIT_USAGE, "%s: %s is a symbolic link, and to delete it would free nothing; name the directory of the files "
			            "themselves, or leave it out", option, model->files[f].path);
	if (access(model->directory, W_OK | X_OK) != 0)
		return fail_errno(error, model->directory, "--delete-source-shards cannot delete files in it");
	return EXIT_OK;
}

/* Notes that file `f` of the output is made from a file, too. */
static void use(const struct convert_plan *plan, size_t *last, const struct file *file, size_t f)
{
	if (file != NULL && last[file - plan->model->files] < f)
		last[file - plan->model->files] = f;
}

static void use_all(const struct convert_plan *plan, size_t *last, const struct convert_entry *entry, size_t f)
{
	use(plan, last, entry->file, f);
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		use(plan, last, entry->quantized.files[part], f);
	const struct scaled *scaled = scaled_of(entry->source->decoder);
	if (scaled != NULL) {
		use(plan, last, scaled->codes_file, f);
		use(plan, last, scaled->scales_file, f);
	} else if (entry->source->decoder != NULL) { /* of which it is not known what they read */
		for (size_t i = 0; i < plan->model->n_files; i++)
			use(plan, last, &plan->model->files[i], f);
	}
}

/* The number of the file that an entry is in. */
static size_t number(const struct convert_plan *plan, const struct convert_entry *entry)
{
	return (size_t)(entry->file - plan->model->files);
}

size_t *convert_last_uses(const struct convert_plan *plan)
{
	size_t *last = malloc((plan->model->n_files + 1) * sizeof *last);

	for (size_t f = 0; last != NULL && f < plan->model->n_files; f++)
		last[f] = f;
	for (size_t i = 0; last != NULL && i < plan->n_entries; i++) {
		const struct convert_entry *entry = &plan->entries[i];
		size_t f = number(plan, entry);

		/* The tensor scale of fused tensors is made from all of them, by each run anew that writes one. */
		for (const struct convert_entry *other = entry->fused; other != NULL && other != entry; other = other->fused)
			f = number(plan, other) > f ? number(plan, other) : f;
		use_all(plan, last, entry, f);
	}
	return last;
}

int convert_delete(const struct convert_plan *plan, const size_t *last, size_t f, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i <= f && code == EXIT_OK; i++)
		if (last[i] <= f)
			code = handle_delete(plan->model->files[i].handle, error);
	return code;
}
