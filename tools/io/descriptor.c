/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/remote.h"

/* Linux transfers at most 0x7ffff000 bytes in one call; asking for less keeps the result a plain ssize_t
   everywhere. */
enum { TRANSFER_BYTES = 1 << 30 };

static int refuse_special(const char *path, mode_t mode, struct error *error)
{
	const char *kind = S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a FIFO" :
	                   S_ISLNK(mode) ? "a symbolic link" : "a device or socket";

	return S_ISREG(mode) ? EXIT_OK : fail(error, EXIT_INPUT, "%s: is %s; give a regular file", path, kind);
}

void descriptor_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

unsigned long descriptor_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) != 0 ? 0 : limit.rlim_cur < ULONG_MAX ? (unsigned long)limit.rlim_cur : ULONG_MAX;
}

/* Opens `name` in the directory `at`, of which `status` is known: opening a device can have side effects, so the kind is
   checked before, and again on what was opened. */
static int open_regular(int at, const char *name, int flags, struct stat status, const char *path, int *fd,
                        uint64_t *size_bytes, struct error *error)
{
	int code = refuse_special(path, status.st_mode, error);

	if (code != EXIT_OK)
		return code;
	*fd = openat(at, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
	if (*fd < 0)
		return fail_errno(error, path, "cannot open");
	code = fstat(*fd, &status) != 0 ? fail_errno(error, path, "cannot open") :
	                                  refuse_special(path, status.st_mode, error);
	if (code != EXIT_OK) {
		close(*fd);
		return code;
	}
	*size_bytes = (uint64_t)status.st_size;
	return EXIT_OK;
}

int descriptor_open(const char *path, int *fd, uint64_t *size_bytes, struct error *error)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return remote_fail_open(path, error);
	return open_regular(AT_FDCWD, path, 0, status, path, fd, size_bytes, error);
}

int descriptor_open_at(int at, const char *name, const char *path, int *fd, uint64_t *size_bytes, struct error *error)
{
	struct stat status;

	if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return fail_errno(error, path, "cannot open");
	return open_regular(at, name, O_NOFOLLOW, status, path, fd, size_bytes, error);
}

int descriptor_open_own(const char *path, int flags, int *fd, struct error *error)
{
	struct stat status;

	*fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
	if (*fd < 0 && errno != ELOOP && errno != EISDIR && errno != ENXIO)
		return fail_errno(error, path, "cannot open");
	if (*fd >= 0 && fstat(*fd, &status) != 0) {
		const int code = fail_errno(error, path, "cannot open");

		close(*fd);
		*fd = -1;
		return code;
	}
	if (*fd >= 0 && S_ISREG(status.st_mode) && status.st_nlink <= 1)
		return EXIT_OK;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return fail(error, EXIT_USAGE, "%s: is a link, or no file, so that to write to it would change something else; put a copy of its own in its "
	            "place (cp FILE COPY; mv COPY FILE)", path);
}

int descriptor_read(int fd, const char *path, uint64_t at, void *bytes, size_t n, struct error *error)
{
	char *next = bytes;

	while (n > 0) {
		ssize_t got = pread(fd, next, n < TRANSFER_BYTES ? n : TRANSFER_BYTES, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail_errno(error, path, "cannot read");
		if (got == 0)
			return fail(error, EXIT_INPUT, "%s: ends at byte %llu, while it was being read", path,
			            (unsigned long long)at);
		next += got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	return EXIT_OK;
}

int descriptor_write(int fd, const char *path, uint64_t at, const void *bytes, size_t n, struct error *error)
{
	const char *next = bytes;

	while (n > 0) {
		ssize_t put = pwrite(fd, next, n < TRANSFER_BYTES ? n : TRANSFER_BYTES, (off_t)at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put == 0)
			errno = EIO;
		if (put <= 0)
			return fail_errno(error, path, "cannot write");
		next += put;
		at += (uint64_t)put;
		n -= (size_t)put;
	}
	return EXIT_OK;
}

void descriptor_begin_sync(int fd)
{
#ifdef HAVE_SYNC_FILE_RANGE
	(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
	(void)fd;
#endif
}

int descriptor_sync(int fd, const char *path, struct error *error)
{
	int status;

	do
		status = fdatasync(fd);
	while (status != 0 && errno == EINTR);
	return status == 0 ? EXIT_OK : fail_errno(error, path, "cannot write to the disk");
}

int descriptor_sync_directory(const char *path, struct error *error)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int code = EXIT_OK;

	if (fd < 0)
		return EXIT_OK;
	if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EINTR)
		code = fail_errno(error, path, "cannot write to the disk");
	close(fd);
	return code;
}

int descriptor_finish(int fd, const char *path, struct error *error)
{
	int status, code = EXIT_OK;

	do
		status = fsync(fd);
	while (status != 0 && errno == EINTR);
	if (status != 0)
		code = fail_errno(error, path, "cannot write to the disk");
	if (close(fd) != 0 && code == EXIT_OK)
		code = fail_errno(error, path, "cannot close");
	return code;
}
