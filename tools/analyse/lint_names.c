/* SPDX-License-Identifier: MIT */
/* Checks of names, dtypes and shapes of the parts of quantized tensors, and of the index. Lists the quantized tensors. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lint.h"
#include "base/suffix.h"
#include "io/elements.h"
#include "io/json.h"
#include "io/member.h"
#include "model/foreign.h"
#include "model/scaled.h"

/* Tensors of which a model has many or none: they are one finding. */
struct tally {
	size_t n;
	struct lint_place first;
};

/* The tensors in the order of their names, so that parts of one weight follow each other. */
struct naming {
	struct lint *lint;
	struct error *error;
	struct tally e8m0, bare, foreign[N_FOREIGN], packed[N_DTYPES];
	char last[sizeof((struct error *)0)->text]; /* the last that was wrong: other parts say the same */
};

static void count(struct tally *tally, const struct lint_place *place)
{
	if (tally->n++ == 0)
		tally->first = *place;
}

/* The text of an error about a tensor without what names the tensor. */
static const char *without_place(const char *text, const struct model_tensor *at)
{
	char place[sizeof((struct error *)0)->text];
	int n = snprintf(place, sizeof place, "%s: tensor '%s': ", at->file->path, at->tensor->name);

	return n > 0 && strncmp(text, place, (size_t)n) == 0 ? text + n : text;
}

/* The tensor that an error about a part of one is about: another part of it, perhaps. */
static struct model_tensor named_in(const struct model *model, const char *text, const struct model_tensor *at)
{
	static const char before[] = ": tensor '";
	const char *name = strstr(text, before), *end = name != NULL ? strstr(name + strlen(before), "': ") : NULL;
	char copy[sizeof((struct error *)0)->text];
	struct model_tensor found = *at;

	if (end == NULL)
		return *at;
	name += strlen(before);
	snprintf(copy, sizeof copy, "%.*s", (int)(end - name), name);
	found.tensor = model_find(model, copy, &found.file);
	return found.tensor != NULL ? found : *at;
}

/* A tensor of which the layouts say that it, or what it is a part of, is wrong. */
static int find_wrong(struct naming *n, const struct model_tensor *at, const char *text)
{
	if (strcmp(text, n->last) == 0)
		return EXIT_OK;
	snprintf(n->last, sizeof n->last, "%s", text);
	const struct model_tensor about = named_in(n->lint->model, text, at);
	const struct lint_place place = {.file = about.file, .tensor = about.tensor->name};
	return lint_find(n->lint, LINT_PARTS, &place, n->error, "%s", without_place(text, &about));
}

/* A tensor whose numbers no check reads. */
static void count_unread(struct naming *n, const struct model_tensor *at)
{
	n->lint->has_foreign = true;
	if (n->lint->unseen.n_unread++ == 0)
		n->lint->unseen.unread = at->tensor->name;
}

/* A tensor that is no part of a quantized one that can be read. */
static int find_foreign(struct naming *n, const struct model_tensor *at, bool *foreign, const char **whole)
{
	const struct tensor *codes;
	int row, code = foreign_find(n->lint->model, at->tensor, &row, &codes, n->error);

	*foreign = code == EXIT_OK && row < N_FOREIGN;
	if (*foreign)
		*whole = codes->name;
	if (*foreign && codes == at->tensor) {
		count(&n->foreign[row], &(struct lint_place){.file = at->file, .tensor = at->tensor->name});
		count_unread(n, at);
		/* It has q, k and v in one module. */
		n->lint->names_unknown |= row == FOREIGN_QUIP;
	}
	return code;
}

/* Whether a tensor has the name of a part other than codes in some layout. */
static bool is_named_part(const struct tensor *tensor)
{
	for (size_t i = 0; layouts[i] != NULL; i++)
		for (size_t k = 0; k < layouts[i]->n_forms; k++) {
			const struct layout_part_form *scales = &layouts[i]->forms[k].parts[LAYOUT_SCALES];

			if (scales->append != NULL && scales->append[0] != '\0' &&
			    suffix_stem(tensor->name, scales->append) != 0)
				return true;
		}
	return false;
}

/* Numbers that were cast to FP8, as files of diffusion models are; a matrix of them is no scales. */
static bool is_bare(const struct tensor *tensor)
{
	return (tensor->dtype == DTYPE_F8_E4M3 || tensor->dtype == DTYPE_F8_E5M2) && tensor->rank > 1 &&
	       suffix_stem(tensor->name, "weight") > 0;
}

static int add_weight(struct naming *n, const struct quantized *q, const char *name, const struct model_tensor *at)
{
	const struct lint_place place = {.file = at->file, .tensor = at->tensor->name};
	const struct file *file;
	const struct tensor *plain = model_find(n->lint->model, name, &file);

	n->lint->weights[n->lint->n_weights++] = (struct lint_weight){
		.name = name,
		.file = q->files[LAYOUT_CODES],
		.codes = at->tensor,
		.format = q->choice.form->format,
		.layout = q->choice.form->sparse ? NULL : q->choice.layout,
	};
	if (plain == NULL || plain == at->tensor)
		return EXIT_OK;
	return lint_find(n->lint, LINT_DUPLICATE, &place, n->error, "'%s' is there too, as %s", name,
	                 dtype_info(plain->dtype)->name);
}

/* What the weight is called of which such a tensor is a part, or the codes, that is not read, or not for certain: `weight` of its
   module. */
static int set_whole(struct naming *n, const char **whole)
{
	static const char weight[] = ".weight";
	const char *end = strrchr(*whole, '.');
	const size_t length = end != NULL ? (size_t)(end - *whole) : 0;

	if (end == NULL || strcmp(end, weight) == 0)
		return EXIT_OK;
	char *name = arena_take(&n->lint->arena, length + sizeof weight);
	if (name == NULL)
		return fail_memory(n->error);
	snprintf(name, length + sizeof weight, "%.*s", (int)length, *whole);
	if (suffix_stem(name, weight) == 0)
		snprintf(name + length, sizeof weight, "%s", weight);
	*whole = name;
	return EXIT_OK;
}

/* Blocks of ggml that are of no layout. */
static bool is_packed(const struct tensor *tensor)
{
	return dtype_info(tensor->dtype)->block_elements > 1 && !values_are_known(tensor->dtype);
}

static int look_at(struct naming *n, size_t i)
{
	const struct model_tensor *at = &n->lint->model->by_name[i];
	const struct lint_place place = {.file = at->file, .tensor = at->tensor->name};
	struct quantized q;
	const char *name;
	struct error wrong;
	const struct tensor *codes = NULL;
	bool foreign = false;
	int code = quantized_owner(&q, &name, n->lint->model, at->tensor, &n->lint->arena, &wrong), of_foreign = EXIT_OK;

	if (code == EXIT_OK && name == NULL)
		code = scaled_owner(&codes, n->lint->model, at->tensor, &wrong);
	n->lint->whole[i] = name != NULL ? name : codes != NULL ? codes->name : at->tensor->name;
	if (code == EXIT_OK && codes != NULL) {
		n->lint->is_part[i] = true;
		n->lint->n_scaled += codes == at->tensor;
		return EXIT_OK;
	}
	if (code == EXIT_INPUT || (code == EXIT_OK && name == NULL))
		of_foreign = find_foreign(n, at, &foreign, &n->lint->whole[i]);
	n->lint->is_part[i] = code != EXIT_OK || name != NULL || foreign;
	if (of_foreign == EXIT_OK && (foreign || code == EXIT_INPUT))
		of_foreign = set_whole(n, &n->lint->whole[i]);
	if (at->tensor->dtype == DTYPE_F8_E8M0)
		count(&n->e8m0, &place);
	if (foreign && code == EXIT_INPUT)
		snprintf(n->last, sizeof n->last, "%s", wrong.text);
	if (of_foreign != EXIT_OK || foreign)
		return of_foreign;
	if (code == EXIT_INPUT)
		return find_wrong(n, at, wrong.text);
	if (code != EXIT_OK) {
		*n->error = wrong;
		return code;
	}
	if (name != NULL)
		return q.parts[LAYOUT_CODES] == at->tensor ? add_weight(n, &q, name, at) : EXIT_OK;
	if (is_bare(at->tensor)) {
		count(&n->bare, &place);
		n->lint->has_foreign = true;
	}
	if (is_packed(at->tensor)) {
		count(&n->packed[at->tensor->dtype], &place);
		count_unread(n, at);
	}
	if (is_named_part(at->tensor) && dtype_info(at->tensor->dtype)->bits == 8)
		return lint_find(n->lint, LINT_ORPHAN, &place, n->error, "it is named as scales, but there are no codes");
	return EXIT_OK;
}

/* json_members that find metadata.total_size of an index and forget the rest. */
struct index_size {
	bool found;
	uint64_t total;
};

enum { VALUE_BYTES_MAX = 1 << 16, INDEX_BYTES_MAX = 100000000 };

/* Whether the next value is a number of digits only: some indexes have a text or a fraction. */
static bool is_natural(struct json_text *text)
{
	bool digits = json_next(text) >= '0' && json_next(text) <= '9';

	for (size_t i = text->at; i < text->n && digits && strchr(",} \t\r\n", text->bytes[i]) == NULL; i++)
		digits = text->bytes[i] >= '0' && text->bytes[i] <= '9';
	return digits;
}

static int take_metadata(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct index_size *size = context;

	if (strcmp(key, "total_size") != 0 || !is_natural(text))
		return json_skip(text, VALUE_BYTES_MAX, error);
	size->found = true;
	return json_take_natural(text, &size->total, error);
}

static int skip_member(struct json_text *text, const char *key, void *context, struct error *error)
{
	(void)key, (void)context;
	return json_skip(text, VALUE_BYTES_MAX, error);
}

static int take_index(struct json_text *text, const char *key, void *context, struct error *error)
{
	if (strcmp(key, "metadata") == 0)
		return json_take_object(text, take_metadata, context, error);
	if (json_next(text) == '{')
		return json_take_object(text, skip_member, context, error);
	return json_skip(text, VALUE_BYTES_MAX, error);
}

static int lint_index(struct lint *lint, struct error *error)
{
	const struct model *model = lint->model;
	bool named = suffix_stem(model->path, MODEL_INDEX_SUFFIX) != 0;
	size_t size = strlen(model->directory) + sizeof "/" MODEL_INDEX;
	char *path = malloc(size), *bytes = NULL;
	struct index_size found = {0};
	size_t n = 0;

	if (path == NULL)
		return fail_memory(error);
	snprintf(path, size, "%s/" MODEL_INDEX, model->directory);
	struct json_text text = {.path = named ? model->path : path, .what = "index"};
	int code = json_read_bytes(named ? descriptor_open : member_open, text.path, INDEX_BYTES_MAX, &bytes, &n,
	                           error);
	text.bytes = bytes;
	text.n = n;
	if (code == EXIT_OK)
		code = json_take_object(&text, take_index, &found, error);
	free(bytes);
	free(path);
	if (code != EXIT_OK || !found.found || found.total == model->data_bytes)
		return code;
	return lint_find(lint, LINT_TOTAL_SIZE, &(struct lint_place){0}, error,
	                 "total_size in the index is %" PRIu64 ", its tensors have %" PRIu64 " bytes", found.total,
	                 model->data_bytes);
}

/* What loaders of a layout make of its weights in a format: one finding for all of them. */
static int check_loaders(struct lint *lint, const struct layout *layout, enum mxfp_format format, struct error *error)
{
	struct lint_place first = {.file = NULL};
	bool misread;
	const char *caution = layout_caution(layout, format, &misread);
	size_t n = 0;

	for (size_t i = 0; i < lint->n_weights && caution != NULL; i++) {
		const struct lint_weight *weight = &lint->weights[i];

		if (weight->layout != layout || weight->format != format)
			continue;
		if (n++ == 0)
			first = (struct lint_place){.file = weight->file, .tensor = weight->codes->name};
	}
	if (n == 0)
		return EXIT_OK;
	return lint_find_alike(lint, misread ? LINT_MISREAD : LINT_REFUSED, &first, n, error, "it is %s in layout %s: %s",
	                       mxfp_format_get_info(format)->name, layout->name, caution);
}

static int compare_weights(const void *a, const void *b)
{
	return strcmp(((const struct lint_weight *)a)->name, ((const struct lint_weight *)b)->name);
}

int lint_names(struct lint *lint, struct error *error)
{
	struct naming n = {.lint = lint, .error = error};
	int code = lint->model->has_index ? lint_index(lint, error) : EXIT_OK;

	lint->weights = calloc(lint->model->n_tensors + 1, sizeof *lint->weights);
	lint->is_part = calloc(lint->model->n_tensors + 1, sizeof *lint->is_part);
	lint->whole = calloc(lint->model->n_tensors + 1, sizeof *lint->whole);
	if (lint->weights == NULL || lint->is_part == NULL || lint->whole == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < lint->model->n_tensors && code == EXIT_OK; i++)
		code = look_at(&n, i);
	if (code == EXIT_OK && n.e8m0.n > 0)
		code = lint_find_alike(lint, LINT_SCALE_DTYPE, &n.e8m0.first, n.e8m0.n, error, "it is F8_E8M0");
	if (code == EXIT_OK && lint->model->n_superseded > 0)
		code = lint_find_alike(lint, LINT_SUPERSEDED, &(struct lint_place){.tensor = lint->model->superseded},
		                       lint->model->n_superseded, error,
		                       "it stands in another file than the one the index names, too");
	for (int row = 0; row < N_FOREIGN && code == EXIT_OK; row++)
		if (n.foreign[row].n > 0)
			code = lint_find_alike(lint, LINT_UNKNOWN, &n.foreign[row].first, n.foreign[row].n, error, "it is %s, which "
			                       "mxfp does not read; %s", foreign_what(row), foreign_remedy(row));
	if (code == EXIT_OK && n.bare.n > 0)
		code = lint_find_alike(lint, LINT_UNKNOWN, &n.bare.first, n.bare.n, error, "it is FP8 without scales, which mxfp does not "
		                       "read; .to(torch.bfloat16) of PyTorch turns it into numbers");
	for (int dtype = 0; dtype < N_DTYPES && code == EXIT_OK; dtype++)
		if (n.packed[dtype].n > 0)
			code = lint_find_alike(lint, LINT_UNKNOWN, &n.packed[dtype].first, n.packed[dtype].n, error, "it is %s of ggml, which "
			                       "mxfp does not read; quantize the model that it was made from",
			                       dtype_info((enum dtype)dtype)->name);
	qsort(lint->weights, lint->n_weights, sizeof *lint->weights, compare_weights);
	for (size_t l = 0; layouts[l] != NULL && code == EXIT_OK; l++)
		for (size_t i = 0; i < layouts[l]->n_forms && code == EXIT_OK; i++)
			if (!layouts[l]->forms[i].sparse)
				code = check_loaders(lint, layouts[l], layouts[l]->forms[i].format, error);
	return code;
}
