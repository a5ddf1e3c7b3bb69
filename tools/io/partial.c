/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/partial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/suffix.h"
#include "io/directory.h"
#include "io/facts.h"
#include "io/json.h"
#include "io/kept.h"
#include "io/room.h"

#define BUILT "output"
#define FINGERPRINT "fingerprint.json"
#define FINGERPRINT_NEW "fingerprint.new"
#define APPEARING "appearing"
#define LOCK "lock"
#define JOURNAL_SUFFIX ".journal"
#define STATE_SUFFIX ".state"

enum { FINGERPRINT_BYTES_MAX = 1 << 24, IDENTITY_BYTES = 64 };

int partial_name(struct partial *partial, const struct partial_target *target, struct error *error)
{
	static const char suffix[] = ".partial";

	*partial = (struct partial){.output = {.is_directory = !target->as_file, .force = target->force}};
	partial->at = partial->lock = -1;
	interrupt_hold();
	int code = output_set_path(&partial->output, target->path, error);
	if (code != EXIT_OK)
		return code;
	size_t size = strlen(partial->output.path) + sizeof suffix;
	partial->directory = malloc(size);
	if (partial->directory == NULL)
		return fail_memory(error);
	snprintf(partial->directory, size, "%s%s", partial->output.path, suffix);
	partial->output.temporary = directory_member(partial->directory, BUILT);
	return partial->output.temporary == NULL ? fail_memory(error) : EXIT_OK;
}

char *partial_file(const struct partial *partial, const char *name)
{
	return partial->output.is_directory ? output_member(&partial->output, name) : strdup(partial->output.temporary);
}

static char *member(const struct partial *partial, const char *name, const char *suffix)
{
	size_t size = strlen(name) + strlen(suffix) + 1;
	char *file = malloc(size), *path = NULL;

	if (file != NULL) {
		snprintf(file, size, "%s%s", name, suffix);
		path = directory_member(partial->directory, file);
	}
	free(file);
	return path;
}

char *partial_journal(const struct partial *partial, const char *name)
{
	return member(partial, name, JOURNAL_SUFFIX);
}

char *partial_state(const struct partial *partial, const char *name)
{
	return member(partial, name, STATE_SUFFIX);
}

static bool has(const struct partial *partial, const char *name)
{
	return faccessat(partial->at, name, F_OK, 0) == 0;
}

/* Whether this file makes entries of that name. The output itself is there only with a fingerprint. */
static bool is_ours(const struct partial *partial, const char *name)
{
	static const char *const names[] = {FINGERPRINT, FINGERPRINT_NEW, APPEARING, LOCK};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	if (strcmp(name, BUILT) == 0)
		return has(partial, FINGERPRINT);
	return suffix_stem(name, JOURNAL_SUFFIX) != 0 || suffix_stem(name, STATE_SUFFIX) != 0 || suffix_stem(name, KEPT_SUFFIX) != 0;
}

static int check_ours(const struct partial *partial, struct error *error)
{
	DIR *directory = opendir(partial->directory);
	const char *name;
	int code = EXIT_OK;

	if (directory == NULL)
		return fail_errno(error, partial->directory, "cannot open");
	while ((name = directory_next(directory)) != NULL && is_ours(partial, name))
		;
	if (name != NULL)
		code = fail(error, EXIT_USAGE, "%s: holds '%s', which mxfp does not put there, and the name is needed"
		            "; move it away", partial->directory, name);
	else if (errno != 0)
		code = fail_errno(error, partial->directory, "cannot read");
	closedir(directory);
	return code;
}

/* Removes the fingerprint, then the output and all that belongs to it. OUT.partial and its lock stay, and so does an
   old OUT that ended up there because it could not be replaced atomically. */
static int clear(const struct partial *partial)
{
	const char *built = partial->output.temporary, *name;

	if (built != NULL && (partial->output.is_directory ? directory_remove(built) : unlink(built)) != 0 &&
	    errno != ENOENT)
		return -1;
	if (unlinkat(partial->at, FINGERPRINT, 0) != 0 && errno != ENOENT)
		return -1;
	DIR *directory = opendir(partial->directory);
	if (directory == NULL)
		return -1;
	while ((name = directory_next(directory)) != NULL)
		if (strcmp(name, LOCK) != 0 && strcmp(name, BUILT) != 0 && strcmp(name, APPEARING) != 0)
			unlinkat(dirfd(directory), name, 0);
	closedir(directory);
	return 0;
}

/* Whether anything is kept of deleted files in a directory; a directory that cannot be read has nothing. */
static bool has_kept(const char *path)
{
	DIR *directory = opendir(path);
	const char *name = NULL;

	while (directory != NULL && (name = directory_next(directory)) != NULL && suffix_stem(name, KEPT_SUFFIX) == 0)
		;
	if (directory != NULL)
		closedir(directory);
	return name != NULL;
}

/* Whether the output is the only copy of something. */
static bool is_only_copy(const struct partial *partial)
{
	return partial->at >= 0 && has(partial, BUILT) && has_kept(partial->directory);
}

static void remove_all(struct partial *partial)
{
	/* What tells why there is so little goes last. */
	if (clear(partial) == 0 && unlinkat(partial->at, LOCK, 0) == 0 && (unlinkat(partial->at, APPEARING, 0) == 0 || errno == ENOENT))
		rmdir(partial->directory);
}

/* Makes sure that no other run is active. On a file system without locks there is no such check. */
static int take_lock(struct partial *partial, struct error *error)
{
	partial->lock = openat(partial->at, LOCK, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (partial->lock < 0)
		return fail_errno(error, partial->directory, "cannot create a lock in it");
	if (flock(partial->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		return fail(error, EXIT_USAGE, "%s: another run is working on it; wait for it, or name another output",
		            partial->directory);
	return EXIT_OK;
}

/* Returns the first key of `of` whose values differ and are hashes, or are none; NULL if there is none. */
static const char *find_difference(const json_t *of, const json_t *then, const json_t *now, bool hashes)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)of, key, value)
		if (json_is_object(value) == hashes && strcmp(key, PARTIAL_TIMES) != 0 &&
		    !json_equal(json_object_get(now, key), json_object_get(then, key)))
			return key;
	return NULL;
}

static const char *shown(const json_t *fingerprint, const char *key)
{
	const char *value = json_string_value(json_object_get(fingerprint, key));

	return value != NULL ? value : "none";
}

/* A choice goes by its option's name. */
static const char *name_of(const char *key)
{
	static const char prefix[] = "mxfp.";

	return strncmp(key, prefix, sizeof prefix - 1) == 0 ? key + sizeof prefix - 1 : key;
}

/* Takes the choices of this run where that one had left them open; whether there were any. */
static bool close_choices(json_t *then, const json_t *now, const struct partial_open_choice *open)
{
	bool any = false;

	for (; open != NULL && open->key != NULL; open++) {
		const char *was = json_string_value(json_object_get(then, open->key)), *is = json_string_value(json_object_get(now, open->key));

		if (was == NULL || is == NULL || strcmp(was, open->value) != 0 || strcmp(was, is) == 0)
			continue;
		json_object_set_new(then, open->key, json_string(is));
		any = true;
	}
	return any;
}

static int write_fingerprint(const struct partial *partial, const json_t *fingerprint, struct error *error)
{
	char *path = directory_member(partial->directory, FINGERPRINT);
	char *early = directory_member(partial->directory, FINGERPRINT_NEW);
	int code = path == NULL || early == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK) {
		unlink(early);
		code = facts_write_file(early, fingerprint, error);
	}
	if (code == EXIT_OK && rename(early, path) != 0)
		code = fail_errno(error, path, "cannot create");
	free(path);
	free(early);
	return code;
}

/* What to do where a run cannot be continued. */
static const char *remedy(const struct partial *partial)
{
	return is_only_copy(partial) ? "give it as then: this has the only copy of shards that are deleted"
	                             : "--resume continues it only as it was begun, --force starts over";
}

/* EXIT_USAGE, saying what differs, if another run is to be continued. */
static int compare(const struct partial *partial, const json_t *then, const json_t *now, struct error *error)
{
	/* Hashes last: most follow from what can be shown. */
	const char *key = find_difference(now, then, now, false);

	if (key == NULL)
		key = find_difference(then, then, now, false);
	if (key != NULL && (strcmp(shown(then, key), "copied") == 0 || strcmp(shown(now, key), "copied") == 0))
		return fail(error, EXIT_USAGE, "%s: was begun %s '%s' beside the model; %s", partial->directory,
		            json_object_get(then, key) != NULL ? "with" : "without", key,
		            json_object_get(then, key) != NULL ? "put it back, and --resume continues" : "move it away, and --resume continues");
	if (key != NULL)
		return fail(error, EXIT_USAGE, "%s: was begun with another %s: %s, and not %s; %s", partial->directory, name_of(key),
		            shown(then, key), shown(now, key), remedy(partial));
	if ((key = find_difference(now, then, now, true)) != NULL || (key = find_difference(then, then, now, true)) != NULL)
		return fail(error, EXIT_USAGE, "%s: was begun with another %s; %s", partial->directory, key, remedy(partial));
	return EXIT_OK;
}

/* Sources that were changed at another time, and are otherwise what they were as far as that was looked at: all of each has to be. Sets
   *any if there are some. */
static int compare_times(const struct partial *partial, const struct partial_target *target, const json_t *then, const json_t *now,
                         bool *any, struct error *error)
{
	const json_t *before = json_object_get(then, PARTIAL_TIMES);
	const char *key;
	json_t *time;
	int code = EXIT_OK;

	json_object_foreach(json_object_get(now, PARTIAL_TIMES), key, time) {
		bool known = false, same = false;

		if (json_equal(time, json_object_get(before, key)))
			continue;
		if (target->same != NULL)
			code = target->same(target->context, partial, key, &known, &same, error);
		if (code != EXIT_OK)
			return code;
		*any = true;
		if (!known)
			return fail(error, EXIT_USAGE, "%s: was begun with another %s: changed at %s, and not %s; if it is the same, touch -d @%s gives it "
			            "back its time; %s", partial->directory, key, shown(before, key), json_string_value(time), shown(before, key),
			            remedy(partial));
		if (!same)
			return fail(error, EXIT_USAGE, "%s: was begun with another %s: size and samples are the same, and the rest is not; %s",
			            partial->directory, key, remedy(partial));
	}
	return EXIT_OK;
}

/* Reads the fingerprint; EXIT_USAGE: it is damaged. */
static int read_fingerprint(const struct partial *partial, json_t **fingerprint, struct error *error)
{
	char *path = directory_member(partial->directory, FINGERPRINT);
	int code = path == NULL ? fail_memory(error) : json_read(descriptor_open, path, FINGERPRINT_BYTES_MAX, fingerprint, error);

	if (code == EXIT_INPUT || (code == EXIT_OK && !json_is_object(*fingerprint)))
		code = fail(error, EXIT_USAGE, "%s: is damaged; %s", path, is_only_copy(partial)
		            ? "put it back as it was: beside it is the only copy of shards that are deleted" : "--force starts over");
	free(path);
	return code;
}

/* EXIT_USAGE if another run is to be continued, or one of which that is not known. */
static int check_fingerprint(const struct partial *partial, const struct partial_target *target, const json_t *now, struct error *error)
{
	json_t *then = NULL;
	int code = read_fingerprint(partial, &then, error);

	json_prepare();
	bool changed = code == EXIT_OK && close_choices(then, now, target->open);
	if (code == EXIT_OK && json_out_of_memory())
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = compare(partial, then, now, error);
	if (code == EXIT_OK)
		code = compare_times(partial, target, then, now, &changed, error);
	json_decref(then);
	return code == EXIT_OK && changed && target->resume ? write_fingerprint(partial, now, error) : code;
}

/* Writes device and inode of a path as text; empty if it does not exist. */
static void identify(const char *path, char text[IDENTITY_BYTES])
{
	struct stat status;

	text[0] = '\0';
	if (lstat(path, &status) == 0)
		snprintf(text, IDENTITY_BYTES, "%llu %llu\n", (unsigned long long)status.st_dev,
		         (unsigned long long)status.st_ino);
}

/* Whether OUT is the directory or file that `appearing` names. */
static bool has_appeared(const struct partial *partial)
{
	char identity[IDENTITY_BYTES], marked[IDENTITY_BYTES];
	int fd = openat(partial->at, APPEARING, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, marked, sizeof marked);

	if (fd >= 0)
		close(fd);
	identify(partial->output.path, identity);
	return n > 0 && (size_t)n == strlen(identity) && memcmp(marked, identity, (size_t)n) == 0;
}

static int mark_appearing(const struct partial *partial, struct error *error)
{
	char *path = directory_member(partial->directory, APPEARING);
	char identity[IDENTITY_BYTES];

	if (path == NULL)
		return fail_memory(error);
	unlinkat(partial->at, APPEARING, 0);
	identify(partial->output.temporary, identity);
	int code = output_write_file(path, identity, strlen(identity), error);
	free(path);
	return code;
}

static int make_built(const struct partial *partial, struct error *error)
{
	const char *built = partial->output.temporary;

	struct stat status;

	if (!partial->output.is_directory || mkdir(built, 0777) == 0)
		return EXIT_OK;
	if (errno != EEXIST)
		return fail_errno(error, built, "cannot create");
	return lstat(built, &status) == 0 && S_ISDIR(status.st_mode) ? EXIT_OK :
	       fail(error, EXIT_USAGE, "%s: is a link, or no directory; put back what was there", built);
}

/* Begins in an existing OUT.partial that holds nothing worth keeping. */
static int begin_new(struct partial *partial, const json_t *fingerprint, struct error *error)
{
	int code = clear(partial) != 0 ? fail_errno(error, partial->directory, "cannot remove what is in it") : EXIT_OK;

	if (code == EXIT_OK)
		code = write_fingerprint(partial, fingerprint, error);
	return code != EXIT_OK ? code : make_built(partial, error);
}

/* Continues an earlier run, however little it had begun. */
static int resume(struct partial *partial, const struct partial_target *target, const json_t *fingerprint, struct error *error)
{
	int code = check_fingerprint(partial, target, fingerprint, error);

	partial->appeared = code == EXIT_OK && has_appeared(partial);
	if (code != EXIT_OK || partial->appeared)
		return code;
	code = output_check_commit(&partial->output, error);
	return code != EXIT_OK ? code : make_built(partial, error);
}

static int open_directory(struct partial *partial, struct error *error)
{
	partial->at = open(partial->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (partial->at < 0 && (errno == ENOTDIR || errno == ELOOP))
		return fail(error, EXIT_USAGE, "%s: is not a directory, and the name is needed; move it away",
		            partial->directory);
	return partial->at < 0 ? fail_errno(error, partial->directory, "cannot open") : EXIT_OK;
}

/* Makes OUT.partial and begins there. */
static int begin_first(struct partial *partial, uint64_t bytes, const json_t *fingerprint, struct error *error)
{
	const struct room_need need = {partial->output.path, bytes};
	int code = output_check_commit(&partial->output, error);

	if (code == EXIT_OK)
		code = room_check(&need, 1, "make room there, or choose another", error);
	if (code != EXIT_OK)
		return code;
	if (mkdir(partial->directory, 0777) != 0)
		return fail_errno(error, partial->output.path, "cannot create");
	code = open_directory(partial, error);
	if (code == EXIT_OK)
		code = take_lock(partial, error);
	if (code == EXIT_OK)
		code = begin_new(partial, fingerprint, error);
	if (code != EXIT_OK)
		remove_all(partial);
	return code;
}

/* Continues, refuses, or starts over what an earlier run left. */
static int begin_again(struct partial *partial, const struct partial_target *target, const json_t *fingerprint,
                       struct error *error)
{
	if (target->resume)
		return resume(partial, target, fingerprint, error);
	if (is_only_copy(partial))
		return fail(error, EXIT_USAGE, "%s: belongs to a run that was stopped, and has the only copy of shards that are deleted; --resume continues "
		            "it in mxfp convert", partial->directory);
	/* --resume is advised only if it would not be refused. */
	if (!target->force && !target->never_resumes && check_fingerprint(partial, target, fingerprint, error) == EXIT_USAGE)
		return EXIT_USAGE;
	if (!target->force)
		return fail(error, EXIT_USAGE, "%s: belongs to a run that was stopped; %s--force starts over", partial->directory,
		            target->never_resumes ? "" : "--resume continues it, ");
	int code = output_check_commit(&partial->output, error);
	return code != EXIT_OK ? code : begin_new(partial, fingerprint, error);
}

/* Opens an existing OUT.partial, which must be ours and no other run's. */
static int enter(struct partial *partial, struct error *error)
{
	int code = open_directory(partial, error);

	if (code == EXIT_OK)
		code = check_ours(partial, error);
	return code == EXIT_OK ? take_lock(partial, error) : code;
}

/* Examines an existing OUT.partial. Sets *kept if it belongs to a run that was stopped, else removes it. */
static int look(struct partial *partial, bool *kept, struct error *error)
{
	const int code = enter(partial, error);

	if (code != EXIT_OK)
		return code;
	*kept = has(partial, FINGERPRINT);
	if (!*kept) {
		remove_all(partial);
		close(partial->lock);
		close(partial->at);
		partial->lock = partial->at = -1;
	}
	return EXIT_OK;
}

int partial_begin(struct partial *partial, const struct partial_target *target, const json_t *fingerprint,
                  struct error *error)
{
	struct stat status;
	bool kept = false;
	int code = EXIT_OK;

	if (lstat(partial->directory, &status) == 0)
		code = look(partial, &kept, error);
	if (code != EXIT_OK)
		return code;
	return kept ? begin_again(partial, target, fingerprint, error) : begin_first(partial, target->bytes, fingerprint, error);
}

int partial_find_kept(const char *out, char **directory, bool *any, struct error *error)
{
	struct partial partial;
	int code = partial_name(&partial, &(struct partial_target){.path = out}, error);

	*any = false;
	*directory = NULL;
	if (code == EXIT_OK) {
		*directory = strdup(partial.directory);
		code = *directory == NULL ? fail_memory(error) : EXIT_OK;
	}
	if (code == EXIT_OK)
		*any = has_kept(*directory);
	partial_release(&partial);
	return code;
}

/* Removes what is left, unless there is something to continue. */
static int clean(struct partial *partial, bool *appeared, bool *continues, struct error *error)
{
	int code = enter(partial, error);

	if (code != EXIT_OK)
		return code;
	*appeared = has_appeared(partial);
	*continues = !*appeared && has(partial, FINGERPRINT);
	if (*appeared && partial->output.is_directory && has(partial, BUILT))
		code = directory_check_ours(partial->output.temporary, error); /* what was replaced */
	if (!*continues && code == EXIT_OK)
		remove_all(partial);
	return code;
}

int partial_clean(const struct partial_target *target, bool *appeared, struct error *error)
{
	struct partial partial;
	struct stat status;
	bool continues = false;
	int code = partial_name(&partial, target, error);

	*appeared = false;
	if (code == EXIT_OK && lstat(partial.directory, &status) == 0)
		code = clean(&partial, appeared, &continues, error);
	/* Without anything to continue, an output that is there is told of before an input that is not. */
	if (code == EXIT_OK && !*appeared && !continues)
		code = output_check_commit(&partial.output, error);
	partial_release(&partial);
	return code;
}

int partial_sync(const struct partial *partial, struct error *error)
{
	char *parent = directory_of(partial->directory);
	int code = parent == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK && partial->output.is_directory)
		code = directory_sync(partial->output.temporary, error);
	if (code == EXIT_OK)
		code = directory_sync(partial->directory, error);
	if (code == EXIT_OK)
		code = directory_sync(parent, error);
	free(parent);
	return code;
}

int partial_commit(struct partial *partial, struct error *error)
{
	int code = EXIT_OK;

	if (!partial->appeared) {
		code = mark_appearing(partial, error);
		if (code == EXIT_OK)
			code = output_commit(&partial->output, error);
	} else if (partial->output.is_directory && has(partial, BUILT)) {
		/* What was replaced. */
		code = directory_check_ours(partial->output.temporary, error);
	}
	if (code == EXIT_OK)
		remove_all(partial);
	return code;
}

int partial_end(struct partial *partial, int code, struct error *error)
{
	const bool may_go_on = code == EXIT_IO || code == EXIT_MEMORY || code > EXIT_SIGNAL;
	const size_t n = code != EXIT_OK ? strlen(error->text) : 0;

	if (may_go_on && !partial->transient)
		snprintf(error->text + n, sizeof error->text - n, "; --resume continues");
	else if (code == EXIT_USAGE && !partial->transient)
		snprintf(error->text + n, sizeof error->text - n, "; --resume continues then");
	else if (code != EXIT_OK && is_only_copy(partial))
		snprintf(error->text + n, sizeof error->text - n, "; %.600s stays, because it has the only copy of shards that are deleted: with that "
		         "mended, --resume continues", partial->directory);
	else if (code != EXIT_OK)
		remove_all(partial);
	return code;
}

void partial_release(struct partial *partial)
{
	if (partial->lock >= 0)
		close(partial->lock);
	if (partial->at >= 0)
		close(partial->at);
	free(partial->directory);
	free(partial->output.temporary);
	partial->output.temporary = NULL;
	output_abandon(&partial->output);
	interrupt_release();
	*partial = (struct partial){.at = -1, .lock = -1};
}
