/* SPDX-License-Identifier: MIT */
/*
 * What a model is by config.json and by GGUF's keys. Of configurations that leave keys out, the values are those that the
 * classes of transformers 5.24 had in Python; of GGUF's keys, src/llama-model.cpp of llama.cpp says what they mean, and
 * llama-perplexity agreed with such files.
 */
#include "config.h"

#include "eval/shape.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "model/allow.h"
#include "suite.h"
#include "unit/gguf_bytes.h"
#include "unit/scratch.h"

#define SIZES "\"hidden_size\": 64, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"intermediate_size\": 96, " \
	"\"vocab_size\": 32"
#define EXPERTS ", \"moe_intermediate_size\": 24, \"num_experts\": 5, \"num_experts_per_tok\": 2"

static struct error error;

/* Reads the shape of a configuration; `more` begins with a comma. */
static int read_config(struct shape *shape, const char *type, const char *more)
{
	char text[2048];
	struct model model = {.path = (char *)"m", .directory = (char *)".", .is_directory = true};

	snprintf(text, sizeof text, "{\"model_type\": \"%s\", " SIZES "%s}", type, more);
	model.config = json_loads(text, 0, NULL);
	ck_assert_msg(model.config != NULL, "%s", text);
	int code = shape_read(shape, &model, &error);
	json_decref(model.config);
	return code;
}

static void check_near(double got, double want, const char *what)
{
	ck_assert_msg(fabs(got - want) <= 2e-7 * fabs(want), "%s: %.9g, not %.9g", what, got, want);
}

static const struct {
	const char *type, *more;
	size_t head_cols, kv_heads;
	const char *windows; /* of layers */
	double epsilon, factor, frequency; /* of positions: of cosines, and the second */
} configs[] = {
	{"llama", "", 16, 4, "0 0 0 0", 1e-6, 1, 0.316227764},
	{"llama", ", \"head_dim\": null, \"num_key_value_heads\": null", 16, 4, "0 0 0 0", 1e-6, 1, 0.316227764},
	{"mistral", ", \"num_key_value_heads\": 2", 16, 2, "4096 4096 4096 4096", 1e-6, 1, 0.316227764},
	{"mistral", ", \"num_key_value_heads\": 2, \"sliding_window\": null", 16, 2, "0 0 0 0", 1e-6, 1, 0.316227764},
	{"mixtral", ", \"num_key_value_heads\": 2", 16, 2, "0 0 0 0", 1e-5, 1, 0.177827939},
	{"qwen2", ", \"num_key_value_heads\": 2, \"sliding_window\": 40", 16, 2, "0 0 0 0", 1e-6, 1, 0.316227764},
	{"qwen2", ", \"num_key_value_heads\": 2, \"sliding_window\": 40, \"use_sliding_window\": true", 16, 2, "0 0 0 0", 1e-6, 1,
	 0.316227764},
	{"qwen2", ", \"num_key_value_heads\": 2, \"sliding_window\": 40, \"use_sliding_window\": true, \"max_window_layers\": 1", 16,
	 2, "0 40 40 40", 1e-6, 1, 0.316227764},
	{"qwen3", ", \"num_key_value_heads\": 2", 128, 2, "0 0 0 0", 1e-6, 1, 0.865964353},
	{"qwen2_moe", ", \"num_key_value_heads\": 2, \"sliding_window\": 40, \"use_sliding_window\": true, "
	 "\"max_window_layers\": 3, \"shared_expert_intermediate_size\": 40" EXPERTS, 16, 2, "40 0 40 0", 1e-6, 1, 0.316227764},
	{"qwen2_moe", ", \"num_key_value_heads\": 2, \"sliding_window\": 40, \"use_sliding_window\": true, "
	 "\"max_window_layers\": 2, \"shared_expert_intermediate_size\": 40" EXPERTS, 16, 2, "40 0 0 0", 1e-6, 1, 0.316227764},
	{"qwen3_moe", ", \"sliding_window\": 40, \"use_sliding_window\": true, \"max_window_layers\": 3" EXPERTS, 16, 4,
	 "40 40 40 40", 1e-6, 1, 0.316227764},
	{"gpt_oss", ", \"num_key_value_heads\": 2", 64, 2, "128 0 128 0", 1e-5, 1.3465735902799727, 0.689044297},
	/* The section that counts, and where its numbers come from. */
	{"llama", ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}, "
	 "\"rope_parameters\": {\"rope_type\": \"default\"}", 16, 4, "0 0 0 0", 1e-6, 1, 0.158113882},
	{"llama", ", \"rope_scaling\": {}, \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"rope_theta\": 500.0}, "
	 "\"rope_theta\": 100.0", 16, 4, "0 0 0 0", 1e-6, 1, 0.229931638},
	{"llama", ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 16}, "
	 "\"original_max_position_embeddings\": 32, \"max_position_embeddings\": 64", 16, 4, "0 0 0 0", 1e-6, 1.138629436111989,
	 0.197642356},
	{"llama", ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}, \"max_position_embeddings\": 64", 16, 4, "0 0 0 0",
	 1e-6, 1.138629436111989, 0.237170815},
};

TEST_LOOP(what_config_json_leaves_out_is_the_class_s, sizeof configs / sizeof configs[0])
{
	struct shape shape;
	char windows[64] = "";

	ck_assert_msg(read_config(&shape, configs[_i].type, configs[_i].more) == EXIT_OK, "%s", error.text);
	for (size_t i = 0; i < shape.layers; i++)
		snprintf(windows + strlen(windows), sizeof windows - strlen(windows), "%s%zu", i > 0 ? " " : "", shape.windows[i]);
	ck_assert_str_eq(windows, configs[_i].windows);
	ck_assert_uint_eq(shape.head_cols, configs[_i].head_cols);
	ck_assert_uint_eq(shape.kv_heads, configs[_i].kv_heads);
	check_near(shape.epsilon, configs[_i].epsilon, "epsilon");
	check_near((double)shape.attention_factor, configs[_i].factor, "factor");
	check_near((double)shape.frequencies[0], shape.frequencies[0] < 1 ? 0.5 : 1, "the first frequency");
	check_near((double)shape.frequencies[1], configs[_i].frequency, "the second frequency");
	shape_free(&shape);
}

TEST(a_key_that_may_change_numbers_is_refused)
{
	static const struct {
		const char *type, *more, *text;
	} refused[] = {
		{"llama", ", \"attention_multiplier\": 0.5", "config.json: attention_multiplier: is not known of llama"},
		{"llama", ", \"logits_scaling\": 8.0", "logits_scaling: is not known"},
		{"llama", ", \"residual_multiplier\": 0.22", "residual_multiplier: is not known"},
		{"llama", ", \"attn_logit_softcapping\": 50.0", "attn_logit_softcapping: is not known"},
		{"llama", ", \"kv_lora_rank\": 512", "kv_lora_rank: is not known"},
		{"qwen3", ", \"attn_output_gate\": true", "attn_output_gate: is not known of qwen3"},
		{"qwen3", ", \"use_qk_norm\": true", "use_qk_norm: is not known"},
		{"qwen3_moe", ", \"scoring_func\": \"sigmoid\"" EXPERTS, "scoring_func: is not known"},
		{"qwen3_moe", ", \"routed_scaling_factor\": 2.5" EXPERTS, "routed_scaling_factor: is not known"},
		{"llama", ", \"no_rope_layers\": [1, 1, 1, 0]", "no_rope_layers: is not known"},
		{"llama", ", \"partial_rotary_factor\": 0.5", "partial_rotary_factor: is not 1"},
		{"llama", ", \"is_causal\": false", "is_causal: is false"},
		{"llama", ", \"v_head_dim\": 8", "v_head_dim: is not that of keys"},
		{"llama", ", \"sliding_window\": 40", "sliding_window: is not known of this family"},
		{"llama", ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"mrope_section\": [4, 2, 2]}",
		 "rope_scaling.mrope_section: is not known"},
		{"llama", ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}",
		 "rope_parameters.full_attention: is not known"},
		{"mistral", ", \"num_key_value_heads\": 2, \"sliding_window\": 40, \"layer_types\": [\"sliding_attention\", "
		 "\"full_attention\", \"sliding_attention\", \"full_attention\"]", "layer_types: is not what sliding_window says"},
		{"mistral", ", \"num_key_value_heads\": 2, \"sliding_window\": 0", "sliding_window: is 0"},
		{"qwen2", ", \"num_key_value_heads\": 2, \"layer_types\": [\"sliding_attention\", \"full_attention\", "
		 "\"sliding_attention\", \"full_attention\"]", "layer_types: has sliding_attention, and there is no window"},
		{"gpt_oss", ", \"num_key_value_heads\": 2, \"experts_per_token\": 2", "experts_per_token: differs from"},
		{"gpt_oss", ", \"num_key_value_heads\": 2, \"num_local_experts\": 8, \"num_experts\": 4",
		 "num_experts: differs from"},
		{"gpt_oss", ", \"num_key_value_heads\": 2, \"swiglu_alpha\": 1.0", "swiglu_alpha: is not 1.702"},
	};
	struct shape shape;

	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		ck_assert_msg(read_config(&shape, refused[i].type, refused[i].more) == EXIT_INPUT, "%s", refused[i].more);
		ck_assert_msg(strstr(error.text, refused[i].text) != NULL, "%s", error.text);
		shape_free(&shape);
	}
}

TEST(a_key_that_only_describes_or_says_no_is_passed_over)
{
	struct shape shape;

	ck_assert_msg(read_config(&shape, "llama", ", \"attention_dropout\": 0.1, \"_attn_implementation\": \"sdpa\", "
	                          "\"use_flash_attn\": true, \"mask_token_id\": 3, \"attention_multiplier\": null, "
	                          "\"use_qk_norm\": false, \"num_nextn_predict_layers\": 0, \"unsloth_version\": \"1\", "
	                          "\"pretraining_tp\": 2, \"no_rope_layers\": []") == EXIT_OK, "%s", error.text);
	shape_free(&shape);
}

TEST(an_unknown_key_that_is_allowed_is_passed_over)
{
	struct shape shape;

	allow_keys = (struct string_list){2, {"attention_multiplier", "rope_scaling.mrope_section"}};
	ck_assert_msg(read_config(&shape, "llama", ", \"attention_multiplier\": 0.5, \"rope_scaling\": {\"rope_type\": \"linear\", "
	                          "\"factor\": 2.0, \"mrope_section\": [4]}") == EXIT_OK, "%s", error.text);
	shape_free(&shape);
	ck_assert_int_eq(read_config(&shape, "llama", ", \"logits_scaling\": 8.0"), EXIT_INPUT);
	shape_free(&shape);
}

/* A pair of a GGUF file: a key behind the architecture's name, or a whole one if it has a colon before it. */
struct pair {
	const char *key;
	int type;
	double number;
	const char *text; /* TYPE_STRING; TYPE_ARRAY: elements, a digit each */
};

static void put_pair(struct gguf_bytes *b, const char *architecture, const struct pair *pair)
{
	char key[80];
	const float number = (float)pair->number;
	const unsigned char boolean = pair->number != 0;
	uint32_t word;

	snprintf(key, sizeof key, "%s%s%s", pair->key[0] == ':' ? "" : architecture, pair->key[0] == ':' ? "" : ".",
	         pair->key + (pair->key[0] == ':'));
	put_text(b, key);
	put_u32(b, (uint32_t)pair->type);
	memcpy(&word, &number, sizeof word);
	switch (pair->type) {
	case TYPE_F32:
		put_u32(b, word);
		break;
	case TYPE_BOOL:
		put(b, &boolean, 1);
		break;
	case TYPE_STRING:
		put_text(b, pair->text);
		break;
	case TYPE_ARRAY:
		put_u32(b, TYPE_U32);
		put_u64(b, strlen(pair->text));
		for (const char *digit = pair->text; *digit != '\0'; digit++)
			put_u32(b, (uint32_t)(*digit - '0'));
		break;
	default:
		put_u32(b, (uint32_t)pair->number);
	}
}

enum { MORE = 4 };

/* Reads the shape of a GGUF file with the usual keys, of which the one in `without` is left out, and more. */
static int read_gguf(struct shape *shape, const char *architecture, const struct pair *more, const char *without)
{
	static const struct pair usual[] = {
		{"block_count", TYPE_U32, 4, NULL}, {"embedding_length", TYPE_U32, 64, NULL},
		{"feed_forward_length", TYPE_U32, 96, NULL}, {"context_length", TYPE_U32, 64, NULL},
		{"attention.head_count", TYPE_U32, 4, NULL}, {"attention.layer_norm_rms_epsilon", TYPE_F32, 1e-5, NULL},
	};
	static struct gguf_bytes b;
	const size_t n_usual = sizeof usual / sizeof usual[0] - (without != NULL);
	size_t n = 0;
	struct model model;

	while (n < MORE && more[n].key != NULL)
		n++;
	put_start(&b, 0, 1 + n_usual + n);
	put_pair_text(&b, "general.architecture", architecture);
	for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
		if (without == NULL || strcmp(usual[i].key, without) != 0)
			put_pair(&b, architecture, &usual[i]);
	for (size_t i = 0; i < n; i++)
		put_pair(&b, architecture, &more[i]);
	put_padding(&b, 32);
	ck_assert_msg(model_open(&model, scratch_write("m.gguf", b.bytes, b.n), &error) == EXIT_OK, "%s", error.text);
	int code = shape_read(shape, &model, &error);
	model_close(&model);
	return code;
}

static const struct {
	const char *architecture;
	struct pair more[MORE];
	size_t kv_heads;
	double factor, frequencies[2];
} ggufs[] = {
	{"llama", {{0}}, 4, 1, {1, 0.316227764}},
	{"llama", {{"attention.head_count_kv", TYPE_ARRAY, 0, "2222"}}, 2, 1, {1, 0.316227764}},
	/* A file that does not say how is scaled linearly; the older name; "none" is none whatever the factor. */
	{"llama", {{"rope.scaling.factor", TYPE_F32, 2, NULL}}, 4, 1, {0.5, 0.158113882}},
	{"llama", {{"rope.scale_linear", TYPE_F32, 2, NULL}}, 4, 1, {0.5, 0.158113882}},
	{"qwen2", {{"rope.scaling.type", TYPE_STRING, 0, "linear"}, {"rope.scaling.factor", TYPE_F32, 2, NULL}}, 4, 1,
	 {0.5, 0.158113882}},
	{"llama", {{"rope.scaling.type", TYPE_STRING, 0, "none"}, {"rope.scaling.factor", TYPE_F32, 2, NULL}}, 4, 1,
	 {1, 0.316227764}},
	{"llama", {{"rope.scaling.type", TYPE_STRING, 0, "linear"}}, 4, 1, {1, 0.316227764}},
	{"llama", {{"rope.scaling.factor", TYPE_F32, 0, NULL}}, 4, 1, {1, 0.316227764}},
	{"llama", {{"rope.scaling.attn_factor", TYPE_F32, 1.5, NULL}}, 4, 1.5, {1, 0.316227764}},
	/* The original context is context_length, 64, as above; the factor is 1 + 0.1 ln 4, times 1.5. */
	{"qwen3", {{"rope.scaling.type", TYPE_STRING, 0, "yarn"}, {"rope.scaling.factor", TYPE_F32, 4, NULL}}, 4,
	 1.138629436111989, {1, 0.237170815}},
	{"llama", {{"rope.scaling.type", TYPE_STRING, 0, "yarn"}, {"rope.scaling.factor", TYPE_F32, 4, NULL},
	  {"rope.scaling.attn_factor", TYPE_F32, 1.5, NULL}}, 4, 1.7079441541679836, {1, 0.237170815}},
	{"llama", {{"rope.freq_base", TYPE_F32, 1e6, NULL}, {"rope.freq_base_swa", TYPE_F32, 1e6, NULL}}, 4, 1, {1, 0.177827939}},
	/* Values that change nothing. */
	{"llama", {{"logit_scale", TYPE_F32, 1, NULL}, {"attention.causal", TYPE_BOOL, 1, NULL},
	  {"attention.clamp_kqv", TYPE_F32, 0, NULL}, {"rope.scaling.finetuned", TYPE_BOOL, 1, NULL}}, 4, 1, {1, 0.316227764}},
	{"llama", {{"attention.value_length", TYPE_U32, 16, NULL}, {"hidden_activation", TYPE_STRING, 0, "silu"},
	  {"attention.sliding_window", TYPE_U32, 64, NULL}, {":general.quantized_by", TYPE_STRING, 0, "me"}}, 4, 1,
	 {1, 0.316227764}},
};

TEST_LOOP(keys_of_gguf_mean_what_llama_cpp_says, sizeof ggufs / sizeof ggufs[0])
{
	struct shape shape;

	ck_assert_msg(read_gguf(&shape, ggufs[_i].architecture, ggufs[_i].more, NULL) == EXIT_OK, "%s", error.text);
	ck_assert_uint_eq(shape.kv_heads, ggufs[_i].kv_heads);
	check_near((double)shape.attention_factor, ggufs[_i].factor, "factor");
	check_near((double)shape.frequencies[0], ggufs[_i].frequencies[0], "the first frequency");
	check_near((double)shape.frequencies[1], ggufs[_i].frequencies[1], "the second frequency");
	shape_free(&shape);
}

static const struct {
	const char *architecture;
	struct pair more[MORE];
	const char *text;
} refused_ggufs[] = {
	{"llama", {{"attention.scale", TYPE_F32, 0.5, NULL}}, "llama.attention.scale: is 0.5, which changes what"},
	{"llama", {{"logit_scale", TYPE_F32, 0.5, NULL}}, "llama.logit_scale: is 0.5"},
	{"llama", {{"residual_scale", TYPE_F32, 0.22, NULL}}, "llama.residual_scale: is 0.2"},
	{"llama", {{"embedding_scale", TYPE_F32, 12, NULL}}, "llama.embedding_scale: is 12"},
	{"llama", {{"attn_logit_softcapping", TYPE_F32, 50, NULL}}, "llama.attn_logit_softcapping: is 50"},
	{"llama", {{"final_logit_softcapping", TYPE_F32, 30, NULL}}, "llama.final_logit_softcapping: is 30"},
	{"llama", {{"attention.clamp_kqv", TYPE_F32, 8, NULL}}, "llama.attention.clamp_kqv: is 8"},
	{"qwen3", {{"attention.causal", TYPE_BOOL, 0, NULL}}, "qwen3.attention.causal: is false"},
	{"llama", {{"swin_norm", TYPE_BOOL, 1, NULL}}, "llama.swin_norm: is true"},
	{"llama", {{"attention.value_length", TYPE_U32, 8, NULL}}, "llama.attention.value_length: is not that of keys"},
	{"llama", {{"attention.sliding_window", TYPE_U32, 16, NULL}}, "llama.attention.sliding_window: is 16, and llama.cpp runs"},
	{"llama", {{"attention.sliding_window_pattern", TYPE_ARRAY, 0, "1010"}}, "llama.attention.sliding_window_pattern: is an array"},
	{"llama", {{"attention.head_count_kv", TYPE_ARRAY, 0, "2242"}}, "llama.attention.head_count_kv: is not the same for every layer"},
	{"llama", {{"rope.freq_base_swa", TYPE_F32, 500, NULL}}, "llama.rope.freq_base_swa: is not that of other layers"},
	{"llama", {{"rope.scaling.yarn_log_multiplier", TYPE_F32, 0.1, NULL}}, "llama.rope.scaling.yarn_log_multiplier: is 0.1"},
	{"llama", {{"rope.scaling.type", TYPE_STRING, 0, "longrope"}}, "its rope_type is not"},
	{"llama", {{"expert_gating_func", TYPE_U32, 2, NULL}}, "llama.expert_gating_func: is 2"},
	{"llama", {{"expert_weights_scale", TYPE_F32, 2.5, NULL}}, "llama.expert_weights_scale: is 2.5"},
	{"llama", {{"expert_weights_norm", TYPE_BOOL, 0, NULL}}, "llama.expert_weights_norm: is false"},
	{"llama", {{"expert_group_count", TYPE_U32, 8, NULL}}, "llama.expert_group_count: is 8"},
	{"llama", {{"nextn_predict_layers", TYPE_U32, 1, NULL}}, "llama.nextn_predict_layers: is 1"},
	{"llama", {{"hidden_activation", TYPE_STRING, 0, "gelu"}}, "llama.hidden_activation: is gelu"},
	{"llama", {{"attention.kv_lora_rank", TYPE_U32, 512, NULL}}, "and what this key of the architecture means is not known"},
	{"llama", {{"new_thing", TYPE_F32, 1, NULL}}, "--allow-unknown llama.new_thing runs the model without it"},
	{"llama", {{":general.type", TYPE_STRING, 0, "adapter"}}, "general.type: is 'adapter'"},
	{"llama", {{":imatrix.chunk_count", TYPE_U32, 5, NULL}}, "general.type: is 'imatrix'"},
};

TEST(keys_of_gguf_that_change_numbers_are_refused)
{
	struct shape shape;

	for (size_t i = 0; i < sizeof refused_ggufs / sizeof refused_ggufs[0]; i++) {
		ck_assert_msg(read_gguf(&shape, refused_ggufs[i].architecture, refused_ggufs[i].more, NULL) == EXIT_INPUT, "%s",
		              refused_ggufs[i].text);
		ck_assert_msg(strstr(error.text, refused_ggufs[i].text) != NULL, "%s", error.text);
		shape_free(&shape);
	}
	ck_assert_int_eq(read_gguf(&shape, "llama", (struct pair[]){{0}}, "attention.layer_norm_rms_epsilon"), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "llama.attention.layer_norm_rms_epsilon: is absent"));
	shape_free(&shape);
	allow_keys = (struct string_list){2, {"llama.new_thing", "llama.attention.sliding_window"}};
	ck_assert_int_eq(read_gguf(&shape, "llama", refused_ggufs[23].more, NULL), EXIT_OK);
	shape_free(&shape);
	ck_assert_int_eq(read_gguf(&shape, "llama", refused_ggufs[10].more, NULL), EXIT_OK);
	ck_assert_uint_eq(shape.windows[0], 0);
	shape_free(&shape);
}
