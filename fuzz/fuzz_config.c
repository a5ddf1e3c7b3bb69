/* SPDX-License-Identifier: MIT */
/*
 * What config.json says of quantized tensors, and scales of any grid: a model is read or refused as input in one line,
 * whatever a command does with it, and each tensor of a model that is read has its numbers, or is refused by name.
 *
 * Input: a byte for the use (enum meaning_use), one for the layout, the length of config.json in two, config.json, and
 * model.safetensors. A script wrote the corpus from the definitions of the layouts.
 */
#include "config.h"

#include "cli/options.h"
#include "fuzz.h"
#include "input_file.h"
#include "model/meaning.h"
#include "rewrite/convert.h"

static void check(int code, const struct error *error)
{
	fuzz_check(code == EXIT_OK || code == EXIT_INPUT || code == EXIT_USAGE, "an exit code that says what is wrong");
	fuzz_check(code == EXIT_OK || (error->text[0] != '\0' && strchr(error->text, '\n') == NULL), "a refusal has one line");
}

static void read_all(const struct model *model)
{
	for (size_t i = 0; i < model->n_tensors; i++) {
		const struct tensor *tensor = model->by_name[i].tensor;
		struct error error = {""};
		uint64_t size;

		fuzz_check(tensor_size(tensor, &size) && size == tensor->size, "a tensor has the bytes of its shape");
		void *bytes = malloc(size + 1);
		fuzz_check(bytes != NULL, "numbers of a small file fit memory");
		check(file_read(model->by_name[i].file, tensor, 0, bytes, size, &error), &error);
		free(bytes);
	}
}

static void convert(const struct model *model, const char *path, const struct layout *layout)
{
	const struct convert_settings settings = {.in = path, .out = "out", .layout = layout, .to = OPTION_FORMAT_NONE,
	                                          .decode = OPTION_FORMAT_NONE, .allow_rounding = true, .threads = 1, .quiet = true};
	struct convert_plan plan;
	struct error error = {""};
	json_t *config = NULL;
	int code = convert_plan(&plan, &settings, model, &error);

	if (code == EXIT_OK)
		code = convert_config(&plan, &config, &error);
	check(code, &error);
	json_decref(config);
	convert_plan_free(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	const enum meaning_use use = fuzz_byte(&bytes) % (MEANING_COMPARES + 1);
	size_t n_layouts = 0;
	struct error error = {""};
	struct model model;

	while (layouts[n_layouts] != NULL)
		n_layouts++;
	const struct layout *layout = layouts[fuzz_byte(&bytes) % n_layouts];
	input_member("config.json", &bytes, fuzz_length(&bytes));
	input_member("model.safetensors", &bytes, bytes.size);
	const int code = meaning_open(&model, input_directory(), use, &error);
	check(code, &error);
	if (code != EXIT_OK)
		return 0;
	if (use == MEANING_MOVES)
		convert(&model, input_directory(), layout);
	else
		read_all(&model);
	model_close(&model);
	return 0;
}
