/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/stays.h"

#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "io/facts.h"

int stays_find(struct stays *stays, const struct quantize_plan *plan, struct error *error)
{
	*stays = (struct stays){.items = calloc(plan->n_entries + 1, sizeof *stays->items)};
	if (stays->items == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];
		size_t k = 0;

		if (entry->quantized || entry->stored->rank < 2)
			continue;
		while (k < stays->n && strcmp(stays->items[k].reason, entry->reason) != 0)
			k++;
		if (k == stays->n) {
			struct stay *stay = &stays->items[stays->n++];

			stay->first = strdup(entry->stored->name);
			stay->reason = strdup(entry->reason);
			if (stay->first == NULL || stay->reason == NULL)
				return fail_memory(error);
		}
		stays->items[k].n++;
	}
	return EXIT_OK;
}

bool stays_has(const struct stays *stays, const struct stay *stay)
{
	for (size_t i = 0; i < stays->n; i++)
		if (stays->items[i].n == stay->n && strcmp(stays->items[i].first, stay->first) == 0 &&
		    strcmp(stays->items[i].reason, stay->reason) == 0)
			return true;
	return false;
}

void stay_print(const struct stay *stay, FILE *file)
{
	fprintf(file, "%zu matri%s as stored, %s", stay->n, stay->n == 1 ? "x stays" : "ces stay", stay->n == 1 ? "" : "the first ");
	print_markdown(file, stay->first);
	fputs(": ", file);
	print_markdown(file, stay->reason);
	putc('\n', file);
}

json_t *stays_facts(const struct stays *stays)
{
	json_t *list = json_array();

	for (size_t i = 0; i < stays->n; i++)
		list = facts_append(list, json_pack("{s:o, s:I, s:o}", "reason", facts_text(stays->items[i].reason), "matrices",
		                                    (json_int_t)stays->items[i].n, "first", facts_text(stays->items[i].first)));
	return list;
}

void stays_free(struct stays *stays)
{
	for (size_t i = 0; i < stays->n; i++) {
		free(stays->items[i].first);
		free(stays->items[i].reason);
	}
	free(stays->items);
	*stays = (struct stays){0};
}
