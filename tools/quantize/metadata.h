/* SPDX-License-Identifier: MIT */
/* Metadata of a quantized file: the source's, how it was quantized, rows that were padded, and a hash of the source. A
   file that is made from several has the metadata of the first. */
#ifndef TOOLS_QUANTIZE_METADATA_H
#define TOOLS_QUANTIZE_METADATA_H

#include <xxhash.h>

#include "quantize/quantize.h"

struct quantize_metadata {
	struct metadata *pairs;
	size_t n;
	char *hash;          /* value of the pair mxfp.source_xxh3_128: zeros until it is set */
	struct arena arena;
};

/* Makes the pairs for a file of the plan. EXIT_MEMORY. */
int quantize_metadata_make(struct quantize_metadata *metadata, const struct quantize_plan *plan,
                           const struct quantize_file *file, struct error *error);

/* Sets the hash, in its canonical form: 32 hexadecimal digits, high half first. */
void quantize_metadata_set_hash(struct quantize_metadata *metadata, XXH128_hash_t hash);

void quantize_metadata_free(struct quantize_metadata *metadata);

#endif
