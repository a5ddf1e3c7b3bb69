/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"
#include "base/table.h"
#include "io/facts.h"

enum { LAYERS_ALL = 16, LAYERS_SLOWEST = 8 }; /* layers that are printed one by one: up to as many all, else the slowest */

int profile_take(struct profile *profile, struct network *network, struct error *error)
{
	profile->wall = clock_seconds() - profile->started;
	profile->bytes = network_bytes(network);
	profile->n_layers = network_layers(network);
	profile->done = malloc((profile->n_layers + 1) * sizeof *profile->done);
	if (profile->done == NULL)
		return fail_memory(error);
	for (size_t i = 0; i <= profile->n_layers; i++)
		memcpy(profile->done[i], network_done(network, i), sizeof profile->done[i]);
	network_restart(network);
	return EXIT_OK;
}

void profile_free(struct profile *profile)
{
	free(profile->done);
	profile->done = NULL;
}

static void add(struct network_done *sum, const struct network_done *done)
{
	sum->seconds += done->seconds;
	sum->operations += done->operations;
	sum->bytes += done->bytes;
}

/* All kinds of work of a layer, or of all layers a kind. */
static struct network_done of_layer(const struct profile *profile, size_t layer)
{
	struct network_done sum = {0};

	for (int work = 0; work < N_NETWORK_WORKS; work++)
		add(&sum, &profile->done[layer][work]);
	return sum;
}

static struct network_done of_work(const struct profile *profile, int work)
{
	struct network_done sum = {0};

	for (size_t i = 0; i <= profile->n_layers; i++)
		add(&sum, &profile->done[i][work]);
	return sum;
}

/* Scoring, tokens, output: what is neither loading nor the network. */
static double other_seconds(const struct profile *profile)
{
	double rest = profile->wall - profile->load;

	for (int work = 0; work < N_NETWORK_WORKS; work++)
		rest -= of_work(profile, work).seconds;
	return fmax(rest, 0);
}

/* Tokens a second, without loading. */
static double speed(const struct profile *profile)
{
	return (double)profile->tokens / (profile->wall - profile->load);
}

/* The share of the limit that bounds what was done, which is said; NaN: there is none. */
static double share_of(const struct profile *profile, const struct network_done *done, const char **bound)
{
	const double computing = profile->limits.operations > 0 ? done->operations / profile->limits.operations : 0;
	const double reading = profile->limits.bytes > 0 ? done->bytes / profile->limits.bytes : 0;
	const double least = fmax(computing, reading);

	*bound = least > computing ? "reading" : "computing";
	return least > 0 && done->seconds > 0 ? least / done->seconds : (double)NAN;
}

static void seconds_cells(struct table *table, const struct profile *profile, double seconds)
{
	table_cell(table, "%.4f", seconds);
	table_cell(table, "%.1f %%", 100 * seconds / profile->wall);
}

/* 1e9 a second; "-": nothing is counted. */
static void rate_cell(struct table *table, double n, double seconds)
{
	if (n > 0 && seconds > 0)
		table_cell(table, "%.2f", 1e-9 * n / seconds);
	else
		table_cell(table, "-");
}

static void limit_cells(struct table *table, const struct profile *profile, const struct network_done *done)
{
	const char *bound;
	const double share = share_of(profile, done, &bound);

	rate_cell(table, done->operations, done->seconds);
	rate_cell(table, done->bytes, done->seconds);
	if (isnan(share))
		table_cell(table, "-");
	else
		table_cell(table, "%.0f %% of %s", 100 * share, bound);
}

static void heading(struct table *table, const char *const *names, size_t n)
{
	*table = (struct table){.n_columns = n, .n_left = 1};
	for (size_t i = 0; i < n; i++)
		table_cell(table, "%s", names[i]);
}

static int print_works(const struct profile *profile, FILE *file, struct error *error)
{
	static const char *const names[] = {"work", "seconds", "share", "GFLOP/s", "GB/s", "limit"};
	const struct {
		const char *name;
		double seconds;
	} rest[] = {{"load", profile->load}, {"other", other_seconds(profile)}, {"all", profile->wall}};
	const struct network_done nothing = {0};
	struct table table;

	heading(&table, names, sizeof names / sizeof names[0]);
	for (int work = 0; work < N_NETWORK_WORKS; work++) {
		const struct network_done done = of_work(profile, work);

		table_cell(&table, "%s", network_work_name((enum network_work)work));
		seconds_cells(&table, profile, done.seconds);
		limit_cells(&table, profile, &done);
	}
	for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
		table_cell(&table, "%s", rest[i].name);
		seconds_cells(&table, profile, rest[i].seconds);
		limit_cells(&table, profile, &nothing);
	}
	return table_print(&table, file, error);
}

/* Seconds of a layer by kind of work, and what its products reach. */
static void layer_cells(struct table *table, const struct profile *profile, const struct network_done done[N_NETWORK_WORKS])
{
	double seconds = 0;

	for (int work = 0; work < N_NETWORK_WORKS; work++)
		seconds += done[work].seconds;
	seconds_cells(table, profile, seconds);
	for (int work = 0; work < N_NETWORK_WORKS; work++)
		table_cell(table, "%.4f", done[work].seconds);
	limit_cells(table, profile, &done[NETWORK_PRODUCTS]);
}

/* A layer is printed unless there are many, and as many others are slower. */
static bool is_printed(const struct profile *profile, size_t layer)
{
	const double own = of_layer(profile, layer).seconds;
	size_t slower = 0;

	if (profile->n_layers <= LAYERS_ALL)
		return true;
	for (size_t i = 0; i < profile->n_layers; i++) {
		const double seconds = of_layer(profile, i).seconds;

		slower += seconds > own || (i < layer && seconds >= own);
	}
	return slower < LAYERS_SLOWEST;
}

static int print_layers(const struct profile *profile, FILE *file, struct error *error)
{
	const char *names[3 + N_NETWORK_WORKS + 3] = {"layer", "seconds", "share"};
	const char *const last[] = {"GFLOP/s", "GB/s", "limit of products"};
	struct network_done others[N_NETWORK_WORKS] = {0};
	size_t n_others = 0;
	struct table table;

	for (int work = 0; work < N_NETWORK_WORKS; work++)
		names[3 + work] = network_work_name((enum network_work)work);
	memcpy(names + 3 + N_NETWORK_WORKS, last, sizeof last);
	heading(&table, names, sizeof names / sizeof names[0]);
	for (size_t i = 0; i < profile->n_layers; i++)
		if (is_printed(profile, i)) {
			table_cell(&table, "%zu", i);
			layer_cells(&table, profile, profile->done[i]);
		} else {
			for (int work = 0; work < N_NETWORK_WORKS; work++)
				add(&others[work], &profile->done[i][work]);
			n_others++;
		}
	if (n_others > 0) {
		table_cell(&table, "%zu others", n_others);
		layer_cells(&table, profile, others);
	}
	table_cell(&table, "embedding, head");
	layer_cells(&table, profile, profile->done[profile->n_layers]);
	return table_print(&table, file, error);
}

int profile_print(const struct profile *profile, const char *name, FILE *file, struct error *error)
{
	fputs("Time of ", file);
	print_markdown(file, name);
	fprintf(file, ": %zu tokens in %.4g s, %.4g a second without loading\n\n", profile->tokens, profile->wall, speed(profile));
	int code = print_works(profile, file, error);
	if (code == EXIT_OK)
		code = print_layers(profile, file, error);
	if (profile->limits.operations > 0)
		fprintf(file, "Limit of computing: %.4g GFLOP/s, fused multiply-adds of binary32 in registers.\n",
		       1e-9 * profile->limits.operations);
	if (profile->limits.bytes > 0)
		fprintf(file, "Limit of reading: %.4g GB/s, a loop that reads as many bytes as the weights have.\n",
		       1e-9 * profile->limits.bytes);
	putc('\n', file);
	return code;
}

static json_t *done_facts(const struct profile *profile, const struct network_done *done)
{
	const char *bound;
	const double share = share_of(profile, done, &bound);
	json_t *facts = json_pack("{s:f}", "seconds", done->seconds);

	if (done->operations > 0) {
		facts = facts_set(facts, "operations", json_real(done->operations));
		facts = facts_set(facts, "bytes", json_real(done->bytes));
	}
	if (!isnan(share)) {
		facts = facts_set(facts, "limit", json_string(bound));
		facts = facts_set(facts, "share_of_limit", json_real(share));
	}
	return facts;
}

json_t *profile_facts(const struct profile *profile)
{
	json_t *works = json_object(), *layers = json_array(), *limits = json_object();

	for (int work = 0; work < N_NETWORK_WORKS; work++) {
		const struct network_done done = of_work(profile, work);

		works = facts_set(works, network_work_name((enum network_work)work), done_facts(profile, &done));
	}
	for (size_t i = 0; i <= profile->n_layers; i++) {
		json_t *layer = json_object();

		for (int work = 0; work < N_NETWORK_WORKS; work++)
			layer = facts_set(layer, network_work_name((enum network_work)work),
			                  done_facts(profile, &profile->done[i][work]));
		if (i < profile->n_layers)
			layer = facts_set(layer, "layer", json_integer((json_int_t)i));
		layers = facts_append(layers, layer);
	}
	if (profile->limits.operations > 0)
		limits = facts_set(limits, "operations_per_second", json_real(profile->limits.operations));
	if (profile->limits.bytes > 0)
		limits = facts_set(limits, "bytes_per_second", json_real(profile->limits.bytes));
	return json_pack("{s:I, s:f, s:f, s:f, s:o, s:o, s:o}", "tokens", (json_int_t)profile->tokens, "seconds", profile->wall,
	                 "load_seconds", profile->load, "other_seconds", other_seconds(profile), "limits", limits, "work", works,
	                 "layers", layers);
}
