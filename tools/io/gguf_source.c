/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/gguf_source.h"

#include <inttypes.h>
#include <string.h>

#include "io/descriptor.h"
#include "io/json.h"

static int check_room(const struct gguf_source *source, uint64_t n, const char *what, struct error *error)
{
	if (n > source->size - source->at)
		return fail(error, EXIT_INPUT, "%s: %s: takes %" PRIu64 " bytes, more than the file has / it may have "
		            "been cut off", source->path, what, n);
	if (n > GGUF_HEADER_MAX - source->at)
		return fail(error, EXIT_INPUT, "%s: %s: takes %" PRIu64 " bytes, with which the header has more than "
		            "the 1 GiB allowed", source->path, what, n);
	return EXIT_OK;
}

static int fill(struct gguf_source *source, struct error *error)
{
	uint64_t left = source->size - source->at;

	source->from = source->at;
	source->n = left < GGUF_SOURCE_BYTES ? (size_t)left : GGUF_SOURCE_BYTES;
	return descriptor_read(source->fd, source->path, source->from, source->bytes, source->n, error);
}

int gguf_take(struct gguf_source *source, void *bytes, size_t n, const char *what, struct error *error)
{
	unsigned char *to = bytes;
	int code = check_room(source, n, what, error);

	while (n > 0 && code == EXIT_OK) {
		uint64_t skipped = source->at - source->from;

		if (skipped >= source->n) {
			code = fill(source, error);
			continue;
		}
		size_t have = source->n - (size_t)skipped, piece = n < have ? n : have;
		memcpy(to, source->bytes + skipped, piece);
		to += piece;
		n -= piece;
		source->at += piece;
	}
	return code;
}

static int take_number(struct gguf_source *source, unsigned n, uint64_t *value, const char *what, struct error *error)
{
	unsigned char bytes[sizeof *value];
	int code = gguf_take(source, bytes, n, what, error);

	*value = 0;
	for (unsigned i = n; i-- > 0 && code == EXIT_OK;)
		*value = *value << 8 | bytes[i];
	return code;
}

int gguf_take_u32(struct gguf_source *source, uint32_t *value, const char *what, struct error *error)
{
	uint64_t number;
	int code = take_number(source, sizeof *value, &number, what, error);

	*value = (uint32_t)number;
	return code;
}

int gguf_take_u64(struct gguf_source *source, uint64_t *value, const char *what, struct error *error)
{
	return take_number(source, sizeof *value, value, what, error);
}

int gguf_skip(struct gguf_source *source, uint64_t n, const char *what, struct error *error)
{
	int code = check_room(source, n, what, error);

	if (code == EXIT_OK)
		source->at += n;
	return code;
}

/* Whether the bytes are UTF-8 without a NUL. EXIT_MEMORY. */
static int check_text(const char *bytes, size_t n, bool *valid, struct error *error)
{
	json_prepare();
	json_t *string = json_stringn(bytes, n);

	*valid = string != NULL && memchr(bytes, '\0', n) == NULL;
	json_decref(string);
	return json_out_of_memory() ? fail_memory(error) : EXIT_OK;
}

int gguf_take_string(struct gguf_source *source, struct arena *arena, uint64_t max, const char **text,
                     const char *what, struct error *error)
{
	uint64_t n;
	bool valid;
	int code = gguf_take_u64(source, &n, what, error);

	*text = NULL;
	if (code == EXIT_OK && n > max)
		return gguf_skip(source, n, what, error);
	if (code == EXIT_OK)
		code = check_room(source, n, what, error);
	if (code != EXIT_OK)
		return code;
	char *copy = arena_take(arena, (size_t)n + 1);
	if (copy == NULL)
		return fail_memory(error);
	code = gguf_take(source, copy, (size_t)n, what, error);
	copy[n] = '\0';
	if (code == EXIT_OK)
		code = check_text(copy, (size_t)n, &valid, error);
	if (code == EXIT_OK && valid)
		*text = copy;
	return code;
}
