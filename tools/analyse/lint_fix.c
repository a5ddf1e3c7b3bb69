/* SPDX-License-Identifier: MIT */
/* Decides about findings, by the table, and writes what is fixed: the files of the model, each tensor copied or made of its
   bytes as it says in lint_mend.h, in pieces. */
#include "config.h"

#include "analyse/lint_fix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/column_order.h"
#include "base/printable.h"
#include "io/elements.h"
#include "io/facts.h"
#include "io/room.h"
#include "io/transfer.h"
#include "model/meaning.h"
#include "model/model_output.h"
#include "mxfp/version.h"

static const struct {
	mend_decider *decide; /* NULL: never fixed */
	const char *why;      /* why never */
} rows[N_LINT_CHECKS] = {
#define FIX(id, mender, what) [LINT_##id] = {mend_##mender, NULL},
#define LEFT(id, why) [LINT_##id] = {NULL, why},
#include "analyse/lint_fix.def"
};

static int decide(void *context, const struct lint *lint, enum lint_check check, const struct lint_place *place,
                  struct lint_fate *fate, struct error *error)
{
	struct lint_fix *fix = context;

	if (rows[check].decide != NULL)
		return rows[check].decide(&fix->mending, lint, place, fate, error);
	mend_left(fate, "%s", rows[check].why);
	return EXIT_OK;
}

/* The output is of the input's kind: a directory, or a file of its format. */
static int check_kind(const struct lint_settings *settings, const struct model *model, struct error *error)
{
	const struct file_format *format = file_format_named(settings->out);

	if (model->is_directory && format != NULL)
		return fail(error, EXIT_USAGE, "%s: the input is a directory, so the output is one; leave out the suffix", settings->out);
	if (!model->is_directory && format != model->files[0].format)
		return fail(error, EXIT_USAGE, "%s: the input is one file, so the output is one; name a %s file", settings->out,
		            model->files[0].format->suffix);
	if (model->files[0].format->lay_out == NULL)
		return fail(error, EXIT_USAGE, "%s: %s files cannot be written", settings->out, model->files[0].format->name);
	if (model->files[0].n_parts > 0)
		return fail(error, EXIT_USAGE, "%s: is split into %zu files; put them together with llama-gguf-split --merge first",
		            model->path, model->files[0].n_parts);
	return EXIT_OK;
}

/* A part of a model lacks what the others have, so that what is seen is not the model. */
static int check_whole(const struct model *model, struct error *error)
{
	char *path = directory_member(model->directory, PART_FILE);
	struct stat status;
	int code = EXIT_OK;

	if (path == NULL)
		return fail_memory(error);
	if (model->is_directory && lstat(path, &status) == 0)
		code = fail(error, EXIT_USAGE, "%s: is a part of a model; make one model of all with mxfp merge first", model->path);
	free(path);
	return code;
}

int lint_fix_begin(struct lint_fix *fix, const struct lint_settings *settings, const struct model *model, struct error *error)
{
	struct output output = {0};

	*fix = (struct lint_fix){.mender = {.decide = decide}, .mending = {.model = model}};
	int code = check_kind(settings, model, error);
	if (code == EXIT_OK)
		code = check_whole(model, error);
	if (code == EXIT_OK)
		code = model_output_check_apart(model, settings->out, error);
	if (code == EXIT_OK)
		code = model->is_directory ? output_begin_directory(&output, settings->out, settings->force, error)
		                           : output_begin_file(&output, settings->out, settings->force, error);
	if (code == EXIT_OK)
		code = room_check(&(struct room_need){output.path, model->data_bytes}, 1, "make room there, or choose another", error);
	output_abandon(&output);
	return code;
}

void lint_fix_free(struct lint_fix *fix)
{
	mending_free(&fix->mending);
	carry_free(&fix->carry);
}

/* The output being written. */
struct fixing {
	struct lint_fix *fix;
	const struct lint *lint;
	struct model_output output;
	struct transfer transfer;
	const char *carried;
	const struct mend **sorted; /* by source */
};

static int compare_sources(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)(*(const struct mend *const *)a)->source, y = (uintptr_t)(*(const struct mend *const *)b)->source;

	return (x > y) - (x < y);
}

static const struct mend *mend_of(const struct fixing *f, const struct tensor *source)
{
	const struct mend key = {.source = source}, *pointer = &key;
	const struct mend **found = f->fix->mending.n == 0 ? NULL : bsearch(&pointer, f->sorted, f->fix->mending.n, sizeof *f->sorted,
	                                                                  compare_sources);

	return found != NULL ? *found : NULL;
}

/* What is said of who wrote the output, and not of its numbers. */
static bool is_ours(const char *key)
{
	return strcmp(key, METADATA_VERSION) == 0 || strcmp(key, METADATA_CARRIED) == 0;
}

/* Sets the value of a key, in its place if it has one. */
static void put_metadata(struct writer *writer, const char *key, const char *value)
{
	size_t i = 0;

	while (i < writer->n_metadata && strcmp(writer->metadata[i].key, key) != 0)
		i++;
	writer->metadata[i] = (struct metadata){key, value};
	writer->n_metadata += i == writer->n_metadata;
}

static void drop_empty(struct writer *writer)
{
	size_t n = 0;

	for (size_t i = 0; i < writer->n_metadata; i++)
		if (writer->metadata[i].value != NULL)
			writer->metadata[n++] = writer->metadata[i];
	writer->n_metadata = n;
}

/* Tensors and metadata of a file: the source's, but for what lists the files that are copied. */
static int plan_file(struct fixing *f, const struct file *file, struct error *error)
{
	const struct mending *mending = &f->fix->mending;
	struct writer *writer = &f->transfer.writer;

	writer->tensors = calloc(file->n_tensors + mending->n + 1, sizeof *writer->tensors);
	writer->metadata = calloc(file->n_metadata + 3, sizeof *writer->metadata);
	if (writer->tensors == NULL || writer->metadata == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct mend *mend = mend_of(f, &file->tensors[i]);

		writer->tensors[writer->n_tensors++] = mend != NULL ? mend->target : file->tensors[i];
	}
	for (size_t i = 0; i < mending->n; i++)
		if (mending->mends[i].source == NULL && mending->mends[i].file == file)
			writer->tensors[writer->n_tensors++] = mending->mends[i].target;
	for (size_t i = 0; i < file->n_metadata; i++)
		writer->metadata[writer->n_metadata++] =
			(struct metadata){file->metadata[i].key, is_ours(file->metadata[i].key) ? NULL : file->metadata[i].value};
	put_metadata(writer, METADATA_VERSION, mxfp_version());
	put_metadata(writer, METADATA_CARRIED, f->carried);
	drop_empty(writer);
	return EXIT_OK;
}

enum { NIBBLE = 4, LOW = 0x0F, CHUNK_BYTES = 1 << 16 };

/* Where the code of a column is: its byte, and by how much it is shifted there. */
static unsigned char *code_at(unsigned char *unit, const struct mend_unit *u, size_t col, unsigned *shift)
{
	const size_t half = u->length / 2;

	if (half == 0) {
		*shift = col % 2 * NIBBLE;
		return unit + col / 2;
	}
	*shift = col % u->length < half ? 0 : NIBBLE;
	return unit + u->n_scales + col / u->length * half + col % half;
}

/* Puts the columns of a unit where they belong. */
static void put_in_order(unsigned char *unit, const struct mend_unit *u, size_t order)
{
	const size_t period = column_order_period(order);
	unsigned char codes[2 * COLUMN_GROUP];
	unsigned shift;

	for (size_t i = 0; i < u->cols; i++) {
		const size_t from = i / period * period;
		const unsigned char code = *code_at(unit, u, i, &shift);

		codes[from + column_order_column(order, i - from)] = code >> shift & LOW;
	}
	for (size_t i = 0; i < u->cols; i++) {
		unsigned char *at = code_at(unit, u, i, &shift);

		*at = (unsigned char)((*at & ~(LOW << shift)) | codes[i] << shift);
	}
}

static int write_units(struct fixing *f, const struct mend *mend, const struct tensor *target, struct error *error)
{
	const struct mend_unit unit = mend_unit_of(mend);
	const size_t chunk = CHUNK_BYTES / unit.bytes * unit.bytes;
	unsigned char *bytes = malloc(chunk);
	int code = bytes == NULL ? fail_memory(error) : EXIT_OK;

	for (uint64_t at = 0; at < target->size && code == EXIT_OK; at += chunk) {
		const size_t n = target->size - at < chunk ? (size_t)(target->size - at) : chunk;

		code = file_read(mend->file, mend->source, at, bytes, n, error);
		for (size_t i = 0; i + unit.bytes <= n && code == EXIT_OK; i += unit.bytes) {
			for (size_t k = 0; k < unit.n_scales && mend->map != NULL; k++)
				bytes[i + k] = mend->map[bytes[i + k]];
			if (mend->order != 0)
				put_in_order(bytes + i, &unit, mend->order - 1);
		}
		if (code == EXIT_OK)
			code = writer_write(&f->transfer.writer, target, at, bytes, n, error);
	}
	free(bytes);
	return code;
}

/* The byte of a number that lint_fix_scales.c found to have one. */
static uint8_t byte_of(const struct mend *mend, const double table[MEND_CODES], double x)
{
	return (uint8_t)(mend->numbers == MEND_BYTES ? (int)x : mend_code_of(table, x));
}

static int write_numbers(struct fixing *f, const struct mend *mend, const struct tensor *target, struct error *error)
{
	enum { ONCE = 512 };
	const size_t width = dtype_info(mend->source->dtype)->bits / 8;
	unsigned char bytes[ONCE * sizeof(double)];
	uint8_t codes[ONCE];
	double table[MEND_CODES], x[ONCE];
	int code = EXIT_OK;

	mend_decode_codes(mend->scale, table);
	for (uint64_t at = 0; at < target->size && code == EXIT_OK; at += ONCE) {
		const size_t n = target->size - at < ONCE ? (size_t)(target->size - at) : ONCE;

		code = file_read(mend->file, mend->source, at * width, bytes, n * width, error);
		if (code != EXIT_OK)
			break;
		values_decode(mend->source->dtype, bytes, x, n);
		for (size_t i = 0; i < n; i++)
			codes[i] = byte_of(mend, table, x[i]);
		code = writer_write(&f->transfer.writer, target, at, codes, n, error);
	}
	return code;
}

static int write_fixed(struct fixing *f, const struct mend *mend, struct error *error)
{
	struct writer *writer = &f->transfer.writer;
	const struct tensor *target = writer_find(writer, mend->target.name);

	if (mend->value != NULL)
		return writer_write(writer, target, 0, mend->value, (size_t)target->size, error);
	return mend->numbers != MEND_NO_NUMBERS ? write_numbers(f, mend, target, error) : write_units(f, mend, target, error);
}

/* Writes all tensors of a file. */
static int write_tensors(struct fixing *f, const struct file *file, struct error *error)
{
	const struct mending *mending = &f->fix->mending;
	int code = EXIT_OK;

	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++) {
		const struct mend *mend = mend_of(f, &file->tensors[i]);

		code = mend != NULL ? write_fixed(f, mend, error) : transfer_copy(&f->transfer, &file->tensors[i], error);
	}
	for (size_t i = 0; i < mending->n && code == EXIT_OK; i++)
		if (mending->mends[i].source == NULL && mending->mends[i].file == file)
			code = write_fixed(f, &mending->mends[i], error);
	return code;
}

static int write_file(struct fixing *f, const struct file *file, struct error *error)
{
	struct writer *writer = &f->transfer.writer;
	char *path = partial_file(&f->output.partial, model_output_name(&f->output, file));

	*writer = (struct writer){.path = path, .format = file->format, .source = file, .fd = -1};
	f->transfer.file = file;
	int code = path != NULL ? plan_file(f, file, error) : fail_memory(error);
	if (code == EXIT_OK && unlink(path) != 0 && errno != ENOENT)
		code = fail_errno(error, path, "cannot replace");
	if (code == EXIT_OK)
		code = writer_open(writer, error);
	if (code == EXIT_OK)
		code = write_tensors(f, file, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	if (code == EXIT_OK)
		code = model_output_add(&f->output, file, writer, error);
	writer_abandon(writer);
	free(writer->tensors);
	free(writer->metadata);
	free(path);
	return code;
}

/* Writes a JSON file that is changed, or copies one that is not. */
static int write_member(const struct fixing *f, const char *name, const json_t *changed, const json_t *source, struct error *error)
{
	const char *into = f->output.partial.output.temporary;

	if (changed == NULL || json_equal(changed, source))
		return source == NULL ? EXIT_OK : directory_copy(f->lint->model->directory, into, name, error);
	char *path = directory_member(into, name);
	if (path == NULL)
		return fail_memory(error);
	const int code = facts_write_file(path, changed, error);
	free(path);
	return code;
}

/* The files beside the weights. */
static int write_others(const struct fixing *f, struct error *error)
{
	const struct model *model = f->lint->model;
	const struct mending *mending = &f->fix->mending;
	json_t *second = NULL;

	if (!model->is_directory)
		return EXIT_OK;
	int code = carry_copy(&f->fix->carry, model->directory, f->output.partial.output.temporary, error);
	if (code == EXIT_OK)
		code = write_member(f, CONFIG_FILE, mending->config, model->config, error);
	if (code == EXIT_OK && !mending->no_second)
		code = lint_second_config(model, &second, error);
	if (code == EXIT_OK && second != NULL)
		code = write_member(f, LINT_SECOND_CONFIG, mending->second, second, error);
	json_decref(second);
	return code;
}

/* Counts what lint finds in what was written. */
static int look_again(const struct fixing *f, struct error *error)
{
	const struct lint_settings settings = {.ignore = f->lint->settings->ignore, .threads = f->lint->settings->threads, .quiet = true,
	                                       .silent = true};
	struct lint lint = {.settings = &settings, .original = f->lint->original};
	struct model model = {0};
	int code = model_open(&model, f->output.partial.output.temporary, error);

	lint.model = &model;
	if (code == EXIT_OK)
		code = meaning_note(&model, error);
	model.tells_faults = true;
	if (code == EXIT_OK)
		code = lint_run(&lint, error);
	f->fix->n_found = lint.counts[LINT_SEVERITY_ERROR] + lint.counts[LINT_SEVERITY_WARNING];
	f->fix->unchecked = lint_unchecked(&lint);
	lint_free(&lint);
	model_close(&model);
	return code;
}

static int write_all(struct fixing *f, struct error *error)
{
	const struct model *model = f->lint->model;
	int code = transfer_begin(&f->transfer, error);

	progress_start(&f->transfer.progress, "writing", model->data_bytes, f->lint->settings->quiet);
	for (size_t i = 0; i < model->n_files && code == EXIT_OK; i++)
		code = write_file(f, &model->files[i], error);
	progress_end(&f->transfer.progress);
	if (code == EXIT_OK)
		code = write_others(f, error);
	if (code == EXIT_OK)
		code = model_output_complete(&f->output, NULL, error);
	return code == EXIT_OK ? look_again(f, error) : code;
}

/* Makes the output; it appears if all went well. */
static int make(struct fixing *f, json_t *fingerprint, struct error *error)
{
	const struct lint_settings *settings = f->lint->settings;
	const struct model *model = f->lint->model;
	const struct partial_target target = {.path = settings->out, .as_file = !model->is_directory, .force = settings->force, .never_resumes = true};
	int code = carry_list(&f->fix->carry, model, error);

	if (code == EXIT_OK && f->fix->carry.n > 0 && (f->carried = carry_text(&f->fix->carry)) == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = model_output_begin(&f->output, model, &target, fingerprint, error);
	f->output.partial.transient = true;
	if (code == EXIT_OK)
		code = write_all(f, error);
	if (code == EXIT_OK)
		code = partial_commit(&f->output.partial, error);
	code = model_output_end(&f->output, code, error);
	transfer_end(&f->transfer);
	return code;
}

int lint_fix_write(struct lint_fix *fix, const struct lint *lint, struct error *error)
{
	struct fixing f = {.fix = fix, .lint = lint, .transfer.threads = lint->settings->threads};

	if (fix->mender.n_fixed == 0)
		return EXIT_OK;
	f.sorted = malloc((fix->mending.n + 1) * sizeof *f.sorted);
	if (f.sorted == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < fix->mending.n; i++)
		f.sorted[i] = &fix->mending.mends[i];
	qsort(f.sorted, fix->mending.n, sizeof *f.sorted, compare_sources);
	json_prepare();
	json_t *fingerprint = json_pack("{s:s}", "command", "lint --fix");
	int code = json_out_of_memory() ? fail_memory(error) : make(&f, fingerprint, error);
	fix->written = code == EXIT_OK;
	json_decref(fingerprint);
	free(f.sorted);
	return code;
}

json_t *lint_fix_facts(const struct lint_fix *fix, const struct lint_settings *settings)
{
	return json_pack("{s:I, s:I, s:o, s:o}", "fixed", (json_int_t)fix->mender.n_fixed, "not_fixed", (json_int_t)fix->mender.n_not_fixed,
	                 "output", fix->written ? facts_text(settings->out) : json_null(), "found_in_output",
	                 fix->written ? json_integer((json_int_t)fix->n_found) : json_null());
}

void lint_fix_print(const struct lint_fix *fix, const struct lint_settings *settings)
{
	printf("fixed %zu, not fixed %zu", fix->mender.n_fixed, fix->mender.n_not_fixed);
	if (!fix->written) {
		printf("; nothing is written\n");
		return;
	}
	printf("; in ");
	print_printable(stdout, settings->out);
	printf(" errors and warnings %zu\n", fix->n_found);
	if (settings->quiet)
		carry_losses(&fix->carry, stderr);
	else
		carry_print(&fix->carry, stdout);
}
