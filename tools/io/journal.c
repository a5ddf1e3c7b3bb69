/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/journal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/descriptor.h"

/* A line's digits at most; lines an item, which is written again where a run finds it damaged. */
enum { LINE_BYTES = 256, LINES = 4, CHECK_BYTES = 17 /* 16 digits and a newline */ };

static uint64_t check_of(const char *line, size_t n)
{
	return XXH3_64bits(line, n);
}

/* Formats a line; returns its length. */
static size_t format(char line[LINE_BYTES], size_t number, const struct journal_record *record)
{
	const struct mxfp_counts *c = &record->counts;
	int n = snprintf(line, LINE_BYTES,
	                 "%zu %016" PRIx64 "%016" PRIx64 " %016" PRIx64 "%016" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64
	                 " %" PRIu64 " %" PRIu64 " ", number, (uint64_t)record->hash.high64, (uint64_t)record->hash.low64,
	                 (uint64_t)record->output.high64, (uint64_t)record->output.low64, c->saturated, c->overflowed,
	                 c->flushed, c->nan, c->inf);

	n += snprintf(line + n, (size_t)(LINE_BYTES - n), "%016" PRIx64 "\n", check_of(line, (size_t)n));
	return (size_t)n;
}

/* Parses a line of `n` bytes with its newline; false if it is invalid. */
static bool parse(const char *bytes, size_t n, size_t *number, struct journal_record *record)
{
	struct mxfp_counts *c = &record->counts;
	uint64_t high, low, output_high, output_low, check;
	char line[LINE_BYTES];

	if (n < CHECK_BYTES || n >= sizeof line)
		return false;
	memcpy(line, bytes, n);
	line[n] = '\0';
	*record = (struct journal_record){.written = true};
	if (sscanf(line, "%zu %16" SCNx64 "%16" SCNx64 " %16" SCNx64 "%16" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
	           " %" SCNu64 " %16" SCNx64, number, &high, &low, &output_high, &output_low, &c->saturated, &c->overflowed,
	           &c->flushed, &c->nan, &c->inf, &check) != 11)
		return false;
	record->hash = (XXH128_hash_t){.low64 = low, .high64 = high};
	record->output = (XXH128_hash_t){.low64 = output_low, .high64 = output_high};
	return check == check_of(line, n - CHECK_BYTES);
}

static void read_lines(struct journal *journal, const char *bytes, size_t size, struct journal_record *records,
                       size_t n)
{
	struct journal_record record;
	const char *end;
	size_t number;

	while ((end = memchr(bytes + journal->bytes, '\n', size - journal->bytes)) != NULL) {
		size_t length = (size_t)(end - (bytes + journal->bytes)) + 1;

		if (parse(bytes + journal->bytes, length, &number, &record) && number < n)
			records[number] = record;
		journal->bytes += length;
	}
}

int journal_open(struct journal *journal, const char *path, struct journal_record *records, size_t n,
                 struct error *error)
{
	struct stat status;

	*journal = (struct journal){.path = path};
	int code = descriptor_open_own(path, O_RDWR | O_CREAT, &journal->fd, error);
	if (code != EXIT_OK)
		return code;
	if (fstat(journal->fd, &status) != 0)
		return fail_errno(error, path, "cannot read");
	const uint64_t most = (uint64_t)(n + 1) * LINES * LINE_BYTES, all = (uint64_t)status.st_size;
	const size_t size = (size_t)(all < most ? all : most);
	char *bytes = malloc(size + 1);
	if (bytes == NULL)
		return fail_memory(error);
	code = descriptor_read(journal->fd, path, 0, bytes, size, error);
	if (code == EXIT_OK)
		read_lines(journal, bytes, size, records, n);
	free(bytes);
	return code;
}

int journal_add(struct journal *journal, size_t number, struct journal_record *record, struct error *error)
{
	char line[LINE_BYTES];
	size_t n = format(line, number, record);
	struct stat status;
	int code = EXIT_OK;

	/* What is behind the last whole line was cut off. */
	if (fstat(journal->fd, &status) != 0 ||
	    ((uint64_t)status.st_size > journal->bytes && ftruncate(journal->fd, (off_t)journal->bytes) != 0))
		code = fail_errno(error, journal->path, "cannot write");
	if (code == EXIT_OK)
		code = descriptor_write(journal->fd, journal->path, journal->bytes, line, n, error);

	if (code == EXIT_OK) {
		journal->bytes += n;
		record->written = true;
	}
	return code;
}

void journal_close(struct journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}
