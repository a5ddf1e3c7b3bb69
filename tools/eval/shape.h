/* SPDX-License-Identifier: MIT */
/* What a model is, from its config.json or its GGUF file's metadata: its family, its sizes, its positions. */
#ifndef TOOLS_EVAL_SHAPE_H
#define TOOLS_EVAL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/model.h"
#include "mxfp/rows.h"

/* What layers of a family have besides those of a Llama. */
enum {
	ARCHITECTURE_QKV_BIAS = 1 << 0,    /* biases of q, k and v; in GGUF the file tells where a family need not have them */
	ARCHITECTURE_OUTPUT_BIAS = 1 << 1, /* one of the attention's output */
	ARCHITECTURE_HEAD_NORM = 1 << 2,   /* RMS norms of each head of q and k, before they rotate */
	ARCHITECTURE_SINKS = 1 << 3,       /* a score for each head that takes part in its softmax */
	ARCHITECTURE_WINDOWED = 1 << 4,    /* sliding_window means something */
	ARCHITECTURE_ROUTED = 1 << 5,      /* experts */
	ARCHITECTURE_SHARED = 1 << 6,      /* an expert that every token takes, by its own gate */
	ARCHITECTURE_EXPERT_BIAS = 1 << 7, /* biases of router and experts */
	ARCHITECTURE_CLAMPED = 1 << 8,     /* gates as in gpt-oss */
	ARCHITECTURE_NORMALIZED = 1 << 9,  /* the weights of a token's experts always sum to 1 */
	ARCHITECTURE_HALVES = 1 << 10,     /* in GGUF too, a head's first half rotates with its second */
	ARCHITECTURE_CHOSEN_BIAS = 1 << 11, /* attention_bias says whether q, k, v and the output have biases */
	ARCHITECTURE_CHOSEN_MLP_BIAS = 1 << 12, /* mlp_bias, whether gate, up and down have */
	ARCHITECTURE_SWITCHED = 1 << 13,   /* sliding_window counts only with use_sliding_window */
	ARCHITECTURE_TYPED = 1 << 14,      /* layer_types says which layers have a window; the others have the same in all, */
	ARCHITECTURE_UPPER = 1 << 15,      /* or without it in those from max_window_layers on, */
	ARCHITECTURE_EVEN = 1 << 16        /* or in layers 0, 2, ..., below max_window_layers if the window is switched */
};

struct architecture {
	const char *huggingface, *gguf;
	unsigned has; /* ARCHITECTURE_<WORD> */
};

/* How frequencies are made, as config.json says it; numbers that it does not say are 0. */
struct shape_rope {
	enum mxfp_rotary_scaling scaling;
	double base, divisor;      /* divisor: of kind `linear`; else 1 */
	double factor, original_positions, low_freq_factor, high_freq_factor, beta_fast, beta_slow;
	bool no_truncate;
};

struct shape {
	const struct architecture *architecture;
	const char *path;          /* of config.json or the GGUF file, for errors */
	bool gguf;
	size_t layers, hidden, vocabulary, positions;
	size_t heads, kv_heads, head_cols;
	size_t intermediate;       /* of layers without experts */
	size_t experts, experts_per_token, expert_cols, shared_cols; /* experts 0: none */
	bool normalized;           /* the weights of a token's experts sum to 1 */
	bool *routed;              /* of each layer: has experts */
	size_t *windows;           /* of each layer: keys that a token sees, itself included; 0: all */
	double epsilon;            /* of norms */
	bool tied;                 /* the head may be missing, and is the embedding then */
	bool qkv_bias, output_bias, mlp_bias; /* layers have one; where they have none, GGUF alone may hold one all the same */
	bool interleaved;          /* heads rotate in pairs of neighbours, not in halves */
	size_t rotary_cols;
	struct shape_rope rope;
	float *frequencies;        /* rotary_cols / 2 */
	float attention_factor;    /* of cosines and sines */
	float clamp;               /* ARCHITECTURE_CLAMPED: the limit of gates */
};

/* Reads it; shape_free() follows in any case. What is not known is refused: EXIT_INPUT, naming file and field;
   EXIT_MEMORY, EXIT_IO. */
int shape_read(struct shape *shape, const struct model *model, struct error *error);

void shape_free(struct shape *shape);

/* GGUF metadata as the config.json that they would be; the caller releases it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int shape_gguf_config(json_t **config, const struct file *file, struct error *error);

/* The field that shape_gguf_config() makes of rope.scaling.attn_factor: attention_factor times that. */
#define SHAPE_TIMES_ATTENTION "rope.scaling.attn_factor"

/* The name that a field of config.json has in GGUF's metadata of an architecture, in `text`, or the field itself. */
enum { SHAPE_FIELD_TEXT = 128 };
const char *shape_gguf_field(const char *field, const char *architecture, char text[SHAPE_FIELD_TEXT]);

#endif
