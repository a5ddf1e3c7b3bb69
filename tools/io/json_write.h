/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_IO_JSON_WRITE_H
#define TOOLS_IO_JSON_WRITE_H

#include <jansson.h>

#include "base/error.h"

/* Writes a value, indented, as a new file and syncs it. EXIT_IO, EXIT_MEMORY (`json` is NULL, too). */
int json_write(const char *path, const json_t *json, struct error *error);

#endif
