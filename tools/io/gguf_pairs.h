/* SPDX-License-Identifier: MIT */
/* The key-values of a GGUF file's header. */
#ifndef TOOLS_IO_GGUF_PAIRS_H
#define TOOLS_IO_GGUF_PAIRS_H

#include <stdint.h>

#include "base/error.h"
#include "io/file_gguf.h"
#include "io/gguf_source.h"

enum {
	GGUF_COUNT_MAX = 1 << 20, /* of key-values and of tensors */
	GGUF_TEXT_MAX = 1 << 20   /* bytes of a value that becomes metadata */
};

/* The read of one header. */
struct gguf_header {
	struct file *file;
	struct gguf *gguf;
	struct gguf_source source;
	char what[64];        /* is being read */
};

/* Whether the rest of the file can hold so many things, none of which takes less than `least` bytes. EXIT_INPUT. */
int gguf_check_count(const struct gguf_header *h, uint64_t n, unsigned least, const char *what, struct error *error);

/* Takes the pairs: into the state, numbers and strings also into the file's metadata. EXIT_INPUT, EXIT_IO,
   EXIT_MEMORY. */
int gguf_take_pairs(struct gguf_header *h, uint64_t n, struct error *error);

#endif
