/* SPDX-License-Identifier: MIT */
/*
 * The processes of mxfp-mpi that mpirun has started: they work on one output, and rank 0 alone speaks. In mxfp, and without
 * mpirun, there is one process, rank 0 of 1, and nothing here costs anything.
 */
#ifndef TOOLS_QUANTIZE_RANKS_H
#define TOOLS_QUANTIZE_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Whether mpirun has started this process, mxfp too. */
bool ranks_started(void);

/* Joins the others. EXIT_IO; EXIT_USAGE: mpirun has started several processes of mxfp, which know nothing of each other. */
int ranks_begin(struct error *error);

unsigned ranks_own(void);
unsigned ranks_number(void);

/* Every rank calls this at the same points of its work with what came of it there. If any failed, all get the code of
   the lowest that did, rank 0 its text with its number, others an empty text, and later calls return at once: the
   failed rank does not get to them. */
int ranks_share(int code, struct error *error);

/* Copies the bytes of one rank to every rank. */
void ranks_tell(unsigned from, void *bytes, size_t n);

/* Puts together what ranks have in parts: bytes that are 0 on all ranks but one. */
void ranks_join(void *bytes, size_t n);

/* Sums numbers of all ranks, each on its own; the least that any rank has. */
void ranks_sum(uint64_t *numbers, size_t n);
uint64_t ranks_least(uint64_t number);

/* Leaves. Returns the exit code of this process: `code` for rank 0 only, since mpirun speaks of each that is not 0. */
int ranks_end(int code);

#endif
