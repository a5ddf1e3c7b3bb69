/* SPDX-License-Identifier: MIT */
/*
 * Moves tensors from one file into another, for the commands that rewrite a model. Several workers take a tensor's
 * pieces. Each reads a piece while no other reads, processes it, and writes the result to its place in the file:
 * reading, computing and writing overlap without a queue, a piece stays in one processor's cache, and data are read
 * in order, so they can be hashed on the way.
 */
#ifndef TOOLS_IO_TRANSFER_H
#define TOOLS_IO_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/progress.h"
#include "io/file.h"
#include "io/piece.h"
#include "mxfp/options.h"

enum {
	TRANSFER_WORKERS = 16,
	TRANSFER_READ_BYTES = PIECE_ELEMENTS * 8,  /* of a piece: elements of the widest dtype */
	TRANSFER_RESULT_BYTES = PIECE_ELEMENTS * 4, /* of a piece: f32 */
	TRANSFER_WORKER_BYTES = TRANSFER_READ_BYTES + TRANSFER_RESULT_BYTES
};

/* Bytes of a worker's memory: for what is read, and for work(). */
struct transfer_room {
	uint64_t read, result;
};

/* A piece in a worker's memory. */
struct transfer_piece {
	struct piece piece;
	unsigned worker;
	unsigned char *bytes;  /* for what is read; work() may change it */
	unsigned char *result; /* for work() */
};

struct transfer {
	const struct file *file; /* being read */
	struct writer writer;    /* being written */
	struct progress progress;
	XXH3_state_t *hash;      /* of what was copied, NULL: none */
	unsigned threads;        /* at most this many, 0: one per processor */
	unsigned workers;        /* at most this many, 0: TRANSFER_WORKERS */
	struct transfer_room room; /* 0: TRANSFER_READ_BYTES, TRANSFER_RESULT_BYTES */
	unsigned char *memory;   /* of the workers; malloc'ed */
	struct transfer_piece pieces[TRANSFER_WORKERS];
};

/* The work on a matrix of rows x cols. */
struct transfer_job {
	uint64_t rows, cols;
	size_t band; /* of a piece (piece.h): the room must hold that many rows */
	/* Reads a piece into its bytes, and sets how many they are. Called by one thread at a time, in order. */
	int (*read)(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error);
	/* Does the rest. Called by many threads at a time, in any order. Adds to counts that no other worker sees. */
	int (*work)(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
	            struct error *error);
	const void *context;
	struct mxfp_counts *counts; /* added to */
};

/* Allocates the workers' memory. EXIT_MEMORY. */
int transfer_begin(struct transfer *transfer, struct error *error);

/* Releases it; the struct may be zeroed. */
void transfer_end(struct transfer *transfer);

/* Does a job. A failure is that of the first piece that fails, whatever the number of threads: a code of the job's
   functions, or a signal. */
int transfer_run(struct transfer *transfer, const struct transfer_job *job, struct error *error);

/* Copies a tensor to the one of the same name and dtype in the writer. */
int transfer_copy(struct transfer *transfer, const struct tensor *tensor, struct error *error);

#endif
