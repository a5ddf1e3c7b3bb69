/* SPDX-License-Identifier: MIT */
/* Near misses by edit distance: insertions, deletions, replacements and swaps of neighbours (optimal string
   alignment). */
#include "nearest.h"

#include <string.h>

/* Longest word that is compared. Names of commands, options and values are shorter. */
enum { LENGTH_MAX = 31 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The three rows of the distance table that the recurrence looks at: rows[0] is the oldest. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][LENGTH_MAX + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[2][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		memcpy(rows[0], rows[1], sizeof rows[0]);
		memcpy(rows[1], rows[2], sizeof rows[1]);
		rows[2][0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			rows[2][j] = least(rows[1][j - 1] + (a[i - 1] != b[j - 1]),
			                   least(rows[1][j], rows[2][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				rows[2][j] = least(rows[2][j], rows[0][j - 2] + 1);
		}
	}
	return rows[2][b_length];
}

void nearest_offer(struct nearest *nearest, const char *candidate)
{
	size_t length = strlen(nearest->word), candidate_length = strlen(candidate);

	if (length > LENGTH_MAX || candidate_length > LENGTH_MAX)
		return;
	size_t d = distance(nearest->word, length, candidate, candidate_length);
	/* A third of the letters wrong is a typing error; more is another word. */
	if (d <= (length + 2) / 3 && (nearest->best == NULL || d < nearest->distance)) {
		nearest->best = candidate;
		nearest->distance = d;
	}
}
