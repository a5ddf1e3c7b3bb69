/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "objects.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numbers.h"
#include "samples.h"

enum {
	CHANNEL_EVERY = 97,
	CHANNEL_AT = 5,
	HUGE_PAGE = 2 << 20, /* both sides' memory begins at one, so that it falls on caches alike */
	ALIGNMENT = 4096
};

#define ARENA_BYTES ((size_t)1 << 30)

static const float channel_factor = 20;

/* The longest that a row is measured, and what a few pairs of most rows take; how much more than its share of the time a row
   may take; the part of a tier's time that first measurements may take; what is far too low. */
static const double seconds_most = 3, seconds_least = 0.25, more = 2.5, part_first = 0.75, far = 0.9;

/* Memory that the system gives as it is touched. */
static void *reserve(size_t bytes)
{
	unsigned char *memory = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
	                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	memory += HUGE_PAGE - (uintptr_t)memory % HUGE_PAGE;
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static void repeat(float *numbers, size_t n)
{
	for (size_t done = SPEED_PERIOD; done < n; done += SPEED_PERIOD)
		memcpy(numbers + done, numbers, SPEED_PERIOD * sizeof *numbers);
}

static const size_t n_numbers[SPEED_N_NUMBERS] = {SPEED_N_MEMORY, SPEED_N_MATRIX, SPEED_N_MATRIX};

bool objects_make(struct objects *objects)
{
	bool made = true;

	for (int i = 0; i < SPEED_N_NUMBERS; i++) {
		objects->numbers[i] = reserve(n_numbers[i] * sizeof(float));
		objects->has[i] = false;
		made = made && objects->numbers[i] != NULL;
	}
	objects->results = reserve(SPEED_N_MEMORY * sizeof(float));
	objects->arenas[OLD] = reserve(ARENA_BYTES);
	objects->arenas[NEW] = reserve(ARENA_BYTES);
	return made && objects->results != NULL && objects->arenas[OLD] != NULL && objects->arenas[NEW] != NULL;
}

/* What the rows of this process borrow; they have no argument to find it by. */
static struct objects *lent;
static unsigned char *arena;
static size_t arena_used;

static const float *lend_numbers(enum speed_numbers which)
{
	float *numbers = lent->numbers[which];

	if (lent->has[which])
		return numbers;
	lent->has[which] = true;
	if (which == SPEED_NORMAL)
		bench_normals(numbers, SPEED_PERIOD);
	else
		bench_student_t4(numbers, SPEED_PERIOD);
	for (size_t i = 0; which == SPEED_CHANNELS && i < SPEED_PERIOD; i++)
		if (i % SPEED_COLS % CHANNEL_EVERY == CHANNEL_AT)
			numbers[i] *= channel_factor;
	repeat(numbers, n_numbers[which]);
	return numbers;
}

static void *lend_memory(size_t bytes)
{
	const size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

	if (bytes > ARENA_BYTES || whole > ARENA_BYTES - arena_used)
		return NULL;
	arena_used += whole;
	return arena + arena_used - whole;
}

/* The objects stay open until the process ends. */
static const struct speed_side *open_side(const char *path)
{
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = object != NULL ? dlsym(object, SPEED_SIDE_SYMBOL) : NULL;
	speed_side_function *side = NULL;

	if (symbol == NULL) {
		fprintf(stderr, "compare: %s\n", dlerror());
		return NULL;
	}
	memcpy(&side, &symbol, sizeof side);
	if (side()->version == SPEED_SIDE)
		return side();
	fprintf(stderr, "compare: %s has version %u of bench/compare/side.h, not %d\n", path, side()->version, SPEED_SIDE);
	return NULL;
}

static bool open_sides(struct objects *objects, const struct speed_side *sides[N_SIDES])
{
	for (int side = 0; side < N_SIDES; side++) {
		sides[side] = open_side(objects->paths[side]);
		if (sides[side] == NULL)
			return false;
	}
	return true;
}

static bool is_wanted(const char *name, char *const *texts, int n)
{
	for (int i = 0; i < n; i++)
		if (strstr(name, texts[i]) != NULL)
			return true;
	return n == 0;
}

static struct table_row *row_of(struct table *table, const char *name)
{
	for (size_t r = 0; r < table->n_rows; r++)
		if (strcmp(table->rows[r].name, name) == 0)
			return &table->rows[r];
	if (table->n_rows == TABLE_ROWS_MAX)
		return NULL;
	struct table_row *row = &table->rows[table->n_rows++];
	*row = (struct table_row){.index = {-1, -1}};
	snprintf(row->name, sizeof row->name, "%s", name);
	return row;
}

static void list_rows(const struct speed_side *sides[N_SIDES], struct table *table, char *const *texts, int n)
{
	char name[SPEED_NAME_BYTES];

	for (int side = NEW; side >= OLD; side--)
		for (size_t i = 0; sides[side]->name(i, name); i++) {
			struct table_row *row = is_wanted(name, texts, n) ? row_of(table, name) : NULL;
			if (row != NULL)
				row->index[side] = (int)i;
		}
}

/* The names of tiers of all machines. */
static const char *const all_tiers[] = {
#define MXFP_TIER_AVX2 1
#define MXFP_TIER_AVX512 1
#define MXFP_TIER_AMX 1
#define MXFP_TIER_NEON 1
#define BENCH_TIER(name) #name,
#include "tier.def"
};

/* Says in `why` why a side does not run a tier, or returns its number. */
static int find_tier(const struct speed_side *side, const char *name, const char *commit, char why[TABLE_TEXT_BYTES])
{
	const char *lacks = NULL, *found;
	int i = 0;

	while ((found = side->tier(i, &lacks)) != NULL && strcmp(found, name) != 0)
		i++;
	if (found != NULL && lacks == NULL)
		return i;
	if (found == NULL)
		snprintf(why, TABLE_TEXT_BYTES, "not in %s as built here", commit);
	else
		snprintf(why, TABLE_TEXT_BYTES, "this machine lacks %s", lacks);
	return -1;
}

static void list_tiers(const struct speed_side *sides[N_SIDES], struct table *table)
{
	const char *lacks, *active = sides[NEW]->tier(sides[NEW]->active(), &lacks);

	for (size_t i = 0; i < sizeof all_tiers / sizeof all_tiers[0] && i < TABLE_TIERS_MAX; i++) {
		struct table_tier *tier = &table->tiers[table->n_tiers++];
		*tier = (struct table_tier){.timed = true, .all_rows = strcmp(all_tiers[i], active) == 0};
		snprintf(tier->name, sizeof tier->name, "%s", all_tiers[i]);
		for (int side = OLD; side < N_SIDES; side++)
			if (find_tier(sides[side], tier->name, table->names[side], tier->why) < 0)
				tier->timed = false;
		if (tier->timed && !tier->all_rows && i == 0) {
			tier->timed = false;
			snprintf(tier->why, sizeof tier->why, "the definition, which nobody runs for its speed");
		}
	}
}

/* Waits for a child. Returns whether it ended well. */
static bool ended_well(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) != child)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool objects_list(struct objects *objects, struct table *table, char *const *texts, int n)
{
	const struct speed_side *sides[N_SIDES];

	fflush(NULL);
	const pid_t child = fork();
	if (child != 0)
		return child > 0 && ended_well(child);
	unsetenv("MXFP_ISA");
	if (!open_sides(objects, sides))
		_exit(1);
	list_rows(sides, table, texts, n);
	list_tiers(sides, table);
	for (size_t t = 0; t < table->n_tiers; t++)
		for (size_t r = 0; r < table->n_rows; r++) {
			const bool is_product = strncmp(table->rows[r].name, "product ", 8) == 0;
			if (!table->tiers[t].timed || (!table->tiers[t].all_rows && !is_product))
				table->rows[r].cells[t].finding = FINDING_OTHER;
		}
	_exit(0);
}

/* A row of both sides, ready. */
struct ready {
	struct speed_work works[N_SIDES];
	size_t turn;
};

static double run_times(void *context, int side, unsigned times)
{
	struct ready *ready = context;
	const struct speed_work *work = &ready->works[side];
	const double start = bench_now(CLOCK_THREAD_CPUTIME_ID);

	for (unsigned i = 0; i < times; i++)
		work->run(work, ready->turn++);
	return bench_now(CLOCK_THREAD_CPUTIME_ID) - start;
}

/* A number that results with other bits hardly have. */
static uint64_t fingerprint(const unsigned char *bytes, size_t n)
{
	uint64_t sum = n, word = 0;

	for (size_t i = 0; i < n; i += sizeof word) {
		memcpy(&word, bytes + i, n - i < sizeof word ? n - i : sizeof word);
		sum = (sum ^ word) * 0x9E3779B97F4A7C15;
		sum ^= sum >> 29;
	}
	return sum;
}

/* Prepares a row. `swapped`: each side has the other's memory. */
static bool make_ready(struct objects *objects, const struct speed_side *const sides[N_SIDES],
                       const struct table_row *row, bool swapped, struct ready *ready, struct cell *cell)
{
	const struct speed_host host = {lend_numbers, objects->results, lend_memory};
	uint64_t fingerprints[N_SIDES] = {0};
	bool both = true;

	*ready = (struct ready){0};
	for (int side = 0; side < N_SIDES; side++) {
		struct speed_work *work = &ready->works[side];
		arena = objects->arenas[swapped ? N_SIDES - 1 - side : side];
		arena_used = 0;
		cell->cannot[side] = row->index[side] < 0 || !sides[side]->start((size_t)row->index[side], &host, work);
		if (cell->cannot[side]) {
			both = false;
			continue;
		}
		memset(objects->results, 0, work->result_bytes);
		work->run(work, 0);
		fingerprints[side] = fingerprint(objects->results, work->result_bytes);
	}
	cell->other_results = both && fingerprints[OLD] != fingerprints[NEW];
	return both;
}

/* Times a row; for half of the pairs each side has the other's memory, since where pages lie is worth some percent, for as long
   as a process lives. */
static void time_row(struct objects *objects, const struct speed_side *const sides[N_SIDES], const struct table_row *row,
                     unsigned pairs, double seconds, struct cell *cell)
{
	struct turns_result halves[2];
	struct ready ready;

	for (int half = 0; half < 2; half++) {
		cell->finding = FINDING_MISSING;
		if (!make_ready(objects, sides, row, half != 0, &ready, cell))
			return;
		halves[half] = turns_measure(&(struct turns){run_times, &ready}, (pairs + 1) / 2, seconds / 2);
	}
	cell->finding = FINDING_TIMED;
	cell->result.ratio = sqrt(halves[0].ratio * halves[1].ratio);
	cell->result.pairs = halves[0].pairs + halves[1].pairs;
	for (int side = 0; side < N_SIDES; side++)
		cell->result.seconds[side] = (halves[0].seconds[side] + halves[1].seconds[side]) / 2;
}

/* The rows from `from` on that are to be timed at a tier. */
static size_t count_left(const struct table *table, size_t tier, size_t from)
{
	size_t n = 0;

	for (size_t r = from; r < table->n_rows; r++)
		n += table->rows[r].cells[tier].finding == FINDING_NONE && !table->rows[r].command;
	return n;
}

/* The seconds that one of `left` rows may take of those that are left: more than its share, since most take less, as long as
   the others have enough for a few pairs. */
static double share(double seconds, size_t left)
{
	const double most = more * seconds / (double)left, spare = seconds - seconds_least * (double)(left - 1);
	const double shared = most < spare ? most : spare;

	return shared < 0 ? 0 : shared < seconds_most ? shared : seconds_most;
}

/* In a process of its own: from row `from` on. */
static void time_rows(struct objects *objects, struct table *table, size_t tier, size_t from, double end)
{
	const double start = bench_now(CLOCK_MONOTONIC), end_first = start + (end - start) * part_first;
	const struct speed_side *sides[N_SIDES];

	setenv("MXFP_ISA", table->tiers[tier].name, 1);
	lent = objects;
	if (!open_sides(objects, sides))
		_exit(1);
	for (size_t r = from, left = count_left(table, tier, from); r < table->n_rows; r++) {
		struct cell *cell = &table->rows[r].cells[tier];
		const double now = bench_now(CLOCK_MONOTONIC);
		if (cell->finding != FINDING_NONE || table->rows[r].command)
			continue;
		if (now >= end)
			break;
		table->now = r;
		time_row(objects, sides, &table->rows[r], table->tiers[tier].all_rows ? table->pairs : table->pairs / 2,
		         share(end_first - now, left--), cell);
	}
	for (size_t r = 0; r < table->n_rows; r++) {
		struct cell *cell = &table->rows[r].cells[tier];
		if (cell->finding != FINDING_TIMED || table->rows[r].command || cell->first != 0 ||
		    cell->result.ratio >= table->below)
			continue;
		table->now = r;
		cell->fallen = true;
		if (bench_now(CLOCK_MONOTONIC) >= end)
			continue;
		cell->first = cell->result.ratio;
		time_row(objects, sides, &table->rows[r], cell->first < far ? table->pairs : 2 * table->pairs, seconds_most, cell);
		cell->fallen = cell->result.ratio < table->below;
	}
	table->now = table->n_rows;
}

void objects_time(struct objects *objects, struct table *table, size_t tier, double end)
{
	for (size_t from = 0;; from = table->now + 1) {
		table->now = table->n_rows;
		fflush(NULL);
		const pid_t child = fork();
		if (child == 0) {
			time_rows(objects, table, tier, from, end);
			_exit(0);
		}
		if (child < 0 || ended_well(child) || table->now == table->n_rows)
			return;
		struct cell *cell = &table->rows[table->now].cells[tier];
		*cell = (struct cell){.finding = FINDING_MISSING, .died = true};
	}
}
