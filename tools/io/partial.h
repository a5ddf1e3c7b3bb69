/* SPDX-License-Identifier: MIT */
/*
 * An output that a later run can continue. It is built in the directory OUT.partial beside OUT, which holds
 *
 *   output            the directory or file that is renamed to OUT at the end
 *   fingerprint.json  all that decides the bytes of the output: a run continues only one with its own fingerprint
 *   NAME.journal      which tensors of file NAME are on the disk (journal.h)
 *   NAME.state        what a run keeps for itself until it is done
 *   NAME.kept         what is kept of a file of the source that was deleted once the output had all of it (kept.h)
 *   appearing         which directory or file is about to become OUT, to tell a run that was stopped during the rename
 *                     from one that was stopped before
 *   lock              locked by the running process
 *
 * The fingerprint is written first and removed first, so a directory without one has nothing worth keeping. With a file
 * NAME.kept, `output` is the only copy of what was in NAME: until it has become OUT, nothing removes it, `force` included.
 */
#ifndef TOOLS_IO_PARTIAL_H
#define TOOLS_IO_PARTIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "io/output.h"

/* A choice with which a run writes what it would with any other, or ends: one that continues it may have another. */
struct partial_open_choice {
	const char *key, *value; /* of the fingerprint */
};

/* A key of the fingerprint: an object with when each source was changed last, by the key that the source has itself. One that was changed
   at another time may still be the same. */
#define PARTIAL_TIMES "times of change"

struct partial;

/* Sets *same to whether a source that has this key is what it was when the output was begun; *known: whether that can be told. EXIT_IO, EXIT_MEMORY, ... */
typedef int partial_same(const void *context, const struct partial *partial, const char *key, bool *known, bool *same, struct error *error);

struct partial_target {
	const char *path;
	bool as_file, force, resume;
	bool never_resumes; /* the command cannot continue a run */
	const struct partial_open_choice *open; /* the last has no key; NULL: none */
	uint64_t bytes; /* that a run which begins will write; 0: not known */
	partial_same *same; /* NULL: it is never known */
	const void *context;
};

struct partial {
	struct output output; /* its temporary name is OUT.partial/output */
	char *directory;      /* OUT.partial */
	int at, lock;         /* descriptors of it and of its lock, or -1 */
	bool transient;       /* what a run that was stopped leaves is of no use; set after partial_begin() */
	bool appeared;        /* an earlier run was stopped after OUT had appeared: only partial_commit() is left to do */
};

/* Sets only the names; processes that help the one that begins, commits and ends call nothing more. Holds signals
   (interrupt.h) until partial_release(), which follows in every case. EXIT_USAGE, EXIT_MEMORY. */
int partial_name(struct partial *partial, const struct partial_target *target, struct error *error);

/*
 * Begins an output after partial_name(), or continues one if the target says `resume` and there is one. Refuses an
 * existing OUT.partial without `resume` or `force`, which starts over, and one with another fingerprint (an object of
 * strings and hashes, see PARTIAL_TIMES), with files that are not ours, or without room for a first run's bytes. OUT itself is checked as output.h says. EXIT_USAGE, EXIT_IO, EXIT_MEMORY;
 * these leave what was there.
 */
int partial_begin(struct partial *partial, const struct partial_target *target, const json_t *fingerprint,
                  struct error *error);

/* Returns the malloc'ed path at which to write file `name` of the output: OUT.partial/output if the output is that
   file. NULL without memory. */
char *partial_file(const struct partial *partial, const char *name);

/* Returns the malloc'ed path of the file's journal. */
char *partial_journal(const struct partial *partial, const char *name);

/* Returns the malloc'ed path of a file that a run keeps for itself. */
char *partial_state(const struct partial *partial, const char *name);

/* The malloc'ed name of OUT.partial, and whether there is anything kept in it. EXIT_USAGE, EXIT_MEMORY. */
int partial_find_kept(const char *out, char **directory, bool *any, struct error *error);

/* Removes what is left of OUT.partial if OUT had appeared: *appeared; else fails as partial_begin() would if there is nothing to
   continue. EXIT_USAGE, EXIT_IO, EXIT_MEMORY. */
int partial_clean(const struct partial_target *target, bool *appeared, struct error *error);

/* Syncs OUT.partial, the directory that it is in, and the output in it if that is a directory. EXIT_IO, EXIT_MEMORY. */
int partial_sync(const struct partial *partial, struct error *error);

/* Renames the output to OUT and removes OUT.partial. EXIT_USAGE, EXIT_IO, signals. */
int partial_commit(struct partial *partial, struct error *error);

/* Follows partial_begin() in every case. OUT.partial stays if `code` is that of a signal, of a failure that may go away or of what is in
   the way of the output, or if it has what is kept of deleted files, and the error's text says so; else nothing is left. Returns `code`. */
int partial_end(struct partial *partial, int code, struct error *error);

/* Releases what partial_name() took. Always called last. */
void partial_release(struct partial *partial);

#endif
