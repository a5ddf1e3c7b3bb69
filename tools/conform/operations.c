/* SPDX-License-Identifier: MIT */
/* The table of operations. */
#include "config.h"

#include "conform/conform.h"

#define OPERATION(id, symbol, name) extern const struct operation operation_##symbol;
#include "conform/operation.def"

const struct operation *const operations[N_OPERATIONS] = {
#define OPERATION(id, symbol, name) &operation_##symbol,
#include "conform/operation.def"
};
