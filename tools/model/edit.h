/* SPDX-License-Identifier: MIT */
/* Writes a model of which some tensors have other numbers: the source's files, with everything else copied. All of it appears
   at once, and nothing is left of a run that fails. */
#ifndef TOOLS_MODEL_EDIT_H
#define TOOLS_MODEL_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "io/file.h"
#include "io/json.h"
#include "model/carry.h"
#include "model/model.h"

struct edit {
	const char *command, *done; /* "calibrate", "calibrated" */
	const char *out;
	bool force, quiet;
	unsigned threads;
	const struct model *model;
	const void *context;
	/* The dtype that a tensor of the source is written in; N_DTYPES: it is copied. */
	enum dtype (*dtype)(const void *context, const struct tensor *source);
	/* Writes all data of such a tensor, or of `added`. */
	int (*write)(const void *context, struct writer *writer, const struct tensor *target, struct error *error);
	const struct tensor *added;    /* a tensor that the source lacks, NULL: none; */
	const struct file *added_to;   /* written where this file's are */
	/* Changes config.json; NULL: it stays. EXIT_MEMORY. */
	int (*configure)(const void *context, json_t *config, struct error *error);
	struct carry *carry;           /* starts zeroed; carry_free() follows in every case */
	size_t n_kept;                 /* tensors that were copied */
};

/* Refuses an output that could not be written in the end. EXIT_USAGE, EXIT_IO, EXIT_MEMORY. */
int edit_check(const struct edit *edit, struct error *error);

/* Writes the output. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int edit_write(struct edit *edit, struct error *error);

#endif
