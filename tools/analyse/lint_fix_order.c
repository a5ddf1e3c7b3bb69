/* SPDX-License-Identifier: MIT */
/* Mends of the order of nibbles: where the unquantized model shows which it is. What the rows of other layers show is evidence
   for some weights alone, and a model of which half is fixed would seem to be right. */
#include "config.h"

#include "analyse/column_order.h"
#include "analyse/lint_mend.h"

/* Whether codes lie in bytes as mend_unit_of() has them: rows of pairs, or blocks of ggml. */
static bool is_in_units(const struct quantized *q, const struct mend_unit *unit)
{
	const struct layout_order *order = q->choice.layout->order;
	const struct tensor *codes = q->parts[LAYOUT_CODES];

	if (q->choice.form->sparse || q->rows == 0)
		return false;
	if (unit->n_scales > 0)
		return true;
	return (order == &layout_rows || order == &layout_block_rows || order == &layout_grid) &&
	       codes->size / q->rows % unit->bytes == 0;
}

int mend_nibble_order(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                      struct error *error)
{
	struct quantized q;
	struct mend *mend;
	bool found;

	if (place->order == 0) {
		mend_left(fate, "%s", lint->original == NULL ? "the model that it was made from shows beyond doubt which order is right, of "
		                                               "every weight; give it with --against"
		                                             : "the model of --against has no such weight");
		return EXIT_OK;
	}
	int code = quantized_find(&q, &found, lint->model, place->tensor, error);
	if (code != EXIT_OK)
		return code;
	const struct mend_unit unit = mend_unit_of(&(struct mend){.source = q.parts[LAYOUT_CODES], .order = place->order});
	if (!is_in_units(&q, &unit)) {
		mend_left(fate, "its layout has no rows of whole groups of such columns; quantize again");
		return EXIT_OK;
	}
	code = mending_of(&mend, mending, q.files[LAYOUT_CODES], q.parts[LAYOUT_CODES], error);
	if (code != EXIT_OK)
		return code;
	mend->order = place->order;
	mend_done(fate, "codes of '%.200s': %s -> in the order of layout %s", q.parts[LAYOUT_CODES]->name,
	          column_order_phrase(place->order - 1), q.choice.layout->name);
	return EXIT_OK;
}
