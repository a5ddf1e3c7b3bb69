/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/token_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suffix.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "io/file_npy.h"
#include "io/json.h"

enum {
	PIECE_BYTES = 1 << 16,       /* of a file read at once; a multiple of every id's bytes */
	JSON_BYTES_MAX = 1 << 30,
	SKIPPED_BYTES_MAX = 1 << 26  /* of a member that is not ids */
};

#define IDS_MAX ((size_t)1 << 31)

/* The state of reading one file. */
struct reading {
	struct token_sequences *tokens;
	const char *path;
	uint64_t vocabulary;
	const char *member; /* of an object, that held ids; NULL: none so far */
};

/* Makes room for one more element; the room doubles. */
static int grow(void **array, size_t n, size_t *room, size_t bytes, struct error *error)
{
	const size_t wanted = *room > 0 ? 2 * *room : 64;

	if (n < *room)
		return EXIT_OK;
	void *grown = wanted > SIZE_MAX / bytes ? NULL : realloc(*array, wanted * bytes);
	if (grown == NULL)
		return fail_memory(error);
	*array = grown;
	*room = wanted;
	return EXIT_OK;
}

int tokens_add(struct token_sequences *tokens, uint32_t id, struct error *error)
{
	void *ids = tokens->ids;
	int code = grow(&ids, tokens->n_ids, &tokens->ids_room, sizeof *tokens->ids, error);

	tokens->ids = ids;
	if (code == EXIT_OK)
		tokens->ids[tokens->n_ids++] = id;
	return code;
}

int tokens_end(struct token_sequences *tokens, struct error *error)
{
	void *starts = tokens->starts;
	int code = grow(&starts, tokens->n + 1, &tokens->starts_room, sizeof *tokens->starts, error);

	tokens->starts = starts;
	if (code != EXIT_OK)
		return code;
	tokens->starts[0] = 0;
	tokens->starts[++tokens->n] = tokens->n_ids;
	return EXIT_OK;
}

int tokens_cut(struct token_sequences *tokens, size_t context, struct error *error)
{
	struct token_sequences cut = {0};
	int code = EXIT_OK;

	for (size_t i = 0; i < tokens->n && code == EXIT_OK; i++) {
		const size_t end = tokens->starts[i + 1];

		do {
			const size_t left = end - cut.n_ids;

			cut.n_ids += left < context ? left : context;
			code = tokens_end(&cut, error);
		} while (cut.n_ids < end && code == EXIT_OK);
	}
	if (code != EXIT_OK) {
		free(cut.starts);
		return code;
	}
	free(tokens->starts);
	tokens->starts = cut.starts;
	tokens->starts_room = cut.starts_room;
	tokens->n = cut.n;
	return EXIT_OK;
}

void tokens_free(struct token_sequences *tokens)
{
	free(tokens->starts);
	free(tokens->ids);
	*tokens = (struct token_sequences){0};
}

/* Adds an id, whose magnitude is `id`, to the sequence being read. */
static int add_checked(struct reading *reading, uint64_t id, bool negative, struct error *error)
{
	struct token_sequences *tokens = reading->tokens;
	const size_t start = tokens->n > 0 ? tokens->starts[tokens->n] : 0;

	if (negative || id >= reading->vocabulary || id > UINT32_MAX)
		return fail(error, EXIT_INPUT, "%s: sequence %zu, token %zu: id %s%" PRIu64 " is not one of the model's 0 to %"
		            PRIu64 "; use tokens made for this model, or --text", reading->path, tokens->n,
		            tokens->n_ids - start, negative ? "-" : "", id, reading->vocabulary - 1);
	if (tokens->n_ids == IDS_MAX)
		return fail(error, EXIT_INPUT, "%s: has more than %zu ids; cut the file", reading->path, IDS_MAX);
	return tokens_add(tokens, (uint32_t)id, error);
}

/* A list of ids, or of sequences; `context` is the reading. Ids directly in the outer list are one sequence. */
static int take_id(struct json_text *text, void *context, struct error *error)
{
	struct reading *reading = context;
	uint64_t id;
	const bool negative = json_next(text) == '-';
	int code;

	/* jansson takes no number below -2^63, so what follows the sign is one too. */
	text->at += negative ? 1 : 0;
	code = json_take_natural(text, &id, error);
	return code == EXIT_OK ? add_checked(reading, id, negative, error) : code;
}

static int take_sequence(struct json_text *text, void *context, struct error *error)
{
	struct reading *reading = context;
	int code = json_take_array(text, take_id, reading, error);

	return code == EXIT_OK ? tokens_end(reading->tokens, error) : code;
}

/* Takes ids or sequences, as the first element decides. */
static int take_list(struct json_text *text, struct reading *reading, struct error *error)
{
	struct json_text ahead = *text;

	if (json_next(&ahead) != '[')
		return json_fail(&ahead, "expected a list of token ids", error);
	ahead.at++;
	if (json_next(&ahead) == '[')
		return json_take_array(text, take_sequence, reading, error);
	return take_sequence(text, reading, error);
}

static int take_member(struct json_text *text, const char *key, void *context, struct error *error)
{
	static const char *const names[] = {"seqs", "tokens", "input_ids"};
	struct reading *reading = context;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(key, names[i]) != 0)
			continue;
		if (reading->member != NULL)
			return fail(error, EXIT_INPUT, "%s: has members '%s' and '%s', both of token ids; remove one",
			            reading->path, reading->member, names[i]);
		reading->member = names[i];
		return take_list(text, reading, error);
	}
	return json_skip(text, SKIPPED_BYTES_MAX, error);
}

static int read_json(struct reading *reading, struct error *error)
{
	struct json_text text = {.path = reading->path, .what = "JSON"};
	char *bytes;
	int code = json_read_bytes(descriptor_open, reading->path, JSON_BYTES_MAX, &bytes, &text.n, error);

	if (code != EXIT_OK)
		return code;
	text.bytes = bytes;
	const bool object = json_next(&text) == '{';
	code = object ? json_take_object(&text, take_member, reading, error) : take_list(&text, reading, error);
	if (code == EXIT_OK && object && reading->member == NULL)
		code = fail(error, EXIT_INPUT, "%s: has no member 'seqs', 'tokens' or 'input_ids' with token ids",
		            reading->path);
	if (code == EXIT_OK && (json_next(&text) != '\0' || text.at < text.n))
		code = json_fail(&text, "expected the end of the file", error);
	free(bytes);
	return code;
}

/* Adds the ids of n bytes, each a little-endian word. */
static int add_words(struct reading *reading, const unsigned char *bytes, size_t n, unsigned word_bytes, bool is_signed,
                     struct error *error)
{
	int code = EXIT_OK;

	for (size_t at = 0; at < n && code == EXIT_OK; at += word_bytes) {
		uint64_t id = 0;

		for (unsigned i = word_bytes; i-- > 0;)
			id = id << 8 | bytes[at + i];
		const bool negative = is_signed && id >> (8 * word_bytes - 1) != 0;
		const unsigned unused = 64 - 8 * word_bytes;
		code = add_checked(reading, negative ? (0 - (id << unused)) >> unused : id, negative, error);
	}
	return code;
}

static int read_raw(struct reading *reading, unsigned word_bytes, struct error *error)
{
	unsigned char *piece = malloc(PIECE_BYTES);
	uint64_t size = 0;
	int fd, code = descriptor_open(reading->path, &fd, &size, error);

	if (code != EXIT_OK) {
		free(piece);
		return code;
	}
	if (piece == NULL)
		code = fail_memory(error);
	else if (size % word_bytes != 0)
		code = fail(error, EXIT_INPUT, "%s: has %" PRIu64 " bytes, which are not whole ids of %u bytes; name the file "
		            "by what it holds: .u16, .u32, .npy, .json", reading->path, size, word_bytes);
	for (uint64_t at = 0; at < size && code == EXIT_OK; at += PIECE_BYTES) {
		const size_t n = size - at < PIECE_BYTES ? (size_t)(size - at) : PIECE_BYTES;

		code = descriptor_read(fd, reading->path, at, piece, n, error);
		if (code == EXIT_OK)
			code = add_words(reading, piece, n, word_bytes, false, error);
	}
	close(fd);
	free(piece);
	return code == EXIT_OK && size > 0 ? tokens_end(reading->tokens, error) : code;
}

static int read_u16(struct reading *reading, struct error *error)
{
	return read_raw(reading, 2, error);
}

static int read_u32(struct reading *reading, struct error *error)
{
	return read_raw(reading, 4, error);
}

/* Reads one row of an array in pieces. */
static int read_row(struct reading *reading, const struct file *file, uint64_t from, uint64_t n, unsigned char *piece,
                    struct error *error)
{
	const struct tensor *array = &file->tensors[0];
	const unsigned word_bytes = dtype_info(array->dtype)->bits / 8;
	const bool is_signed = array->dtype == DTYPE_I32 || array->dtype == DTYPE_I64;
	int code = EXIT_OK;

	for (uint64_t at = 0; at < n && code == EXIT_OK; at += PIECE_BYTES) {
		const size_t part = n - at < PIECE_BYTES ? (size_t)(n - at) : PIECE_BYTES;

		code = file_read_rows(file, array, from + at, piece, part, error);
		if (code == EXIT_OK)
			code = add_words(reading, piece, part, word_bytes, is_signed, error);
	}
	return code == EXIT_OK ? tokens_end(reading->tokens, error) : code;
}

static int read_array(struct reading *reading, const struct file *file, struct error *error)
{
	const struct tensor *array = &file->tensors[0];
	const struct dtype_info *info = dtype_info(array->dtype);

	if (array->dtype != DTYPE_U16 && array->dtype != DTYPE_U32 && array->dtype != DTYPE_I32 && array->dtype != DTYPE_I64)
		return fail(error, EXIT_INPUT, "%s: is an array of %s; token ids are u16, u32, i32 or i64", reading->path,
		            info->name);
	if (array->rank != 1 && array->rank != 2)
		return fail(error, EXIT_INPUT, "%s: is an array of %u dimensions; one of ids has 1, or 2 with a sequence in "
		            "each row", reading->path, array->rank);
	if (array->size == 0)
		return EXIT_OK;
	const uint64_t rows = array->rank == 2 ? array->shape[0] : 1, row_bytes = array->size / rows;
	unsigned char *piece = malloc(PIECE_BYTES);
	int code = piece == NULL ? fail_memory(error) : EXIT_OK;
	for (uint64_t row = 0; row < rows && code == EXIT_OK; row++)
		code = read_row(reading, file, row * row_bytes, row_bytes, piece, error);
	free(piece);
	return code;
}

static int read_npy(struct reading *reading, struct error *error)
{
	struct file file;
	int code = file_open(&file, reading->path, error);

	if (code != EXIT_OK)
		return code;
	code = file.format == &file_npy ? read_array(reading, &file, error)
	       : fail(error, EXIT_INPUT, "%s: is not a NumPy array", reading->path);
	file_close(&file);
	return code;
}

typedef int reader(struct reading *reading, struct error *error);

/* The reader of files of that name, or NULL. */
static reader *find_reader(const char *path)
{
	static const struct {
		const char *suffix;
		reader *read;
	} kinds[] = {{".json", read_json}, {".npy", read_npy}, {".u16", read_u16}, {".bin", read_u16}, {".u32", read_u32}};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (suffix_stem(path, kinds[i].suffix) != 0)
			return kinds[i].read;
	return NULL;
}

bool tokens_is_file(const char *path)
{
	return find_reader(path) != NULL;
}

int tokens_read(struct token_sequences *tokens, const char *path, uint64_t vocabulary, struct error *error)
{
	struct reading reading = {.tokens = tokens, .path = path, .vocabulary = vocabulary};
	reader *read = find_reader(path);

	*tokens = (struct token_sequences){0};
	if (read == NULL)
		return fail(error, EXIT_INPUT, "%s: the name of a file of token ids ends in .json, .npy, .u16, .u32 or .bin "
		            "(which is u16); --text reads text", path);
	int code = read(&reading, error);
	if (code == EXIT_OK && tokens->n_ids == 0)
		code = fail(error, EXIT_INPUT, "%s: holds no token ids", path);
	if (code != EXIT_OK)
		tokens_free(tokens);
	return code;
}
