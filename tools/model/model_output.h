/* SPDX-License-Identifier: MIT */
/* A model being written: the files of the model that it is made from, or one file; an index if that model has one; a
   config.json. All of it appears at once (output.h). */
#ifndef TOOLS_MODEL_MODEL_OUTPUT_H
#define TOOLS_MODEL_MODEL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/file.h"
#include "io/output.h"
#include "model/model.h"
#include "model/model_index.h"

/* A copy of the model's config.json, or of the one beside the file if the user named a file; *config is NULL if
   there is none. The caller releases it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int model_config_copy(const struct model *model, json_t **config, struct error *error);

/* Writes config.json, and what the layout that it names wants beside it, over what stands there. EXIT_IO,
   EXIT_MEMORY. */
int model_config_write(const char *directory, const json_t *config, struct error *error);

struct model_output {
	struct output output;
	const struct model *source;
	struct model_index_text index; /* never begun if there will be no index */
	uint64_t data_bytes; /* of all files added */
};

/* Refuses an output that is a model's directory or one of its files, index and config included. EXIT_USAGE. */
int model_output_check_apart(const struct model *source, const char *path, struct error *error);

/* Refuses a GGUF file as the output `path` of a model that is none: tensors alone, without the names and key-values
   that its readers want, would make a file that none of them loads. EXIT_USAGE. */
int model_output_check_gguf(const struct model *source, const char *path, struct error *error);

/* Starts a directory, or one file if `as_file`. Refuses to replace the source (EXIT_USAGE); else as output.h says. */
int model_output_begin(struct model_output *output, const struct model *source, const char *path, bool as_file,
                       bool force, struct error *error);

/* malloc'ed path under which the file made from `source` is to be written, or NULL without memory. */
char *model_output_path(struct model_output *output, const struct file *source);

/* Takes note of a file that is complete. EXIT_MEMORY. */
int model_output_add(struct model_output *output, const struct file *source, const struct writer *writer,
                     struct error *error);

/* Writes index and config (NULL: none), and lets the output appear. */
int model_output_commit(struct model_output *output, const json_t *config, struct error *error);

/* Removes what was not committed. Always called last; the struct may be zeroed. */
void model_output_abandon(struct model_output *output);

#endif
