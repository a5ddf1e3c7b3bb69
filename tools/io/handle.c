/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/kept.h"

struct handle {
	char *path;
	descriptor_opener *opener;
	struct stat status;   /* when it was opened */
	bool is_kept;         /* it is what is kept of a file, which `status` is of */
	char *name;           /* of that file */
	struct stat opened;   /* of what has the descriptor */
	struct kept kept;     /* what of it, or what was noted so far, which `lock` is for */
	/* The others only with `lock` held. */
	int fd;               /* -1: none at the moment */
	unsigned users;       /* threads that are reading */
	struct handle *older, *newer; /* those with a descriptor, in the order of their last use */
	size_t n_parts;       /* 0: it is a file; else it has no descriptor itself */
	struct handle *parts[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *oldest, *newest;
static unsigned long n_open;

/* Those of handle_keep(). */
static const char *kept_of, *kept_in;
static bool notes;

static void insert(struct handle *handle)
{
	handle->older = newest;
	handle->newer = NULL;
	*(newest != NULL ? &newest->newer : &oldest) = handle;
	newest = handle;
	n_open++;
}

static void take_out(struct handle *handle)
{
	*(handle->older != NULL ? &handle->older->newer : &oldest) = handle->newer;
	*(handle->newer != NULL ? &handle->newer->older : &newest) = handle->older;
	n_open--;
}

static void close_descriptor(struct handle *handle)
{
	take_out(handle);
	close(handle->fd);
	handle->fd = -1;
}

/* Takes descriptors from files that are not read at the moment until there is room for one more. */
static void make_room(void)
{
	const unsigned long most = descriptor_limit() / 4; /* outputs, journals and what a library opens have the rest */

	for (struct handle *handle = oldest, *next; handle != NULL && n_open > 0 && n_open >= most; handle = next) {
		next = handle->newer;
		if (handle->users == 0)
			close_descriptor(handle);
	}
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Opens the file again. What was read of it before must be what is there now. */
static int reopen(struct handle *handle, struct error *error)
{
	struct stat now;
	uint64_t size;

	make_room();
	int code = handle->opener(handle->path, &handle->fd, &size, error);
	if (code != EXIT_OK) {
		handle->fd = -1;
		return code;
	}
	insert(handle);
	if (fstat(handle->fd, &now) != 0)
		code = fail_errno(error, handle->path, "cannot read");
	else if (!is_same(&now, &handle->opened))
		code = fail(error, EXIT_INPUT, "%s: has become another file while it was being read; start again",
		            handle->path);
	if (code != EXIT_OK)
		close_descriptor(handle);
	return code;
}

/* Takes a descriptor, which stays until release(). */
static int acquire(struct handle *handle, struct error *error)
{
	int code = EXIT_OK;

	pthread_mutex_lock(&lock);
	if (handle->fd < 0) {
		code = reopen(handle, error);
	} else if (handle != newest) {
		take_out(handle);
		insert(handle);
	}
	handle->users += code == EXIT_OK;
	pthread_mutex_unlock(&lock);
	return code;
}

static void release(struct handle *handle)
{
	pthread_mutex_lock(&lock);
	handle->users--;
	pthread_mutex_unlock(&lock);
}

/* Where what is kept of a file would be: malloc'ed, NULL without memory, or *wanted is false. */
static char *kept_path(const char *path, bool *wanted)
{
	const size_t n = kept_of == NULL ? 0 : strlen(kept_of);

	*wanted = n > 0 && strncmp(path, kept_of, n) == 0 && path[n] == '/' && path[n + strspn(path + n, "/")] != '\0' &&
	          strchr(path + n + strspn(path + n, "/"), '/') == NULL;
	if (!*wanted)
		return NULL;
	const char *name = strrchr(path, '/');
	const size_t size = strlen(kept_in) + strlen(name) + sizeof KEPT_SUFFIX;
	char *to = malloc(size);
	if (to != NULL)
		snprintf(to, size, "%s%s%s", kept_in, name, KEPT_SUFFIX);
	return to;
}

/* Has the handle read what is kept of its file. */
static int open_kept(struct handle *handle, char *path, struct error *error)
{
	uint64_t size;

	handle->name = handle->path;
	handle->path = path;
	handle->is_kept = true;
	handle->opener = descriptor_open;
	make_room();
	int code = descriptor_open(path, &handle->fd, &size, error);
	if (code != EXIT_OK) {
		handle->fd = -1;
		return code;
	}
	insert(handle);
	if (fstat(handle->fd, &handle->opened) != 0)
		return fail_errno(error, path, "cannot open");
	kept_free(&handle->kept);
	code = kept_read(&handle->kept, handle->fd, path, error);
	handle->status = handle->opened;
	handle->status.st_size = (off_t)handle->kept.size;
	handle->status.st_mtim = handle->kept.changed;
	return code;
}

/* Opens a file, or what is kept of it. */
static int open_new(struct handle *new, struct error *error)
{
	struct stat status;
	bool wanted;
	uint64_t size;
	char *kept = kept_path(new->path, &wanted);

	if (wanted && kept == NULL)
		return fail_memory(error);
	if (wanted && lstat(new->path, &status) != 0 && errno == ENOENT && lstat(kept, &status) == 0)
		return open_kept(new, kept, error);
	free(kept);
	make_room();
	int code = new->opener(new->path, &new->fd, &size, error);
	if (code == EXIT_OK)
		insert(new);
	else
		new->fd = -1;
	if (code == EXIT_OK && fstat(new->fd, &new->status) != 0)
		code = fail_errno(error, new->path, "cannot open");
	new->opened = new->status;
	return code;
}

int handle_open(struct handle **handle, descriptor_opener *opener, const char *path, struct error *error)
{
	struct handle *new = *handle = calloc(1, sizeof *new);

	if (new == NULL)
		return fail_memory(error);
	new->fd = -1;
	new->opener = opener;
	new->path = strdup(path);
	if (new->path == NULL)
		return fail_memory(error);
	descriptor_raise_limit();
	pthread_mutex_lock(&lock);
	const int code = open_new(new, error);
	pthread_mutex_unlock(&lock);
	return code;
}

int handle_open_like(struct handle **handle, const struct handle *other, const char *path, struct error *error)
{
	return handle_open(handle, other->opener, path, error);
}

int handle_join(struct handle **joined, struct handle *const *parts, size_t n, struct error *error)
{
	struct handle *new = *joined = calloc(1, sizeof *new + n * sizeof(struct handle *));

	if (new == NULL)
		return fail_memory(error);
	new->fd = -1;
	new->opener = parts[0]->opener;
	new->status = parts[0]->status;
	new->n_parts = n;
	memcpy(new->parts, parts, n * sizeof(struct handle *));
	return EXIT_OK;
}

const struct stat *handle_status(const struct handle *handle)
{
	return &handle->status;
}

/* Reads from the parts that the bytes lie in; what is behind the last is left to it to refuse. */
static int read_parts(const struct handle *handle, uint64_t at, unsigned char *bytes, size_t n, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < handle->n_parts && n > 0 && code == EXIT_OK; i++) {
		const uint64_t size = (uint64_t)handle->parts[i]->status.st_size;
		const bool last = i + 1 == handle->n_parts;

		if (!last && at >= size) {
			at -= size;
			continue;
		}
		const size_t piece = last || n <= size - at ? n : (size_t)(size - at);
		code = handle_read(handle->parts[i], at, bytes, piece, error);
		bytes += piece;
		n -= piece;
		at = 0;
	}
	return code;
}

/* Notes what was read. */
static int note(struct handle *handle, uint64_t at, size_t n, struct error *error)
{
	pthread_mutex_lock(&lock);
	const int code = kept_add(&handle->kept, at, n, error);
	pthread_mutex_unlock(&lock);
	return code;
}

int handle_read(struct handle *handle, uint64_t at, void *bytes, size_t n, struct error *error)
{
	if (handle->n_parts > 0)
		return read_parts(handle, at, bytes, n, error);
	int code = acquire(handle, error);

	if (code != EXIT_OK)
		return code;
	uint64_t where = at;
	if (handle->is_kept)
		code = kept_find(&handle->kept, at, n, handle->name, &where, error);
	if (code == EXIT_OK)
		code = descriptor_read(handle->fd, handle->path, where, bytes, n, error);
	release(handle);
	return code == EXIT_OK && notes && !handle->is_kept ? note(handle, at, n, error) : code;
}

void handle_keep(const char *directory, const char *kept)
{
	kept_of = directory;
	kept_in = kept;
	notes = directory != NULL;
}

void handle_kept(void)
{
	notes = false;
}

bool handle_is_kept(const struct handle *handle)
{
	return handle->is_kept;
}

/* Writes what is kept, deletes the file, and takes its descriptor. */
static int delete(struct handle *handle, const char *kept, struct error *error)
{
	struct stat now;

	handle->kept.size = (uint64_t)handle->status.st_size;
	handle->kept.changed = handle->status.st_mtim;
	kept_sort(&handle->kept);
	int code = kept_write(&handle->kept, handle->fd, handle->path, kept, error);
	if (code == EXIT_OK)
		code = descriptor_sync_directory(kept_in, error);
	if (code != EXIT_OK) {
		unlink(kept); /* which tells --force that the source is gone */
		return code;
	}
	if (lstat(handle->path, &now) != 0)
		code = fail_errno(error, handle->path, "cannot delete");
	else if (!is_same(&now, &handle->status))
		code = fail(error, EXIT_INPUT, "%s: has become another file while it was being read, and is not deleted; start again",
		            handle->path);
	else if (unlink(handle->path) != 0)
		code = fail_errno(error, handle->path, "cannot delete");
	if (code != EXIT_OK)
		unlink(kept);
	return code;
}

int handle_delete(struct handle *handle, struct error *error)
{
	bool wanted;
	char *kept = kept_path(handle->path, &wanted);

	if (handle->is_kept || !wanted || kept == NULL) {
		free(kept);
		return handle->is_kept ? EXIT_OK : !wanted ? fail(error, EXIT_USAGE, "%s: is not in the directory", handle->path) : fail_memory(error);
	}
	int code = acquire(handle, error);
	if (code == EXIT_OK) {
		code = delete(handle, kept, error);
		release(handle);
	}
	if (code != EXIT_OK) {
		free(kept);
		return code;
	}
	pthread_mutex_lock(&lock);
	close_descriptor(handle);
	code = open_kept(handle, kept, error);
	pthread_mutex_unlock(&lock);
	return code;
}

void handle_uncache(struct handle *handle)
{
	struct error ignored;

	for (size_t i = 0; i < handle->n_parts; i++)
		handle_uncache(handle->parts[i]);
	if (handle->n_parts > 0 || acquire(handle, &ignored) != EXIT_OK)
		return;
	(void)posix_fadvise(handle->fd, 0, 0, POSIX_FADV_DONTNEED);
	release(handle);
}

void handle_close(struct handle *handle)
{
	if (handle == NULL)
		return;
	pthread_mutex_lock(&lock);
	if (handle->fd >= 0)
		close_descriptor(handle);
	pthread_mutex_unlock(&lock);
	kept_free(&handle->kept);
	free(handle->name);
	free(handle->path);
	free(handle);
}
