/* SPDX-License-Identifier: MIT */
/* What every tokenizer holds to, whatever file it comes from. */
#ifndef MXFP_FUZZ_ENCODE_H
#define MXFP_FUZZ_ENCODE_H

#include <stddef.h>
#include <stdint.h>

/* Opens the file, of a model of so many tokens. It is read, or refused with EXIT_INPUT and a message. If it is read,
   texts of many kinds and the input itself are encoded, or refused so: ids are the model's, and the same each time,
   and each can be decoded or is refused. */
void fuzz_encode(const uint8_t *data, size_t size, const char *suffix, uint64_t vocabulary);

#endif
