/* SPDX-License-Identifier: MIT */
/* Lists of modules in config.json: names of modules or of what they are in, their ends, globs, or after "re:" regular
   expressions. */
#ifndef TOOLS_MODEL_MODULE_LIST_H
#define TOOLS_MODEL_MODULE_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "model/pattern.h"

/* The keys of such lists of what is not quantized. */
enum { N_MODULE_LIST_KEYS = 5 };
extern const char *const module_list_keys[N_MODULE_LIST_KEYS];

/* All zero: empty. */
struct module_list {
	size_t n, capacity;
	const char **texts;          /* of the JSON */
	struct patterns expressions; /* those after "re:" */
	struct patterns names;       /* the others */
};

/* Adds an entry; the strings of an array; the keys of an object that are false, as sections for programs that go by scales
   have them. EXIT_MEMORY. */
int module_list_add(struct module_list *list, const char *text, struct error *error);
int module_list_add_array(struct module_list *list, const json_t *array, struct error *error);
int module_list_add_false(struct module_list *list, const json_t *section, struct error *error);

/* Compiles the entries, and sorts them, expressions first. `where` is for errors. EXIT_INPUT, EXIT_MEMORY. */
int module_list_compile(struct module_list *list, const char *where, struct error *error);

/* Whether an entry names the module. The text is cut and mended. */
bool module_list_has(const struct module_list *list, char *module);

void module_list_free(struct module_list *list);

/* The module whose weight a tensor is, in memory that grows. */
struct module_name {
	char *text;
	size_t size;
};

/* *is_module is false if it is no module's weight by its name; the text is that name then. EXIT_MEMORY. */
int module_name_set(struct module_name *name, const char *weight, bool *is_module, struct error *error);

#endif
