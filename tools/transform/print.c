/* SPDX-License-Identifier: MIT */
/* Prints what a transformation did. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/printable.h"
#include "base/word.h"
#include "io/facts.h"
#include "model/allow.h"
#include "transform/transform.h"

/* What comes next: what formats cost it. */
static void print_command(FILE *file, const struct transform_settings *settings)
{
	fputs("mxfp report ", file);
	word_print_path(file, settings->out);
	allow_print(file);
}

static json_t *command_facts(const struct transform_settings *settings)
{
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	if (file == NULL)
		return NULL;
	print_command(file, settings);
	json_t *facts = fclose(file) == 0 ? facts_text(text) : NULL;
	free(text);
	return facts;
}

static int print_json(const struct transformation *done, const struct transform_settings *settings, struct error *error)
{
	return facts_print(stdout, json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:b, s:b, s:o, s:o, s:o}", "input",
	                                     facts_text(settings->in), "output", facts_text(settings->out), "tensors_changed",
	                                     (json_int_t)done->n_changed, "tensors_kept", (json_int_t)done->n_kept, "tensors_left_out", (json_int_t)done->n_left_out, "scales",
	                                     (json_int_t)done->n_scales, "least_exponent", done->least, "largest_exponent", done->most,
	                                     "value_rotation", (json_int_t)done->value_rotation, "stream_rotation",
	                                     (json_int_t)done->stream_rotation, "numbers_rounded", (json_int_t)done->n_rounded, "exact",
	                                     (int)done->exact, "untied", (int)done->untied, "copied", carry_facts(&done->carry), "not_copied",
	                                     carry_left_facts(&done->carry), "command",
	                                     command_facts(settings)), error);
}

/* Numbers that powers of two did not scale exactly. */
static void print_rounded(const struct transformation *done, FILE *stream, const char *before)
{
	fprintf(stream, "%s%" PRIu64 " numbers became too small for a power of two to be exact\n", before, done->n_rounded);
}

void transform_losses(const struct transformation *done)
{
	if (done->n_rounded > 0)
		print_rounded(done, stderr, "mxfp: ");
	carry_losses(&done->carry, stderr);
}

int transform_print(const struct transformation *done, const struct transform_settings *settings, struct error *error)
{
	if (settings->json)
		return print_json(done, settings, error);
	printf("%zu tensors changed, %zu kept\n", done->n_changed, done->n_kept);
	if (done->n_left_out > 0)
		printf("%zu scales of activations and caches are left out: they are those of the numbers before\n", done->n_left_out);
	if (done->n_scales > 0)
		printf("%zu scales from 2^%d to 2^%d\n", done->n_scales, done->least, done->most);
	if (done->value_rotation > 0)
		printf("values rotate by Hadamard matrices of %zu\n", done->value_rotation);
	if (done->stream_rotation > 0)
		printf("the residual stream rotates by Hadamard matrices of %zu\n", done->stream_rotation);
	if (done->untied)
		puts("the output head is a tensor of its own now; config.json says so");
	if (done->exact)
		puts("powers of two alone: outputs in f32 are the same in every bit");
	else if (done->n_rounded > 0)
		print_rounded(done, stdout, "");
	else
		puts("outputs in f32 are the same but for rounding");
	carry_print(&done->carry, stdout);
	fputs("written to ", stdout);
	print_printable(stdout, settings->out);
	fputs("\n\n    ", stdout);
	print_command(stdout, settings);
	putchar('\n');
	return EXIT_OK;
}
