/* SPDX-License-Identifier: MIT */
/* A report as a page that holds everything it needs: the page that was made at build time, with the verdict in it, which
   can be read without scripts, and the JSON. */
#include "eval/judge.h"
#include "report/evaluation.h"
#include "report/page.h"
#include "report/report.h"

bool report_html_is_built(void)
{
	return report_page_head_size > 0;
}

static void print_escaped(FILE *file, const char *text)
{
	for (; *text != '\0'; text++)
		switch (*text) {
		case '&': fputs("&amp;", file); break;
		case '<': fputs("&lt;", file); break;
		case '>': fputs("&gt;", file); break;
		case '"': fputs("&quot;", file); break;
		default: putc(*text, file);
		}
}

static void print_element(FILE *file, const char *begin, const char *text, const char *end)
{
	if (text == NULL)
		return;
	fputs(begin, file);
	print_escaped(file, text);
	fputs(end, file);
}

/* The ways that were tried, the best first. */
static void print_tried(FILE *file, const struct report_evaluation *e)
{
	char cells[REPORT_TRIED_COLUMNS][REPORT_TRIED_TEXT];
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, &e->evaluation);

	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Ways that were tried\"><table id=\"tried\">\n", file);
	for (size_t row = 0; row <= n; row++) {
		const size_t n_columns = report_evaluation_cells(e, row == 0 ? 0 : order[row - 1], cells);

		fputs("<tr>", file);
		for (size_t i = 0; i < n_columns; i++)
			print_element(file, row == 0 ? "<th scope=\"col\">" : "<td>", cells[i], row == 0 ? "</th>" : "</td>");
		fputs("</tr>\n", file);
	}
	fputs("</table></div>\n", file);
}

/* A list of lines. */
static void print_details(FILE *file, const char *details)
{
	if (details == NULL)
		return;
	fputs("<ul>\n<li>", file);
	for (; *details != '\0'; details++)
		if (*details == '\n')
			fputs(details[1] == '\0' ? "</li>\n" : "</li>\n<li>", file);
		else
			print_escaped(file, (char[]){*details, '\0'});
	fputs("</ul>\n", file);
}

/* Its color is that of the answer. */
static void print_verdict(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	static const char *const classes[] = {[REPORT_UNKNOWN] = "unknown", [REPORT_FINE] = "fine",
	                                      [REPORT_MOSTLY] = "mostly", [REPORT_NOT] = "not"};

	fprintf(file, "<section class=\"verdict %s\" aria-labelledby=\"verdict\">\n",
	        classes[report_answer(report)]);
	print_element(file, "<h2 id=\"verdict\">", verdict->sentence, "</h2>\n");
	if (report->evaluation != NULL)
		print_tried(file, report->evaluation);
	print_details(file, verdict->details);
	print_element(file, "<pre tabindex=\"0\"><code>", verdict->command, "</code></pre>\n");
	fputs("</section>\n", file);
}

int report_html(const struct report *report, FILE *file, struct error *error)
{
	fwrite(report_page_head, 1, report_page_head_size, file);
	print_verdict(file, report);
	fwrite(report_page_body, 1, report_page_body_size, file);
	int code = report_json(report, file, REPORT_JSON_PAGE, error);
	putc('\n', file);
	fwrite(report_page_tail, 1, report_page_tail_size, file);
	return code;
}
