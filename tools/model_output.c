/* SPDX-License-Identifier: MIT */
/* A model being written. The index is formatted while files are added: as a tree it would cost several times
   the memory of the headers. */
#include "config.h"

#include "model_output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Refuses an output that is a file `name` of the source's directory. */
static int check_member(const struct model *source, const char *name, const char *path, struct error *error)
{
	size_t size = strlen(source->directory) + strlen(name) + sizeof "/";
	char *member = malloc(size);

	if (member == NULL)
		return fail_memory(error);
	snprintf(member, size, "%s/%s", source->directory, name);
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
		code = check_member(source, MODEL_CONFIG, path, error);
	for (size_t i = 0; i < source->n_files && code == EXIT_OK; i++)
		code = output_check_apart(path, source->files[i].path, error);
	return code;
}

static int open_index(struct model_output *output, struct error *error)
{
	output->index = open_memstream(&output->index_bytes, &output->index_size);
	if (output->index == NULL)
		return fail_memory(error);
	fputs("{\n  \"weight_map\": {\n", output->index);
	return EXIT_OK;
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
		code = open_index(output, error);
	if (code != EXIT_OK)
		model_output_abandon(output);
	return code;
}

static const char *name_of(const struct model_output *output, const struct file *source)
{
	return output->index != NULL ? model_file_name(source) : MODEL_SINGLE;
}

char *model_output_path(const struct model_output *output, const struct file *source)
{
	if (!output->output.is_directory)
		return strdup(output->output.temporary);
	return output_member(&output->output, name_of(output, source));
}

/* Prints a JSON string; false without memory. */
static bool print_string(FILE *stream, const char *text)
{
	json_t *string = json_string(text);
	bool printed = string != NULL && json_dumpf(string, stream, JSON_ENCODE_ANY) == 0;

	json_decref(string);
	return printed;
}

int model_output_add(struct model_output *output, const struct file *source, const struct writer *writer,
                     struct error *error)
{
	bool printed = true;

	output->data_bytes += writer->data_bytes;
	if (output->index == NULL)
		return EXIT_OK;
	json_prepare();
	for (size_t i = 0; i < writer->n_tensors && printed; i++) {
		fputs(output->index_started ? ",\n    " : "    ", output->index);
		output->index_started = true;
		printed = print_string(output->index, writer->tensors[i].name);
		fputs(": ", output->index);
		printed = printed && print_string(output->index, name_of(output, source));
	}
	if (!printed || ferror(output->index) || json_out_of_memory())
		return fail_memory(error);
	return EXIT_OK;
}

static int write_member(const struct model_output *output, const char *name, const char *bytes, size_t n,
                        struct error *error)
{
	char *path = output_member(&output->output, name);

	if (path == NULL)
		return fail_memory(error);
	int code = output_write_file(path, bytes, n, error);
	free(path);
	return code;
}

/* {"metadata": {"total_size": ...}, "weight_map": {...}}; the total comes after the map, since it is known last. */
static int write_index(struct model_output *output, struct error *error)
{
	fprintf(output->index, "\n  },\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  }\n}\n",
	        output->data_bytes);
	bool failed = ferror(output->index) != 0;

	failed = fclose(output->index) != 0 || failed;
	output->index = NULL;
	if (failed)
		return fail_memory(error);
	return write_member(output, MODEL_INDEX, output->index_bytes, output->index_size, error);
}

static int write_config(const struct model_output *output, const json_t *config, struct error *error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (stream == NULL)
		return fail_memory(error);
	json_prepare();
	bool failed = json_dumpf(config, stream, JSON_INDENT(2)) != 0 || putc('\n', stream) == EOF;
	failed = fclose(stream) != 0 || failed;
	int code = failed || json_out_of_memory() ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK)
		code = write_member(output, MODEL_CONFIG, text, size, error);
	free(text);
	return code;
}

int model_output_commit(struct model_output *output, const json_t *config, struct error *error)
{
	int code = EXIT_OK;

	if (output->index != NULL)
		code = write_index(output, error);
	if (code == EXIT_OK && config != NULL && output->output.is_directory)
		code = write_config(output, config, error);
	return code != EXIT_OK ? code : output_commit(&output->output, error);
}

void model_output_abandon(struct model_output *output)
{
	if (output->index != NULL)
		fclose(output->index);
	free(output->index_bytes);
	output_abandon(&output->output);
	*output = (struct model_output){0};
}
