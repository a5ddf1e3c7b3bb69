/* SPDX-License-Identifier: MIT */
#include "oracle/thresholds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The conversion that the intervals are of. */
struct search {
	struct thresholds *found;
	const struct oracle *oracle;
	const struct mxfp_rounding *rounding;
	uint32_t sign;
};

static struct interval ask(const struct search *s, uint32_t magnitude)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	struct interval at = {.start = magnitude};

	at.code = oracle_encode(s->oracle, magnitude | s->sign, 0, s->rounding, 0, &counts);
	at.counted = counts.saturated ? COUNTED_SATURATED : counts.overflowed ? COUNTED_OVERFLOWED :
	             counts.flushed   ? COUNTED_FLUSHED : COUNTED_NOT;
	return at;
}

static void append(struct thresholds *t, const struct interval *i)
{
	if (t->n == t->capacity) {
		t->capacity = t->capacity != 0 ? 2 * t->capacity : 256;
		t->interval = realloc(t->interval, t->capacity * sizeof *t->interval);
		assert(t->interval != NULL);
	}
	t->interval[t->n++] = *i;
}

/* Appends the starts in (low, high], in order. */
static void bisect(const struct search *s, const struct interval *low, const struct interval *high)
{
	if (low->code == high->code && low->counted == high->counted)
		return;
	if (high->start - low->start == 1) {
		append(s->found, high);
		return;
	}
	struct interval middle = ask(s, low->start + (high->start - low->start) / 2);
	bisect(s, low, &middle);
	bisect(s, &middle, high);
}

void thresholds_init(struct thresholds *t, const struct oracle *o, const struct mxfp_rounding *rounding, bool negative)
{
	const struct search s = {t, o, rounding, negative ? F32_SIGN : 0};
	struct interval low = ask(&s, 1), high = ask(&s, F32_MAX);

	assert(rounding->mode != MXFP_ROUND_SR);
	*t = (struct thresholds){0};
	append(t, &low);
	bisect(&s, &low, &high);
}

void thresholds_clear(struct thresholds *t)
{
	free(t->interval);
}

/* The interval of a finite nonzero magnitude. */
static const struct interval *thresholds_find(const struct thresholds *t, uint32_t magnitude)
{
	size_t low = 0, high = t->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (t->interval[middle].start <= magnitude)
			low = middle;
		else
			high = middle;
	}
	return &t->interval[low];
}

static uint32_t stored(const struct mxfp_format_info *f, const uint8_t *at)
{
	uint16_t half;
	uint32_t word;

	if (f->storage_bytes == 1)
		return *at;
	if (f->storage_bytes == 2) {
		memcpy(&half, at, sizeof half);
		return half;
	}
	memcpy(&word, at, sizeof word);
	return word;
}

/* Index of the first of n stored codes that is not `code`, or n. Whole arrays are nearly always right: then the first
   is, and the array equals itself one place on, which is the C library's fastest comparison. */
static size_t first_other(const struct mxfp_format_info *f, const uint8_t *codes, size_t n, uint32_t code)
{
	size_t width = f->storage_bytes, i = 0;

	if (stored(f, codes) == code && memcmp(codes, codes + width, (n - 1) * width) == 0)
		return n;
	while (i < n && stored(f, codes + i * width) == code)
		i++;
	return i;
}

size_t thresholds_mismatch(const struct thresholds *t, const struct mxfp_format_info *f, uint32_t first,
                           const void *codes, size_t n, struct mxfp_counts *counts)
{
	const struct interval *i = thresholds_find(t, first), *end = t->interval + t->n;

	for (size_t done = 0, part; done < n; done += part, i++) {
		size_t left = i + 1 < end ? i[1].start - (first + done) : n - done;
		part = left < n - done ? left : n - done;
		size_t same = first_other(f, (const uint8_t *)codes + done * f->storage_bytes, part, i->code);
		if (same < part)
			return done + same;
		counts->saturated += i->counted == COUNTED_SATURATED ? part : 0;
		counts->overflowed += i->counted == COUNTED_OVERFLOWED ? part : 0;
		counts->flushed += i->counted == COUNTED_FLUSHED ? part : 0;
	}
	return n;
}
