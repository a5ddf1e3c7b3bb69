/* SPDX-License-Identifier: MIT */
/* Names and rows of GGUF, by gguf-py/gguf/tensor_mapping.py and LlamaModel.permute() of llama.cpp: a head's rows, taken
   as [2, rows / 2], are transposed. */
#include "model/gguf_name.h"

#include <check.h>

#include "suite.h"

TEST(names_go_both_ways)
{
	static const char *const pairs[][2] = {
		{"model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight"},
		{"model.layers.31.self_attn.o_proj.weight", "blk.31.attn_output.weight"},
		{"model.layers.7.mlp.down_proj.weight", "blk.7.ffn_down.weight"},
		{"model.embed_tokens.weight", "token_embd.weight"},
		{"lm_head.weight", "output.weight"},
	};
	char name[GGUF_NAME_BYTES];

	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		for (int k = 0; k < 2; k++) {
			ck_assert(gguf_name(pairs[i][k], k == 0, 0, name));
			ck_assert_str_eq(name, pairs[i][1 - k]);
			ck_assert(!gguf_name(pairs[i][k], k == 0, 1, name));
			ck_assert(!gguf_name(pairs[i][k], k != 0, 0, name));
		}
}

TEST(a_name_of_several_modules_gives_each)
{
	char name[GGUF_NAME_BYTES];

	ck_assert(gguf_name("blk.2.ffn_up.weight", false, 0, name));
	ck_assert_str_eq(name, "model.layers.2.mlp.up_proj.weight");
	ck_assert(gguf_name("blk.2.ffn_up.weight", false, 1, name));
	ck_assert_str_eq(name, "model.layers.2.mlp.gate_up_proj.weight");
	ck_assert(!gguf_name("blk.2.ffn_up.weight", false, 2, name));
}

TEST(other_names_have_none)
{
	static const char *const others[] = {
		"", "blk..attn_q.weight", "blk.x.attn_q.weight", "blk.1.attn_q.weight2", "blk.1.attn_q", "xblk.1.attn_q.weight",
		"blk.123456789012345678901.attn_q.weight", "output.weight.", "blk.1",
	};
	char name[GGUF_NAME_BYTES];

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		ck_assert(!gguf_name(others[i], false, 0, name));
}

/* np.arange(16).reshape(2, 2, 4).swapaxes(1, 2).ravel(), by hand. */
TEST(rows_are_permuted_as_by_llama_cpp)
{
	static const uint64_t rows[] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};

	for (uint64_t i = 0; i < 16; i++) {
		ck_assert_uint_eq(gguf_row(i, 8, true), rows[i]);
		ck_assert_uint_eq(gguf_row(rows[i], 8, false), i);
	}
}

TEST(heads_are_those_of_the_file)
{
	struct metadata llama[] = {
		{"general.architecture", "llama"}, {"llama.attention.head_count", "8"}, {"llama.attention.head_count_kv", "4"}};
	struct metadata qwen[] = {{"general.architecture", "qwen2"}, {"qwen2.attention.head_count", "8"}};
	struct file file = {.n_metadata = 3, .metadata = llama};

	ck_assert_uint_eq(gguf_head_rows(&file, "blk.0.attn_q.weight", 64), 8);
	ck_assert_uint_eq(gguf_head_rows(&file, "blk.0.attn_k.weight", 32), 8);
	ck_assert_uint_eq(gguf_head_rows(&file, "blk.0.attn_v.weight", 32), 0);
	ck_assert_uint_eq(gguf_head_rows(&file, "blk.0.attn_q.weight", 60), 0);
	file.n_metadata = 2;
	ck_assert_uint_eq(gguf_head_rows(&file, "blk.0.attn_k.weight", 64), 8);
	/* Twice that is 0 in 64 bits. */
	llama[1].value = "9223372036854775808";
	ck_assert_uint_eq(gguf_head_rows(&file, "blk.0.attn_q.weight", 64), 0);
	file = (struct file){.n_metadata = 2, .metadata = qwen};
	ck_assert_uint_eq(gguf_head_rows(&file, "blk.0.attn_q.weight", 64), 0);
}
