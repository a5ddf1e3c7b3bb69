/* SPDX-License-Identifier: MIT */
/* Quantized layouts that mxfp knows by the names of tensors and does not read: foreign.def. */
#ifndef TOOLS_MODEL_FOREIGN_H
#define TOOLS_MODEL_FOREIGN_H

#include <stdbool.h>

#include "base/error.h"
#include "model/model.h"

enum foreign_row {
#define FOREIGN(id, codes, part, test, what, remedy, source) FOREIGN_##id,
#include "model/foreign.def"
	N_FOREIGN
};

/* The row that a tensor belongs to, N_FOREIGN if none, and the codes that it is or stands beside. Tensors of a layout that
   is read may fit a row too. EXIT_MEMORY. */
int foreign_find(const struct model *model, const struct tensor *tensor, int *row, const struct tensor **codes,
                 struct error *error);

/* What tensors of a row are, and what to do, as phrases. */
const char *foreign_what(int row);
const char *foreign_remedy(int row);

#endif
