/* SPDX-License-Identifier: MIT */
/*
 * Writes a safetensors file of bf16 weights for quantize_file.sh: as many layers of a transformer of width 2048 as fit
 * the size, and embeddings for the rest. The same size gives the same bytes. Numbers are sums of four uniform ones,
 * scaled like trained weights (standard deviation about 0.02), so that no rule has unusually easy work.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "io/file.h"

enum {
	WIDTH = 2048,
	HIDDEN = 8192,
	HEADS = 512, /* rows of the key and value projections */
	TENSORS_MAX = 4096,
	PIECE = 1 << 16,
	NAME_BYTES = 64
};

struct matrix {
	const char *name;
	uint64_t rows;
	uint64_t cols; /* 0: a vector */
};

static const struct matrix layer[] = {
	{"input_layernorm", WIDTH, 0},        {"mlp.down_proj", WIDTH, HIDDEN},  {"mlp.gate_proj", HIDDEN, WIDTH},
	{"mlp.up_proj", HIDDEN, WIDTH},       {"self_attn.k_proj", HEADS, WIDTH}, {"self_attn.o_proj", WIDTH, WIDTH},
	{"self_attn.q_proj", WIDTH, WIDTH},   {"self_attn.v_proj", HEADS, WIDTH},
};

enum { LAYER_TENSORS = sizeof layer / sizeof layer[0] };

static struct error error;
static struct tensor tensors[TENSORS_MAX];
static char names[TENSORS_MAX][NAME_BYTES];
static uint64_t shapes[TENSORS_MAX][2];
static size_t n_tensors;

static uint64_t matrix_bytes(const struct matrix *matrix)
{
	return 2 * matrix->rows * (matrix->cols == 0 ? 1 : matrix->cols);
}

static void add(const char *prefix, const struct matrix *matrix)
{
	size_t i = n_tensors++;

	snprintf(names[i], NAME_BYTES, "%s%s.weight", prefix, matrix->name);
	shapes[i][0] = matrix->rows;
	shapes[i][1] = matrix->cols;
	tensors[i] = (struct tensor){
		.name = names[i], .dtype = DTYPE_BF16, .rank = matrix->cols == 0 ? 1 : 2, .shape = shapes[i]};
}

static void plan(uint64_t bytes)
{
	char prefix[NAME_BYTES / 2];
	uint64_t layer_bytes = 0;

	for (size_t i = 0; i < LAYER_TENSORS; i++)
		layer_bytes += matrix_bytes(&layer[i]);
	for (int l = 0; bytes >= layer_bytes && n_tensors < TENSORS_MAX - LAYER_TENSORS; l++) {
		snprintf(prefix, sizeof prefix, "model.layers.%d.", l);
		for (size_t i = 0; i < LAYER_TENSORS; i++)
			add(prefix, &layer[i]);
		bytes -= layer_bytes;
	}
	add("model.", &(struct matrix){"embed_tokens", bytes / (2 * WIDTH), WIDTH});
}

/* Draws a weight. A sum of four uniform 16-bit numbers has mean 131070 and standard deviation 37837. */
static uint16_t draw(uint64_t *state)
{
	uint64_t word = *state += UINT64_C(0x9E3779B97F4A7C15);
	uint32_t bits;

	word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
	int sum = (int)((word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) + (word >> 48));
	float x = (float)(sum - 131070) * (0.02F / 37837);
	memcpy(&bits, &x, sizeof bits);
	return (uint16_t)(bits >> 16);
}

static int write_tensor(struct writer *writer, const struct tensor *tensor, uint64_t *state)
{
	static uint16_t numbers[PIECE];
	int code = EXIT_OK;

	for (uint64_t from = 0; from < tensor->size && code == EXIT_OK; from += sizeof numbers) {
		size_t n = tensor->size - from < sizeof numbers ? (size_t)(tensor->size - from) : sizeof numbers;

		for (size_t i = 0; i < n / 2; i++)
			numbers[i] = draw(state);
		little_endian(numbers, n / 2, 2);
		code = writer_write(writer, tensor, from, numbers, n, &error);
	}
	return code;
}

int main(int argc, char **argv)
{
	unsigned long mebibytes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	uint64_t state = 0;

	if (mebibytes == 0) {
		fprintf(stderr, "usage: bench/model OUT.safetensors MEBIBYTES\n");
		return EXIT_USAGE;
	}
	plan((uint64_t)mebibytes << 20);
	struct writer writer = {.path = argv[1], .tensors = tensors, .n_tensors = n_tensors, .fd = -1};
	int code = writer_open(&writer, &error);
	for (size_t i = 0; i < n_tensors && code == EXIT_OK; i++)
		code = write_tensor(&writer, &tensors[i], &state);
	if (code == EXIT_OK)
		code = writer_close(&writer, &error);
	if (code != EXIT_OK)
		fprintf(stderr, "bench/model: %s\n", error.text);
	return code;
}
