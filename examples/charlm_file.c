/* SPDX-License-Identifier: MIT */
/* The model's tensors by name, and reading and writing them in safetensors files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charlm.h"
#include "io/file.h"

#define PLACES(member) offsetof(struct charlm, member), offsetof(struct charlm_matrices, member)
#define MATRIX(name, member, outputs, inputs, gain) {name, 2, {outputs, inputs}, PLACES(member), gain}
#define VECTOR(name, member, n) {name, 1, {n}, PLACES(member), 0}
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
#undef PLACES
#undef MATRIX
#undef VECTOR
#undef LAYER

size_t charlm_elements(const struct charlm_tensor *tensor)
{
	return (size_t)(tensor->rank == 2 ? tensor->shape[0] * tensor->shape[1] : tensor->shape[0]);
}

float *charlm_values(struct charlm *model, const struct charlm_tensor *tensor)
{
	return (float *)((char *)model + tensor->values);
}

/* Sets a tensor's matrix to f32, still without data. */
static struct mxfp_matrix *place_matrix(struct charlm_matrices *model, const struct charlm_tensor *tensor)
{
	struct mxfp_matrix *matrix = (struct mxfp_matrix *)((char *)model + tensor->matrix);

	*matrix = (struct mxfp_matrix){.size = sizeof(struct mxfp_matrix), .format = MXFP_FORMAT_F32, .cols = (size_t)tensor->shape[tensor->rank - 1]};
	matrix->rows = charlm_elements(tensor) / matrix->cols;
	return matrix;
}

struct charlm_matrices charlm_matrices(struct charlm *model)
{
	struct charlm_matrices matrices = {.activations = MXFP_FORMAT_F32};

	for (size_t i = 0; i < CHARLM_TENSORS; i++)
		place_matrix(&matrices, &charlm_tensors[i])->data = charlm_values(model, &charlm_tensors[i]);
	return matrices;
}

/* Reads the tensor called name + suffix, which must have `size` bytes, to its offset in model->bytes. */
static int load_part(const void **data, struct charlm_matrices *model, const struct file *file, const char *name,
                     const char *suffix, size_t size, struct error *error)
{
	char full[128];
	const struct tensor *part;
	unsigned char *bytes;

	snprintf(full, sizeof(full), "%s%s", name, suffix);
	part = file_find(file, full);
	if (!part)
		return fail(error, EXIT_INPUT, "%s: no tensor '%s': not a model of charlm_train", file->path, full);
	if (part->size != size || part->offset % sizeof(float) != 0)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': not of the size charlm_train gives it", file->path, full);
	bytes = model->bytes + part->offset;
	*data = bytes;
	if (file_read(file, part, 0, bytes, size, error))
		return EXIT_IO;
	dtype_swap(part->dtype, bytes, size);
	return EXIT_OK;
}

/* The block format of a quantized tensor. `mxfp quantize` records that of most tensors, and that of each exception. */
static int block_format(enum mxfp_format *format, const struct file *file, const char *name, struct error *error)
{
	char key[128], word[32] = "";
	const char *value;

	snprintf(key, sizeof(key), "mxfp.tensor.%s", name);
	value = file_metadata(file, key);
	value = value ? value : file_metadata(file, "mxfp.weights");
	if (!value || sscanf(value, "%31s", word) != 1 || mxfp_format_from_name(format, word))
		return fail(error, EXIT_INPUT, "%s: tensor '%s': no metadata '%s' or 'mxfp.weights' say its format", file->path,
		            name, key);
	return EXIT_OK;
}

/* Loads a tensor in the layout of compressed-tensors: codes NAME or NAME_packed, scales NAME_scale, and in NVFP4 a
   tensor scale NAME_global_scale, which divides; or a tensor that is not quantized. */
static int load_tensor(struct charlm_matrices *model, const struct charlm_tensor *wanted, const struct file *file,
                       struct error *error)
{
	struct mxfp_matrix *matrix = place_matrix(model, wanted);
	const struct tensor *plain = file_find(file, wanted->name);
	struct mxfp_sizes size;
	const void *global;
	int code;

	if (wanted->rank == 1 || (plain && plain->dtype == DTYPE_F32))
		return load_part(&matrix->data, model, file, wanted->name, "", charlm_elements(wanted) * sizeof(float), error);
	code = block_format(&matrix->format, file, wanted->name, error);
	if (code)
		return code;
	if (mxfp_blocks_size(&size, matrix->format, matrix->rows, matrix->cols))
		return fail(error, EXIT_INPUT, "%s: tensor '%s': not in a block format", file->path, wanted->name);
	code = load_part(&matrix->data, model, file, wanted->name, plain ? "" : "_packed", size.codes_bytes, error);
	if (!code)
		code = load_part(&matrix->scales, model, file, wanted->name, "_scale", size.scales_bytes, error);
	if (code || matrix->format != MXFP_FORMAT_NVFP4)
		return code;
	code = load_part(&global, model, file, wanted->name, "_global_scale", sizeof(matrix->tensor_scale), error);
	if (!code)
		memcpy(&matrix->tensor_scale, global, sizeof(matrix->tensor_scale));
	matrix->tensor_scale_divides = true;
	return code;
}

bool charlm_activations(enum mxfp_format *format, const char *name)
{
	*format = MXFP_FORMAT_F32;
	return strcmp(name, "none") == 0 ||
	       (!mxfp_format_from_name(format, name) && mxfp_format_get_info(*format)->kind == MXFP_KIND_BLOCK);
}

/* Loads what `mxfp quantize` recorded for the inputs of quantized layers. */
static int load_activations(struct charlm_matrices *model, const struct file *file, struct error *error)
{
	const char *format = file_metadata(file, "mxfp.activations"), *rule = file_metadata(file, "mxfp.activation_rule");
	int value = MXFP_RULE_RCEIL;

	if (!charlm_activations(&model->activations, format ? format : "none") ||
	    (rule && mxfp_option_from_name(&value, MXFP_OPTION_RULE, rule)))
		return fail(error, EXIT_INPUT, "%s: metadata 'mxfp.activations' or 'mxfp.activation_rule': unknown value",
		            file->path);
	model->how = (struct mxfp_quantize_options){.size = sizeof model->how, .rule = (enum mxfp_rule)value};
	return EXIT_OK;
}

int charlm_load(struct charlm_matrices *model, const char *path, struct error *error)
{
	struct file file = {0};
	int code = file_open(&file, path, error);

	*model = (struct charlm_matrices){0};
	if (!code) {
		model->bytes = malloc((size_t)file.data_bytes + 1);
		code = model->bytes ? load_activations(model, &file, error) : fail_memory(error);
	}
	for (size_t i = 0; !code && i < CHARLM_TENSORS; i++)
		code = load_tensor(model, &charlm_tensors[i], &file, error);
	file_close(&file);
	return code;
}

void charlm_unload(struct charlm_matrices *model)
{
	free(model->bytes);
	*model = (struct charlm_matrices){0};
}

static int write_tensors(struct writer *writer, struct charlm *model, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; !code && i < CHARLM_TENSORS; i++) {
		size_t size = charlm_elements(&charlm_tensors[i]) * sizeof(float);
		float *values = charlm_values(model, &charlm_tensors[i]);

		dtype_swap(DTYPE_F32, values, size);
		code = writer_write(writer, writer_find(writer, charlm_tensors[i].name), 0, values, size, error);
	}
	return code;
}

int charlm_save(struct charlm *model, const char *path, struct error *error)
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
