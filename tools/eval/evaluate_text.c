/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/table.h"
#include "eval/evaluate.h"

static void add_heading(struct table *table, const char *const *names, size_t n, size_t n_left)
{
	*table = (struct table){.n_columns = n, .n_left = n_left};
	for (size_t i = 0; i < n; i++)
		table_cell(table, "%s", names[i]);
}

/* The columns of a run beside the base. */
static const char *const beside_names[] = {"cost", "mean KLD", "+-", "99 % KLD", "same top", "RMS change"};
enum { N_BESIDE = sizeof beside_names / sizeof beside_names[0] };

static void beside_cells(struct table *table, const struct score_summary *s)
{
	if (!s->beside) {
		for (int i = 0; i < N_BESIDE; i++)
			table_cell(table, "-");
		return;
	}
	table_number(table, 100 * (s->perplexity.mean / s->base_perplexity.mean - 1), 2, " %");
	table_number(table, s->divergence.mean, 6, "");
	table_number(table, s->divergence.error, 6, "");
	table_number(table, s->percentile_99, 5, "");
	table_number(table, 100 * s->agreement.mean, 2, " %");
	table_number(table, 100 * s->change_rms.mean, 3, " %");
}

static bool is_beside(const struct evaluation *e)
{
	return e->results[e->n_results - 1].summary.beside;
}

static int print_results(const struct evaluation *e, FILE *file, struct error *error)
{
	enum { N_OWN = 7 };
	const char *names[N_OWN + N_BESIDE] = {"run", "weights", "activations", "MiB", "bits/weight", "perplexity", "+-"};
	const bool beside = is_beside(e);
	struct table table;

	memcpy(names + N_OWN, beside_names, sizeof beside_names);
	add_heading(&table, names, beside ? N_OWN + N_BESIDE : N_OWN, 3);
	for (size_t i = 0; i < e->n_results; i++) {
		const struct evaluate_result *r = &e->results[i];

		table_name(&table, r->name);
		table_cell(&table, "%s", r->weights);
		table_cell(&table, "%s", r->activations);
		table_number(&table, r->loaded ? (double)r->size.bytes / (1 << 20) : (double)NAN, 2, "");
		table_number(&table, r->loaded ? evaluate_bits(r) : (double)NAN, 3, "");
		table_number(&table, r->summary.perplexity.mean, 4, "");
		table_number(&table, r->summary.perplexity.error, 4, "");
		if (beside)
			beside_cells(&table, &r->summary);
	}
	return table_print(&table, file, error);
}

static void print_mean(FILE *file, const char *name, struct score_mean mean, double scale, const char *unit)
{
	fprintf(file, "%-36s %.6f +- %.6f%s\n", name, scale * mean.mean, scale * mean.error, unit);
}

/* All that is known of the last run. */
static void print_details(const struct evaluate_result *r, FILE *file)
{
	const struct score_summary *s = &r->summary;

	print_mean(file, "negative log-likelihood of a token", s->nll, 1, "");
	print_mean(file, "perplexity", s->perplexity, 1, "");
	if (!s->beside)
		return;
	print_mean(file, "perplexity of the base", s->base_perplexity, 1, "");
	print_mean(file, "ln(perplexity / base's)", s->ratio, 1, "");
	print_mean(file, "mean KL divergence", s->divergence, 1, "");
	fprintf(file, "%-36s %.6f\n%-36s %.6f\n%-36s %.6f\n", "median KL divergence", s->median, "99 % KL divergence",
	       s->percentile_99, "largest KL divergence", s->most);
	print_mean(file, "same most probable token", s->agreement, 100, " %");
	print_mean(file, "mean change of the token's p", s->change, 100, " %");
	print_mean(file, "RMS change of the token's p", s->change_rms, 100, " %");
}

static int print_parts(const struct evaluation *e, FILE *file, bool layers, struct error *error)
{
	const char *names[4 + N_BESIDE] = {layers ? "layer" : "kind", "weights", "perplexity", "+-"};
	struct table table;
	size_t n = 0;

	memcpy(names + 4, beside_names, sizeof beside_names);
	add_heading(&table, names, 4 + N_BESIDE, 1);
	for (size_t i = 0; i < e->n_parts; i++) {
		const struct evaluate_part *part = &e->parts[i];
		const struct score_summary *s = &part->result.summary;

		if ((part->name[0] == '\0') != layers)
			continue;
		if (layers)
			table_cell(&table, "%zu", part->layer);
		else
			table_name(&table, part->name);
		table_cell(&table, "%" PRIu64, part->elements);
		table_number(&table, s->perplexity.mean, 4, "");
		table_number(&table, s->perplexity.error, 4, "");
		beside_cells(&table, s);
		n++;
	}
	if (n == 0) {
		table_free(&table);
		return EXIT_OK;
	}
	fprintf(file, "%s alone, the costliest first:\n\n", layers ? "Each layer" : "Each kind of weights");
	return table_print(&table, file, error);
}

void evaluate_print_source(const struct evaluation *e, const char *source, FILE *file)
{
	print_markdown(file, source);
	fprintf(file, ": %zu tokens in %zu windows of at most %zu, %zu of them predicted\n", e->n_tokens, e->settings->tokens->n,
	       e->settings->context, e->n_predictions);
	if (e->settings->note != NULL) {
		print_markdown(file, e->settings->note);
		putc('\n', file);
	}
	for (size_t i = 0; i < e->n_results; i++)
		if (i == 0 || strcmp(e->results[i].path, e->results[i - 1].path) != 0) {
			fprintf(file, "%s: ", e->n_results > 1 && i == 0 && is_beside(e) ? "base" : "model");
			print_markdown(file, e->results[i].path);
			putc('\n', file);
		}
	putc('\n', file);
}

/* The first of the runs that leave the same matrices as they are. */
static size_t first_with(const struct evaluation *e, const struct stay *stay)
{
	size_t i = 0;

	while (!stays_has(&e->results[i].stays, stay))
		i++;
	return i;
}

/* What runs leave as it is stored: a line each, which names all runs of which it is true. */
static void print_stays(const struct evaluation *e, FILE *file)
{
	bool any = false;

	for (size_t i = 0; i < e->n_results; i++)
		for (size_t k = 0; k < e->results[i].stays.n; k++) {
			const struct stay *stay = &e->results[i].stays.items[k];

			if (first_with(e, stay) != i)
				continue;
			for (size_t j = i; j < e->n_results; j++)
				if (stays_has(&e->results[j].stays, stay)) {
					fputs(j == i ? "" : ", ", file);
					print_markdown(file, e->results[j].name);
				}
			fputs(": ", file);
			stay_print(stay, file);
			any = true;
		}
	if (any)
		putc('\n', file);
}

int evaluate_print_text(const struct evaluation *e, const char *source, FILE *file, struct error *error)
{
	const size_t n_nan = e->results[e->n_results - 1].summary.n_nan;

	evaluate_print_source(e, source, file);
	int code = print_results(e, file, error);
	if (code == EXIT_OK)
		print_stays(e, file);
	const bool details = e->n_results == 1 || (e->n_results == 2 && e->n_parts == 0);

	if (code == EXIT_OK && details)
		print_details(&e->results[e->n_results - 1], file);
	for (int layers = 1; layers >= 0 && e->n_parts > 0 && code == EXIT_OK; layers--)
		code = print_parts(e, file, layers == 1, error);
	if (n_nan > 0)
		fprintf(file, "%zu predictions are NaN, because logits are NaN or infinite\n", n_nan);
	for (size_t i = 0; i < e->n_results && code == EXIT_OK; i++)
		if (e->results[i].profile.done != NULL) {
			if (i == 0 && (details || n_nan > 0))
				putc('\n', file);
			code = profile_print(&e->results[i].profile, e->results[i].name, file, error);
		}
	return code;
}

/* The bytes of n that are whole characters, or none of any. */
static size_t whole_bytes(const char *text, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		const unsigned char c = (unsigned char)text[n - back];

		if (c < 0x80 || c >= 0xc0)
			return c >= 0xc0 + (back > 1 ? 0x20 : 0) + (back > 2 ? 0x10 : 0) ? n - back : n;
	}
	return n;
}

void evaluate_show(struct evaluate_generation *generation, bool ends)
{
	FILE *file = generation->stream;
	const size_t n = ends ? generation->n_text : whole_bytes(generation->text, generation->n_text);

	if (file == NULL)
		return;
	while (generation->n_shown < n) {
		char *at = generation->text + generation->n_shown;
		const size_t left = n - generation->n_shown, line = strcspn(at, "\n"), some = line < left ? line : left;
		const char end = at[some];

		at[some] = '\0';
		print_printable(file, at);
		at[some] = end;
		generation->n_shown += some;
		if (some < left) {
			putc(end == '\n' ? end : '?', file);
			generation->n_shown++;
		}
	}
	if (ends)
		putc('\n', file);
	fflush(file);
}
