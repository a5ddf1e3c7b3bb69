/* SPDX-License-Identifier: MIT */
/* A report as a page that holds everything it needs: the page that was made at build time, with the JSON in it. */
#include "io/facts.h"
#include "report/page.h"
#include "report/report.h"

bool report_html_is_built(void)
{
	return report_page_head_size > 0;
}

/*
 * Names are not trusted: a "<" in JSON, which stands only in strings, could end the script that holds the data or begin
 * a comment, so none is written. What the stream does not take is left to ferror().
 */
static int write_part(const char *bytes, size_t n, void *stream)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] == '<')
			fputs("\\u003c", stream);
		else
			putc(bytes[i], stream);
	return 0;
}

int report_html(const struct report *report, FILE *file, struct error *error)
{
	fwrite(report_page_head, 1, report_page_head_size, file);
	int code = facts_write(report_json(report), JSON_COMPACT | REPORT_JSON_REALS, write_part, file, error);
	putc('\n', file);
	fwrite(report_page_tail, 1, report_page_tail_size, file);
	return code;
}
