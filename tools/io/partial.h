/* SPDX-License-Identifier: MIT */
/*
 * An output that a later run can continue. It is built in the directory OUT.partial beside OUT, which holds
 *
 *   output            what becomes OUT, a directory or a file, by one renaming at the end
 *   fingerprint.json  what decides every byte of it: a run continues only what has its own
 *   NAME.journal      which tensors of file NAME are on the disk (journal.h)
 *   appearing         which directory or file is about to become OUT, so that a run that was stopped then is not
 *                     mistaken for one that was stopped before
 *   lock              held by the run at work
 *
 * The fingerprint is written first and removed first, so that a directory without one has nothing worth keeping.
 */
#ifndef TOOLS_IO_PARTIAL_H
#define TOOLS_IO_PARTIAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "io/output.h"

struct partial_target {
	const char *path;
	bool as_file, force, resume;
};

struct partial {
	struct output output; /* its temporary name is OUT.partial/output */
	char *directory;      /* OUT.partial */
	int at, lock;         /* descriptors of it and of its lock, or -1 */
	bool appeared;        /* another run was stopped after OUT had appeared: only partial_commit() is left to do */
};

/* Takes the names alone: for processes that help the one that begins, commits and ends. Holds signals (interrupt.h)
   until partial_release(), which follows in every case. EXIT_USAGE, EXIT_MEMORY. */
int partial_name(struct partial *partial, const struct partial_target *target, struct error *error);

/*
 * Begins an output after partial_name(), or continues one if the target says `resume` and there is one. OUT.partial of
 * another run is refused without `resume` or `force`, which starts over; so is one with another fingerprint (an object
 * of strings) and one that is not ours. OUT itself as output.h says. EXIT_USAGE, EXIT_IO, EXIT_MEMORY; what was there
 * is left then.
 */
int partial_begin(struct partial *partial, const struct partial_target *target, const json_t *fingerprint,
                  struct error *error);

/* malloc'ed path under which file `name` of the output is to be written: OUT.partial/output if the output is that file.
   NULL without memory. */
char *partial_file(const struct partial *partial, const char *name);

/* malloc'ed path of its journal. */
char *partial_journal(const struct partial *partial, const char *name);

/* Lets OUT appear and removes OUT.partial. EXIT_USAGE, EXIT_IO, signals. */
int partial_commit(struct partial *partial, struct error *error);

/* After partial_begin(), whatever came of it later: `code` decides whether OUT.partial stays. It does after failures
   that may go away and signals, and the error's text says so then; else nothing is left. Returns `code`. */
int partial_end(struct partial *partial, int code, struct error *error);

/* Releases what partial_name() took. Always called last. */
void partial_release(struct partial *partial);

#endif
