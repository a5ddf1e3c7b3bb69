/* SPDX-License-Identifier: MIT */
/*
 * What a tensor is, by its name, its shape and the model it is of: whether it is the weight of a linear layer, which of
 * its dimensions a product runs over, and whether it is quantized unless the user says otherwise. role.def is the table.
 */
#ifndef TOOLS_MODEL_ROLE_H
#define TOOLS_MODEL_ROLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "io/file.h"

/* What config.json and the names and shapes of all tensors say of a model; all zero: nothing. */
enum { ROLE_MODEL_TYPE = 48 };
struct role_model {
	char type[ROLE_MODEL_TYPE]; /* model_type */
	uint64_t hidden_size;       /* of the language model; 0: not known */
	uint64_t experts;           /* num_local_experts of the same, or what others call it */
	bool experts_last, experts_turned; /* some tensor's sizes say that experts are [.., out, in]; [.., in, out] */
	bool (*has)(const void *tensors, const char *name); /* whether there is such a tensor; NULL: not known */
	const void *tensors;
};

enum role_kind {
	ROLE_LINEAR,  /* the weight of a Linear: a matrix [out, in] unless the axis says otherwise */
	ROLE_CONV1D,  /* that of a Conv1D of transformers, which is a linear layer with a weight [in, out] */
	ROLE_EXPERTS, /* those of all experts of a layer in one tensor */
	ROLE_SEQUENTIAL, /* the same, of which loaders that quantize Linear make one for each: EXPERT.gate_proj, up_proj and
	                    down_proj, of which the first two are halves of gate_up_proj [experts, 2 out, in] */
	ROLE_OTHER
};

/* The dimension that a product runs over, along which there are blocks. */
enum role_axis {
	ROLE_LAST,    /* [.., out, in] */
	ROLE_TURNED,  /* [.., in, out]: the last but one */
	ROLE_UNKNOWN, /* nothing says it */
	/* In the table alone, where an answer is one of those above. */
	ROLE_BY_SIZE, /* of the last two the one that hidden_size says */
	ROLE_BY_CLASS /* ROLE_LAST; ROLE_UNKNOWN if hidden_size says otherwise */
};

/* What becomes of a tensor, and whether the user may say otherwise. */
enum role_habit {
	ROLE_TAKEN, /* quantized */
	ROLE_KEPT,  /* not, unless it is named */
	ROLE_FIXED  /* not, and who replaces the class Linear cannot take it so */
};

struct role {
	enum role_kind kind;
	enum role_axis axis;
	enum role_habit habit;
	bool quantized;      /* whether that is ROLE_TAKEN, or what the user said */
	const char *reason;  /* for that, as a phrase */
	const char *source;  /* of the table's row */
	const char *unknown; /* what to say of ROLE_UNKNOWN, and what to do about it */
};

/* Fills in what a config.json, or NULL, says. */
void role_model_read(struct role_model *model, const json_t *config);

/* Adds what the sizes of a tensor say of the others: a square one among experts that are not is turned as these are. */
void role_model_see(struct role_model *model, const struct tensor *tensor);

/* The role of a tensor. Every tensor has one. */
struct role role_of(const struct role_model *model, const struct tensor *tensor);

/* Whether weights of experts or of a Conv1D have the hidden state as what they make, like down projections, and not as
   what they take. */
bool role_makes_hidden(const char *name);

/* Whether a weight is the table of an nn.Embedding, which is none of a linear layer: by the last component of its module. */
bool role_is_table(const char *name);

/* The component of a name that a loader keeps where it gives a module another place, if the role is of a part around the
   language model ("vision_tower") or of a small projection in it ("f_a_proj"): *n characters of the name. NULL: none. */
const char *role_root(const struct role *role, const char *name, size_t *n);

/* The same matrices [.., out, in] of a tensor [.., in, out], and back: last dimensions exchanged, and by_columns, in
   memory of the arena. False without memory. */
bool role_turn(struct tensor *turned, const struct tensor *tensor, struct arena *arena);

/* As role_turn() if the role's axis is ROLE_TURNED, else the tensor itself: what is quantized. NULL without memory. */
const struct tensor *role_rows(const struct role *role, const struct tensor *tensor, struct arena *arena);

#endif
