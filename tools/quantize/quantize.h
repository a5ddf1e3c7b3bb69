/* SPDX-License-Identifier: MIT */
/* The work of `mxfp quantize` in three steps: plan what becomes of every tensor, write it, print a summary. */
#ifndef TOOLS_QUANTIZE_QUANTIZE_H
#define TOOLS_QUANTIZE_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/option_kind.h"
#include "base/sparsity.h"
#include "io/partial.h"
#include "io/transfer.h"
#include "model/carry.h"
#include "model/layout.h"
#include "model/model.h"
#include "model/part.h"
#include "model/select.h"
#include "mxfp/options.h"
#include "quantize/choice.h"
#include "quantize/recipe.h"

/* The command line. */
struct quantize_settings {
	const char *in, *out;
	const struct layout *layout;
	struct quantize_choice choice; /* of tensors that no rule of the recipe matches; the layout has a form for it */
	const struct recipe *recipe;  /* NULL: none */
	double bits;                  /* of a weight on average, up to which layers are promoted; 0: none are */
	enum mxfp_format activations; /* OPTION_FORMAT_NONE: none */
	const char *activations_lost; /* those of the preset that the layout cannot express; NULL: none are */
	int activation_rule, round, non_finite;
	uint64_t seed;
	unsigned threads;
	uint64_t memory_bytes; /* the most to use; 0: no limit */
	struct part_choice part;
	uint64_t machines, rate_disk, rate_net; /* of a plan for several machines; bytes a second, 0: not given */
	uint64_t shard_bytes; /* of tensors in a file of the output; 0: the source's files */
	struct select select;
	bool pad_tail, fuse, dry_run, force, resume, json, quiet;
};

/* What becomes of one tensor. */
struct quantize_entry {
	const struct tensor *source; /* its rows, along which there are blocks */
	const struct tensor *stored; /* the same as the file has it: another tensor if it is turned */
	const struct file *file; /* it is in */
	bool elsewhere;          /* it belongs to another part of the output */
	bool quantized;
	bool unheld;             /* it is not, because the layout cannot hold rows of that length */
	const char *reason;      /* for either, as a phrase */
	struct quantize_choice choice; /* if quantized */
	uint64_t rows, cols;
	const struct quantize_entry *fused; /* the next of a ring that has one tensor scale; NULL: it has its own */
	bool padded;             /* cols is not a multiple of what the layout wants, and padded rows are written */
	unsigned n_parts;
	const struct tensor *parts; /* of the output, by enum layout_part up to the last: the first alone if kept; without
	                               a name if there is none */
	uint64_t output_bytes;
	struct mxfp_counts counts;
};

/* A file of the output, made from consecutive entries. */
struct quantize_file {
	const char *name;
	const struct file *source;          /* the first that it is made from */
	size_t first, n;                    /* entries */
	size_t owner;                       /* of those who share the work, from 0: who writes it */
	uint64_t input_bytes, output_bytes; /* of tensors */
};

/* Every tensor of a model: files in the model's order, tensors in that of their data. */
struct quantize_plan {
	const struct quantize_settings *settings;
	const struct model *model;
	size_t n_entries, n_quantized;
	struct quantize_entry *entries;
	size_t n_files;
	struct quantize_file *files;
	bool has_index;
	struct carry carry;                 /* other files of the model's directory */
	uint64_t output_bytes;              /* of tensors */
	bool in_bands;                      /* memory suffices for bands of rows (layout_bands.h) */
	char seed[24], sparsity[SPARSITY_TEXT]; /* of the settings, as text */
	struct arena arena;                 /* names, shapes, metadata */
};

/* Sets which entries share a tensor scale. EXIT_MEMORY. */
int quantize_fuse(struct quantize_plan *plan, struct error *error);

/* Whether the output is one file, not a directory. */
bool quantize_makes_file(const struct quantize_settings *settings);

/* Makes the plan; reads no data unless layers may be promoted. EXIT_INPUT, EXIT_USAGE, EXIT_MEMORY, EXIT_IO. */
int quantize_plan(struct quantize_plan *plan, const struct quantize_settings *settings, const struct model *model,
                  struct error *error);

/* EXIT_INPUT, saying why and what to do, if no tensor of the plan becomes quantized: its output would be a copy. */
int quantize_check_any(const struct quantize_plan *plan, struct error *error);

void quantize_plan_free(struct quantize_plan *plan);

/* What is taken for a part of a tensor of the largest file that is written, records and header: an estimate from above,
   for names of usual length. 258 were measured. */
enum { QUANTIZE_RECORD_BYTES = 384 };

/* EXIT_USAGE if the settings give less memory than the least. */
int quantize_check_memory(const struct quantize_settings *settings, uint64_t least, struct error *error);

/* Parts of quantize_plan(): whether a tensor that is to be quantized can be, with the reason if not; which layers are
   promoted; and the one that cuts the entries into files. */
bool quantize_is_held(const struct quantize_plan *plan, struct quantize_entry *entry);
int quantize_mix(struct quantize_plan *plan, struct error *error);
int quantize_plan_files(struct quantize_plan *plan, struct error *error);

/* Shares the files among `n` owners: the largest first, each to the owner with the fewest bytes so far. EXIT_MEMORY. */
int quantize_share(struct quantize_plan *plan, size_t n, struct error *error);

/* Returns the bytes that quantizing a tensor reads: all of it, twice if its scale depends on all of it. */
uint64_t quantize_bytes_to_read(const struct quantize_entry *entry);

/* The choices that a reader of the output may want to know, as pairs for the metadata of a file and for config.json;
   those of weights are for tensors of which nothing else is said.
   `choices` is an empty array of QUANTIZE_CHOICES_MAX; returns how many there are. */
enum { QUANTIZE_CHOICES_MAX = 12 };
size_t quantize_choices(const struct quantize_plan *plan, struct metadata *choices);

/* config.json of the output: the model's, with quantization_config. EXIT_MEMORY and what model_config_copy() says. */
int quantize_config(const struct quantize_plan *plan, json_t **config, struct error *error);

/* Writes the output, or resumes writing it, and counts what happened to the elements. EXIT_USAGE, EXIT_INPUT,
   EXIT_IO, EXIT_MEMORY, signals. */
int quantize_run(struct quantize_plan *plan, struct error *error);

/* Taken, if there is memory for bands, for tensors by columns: thousands of rows of them are read at once. */
enum { QUANTIZE_AHEAD_BYTES = 1 << 22 };

/* Returns the memory of a worker that takes any piece of the plan's tensors: 32 rows of one in squares, however long. */
struct transfer_room quantize_room(const struct quantize_plan *plan);

/* Parts of quantize_run(). Reads a tensor from transfer->file, hashing it, writes its parts and counts what happened to
   its elements. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int quantize_tensor(struct transfer *transfer, const struct quantize_plan *plan, struct quantize_entry *entry,
                    struct error *error);

/* The same into memory, for programs that run the model: rows from `first_row` on of a tensor that the plan quantizes, as
   many as blocks->rows, with the layout's own changes to codes left out; `amax` is from quantize_amax(), which reads the
   whole tensor if its format has a tensor scale. transfer->writer is not used. EXIT_INPUT, EXIT_IO, signals. */
int quantize_amax(struct transfer *transfer, const struct quantize_plan *plan, const struct quantize_entry *entry,
                  float *amax, struct error *error);
int quantize_rows(struct transfer *transfer, const struct quantize_plan *plan, const struct quantize_entry *entry,
                  uint64_t first_row, float amax, struct mxfp_blocks *blocks, struct error *error);

/* The entry of a tensor of the model, which is in that file. */
const struct quantize_entry *quantize_entry_of(const struct quantize_plan *plan, const struct tensor *tensor,
                                               const struct file *file);

/* Writes a file, or resumes one after its last complete tensor, and fills in the counts of its entries;
   transfer->hash is a state of its own. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int quantize_write(struct transfer *transfer, struct quantize_plan *plan, const struct quantize_file *file,
                   const struct partial *partial, struct error *error);

/* Fills in the counts of a file's entries from its journal, when another process has written it. EXIT_IO, EXIT_INPUT,
   EXIT_MEMORY. */
int quantize_read_counts(struct quantize_plan *plan, const struct quantize_file *file, const struct partial *partial,
                         struct error *error);

/* What --quiet does not hide, as lines on standard error: NaN and Inf, a second rounding, a format that loaders misread. */
void quantize_losses(const struct quantize_plan *plan);

/* Prints the plan, and after quantize_run() what happened, to stdout: as text, or as JSON if the settings say so. */
int quantize_summary(const struct quantize_plan *plan, struct error *error);

/* Prints how long quantizing the model takes on several machines, as text or JSON: what each reads and writes if they
   share the files as --part 1/N to N/N do, at rates that the settings give or that are measured here: reading by some
   of the largest file, quantizing by numbers in memory. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int quantize_machines(struct quantize_plan *plan, struct error *error);

#endif
