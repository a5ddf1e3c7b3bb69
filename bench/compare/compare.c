/* SPDX-License-Identifier: MIT */
/* Times what two commits do, in turns: scripts/compare-speed.sh builds the objects and the commands, and calls this. */
#include "config.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "command.h"
#include "objects.h"
#include "samples.h"

enum { EXIT_FALLEN = 1, EXIT_MISUSE = 2, TEXTS_MAX = 16, PATH_BYTES = 512 };

/* The share of the time at which the highest tier, then the commands end; the rest is for lower tiers. What one leaves is the
   next one's. */
static const double share_rows = 0.5, share_commands = 0.68;

static const char usage[] =
	"usage: compare --work DIR [OPTION]... OLD NEW\n"
	"Times the operations of two directories with side.so and mxfp in turns. Exit status 1 if one of NEW is slower.\n"
	"  --names OLD,NEW   what the two are called\n"
	"  --seconds N       time for all of it [280]\n"
	"  --pairs N         pairs of turns of a row, at most [61]\n"
	"  --below RATIO     a row that is less than RATIO times as fast has fallen [0.97]\n"
	"  --only TEXT       only rows whose names contain TEXT; may be repeated\n"
	"  --cpu N           run on processor N [the last that it may use]\n"
	"  --work DIR        where a model of 256 MB and what becomes of it are written\n"
	"  --table FILE      write the ratio of every row to FILE\n";

struct settings {
	double seconds, below;
	char *texts[TEXTS_MAX], *names;
	int n_texts, cpu, pairs;
	const char *work, *table, *directories[N_SIDES];
};

static bool read_options(int argc, char **argv, struct settings *settings)
{
	static const struct option options[] = {
		{"names", required_argument, NULL, 'n'}, {"seconds", required_argument, NULL, 's'},
		{"below", required_argument, NULL, 'b'}, {"only", required_argument, NULL, 'o'},
		{"cpu", required_argument, NULL, 'c'},   {"work", required_argument, NULL, 'w'},
		{"table", required_argument, NULL, 't'}, {"pairs", required_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'},
		{0},
	};
	char *end = NULL;
	int option;

	*settings = (struct settings){.seconds = 280, .below = 0.97, .cpu = -1, .pairs = 61};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		end = NULL;
		if (option == 'n')
			settings->names = optarg;
		else if (option == 's')
			settings->seconds = strtod(optarg, &end);
		else if (option == 'b')
			settings->below = strtod(optarg, &end);
		else if (option == 'c')
			settings->cpu = (int)strtol(optarg, &end, 10);
		else if (option == 'p')
			settings->pairs = (int)strtol(optarg, &end, 10);
		else if (option == 'w')
			settings->work = optarg;
		else if (option == 't')
			settings->table = optarg;
		else if (option == 'o' && settings->n_texts < TEXTS_MAX)
			settings->texts[settings->n_texts++] = optarg;
		else if (option == 'h') {
			fputs(usage, stdout);
			exit(EXIT_SUCCESS);
		} else
			return false;
		if (end != NULL && (end == optarg || *end != 0))
			return false;
	}
	if (argc - optind != N_SIDES || settings->work == NULL || settings->seconds <= 0 || settings->pairs <= 0 ||
	    settings->below <= 0)
		return false;
	settings->directories[OLD] = argv[optind];
	settings->directories[NEW] = argv[optind + 1];
	return true;
}

/* Names the sides: "OLD,NEW" of the option, or the directories. */
static void name_sides(struct table *table, struct settings *settings)
{
	char *comma = settings->names != NULL ? strchr(settings->names, ',') : NULL;

	for (int side = 0; side < N_SIDES; side++)
		table->names[side] = settings->directories[side];
	if (comma == NULL)
		return;
	*comma = 0;
	table->names[OLD] = settings->names;
	table->names[NEW] = comma + 1;
}

/* Runs on one processor from now on, and says which, or -1. */
static int pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 && sched_getaffinity(0, sizeof set, &set) == 0)
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET((size_t)i, &set))
				cpu = i;
	CPU_ZERO(&set);
	if (cpu >= 0 && cpu < CPU_SETSIZE)
		CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof set, &set) == 0 ? cpu : -1;
}

/* The value of a line of /proc/cpuinfo, without blanks around. */
static void find_fact(const char *key, char *value, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[4096];

	snprintf(value, size, "?");
	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		const size_t length = strlen(key);
		char *colon = strchr(line, ':');
		if (colon == NULL || strncmp(line, key, length) != 0 || strspn(line + length, " \t") + line + length != colon)
			continue;
		colon[1 + strcspn(colon + 1, "\n")] = 0;
		snprintf(value, size, "%s", colon + 1 + strspn(colon + 1, " "));
		break;
	}
	if (file != NULL)
		fclose(file);
}

static void describe_machine(int cpu, char *text, size_t size)
{
	char model_name[128], family[32], model[32];
	struct utsname system;

	uname(&system);
	find_fact("model name", model_name, sizeof model_name);
	find_fact("cpu family", family, sizeof family);
	find_fact("model", model, sizeof model);
	if (strcmp(family, "?") == 0) {
		find_fact("CPU implementer", family, sizeof family);
		find_fact("CPU part", model, sizeof model);
	}
	snprintf(text, size, "on %s (family %s, model %s, %ld processors), processor %d, %s %s", model_name, family, model,
	         sysconf(_SC_NPROCESSORS_ONLN), cpu, system.sysname, system.machine);
}

static void time_all(const struct settings *settings, struct objects *objects, struct table *table)
{
	const double start = bench_now(CLOCK_MONOTONIC);
	char programs[N_SIDES][PATH_BYTES];
	const char *const paths[N_SIDES] = {programs[OLD], programs[NEW]};
	size_t left = 0;

	for (int side = 0; side < N_SIDES; side++)
		snprintf(programs[side], sizeof programs[side], "%s/mxfp", settings->directories[side]);
	for (size_t t = 0; t < table->n_tiers; t++) {
		if (table->tiers[t].timed && !table->tiers[t].all_rows)
			left++;
		if (!table->tiers[t].timed || !table->tiers[t].all_rows)
			continue;
		objects_time(objects, table, t, start + share_rows * settings->seconds);
		(void)commands_time(paths, settings->work, table, t, start + share_commands * settings->seconds);
	}
	for (size_t t = table->n_tiers; t-- > 0;)
		if (table->tiers[t].timed && !table->tiers[t].all_rows) {
			const double now = bench_now(CLOCK_MONOTONIC);
			objects_time(objects, table, t, now + (start + settings->seconds - now) / (double)left--);
		}
}

static bool any_died(const struct table *table)
{
	bool died = false;

	for (size_t r = 0; r < table->n_rows; r++)
		for (size_t t = 0; t < table->n_tiers; t++)
			if (table->rows[r].cells[t].died) {
				printf("\nthe process ended in row %s at tier %s\n", table->rows[r].name, table->tiers[t].name);
				died = true;
			}
	return died;
}

int main(int argc, char **argv)
{
	struct table *table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const double start = bench_now(CLOCK_MONOTONIC);
	char object_paths[N_SIDES][PATH_BYTES], machine[512];
	struct settings settings;
	struct objects objects;

	if (!read_options(argc, argv, &settings)) {
		fputs(usage, stderr);
		return EXIT_MISUSE;
	}
	const int cpu = pin(settings.cpu);
	if (table == MAP_FAILED || (settings.cpu >= 0 && cpu < 0) || !objects_make(&objects)) {
		fputs("compare: no memory, or no such processor\n", stderr);
		return EXIT_MISUSE;
	}
	for (int side = 0; side < N_SIDES; side++) {
		snprintf(object_paths[side], sizeof object_paths[side], "%s/side.so", settings.directories[side]);
		objects.paths[side] = object_paths[side];
	}
	name_sides(table, &settings);
	table->below = settings.below;
	table->pairs = (unsigned)settings.pairs;
	if (!objects_list(&objects, table, settings.texts, settings.n_texts))
		return EXIT_MISUSE;
	commands_list(table, settings.texts, settings.n_texts);
	if (table->n_rows == 0) {
		fputs("compare: no such rows\n", stderr);
		return EXIT_MISUSE;
	}
	time_all(&settings, &objects, table);
	describe_machine(cpu, machine, sizeof machine);
	if (settings.table != NULL && !table_write(table, settings.table))
		fprintf(stderr, "compare: cannot write %s\n", settings.table);
	const bool died = any_died(table);
	const size_t fallen = table_report(table, machine, bench_now(CLOCK_MONOTONIC) - start);
	return fallen != 0 || died ? EXIT_FALLEN : EXIT_SUCCESS;
}
