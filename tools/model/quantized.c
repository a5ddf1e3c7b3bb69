/* SPDX-License-Identifier: MIT */
/* Finding and decoding quantized tensors. What a tensor's format is follows from the dtypes and shapes of its parts. */
#include "config.h"

#include "model/quantized.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must_succeed.h"
#include "base/sparsity.h"
#include "base/suffix.h"
#include "io/shape.h"
#include "model/scaled.h"
#include "mxfp/convert.h"

/* The ways in which the layouts together name parts, each once, in the order in which they do. A number of 0 is none. */
enum { WAYS_MAX = 64, LAYOUTS_MAX = 16, FORMS_MAX = 16 };

static struct {
	size_t n;
	const struct layout_part_form *ways[WAYS_MAX];
	uint8_t numbers[LAYOUTS_MAX][FORMS_MAX][N_LAYOUT_PARTS]; /* of a way in them + 1 */
} ways;

static pthread_once_t ways_once = PTHREAD_ONCE_INIT;

static void number_way(size_t layout, size_t k, size_t part)
{
	const struct layout_part_form *way = &layouts[layout]->forms[k].parts[part];
	size_t i = 0;

	if (way->append == NULL)
		return;
	while (i < ways.n && (strcmp(ways.ways[i]->append, way->append) != 0 || strcmp(ways.ways[i]->remove, way->remove) != 0))
		i++;
	assert(i < WAYS_MAX && layout < LAYOUTS_MAX && k < FORMS_MAX);
	if (i == ways.n)
		ways.ways[ways.n++] = way;
	ways.numbers[layout][k][part] = (uint8_t)(i + 1);
}

static void number_ways(void)
{
	for (size_t i = 0; layouts[i] != NULL; i++)
		for (size_t k = 0; k < layouts[i]->n_forms; k++)
			for (size_t part = 0; part < N_LAYOUT_PARTS; part++)
				number_way(i, k, part);
}

/* What a file's metadata say of one tensor: "mxfp4 mse 4:16", "mxfp4 mse 32x32". */
enum { N_STATED = 3, STATED = 32 };
struct stated {
	char words[N_STATED][STATED]; /* format, rule or recipe, sparsity or squares; empty: nothing */
};

/* A tensor that is named like a part; NULL: there is none. */
struct found_part {
	bool tried;
	const struct tensor *tensor;
	const struct file *file;
};

/* The search for the quantized form of one tensor. */
struct search {
	const struct model *model;
	const char *name;
	struct found_part tried[WAYS_MAX]; /* by each way in which parts were looked for */
	struct stated stated;
	const struct file *stated_by; /* NULL: no file yet */
	struct quantized found; /* the first that fits, or the one that fits what is stated */
	bool ambiguous;         /* several fit that mean different numbers */
	struct quantized broken; /* nothing fits, though only a quantized tensor has such codes */
};

/* Finds the part of a form that is named in one way, once for all forms that name one so. */
static int find_part(struct found_part *found, struct search *search, const struct layout_form *form, enum layout_part part,
                     struct error *error)
{
	bool fits;

	found->tried = true;
	char *name = layout_part_name(form, part, search->name, &fits);
	if (fits && name == NULL)
		return fail_memory(error);
	found->tensor = name == NULL ? NULL : model_find(search->model, name, &found->file);
	free(name);
	return EXIT_OK;
}

/* Finds the parts of a form, NULL where there is none. numbers: of the ways in which it names them. */
static int find_parts(struct quantized *q, struct search *search, const uint8_t *numbers, struct error *error)
{
	for (int part = 0; part < N_LAYOUT_PARTS; part++) {
		struct found_part *found = &search->tried[numbers[part] > 0 ? numbers[part] - 1 : 0];
		int code = EXIT_OK;

		if (numbers[part] > 0 && !found->tried)
			code = find_part(found, search, q->choice.form, (enum layout_part)part, error);
		if (code != EXIT_OK)
			return code;
		q->parts[part] = numbers[part] > 0 ? found->tensor : NULL;
		q->files[part] = numbers[part] > 0 ? found->file : NULL;
		if (part == LAYOUT_CODES && q->parts[part] == NULL)
			return EXIT_OK;
	}
	return EXIT_OK;
}

/* False without memory. */
static bool find_stated(struct stated *stated, const struct file *file, const char *name)
{
	size_t size = sizeof LAYOUT_TENSOR + strlen(name);
	char *key = malloc(size);

	*stated = (struct stated){0};
	if (key == NULL)
		return false;
	snprintf(key, size, LAYOUT_TENSOR "%s", name);
	const char *text = file_metadata(file, key);
	free(key);
	if (text != NULL)
		sscanf(text, "%31s %31s %31s", stated->words[0], stated->words[1], stated->words[2]);
	return true;
}

static bool is_form_name(const char *name)
{
	for (size_t i = 0; layouts[i] != NULL; i++)
		for (size_t k = 0; k < layouts[i]->n_forms; k++)
			if (layouts[i]->forms[k].config_name != NULL && strcmp(layouts[i]->forms[k].config_name, name) == 0)
				return true;
	return false;
}

/* Whether codes of two formats look alike. */
static bool has_bits_of(enum mxfp_format one, enum mxfp_format other)
{
	const struct mxfp_format_info *a = mxfp_format_get_info(one), *b = mxfp_format_get_info(other);

	return a->block_length == b->block_length &&
	       mxfp_format_get_info(a->element)->bits == mxfp_format_get_info(b->element)->bits;
}

/* The format that file and config.json state, where shapes leave a choice. */
static bool states(const struct search *search, const struct file *file, const struct layout_form *form)
{
	const struct model *model = search->model;
	const char *weights = search->stated.words[0][0] != '\0' ? search->stated.words[0]
	                                                         : file_metadata(file, METADATA_WEIGHTS);
	const char *name = json_string_value(json_object_get(json_object_get(model->config, "quantization_config"),
	                                                     "format"));
	enum mxfp_format format;

	/* What is said of most tensors may be of another kind. */
	if (weights != NULL && mxfp_format_from_name(&format, weights) == MXFP_OK && has_bits_of(format, form->format))
		return format == form->format;
	if (name != NULL && is_form_name(name))
		return form->config_name != NULL && strcmp(form->config_name, name) == 0;
	/* Of groups that say bits alone, those are meant that the layout's own programs have. */
	return model->formats == UINT32_C(1) << form->format || (form->known && (model->formats >> form->format & 1) != 0);
}

/* Whether the codes can be nothing but those of a quantized tensor: by their name, because they have 8 bits and scales,
   or because they are words of codes, which no other weight is. */
static bool is_telling(const struct quantized *q, const char *name)
{
	const struct tensor *codes = q->parts[LAYOUT_CODES];

	if (strcmp(codes->name, name) != 0)
		return true;
	if (codes->dtype == DTYPE_U32 && q->choice.form->parts[LAYOUT_CODES].dtype == DTYPE_U32)
		return codes->rank > 1;
	return q->parts[LAYOUT_SCALES] != NULL && dtype_info(codes->dtype)->bits == 8 && codes->dtype != DTYPE_BOOL;
}

/* The pattern of a sparse tensor, which only the metadata tell. */
static const char *sparsity_stated(const struct quantized *q, const struct search *search)
{
	if (search->stated.words[0][0] != '\0')
		return search->stated.words[2];
	return file_metadata(q->files[LAYOUT_CODES], LAYOUT_SPARSITY);
}

static bool find_sparsity(struct quantized *q, const struct search *search)
{
	const char *text = sparsity_stated(q, search);

	return text != NULL && sparsity_find(text, &q->choice.sparsity);
}

/* Takes note of a form if the parts are there, and if they fit. */
static int try_form(struct search *search, const struct layout *layout, const struct layout_form *form, const uint8_t *numbers,
                    struct error *error)
{
	const struct found_part *codes = numbers[LAYOUT_CODES] > 0 ? &search->tried[numbers[LAYOUT_CODES] - 1] : NULL;

	/* Most forms end here. */
	if (codes == NULL || (codes->tried && codes->tensor == NULL))
		return EXIT_OK;
	struct quantized q = {.choice = {.layout = layout, .form = form, .grid = {search->model->grid[0], search->model->grid[1]}}};
	int code = find_parts(&q, search, numbers, error);

	if (code != EXIT_OK || q.parts[LAYOUT_CODES] == NULL)
		return code;
	if (search->stated_by != q.files[LAYOUT_CODES] && !find_stated(&search->stated, q.files[LAYOUT_CODES], search->name))
		return fail_memory(error);
	search->stated_by = q.files[LAYOUT_CODES];
	bool whole = !form->sparse || find_sparsity(&q, search);
	if (search->broken.choice.form == NULL && is_telling(&q, search->name))
		search->broken = q;
	if (!whole || !layout_fits(&q.choice, q.parts, &q.shape))
		return EXIT_OK;
	const struct layout_form *before = search->found.choice.form;
	bool other = before != NULL && before->format != form->format;
	bool stated = states(search, q.files[LAYOUT_CODES], form);
	if (other && !stated && !states(search, q.files[LAYOUT_CODES], before))
		search->ambiguous = true;
	if (before == NULL || (other && stated)) {
		search->found = q;
		search->ambiguous = false;
	}
	return EXIT_OK;
}

/* Sets rows and cols: the padded row, or what the metadata says it held. */
static int set_shape(struct quantized *q, const char *name, struct error *error)
{
	const struct file *file = q->files[LAYOUT_CODES];
	unsigned unit = layout_unit(&q->choice);
	size_t size = sizeof LAYOUT_COLS + strlen(name);
	char *key = malloc(size), *end;

	if (key == NULL)
		return fail_memory(error);
	const struct tensor padded = {.rank = q->shape.rank, .shape = q->shape.dims};
	tensor_matrix(&padded, &q->rows, &q->cols);
	snprintf(key, size, LAYOUT_COLS "%s", name);
	const char *text = file_metadata(file, key);
	free(key);
	if (text == NULL)
		return EXIT_OK;
	errno = 0;
	unsigned long long cols = strtoull(text, &end, 10), whole = q->cols;
	/* Rows of sparse tensors are not padded. */
	unit = q->choice.form->sparse ? 1 : unit;
	q->cols = q->shape.dims[q->shape.rank - 1] = cols;
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || cols > whole || whole - cols >= unit ||
	    q->choice.layout->order->refuses(&q->choice, &q->shape) != NULL)
		return fail(error, EXIT_INPUT, "%s: metadata '" LAYOUT_COLS "%s': '%s' is not the length of rows of %llu "
		            "elements and padding", file->path, name, text, whole);
	return EXIT_OK;
}

/* Sets whether the tensor was by columns: the metadata say so, or its name does where other programs write such files. */
static int set_transposed(struct quantized *q, const struct model *model, const char *name, struct error *error)
{
	const struct tensor whole = {.name = name, .rank = q->shape.rank, .shape = q->shape.dims};
	size_t size = sizeof LAYOUT_TRANSPOSED + strlen(name);
	char *key = malloc(size);

	if (key == NULL)
		return fail_memory(error);
	snprintf(key, size, LAYOUT_TRANSPOSED "%s", name);
	q->noted_transposed = q->shape.rank >= 2 && file_metadata(q->files[LAYOUT_CODES], key) != NULL;
	q->transposed = q->noted_transposed || (q->choice.layout->transposes && q->shape.rank >= 2 &&
	                                        role_of(&model->role_model, &whole).axis == ROLE_TURNED);
	free(key);
	return EXIT_OK;
}

/* Sets whether 32 rows share scales, which only the metadata say: of the tensor, or else of most tensors of its file. */
static int set_squares(struct quantized *q, const char *name, struct error *error)
{
	const struct file *file = q->files[LAYOUT_CODES];
	struct stated stated;

	if (!find_stated(&stated, file, name))
		return fail_memory(error);
	const char *text = stated.words[0][0] != '\0' ? stated.words[2] : file_metadata(file, LAYOUT_BLOCK);
	q->squares = text != NULL && strcmp(text, LAYOUT_SQUARES) == 0 &&
	             !mxfp_format_get_info(q->choice.form->format)->tensor_scale;
	return EXIT_OK;
}

/* Whether each of several matrices is to have tensor scales of its own; and whether these are they. */
static bool is_each(const struct quantized *q)
{
	return q->choice.form->scales_each > 0 && q->shape.rank > 2 && (q->shape.dims[0] > 1 || q->choice.form->scales_each > 1);
}

static bool has_each(const struct quantized *q)
{
	const struct tensor *scale = q->parts[LAYOUT_TENSOR_SCALE];
	const unsigned each = q->choice.form->scales_each;

	return scale->dtype == DTYPE_F32 && q->shape.rank == 3 && q->shape.dims[1] % each == 0 && scale->rank == (each > 1 ? 2 : 1) &&
	       scale->shape[0] == q->shape.dims[0] && (each == 1 || scale->shape[1] == each);
}

/* One with which no code stands for a number is refused, unless the caller tells what is wrong. */
static int read_tensor_scale(struct quantized *q, bool tells_faults, struct error *error)
{
	const struct tensor *scale = q->parts[LAYOUT_TENSOR_SCALE];
	const struct file *file = q->files[LAYOUT_TENSOR_SCALE];

	if (!mxfp_format_get_info(q->choice.form->format)->tensor_scale) {
		if (scale != NULL)
			return fail_tensor(error, file->path, scale->name, "stands beside codes in %s, which has no tensor scale; write "
			                   "the file again", mxfp_format_get_info(q->choice.form->format)->name);
		return EXIT_OK;
	}
	q->tensor_scale = 1;
	q->n_scales = 1;
	if (scale == NULL && q->choice.layout->tensor_scale_optional)
		return EXIT_OK;
	if (scale == NULL)
		return fail_tensor(error, q->files[LAYOUT_CODES]->path, q->parts[LAYOUT_CODES]->name,
		                   "its tensor scale, *%s, is missing; look for the file that holds it",
		                   q->choice.form->parts[LAYOUT_TENSOR_SCALE].append);
	if (is_each(q)) {
		if (!has_each(q))
			return fail_tensor(error, file->path, scale->name, "is not %s F32 for each of %" PRIu64 " matrices; write the file again",
			                   q->choice.form->scales_each == 1 ? "one number of" : "two numbers of", q->shape.dims[0]);
		q->n_scales = tensor_elements(scale);
	} else if (scale->dtype != DTYPE_F32 || tensor_elements(scale) != 1) {
		return fail_tensor(error, file->path, scale->name, "is not one F32 number, as a tensor scale is; write the file again");
	}
	int code = file_read(file, scale, 0, &q->tensor_scale, sizeof q->tensor_scale, error);
	dtype_swap(DTYPE_F32, &q->tensor_scale, sizeof q->tensor_scale);
	if (code == EXIT_OK && !tells_faults && (!isfinite(q->tensor_scale) || (q->tensor_scale == 0 && q->choice.layout->divides)))
		code = fail_tensor(error, file->path, scale->name, "is %g, which is not a valid tensor scale; write the file again", (double)q->tensor_scale);
	return code;
}

/* Codes and scales whose dtypes and shapes are those of no form. */
static int fail_layout(const struct search *search, struct error *error)
{
	const struct quantized *q = &search->broken;
	const struct tensor *codes = q->parts[LAYOUT_CODES], *scales = q->parts[LAYOUT_SCALES];
	char of_codes[SHAPE_TEXT], of_scales[SHAPE_TEXT];

	return fail_tensor(error, q->files[LAYOUT_CODES]->path, codes->name,
	                   "not in a layout that mxfp knows: %s %s%s%s%s%s; %s", dtype_info(codes->dtype)->name,
	                   shape_text(codes, of_codes), scales != NULL ? ", scales " : "",
	                   scales != NULL ? dtype_info(scales->dtype)->name : "", scales != NULL ? " " : "",
	                   scales != NULL ? shape_text(scales, of_scales) : "",
	                   search->model->is_directory      ? "the shapes do not fit, or the file is damaged: write it again"
	                   : codes->dtype == DTYPE_F8_E4M3 ? "if blocks at its edges are cut off, name the directory with config.json"
	                                                   : "if it is MXFP6, name the directory with config.json");
}

/* What is wrong with codes that have no scales, or none that fit. */
static int fail_broken(const struct search *search, struct error *error)
{
	const struct quantized *q = &search->broken;
	const struct file *file = q->files[LAYOUT_CODES];
	const struct tensor *codes = q->parts[LAYOUT_CODES];
	bool fits;

	for (int part = LAYOUT_SCALES; part <= LAYOUT_MASKS; part++) {
		if (part == LAYOUT_TENSOR_SCALE || !layout_has(&q->choice, (enum layout_part)part) || q->parts[part] != NULL)
			continue;
		char *name = layout_part_name(q->choice.form, (enum layout_part)part, search->name, &fits);
		if (name == NULL)
			return fail_memory(error);
		int code = fail_tensor(error, file->path, codes->name, "'%s' is missing; look for the file that holds it", name);
		free(name);
		return code;
	}
	if (q->choice.form->sparse && q->choice.sparsity.m == 0) {
		const char *text = sparsity_stated(q, search);

		if (search->stated.words[0][0] != '\0')
			return fail(error, EXIT_INPUT, "%s: metadata '" LAYOUT_TENSOR "%.200s': '%.40s' is not a known pattern of sparse codes",
			            file->path, search->name, text);
		return fail(error, EXIT_INPUT, "%s: metadata '" LAYOUT_SPARSITY "': '%.40s' is not a known pattern",
		            file->path, text != NULL ? text : "");
	}
	return fail_layout(search, error);
}

/* Whether the format is one that the configuration states, and that of the tensor's own metadata. */
static int check_stated(const struct quantized *q, const struct search *search, struct error *error)
{
	const enum mxfp_format format = q->choice.form->format;
	const struct model *model = search->model;
	char text[LAYOUT_FORMATS_TEXT];
	enum mxfp_format own;

	if (mxfp_format_from_name(&own, search->stated.words[0]) == MXFP_OK && own != format)
		return fail_tensor(error, q->files[LAYOUT_CODES]->path, q->parts[LAYOUT_CODES]->name, "is %s by its dtype and shape and "
		                   "those of its scales, and metadata '" LAYOUT_TENSOR "%.200s' says %s; one of them belongs to another model",
		                   mxfp_format_get_info(format)->name, search->name, search->stated.words[0]);

	if (model->formats == 0 || (model->formats >> format & 1) != 0)
		return EXIT_OK;
	return fail_tensor(error, q->files[LAYOUT_CODES]->path, q->parts[LAYOUT_CODES]->name, "is %s by its dtype and shape and "
	                   "those of its scales, and config.json says %s; one of them belongs to another model",
	                   mxfp_format_get_info(format)->name, layout_formats_text(model->formats, NULL, text));
}

int quantized_find(struct quantized *quantized, bool *found, const struct model *model, const char *name,
                   struct error *error)
{
	struct search search = {.model = model, .name = name};
	int code = EXIT_OK;

	pthread_once(&ways_once, number_ways);
	*found = false;
	for (size_t i = 0; layouts[i] != NULL && code == EXIT_OK; i++)
		for (size_t k = 0; k < layouts[i]->n_forms && code == EXIT_OK; k++)
			code = try_form(&search, layouts[i], &layouts[i]->forms[k], ways.numbers[i][k], error);
	if (code != EXIT_OK)
		return code;
	*quantized = search.found;
	if (search.found.choice.form == NULL || search.ambiguous) {
		const struct quantized *broken = &search.broken;
		struct scaled scaled;
		bool is_scaled = false;

		/* Scales that are numbers make numbers of codes, and no blocks. */
		if (broken->choice.form != NULL)
			code = scaled_find(&scaled, &is_scaled, model, broken->parts[LAYOUT_CODES], broken->files[LAYOUT_CODES], error);
		/* If they do not fit, scaled.h tells of it. */
		is_scaled |= code == EXIT_INPUT;
		code = code == EXIT_INPUT ? EXIT_OK : code;
		*found = broken->choice.form != NULL && !is_scaled;
		return code == EXIT_OK && *found ? fail_broken(&search, error) : code;
	}
	*found = true;
	quantized->repeated = quantized->choice.layout->order->repeats != NULL &&
	                      quantized->choice.layout->order->repeats(&quantized->choice, quantized->parts);
	code = check_stated(quantized, &search, error);
	if (code == EXIT_OK)
		code = set_shape(quantized, name, error);
	if (code == EXIT_OK)
		code = set_transposed(quantized, model, name, error);
	if (code == EXIT_OK)
		code = set_squares(quantized, name, error);
	return code != EXIT_OK ? code : read_tensor_scale(quantized, model->tells_faults, error);
}

/* The search for the quantized tensor that a tensor is a part of. */
struct owning {
	const struct model *model;
	const struct tensor *tensor;
	struct arena *arena;
};

/* If the tensor is named like a part, finds the quantized tensor whose part it would be; *name stays NULL if it is
   not. */
static int try_owner(struct owning *owning, const struct layout_part_form *form, struct quantized *quantized,
                     const char **name, struct error *error)
{
	const char *full = owning->tensor->name;
	size_t stem = form->append[0] == '\0' ? strlen(full) : suffix_stem(full, form->append);
	size_t size = stem + strlen(form->remove) + 1;
	bool found;

	if (stem == 0)
		return EXIT_OK;
	char *candidate = arena_take(owning->arena, size);
	if (candidate == NULL)
		return fail_memory(error);
	snprintf(candidate, size, "%.*s%s", (int)stem, full, form->remove);
	int code = quantized_find(quantized, &found, owning->model, candidate, error);
	for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK && found; part++)
		if (quantized->parts[part] == owning->tensor)
			*name = candidate;
	return code;
}

int quantized_owner(struct quantized *quantized, const char **name, const struct model *model,
                    const struct tensor *tensor, struct arena *arena, struct error *error)
{
	struct owning owning = {.model = model, .tensor = tensor, .arena = arena};

	*name = NULL;
	pthread_once(&ways_once, number_ways);
	for (size_t i = 0; i < ways.n; i++) {
		int code = try_owner(&owning, ways.ways[i], quantized, name, error);

		if (code != EXIT_OK || *name != NULL)
			return code;
	}
	return EXIT_OK;
}

int quantized_any(const struct model *model, bool *any, struct error *error)
{
	struct arena arena = {0};
	struct quantized quantized;
	int code = EXIT_OK;

	*any = false;
	for (size_t f = 0; f < model->n_files && !*any && code == EXIT_OK; f++)
		for (size_t i = 0; i < model->files[f].n_tensors && !*any && code == EXIT_OK; i++) {
			const struct tensor *tensor = &model->files[f].tensors[i];
			const char *name = NULL;

			const bool decoded = tensor->dtype == DTYPE_Q8_0 || tensor->decoder != NULL;

			if (!decoded)
				code = quantized_owner(&quantized, &name, model, tensor, &arena, error);
			*any = code == EXIT_OK && (decoded || name != NULL);
		}
	arena_free(&arena);
	return code;
}

int quantized_check_any(const struct model *model, struct error *error)
{
	bool any;
	int code = quantized_any(model, &any, error);

	if (code != EXIT_OK || any)
		return code;
	return fail(error, EXIT_INPUT, "%s: nothing in it is quantized in a layout that mxfp knows; %s", model->path,
	            model_quantized_by(model) != NULL ? "give the model that it was made from"
	                                              : "if it is not quantized at all, mxfp quantize does that");
}

struct mxfp_blocks quantized_blocks(const struct quantized *quantized, const struct piece *piece, uint8_t *codes,
                                    uint8_t *scales)
{
	return (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = quantized->choice.form->format,
		.rows = piece->rows,
		.cols = piece->cols,
		.codes = codes,
		.scales = scales,
		.tensor_scale = quantized->tensor_scale,
		.tensor_scale_divides = quantized->choice.layout->divides,
	};
}

int quantized_sparse(const struct quantized *quantized, const struct piece *piece, struct mxfp_sparse *sparse,
                     struct mxfp_sparse_sizes *size, struct error *error)
{
	*sparse = (struct mxfp_sparse){
		.size = sizeof(struct mxfp_sparse), .format = quantized->choice.form->format,
		.sparsity = quantized->choice.sparsity,
		.rows = piece->rows,
		.cols = piece->cols,
	};
	if (piece->cols != quantized->cols)
		return fail_tensor(error, quantized->files[LAYOUT_CODES]->path, quantized->parts[LAYOUT_CODES]->name,
		                   "rows of %" PRIu64 " elements are too long for a sparse tensor", quantized->cols);
	if (mxfp_sparse_size(size, sparse->format, sparse->sparsity, sparse->rows, sparse->cols) != MXFP_OK)
		return fail_memory(error);
	return EXIT_OK;
}

int quantized_read_kept(const struct quantized *quantized, const struct piece *piece, const struct mxfp_sparse *sparse,
                        const struct mxfp_sparse_sizes *size, struct error *error)
{
	const struct tensor *masks = quantized->parts[LAYOUT_MASKS];
	int code = file_read(quantized->files[LAYOUT_CODES], quantized->parts[LAYOUT_CODES],
	                     piece->row * size->codes_row_bytes, sparse->codes, size->codes_bytes, error);

	if (code == EXIT_OK)
		code = file_read(quantized->files[LAYOUT_MASKS], masks, piece->row * size->masks_row_bytes,
		                 sparse->masks, size->masks_bytes, error);
	if (code != EXIT_OK || mxfp_sparse_check(sparse) == MXFP_OK)
		return code;
	return fail_tensor(error, quantized->files[LAYOUT_MASKS]->path, masks->name, "rows %" PRIu64 " to %" PRIu64
	                   ": a mask does not keep %u of %u", piece->row, piece->row + piece->rows - 1,
	                   sparse->sparsity.n, sparse->sparsity.m);
}

/* Reads the codes of a piece of a sparse tensor, dense. */
static int read_sparse(const struct quantized *q, const struct piece *piece, void *codes, uint64_t *n_bytes,
                       struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	struct mxfp_sparse sparse;
	struct mxfp_sparse_sizes size;
	int code = quantized_sparse(q, piece, &sparse, &size, error);

	if (code != EXIT_OK)
		return code;
	uint8_t *memory = malloc(size.codes_bytes + size.masks_bytes + 1);
	if (memory == NULL)
		return fail_memory(error);
	sparse.codes = memory;
	sparse.masks = memory + size.codes_bytes;
	*n_bytes = size.codes_bytes + size.masks_bytes;
	code = quantized_read_kept(q, piece, &sparse, &size, error);
	if (code == EXIT_OK) {
		must_succeed(mxfp_sparse_expand(codes, 0, &sparse, &exec));
	}
	free(memory);
	return code;
}

int quantized_read(const struct quantized *quantized, const struct piece *piece, const struct mxfp_blocks *blocks,
                   uint64_t *n_bytes, struct error *error)
{
	struct layout_slice slice = layout_slice(quantized->choice.form->format, quantized->cols, piece);

	*n_bytes = slice.size.codes_bytes + slice.size.scales_bytes;
	if (!quantized->choice.form->sparse)
		return quantized->choice.layout->order->read(quantized, piece, blocks, error);
	int code = read_sparse(quantized, piece, blocks->codes, n_bytes, error);
	*n_bytes += slice.size.scales_bytes;
	return code == EXIT_OK ? layout_read_scales(quantized, piece, blocks->scales, error) : code;
}

int quantized_read_pre_quant_scale(const struct quantized *quantized, float **factors, struct error *error)
{
	const struct tensor *scale = quantized->parts[LAYOUT_PRE_QUANT_SCALE];
	const struct file *file = quantized->files[LAYOUT_PRE_QUANT_SCALE];

	*factors = NULL;
	if (scale == NULL)
		return EXIT_OK;
	const bool is_float = scale->dtype == DTYPE_F32 || scale->dtype == DTYPE_BF16 || scale->dtype == DTYPE_F16;
	if (!is_float || tensor_elements(scale) != quantized->cols)
		return fail_tensor(error, file->path, scale->name, "is not %" PRIu64 " numbers of F32, BF16 or F16, one for each column "
		                   "of the weight", quantized->cols);
	const size_t n = (size_t)quantized->cols;
	void *bytes = malloc((size_t)scale->size + 1);
	*factors = malloc(n * sizeof **factors + 1);
	int code = bytes == NULL || *factors == NULL ? fail_memory(error)
	                                             : file_read(file, scale, 0, bytes, (size_t)scale->size, error);
	if (code == EXIT_OK) {
		const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
		dtype_swap(scale->dtype, bytes, (size_t)scale->size);
		must_succeed(mxfp_convert_array(*factors, MXFP_FORMAT_F32, bytes, dtype_info(scale->dtype)->format, n, NULL, &exec));
	} else {
		free(*factors);
		*factors = NULL;
	}
	free(bytes);
	return code;
}

int quantized_read_tensor_scales(const struct quantized *quantized, float **scales, struct error *error)
{
	const size_t n = (size_t)quantized->n_scales;
	int code = EXIT_OK;

	*scales = malloc((n + 1) * sizeof **scales);
	if (*scales == NULL)
		return fail_memory(error);
	(*scales)[0] = quantized->tensor_scale;
	if (n > 1)
		code = file_read(quantized->files[LAYOUT_TENSOR_SCALE], quantized->parts[LAYOUT_TENSOR_SCALE], 0, *scales, n * sizeof **scales,
		                 error);
	if (n > 1)
		dtype_swap(DTYPE_F32, *scales, n * sizeof **scales);
	if (code != EXIT_OK) {
		free(*scales);
		*scales = NULL;
	}
	return code;
}

bool quantized_scale_is_nan(enum mxfp_format format, uint8_t byte)
{
	if (mxfp_format_get_info(format)->scale == MXFP_FORMAT_E8M0)
		return byte == 0xFF;
	return (byte & 0x7F) == 0x7F;
}
