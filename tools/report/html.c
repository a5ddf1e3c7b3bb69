/* SPDX-License-Identifier: MIT */
/* A report as a page that holds everything it needs: the page that was made at build time, with the verdict in it, which
   can be read without scripts, and the JSON. */
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

/* Its color is that of the answer. */
static void print_verdict(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	static const char *const classes[] = {[REPORT_UNKNOWN] = "unknown", [REPORT_FINE] = "fine",
	                                      [REPORT_MOSTLY] = "mostly", [REPORT_NOT] = "not"};

	fprintf(file, "<section class=\"verdict %s\" aria-labelledby=\"verdict\">\n",
	        classes[report_answer(report)]);
	print_element(file, "<h2 id=\"verdict\">", verdict->sentence, "</h2>\n");
	print_element(file, "<p>", verdict->details, "</p>\n");
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
