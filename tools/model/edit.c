/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/edit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file_gguf.h"
#include "io/room.h"
#include "mxfp/version.h"

int edit_check(const struct edit *edit, struct error *error)
{
	const struct model *model = edit->model;
	const struct file_format *format = file_format_named(edit->out);
	struct output output = {0};
	int code = EXIT_OK;

	if (model->n_files > 0 && model->files[0].format == &file_gguf)
		return fail(error, EXIT_USAGE, "%s: GGUF files cannot be %s; give the model's safetensors files", model->path,
		            edit->done);
	code = model_output_check_source(model, edit->out, error);
	if (code == EXIT_OK)
		code = model_output_check_apart(model, edit->out, error);
	if (code != EXIT_OK)
		return code;
	if (format != NULL && model->is_directory)
		return fail(error, EXIT_USAGE, "%s: the input is a directory, so the output is one; leave out the suffix", edit->out);
	if (format != NULL && (format->lay_out == NULL || strcmp(format->name, "safetensors") != 0))
		return fail(error, EXIT_USAGE, "%s: a %s model is a directory or a .safetensors file", edit->out, edit->done);
	/* What is to be resumed may have appeared, and edit_begin() sees to that. */
	if (edit->resume)
		return EXIT_OK;
	code = format != NULL ? output_begin_file(&output, edit->out, edit->force, error)
	                      : output_begin_directory(&output, edit->out, edit->force, error);
	/* What is not edited takes as much as before, and most of the rest. */
	if (code == EXIT_OK)
		code = room_check(&(struct room_need){output.path, model->data_bytes}, 1, "make room there, or choose another", error);
	output_abandon(&output);
	return code;
}

/* Lists tensors and metadata of a file of the output. */
static int plan_file(struct editing *e, const struct file *file, struct error *error)
{
	const struct edit *edit = e->edit;
	struct writer *writer = &e->transfer.writer;

	writer->tensors = calloc(file->n_tensors + 2, sizeof *writer->tensors);
	writer->metadata = calloc(file->n_metadata + 2, sizeof *writer->metadata);
	if (writer->tensors == NULL || writer->metadata == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_tensors; i++) {
		struct tensor *tensor = &writer->tensors[writer->n_tensors++];
		const enum dtype dtype = edit->dtype(edit->context, &file->tensors[i]);

		*tensor = file->tensors[i];
		if (dtype != N_DTYPES)
			tensor->dtype = dtype;
		else
			e->edit->n_kept++;
	}
	if (edit->added != NULL && edit->added_to == file)
		writer->tensors[writer->n_tensors++] = *edit->added;
	for (size_t i = 0; i < file->n_metadata; i++)
		if (!metadata_is_own(file->metadata[i].key))
			writer->metadata[writer->n_metadata++] = file->metadata[i];
	writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_VERSION, mxfp_version()};
	if (e->carried != NULL)
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_CARRIED, e->carried};
	return EXIT_OK;
}

static int write_edited(struct editing *e, const char *name, struct error *error)
{
	struct writer *writer = &e->transfer.writer;

	return e->edit->write(e->edit->context, writer, writer_find(writer, name), error);
}

static int write_file(struct editing *e, const struct file *file, struct error *error)
{
	const struct edit *edit = e->edit;
	struct writer *writer = &e->transfer.writer;
	char *path = partial_file(&e->output.partial, model_output_name(&e->output, file));

	*writer = (struct writer){.path = path, .source = file, .fd = -1};
	e->transfer.file = file;
	int code = path != NULL ? plan_file(e, file, error) : fail_memory(error);
	/* A run that was stopped may have left it. */
	if (code == EXIT_OK && unlink(path) != 0 && errno != ENOENT)
		code = fail_errno(error, path, "cannot replace");
	if (code == EXIT_OK)
		code = writer_open(writer, error);
	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++) {
		const struct tensor *tensor = &file->tensors[i];

		if (edit->dtype(edit->context, tensor) == N_DTYPES) {
			code = transfer_copy(&e->transfer, tensor, error);
			continue;
		}
		code = write_edited(e, tensor->name, error);
		progress_add(&e->transfer.progress, tensor->size);
	}
	if (edit->added != NULL && edit->added_to == file && code == EXIT_OK)
		code = write_edited(e, edit->added->name, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	if (code == EXIT_OK)
		code = model_output_add(&e->output, file, writer, error);
	writer_abandon(writer);
	free(writer->tensors);
	free(writer->metadata);
	free(path);
	return code;
}

static struct partial_target target_of(const struct edit *edit, bool never_resumes)
{
	return (struct partial_target){.path = edit->out, .as_file = file_format_named(edit->out) != NULL, .force = edit->force,
	                               .resume = edit->resume, .never_resumes = never_resumes};
}

static int begin(struct editing *e, struct edit *edit, bool never_resumes, json_t *fingerprint, struct error *error)
{
	const struct model *model = edit->model;
	const struct partial_target target = target_of(edit, never_resumes);
	int code;

	*e = (struct editing){.edit = edit, .transfer.threads = edit->threads};
	code = target.as_file ? EXIT_OK : carry_list(edit->carry, model, error);
	if (code == EXIT_OK && edit->carry->n > 0) {
		e->carried = carry_text(edit->carry);
		if (e->carried == NULL)
			code = fail_memory(error);
	}
	carry_fingerprint(edit->carry, fingerprint);
	if (code == EXIT_OK)
		code = model_output_begin(&e->output, model, &target, fingerprint, error);
	e->output.partial.transient = edit->transient;
	return code;
}

int edit_begin(struct editing *e, struct edit *edit, json_t *fingerprint, struct error *error)
{
	return begin(e, edit, false, fingerprint, error);
}

int edit_help(struct editing *e, struct edit *edit, struct error *error)
{
	const struct partial_target target = target_of(edit, false);

	*e = (struct editing){.edit = edit};
	return model_output_help(&e->output, edit->model, &target, error);
}

/* Writes all files. */
static int write_all(struct editing *e, struct error *error)
{
	const struct edit *edit = e->edit;
	const struct model *model = edit->model;
	int code = model_config_copy(model, &e->config, error);

	if (code == EXIT_OK && e->config != NULL && edit->configure != NULL)
		code = edit->configure(edit->context, e->config, error);
	if (code == EXIT_OK)
		code = transfer_begin(&e->transfer, error);
	progress_start(&e->transfer.progress, "writing", model->data_bytes, edit->quiet);
	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++)
		code = write_file(e, &model->files[f], error);
	progress_end(&e->transfer.progress);
	return code == EXIT_OK ? carry_copy(edit->carry, model->directory, e->output.partial.output.temporary, error) : code;
}

int edit_finish(struct editing *e, struct error *error)
{
	const int code = e->output.partial.appeared ? EXIT_OK : write_all(e, error);

	return code == EXIT_OK ? model_output_commit(&e->output, e->config, error) : code;
}

int edit_end(struct editing *e, int code, struct error *error)
{
	code = model_output_end(&e->output, code, error);
	json_decref(e->config);
	transfer_end(&e->transfer);
	return code;
}

int edit_write(struct edit *edit, struct error *error)
{
	struct editing e;

	json_prepare();
	json_t *fingerprint = json_pack("{s:s}", "command", edit->command);
	int code = json_out_of_memory() ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK) {
		code = begin(&e, edit, true, fingerprint, error);
		if (code == EXIT_OK)
			code = edit_finish(&e, error);
		/* Nothing that a later run could continue is kept. */
		const int ended = edit_end(&e, code == EXIT_OK ? EXIT_OK : EXIT_INPUT, error);
		code = code == EXIT_OK ? ended : code;
	}
	json_decref(fingerprint);
	return code;
}
