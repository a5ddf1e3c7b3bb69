/* SPDX-License-Identifier: MIT */
/* What the model says about its numbers besides them. Tensors that say the same are one finding. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "analyse/lint.h"
#include "model/meaning.h"

enum { KEYS_MAX = 16, KEY_BYTES = 64, TEXT_BYTES = 512 };

/* What tensors of one key say. */
struct told {
	char key[KEY_BYTES];
	enum meaning_kind kind;
	const char *tensor; /* the first */
	char text[TEXT_BYTES];
	size_t n;
};

struct telling {
	struct lint *lint;
	size_t n;
	struct told told[KEYS_MAX];
};

static enum lint_check check_of(enum meaning_kind kind)
{
	return kind == MEANING_FOLDED ? LINT_PRE_QUANT_SCALE : kind == MEANING_FOREIGN ? LINT_UNKNOWN : LINT_MEANING;
}

static int tell_key(struct lint *lint, const struct meaning_fact *fact, struct error *error)
{
	/* Tensors were found by name and say more, or lint_config.c looks at config.json for it. */
	if ((strcmp(fact->key, "quant_method") == 0 && lint->has_foreign) || fact->kind == MEANING_LEFTOVER)
		return EXIT_OK;
	return lint_find(lint, check_of(fact->kind), &(struct lint_place){0}, error, "%s: '%s' %s", fact->path, fact->key,
	                 fact->text);
}

static void count_tensor(struct telling *t, const struct meaning_fact *fact)
{
	size_t i = 0;

	while (i < t->n && (strncmp(t->told[i].key, fact->key, KEY_BYTES - 1) != 0 || t->told[i].kind != fact->kind))
		i++;
	if (i == KEYS_MAX)
		return;
	if (i == t->n) {
		struct told *new = &t->told[t->n++];

		*new = (struct told){.kind = fact->kind, .tensor = fact->tensor};
		snprintf(new->key, sizeof new->key, "%s", fact->key);
		snprintf(new->text, sizeof new->text, "%s", fact->text);
	}
	t->told[i].n++;
}

static int take(void *context, const struct meaning_fact *fact, struct error *error)
{
	struct telling *t = context;

	t->lint->refused |= fact->kind != MEANING_CARRIED && fact->kind != MEANING_FOLDED;
	if (fact->tensor == NULL)
		return tell_key(t->lint, fact, error);
	if (fact->kind != MEANING_CARRIED && fact->kind != MEANING_FOREIGN)
		count_tensor(t, fact);
	return EXIT_OK;
}

int lint_meaning(struct lint *lint, struct error *error)
{
	struct telling t = {.lint = lint};
	int code = meaning_list(lint->model, take, &t, error);

	for (size_t i = 0; i < t.n && code == EXIT_OK; i++) {
		struct lint_place place = {.tensor = t.told[i].tensor};

		(void)model_find(lint->model, place.tensor, &place.file);
		code = lint_find(lint, check_of(t.told[i].kind), &place, error, "it and %zu others: %s", t.told[i].n - 1,
		                 t.told[i].text);
	}
	return code;
}
