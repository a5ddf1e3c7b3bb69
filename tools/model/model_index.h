/* SPDX-License-Identifier: MIT */
/* The index of a sharded model, model.safetensors.index.json: {"metadata": {...}, "weight_map": {TENSOR: SHARD,
   ...}}: reading and writing it. */
#ifndef TOOLS_MODEL_MODEL_INDEX_H
#define TOOLS_MODEL_MODEL_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "io/descriptor.h"

struct model_index_entry {
	const char *tensor, *shard;
};

struct model_index {
	const char *path;
	struct arena arena;
	bool has_map;
	size_t n, capacity;
	struct model_index_entry *entries; /* by tensor name */
};

/* Reads an index. Shard names are names of files, without separators; the map is not empty and holds no tensor
   twice. Other keys than weight_map are not looked at. EXIT_INPUT, EXIT_IO, EXIT_MEMORY; model_index_close()
   follows in every case. */
int model_index_read(struct model_index *index, descriptor_opener *opener, const char *path, struct error *error);

void model_index_close(struct model_index *index);

/* The entry of a tensor, or NULL. */
const struct model_index_entry *model_index_find(const struct model_index *index, const char *tensor);

/* An index being written, formatted while tensors are added: as a tree it would cost several times the memory of the
   headers. */
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
