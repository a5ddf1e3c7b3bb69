/* SPDX-License-Identifier: MIT */
/* Measuring a model: which tensors are measured, what they are measured against, every one in file order, the totals. */
#include "config.h"

#include "report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/elements.h"
#include "io/file_gguf.h"
#include "model/layout.h"
#include "report/gaussian.h"

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
		uint64_t rows;
		int code = input_rows(&rows, &report->options->input, report->layers[i].tensor, error);

		if (code != EXIT_OK)
			return code;
		report->n_covered += rows > 0;
		report->input_rows = rows > report->input_rows ? rows : report->input_rows;
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
static void add_to_totals(struct report *report, const struct layer *layer)
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

/* SQNR to sort by: what is no number goes last. */
static double badness(double sqnr)
{
	return isnan(sqnr) ? (double)INFINITY : sqnr;
}

/* Enters layer i among the worst of each variant where it belongs; of equal ones the first stay. Returns whether it
   does anywhere. */
static bool enter_worst(struct report *report, size_t i)
{
	bool entered = false;

	for (size_t v = 0; v < report->options->variants.n; v++) {
		struct report_worst *worst = report->worst[v];
		const struct report_worst entry = {badness(report->layers[i].sqnr[v]), i};
		size_t at = report->n_worst;

		for (; at > 0 && entry.sqnr < worst[at - 1].sqnr; at--)
			if (at < report->n_worst)
				worst[at] = worst[at - 1];
		if (at < report->n_worst) {
			worst[at] = entry;
			entered = true;
		}
	}
	return entered;
}

enum {
	PAGE_MEASUREMENTS = 1600, /* of layers in variants, that a page holds in full, */
	PAGE_WORST = 48,          /* or of more the worst: about so many layers */
	MEMORY_MEASUREMENTS = 4096 /* whose records stay in memory */
};

static size_t n_measurements(const struct report *report)
{
	return report->n_layers * report->options->variants.n;
}

bool report_is_small(const struct report *report)
{
	return n_measurements(report) <= PAGE_MEASUREMENTS;
}

bool report_is_worst(const struct report *report, size_t i)
{
	for (size_t v = 0; v < report->options->variants.n; v++)
		for (size_t k = 0; k < report->n_worst; k++)
			if (report->worst[v][k].layer == i)
				return true;
	return false;
}

/* Appends bytes to the records. */
static int record(struct report_records *records, const void *bytes, size_t n, struct error *error)
{
	if (n == 0)
		return EXIT_OK;
	if (records->file != NULL) {
		if (fwrite(bytes, 1, n, records->file) != n)
			return fail_errno(error, "temporary file", "cannot write");
	} else {
		if (n > records->room - records->n) {
			uint64_t room = 2 * records->room + n;
			char *grown = realloc(records->bytes, room);

			if (grown == NULL)
				return fail_memory(error);
			records->bytes = grown;
			records->room = room;
		}
		memcpy(records->bytes + records->n, bytes, n);
	}
	records->n += n;
	return EXIT_OK;
}

/* Reads them back. */
static int recorded(const struct report_records *records, uint64_t *at, void *bytes, size_t n, struct error *error)
{
	if (records->file == NULL)
		memcpy(bytes, records->bytes + *at, n);
	else if (fseeko(records->file, (off_t)*at, SEEK_SET) != 0 || fread(bytes, 1, n, records->file) != n)
		return fail_errno(error, "temporary file", "cannot read");
	*at += n;
	return EXIT_OK;
}

static int record_layer(struct report *report, struct report_layer *kept, const struct layer *layer,
                        struct error *error)
{
	struct report_records *records = &report->records;
	size_t n_variants = report->options->variants.n;

	kept->record = records->n;
	int code = record(records, layer, sizeof *layer, error);
	if (code == EXIT_OK)
		code = record(records, layer->measurements, n_variants * sizeof *layer->measurements, error);
	for (size_t v = 0; code == EXIT_OK && v < n_variants; v++) {
		const struct measurement *m = &layer->measurements[v];

		code = record(records, m->scales, m->n_scales * sizeof *m->scales, error);
	}
	return code;
}

int report_load(const struct report *report, size_t i, struct layer *layer, struct error *error)
{
	const struct report_records *records = &report->records;
	size_t n_variants = report->options->variants.n;
	uint64_t at = report->layers[i].record;

	int code = recorded(records, &at, layer, sizeof *layer, error);
	layer->measurements = calloc(n_variants, sizeof *layer->measurements);
	if (code == EXIT_OK && layer->measurements == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = recorded(records, &at, layer->measurements, n_variants * sizeof *layer->measurements, error);
	/* Pointers of then: */
	for (size_t v = 0; layer->measurements != NULL && v < n_variants; v++)
		layer->measurements[v].scales = NULL;
	for (size_t v = 0; code == EXIT_OK && v < n_variants; v++) {
		struct measurement *m = &layer->measurements[v];

		m->scales = malloc((m->n_scales + 1) * sizeof *m->scales);
		code = m->scales == NULL ? fail_memory(error)
		                         : recorded(records, &at, m->scales, m->n_scales * sizeof *m->scales, error);
	}
	if (code != EXIT_OK)
		layer_free(layer, n_variants);
	return code;
}

static void give(void *context, size_t i, struct layer *layer)
{
	const struct report *report = context;

	layer->file = report->layers[i].file;
	layer->tensor = report->layers[i].tensor;
}

/* Adds a layer, and keeps of it what will be written. */
static int take(void *context, size_t i, const struct layer *layer, struct error *error)
{
	struct report *report = context;
	struct report_layer *kept = &report->layers[i];

	add_to_totals(report, layer);
	for (size_t v = 0; v < report->options->variants.n; v++) {
		const struct element_errors *errors = &layer->measurements[v].errors;

		kept->sqnr[v] = stats_sqnr(&errors->stats);
		kept->zeroed[v] = errors->flushed > layer->measurements[v].elements / 2;
		kept->non_finite |= errors->stats.excluded > 0;
		report_note_missed(report, kept, &layer->measurements[v]);
	}
	kept->gaussian = report_yardstick(report, &layer->measurements[0].variant);
	bool worst = enter_worst(report, i);
	if (report->kept == REPORT_KEEP_ALL || (report->kept == REPORT_KEEP_WORST && (worst || report_is_small(report))))
		return record_layer(report, kept, layer, error);
	return EXIT_OK;
}

/* Makes room for what is kept. */
static int prepare_layers(struct report *report, struct error *error)
{
	size_t n_variants = report->options->variants.n;

	report->n_worst = PAGE_WORST / n_variants > 1 ? PAGE_WORST / n_variants : 1;
	report->sqnr = calloc(n_measurements(report) + 1, sizeof *report->sqnr);
	report->zeroed = calloc(n_measurements(report) + 1, sizeof *report->zeroed);
	if (report->sqnr == NULL || report->zeroed == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < report->n_layers; i++) {
		report->layers[i].sqnr = report->sqnr + i * n_variants;
		report->layers[i].zeroed = report->zeroed + i * n_variants;
		report->layers[i].record = REPORT_NO_RECORD;
	}
	for (size_t v = 0; v < n_variants; v++) {
		report->worst[v] = calloc(report->n_worst, sizeof *report->worst[v]);
		if (report->worst[v] == NULL)
			return fail_memory(error);
		for (size_t i = 0; i < report->n_worst; i++)
			report->worst[v][i] = (struct report_worst){(double)INFINITY, SIZE_MAX};
	}
	if (report->kept != REPORT_KEEP_ALL || n_measurements(report) <= MEMORY_MEASUREMENTS)
		return EXIT_OK;
	report->records.file = tmpfile();
	return report->records.file != NULL ? EXIT_OK : fail_errno(error, "temporary file", "cannot create");
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
	if (report->options->against == NULL && report->model->n_files > 0) {
		const bool is_gguf = report->model->files[0].format == &file_gguf;

		report->refused[0].layout = is_gguf ? &layout_gguf : layouts[0];
		report->refused[1].layout = is_gguf ? NULL : &layout_gpt_oss;
	}
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
		role->reason = role->unknown;
	}
	return EXIT_OK;
}

/* Notes which layouts that may be proposed keep a layer as it is. */
static void note_refused(struct report *report, const struct role *role, const struct tensor *tensor)
{
	for (size_t k = 0; k < REPORT_LAYOUTS; k++) {
		struct report_refused *refused = &report->refused[k];
		const char *reason = refused->layout == NULL ? NULL
		                     : layout_refuses_role(refused->layout, &report->model->role_model, role, tensor);

		if (reason == NULL)
			continue;
		if (refused->n++ == 0)
			refused->reason = reason;
		refused->elements += tensor_elements(tensor);
	}
}

/* Sorts the tensors of a file into layers and those left out. */
static int select_in_file(struct report *report, const struct select *select, bool pad_tail, const struct file *file,
                          struct error *error)
{
	for (size_t t = 0; t < file->n_tensors; t++) {
		const struct tensor *tensor = &file->tensors[t], *rows = tensor;
		struct role role;
		bool includes = report->options->against == NULL && elements_are_float(tensor->dtype) && tensor->rank >= 2 &&
		                tensor_elements(tensor) > 0 && !patterns_match(&select->ignored, tensor->name);
		int code = is_layer(&role, report, select, tensor, error);

		if (code == EXIT_OK && role.quantized && (rows = role_rows(&role, tensor, &report->arena)) == NULL)
			code = fail_memory(error);
		if (code != EXIT_OK)
			return code;
		if (role.quantized && report->options->against == NULL && !pad_tail &&
		    !fits_blocks(&report->options->variants, rows)) {
			role.quantized = includes = false;
			role.reason = "rows are not multiples of the block (--pad-tail measures them)";
		}
		if (role.quantized)
			note_refused(report, &role, tensor);
		if (role.quantized)
			report->layers[report->n_layers++] = (struct report_layer){.file = file, .tensor = rows};
		else
			report->skipped[report->n_skipped++] = (struct report_left_out){tensor, role.reason, includes};
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

bool report_samples_rows(const struct report *report)
{
	for (size_t i = 0; i < report->n_layers; i++) {
		uint64_t rows, cols;

		tensor_matrix(report->layers[i].tensor, &rows, &cols);
		if (measure_product_rows(report->options, rows) < rows)
			return true;
	}
	return false;
}

static uint64_t model_bytes(const struct model *model)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < model->n_tensors; i++)
		bytes += model->by_name[i].tensor->size;
	return bytes;
}

struct report_whole report_whole(const struct report *report, size_t v)
{
	const struct model *model = report->model, *against = report->options->against;
	struct report_whole whole = {.source = model_bytes(model)};

	for (size_t i = 0; i < model->n_tensors; i++)
		whole.elements += tensor_elements(model->by_name[i].tensor);
	whole.quantized = against != NULL ? model_bytes(against)
	                                  : whole.source - report_bytes(report) + report->totals[v].bytes;
	return whole;
}

/* The yardsticks are of rounding to nearest. */
double report_yardstick(const struct report *report, const struct variant *variant)
{
	return report->options->round <= MXFP_ROUND_RHZ ? gaussian_sqnr(variant) : (double)NAN;
}

double report_gaussian(const struct report *report, size_t v)
{
	return report_yardstick(report, &report->totals[v].variant);
}

double report_layer_gaussian(const struct report *report, const struct report_layer *layer, size_t v)
{
	return v == 0 ? layer->gaussian : report_gaussian(report, v);
}

static int compare_numbers(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int report_median(double *median, const struct report *report, size_t v, struct error *error)
{
	double *sqnr = malloc((report->n_layers + 1) * sizeof *sqnr);

	if (sqnr == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < report->n_layers; i++)
		sqnr[i] = badness(report->layers[i].sqnr[v]);
	qsort(sqnr, report->n_layers, sizeof *sqnr, compare_numbers);
	*median = report->n_layers > 0 ? sqnr[(report->n_layers - 1) / 2] : (double)NAN;
	free(sqnr);
	return EXIT_OK;
}

bool report_on_front(const struct report *report, size_t v)
{
	const struct measurement *totals = report->totals;
	double bits = measurement_bits(&totals[v]), sqnr = stats_sqnr(&totals[v].errors.stats);

	for (size_t i = 0; i < report->options->variants.n; i++) {
		double its_bits = measurement_bits(&totals[i]), its_sqnr = stats_sqnr(&totals[i].errors.stats);

		if ((its_bits < bits && its_sqnr >= sqnr) || (its_bits <= bits && its_sqnr > sqnr))
			return false;
	}
	return true;
}

int report_select(struct report *report, const struct select *select, bool pad_tail, struct error *error)
{
	int code = prepare(report, error);

	report->select = select;
	report->pad_tail = pad_tail;
	if (code == EXIT_OK)
		code = select_check(select, report->model, error);
	for (size_t i = 0; code == EXIT_OK && i < report->model->n_files; i++)
		code = select_in_file(report, select, pad_tail, &report->model->files[i], error);
	return code == EXIT_OK ? check_inputs(report, error) : code;
}

int report_measure(struct report *report, struct error *error)
{
	const struct measure_queue queue = {report->n_layers, give, take, report};
	int code = prepare_layers(report, error);

	return code == EXIT_OK ? measure_layers(&queue, report->options, error) : code;
}

void report_free(struct report *report)
{
	for (size_t v = 0; v < report->options->variants.n; v++) {
		measurement_free(&report->totals[v]);
		free(report->worst[v]);
	}
	if (report->records.file != NULL)
		fclose(report->records.file);
	free(report->records.bytes);
	free(report->sqnr);
	free(report->zeroed);
	free(report->layers);
	free(report->skipped);
	arena_free(&report->arena);
}
