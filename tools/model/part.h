/* SPDX-License-Identifier: MIT */
/* A part of a quantized model, made by one of several machines: a directory with files of the model, and a file that
   says which part of which model it is. */
#ifndef TOOLS_MODEL_PART_H
#define TOOLS_MODEL_PART_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "mxfp/options.h"

enum { PARTS_MAX = 1 << 16 };

struct part_choice {
	uint32_t number, of; /* 1 of 4; of = 0: no parts */
};

/* Reads "1/4". EXIT_USAGE. */
int part_parse(const char *text, const char *where, struct part_choice *choice, struct error *error);

/* Shares n files of so many bytes among owners: the largest first, each to the owner with the fewest bytes so far.
   EXIT_MEMORY. */
int part_share(size_t *owners, const uint64_t *bytes, size_t n, size_t n_owners, struct error *error);

struct part {
	const char *directory;
	struct part_choice choice;
	const char *fingerprint; /* of the whole: equal in parts that belong together */
	struct mxfp_counts counts;
	bool converted;          /* blocks were changed, of which so many exactly; else counts say what happened */
	uint64_t exact, rounded;
	const json_t *files;     /* {name: bytes} */
	json_t *json;            /* what holds the two */
};

/* Reads what a directory says of itself: names of files are plain, and each is there, a regular file of that size.
   EXIT_INPUT, EXIT_IO, EXIT_MEMORY; part_free() follows in every case. */
int part_read(struct part *part, const char *directory, struct error *error);

void part_free(struct part *part);

/* Writes that file into a directory, all of whose files it lists; choice, fingerprint and counts are set.
   EXIT_IO, EXIT_MEMORY. */
int part_write(const struct part *part, struct error *error);

#endif
