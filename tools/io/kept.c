/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "io/descriptor.h"

/* Lines are as long as their numbers at most; a model of 10^6 tensors reads as many ranges of a file. */
enum { LINE_BYTES = 128, COPY_BYTES = 1 << 16, RANGES_MAX = 1 << 21 };

int kept_add(struct kept *kept, uint64_t from, uint64_t n, struct error *error)
{
	/* What is read again and again, or one piece after the other, is one range. */
	if (n == 0)
		return EXIT_OK;
	if (kept->n > 0) {
		struct kept_range *last = &kept->ranges[kept->n - 1];

		if (from >= last->from && from <= last->from + last->n) {
			last->n = from + n > last->from + last->n ? from + n - last->from : last->n;
			return EXIT_OK;
		}
	}
	if ((kept->n & (kept->n + 1)) == 0) {
		struct kept_range *ranges = realloc(kept->ranges, (2 * kept->n + 2) * sizeof *ranges);

		if (ranges == NULL)
			return fail_memory(error);
		kept->ranges = ranges;
	}
	kept->ranges[kept->n++] = (struct kept_range){from, n, 0};
	return EXIT_OK;
}

static int compare(const void *a, const void *b)
{
	const struct kept_range *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

void kept_sort(struct kept *kept)
{
	size_t n = 0;

	if (kept->n == 0)
		return;
	qsort(kept->ranges, kept->n, sizeof *kept->ranges, compare);
	for (size_t i = 1; i < kept->n; i++) {
		struct kept_range *last = &kept->ranges[n];
		const struct kept_range *next = &kept->ranges[i];
		const uint64_t end = next->from + next->n;

		if (next->from > last->from + last->n)
			kept->ranges[++n] = *next;
		else if (end > last->from + last->n)
			last->n = end - last->from;
	}
	kept->n = n + 1;
}

/* Hashes the ranges of a file, at `from` or at `at`, and copies them to `to` from *at on unless that is -1. */
static int copy(const struct kept *kept, int fd, const char *path, int to, const char *to_path, bool by_at, uint64_t start,
                uint64_t *hash, struct error *error)
{
	XXH3_state_t *state = XXH3_createState();
	unsigned char *bytes = malloc(COPY_BYTES);
	int code = state == NULL || bytes == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK)
		XXH3_64bits_reset(state);
	for (size_t i = 0; i < kept->n && code == EXIT_OK; i++)
		for (uint64_t done = 0; done < kept->ranges[i].n && code == EXIT_OK;) {
			const struct kept_range *range = &kept->ranges[i];
			const size_t n = range->n - done < COPY_BYTES ? (size_t)(range->n - done) : COPY_BYTES;

			code = descriptor_read(fd, path, (by_at ? range->at : range->from) + done, bytes, n, error);
			if (code == EXIT_OK && to >= 0)
				code = descriptor_write(to, to_path, start, bytes, n, error);
			if (code == EXIT_OK)
				XXH3_64bits_update(state, bytes, n);
			start += n;
			done += n;
		}
	if (code == EXIT_OK)
		*hash = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	free(bytes);
	return code;
}

/* The text, malloc'ed; NULL without memory. */
static char *make_text(const struct kept *kept, uint64_t hash, size_t *n)
{
	char *text = malloc((kept->n + 2) * LINE_BYTES);

	if (text == NULL)
		return NULL;
	*n = (size_t)sprintf(text, "mxfp.kept 1 %" PRIu64 " %lld %09ld %zu %016" PRIx64 "\n", kept->size,
	                     (long long)kept->changed.tv_sec, (long)kept->changed.tv_nsec, kept->n, hash);
	for (size_t i = 0; i < kept->n; i++)
		*n += (size_t)sprintf(text + *n, "%" PRIu64 " %" PRIu64 "\n", kept->ranges[i].from, kept->ranges[i].n);
	*n += (size_t)sprintf(text + *n, "%016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, *n));
	return text;
}

/* Where the bytes of each range are, behind a text of that length. */
static uint64_t place(struct kept *kept, uint64_t at)
{
	for (size_t i = 0; i < kept->n; i++) {
		kept->ranges[i].at = at;
		at += kept->ranges[i].n;
	}
	return at;
}

/* Writes the bytes behind where the text will be, whose length does not depend on the hash. */
static int write_to(struct kept *kept, int fd, const char *path, int to, const char *to_path, struct error *error)
{
	uint64_t hash = 0;
	size_t n = 0;
	char *text = make_text(kept, hash, &n);
	int code = text == NULL ? fail_memory(error) : EXIT_OK;

	free(text);
	place(kept, n);
	if (code == EXIT_OK)
		code = copy(kept, fd, path, to, to_path, false, n, &hash, error);
	if (code != EXIT_OK)
		return code;
	text = make_text(kept, hash, &n);
	code = text == NULL ? fail_memory(error) : descriptor_write(to, to_path, 0, text, n, error);
	free(text);
	return code;
}

int kept_write(struct kept *kept, int fd, const char *path, const char *to, struct error *error)
{
	/* What stands there may have another name. */
	const int out = unlink(to) == 0 || errno == ENOENT ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;

	if (out < 0)
		return fail_errno(error, to, "cannot create");
	int code = write_to(kept, fd, path, out, to, error);
	if (code == EXIT_OK)
		return descriptor_finish(out, to, error);
	close(out);
	return code;
}

/* Parses a number and the character behind it; false if it is none. */
static bool number(const char **text, char end, uint64_t *value)
{
	char *after;

	if (**text < '0' || **text > '9')
		return false;
	*value = strtoull(*text, &after, 10);
	*text = after + 1;
	return *after == end;
}

/* Parses the first line. */
static bool parse_first(struct kept *kept, const char **text, uint64_t *hash)
{
	static const char magic[] = "mxfp.kept 1 ";
	uint64_t seconds, nanoseconds, n;
	char *after;

	if (strncmp(*text, magic, strlen(magic)) != 0)
		return false;
	*text += strlen(magic);
	if (!number(text, ' ', &kept->size))
		return false;
	const bool before = **text == '-'; /* 1970 */
	*text += before;
	if (!number(text, ' ', &seconds) || !number(text, ' ', &nanoseconds) || !number(text, ' ', &n) ||
	    n > RANGES_MAX)
		return false;
	*hash = strtoull(*text, &after, 16);
	*text = after + 1;
	kept->n = (size_t)n;
	kept->changed = (struct timespec){.tv_sec = before ? -(time_t)seconds : (time_t)seconds, .tv_nsec = (long)nanoseconds};
	return *after == '\n';
}

/* Parses the text, which is NUL-terminated; its length, or 0 if it is none. */
static size_t parse(struct kept *kept, const char *text, uint64_t *hash)
{
	const char *next = text;
	uint64_t end = 0;
	char *after;

	if (!parse_first(kept, &next, hash))
		return 0;
	kept->ranges = calloc(kept->n + 1, sizeof *kept->ranges);
	if (kept->ranges == NULL)
		return SIZE_MAX;
	for (size_t i = 0; i < kept->n; i++) {
		struct kept_range *range = &kept->ranges[i];

		if (!number(&next, ' ', &range->from) || !number(&next, '\n', &range->n) || range->from < end || range->from > kept->size ||
		    range->n > kept->size - range->from)
			return 0;
		end = range->from + range->n;
	}
	const size_t n = (size_t)(next - text);
	const uint64_t check = strtoull(next, &after, 16);
	return *after == '\n' && check == XXH3_64bits(text, n) ? (size_t)(after + 1 - text) : 0;
}

/* Reads as much of the file as the text can be, and a NUL behind it. */
static int read_text(int fd, const char *path, uint64_t size, char **text, struct error *error)
{
	struct kept kept = {0};
	char first[LINE_BYTES] = {0};
	const char *next = first;
	size_t n = 0;
	uint64_t hash;

	*text = NULL;
	int code = descriptor_read(fd, path, 0, first, size < sizeof first - 1 ? (size_t)size : sizeof first - 1, error);
	if (code == EXIT_OK && parse_first(&kept, &next, &hash))
		n = (kept.n + 2) * LINE_BYTES < size ? (kept.n + 2) * LINE_BYTES : (size_t)size;
	if (code == EXIT_OK)
		*text = calloc(n + 1, 1);
	if (code == EXIT_OK && *text == NULL)
		code = fail_memory(error);
	return code == EXIT_OK ? descriptor_read(fd, path, 0, *text, n, error) : code;
}

int kept_read(struct kept *kept, int fd, const char *path, struct error *error)
{
	struct stat status;
	uint64_t hash = 0, found = 0;
	char *text = NULL;

	*kept = (struct kept){0};
	int code = fstat(fd, &status) != 0 ? fail_errno(error, path, "cannot read")
	                                   : read_text(fd, path, (uint64_t)status.st_size, &text, error);
	const size_t length = code == EXIT_OK ? parse(kept, text, &hash) : 0;
	free(text);
	if (code != EXIT_OK)
		return code;
	if (length == SIZE_MAX)
		return fail_memory(error);
	if (length != 0 && place(kept, length) == (uint64_t)status.st_size)
		code = copy(kept, fd, path, -1, NULL, true, 0, &found, error);
	if (code == EXIT_OK && (length == 0 || place(kept, length) != (uint64_t)status.st_size || found != hash))
		return fail(error, EXIT_INPUT, "%s: is damaged, and the shard that it was made of is deleted; what was written lies beside it", path);
	return code;
}

int kept_find(const struct kept *kept, uint64_t from, size_t n, const char *name, uint64_t *at, struct error *error)
{
	size_t low = 0, high = kept->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (kept->ranges[middle].from + kept->ranges[middle].n < from + n)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == kept->n || from < kept->ranges[low].from)
		return fail(error, EXIT_INPUT, "%s: is deleted, and its bytes from %" PRIu64 " on, which this run reads, were not kept", name, from);
	*at = kept->ranges[low].at + (from - kept->ranges[low].from);
	return EXIT_OK;
}

void kept_free(struct kept *kept)
{
	free(kept->ranges);
	*kept = (struct kept){0};
}
