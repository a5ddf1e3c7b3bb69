/* SPDX-License-Identifier: MIT */
/* Names and shapes of layers as models of the field have them, and what becomes of each. */
#include "config.h"

#include <string.h>

#include "model/select.h"
#include "unit/scratch.h"
#include "suite.h"

struct tensor_case {
	const char *name;
	enum dtype dtype;
	unsigned rank;
	bool chosen;
	const char *reason;
};

static const uint64_t shape[] = {4, 64, 64, 3};

static bool decide(const struct select *select, const char *name, enum dtype dtype, unsigned rank, const char **reason)
{
	const struct tensor tensor = {.name = name, .dtype = dtype, .rank = rank, .shape = shape};
	const struct role_model unknown = {.hidden_size = 0};
	const struct role role = select_tensor(select, &unknown, &tensor);

	suite_compared(1);
	*reason = role.reason;
	return role.quantized;
}

static const struct tensor_case cases[] = {
	{"model.layers.0.self_attn.q_proj.weight", DTYPE_BF16, 2, true, "linear weight"},
	{"model.layers.0.mlp.gate_proj.weight", DTYPE_F32, 2, true, "linear weight"},
	{"model.layers.0.mlp.gate_up_proj.weight", DTYPE_F16, 2, true, "linear weight"},
	{"model.layers.0.mlp.experts.7.down_proj.weight", DTYPE_BF16, 2, true, "linear weight"},
	{"bert.encoder.layer.0.attention.output.dense.weight", DTYPE_F32, 2, true, "linear weight"},
	{"layer.weight", DTYPE_F64, 2, true, "linear weight"},
	{"model.layers.0.mlp.experts.gate_up_proj", DTYPE_BF16, 3, true, "weights of experts"},
	{"model.embed_tokens.weight", DTYPE_BF16, 2, false, "embedding"},
	{"embeddings.word_embeddings.weight", DTYPE_BF16, 2, false, "embedding"},
	{"transformer.wte.weight", DTYPE_BF16, 2, false, "embedding"},
	{"lm_head.weight", DTYPE_BF16, 2, false, "output head"},
	{"model.language_model.lm_head.weight", DTYPE_BF16, 2, false, "output head"},
	{"output.weight", DTYPE_BF16, 2, false, "output head"},
	{"model.norm.weight", DTYPE_BF16, 1, false, "norm"},
	{"model.layers.0.self_attn.q_norm.weight", DTYPE_BF16, 2, false, "norm"},
	{"bert.embeddings.LayerNorm.weight", DTYPE_F32, 1, false, "norm"},
	{"transformer.h.0.ln_1.weight", DTYPE_F32, 1, false, "norm"},
	{"layer.bias", DTYPE_F32, 1, false, "bias"},
	{"model.layers.0.mlp.experts.gate_up_proj_bias", DTYPE_BF16, 2, false, "bias"},
	{"model.layers.0.mlp.experts.down_proj_bias", DTYPE_BF16, 3, false, "bias"},
	{"model.layers.0.mlp.gate.weight", DTYPE_BF16, 2, false, "router"},
	{"model.layers.0.mlp.router.weight", DTYPE_BF16, 2, false, "router"},
	{"model.layers.0.block_sparse_moe.gate.weight", DTYPE_BF16, 2, false, "router"},
	{"model.layers.0.mlp.shared_expert_gate.weight", DTYPE_BF16, 2, false, "router"},
	{"conv1.weight", DTYPE_F32, 3, false, "convolution"},
	{"visual.patch_conv.weight", DTYPE_F32, 4, false, "convolution"},
	{"visual.stack.weight", DTYPE_F32, 4, false, "more than 3 dimensions"},
	{"stack.weight", DTYPE_F32, 3, false, "3-D, not of experts"},
	{"dense/kernel:0", DTYPE_F32, 2, false, "no 'weight' in its name"},
	{"scale.weight", DTYPE_F32, 1, false, "fewer than 2 dimensions"},
	{"weight", DTYPE_F32, 0, false, "fewer than 2 dimensions"},
	{"table.weight", DTYPE_I64, 2, false, "not of type F32, BF16, F16 or F64"},
	{"table.weight", DTYPE_F8_E4M3, 2, false, "FP8 without scales, which .to(torch.bfloat16) of PyTorch turns into numbers"},
};

TEST_LOOP(names_and_shapes_decide, sizeof cases / sizeof cases[0])
{
	const struct tensor_case *c = &cases[_i];
	const struct select select = {.include = {0}};
	const char *reason = NULL;
	bool chosen = decide(&select, c->name, c->dtype, c->rank, &reason);

	ck_assert_msg(chosen == c->chosen && strcmp(reason, c->reason) == 0, "%s, %u-D: %d, %s", c->name, c->rank,
	              chosen, reason);
}

TEST(an_empty_tensor_is_kept)
{
	static const uint64_t none[] = {0, 64};
	const struct tensor tensor = {.name = "a.weight", .dtype = DTYPE_F32, .rank = 2, .shape = none};
	const struct select select = {.include = {0}};
	const struct role_model unknown = {.hidden_size = 0};
	const struct role role = select_tensor(&select, &unknown, &tensor);

	ck_assert(!role.quantized);
	ck_assert_str_eq(role.reason, "empty");
}

/* Names that mean several things, by the model and by sizes. */
static const struct role_case {
	struct {
		const char *type;
		uint64_t hidden_size;
	} model;
	const char *name;
	uint64_t shape[3];
	unsigned rank;
	enum role_kind kind;
	enum role_axis axis;
	const char *reason;
} role_cases[] = {
	{{"gpt2", 64}, "h.0.attn.c_attn.weight", {64, 192}, 2, ROLE_CONV1D, ROLE_TURNED, "Conv1D weight"},
	{{"gpt_bigcode", 64}, "h.0.attn.c_attn.weight", {192, 64}, 2, ROLE_LINEAR, ROLE_LAST, "linear weight"},
	{{"", 0}, "h.0.attn.c_attn.weight", {192, 64}, 2, ROLE_LINEAR, ROLE_UNKNOWN, "linear weight"},
	{{"gpt_oss", 64}, "model.layers.0.mlp.experts.down_proj", {2, 64, 64}, 3, ROLE_EXPERTS, ROLE_TURNED,
	 "weights of experts"},
	{{"llama4", 64}, "language_model.model.layers.1.feed_forward.experts.gate_up_proj", {2, 64, 128}, 3, ROLE_SEQUENTIAL,
	 ROLE_TURNED, "weights of experts"},
	{{"qwen3_5_moe", 64}, "model.layers.0.mlp.experts.down_proj", {2, 64, 64}, 3, ROLE_SEQUENTIAL, ROLE_LAST,
	 "weights of experts"},
	{{"qwen3_vl_moe", 64}, "model.layers.0.mlp.experts.down_proj", {2, 32, 64}, 3, ROLE_SEQUENTIAL, ROLE_TURNED,
	 "weights of experts"},
	{{"qwen3_vl_moe", 64}, "model.layers.0.mlp.experts.down_proj", {2, 64, 32}, 3, ROLE_SEQUENTIAL, ROLE_LAST,
	 "weights of experts"},
	{{"qwen3_vl_moe", 64}, "model.layers.0.mlp.experts.down_proj", {2, 64, 64}, 3, ROLE_SEQUENTIAL, ROLE_UNKNOWN,
	 "weights of experts"},
	{{"qwen3_5_moe", 64}, "model.layers.0.mlp.experts.gate_up_proj", {2, 64, 128}, 3, ROLE_SEQUENTIAL, ROLE_UNKNOWN,
	 "weights of experts"},
	{{"gemma4", 64}, "model.language_model.layers.0.experts.gate_up_proj", {2, 128, 64}, 3, ROLE_SEQUENTIAL, ROLE_LAST,
	 "weights of experts"},
	{{"muse_spark", 64}, "model.layers.0.mlp.experts.gate_up_proj", {2, 128, 64}, 3, ROLE_EXPERTS, ROLE_LAST,
	 "weights of experts"},
	{{"step3p7", 64}, "model.layers.0.moe.up_proj.weight", {2, 32, 64}, 3, ROLE_EXPERTS, ROLE_LAST, "weights of experts"},
	{{"mixtral", 64}, "model.layers.0.mlp.experts.gate_up_proj", {2, 128, 64}, 3, ROLE_EXPERTS, ROLE_LAST,
	 "weights of experts"},
	{{"granitemoe", 64}, "model.layers.0.block_sparse_moe.input_linear.weight", {2, 128, 64}, 3, ROLE_EXPERTS, ROLE_LAST,
	 "weights of experts"},
	{{"", 0}, "blk.0.ffn_down_exps.weight", {2, 64, 64}, 3, ROLE_EXPERTS, ROLE_LAST, "weights of experts"},
	{{"new", 0}, "experts.gate_up_proj", {2, 64, 64}, 3, ROLE_EXPERTS, ROLE_UNKNOWN, "weights of experts"},
	{{"whisper", 0}, "proj_out.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "output head"},
	{{"qwen2_vl", 0}, "visual.blocks.0.mlp.fc1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "vision tower"},
	{{"llava", 0}, "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST,
	 "vision tower"},
	{{"siglip", 0}, "vision_model.encoder.layers.0.mlp.fc1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "linear weight"},
	{{"llava", 0}, "multi_modal_projector.linear_1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "projector"},
	{{"molmo", 0}, "model.vision_backbone.image_vit.blocks.0.w1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST,
	 "vision tower"},
	{{"minicpmv", 0}, "vpm.encoder.layers.0.mlp.fc1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "vision tower"},
	{{"minicpmo", 0}, "apm.layers.0.fc1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "audio tower"},
	{{"minicpmv", 0}, "resampler.kv_proj.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "projector"},
	{{"janus", 0}, "model.aligner.fc1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "projector"},
	{{"blip-2", 0}, "qformer.encoder.layer.0.attention.attention.query.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST,
	 "projector"},
	{{"blip-2", 0}, "language_projection.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "projector"},
	{{"internvl_chat", 0}, "mlp1.1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST, "projector"},
	{{"internvl_chat", 0}, "language_model.model.layers.0.feed_forward.w1.weight", {64, 64}, 2, ROLE_LINEAR, ROLE_LAST,
	 "linear weight"},
	{{"llama", 0}, "base_model.model.layers.0.q_proj.lora_A.weight", {8, 64}, 2, ROLE_LINEAR, ROLE_LAST, "LoRA"},
};

TEST_LOOP(models_and_sizes_say_what_a_name_means, sizeof role_cases / sizeof role_cases[0])
{
	const struct role_case *c = &role_cases[_i];
	const struct tensor tensor = {.name = c->name, .dtype = DTYPE_BF16, .rank = c->rank, .shape = c->shape};
	struct role_model model = {.hidden_size = c->model.hidden_size};

	strcpy(model.type, c->model.type);
	const struct role role = role_of(&model, &tensor);

	suite_compared(1);
	ck_assert_msg(role.kind == c->kind && role.axis == c->axis && strcmp(role.reason, c->reason) == 0,
	              "%s, %s: %d, %d, %s", c->model.type, c->name, (int)role.kind, (int)role.axis, role.reason);
}

/* What loaders replace, what they replace if it is named, and what they never do: by the classes that role.def names. */
static const struct habit_case {
	const char *type, *name;
	enum role_habit habit;
} habit_cases[] = {
	{"deepseek_v3", "model.layers.61.eh_proj.weight", ROLE_FIXED},
	{"glm4_moe", "model.layers.46.eh_proj.weight", ROLE_FIXED},
	{"kimi_k3", "language_model.model.layers.93.eh_proj.weight", ROLE_FIXED},
	{"", "model.layers.1.eh_proj.weight", ROLE_FIXED},
	{"nemotron_h", "mtp.layers.0.eh_proj.weight", ROLE_KEPT},
	{"longcat_flash", "model.mtp.layers.0.eh_proj.weight", ROLE_KEPT},
	{"deepseek_v3", "model.layers.61.mlp.gate_proj.weight", ROLE_TAKEN},
	{"deepseek_v3", "model.layers.61.shared_head.head.weight", ROLE_KEPT},
	{"ernie4_5_moe", "model.mtp_linear_proj.0.weight", ROLE_FIXED},
	{"mimo", "model.mtp_layers.0.input_proj.weight", ROLE_FIXED},
	{"qwen3_next", "mtp.fc.weight", ROLE_KEPT},
	{"qwen4_exp", "mtp.fc_hidden.weight", ROLE_KEPT},
	{"qwen3_next", "mtp.layers.0.mlp.shared_expert.up_proj.weight", ROLE_TAKEN},
	{"", "a.in_proj_weight", ROLE_FIXED},
	{"", "in_proj_weight", ROLE_FIXED},
	{"", "a.k_proj_weight", ROLE_FIXED},
	{"", "a.in_proj.weight", ROLE_TAKEN},
	{"", "lstm_cell.weight_ih", ROLE_FIXED},
	{"", "rnn.weight_hh_l0", ROLE_FIXED},
	{"", "rnn.weight_ih_l1_reverse", ROLE_FIXED},
	{"", "rnn.weight_hr_l0", ROLE_FIXED},
	{"", "fc.weight_v", ROLE_FIXED},
	{"", "fc.weight_g", ROLE_FIXED},
	{"", "fc.weight_orig", ROLE_FIXED},
	{"", "fc.parametrizations.weight.original1", ROLE_FIXED},
	{"", "fc.parametrizations.weight.0.base", ROLE_FIXED},
	{"qwen3_next", "model.layers.0.linear_attn.conv1d.weight", ROLE_FIXED},
	{"kimi_linear", "model.layers.0.self_attn.q_conv1d.weight", ROLE_FIXED},
	{"mamba", "backbone.layers.0.mixer.dt_proj.weight", ROLE_FIXED},
	{"doge", "model.layers.0.self_attn.dt_proj.weight", ROLE_KEPT},
	{"mamba", "backbone.layers.0.mixer.x_proj.weight", ROLE_FIXED},
	{"mamba", "backbone.layers.0.mixer.out_proj.weight", ROLE_FIXED},
	{"falcon_mamba", "backbone.layers.0.mixer.in_proj.weight", ROLE_KEPT},
	{"mamba2", "backbone.layers.0.mixer.in_proj.weight", ROLE_TAKEN},
	{"jamba", "model.layers.0.mamba.x_proj.weight", ROLE_KEPT},
	{"jamba", "model.layers.0.mamba.dt_proj.weight", ROLE_FIXED},
	{"jamba", "model.layers.0.mamba.out_proj.weight", ROLE_KEPT},
	{"jamba", "model.layers.1.self_attn.o_proj.weight", ROLE_TAKEN},
	{"t5", "encoder.block.0.layer.1.DenseReluDense.wo.weight", ROLE_KEPT},
	{"mixtral", "model.layers.0.self_attn.wo.weight", ROLE_TAKEN},
	{"qwen3_5", "model.layers.0.linear_attn.in_proj_a.weight", ROLE_KEPT},
	{"qwen3_5", "model.layers.0.linear_attn.in_proj_b.weight", ROLE_KEPT},
	{"qwen3_5", "model.layers.0.linear_attn.in_proj_z.weight", ROLE_TAKEN},
	{"qwen3_5", "model.layers.0.linear_attn.in_proj_qkv.weight", ROLE_TAKEN},
	{"qwen3_next", "model.layers.0.linear_attn.in_proj_ba.weight", ROLE_KEPT},
	{"kimi_linear", "model.layers.0.self_attn.f_b_proj.weight", ROLE_KEPT},
	{"kimi_linear", "model.layers.0.self_attn.b_proj.weight", ROLE_KEPT},
	{"deepseek_v3", "model.layers.0.self_attn.q_b_proj.weight", ROLE_TAKEN},
	{"deepseek_v3", "model.layers.0.self_attn.kv_a_proj_with_mqa.weight", ROLE_TAKEN},
	{"deepseek_v32", "model.layers.0.self_attn.indexer.weights_proj.weight", ROLE_KEPT},
	{"deepseek_v32", "model.layers.0.self_attn.indexer.wq_b.weight", ROLE_TAKEN},
	{"deepseek_v4", "layers.2.attn.compressor.wkv.weight", ROLE_KEPT},
	{"deepseek_v4", "layers.2.attn.wkv.weight", ROLE_TAKEN},
	{"kimi_k3", "language_model.model.layers.1.block_sparse_moe.routed_expert_up_proj.weight", ROLE_KEPT},
	{"llama", "score.weight", ROLE_KEPT},
	{"qwen2", "model.score.weight", ROLE_KEPT},
	{"roberta", "classifier.out_proj.weight", ROLE_KEPT},
	{"bert", "qa_outputs.weight", ROLE_KEPT},
	{"internlm2", "v_head.weight", ROLE_KEPT},
	{"higgs_audio_v2", "audio_lm_head.weight", ROLE_KEPT},
	{"muse_spark", "model.vision_projection.weight", ROLE_KEPT},
	{"step3p7", "vit_large_projector.weight", ROLE_KEPT},
	{"hy_v4_vl", "vit.layers.0.mlp.dense_h_to_4h.weight", ROLE_KEPT},
	{"dots3_note", "audio_encoder.layers.0.fc1.weight", ROLE_KEPT},
	{"kimi_k3", "language_model.model.layers.1.attn_res.proj_weight", ROLE_KEPT},
	{"", "down_weight", ROLE_KEPT},
};

TEST_LOOP(what_loaders_take, sizeof habit_cases / sizeof habit_cases[0])
{
	const struct habit_case *c = &habit_cases[_i];
	const struct tensor tensor = {.name = c->name, .dtype = DTYPE_BF16, .rank = 2, .shape = shape};
	struct role_model model = {.hidden_size = 0};

	strcpy(model.type, c->type);
	const struct role role = role_of(&model, &tensor);

	suite_compared(1);
	ck_assert_msg(role.habit == c->habit && role.quantized == (c->habit == ROLE_TAKEN), "%s, %s: %d, %s", c->type, c->name,
	              (int)role.habit, role.source);
}

static bool is_in_proj(const void *name, const char *asked)
{
	return strcmp(name, asked) == 0;
}

/* torch.nn.MultiheadAttention reads out_proj.weight itself. */
TEST(what_stands_beside_a_tensor_counts)
{
	static const struct {
		const char *name, *beside;
		enum role_habit habit;
	} beside_cases[] = {
		{"a.attn.out_proj.weight", "a.attn.in_proj_weight", ROLE_FIXED},
		{"a.attn.out_proj.weight", "a.other.in_proj_weight", ROLE_TAKEN},
		{"out_proj.weight", "in_proj_weight", ROLE_FIXED},
		{"a.attn.other.weight", "a.attn.in_proj_weight", ROLE_TAKEN},
		{"l.3.self_attn.q_proj.weight", "l.3.self_attn.f_a_proj.weight", ROLE_KEPT},
		{"l.3.self_attn.g_proj.weight", "l.3.self_attn.f_proj.weight", ROLE_KEPT},
		{"l.3.self_attn.q_proj.weight", "l.4.self_attn.f_a_proj.weight", ROLE_TAKEN},
		{"l.3.self_attn.o_proj.weight", "l.3.self_attn.f_a_proj.weight", ROLE_TAKEN},
	};

	for (size_t i = 0; i < sizeof beside_cases / sizeof beside_cases[0]; i++) {
		const struct tensor tensor = {.name = beside_cases[i].name, .dtype = DTYPE_BF16, .rank = 2, .shape = shape};
		const struct role_model model = {.has = is_in_proj, .tensors = beside_cases[i].beside};

		suite_compared(1);
		ck_assert_msg(role_of(&model, &tensor).habit == beside_cases[i].habit, "%s", beside_cases[i].name);
	}
}

/* Among experts of one order a square one has it, too; among none, or of both, nobody knows. */
TEST(square_experts_are_as_others_are)
{
	static const uint64_t shapes[][3] = {{2, 64, 64}, {2, 64, 32}, {2, 32, 64}};
	const struct tensor square = {.name = "experts.gate_up_proj", .dtype = DTYPE_BF16, .rank = 3, .shape = shapes[0]};
	const struct tensor last = {.name = "experts.down_proj", .dtype = DTYPE_BF16, .rank = 3, .shape = shapes[1]};
	const struct tensor turned = {.name = "experts.down_proj", .dtype = DTYPE_BF16, .rank = 3, .shape = shapes[2]};
	struct role_model model = {.type = "qwen3_vl_moe", .hidden_size = 64};

	role_model_see(&model, &square);
	ck_assert_int_eq(role_of(&model, &square).axis, ROLE_UNKNOWN);
	role_model_see(&model, &last);
	ck_assert_int_eq(role_of(&model, &square).axis, ROLE_LAST);
	role_model_see(&model, &turned);
	ck_assert_int_eq(role_of(&model, &square).axis, ROLE_UNKNOWN);
	model = (struct role_model){.type = "qwen3_vl_moe", .hidden_size = 64};
	role_model_see(&model, &turned);
	ck_assert_int_eq(role_of(&model, &square).axis, ROLE_TURNED);
	ck_assert_int_eq(role_of(&model, &last).axis, ROLE_LAST);
}

TEST(patterns_overrule_names)
{
	struct select select = {
		.include = {.n = 2, .items = {"*kernel:?", "lm_head.*"}},
		.ignore = {.n = 1, .items = {"rnn/*"}},
	};
	const char *reason;
	struct error error;

	ck_assert_int_eq(select_compile(&select, &error), EXIT_OK);
	ck_assert(decide(&select, "dense/kernel:0", DTYPE_F32, 2, &reason));
	ck_assert_str_eq(reason, "--include");
	ck_assert(decide(&select, "lm_head.weight", DTYPE_F32, 2, &reason));
	ck_assert(decide(&select, "conv/kernel:0", DTYPE_F32, 4, &reason));
	ck_assert(!decide(&select, "rnn/kernel:0", DTYPE_F32, 2, &reason));
	ck_assert_str_eq(reason, "--ignore");
	ck_assert(!decide(&select, "dense/kernel:10", DTYPE_F32, 2, &reason));
	ck_assert(!decide(&select, "dense/kernel:0", DTYPE_F32, 1, &reason));
	ck_assert(!decide(&select, "dense/kernel:0", DTYPE_I32, 2, &reason));
	select_free(&select);
}

/* The model has the tensors "layer.weight" and "norm". */
static int check_pattern(const char *include, const char *ignore, struct error *error)
{
	static const char header[] = "{\"layer.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
	                             "\"norm\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
	struct select select = {.include = {0}};
	struct model model;

	if (include != NULL)
		select.include = (struct string_list){.n = 1, .items = {include}};
	if (ignore != NULL)
		select.ignore = (struct string_list){.n = 1, .items = {ignore}};
	ck_assert_int_eq(model_open(&model, scratch_safetensors("m.safetensors", header, 8), error), EXIT_OK);
	int code = select_compile(&select, error);
	if (code == EXIT_OK)
		code = select_check(&select, &model, error);
	select_free(&select);
	model_close(&model);
	return code;
}

TEST(a_pattern_that_matches_nothing_is_refused)
{
	struct error error = {""};

	ck_assert_int_eq(check_pattern(NULL, NULL, &error), EXIT_OK);
	ck_assert_int_eq(check_pattern("*.weight", "norm", &error), EXIT_OK);
	ck_assert_int_eq(check_pattern(NULL, "layer.wieght", &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, "--ignore 'layer.wieght'") != NULL, "%s", error.text);
	ck_assert_msg(strstr(error.text, "did you mean 'layer.weight'?") != NULL, "%s", error.text);
	ck_assert_int_eq(check_pattern("*.bias", NULL, &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, "--include '*.bias' matches no tensor") != NULL, "%s", error.text);
}
