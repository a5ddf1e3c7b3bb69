/* SPDX-License-Identifier: MIT */
/* What a byte of a block's scale says beside its value. */
#ifndef TOOLS_MODEL_SCALE_BYTE_H
#define TOOLS_MODEL_SCALE_BYTE_H

#include <stdbool.h>
#include <stdint.h>

#include "mxfp/format.h"

/* Whether the scale of a block in this block format is NaN, and with it all of the block. */
bool scale_byte_is_nan(enum mxfp_format format, uint8_t byte);

#endif
