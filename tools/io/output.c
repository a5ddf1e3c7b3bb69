/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "io/descriptor.h"
#include "io/directory.h"

/* Checks that the final name is free, or may be replaced. */
static int check_target(const struct output *output, bool *exists, struct error *error)
{
	struct stat status;

	*exists = lstat(output->path, &status) == 0;
	if (!*exists)
		return errno == ENOENT ? EXIT_OK : fail_errno(error, output->path, "cannot create");
	if (output->is_directory ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode))
		return fail(error, EXIT_USAGE, "%s: exists and is not a %s; choose another name", output->path,
		            output->is_directory ? "directory" : "regular file");
	if (!output->force)
		return fail(error, EXIT_USAGE, "%s: exists; give --force to replace it", output->path);
	if (!output->is_directory)
		return EXIT_OK;
	if (access(output->path, W_OK) != 0)
		return fail(error, EXIT_IO, "%s: cannot be replaced: %s; choose another name", output->path, strerror(errno));
	return directory_check_ours(output->path, error);
}

/* Returns the start of the last component of a path. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* Returns the template of the temporary name: hidden, beside the final one, and with little of it, as names are limited
   to 255 bytes. */
static char *make_template(const char *path)
{
	const char *name = base_name(path);
	size_t size = strlen(path) + sizeof "..mxfp-XXXXXX";
	char *template = malloc(size);

	if (template != NULL)
		snprintf(template, size, "%.*s.%.100s.mxfp-XXXXXX", (int)(name - path), path, name);
	return template;
}

/* Strips slashes from the end of the final name. */
int output_set_path(struct output *output, const char *path, struct error *error)
{
	size_t n = strlen(path);

	while (n > 0 && path[n - 1] == '/')
		n--;
	output->path = strndup(path, n);
	if (output->path == NULL)
		return fail_memory(error);
	const char *name = base_name(output->path);
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    (path[n] == '/' && !output->is_directory))
		return fail(error, EXIT_USAGE, "'%s': does not name an output", path);
	return EXIT_OK;
}

/* Makes the directory, with the permissions that mkdir() would have given. */
static int create_directory(char *template)
{
	mode_t mask = umask(0);

	umask(mask);
	return mkdtemp(template) == NULL ? -1 : chmod(template, 0777 & ~mask);
}

/* Finds a free name, and so learns before the work begins whether a file can be created here. */
static int reserve_name(char *template)
{
	int fd = mkstemp(template);

	if (fd < 0)
		return -1;
	close(fd);
	return unlink(template);
}

/* Holds signals, from before anything has the temporary name until it is removed or renamed. */
static void hold(struct output *output)
{
	if (!output->holds)
		interrupt_hold();
	output->holds = true;
}

static void release(struct output *output)
{
	if (output->holds)
		interrupt_release();
	output->holds = false;
}

static int begin(struct output *output, const char *path, struct error *error)
{
	bool exists;
	int code = output_set_path(output, path, error);

	if (code == EXIT_OK)
		code = check_target(output, &exists, error);
	if (code != EXIT_OK)
		return code;
	char *template = make_template(output->path);
	if (template == NULL)
		return fail_memory(error);
	hold(output);
	if ((output->is_directory ? create_directory(template) : reserve_name(template)) != 0) {
		free(template);
		return fail_errno(error, output->path, "cannot create");
	}
	output->temporary = template;
	if (!output->is_directory)
		release(output); /* nothing exists yet under the reserved name */
	return interrupt_check(error);
}

/* Begins an output; after a failure nothing is held. */
static int begin_or_release(struct output *output, const char *path, struct error *error)
{
	int code = begin(output, path, error);

	if (code != EXIT_OK)
		output_abandon(output);
	return code;
}

/* Whether two names lead to one file or directory. */
static bool is_same(const char *a, const char *b)
{
	struct stat left, right;

	return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev &&
	       left.st_ino == right.st_ino;
}

int output_check_apart(const char *path, const char *input, struct error *error)
{
	if (!is_same(path, input))
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: is the input, or the directory it is in; name another output", path);
}

int output_begin_file(struct output *output, const char *path, bool force, struct error *error)
{
	*output = (struct output){.force = force};
	return begin_or_release(output, path, error);
}

int output_begin_directory(struct output *output, const char *path, bool force, struct error *error)
{
	*output = (struct output){.force = force, .is_directory = true};
	return begin_or_release(output, path, error);
}

const char *output_build(struct output *output)
{
	hold(output);
	return output->temporary;
}

char *output_member(const struct output *output, const char *name)
{
	size_t size = strlen(output->temporary) + strlen(name) + sizeof "/";
	char *path = malloc(size);

	if (path != NULL)
		snprintf(path, size, "%s/%s", output->temporary, name);
	return path;
}

int output_write_file(const char *path, const void *bytes, size_t n, struct error *error)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return fail_errno(error, path, "cannot create");
	int code = descriptor_write(fd, path, 0, bytes, n, error);
	if (code == EXIT_OK)
		return descriptor_finish(fd, path, error);
	close(fd);
	return code;
}

/* The special ways of renaming that renameat2() offers, where the C library has it. */
enum rename_way { RENAME_TO_NEW, RENAME_SWAP };

static int rename_special(const char *from, const char *to, enum rename_way way)
{
#ifdef HAVE_RENAMEAT2
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, way == RENAME_SWAP ? RENAME_EXCHANGE : RENAME_NOREPLACE);
#else
	(void)from, (void)to, (void)way;
	errno = ENOSYS;
	return -1;
#endif
}

/* Whether the system or the file system lacks the special ways of renaming. */
static bool is_unsupported(int code)
{
	return code == ENOSYS || code == EINVAL || code == ENOTSUP;
}

/* Renames to a name that does not exist. If the system cannot ensure that, relies on the check just made. */
static int rename_new(const char *from, const char *to)
{
	int status = rename_special(from, to, RENAME_TO_NEW);

	return status != 0 && is_unsupported(errno) ? rename(from, to) : status;
}

/* Lets two directories swap their names. Without the system's help the final name is missing for a moment, but both
   contents stay. */
static int swap(const char *built, const char *final)
{
	int status = rename_special(built, final, RENAME_SWAP);

	if (status == 0 || !is_unsupported(errno))
		return status;
	char *aside = make_template(final);
	if (aside == NULL) {
		errno = ENOMEM;
		return -1;
	}
	if (mkdtemp(aside) == NULL || rename(final, aside) != 0) {
		int saved = errno;

		rmdir(aside);
		free(aside);
		errno = saved;
		return -1;
	}
	status = rename(built, final);
	if (rename(aside, status == 0 ? built : final) != 0)
		status = -1;
	free(aside);
	return status;
}

/* Gives the final name to a directory that replaces one, and removes the old one, now under the temporary name. */
static int replace_directory(struct output *output, struct error *error)
{
	if (swap(output->temporary, output->path) != 0)
		return fail_errno(error, output->path, "cannot replace");
	int code = directory_check_ours(output->temporary, error);
	if (code == EXIT_OK && directory_remove(output->temporary) != 0)
		code = fail_errno(error, output->temporary, "the old content could not be removed");
	free(output->temporary);
	output->temporary = NULL;
	return code;
}

static int give_name(struct output *output, bool exists, struct error *error)
{
	if (exists && output->is_directory)
		return replace_directory(output, error);
	int status = exists ? rename(output->temporary, output->path) : rename_new(output->temporary, output->path);
	if (status != 0)
		return fail_errno(error, output->path, "cannot create");
	free(output->temporary);
	output->temporary = NULL;
	return EXIT_OK;
}

bool output_same_name(const struct output *a, const struct output *b)
{
	char *left = directory_of(a->path), *right = directory_of(b->path);
	bool same = strcmp(base_name(a->path), base_name(b->path)) == 0 &&
	            (left == NULL || right == NULL || is_same(left, right));

	free(left);
	free(right);
	return same;
}

int output_check_commit(const struct output *output, struct error *error)
{
	bool exists;
	int code = interrupt_check(error);

	return code == EXIT_OK ? check_target(output, &exists, error) : code;
}

int output_commit(struct output *output, struct error *error)
{
	bool exists;
	char *parent = directory_of(output->path);
	int code = parent == NULL ? fail_memory(error) : interrupt_check(error);

	if (code == EXIT_OK)
		code = check_target(output, &exists, error);
	if (code == EXIT_OK && output->is_directory)
		code = directory_sync(output->temporary, error);
	if (code == EXIT_OK)
		code = give_name(output, exists, error);
	if (code == EXIT_OK)
		code = directory_sync(parent, error);
	if (output->temporary == NULL)
		release(output);
	free(parent);
	return code;
}

void output_abandon(struct output *output)
{
	if (output->temporary != NULL) {
		if (output->is_directory)
			directory_remove(output->temporary);
		else
			unlink(output->temporary);
	}
	release(output);
	free(output->temporary);
	free(output->path);
	*output = (struct output){0};
}
