/* SPDX-License-Identifier: MIT */
/* Draws the account: a lane for each sub-array, time from left to right, on one scale for all splits. */
#include <inttypes.h>

#include "engine/engine.h"

enum {
	LEFT = 60,         /* of the lanes; numbers are pixels */
	WIDTH = 900,       /* of the longest split */
	LANE = 10,
	TITLE = 26,        /* above a panel */
	GAP = 14,          /* below it */
	TOP = 20
};

/* Prints text in XML: control characters, and those with a meaning there, become '?'. */
static void print_xml(FILE *file, const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		putc(c < ' ' || c > '~' || c == '<' || c == '>' || c == '&' ? '?' : c, file);
	}
}

static double x_of(uint64_t cycles, uint64_t longest)
{
	return LEFT + (double)WIDTH * (double)cycles / (double)longest;
}

static void print_panel(const struct engine_report *r, int s, int top, uint64_t longest, FILE *file)
{
	const struct mxfp_engine *e = &r->splits[s];

	fprintf(file, "<text x=\"%d\" y=\"%d\">%u sub-array%s a core: %" PRIu64 " cycles, utilization %.1f %%</text>\n",
	        LEFT, top - 6, engine_sub_arrays(s), s == 0 ? "" : "s", e->cycles, engine_utilization(e));
	for (size_t i = 0; i < e->arrays; i++)
		fprintf(file, "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT,
		        top + (int)i * LANE, WIDTH, LANE - 1);
	for (size_t i = 0; i < r->workload->n_items; i++) {
		const struct mxfp_engine_place *p = &e->places[i];
		const struct workload_item *item = &r->workload->items[p->product];

		if (p->cycles == 0)
			continue;
		fprintf(file, "<rect class=\"p%u\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>",
		        (unsigned)(p->product % 4), x_of(p->start, longest), top + (int)p->array * LANE,
		        x_of(p->cycles, longest) - LEFT, LANE - 1);
		print_xml(file, item->name);
		fprintf(file, ": %zu x %zu x %zu, %" PRIu64 " cycles</title></rect>\n", item->m, item->n, item->k,
		        p->cycles);
	}
	for (unsigned core = 0; core < r->cores; core++)
		fprintf(file, "<text class=\"core\" x=\"%d\" y=\"%d\">core %u</text>\n", LEFT - 6,
		        top + (int)(core * engine_sub_arrays(s)) * LANE + LANE - 2, core);
}

/* Draws the time at which memory would be done, if that is within the picture. */
static void print_memory(const struct engine_report *r, int height, uint64_t longest, FILE *file)
{
	const double cycles = (double)r->splits[0].memory_ps * r->chip.clock_mhz / 1e6;
	const double x = LEFT + WIDTH * cycles / (double)longest;

	if (x > LEFT + WIDTH)
		fprintf(file, "<text x=\"%d\" y=\"%d\">memory needs longer: %.0f cycles</text>\n", LEFT, height - 8, cycles);
	else
		fprintf(file,
		        "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\"/>\n<text x=\"%d\" y=\"%d\">dashed: memory is "
		        "done</text>\n",
		        x, TOP, x, height - 22, LEFT, height - 8);
}

void engine_svg(const struct engine_report *r, FILE *file)
{
	uint64_t longest = 1;
	int height = TOP + GAP;

	for (int s = 0; s < N_SPLITS; s++) {
		longest = r->splits[s].cycles > longest ? r->splits[s].cycles : longest;
		height += TITLE + (int)r->splits[s].arrays * LANE + GAP;
	}
	fprintf(file,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
	        "font-size=\"12\">\n"
	        "<style>\n"
	        "svg { background: #ffffff; } text { fill: #222222; } line { stroke: #cc3311; stroke-dasharray: 4 3; }\n"
	        ".core { font-size: 9px; text-anchor: end; } .lane { fill: #eeeeee; }\n"
	        "rect { stroke: #ffffff; stroke-width: 0.8; }\n"
	        ".p0 { fill: #0077bb; } .p1 { fill: #33bbee; } .p2 { fill: #009988; } .p3 { fill: #ee7733; }\n"
	        "@media (prefers-color-scheme: dark) {\n"
	        "svg { background: #16181c; } text { fill: #dddddd; } line { stroke: #ff8866; } .lane { fill: #2a2d33; }\n"
	        "rect { stroke: #16181c; }\n"
	        "}\n"
	        "</style>\n",
	        LEFT + WIDTH + GAP, height);
	int top = TOP;
	for (int s = 0; s < N_SPLITS; s++) {
		top += TITLE;
		print_panel(r, s, top, longest, file);
		top += (int)r->splits[s].arrays * LANE + GAP;
	}
	print_memory(r, height, longest, file);
	fputs("</svg>\n", file);
}
