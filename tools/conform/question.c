/* SPDX-License-Identifier: MIT */
/* What questions and their items are made of. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conform/child.h"
#include "conform/conform.h"

const char *op_name(enum op op)
{
	static const char *const names[] = {
#define OPERATION(id, symbol, name) name,
#include "conform/operation.def"
	};

	return names[op];
}

void question_begin(struct question *q, enum op op)
{
	*q = (struct question){.op = op};
	for (int option = 0; option < N_CHOICES; option++)
		q->way.choice[option] = -1;
	snprintf(q->label, sizeof q->label, "%s", op_name(op));
}

static void add_word(struct question *q, const char *word)
{
	const size_t used = strlen(q->label);

	snprintf(q->label + used, sizeof q->label - used, " %s", word);
}

void question_key(struct question *q, const char *key, const char *value)
{
	const size_t used = strlen(q->keys);

	snprintf(q->keys + used, sizeof q->keys - used, ",\"%s\":\"%s\"", key, value);
	add_word(q, value);
}

void question_number(struct question *q, const char *key, uint64_t value)
{
	const size_t used = strlen(q->keys);
	char word[24];

	snprintf(q->keys + used, sizeof q->keys - used, ",\"%s\":%" PRIu64, key, value);
	snprintf(word, sizeof word, "%" PRIu64, value);
	add_word(q, word);
}

void question_bits(struct question *q, const char *key, uint32_t bits)
{
	const size_t used = strlen(q->keys);
	char word[16];

	snprintf(q->keys + used, sizeof q->keys - used, ",\"%s\":%" PRIu32, key, bits);
	snprintf(word, sizeof word, "%08" PRIX32, bits);
	add_word(q, word);
}

void question_choice(struct question *q, const char *key, enum mxfp_option option, int value)
{
	q->way.choice[option] = value;
	question_key(q, key, mxfp_option_name(option, value));
}

static void add_part(size_t parts[PARTS_MAX], size_t words[PARTS_MAX], size_t *total, size_t bytes, size_t word)
{
	size_t i = 0;

	while (parts[i] != 0)
		i++;
	parts[i] = bytes;
	words[i] = word;
	*total += bytes;
}

void question_in(struct question *q, size_t bytes, size_t word)
{
	add_part(q->in, q->in_word, &q->in_bytes, bytes, word);
}

void question_out(struct question *q, size_t bytes, size_t word)
{
	add_part(q->out, q->out_word, &q->out_bytes, bytes, word);
}

/* Items. */

bool items_full(const struct items *items)
{
	return items->most != 0 && items->n >= items->most;
}

void items_add(struct items *items, const void *item)
{
	if (items_full(items))
		return;
	if (items->n == items->capacity && !items->out_of_memory) {
		const size_t capacity = 2 * items->capacity + 256;
		uint8_t *bytes = realloc(items->bytes, capacity * items->item_bytes);

		items->out_of_memory = bytes == NULL;
		items->bytes = bytes != NULL ? bytes : items->bytes;
		items->capacity = bytes != NULL ? capacity : items->capacity;
	}
	if (!items->out_of_memory)
		memcpy(items->bytes + items->n++ * items->item_bytes, item, items->item_bytes);
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t items_random(struct items *items)
{
	uint64_t z = items->random += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

/* Asking. */

/* Copies parts of items that are together to requests, where all first parts come first, or back. */
static void rearrange(uint8_t *wire, uint8_t *together, const size_t parts[PARTS_MAX], size_t bytes, size_t n, bool back)
{
	size_t at = 0;

	for (int p = 0; p < PARTS_MAX && parts[p] != 0; at += parts[p++])
		for (size_t i = 0; i < n; i++, wire += parts[p]) {
			uint8_t *part = together + i * bytes + at;

			memcpy(back ? part : wire, back ? wire : part, parts[p]);
		}
}

static int ask_batch(struct child *child, const struct question *q, const uint8_t *items, size_t first, size_t n, uint8_t *wire,
                     uint8_t *got, struct error *error)
{
	uint8_t *answer = wire + n * q->in_bytes;
	char line[512], what[160];

	snprintf(what, sizeof what, "%s, items %zu to %zu", q->label, first, first + n - 1);
	rearrange(wire, (uint8_t *)items + first * q->in_bytes, q->in, q->in_bytes, n, false);
	snprintf(line, sizeof line, "{\"op\":\"%s\"%s,\"first\":%zu,\"n\":%zu,\"bytes\":%zu}\n", op_name(q->op), q->keys, first, n,
	         n * q->in_bytes);
	int code = child_ask(child, what, line, wire, n * q->in_bytes, answer, n * q->out_bytes, error);
	if (code != EXIT_OK || (child->unsupported && first == 0))
		return code;
	if (child->unsupported)
		return fail(error, EXIT_INPUT, "%s: %s: not supported from item %zu on, after answers to those before", child->command,
		            q->label, first);
	rearrange(answer, got + first * q->out_bytes, q->out, q->out_bytes, n, true);
	return EXIT_OK;
}

int question_ask(struct child *child, const struct question *q, const uint8_t *items, size_t first, size_t n, uint8_t *got,
                 struct error *error)
{
	const size_t batch = n - first < child->batch ? n - first : child->batch;
	uint8_t *wire = malloc(batch * (q->in_bytes + q->out_bytes) + 1);
	int code = wire != NULL ? EXIT_OK : fail_memory(error);

	child->unsupported = false;
	for (; first < n && code == EXIT_OK && !child->unsupported; first += batch)
		code = ask_batch(child, q, items, first, n - first < batch ? n - first : batch, wire, got, error);
	free(wire);
	return code;
}
