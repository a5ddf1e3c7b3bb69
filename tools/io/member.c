/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/member.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough to look for a name in a directory, without the permission to list it. */
#ifdef O_PATH
#define LOOK O_PATH
#else
#define LOOK O_RDONLY
#endif

#define SNAPSHOTS "/snapshots/"
#define BLOBS "/blobs/"

char *member_directory(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Where the blobs of the repository are whose snapshot, or a folder in it, the resolved path `root` is: the length of
   REPOSITORY/blobs/ if `real` begins with that; else 0. */
static size_t blobs_prefix(const char *real, const char *root)
{
	const char *snapshots = NULL;

	for (const char *at = root; (at = strstr(at, SNAPSHOTS)) != NULL; at++)
		snapshots = at;
	const size_t n = snapshots == NULL ? 0 : (size_t)(snapshots - root);
	if (n == 0 || strncmp(real, root, n) != 0 || strncmp(real + n, BLOBS, strlen(BLOBS)) != 0)
		return 0;
	return n + strlen(BLOBS);
}

/* The bytes of the resolved path `real` that name a directory it may be in, with their slash: the resolved `root`, or
   the blobs of its repository, among which there are no directories. 0: neither. */
static size_t allowed_prefix(const char *real, const char *root)
{
	const size_t n = strlen(root), blobs = blobs_prefix(real, root);

	if (strncmp(real, root, n) == 0 && root[n - 1] == '/')
		return n;
	if (strncmp(real, root, n) == 0 && real[n] == '/')
		return n + 1;
	return blobs > 0 && strchr(real + blobs, '/') == NULL ? blobs : 0;
}

/* Opens the directory of the resolved path `real`, whose first `n` bytes name one that is there. No link is followed
   from there on: realpath() left none, and one that was put there since leads elsewhere. *name is the last component.
   -1 with errno. */
static int open_parent(char *real, size_t n, const char **name)
{
	char *next = real + n;

	if (n > 1)
		real[n - 1] = '\0';
	int at = open(n > 1 ? real : "/", LOOK | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (char *slash; at >= 0 && (slash = strchr(next, '/')) != NULL; next = slash + 1) {
		*slash = '\0';
		const int below = openat(at, next, LOOK | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), saved = errno;
		close(at);
		errno = saved;
		at = below;
	}
	*name = next;
	return at;
}

static int open_resolved(const char *path, char *real, const char *root, int *fd, uint64_t *size_bytes,
                         struct error *error)
{
	const size_t n = allowed_prefix(real, root);
	const char *name;

	if (n == 0)
		return fail(error, EXIT_INPUT, "%s: is a symbolic link that leaves the model's directory, to %.400s"
		            "; name the file itself, or copy the model with its files (cp -rL)", path, real);
	const int at = open_parent(real, n, &name);
	if (at < 0)
		return fail_errno(error, path, "cannot open");
	int code = descriptor_open_at(at, name, path, fd, size_bytes, error);
	close(at);
	return code;
}

/* Why a path leads nowhere. */
static int fail_unresolved(const char *path, struct error *error)
{
	const int saved = errno;
	char first;

	if (saved == ELOOP)
		return fail(error, EXIT_INPUT, "%s: symbolic links loop", path);
	if ((saved == ENOENT || saved == ENOTDIR || saved == ENAMETOOLONG) && readlink(path, &first, 1) == 1)
		return fail(error, EXIT_INPUT, "%s: is a symbolic link to a file that is not there; download the model "
		            "again, or copy it with its files (cp -rL)", path);
	if (saved == ENOENT || saved == ENOTDIR || saved == ENAMETOOLONG)
		return fail(error, EXIT_INPUT, "%s: is not there, though the model needs it; its download or copy is not complete", path);
	errno = saved;
	return fail_errno(error, path, "cannot open");
}

int member_open(const char *path, int *fd, uint64_t *size_bytes, struct error *error)
{
	char *directory = member_directory(path);

	if (directory == NULL)
		return fail_memory(error);
	char *root = realpath(directory, NULL);
	char *real = root == NULL ? NULL : realpath(path, NULL);
	int code = real == NULL ? fail_unresolved(path, error) : open_resolved(path, real, root, fd, size_bytes, error);

	free(real);
	free(root);
	free(directory);
	return code;
}
