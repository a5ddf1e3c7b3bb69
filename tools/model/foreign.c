/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "io/elements.h"

enum test { TEST_ANY, TEST_CODES, TEST_FLOATS, TEST_NUMBERS, TEST_SQUARES, TEST_SAME_COLS, TEST_OTHER_COLS, TEST_SAME_ROWS, TEST_FNUZ };

static const struct layout_row {
	const char *codes, *part;
	enum test test;
	const char *what, *remedy;
} rows[N_FOREIGN] = {
#define FOREIGN(id, codes, part, test, what, remedy, source) [FOREIGN_##id] = {codes, part, TEST_##test, what, remedy},
#include "model/foreign.def"
};

static const struct {
	const char *codes, *part;
} companions[] = {
#define COMPANION(codes, part) {codes, part},
#include "model/foreign.def"
};

static uint64_t last_of(const struct tensor *tensor)
{
	return tensor->rank == 0 ? 1 : tensor->shape[tensor->rank - 1];
}

static uint64_t first_of(const struct tensor *tensor)
{
	return tensor->rank == 0 ? 1 : tensor->shape[0];
}

static bool passes(enum test test, const struct tensor *codes, const struct tensor *part)
{
	const struct dtype_info *info = dtype_info(codes->dtype);
	const bool same = last_of(codes) == last_of(part);

	/* Blocks of ggml say by their dtype what they are. */
	if (info->block_elements > 1)
		return false;
	if (test == TEST_FNUZ)
		return codes->dtype == DTYPE_F8_E4M3FNUZ || codes->dtype == DTYPE_F8_E5M2FNUZ;
	if (test != TEST_ANY && info->bits > 8 && info->numeric)
		return false;
	if (test == TEST_SQUARES && (!elements_are_fp8(codes->dtype) || !elements_are_float(part->dtype) || part->rank < 2 ||
	                             part->shape[part->rank - (part->rank == 4 ? 2 : 1)] == 1))
		return false;
	return (test != TEST_FLOATS || elements_are_float(part->dtype)) &&
	       (test != TEST_NUMBERS || (info->bits == 8 && elements_are_float(part->dtype))) &&
	       (test != TEST_SAME_COLS || same) && (test != TEST_OTHER_COLS || !same) &&
	       (test != TEST_SAME_ROWS || first_of(codes) == first_of(part));
}

/* The tensor named like `name` with `to` for `from` at its end; *found is NULL if there is none. */
static int find_like(const struct model *model, const char *name, const char *from, const char *to,
                     const struct tensor **found, struct error *error)
{
	const size_t stem = from[0] == '\0' ? strlen(name) : suffix_stem(name, from);
	const size_t size = stem + strlen(to) + 1;
	const struct file *file;

	*found = NULL;
	if (stem == 0)
		return EXIT_OK;
	char *like = malloc(size);
	if (like == NULL)
		return fail_memory(error);
	snprintf(like, size, "%.*s%s", (int)stem, name, to);
	*found = model_find(model, like, &file);
	free(like);
	return EXIT_OK;
}

static int find_row(const struct model *model, const struct tensor *tensor, int *row, const struct tensor **codes,
                    struct error *error)
{
	int code = EXIT_OK;

	for (*row = 0; *row < N_FOREIGN; ++*row) {
		const struct tensor *other;

		*codes = tensor;
		code = find_like(model, tensor->name, rows[*row].codes, rows[*row].part, &other, error);
		if (code != EXIT_OK || (other != NULL && passes(rows[*row].test, tensor, other)))
			return code;
		code = find_like(model, tensor->name, rows[*row].part, rows[*row].codes, codes, error);
		if (code != EXIT_OK || (*codes != NULL && passes(rows[*row].test, *codes, tensor)))
			return code;
	}
	return code;
}

int foreign_find(const struct model *model, const struct tensor *tensor, int *row, const struct tensor **codes,
                 struct error *error)
{
	int code = find_row(model, tensor, row, codes, error);

	for (size_t i = 0; i < sizeof companions / sizeof companions[0] && code == EXIT_OK && *row == N_FOREIGN; i++) {
		const struct tensor *whose, *part;

		code = find_like(model, tensor->name, companions[i].part, companions[i].codes, &whose, error);
		if (code != EXIT_OK || whose == NULL)
			continue;
		code = find_row(model, whose, row, &part, error);
		*codes = whose;
	}
	return code;
}

const char *foreign_what(int row)
{
	return rows[row].what;
}

const char *foreign_remedy(int row)
{
	return rows[row].remedy;
}
