/* SPDX-License-Identifier: MIT */
/* What holds for the reader and the writer of a file format, whatever the bytes are. */
#ifndef FUZZ_ROUND_TRIP_H
#define FUZZ_ROUND_TRIP_H

#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

/*
 * Opens the bytes as a file of the format: it is read, or refused with EXIT_INPUT and a line of text; the tensors of
 * one that is read fill its data section but for padding and are found by their names; written again and read again,
 * names, dtypes, shapes and metadata are the same.
 */
void round_trip(const uint8_t *data, size_t size, const struct file_format *format);

#endif
