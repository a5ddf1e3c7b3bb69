/* SPDX-License-Identifier: MIT */
/* Safetensors files: file_safetensors.c has the byte layout. */
#ifndef TOOLS_IO_FILE_SAFETENSORS_H
#define TOOLS_IO_FILE_SAFETENSORS_H

#include "io/file.h"

extern const struct file_format file_safetensors;

#endif
