/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "quantize/quantize.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/library.h"
#include "base/table.h"
#include "io/facts.h"
#include "mxfp/quantize.h"

/* A measurement takes this long at most, or this much. */
static const double measured_seconds = 0.5;
enum { MEASURED_BYTES = 1 << 28, CHUNK_BYTES = 1 << 22, MATRIX_COLS = 4096, MATRIX_ROWS = 512 };

struct quantize_machine {
	size_t n_files;
	uint64_t read_bytes, written_bytes;
	double seconds;
};

struct quantize_machines {
	size_t n;
	struct quantize_machine *machines;
	double disk, compute, net; /* bytes a second; 0: not known and not counted */
	uint64_t read_bytes, written_bytes;
	double seconds;            /* until the last is done */
	double merge_seconds;      /* moving the parts to one machine; 0 without `net` */
};

static const struct file *largest_source(const struct quantize_plan *plan)
{
	const struct file *largest = plan->model->files;

	for (size_t f = 1; f < plan->model->n_files; f++)
		if (plan->model->files[f].size_bytes > largest->size_bytes)
			largest = &plan->model->files[f];
	return largest;
}

/* Measures the disk by reading the largest file, without the parts that the system has cached. */
static int measure_disk(double *rate, const struct quantize_plan *plan, struct error *error)
{
	const struct file *file = largest_source(plan);
	unsigned char *bytes = malloc(CHUNK_BYTES);
	uint64_t at = 0;
	int code = bytes == NULL ? fail_memory(error) : EXIT_OK;

	handle_uncache(file->handle);
	double start = clock_seconds(), seconds = 0;
	while (code == EXIT_OK && at < file->size_bytes && at < MEASURED_BYTES && seconds < measured_seconds) {
		size_t n = file->size_bytes - at < CHUNK_BYTES ? (size_t)(file->size_bytes - at) : CHUNK_BYTES;

		code = handle_read(file->handle, at, bytes, n, error);
		at += n;
		seconds = clock_seconds() - start;
	}
	free(bytes);
	*rate = seconds > 0 ? (double)at / seconds : 0;
	return code;
}

/* Measures computing by quantizing numbers in memory repeatedly, as the settings say. */
static int measure_compute(double *rate, const struct quantize_plan *plan, struct error *error)
{
	const struct quantize_settings *s = plan->settings;
	const struct mxfp_quantize_options options = {
		.size = sizeof options,
		.rule = (enum mxfp_rule)s->choice.rule,
		.recipe = (enum mxfp_recipe)s->choice.recipe,
		.round = (enum mxfp_round)s->round,
		.block_rows = quantize_band(&s->choice),
		.tensor_amax = mxfp_some(1),
	};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = s->threads};
	struct mxfp_blocks blocks = {.size = sizeof blocks, .format = s->choice.format, .rows = MATRIX_ROWS, .cols = MATRIX_COLS};
	const size_t n = MATRIX_ROWS * (size_t)MATRIX_COLS;
	uint16_t *x = malloc(n * sizeof *x);
	uint8_t *results = malloc(2 * n);
	double start = clock_seconds(), seconds = 0, bytes = 0;

	blocks.codes = results;
	blocks.scales = results == NULL ? NULL : results + n;
	for (size_t i = 0; x != NULL && i < n; i++)
		x[i] = (uint16_t)(0x3e00 + i % 0x180); /* bf16 from 0.125 to 2 */
	while (x != NULL && results != NULL && seconds < measured_seconds) {
		if (dense_quantize(&blocks, MXFP_FORMAT_BF16, x, &options, &exec) != MXFP_OK)
			break;
		bytes += (double)(n * sizeof *x);
		seconds = clock_seconds() - start;
	}
	bool whole = x != NULL && results != NULL;
	free(x);
	free(results);
	*rate = seconds > 0 ? bytes / seconds : 0;
	return whole ? EXIT_OK : fail_memory(error);
}

/* Returns the seconds that the bytes take; 0 if the rate is unknown. */
static double time_of(uint64_t bytes, double rate)
{
	return rate > 0 ? (double)bytes / rate : 0;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* Reading, quantizing and writing overlap, so the slowest of disk, processor and network counts. */
static void estimate(struct quantize_machines *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct quantize_machine *machine = &m->machines[i];
		uint64_t moved = machine->read_bytes + machine->written_bytes;

		machine->seconds = larger(larger(time_of(moved, m->disk), time_of(machine->read_bytes, m->compute)),
		                          time_of(moved, m->net));
		m->seconds = larger(m->seconds, machine->seconds);
		m->read_bytes += machine->read_bytes;
		m->written_bytes += machine->written_bytes;
	}
	m->merge_seconds = time_of(m->written_bytes, m->net);
}

/* Fills in what each machine does, at given or measured rates. */
static int fill(struct quantize_machines *m, struct quantize_plan *plan, struct error *error)
{
	m->machines = calloc(m->n, sizeof *m->machines);
	int code = m->machines == NULL ? fail_memory(error) : quantize_share(plan, m->n, error);
	if (code == EXIT_OK && m->disk == 0)
		code = measure_disk(&m->disk, plan, error);
	if (code == EXIT_OK)
		code = measure_compute(&m->compute, plan, error);
	if (code != EXIT_OK)
		return code;
	for (size_t f = 0; f < plan->n_files; f++) {
		struct quantize_machine *machine = &m->machines[plan->files[f].owner];

		machine->n_files++;
		for (size_t i = 0; i < plan->files[f].n; i++)
			machine->read_bytes += quantize_bytes_to_read(&plan->entries[plan->files[f].first + i]);
		machine->written_bytes += plan->files[f].output_bytes;
	}
	estimate(m);
	return EXIT_OK;
}

static double gib(uint64_t bytes)
{
	return (double)bytes / (1 << 30);
}

static void print_rate(const char *what, double rate)
{
	printf("%s %.1f MiB/s", what, rate / (1 << 20));
}

static int print_text(const struct quantize_machines *m, struct error *error)
{
	static const char *const heading[] = {"machine", "files", "reads GiB", "writes GiB", "seconds"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0]};

	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (size_t i = 0; i < m->n; i++) {
		table_cell(&table, "%zu", i + 1);
		table_cell(&table, "%zu", m->machines[i].n_files);
		table_cell(&table, "%.1f", gib(m->machines[i].read_bytes));
		table_cell(&table, "%.1f", gib(m->machines[i].written_bytes));
		table_cell(&table, "%.0f", m->machines[i].seconds);
	}
	int code = table_print(&table, stdout, error);
	if (code != EXIT_OK)
		return code;
	printf("%zu machines read %.1f GiB and write %.1f GiB; the last is done after %.0f s\n", m->n,
	       gib(m->read_bytes), gib(m->written_bytes), m->seconds);
	print_rate("at rates of disk", m->disk);
	print_rate(", quantizing", m->compute);
	if (m->net > 0) {
		print_rate(", network", m->net);
		printf("; moving the parts to one machine takes %.0f s", m->merge_seconds);
	} else {
		printf("; the network is not counted; give --rate-net");
	}
	putchar('\n');
	return EXIT_OK;
}

/* NULL without memory. */
static json_t *facts_of(const struct quantize_machines *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n; i++)
		list = facts_append(list, json_pack("{s:I, s:I, s:I, s:f}", "files", (json_int_t)m->machines[i].n_files,
		                                    "bytes_read", (json_int_t)m->machines[i].read_bytes, "bytes_written",
		                                    (json_int_t)m->machines[i].written_bytes, "seconds",
		                                    m->machines[i].seconds));
	return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f}", "machines", list, "rate_disk", m->disk, "rate_quantizing",
	                 m->compute, "rate_net", m->net, "seconds", m->seconds, "seconds_to_merge", m->merge_seconds);
}

int quantize_machines(struct quantize_plan *plan, struct error *error)
{
	const struct quantize_settings *s = plan->settings;
	struct quantize_machines m = {.n = s->machines, .disk = (double)s->rate_disk, .net = (double)s->rate_net};
	int code = fill(&m, plan, error);

	if (code == EXIT_OK)
		code = s->json ? facts_print(stdout, facts_of(&m), error) : print_text(&m, error);
	free(m.machines);
	return code;
}
