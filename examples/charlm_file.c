/* SPDX-License-Identifier: MIT */
/* The model's tensors by name, and reading and writing them as safetensors. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "charlm.h"
#include "io/file.h"

#define MATRIX(name, member, outputs, inputs, gain) {name, 2, {outputs, inputs}, offsetof(struct charlm, member), gain}
#define VECTOR(name, member, n) {name, 1, {n}, offsetof(struct charlm, member), 0}
#define LAYER(l) \
	VECTOR("model.layers." #l ".norm.weight", layers[l].norm, CHARLM_WIDTH), \
	MATRIX("model.layers." #l ".up_proj.weight", layers[l].up, CHARLM_HIDDEN, CHARLM_WIDTH, 2.0f), \
	MATRIX("model.layers." #l ".down_proj.weight", layers[l].down, CHARLM_WIDTH, CHARLM_HIDDEN, 0.5f)

const struct charlm_tensor charlm_tensors[CHARLM_TENSORS] = {
	MATRIX("model.embed_tokens.weight", embedding, CHARLM_SYMBOLS, CHARLM_EMBEDDING, 0.5f * CHARLM_EMBEDDING),
	MATRIX("model.in_proj.weight", input, CHARLM_WIDTH, CHARLM_INPUT, 1.0f),
	LAYER(0),
	LAYER(1),
	VECTOR("model.norm.weight", norm, CHARLM_WIDTH),
	MATRIX("lm_head.weight", head, CHARLM_SYMBOLS, CHARLM_WIDTH, 0.1f),
};
#undef MATRIX
#undef VECTOR
#undef LAYER

size_t charlm_elements(const struct charlm_tensor *tensor)
{
	return (size_t)(tensor->rank == 2 ? tensor->shape[0] * tensor->shape[1] : tensor->shape[0]);
}

float *charlm_values(struct charlm *model, const struct charlm_tensor *tensor)
{
	return (float *)((char *)model + tensor->offset);
}

static int load_tensor(struct charlm *model, const struct charlm_tensor *wanted, const struct file *file,
                       struct error *error)
{
	const struct tensor *tensor = file_find(file, wanted->name);

	if (!tensor)
		return fail(error, EXIT_INPUT, "%s: no tensor '%s': not a model of charlm_train", file->path, wanted->name);
	if (tensor->dtype != DTYPE_F32 || tensor->rank != wanted->rank ||
	    memcmp(tensor->shape, wanted->shape, wanted->rank * sizeof(wanted->shape[0])) != 0)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': not F32 of the shape charlm_train gives it", file->path,
		            wanted->name);
	return file_read(file, tensor, 0, charlm_values(model, wanted), tensor->size, error);
}

int charlm_load(struct charlm *model, const char *path, struct error *error)
{
	struct file file = {0};
	int code = file_open(&file, path, error);

	for (size_t i = 0; !code && i < CHARLM_TENSORS; i++)
		code = load_tensor(model, &charlm_tensors[i], &file, error);
	file_close(&file);
	return code;
}

static int write_tensors(struct writer *writer, const struct charlm *model, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; !code && i < CHARLM_TENSORS; i++) {
		const struct charlm_tensor *tensor = &charlm_tensors[i];
		const struct tensor *place = writer->tensors;

		while (strcmp(place->name, tensor->name) != 0)
			place++;
		code = writer_write(writer, place, 0, (const char *)model + tensor->offset,
		                    charlm_elements(tensor) * sizeof(float), error);
	}
	return code;
}

int charlm_save(const struct charlm *model, const char *path, struct error *error)
{
	struct tensor tensors[CHARLM_TENSORS];
	struct metadata metadata[] = {{"format", "pt"}};
	struct writer writer = {.path = path, .n_tensors = CHARLM_TENSORS, .tensors = tensors, .n_metadata = 1,
	                        .metadata = metadata, .fd = -1};
	int code;

	for (size_t i = 0; i < CHARLM_TENSORS; i++)
		tensors[i] = (struct tensor){.name = charlm_tensors[i].name, .dtype = DTYPE_F32,
		                             .rank = charlm_tensors[i].rank, .shape = charlm_tensors[i].shape};
	code = writer_open(&writer, error);
	if (code)
		return code;
	code = write_tensors(&writer, model, error);
	if (!code)
		return writer_close(&writer, error);
	writer_abandon(&writer);
	remove(path);
	return code;
}
