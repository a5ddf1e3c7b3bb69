/* SPDX-License-Identifier: MIT */
/* A model's config.json on its way into an output. */
#ifndef TOOLS_MODEL_MODEL_CONFIG_H
#define TOOLS_MODEL_MODEL_CONFIG_H

#include "model/model.h"

/* A copy of the model's config.json, or of the one beside the file if the user named a file; *config is NULL if
   there is none. The caller releases it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int model_config_copy(const struct model *model, json_t **config, struct error *error);

/* Writes config.json, and what the layout that it names wants beside it, over what stands there. EXIT_IO,
   EXIT_MEMORY. */
int model_config_write(const char *directory, const json_t *config, struct error *error);

#endif
