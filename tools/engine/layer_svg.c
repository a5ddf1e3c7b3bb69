/* SPDX-License-Identifier: MIT */
/* Draws the time line of a layer: a row for each engine, time from left to right, a bar for each operation. */
#include <stdlib.h>
#include <string.h>

#include "engine/layer.h"

enum {
	LEFT = 84,         /* of the bars; numbers are pixels */
	WIDTH = 900,       /* of the layer's time */
	RIGHT = 60,
	TOP = 62,          /* above the first row */
	ROW = 38, BAR = 28,
	AXIS = 34, LEGEND = 26,
	TICK = 90,         /* the least distance of two labels of the axis */
	LETTER = 7,        /* the most that a letter of a bar's label is wide, on average */
	CRITICAL = 3,      /* the line below bars that the layer's time waits for */
	NEAR = 24,         /* bars that one label may stand on are at most so far apart */
	PLATE = 16         /* the height of what a label stands on between bars */
};

/* Bars of one row that follow each other and belong together, in one layer. */
struct cluster {
	double from, to, filled;
	const char *name, *title; /* of the operation, NULL: of different ones; what they belong to */
	enum part part;
	bool mixed;        /* parts */
	unsigned layer;
};

static const char *title_of(const struct operation *x)
{
	return x->experts ? "experts" : layer_part_name(x->part);
}

/* Rounded to hundredths in integers, so that the picture is the same on every machine. LAYER_PS_MAX keeps them small. */
static double x_of(const struct layer_time *t, uint64_t at)
{
	const uint64_t from = at < t->begin ? t->begin : at > t->end ? t->end : at;

	return LEFT + (double)(WIDTH * UINT64_C(100) * (from - t->begin) / (t->end - t->begin)) / 100;
}

/* Prints a text in XML; what has a meaning there, and what is no printable ASCII, becomes '?'. */
static void print_xml(FILE *file, const char *text)
{
	for (; *text != '\0'; text++)
		putc(*text < ' ' || *text > '~' || strchr("<>&", *text) != NULL ? '?' : *text, file);
}

static bool is_shown(const struct layer_time *t, const struct operation *x, enum lane lane)
{
	return x->lane == lane && x->end > t->begin && x->start < t->end && x->ps != 0;
}

static const char *layer_suffix(const struct layer_time *t, unsigned layer)
{
	return layer > t->layer ? ", next layer" : layer < t->layer ? ", layer before" : "";
}

static int compare_starts(const void *a, const void *b)
{
	const struct operation *x = *(const struct operation *const *)a, *y = *(const struct operation *const *)b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Lists what a row shows in the order of time: operations of the two lists of the DMA engines alternate. */
static size_t list_row(const struct operation **row, const struct layer_time *t, enum lane lane)
{
	size_t n = 0;

	for (size_t i = 0; i < t->schedule.n; i++)
		if (is_shown(t, &t->schedule.operations[i], lane))
			row[n++] = &t->schedule.operations[i];
	if (n != 0)
		qsort(row, n, sizeof *row, compare_starts);
	return n;
}

static void print_bar(const struct layer_time *t, enum part part, unsigned layer, double from, double to, int y,
                      const char *name, double ps, FILE *file)
{
	fprintf(file, "<rect class=\"b p%d%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>", (int)part,
	        layer == t->layer ? "" : " o", from, y, to - from, BAR);
	print_xml(file, name);
	fprintf(file, "%s: %.4g us</title></rect>\n", layer_suffix(t, layer), ps / 1e6);
}

/* Chooses the longest of a cluster's names that fits. False: none does. */
static bool choose_label(char text[80], const struct layer_time *t, const struct cluster *c)
{
	const char *name = c->name != NULL ? c->name : c->title, *suffix = layer_suffix(t, c->layer);
	const char *const names[3][2] = {{name, suffix}, {name, ""}, {c->title, ""}};

	for (int i = 0; i < 3; i++) {
		snprintf(text, 80, "%.50s%s", names[i][0], names[i][1]);
		if ((double)strlen(text) * LETTER <= c->to - c->from - 6)
			return true;
	}
	return false;
}

/* Prints a cluster's label, on its bars or, where there is more between them, on a plate. */
static void print_label(const struct layer_time *t, const struct cluster *c, int y, FILE *file)
{
	const double middle = (c->from + c->to) / 2;
	const bool on_bars = !c->mixed && c->filled >= 0.8 * (c->to - c->from);
	char text[80];

	if (!choose_label(text, t, c))
		return;
	if (!on_bars)
		fprintf(file, "<rect class=\"r\" x=\"%.2f\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n",
		        middle - (double)strlen(text) * LETTER / 2, y + (BAR - PLATE) / 2, (int)strlen(text) * LETTER, (int)PLATE);
	fputs("<text class=\"l", file);
	if (on_bars)
		fprintf(file, " t%d", (int)c->part);
	fprintf(file, "\" x=\"%.2f\" y=\"%d\">", middle, y + BAR / 2 + 4);
	print_xml(file, text);
	fputs("</text>\n", file);
}

/* Prints the bars of a row, those that touch as one if they are of the same operation, then the line of the critical
   path, then labels. */
static void print_row(const struct layer_report *r, const struct operation **row, enum lane lane, int y, FILE *file)
{
	const struct layer_time *t = &r->time;
	const size_t n = list_row(row, t, lane);
	struct cluster cluster = {.name = NULL};

	fprintf(file, "<text class=\"n\" x=\"%d\" y=\"%d\">%s</text>\n"
	        "<rect class=\"r\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n"
	        "<text x=\"%d\" y=\"%d\">%.0f %%</text>\n",
	        LEFT - 10, y + BAR / 2 + 4, layer_lane_name(lane), LEFT, y, WIDTH, BAR, LEFT + WIDTH + 10, y + BAR / 2 + 4,
	        100 * (double)t->lanes[lane].busy / (double)(t->end - t->begin));
	for (size_t i = 0, next; i < n; i = next) {
		const struct operation *first = row[i];
		const double from = x_of(t, first->start);
		double to = x_of(t, first->end), ps = (double)first->ps;

		for (next = i + 1; next < n; next++) {
			const struct operation *x = row[next];

			if (x->name != first->name || x->part != first->part || x->layer != first->layer || x->critical != first->critical ||
			    x_of(t, x->start) > to + 0.2)
				break;
			to = x_of(t, x->end);
			ps += (double)x->ps;
		}
		print_bar(t, first->part, first->layer, from, to, y, first->name, ps, file);
		if (first->critical)
			fprintf(file, "<rect class=\"c\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>\n", from, y + BAR,
			        to - from, (int)CRITICAL);
		if (cluster.to != 0 && strcmp(cluster.title, title_of(first)) == 0 && cluster.layer == first->layer &&
		    from <= cluster.to + NEAR) {
			cluster.name = cluster.name == first->name ? cluster.name : NULL;
			cluster.mixed |= cluster.part != first->part;
			cluster.to = to;
			cluster.filled += to - from;
			continue;
		}
		if (cluster.to != 0)
			print_label(t, &cluster, y, file);
		cluster = (struct cluster){.from = from, .to = to, .filled = to - from, .name = first->name,
		                           .title = title_of(first), .part = first->part, .layer = first->layer};
	}
	if (cluster.to != 0)
		print_label(t, &cluster, y, file);
}

/* Prints the axis: labels at multiples of 1, 2 or 5 times a power of ten of microseconds. */
static void print_axis(const struct layer_time *t, int y, FILE *file)
{
	const double us = (double)(t->end - t->begin) / 1e6, least = us * TICK / WIDTH;
	double step = 1e-6;
	const int top = TOP - 4;

	for (int i = 0; step < least; i++)
		step *= i % 3 == 1 ? 2.5 : 2;
	for (int i = 0; i * step <= us * 1.0000001; i++) {
		const double x = LEFT + WIDTH * (i * step) / us;

		fprintf(file, "<line class=\"g\" x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\"/>\n"
		        "<text class=\"a\" x=\"%.2f\" y=\"%d\">%.4g%s</text>\n", x, top, x, y + 4, x, y + 18, i * step,
		        i == 0 ? " &#181;s" : "");
	}
}

static void print_legend(int y, FILE *file)
{
	int x = LEFT;

	for (enum part part = 0; part < N_PARTS; part++) {
		fprintf(file, "<rect class=\"b p%d\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\"/>"
		        "<text x=\"%d\" y=\"%d\">%s</text>\n", (int)part, x, y, x + 17, y + 10, layer_part_name(part));
		x += 38 + (int)strlen(layer_part_name(part)) * LETTER;
	}
	fprintf(file, "<rect class=\"b p%d o\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\"/><text x=\"%d\" y=\"%d\">another "
	        "layer's</text>\n", (int)PART_UP, x, y, x + 17, y + 10);
	x += 38 + 15 * LETTER;
	fprintf(file, "<rect class=\"c\" x=\"%d\" y=\"%d\" width=\"16\" height=\"%d\"/><text x=\"%d\" y=\"%d\">critical path"
	        "</text>\n", x, y + 5, (int)CRITICAL, x + 21, y + 10);
}

int layer_svg(const struct layer_report *r, FILE *file, struct error *error)
{
	const struct layer_setup *s = &r->setup;
	const struct layer_time *t = &r->time;
	const struct operation **row = calloc(t->schedule.n + 1, sizeof *row);
	int y = TOP, rows = 0;

	if (row == NULL)
		return fail_memory(error);

	for (enum lane lane = 0; lane < N_LANES; lane++)
		rows += layer_has_lane(r, lane);
	const int height = TOP + rows * ROW + AXIS + LEGEND;
	fprintf(file,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
	        "font-size=\"12\">\n"
	        "<style>\n"
	        "svg { background: #ffffff; } text { fill: #333333; } .h { font-size: 16px; font-weight: bold; }\n"
	        ".n { text-anchor: end; font-weight: bold; } .a, .l { text-anchor: middle; } .a { fill: #666666; }\n"
	        ".l { font-size: 11px; pointer-events: none; } .r { fill: #f2f2f2; } .g { stroke: #dddddd; }\n"
	        ".o { opacity: 0.45; } .c { fill: #cc3311; }\n"
	        ".p0 { fill: #bbbbbb; } .p1 { fill: #ee7733; } .p2 { fill: #0077bb; } .p3 { fill: #ccbb44; }\n"
	        ".p4 { fill: #009988; } .p5 { fill: #66ccee; } .p6 { fill: #aa3377; }\n"
	        ".t2, .t4, .t6 { fill: #ffffff; } .t0, .t1, .t3, .t5 { fill: #111111; }\n"
	        "@media (prefers-color-scheme: dark) {\n"
	        "svg { background: #16181c; } text { fill: #dddddd; } .a { fill: #999999; } .r { fill: #24272d; }\n"
	        ".g { stroke: #3a3e46; } .c { fill: #ff8866; } .t2, .t4, .t6 { fill: #ffffff; }\n"
	        ".t0, .t1, .t3, .t5 { fill: #111111; }\n"
	        "}\n"
	        "</style>\n",
	        LEFT + WIDTH + RIGHT, height);
	fprintf(file, "<text class=\"h\" x=\"%d\" y=\"24\">A decoder layer of ", LEFT);
	print_xml(file, s->decoder.name);
	fputs(" on ", file);
	if (s->chips > 1)
		fprintf(file, "%u ", s->chips);
	fprintf(file, "%s: %.4g &#181;s</text>\n<text x=\"%d\" y=\"44\">%llu token%s of %llu sequence%s, context %llu; "
	        "activations %s, weights %s, cache %s",
	        s->chip.name, (double)(t->end - t->begin) / 1e6, LEFT, (unsigned long long)s->tokens,
	        s->tokens == 1 ? "" : "s", (unsigned long long)s->sequences, s->sequences == 1 ? "" : "s",
	        (unsigned long long)s->context, mxfp_format_get_info(s->a)->name, mxfp_format_get_info(s->w)->name,
	        mxfp_format_get_info(s->cache)->name);
	if (s->cores * s->chips > 1)
		fprintf(file, "; one of %u cores, all alike", s->cores * s->chips);
	fputs("</text>\n", file);
	print_axis(t, TOP + rows * ROW, file);
	for (enum lane lane = 0; lane < N_LANES; lane++)
		if (layer_has_lane(r, lane)) {
			print_row(r, row, lane, y, file);
			y += ROW;
		}
	print_legend(height - LEGEND + 4, file);
	fputs("</svg>\n", file);
	free(row);
	return EXIT_OK;
}
