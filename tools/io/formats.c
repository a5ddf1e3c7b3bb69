/* SPDX-License-Identifier: MIT */
/* The table of file formats, and file_open(), which finds a file's format. */
#include "config.h"

#include <string.h>

#include "base/suffix.h"
#include "io/file.h"
#include "io/file_gguf.h"
#include "io/file_npy.h"
#include "io/file_safetensors.h"
#include "io/foreign.h"

const struct file_format *const file_formats[] = {&file_safetensors, &file_gguf, &file_npy, NULL};

const struct file_format *file_format_named(const char *path)
{
	const struct file_format *const *format = file_formats;

	while (*format != NULL && suffix_stem(path, (*format)->suffix) == 0)
		format++;
	return *format;
}

const struct file_format *file_format_probed(const unsigned char first[FILE_PROBE_BYTES])
{
	const struct file_format *const *format = file_formats;

	while (*format != NULL && !(*format)->probe(first))
		format++;
	return *format;
}

/* What no format's first bytes are and foreign.h does not know. A file that has a format's name and is no text goes to that
   format, which says what is wrong. */
static int refuse_unknown(const struct file *file, const unsigned char *first, size_t n, struct error *error)
{
	const bool named = file->format != NULL;

	if (file->size_bytes == 0)
		return fail(error, EXIT_INPUT, "%s: is empty; download or make it again", file->path);
	if (first[0] == '{' && suffix_stem(file->path, ".json") > 0)
		return fail(error, EXIT_INPUT, "%s: is JSON, not weights; name the directory that it is in, or a *.safetensors.index.json",
		            file->path);
	if (first[0] == '{')
		return fail(error, EXIT_INPUT, "%s: is JSON, such as an index or a server's message, not weights; download the file "
		            "again", file->path);
	if (foreign_is_text(first, n) && (named || n > 16))
		return fail(error, EXIT_INPUT, "%s: is text, not weights; %s", file->path,
		            named ? "see what it says, and download the file again" : "give a model");
	return named ? EXIT_OK :
	       fail(error, EXIT_INPUT, "%s: is not in a known file format; give a %s, %s or %s file", file->path,
	            file_safetensors.suffix, file_gguf.suffix, file_npy.suffix);
}

/* By the name, so that errors say what is wrong with a damaged file; without a known suffix, by the first `n` bytes. What
   they show to be something else is said. */
static int recognize(struct file *file, const unsigned char first[FILE_PROBE_BYTES], size_t n, struct error *error)
{
	const struct file_format *named = file_format_named(file->path), *probed = file_format_probed(first);

	if (named != NULL && named->probe(first))
		probed = named;
	int code = probed == NULL || (named != NULL && probed != named) ? foreign_check(file->path, first, n, error) : EXIT_OK;
	if (code != EXIT_OK)
		return code;
	if (named != NULL && probed != NULL && probed != named)
		return fail(error, EXIT_INPUT, "%s: is a %s file; give it a name that ends in %s", file->path, probed->name,
		            probed->suffix);
	file->format = named != NULL ? named : probed;
	return probed == NULL ? refuse_unknown(file, first, n, error) : EXIT_OK;
}

/* The part of file_open() that needs file_close() after a failure. */
static int open_format(struct file *file, struct error *error)
{
	unsigned char first[FILE_PROBE_BYTES] = {0};
	size_t n = file->size_bytes < sizeof first ? (size_t)file->size_bytes : sizeof first;
	int code = handle_read(file->handle, 0, first, n, error);

	if (code == EXIT_OK)
		code = recognize(file, first, n, error);
	return code == EXIT_OK ? file->format->open(file, error) : code;
}

int file_open_by(descriptor_opener *opener, struct file *file, const char *path, struct error *error)
{
	*file = (struct file){.path = strdup(path)};
	if (file->path == NULL)
		return fail_memory(error);
	int code = handle_open(&file->handle, opener, path, error);
	if (code == EXIT_OK) {
		file->size_bytes = (uint64_t)handle_status(file->handle)->st_size;
		code = open_format(file, error);
	}
	if (code != EXIT_OK)
		file_close(file);
	return code;
}

int file_open(struct file *file, const char *path, struct error *error)
{
	return file_open_by(descriptor_open, file, path, error);
}
