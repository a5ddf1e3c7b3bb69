/* SPDX-License-Identifier: MIT */
/*
 * The reader and writer of .npy files.
 *
 * Properties: any bytes are accepted, or refused with EXIT_INPUT and a message; the array of an accepted file extends
 * to the end of the file; a matrix that is written and read again has the same shape.
 *
 * Input: a file. A script generated the corpus from the specification of the format.
 */
#include "config.h"

#include <unistd.h>

#include "fuzz.h"
#include "input_file.h"
#include "io/file.h"
#include "io/file_npy.h"

enum { NUMBERS_MAX = 1 << 12 };

static struct error error;

static void check_array(const struct file *file)
{
	const struct tensor *array = &file->tensors[0];
	char last;

	fuzz_check(file->n_tensors == 1 && file_find(file, NPY_TENSOR) == array, "there is one array");
	fuzz_check(file->header_bytes + array->size == file->size_bytes, "the array fills the file");
	fuzz_check(!array->by_columns || array->rank == 2, "only a matrix is stored by columns");
	if (array->size > 0)
		fuzz_check(file_read(file, array, array->size - 1, &last, 1, &error) == EXIT_OK, "data are read");
}

static void check_written(const struct file *file)
{
	static const float zeros[NUMBERS_MAX];
	uint64_t rows, cols;
	char path[512];
	struct file copy;

	tensor_matrix(&file->tensors[0], &rows, &cols);
	if (tensor_elements(&file->tensors[0]) > NUMBERS_MAX || rows > INT64_MAX)
		return;
	snprintf(path, sizeof path, "%s.copy.npy", file->path);
	fuzz_check(npy_write(path, zeros, (size_t)rows, (size_t)cols, &error) == EXIT_OK, "a matrix is written");
	int code = file_open(&copy, path, &error);
	unlink(path);
	fuzz_check(code == EXIT_OK || tensor_elements(&file->tensors[0]) == 0, "what was written can be read");
	if (code != EXIT_OK)
		return;
	check_array(&copy);
	fuzz_check(copy.tensors[0].rank == 2 && copy.tensors[0].shape[0] == rows && copy.tensors[0].shape[1] == cols,
	           "the shape is the same");
	file_close(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file file;
	int code = file_open(&file, input_file(data, size, ".npy"), &error);

	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a file is read or refused");
	if (code == EXIT_OK) {
		check_array(&file);
		check_written(&file);
		file_close(&file);
	} else {
		fuzz_check(error.text[0] != '\0' && strchr(error.text, '\n') == NULL, "a refusal has one line");
	}
	return 0;
}
