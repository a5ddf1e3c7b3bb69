/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "round_trip.h"

#include <unistd.h>

#include "fuzz.h"
#include "input_file.h"
#include "io/file_gguf.h"

static struct error error;

/* The alignment of tensors' data. */
static uint32_t alignment_of(const struct file *file)
{
	return file->format == &file_gguf ? ((const struct gguf *)file->state)->alignment : 1;
}

static void check_tensors(const struct file *file)
{
	const uint32_t alignment = alignment_of(file);
	uint64_t end = 0;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *tensor = &file->tensors[i];
		uint64_t rows, cols;
		char last;

		tensor_matrix(tensor, &rows, &cols);
		fuzz_check(rows * cols == tensor_elements(tensor), "rows and columns give the elements");
		fuzz_check(tensor->offset - end < alignment && tensor->offset % alignment == 0, "tensors are contiguous");
		fuzz_check(file_find(file, tensor->name) == tensor, "a tensor is found by its name");
		if (tensor->size > 0)
			fuzz_check(file_read(file, tensor, tensor->size - 1, &last, 1, &error) == EXIT_OK,
			           "data are read");
		end = tensor->offset + tensor->size;
	}
	fuzz_check(file->data_bytes - end < alignment, "tensors fill the data section");
}

/* Writes a file with the tensors, which the writer may sort, and metadata of `file`; all data is zeros. */
static int write_copy(const struct file *file, struct tensor *tensors, const char *path)
{
	static const char zeros[4096];
	struct writer writer = {.path = path, .format = file->format, .source = file, .n_tensors = file->n_tensors,
	                        .tensors = tensors, .n_metadata = file->n_metadata, .metadata = file->metadata, .fd = -1};
	int code = writer_open(&writer, &error);

	if (code != EXIT_OK)
		return code;
	for (size_t i = 0; i < file->n_tensors; i++)
		for (uint64_t at = 0; at < tensors[i].size; at += sizeof zeros) {
			uint64_t left = tensors[i].size - at;
			size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;

			fuzz_check(writer_write(&writer, &tensors[i], at, zeros, n, &error) == EXIT_OK,
			           "data are written");
		}
	fuzz_check(writer_close(&writer, &error) == EXIT_OK, "the copy is complete");
	return EXIT_OK;
}

/* Whether the GGUF writer derives the value of this key from the tensors. */
static int is_derived(const struct file *file, const char *key)
{
	return file->format == &file_gguf &&
	       (strcmp(key, GGUF_KEY_QUANTIZATION) == 0 || strcmp(key, GGUF_KEY_FILE_TYPE) == 0);
}

static void check_same(const struct file *file, const struct file *copy)
{
	fuzz_check(copy->n_tensors == file->n_tensors && copy->n_metadata >= file->n_metadata, "nothing is lost");
	for (size_t i = 0; i < file->n_metadata; i++) {
		const char *value = file_metadata(copy, file->metadata[i].key);

		fuzz_check(is_derived(file, file->metadata[i].key) ||
		           (value != NULL && strcmp(value, file->metadata[i].value) == 0), "metadata are the same");
	}
	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *a = &file->tensors[i], *b = file_find(copy, a->name);

		fuzz_check(b != NULL && a->dtype == b->dtype && a->rank == b->rank && a->size == b->size &&
		           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0, "tensors are the same");
	}
}

/* The writer refuses GGUF names of the maximum length, because ggml does not read them. */
static int may_be_refused(const struct file *file)
{
	for (size_t i = 0; i < file->n_tensors; i++)
		if (file->format == &file_gguf && strlen(file->tensors[i].name) == GGUF_NAME_MAX)
			return 1;
	return 0;
}

static void check_round_trip(const struct file *file)
{
	char path[512];
	struct tensor *tensors = calloc(file->n_tensors + 1, sizeof *tensors);
	struct file copy;

	fuzz_check(tensors != NULL, "memory for the tensors");
	for (size_t i = 0; i < file->n_tensors; i++)
		tensors[i] = file->tensors[i];
	snprintf(path, sizeof path, "%s.copy%s", file->path, file->format->suffix);
	int code = write_copy(file, tensors, path);
	fuzz_check(code == EXIT_OK || may_be_refused(file), "what was read can be written");
	if (code == EXIT_OK) {
		fuzz_check(file_open(&copy, path, &error) == EXIT_OK, "what was written can be read");
		unlink(path);
		check_tensors(&copy);
		check_same(file, &copy);
		file_close(&copy);
	}
	free(tensors);
}

void round_trip(const uint8_t *data, size_t size, const struct file_format *format)
{
	struct file file;
	int code = file_open(&file, input_file(data, size, format->suffix), &error);

	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a file is read or refused");
	if (code == EXIT_OK) {
		check_tensors(&file);
		check_round_trip(&file);
		file_close(&file);
	} else {
		fuzz_check(error.text[0] != '\0' && strchr(error.text, '\n') == NULL, "a refusal has one line");
	}
}
