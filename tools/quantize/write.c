/* SPDX-License-Identifier: MIT */
/* Writing one file of a quantized model, or resuming one after its last complete tensor. */
#include "config.h"

#include <stdlib.h>

#include "io/resumed.h"
#include "quantize/metadata.h"
#include "quantize/quantize.h"

struct writing {
	struct transfer *transfer;
	struct quantize_plan *plan;
	const struct quantize_file *file;
	struct resumed resumed; /* an item an entry of the file */
};

static struct quantize_entry *entry_of(const struct writing *w, size_t i)
{
	return &w->plan->entries[w->file->first + i];
}

/* The tensors of the file. */
static int list_parts(struct writing *w, struct error *error)
{
	struct writer *writer = &w->transfer->writer;

	size_t n = 0;

	for (size_t i = 0; i < w->file->n; i++)
		n += entry_of(w, i)->n_parts;
	writer->tensors = calloc(n + 1, sizeof *writer->tensors);
	if (writer->tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < w->file->n; i++)
		for (unsigned part = 0; part < entry_of(w, i)->n_parts; part++)
			if (entry_of(w, i)->parts[part].name != NULL)
				writer->tensors[writer->n_tensors++] = entry_of(w, i)->parts[part];
	return EXIT_OK;
}

static int write_entry(const void *context, size_t i, struct journal_record *record, struct error *error)
{
	const struct writing *w = context;
	struct transfer *transfer = w->transfer;
	struct quantize_entry *entry = entry_of(w, i);

	XXH3_128bits_reset(transfer->hash);
	transfer->file = entry->file;
	int code = entry->quantized ? quantize_tensor(transfer, w->plan, entry, error)
	                            : transfer_copy(transfer, entry->stored, error);
	record->hash = XXH3_128bits_digest(transfer->hash);
	record->counts = entry->counts;
	return code;
}

static void sizes_of(const void *context, size_t i, uint64_t *read, uint64_t *written)
{
	const struct quantize_entry *entry = entry_of(context, i);

	*read = quantize_bytes_to_read(entry);
	*written = entry->output_bytes;
}

static bool output_of(const void *context, size_t i, size_t k, const char **name)
{
	const struct quantize_entry *entry = entry_of(context, i);

	if (k < entry->n_parts)
		*name = entry->parts[k].name;
	return k < entry->n_parts;
}

static void take_counts(const struct writing *w)
{
	for (size_t i = 0; i < w->file->n; i++)
		entry_of(w, i)->counts = w->resumed.records[i].counts;
}

/* The hash of the file's source: that of its tensors' hashes, which the journal knows. */
static XXH128_hash_t hash_source(const struct writing *w)
{
	XXH3_state_t *hash = w->transfer->hash;

	XXH3_128bits_reset(hash);
	for (size_t i = 0; i < w->file->n; i++) {
		XXH128_canonical_t canonical;

		XXH128_canonicalFromHash(&canonical, w->resumed.records[i].hash);
		XXH3_128bits_update(hash, &canonical, sizeof canonical);
	}
	return XXH3_128bits_digest(hash);
}

static int write_file(struct writing *w, struct quantize_metadata *metadata, struct error *error)
{
	const struct resumed_job job = {write_entry, sizes_of, output_of, NULL, NULL, w};
	struct writer *writer = &w->transfer->writer;
	int code = list_parts(w, error);

	if (code == EXIT_OK)
		code = quantize_metadata_make(metadata, w->plan, w->file, error);
	writer->metadata = metadata->pairs;
	writer->n_metadata = metadata->n;
	if (code == EXIT_OK)
		code = resumed_write(&w->resumed, w->transfer, &job, error);
	if (code != EXIT_OK)
		return code;
	take_counts(w);
	quantize_metadata_set_hash(metadata, hash_source(w));
	return writer_close(writer, error);
}

int quantize_write(struct transfer *transfer, struct quantize_plan *plan, const struct quantize_file *file,
                   const struct partial *partial, struct error *error)
{
	struct writing w = {.transfer = transfer, .plan = plan, .file = file};
	struct quantize_metadata metadata = {0};
	int code = resumed_begin(&w.resumed, partial, file->name, file->n, error);

	transfer->writer = (struct writer){
		.path = w.resumed.path,
		.format = plan->settings->layout->file_format,
		.source = file->source,
		.fd = -1,
	};
	if (code == EXIT_OK)
		code = write_file(&w, &metadata, error);
	writer_abandon(&transfer->writer);
	free(transfer->writer.tensors);
	quantize_metadata_free(&metadata);
	resumed_end(&w.resumed);
	return code;
}

int quantize_read_counts(struct quantize_plan *plan, const struct quantize_file *file, const struct partial *partial,
                         struct error *error)
{
	struct writing w = {.plan = plan, .file = file};
	int code = resumed_begin(&w.resumed, partial, file->name, file->n, error);

	if (code == EXIT_OK)
		take_counts(&w);
	resumed_end(&w.resumed);
	return code;
}
