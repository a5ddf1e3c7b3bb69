/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/tensor_name.h"

#include <stdio.h>
#include <string.h>

/* Names of tensors in the files of Hugging Face, and in GGUF. */
static const struct {
	enum tensor_id id;
	const char *names[2];
} tensor_names[] = {
#define TENSOR(id, huggingface, gguf) {TENSOR_##id, {huggingface, gguf}},
#include "eval/tensor.def"
};

enum { N_TENSOR_NAMES = sizeof tensor_names / sizeof tensor_names[0] };

/* Writes a name of the table; false if it is empty, or is that of one expert and `expert` is none. */
static bool make_name(char name[TENSOR_NAME_BYTES], const char *pattern, size_t layer, int expert)
{
	size_t used = 0;

	if (*pattern == '\0' || (expert == TENSOR_NO_EXPERT && strchr(pattern, '@') != NULL))
		return false;
	for (const char *c = pattern; *c != '\0'; c++)
		if (*c == '#')
			used += (size_t)snprintf(name + used, TENSOR_NAME_BYTES - used, "%zu", layer);
		else if (*c == '@')
			used += (size_t)snprintf(name + used, TENSOR_NAME_BYTES - used, "%d", expert);
		else
			name[used++] = *c;
	name[used] = '\0';
	return true;
}

bool tensor_name(char name[TENSOR_NAME_BYTES], size_t *row, enum tensor_id id, bool gguf, size_t layer, int expert)
{
	while (*row < N_TENSOR_NAMES) {
		const size_t i = (*row)++;

		if (tensor_names[i].id == id && make_name(name, tensor_names[i].names[gguf], layer, expert))
			return true;
	}
	return false;
}

bool tensor_may_be_unused(const char *name)
{
	static const char *const endings[] = {"rotary_emb.inv_freq", ".input_scale", ".input_global_scale", ".k_scale",
	                                      ".v_scale", "attention.masked_bias", "attention.bias"};

	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
		const size_t n = strlen(name), end = strlen(endings[i]);

		if (n >= end && strcmp(name + n - end, endings[i]) == 0)
			return true;
	}
	return false;
}
