/* SPDX-License-Identifier: MIT */
/*
 * A model on its way to GGUF, or a GGUF file on its way to a directory: it arrives, and then can be opened and goes the other
 * way or is refused there; or it is refused as input, and nothing is written.
 *
 * Input: a byte whose lowest bit allows rounding, the others the layout; then a GGUF file, or the length of config.json and
 * that of tokenizer.json in two bytes each, these two, and model.safetensors. The corpus has small models of two families.
 */
#include "config.h"

#include <unistd.h>

#include "fuzz.h"
#include "gguf/from_gguf.h"
#include "gguf/to_gguf.h"
#include "input_file.h"
#include "model/meaning.h"

static char file_out[512], directory_out[512];

static void check_refusal(int code, const struct error *error)
{
	fuzz_check(code == EXIT_INPUT || code == EXIT_USAGE, "a refusal is for the input");
	fuzz_check(error->text[0] != '\0' && strchr(error->text, '\n') == NULL, "a refusal has one line");
}

static const struct layout *layout_at(unsigned i)
{
	size_t n = 0;

	while (layouts[n] != NULL)
		n++;
	return layouts[i % n];
}

/* Both ways of one model; false: it is not one for this way, or refused. */
static bool move(const char *in, bool to, uint8_t options)
{
	const struct to_gguf_settings settings = {.in = in, .out = to ? file_out : directory_out, .threads = 1,
	                                          .allow_rounding = (options & 1) != 0, .force = true, .quiet = true};
	const struct layout *layout = layout_at(options / 2);
	struct error error = {""};
	struct model model;
	int code = meaning_open(&model, in, MEANING_MOVES, &error);

	if (code != EXIT_OK) {
		check_refusal(code, &error);
		return false;
	}
	const bool wanted = to ? to_gguf_wanted(settings.out, &model) : from_gguf_wanted(settings.out, &model);
	if (wanted && !to && layout->file_format->suffix != NULL && strcmp(layout->file_format->suffix, ".gguf") == 0)
		layout = layout_at(0);
	if (wanted)
		code = to ? to_gguf(&settings, &model, &error) : from_gguf(&settings, layout, &model, &error);
	model_close(&model);
	if (code != EXIT_OK) {
		check_refusal(code, &error);
		fuzz_check(access(settings.out, F_OK) != 0, "what is refused writes nothing");
	}
	return wanted && code == EXIT_OK;
}

static void write_members(struct fuzz_bytes *bytes)
{
	const size_t config = fuzz_length(bytes), tokenizer = fuzz_length(bytes);

	input_member("config.json", bytes, config);
	input_member("tokenizer.json", bytes, tokenizer);
	input_member("model.safetensors", bytes, bytes->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	const uint8_t options = fuzz_byte(&bytes);
	const char *parent = input_directory();

	snprintf(file_out, sizeof file_out, "%s-out.gguf", parent);
	snprintf(directory_out, sizeof directory_out, "%s-out", parent);
	if (bytes.size >= 4 && memcmp(bytes.data, "GGUF", 4) == 0) {
		if (move(input_file(bytes.data, bytes.size, ".gguf"), false, options))
			move(directory_out, true, options);
	} else {
		write_members(&bytes);
		if (move(parent, true, options))
			move(file_out, false, options);
	}
	input_remove(file_out);
	input_remove(directory_out);
	return 0;
}
