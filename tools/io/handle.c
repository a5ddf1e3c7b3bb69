/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/handle.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/descriptor.h"

struct handle {
	char *path;
	descriptor_opener *opener;
	struct stat status;   /* when it was opened */
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
	else if (!is_same(&now, &handle->status))
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

int handle_open(struct handle **handle, descriptor_opener *opener, const char *path, struct error *error)
{
	struct handle *new = *handle = calloc(1, sizeof *new);
	uint64_t size;

	if (new == NULL)
		return fail_memory(error);
	new->fd = -1;
	new->opener = opener;
	new->path = strdup(path);
	if (new->path == NULL)
		return fail_memory(error);
	descriptor_raise_limit();
	pthread_mutex_lock(&lock);
	make_room();
	int code = opener(path, &new->fd, &size, error);
	if (code == EXIT_OK)
		insert(new);
	else
		new->fd = -1;
	if (code == EXIT_OK && fstat(new->fd, &new->status) != 0)
		code = fail_errno(error, path, "cannot open");
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

int handle_read(struct handle *handle, uint64_t at, void *bytes, size_t n, struct error *error)
{
	if (handle->n_parts > 0)
		return read_parts(handle, at, bytes, n, error);
	int code = acquire(handle, error);

	if (code != EXIT_OK)
		return code;
	code = descriptor_read(handle->fd, handle->path, at, bytes, n, error);
	release(handle);
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
	free(handle->path);
	free(handle);
}
