/* SPDX-License-Identifier: MIT */
/* Writing one file of a quantized model, or resuming one after its last complete tensor. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/journal.h"
#include "quantize/metadata.h"
#include "quantize/quantize.h"

/* The bytes of output between writes of the journal: many enough to make waiting for the disk cheap, few enough to lose
   little work. */
enum { SYNC_BYTES = 1 << 26 };

struct writing {
	struct transfer *transfer;
	struct quantize_plan *plan;
	const struct quantize_file *file;
	char *path, *journal_path;
	struct journal journal;
	struct journal_record *records; /* one an entry of the file */
	size_t n_journaled;             /* entries before this one are in the journal */
	uint64_t unsynced_bytes;
};

/* Opens the journal; the caller calls release() in every case. */
static int begin(struct writing *w, const struct partial *partial, struct error *error)
{
	w->journal.fd = -1;
	w->path = partial_file(partial, w->file->name);
	w->journal_path = partial_journal(partial, w->file->name);
	w->records = calloc(w->file->n + 1, sizeof *w->records);
	if (w->path == NULL || w->journal_path == NULL || w->records == NULL)
		return fail_memory(error);
	return journal_open(&w->journal, w->journal_path, w->records, w->file->n, error);
}

static void release(struct writing *w)
{
	journal_close(&w->journal);
	free(w->records);
	free(w->journal_path);
	free(w->path);
}

static struct quantize_entry *entry_of(const struct writing *w, size_t i)
{
	return &w->plan->entries[w->file->first + i];
}

/* The tensors of the file. */
static int list_parts(struct writing *w, struct error *error)
{
	struct writer *writer = &w->transfer->writer;

	writer->tensors = calloc(w->file->n * N_LAYOUT_PARTS + 1, sizeof *writer->tensors);
	if (writer->tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < w->file->n; i++)
		for (int part = 0; part < N_LAYOUT_PARTS; part++)
			if (entry_of(w, i)->parts[part].name != NULL)
				writer->tensors[writer->n_tensors++] = entry_of(w, i)->parts[part];
	return EXIT_OK;
}

/* Continues the file if its journal has any lines; else replaces a file that is there. */
static int open_writer(struct writing *w, struct error *error)
{
	w->transfer->writer.reopen = w->journal.bytes > 0;
	if (w->journal.bytes == 0 && unlink(w->path) != 0 && errno != ENOENT)
		return fail_errno(error, w->path, "cannot replace");
	return writer_open(&w->transfer->writer, error);
}

/* Puts the entries before `end` into the journal, after their data are on the disk. */
static int write_journal(struct writing *w, size_t end, struct error *error)
{
	int code = descriptor_sync(w->transfer->writer.fd, w->path, error);

	for (; w->n_journaled < end && code == EXIT_OK; w->n_journaled++)
		if (!w->records[w->n_journaled].written)
			code = journal_add(&w->journal, w->n_journaled, &w->records[w->n_journaled], error);
	w->unsynced_bytes = 0;
	return code;
}

static int write_entry(struct writing *w, size_t i, struct error *error)
{
	struct transfer *transfer = w->transfer;
	struct quantize_entry *entry = entry_of(w, i);

	if (w->records[i].written) {
		entry->counts = w->records[i].counts;
		transfer->progress.total -= quantize_bytes_to_read(entry);
		writer_skip(&transfer->writer, entry->output_bytes);
		return EXIT_OK;
	}
	XXH3_128bits_reset(transfer->hash);
	transfer->file = entry->file;
	int code = entry->quantized ? quantize_tensor(transfer, w->plan, entry, error)
	                            : transfer_copy(transfer, entry->stored, error);
	w->records[i].hash = XXH3_128bits_digest(transfer->hash);
	w->records[i].counts = entry->counts;
	w->unsynced_bytes += entry->output_bytes;
	return code;
}

static int write_data(struct writing *w, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < w->file->n && code == EXIT_OK; i++) {
		code = write_entry(w, i, error);
		if (code == EXIT_OK && w->unsynced_bytes >= SYNC_BYTES)
			code = write_journal(w, i + 1, error);
	}
	return code != EXIT_OK ? code : write_journal(w, w->file->n, error);
}

/* The hash of the file's source: that of its tensors' hashes, which the journal knows. */
static XXH128_hash_t hash_source(const struct writing *w)
{
	XXH3_state_t *hash = w->transfer->hash;

	XXH3_128bits_reset(hash);
	for (size_t i = 0; i < w->file->n; i++) {
		XXH128_canonical_t canonical;

		XXH128_canonicalFromHash(&canonical, w->records[i].hash);
		XXH3_128bits_update(hash, &canonical, sizeof canonical);
	}
	return XXH3_128bits_digest(hash);
}

static int write_file(struct writing *w, struct quantize_metadata *metadata, struct error *error)
{
	struct writer *writer = &w->transfer->writer;
	int code = list_parts(w, error);

	if (code == EXIT_OK)
		code = quantize_metadata_make(metadata, w->plan, w->file, error);
	writer->metadata = metadata->pairs;
	writer->n_metadata = metadata->n;
	if (code == EXIT_OK)
		code = open_writer(w, error);
	if (code == EXIT_OK)
		code = write_data(w, error);
	if (code != EXIT_OK)
		return code;
	quantize_metadata_set_hash(metadata, hash_source(w));
	return writer_close(writer, error);
}

int quantize_write(struct transfer *transfer, struct quantize_plan *plan, const struct quantize_file *file,
                   const struct partial *partial, struct error *error)
{
	struct writing w = {.transfer = transfer, .plan = plan, .file = file};
	struct quantize_metadata metadata = {0};
	int code = begin(&w, partial, error);

	transfer->writer = (struct writer){
		.path = w.path,
		.format = plan->settings->layout->file_format,
		.source = file->source,
		.fd = -1,
	};
	if (code == EXIT_OK)
		code = write_file(&w, &metadata, error);
	writer_abandon(&transfer->writer);
	free(transfer->writer.tensors);
	quantize_metadata_free(&metadata);
	release(&w);
	return code;
}

int quantize_read_counts(struct quantize_plan *plan, const struct quantize_file *file, const struct partial *partial,
                         struct error *error)
{
	struct writing w = {.plan = plan, .file = file};
	int code = begin(&w, partial, error);

	for (size_t i = 0; i < file->n && code == EXIT_OK; i++)
		entry_of(&w, i)->counts = w.records[i].counts;
	release(&w);
	return code;
}
