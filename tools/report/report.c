/* SPDX-License-Identifier: MIT */
/* Measuring a model: every selected tensor in file order, and the totals. */
#include "report/report.h"

#include <stdlib.h>

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
		if (cols % mxfp_format_info(variants->items[v].format)->block_length != 0)
			return false;
	return true;
}

/* Whether the quantized model that is measured has the tensor, and the user does not leave it out. */
static int is_in_against(bool *is, const struct report *report, const struct select *select,
                         const struct tensor *tensor, const char **reason, struct error *error)
{
	static struct pattern any = {.text = "*"};
	const struct select all = {.included = {.n = 1, .items = &any}, .ignored = select->ignored};
	struct quantized quantized;

	*is = select_tensor(&all, tensor, reason);
	if (!*is)
		return EXIT_OK;
	*reason = "not quantized";
	return report_against_find(&quantized, is, report->options->against, tensor, error);
}

static int is_layer(bool *is, const struct report *report, const struct select *select, bool pad_tail,
                    const struct tensor *tensor, const char **reason, struct error *error)
{
	if (report->options->against != NULL)
		return is_in_against(is, report, select, tensor, reason, error);
	*is = select_tensor(select, tensor, reason);
	if (*is && !pad_tail && !fits_blocks(&report->options->variants, tensor)) {
		*is = false;
		*reason = "rows are no multiple of the block (--pad-tail measures them)";
	}
	return EXIT_OK;
}

/* Sorts the tensors of a file into layers and those left out. */
static int select_in_file(struct report *report, const struct select *select, bool pad_tail, const struct file *file,
                          struct error *error)
{
	for (size_t t = 0; t < file->n_tensors; t++) {
		const struct tensor *tensor = &file->tensors[t];
		const char *reason;
		bool is;
		int code = is_layer(&is, report, select, pad_tail, tensor, &reason, error);

		if (code != EXIT_OK)
			return code;
		if (is)
			report->layers[report->n_layers++] = (struct layer){.file = file, .tensor = tensor};
		else
			report->skipped[report->n_skipped++] = (struct report_left_out){tensor, reason};
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
	return code == EXIT_OK ? report_check_inputs(report, error) : code;
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
}
