/* SPDX-License-Identifier: MIT */
/* The index of a sharded model, model.safetensors.index.json: {"metadata": {...}, "weight_map": {TENSOR: SHARD,
   ...}}. */
#ifndef TOOLS_MODEL_MODEL_INDEX_H
#define TOOLS_MODEL_MODEL_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

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
int model_index_read(struct model_index *index, const char *path, struct error *error);

void model_index_close(struct model_index *index);

/* The entry of a tensor, or NULL. */
const struct model_index_entry *model_index_find(const struct model_index *index, const char *tensor);

#endif
