/* SPDX-License-Identifier: MIT */
/*
 * What a model says about its numbers besides them: the keys of quantization_config in config.json and of
 * hf_quant_config.json, and tensors that stand beside quantized ones. All of it is known here, by the table meaning.def,
 * or is refused by name; what --allow-unknown names (allow.h), by its path or its last part, is passed over. Whoever
 * reads numbers opens the model with meaning_open(), so that all commands take and refuse the same models.
 */
#ifndef TOOLS_MODEL_MEANING_H
#define TOOLS_MODEL_MEANING_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/layout.h"
#include "model/model.h"

enum meaning_kind {
	MEANING_UNKNOWN, /* in no table */
	MEANING_REFUSED, /* known, and not done here */
	MEANING_FOREIGN, /* of a layout or a method that is not read */
	MEANING_ORPHAN,  /* scales without codes, or codes without scales */
	MEANING_TWICE,   /* codes of a weight that another tensor, `key`, holds, too */
	MEANING_LEFTOVER, /* says of weights that are plain numbers that they are quantized */
	MEANING_FOLDED,  /* done where weights are written as numbers: pre_quant_scale */
	MEANING_CARRIED  /* about activations or caches, whose scales it holds */
};

struct meaning_fact {
	enum meaning_kind kind;
	const char *path;   /* of the file that says so */
	const char *tensor; /* the tensor that does; NULL: a key does */
	const char *key;    /* by its path in the section, or the part of the tensor's name that says it */
	const char *text;   /* what is wrong and what to do, or what it is */
};

/* Calls `reader` for each fact that is more than a description; whatever it returns but EXIT_OK ends it. EXIT_INPUT,
   EXIT_IO, EXIT_MEMORY. */
typedef int meaning_reader(void *context, const struct meaning_fact *fact, struct error *error);
int meaning_list(const struct model *model, meaning_reader *reader, void *context, struct error *error);

/* Whether a tensor of that name is MEANING_CARRIED. */
bool meaning_is_carried(const char *name);

/* The facts of meaning_list(), those of one kind about tensors with one key as one. */
struct meaning_sum {
	struct meaning_fact fact; /* the first */
	size_t n;
};

struct meaning_sums {
	size_t n;
	struct meaning_sum *items;
	struct arena arena; /* the texts */
};

/* meaning_sums_free() follows in every case. */
int meaning_sum_up(const struct model *model, struct meaning_sums *sums, struct error *error);
void meaning_sums_free(struct meaning_sums *sums);

/* What the caller does with numbers. */
enum meaning_use {
	MEANING_READS,   /* takes codes and scales alone for the weight: MEANING_FOLDED is refused */
	MEANING_FOLDS,   /* looks at what is to be folded into them */
	MEANING_DECODES, /* the same, and makes numbers of all that is quantized: model_decode() */
	MEANING_MOVES,   /* the same, and takes codes as they are stored: model_decode_scaled() is not called */
	MEANING_COMPARES /* reads, and takes as bytes what is MEANING_FOREIGN and MEANING_TWICE, which the others refuse */
};

/* Refuses a model of which some of that is unknown or not done, and notes the formats that its configuration states.
   EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int meaning_check(struct model *model, enum meaning_use use, struct error *error);

/* Notes the formats, and refuses nothing: for who tells all that is wrong. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int meaning_note(struct model *model, struct error *error);

/* The layout whose programs have written a section; NULL: none that is known. */
const struct layout *meaning_layout(const json_t *section);

/* model_open(), meaning_check(), model_decode_scaled() unless the use is MEANING_MOVES, and model_decode() if it is
   MEANING_DECODES. */
int meaning_open(struct model *model, const char *path, enum meaning_use use, struct error *error);

#endif
