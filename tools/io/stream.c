/* SPDX-License-Identifier: MIT */
/* Raw input and output on file descriptors, unbuffered, so that a reader sees bytes as soon as they are known. */
#include "config.h"

#include "io/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "io/remote.h"

static bool is_standard(const char *path)
{
	return path == NULL || strcmp(path, "-") == 0;
}

/* Whether a file that the user named begins as one of tensors, whose header is no numbers. */
static int check_raw(const struct source *source, struct error *error)
{
	unsigned char first[FILE_PROBE_BYTES] = {0};

	if (!source->seekable || source->fd == STDIN_FILENO || pread(source->fd, first, sizeof first, 0) <= 0)
		return EXIT_OK;
	const struct file_format *format = file_format_probed(first);
	return format == NULL ? EXIT_OK :
	       fail(error, EXIT_INPUT, "%s: is a file of format %s, whose header would be taken for numbers; save the numbers alone, "
	            "as numpy's tofile() does, or pipe it in if that is meant", source->name, format->name);
}

int source_open(struct source *source, const char *path, struct error *error)
{
	struct stat status;

	*source = (struct source){.name = is_standard(path) ? "standard input" : path, .fd = STDIN_FILENO};
	if (!is_standard(path))
		source->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (source->fd == -1)
		return remote_fail_open(path, error);
	if (fstat(source->fd, &status) != 0 || S_ISDIR(status.st_mode)) {
		if (S_ISDIR(status.st_mode))
			errno = EISDIR;
		fail_errno(error, source->name, "cannot read");
		source_close(source);
		return EXIT_IO;
	}
	off_t start = S_ISREG(status.st_mode) ? lseek(source->fd, 0, SEEK_CUR) : -1;
	source->seekable = start == 0;
	source->size = start >= 0 && status.st_size > start ? (uint64_t)(status.st_size - start) : 0;
	int code = check_raw(source, error);
	if (code != EXIT_OK)
		source_close(source);
	return code;
}

int source_read(const struct source *source, void *buffer, size_t size, size_t *n, struct error *error)
{
	for (;;) {
		ssize_t got = read(source->fd, buffer, size);
		int code = interrupt_check(error);
		if (code != EXIT_OK)
			return code;
		if (got >= 0) {
			*n = (size_t)got;
			return EXIT_OK;
		}
		if (errno != EINTR)
			return fail_errno(error, source->name, "cannot read");
	}
}

int source_fill(const struct source *source, void *buffer, size_t size, size_t *n, struct error *error)
{
	size_t got = 0;

	for (*n = 0; *n < size; *n += got) {
		int code = source_read(source, (char *)buffer + *n, size - *n, &got, error);
		if (code != EXIT_OK)
			return code;
		if (got == 0)
			break;
	}
	return EXIT_OK;
}

int source_rewind(const struct source *source, struct error *error)
{
	return lseek(source->fd, 0, SEEK_SET) == 0 ? EXIT_OK : fail_errno(error, source->name, "cannot seek");
}

int source_check_apart(const struct source *source, const char *sink, struct error *error)
{
	if (is_standard(sink))
		return EXIT_OK;
	return output_check_apart(sink, source->fd == STDIN_FILENO ? "/dev/stdin" : source->name, error);
}

void source_close(struct source *source)
{
	if (source->fd > STDERR_FILENO)
		close(source->fd);
	source->fd = -1;
}

int sink_open(struct sink *sink, const char *path, bool force, struct error *error)
{
	*sink = (struct sink){.name = is_standard(path) ? "standard output" : path, .fd = STDOUT_FILENO};
	if (is_standard(path)) {
		if (isatty(STDOUT_FILENO))
			return fail(error, EXIT_USAGE,
			            "standard output is a terminal, which cannot show raw bytes; name an output "
			            "file, or pipe into xxd");
		return EXIT_OK;
	}
	int code = output_begin_file(&sink->output, path, force, error);
	if (code != EXIT_OK)
		return code;
	sink->fd = open(output_build(&sink->output), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (sink->fd == -1) {
		fail_errno(error, sink->output.temporary, "cannot create");
		sink_end(sink);
		return EXIT_IO;
	}
	return EXIT_OK;
}

int sink_write(const struct sink *sink, const void *bytes, size_t n, struct error *error)
{
	const char *next = bytes;

	while (n != 0) {
		ssize_t written = write(sink->fd, next, n);
		int failure = written < 0 ? errno : 0;
		int code = interrupt_check(error);
		if (code != EXIT_OK)
			return code;
		if (failure != 0 && failure != EINTR) {
			errno = failure;
			return fail_errno(error, sink->name, "cannot write");
		}
		if (written > 0) {
			next += written;
			n -= (size_t)written;
		}
	}
	return EXIT_OK;
}

/* Completes the contents of a file. */
static int finish(struct sink *sink, struct error *error)
{
	int code = descriptor_finish(sink->fd, sink->name, error);

	sink->fd = -1;
	return code;
}

int sink_commit(struct sink *sink, struct error *error)
{
	if (sink->output.path == NULL)
		return EXIT_OK;
	int code = finish(sink, error);
	return code == EXIT_OK ? output_commit(&sink->output, error) : code;
}

int sink_commit_pair(struct sink sinks[2], struct error *error)
{
	int code = EXIT_OK;

	for (int i = 0; i < 2 && code == EXIT_OK; i++)
		code = finish(&sinks[i], error);
	for (int i = 0; i < 2 && code == EXIT_OK; i++)
		code = output_check_commit(&sinks[i].output, error);
	for (int i = 0; i < 2 && code == EXIT_OK; i++)
		code = output_commit(&sinks[i].output, error);
	return code;
}

void sink_end(struct sink *sink)
{
	if (sink->output.path != NULL && sink->fd != -1)
		close(sink->fd);
	sink->fd = -1;
	output_abandon(&sink->output);
}
