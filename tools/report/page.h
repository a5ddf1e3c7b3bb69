/* SPDX-License-Identifier: MIT */
/* The page of a report, made at build time: report.html with its styles, scripts and Chart.js. */
#ifndef TOOLS_REPORT_PAGE_H
#define TOOLS_REPORT_PAGE_H

#include <stddef.h>

/* What comes before the verdict, between it and the data, and after; of length 0 if configure found no Chart.js. */
extern const unsigned char report_page_head[], report_page_body[], report_page_tail[];
extern const size_t report_page_head_size, report_page_body_size, report_page_tail_size;

#endif
