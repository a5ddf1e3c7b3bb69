/* SPDX-License-Identifier: MIT */
/* The numbers that mxfp bench makes operands of products of. */
#include "config.h"

#include "cli/bench_sources.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "bench.h"
#include "io/elements.h"
#include "model/model.h"

enum { NAMES = 3 };
enum kind { NORMAL, T4, OUTLIERS };

static const char *const kind_names[NAMES] = {[NORMAL] = BENCH_SOURCE_NORMAL, [T4] = "t4", [OUTLIERS] = "outliers"};

/* The index of a name, or NAMES. */
static int kind_of(const char *name)
{
	int kind = 0;

	while (kind < NAMES && strcmp(name, kind_names[kind]) != 0)
		kind++;
	return kind;
}

const char *bench_source_kind(const struct bench_gemm_source *source)
{
	return kind_of(source->name) < NAMES ? source->name : "file";
}

/* No operand has more numbers. */
static size_t largest_operand(void)
{
	size_t largest = 0;

	for (size_t i = 0; i < bench_n_gemm_shapes; i++) {
		const struct bench_gemm_shape *s = &bench_gemm_shapes[i];
		const size_t numbers = (s->m > s->n ? s->m : s->n) * s->k;
		if (numbers > largest)
			largest = numbers;
	}
	return largest;
}

static size_t float_elements(const struct tensor *tensor)
{
	return elements_are_float(tensor->dtype) && tensor->rank >= 2 ? (size_t)tensor_elements(tensor) : 0;
}

/* Reads the tensor behind the numbers that are there, as many as `room` has left. */
static int read_tensor(struct bench_gemm_source *source, float *room, size_t most, const struct file *file,
                       const struct tensor *tensor, struct error *error)
{
	const size_t all = float_elements(tensor), n = all < most - source->n ? all : most - source->n;

	if (n == 0)
		return EXIT_OK;
	int code = elements_read(file, tensor, 0, room + source->n, n, error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (!isfinite(room[source->n + i]))
			code = fail_tensor(error, file->path, tensor->name, "element %zu is NaN or Inf; --data takes finite "
			                   "numbers", i);
	source->n += n;
	return code;
}

static int read_model(struct bench_sources *sources, struct bench_gemm_source *source, const struct model *model,
                      struct error *error)
{
	const size_t most = largest_operand();
	size_t all = 0;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && all < most; t++)
			all += float_elements(&model->files[f].tensors[t]);
	if (all == 0)
		return fail(error, EXIT_INPUT, "%s: holds no matrix in F32, BF16, F16 or F64, as --data needs; mxfp "
		            "dequantize makes one", model->path);
	float *room = malloc((all < most ? all : most) * sizeof *room);
	if (room == NULL)
		return fail_memory(error);
	sources->numbers[sources->n] = room;
	source->numbers = room;
	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++)
			code = read_tensor(source, room, most, &model->files[f], &model->files[f].tensors[t], error);
	return code;
}

static int read_file(struct bench_sources *sources, struct bench_gemm_source *source, struct error *error)
{
	struct model model;

	/* A word that is no file was probably meant as a name. */
	if (strpbrk(source->name, "/.") == NULL && access(source->name, F_OK) != 0)
		return nearest_fail("--data", source->name, "known, besides files", kind_names, NAMES, error);
	int code = model_open_any_order(&model, source->name, error);
	if (code != EXIT_OK)
		return code;
	code = read_model(sources, source, &model, error);
	model_close(&model);
	return code;
}

/* Makes the source that names[n] names. */
static int make(struct bench_sources *sources, const float *normals, struct error *error)
{
	struct bench_gemm_source *source = &sources->items[sources->n];
	const char *name = sources->names[sources->n];
	const int kind = kind_of(name);

	*source = (struct bench_gemm_source){.name = name};
	if (kind == NAMES)
		return read_file(sources, source, error);
	source->numbers = normals;
	source->n = BENCH_PATTERN;
	source->outliers = kind == OUTLIERS;
	if (kind != T4)
		return EXIT_OK;
	float *numbers = malloc(BENCH_PATTERN * sizeof *numbers);
	if (numbers == NULL)
		return fail_memory(error);
	bench_student_t4(numbers, BENCH_PATTERN);
	sources->numbers[sources->n] = numbers;
	source->numbers = numbers;
	return EXIT_OK;
}

int bench_sources_make(struct bench_sources *sources, const char *list, const float *normals, struct error *error)
{
	int code = EXIT_OK;

	for (const char *at = list != NULL ? list : BENCH_SOURCE_NORMAL; at != NULL && code == EXIT_OK;) {
		const size_t length = strcspn(at, ",");
		if (length == 0)
			return fail(error, EXIT_USAGE, "--data: a name is empty; give normal, t4, outliers or files, separated "
			            "by commas");
		if (sources->n == BENCH_SOURCES_MAX)
			return fail(error, EXIT_USAGE, "--data: more than %d sources", (int)BENCH_SOURCES_MAX);
		sources->names[sources->n] = strndup(at, length);
		if (sources->names[sources->n] == NULL)
			return fail_memory(error);
		code = make(sources, normals, error);
		sources->n++;
		at = at[length] == ',' ? at + length + 1 : NULL;
	}
	return code;
}

void bench_sources_free(struct bench_sources *sources)
{
	for (size_t i = 0; i < BENCH_SOURCES_MAX; i++) {
		free(sources->names[i]);
		free(sources->numbers[i]);
	}
}
