/* SPDX-License-Identifier: MIT */
#include "unit/alloc_fail.h"

/* The names that the linker gives to the real functions and to their replacements. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *bytes, size_t n);
char *__real_strdup(const char *string);
char *__real_strndup(const char *string, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *bytes, size_t n);
char *__wrap_strdup(const char *string);
char *__wrap_strndup(const char *string, size_t n);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);

static size_t left;
static bool go_on, failed;

void alloc_fail_at(size_t n, bool all)
{
	left = n;
	go_on = all;
	failed = false;
}

bool alloc_has_failed(void)
{
	return failed;
}

/* Whether the allocation at hand fails. */
static bool fails(void)
{
	if (failed)
		return go_on;
	if (left == 0 || --left > 0)
		return false;
	failed = true;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *bytes, size_t n)
{
	return fails() ? NULL : __real_realloc(bytes, n);
}

char *__wrap_strdup(const char *string)
{
	return fails() ? NULL : __real_strdup(string);
}

char *__wrap_strndup(const char *string, size_t n)
{
	return fails() ? NULL : __real_strndup(string, n);
}

/* Nothing of these tests outlives them: what they write need not reach the disk. */
int __wrap_fsync(int fd)
{
	(void)fd;
	return 0;
}

int __wrap_fdatasync(int fd)
{
	(void)fd;
	return 0;
}
