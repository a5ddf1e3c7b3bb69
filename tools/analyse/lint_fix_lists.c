/* SPDX-License-Identifier: MIT */
/* Mends of config.json and hf_quant_config.json: what is quantized is to be seen in the files, so that lists of modules which
   say otherwise are wrong, and so is a section about quantized weights where there is none. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lint_mend.h"
#include "io/json.h"
#include "model/meaning.h"
#include "model/module_list.h"
#include "model/section.h"

/* The list that a method has, if it stands nowhere. */
static const struct {
	const char *method, *key;
} own_keys[] = {
	{"compressed-tensors", "ignore"}, {"modelopt", "ignore"}, {"quark", "exclude"}, {"mxfp4", "modules_to_not_convert"},
	{"fp8", "modules_to_not_convert"}, {"mxfp8", "modules_to_not_convert"},
};

/* The objects that may have lists: sections of config.json, and that of hf_quant_config.json. */
enum { SECTIONS_MAX = 16 };
struct sections {
	size_t n;
	json_t *items[SECTIONS_MAX];
	const char *names[SECTIONS_MAX]; /* "quantization_config of config.json" */
	bool second[SECTIONS_MAX];
};

static void add_section(struct sections *sections, json_t *section, const char *name, bool second)
{
	if (!json_is_object(section) || json_object_size(section) == 0 || sections->n == SECTIONS_MAX)
		return;
	sections->items[sections->n] = section;
	sections->second[sections->n] = second;
	sections->names[sections->n++] = name;
}

/* Makes the copies that are changed, and lists their sections. */
static int open_sections(struct sections *sections, struct mending *mending, struct error *error)
{
	const struct model *model = mending->model;
	int code = EXIT_OK;

	*sections = (struct sections){0};
	json_prepare();
	if (mending->config == NULL && model->config != NULL) {
		mending->config = json_deep_copy(model->config);
		if (mending->config == NULL || json_out_of_memory())
			return fail_memory(error);
		code = lint_second_config(model, &mending->second, error);
	}
	json_t *config = mending->config;
	for (size_t i = 0; section_names[i].name != NULL; i++)
		add_section(sections, json_object_get(config, section_names[i].name), section_names[i].name, false);
	for (void *at = json_object_iter(config); at != NULL; at = json_object_iter_next(config, at))
		add_section(sections, json_object_get(json_object_iter_value(at), section_names[0].name), section_names[0].name, false);
	add_section(sections, json_object_get(mending->second, "quantization"), LINT_SECOND_CONFIG, true);
	return code;
}

/* An entry of a list as a list of its own. */
static int compile_one(struct module_list *one, const char *entry, struct error *error)
{
	int code = module_list_add(one, entry, error);

	return code == EXIT_OK ? module_list_compile(one, "config.json: ignored modules", error) : code;
}

/* The search for entries that name a quantized module. */
struct search {
	struct mending *mending;
	const struct lint *lint;
	struct lint_fate *fate;
	char *module;              /* the quantized one */
	struct module_name other;
	size_t n_removed;
	char removed[256];         /* for the fate */
	const char *unsure;        /* a tensor because of which an entry cannot go, NULL: none */
	const char *unsure_entry;
};

/* Whether a tensor that is not quantized may be no module of that name, or one of several: what takes its entry away is not
   certain to leave it as it is. */
static bool is_of_several(const struct lint *lint, size_t i)
{
	const struct model_tensor *at = &lint->model->by_name[i];

	return at->tensor->rank > 2 || (at->tensor->rank == 2 && !lint_is_linear(lint->model, at->tensor) &&
	                                role_of(&lint->model->role_model, at->tensor).kind != ROLE_OTHER);
}

/* A head that shares the embedding's weight is a module without a tensor of its own (layout_config.c). */
static void keep_tied(const struct model *model, const struct module_list *one, const struct module_list *rest, json_t *list)
{
	char head[] = "lm_head";
	const struct file *file;

	if (model_find(model, "lm_head.weight", &file) == NULL && module_list_has(one, head) && !module_list_has(rest, head))
		json_array_append_new(list, json_string(head));
}

/* Goes through what an entry names besides: *list, NULL: only looks whether something is unsure. */
static int keep_others(struct search *s, const char *entry, json_t *list, struct error *error)
{
	const struct model *model = s->lint->model;
	struct module_list one = {0}, rest = {0};
	int code = compile_one(&one, entry, error);

	if (code == EXIT_OK && list != NULL)
		code = module_list_add_array(&rest, list, error);
	if (code == EXIT_OK)
		code = module_list_compile(&rest, "config.json: ignored modules", error);
	for (size_t i = 0; i < model->n_tensors && code == EXIT_OK; i++) {
		const struct tensor *tensor = model->by_name[i].tensor;
		bool is_module;

		if (s->lint->is_part[i])
			continue;
		code = module_name_set(&s->other, tensor->name, &is_module, error);
		if (code != EXIT_OK || !module_list_has(&one, s->other.text))
			continue;
		if (is_of_several(s->lint, i)) {
			s->unsure = tensor->name;
			s->unsure_entry = entry;
		} else if (list != NULL && is_module && lint_is_linear(model, tensor) && !module_list_has(&rest, s->other.text)) {
			json_array_append_new(list, json_string(s->other.text));
		}
	}
	if (code == EXIT_OK && list != NULL)
		keep_tied(model, &one, &rest, list);
	module_list_free(&one);
	module_list_free(&rest);
	return code;
}

static void note_removed(struct search *s, const char *entry, const char *key, const char *where)
{
	const size_t used = strlen(s->removed);

	if (s->n_removed++ < 2)
		snprintf(s->removed + used, sizeof s->removed - used, "%s'%.64s' of %s of %s", used > 0 ? ", " : "", entry, key, where);
}

/* Looks at one list, or takes out of it what names the module, and lists what else that named. */
static int go_through(struct search *s, json_t *list, const char *key, const char *where, bool remove, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < json_array_size(list) && code == EXIT_OK;) {
		const char *entry = json_string_value(json_array_get(list, i));
		struct module_list one = {0};

		if (entry == NULL) {
			i++;
			continue;
		}
		code = compile_one(&one, entry, error);
		const bool names = code == EXIT_OK && module_list_has(&one, s->module);
		module_list_free(&one);
		if (!names) {
			i++;
			continue;
		}
		if (!remove) {
			code = keep_others(s, entry, NULL, error);
			i++;
			continue;
		}
		json_t *taken = json_incref(json_array_get(list, i));
		json_array_remove(list, i);
		note_removed(s, entry, key, where);
		code = keep_others(s, entry, list, error);
		json_decref(taken);
	}
	return code;
}

/* A key of a section for programs that go by scales. */
static void remove_false(struct search *s, json_t *section, const char *where)
{
	if (!json_is_false(json_object_get(section, s->module)))
		return;
	note_removed(s, s->module, "keys", where);
	json_object_del(section, s->module);
}

static int go_through_all(struct search *s, const struct sections *sections, bool remove, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < sections->n && code == EXIT_OK; i++) {
		for (size_t k = 0; k < N_MODULE_LIST_KEYS && code == EXIT_OK; k++)
			code = go_through(s, json_object_get(sections->items[i], module_list_keys[k]), module_list_keys[k],
			                  sections->names[i], remove, error);
		if (code == EXIT_OK && remove)
			remove_false(s, sections->items[i], sections->names[i]);
	}
	return code;
}

/* The targets of the one group that a weight's format is in; NULL: none, or several. */
static json_t *targets_of(json_t *section, const struct lint *lint, const char *name)
{
	json_t *groups = json_object_get(section, "config_groups"), *group, *targets = NULL;
	const char *key, *form = NULL;
	struct quantized q;
	struct error ignored;
	bool found;
	size_t n = 0;

	if (quantized_find(&q, &found, lint->model, name, &ignored) == EXIT_OK && found)
		form = q.choice.form->config_name;
	json_object_foreach(groups, key, group) {
		const char *format = json_string_value(json_object_get(group, "format"));

		if (json_object_size(groups) > 1 && (form == NULL || format == NULL || strcmp(form, format) != 0))
			continue;
		targets = json_object_get(group, "targets");
		n++;
	}
	return n == 1 && json_is_array(targets) ? targets : NULL;
}

/* Whether the targets of any group are the module, or classes. */
static int is_target(bool *is, const json_t *section, char *module, struct error *error)
{
	struct module_list all = {0};
	const char *key;
	json_t *group;
	int code = EXIT_OK;

	*is = false;
	json_object_foreach(json_object_get(section, "config_groups"), key, group)
		if (code == EXIT_OK)
			code = module_list_add_array(&all, json_object_get(group, "targets"), error);
	for (size_t i = 0; i < all.n; i++)
		*is |= lint_is_class(all.texts[i]);
	*is |= all.n == 0;
	if (code == EXIT_OK)
		code = module_list_compile(&all, "config.json: targets", error);
	if (code == EXIT_OK && !*is)
		*is = module_list_has(&all, module);
	module_list_free(&all);
	return code;
}

/* Names a module that no list names among the targets of its group. */
static int add_target(struct search *s, const struct sections *sections, const char *weight, struct error *error)
{
	bool is = false;
	size_t n = 0;
	int code = EXIT_OK;

	for (size_t i = 0; i < sections->n && code == EXIT_OK; i++) {
		if (sections->second[i])
			continue;
		code = is_target(&is, sections->items[i], s->module, error);
		if (code != EXIT_OK || is)
			continue;
		json_t *targets = targets_of(sections->items[i], s->lint, weight);
		if (targets == NULL) {
			mend_left(s->fate, "which group of config_groups it belongs to cannot be told");
			return EXIT_OK;
		}
		json_array_append_new(targets, json_string(s->module));
		n++;
	}
	if (n > 0)
		mend_done(s->fate, "targets of its group in config_groups: none -> '%.200s'", s->module);
	else
		mend_done(s->fate, "the entry that named it is gone already");
	return code;
}

int mend_skipped(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                 struct error *error)
{
	struct search s = {.mending = mending, .lint = lint, .fate = fate};
	struct module_name name = {0};
	struct sections sections;
	bool is_module;
	int code = open_sections(&sections, mending, error);

	if (code == EXIT_OK)
		code = module_name_set(&name, place->tensor, &is_module, error);
	s.module = name.text;
	if (code == EXIT_OK)
		code = go_through_all(&s, &sections, false, error);
	if (code == EXIT_OK && s.unsure != NULL)
		mend_left(fate, "'%.64s' names '%.200s', too, which is not quantized and is not a linear layer of its own; write the list by hand",
		          s.unsure_entry, s.unsure);
	else if (code == EXIT_OK) {
		code = go_through_all(&s, &sections, true, error);
		if (code == EXIT_OK && s.n_removed == 0)
			code = add_target(&s, &sections, place->tensor, error);
		if (code == EXIT_OK && json_out_of_memory())
			code = fail_memory(error);
		if (s.n_removed > 0)
			mend_done(fate, "%s%s -> removed; what else %s named and is not quantized is listed by name", s.removed,
			          s.n_removed > 2 ? ", ..." : "", s.n_removed > 1 ? "they" : "it");
	}
	free(name.text);
	free(s.other.text);
	return code;
}

/* The list of a section, made if its method has one; NULL: none is known. */
static json_t *list_of(const struct sections *sections, size_t i, const char **key)
{
	json_t *section = sections->items[i];
	const char *method = json_string_value(json_object_get(section, "quant_method"));

	for (size_t k = 0; k < N_MODULE_LIST_KEYS; k++) {
		*key = module_list_keys[k];
		if (json_is_array(json_object_get(section, *key)))
			return json_object_get(section, *key);
	}
	*key = sections->second[i] ? "exclude_modules" : NULL;
	for (size_t k = 0; k < sizeof own_keys / sizeof own_keys[0] && method != NULL && *key == NULL; k++)
		if (strcmp(own_keys[k].method, method) == 0)
			*key = own_keys[k].key;
	if (*key == NULL || !section_is_empty(json_object_get(section, *key)))
		return NULL;
	json_object_set_new(section, *key, json_array());
	return json_object_get(section, *key);
}

int mend_unlisted(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                  struct error *error)
{
	struct module_name name = {0};
	struct sections sections;
	bool is_module;
	char where[256] = "";
	size_t n = 0;
	int code = open_sections(&sections, mending, error);

	(void)lint;
	if (code == EXIT_OK)
		code = module_name_set(&name, place->tensor, &is_module, error);
	for (size_t i = 0; i < sections.n && code == EXIT_OK; i++) {
		const char *key;
		json_t *list = list_of(&sections, i, &key);
		const size_t used = strlen(where);

		if (list == NULL)
			continue;
		json_array_append_new(list, json_string(name.text));
		snprintf(where + used, sizeof where - used, "%s%s of %s", n++ > 0 ? ", " : "", key, sections.names[i]);
	}
	if (code == EXIT_OK && json_out_of_memory())
		code = fail_memory(error);
	if (n > 0)
		mend_done(fate, "%s: none -> '%.200s'", where, name.text);
	else
		mend_left(fate, "under which key its method lists modules that are not quantized is not known");
	free(name.text);
	return code;
}

/* Whether a section says of weights that they are quantized; caches alone are another matter. */
struct leftover {
	size_t n;
	char text[256];
};

static int note_leftover(void *context, const struct meaning_fact *fact, struct error *error)
{
	struct leftover *leftover = context;

	(void)error;
	if (fact->kind == MEANING_LEFTOVER && leftover->n++ == 0)
		snprintf(leftover->text, sizeof leftover->text, "%.200s", fact->key);
	return EXIT_OK;
}

int mend_config(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                struct error *error)
{
	struct leftover leftover = {0};
	struct sections sections;

	if (place->tensor != NULL)
		return mend_scales_as_bytes(mending, lint, place, fate, error);
	if (lint->n_weights + lint->n_scaled > 0) {
		mend_left(fate, "how activations were to be quantized cannot be told; take the config.json that its maker wrote");
		return EXIT_OK;
	}
	int code = meaning_list(mending->model, note_leftover, &leftover, error);
	if (code == EXIT_OK && leftover.n == 0)
		mend_left(fate, "it does not say that weights are quantized, and what it says of caches or activations may be meant");
	if (code != EXIT_OK || leftover.n == 0)
		return code;
	code = open_sections(&sections, mending, error);
	if (code != EXIT_OK)
		return code;
	const json_t *method = json_object_get(section_find(mending->config), "quant_method");
	char named[80] = "";
	if (json_is_string(method))
		snprintf(named, sizeof named, " with quant_method %.48s", json_string_value(method));
	mend_done(fate, "%s%s -> none%s", leftover.text, named, mending->second != NULL ? "; so is " LINT_SECOND_CONFIG : "");
	section_remove_all(mending->config);
	mending->no_second = mending->second != NULL;
	return EXIT_OK;
}

int mend_index(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
               struct error *error)
{
	(void)error;
	mending->index = true;
	if (place->tensor != NULL)
		mend_done(fate, "the other copies are left out, %zu in all; the index is rewritten", lint->model->n_superseded);
	else
		mend_done(fate, "total_size -> the bytes of the tensors that are written");
	return EXIT_OK;
}
