/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model_index_text.h"

#include <inttypes.h>
#include <stdlib.h>

#include "json.h"

int model_index_text_begin(struct model_index_text *text, struct error *error)
{
	*text = (struct model_index_text){0};
	text->stream = open_memstream(&text->bytes, &text->n);
	if (text->stream == NULL)
		return fail_memory(error);
	fputs("{\n  \"weight_map\": {\n", text->stream);
	return EXIT_OK;
}

/* Prints a JSON string; false without memory. */
static bool print_string(FILE *stream, const char *text)
{
	json_t *string = json_string(text);
	bool printed = string != NULL && json_dumpf(string, stream, JSON_ENCODE_ANY) == 0;

	json_decref(string);
	return printed;
}

int model_index_text_add(struct model_index_text *text, const char *tensor, const char *file, struct error *error)
{
	json_prepare();
	fputs(text->started ? ",\n    " : "    ", text->stream);
	text->started = true;
	bool printed = print_string(text->stream, tensor);
	fputs(": ", text->stream);
	printed = printed && print_string(text->stream, file);
	if (!printed || ferror(text->stream) || json_out_of_memory())
		return fail_memory(error);
	return EXIT_OK;
}

/* {"metadata": {"total_size": ...}, "weight_map": {...}}; the total comes after the map, since it is known last. */
int model_index_text_end(struct model_index_text *text, uint64_t total_bytes, struct error *error)
{
	fprintf(text->stream, "\n  },\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  }\n}\n", total_bytes);
	bool failed = ferror(text->stream) != 0;

	failed = fclose(text->stream) != 0 || failed;
	text->stream = NULL;
	return failed ? fail_memory(error) : EXIT_OK;
}

void model_index_text_free(struct model_index_text *text)
{
	if (text->stream != NULL)
		fclose(text->stream);
	free(text->bytes);
	*text = (struct model_index_text){0};
}
