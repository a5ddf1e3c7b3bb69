/* SPDX-License-Identifier: MIT */
/* The parts of a quantized tensor in any layout: names, dtypes, shapes, places. layouts.c has the table of layouts. */
#include "config.h"

#include "model/layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must_succeed.h"
#include "base/suffix.h"

static size_t n_made(const struct layout *layout)
{
	return layout->n_made != 0 ? layout->n_made : layout->n_forms;
}

const struct layout_form *layout_form(const struct layout *layout, enum mxfp_format format, bool sparse)
{
	for (size_t i = 0; i < n_made(layout); i++)
		if (layout->forms[i].format == format && layout->forms[i].sparse == sparse)
			return &layout->forms[i];
	return NULL;
}

bool layout_recipe_unscaled(enum mxfp_recipe recipe)
{
	return recipe == MXFP_RECIPE_TORCHAO_1 || recipe == MXFP_RECIPE_GGML;
}

bool layout_holds_tensor_scale(const struct layout *layout)
{
	for (size_t i = 0; i < layout->n_forms; i++)
		if (layout->forms[i].parts[LAYOUT_TENSOR_SCALE].append != NULL)
			return true;
	return false;
}

bool layout_holds_recipe(const struct layout *layout, enum mxfp_recipe recipe)
{
	return layout_recipe_unscaled(recipe) ||
	       (layout_holds_tensor_scale(layout) && layout->divides == (recipe == MXFP_RECIPE_COMPRESSED_TENSORS));
}

uint32_t layout_formats(const struct layout *layout)
{
	uint32_t formats = 0;

	for (size_t i = 0; i < n_made(layout); i++)
		if (!layout->forms[i].sparse)
			formats |= UINT32_C(1) << layout->forms[i].format;
	return formats;
}

const char *layout_formats_text(uint32_t formats, const char *more, char text[LAYOUT_FORMATS_TEXT])
{
	const char *names[FORMATS_MAX + 1];
	size_t n = 0, used = 0;

	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL; f++)
		if ((formats >> f & 1) != 0)
			names[n++] = mxfp_format_get_info((enum mxfp_format)f)->name;
	if (more != NULL)
		names[n++] = more;
	text[0] = '\0';
	for (size_t i = 0; i < n && used < LAYOUT_FORMATS_TEXT; i++)
		used += (size_t)snprintf(text + used, LAYOUT_FORMATS_TEXT - used, "%s%s",
		                         i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
	return text;
}

unsigned layout_unit(const struct layout_choice *choice)
{
	unsigned unit = choice->layout->order->unit;

	return unit != 0 ? unit : mxfp_format_get_info(choice->form->format)->block_length;
}

bool layout_has(const struct layout_choice *choice, enum layout_part part)
{
	switch (part) {
	case LAYOUT_TENSOR_SCALE:
		if (!mxfp_format_get_info(choice->form->format)->tensor_scale ||
		    (choice->unscaled && choice->layout->tensor_scale_optional))
			return false;
		break;
	case LAYOUT_MASKS:
		if (!choice->form->sparse)
			return false;
		break;
	case LAYOUT_INPUT_SCALE:
	case LAYOUT_PRE_QUANT_SCALE:
		return false;
	default:
		break;
	}
	return choice->form->parts[part].append != NULL;
}

/* Length of what a part's name and the tensor's have in common; 0 if the tensor's does not end as the form wants it,
   or the form has no such part. */
static size_t common(const struct layout_form *form, enum layout_part part, const char *name)
{
	const struct layout_part_form *p = &form->parts[part];

	if (p->append == NULL)
		return 0;
	return p->remove[0] == '\0' ? strlen(name) : suffix_stem(name, p->remove);
}

char *layout_part_name(const struct layout_form *form, enum layout_part part, const char *name, bool *fits)
{
	size_t stem = common(form, part, name);

	*fits = stem > 0;
	if (!*fits)
		return NULL;
	/* Models have 10^5 tensors, and each of them is looked for by many names. */
	const char *append = form->parts[part].append;
	const size_t size = strlen(append) + 1;
	char *full = malloc(stem + size);
	if (full != NULL) {
		memcpy(full, name, stem);
		memcpy(full + stem, append, size);
	}
	return full;
}

/* False if the rank is beyond what shapes here hold. */
static bool shape_of(const struct tensor *tensor, struct layout_shape *shape)
{
	if (tensor->rank > LAYOUT_RANK_MAX)
		return false;
	*shape = (struct layout_shape){.rank = tensor->rank};
	if (tensor->rank > 0)
		memcpy(shape->dims, tensor->shape, tensor->rank * sizeof *shape->dims);
	return true;
}

const char *layout_refuses(const struct layout_choice *choice, const struct tensor *source)
{
	struct layout_shape shape;

	/* A rank more than the tensor's may be needed for its codes. */
	if (source->rank >= LAYOUT_RANK_MAX || !shape_of(source, &shape))
		return "has too many dimensions";
	if (mxfp_format_get_info(choice->form->format)->tensor_scale && !choice->unscaled &&
	    !layout_holds_tensor_scale(choice->layout))
		return "it has a tensor scale, for which there is no place";
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (layout_has(choice, (enum layout_part)part) &&
		    common(choice->form, (enum layout_part)part, source->name) == 0)
			return "the layout has no name for a part of it";
	return choice->layout->order->refuses(choice, &shape);
}

const char *layout_refuses_role(const struct layout *layout, const struct role_model *model, const struct role *role,
                                const struct tensor *tensor)
{
	return layout->refuses != NULL ? layout->refuses(model, role, tensor) : NULL;
}

const char *layout_takes_linear(const struct role_model *model, const struct role *role, const struct tensor *tensor)
{
	(void)tensor;
	if (role->kind == ROLE_CONV1D)
		return "a Conv1D; loaders of this layout take Linear";
	if (role->habit == ROLE_FIXED)
		return "of no module that takes codes; loaders of this layout read numbers there";
	if (role->kind != ROLE_EXPERTS && role->kind != ROLE_SEQUENTIAL)
		return NULL;
	return strcmp(model->type, "gpt_oss") == 0
	               ? "experts in one tensor, which --layout gpt-oss holds; loaders of this layout take one each"
	               : "experts in one tensor; loaders of this layout take one each";
}

/* The shape of a part. */
static void describe_shape(const struct layout_choice *choice, enum layout_part part, const struct layout_shape *source,
                           struct layout_shape *shape)
{
	if (part == LAYOUT_TENSOR_SCALE || part == LAYOUT_INPUT_SCALE)
		*shape = (struct layout_shape){.rank = choice->layout->tensor_scale_rank, .dims = {1}};
	else
		choice->layout->order->describe(choice, part, source, shape);
}

bool layout_describe(const struct layout_choice *choice, enum layout_part part, const struct tensor *source,
                     struct arena *arena, struct tensor *described)
{
	struct layout_shape whole, shape;
	bool fits;
	char *name = layout_part_name(choice->form, part, source->name, &fits);
	bool held = shape_of(source, &whole);

	assert(held && fits);
	(void)held;
	describe_shape(choice, part, &whole, &shape);
	uint64_t *dims = arena_take(arena, (shape.rank + 1) * sizeof *dims);
	*described = (struct tensor){
		.name = name != NULL ? arena_string(arena, name) : NULL,
		.dtype = choice->form->parts[part].dtype,
		.rank = shape.rank,
		.shape = dims,
	};
	free(name);
	if (dims != NULL)
		memcpy(dims, shape.dims, shape.rank * sizeof *dims);
	return described->name != NULL && dims != NULL;
}

/* Whether a tensor is a part of a tensor of that shape. Scales in E8M0 are the same bytes as U8 and as their own
   dtype. */
static bool is_part(const struct layout_choice *choice, enum layout_part part, const struct tensor *tensor,
                    const struct layout_shape *source)
{
	const bool is_e8m0 = mxfp_format_get_info(choice->form->format)->scale == MXFP_FORMAT_E8M0;
	enum dtype dtype = tensor->dtype == DTYPE_F8_E8M0 && part == LAYOUT_SCALES && is_e8m0 ? DTYPE_U8 : tensor->dtype;
	struct layout_shape shape;

	if (dtype != choice->form->parts[part].dtype)
		return false;
	if (choice->layout->order->checks_shapes)
		return true;
	describe_shape(choice, part, source, &shape);
	return tensor->rank == shape.rank &&
	       (shape.rank == 0 || memcmp(tensor->shape, shape.dims, shape.rank * sizeof *shape.dims) == 0);
}

bool layout_fits(const struct layout_choice *choice, const struct tensor *const *parts, struct layout_shape *source)
{
	static const enum layout_part checked[] = {LAYOUT_CODES, LAYOUT_SCALES, LAYOUT_MASKS};

	for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++)
		if (layout_has(choice, checked[i]) && parts[checked[i]] == NULL)
			return false;
	if (!choice->layout->order->source(choice, parts, source))
		return false;
	for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++)
		if (layout_has(choice, checked[i]) && !is_part(choice, checked[i], parts[checked[i]], source))
			return false;
	return true;
}

/* The sizes of rows x cols elements that are in memory, or of a row of a tensor whose size is known not to overflow. */
static struct mxfp_sizes sizes(enum mxfp_format format, uint64_t rows, uint64_t cols)
{
	struct mxfp_sizes size = {0};

	must_succeed(mxfp_blocks_size(&size, format, (size_t)rows, (size_t)cols));
	return size;
}

struct layout_slice layout_slice(enum mxfp_format format, uint64_t cols, const struct piece *piece)
{
	struct mxfp_sizes row = sizes(format, 1, cols), before = sizes(format, 1, piece->col);

	return (struct layout_slice){
		.codes_from = piece->row * row.codes_row_bytes + before.codes_row_bytes,
		.scales_from = piece->row * row.scales_row_bytes + before.scales_row_bytes,
		.size = sizes(format, piece->rows, piece->cols),
	};
}

int layout_read_scales(const struct quantized *quantized, const struct piece *piece, void *scales, struct error *error)
{
	struct layout_slice slice = layout_slice(quantized->choice.form->format, quantized->cols, piece);

	return file_read(quantized->files[LAYOUT_SCALES], quantized->parts[LAYOUT_SCALES], slice.scales_from, scales,
	                 slice.size.scales_bytes, error);
}

struct layout_target layout_target(const struct layout_choice *choice, const struct tensor *source,
                                   const struct tensor *described, struct writer *writer)
{
	struct layout_target target = {.choice = *choice, .writer = writer};
	bool held = shape_of(source, &target.source);

	assert(held);
	(void)held;
	tensor_matrix(source, &target.rows, &target.cols);
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (layout_has(choice, (enum layout_part)part))
			target.parts[part] = writer_find(writer, described[part].name);
	return target;
}

static struct layout_bands *bands_of(const struct layout_choice *choice, const struct layout_shape *source, uint64_t rows,
                                     uint64_t cols, size_t band, unsigned n)
{
	const struct layout_order *order = choice->layout->order;

	return order->band_row_bytes == NULL ? NULL
	                                     : layout_bands_new(rows, cols, band, order->band_row_bytes(choice, source), n);
}

void layout_read_in_bands(struct quantized *quantized)
{
	quantized->bands = bands_of(&quantized->choice, &quantized->shape, quantized->rows, quantized->cols, 0, 1);
}

void layout_write_in_bands(struct layout_target *target, size_t band)
{
	target->bands = bands_of(&target->choice, &target->source, target->rows, target->cols, band, LAYOUT_BANDS);
}

int layout_write(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
                 struct error *error)
{
	return target->choice.layout->order->write(target, piece, blocks, error);
}

int layout_write_tensor_scale(const struct layout_target *target, const struct mxfp_blocks *blocks, bool *exact,
                              struct error *error)
{
	float scale = blocks->tensor_scale;

	*exact = true;
	if (blocks->tensor_scale_divides != target->choice.layout->divides) {
		scale = 1 / scale;
		/* Both are binary32 numbers, so their product is exact in binary64. */
		*exact = (double)scale * (double)blocks->tensor_scale == 1;
	}
	dtype_swap(DTYPE_F32, &scale, sizeof scale);
	return writer_write(target->writer, target->parts[LAYOUT_TENSOR_SCALE], 0, &scale, sizeof scale, error);
}
