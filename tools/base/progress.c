/* SPDX-License-Identifier: MIT */
/* The progress line: redrawn in place with \r, and short enough for 80 columns. */
#include "config.h"

#include "base/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void draw(struct progress *progress, double seconds)
{
	const double mib = 1 << 20;
	double done = (double)progress->done, total = (double)progress->total;
	double rate = seconds > 0 ? done / seconds : 0;

	fprintf(stderr, "\r%s %.1f", progress->verb, done / mib);
	if (progress->total != 0)
		fprintf(stderr, " of %.1f", total / mib);
	fprintf(stderr, " MiB, %.1f MiB/s", rate / mib);
	if (rate > 0 && progress->done <= progress->total) {
		unsigned long left = (unsigned long)((total - done) / rate + 0.5);
		fprintf(stderr, ", %lu:%02lu left", left / 60, left % 60);
	}
	fputs("\033[K", stderr); /* erases what a longer line left */
	fflush(stderr);
}

void progress_start(struct progress *progress, const char *verb, uint64_t total_bytes, bool quiet)
{
	*progress = (struct progress){.verb = verb, .total = total_bytes, .shown = !quiet && isatty(STDERR_FILENO)};
	if (progress->shown)
		progress->started = progress->drawn = now();
}

void progress_add(struct progress *progress, uint64_t bytes)
{
	progress->done += bytes;
	if (!progress->shown)
		return;
	double time = now();
	if (time - progress->drawn < 0.1)
		return;
	progress->drawn = time;
	draw(progress, time - progress->started);
}

void progress_end(struct progress *progress)
{
	/* Nothing was drawn if the work took less than the first tenth of a second. */
	if (progress->shown && progress->drawn > progress->started)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
