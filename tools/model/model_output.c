/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/model_output.h"

#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/directory.h"
#include "io/facts.h"
#include "io/file_gguf.h"
#include "model/fingerprint.h"
#include "model/layout_config.h"
#include "model/meaning.h"
#include "model/section.h"
#include "mxfp.h"

const char model_output_alone[] = "one file without a config.json: mxfp reads it so, other programs want a directory";

/* Reads the config.json that lies beside a file, if one does. */
static int read_beside(const char *directory, json_t **config, struct error *error)
{
	size_t size = strlen(directory) + sizeof "/config.json";
	char *path = malloc(size);
	int code = EXIT_OK;

	if (path == NULL)
		return fail_memory(error);
	snprintf(path, size, "%s/config.json", directory);
	if (access(path, F_OK) == 0)
		code = json_read_python(descriptor_open, path, CONFIG_BYTES_MAX, config, error);
	if (code == EXIT_OK && *config != NULL && !json_is_object(*config))
		code = fail(error, EXIT_INPUT, "%s: is not a JSON object", path);
	free(path);
	return code;
}

static int copy_config(const struct model *model, json_t **config, struct error *error)
{
	*config = NULL;
	if (!model->is_directory) {
		int code = read_beside(model->directory, config, error);

		if (code != EXIT_OK) {
			json_decref(*config);
			*config = NULL;
		}
		return code;
	}
	if (model->config == NULL)
		return EXIT_OK;
	json_prepare();
	*config = json_deep_copy(model->config);
	if (*config != NULL && !json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}

int model_config_copy(const struct model *model, json_t **config, struct error *error)
{
	int code = copy_config(model, config, error);

	if (code == EXIT_OK && model->n_decoded > 0)
		section_remove_all(*config);
	return code;
}

void model_config_widen(json_t *config, enum mxfp_format format, bool all)
{
	static const char *const keys[] = {"torch_dtype", "dtype"};
	static const char wide[] = "float32";
	const char *dtype = format == MXFP_FORMAT_BF16 ? "bfloat16" : format == MXFP_FORMAT_F16 ? "float16" : wide;
	json_t *text = json_object_get(config, "text_config");

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const char *said = json_string_value(json_object_get(config, keys[i]));

		if (said != NULL && (all || strcmp(said, wide) != 0) && strcmp(said, dtype) != 0)
			json_object_set_new(config, keys[i], json_string(all ? dtype : wide));
	}
	if (text != NULL)
		model_config_widen(text, format, all);
}

int model_member_write(const char *directory, const char *name, const json_t *json, struct error *error)
{
	char *path = directory_member(directory, name);

	if (path == NULL)
		return fail_memory(error);
	unlink(path);
	int code = facts_write_file(path, json, error);
	free(path);
	return code;
}

int model_config_write(const char *directory, const json_t *config, struct error *error)
{
	const char *name;

	json_prepare();
	json_t *second = layout_second_config(config, &name);
	int code = json_out_of_memory() ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK)
		code = model_member_write(directory, CONFIG_FILE, config, error);
	if (code == EXIT_OK && name != NULL)
		code = model_member_write(directory, name, second, error);
	json_decref(second);
	return code;
}

/* Refuses an output that is a file `name` of the source's directory. */
static int check_member(const struct model *source, const char *name, const char *path, struct error *error)
{
	char *member = directory_member(source->directory, name);

	if (member == NULL)
		return fail_memory(error);
	int code = output_check_apart(path, member, error);
	free(member);
	return code;
}

int model_output_check_apart(const struct model *source, const char *path, struct error *error)
{
	int code = output_check_apart(path, source->path, error);

	if (code == EXIT_OK)
		code = output_check_apart(path, source->directory, error);
	if (code == EXIT_OK)
		code = check_member(source, MODEL_INDEX, path, error);
	if (code == EXIT_OK)
		code = check_member(source, CONFIG_FILE, path, error);
	for (size_t i = 0; i < source->n_files && code == EXIT_OK; i++) {
		const struct file *file = &source->files[i];

		code = output_check_apart(path, file->path, error);
		for (size_t part = 0; part < file->n_parts && code == EXIT_OK; part++)
			code = output_check_apart(path, file->parts[part].path, error);
	}
	return code;
}

/* Begins the index, which is written anew by a run that continues another. */
static int begin_index(struct model_output *output, struct error *error)
{
	char *path = output_member(&output->partial.output, MODEL_INDEX);

	if (path == NULL)
		return fail_memory(error);
	unlink(path);
	int code = model_index_text_begin(&output->index, path, error);
	free(path);
	return code;
}

int model_output_check_source(const struct model *source, const char *path, struct error *error)
{
	const bool is_gguf = source->n_files == 1 && source->files[0].format == &file_gguf;
	const struct file_format *named = file_format_named(path);

	if (is_gguf && named == NULL)
		return fail(error, EXIT_USAGE, "%s: a GGUF file becomes no model directory, because %s has the tensor names of "
		            "llama.cpp; name a .gguf file, or make a directory of it by mxfp convert", path, source->path);
	if (is_gguf || named != &file_gguf)
		return EXIT_OK;
	if (source->is_directory)
		return fail(error, EXIT_USAGE, "%s: a GGUF file is made from another one, and %s is not a GGUF file; write a directory DIR, and mxfp convert DIR "
		            "-o %s makes one of it", path, source->path, path);
	return fail(error, EXIT_USAGE, "%s: a GGUF file is made from another one, and %s is not a GGUF file; mxfp convert makes one "
	            "of the model's directory", path, source->path);
}

/* Adds the source's files and config.json, from which all that is written follows, and the program's version. */
static int add_source(json_t *fingerprint, const struct model *source, bool times, struct error *error)
{
	json_t *config = NULL;
	int code = model_config_copy(source, &config, error);

	json_prepare();
	if (code == EXIT_OK)
		code = fingerprint_sources(fingerprint, source, times, error);
	char *text = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
	if (code == EXIT_OK &&
	    (json_object_set_new(fingerprint, METADATA_VERSION, json_string(mxfp_version())) != 0 ||
	     (text != NULL && !fingerprint_add(fingerprint, CONFIG_FILE, XXH3_128bits(text, strlen(text)))) ||
	     json_out_of_memory()))
		code = fail_memory(error);
	json_release(text);
	json_decref(config);
	return code;
}

int model_output_begin(struct model_output *output, const struct model *source, const struct partial_target *target,
                       json_t *fingerprint, struct error *error)
{
	*output = (struct model_output){.source = source};
	int code = partial_name(&output->partial, target, error);

	if (code == EXIT_OK)
		code = model_output_check_apart(source, target->path, error);
	if (code == EXIT_OK)
		code = model_output_check_apart(source, output->partial.directory, error);
	if (code == EXIT_OK)
		code = add_source(fingerprint, source, true, error);
	if (code == EXIT_OK)
		code = partial_begin(&output->partial, target, fingerprint, error);
	output->begun = code == EXIT_OK;
	output->indexed = source->has_index && !target->as_file;
	if (code == EXIT_OK && output->indexed && !output->partial.appeared)
		code = begin_index(output, error);
	return code;
}

int model_output_help(struct model_output *output, const struct model *source, const struct partial_target *target,
                      struct error *error)
{
	*output = (struct model_output){.source = source};
	return partial_name(&output->partial, target, error);
}

const char *model_output_name(const struct model_output *output, const struct file *source)
{
	return output->indexed ? model_file_name(source) : MODEL_SINGLE;
}

int model_output_fingerprint(char text[FINGERPRINT_TEXT], const struct model *source, const json_t *choices,
                             struct error *error)
{
	json_t *whole = json_deep_copy(choices);
	int code = whole == NULL ? fail_memory(error) : add_source(whole, source, false, error);

	if (code == EXIT_OK)
		code = fingerprint_text(whole, text, error);
	json_decref(whole);
	return code;
}

int model_output_note(struct model_output *output, const struct file *source, const struct tensor *tensors, size_t n,
                      struct error *error)
{
	uint64_t size;
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK && output->index.stream != NULL; i++) {
		output->data_bytes += tensor_size(&tensors[i], &size) ? size : 0;
		code = model_index_text_add(&output->index, tensors[i].name, model_output_name(output, source), error);
	}
	return code;
}

int model_output_drop_index(struct model_output *output, struct error *error)
{
	char *path = output_member(&output->partial.output, MODEL_INDEX);

	model_index_text_free(&output->index);
	if (path == NULL)
		return fail_memory(error);
	const int code = unlink(path) == 0 || errno == ENOENT ? EXIT_OK : fail_errno(error, path, "cannot remove");
	free(path);
	return code;
}

int model_output_add(struct model_output *output, const struct file *source, const struct writer *writer,
                     struct error *error)
{
	int code = EXIT_OK;

	output->data_bytes += writer->data_bytes;
	if (output->index.stream == NULL)
		return EXIT_OK;
	for (size_t i = 0; i < writer->n_tensors && code == EXIT_OK; i++)
		code = model_index_text_add(&output->index, writer->tensors[i].name, model_output_name(output, source), error);
	return code;
}

int model_output_complete(struct model_output *output, const json_t *config, struct error *error)
{
	const struct output *built = &output->partial.output;
	int code = EXIT_OK;

	if (output->index.stream != NULL)
		code = model_index_text_end(&output->index, output->data_bytes, error);
	if (code == EXIT_OK && config != NULL && built->is_directory && !output->partial.appeared)
		code = model_config_write(built->temporary, config, error);
	return code;
}

int model_output_commit(struct model_output *output, const json_t *config, struct error *error)
{
	const int code = model_output_complete(output, config, error);

	return code != EXIT_OK ? code : partial_commit(&output->partial, error);
}

int model_output_end(struct model_output *output, int code, struct error *error)
{
	if (output->source == NULL)
		return code;
	model_index_text_free(&output->index);
	if (output->begun)
		code = partial_end(&output->partial, code, error);
	partial_release(&output->partial);
	*output = (struct model_output){0};
	return code;
}
