/* SPDX-License-Identifier: MIT */
/* The index of a model being written, formatted while tensors are added: as a tree it would cost several times the
   memory of the headers. */
#ifndef TOOLS_MODEL_MODEL_INDEX_TEXT_H
#define TOOLS_MODEL_MODEL_INDEX_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct model_index_text {
	char *path;    /* its own copy */
	FILE *stream;  /* NULL before it is begun and after it is ended */
	bool started;  /* a tensor is in it */
};

/* Creates the file, which must not exist. EXIT_IO, EXIT_MEMORY; model_index_text_free() follows in every case. */
int model_index_text_begin(struct model_index_text *text, const char *path, struct error *error);

/* EXIT_MEMORY. */
int model_index_text_add(struct model_index_text *text, const char *tensor, const char *file, struct error *error);

/* Completes and syncs it. EXIT_IO. */
int model_index_text_end(struct model_index_text *text, uint64_t total_bytes, struct error *error);

/* A zeroed struct is fine. */
void model_index_text_free(struct model_index_text *text);

#endif
