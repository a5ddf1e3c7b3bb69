/* SPDX-License-Identifier: MIT */
/* What the tensors of a model that runs are called, by tensor.def. */
#ifndef TOOLS_EVAL_TENSOR_NAME_H
#define TOOLS_EVAL_TENSOR_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum tensor_id {
	TENSOR_EMBEDDING, TENSOR_HEAD, TENSOR_NORM, TENSOR_ROTARY_FACTORS,
	TENSOR_ATTENTION_NORM, TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_OUTPUT, TENSOR_Q_NORM, TENSOR_K_NORM, TENSOR_SINKS,
	TENSOR_MLP_NORM, TENSOR_GATE, TENSOR_UP, TENSOR_DOWN,
	TENSOR_ROUTER, TENSOR_EXPERT_GATE, TENSOR_EXPERT_UP, TENSOR_EXPERT_DOWN, TENSOR_EXPERT_GATE_UP,
	TENSOR_SHARED_ROUTER, TENSOR_SHARED_GATE, TENSOR_SHARED_UP, TENSOR_SHARED_DOWN
};

enum {
	TENSOR_NAME_BYTES = 192,
	TENSOR_NO_EXPERT = -1
};

/* Writes a name that a tensor may have, with the number of a layer and perhaps an expert. *row starts as 0 and goes on, call
   by call, to the other names of the same id; false after the last. */
bool tensor_name(char name[TENSOR_NAME_BYTES], size_t *row, enum tensor_id id, bool gguf, size_t layer, int expert);

/* Whether a tensor that nothing uses changes no result: what older files hold of the rotation, and scales of activations
   and caches, which are not static here. */
bool tensor_may_be_unused(const char *name);

#endif
