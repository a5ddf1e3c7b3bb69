/* SPDX-License-Identifier: MIT */
/* mxfp merge: joins the parts of a quantized model, made by several machines, into the model. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "cli/commands.h"
#include "io/counts.h"
#include "io/directory.h"
#include "io/facts.h"
#include "io/output.h"
#include "model/part.h"

enum { OPERANDS_MAX = 4096 };

struct merge {
	const char *out;
	bool force, json, quiet;
	size_t n;
	const char **directories;
	struct part *parts; /* in the order of their numbers */
	size_t n_files;
	uint64_t bytes;
};

static int compare_parts(const void *a, const void *b)
{
	uint32_t left = ((const struct part *)a)->choice.number, right = ((const struct part *)b)->choice.number;

	return left < right ? -1 : left > right;
}

/* Whether these are all parts of one run. */
static int check_parts(const struct merge *merge, struct error *error)
{
	const struct part *parts = merge->parts;

	for (size_t i = 1; i < merge->n; i++) {
		if (strcmp(parts[i].fingerprint, parts[0].fingerprint) != 0 || parts[i].choice.of != parts[0].choice.of)
			return fail(error, EXIT_INPUT, "%s: is a part of something else than %s: another model, other "
			            "options or another number of parts", parts[i].directory, parts[0].directory);
		if (parts[i].choice.number == parts[i - 1].choice.number)
			return fail(error, EXIT_INPUT, "%s: is part %" PRIu32 ", as %s is; leave out one of them",
			            parts[i].directory, parts[i].choice.number, parts[i - 1].directory);
	}
	for (size_t i = 0; i < parts[0].choice.of; i++)
		if (i >= merge->n || parts[i].choice.number != i + 1)
			return fail(error, EXIT_INPUT, "%s: part %zu of %" PRIu32 " is not given", parts[0].directory,
			            i + 1, parts[0].choice.of);
	return EXIT_OK;
}

static int read_parts(struct merge *merge, struct error *error)
{
	int code = EXIT_OK;

	merge->parts = calloc(merge->n, sizeof *merge->parts);
	if (merge->parts == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < merge->n && code == EXIT_OK; i++) {
		code = part_read(&merge->parts[i], merge->directories[i], error);
		if (code == EXIT_OK)
			code = output_check_apart(merge->out, merge->directories[i], error);
	}
	if (code != EXIT_OK)
		return code;
	qsort(merge->parts, merge->n, sizeof *merge->parts, compare_parts);
	return check_parts(merge, error);
}

/* Takes a file by a link, which needs no space, or from another file system, or by a symbolic link, by a copy. */
static int take_file(const struct part *part, const char *name, const struct output *output, struct error *error)
{
	char *from = directory_member(part->directory, name), *to = output_member(output, name);
	int code = from == NULL || to == NULL ? fail_memory(error) : EXIT_OK;
	struct stat status;

	if (code == EXIT_OK)
		code = directory_parents(output->temporary, name, true, error);
	if (code == EXIT_OK && lstat(to, &status) == 0)
		code = fail(error, EXIT_INPUT, "%s: another part has a file of that name", from);
	else if (code == EXIT_OK && (lstat(from, &status) != 0 || !S_ISREG(status.st_mode) || link(from, to) != 0))
		code = directory_copy(part->directory, output->temporary, name, error);
	free(from);
	free(to);
	return code == EXIT_OK ? directory_sync_parents(output->temporary, name, error) : code;
}

static int take_files(struct merge *merge, const struct output *output, struct error *error)
{
	const char *name;
	json_t *bytes;
	int code = EXIT_OK;

	for (size_t i = 0; i < merge->n; i++)
		json_object_foreach((json_t *)merge->parts[i].files, name, bytes) {
			code = take_file(&merge->parts[i], name, output, error);
			if (code != EXIT_OK)
				return code;
			merge->n_files++;
			merge->bytes += (uint64_t)json_integer_value(bytes);
		}
	return code;
}

static int print_json(const struct merge *merge, const struct mxfp_counts *sum, uint64_t exact, uint64_t rounded,
                      struct error *error)
{
	json_t *facts = json_pack("{s:o, s:I, s:I, s:I}", "output", facts_text(merge->out), "parts", (json_int_t)merge->n,
	                          "files", (json_int_t)merge->n_files, "bytes", (json_int_t)merge->bytes);

	if (merge->parts[0].converted)
		facts_update(facts, json_pack("{s:I, s:I}", "exact", (json_int_t)exact, "rounded", (json_int_t)rounded));
	else
		facts_update(facts, counts_weights_facts(sum));
	return facts_print(stdout, facts, error);
}

static int print_summary(const struct merge *merge, struct error *error)
{
	struct mxfp_counts sum = {.size = sizeof sum};
	uint64_t exact = 0, rounded = 0;

	for (size_t i = 0; i < merge->n; i++) {
		counts_add(&sum, &merge->parts[i].counts);
		exact += merge->parts[i].exact;
		rounded += merge->parts[i].rounded;
	}
	if (merge->json)
		return print_json(merge, &sum, exact, rounded, error);
	printf("%zu parts: %zu files, %" PRIu64 " bytes\n", merge->n, merge->n_files, merge->bytes);
	if (merge->parts[0].converted)
		printf("%" PRIu64 " blocks are exact, %" PRIu64 " were rounded\n", exact, rounded);
	else
		printf("saturated %" PRIu64 ", flushed to zero %" PRIu64 ", NaN %" PRIu64 ", Inf %" PRIu64 "\n", sum.saturated,
		       sum.flushed, sum.nan, sum.inf);
	printf("written to ");
	print_printable(stdout, merge->out);
	putchar('\n');
	return EXIT_OK;
}

static int write_output(struct merge *merge, struct error *error)
{
	struct output output;
	int code = output_begin_directory(&output, merge->out, merge->force, error);

	if (code != EXIT_OK)
		return code;
	code = take_files(merge, &output, error);
	if (code == EXIT_OK)
		code = output_commit(&output, error);
	output_abandon(&output);
	return code;
}

static enum parsed parse(int argc, char **argv, struct merge *merge, struct error *error)
{
	static const struct usage usage = {
		"merge PART... -o OUT [options]",
		"Merges the parts written by mxfp quantize or convert --part 1/N to N/N. The\n"
		"result is byte-identical to that of one run. Files are hard-linked if possible,\n"
		"and copied otherwise.",
		"  mxfp merge part1 part2 part3 part4 -o model-mxfp4",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "OUT", "directory to write", &merge->out},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &merge->force},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of the summary", &merge->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print the summary", &merge->quiet},
		{.kind = OPTION_END},
	};

	/* Operands that are not given stay NULL, which ends the list of parts. */
	enum parsed parsed = options_parse(argc, argv, options, &usage, 1, OPERANDS_MAX, merge->directories, error);
	while (merge->n < OPERANDS_MAX && merge->directories[merge->n] != NULL)
		merge->n++;
	if (parsed == PARSED_RUN && merge->out == NULL) {
		fail(error, EXIT_USAGE, "merge: no output given; -o OUT names a directory, see mxfp merge --help");
		return PARSED_ERROR;
	}
	return parsed;
}

static int run_merge(struct merge *merge, struct error *error)
{
	int code = read_parts(merge, error);

	if (code == EXIT_OK)
		code = write_output(merge, error);
	if (code == EXIT_OK && (merge->json || !merge->quiet))
		code = print_summary(merge, error);
	for (size_t i = 0; merge->parts != NULL && i < merge->n; i++)
		part_free(&merge->parts[i]);
	free(merge->parts);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct merge merge = {.directories = calloc(OPERANDS_MAX, sizeof(const char *))};
	int code = EXIT_USAGE;

	if (merge.directories == NULL)
		return fail_memory(error);
	switch (parse(argc, argv, &merge, error)) {
	case PARSED_HELP:
		code = EXIT_OK;
		break;
	case PARSED_ERROR:
		break;
	case PARSED_RUN:
		code = run_merge(&merge, error);
		break;
	}
	free(merge.directories);
	return code;
}

const struct command command_merge = {"merge", "merge the parts of a quantized model", run};
