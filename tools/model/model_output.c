/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/model_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/directory.h"
#include "io/facts.h"
#include "io/file_gguf.h"
#include "model/layout_config.h"

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
		code = json_read(path, CONFIG_BYTES_MAX, config, error);
	if (code == EXIT_OK && *config != NULL && !json_is_object(*config))
		code = fail(error, EXIT_INPUT, "%s: is not a JSON object", path);
	free(path);
	return code;
}

int model_config_copy(const struct model *model, json_t **config, struct error *error)
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

static int write_member(const char *directory, const char *name, const json_t *json, struct error *error)
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
		code = write_member(directory, CONFIG_FILE, config, error);
	if (code == EXIT_OK && name != NULL)
		code = write_member(directory, name, second, error);
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
	for (size_t i = 0; i < source->n_files && code == EXIT_OK; i++)
		code = output_check_apart(path, source->files[i].path, error);
	return code;
}

static int begin_index(struct model_output *output, struct error *error)
{
	char *path = output_member(&output->output, MODEL_INDEX);
	int code = path == NULL ? fail_memory(error) : model_index_text_begin(&output->index, path, error);

	free(path);
	return code;
}

int model_output_check_gguf(const struct model *source, const char *path, struct error *error)
{
	if (source->n_files == 1 && source->files[0].format == &file_gguf)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: a GGUF file is made from one, and %s is none; make one of it with "
	            "convert_hf_to_gguf.py of llama.cpp first", path, source->path);
}

int model_output_begin(struct model_output *output, const struct model *source, const char *path, bool as_file,
                       bool force, struct error *error)
{
	*output = (struct model_output){.source = source};
	int code = model_output_check_apart(source, path, error);

	if (code == EXIT_OK && as_file)
		code = output_begin_file(&output->output, path, force, error);
	else if (code == EXIT_OK)
		code = output_begin_directory(&output->output, path, force, error);
	if (code == EXIT_OK && source->has_index && !as_file)
		code = begin_index(output, error);
	if (code != EXIT_OK)
		model_output_abandon(output);
	return code;
}

static const char *name_of(const struct model_output *output, const struct file *source)
{
	return output->index.stream != NULL ? model_file_name(source) : MODEL_SINGLE;
}

char *model_output_path(struct model_output *output, const struct file *source)
{
	if (!output->output.is_directory)
		return strdup(output_build(&output->output));
	return output_member(&output->output, name_of(output, source));
}

int model_output_add(struct model_output *output, const struct file *source, const struct writer *writer,
                     struct error *error)
{
	int code = EXIT_OK;

	output->data_bytes += writer->data_bytes;
	if (output->index.stream == NULL)
		return EXIT_OK;
	for (size_t i = 0; i < writer->n_tensors && code == EXIT_OK; i++)
		code = model_index_text_add(&output->index, writer->tensors[i].name, name_of(output, source), error);
	return code;
}

int model_output_commit(struct model_output *output, const json_t *config, struct error *error)
{
	int code = EXIT_OK;

	if (output->index.stream != NULL)
		code = model_index_text_end(&output->index, output->data_bytes, error);
	if (code == EXIT_OK && config != NULL && output->output.is_directory)
		code = model_config_write(output->output.temporary, config, error);
	return code != EXIT_OK ? code : output_commit(&output->output, error);
}

void model_output_abandon(struct model_output *output)
{
	model_index_text_free(&output->index);
	output_abandon(&output->output);
	*output = (struct model_output){0};
}
