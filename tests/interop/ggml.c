/* SPDX-License-Identifier: MIT */
/*
 * What libggml reads in a GGUF file, and what it quantizes numbers to:
 *   ggml decode FILE DIRECTORY            writes each tensor, decoded to F32, to DIRECTORY/<its number>.f32
 *   ggml encode TYPE COLS <F32 >BLOCKS    quantizes rows of COLS numbers to the ggml_type of that number
 * Built and run in the lab, see interop.sh.
 */
#include <ggml.h>
#include <gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_all(FILE *file, const void *data, size_t n)
{
	if (file == NULL || fwrite(data, 1, n, file) != n)
		exit(3);
}

static void decode_tensor(const struct ggml_tensor *tensor, const char *path)
{
	int64_t n = ggml_nelements(tensor);
	float *numbers = malloc((size_t)n * sizeof *numbers);
	FILE *file = fopen(path, "wb");

	if (numbers == NULL)
		exit(3);
	if (tensor->type == GGML_TYPE_F32)
		memcpy(numbers, tensor->data, (size_t)n * sizeof *numbers);
	else
		ggml_get_type_traits(tensor->type)->to_float(tensor->data, numbers, n);
	write_all(file, numbers, (size_t)n * sizeof *numbers);
	if (fclose(file) != 0)
		exit(3);
	free(numbers);
}

static int decode(const char *name, const char *directory)
{
	struct ggml_context *context = NULL;
	struct gguf_init_params parameters = {.no_alloc = false, .ctx = &context};
	struct gguf_context *gguf = gguf_init_from_file(name, parameters);
	char path[4096];

	if (gguf == NULL)
		return 1;
	for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
		const struct ggml_tensor *tensor = ggml_get_tensor(context, gguf_get_tensor_name(gguf, i));

		if (tensor == NULL)
			return 1;
		snprintf(path, sizeof path, "%s/%lld.f32", directory, (long long)i);
		decode_tensor(tensor, path);
	}
	gguf_free(gguf);
	ggml_free(context);
	return 0;
}

static int encode(enum ggml_type type, int64_t cols)
{
	float *row = malloc((size_t)cols * sizeof *row);
	void *blocks = malloc(ggml_row_size(type, cols));

	if (row == NULL || blocks == NULL)
		return 3;
	while (fread(row, sizeof *row, (size_t)cols, stdin) == (size_t)cols) {
		ggml_quantize_chunk(type, row, blocks, 0, 1, cols, NULL);
		write_all(stdout, blocks, ggml_row_size(type, cols));
	}
	free(row);
	free(blocks);
	return fflush(stdout) != 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "decode") == 0)
		return decode(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "encode") == 0)
		return encode((enum ggml_type)atoi(argv[2]), atoll(argv[3]));
	return 2;
}
