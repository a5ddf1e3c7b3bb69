/* SPDX-License-Identifier: MIT */
/* Mends of scales: those stored as numbers, those of fused layers, those of inputs. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lint_inputs.h"
#include "analyse/lint_mend.h"
#include "io/elements.h"
#include "model/fused.h"

enum { CODES = MEND_CODES, E8M0_NAN = 0xFF, CHUNK_BYTES = 1 << 16, NUMBERS = 512, SIGN = 0x80 };

/* Scales stored as numbers */

/* What was seen of numbers that should be bytes. */
struct numbers_seen {
	const double *table;  /* the format's numbers */
	bool values, bytes;   /* all are numbers of the table; all are natural numbers below 255 */
	double least, most;
};

static void see_numbers(struct numbers_seen *seen, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const bool is_byte = x[i] >= 0 && x[i] < E8M0_NAN && x[i] == floor(x[i]), is_value = mend_code_of(seen->table, x[i]) >= 0;

		seen->values &= is_value;
		seen->bytes &= is_byte;
		seen->least = x[i] < seen->least ? x[i] : seen->least;
		seen->most = x[i] > seen->most ? x[i] : seen->most;
	}
}

static int read_numbers(struct numbers_seen *seen, const struct file *file, const struct tensor *tensor, struct error *error)
{
	const size_t width = dtype_info(tensor->dtype)->bits / 8;
	const uint64_t n = tensor_elements(tensor);
	unsigned char bytes[NUMBERS * sizeof(double)];
	double x[NUMBERS];
	int code = EXIT_OK;

	for (uint64_t i = 0; i < n && code == EXIT_OK && (seen->values || seen->bytes); i += NUMBERS) {
		const size_t count = n - i < NUMBERS ? (size_t)(n - i) : NUMBERS;

		code = file_read(file, tensor, i * width, bytes, count * width, error);
		if (code == EXIT_OK) {
			values_decode(tensor->dtype, bytes, x, count);
			see_numbers(seen, x, count);
		}
	}
	return code;
}

/* A form whose scales a tensor of numbers would be, were it bytes. */
struct numbered {
	const struct tensor *scales;
	const struct file *file;
	enum mxfp_format scale; /* of the scales */
	enum dtype dtype;
	bool ambiguous;         /* forms with different scales fit */
};

static int try_form(struct numbered *found, const struct lint *lint, const struct layout *layout, const struct layout_form *form,
                    const struct tensor *codes, const char *name, struct error *error)
{
	const struct layout_choice choice = {.layout = layout, .form = form, .grid = {lint->model->grid[0], lint->model->grid[1]}};
	const struct tensor *parts[N_LAYOUT_PARTS] = {[LAYOUT_CODES] = codes};
	const struct file *file;
	struct layout_shape shape;
	bool fits;

	/* Without a name of their own, codes are those of integers, unless config.json says what they are. */
	const bool is_stated = (lint->model->formats >> form->format & 1) != 0;
	const bool may_be = is_stated || (lint->model->formats == 0 && form->parts[LAYOUT_CODES].append[0] != '\0' &&
	                                  strcmp(form->parts[LAYOUT_CODES].append, ".weight") != 0);

	if (!may_be || form->sparse || form->parts[LAYOUT_CODES].dtype != codes->dtype || form->parts[LAYOUT_SCALES].append == NULL)
		return EXIT_OK;
	char *scales_name = layout_part_name(form, LAYOUT_SCALES, name, &fits);
	if (!fits)
		return EXIT_OK;
	if (scales_name == NULL)
		return fail_memory(error);
	const struct tensor *scales = model_find(lint->model, scales_name, &file);
	free(scales_name);
	if (scales == NULL || (scales->dtype != DTYPE_F32 && scales->dtype != DTYPE_BF16 && scales->dtype != DTYPE_F16))
		return EXIT_OK;
	struct tensor bytes = *scales;
	bytes.dtype = form->parts[LAYOUT_SCALES].dtype;
	parts[LAYOUT_SCALES] = &bytes;
	if (!layout_fits(&choice, parts, &shape))
		return EXIT_OK;
	const enum mxfp_format scale = mxfp_format_get_info(form->format)->scale;
	found->ambiguous |= found->scales != NULL && (found->scale != scale || found->dtype != bytes.dtype);
	if (found->scales == NULL)
		*found = (struct numbered){scales, file, scale, bytes.dtype, false};
	return EXIT_OK;
}

static int find_numbered(struct numbered *found, const struct lint *lint, const struct tensor *codes, struct error *error)
{
	int code = EXIT_OK;

	*found = (struct numbered){.ambiguous = false};
	for (size_t i = 0; layouts[i] != NULL && code == EXIT_OK; i++)
		for (size_t k = 0; k < layouts[i]->n_forms && code == EXIT_OK; k++) {
			const struct layout_form *form = &layouts[i]->forms[k];
			const struct layout_part_form *part = &form->parts[LAYOUT_CODES];
			const size_t stem = strlen(codes->name), append = strlen(part->append), size = stem + strlen(part->remove) + 1;

			if (stem <= append || strcmp(codes->name + stem - append, part->append) != 0)
				continue;
			char *name = malloc(size);
			if (name == NULL)
				return fail_memory(error);
			snprintf(name, size, "%.*s%s", (int)(stem - append), codes->name, part->remove);
			code = try_form(found, lint, layouts[i], form, codes, name, error);
			free(name);
		}
	return code;
}

/* Decides what numbers are: those of a scale, or of its bytes; small powers of two may be both. */
static int decide_numbers(struct mending *mending, const struct numbered *found, struct lint_fate *fate, struct error *error)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(found->scale);
	double table[CODES];
	struct numbers_seen seen = {.table = table, .values = true, .bytes = found->scale == MXFP_FORMAT_E8M0, .least = (double)INFINITY,
	                            .most = -(double)INFINITY};
	struct mend *mend;

	mend_decode_codes(found->scale, table);
	int code = read_numbers(&seen, found->file, found->scales, error);
	if (code != EXIT_OK)
		return code;
	if (seen.values == seen.bytes) {
		mend_left(fate, seen.values ? "'%.200s' has numbers from %g to %g, which may be those of %s or of its bytes"
		                            : "'%.200s' has numbers from %g to %g, and not all are values of %s", found->scales->name, seen.least,
		          seen.most, info->name);
		return EXIT_OK;
	}
	code = mending_of(&mend, mending, found->file, found->scales, error);
	if (code != EXIT_OK)
		return code;
	mend->target.dtype = found->dtype;
	mend->scale = found->scale;
	mend->numbers = seen.values ? MEND_VALUES : MEND_BYTES;
	mend_done(fate, "'%.200s': %s, numbers from %g to %g%s -> %s, %s", found->scales->name,
	          dtype_info(found->scales->dtype)->name, seen.least, seen.most, seen.values ? "" : ", those of the bytes",
	          dtype_info(found->dtype)->name, info->name);
	return EXIT_OK;
}

int mend_scales_as_bytes(struct mending *mending, const struct lint *lint, const struct lint_place *place,
                         struct lint_fate *fate, struct error *error)
{
	const struct file *file;
	const struct tensor *codes = model_find(lint->model, place->tensor, &file);
	struct numbered found;

	int code = codes == NULL ? EXIT_OK : find_numbered(&found, lint, codes, error);
	if (code != EXIT_OK || codes == NULL || found.scales == NULL || found.ambiguous) {
		mend_left(fate, "what fits here cannot be told from what is there");
		return code;
	}
	if (mending_find(mending, found.scales) != NULL) {
		mend_done(fate, "its scales, as said above");
		return EXIT_OK;
	}
	return decide_numbers(mending, &found, fate, error);
}

int mend_parts(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
               struct error *error)
{
	return mend_scales_as_bytes(mending, lint, place, fate, error);
}

/* A layout that is known by name alone, if it is none but numbers for bytes: of the tensors that the finding is about, too. */
int mend_unknown(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                 struct error *error)
{
	size_t n = 0;
	int code = EXIT_OK;

	(void)place;
	mend_left(fate, "%s", "");
	for (size_t i = 0; i < lint->model->n_tensors && code == EXIT_OK; i++) {
		struct numbered found;
		struct lint_fate one = {.fixed = false};

		if (!lint->is_part[i])
			continue;
		code = find_numbered(&found, lint, lint->model->by_name[i].tensor, error);
		if (code != EXIT_OK || found.scales == NULL || found.ambiguous || mending_find(mending, found.scales) != NULL)
			continue;
		code = decide_numbers(mending, &found, &one, error);
		if (!fate->fixed || !one.fixed)
			*fate = one;
		n += one.fixed;
		if (!one.fixed)
			break;
	}
	const size_t used = strlen(fate->text);
	if (fate->fixed && n > 1)
		snprintf(fate->text + used, sizeof fate->text - used, "; so are %zu others", n - 1);
	return code;
}

/* Fused layers */

struct fused_part {
	struct quantized q;
	const char *component;
	bool present[CODES];  /* bytes of its block scales */
	uint8_t map[CODES];
};

struct fused_parts {
	const struct lint *lint;
	size_t n;
	struct fused_part items[FUSED_MAX];
	double numbers[CODES];
};

/* Where the bytes of a weight's block scales are: a tensor of them, or in blocks of ggml. */
static void scales_of(const struct quantized *q, const struct tensor **tensor, const struct file **file)
{
	const enum layout_part part = q->parts[LAYOUT_SCALES] != NULL ? LAYOUT_SCALES : LAYOUT_CODES;

	*tensor = q->parts[part];
	*file = q->files[part];
}

static int see_bytes(struct fused_part *part, struct error *error)
{
	const struct tensor *tensor;
	const struct file *file;
	int code = EXIT_OK;

	scales_of(&part->q, &tensor, &file);
	const struct mend_unit unit = mend_unit_of(&(struct mend){.source = tensor});
	const size_t chunk = CHUNK_BYTES / unit.bytes * unit.bytes;
	unsigned char *bytes = malloc(chunk);
	if (bytes == NULL)
		return fail_memory(error);
	for (uint64_t at = 0; at < tensor->size && code == EXIT_OK; at += chunk) {
		const size_t n = tensor->size - at < chunk ? (size_t)(tensor->size - at) : chunk;

		code = file_read(file, tensor, at, bytes, n, error);
		for (size_t i = 0; i + unit.bytes <= n && code == EXIT_OK; i += unit.bytes)
			for (size_t k = 0; k < unit.n_scales; k++)
				part->present[bytes[i + k]] = true;
	}
	free(bytes);
	return code;
}

static bool is_a_weight(const void *lint, const char *name)
{
	return lint_weight(lint, name) != NULL;
}

static int read_part(struct fused_parts *parts, const struct fused *fused, size_t which, struct error *error)
{
	struct fused_part *part = &parts->items[parts->n];
	char *name = fused_name(fused, which);
	bool found = false;
	int code = name == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK && lint_weight(parts->lint, name) != NULL)
		code = quantized_find(&part->q, &found, parts->lint->model, name, error);
	free(name);
	if (code != EXIT_OK || !found || part->q.parts[LAYOUT_TENSOR_SCALE] == NULL)
		return code;
	part->component = fused->set->parts[which];
	parts->n++;
	return see_bytes(part, error);
}

/* Whether block scales of a part, times another tensor scale, are the same numbers: exact in binary64, of products of 4 and 24
   bits. */
static bool map_scales(struct fused_part *part, const double *numbers, double tensor_scale)
{
	const bool divides = part->q.choice.layout->divides;
	const double own = (double)part->q.tensor_scale, from = divides ? tensor_scale : own, to = divides ? own : tensor_scale;

	for (int i = 0; i < CODES; i++) {
		const bool has_number = isfinite(numbers[i]);
		int found = has_number ? -1 : i;

		part->map[i] = (uint8_t)i;
		if (!part->present[i])
			continue;
		for (int k = i & SIGN; k < (i & SIGN) + SIGN && found < 0; k++)
			found = isfinite(numbers[k]) && numbers[k] * to == numbers[i] * from ? k : found;
		if (found < 0)
			return false;
		part->map[i] = (uint8_t)found;
	}
	return true;
}

static bool map_all(struct fused_parts *parts, float tensor_scale)
{
	for (size_t i = 0; i < parts->n; i++)
		if (!map_scales(&parts->items[i], parts->numbers, (double)tensor_scale))
			return false;
	return true;
}

/* The tensor scale for all: one that is there, the largest first, which is what loaders take; else its power-of-two multiples. */
static bool find_tensor_scale(struct fused_parts *parts, float *tensor_scale)
{
	const bool divides = parts->items[0].q.choice.layout->divides;
	size_t order[FUSED_MAX];
	enum { STEPS = 20 }; /* E4M3 has 18 binades */

	for (size_t i = 0; i < parts->n; i++) {
		size_t k = i;

		for (; k > 0 && (divides ? parts->items[order[k - 1]].q.tensor_scale > parts->items[i].q.tensor_scale
		                         : parts->items[order[k - 1]].q.tensor_scale < parts->items[i].q.tensor_scale); k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
	for (int step = 0; step <= 2 * STEPS; step++)
		for (size_t i = 0; i < parts->n; i++) {
			const int exponent = step % 2 == 0 ? -(step / 2) : (step + 1) / 2;

			*tensor_scale = ldexpf(parts->items[order[i]].q.tensor_scale, divides ? -exponent : exponent);
			if (isnormal(*tensor_scale) && map_all(parts, *tensor_scale))
				return true;
		}
	return false;
}

static int change_part(struct mending *mending, const struct fused_part *part, float tensor_scale, struct lint_fate *fate,
                       struct error *error)
{
	const float own = part->q.tensor_scale;
	const size_t used = strlen(fate->text);
	const struct tensor *scales;
	const struct file *file;
	struct mend *mend;
	int code = EXIT_OK;

	snprintf(fate->text + used, sizeof fate->text - used, own == tensor_scale ? "%sof %s %.9g" : "%sof %s %.9g -> %.9g, block scales x %.9g",
	         used > 0 ? "; " : "tensor scale ", part->component, (double)own, (double)tensor_scale,
	         part->q.choice.layout->divides ? (double)tensor_scale / (double)own : (double)own / (double)tensor_scale);
	if (own == tensor_scale)
		return EXIT_OK;
	code = mending_of(&mend, mending, part->q.files[LAYOUT_TENSOR_SCALE], part->q.parts[LAYOUT_TENSOR_SCALE], error);
	dtype_swap(DTYPE_F32, &tensor_scale, sizeof tensor_scale);
	if (code == EXIT_OK)
		code = mending_set(mending, mend, &tensor_scale, sizeof tensor_scale, error);
	scales_of(&part->q, &scales, &file);
	uint8_t *map = arena_take(&mending->arena, CODES);
	if (code == EXIT_OK && map == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = mending_of(&mend, mending, file, scales, error);
	if (code != EXIT_OK)
		return code;
	memcpy(map, part->map, CODES);
	mend->map = map;
	return EXIT_OK;
}

/* Gives the parts of a set one tensor scale. */
static int fuse(struct mending *mending, struct fused_parts *parts, struct lint_fate *fate, struct error *error)
{
	float tensor_scale;
	int code = EXIT_OK;

	for (size_t i = 0; i < parts->n; i++) {
		const struct quantized *q = &parts->items[i].q;
		const struct tensor *scales;
		const struct file *file;

		scales_of(q, &scales, &file);
		if (!isnormal(q->tensor_scale) || q->tensor_scale < 0 || q->choice.layout != parts->items[0].q.choice.layout ||
		    mending_find(mending, scales) != NULL) {
			mend_left(fate, "the tensor scale of %s is %g, or it is in another layout; mend that first", parts->items[i].component,
			          (double)q->tensor_scale);
			return EXIT_OK;
		}
	}
	mend_decode_codes(MXFP_FORMAT_E4M3, parts->numbers);
	if (!find_tensor_scale(parts, &tensor_scale)) {
		mend_left(fate, "no tensor scale leaves all numbers as they are: block scales would be rounded");
		return EXIT_OK;
	}
	mend_done(fate, "%s", "");
	for (size_t i = 0; i < parts->n && code == EXIT_OK; i++)
		code = change_part(mending, &parts->items[i], tensor_scale, fate, error);
	return code;
}

int mend_fused_scale(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                     struct error *error)
{
	const struct fused_names names = {is_a_weight, lint};
	struct fused fused;
	bool found;
	struct fused_parts *parts = calloc(1, sizeof *parts);

	if (parts == NULL)
		return fail_memory(error);
	parts->lint = lint;
	int code = fused_find(&fused, &found, place->tensor, &names, error);
	for (size_t i = 0; code == EXIT_OK && found && i < fused.n; i++)
		code = read_part(parts, &fused, i, error);
	if (code == EXIT_OK && parts->n > 0)
		code = fuse(mending, parts, fate, error);
	free(parts);
	return code;
}

/* Scales of inputs */

/* Whether it is one number that loaders can take. */
static int read_scale(const struct model_tensor *at, unsigned char bytes[8], double *x, bool *right, struct error *error)
{
	*right = false;
	if (!elements_are_float(at->tensor->dtype) || tensor_elements(at->tensor) != 1)
		return EXIT_OK;
	const size_t n = (size_t)at->tensor->size;
	const int code = file_read(at->file, at->tensor, 0, bytes, n, error);
	if (code == EXIT_OK) {
		values_decode(at->tensor->dtype, bytes, x, 1);
		*right = isnormal((float)*x) && *x > 0;
	}
	return code;
}

/* The scale that layers with the input of another have, all of them the same. */
struct beside {
	struct model_tensor from; /* the tensor NULL: none */
	unsigned char bytes[8];
	double x;
	bool differ;
};

static int find_beside(struct beside *found, const struct lint *lint, const char *name, struct error *error)
{
	int code = EXIT_OK;

	*found = (struct beside){.differ = false};
	for (size_t which = 0; code == EXIT_OK; which++) {
		struct model_tensor at;
		unsigned char bytes[8];
		bool right = false;
		double x = 0;
		char *beside;

		code = lint_input_beside(&beside, name, which, error);
		if (code != EXIT_OK || beside == NULL)
			break;
		at.tensor = model_find(lint->model, beside, &at.file);
		free(beside);
		if (at.tensor != NULL)
			code = read_scale(&at, bytes, &x, &right, error);
		if (!right || code != EXIT_OK)
			continue;
		found->differ |= found->from.tensor != NULL && (found->from.tensor->dtype != at.tensor->dtype || found->x != x);
		if (found->from.tensor == NULL) {
			found->from = at;
			found->x = x;
			memcpy(found->bytes, bytes, sizeof bytes);
		}
	}
	return code;
}

static bool say_why_not(const struct beside *beside, struct lint_fate *fate)
{
	if (beside->from.tensor == NULL)
		mend_left(fate, "no layer with the same input has a scale for it; inputs must be measured again");
	else if (beside->differ)
		mend_left(fate, "layers with the same input have different scales for it; inputs must be measured again");
	return beside->from.tensor == NULL || beside->differ;
}

int mend_input_scale(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                     struct error *error)
{
	struct beside beside;
	int code = find_beside(&beside, lint, place->missing, error);

	if (code != EXIT_OK || say_why_not(&beside, fate))
		return code;
	mend_done(fate, "'%.200s': none -> %.9g, that of '%.200s'", place->missing, beside.x, beside.from.tensor->name);
	return mending_add(mending, place->file, place->missing, &beside.from, error);
}

int mend_scale_value(struct mending *mending, const struct lint *lint, const struct lint_place *place, struct lint_fate *fate,
                     struct error *error)
{
	struct model_tensor at;
	unsigned char bytes[8];
	struct beside beside;
	struct mend *mend;
	double x = 0;
	bool right;

	at.tensor = model_find(lint->model, place->tensor, &at.file);
	if (at.tensor == NULL || lint_input_module(place->tensor) == 0) {
		mend_left(fate, "what the scale was is lost");
		return EXIT_OK;
	}
	int code = read_scale(&at, bytes, &x, &right, error);
	if (code == EXIT_OK)
		code = find_beside(&beside, lint, place->tensor, error);
	if (code != EXIT_OK || say_why_not(&beside, fate))
		return code;
	if (tensor_elements(at.tensor) != 1 || at.tensor->dtype != beside.from.tensor->dtype) {
		mend_left(fate, "its dtype differs from that of '%.200s', or of several numbers", beside.from.tensor->name);
		return EXIT_OK;
	}
	code = mending_of(&mend, mending, at.file, at.tensor, error);
	if (code == EXIT_OK)
		code = mending_set(mending, mend, beside.bytes, (size_t)at.tensor->size, error);
	mend_done(fate, "%g -> %.9g, that of '%.200s'", x, beside.x, beside.from.tensor->name);
	return code;
}
