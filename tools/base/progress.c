/* SPDX-License-Identifier: MIT */
/* The progress line: on a terminal redrawn in place with \r, and cut to its width, where a line that wraps would be left
   behind; in a log a line a minute. */
#include "config.h"

#include "base/progress.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

/* The columns of the terminal but the last, in which some wrap already; 79 if it does not tell. */
static size_t columns(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79;
}

static void draw(struct progress *progress, double seconds)
{
	char line[256] = "", *end = line + sizeof line, *at = line;
	const int digits = progress->size > 1 ? 1 : 0;
	double done = (double)progress->done, total = (double)progress->total;
	double rate = seconds > 0 ? done / seconds : 0;

	at += snprintf(at, (size_t)(end - at), "%s %.*f", progress->verb, digits, done / progress->size);
	if (progress->total != 0)
		at += snprintf(at, (size_t)(end - at), " of %.*f", digits, total / progress->size);
	at += snprintf(at, (size_t)(end - at), " %s, %.1f %s/s", progress->unit, rate / progress->size, progress->unit);
	if (rate > 0 && progress->done <= progress->total) {
		unsigned long left = (unsigned long)((total - done) / rate + 0.5);
		snprintf(at, (size_t)(end - at), ", %lu:%02lu left", left / 60, left % 60);
	}
	if (progress->terminal)
		fprintf(stderr, "\r%.*s\033[K", (int)columns(), line); /* which erases what a longer line left */
	else
		fprintf(stderr, "mxfp: %s\n", line);
	fflush(stderr);
}

static void start(struct progress *progress, const char *verb, uint64_t total, bool quiet)
{
	progress->verb = verb;
	progress->total = total;
	progress->shown = !quiet;
	progress->terminal = isatty(STDERR_FILENO);
	if (progress->shown)
		progress->started = progress->drawn = clock_seconds();
}

void progress_start(struct progress *progress, const char *verb, uint64_t total_bytes, bool quiet)
{
	*progress = (struct progress){.unit = "MiB", .size = 1 << 20};
	start(progress, verb, total_bytes, quiet);
}

void progress_start_tokens(struct progress *progress, const char *verb, uint64_t total, bool quiet)
{
	*progress = (struct progress){.unit = "tokens", .size = 1};
	start(progress, verb, total, quiet);
}

void progress_add(struct progress *progress, uint64_t n)
{
	progress->done += n;
	if (!progress->shown)
		return;
	double time = clock_seconds();
	if (time - progress->drawn < (progress->terminal ? 0.1 : 60))
		return;
	progress->drawn = time;
	draw(progress, time - progress->started);
}

void progress_end(struct progress *progress)
{
	/* Nothing was drawn if the work took less than the first tenth of a second. */
	if (progress->shown && progress->terminal && progress->drawn > progress->started)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
