/* SPDX-License-Identifier: MIT */
/* A model through the command's readers, for the module: no part of Python here, none of the command's structs there. */
#ifndef CORE_READER_H
#define CORE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { READER_TEXT = 2048, READER_RANK = 32 };

enum reader_status {
	READER_OK,
	READER_INPUT,  /* what a file says is wrong or unknown */
	READER_IO,
	READER_MEMORY
};

enum reader_kind {
	READER_NUMBERS,  /* elements of whole bytes */
	READER_BLOCKS,   /* codes and scales */
	READER_OPAQUE    /* what is not read here */
};

/* A tensor, or the parts of a quantized one together under the name that it had. Strings are the reader's. */
struct reader_tensor {
	const char *name;
	enum reader_kind kind;
	const char *dtype;      /* of numbers as safetensors spells it, "F32"; of blocks the name of the format */
	const char *layout;     /* of blocks: "compressed-tensors" */
	unsigned rank;
	uint64_t shape[READER_RANK];
	bool transposed;        /* blocks run along the last dimension but one */
	float tensor_scale;
	bool tensor_scale_divides;
	uint64_t bytes, scales_bytes; /* of numbers or codes; of scales */
};

struct reader;

/* Opens a file or a model directory and finds all tensors, in the order of their names. `text` gets the error. */
enum reader_status reader_open(struct reader **reader, const char *path, char text[READER_TEXT]);
void reader_close(struct reader *reader);

size_t reader_count(const struct reader *reader);
void reader_describe(const struct reader *reader, size_t i, struct reader_tensor *tensor);

/* Reads a tensor whole, numbers in the machine's byte order. Several threads may read at once. */
enum reader_status reader_read(const struct reader *reader, size_t i, void *data, void *scales, char text[READER_TEXT]);

/* main() of the command. */
int reader_command(int argc, char **argv);

#endif
