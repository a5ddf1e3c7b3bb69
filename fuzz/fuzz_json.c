/* SPDX-License-Identifier: MIT */
/*
 * The reader of config.json, with the numbers that Python's json writes and JSON lacks.
 *
 * Properties: any bytes are accepted, or refused with EXIT_INPUT and a message; what is accepted is written so that it
 * is read as the same tree, and what the strict reader accepts is that tree to it too.
 *
 * Input: a config.json. The corpus was written by hand.
 */
#include "config.h"

#include "fuzz.h"
#include "input_file.h"
#include "io/json.h"

enum { LIMIT = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error error = {""};
	json_t *json = NULL, *strict = NULL, *again = NULL;
	int code = json_read_python(descriptor_open, input_file(data, size, ".json"), LIMIT, &json, &error);

	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a file is read or refused");
	fuzz_check((code == EXIT_OK) == (error.text[0] == '\0'), "a refusal has a text");
	if (json_read(descriptor_open, input_file(data, size, ".json"), LIMIT, &strict, &error) == EXIT_OK)
		fuzz_check(code == EXIT_OK && json_equal(json, strict), "what is JSON is read as such");
	char *text = code == EXIT_OK ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
	if (text != NULL) {
		size_t n = json_restore_constants(text, strlen(text));

		code = json_read_python(descriptor_open, input_file((const uint8_t *)text, n, ".json"), LIMIT, &again, &error);
		fuzz_check(n > LIMIT || (code == EXIT_OK && json_equal(json, again)), "what is written is read again");
	}
	json_release(text);
	json_decref(json);
	json_decref(strict);
	json_decref(again);
	return 0;
}
