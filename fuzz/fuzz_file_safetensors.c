/* SPDX-License-Identifier: MIT */
/*
 * The reader and the writer of safetensors files.
 *
 * Properties: any bytes are read or refused with EXIT_INPUT and a line of text; the tensors of a file that is read
 * fill its data section and are found by their names; written again and read again, names, dtypes, shapes and
 * metadata are the same.
 *
 * Input: a file. The corpus was made by a script from the format's description.
 */
#include "config.h"

#include <unistd.h>

#include "file.h"
#include "fuzz.h"
#include "input_file.h"

static struct error error;

static void check_tensors(const struct file *file)
{
	uint64_t end = 0;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *tensor = &file->tensors[i];
		uint64_t rows, cols;
		char last;

		tensor_matrix(tensor, &rows, &cols);
		fuzz_check(rows * cols == tensor_elements(tensor), "rows and columns give the elements");
		fuzz_check(tensor->offset == end, "tensors are contiguous");
		fuzz_check(file_find(file, tensor->name) == tensor, "a tensor is found by its name");
		if (tensor->size > 0)
			fuzz_check(file_read(file, tensor, tensor->size - 1, &last, 1, &error) == EXIT_OK,
			           "data are read");
		end += tensor->size;
	}
	fuzz_check(end == file->data_bytes, "tensors fill the data section");
}

/* `tensors` are copies that the writer sorts; all data are zeros. */
static void write_copy(const struct file *file, struct tensor *tensors, const char *path)
{
	static const char zeros[4096];
	struct writer writer = {.path = path, .n_tensors = file->n_tensors, .tensors = tensors,
	                        .n_metadata = file->n_metadata, .metadata = file->metadata, .fd = -1};

	fuzz_check(writer_open(&writer, &error) == EXIT_OK, "what was read can be written");
	for (size_t i = 0; i < file->n_tensors; i++)
		for (uint64_t at = 0; at < tensors[i].size; at += sizeof zeros) {
			uint64_t left = tensors[i].size - at;
			size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;

			fuzz_check(writer_write(&writer, &tensors[i], at, zeros, n, &error) == EXIT_OK,
			           "data are written");
		}
	fuzz_check(writer_close(&writer, &error) == EXIT_OK, "the copy is complete");
}

static void check_same(const struct file *file, const struct file *copy)
{
	fuzz_check(copy->n_tensors == file->n_tensors && copy->n_metadata == file->n_metadata,
	           "the numbers are the same");
	for (size_t i = 0; i < file->n_metadata; i++)
		fuzz_check(strcmp(copy->metadata[i].key, file->metadata[i].key) == 0 &&
		           strcmp(copy->metadata[i].value, file->metadata[i].value) == 0, "metadata are the same");
	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *a = &file->tensors[i], *b = file_find(copy, a->name);

		fuzz_check(b != NULL && a->dtype == b->dtype && a->rank == b->rank && a->size == b->size &&
		           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0, "tensors are the same");
	}
}

static void check_round_trip(const struct file *file)
{
	char path[512];
	struct tensor *tensors = calloc(file->n_tensors + 1, sizeof *tensors);
	struct file copy;

	fuzz_check(tensors != NULL, "memory for the tensors");
	for (size_t i = 0; i < file->n_tensors; i++)
		tensors[i] = file->tensors[i];
	snprintf(path, sizeof path, "%s.copy.safetensors", file->path);
	write_copy(file, tensors, path);
	fuzz_check(file_open(&copy, path, &error) == EXIT_OK, "what was written can be read");
	unlink(path);
	check_tensors(&copy);
	check_same(file, &copy);
	file_close(&copy);
	free(tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file file;
	int code = file_open(&file, input_file(data, size, ".safetensors"), &error);

	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a file is read or refused");
	if (code == EXIT_OK) {
		check_tensors(&file);
		check_round_trip(&file);
		file_close(&file);
	} else {
		fuzz_check(error.text[0] != '\0' && strchr(error.text, '\n') == NULL, "a refusal has one line");
	}
	return 0;
}
