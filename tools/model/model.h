/* SPDX-License-Identifier: MIT */
/*
 * A model: one tensor file, or a directory with model.safetensors.index.json and its shards, or with
 * model.safetensors, and the directory's config.json if there is one. An index may be named instead of its
 * directory. Everything in a directory must be a regular file inside it, or one of a Hugging Face cache (io/member.h):
 * absolute names, "..", separators and other symbolic links out of it are refused.
 */
#ifndef TOOLS_MODEL_MODEL_H
#define TOOLS_MODEL_MODEL_H

#include "io/directory.h"
#include "io/file.h"
#include "io/json.h"
#include "model/role.h"

/* Names of the files in a model directory. */
#define MODEL_SINGLE "model.safetensors"
#define MODEL_INDEX_SUFFIX ".safetensors.index.json"
#define MODEL_INDEX "model" MODEL_INDEX_SUFFIX

/* A tensor and the file it is in. */
struct model_tensor {
	const struct tensor *tensor;
	const struct file *file;
};

/* Where a name is in by_name, by its hash: most names that are asked for are of no tensor, and that is told without a look at one. */
struct model_slot {
	uint32_t hash, number; /* number + 1; 0: free */
};

struct model {
	char *path;          /* as given */
	char *directory;     /* where the files lie */
	bool is_directory;   /* the user named a directory, or an index in it */
	bool has_index;
	size_t n_files;
	struct file *files;  /* shards, sorted by name */
	size_t n_tensors;
	size_t n_superseded;      /* tensors of files that the index takes from others */
	const char *superseded;   /* the name of the first */
	struct model_tensor *by_name; /* those of all files, in the order of strcmp() */
	struct model_slot *slots; /* of model_find(), 2^n */
	size_t n_slots;
	uint64_t grid[2];    /* weight_block_size: rows and columns that share a scale; 0: config.json says none, or several */
	json_t *config;      /* config.json, an object; NULL if there is none or the user named a file */
	struct role_model role_model; /* of config.json, also of one beside a file that the user named */
	char *quantized_by;  /* see model_quantized_by() */
	uint32_t formats;    /* of quantized tensors that its configuration states, as bits 1 << format; 0: none (meaning.h) */
	bool tells_faults;   /* its reader, inspect or lint, says what is wrong with scales instead of being refused */
	uint64_t header_bytes, data_bytes; /* sums over the files */
	size_t n_decoded;    /* tensors that model_decode() and model_decode_scaled() made numbers of */
	char *decoded_from;  /* what quantized_by was before model_decode(); NULL: it was not called, or did nothing */
	struct arena arena;  /* tensors that model_split_experts() and others made */
	bool split_rows, split_columns; /* it made them of tensors [experts, out, in]; [experts, in, out] */
};

/* Opens every file and checks the index against them: each mapped tensor is in its shard, and no shard holds a tensor that
   the map does not name. A copy in another shard than the map sends it to is superseded: it is no tensor of the model.
   EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int model_open(struct model *model, const char *path, struct error *error);

/* The same for callers that look at by_columns of each tensor; model_open() refuses such tensors. */
int model_open_any_order(struct model *model, const char *path, struct error *error);

/* Which tensors the user wants to stay as they are. */
struct model_keeps {
	bool (*whole)(const void *context, const char *name);
	const void *context;
};

/* Replaces each tensor that is ROLE_SEQUENTIAL by one for each expert and projection, [out, in], by columns if the role
   is turned, which are parts of its data: the numbers of tensors, and by_name, are other ones then. keeps: NULL, none
   stays. EXIT_INPUT, EXIT_MEMORY. */
int model_split_experts(struct model *model, const struct model_keeps *keeps, struct error *error);

/* The same if `like`, which was made from it, has experts so. */
int model_split_like(struct model *model, const struct model *like, struct error *error);

/* Tensors of a model; free(items). EXIT_MEMORY. */
struct tensor_list {
	size_t n;
	const struct tensor **items;
};
int tensor_list_add(struct tensor_list *list, const struct tensor *tensor, struct error *error);

/* Takes the listed tensors out of the model and, unless there are none, sorts those that remain, whose names the caller may
   have changed, anew. EXIT_INPUT, EXIT_MEMORY. */
int model_remove(struct model *model, struct tensor_list *list, struct error *error);

void model_close(struct model *model);

/* The tensor of that name and the file it is in, or NULL. */
const struct tensor *model_find(const struct model *model, const char *name, const struct file **file);

/* Reads a JSON file of the model's directory, or beside the file that the user named, where it may be of another model and
   is left alone if it is damaged. *path and *json are the caller's; *json is NULL if there is none. EXIT_INPUT, EXIT_IO,
   EXIT_MEMORY. */
int model_read_member(const struct model *model, const char *name, char **path, json_t **json, struct error *error);

/* The name of a file without its directory. */
const char *model_file_name(const struct file *file);

/* What already quantized the model, as one phrase ("compressed-tensors, mxfp4-pack-quantized"), or NULL:
   quantization_config in config.json, or tensors in blocks of ggml or with the names that quantized layouts use
   (*.weight_packed, *_blocks and *_scales, *.weight_scale beside a *.weight of at most 8 bits). The text belongs to
   the model. */
const char *model_quantized_by(const struct model *model);

#endif
