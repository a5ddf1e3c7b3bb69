/* SPDX-License-Identifier: MIT */
/*
 * Conversion to every layout and format: from any bytes, it preserves codes and scales, or in another format the numbers of exact
 * blocks, or refuses the tensor with a message.
 *
 * Input: a byte for the layout, one for the options, and a safetensors or GGUF file. A script generated the corpus from
 * the definitions of the layouts.
 */
#include "config.h"

#include <unistd.h>

#include "cli/options.h"
#include "fuzz.h"
#include "input_file.h"
#include "model/scaled.h"
#include "mxfp/quantize.h"
#include "rewrite/convert.h"

enum { OPTION_ROUNDING = 1, OPTION_DECODING = 2, OPTION_FORMATS = 4 }; /* the number of a format, from there on */

static const struct layout *layout_at(unsigned i)
{
	size_t n = 0;

	while (layouts[n] != NULL)
		n++;
	return layouts[i % n];
}

static void check_text(int code, const struct error *error)
{
	fuzz_check(code == EXIT_INPUT || code == EXIT_USAGE, "a refusal is for the input");
	fuzz_check(error->text[0] != '\0', "a refusal says why");
}

/* The codes and scales of a piece of a tensor. */
struct held {
	unsigned char codes[PIECE_ELEMENTS], scales[PIECE_ELEMENTS];
};

static void read_held(struct held *held, const struct quantized *q, const struct piece *piece)
{
	const struct mxfp_blocks blocks = quantized_blocks(q, piece, held->codes, held->scales);
	struct error error;
	uint64_t n_bytes;

	memset(held, 0, sizeof *held);
	fuzz_check(quantized_read(q, piece, &blocks, &n_bytes, &error) == EXIT_OK, "codes can be read");
}

static void check_moved(const struct convert_entry *entry, const struct model *moved)
{
	static struct held before, after;
	struct quantized q;
	struct piece piece = {0};
	struct error error;
	bool found;

	fuzz_check(quantized_find(&q, &found, moved, entry->name, &error) == EXIT_OK && found, "what was moved is found");
	fuzz_check(q.rows == entry->quantized.rows && q.cols == entry->quantized.cols, "and has its shape");
	fuzz_check(q.choice.form->format == entry->quantized.choice.form->format, "and its format");
	if (!piece_next(&piece, q.rows, q.cols))
		return;
	read_held(&before, &entry->quantized, &piece);
	read_held(&after, &q, &piece);
	fuzz_check(memcmp(&before, &after, sizeof before) == 0, "and its codes and scales");
}

/* The numbers of the first piece. */
static void read_numbers(float *numbers, const struct quantized *q, const struct piece *piece)
{
	static struct held held;
	const struct mxfp_blocks blocks = quantized_blocks(q, piece, held.codes, held.scales);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, numbers);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	struct error error;

	if (q->choice.form->format == MXFP_FORMAT_F32) {
		fuzz_check(file_read(q->files[LAYOUT_CODES], q->parts[LAYOUT_CODES], 0, numbers, piece->rows * piece->cols * sizeof *numbers,
		                     &error) == EXIT_OK, "numbers can be read");
		return;
	}
	read_held(&held, q, piece);
	fuzz_check(mxfp_dequantize(&to, &matrix, &exec) == MXFP_OK, "and decoded");
}

static void check_changed(const struct convert_entry *entry, const struct model *changed, enum mxfp_format to)
{
	static float before[PIECE_ELEMENTS], after[PIECE_ELEMENTS];
	struct quantized q;
	struct piece piece = {0};
	struct error error;
	bool found;

	fuzz_check(quantized_find(&q, &found, changed, entry->name, &error) == EXIT_OK && found, "what was changed is found");
	fuzz_check(q.rows == entry->quantized.rows && q.cols == entry->quantized.cols, "and has its shape");
	fuzz_check(q.choice.form->format == to, "and the format that was asked for");
	if (entry->tally->rounded > 0 || !piece_next(&piece, q.rows, q.cols))
		return;
	read_numbers(before, &entry->quantized, &piece);
	read_numbers(after, &q, &piece);
	fuzz_check(memcmp(before, after, piece.rows * piece.cols * sizeof *before) == 0, "and its numbers");
}

static void check_output(const struct convert_plan *plan)
{
	struct model moved;
	struct error error;

	fuzz_check(model_open(&moved, plan->settings->out, &error) == EXIT_OK, "the output can be opened");
	for (size_t i = 0; i < plan->n_entries; i++)
		if (plan->entries[i].what == CONVERT_MOVED)
			check_moved(&plan->entries[i], &moved);
		else if (plan->entries[i].what == CONVERT_CHANGED)
			check_changed(&plan->entries[i], &moved, plan->settings->to);
	model_close(&moved);
}

static void convert(const struct convert_settings *settings, const struct model *model)
{
	struct convert_plan plan;
	struct error error = {0};
	int code = convert_plan(&plan, settings, model, &error);

	if (code == EXIT_OK)
		code = convert_run(&plan, &error);
	if (code == EXIT_OK)
		check_output(&plan);
	else
		check_text(code, &error);
	convert_plan_free(&plan);
	unlink(settings->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	struct convert_settings settings = {.layout = layout_at(fuzz_byte(&bytes)), .threads = 1, .force = true,
	                                     .quiet = true};
	uint8_t options = fuzz_byte(&bytes);
	struct model model;
	struct error error = {0};
	char out[4096];

	settings.allow_rounding = (options & OPTION_ROUNDING) != 0;
	settings.decode = (options & OPTION_DECODING) != 0 ? MXFP_FORMAT_BF16 : OPTION_FORMAT_NONE;
	const enum mxfp_format to = (enum mxfp_format)(options / OPTION_FORMATS);
	settings.to = mxfp_format_get_info(to) != NULL && layout_form(settings.layout, to, false) != NULL ? to : OPTION_FORMAT_NONE;
	settings.in = input_file(bytes.data, bytes.size, ".in");
	snprintf(out, sizeof out, "%s%s", settings.in, settings.layout->file_format->suffix);
	settings.out = out;
	int code = model_open(&model, settings.in, &error);
	if (code != EXIT_OK) {
		check_text(code, &error);
		return 0;
	}
	if (settings.to != OPTION_FORMAT_NONE)
		code = model_decode_scaled(&model, false, &error);
	if (code == EXIT_OK)
		convert(&settings, &model);
	else
		check_text(code, &error);
	model_close(&model);
	return 0;
}
