/* SPDX-License-Identifier: MIT */
#include "io/counts.h"

#include <inttypes.h>

void counts_add(struct mxfp_counts *sum, const struct mxfp_counts *counts)
{
	sum->saturated += counts->saturated;
	sum->overflowed += counts->overflowed;
	sum->flushed += counts->flushed;
	sum->nan += counts->nan;
	sum->inf += counts->inf;
}

void counts_print(FILE *stream, uint64_t elements, const struct mxfp_counts *counts)
{
	fprintf(stream,
	        "elements %" PRIu64 ", saturated %" PRIu64 ", overflowed %" PRIu64 ", flushed %" PRIu64 ", nan %" PRIu64
	        ", inf %" PRIu64 "\n",
	        elements, counts->saturated, counts->overflowed, counts->flushed, counts->nan, counts->inf);
}

json_t *counts_facts(uint64_t elements, const struct mxfp_counts *counts)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "elements", (json_int_t)elements, "saturated",
	                 (json_int_t)counts->saturated, "overflowed", (json_int_t)counts->overflowed, "flushed",
	                 (json_int_t)counts->flushed, "nan", (json_int_t)counts->nan, "inf", (json_int_t)counts->inf);
}

json_t *counts_weights_facts(const struct mxfp_counts *counts)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "saturated", (json_int_t)counts->saturated, "flushed",
	                 (json_int_t)counts->flushed, "nan", (json_int_t)counts->nan, "inf", (json_int_t)counts->inf);
}
