/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/content.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "internal.h"
#include "io/descriptor.h"
#include "mxfp/exec.h"

enum { PIECE_BYTES = 1 << 17, WORKERS = 16 };

struct hashing {
	const struct content *content;
	size_t n_pieces;
	XXH128_canonical_t *hashes; /* of pieces */
	pthread_mutex_t lock;       /* for what follows */
	size_t next;
	size_t failed;              /* the first piece of those */
	int code;
	struct error error;
};

/* Reads n bytes from byte `at` of all on. */
static int read_piece(const struct content *content, uint64_t at, unsigned char *bytes, size_t n, struct error *error)
{
	int code = interrupt_check(error);

	for (size_t i = 0; n > 0 && code == EXIT_OK; i++) {
		const struct content_range *range = &content->ranges[i];

		if (at >= range->n) {
			at -= range->n;
			continue;
		}
		const size_t here = range->n - at < n ? (size_t)(range->n - at) : n;
		code = content->read(content->context, range->from + at, bytes, here, error);
		bytes += here;
		n -= here;
		at = 0;
	}
	return code;
}

static uint64_t bytes_of(const struct content *content)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < content->n; i++)
		bytes += content->ranges[i].n;
	return bytes;
}

static int hash_piece(const struct hashing *h, size_t piece, unsigned char *bytes, struct error *error)
{
	const uint64_t at = (uint64_t)piece * PIECE_BYTES, left = bytes_of(h->content) - at;
	const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
	const int code = bytes == NULL ? fail_memory(error) : read_piece(h->content, at, bytes, n, error);

	if (code == EXIT_OK)
		XXH128_canonicalFromHash(&h->hashes[piece], XXH3_128bits(bytes, n));
	return code;
}

static void work(void *context, size_t worker)
{
	struct hashing *h = context;
	struct error error;

	(void)worker;
	pthread_mutex_lock(&h->lock);
	unsigned char *bytes = h->next < h->n_pieces ? malloc(PIECE_BYTES) : NULL;
	while (h->next < h->n_pieces && h->code == EXIT_OK) {
		const size_t piece = h->next++;

		pthread_mutex_unlock(&h->lock);
		const int code = hash_piece(h, piece, bytes, &error);
		pthread_mutex_lock(&h->lock);
		if (code == EXIT_OK || (h->code != EXIT_OK && h->failed < piece))
			continue;
		h->code = code;
		h->failed = piece;
		h->error = error;
	}
	pthread_mutex_unlock(&h->lock);
	free(bytes);
}

int content_hash(XXH128_hash_t *hash, const struct content *content, unsigned threads, struct error *error)
{
	const uint64_t n_pieces = (bytes_of(content) + PIECE_BYTES - 1) / PIECE_BYTES;
	struct hashing h = {.content = content, .n_pieces = (size_t)n_pieces, .lock = PTHREAD_MUTEX_INITIALIZER};

	h.hashes = n_pieces < SIZE_MAX / sizeof *h.hashes ? malloc(((size_t)n_pieces + 1) * sizeof *h.hashes) : NULL;
	if (h.hashes == NULL)
		return fail_memory(error);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = n_pieces > 1 ? threads : 1};
	mxfp_parallel_for(&exec, n_pieces < WORKERS ? (size_t)n_pieces : WORKERS, work, &h);
	if (h.code == EXIT_OK)
		*hash = XXH3_128bits(h.hashes, (size_t)n_pieces * sizeof *h.hashes);
	else
		*error = h.error;
	free(h.hashes);
	return h.code;
}

struct opened {
	int fd;
	const char *path;
};

static int read_opened(const void *context, uint64_t at, void *bytes, size_t n, struct error *error)
{
	const struct opened *opened = context;

	return descriptor_read(opened->fd, opened->path, at, bytes, n, error);
}

int content_hash_descriptor(XXH128_hash_t *hash, int fd, const char *path, const struct content_range *ranges, size_t n, unsigned threads,
                            struct error *error)
{
	const struct opened opened = {fd, path};
	const struct content content = {read_opened, &opened, n, ranges};

	return content_hash(hash, &content, threads, error);
}
