/* SPDX-License-Identifier: MIT */
/* Tensors on their way from one file into another: what is common to the commands that rewrite a model. */
#ifndef TOOLS_TRANSFER_H
#define TOOLS_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include <xxhash.h>

#include "error.h"
#include "file.h"
#include "progress.h"

enum { TRANSFER_BYTES = 1 << 23 }; /* read at once at most */

struct transfer {
	const struct file *file; /* being read */
	struct writer writer;    /* being written */
	struct progress progress;
	XXH3_state_t *hash;      /* of what was copied, NULL: none */
	unsigned char *buffer;   /* TRANSFER_BYTES; malloc'ed */
};

/* Reads `n` bytes of a tensor into the buffer and moves the progress on. What output_interrupted() and
   file_read() say. */
int transfer_read(struct transfer *transfer, const struct tensor *tensor, uint64_t from, size_t n, struct error *error);

/* Copies a tensor to the one of its name and dtype. */
int transfer_copy(struct transfer *transfer, const struct tensor *tensor, struct error *error);

#endif
