/* SPDX-License-Identifier: MIT */
/*
 * Messages between all ranks of a collective, which are processes that mpirun has started, or members of this one
 * process, between which they are copies.
 */
#ifndef TOOLS_COLLECTIVE_EXCHANGE_H
#define TOOLS_COLLECTIVE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { RANKS_MAX = 64 };

struct exchange {
	unsigned n_ranks;
	bool apart;     /* they are processes */
	double timeout; /* seconds that a message may take */
	bool broken;    /* a rank did not answer: MPI cannot be ended in order any more */
};

/* What a rank sends to another and gets from it. */
struct mail {
	const void *send;
	size_t send_bytes;
	void *receive;
	size_t receive_bytes;
};

/* Returns the rank of this process if they are apart, else 0. */
unsigned exchange_own(const struct exchange *exchange);

/*
 * Sends and receives all of it, in whatever order it arrives. Apart, mail[r] is between this process and rank r; else
 * mail[m * n_ranks + r] is between rank m and r. EXIT_IO: a rank has not answered in time, because it was killed or
 * stopped, or is late; the lowest rank that still runs is the first to say so.
 */
int exchange(struct exchange *exchange, const struct mail *mail, struct error *error);

/* Waits for all ranks, with what came of their work: if any failed, all get the code of the lowest that did, rank 0 its
   text with its number, others an empty text. */
int exchange_share(struct exchange *exchange, int code, struct error *error);

#endif
