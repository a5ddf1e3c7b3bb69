/* SPDX-License-Identifier: MIT */
/* Pieces of memory for weights: none overlaps another, whatever is given back meanwhile, and what was given back is used again. */
#include "base/pages.h"

#include <stdint.h>
#include <string.h>

#include "oracle/inputs.h"
#include "suite.h"

enum { PIECES = 64, MOST = 3 << 20, HUGE_BYTES = 80 << 20 };

struct piece {
	uint8_t *bytes;
	size_t n;
	uint8_t mark;
};

/* Whether a piece still has what was written: its ends and some bytes between. */
static void check(const struct piece *piece)
{
	for (size_t i = 0; i < piece->n; i += 4093)
		ck_assert_uint_eq(piece->bytes[i], piece->mark);
	if (piece->n > 0)
		ck_assert_uint_eq(piece->bytes[piece->n - 1], piece->mark);
}

static void take(struct pages *pages, struct piece *piece, size_t n, uint8_t mark)
{
	*piece = (struct piece){pages_take(pages, n), n, mark};
	ck_assert_ptr_nonnull(piece->bytes);
	ck_assert_uint_eq((uintptr_t)piece->bytes % 64, 0);
	memset(piece->bytes, mark, n);
}

TEST(pieces_are_apart)
{
	struct random r = {suite_seed()};
	struct piece pieces[PIECES] = {0};
	struct pages pages = {0};

	for (int i = 0; i < 1000; i++) {
		struct piece *piece = &pieces[random_below(&r, PIECES)];

		if (piece->bytes != NULL)
			check(piece);
		pages_give(piece->bytes);
		take(&pages, piece, random_below(&r, 4) == 0 ? random_below(&r, MOST) : random_below(&r, 3000), (uint8_t)i);
	}
	pages_end(&pages);
	for (size_t i = 0; i < PIECES; i++) {
		if (pieces[i].bytes != NULL)
			check(&pieces[i]);
		pages_give(pieces[i].bytes);
	}
}

TEST(what_was_given_back_is_used_again)
{
	struct pages pages = {0};
	struct piece first, again;

	take(&pages, &first, MOST, 1);
	pages_give(first.bytes);
	take(&pages, &again, MOST, 2);
	ck_assert_ptr_eq(first.bytes, again.bytes);
	pages_give(again.bytes);
	pages_end(&pages);
}

TEST(large_ones_and_none)
{
	struct pages pages = {0};
	struct piece large, nothing;

	take(&pages, &nothing, 0, 1);
	take(&pages, &large, HUGE_BYTES, 2);
	check(&large);
	ck_assert_ptr_null(pages_take(&pages, SIZE_MAX));
	pages_give(NULL);
	pages_give(nothing.bytes);
	pages_give(large.bytes);
	pages_end(&pages);
	pages_end(&pages);
}
