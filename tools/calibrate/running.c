/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "calibrate/running.h"

struct network_piece window_of(const struct running *r, size_t i)
{
	const struct token_sequences *tokens = r->settings->tokens;

	return (struct network_piece){.ids = tokens->ids + tokens->starts[i], .n = tokens->starts[i + 1] - tokens->starts[i],
	                              .wanted = tokens->starts[i + 1] - tokens->starts[i]};
}

const struct quantize_entry *entry_of(const struct running *r, const char *weight)
{
	const struct file *file;
	const struct tensor *stored = model_find(r->model, weight, &file);
	const struct quantize_entry *entry = stored != NULL ? quantize_entry_of(&r->rounded.plan, stored, file) : NULL;

	return entry != NULL && entry->quantized ? entry : NULL;
}
