/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/foreign.h"

/* Needs no lock: only the main thread uses jansson. */
static bool out_of_memory;

/*
 * jansson 2.14 overruns a buffer after some failed allocations: it drops the end of a string and then looks for its
 * closing quote. So an allocation that fails is served from here, and its result is discarded.
 */
static _Alignas(max_align_t) unsigned char reserve[1 << 18];
static size_t reserve_used, reserve_pieces;

static void *allocate_reserve(size_t n)
{
	size_t rounded = n / sizeof(max_align_t) * sizeof(max_align_t) + sizeof(max_align_t);

	if (n > sizeof reserve || rounded > sizeof reserve - reserve_used)
		return NULL;
	unsigned char *piece = reserve + reserve_used;
	reserve_used += rounded;
	reserve_pieces++;
	return piece;
}

static void *allocate(size_t n)
{
	void *bytes = malloc(n);

	if (bytes != NULL)
		return bytes;
	out_of_memory = true;
	return allocate_reserve(n);
}

void json_release(void *bytes)
{
	uintptr_t at = (uintptr_t)bytes - (uintptr_t)reserve;

	if (at >= sizeof reserve)
		free(bytes);
	else if (--reserve_pieces == 0)
		reserve_used = 0;
}

void json_prepare(void)
{
	out_of_memory = false;
	json_set_alloc_funcs(allocate, json_release);
}

bool json_out_of_memory(void)
{
	return out_of_memory;
}

int json_read_bytes(descriptor_opener *opener, const char *path, size_t limit, char **bytes, size_t *n,
                    struct error *error)
{
	int fd;
	uint64_t size;
	int code = opener(path, &fd, &size, error);

	if (code != EXIT_OK)
		return code;
	*bytes = NULL;
	if (size > limit)
		code = fail(error, EXIT_INPUT, "%s: has %llu bytes, more than the %zu allowed for JSON", path,
		            (unsigned long long)size, limit);
	else if ((*bytes = malloc((size_t)size + 1)) == NULL)
		code = fail_memory(error);
	else
		code = descriptor_read(fd, path, 0, *bytes, (size_t)size, error);
	if (code == EXIT_OK) {
		(*bytes)[size] = '\0'; /* ends numbers */
		code = foreign_check(path, *bytes, (size_t)size, error);
	}
	close(fd);
	*n = (size_t)size;
	if (code != EXIT_OK) {
		free(*bytes);
		*bytes = NULL;
	}
	return code;
}

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

/* Reports why jansson could not decode the value at byte `at` of the text. */
static int fail_decode(const struct json_text *text, const json_error_t *problem, struct error *error)
{
	struct json_text at = *text;

	if (out_of_memory)
		return fail_memory(error);
	at.at += (size_t)problem->position;
	/* jansson's own message mentions its flags, which mean nothing to the user. */
	bool nul = json_error_code(problem) == json_error_null_character;
	return json_fail(&at, nul ? "a string holds NUL" : problem->text, error);
}

int json_read(descriptor_opener *opener, const char *path, size_t limit, json_t **json, struct error *error)
{
	struct json_text text = {.path = path, .what = "JSON"};
	char *bytes;
	json_error_t problem;
	*json = NULL;
	int code = json_read_bytes(opener, path, limit, &bytes, &text.n, error);

	if (code != EXIT_OK)
		return code;
	text.bytes = bytes;
	json_prepare();
	*json = json_loadb(bytes, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
	if (*json == NULL || out_of_memory) {
		code = fail_decode(&text, &problem, error);
		json_decref(*json);
		*json = NULL;
	}
	free(bytes);
	return code;
}

/* What jansson writes for a string that begins with NUL, up to there. */
#define MARK "\"\\u0000"

enum { MARK_BYTES = sizeof MARK, /* that a mark adds to a constant, with the quote behind */
       CONSTANT_BYTES_MIN = 3 };

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t digits_at(const char *bytes, size_t n, size_t at)
{
	size_t digits = 0;

	while (at + digits < n && bytes[at + digits] >= '0' && bytes[at + digits] <= '9')
		digits++;
	return digits;
}

/* The length of the number that the text begins with; 0: none. Sets the digits before point and exponent, and whether there
   is either. */
static size_t number_length(const char *bytes, size_t n, size_t *whole, bool *real)
{
	const size_t sign = bytes[0] == '-' ? 1 : 0;
	size_t at = sign, digits;

	*whole = digits_at(bytes, n, at);
	*real = false;
	if (*whole == 0 || (bytes[at] == '0' && *whole > 1))
		return 0;
	at += *whole;
	if (at < n && bytes[at] == '.') {
		digits = digits_at(bytes, n, at + 1);
		if (digits == 0)
			return 0;
		at += 1 + digits;
		*real = true;
	}
	if (at < n && (bytes[at] == 'e' || bytes[at] == 'E')) {
		at += at + 1 < n && (bytes[at + 1] == '-' || bytes[at + 1] == '+') ? 2 : 1;
		digits = digits_at(bytes, n, at);
		if (digits == 0)
			return 0;
		at += digits;
		*real = true;
	}
	return at;
}

/* Whether jansson refuses a number that Python reads: an integer past 64 bits, unless it is too long for Python as well, or a
   real number past binary64, which is Inf there. The text ends behind it by a byte that no number has. */
static bool is_too_large(const char *bytes, size_t whole, bool real)
{
	enum { PYTHON_DIGITS_MAX = 4300 };

	errno = 0;
	if (real)
		return isinf(strtod(bytes, NULL));
	return strtoll(bytes, NULL, 10) != 0 && errno == ERANGE && whole <= PYTHON_DIGITS_MAX;
}

/* The length of the value that the text begins with, if Python reads it and jansson does not; 0: it is another. */
static size_t foreign_length(const char *bytes, size_t n)
{
	static const char *const constants[] = {"NaN", "Infinity", "-Infinity"};
	size_t whole;
	bool real;
	const size_t length = number_length(bytes, n, &whole, &real);

	if (length > 0)
		return is_too_large(bytes, whole, real) ? length : 0;
	for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
		if (n >= strlen(constants[i]) && memcmp(bytes, constants[i], strlen(constants[i])) == 0)
			return strlen(constants[i]);
	return 0;
}

/* The same, if a value may be there, after the significant byte `before`. */
static size_t constant_length(const char *bytes, size_t n, char before)
{
	if (before != '\0' && before != ':' && before != ',' && before != '[')
		return 0;
	const size_t length = foreign_length(bytes, n);
	size_t end = length;
	if (length == 0)
		return 0;
	while (end < n && is_space(bytes[end]))
		end++;
	return end == n || bytes[end] == ',' || bytes[end] == ']' || bytes[end] == '}' ? length : 0;
}

/* The length of the string that the text begins with, quotes included; 0 if it holds an escaped NUL, which is at *nul. */
static size_t string_length(const char *bytes, size_t n, size_t *nul)
{
	static const char escaped[] = "\\u0000";
	size_t at = 1;

	while (at < n && bytes[at] != '"') {
		*nul = at;
		if (n - at >= strlen(escaped) && memcmp(bytes + at, escaped, strlen(escaped)) == 0)
			return 0;
		at += bytes[at] == '\\' ? 2 : 1;
	}
	return at < n ? at + 1 : n;
}

/* Copies the text with a mark for each constant; *marked has room for it. */
static int mark_constants(struct json_text *text, char *marked, size_t *n, struct error *error)
{
	char *to = marked, before = '\0';
	size_t nul = 0;

	while (text->at < text->n) {
		const char *bytes = text->bytes + text->at;
		const size_t left = text->n - text->at, constant = constant_length(bytes, left, before);
		const size_t length = constant > 0 ? constant : *bytes == '"' ? string_length(bytes, left, &nul) : 1;

		if (length == 0) {
			text->at += nul;
			return json_fail(text, "a string holds NUL", error);
		}
		to = constant > 0 ? (char *)memcpy(to, MARK, strlen(MARK)) + strlen(MARK) : to;
		to = (char *)memcpy(to, bytes, length) + length;
		if (constant > 0)
			*to++ = '"';
		if (!is_space(*bytes))
			before = *bytes;
		text->at += length;
	}
	text->at = 0;
	*n = (size_t)(to - marked);
	return EXIT_OK;
}

size_t json_restore_constants(char *bytes, size_t n)
{
	const char *from = bytes, *end = bytes + n;
	char *to = bytes;

	while (from < end) {
		const size_t left = (size_t)(end - from);
		const bool marked = left > strlen(MARK) && memcmp(from, MARK, strlen(MARK)) == 0;

		from += marked ? strlen(MARK) : 0;
		while (marked && from < end && *from != '"')
			*to++ = *from++;
		if (marked)
			from++;
		else
			*to++ = *from++;
	}
	return (size_t)(to - bytes);
}

/* Decodes the text with its constants marked. */
static int decode_marked(struct json_text *text, char *marked, json_t **json, struct error *error)
{
	json_error_t problem;
	size_t n = 0;
	int code = mark_constants(text, marked, &n, error);

	if (code != EXIT_OK)
		return code;
	json_prepare();
	*json = json_loadb(marked, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
	if (*json != NULL && !out_of_memory)
		return EXIT_OK;
	if (*json == NULL)
		problem.position = (int)json_restore_constants(marked, (size_t)problem.position);
	json_decref(*json);
	*json = NULL;
	return fail_decode(text, &problem, error);
}

int json_read_python(descriptor_opener *opener, const char *path, size_t limit, json_t **json, struct error *error)
{
	struct json_text text = {.path = path, .what = "JSON"};
	char *bytes;
	*json = NULL;
	int code = json_read_bytes(opener, path, limit, &bytes, &text.n, error);

	if (code != EXIT_OK)
		return code;
	text.bytes = bytes;
	char *marked = malloc(text.n + text.n / CONSTANT_BYTES_MIN * MARK_BYTES + 1);
	code = marked == NULL ? fail_memory(error) : decode_marked(&text, marked, json, error);
	free(marked);
	free(bytes);
	return code;
}

int json_fail(const struct json_text *text, const char *problem, struct error *error)
{
	size_t line = 1;

	if (text->n >= strlen(BYTE_ORDER_MARK) && memcmp(text->bytes, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		problem = "begins with a byte order mark, which Python's json refuses, too; save it as UTF-8 without one";
	for (size_t i = 0; i < text->at && i < text->n; i++)
		line += text->bytes[i] == '\n';
	if (line == 1)
		return fail(error, EXIT_INPUT, "%s: %s, byte %zu: %s", text->path, text->what, text->at, problem);
	return fail(error, EXIT_INPUT, "%s: %s, line %zu, byte %zu: %s", text->path, text->what, line, text->at, problem);
}

char json_next(struct json_text *text)
{
	while (text->at < text->n && is_space(text->bytes[text->at]))
		text->at++;
	return text->at < text->n ? text->bytes[text->at] : '\0';
}

/* Takes the next value, of at most `limit` bytes, by jansson, without reading the rest of the text. */
static int decode(struct json_text *text, size_t limit, json_t **value, struct error *error)
{
	size_t n = text->n - text->at;
	json_error_t problem;

	json_prepare();
	*value = json_loadb(text->bytes + text->at, n < limit ? n : limit,
	                    JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &problem);
	if (*value == NULL || out_of_memory) {
		json_decref(*value);
		*value = NULL;
		return fail_decode(text, &problem, error);
	}
	text->at += (size_t)problem.position;
	return EXIT_OK;
}

int json_take_string(struct json_text *text, json_t **string, struct error *error)
{
	if (json_next(text) != '"')
		return json_fail(text, "expected a string", error);
	return decode(text, SIZE_MAX, string, error);
}

int json_take_copy(struct json_text *text, struct arena *arena, const char **string, struct error *error)
{
	json_t *value;
	int code = json_take_string(text, &value, error);

	if (code != EXIT_OK)
		return code;
	*string = arena_string(arena, json_string_value(value));
	json_decref(value);
	return *string != NULL ? EXIT_OK : fail_memory(error);
}

int json_take_natural(struct json_text *text, uint64_t *number, struct error *error)
{
	char first = json_next(text);
	json_t *value;

	if (first != '-' && (first < '0' || first > '9'))
		return json_fail(text, "expected a whole number", error);
	size_t start = text->at;
	int code = decode(text, SIZE_MAX, &value, error);
	if (code != EXIT_OK)
		return code;
	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		text->at = start;
		code = json_fail(text, "expected a whole number, not negative", error);
	}
	*number = (uint64_t)json_integer_value(value);
	json_decref(value);
	return code;
}

/* Takes one byte of punctuation. */
static int take(struct json_text *text, char expected, struct error *error)
{
	char problem[] = "expected '?'";

	if (json_next(text) == expected) {
		text->at++;
		return EXIT_OK;
	}
	problem[strlen("expected '")] = expected;
	return json_fail(text, problem, error);
}

/* After an item, takes the ',' before the next one, or the `close` that ends the list, and then clears *more. */
static int take_separator(struct json_text *text, char close, bool *more, struct error *error)
{
	char next = json_next(text);

	if (next != ',' && next != close)
		return json_fail(text, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'", error);
	text->at++;
	*more = next == ',';
	return EXIT_OK;
}

/* Takes the bracket that opens a list, and the one that closes it if that follows. */
static int take_opening(struct json_text *text, char open, char close, bool *more, struct error *error)
{
	int code = take(text, open, error);

	if (code != EXIT_OK)
		return code;
	*more = json_next(text) != close;
	if (!*more)
		text->at++;
	return EXIT_OK;
}

int json_take_naturals(struct json_text *text, size_t max, uint64_t *values, size_t *n, struct error *error)
{
	bool more;
	int code = take_opening(text, '[', ']', &more, error);

	*n = 0;
	while (code == EXIT_OK && more) {
		if (*n == max)
			return json_fail(text, "the list is too long", error);
		code = json_take_natural(text, &values[(*n)++], error);
		if (code == EXIT_OK)
			code = take_separator(text, ']', &more, error);
	}
	return code;
}

int json_take_array(struct json_text *text, json_element *element, void *context, struct error *error)
{
	bool more;
	int code = take_opening(text, '[', ']', &more, error);

	while (code == EXIT_OK && more) {
		code = element(text, context, error);
		if (code == EXIT_OK)
			code = take_separator(text, ']', &more, error);
	}
	return code;
}

int json_take_value(struct json_text *text, size_t limit, json_t **value, struct error *error)
{
	json_next(text);
	size_t start = text->at;
	int code = decode(text, limit, value, error);
	if (code != EXIT_OK)
		*value = NULL;
	if (code == EXIT_INPUT && text->n - start > limit)
		code = fail(error, EXIT_INPUT, "%s: %s, byte %zu: this value is not JSON, or larger than %zu bytes",
		            text->path, text->what, start, limit);
	return code;
}

int json_skip(struct json_text *text, size_t limit, struct error *error)
{
	json_t *value;
	int code = json_take_value(text, limit, &value, error);

	json_decref(value);
	return code;
}

/* Takes `"key": value`. */
static int take_member(struct json_text *text, json_member *member, void *context, struct error *error)
{
	json_t *key;
	int code = json_take_string(text, &key, error);

	if (code != EXIT_OK)
		return code;
	code = take(text, ':', error);
	if (code == EXIT_OK)
		code = member(text, json_string_value(key), context, error);
	json_decref(key);
	return code;
}

int json_take_object(struct json_text *text, json_member *member, void *context, struct error *error)
{
	bool more;
	int code = take_opening(text, '{', '}', &more, error);

	while (code == EXIT_OK && more) {
		code = take_member(text, member, context, error);
		if (code == EXIT_OK)
			code = take_separator(text, '}', &more, error);
	}
	return code;
}
