/* SPDX-License-Identifier: MIT */
/* Prints the time line of a layer as text. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "engine/layer.h"

enum { WIDTH = 72 }; /* of the time line, in characters */

const char *layer_lane_name(enum lane lane)
{
	static const char *const names[N_LANES] = {"tensor", "vector", "scalar", "gpsimd", "memory", "links"};

	return names[lane];
}

const char *layer_part_name(enum part part)
{
	static const char *const names[N_PARTS] = {
		"norms, routing", "Q, K, V", "attention", "output", "gate, up", "down", "between cores"};

	return names[part];
}

char layer_part_letter(enum part part)
{
	return "nqaoudx"[part];
}

bool layer_has_lane(const struct layer_report *r, enum lane lane)
{
	return lane != LANE_LINKS || r->setup.chips > 1;
}

static double us(uint64_t ps)
{
	return (double)ps / 1e6;
}

static void print_heading(const struct layer_report *r, FILE *file)
{
	const struct layer_setup *s = &r->setup;
	const struct decoder *d = &s->decoder;

	fprintf(file, "%s: hidden size %llu, %llu heads of %llu, %llu of keys and values", d->name,
	        (unsigned long long)d->hidden, (unsigned long long)d->heads, (unsigned long long)d->head_dim,
	        (unsigned long long)d->kv_heads);
	if (d->intermediate != 0)
		fprintf(file, "; %llu intermediate", (unsigned long long)d->intermediate);
	if (d->experts != 0)
		fprintf(file, "; %llu of %llu experts of %llu", (unsigned long long)d->experts_per_token,
		        (unsigned long long)d->experts, (unsigned long long)d->expert_intermediate);
	fprintf(file, "\n%llu token%s of %llu sequence%s, context %llu; activations %s, weights %s, cache %s\n",
	        (unsigned long long)s->tokens, s->tokens == 1 ? "" : "s", (unsigned long long)s->sequences,
	        s->sequences == 1 ? "" : "s", (unsigned long long)s->context, mxfp_format_get_info(s->a)->name,
	        mxfp_format_get_info(s->w)->name, mxfp_format_get_info(s->cache)->name);
	if (s->chips > 1)
		fprintf(file, "%u of ", s->chips);
	fprintf(file, "%s: %u of %u cores, %g GB/s of memory\n\n", s->chip.name, s->cores, (unsigned)s->chip.cores,
	        (double)s->chip.memory_mb_s * s->cores / s->chip.cores / 1000);
}

/* The letter of the part that has most of a lane's time in a column of the time line: large if the lane is busy for
   half of the column or more, a dot if for less than a twentieth. */
static char column_letter(const struct layer_time *t, enum lane lane, int column)
{
	const double width = (double)(t->end - t->begin) / WIDTH;
	const double begin = (double)t->begin + column * width, end = begin + width;
	double parts[N_PARTS] = {0}, all = 0;
	enum part most = 0;

	for (size_t i = 0; i < t->schedule.n; i++) {
		const struct operation *x = &t->schedule.operations[i];
		const double from = (double)x->start > begin ? (double)x->start : begin;
		const double to = (double)x->end < end ? (double)x->end : end;

		if (x->lane == lane && to > from) {
			parts[x->part] += to - from;
			all += to - from;
		}
	}
	for (enum part part = 1; part < N_PARTS; part++)
		most = parts[part] > parts[most] ? part : most;
	if (all < width / 20)
		return '.';
	return all < width / 2 ? layer_part_letter(most) : (char)toupper(layer_part_letter(most));
}

static void print_line(const struct layer_report *r, FILE *file)
{
	const struct layer_time *t = &r->time;

	for (enum lane lane = 0; lane < N_LANES; lane++) {
		if (!layer_has_lane(r, lane))
			continue;
		fprintf(file, "%-6s |", layer_lane_name(lane));
		for (int column = 0; column < WIDTH; column++)
			putc(column_letter(t, lane, column), file);
		fprintf(file, "| %3.0f %%\n", 100.0 * (double)t->lanes[lane].busy / (double)(t->end - t->begin));
	}
	fprintf(file, "        0%*.4g us\n", WIDTH - 1, us(t->end - t->begin));
	for (enum part part = 0; part < N_PARTS; part++)
		fprintf(file, "%s%c %s", part == 0 ? "" : ", ", layer_part_letter(part), layer_part_name(part));
	fputs("; large: busy for half of the column or more\n\n", file);
}

static void work_cell(struct table *table, uint64_t macs, uint64_t bytes, uint64_t elements)
{
	if (macs != 0)
		table_cell(table, "%.4g GFLOP", 2e-9 * (double)macs);
	else if (bytes != 0)
		table_cell(table, "%.4g MB", (double)bytes / 1e6);
	else
		table_cell(table, "%.4g M elements", (double)elements / 1e6);
}

static int print_lanes(const struct layer_report *r, FILE *file, struct error *error)
{
	static const char *const heading[] = {"engine", "busy us", "busy", "on the critical path us", "work of a core"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 1};
	const double time = (double)(r->time.end - r->time.begin);

	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (enum lane lane = 0; lane < N_LANES; lane++) {
		const struct layer_lane *x = &r->time.lanes[lane];

		if (!layer_has_lane(r, lane))
			continue;
		table_cell(&table, "%s", layer_lane_name(lane));
		table_cell(&table, "%.4g", us(x->busy));
		table_cell(&table, "%.1f %%", 100 * (double)x->busy / time);
		table_cell(&table, "%.4g", us(x->critical));
		work_cell(&table, x->macs, x->bytes, x->elements);
	}
	return table_print(&table, file, error);
}

/* Prints one row for each operation, the sum of its pieces. */
static int print_operations(const struct layer_report *r, FILE *file, struct error *error)
{
	static const char *const heading[] = {"operation", "engine", "us", "from", "to", "work of a core"};
	const struct layer_time *t = &r->time;
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 2};
	bool *printed = calloc(t->schedule.n + 1, sizeof *printed);

	if (printed == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (size_t i = 0; i < t->schedule.n; i++) {
		struct operation sum = t->schedule.operations[i];

		if (printed[i] || sum.layer != t->layer)
			continue;
		for (size_t j = i + 1; j < t->schedule.n && t->schedule.operations[j].layer == t->layer; j++) {
			const struct operation *x = &t->schedule.operations[j];

			if (x->lane != sum.lane || x->part != sum.part || strcmp(x->name, sum.name) != 0)
				continue;
			printed[j] = true;
			sum.ps += x->ps;
			sum.end = x->end > sum.end ? x->end : sum.end;
			sum.start = x->start < sum.start ? x->start : sum.start;
			sum.macs += x->macs;
			sum.bytes += x->bytes;
			sum.elements += x->elements;
		}
		table_cell(&table, "%s", sum.name);
		table_cell(&table, "%s", layer_lane_name(sum.lane));
		table_cell(&table, "%.4g", us(sum.ps));
		table_cell(&table, "%.4g", ((double)sum.start - (double)t->begin) / 1e6);
		table_cell(&table, "%.4g", ((double)sum.end - (double)t->begin) / 1e6);
		work_cell(&table, sum.macs, sum.bytes, sum.elements);
	}
	free(printed);
	return table_print(&table, file, error);
}

/* What does not fit the memory, before all else. */
static void print_capacity(const struct layer_report *r, FILE *file)
{
	const struct layer_setup *s = &r->setup;

	fprintf(file, "The model does not fit: its layers hold %.4g GB of weights and %.4g GB of cache; %s %.4g GB.\n",
	        1e-9 * (double)layer_weights_held(s), 1e-9 * (double)layer_cache_held(s),
	        s->chips == 1 ? "the chip has" : "the chips have", (double)s->chip.memory_gib * 1.073741824 * s->chips);
}

/* What all layers take, those with a window in their own time. */
static void print_sum(const struct layer_report *r, FILE *file)
{
	const struct layer_setup *s = &r->setup;
	const double time = us(r->time.end - r->time.begin), layers = (double)s->decoder.layers;
	const double windowed = r->window_ps != 0 ? (double)s->decoder.windowed : 0;

	if (s->decoder.layers == 0)
		return;
	if (windowed != 0)
		fprintf(file, "%llu layers, of which %llu see %llu keys and take %.4g us, take ",
		        (unsigned long long)s->decoder.layers, (unsigned long long)s->decoder.windowed,
		        (unsigned long long)layer_window(s), us(r->window_ps));
	else
		fprintf(file, "%llu such layers take ", (unsigned long long)s->decoder.layers);
	fprintf(file, "%.4g ms for %llu token%s", ((layers - windowed) * time + windowed * us(r->window_ps)) / 1e3,
	        (unsigned long long)s->tokens, s->tokens == 1 ? "" : "s");
	if (r->fits)
		fprintf(file, ", and hold %.4g GB of weights and %.4g GB of cache; %s %.4g GB",
		        1e-9 * (double)layer_weights_held(s), 1e-9 * (double)layer_cache_held(s),
		        s->chips == 1 ? "the chip has" : "the chips have", (double)s->chip.memory_gib * 1.073741824 * s->chips);
	fputs(".\n", file);
	if (s->decoder.experts != 0 && s->decoder.dense_first != 0)
		fprintf(file, "The first %llu layer%s no experts; the sum counts experts there too.\n",
		        (unsigned long long)s->decoder.dense_first, s->decoder.dense_first == 1 ? " has" : "s have");
}

/* What the figures leave out or stand for. */
static void print_notes(const struct layer_report *r, FILE *file)
{
	const struct layer_setup *s = &r->setup;
	const struct layer_time *t = &r->time;
	const uint64_t ways = (uint64_t)s->cores * s->chips, heads = s->decoder.kv_heads;
	const uint64_t copies = ways * (heads / ways + (heads % ways != 0));

	if (t->activation_bytes > (uint64_t)s->chip.sbuf_kib * 512)
		fprintf(file, "The layer's numbers, %.4g MB a core, are more than half of SBUF: memory has more to do than "
		        "is counted.\n", 1e-6 * (double)t->activation_bytes);
	if (copies > heads)
		fprintf(file, "Each of %llu cores reads whole heads of keys and values, %.4g MB together of a cache of %.4g MB.\n",
		        (unsigned long long)ways, 1e-6 * (double)t->cache_bytes / (double)heads * (double)copies,
		        1e-6 * (double)t->cache_bytes);
	if (s->chip.rates[MXFP_ENGINE_FP4].peak_gflop_s == 0 &&
	    (mxfp_format_get_info(s->a)->storage_bytes == 0 || mxfp_format_get_info(s->w)->storage_bytes == 0 ||
	     mxfp_format_get_info(s->cache)->storage_bytes == 0))
		fprintf(file, "%s has no MX formats: the rate of its FP8 stands for that of MXFP8.\n", s->chip.name);
}

static void print_advice(const struct layer_report *r, bool fits, FILE *file)
{
	const double time = (double)(r->time.end - r->time.begin);
	bool first = true;

	for (size_t i = 0; i < r->n_advice; i++) {
		const struct layer_advice *a = &r->advice[i];

		if (a->fits != fits)
			continue;
		if (first)
			fprintf(file, "\nWhat would %s:\n", fits ? "make it fit" : "help");
		first = false;
		fprintf(file, "- %s: %.4g us a layer", a->text, us(a->ps));
		if (a->tokens != r->setup.tokens)
			fprintf(file, ", %.4g ns a token instead of %.4g", 1e-3 * (double)a->ps / (double)a->tokens,
			        1e-3 * time / (double)r->setup.tokens);
		fprintf(file, "; then %s is busiest\n", layer_lane_name(a->limit));
	}
}

static void print_verdict(const struct layer_report *r, FILE *file)
{
	const struct layer_time *t = &r->time;
	const double time = (double)(t->end - t->begin);

	if (!r->fits)
		print_capacity(r, file);
	fprintf(file, "A layer takes %.4g us. ", us(t->end - t->begin));
	if ((double)t->lanes[t->limit].busy >= 0.9 * time)
		fprintf(file, "What limits it is %s: busy for %.0f %% of that.\n", layer_lane_name(t->limit),
		        100 * (double)t->lanes[t->limit].busy / time);
	else
		fprintf(file, "No engine is always busy, %s most (%.0f %%): operations wait for each other.\n",
		        layer_lane_name(t->limit), 100 * (double)t->lanes[t->limit].busy / time);
	print_sum(r, file);
	print_notes(r, file);
	print_advice(r, true, file);
	print_advice(r, false, file);
}

int layer_text(const struct layer_report *r, FILE *file, struct error *error)
{
	print_heading(r, file);
	print_line(r, file);
	int code = print_lanes(r, file, error);
	if (code == EXIT_OK)
		code = print_operations(r, file, error);
	if (code == EXIT_OK)
		print_verdict(r, file);
	return code;
}
