/* SPDX-License-Identifier: MIT */
/* Reads the weights of a model: each stays in its format, or becomes blocks as a plan says. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"
#include "io/elements.h"
#include "io/ggml_q8.h"
#include "model/allow.h"
#include "model/meaning.h"
#include "model/role.h"
#include "mxfp/convert.h"

enum {
	MORE_BYTES = 512 << 20,  /* that a run takes besides weights as they are stored, and keys and values of long sequences */
	OTHER_BYTES = 112 << 20  /* of these, for logits, scores, workspaces, and the program */
};

struct loader {
	struct network *network;
	const struct model *model;
	bool *used;               /* of each tensor in model->by_name; NULL: nobody asks */
	bool checks;              /* weights of linear layers are not read, only checked and counted */
	struct transfer transfer; /* for quantizing */
	struct error *error;
};

/* Notes that a tensor of a file is used. */
static void use(struct loader *l, const char *name)
{
	size_t from = 0, n = l->used != NULL ? l->model->n_tensors : 0;

	while (n > 0) {
		const size_t middle = from + n / 2;
		const int order = strcmp(l->model->by_name[middle].tensor->name, name);

		if (order == 0) {
			l->used[middle] = true;
			return;
		}
		if (order < 0)
			from = middle + 1;
		n = order < 0 ? n - n / 2 - 1 : n / 2;
	}
}

/* Sets up a weight whose numbers are in a file, or that is quantized there. */
static int open_weight(struct loader *l, struct weight *weight, const char *name, bool *found)
{
	const struct model *model = l->model;
	int code = quantized_find(&weight->quantized, &weight->is_quantized, model, name, l->error);

	if (code != EXIT_OK)
		return code;
	if (weight->is_quantized) {
		const struct layout_shape *shape = &weight->quantized.shape;

		for (int i = 0; i < N_LAYOUT_PARTS; i++)
			if (weight->quantized.parts[i] != NULL)
				use(l, weight->quantized.parts[i]->name);
		weight->rows = weight->quantized.rows;
		weight->cols = weight->quantized.cols;
		weight->matrices = shape->rank > 2 ? shape->dims[0] : 1;
	} else {
		const struct tensor *stored = model_find(model, name, &weight->file);

		if (stored == NULL)
			return EXIT_OK;
		use(l, name);
		if (!elements_are_float(stored->dtype) && stored->dtype != DTYPE_Q8_0)
			return fail_tensor(l->error, weight->file->path, name, "is %s, which has no numbers that are known here",
			                   dtype_info(stored->dtype)->name);
		const struct role role = role_of(&model->role_model, stored);
		weight->tensor = role_rows(&role, stored, &l->network->arena);
		if (weight->tensor == NULL)
			return fail_memory(l->error);
		tensor_matrix(weight->tensor, &weight->rows, &weight->cols);
		weight->matrices = stored->rank > 2 ? stored->shape[0] : 1;
	}
	weight->name = arena_string(&l->network->arena, name);
	*found = true;
	return weight->name != NULL ? EXIT_OK : fail_memory(l->error);
}

/* Counts a tensor as a file has it: as it is stored, or as it is quantized. */
static void count(struct loader *l, const struct weight *weight)
{
	struct network_size *size = &l->network->size;

	size->elements += weight->rows * weight->cols;
	if (weight->entry != NULL)
		size->bytes += weight->entry->output_bytes;
	else if (!weight->is_quantized)
		size->bytes += weight->tensor->size;
	for (int i = 0; weight->is_quantized && i < LAYOUT_INPUT_SCALE; i++)
		if (weight->quantized.parts[i] != NULL)
			size->bytes += weight->quantized.parts[i]->size;
}

/* Decides whether and how a weight becomes blocks. */
static int choose_blocks(struct loader *l, struct weight *weight)
{
	const struct network_options *o = &l->network->options;
	const struct tensor *stored;

	if (o->plan == NULL || weight->is_quantized)
		return EXIT_OK;
	stored = model_find(l->model, weight->name, &weight->file);
	weight->entry = quantize_entry_of(o->plan, stored, weight->file);
	if (!weight->entry->quantized || (o->keeps != NULL && o->keeps(o->keeps_context, weight->name))) {
		weight->entry = NULL;
		return EXIT_OK;
	}
	return o->checks ? EXIT_OK : quantize_amax(&l->transfer, o->plan, weight->entry, &weight->amax, l->error);
}

/* Finds a weight by the table. If none of its names is there, *found is false and `name` the first of them. */
static int find_weight(struct loader *l, struct weight *weight, enum tensor_id id, size_t layer, int expert, bool *found,
                       char name[TENSOR_NAME_BYTES])
{
	char other[TENSOR_NAME_BYTES];
	int code = EXIT_OK;

	*found = false;
	*weight = (struct weight){0};
	name[0] = '\0';
	for (size_t i = 0; code == EXIT_OK && !*found && tensor_name(other, &i, id, l->network->shape.gguf, layer, expert);) {
		if (name[0] == '\0')
			memcpy(name, other, sizeof other);
		code = open_weight(l, weight, other, found);
	}
	return code;
}

static int fail_missing(struct loader *l, const char *name)
{
	return fail(l->error, EXIT_INPUT, "%s: has no tensor '%s', which a model of %s needs", l->model->path, name,
	            l->network->shape.architecture->huggingface);
}

/* Refuses a weight of another shape; 0: of any number. */
static int check_shape(struct loader *l, const struct weight *weight, uint64_t rows, uint64_t cols)
{
	const struct file *file = weight->is_quantized ? weight->quantized.files[LAYOUT_CODES] : weight->file;

	if ((rows == 0 || weight->rows == rows) && weight->cols == cols)
		return EXIT_OK;
	return fail_tensor(l->error, file->path, weight->name, "is %" PRIu64 " x %" PRIu64 ", and %s asks for %" PRIu64
	                   " x %" PRIu64, weight->rows, weight->cols, l->network->shape.path, rows, cols);
}

static int take(struct loader *l, void **memory, size_t bytes)
{
	*memory = malloc(bytes + 1);
	return *memory != NULL ? EXIT_OK : fail_memory(l->error);
}

/* Reads rows of plain numbers as they are stored, but binary64 ones and ggml's blocks as binary32. */
static int read_stored(struct loader *l, const struct weight *weight, uint64_t first, size_t n, struct linear *linear)
{
	const struct dtype_info *info = dtype_info(weight->tensor->dtype);
	const bool plain = info->block_elements == 1 && info->bits <= 32;
	const size_t cols = (size_t)weight->cols, width = plain ? info->bits / 8 : sizeof(float);
	size_t bytes = n * cols * width;
	int code = take(l, &linear->memory, bytes);

	if (code != EXIT_OK)
		return code;
	linear->w = (struct mxfp_matrix){
		.size = sizeof(struct mxfp_matrix), .format = plain ? info->format : MXFP_FORMAT_F32,
		.rows = n,
		.cols = cols,
		.data = linear->memory,
	};
	linear->w.tensor_scale = 1;
	l->network->bytes += bytes;
	if (!plain)
		return weight_numbers(weight, first, n, linear->memory, l->error);
	code = file_read_rows(weight->file, weight->tensor, first * weight->cols * width, linear->memory, bytes, l->error);
	if (code == EXIT_OK)
		dtype_swap(weight->tensor->dtype, linear->memory, bytes);
	return code;
}

/* Rounds numbers, if the options say so. */
static int round_stored(struct loader *l, const struct weight *weight, struct linear *linear, enum mxfp_format format)
{
	const size_t n = linear->w.rows * linear->w.cols, before = mxfp_format_get_info(linear->w.format)->storage_bytes;

	if (format == linear->w.format)
		return EXIT_OK;
	const int code = numbers_round_w(l->network, linear, format, l->error);
	l->network->bytes += n * mxfp_format_get_info(linear->w.format)->storage_bytes - n * before;
	l->network->size.bytes += n * mxfp_format_get_info(format)->storage_bytes -
	                          (uint64_t)((double)n * dtype_bits(weight->tensor->dtype) / 8);
	return code;
}

/* Reads or makes rows of blocks. */
static int read_blocks(struct loader *l, const struct weight *weight, uint64_t first, size_t n, struct linear *linear)
{
	const struct network_options *o = &l->network->options;
	const struct piece piece = {.row = first, .rows = n, .cols = (size_t)weight->cols};
	struct mxfp_blocks blocks = {
		.size = sizeof blocks, .format = weight->is_quantized ? weight->quantized.choice.form->format : weight->entry->choice.format,
		.rows = n,
		.cols = piece.cols,
	};
	struct mxfp_sizes size;
	uint64_t n_bytes;
	int code;

	if (mxfp_blocks_size(&size, blocks.format, blocks.rows, blocks.cols) != MXFP_OK)
		return fail_memory(l->error);
	code = take(l, &linear->memory, size.codes_bytes + size.scales_bytes);
	if (code != EXIT_OK)
		return code;
	blocks.codes = linear->memory;
	blocks.scales = (uint8_t *)linear->memory + size.codes_bytes;
	if (weight->is_quantized) {
		blocks = quantized_blocks(&weight->quantized, &piece, blocks.codes, blocks.scales);
		code = quantized_read(&weight->quantized, &piece, &blocks, &n_bytes, l->error);
	} else {
		code = quantize_rows(&l->transfer, o->plan, weight->entry, first, weight->amax, &blocks, l->error);
	}
	linear->w = mxfp_blocks_matrix(&blocks);
	l->network->bytes += size.codes_bytes + size.scales_bytes;
	l->network->quantized++;
	return code;
}

/* What packed weights may take more than the stored ones, beside the rows of a batch, and keys and values of as many tokens
   and those of one more sequence that is not longer. */
static size_t packed_more(const struct network *network)
{
	const size_t tokens = (network->options.batch + ATTENTION_TILE - 1) / ATTENTION_TILE * ATTENTION_TILE;
	const size_t left = MORE_BYTES - OTHER_BYTES, cache = attention_cache_bytes(network, 2 * tokens);

	return network->rows_bytes <= left && cache <= left - network->rows_bytes ? left - network->rows_bytes - cache : 0;
}

/* Replaces W by the packed one, while that takes no more than packed_more(): wider numbers made from narrow ones, where the
   kernel has no other form. The rest is packed in each product. */
static int pack(struct loader *l, struct linear *linear, size_t stored_bytes)
{
	const struct mxfp_gemm_options options = linear_options(l->network, linear->a_format);
	void *packed;
	size_t bytes;

	if (mxfp_pack_size(&bytes, &linear->w, &options, &l->network->exec) != MXFP_OK)
		return EXIT_OK;
	const size_t more = bytes > stored_bytes ? bytes - stored_bytes : 0;
	if (more > l->network->packed_more)
		return EXIT_OK;
	l->network->packed_more -= more;
	packed = pages_take(&l->network->pages, bytes);
	if (packed == NULL)
		return fail_memory(l->error);
	must_succeed(mxfp_pack(packed, bytes, &linear->w, &options, &l->network->exec));
	free(linear->memory);
	linear->memory = packed;
	linear->packed_bytes = bytes;
	l->network->bytes += bytes - stored_bytes;
	return EXIT_OK;
}

/* What rows take in memory as they are stored, at most. */
static uint64_t stored_bytes(const struct weight *weight, size_t n)
{
	const uint64_t numbers = n * weight->cols;

	if (weight->is_quantized)
		return numbers; /* codes of 8 bits and their scales, nearly */
	const struct dtype_info *info = dtype_info(weight->tensor->dtype);
	return info->block_elements == 1 && info->bits <= 32 ? numbers * info->bits / 8 : numbers * sizeof(float);
}

/* The format of a weight in products. */
static enum mxfp_format format_of(const struct loader *l, const struct weight *weight)
{
	if (weight->is_quantized)
		return weight->quantized.choice.form->format;
	if (weight->entry != NULL)
		return weight->entry->choice.format;
	if (l->network->options.numbers != MXFP_FORMAT_F32)
		return l->network->options.numbers;
	const struct dtype_info *info = dtype_info(weight->tensor->dtype);
	return info->block_elements == 1 && info->bits <= 32 ? info->format : MXFP_FORMAT_F32;
}

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

/* What becomes of the inputs of a weight in that format. */
static enum mxfp_format inputs_of(const struct network_options *o, enum mxfp_format w)
{
	if (is_block(w))
		return o->activations != OPTION_FORMAT_NONE ? o->activations : MXFP_FORMAT_F32;
	return o->summed ? w : MXFP_FORMAT_F32;
}

/* Whether products of inputs and weights in these formats can be summed as the options say. */
static bool is_pair(const struct network *network, enum mxfp_format a, enum mxfp_format w)
{
	const struct mxfp_gemm_options options = linear_options(network, a);
	const struct mxfp_matrix a_matrix = {.size = sizeof a_matrix, .format = a, .rows = 1, .cols = 1};
	const struct mxfp_matrix w_matrix = {.size = sizeof w_matrix, .format = w, .rows = 1, .cols = 1};
	const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, NULL);
	const struct mxfp_product product = {.size = sizeof product, .c = &c, .a = &a_matrix, .w = &w_matrix};
	size_t bytes;

	return mxfp_gemm_workspace_size(&bytes, &product, 1, &options, &network->one) == MXFP_OK;
}

/* Refuses a weight that the options' acc does not take with its inputs, and says what that takes. */
static int check_pair(struct loader *l, const struct weight *weight, enum mxfp_format a, enum mxfp_format w)
{
	const struct file *file = weight->is_quantized ? weight->quantized.files[LAYOUT_CODES] : weight->file;
	const struct mxfp_format_info *info;
	char taken[256] = "", remedy[64];
	const char *numbers = NULL;
	bool blocks = false;

	if (!acc_is_machine(l->network->options.acc) || is_pair(l->network, a, w))
		return EXIT_OK;
	for (int i = 0; (info = mxfp_format_get_info((enum mxfp_format)i)) != NULL; i++) {
		const size_t length = strlen(taken);

		if (!is_pair(l->network, info->format, info->format))
			continue;
		snprintf(taken + length, sizeof taken - length, "%s%s", length > 0 ? ", " : "", info->name);
		blocks = blocks || is_block(info->format);
		if (numbers == NULL && info->format != MXFP_FORMAT_E5M2)
			numbers = info->name;
	}
	if (is_block(w) && blocks)
		snprintf(remedy, sizeof remedy, "give such %s--activations", weight->is_quantized ? "" : "--weights and ");
	else if (is_block(w) || l->network->options.plan == NULL)
		snprintf(remedy, sizeof remedy, "%s --try %s", weight->is_quantized ? "mxfp dequantize makes numbers for" : "give", numbers);
	else
		snprintf(remedy, sizeof remedy, "give a model in such numbers");
	return fail_tensor(l->error, file->path, weight->name, "--acc %s does not take %s weights times %s inputs, but %s times the "
	                   "same%s; %s", mxfp_option_name(MXFP_OPTION_ACC, (int)l->network->options.acc),
	                   mxfp_format_get_info(w)->name, mxfp_format_get_info(a)->name, taken,
	                   blocks ? ", FP8 and MX formats also mixed" : "", remedy);
}

/* Makes a linear layer of n rows of a weight. */
static int read_linear(struct loader *l, struct linear *linear, const struct weight *weight, uint64_t first, size_t n)
{
	const uint64_t before = l->network->bytes;
	const enum mxfp_format format = format_of(l, weight);

	linear->a_format = inputs_of(&l->network->options, format);
	int code = check_pair(l, weight, linear->a_format, format);
	if (code != EXIT_OK)
		return code;
	linear->name = weight->name;
	linear->row = (size_t)first;
	linear->n = n;
	linear->k = (size_t)weight->cols;
	if (l->checks) {
		l->network->bytes += stored_bytes(weight, n);
		return EXIT_OK;
	}
	if (weight->is_quantized || weight->entry != NULL)
		code = read_blocks(l, weight, first, n, linear);
	else
		code = read_stored(l, weight, first, n, linear);
	if (code == EXIT_OK && !is_block(format))
		code = round_stored(l, weight, linear, format);
	return code == EXIT_OK ? pack(l, linear, (size_t)(l->network->bytes - before)) : code;
}

int weight_numbers(const struct weight *weight, uint64_t first, size_t n, float *x, struct error *error)
{
	const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};
	const size_t cols = (size_t)weight->cols;
	int code;

	if (!weight->is_quantized && weight->tensor->dtype != DTYPE_Q8_0)
		return elements_read(weight->file, weight->tensor, first * cols, x, n * cols, error);
	if (!weight->is_quantized) {
		const size_t blocks = n * cols / Q8_0_ELEMENTS;
		uint8_t *bytes = malloc(blocks * Q8_0_BYTES + 1);

		if (bytes == NULL)
			return fail_memory(error);
		code = file_read(weight->file, weight->tensor, first * cols / Q8_0_ELEMENTS * Q8_0_BYTES, bytes,
		                 blocks * Q8_0_BYTES, error);
		if (code == EXIT_OK)
			q8_0_decode(x, bytes, blocks);
		free(bytes);
		return code;
	}
	const struct piece piece = {.row = first, .rows = n, .cols = cols};
	const enum mxfp_format format = weight->quantized.choice.form->format;
	struct mxfp_sizes size;
	uint64_t n_bytes;

	if (mxfp_blocks_size(&size, format, n, cols) != MXFP_OK)
		return fail_memory(error);
	uint8_t *memory = malloc(size.codes_bytes + size.scales_bytes + 1);
	if (memory == NULL)
		return fail_memory(error);
	const struct mxfp_blocks blocks = quantized_blocks(&weight->quantized, &piece, memory, memory + size.codes_bytes);
	code = quantized_read(&weight->quantized, &piece, &blocks, &n_bytes, error);
	if (code == EXIT_OK) {
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);

		must_succeed(dense_dequantize(x, MXFP_FORMAT_F32, &matrix, &one_thread));
	}
	free(memory);
	return code;
}

/* Reads n numbers, as one row or as a column, into malloc'ed memory; *numbers is NULL if there are none. */
static int read_vector(struct loader *l, float **numbers, enum tensor_id id, size_t layer, size_t n, bool needed)
{
	struct weight weight;
	char name[TENSOR_NAME_BYTES];
	bool found;
	void *memory;
	int code = find_weight(l, &weight, id, layer, TENSOR_NO_EXPERT, &found, name);

	if (code == EXIT_OK && !found && needed)
		code = fail_missing(l, name);
	if (code != EXIT_OK || !found)
		return code;
	if (weight.rows * weight.cols != n)
		return check_shape(l, &weight, 1, n);
	count(l, &weight);
	code = take(l, &memory, n * sizeof **numbers);
	*numbers = memory;
	if (code != EXIT_OK)
		return code;
	l->network->bytes += n * sizeof **numbers;
	return weight_numbers(&weight, 0, (size_t)weight.rows, *numbers, l->error);
}

/* Reads the bias beside a weight: numbers `first` and following of the tensor, which has `all`. */
static int read_bias(struct loader *l, struct linear *linear, const char *weight_name, size_t first, size_t all,
                     bool needed)
{
	static const char suffix[] = ".weight";
	const size_t length = strlen(weight_name), end = strlen(suffix);
	char name[TENSOR_NAME_BYTES + 8];
	struct weight bias = {0};
	bool found = false;
	void *memory;

	/* Experts of gpt-oss are called "gate_up_proj" and "gate_up_proj_bias". */
	if (length > end && strcmp(weight_name + length - end, suffix) == 0)
		snprintf(name, sizeof name, "%.*s.bias", (int)(length - end), weight_name);
	else
		snprintf(name, sizeof name, "%s_bias", weight_name);
	int code = open_weight(l, &bias, name, &found);
	if (code == EXIT_OK && !found && needed)
		code = fail_missing(l, name);
	if (code == EXIT_OK && found && !needed && !l->network->shape.gguf)
		code = fail_tensor(l->error, l->model->path, name, "a model of %s with this config.json has no such bias "
		                   "(attention_bias, mlp_bias or qkv_bias would say so)", l->network->shape.architecture->huggingface);
	if (code != EXIT_OK || !found)
		return code;
	if (bias.is_quantized || bias.tensor->by_columns || tensor_elements(bias.tensor) != all)
		return fail_tensor(l->error, l->model->path, name, "is not a vector of %zu numbers", all);
	code = take(l, &memory, linear->n * sizeof *linear->bias);
	linear->bias = memory;
	if (code != EXIT_OK)
		return code;
	l->network->bytes += linear->n * sizeof *linear->bias;
	l->network->size.elements += linear->n;
	l->network->size.bytes += linear->n * dtype_info(bias.tensor->dtype)->bits / 8;
	return elements_read(bias.file, bias.tensor, first, linear->bias, linear->n, l->error);
}

/* Reads a linear layer of its own, [n, k]. */
static int load_linear(struct loader *l, struct linear *linear, enum tensor_id id, size_t layer, int expert, size_t n,
                       size_t k, bool biased)
{
	struct weight weight;
	char name[TENSOR_NAME_BYTES];
	bool found;
	int code = find_weight(l, &weight, id, layer, expert, &found, name);

	if (code == EXIT_OK && !found)
		code = fail_missing(l, name);
	if (code == EXIT_OK)
		code = check_shape(l, &weight, n, k);
	if (code == EXIT_OK)
		code = choose_blocks(l, &weight);
	if (code != EXIT_OK)
		return code;
	count(l, &weight);
	code = read_linear(l, linear, &weight, 0, n);
	return code == EXIT_OK ? read_bias(l, linear, weight.name, 0, n, biased) : code;
}

static int load_attention(struct loader *l, struct layer *layer, size_t i)
{
	const struct shape *s = &l->network->shape;
	const unsigned has = s->architecture->has;
	const size_t q = s->heads * s->head_cols, kv = s->kv_heads * s->head_cols;
	const bool biased = s->qkv_bias;
	int code = read_vector(l, &layer->attention_norm, TENSOR_ATTENTION_NORM, i, s->hidden, true);

	if (code == EXIT_OK)
		code = load_linear(l, &layer->q, TENSOR_Q, i, TENSOR_NO_EXPERT, q, s->hidden, biased);
	if (code == EXIT_OK)
		code = load_linear(l, &layer->k, TENSOR_K, i, TENSOR_NO_EXPERT, kv, s->hidden, biased);
	if (code == EXIT_OK)
		code = load_linear(l, &layer->v, TENSOR_V, i, TENSOR_NO_EXPERT, kv, s->hidden, biased);
	if (code == EXIT_OK)
		code = load_linear(l, &layer->output, TENSOR_OUTPUT, i, TENSOR_NO_EXPERT, s->hidden, q, s->output_bias);
	if (code == EXIT_OK && (has & ARCHITECTURE_HEAD_NORM) != 0)
		code = read_vector(l, &layer->q_norm, TENSOR_Q_NORM, i, s->head_cols, true);
	if (code == EXIT_OK && (has & ARCHITECTURE_HEAD_NORM) != 0)
		code = read_vector(l, &layer->k_norm, TENSOR_K_NORM, i, s->head_cols, true);
	if (code == EXIT_OK && (has & ARCHITECTURE_SINKS) != 0)
		code = read_vector(l, &layer->sinks, TENSOR_SINKS, i, s->heads, true);
	return code;
}

/* The tensor that holds a projection of all experts, or with *found false none. */
static int find_stacked(struct loader *l, struct weight *weight, enum tensor_id id, size_t layer, size_t rows, size_t cols,
                        bool *found, char name[TENSOR_NAME_BYTES])
{
	const size_t experts = l->network->shape.experts;
	int code = find_weight(l, weight, id, layer, TENSOR_NO_EXPERT, found, name);

	if (code != EXIT_OK || !*found)
		return code;
	code = check_shape(l, weight, experts * rows, cols);
	if (code == EXIT_OK && weight->matrices != experts)
		code = fail_tensor(l->error, l->model->path, weight->name, "is not of %zu experts", experts);
	if (code == EXIT_OK)
		code = choose_blocks(l, weight);
	if (code == EXIT_OK)
		count(l, weight);
	return code;
}

/* Reads one projection of all experts from one tensor, or from one for each. */
static int load_experts(struct loader *l, struct layer *layer, size_t i, enum tensor_id id, size_t place, size_t n, size_t k)
{
	const struct shape *s = &l->network->shape;
	const bool biased = (s->architecture->has & ARCHITECTURE_EXPERT_BIAS) != 0;
	struct weight weight;
	char name[TENSOR_NAME_BYTES];
	bool stacked;
	int code = find_stacked(l, &weight, id, i, n, k, &stacked, name);

	for (size_t e = 0; e < s->experts && code == EXIT_OK; e++) {
		struct linear *linear = (struct linear *)(void *)((char *)&layer->experts[e] + place);

		if (!stacked) {
			code = load_linear(l, linear, id, i, (int)e, n, k, biased);
			continue;
		}
		code = read_linear(l, linear, &weight, e * n, n);
		if (code == EXIT_OK)
			code = read_bias(l, linear, weight.name, e * n, s->experts * n, biased);
	}
	return code;
}

/* Reads gate and up of all experts from one tensor: of gpt-oss in turns, of others first all gates. */
static int load_gate_up(struct loader *l, struct layer *layer, size_t i, bool *found)
{
	const struct shape *s = &l->network->shape;
	const size_t n = s->expert_cols;
	const bool in_turns = (s->architecture->has & ARCHITECTURE_CLAMPED) != 0, biased = in_turns;
	struct weight weight;
	char name[TENSOR_NAME_BYTES];
	int code = find_stacked(l, &weight, TENSOR_EXPERT_GATE_UP, i, 2 * n, s->hidden, found, name);

	for (size_t e = 0; *found && e < s->experts && code == EXIT_OK; e++) {
		struct expert *expert = &layer->experts[e];

		code = read_linear(l, &expert->gate, &weight, e * 2 * n, in_turns ? 2 * n : n);
		if (code == EXIT_OK && !in_turns)
			code = read_linear(l, &expert->up, &weight, e * 2 * n + n, n);
		if (code == EXIT_OK && in_turns)
			code = read_bias(l, &expert->gate, weight.name, e * 2 * n, s->experts * 2 * n, biased);
	}
	return code;
}

static int load_routed(struct loader *l, struct layer *layer, size_t i)
{
	const struct shape *s = &l->network->shape;
	bool found;
	int code = load_linear(l, &layer->router, TENSOR_ROUTER, i, TENSOR_NO_EXPERT, s->experts, s->hidden,
	                       (s->architecture->has & ARCHITECTURE_EXPERT_BIAS) != 0);

	layer->experts = calloc(s->experts, sizeof *layer->experts);
	if (code == EXIT_OK && layer->experts == NULL)
		code = fail_memory(l->error);
	if (code != EXIT_OK)
		return code;
	code = load_gate_up(l, layer, i, &found);
	if (code == EXIT_OK && !found)
		code = load_experts(l, layer, i, TENSOR_EXPERT_GATE, offsetof(struct expert, gate), s->expert_cols, s->hidden);
	if (code == EXIT_OK && !found)
		code = load_experts(l, layer, i, TENSOR_EXPERT_UP, offsetof(struct expert, up), s->expert_cols, s->hidden);
	if (code == EXIT_OK)
		code = load_experts(l, layer, i, TENSOR_EXPERT_DOWN, offsetof(struct expert, down), s->hidden, s->expert_cols);
	return code;
}

/* Reads what every token takes: the feed-forward part of a layer without experts, or a shared expert. */
static int load_dense(struct loader *l, struct layer *layer, size_t i, const enum tensor_id ids[3], size_t cols)
{
	const struct shape *s = &l->network->shape;
	int code = load_linear(l, &layer->gate, ids[0], i, TENSOR_NO_EXPERT, cols, s->hidden, s->mlp_bias);

	if (code == EXIT_OK)
		code = load_linear(l, &layer->up, ids[1], i, TENSOR_NO_EXPERT, cols, s->hidden, s->mlp_bias);
	if (code == EXIT_OK)
		code = load_linear(l, &layer->down, ids[2], i, TENSOR_NO_EXPERT, s->hidden, cols, s->mlp_bias);
	return code;
}

struct linear *layer_linear(struct layer *layer, size_t experts, size_t i)
{
	struct linear *const linears[] = {&layer->q, &layer->k, &layer->v, &layer->output, &layer->router, &layer->shared_router,
	                                  &layer->up, &layer->gate, &layer->down};
	enum { N = sizeof linears / sizeof linears[0], N_OF_EXPERT = 3 };

	if (i < N)
		return linears[i];
	if (layer->experts == NULL || (i - N) / N_OF_EXPERT >= experts)
		return NULL;
	struct expert *expert = &layer->experts[(i - N) / N_OF_EXPERT];
	return (i - N) % N_OF_EXPERT == 0 ? &expert->up : (i - N) % N_OF_EXPERT == 1 ? &expert->gate : &expert->down;
}

/* Says of each linear layer which inputs it takes. */
static void set_sites(struct layer *layer, size_t experts)
{
	layer->q.site = layer->k.site = layer->v.site = NETWORK_SITE_QKV;
	layer->output.site = NETWORK_SITE_OUTPUT;
	layer->router.site = layer->shared_router.site = layer->gate.site = layer->up.site = NETWORK_SITE_MLP;
	layer->down.site = NETWORK_SITE_DOWN;
	for (size_t e = 0; layer->experts != NULL && e < experts; e++) {
		layer->experts[e].gate.site = layer->experts[e].up.site = NETWORK_SITE_EXPERTS + e;
		layer->experts[e].down.site = NETWORK_SITE_EXPERTS + experts + e;
	}
}

static int load_layer(struct loader *l, size_t i)
{
	static const enum tensor_id dense[3] = {TENSOR_GATE, TENSOR_UP, TENSOR_DOWN},
	                            shared[3] = {TENSOR_SHARED_GATE, TENSOR_SHARED_UP, TENSOR_SHARED_DOWN};
	const struct shape *s = &l->network->shape;
	struct layer *layer = &l->network->layers[i];
	int code = load_attention(l, layer, i);

	if (code == EXIT_OK)
		code = read_vector(l, &layer->mlp_norm, TENSOR_MLP_NORM, i, s->hidden, true);
	if (code == EXIT_OK && !s->routed[i])
		code = load_dense(l, layer, i, dense, s->intermediate);
	if (code == EXIT_OK && s->routed[i])
		code = load_routed(l, layer, i);
	if (code == EXIT_OK && s->routed[i] && s->shared_cols > 0) {
		code = load_dense(l, layer, i, shared, s->shared_cols);
		if (code == EXIT_OK)
			code = load_linear(l, &layer->shared_router, TENSOR_SHARED_ROUTER, i, TENSOR_NO_EXPERT, 1, s->hidden, false);
	}
	set_sites(layer, s->experts);
	return code;
}

/* Reads the head, which may be the embedding. */
static int load_head(struct loader *l)
{
	struct network *network = l->network;
	const struct shape *s = &network->shape;
	struct weight head;
	char name[TENSOR_NAME_BYTES];
	bool found;
	int code = find_weight(l, &head, TENSOR_HEAD, 0, TENSOR_NO_EXPERT, &found, name);

	const bool tied = !found;
	if (code == EXIT_OK && tied && !s->tied)
		code = fail(l->error, EXIT_INPUT, "%s: has no tensor '%s', and tie_word_embeddings is not true, so it is not the "
		            "embedding", l->model->path, name);
	if (code == EXIT_OK && tied)
		head = network->embedding;
	if (code == EXIT_OK)
		code = check_shape(l, &head, s->vocabulary, s->hidden);
	if (code == EXIT_OK && !tied && !network->options.by_layer)
		code = choose_blocks(l, &head);
	if (code == EXIT_OK && !tied)
		count(l, &head);
	if (code == EXIT_OK && !network->options.by_layer)
		code = read_linear(l, &network->head, &head, 0, s->vocabulary);
	return code;
}

/* Opens the embedding, whose rows are read when they are needed, and reads the head. */
static int load_ends(struct loader *l)
{
	struct network *network = l->network;
	struct shape *s = &network->shape;
	char name[TENSOR_NAME_BYTES];
	bool found;
	int code = find_weight(l, &network->embedding, TENSOR_EMBEDDING, 0, TENSOR_NO_EXPERT, &found, name);

	if (code == EXIT_OK && !found)
		code = fail_missing(l, name);
	if (code == EXIT_OK)
		code = check_shape(l, &network->embedding, s->vocabulary, s->hidden);
	if (code != EXIT_OK)
		return code;
	count(l, &network->embedding);
	s->vocabulary = (size_t)network->embedding.rows;
	code = load_head(l);
	return code == EXIT_OK ? read_vector(l, &network->norm, TENSOR_NORM, 0, s->hidden, true) : code;
}

/* Divides the frequencies by factors of the file, as llama.cpp's converter stores Llama 3's scaling. */
static int load_factors(struct loader *l)
{
	struct shape *s = &l->network->shape;
	float *factors = NULL;
	int code = s->gguf ? read_vector(l, &factors, TENSOR_ROTARY_FACTORS, 0, s->rotary_cols / 2, false) : EXIT_OK;

	for (size_t i = 0; factors != NULL && code == EXIT_OK && i < s->rotary_cols / 2; i++)
		s->frequencies[i] /= factors[i];
	free(factors);
	return code;
}

static int check_unused(struct loader *l)
{
	for (size_t i = 0; i < l->model->n_tensors; i++) {
		const struct model_tensor *t = &l->model->by_name[i];

		if (!l->used[i] && !tensor_may_be_unused(t->tensor->name) && !meaning_is_carried(t->tensor->name) &&
		    !allowed_unknown_under(t->tensor->name))
			return fail_tensor(l->error, t->file->path, t->tensor->name, "a model of %s has no such tensor; --allow-unknown "
			                   "%.200s goes on without it", l->network->shape.architecture->huggingface, t->tensor->name);
	}
	return EXIT_OK;
}

void linear_free_w(struct linear *linear)
{
	if (linear->packed_bytes > 0)
		pages_give(linear->memory);
	else
		free(linear->memory);
}

void weights_free_linear(struct linear *linear)
{
	linear_free_w(linear);
	free(linear->bias);
}

static void free_layer(struct layer *layer, size_t experts)
{
	float *const vectors[] = {layer->attention_norm, layer->mlp_norm, layer->q_norm, layer->k_norm, layer->sinks};
	struct linear *linear;

	for (size_t i = 0; (linear = layer_linear(layer, experts, i)) != NULL; i++)
		weights_free_linear(linear);
	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
		free(vectors[i]);
	free(layer->experts);
}

/* Goes through the layers of a network by layers, whose weights are read later. */
static int check_layers(struct loader *l)
{
	struct network *network = l->network;
	int code = EXIT_OK;

	l->checks = true;
	for (size_t i = 0; i < network->shape.layers && code == EXIT_OK; i++) {
		network->bytes = 0;
		code = load_layer(l, i);
		if (network->bytes > network->layer_bytes)
			network->layer_bytes = network->bytes;
		weights_drop_layer(network, i);
	}
	network->bytes = 0;
	return code;
}

int weights_load(struct network *network, struct error *error)
{
	const bool by_layer = network->options.by_layer;
	struct loader l = {
		.network = network,
		.model = network->model,
		.checks = network->options.checks,
		.error = error,
	};

	network->packed_more = by_layer ? 0 : packed_more(network);
	l.transfer.threads = network->options.threads;
	if (network->options.plan != NULL)
		l.transfer.room = quantize_room(network->options.plan);
	l.used = calloc(network->model->n_tensors + 1, sizeof *l.used);
	network->layers = calloc(network->shape.layers, sizeof *network->layers);
	if (l.used == NULL || network->layers == NULL) {
		free(l.used);
		return fail_memory(error);
	}
	int code = network->options.plan != NULL ? transfer_begin(&l.transfer, error) : EXIT_OK;
	if (code == EXIT_OK)
		code = load_ends(&l);
	if (code == EXIT_OK)
		code = load_factors(&l);
	for (size_t i = 0; !by_layer && i < network->shape.layers && code == EXIT_OK; i++)
		code = load_layer(&l, i);
	if (code == EXIT_OK && by_layer)
		code = check_layers(&l);
	if (code == EXIT_OK)
		code = check_unused(&l);
	transfer_end(&l.transfer);
	free(l.used);
	return code;
}

/* Reads a layer, or with the number of layers the head. */
static int load_again(struct network *network, size_t layer, struct error *error)
{
	struct loader l = {.network = network, .model = network->model, .error = error, .transfer.threads = network->options.threads};
	int code;

	if (network->options.plan != NULL)
		l.transfer.room = quantize_room(network->options.plan);
	code = network->options.plan != NULL ? transfer_begin(&l.transfer, error) : EXIT_OK;
	if (code == EXIT_OK)
		code = layer < network->shape.layers ? load_layer(&l, layer) : load_head(&l);
	transfer_end(&l.transfer);
	return code;
}

int weights_load_layer(struct network *network, size_t layer, struct error *error)
{
	return load_again(network, layer, error);
}

int weights_load_head(struct network *network, struct error *error)
{
	return load_again(network, network->shape.layers, error);
}

void weights_drop_layer(struct network *network, size_t layer)
{
	free_layer(&network->layers[layer], network->shape.experts);
	network->layers[layer] = (struct layer){.attention_norm = NULL};
}

void weights_free(struct network *network)
{
	for (size_t i = 0; network->layers != NULL && i < network->shape.layers; i++)
		free_layer(&network->layers[i], network->shape.experts);
	free(network->layers);
	weights_free_linear(&network->head);
	free(network->norm);
}
