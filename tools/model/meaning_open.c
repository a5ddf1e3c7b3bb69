/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/decoded.h"
#include "model/meaning.h"
#include "model/scaled.h"

int meaning_open(struct model *model, const char *path, enum meaning_use use, struct error *error)
{
	int code = model_open(model, path, error);

	if (code == EXIT_OK)
		code = meaning_check(model, use, error);
	if (code == EXIT_OK && use != MEANING_MOVES)
		code = model_decode_scaled(model, use == MEANING_COMPARES, error);
	if (code == EXIT_OK && use == MEANING_DECODES)
		code = model_decode(model, error);
	if (code != EXIT_OK)
		model_close(model);
	return code;
}
