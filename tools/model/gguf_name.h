/* SPDX-License-Identifier: MIT */
/* What tensors of a model of Hugging Face are called in a GGUF file that convert_hf_to_gguf.py of llama.cpp makes of it,
   and where their rows are. Experts, which one of the two holds one by one, are not matched. */
#ifndef TOOLS_MODEL_GGUF_NAME_H
#define TOOLS_MODEL_GGUF_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

enum { GGUF_NAME_BYTES = 128 };

/* The name that the table has in the other column: that of GGUF for `to_gguf`. Several modules may have one name there;
   `after` of them are left out. False if there is none. */
bool gguf_name(const char *name, bool to_gguf, size_t after, char other[GGUF_NAME_BYTES]);

/* Rows of a head of tensor `name` of a GGUF file, if they are in another order there than in Hugging Face's: llama.cpp
   rotates pairs of neighbours, transformers a head's first half with its second. 0: the same order. */
uint64_t gguf_head_rows(const struct file *gguf, const char *name, uint64_t rows);

/* Where row `row` of such a tensor of one is in the other: of GGUF's in Hugging Face's if `from_gguf`. */
uint64_t gguf_row(uint64_t row, uint64_t head_rows, bool from_gguf);

/* What the file holds by general.type: "model" if it does not say; a file of before that key says it by others ("adapter",
   "imatrix"). It lives as long as the file. */
const char *gguf_holds(const struct file *gguf);

#endif
