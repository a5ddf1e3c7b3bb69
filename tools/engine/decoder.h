/* SPDX-License-Identifier: MIT */
/*
 * The sizes of a model's decoder layers: grouped-query attention, then a gated feed-forward part, experts, or both
 * (experts that every token takes beside those that it is sent to). From a table of presets, or from config.json.
 */
#ifndef TOOLS_ENGINE_DECODER_H
#define TOOLS_ENGINE_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DECODER_SIZE_MAX = 1 << 20, DECODER_PRESETS_MAX = 16 };

struct decoder {
	const char *name;             /* of a preset, or the path that was given */
	uint64_t hidden;
	uint64_t heads, kv_heads, head_dim;
	uint64_t intermediate;        /* of what every token takes; 0: experts only */
	uint64_t experts, experts_per_token, expert_intermediate; /* experts 0: none */
	uint64_t layers;              /* 0: not known */
	uint64_t window, windowed;    /* keys that a token sees in so many of the layers; 0: all, in none */
	uint64_t dense_first;         /* layers without experts before those with them */
};

/* Returns how many presets there are, and their names. */
size_t decoder_presets(const char *names[DECODER_PRESETS_MAX]);

/* Finds a preset by name, or reads the config.json at that path or in that directory; `name` lives as long as
   `decoder`. EXIT_USAGE: no preset, and no such file; EXIT_INPUT: a size is absent, no whole number or out of range,
   sizes contradict each other, or the attention is of another kind. EXIT_IO, EXIT_MEMORY. */
int decoder_find(struct decoder *decoder, const char *name, struct error *error);

#endif
