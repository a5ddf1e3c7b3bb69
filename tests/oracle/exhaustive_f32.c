/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "oracle/exhaustive.h"

enum {
	PIECE = EXHAUSTIVE_PIECE,
	N_PIECES = 1 << 16,
	N_GROUPS = 64 /* between two signs of progress */
};

struct sweep {
	const struct exhaustive_case *c;
	const struct oracle *oracle;
	const struct thresholds *thresholds;
	size_t first_piece;
	atomic_uint *n_wrong;
};

static _Thread_local uint32_t numbers[PIECE];
static _Thread_local uint32_t codes[PIECE]; /* of any width */

static uint32_t stored(const struct mxfp_format_info *f, size_t i)
{
	uint16_t half;

	if (f->storage_bytes == 1)
		return ((const uint8_t *)codes)[i];
	if (f->storage_bytes == 4)
		return codes[i];
	memcpy(&half, (const uint8_t *)codes + 2 * i, sizeof half);
	return half;
}

/* Index of the first wrong code of the piece, or PIECE. Zero, Inf and NaN are asked for one by one; other numbers stay
   as they are in f32. */
static size_t compare(const struct sweep *s, struct mxfp_counts *want)
{
	const struct mxfp_format_info *f = s->oracle->format;
	uint32_t first = numbers[0] & ~F32_SIGN;
	size_t alone = first == 0 ? 1 : first < F32_INF ? 0 : PIECE;

	for (size_t i = 0; i < alone; i++)
		if (stored(f, i) != oracle_encode(s->oracle, numbers[i], 0, &s->c->rounding, 0, want))
			return i;
	if (alone == PIECE)
		return PIECE;
	if (s->oracle->n == 0) {
		while (alone < PIECE && codes[alone] == numbers[alone])
			alone++;
		return alone;
	}
	return alone + thresholds_mismatch(&s->thresholds[numbers[0] >> 31], f, first + (uint32_t)alone,
	                                   (const uint8_t *)codes + alone * f->storage_bytes, PIECE - alone, want);
}

static void run_piece(void *context, size_t piece)
{
	const struct sweep *s = context;
	struct mxfp_counts counts = {.size = sizeof counts}, want = {.size = sizeof want};
	struct mxfp_convert_job job = {.dst = codes, .src = numbers, .n = PIECE, .counts = &counts};

	for (uint32_t i = 0; i < PIECE; i++)
		numbers[i] = (uint32_t)(s->first_piece + piece) * PIECE + i;
	exhaustive_convert(s->c, s->c->table, &job);
	size_t wrong = compare(s, &want);
	if (wrong < PIECE)
		exhaustive_wrong(s->c, s->n_wrong, "code", numbers[wrong]);
	else if (memcmp(&counts, &want, sizeof want) != 0)
		exhaustive_wrong(s->c, s->n_wrong, "counts from", numbers[0]);
}

struct exhaustive_result exhaustive_f32(const struct exhaustive_case *c, const struct oracle *oracle,
                                        const struct thresholds *thresholds)
{
	atomic_uint n_wrong = 0;
	struct sweep s = {.c = c, .oracle = oracle, .thresholds = thresholds, .n_wrong = &n_wrong};

	for (size_t group = 0; group < N_GROUPS; group++) {
		s.first_piece = group * (N_PIECES / N_GROUPS);
		exhaustive_run(c, N_PIECES / N_GROUPS, run_piece, &s);
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\r%s %zu/%d ", oracle->format->name, group + 1, N_GROUPS);
	}
	return (struct exhaustive_result){(uint64_t)PIECE * N_PIECES, n_wrong};
}
