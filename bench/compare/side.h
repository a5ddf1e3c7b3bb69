/* SPDX-License-Identifier: MIT */
/*
 * What scripts/compare-speed.sh knows of a commit: rows, each of which prepares an operation of its library and runs it. Two
 * commits are two shared objects of this form, each with a library of its own inside, in one process.
 *
 * A commit's object is made of its own bench/compare/rows_*.c, or of this tree's where it has none, and of its public
 * headers: so the API may change from one commit to the next, together with rows and api.h. If this file changes, SPEED_SIDE is
 * raised, and commits before that cannot be compared with those after it.
 */
#ifndef BENCH_COMPARE_SIDE_H
#define BENCH_COMPARE_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SPEED_SIDE = 1,
	SPEED_NAME_BYTES = 64,
	SPEED_COLS = 4096,     /* of the numbers in CHANNELS, and of most rows */
	SPEED_PERIOD = 1 << 20 /* after which numbers repeat: more than branch prediction learns */
};

/* Numbers that both sides work on, in binary32. */
enum speed_numbers {
	SPEED_NORMAL,   /* standard normals, for matrices and for memory */
	SPEED_TAILS,    /* Student's t, four degrees of freedom */
	SPEED_CHANNELS, /* the same; of rows of SPEED_COLS numbers, one in 97 is 20 times as large */
	SPEED_N_NUMBERS
};

#define SPEED_N_MATRIX ((size_t)SPEED_COLS * SPEED_COLS) /* of TAILS and CHANNELS */
#define SPEED_N_MEMORY ((size_t)1 << 26)                 /* of NORMAL; results have as many bytes as these, 256 MiB */

/* What the driver lends to a row. */
struct speed_host {
	const float *(*numbers)(enum speed_numbers which);
	void *results;                  /* 4 SPEED_N_MEMORY bytes: where a row writes. Both sides have the same */
	void *(*allocate)(size_t bytes); /* memory of unknown content, until the row ends; NULL: none left */
};

/* A row that is ready. */
struct speed_work {
	/* Does the work once. Rows that go through memory take part `turn` modulo the parts they have. */
	void (*run)(const struct speed_work *work, size_t turn);
	size_t result_bytes; /* at the beginning of the results after turn 0, to be compared between the sides */
	const void *state;   /* in memory of the host */
};

struct speed_side {
	unsigned version; /* SPEED_SIDE */
	/* Writes the name of row i, from 0: words, the first of which is the kind of work. Returns false past the last. */
	bool (*name)(size_t i, char name[SPEED_NAME_BYTES]);
	/* Prepares row i. Returns false if the library cannot do that. */
	bool (*start)(size_t i, const struct speed_host *host, struct speed_work *work);
	/* The name of tier i, ascending, or NULL past the last. Sets *lacks to NULL if it can run, else to what this
	   machine lacks. */
	const char *(*tier)(int i, const char **lacks);
	int (*active)(void); /* the tier that runs unless MXFP_ISA names another */
};

/* The one symbol that the object exports. */
#define SPEED_SIDE_SYMBOL "speed_side"
typedef const struct speed_side *speed_side_function(void);

#endif
