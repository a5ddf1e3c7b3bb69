/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/model_index_text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/json.h"

int model_index_text_begin(struct model_index_text *text, const char *path, struct error *error)
{
	*text = (struct model_index_text){.path = strdup(path)};
	if (text->path == NULL)
		return fail_memory(error);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	text->stream = fd < 0 ? NULL : fdopen(fd, "w");
	if (text->stream == NULL) {
		fail_errno(error, path, "cannot create");
		if (fd >= 0)
			close(fd);
		return EXIT_IO;
	}
	fputs("{\n  \"weight_map\": {\n", text->stream);
	return EXIT_OK;
}

/* Prints a JSON string; what the stream does not take is left to ferror(). */
static int print_string(FILE *stream, const char *text, struct error *error)
{
	json_t *string = json_string(text);
	char *quoted = string == NULL ? NULL : json_dumps(string, JSON_ENCODE_ANY);
	int code = quoted == NULL || json_out_of_memory() ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK)
		fputs(quoted, stream);
	json_release(quoted);
	json_decref(string);
	return code;
}

int model_index_text_add(struct model_index_text *text, const char *tensor, const char *file, struct error *error)
{
	json_prepare();
	fputs(text->started ? ",\n    " : "    ", text->stream);
	text->started = true;
	int code = print_string(text->stream, tensor, error);
	fputs(": ", text->stream);
	return code != EXIT_OK ? code : print_string(text->stream, file, error);
}

/* {"metadata": {"total_size": ...}, "weight_map": {...}}; the total comes after the map, since it is known last. */
int model_index_text_end(struct model_index_text *text, uint64_t total_bytes, struct error *error)
{
	fprintf(text->stream, "\n  },\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  }\n}\n", total_bytes);
	int code = fflush(text->stream) != 0 || ferror(text->stream) ? fail_errno(error, text->path, "cannot write")
	                                                             : EXIT_OK;

	if (code == EXIT_OK)
		code = descriptor_sync(fileno(text->stream), text->path, error);
	if (fclose(text->stream) != 0 && code == EXIT_OK)
		code = fail_errno(error, text->path, "cannot close");
	text->stream = NULL;
	return code;
}

void model_index_text_free(struct model_index_text *text)
{
	if (text->stream != NULL)
		fclose(text->stream);
	free(text->path);
	*text = (struct model_index_text){0};
}
