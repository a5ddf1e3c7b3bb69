/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/logits_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "base/interrupt.h"
#include "io/descriptor.h"
#include "io/room.h"

enum { WORDS = 8, HEADER_BYTES = WORDS * 8, COPY_BYTES = 1 << 22 };

static const char magic[8] = {'M', 'X', 'F', 'P', 'L', 'O', 'G', 'I'};
static const char temporary[] = "temporary file of logits", unique[] = "mxfp-XXXXXX";

/* The header in words. */
enum word { WORD_MAGIC, WORD_VERSION, WORD_VOCABULARY, WORD_ROWS, WORD_HASH };

static const uint64_t version = 1;

static void make_header(uint64_t words[WORDS], const struct logits_kind *kind)
{
	memset(words, 0, HEADER_BYTES);
	words[WORD_VERSION] = version;
	words[WORD_VOCABULARY] = kind->vocabulary;
	words[WORD_ROWS] = kind->rows;
	words[WORD_HASH] = kind->hash;
	little_endian(words, WORDS, 8);
	memcpy(words, magic, sizeof magic);
}

static uint64_t data_bytes(const struct logits_kind *kind)
{
	return kind->rows * kind->vocabulary * sizeof(float);
}

static uint64_t place_of(const struct logits_file *file, uint64_t row)
{
	return HEADER_BYTES + row * file->kind.vocabulary * sizeof(float);
}

bool logits_is_file(const char *path)
{
	char start[sizeof magic];
	struct stat status;
	struct error error;
	uint64_t size;
	int fd;

	/* A directory, or something that must not be opened to look at it, is a model or an error elsewhere. */
	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || descriptor_open(path, &fd, &size, &error) != EXIT_OK)
		return false;
	const bool is = descriptor_read(fd, path, 0, start, sizeof start, &error) == EXIT_OK &&
	                memcmp(start, magic, sizeof magic) == 0;
	close(fd);
	return is;
}

static int check_header(const struct logits_file *file, uint64_t words[WORDS], uint64_t size, struct error *error)
{
	const struct logits_kind *kind = &file->kind;

	if (memcmp(words, magic, sizeof magic) != 0)
		return fail(error, EXIT_INPUT, "%s: is not a file of logits; mxfp eval --save-logits writes one", file->path);
	little_endian(words, WORDS, 8);
	if (words[WORD_VERSION] != version)
		return fail(error, EXIT_INPUT, "%s: has version %" PRIu64 " of logits, and this mxfp knows %" PRIu64
		            "; save them again", file->path, words[WORD_VERSION], version);
	if (words[WORD_VOCABULARY] != kind->vocabulary)
		return fail(error, EXIT_INPUT, "%s: has logits of %" PRIu64 " tokens, and the model's vocabulary is %" PRIu64
		            "; save those of a model with the same vocabulary", file->path, words[WORD_VOCABULARY],
		            kind->vocabulary);
	if (words[WORD_ROWS] != kind->rows || words[WORD_HASH] != kind->hash)
		return fail(error, EXIT_INPUT, "%s: has logits of other tokens (%" PRIu64 " predictions, and here are %" PRIu64
		            "); give the tokens, --context, --skip and --sequences that they were saved with", file->path,
		            words[WORD_ROWS], kind->rows);
	if (size != HEADER_BYTES + data_bytes(kind))
		return fail(error, EXIT_INPUT, "%s: has %" PRIu64 " bytes, and %" PRIu64 " predictions take %" PRIu64
		            "; save the logits again", file->path, size, kind->rows, HEADER_BYTES + data_bytes(kind));
	return EXIT_OK;
}

int logits_open(struct logits_file *file, const char *path, const struct logits_kind *kind, struct error *error)
{
	uint64_t words[WORDS], size;

	*file = (struct logits_file){.kind = *kind, .path = path};
	int code = descriptor_open(path, &file->fd, &size, error);
	if (code != EXIT_OK)
		return code;
	file->open = true;
	if (size < HEADER_BYTES)
		return fail(error, EXIT_INPUT, "%s: has %" PRIu64 " bytes, which is not a file of logits; mxfp eval "
		            "--save-logits writes one", path, size);
	code = descriptor_read(file->fd, path, 0, words, sizeof words, error);
	return code == EXIT_OK ? check_header(file, words, size, error) : code;
}

int logits_create(struct logits_file *file, const struct logits_kind *kind, const char *save, struct error *error)
{
	const char *directory = getenv("TMPDIR");
	char name[4096];
	uint64_t words[WORDS];

	*file = (struct logits_file){.kind = *kind, .path = temporary};
	if (directory == NULL || directory[0] == '\0')
		directory = "/tmp";
	const int length = snprintf(name, sizeof name, "%s/", directory);
	if (length < 0 || (size_t)length + sizeof unique > sizeof name)
		return fail(error, EXIT_IO, "%.1000s: is too long for TMPDIR", directory);
	const uint64_t bytes = HEADER_BYTES + data_bytes(kind);
	const struct room_need needs[] = {{name, bytes}, {save, bytes}};
	int code = room_check(needs, save != NULL ? 2 : 1, "make room, or run fewer tokens; TMPDIR names the directory of a "
	                      "temporary file", error);
	if (code != EXIT_OK)
		return code;
	memcpy(name + length, unique, sizeof unique);
	interrupt_hold();
	file->fd = mkstemp(name);
	const int number = errno;
	if (file->fd >= 0)
		unlink(name);
	interrupt_release();
	errno = number;
	if (file->fd < 0)
		return fail_errno(error, directory, "cannot create a temporary file; TMPDIR names another directory");
	file->open = true;
	fcntl(file->fd, F_SETFD, FD_CLOEXEC);
	make_header(words, kind);
	code = descriptor_write(file->fd, file->path, 0, words, sizeof words, error);
	if (code == EXIT_OK && ftruncate(file->fd, (off_t)bytes) != 0)
		code = fail_errno(error, file->path, "cannot be made large enough; TMPDIR names another directory");
	return code == EXIT_OK ? interrupt_check(error) : code;
}

int logits_read(const struct logits_file *file, uint64_t row, size_t n, float *logits, struct error *error)
{
	const size_t numbers = n * file->kind.vocabulary;
	int code = descriptor_read(file->fd, file->path, place_of(file, row), logits, numbers * sizeof *logits, error);

	if (code == EXIT_OK)
		little_endian(logits, numbers, sizeof *logits);
	return code;
}

int logits_write(const struct logits_file *file, uint64_t row, size_t n, float *logits, struct error *error)
{
	const size_t numbers = n * file->kind.vocabulary;

	little_endian(logits, numbers, sizeof *logits);
	return descriptor_write(file->fd, file->path, place_of(file, row), logits, numbers * sizeof *logits, error);
}

static int copy(const struct logits_file *file, int fd, const char *path, struct error *error)
{
	const uint64_t size = HEADER_BYTES + data_bytes(&file->kind);
	char *bytes = malloc(COPY_BYTES);
	int code = bytes == NULL ? fail_memory(error) : EXIT_OK;

	for (uint64_t at = 0; at < size && code == EXIT_OK; at += COPY_BYTES) {
		const size_t n = size - at < COPY_BYTES ? (size_t)(size - at) : COPY_BYTES;

		code = interrupt_check(error);
		if (code == EXIT_OK)
			code = descriptor_read(file->fd, file->path, at, bytes, n, error);
		if (code == EXIT_OK)
			code = descriptor_write(fd, path, at, bytes, n, error);
	}
	free(bytes);
	return code;
}

int logits_save(const struct logits_file *file, const char *path, struct error *error)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return fail_errno(error, path, "cannot create");
	int code = copy(file, fd, path, error);
	if (code == EXIT_OK)
		return descriptor_finish(fd, path, error);
	close(fd);
	return code;
}

void logits_close(struct logits_file *file)
{
	if (file->open)
		close(file->fd);
	*file = (struct logits_file){.open = false};
}
