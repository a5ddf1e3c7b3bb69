/* SPDX-License-Identifier: MIT */
/*
 * Equality of kernels: a kernel of a tier and the reference do the same job, and whatever can be seen of it must be the
 * same: the bytes of every array and around them, the counts, and the floating-point state, which the job finds in
 * hostile settings. Arrays lie between pages that cannot be touched. There is no tolerance.
 */
#ifndef TESTS_EQUAL_H
#define TESTS_EQUAL_H

#include <stddef.h>
#include <stdint.h>

#include "oracle/inputs.h"
#include "kernels.h"

enum {
	EQUAL_MAX_ARRAYS = 3,
	EQUAL_MAX_TIERS = 8,
	EQUAL_REGION = 1 << 20, /* bytes between two guard pages */
	EQUAL_AT_END = -1       /* a place: the last byte is the last one before the guard page */
};

/* A table to hold against the reference's. */
struct equal_tier {
	const char *name;
	struct mxfp_kernels table;
};

/* The harness of one test program. */
struct equal {
	struct equal_tier tier[EQUAL_MAX_TIERS];
	size_t n_tiers;
	struct mxfp_kernels reference;
	struct random random;
	unsigned rounds;                    /* how often random parts are repeated: MXFP_TEST_ROUNDS, or 1 */
	uint32_t share;                     /* of how many cases one runs, drawn at random: MXFP_TEST_SHARE, or 1 */
	uint8_t *region[EQUAL_MAX_ARRAYS];
	uint8_t *image[EQUAL_MAX_ARRAYS];   /* what a region must be after the call */
	char message[1300];                 /* the first difference; empty: none */
};

/* What a kernel gives besides arrays. A case sets what it starts from. */
struct equal_outcome {
	struct mxfp_counts counts;
	uint32_t amax;
	uint64_t first_non_finite;
};

/* An array: how many bytes it spans, and its place between the guard pages: an offset from the first byte, or
   EQUAL_AT_END, or a lower number for as many bytes before that. */
struct equal_array {
	size_t bytes;
	int place;
	const void *input; /* what it holds; NULL: the kernel writes it */
};

/* A kernel of any slot. */
typedef void equal_kernel(void);

/* One job. */
struct equal_case {
	equal_kernel *(*kernel)(const struct mxfp_kernels *table, const struct equal_case *c);
	/* Completes a copy of *job with the addresses and calls the kernel. */
	void (*call)(equal_kernel *kernel, const void *job, uint8_t *const array[], struct equal_outcome *outcome);
	void (*describe)(const struct equal_case *c, char *text, size_t size); /* in one line */
	const void *job;
	size_t n_elements;
	struct equal_array array[EQUAL_MAX_ARRAYS];
	struct equal_outcome start;
};

/* main() of a program: runs its tests with the tiers that the machine has, case_name as suite_run() has it. *e is large, make it
   static. */
int equal_main(struct equal *e, const char *(*case_name)(int i));

/* Who is called when a kernel faults, on any thread; a difference like others until a test says so. */
void equal_catch_faults(void (*handler)(int number));

/* Whether any tier has a kernel of its own for the case's slot. */
bool equal_is_wanted(const struct equal *e, const struct equal_case *c);

/* Runs the case on every tier whose kernel is not the reference's, in one floating-point state drawn at random, or in
   every one. False and e->message on the first difference. */
bool equal_run(struct equal *e, const struct equal_case *c);
bool equal_run_in_every_state(struct equal *e, const struct equal_case *c);

/* A place at random: at either end, on either side of one, or at any of 64 offsets. */
int equal_place(struct random *r);

#endif
