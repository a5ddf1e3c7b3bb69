/* SPDX-License-Identifier: MIT */
/* Writes what the linear layers of a character model get on the text that it was trained on, for mxfp calibrate. */
#include <stdio.h>
#include <stdlib.h>

#include "charlm.h"
#include "io/file.h"

/* What is written of each layer: a tensor with the layer's name. */
struct inputs {
	size_t n;
	float *x[CHARLM_TENSORS]; /* NULL: no linear layer */
	uint64_t shapes[CHARLM_TENSORS][2];
};

/* Whether a tensor is that of a linear layer: all matrices but the embedding. */
static bool is_linear(size_t i)
{
	return charlm_tensors[i].rank == 2 && charlm_tensors[i].values != offsetof(struct charlm, embedding);
}

static int take(struct inputs *inputs, const char *model_path, const char *text_path, struct error *error)
{
	struct charlm_matrices model;
	struct charlm_text text = {.symbols = NULL};
	int code = charlm_load(&model, model_path, error);

	if (!code)
		code = charlm_text_read(&text, text_path, error);
	if (!code && inputs->n > charlm_trained(&text))
		code = fail(error, EXIT_USAGE, "%s: has %zu characters that are not left out of training; give at most that many",
		            text_path, charlm_trained(&text));
	for (size_t i = 0; !code && i < CHARLM_TENSORS; i++) {
		if (!is_linear(i))
			continue;
		inputs->x[i] = malloc(inputs->n * charlm_tensors[i].shape[1] * sizeof(float));
		code = inputs->x[i] ? EXIT_OK : fail_memory(error);
	}
	if (!code) {
		const enum mxfp_status status = charlm_inputs(inputs->x, inputs->n, &model, &text);

		code = status ? fail(error, EXIT_INPUT, "%s: %s", text_path, mxfp_status_text(status)) : EXIT_OK;
	}
	charlm_text_free(&text);
	charlm_unload(&model);
	return code;
}

static int save(struct inputs *inputs, const char *path, struct error *error)
{
	struct tensor tensors[CHARLM_TENSORS];
	struct writer writer = {.path = path, .tensors = tensors, .fd = -1};

	for (size_t i = 0; i < CHARLM_TENSORS; i++) {
		if (!inputs->x[i])
			continue;
		inputs->shapes[i][0] = inputs->n;
		inputs->shapes[i][1] = charlm_tensors[i].shape[1];
		tensors[writer.n_tensors++] = (struct tensor){.name = charlm_tensors[i].name, .dtype = DTYPE_F32, .rank = 2,
		                                              .shape = inputs->shapes[i]};
	}
	int code = writer_open(&writer, error);
	if (code)
		return code;
	for (size_t i = 0; !code && i < CHARLM_TENSORS; i++) {
		if (!inputs->x[i])
			continue;
		const size_t size = inputs->n * charlm_tensors[i].shape[1] * sizeof(float);

		dtype_swap(DTYPE_F32, inputs->x[i], size);
		code = writer_write(&writer, writer_find(&writer, charlm_tensors[i].name), 0, inputs->x[i], size, error);
	}
	if (!code)
		return writer_close(&writer, error);
	writer_abandon(&writer);
	remove(path);
	return code;
}

int main(int argc, char **argv)
{
	struct inputs inputs = {.n = 4096};
	struct error error;
	char *end = "";

	if (argc == 5)
		inputs.n = (size_t)strtoul(argv[4], &end, 10);
	if (argc < 4 || argc > 5 || *end != '\0' || inputs.n == 0) {
		fputs("usage: charlm_inputs MODEL.safetensors TEXT OUT.safetensors [CHARACTERS]   (of the text, evenly spaced: 4096)\n",
		      stderr);
		return EXIT_USAGE;
	}
	int code = take(&inputs, argv[1], argv[2], &error);
	if (!code)
		code = save(&inputs, argv[3], &error);
	for (size_t i = 0; i < CHARLM_TENSORS; i++)
		free(inputs.x[i]);
	if (code)
		fprintf(stderr, "charlm_inputs: %s\n", error.text);
	return code;
}
