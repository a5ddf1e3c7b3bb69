/* SPDX-License-Identifier: MIT */
/* The table of file formats, and file_open(), which finds a file's format. */
#include "config.h"

#include <string.h>

#include "base/suffix.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "io/file_gguf.h"
#include "io/file_npy.h"
#include "io/file_safetensors.h"

const struct file_format *const file_formats[] = {&file_safetensors, &file_gguf, &file_npy, NULL};

const struct file_format *file_format_named(const char *path)
{
	const struct file_format *const *format = file_formats;

	while (*format != NULL && suffix_stem(path, (*format)->suffix) == 0)
		format++;
	return *format;
}

/* By the name, so that errors say what is wrong with a damaged file; without a known suffix, by the first bytes. */
static const struct file_format *recognize(const char *path, const unsigned char first[FILE_PROBE_BYTES])
{
	const struct file_format *named = file_format_named(path);
	const struct file_format *const *format = file_formats;

	if (named != NULL)
		return named;
	while (*format != NULL && !(*format)->probe(first))
		format++;
	return *format;
}

/* The part of file_open() that needs file_close() after a failure. */
static int open_format(struct file *file, struct error *error)
{
	unsigned char first[FILE_PROBE_BYTES] = {0};
	size_t n = file->size_bytes < sizeof first ? (size_t)file->size_bytes : sizeof first;
	int code = descriptor_read(file->fd, file->path, 0, first, n, error);

	if (code != EXIT_OK)
		return code;
	const struct file_format *format = recognize(file->path, first);
	if (format == NULL)
		return fail(error, EXIT_INPUT, "%s: is of no known file format; give a %s, %s or %s file", file->path,
		            file_safetensors.suffix, file_gguf.suffix, file_npy.suffix);
	file->format = format;
	return format->open(file, error);
}

int file_open(struct file *file, const char *path, struct error *error)
{
	*file = (struct file){.fd = -1, .path = strdup(path)};
	if (file->path == NULL)
		return fail_memory(error);
	int code = descriptor_open(path, &file->fd, &file->size_bytes, error);
	if (code == EXIT_OK)
		code = open_format(file, error);
	if (code != EXIT_OK)
		file_close(file);
	return code;
}
