/* SPDX-License-Identifier: MIT */
/*
 * Files of one NumPy array (numpy.org/neps/nep-0001-npy-format, numpy/lib/format.py).
 *
 *   offset  bytes  what
 *   0       6      \x93NUMPY
 *   6       2      version: 1.0, 2.0 or 3.0
 *   8       2 or 4 N, the header's length, little-endian: 2 bytes in version 1.0, else 4
 *   10, 12  N      the header: a Python dictionary, padded with spaces, ended by a newline
 *   then    rest   the array
 *
 * The header is {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order of keys. Any other Python is
 * refused, and so are: lists in descr (records), big-endian numbers, '<V2' (bfloat16 is saved as that, but so are any
 * two bytes), a header over HEADER_MAX bytes, data that are not as long as the shape says, and Fortran order of more
 * than two dimensions. An array in Fortran order has `by_columns` set, unless both orders are the same. Numbers have
 * the same bytes as in safetensors.
 *
 * What is written is version 1.0 in C order, as NumPy itself writes it.
 */
#include "config.h"

#include "io/file_npy.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/descriptor.h"

#define MAGIC "\x93NUMPY"

enum {
	MAGIC_BYTES = sizeof MAGIC - 1,
	LENGTH_AT = 8,
	START = 10,             /* of the header's text in version 1.0 */
	ALIGNMENT = 64,         /* of the data */
	START_BYTES = 2048,     /* room for the numbers of RANK_MAX dimensions */
	WRITE_PIECE = 1 << 16,  /* numbers */
	HEADER_MAX = 65535,     /* what version 1.0 can say; arrays without records have some 100 bytes */
	DESCR_BYTES = 8,
	RANK_MAX = 64           /* NumPy's */
};

enum field { FIELD_DESCR = 1, FIELD_ORDER = 2, FIELD_SHAPE = 4, FIELDS_ALL = 7 };

/* The file's state: what its tensor points to. */
struct array {
	uint64_t shape[RANK_MAX];
};

/* The state of parsing one header; `at` never passes `end`, where the newline is. */
struct header {
	const char *path, *at, *end;
	unsigned fields;
	char descr[DESCR_BYTES];
	bool fortran_order;
	unsigned rank;
	uint64_t *shape;
};

static bool probe(const unsigned char first[FILE_PROBE_BYTES])
{
	return memcmp(first, MAGIC, MAGIC_BYTES) == 0;
}

static void skip_blanks(struct header *h)
{
	while (h->at < h->end && *h->at == ' ')
		h->at++;
}

/* Takes a character and the blanks before it; false if another one follows. */
static bool take(struct header *h, char c)
{
	skip_blanks(h);
	if (h->at == h->end || *h->at != c)
		return false;
	h->at++;
	return true;
}

static int expect(struct header *h, const char *what, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: header: expected %s, but '%.16s' follows", h->path, what, h->at);
}

/* Takes a Python string. Escapes are refused: no known key or descr has one. */
static int take_string(struct header *h, char *text, size_t size, struct error *error)
{
	char quote = take(h, '\'') ? '\'' : '"';
	size_t n = 0;

	if (quote == '"' && !take(h, '"'))
		return expect(h, "a string", error);
	while (h->at + n < h->end && h->at[n] != quote && h->at[n] != '\\' && n + 1 < size)
		n++;
	if (h->at + n == h->end || h->at[n] != quote || memchr(h->at, '\0', n) != NULL)
		return expect(h, "a short string without escapes", error);
	memcpy(text, h->at, n);
	text[n] = '\0';
	h->at += n + 1;
	return EXIT_OK;
}

static bool take_word(struct header *h, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(h);
	if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0)
		return false;
	h->at += n;
	return true;
}

static int take_dimension(struct header *h, struct error *error)
{
	uint64_t value = 0;

	skip_blanks(h);
	if (h->rank == RANK_MAX)
		return fail(error, EXIT_INPUT, "%s: header: more than %d dimensions", h->path, (int)RANK_MAX);
	if (h->at == h->end || *h->at < '0' || *h->at > '9')
		return expect(h, "a whole number", error);
	for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
		unsigned digit = (unsigned)(*h->at - '0');

		if (value > ((uint64_t)INT64_MAX - digit) / 10)
			return fail(error, EXIT_INPUT, "%s: header: a dimension is too large", h->path);
		value = value * 10 + digit;
	}
	h->shape[h->rank++] = value;
	return EXIT_OK;
}

/* Takes "()", "(3,)" or "(3, 4)": a comma must follow a single dimension and may follow the last of more. */
static int take_shape(struct header *h, struct error *error)
{
	if (!take(h, '('))
		return expect(h, "'('", error);
	while (!take(h, ')')) {
		int code = take_dimension(h, error);

		if (code != EXIT_OK)
			return code;
		if (take(h, ','))
			continue;
		if (h->rank == 1 || !take(h, ')'))
			return expect(h, "','", error);
		break;
	}
	return EXIT_OK;
}

static int take_order(struct header *h, struct error *error)
{
	h->fortran_order = take_word(h, "True");
	return h->fortran_order || take_word(h, "False") ? EXIT_OK : expect(h, "True or False", error);
}

static int take_descr(struct header *h, struct error *error)
{
	if (take(h, '['))
		return fail(error, EXIT_INPUT, "%s: holds records; save one field of them", h->path);
	return take_string(h, h->descr, sizeof h->descr, error);
}

static int take_field(struct header *h, struct error *error)
{
	static const struct {
		const char *name;
		enum field field;
		int (*take)(struct header *h, struct error *error);
	} fields[] = {
		{"descr", FIELD_DESCR, take_descr},
		{"fortran_order", FIELD_ORDER, take_order},
		{"shape", FIELD_SHAPE, take_shape},
	};
	char name[16];
	size_t i = 0;
	int code = take_string(h, name, sizeof name, error);

	if (code != EXIT_OK)
		return code;
	while (i < sizeof fields / sizeof fields[0] && strcmp(fields[i].name, name) != 0)
		i++;
	if (i == sizeof fields / sizeof fields[0] || (h->fields & fields[i].field) != 0)
		return fail(error, EXIT_INPUT, "%s: header: key '%s' %s", h->path, name,
		            i < sizeof fields / sizeof fields[0] ? "occurs twice" : "is not known");
	h->fields |= fields[i].field;
	return take(h, ':') ? fields[i].take(h, error) : expect(h, "':'", error);
}

static int take_dictionary(struct header *h, struct error *error)
{
	if (!take(h, '{'))
		return expect(h, "'{'", error);
	while (!take(h, '}')) {
		int code = take_field(h, error);

		if (code != EXIT_OK)
			return code;
		if (take(h, ','))
			continue;
		if (!take(h, '}'))
			return expect(h, "',' or '}'", error);
		break;
	}
	skip_blanks(h);
	if (h->at != h->end)
		return expect(h, "only spaces and a newline", error);
	if (h->fields != FIELDS_ALL)
		return fail(error, EXIT_INPUT, "%s: header: lacks descr, fortran_order or shape", h->path);
	return EXIT_OK;
}

/* Words of one byte have no order, and NumPy writes '|' for it. */
static const struct {
	const char *descr;
	enum dtype dtype;
} dtypes[] = {
	{"<f4", DTYPE_F32}, {"<f2", DTYPE_F16}, {"<f8", DTYPE_F64}, {"|b1", DTYPE_BOOL}, {"|i1", DTYPE_I8},
	{"|u1", DTYPE_U8},  {"<i2", DTYPE_I16}, {"<u2", DTYPE_U16}, {"<i4", DTYPE_I32},  {"<u4", DTYPE_U32},
	{"<i8", DTYPE_I64}, {"<u8", DTYPE_U64}, {"<c8", DTYPE_C64},
};

/* Returns NumPy's name of a dtype, such as "<f4", or NULL. */
static const char *descr_of(enum dtype dtype)
{
	for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
		if (dtypes[i].dtype == dtype)
			return dtypes[i].descr;
	return NULL;
}

static int find_dtype(enum dtype *dtype, const struct header *h, struct error *error)
{
	for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
		if (strcmp(dtypes[i].descr, h->descr) == 0) {
			*dtype = dtypes[i].dtype;
			return EXIT_OK;
		}
	if (h->descr[0] == '>')
		return fail(error, EXIT_INPUT, "%s: dtype '%s' is big-endian; save it as '<%s'", h->path, h->descr,
		            h->descr + 1);
	if (strcmp(h->descr, "<V2") == 0 || strcmp(h->descr, "|V2") == 0)
		return fail(error, EXIT_INPUT, "%s: dtype '%s' says two bytes, not what they mean; if they are "
		            "bfloat16, save them as '<f4', or as a .safetensors file", h->path, h->descr);
	return fail(error, EXIT_INPUT, "%s: dtype '%s' is not known; save it as '<f4'", h->path, h->descr);
}

static int set_tensor(struct file *file, struct header *h, struct error *error)
{
	struct tensor *tensor = calloc(1, sizeof *tensor);

	if (tensor == NULL)
		return fail_memory(error);
	*tensor = (struct tensor){.name = NPY_TENSOR, .rank = h->rank, .shape = h->shape};
	file->tensors = tensor;
	file->n_tensors = 1;
	int code = find_dtype(&tensor->dtype, h, error);
	if (code != EXIT_OK)
		return code;
	if (h->fortran_order && h->rank > 2)
		return fail(error, EXIT_INPUT, "%s: Fortran order of %u dimensions; save it in C order", file->path,
		            h->rank);
	tensor->by_columns = h->fortran_order && h->rank == 2;
	if (!tensor_size(tensor, &tensor->size))
		return fail(error, EXIT_INPUT, "%s: header: the shape is too large", file->path);
	if (tensor->size != file->data_bytes)
		return fail(error, EXIT_INPUT, "%s: has %" PRIu64 " bytes of data but the shape takes %" PRIu64 "%s",
		            file->path, file->data_bytes, tensor->size,
		            file->data_bytes < tensor->size ? "; it may have been cut off: download or copy it again" : "");
	return file_sort_tensors(file, error);
}

/* Checks everything before the header, and sets where header and data begin. */
static int read_start(struct file *file, uint64_t *from, struct error *error)
{
	unsigned char first[FILE_PROBE_BYTES] = {0};
	size_t n = file->size_bytes < sizeof first ? (size_t)file->size_bytes : sizeof first;
	int code = handle_read(file->handle, 0, first, n, error);

	if (code != EXIT_OK)
		return code;
	if (!probe(first))
		return fail(error, EXIT_INPUT, "%s: does not begin as an .npy file does", file->path);
	unsigned version = first[MAGIC_BYTES];
	if (version < 1 || version > 3 || first[MAGIC_BYTES + 1] != 0)
		return fail(error, EXIT_INPUT, "%s: is of version %u.%u; 1.0, 2.0 and 3.0 are known", file->path,
		            version, (unsigned)first[MAGIC_BYTES + 1]);
	*from = LENGTH_AT + (version == 1 ? 2 : 4);
	uint64_t length = 0;
	for (uint64_t i = *from; i-- > LENGTH_AT;)
		length = length << 8 | first[i];
	if (length > HEADER_MAX)
		return fail(error, EXIT_INPUT, "%s: header length %" PRIu64 " is more than the %d allowed", file->path,
		            length, (int)HEADER_MAX);
	if (length == 0 || file->size_bytes < *from + length)
		return fail(error, EXIT_INPUT, "%s: header length %" PRIu64 " is not that of a header, or more than "
		            "the file has; it may have been cut off: download or copy it again", file->path, length);
	file->header_bytes = *from + length;
	file->data_bytes = file->size_bytes - file->header_bytes;
	return EXIT_OK;
}

static int open_array(struct file *file, struct error *error)
{
	uint64_t from = 0;
	int code = read_start(file, &from, error);

	if (code != EXIT_OK)
		return code;
	size_t n = (size_t)(file->header_bytes - from);
	struct array *array = file->state = calloc(1, sizeof *array);
	char *text = calloc(n + 1, 1); /* a NUL at the end, for error texts */
	if (array == NULL || text == NULL)
		code = fail_memory(error);
	else
		code = handle_read(file->handle, from, text, n, error);
	if (code == EXIT_OK && text[n - 1] != '\n')
		code = fail(error, EXIT_INPUT, "%s: the header does not end with a newline", file->path);
	if (code == EXIT_OK) {
		struct header header = {.path = file->path, .at = text, .end = text + n - 1, .shape = array->shape};

		code = take_dictionary(&header, error);
		if (code == EXIT_OK)
			code = set_tensor(file, &header, error);
	}
	free(text);
	return code;
}

static void close_array(struct file *file)
{
	free(file->state);
}

/* Formats everything before the data; returns its length. */
static size_t format_start(char start[START_BYTES], const char *descr, unsigned rank, const uint64_t *shape)
{
	size_t n = START;

	memset(start, 0, START_BYTES);
	n += (size_t)snprintf(start + n, START_BYTES - n, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (unsigned i = 0; i < rank; i++)
		n += (size_t)snprintf(start + n, START_BYTES - n, "%s%" PRIu64, i == 0 ? "" : ", ", shape[i]);
	n += (size_t)snprintf(start + n, START_BYTES - n, "%s), }", rank == 1 ? "," : "");
	size_t end = (n + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

	memcpy(start, MAGIC, sizeof MAGIC - 1);
	start[sizeof MAGIC - 1] = 1;
	start[LENGTH_AT] = (char)((end - START) & 0xFF);
	start[LENGTH_AT + 1] = (char)((end - START) >> 8);
	memset(start + n, ' ', end - n - 1);
	start[end - 1] = '\n';
	return end;
}

static int lay_out(struct writer *writer, struct error *error)
{
	char start[START_BYTES];

	if (writer->n_tensors != 1)
		return fail(error, EXIT_INPUT, "%s: an .npy file holds one array, and here are %zu; name a .safetensors file",
		            writer->path, writer->n_tensors);
	struct tensor *tensor = writer->tensors;
	const char *descr = descr_of(tensor->dtype);
	if (descr == NULL || tensor->rank > RANK_MAX)
		return fail_tensor(error, writer->path, tensor->name, "is %s of %u dimensions, which NumPy does not have; name a "
		                   ".safetensors file", dtype_info(tensor->dtype)->name, tensor->rank);
	tensor->offset = 0;
	writer->header_bytes = format_start(start, descr, tensor->rank, tensor->shape);
	return EXIT_OK;
}

static int finish(const struct writer *writer, struct error *error)
{
	const struct tensor *tensor = writer->tensors;
	char start[START_BYTES];
	size_t n = format_start(start, descr_of(tensor->dtype), tensor->rank, tensor->shape);

	return descriptor_write(writer->fd, writer->path, 0, start, n, error);
}

static int write_numbers(int fd, const char *path, uint64_t at, const float *numbers, size_t n, struct error *error)
{
	float *piece = malloc(WRITE_PIECE * sizeof *piece);
	int code = piece == NULL ? fail_memory(error) : EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i += WRITE_PIECE) {
		size_t bytes = (n - i < WRITE_PIECE ? n - i : WRITE_PIECE) * sizeof *piece;

		memcpy(piece, numbers + i, bytes);
		dtype_swap(DTYPE_F32, piece, bytes);
		code = descriptor_write(fd, path, at + i * sizeof *piece, piece, bytes, error);
	}
	free(piece);
	return code;
}

int npy_write(const char *path, const float *numbers, size_t rows, size_t cols, struct error *error)
{
	const uint64_t shape[] = {rows, cols};
	char start[START_BYTES];
	size_t n = format_start(start, descr_of(DTYPE_F32), 2, shape);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return fail_errno(error, path, "cannot create");
	int code = descriptor_write(fd, path, 0, start, n, error);
	if (code == EXIT_OK)
		code = write_numbers(fd, path, n, numbers, rows * cols, error);
	if (code == EXIT_OK)
		return descriptor_finish(fd, path, error);
	close(fd);
	return code;
}

const struct file_format file_npy = {
	.name = "npy",
	.suffix = ".npy",
	.probe = probe,
	.open = open_array,
	.close = close_array,
	.lay_out = lay_out,
	.finish = finish,
};
