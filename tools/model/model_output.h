/* SPDX-License-Identifier: MIT */
/* A model being written: the files of the model that it is made from, or one file; an index if that model has one; a
   config.json. All of it appears at once, and a run that was stopped can be continued (partial.h). */
#ifndef TOOLS_MODEL_MODEL_OUTPUT_H
#define TOOLS_MODEL_MODEL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/file.h"
#include "io/partial.h"
#include "model/model.h"
#include "model/fingerprint.h"
#include "model/model_index.h"

/* A copy of the model's config.json, or of the one beside the file if the user named a file; *config is NULL if
   there is none. The caller releases it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int model_config_copy(const struct model *model, json_t **config, struct error *error);

/* Writes a JSON file of a model's directory over what stands there. EXIT_IO, EXIT_MEMORY. */
int model_member_write(const char *directory, const char *name, const json_t *json, struct error *error);

/* Writes config.json, and what the layout that it names wants beside it, over what stands there. EXIT_IO,
   EXIT_MEMORY. */
int model_config_write(const char *directory, const json_t *config, struct error *error);

/* Has config.json, which may be NULL, say float32 where its dtype is neither that nor the format, f32, bf16 or f16, of numbers
   that are to be loaded as they are: loaders round all numbers to what it says; or, if `all` numbers are of the format, say that.
   json_out_of_memory() tells. */
void model_config_widen(json_t *config, enum mxfp_format format, bool all);

struct model_output {
	struct partial partial;
	bool begun;          /* partial_end() is to follow */
	bool indexed;        /* files have the names of the source's */
	const struct model *source;
	struct model_index_text index; /* never begun if there will be no index */
	uint64_t data_bytes; /* of all files added */
};

/* Refuses an output that is a model's directory or one of its files, index and config included. EXIT_USAGE. */
int model_output_check_apart(const struct model *source, const char *path, struct error *error);

/* Refuses an output `path` that nothing would load: a GGUF file made from a model in another format, which lacks the keys that
   readers require, and a directory made from a GGUF file, whose tensors have the names of llama.cpp. EXIT_USAGE. */
int model_output_check_source(const struct model *source, const char *path, struct error *error);

/* To say of a quantized model that is one file, which its layout would describe in a config.json. */
extern const char model_output_alone[];

/* Starts a directory or one file, or continues one. `fingerprint` says what besides the source, which is added, decides
   the bytes. Refuses to replace the source (EXIT_USAGE); else as partial.h says. model_output_end() follows in every
   case, and after model_output_help() too. */
int model_output_begin(struct model_output *output, const struct model *source, const struct partial_target *target,
                       json_t *fingerprint, struct error *error);

/* Sets only the names, in a process that helps the one that begins, commits and ends. EXIT_USAGE, EXIT_MEMORY. */
int model_output_help(struct model_output *output, const struct model *source, const struct partial_target *target,
                      struct error *error);

/* XXH3-128, as digits, of what decides the output on any machine: `choices` and the source. EXIT_IO, EXIT_INPUT,
   EXIT_MEMORY. */
int model_output_fingerprint(char text[FINGERPRINT_TEXT], const struct model *source, const json_t *choices,
                             struct error *error);

/* Takes note of a file that another process writes: its tensors, and their bytes. EXIT_MEMORY. */
int model_output_note(struct model_output *output, const struct file *source, const struct tensor *tensors, size_t n,
                      struct error *error);

/* Leaves the index to another process; names of files stay those of an index. EXIT_IO, EXIT_MEMORY. */
int model_output_drop_index(struct model_output *output, struct error *error);

/* The name of the file made from `source`. */
const char *model_output_name(const struct model_output *output, const struct file *source);

/* Takes note of a file that is complete. EXIT_MEMORY. */
int model_output_add(struct model_output *output, const struct file *source, const struct writer *writer,
                     struct error *error);

/* Writes index and config (NULL: none), for a caller that has more to write then. */
int model_output_complete(struct model_output *output, const json_t *config, struct error *error);

/* The same, unless it was done, and lets the output appear. Nothing but this is left to do if partial.appeared. */
int model_output_commit(struct model_output *output, const json_t *config, struct error *error);

/* Removes what was not committed, unless `code` says that it can be continued. Returns `code`. Always called last; the
   struct may be zeroed. */
int model_output_end(struct model_output *output, int code, struct error *error);

#endif
