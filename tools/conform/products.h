/* SPDX-License-Identifier: MIT */
/* Products of two rows, as they are asked and as the contract has them. */
#ifndef TOOLS_CONFORM_PRODUCTS_H
#define TOOLS_CONFORM_PRODUCTS_H

#include "conform/conform.h"

/* Describes the question of products of k elements. An item is the codes and the scales of A, then those of W. */
void dot_begin(struct question *q, enum mxfp_format a, enum mxfp_format w, const char *acc, size_t k);

/* The reference's result of an item; false: it does not sum such products so. */
bool dot_item(uint32_t *c, const struct question *q, const uint8_t *item, enum mxfp_acc acc, unsigned pass);

#endif
