/* SPDX-License-Identifier: MIT */
/* What is changed in a model that mxfp lint --fix fixes: tensors, config.json and hf_quant_config.json. Decided finding by finding,
   written in the end by lint_fix.h. */
#ifndef TOOLS_ANALYSE_LINT_MEND_H
#define TOOLS_ANALYSE_LINT_MEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/lint.h"
#include "base/arena.h"

enum mend_numbers { MEND_NO_NUMBERS, MEND_VALUES, MEND_BYTES };

/* A tensor that is written otherwise. */
struct mend {
	const struct file *file;       /* in whose place it is written */
	const struct tensor *source;   /* NULL: it is added */
	struct tensor target;          /* name, dtype, shape */
	const unsigned char *value;    /* all of its bytes; NULL: made of the source's by the members below */
	const uint8_t *map;            /* scales: what each byte becomes; NULL: they stay */
	size_t order;                  /* codes: their order now, a number in column_order.h plus 1; 0: they stay */
	enum mend_numbers numbers;     /* scales: numbers, or numbers of bytes, that become bytes */
	enum mxfp_format scale;        /* format of the scales */
};

struct mending {
	const struct model *model;
	struct arena arena;
	size_t n, capacity;
	struct mend *mends;
	json_t *config, *second;       /* changed copies; NULL: the file stays as it is */
	bool no_second;                /* hf_quant_config.json is left out */
	bool index;                    /* the index, or which tensors a file has, changes */
};

void mending_free(struct mending *mending);

/* The mend of a tensor of the model, a new one that changes nothing if there is none. EXIT_MEMORY. */
int mending_of(struct mend **mend, struct mending *mending, const struct file *file, const struct tensor *source,
               struct error *error);

/* A tensor that the model lacks, like another, with that one's bytes, which are read. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int mending_add(struct mending *mending, const struct file *file, const char *name, const struct model_tensor *like,
                struct error *error);

/* Whether a tensor of that name is added. */
bool mending_adds(const struct mending *mending, const char *name);

/* Gives a mend all of a tensor's bytes. EXIT_MEMORY. */
int mending_set(struct mending *mending, struct mend *mend, const void *bytes, size_t n, struct error *error);

/* The first mend that is about a tensor, or NULL. */
const struct mend *mending_find(const struct mending *mending, const struct tensor *source);

/* Bytes in which codes and scales repeat: scales first, then the codes of `cols` columns, each block of `length` in halves (0:
   in pairs). */
struct mend_unit {
	size_t bytes, n_scales, cols, length;
};

/* That of a mend that has no value and no numbers. */
struct mend_unit mend_unit_of(const struct mend *mend);

/* All codes of a scale's format as numbers; the code of a number of it that is not negative, or -1. */
enum { MEND_CODES = 256 };
void mend_decode_codes(enum mxfp_format format, double numbers[MEND_CODES]);
int mend_code_of(const double numbers[MEND_CODES], double x);

/* Decides about one finding: sets the fate, and changes what it says. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
typedef int mend_decider(struct mending *mending, const struct lint *lint, const struct lint_place *place,
                         struct lint_fate *fate, struct error *error);
mend_decider mend_config, mend_skipped, mend_unlisted, mend_parts, mend_fused_scale, mend_input_scale, mend_scale_value,
	mend_nibble_order, mend_index, mend_unknown;

/* Has a finding of lint_scaled.c say whether its scales are those of blocks, stored as numbers. */
mend_decider mend_scales_as_bytes;

/* Set a fate. */
void mend_done(struct lint_fate *fate, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mend_left(struct lint_fate *fate, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
