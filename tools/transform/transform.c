/* SPDX-License-Identifier: MIT */
/* Decides what becomes of each tensor. */
#include "config.h"

#include "transform/transform.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "eval/shape.h"
#include "eval/tensor_name.h"
#include "io/elements.h"
#include "model/allow.h"
#include "model/edit.h"
#include "model/meaning.h"
#include "transform/change.h"

enum { EXPONENT_MOST = 16 }; /* of a scale */

struct planning {
	const struct transform_settings *settings;
	const struct model *model;
	struct transformation *done;
	struct shape shape;
	struct change *changes;       /* of each tensor in model->by_name */
	struct change *embedding, *head;
	struct change added;          /* of a head that the model lacks, and its tensor */
	struct tensor added_tensor;
	struct arena arena;
	struct error *error;
};

/* A linear layer. */
struct layer {
	struct change *weight, *bias; /* NULL: none */
};

static int compare_name(const void *name, const void *tensor)
{
	return strcmp(name, ((const struct model_tensor *)tensor)->tensor->name);
}

static struct change *find_change(const struct planning *p, const char *name)
{
	const struct model_tensor *found = bsearch(name, p->model->by_name, p->model->n_tensors, sizeof *p->model->by_name,
	                                           compare_name);

	return found != NULL ? &p->changes[found - p->model->by_name] : NULL;
}

/* Finds a tensor, whose numbers are floats and as many as config.json says; *change is NULL if it is not there. */
static int take_named(struct planning *p, struct change **change, const char *name, size_t rows, size_t cols)
{
	struct change *c = *change = find_change(p, name);
	const struct file *file;
	uint64_t stored_rows, stored_cols;

	if (c == NULL)
		return EXIT_OK;
	c->source = model_find(p->model, name, &file);
	c->file = file;
	c->rows = rows;
	c->cols = cols;
	tensor_matrix(c->source, &stored_rows, &stored_cols);
	if (!elements_are_float(c->source->dtype))
		return fail_tensor(p->error, file->path, name, "is %s, which has no numbers that can be transformed",
		                   dtype_info(c->source->dtype)->name);
	/* A vector is stored as one row. */
	if ((stored_rows != rows || stored_cols != cols) && (stored_rows != 1 || cols != 1 || stored_cols != rows))
		return fail_tensor(p->error, file->path, name, "is %" PRIu64 " x %" PRIu64 ", and %s asks for %zu x %zu",
		                   stored_rows, stored_cols, p->shape.path, rows, cols);
	return EXIT_OK;
}

static int take(struct planning *p, struct change **change, enum tensor_id id, size_t layer, size_t rows, size_t cols)
{
	char name[TENSOR_NAME_BYTES];
	size_t row = 0;

	tensor_name(name, &row, id, false, layer, TENSOR_NO_EXPERT);
	const int code = take_named(p, change, name, rows, cols);
	return code != EXIT_OK || *change != NULL ? code
	                                          : fail(p->error, EXIT_INPUT, "%s: has no tensor '%s', which a model of %s needs",
	                                                 p->model->path, name, p->shape.architecture->huggingface);
}

static int take_layer(struct planning *p, struct layer *linear, enum tensor_id id, size_t layer, size_t rows, size_t cols)
{
	static const char weight[] = "weight";
	char name[TENSOR_NAME_BYTES];
	int code = take(p, &linear->weight, id, layer, rows, cols);

	if (code != EXIT_OK)
		return code;
	snprintf(name, sizeof name, "%.*sbias", (int)(strlen(linear->weight->source->name) - strlen(weight)),
	         linear->weight->source->name);
	return take_named(p, &linear->bias, name, rows, 1);
}

/* n numbers, all `value`, that live as long as the plan; NULL without memory. */
static float *make_numbers(struct planning *p, size_t n, float value)
{
	float *x = arena_take(&p->arena, n * sizeof *x);

	for (size_t i = 0; x != NULL && i < n; i++)
		x[i] = value;
	return x;
}

/*
 * Chooses scales: powers of two near a^e / w^(1 - e), of inputs whose magnitudes are like a, and columns of weights whose
 * magnitudes are like w; at e = 0.5 inputs and columns end up alike, at 0 columns are, at 1 inputs. Their mean is about 1.
 */
static void choose_scales(struct planning *p, float *scales, float *inverse, const float *a, const float *w, size_t n)
{
	const double e = p->settings->exponent;
	struct transformation *done = p->done;
	double sum = 0;
	size_t known = 0;

	for (size_t i = 0; i < n; i++)
		if (a[i] > 0 && w[i] > 0) {
			sum += e * log2((double)a[i]) - (1 - e) * log2((double)w[i]);
			known++;
		}
	for (size_t i = 0; i < n; i++) {
		double exponent = 0;

		if (a[i] > 0 && w[i] > 0)
			exponent = nearbyint(e * log2((double)a[i]) - (1 - e) * log2((double)w[i]) - sum / (double)known);
		exponent = fmin(fmax(exponent, -EXPONENT_MOST), EXPONENT_MOST);
		scales[i] = ldexpf(1, (int)exponent);
		inverse[i] = ldexpf(1, -(int)exponent);
		done->least = done->n_scales == 0 || exponent < done->least ? (int)exponent : done->least;
		done->most = done->n_scales == 0 || exponent > done->most ? (int)exponent : done->most;
		done->n_scales++;
	}
}

/* Scales between a norm and the layers that read it. */
static int scale_norm(struct planning *p, struct change *norm, const struct layer *readers, size_t n_readers)
{
	const size_t n = norm->cols;
	float *a = make_numbers(p, n, 0), *w = make_numbers(p, n, 0), *scales = make_numbers(p, n, 1);
	float *inverse = make_numbers(p, n, 1);
	int code = a != NULL && w != NULL && scales != NULL && inverse != NULL ? change_maxima(norm, a, NULL, p->error)
	                                                                       : fail_memory(p->error);

	for (size_t i = 0; i < n_readers && code == EXIT_OK; i++)
		code = change_maxima(readers[i].weight, w, NULL, p->error);
	if (code != EXIT_OK)
		return code;
	choose_scales(p, scales, inverse, a, w, n);
	norm->col_scales = inverse;
	for (size_t i = 0; i < n_readers; i++)
		readers[i].weight->col_scales = scales;
	return EXIT_OK;
}

/* Scales between rows of a layer and columns of the one that takes them. The columns of each `group` sets of `rows` / `sets`
   neighbours read the same rows. */
static int scale_rows(struct planning *p, const struct layer *writer, const struct layer *reader, size_t sets, size_t group)
{
	const size_t rows = writer->weight->rows, cols = reader->weight->cols, width = rows / sets;
	float *a = make_numbers(p, rows, 0), *columns = make_numbers(p, cols, 0), *w = make_numbers(p, rows, 0);
	float *row_scales = make_numbers(p, rows, 1), *scales = make_numbers(p, rows, 1), *col_scales = make_numbers(p, cols, 1);
	int code = a != NULL && columns != NULL && w != NULL && row_scales != NULL && scales != NULL && col_scales != NULL
	           ? change_maxima(writer->weight, NULL, a, p->error) : fail_memory(p->error);

	if (code == EXIT_OK)
		code = change_maxima(reader->weight, columns, NULL, p->error);
	if (code != EXIT_OK)
		return code;
	for (size_t j = 0; j < cols; j++) {
		float *most = &w[j / (width * group) * width + j % width];

		*most = columns[j] > *most ? columns[j] : *most;
	}
	choose_scales(p, scales, row_scales, a, w, rows);
	for (size_t j = 0; j < cols; j++)
		col_scales[j] = scales[j / (width * group) * width + j % width];
	writer->weight->row_scales = row_scales;
	if (writer->bias != NULL)
		writer->bias->row_scales = row_scales;
	reader->weight->col_scales = col_scales;
	return EXIT_OK;
}

/* Gives the weight of a norm to the layers behind it. */
static int fold(struct planning *p, struct change *norm, const struct layer *readers, size_t n_readers)
{
	float *weight = make_numbers(p, norm->cols, 0);
	uint64_t rounded = 0;
	const int code = weight != NULL ? change_read(norm, 0, 1, weight, &rounded, p->error) : fail_memory(p->error);

	for (size_t i = 0; i < n_readers; i++)
		readers[i].weight->fold = weight;
	norm->ones = true;
	return code;
}

static void rotate_rows(const struct layer *linear, size_t size)
{
	linear->weight->rotated_rows = size;
	if (linear->bias != NULL)
		linear->bias->rotated_rows = size;
}

/* Plans a layer of the model. Rotations come before scales, and scales of rows before those of norms, which see them. */
static int plan_layer(struct planning *p, size_t i)
{
	const struct transform_settings *set = p->settings;
	const struct shape *s = &p->shape;
	const size_t q = s->heads * s->head_cols, kv = s->kv_heads * s->head_cols;
	const size_t stream = p->done->stream_rotation, values = p->done->value_rotation;
	struct change *norms[2], *unused;
	struct layer qkv[3], output, mlp[2], down;
	int code = take(p, &norms[0], TENSOR_ATTENTION_NORM, i, 1, s->hidden);

	if (code == EXIT_OK)
		code = take(p, &norms[1], TENSOR_MLP_NORM, i, 1, s->hidden);
	if (code == EXIT_OK)
		code = take_layer(p, &qkv[0], TENSOR_Q, i, q, s->hidden);
	if (code == EXIT_OK)
		code = take_layer(p, &qkv[1], TENSOR_K, i, kv, s->hidden);
	if (code == EXIT_OK)
		code = take_layer(p, &qkv[2], TENSOR_V, i, kv, s->hidden);
	if (code == EXIT_OK)
		code = take_layer(p, &output, TENSOR_OUTPUT, i, s->hidden, q);
	if (code == EXIT_OK)
		code = take_layer(p, &mlp[0], TENSOR_GATE, i, s->intermediate, s->hidden);
	if (code == EXIT_OK)
		code = take_layer(p, &mlp[1], TENSOR_UP, i, s->intermediate, s->hidden);
	if (code == EXIT_OK)
		code = take_layer(p, &down, TENSOR_DOWN, i, s->hidden, s->intermediate);
	if (code == EXIT_OK && (s->architecture->has & ARCHITECTURE_HEAD_NORM) != 0) {
		code = take(p, &unused, TENSOR_Q_NORM, i, 1, s->head_cols);
		if (code == EXIT_OK)
			code = take(p, &unused, TENSOR_K_NORM, i, 1, s->head_cols);
	}
	if (code == EXIT_OK && (set->fold_norms || stream > 0)) {
		code = fold(p, norms[0], qkv, 3);
		if (code == EXIT_OK)
			code = fold(p, norms[1], mlp, 2);
	}
	if (code != EXIT_OK)
		return code;
	if (stream > 0) {
		for (size_t j = 0; j < 3; j++)
			qkv[j].weight->rotated_cols = stream;
		for (size_t j = 0; j < 2; j++)
			mlp[j].weight->rotated_cols = stream;
		rotate_rows(&output, stream);
		rotate_rows(&down, stream);
	}
	if (values > 0) {
		rotate_rows(&qkv[2], values);
		output.weight->rotated_cols = values;
	}
	if (set->scale_values)
		code = scale_rows(p, &qkv[2], &output, s->kv_heads, s->heads / s->kv_heads);
	if (code == EXIT_OK && set->scale_mlp)
		code = scale_rows(p, &mlp[1], &down, 1, 1);
	if (code == EXIT_OK && set->scale_norms)
		code = scale_norm(p, norms[0], qkv, 3);
	if (code == EXIT_OK && set->scale_norms)
		code = scale_norm(p, norms[1], mlp, 2);
	return code;
}

/* Plans the embedding, the last norm and the head. A head that is the embedding becomes a tensor of its own if the last
   norm has to become part of it. */
static int plan_ends(struct planning *p)
{
	const struct shape *s = &p->shape;
	const size_t stream = p->done->stream_rotation;
	struct change *norm;
	char name[TENSOR_NAME_BYTES];
	size_t row = 0;
	const struct file *file;

	tensor_name(name, &row, TENSOR_EMBEDDING, false, 0, TENSOR_NO_EXPERT);
	const struct tensor *stored = model_find(p->model, name, &file);
	uint64_t vocabulary = 0, cols;
	if (stored != NULL)
		tensor_matrix(stored, &vocabulary, &cols);
	int code = take(p, &p->embedding, TENSOR_EMBEDDING, 0, (size_t)vocabulary, s->hidden);
	if (code == EXIT_OK)
		code = take(p, &norm, TENSOR_NORM, 0, 1, s->hidden);
	row = 0;
	tensor_name(name, &row, TENSOR_HEAD, false, 0, TENSOR_NO_EXPERT);
	if (code == EXIT_OK)
		code = take_named(p, &p->head, name, (size_t)vocabulary, s->hidden);
	if (code != EXIT_OK || stream == 0)
		return code;
	if (s->tied && p->head != NULL)
		return fail_tensor(p->error, p->head->file->path, name, "is beside an embedding that %s ties it to; take out one of both",
		                   s->path);
	if (p->head == NULL) {
		p->done->untied = true;
		p->added = *p->embedding;
		p->head = &p->added;
		p->added_tensor = *stored;
		p->added_tensor.dtype = DTYPE_F32;
		p->added_tensor.name = arena_string(&p->arena, name);
		if (p->added_tensor.name == NULL)
			return fail_memory(p->error);
	}
	const struct layer head = {p->head, NULL};
	code = fold(p, norm, &head, 1);
	p->head->rotated_cols = stream;
	p->embedding->rotated_cols = stream;
	return code;
}

/* The size of Hadamard matrices for n neighbours. */
static int choose_rotation(struct planning *p, size_t *size, size_t n, const char *what)
{
	const uint64_t asked = p->settings->rotation;

	*size = n & (~n + 1); /* the largest power of two that divides n */
	if (asked == 0 && *size == 1)
		return fail(p->error, EXIT_INPUT, "%s: %s is %zu, which is odd, so no Hadamard matrix rotates it", p->shape.path, what, n);
	if (asked > *size)
		return fail(p->error, EXIT_INPUT, "%s: %s is %zu, which --rotation-size %" PRIu64 " does not divide; %zu is the largest divisor",
		            p->shape.path, what, n, asked, *size);
	if (asked > 0)
		*size = (size_t)asked;
	return EXIT_OK;
}

static int plan(struct planning *p)
{
	const struct transform_settings *set = p->settings;
	const struct shape *s = &p->shape;
	int code = EXIT_OK;

	if (s->experts > 0)
		return fail(p->error, EXIT_INPUT, "%s: is a model with experts (%s), whose weights are not transformed here; models "
		            "without experts are", s->path, s->architecture->huggingface);
	if (set->rotate_stream)
		code = choose_rotation(p, &p->done->stream_rotation, s->hidden, "hidden_size");
	if (code == EXIT_OK && set->rotate_values)
		code = choose_rotation(p, &p->done->value_rotation, s->head_cols, "head_dim");
	if (code == EXIT_OK)
		code = plan_ends(p);
	for (size_t i = 0; i < s->layers && code == EXIT_OK; i++)
		code = plan_layer(p, i);
	for (size_t i = 0; i < p->model->n_tensors && code == EXIT_OK; i++) {
		const struct model_tensor *t = &p->model->by_name[i];

		if (p->changes[i].source == NULL && !tensor_may_be_unused(t->tensor->name) && !allowed_unknown_under(t->tensor->name))
			code = fail_tensor(p->error, t->file->path, t->tensor->name, "a model of %s has no such tensor; --allow-unknown %.200s goes "
			                   "on", s->architecture->huggingface, t->tensor->name);
	}
	return code;
}

static enum dtype dtype_of(const void *context, const struct tensor *source)
{
	const struct change *change = find_change(context, source->name);

	return change_is_any(change) ? change_dtype(change) : N_DTYPES;
}

static int write_tensor(const void *context, struct writer *writer, const struct tensor *target, struct error *error)
{
	const struct planning *p = context;
	const struct change *change = find_change(p, target->name);

	if (change == NULL)
		change = &p->added;
	p->done->exact = p->done->exact && change_is_exact(change);
	p->done->n_changed++;
	return change_write(change, writer, target, &p->done->n_rounded, error);
}

/* Has config.json say what was untied, and f32 if tensors became wider. */
static int configure(const void *context, json_t *config, struct error *error)
{
	const struct planning *p = context;
	bool wider = false;

	json_prepare();
	for (size_t i = 0; i < p->model->n_tensors; i++) {
		const struct change *change = &p->changes[i];

		wider |= change_is_any(change) && change->source->dtype != change_dtype(change);
	}
	if (wider)
		model_config_widen(config, MXFP_FORMAT_F32, false);
	if (p->done->untied)
		json_object_set_new(config, "tie_word_embeddings", json_false());
	return json_out_of_memory() ? fail_memory(error) : EXIT_OK;
}

/* Takes out of the model what dequantize carries. */
static int leave_out(struct transformation *done, struct model *model, struct error *error)
{
	struct tensor_list list = {0};
	int code = EXIT_OK;

	for (size_t i = 0; i < model->n_tensors && code == EXIT_OK; i++)
		if (meaning_is_carried(model->by_name[i].tensor->name))
			code = tensor_list_add(&list, model->by_name[i].tensor, error);
	done->n_left_out = list.n;
	if (code == EXIT_OK)
		code = model_remove(model, &list, error);
	free(list.items);
	return code;
}

int transform_run(struct transformation *done, const struct transform_settings *settings, struct model *model,
                  struct error *error)
{
	struct planning p = {.settings = settings, .model = model, .done = done, .error = error};
	struct edit edit = {
		.command = "transform",
		.done = "transformed",
		.out = settings->out,
		.force = settings->force,
		.quiet = settings->quiet,
		.threads = settings->threads,
		.model = model,
		.context = &p,
		.dtype = dtype_of,
		.write = write_tensor,
		.configure = configure,
		.carry = &done->carry,
	};

	*done = (struct transformation){.exact = true};
	int code = leave_out(done, model, error);
	p.changes = calloc(model->n_tensors + 1, sizeof *p.changes);
	if (code == EXIT_OK)
		code = p.changes != NULL ? edit_check(&edit, error) : fail_memory(error);
	if (code == EXIT_OK && model_quantized_by(model) != NULL)
		code = fail(error, EXIT_INPUT, "%s: is already quantized: %s; transform the model that it was made from", model->path,
		            model_quantized_by(model));
	if (code == EXIT_OK)
		code = shape_read(&p.shape, model, error);
	if (code == EXIT_OK)
		code = plan(&p);
	if (code == EXIT_OK && done->untied && file_format_named(settings->out) != NULL)
		code = fail(error, EXIT_USAGE, "%s: the output head gets a tensor of its own, which a config.json has to say; name a "
		            "directory", settings->out);
	if (code == EXIT_OK && done->untied) {
		edit.added = &p.added_tensor;
		edit.added_to = p.embedding->file;
	}
	if (code == EXIT_OK)
		code = edit_write(&edit, error);
	done->n_kept = edit.n_kept;
	done->exact = done->exact && done->n_rounded == 0;
	shape_free(&p.shape);
	arena_free(&p.arena);
	free(p.changes);
	return code;
}

void transform_free(struct transformation *done)
{
	carry_free(&done->carry);
}
