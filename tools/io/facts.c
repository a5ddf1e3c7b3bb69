/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "io/json.h"
#include "io/output.h"

static int write_escaped(const char *bytes, size_t n, void *stream)
{
	print_printable_json(stream, bytes, n);
	return ferror((FILE *)stream) ? -1 : 0;
}

int facts_print_part(FILE *stream, json_t *facts, size_t flags, struct error *error)
{
	const bool whole = facts != NULL && !json_out_of_memory();
	const bool failed = whole && json_dump_callback(facts, write_escaped, stream, flags | JSON_ENCODE_ANY) != 0 &&
	                    !ferror(stream);

	json_decref(facts);
	return whole && !failed && !json_out_of_memory() ? EXIT_OK : fail_memory(error);
}

int facts_print(FILE *stream, json_t *facts, struct error *error)
{
	int code = facts_print_part(stream, facts, JSON_INDENT(2), error);

	if (code == EXIT_OK)
		putc('\n', stream);
	return code;
}

static json_t *whole_or_null(json_t *facts, int failed)
{
	if (failed == 0)
		return facts;
	json_decref(facts);
	return NULL;
}

json_t *facts_append(json_t *array, json_t *item)
{
	return whole_or_null(array, json_array_append_new(array, item));
}

json_t *facts_set(json_t *object, const char *key, json_t *value)
{
	return whole_or_null(object, json_object_set_new(object, key, value));
}

json_t *facts_update(json_t *object, json_t *other)
{
	return whole_or_null(object, json_object_update_new(object, other));
}

json_t *facts_number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

json_t *facts_text(const char *text)
{
	json_t *string = json_string(text);

	if (string != NULL)
		return string;
	char *copy = strdup(text);
	if (copy == NULL)
		return NULL;
	make_printable(copy);
	string = json_string(copy);
	free(copy);
	return string;
}

int facts_write_file(const char *path, const json_t *json, struct error *error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = json == NULL ? NULL : open_memstream(&text, &size);

	if (stream == NULL)
		return fail_memory(error);
	json_prepare();
	bool failed = json_dumpf(json, stream, JSON_INDENT(2)) != 0 || putc('\n', stream) == EOF;
	failed = fclose(stream) != 0 || failed;
	int code = failed || json_out_of_memory() ? fail_memory(error) :
	                    output_write_file(path, text, json_restore_constants(text, size), error);
	free(text);
	return code;
}
