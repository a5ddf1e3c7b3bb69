/* SPDX-License-Identifier: MIT */
/*
 * config.json has what eval/shape.h reads of the file, under the names of the family's class. Llama 3's scaling is in
 * rope_freqs.weight alone: its numbers are those that give these factors, if the usual ones do.
 */
#include "config.h"

#include "gguf/from_gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "eval/shape.h"
#include "gguf/parameters.h"
#include "gguf/tensors.h"
#include "gguf/tokens_back.h"
#include "io/elements.h"
#include "io/facts.h"
#include "io/file_gguf.h"
#include "io/resumed.h"
#include "io/transfer.h"
#include "model/fingerprint.h"
#include "model/layout_config.h"
#include "model/model_output.h"
#include "mxfp.h"

enum { NUMBERS = 1024, FEW = 1 << 23 }; /* read at once; of a router, at most */

struct running {
	const struct to_gguf_settings *settings;
	const struct model *model;
	struct shape shape;
	struct tensors tensors;
	struct role_model role_model;
	struct layout_facts facts;
	json_t *config, *tokenizer, *tokenizer_config;
	struct model_output output;
	struct transfer transfer;
};

bool from_gguf_wanted(const char *out, const struct model *model)
{
	char key[128];
	const char *architecture = model->n_files == 1 ? file_metadata(&model->files[0], "general.architecture") : NULL;

	snprintf(key, sizeof key, "%.64s.embedding_length", architecture != NULL ? architecture : "");
	return file_format_named(out) == NULL && architecture != NULL && gguf_has(&model->files[0], key);
}

static bool has(const struct running *r, const char *name)
{
	const struct file *file;

	return model_find(r->model, name, &file) != NULL;
}

/* Finds the numbers of Llama 3's scaling that give the factors of the file; scaling is null if there are none. */
static int find_scaling(struct running *r, json_t **scaling, struct error *error)
{
	static const double original[] = {8192, 32768, 4096, 256, 64};
	const struct file *file;
	const struct tensor *tensor = model_find(r->model, "rope_freqs.weight", &file);
	const size_t n = r->shape.rotary_cols / 2;
	struct shape like = r->shape;
	float *there = calloc(n + 1, sizeof *there), *made = NULL;
	int code = there == NULL ? fail_memory(error) : EXIT_OK;

	*scaling = NULL;
	if (code == EXIT_OK && tensor != NULL && (tensor_elements(tensor) != n || !elements_are_float(tensor->dtype)))
		code = fail_tensor(error, file->path, tensor->name, "is not one number for each of %zu frequencies", n);
	if (code == EXIT_OK && tensor != NULL)
		code = elements_read(file, tensor, 0, there, n, error);
	for (size_t i = 0; i < sizeof original / sizeof original[0] && code == EXIT_OK && tensor != NULL && *scaling == NULL; i++) {
		like.rope = (struct shape_rope){.scaling = MXFP_ROTARY_LLAMA3, .base = r->shape.rope.base, .divisor = 1,
		                                .factor = (double)there[n - 1], .original_positions = original[i], .low_freq_factor = 1,
		                                .high_freq_factor = 4};
		code = parameters_rope_factors(&made, &like, error);
		if (code == EXIT_OK && memcmp(there, made, n * sizeof *there) == 0)
			*scaling = json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", like.rope.factor, "low_freq_factor", 1.0,
			                     "high_freq_factor", 4.0, "original_max_position_embeddings", (json_int_t)original[i]);
		free(made);
		made = NULL;
	}
	free(there);
	if (code == EXIT_OK && tensor != NULL && *scaling == NULL)
		code = fail_tensor(error, file->path, tensor->name, "divides frequencies otherwise than Llama 3's scaling by its usual numbers, "
		                   "which config.json would say; take config.json from the model that the file was made from");
	return code;
}

/* Adds a number if it is known. */
static void set_size(json_t *config, const char *key, size_t size)
{
	if (size > 0)
		json_object_set_new(config, key, json_integer((json_int_t)size));
}

/* The scaling of other kinds, or null. */
static json_t *scaling_of(const struct shape_rope *rope)
{
	if (rope->divisor != 1)
		return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", rope->divisor);
	if (rope->scaling != MXFP_ROTARY_YARN)
		return json_null();
	json_t *scaling = json_pack("{s:s, s:f, s:I, s:b}", "rope_type", "yarn", "factor", rope->factor, "original_max_position_embeddings",
	                            (json_int_t)rope->original_positions, "truncate", (int)!rope->no_truncate);
	if (rope->beta_fast != 0)
		json_object_set_new(scaling, "beta_fast", json_real(rope->beta_fast));
	if (rope->beta_slow != 0)
		json_object_set_new(scaling, "beta_slow", json_real(rope->beta_slow));
	return scaling;
}

/* The shortest decimal that is the same binary32 number. */
static double shortest(double x)
{
	char text[40];

	for (int digits = 1; digits < 10; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		if (strtof(text, NULL) == (float)x)
			return strtod(text, NULL);
	}
	return x;
}

/* What GptOssConfig has besides: layers with a window, and the limit of gates. */
static void add_gpt_oss(struct running *r)
{
	const struct shape *s = &r->shape;
	json_t *types = json_array();
	size_t window = 0;

	for (size_t i = 0; i < s->layers; i++) {
		json_array_append_new(types, json_string(s->windows[i] != 0 ? "sliding_attention" : "full_attention"));
		window = s->windows[i] != 0 ? s->windows[i] : window;
	}
	json_object_set_new(r->config, "layer_types", types);
	set_size(r->config, "sliding_window", window);
	json_object_set_new(r->config, "swiglu_limit", json_real((double)s->clamp));
}

static int make_config(struct running *r, struct error *error)
{
	static const struct {
		const char *type, *class;
	} classes[] = {
		{"llama", "LlamaForCausalLM"}, {"mixtral", "MixtralForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"},
		{"qwen3", "Qwen3ForCausalLM"}, {"qwen2_moe", "Qwen2MoeForCausalLM"}, {"qwen3_moe", "Qwen3MoeForCausalLM"},
		{"gpt_oss", "GptOssForCausalLM"},
	};
	const struct shape *s = &r->shape;
	const char *type = s->architecture->huggingface, *class = NULL;
	json_t *scaling = NULL;

	for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
		if (strcmp(classes[i].type, type) == 0)
			class = classes[i].class;
	if (class == NULL)
		return fail(error, EXIT_INPUT, "%s: general.architecture: the way from %s to a directory is not known here; give a .gguf file as "
		            "the output, or take the model that the file was made from", s->path, s->architecture->gguf);
	int code = find_scaling(r, &scaling, error);
	if (code != EXIT_OK)
		return code;
	json_t *c = r->config = json_pack("{s:[s], s:s, s:s, s:f, s:f, s:o, s:b}", "architectures", class, "model_type", type, "hidden_act",
	                                  "silu", "rms_norm_eps", shortest(s->epsilon), "rope_theta", shortest(s->rope.base),
	                                  "rope_scaling", scaling != NULL ? scaling : scaling_of(&s->rope), "tie_word_embeddings",
	                                  (int)!has(r, "output.weight"));
	set_size(c, "num_hidden_layers", s->layers);
	set_size(c, "hidden_size", s->hidden);
	set_size(c, "vocab_size", s->vocabulary);
	set_size(c, "max_position_embeddings", s->positions);
	set_size(c, "num_attention_heads", s->heads);
	set_size(c, "num_key_value_heads", s->kv_heads);
	set_size(c, "head_dim", s->head_cols);
	const bool gpt_oss = strcmp(type, "gpt_oss") == 0;
	set_size(c, "intermediate_size", gpt_oss ? s->expert_cols : s->intermediate);
	if (gpt_oss)
		add_gpt_oss(r);
	if (s->experts > 0) {
		const bool local = gpt_oss || strcmp(type, "mixtral") == 0;

		set_size(c, local ? "num_local_experts" : "num_experts", s->experts);
		set_size(c, "num_experts_per_tok", s->experts_per_token);
		if (!local) {
			set_size(c, "moe_intermediate_size", s->expert_cols);
			json_object_set_new(c, "norm_topk_prob", json_boolean(s->normalized));
			json_object_set_new(c, "decoder_sparse_step", json_integer(1));
			json_object_set_new(c, "mlp_only_layers", json_array());
		}
		set_size(c, "shared_expert_intermediate_size", s->shared_cols);
	}
	if ((s->architecture->has & ARCHITECTURE_CHOSEN_BIAS) != 0)
		json_object_set_new(c, "attention_bias", json_boolean(has(r, "blk.0.attn_q.bias")));
	if ((s->architecture->has & ARCHITECTURE_CHOSEN_MLP_BIAS) != 0)
		json_object_set_new(c, "mlp_bias", json_boolean(has(r, "blk.0.ffn_gate.bias")));
	json_object_set_new(c, "use_cache", json_true());
	return c == NULL || json_out_of_memory() ? fail_memory(error) : EXIT_OK;
}

/* Adds special tokens' ids, and the dtype that loaders are to have numbers in: binary32 unless all that is wider is a
   vector or a router whose numbers are there in bf16 too. */
static int finish_config(struct running *r, struct error *error)
{
	static const char *const ids[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"}, {"tokenizer.ggml.eos_token_id", "eos_token_id"},
	                                     {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
	bool narrow = true, found;
	uint32_t id;
	int code = EXIT_OK;

	for (size_t i = 0; i < sizeof ids / sizeof ids[0] && code == EXIT_OK; i++) {
		code = gguf_find_u32(&r->model->files[0], ids[i][0], &id, &found, error);
		if (code == EXIT_OK && found)
			json_object_set_new(r->config, ids[i][1], json_integer(id));
	}
	for (size_t i = 0; i < r->tensors.n && code == EXIT_OK && narrow; i++) {
		const struct tensors_entry *entry = &r->tensors.entries[i];
		float numbers[NUMBERS];

		if (entry->kind != TENSORS_NUMBERS || entry->output.dtype == DTYPE_BF16)
			continue;
		/* Sources in turns have as many each. */
		const uint64_t all = entry->rows * entry->cols, of_source = all / entry->n_sources, first = entry->order.first * entry->cols;
		narrow = entry->output.dtype == DTYPE_F32 && all <= FEW;
		for (uint64_t at = 0, n; at < all && code == EXIT_OK && narrow; at += n) {
			const struct tensors_source *source = &entry->sources[at / of_source];
			const uint64_t left = of_source - at % of_source;

			n = left < NUMBERS ? left : NUMBERS;
			code = elements_read(source->file, source->tensor, first + at % of_source, numbers, (size_t)n, error);
			for (size_t k = 0; k < n; k++) {
				uint32_t bits;

				memcpy(&bits, &numbers[k], sizeof bits);
				narrow &= (bits & 0xFFFF) == 0;
			}
		}
	}
	json_object_set_new(r->config, "torch_dtype", json_string(narrow ? "bfloat16" : "float32"));
	return code;
}

static int plan(struct running *r, const struct layout *layout, struct error *error)
{
	int code = shape_read(&r->shape, r->model, error);

	json_prepare();
	if (code == EXIT_OK)
		code = make_config(r, error);
	if (code == EXIT_OK)
		code = tokens_back(&r->tokenizer, &r->tokenizer_config, &r->model->files[0], error);
	if (code != EXIT_OK)
		return code;
	role_model_read(&r->role_model, r->config);
	layout_facts_begin(&r->facts, layout, OPTION_FORMAT_NONE, r->model);
	r->facts.role_model = &r->role_model;
	code = tensors_plan_back(&r->tensors, r->model, &r->shape, &r->role_model, &r->facts, r->settings->allow_rounding, error);
	if (code == EXIT_OK)
		code = finish_config(r, error);
	if (code == EXIT_OK && r->facts.n_groups > 0)
		json_object_set_new(r->config, "quantization_config", layout_config(&r->facts));
	return code == EXIT_OK && json_out_of_memory() ? fail_memory(error) : code;
}

static int write_entry(const void *context, size_t i, struct journal_record *record, struct error *error)
{
	struct running *r = (struct running *)context;

	(void)record;
	return tensors_write(&r->transfer, &r->tensors.entries[i], error);
}

/* The parts that an entry is written to: as many as are returned. */
static size_t parts_of(const struct tensors_entry *entry, struct tensor parts[N_LAYOUT_PARTS])
{
	size_t n = 0;

	if (entry->kind != TENSORS_CODES) {
		parts[0] = entry->output;
		return 1;
	}
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (part != LAYOUT_TENSOR_SCALE && entry->parts[part].name != NULL)
			parts[n++] = entry->parts[part];
	return n;
}

static void sizes_of(const void *context, size_t i, uint64_t *read, uint64_t *written)
{
	const struct running *r = context;
	struct tensor parts[N_LAYOUT_PARTS];
	const size_t n = parts_of(&r->tensors.entries[i], parts);
	uint64_t size;

	*written = 0;
	for (size_t k = 0; k < n; k++)
		if (tensor_size(&parts[k], &size))
			*written += size;
	*read = *written;
}

static bool output_of(const void *context, size_t i, size_t k, const char **name)
{
	const struct running *r = context;
	struct tensor parts[N_LAYOUT_PARTS];
	const size_t n = parts_of(&r->tensors.entries[i], parts);

	if (k < n)
		*name = parts[k].name;
	return k < n;
}

static int write_file(struct running *r, struct error *error)
{
	struct metadata metadata[] = {{METADATA_VERSION, mxfp_version()}};
	const struct resumed_job job = {write_entry, sizes_of, output_of, NULL, NULL, r};
	struct writer *writer = &r->transfer.writer;
	struct resumed resumed;
	int code = resumed_begin(&resumed, &r->output.partial, MODEL_SINGLE, r->tensors.n, error);

	*writer = (struct writer){.path = resumed.path, .fd = -1, .metadata = metadata, .n_metadata = sizeof metadata / sizeof metadata[0]};
	writer->tensors = calloc(r->tensors.n * N_LAYOUT_PARTS + 1, sizeof *writer->tensors);
	if (code == EXIT_OK && writer->tensors == NULL)
		code = fail_memory(error);
	for (size_t i = 0; code == EXIT_OK && i < r->tensors.n; i++)
		writer->n_tensors += parts_of(&r->tensors.entries[i], writer->tensors + writer->n_tensors);
	if (code == EXIT_OK)
		code = resumed_write(&resumed, &r->transfer, &job, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	writer_abandon(writer);
	free(writer->tensors);
	resumed_end(&resumed);
	return code;
}

static int write_all(struct running *r, struct error *error)
{
	int code = transfer_begin(&r->transfer, error);

	progress_start(&r->transfer.progress, "moving", r->model->data_bytes, r->settings->quiet);
	if (code == EXIT_OK)
		code = write_file(r, error);
	progress_end(&r->transfer.progress);
	transfer_end(&r->transfer);
	if (code == EXIT_OK)
		code = model_member_write(r->output.partial.output.temporary, "tokenizer.json", r->tokenizer, error);
	if (code == EXIT_OK)
		code = model_member_write(r->output.partial.output.temporary, "tokenizer_config.json", r->tokenizer_config, error);
	return code;
}

static int begin(struct running *r, struct error *error)
{
	const struct to_gguf_settings *s = r->settings;

	json_prepare();
	json_t *fingerprint = json_pack("{s:s, s:s, s:s}", "command", "convert from GGUF", "--layout", r->facts.layout->name,
	                                "--allow-rounding", s->allow_rounding ? "yes" : "no");
	int code = fingerprint == NULL || json_out_of_memory()
	           ? fail_memory(error)
	           : model_output_begin(&r->output, r->model, &(struct partial_target){.path = s->out, .force = s->force, .resume = s->resume},
	                                fingerprint, error);
	json_decref(fingerprint);
	return code;
}

/* What was rounded and what is lost. Each line begins with `before`. */
static void print_losses(const struct running *r, FILE *stream, const char *before)
{
	if (r->tensors.rounded > 0)
		fprintf(stream, "%s%zu scales were rounded, which changes numbers by at most %.1e of themselves\n", before, r->tensors.rounded,
		        r->tensors.change);
	if (r->tensors.left.n > 0) {
		fprintf(stream, "%s%zu tensors were left out, for which there is no place: ", before, r->tensors.left.n);
		print_printable(stream, r->tensors.left.first);
		fputs(r->tensors.left.n > 1 ? " and others\n" : "\n", stream);
	}
}

static int print(const struct running *r, struct error *error)
{
	size_t moved = 0, copied = 0;

	for (size_t i = 0; i < r->tensors.n; i++) {
		moved += r->tensors.entries[i].kind == TENSORS_CODES;
		copied += r->tensors.entries[i].kind == TENSORS_NUMBERS;
	}
	json_prepare();
	if (r->settings->json)
		return facts_print(stdout, json_pack("{s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:f, s:I}", "input", facts_text(r->settings->in), "output",
		                                     facts_text(r->settings->out), "layout", r->facts.layout->name, "model_type",
		                                     r->shape.architecture->huggingface, "tensors_moved", (json_int_t)moved, "tensors_copied",
		                                     (json_int_t)copied, "scales_rounded", (json_int_t)r->tensors.rounded, "largest_change",
		                                     r->tensors.change, "scales_left_out", (json_int_t)r->tensors.left.n), error);
	printf("%s: %zu tensors brought into layout %s without a change to codes and block scales, %zu copied\n",
	       r->shape.architecture->huggingface, moved, r->facts.layout->name, copied);
	print_losses(r, stdout, "");
	printf("written to ");
	print_printable(stdout, r->settings->out);
	putchar('\n');
	return EXIT_OK;
}

int from_gguf(const struct to_gguf_settings *settings, const struct layout *layout, const struct model *model, struct error *error)
{
	struct running r = {.settings = settings, .model = model, .transfer.threads = settings->threads};
	int code = plan(&r, layout, error);

	if (code == EXIT_OK)
		code = begin(&r, error);
	if (code == EXIT_OK && !r.output.partial.appeared)
		code = write_all(&r, error);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, r.config, error);
	code = model_output_end(&r.output, code, error);
	if (code == EXIT_OK && (settings->json || !settings->quiet))
		code = print(&r, error);
	else if (code == EXIT_OK)
		print_losses(&r, stderr, "mxfp: ");
	json_decref(r.config);
	json_decref(r.tokenizer);
	json_decref(r.tokenizer_config);
	layout_facts_free(&r.facts);
	tensors_free(&r.tensors);
	shape_free(&r.shape);
	return code;
}
