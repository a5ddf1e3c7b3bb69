/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/hf_merges.h"

#include <inttypes.h>
#include <string.h>

enum { ELEMENT_BYTES_MAX = 1 << 16 };

static int take_text(struct hf_merges *m, const char *pair, struct error *error)
{
	const char *space = strchr(pair, ' ');

	if (space == NULL || strchr(space + 1, ' ') != NULL)
		return fail(error, EXIT_INPUT, "%s: model.merges: element %" PRIu32 " is not a pair of tokens with a space between "
		            "them", m->path, m->n);
	return m->take(m->context, pair, (size_t)(space - pair), space + 1, error);
}

int hf_merges_take(struct json_text *text, void *merges, struct error *error)
{
	struct hf_merges *m = merges;
	json_t *merge;
	int code = json_take_value(text, ELEMENT_BYTES_MAX, &merge, error);

	if (code != EXIT_OK)
		return code;
	const char *left = json_string_value(json_array_get(merge, 0)), *right = json_string_value(json_array_get(merge, 1));
	const char *pair = json_string_value(merge);
	const bool is_version = pair != NULL && strncmp(pair, "#version", strlen("#version")) == 0;
	if (pair != NULL && !is_version)
		code = take_text(m, pair, error);
	else if (left != NULL && right != NULL && json_array_size(merge) == 2)
		code = m->take(m->context, left, strlen(left), right, error);
	else if (!is_version)
		code = fail(error, EXIT_INPUT, "%s: model.merges: element %" PRIu32 " is not a pair of tokens", m->path, m->n);
	m->n += code == EXIT_OK && !is_version;
	json_decref(merge);
	return code;
}

int hf_merges_skip(struct json_text *text, void *unused, struct error *error)
{
	(void)unused;
	return json_skip(text, ELEMENT_BYTES_MAX, error);
}
