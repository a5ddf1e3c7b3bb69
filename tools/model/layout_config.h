/* SPDX-License-Identifier: MIT */
/*
 * The configuration of a quantized model: quantization_config in its config.json, and the file that a layout wants
 * beside that. Facts are collected tensor by tensor. Without memory all of this goes on with less, and
 * json_out_of_memory() tells at the end.
 */
#ifndef TOOLS_MODEL_LAYOUT_CONFIG_H
#define TOOLS_MODEL_LAYOUT_CONFIG_H

#include "base/option_kind.h"
#include "model/layout.h"
#include "model/model.h"

enum { LAYOUT_GROUPS_MAX = 64 }; /* there are fewer pairs of a format and a sparsity */

/* Modules whose weights are quantized alike. */
struct layout_group {
	struct layout_choice choice;
	json_t *targets; /* array of names of modules */
};

struct layout_facts {
	const struct layout *layout;
	const struct role_model *role_model; /* of the model that it is made from */
	enum mxfp_format activations; /* their format when the model runs; OPTION_FORMAT_NONE: as they are */
	bool input_scales;            /* the files have tensor scales of activations */
	bool pre_quant_scales;        /* the files have LAYOUT_PRE_QUANT_SCALE */
	json_t *cache;                /* how keys and values are quantized, as layout_cache_read() tells it; NULL: not */
	size_t n_groups;
	struct layout_group groups[LAYOUT_GROUPS_MAX];
	json_t *ignore;               /* array of names of modules that are not quantized */
	json_t *roots;                /* object of role_root() of them */
};

/* Starts, for a model that is made from another. */
void layout_facts_begin(struct layout_facts *facts, const struct layout *layout, enum mxfp_format activations,
                        const struct model *source);

/* Takes note of a tensor that is quantized, and of one that is not. */
void layout_facts_add(struct layout_facts *facts, const struct layout_choice *choice, const char *name);
void layout_facts_keep(struct layout_facts *facts, const struct tensor *tensor);

void layout_facts_free(struct layout_facts *facts);

/* quantization_config, or NULL if the layout has none. */
json_t *layout_config(const struct layout_facts *facts);

/* Puts it, which is given away, into a config.json, and what its loaders read beside it. */
void layout_config_put(json_t *config, const struct layout *layout, json_t *quantization);

/* The format of activations that a quantization_config names, in our own words or in those of a layout;
   OPTION_FORMAT_NONE: none that is known. */
enum mxfp_format layout_config_activations(const json_t *quantization);

/* The file beside config.json that its layout wants; *name is NULL if there is none. */
json_t *layout_second_config(const json_t *config, const char **name);

#endif
