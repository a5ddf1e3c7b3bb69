/* SPDX-License-Identifier: MIT */
/*
 * How a quantized model was made out of its source: every way that the library has of quantizing is tried on pieces
 * of every tensor, and its codes and scales are compared with those of the file.
 *
 * Tensors that one way can have made are put together in a group, whose ways are those that made all of them. The
 * tensors of a format that no way makes exactly are one more group.
 */
#ifndef TOOLS_ANALYSE_DETECT_H
#define TOOLS_ANALYSE_DETECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/progress.h"
#include "model/model.h"
#include "model/quantized.h"
#include "mxfp/format.h"
#include "mxfp/options.h"

/* A way of quantizing. */
struct detect_way {
	enum mxfp_rule rule;     /* MX formats */
	enum mxfp_recipe recipe; /* NVFP4 */
	enum mxfp_round round;
	enum mxfp_format via;    /* what each element is rounded to first, to nearest even; f32: to nothing */
	bool no_negative_zero;
};

/* Of a way: what was compared, and what of it was equal. */
struct detect_score {
	uint64_t scales, equal_scales, elements, equal_codes;
};

enum { DETECT_WAYS_MAX = 512, DETECT_SQUARE = 32 }; /* rows that share scales, if the metadata say so */

/* Every way of a format, the plainest first. */
struct detect_ways {
	enum mxfp_format format;
	size_t n;
	struct detect_way items[DETECT_WAYS_MAX];
};

void detect_list_ways(struct detect_ways *ways, enum mxfp_format format);

/* A tensor in both models. */
struct detect_tensor {
	struct quantized quantized;
	const char *name;             /* in the quantized model */
	const struct file *file;      /* of the source */
	const struct tensor *source;
	uint64_t head_rows;           /* rows of a head, if one of the two has them in another order; 0: none has */
	bool from_gguf;               /* the quantized one is that of GGUF (gguf_name.h) */
	float amax;                   /* of the source, where the format has a tensor scale */
};

struct detect_settings {
	const char *quantized, *source;
	bool all, json, quiet;
	uint64_t seed; /* of stochastic rounding */
};

/* The file's tensor scale, seen by a way: as the tensor's own largest magnitude gives it, as another one does (tensors
   that a loader fuses share theirs), or as no magnitude does. */
enum detect_scale { DETECT_SCALE_OWN, DETECT_SCALE_OTHER, DETECT_SCALE_NONE };

/* The largest magnitude from which a way makes the file's tensor scale, if there is one; `amax` is the tensor's own. */
float detect_amax(const struct detect_ways *ways, const struct detect_way *way, float amax,
                  const struct mxfp_blocks *file, enum detect_scale *found);

/* Options for a piece, but for the tensor's largest magnitude. */
struct mxfp_quantize_options detect_options(const struct detect_way *way, const struct detect_tensor *tensor,
                                            const struct piece *piece, const struct detect_settings *settings);

/* What pieces say of the ways: of those that are alive to the end, of others up to where they were dropped. */
struct detect_result {
	bool alive[DETECT_WAYS_MAX];
	enum detect_scale tensor_scale[DETECT_WAYS_MAX];
	struct detect_score scores[DETECT_WAYS_MAX];
};

/* Compares pieces of a tensor with what the living ways make of its source. Ways that differ are dropped, unless all
   do: then the nearest stay. EXIT_MEMORY, EXIT_IO, EXIT_INPUT. */
int detect_compare(struct detect_result *result, const struct detect_ways *ways, const struct detect_tensor *tensor,
                   const struct detect_settings *settings, struct error *error);

/* Whether everything that was compared is equal. */
bool detect_is_exact(const struct detect_result *result, size_t way);

/* The more, the nearer: 2 if all scales and codes are equal. */
double detect_nearness(const struct detect_score *score);

struct detect_group {
	const struct detect_ways *ways;
	bool exact;                    /* the living ways made every tensor */
	size_t n_tensors;
	size_t n_own_scale;            /* tensors whose tensor scale follows from their own largest magnitude */
	size_t n_squares;              /* tensors with squares of 32 x 32 by the metadata */
	const char *first;             /* name of its first tensor, of the source model */
	struct detect_result result;
};

struct detection {
	struct detect_ways *ways[FORMATS_MAX];  /* of the formats that were met */
	size_t n_groups;
	struct detect_group *groups;
	size_t n_unmatched;            /* tensors whose source has another shape */
	const char *unmatched;         /* the first of them */
	struct progress progress;
};

/* Fills a zeroed detection. EXIT_INPUT, also if no tensor is in both; EXIT_IO, EXIT_MEMORY. */
int detect(struct detection *detection, const struct model *quantized, const struct model *source,
           const struct detect_settings *settings, struct error *error);

/* Whether every group is exact. */
bool detect_all_exact(const struct detection *detection);

/* Prints to stdout. EXIT_MEMORY. */
int detect_print_text(const struct detection *detection, struct error *error);
int detect_print_json(const struct detection *detection, const struct detect_settings *settings, struct error *error);

void detection_free(struct detection *detection);

#endif
