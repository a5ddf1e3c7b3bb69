/* SPDX-License-Identifier: MIT */
/* The index of a model being written, formatted while tensors are added: as a tree it would cost several times the
   memory of the headers. */
#ifndef TOOLS_MODEL_INDEX_TEXT_H
#define TOOLS_MODEL_INDEX_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "error.h"

struct model_index_text {
	FILE *stream;  /* NULL before it is begun and after it is ended */
	bool started;  /* a tensor is in it */
	char *bytes;   /* the text, once it is ended */
	size_t n;
};

/* Each EXIT_MEMORY. */
int model_index_text_begin(struct model_index_text *text, struct error *error);
int model_index_text_add(struct model_index_text *text, const char *tensor, const char *file, struct error *error);
int model_index_text_end(struct model_index_text *text, uint64_t total_bytes, struct error *error);

/* A zeroed struct is fine. */
void model_index_text_free(struct model_index_text *text);

#endif
