/* SPDX-License-Identifier: MIT */
/* JSON as a file of its own. */
#include "config.h"

#include "io/json_write.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/json.h"
#include "io/output.h"

int json_write(const char *path, const json_t *json, struct error *error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = json == NULL ? NULL : open_memstream(&text, &size);

	if (stream == NULL)
		return fail_memory(error);
	json_prepare();
	bool failed = json_dumpf(json, stream, JSON_INDENT(2)) != 0 || putc('\n', stream) == EOF;
	failed = fclose(stream) != 0 || failed;
	int code = failed || json_out_of_memory() ? fail_memory(error) : output_write_file(path, text, size, error);
	free(text);
	return code;
}
