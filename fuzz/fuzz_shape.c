/* SPDX-License-Identifier: MIT */
/*
 * What `mxfp eval` makes of a config.json, or of a GGUF file's metadata.
 *
 * Properties: any are accepted, or refused with EXIT_INPUT and a message; what is accepted has sizes that agree with each
 * other, so that memory can be taken by them.
 *
 * Input: a config.json, or a GGUF file. The corpus was written by hand.
 */
#include "config.h"

#include <string.h>

#include "eval/shape.h"
#include "fuzz.h"
#include "input_file.h"
#include "io/json.h"

static void check_shape(const struct shape *s)
{
	fuzz_check(s->layers > 0 && s->hidden > 0 && s->head_cols > 0, "a model has sizes");
	fuzz_check(s->kv_heads > 0 && s->heads % s->kv_heads == 0, "heads share keys evenly");
	fuzz_check(s->rotary_cols % 2 == 0 && s->rotary_cols <= s->head_cols, "pairs of a head rotate");
	fuzz_check(s->experts_per_token <= s->experts, "a token goes to experts that are there");
	for (size_t i = 0; i < s->layers; i++)
		fuzz_check(s->routed[i] ? s->experts > 0 && s->expert_cols > 0 : s->intermediate > 0, "a layer has a width");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const bool gguf = size >= 4 && memcmp(data, "GGUF", 4) == 0;
	const char *path = input_file(data, size, ".bytes");
	struct error error = {""};
	struct file file = {0};
	struct model model = {.path = (char *)"model", .is_directory = true};
	struct shape shape;
	int code;

	if (gguf) {
		code = file_open(&file, path, &error);
		model.n_files = 1;
		model.files = &file;
	} else {
		code = json_read_python(descriptor_open, path, size + 1, &model.config, &error);
	}
	if (code == EXIT_OK) {
		code = shape_read(&shape, &model, &error);
		if (code == EXIT_OK)
			check_shape(&shape);
		shape_free(&shape);
	}
	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a configuration is read or refused");
	fuzz_check((code == EXIT_OK) == (error.text[0] == '\0'), "a refusal has a text");
	json_decref(model.config);
	file_close(&file);
	return 0;
}
