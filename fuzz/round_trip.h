/* SPDX-License-Identifier: MIT */
/* Properties of the reader and the writer of a file format that hold for any bytes. */
#ifndef FUZZ_ROUND_TRIP_H
#define FUZZ_ROUND_TRIP_H

#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

/*
 * Opens the bytes as a file of the format. It is accepted, or refused with EXIT_INPUT and a message. The tensors of an
 * accepted file fill its data section except for padding and are found by name. After writing and reading the file
 * again, names, dtypes, shapes and metadata are the same.
 */
void round_trip(const uint8_t *data, size_t size, const struct file_format *format);

#endif
