/* SPDX-License-Identifier: MIT */
/* The programs that quantized models are made for, and what they load: target.def. */
#ifndef TOOLS_MODEL_TARGET_H
#define TOOLS_MODEL_TARGET_H

#include "model/layout.h"

enum target {
#define TARGET(id, name, program) TARGET_##id,
#include "model/target.def"
	TARGET_ANY /* whatever mxfp quantize writes */
};

/* The argument of --for, for --help and completion. */
#define TARGET_NAMES "vllm|llama.cpp|mlx|transformers|any"

/* Finds the target of a model at `path` by the name that an option gives; NULL: llama.cpp of a GGUF file, vllm of others. A GGUF file
   becomes nothing but another: any is llama.cpp then. EXIT_USAGE with the known ones, or with what makes a directory of it. */
int target_find(enum target *target, const char *where, const char *name, const char *path, struct error *error);

/* "vllm", and "vLLM 0.33.0"; of TARGET_ANY "any", and "mxfp". */
const char *target_name(enum target target);
const char *target_program(enum target target);

/* The layout that a target is given; of TARGET_ANY the default one. */
const struct layout *target_layout(enum target target);

/* The first layout in which a target loads such weights with such activations, a format or OPTION_FORMAT_NONE; NULL: none. */
const struct layout *target_loads(enum target target, enum mxfp_format weights, enum mxfp_format activations);

/* What it makes of them: "W4A8"; NULL: it does not load them, or is TARGET_ANY. */
const char *target_as(enum target target, enum mxfp_format weights, enum mxfp_format activations);

/* Whether it takes quantized activations. */
bool target_takes_activations(enum target target);

/* Whether it loads such weights with such activations in a layout. */
bool target_loads_in(enum target target, const struct layout *layout, enum mxfp_format weights, enum mxfp_format activations);

#endif
