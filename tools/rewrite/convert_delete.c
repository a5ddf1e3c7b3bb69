/* SPDX-License-Identifier: MIT */
/* Shards of the source that are deleted while the output is made, one after the other, for disks that have no room for both. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/journal.h"
#include "io/partial.h"
#include "model/fingerprint.h"
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
		if (!handle_is_kept(model->files[f].handle) && lstat(model->files[f].path, &status) == 0 &&
		    (S_ISLNK(status.st_mode) || status.st_nlink > 1))
			return fail(error, EXIT_USAGE, "%s: %s is a %s, and to delete it would free nothing; name %s, or leave it out", option,
			            model->files[f].path, S_ISLNK(status.st_mode) ? "symbolic link" : "hard link of another name",
			            S_ISLNK(status.st_mode) ? "the directory of the files themselves" : "a directory of files of their own (cp -r)");
	if (access(model->directory, W_OK | X_OK) != 0)
		return fail_errno(error, model->directory, "--delete-source-shards cannot delete files in it");
	return EXIT_OK;
}

/* What is done with each file that an entry is made from. */
struct visit {
	void (*file)(struct visit *visit, const struct file *file);
	const struct file *files;    /* last_use(): of the model */
	size_t *last, f;
	const struct file *deleted;  /* find_deleted() */
};

static void visit_all(const struct convert_plan *plan, const struct convert_entry *entry, struct visit *visit)
{
	const struct scaled *scaled = scaled_of(entry->source->decoder);

	visit->file(visit, entry->file);
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (entry->quantized.files[part] != NULL)
			visit->file(visit, entry->quantized.files[part]);
	if (scaled != NULL) {
		visit->file(visit, scaled->codes_file);
		visit->file(visit, scaled->scales_file);
	} else if (entry->source->decoder != NULL) { /* of which it is not known what they read */
		for (size_t i = 0; i < plan->model->n_files; i++)
			visit->file(visit, &plan->model->files[i]);
	}
}

static void find_deleted(struct visit *visit, const struct file *file)
{
	if (handle_is_kept(file->handle))
		visit->deleted = file;
}

const char *convert_lacks(const struct convert_plan *plan, const struct convert_entry *entry)
{
	struct visit visit = {.file = find_deleted};

	if (entry->what == CONVERT_PART)
		return NULL;
	visit_all(plan, entry, &visit);
	for (const struct convert_entry *other = entry->fused; other != NULL && other != entry; other = other->fused)
		visit_all(plan, other, &visit);
	return visit.deleted == NULL ? NULL : model_file_name(visit.deleted);
}

/* The number of the file that an entry is in. */
static size_t number(const struct convert_plan *plan, const struct convert_entry *entry)
{
	return (size_t)(entry->file - plan->model->files);
}

/* Notes that file `f` of the output is made from a file, too. */
static void last_use(struct visit *visit, const struct file *file)
{
	size_t *last = &visit->last[file - visit->files];

	if (*last < visit->f)
		*last = visit->f;
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
		visit_all(plan, entry, &(struct visit){.file = last_use, .files = plan->model->files, .last = last, .f = f});
	}
	return last;
}

/* A journal that has a hash of each file of the source, all of it, from before the first is deleted. */
static int open_hashes(const struct convert_plan *plan, const struct partial *partial, struct journal *journal, char **path,
                       struct journal_record **records, struct error *error)
{
	const size_t n = plan->model->n_files;

	journal->fd = -1;
	*path = partial_journal(partial, "sources");
	*records = calloc(n + 1, sizeof **records);
	return *path == NULL || *records == NULL ? fail_memory(error) : journal_open(journal, *path, *records, n, error);
}

static int hash_sources(const struct convert_plan *plan, const struct partial *partial, struct error *error)
{
	struct journal journal;
	struct journal_record *records;
	char *path;
	bool any = false;
	int code = open_hashes(plan, partial, &journal, &path, &records, error);

	for (size_t f = 0; f < plan->model->n_files && code == EXIT_OK; f++) {
		const struct file *file = &plan->model->files[f];

		if (records[f].written || handle_is_kept(file->handle))
			continue;
		any = true;
		code = fingerprint_whole(&records[f].hash, file, plan->settings->threads, error);
		if (code == EXIT_OK)
			code = journal_add(&journal, f, &records[f], error);
	}
	if (code == EXIT_OK && any)
		code = descriptor_sync(journal.fd, path, error);
	journal_close(&journal);
	free(records);
	free(path);
	return code;
}

int convert_source_is_same(const void *context, const struct partial *partial, const char *key, bool *known, bool *same, struct error *error)
{
	const struct convert_plan *plan = context;
	struct journal journal;
	struct journal_record *records;
	char *path, own[FINGERPRINT_KEY];
	int code = open_hashes(plan, partial, &journal, &path, &records, error);

	for (size_t f = 0; f < plan->model->n_files && code == EXIT_OK && !*known; f++) {
		const struct file *file = &plan->model->files[f];
		const bool kept = handle_is_kept(file->handle);
		XXH128_hash_t hash;

		fingerprint_key(own, file);
		*known = strcmp(own, key) == 0 && (kept || records[f].written);
		if (*known && !kept)
			code = fingerprint_whole(&hash, file, plan->settings->threads, error);
		*same = *known && (kept || (code == EXIT_OK && XXH128_isEqual(hash, records[f].hash)));
	}
	journal_close(&journal);
	free(records);
	free(path);
	return code;
}

int convert_delete(const struct convert_plan *plan, const struct partial *partial, const size_t *last, size_t f, struct error *error)
{
	const struct file *files = plan->model->files;
	bool any = false;
	int code = EXIT_OK;

	for (size_t i = 0; i < plan->model->n_files; i++) {
		/* What is there of a file that an earlier run deleted is looked at before another goes. */
		if (handle_is_kept(files[i].handle) && last[i] > f)
			return EXIT_OK;
		any |= !handle_is_kept(files[i].handle) && last[i] <= f;
	}
	if (any)
		code = hash_sources(plan, partial, error);
	for (size_t i = 0; i <= f && code == EXIT_OK; i++)
		if (last[i] <= f)
			code = handle_delete(files[i].handle, error);
	return code;
}
