/* SPDX-License-Identifier: MIT */
/*
 * The work of `mxfp convert`: writes a quantized model in another layout, in another format, or both.
 *
 * A tensor that keeps its format is moved: codes and block scales stay as they are, and the only number that may change is
 * a tensor scale that divides in one layout and multiplies in the other. One that gets another format is changed block by block
 * (block_change.h): a block whose numbers the format holds is exact, and any other is rounded by a rule, if that is allowed,
 * and counted. A tensor scale that the new format has is a power of two, the one with which most blocks are exact; tensors
 * that loaders fuse get one.
 */
#ifndef TOOLS_REWRITE_CONVERT_H
#define TOOLS_REWRITE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/option_kind.h"
#include "io/partial.h"
#include "model/carry.h"
#include "model/layout.h"
#include "model/model.h"
#include "model/part.h"
#include "model/pattern.h"
#include "model/quantized.h"
#include "rewrite/convert_blocks.h"

#define CONVERT_INVERSE "mxfp.inverse." /* metadata key: what a tensor scale is the rounded reciprocal of */

struct convert_settings {
	const char *in, *out;
	const struct layout *layout;
	enum mxfp_format to; /* of what is quantized; OPTION_FORMAT_NONE: stays as it is */
	struct string_list ignore; /* patterns on names of tensors as they were before they were quantized: these keep their format */
	int rule, non_finite; /* of blocks that it does not hold */
	enum mxfp_format decode; /* for what the layout cannot hold: f32, bf16 or f16; OPTION_FORMAT_NONE: refuse it */
	struct part_choice part;
	unsigned threads;
	uint64_t memory_bytes; /* the most to use; 0: 64 MiB, or what the model needs */
	bool delete_sources; /* each shard of the source once the output has what is made of it */
	bool allow_rounding, dry_run, force, json, resume, quiet;
};

/* What becomes of a tensor scale. */
enum convert_how {
	CONVERT_ABSENT,
	CONVERT_SAME,
	CONVERT_INVERSE_EXACT,
	CONVERT_INVERSE_NOTED, /* becomes the number that, by the metadata, it was the reciprocal of */
	CONVERT_INVERSE_ROUNDED,
	CONVERT_LEFT_OUT,      /* the layout or the format has no place for it */
	CONVERT_MADE           /* for the new format, from all blocks */
};

struct convert_scale {
	enum convert_how how;
	float was, is;
	double change; /* relative, of the numbers that it scales */
};

/* Tensors that have one tensor scale, which is made when the first of them is written. */
struct convert_group {
	bool is_made;
	struct block_factor factor;
};

/* What becomes of a tensor of the source. */
enum convert_what {
	CONVERT_COPIED,
	CONVERT_MOVED,   /* codes, moved together with their other parts */
	CONVERT_CHANGED, /* the same, in another format */
	CONVERT_DECODED, /* codes with their parts, or a tensor of Q8_0, written as plain numbers */
	CONVERT_PART     /* another part, which goes with its codes */
};

struct convert_entry {
	enum convert_what what;
	const struct tensor *source;
	const struct file *file;             /* it is in */
	bool ignored;                        /* it keeps its format */
	bool elsewhere;                      /* it belongs to another part of the output */
	const char *name;                    /* of the tensor that was quantized */
	struct quantized quantized;          /* unless copied */
	struct layout_choice choice;         /* moved or changed: how the output holds it */
	struct convert_scale scales[N_LAYOUT_PARTS]; /* of the tensor and its activations */
	struct tensor parts[N_LAYOUT_PARTS]; /* of the output: only the first unless moved or changed; no name: no such part */
	struct convert_group *group;         /* changed, to a format with a tensor scale; else NULL */
	const struct convert_entry *fused;   /* the next of the ring of its group; NULL: it is alone */
	struct convert_tally *tally;         /* changed: what became of its blocks */
};

/* Every tensor of a model: files in the model's order, tensors in that of their data. */
struct convert_plan {
	const struct convert_settings *settings;
	const struct model *model;
	size_t n_entries;
	size_t n_held; /* tensors that are quantized in the output */
	struct convert_entry *entries;
	json_t *cache;   /* how keys and values are quantized, if the layout can say it (layout_cache_read()) */
	bool cache_lost; /* it cannot */
	bool activations_lost; /* the source says how activations are quantized, and the output does not */
	size_t *owners;  /* of the model's files, from 0: which part has what is made from each */
	struct patterns ignored; /* settings->ignore */
	struct carry carry;
	const char *carried; /* its names, for metadata, if no quantization_config is there to list them; or NULL */
	struct arena arena; /* names and shapes */
};

/* Decides; reads no data but tensor scales. EXIT_INPUT, EXIT_IO, EXIT_MEMORY; convert_plan_free() follows in every
   case. */
int convert_plan(struct convert_plan *plan, const struct convert_settings *settings, const struct model *model,
                  struct error *error);

void convert_plan_free(struct convert_plan *plan);

/*
 * With settings->delete_sources a shard goes when every tensor that is made from it is on the disk, with the journal that says so.
 * OUT.partial keeps what of it opening and planning read, so that a later run finds the same model, and makes the same plan.
 */
struct convert_sources {
	char *directory, *kept;
};

/* Before the model is opened: has shards read that an earlier run deleted, if this one resumes it. *complete: that run had
   ended but for cleaning up, which is done now. EXIT_USAGE, EXIT_IO, EXIT_MEMORY; convert_sources_end() follows in every case, after
   the model was closed. */
int convert_sources_begin(struct convert_sources *sources, const struct convert_settings *settings, bool *complete, struct error *error);
void convert_sources_end(struct convert_sources *sources);

/* Refuses what cannot be deleted so. EXIT_USAGE, EXIT_IO. */
int convert_check_delete(const struct convert_plan *plan, struct error *error);

/* malloc'ed, for each file of the source: the last of the output that is made from it. NULL without memory. */
size_t *convert_last_uses(const struct convert_plan *plan);

/* After file `f` of the output is on the disk: deletes those of the source that no later one needs, unless a later one stands for what
   an earlier run deleted. EXIT_IO, EXIT_INPUT, EXIT_MEMORY, EXIT_USAGE. */
int convert_delete(const struct convert_plan *plan, const struct partial *partial, const size_t *last, size_t f, struct error *error);

/* A file that making an entry reads, and that an earlier run deleted: its name, or NULL. */
const char *convert_lacks(const struct convert_plan *plan, const struct convert_entry *entry);

/* A partial_same of a plan: by hashes from before the first deletion. */
int convert_source_is_same(const void *context, const struct partial *partial, const char *key, bool *known, bool *same, struct error *error);

/* Whether the output is one file, beside which nothing is written. */
bool convert_makes_file(const struct convert_settings *settings);

/* Whether the output holds the tensor by entry->choice. */
static inline bool convert_is_held_anew(const struct convert_entry *entry)
{
	return entry->what == CONVERT_MOVED || entry->what == CONVERT_CHANGED;
}

/* How many blocks a changed tensor has, as they are counted. */
uint64_t convert_blocks_of(const struct convert_entry *entry);

/* Makes config.json of the output; *config is NULL if it has none. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int convert_config(const struct convert_plan *plan, json_t **config, struct error *error);

/* Finds which changed entries have one tensor scale. EXIT_MEMORY. */
int convert_fuse(struct convert_plan *plan, struct error *error);

/* Writes the output, or resumes writing it. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int convert_run(const struct convert_plan *plan, struct error *error);

/* What --quiet does not hide: what was rounded and what was left out, as lines on standard error. */
void convert_losses(const struct convert_plan *plan);

/* Prints what becomes of each tensor, and what became of blocks unless it was a dry run: as text, or as JSON if the settings
   say so. */
int convert_summary(const struct convert_plan *plan, struct error *error);

#endif
