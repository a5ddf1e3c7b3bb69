/* SPDX-License-Identifier: MIT */
/* What the reader and the writer of safetensors share; file_safetensors.c has the byte layout. */
#ifndef TOOLS_IO_FILE_SAFETENSORS_H
#define TOOLS_IO_FILE_SAFETENSORS_H

#include <stdbool.h>

#include "io/file.h"

enum {
	SAFETENSORS_LENGTH_BYTES = 8,            /* before the header */
	SAFETENSORS_HEADER_MAX = 100000000,      /* the reference implementation's limit */
	SAFETENSORS_ALIGNMENT = 8                /* of the data section in files that are written */
};

#define SAFETENSORS_METADATA "__metadata__"

extern const struct file_format file_safetensors;

/* Whether a safetensors file can hold the dtype: every one without blocks. */
bool safetensors_holds(enum dtype dtype);

/* The operations that write (struct file_format). */
int safetensors_lay_out(struct writer *writer, struct error *error);
int safetensors_finish(const struct writer *writer, struct error *error);

#endif
