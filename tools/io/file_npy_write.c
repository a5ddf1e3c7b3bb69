/* SPDX-License-Identifier: MIT */
/* Writer of .npy files, whose layout file_npy.c describes: version 1.0, C order, as NumPy itself writes them. */
#include "config.h"

#include "io/file_npy.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/descriptor.h"

enum {
	LENGTH_AT = 8,
	START = 10,           /* of the header's text */
	ALIGNMENT = 64,       /* of the data */
	START_BYTES = 2048,   /* room for the numbers of NPY_RANK_MAX dimensions */
	WRITE_PIECE = 1 << 16 /* numbers */
};

/* All before the data, and its length. */
static size_t format_start(char start[START_BYTES], const char *descr, unsigned rank, const uint64_t *shape)
{
	size_t n = START;

	memset(start, 0, START_BYTES);
	n += (size_t)snprintf(start + n, START_BYTES - n, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (unsigned i = 0; i < rank; i++)
		n += (size_t)snprintf(start + n, START_BYTES - n, "%s%" PRIu64, i == 0 ? "" : ", ", shape[i]);
	n += (size_t)snprintf(start + n, START_BYTES - n, "%s), }", rank == 1 ? "," : "");
	size_t end = (n + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

	memcpy(start, NPY_MAGIC, sizeof NPY_MAGIC - 1);
	start[sizeof NPY_MAGIC - 1] = 1;
	start[LENGTH_AT] = (char)((end - START) & 0xFF);
	start[LENGTH_AT + 1] = (char)((end - START) >> 8);
	memset(start + n, ' ', end - n - 1);
	start[end - 1] = '\n';
	return end;
}

int npy_lay_out(struct writer *writer, struct error *error)
{
	char start[START_BYTES];

	if (writer->n_tensors != 1)
		return fail(error, EXIT_INPUT, "%s: an .npy file holds one array, and here are %zu / name a .safetensors file",
		            writer->path, writer->n_tensors);
	struct tensor *tensor = writer->tensors;
	const char *descr = npy_descr(tensor->dtype);
	if (descr == NULL || tensor->rank > NPY_RANK_MAX)
		return fail_tensor(error, writer->path, tensor->name, "is %s of %u dimensions, which NumPy has not / name a "
		                   ".safetensors file", dtype_info(tensor->dtype)->name, tensor->rank);
	tensor->offset = 0;
	writer->header_bytes = format_start(start, descr, tensor->rank, tensor->shape);
	return EXIT_OK;
}

int npy_finish(const struct writer *writer, struct error *error)
{
	const struct tensor *tensor = writer->tensors;
	char start[START_BYTES];
	size_t n = format_start(start, npy_descr(tensor->dtype), tensor->rank, tensor->shape);

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
	size_t n = format_start(start, npy_descr(DTYPE_F32), 2, shape);
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
