/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/gguf_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "io/file_gguf.h"

static const struct {
	const char *huggingface, *gguf;
} names[] = {
#define GGUF_NAME(huggingface, gguf) {huggingface, gguf},
#include "model/gguf_name.def"
};

/* Whether a name is one of the pattern, and which digits stand for #. */
static bool fits(const char *name, const char *pattern, const char **digits, int *n_digits)
{
	const char *mark = strchr(pattern, '#');
	const size_t before = mark == NULL ? strlen(pattern) : (size_t)(mark - pattern);

	if (strncmp(name, pattern, before) != 0)
		return false;
	*digits = name + before;
	*n_digits = mark == NULL ? 0 : (int)strspn(*digits, "0123456789");
	return mark == NULL ? **digits == '\0' : *n_digits > 0 && *n_digits < 20 && strcmp(*digits + *n_digits, mark + 1) == 0;
}

bool gguf_name(const char *name, bool to_gguf, size_t after, char other[GGUF_NAME_BYTES])
{
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *to = to_gguf ? names[i].gguf : names[i].huggingface, *mark = strchr(to, '#'), *digits;
		int n;

		if (!fits(name, to_gguf ? names[i].huggingface : names[i].gguf, &digits, &n) || after-- > 0)
			continue;
		snprintf(other, GGUF_NAME_BYTES, "%.*s%.*s%s", mark == NULL ? (int)strlen(to) : (int)(mark - to), to, n, digits,
		         mark == NULL ? "" : mark + 1);
		return true;
	}
	return false;
}

/* Architectures of GGUF whose classes in convert_hf_to_gguf.py call LlamaModel.permute(); Mistral and Mixtral are
   llama. */
static bool is_permuted(const char *architecture)
{
	static const char *const all[] = {"llama", "granite", "granitemoe", "minicpm", "olmo"};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (strcmp(all[i], architecture) == 0)
			return true;
	return false;
}

/* The number under a key, or 0; of an array that of the layer in a tensor's name. */
static uint64_t heads_of(const struct file *gguf, const char *key, const char *name)
{
	const char *text = file_metadata(gguf, key);
	const size_t layer = strncmp(name, "blk.", 4) == 0 ? (size_t)strtoull(name + 4, NULL, 10) : 0;
	uint64_t *values = NULL, heads = 0;
	struct error ignored;
	bool found;
	size_t n = 0;

	if (text != NULL || !gguf_is_array(gguf, key))
		return text != NULL ? strtoull(text, NULL, 10) : 0;
	if (gguf_find_u64s(gguf, key, &values, &n, &found, &ignored) == EXIT_OK && layer < n)
		heads = values[layer];
	free(values);
	return heads;
}

uint64_t gguf_head_rows(const struct file *gguf, const char *name, uint64_t rows)
{
	const char *architecture = file_metadata(gguf, "general.architecture");
	const bool of_k = suffix_stem(name, ".attn_k.weight") != 0;
	char key[GGUF_NAME_BYTES];

	if (architecture == NULL || !is_permuted(architecture) || (!of_k && suffix_stem(name, ".attn_q.weight") == 0))
		return 0;
	snprintf(key, sizeof key, "%s.attention.head_count_kv", architecture);
	uint64_t n = of_k ? heads_of(gguf, key, name) : 0;
	snprintf(key, sizeof key, "%s.attention.head_count", architecture);
	if (n == 0)
		n = heads_of(gguf, key, name);
	return n == 0 || n > rows / 2 || rows % (2 * n) != 0 ? 0 : rows / n;
}

uint64_t gguf_row(uint64_t row, uint64_t head_rows, bool from_gguf)
{
	const uint64_t head = row - row % head_rows, within = row % head_rows, half = head_rows / 2;

	return head + (from_gguf ? within % 2 * half + within / 2 : within % half * 2 + within / half);
}

const char *gguf_holds(const struct file *gguf)
{
	const char *type = file_metadata(gguf, "general.type");

	if (type != NULL)
		return type;
	return gguf_has(gguf, "adapter.type") ? "adapter" : gguf_has(gguf, "imatrix.chunk_count") ? "imatrix" : "model";
}
