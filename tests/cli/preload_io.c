/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: lets one call of the system that a program makes go wrong. Calls that change files, and positioned
 * reads, are counted from 1, those of all threads together. At the call whose number IO_AT says, IO_HOW has the program
 * killed before it (kill), or the call fail: with EIO (error) or ENOSPC (full), and so do all later ones of its kind; or it
 * alone fails with EIO (once). "close_written" is close() of what is open for writing.
 * Each look at the clock takes as many seconds as IO_CLOCK says.
 * IO_KIND limits the counting to "pread", "pwrite" and so on. Disks have room for as many bytes as IO_ROOM says. Nothing waits for the disk: what is tested is not whether
 * the machine survives.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static _Atomic long n_calls;

/* Whether this call fails. */
static int is_hit(const char *kind)
{
	const char *at = getenv("IO_AT"), *how = getenv("IO_HOW"), *only = getenv("IO_KIND");

	if (at == NULL || how == NULL || (only != NULL && strcmp(only, kind) != 0))
		return 0;
	long n = atomic_fetch_add(&n_calls, 1) + 1;
	if (n < atol(at) || (n > atol(at) && strcmp(how, "once") == 0))
		return 0;
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	errno = strcmp(how, "full") == 0 ? ENOSPC : EIO;
	return 1;
}

/* The C library's own function of that name. */
#define CALL(type, name, parameters, arguments) \
	type name parameters \
	{ \
		type(*real) parameters; \
		*(void **)&real = dlsym(RTLD_NEXT, #name); \
		return is_hit(#name) ? (type)-1 : real arguments; \
	}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static _Atomic long n_looks;
	const char *step = getenv("IO_CLOCK");
	int (*real)(clockid_t clock, struct timespec *now);

	*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	const int result = real(clock, now);
	if (step != NULL)
		now->tv_sec += atol(step) * (atomic_fetch_add(&n_looks, 1) + 1);
	return result;
}

int fsync(int fd)
{
	(void)fd;
	return is_hit("fsync") ? -1 : 0;
}

int fdatasync(int fd)
{
	(void)fd;
	return is_hit("fdatasync") ? -1 : 0;
}

/* It closes even where it fails. A descriptor that is not open may be another thread's the next time: the program ends. */
int close(int fd)
{
	int (*real)(int);
	const int flags = fcntl(fd, F_GETFL), hit = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && is_hit("close_written");

	*(void **)&real = dlsym(RTLD_NEXT, "close");
	int code = real(fd);
	if (code != 0 && errno == EBADF)
		abort();
	if (hit) {
		errno = EIO;
		code = -1;
	}
	return code;
}

int statvfs(const char *path, struct statvfs *system)
{
	const char *room = getenv("IO_ROOM");
	int (*real)(const char *, struct statvfs *);

	*(void **)&real = dlsym(RTLD_NEXT, "statvfs");
	int code = real(path, system);
	if (code == 0 && room != NULL) {
		system->f_frsize = 1;
		system->f_bavail = (fsblkcnt_t)atol(room);
	}
	return code;
}

CALL(ssize_t, pread, (int fd, void *bytes, size_t n, off_t at), (fd, bytes, n, at))
CALL(ssize_t, pwrite, (int fd, const void *bytes, size_t n, off_t at), (fd, bytes, n, at))
CALL(int, ftruncate, (int fd, off_t n), (fd, n))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode))
CALL(int, rmdir, (const char *path), (path))
CALL(int, unlink, (const char *path), (path))
CALL(int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
CALL(int, rename, (const char *from, const char *to), (from, to))

/* IO_HOW=race: somebody else takes the new name just before. */
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
	const char *how = getenv("IO_HOW");
	int (*real)(int, const char *, int, const char *, unsigned);

	*(void **)&real = dlsym(RTLD_NEXT, "renameat2");
	if (how != NULL && strcmp(how, "race") == 0)
		mkdirat(to_at, to, 0777);
	else if (is_hit("renameat2"))
		return -1;
	return real(at, from, to_at, to, flags);
}

CALL(int, flock, (int fd, int how), (fd, how))
