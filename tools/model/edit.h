/* SPDX-License-Identifier: MIT */
/* Writes a model of which some tensors have other numbers: the source's files, with everything else copied. All of it appears
   at once; of a run that fails, nothing is left, unless it can be continued. */
#ifndef TOOLS_MODEL_EDIT_H
#define TOOLS_MODEL_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "io/file.h"
#include "io/json.h"
#include "io/transfer.h"
#include "model/carry.h"
#include "model/model.h"
#include "model/model_output.h"

struct edit {
	const char *command, *done; /* "calibrate", "calibrated" */
	const char *out;
	bool force, resume, quiet;  /* resume: as of struct partial_target */
	bool transient;            /* as of struct partial */
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

/* The same in three steps, for a command that computes long between the first two and can go on with that later. */
struct editing {
	struct edit *edit;
	const char *carried;
	json_t *config;
	struct model_output output;
	struct transfer transfer;
};

/* Begins the output, or continues it; `fingerprint`, an object of strings, says what besides the source decides its bytes. As
   model_output_begin(); EXIT_INPUT. edit_end() follows in every case. */
int edit_begin(struct editing *editing, struct edit *edit, json_t *fingerprint, struct error *error);

/* Names the output in a process that helps the one that begins and finishes it. EXIT_USAGE, EXIT_MEMORY. edit_end() follows in
   every case. */
int edit_help(struct editing *editing, struct edit *edit, struct error *error);

/* Writes it and lets it appear. */
int edit_finish(struct editing *editing, struct error *error);

/* Removes what did not appear, unless the code says that it can be continued. Returns the code. */
int edit_end(struct editing *editing, int code, struct error *error);

#endif
