/* SPDX-License-Identifier: MIT */
/* Scales that 8-bit floats are multiplied by: finite, and positive. */
#include "config.h"

#include "analyse/lint.h"
#include "model/excluded.h"

#include <inttypes.h>
#include <stdlib.h>

#include "model/scaled.h"

enum { SCALES_MAX = 1 << 16 }; /* at once */

/* Looks at scales of some rows: at the first that is not positive. */
static int look_at(struct lint *lint, const struct scaled *s, uint64_t first, uint64_t n_rows, bool *found, struct error *error)
{
	const struct lint_place place = {.file = s->scales_file, .tensor = s->scales.name};
	struct error wrong;
	float *scales;
	int code = scaled_read_scales(&scales, s, first, n_rows, &wrong);

	if (code == EXIT_INPUT) {
		*found = true;
		return lint_find(lint, LINT_SCALE_VALUE, &place, error, "a scale of '%.200s' is NaN or Inf", s->codes.name);
	}
	if (code != EXIT_OK) {
		*error = wrong;
		return code;
	}
	for (size_t i = 0; i < n_rows * s->grid_cols && !*found; i++) {
		*found = !(scales[i] > 0);
		if (*found)
			code = lint_find(lint, LINT_SCALE_VALUE, &place, error, "scale %" PRIu64 " of '%.200s' is %g",
			                 first * s->grid_cols + i, s->codes.name, (double)scales[i]);
	}
	free(scales);
	return code;
}

int lint_scaled(struct lint *lint, struct error *error)
{
	struct excluded excluded = {.model = lint->model};
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->model->n_tensors && code == EXIT_OK && lint->n_scaled > 0; i++) {
		const struct model_tensor *at = &lint->model->by_name[i];
		struct scaled s;
		bool found = false, stop = false, allowed = true;

		if (lint_weight(lint, at->tensor->name) != NULL)
			continue;
		code = scaled_find(&s, &found, lint->model, at->tensor, at->file, error);
		/* lint_names() told of scales that do not fit. */
		if (code == EXIT_INPUT) {
			code = EXIT_OK;
			continue;
		}
		if (code == EXIT_OK && found)
			code = excluded_allows(&excluded, at->tensor, &allowed, error);
		if (code == EXIT_OK && !allowed)
			code = lint_find(lint, LINT_CONFIG, &(struct lint_place){.file = at->file, .tensor = at->tensor->name}, error,
			                 "it is %s with scales, and config.json says that weights are quantized otherwise",
			                 dtype_info(at->tensor->dtype)->name);
		const uint64_t rows = found ? scaled_grid_rows(&s) : 0, most = found ? SCALES_MAX / s.grid_cols + 1 : 1;
		for (uint64_t row = 0; row < rows && !stop && code == EXIT_OK; row += most)
			code = look_at(lint, &s, row, rows - row < most ? rows - row : most, &stop, error);
	}
	excluded_free(&excluded);
	return code;
}
