/* SPDX-License-Identifier: MIT */
/* Measuring a model: which tensors are measured, what they are measured against, every one in file order, the totals. */
#include "config.h"

#include "report/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/elements.h"

/* Finds the quantized form of a tensor, if it is a float tensor and has one. As quantized_find(). */
static int find_against(struct quantized *quantized, bool *found, const struct model *against,
                        const struct tensor *tensor, struct error *error)
{
	*found = false;
	if (!elements_are_float(tensor->dtype))
		return EXIT_OK;
	return quantized_find(quantized, found, against, tensor->name, error);
}

/* Sets the variant from the first tensor of a file that is quantized in `against`. */
static int look_in_file(struct variants *variants, const struct file *file, const struct model *against,
                        struct error *error)
{
	for (size_t t = 0; t < file->n_tensors; t++) {
		struct quantized quantized;
		bool found;
		int code = find_against(&quantized, &found, against, &file->tensors[t], error);

		if (code != EXIT_OK)
			return code;
		if (!found)
			continue;
		variants->items[0] = measure_variant_of(&quantized, file->tensors[t].name);
		variants->n = 1;
		return EXIT_OK;
	}
	return EXIT_OK;
}

int report_against_variant(struct variants *variants, const struct model *model, const struct model *against,
                           struct error *error)
{
	variants->n = 0;
	for (size_t i = 0; i < model->n_files && variants->n == 0; i++) {
		int code = look_in_file(variants, &model->files[i], against, error);

		if (code != EXIT_OK)
			return code;
	}
	if (variants->n == 0)
		return fail(error, EXIT_INPUT, "%s: holds no quantized form of a tensor of %s", against->path,
		            model->path);
	return EXIT_OK;
}

enum { WIDTHS_SHOWN = 6, WIDTHS_TEXT = 160 };

/* Row lengths, each once: those that are shown, and one more if there are others. */
struct widths {
	size_t n;
	uint64_t items[WIDTHS_SHOWN + 1];
};

static void add_width(struct widths *widths, const struct tensor *tensor)
{
	uint64_t rows, cols;

	tensor_matrix(tensor, &rows, &cols);
	for (size_t i = 0; i < widths->n; i++)
		if (widths->items[i] == cols)
			return;
	if (widths->n <= WIDTHS_SHOWN)
		widths->items[widths->n++] = cols;
}

/* "64, 96, ..."; six numbers of 20 digits fit. */
static const char *widths_text(char text[WIDTHS_TEXT], const struct widths *widths)
{
	size_t used = (size_t)snprintf(text, WIDTHS_TEXT, "%s", widths->n == 0 ? "none" : "");

	for (size_t i = 0; i < widths->n && i < WIDTHS_SHOWN; i++)
		used += (size_t)snprintf(text + used, WIDTHS_TEXT - used, "%s%" PRIu64, i == 0 ? "" : ", ",
		                         widths->items[i]);
	if (widths->n > WIDTHS_SHOWN)
		snprintf(text + used, WIDTHS_TEXT - used, ", ...");
	return text;
}

static int fail_none(const struct report *report, struct error *error)
{
	const struct file *file = report->options->input.file;
	struct widths needed = {0}, found = {0};
	char needed_text[WIDTHS_TEXT], found_text[WIDTHS_TEXT];

	for (size_t i = 0; i < report->n_layers; i++)
		add_width(&needed, report->layers[i].tensor);
	for (size_t i = 0; i < file->n_tensors; i++)
		add_width(&found, &file->tensors[i]);
	return fail(error, EXIT_INPUT, "%s: holds no activations for any tensor: rows of %s are needed, of %s found"
	            "; name each tensor in it like its layer, or put one alone into it", file->path,
	            widths_text(needed_text, &needed), widths_text(found_text, &found));
}

/* Counts the layers that there are activations for. EXIT_INPUT: there are layers, and a file fits none of them.
   EXIT_MEMORY. */
static int check_inputs(struct report *report, struct error *error)
{
	report->n_covered = 0;
	for (size_t i = 0; i < report->n_layers; i++) {
		bool covers;
		int code = input_covers(&covers, &report->options->input, report->layers[i].tensor, error);

		if (code != EXIT_OK)
			return code;
		report->n_covered += covers;
	}
	return report->n_covered > 0 || report->n_layers == 0 ? EXIT_OK : fail_none(report, error);
}

/* Of a quantized model each tensor has a variant of its own, and the total has what they have in common. */
static void join_variants(struct measurement *total, const struct measurement *layer)
{
	if (total->elements == 0)
		total->variant = layer->variant;
	else if (!variant_same_format(&total->variant, &layer->variant))
		total->variant.mixed = true;
	else if (total->variant.rule != layer->variant.rule || total->variant.recipe != layer->variant.recipe)
		total->variant.as_written = true;
}

/* Adds a layer's numbers to the totals. */
static void add_layer(struct report *report, const struct layer *layer)
{
	for (size_t v = 0; v < report->options->variants.n; v++) {
		if (report->options->against != NULL)
			join_variants(&report->totals[v], &layer->measurements[v]);
		measurement_merge(&report->totals[v], &layer->measurements[v]);
	}
	for (unsigned k = 0; k < N_ACTIVATION_KINDS; k++) {
		stats_merge(&report->inputs[k].input, &layer->inputs[k].input);
		stats_merge(&report->inputs[k].product, &layer->inputs[k].product);
	}
}

static size_t count_tensors(const struct model *model)
{
	size_t n = 0;

	for (size_t i = 0; i < model->n_files; i++)
		n += model->files[i].n_tensors;
	return n;
}

static int prepare(struct report *report, struct error *error)
{
	const struct variants *variants = &report->options->variants;
	size_t n = count_tensors(report->model);
	int code = EXIT_OK;

	report->layers = calloc(n + 1, sizeof *report->layers);
	report->skipped = calloc(n + 1, sizeof *report->skipped);
	if (report->layers == NULL || report->skipped == NULL)
		return fail_memory(error);
	for (size_t v = 0; code == EXIT_OK && v < variants->n; v++)
		code = measurement_init(&report->totals[v], &variants->items[v], error);
	return code;
}

/* Whether rows of a tensor are whole blocks in every variant. */
static bool fits_blocks(const struct variants *variants, const struct tensor *tensor)
{
	uint64_t rows, cols;

	tensor_matrix(tensor, &rows, &cols);
	for (size_t v = 0; v < variants->n; v++)
		if (cols % mxfp_format_get_info(variants->items[v].format)->block_length != 0)
			return false;
	return true;
}

/* Whether the quantized model that is measured has the tensor, and the user does not leave it out; as rows if it was
   quantized so. */
static int is_in_against(struct role *role, const struct report *report, const struct select *select,
                         const struct tensor *tensor, struct error *error)
{
	static struct pattern any = {.text = "*"};
	const struct select all = {.included = {.n = 1, .items = &any}, .ignored = select->ignored};
	struct quantized quantized;

	*role = select_tensor(&all, &report->model->role_model, tensor);
	if (!role->quantized)
		return EXIT_OK;
	role->reason = "not quantized";
	int code = find_against(&quantized, &role->quantized, report->options->against, tensor, error);
	role->axis = code == EXIT_OK && role->quantized && quantized.transposed ? ROLE_TURNED : ROLE_LAST;
	return code;
}

static int is_layer(struct role *role, const struct report *report, const struct select *select,
                    const struct tensor *tensor, struct error *error)
{
	if (report->options->against != NULL)
		return is_in_against(role, report, select, tensor, error);
	*role = select_tensor(select, &report->model->role_model, tensor);
	if (role->quantized && role->axis == ROLE_UNKNOWN) {
		role->quantized = false;
		role->reason = role_unknown;
	}
	return EXIT_OK;
}

/* Sorts the tensors of a file into layers and those left out. */
static int select_in_file(struct report *report, const struct select *select, bool pad_tail, const struct file *file,
                          struct error *error)
{
	for (size_t t = 0; t < file->n_tensors; t++) {
		const struct tensor *tensor = &file->tensors[t], *rows = tensor;
		struct role role;
		int code = is_layer(&role, report, select, tensor, error);

		if (code == EXIT_OK && role.quantized && (rows = role_rows(&role, tensor, &report->arena)) == NULL)
			code = fail_memory(error);
		if (code != EXIT_OK)
			return code;
		if (role.quantized && report->options->against == NULL && !pad_tail &&
		    !fits_blocks(&report->options->variants, rows)) {
			role.quantized = false;
			role.reason = "rows are not multiples of the block (--pad-tail measures them)";
		}
		if (role.quantized)
			report->layers[report->n_layers++] = (struct layer){.file = file, .tensor = rows};
		else
			report->skipped[report->n_skipped++] = (struct report_left_out){tensor, role.reason};
	}
	return EXIT_OK;
}

uint64_t report_bytes(const struct report *report)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < report->n_layers; i++)
		bytes += report->layers[i].tensor->size;
	return bytes;
}

bool report_on_front(const struct report *report, size_t v)
{
	const struct measurement *totals = report->totals;
	double bits = measurement_bits(&totals[v]), sqnr = stats_sqnr(&totals[v].weights);

	for (size_t i = 0; i < report->options->variants.n; i++) {
		double its_bits = measurement_bits(&totals[i]), its_sqnr = stats_sqnr(&totals[i].weights);

		if ((its_bits < bits && its_sqnr >= sqnr) || (its_bits <= bits && its_sqnr > sqnr))
			return false;
	}
	return true;
}

int report_select(struct report *report, const struct select *select, bool pad_tail, struct error *error)
{
	int code = prepare(report, error);

	if (code == EXIT_OK)
		code = select_check(select, report->model, error);
	for (size_t i = 0; code == EXIT_OK && i < report->model->n_files; i++)
		code = select_in_file(report, select, pad_tail, &report->model->files[i], error);
	return code == EXIT_OK ? check_inputs(report, error) : code;
}

int report_measure(struct report *report, struct error *error)
{
	for (size_t i = 0; i < report->n_layers; i++) {
		int code = measure_layer(&report->layers[i], report->options, error);

		if (code != EXIT_OK)
			return code;
		add_layer(report, &report->layers[i]);
	}
	return EXIT_OK;
}

void report_free(struct report *report)
{
	size_t n_variants = report->options->variants.n;

	for (size_t i = 0; i < report->n_layers; i++)
		layer_free(&report->layers[i], n_variants);
	for (size_t v = 0; v < n_variants; v++)
		measurement_free(&report->totals[v]);
	free(report->layers);
	free(report->skipped);
	arena_free(&report->arena);
}
