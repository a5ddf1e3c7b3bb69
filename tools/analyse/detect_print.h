/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_ANALYSE_DETECT_PRINT_H
#define TOOLS_ANALYSE_DETECT_PRINT_H

#include "analyse/detect.h"

/* Prints to stdout. EXIT_MEMORY. */
int detect_print_text(const struct detection *detection, struct error *error);
int detect_print_json(const struct detection *detection, const struct detect_settings *settings, struct error *error);

#endif
