/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of reading and writing files and models fails, alone and with all that follow: the operation
 * then fails with EXIT_MEMORY and holds nothing, which the leak sanitizer checks. jansson's allocations are among them.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/alloc_fail.h"
#include "cli/commands.h"
#include "eval/tokenizer.h"
#include "unit/gguf_bytes.h"
#include "io/output.h"
#include "model/meaning.h"
#include "model/model.h"
#include "unit/scratch.h"
#include "suite.h"

static const struct command *const commands[] = {&command_quantize, &command_dequantize, &command_diff};
static struct error error;

/* What the operation at hand reads or writes. */
static const char *path;

/* Runs the operation with each allocation failing in turn until none is left, alone and with all that follow; of a share, in turns in
   the one way and in the other. `operation` releases what it takes, and uses nothing of libcheck, which allocates too. */
static void fail_each(int (*operation)(void), const char *name, size_t at_least)
{
	path = scratch_path(name);
	for (int all = 0; all < (suite_shares() > 1 ? 1 : 2); all++) {
		size_t n = 0;
		int code;

		do {
			++n;
			alloc_fail_at(n, suite_shares() > 1 ? n % 2 == 0 : all != 0);
			code = operation();
			bool failed = alloc_has_failed();
			alloc_fail_at(0, false);
			ck_assert_msg(code == (failed ? EXIT_MEMORY : EXIT_OK), "allocation %zu: code %d, %s", n, code,
			              error.text);
		} while (code != EXIT_OK);
		ck_assert_uint_gt(n, at_least);
		suite_compared(n);
	}
}

static int open_file(void)
{
	struct file file;
	int code = file_open(&file, path, &error);

	if (code == EXIT_OK)
		file_close(&file);
	return code;
}

TEST(reading_a_file)
{
	/* Names long enough that jansson's buffers and the arrays grow. */
	char header[8192], *end = header;

	end += sprintf(end, "{\"__metadata__\":{");
	for (int i = 0; i < 20; i++)
		end += sprintf(end, "%s\"key %d, long enough to need more than one allocation\":\"\"",
		               i == 0 ? "" : ",", i);
	end += sprintf(end, "}");
	for (int i = 0; i < 40; i++)
		end += sprintf(end, ",\"model.layers.%d.a_rather_long_name.weight\":{\"dtype\":\"F8_E4M3FNUZ\","
		                    "\"shape\":[1,2,3],\"data_offsets\":[%d,%d]}", i, 6 * i, 6 * i + 6);
	strcpy(end, "}");
	scratch_safetensors("file.safetensors", header, 40 * 6);
	fail_each(open_file, "file.safetensors", 100);
}

static int open_model(void)
{
	struct model model;
	int code = meaning_open(&model, path, MEANING_FOLDS, &error);

	if (code == EXIT_OK) {
		if (model_quantized_by(&model) == NULL)
			code = EXIT_CHECK;
		model_close(&model);
	}
	return code;
}

#define TENSOR(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

TEST(reading_a_model)
{
	static const char index[] = "{\"metadata\":{\"total_size\":2},\"weight_map\":{\"w_blocks\":\"a.safetensors\","
				    "\"w_scales\":\"b.safetensors\"}}";
	static const char config[] = "{\"model_type\":\"a text that is long enough\",\"list\":[1,2.5,{\"a\":null}],"
				     "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}";

	scratch_directory("model");
	scratch_safetensors("model/a.safetensors", TENSOR("w_blocks"), 1);
	scratch_safetensors("model/b.safetensors", TENSOR("w_scales"), 1);
	scratch_write("model/model.safetensors.index.json", index, sizeof index - 1);
	scratch_write("model/config.json", config, sizeof config - 1);
	fail_each(open_model, "model", 50);
}

static int use_tokenizer(void)
{
	static const char text[] = "<s> he\xCC\x81llo <pad> the \xFF 12345 world, hello hello";
	struct tokenizer *tokenizer;
	struct token_sequences tokens = {0};
	char *decoded = NULL;
	size_t n = 0;
	int code = tokenizer_open(&tokenizer, NULL, path, 1000, &error);

	if (code != EXIT_OK)
		return code;
	code = tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens, &error);
	for (size_t i = 0; i < tokens.n_ids && code == EXIT_OK; i++)
		code = tokenizer_decode(tokenizer, tokens.ids[i], &decoded, &n, &error);
	free(decoded);
	tokens_free(&tokens);
	tokenizer_close(tokenizer);
	return code;
}

/* A file of tests/vectors/text_ids. */
static void fail_tokenizer(const char *name, size_t at_least)
{
	const char *source = getenv("srcdir");
	char vector[4096];
	size_t n;

	snprintf(vector, sizeof vector, "%s/tests/vectors/text_ids/%s", source != NULL ? source : ".", name);
	char *bytes = scratch_read(vector, &n);
	scratch_write(name, bytes, n);
	free(bytes);
	fail_each(use_tokenizer, name, at_least);
}

TEST(using_a_tokenizer)
{
	fail_tokenizer("spm.gguf", 100);
	fail_tokenizer("qwen2.gguf", 100);
	/* By hand, as each token of a file is some allocations, and all are read again for each. */
	path = scratch_text("t.json", "{\"added_tokens\":[{\"id\":6,\"content\":\"<pad>\",\"normalized\":true}],\"normalizer\":{\"type\":"
		"\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}]},"
		"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
		"\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"merges\":[[\"h\",\"e\"],\"l l\"],"
		"\"vocab\":{\"?\":0,\"h\":1,\"e\":2,\"he\":3,\"l\":4,\"ll\":5}}}");
	fail_each(use_tokenizer, "t.json", 100);
}

/* Writes a file into an output directory; a failure leaves nothing. */
static int write_output(void)
{
	static const uint64_t shape[] = {4};
	struct tensor tensors[] = {{.name = "b, not a short name", .dtype = DTYPE_U8, .rank = 1, .shape = shape},
	                           {.name = "a", .dtype = DTYPE_BF16}};
	struct metadata metadata[] = {{"mxfp.version", "1"}};
	struct writer writer = {.n_tensors = 2, .tensors = tensors, .n_metadata = 1, .metadata = metadata, .fd = -1};
	struct output output;
	int code = output_begin_directory(&output, path, true, &error);

	if (code != EXIT_OK)
		return code;
	char *member = output_member(&output, "model.safetensors");
	writer.path = member;
	code = member == NULL ? fail_memory(&error) : writer_open(&writer, &error);
	for (size_t i = 0; i < 2 && code == EXIT_OK; i++)
		code = writer_write(&writer, &tensors[i], 0, "data", tensors[i].size, &error);
	if (code == EXIT_OK)
		code = writer_close(&writer, &error);
	writer_abandon(&writer);
	if (code == EXIT_OK)
		code = output_commit(&output, &error);
	output_abandon(&output);
	free(member);
	return code;
}

TEST(writing_a_file)
{
	fail_each(write_output, "output", 5);
	ck_assert_uint_eq(scratch_count(scratch_path("output")), 1);
}

/* The command line of the operation at hand; @ stands for its path. */
static const char *const *words;

/* Runs a command with its standard output thrown away. */
static int run_command(void)
{
	char *argv[16];
	int argc = 0, code = EXIT_USAGE;

	for (; words[argc] != NULL; argc++)
		argv[argc] = (char *)(strcmp(words[argc], "@") == 0 ? path : words[argc]);
	argv[argc] = NULL;
	fflush(stdout);
	int saved = dup(STDOUT_FILENO), null = open("/dev/null", O_WRONLY);
	dup2(null, STDOUT_FILENO);
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (strcmp(commands[i]->name, argv[0]) == 0)
			code = commands[i]->run(argc, argv, &error);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(null);
	return code;
}

/* A model of two shards in "source", and quantized in "quantized". */
static void make_models(void)
{
	static const char config[] = "{\"model_type\":\"test\"}";
	static const char shard[] = "{\"%s.a.weight\":{\"dtype\":\"F32\",\"shape\":[2,16],\"data_offsets\":[0,128]},"
	                            "\"%s.norm\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[128,132]}}";
	static const char index[] = "{\"weight_map\":{\"x.a.weight\":\"x.safetensors\",\"x.norm\":\"x.safetensors\","
	                            "\"y.a.weight\":\"y.safetensors\",\"y.norm\":\"y.safetensors\"}}";
	static const char *const quantize[] = {"quantize", "@", "-o", "quantized", "--pad-tail", "-q", "--force",
	                                       "--mem", "6M", NULL};
	const char *words_here[10];
	char header[512];

	if (words != NULL)
		return; /* they are there */
	path = scratch_directory("source");
	snprintf(header, sizeof header, shard, "x", "x");
	scratch_safetensors("source/x.safetensors", header, 132);
	snprintf(header, sizeof header, shard, "y", "y");
	scratch_safetensors("source/y.safetensors", header, 132);
	scratch_write("source/model.safetensors.index.json", index, sizeof index - 1);
	scratch_write("source/config.json", config, sizeof config - 1);
	memcpy(words_here, quantize, sizeof quantize);
	words_here[3] = scratch_path("quantized");
	words = words_here;
	ck_assert_msg(run_command() == EXIT_OK, "%s", error.text);
}

static void fail_each_of(const char *in, const char *const *command)
{
	words = command;
	fail_each(run_command, in, 20);
}

TEST(quantizing_a_model)
{
	const char *out = scratch_path("out");

	fail_each_of("source", (const char *[]){"quantize", "@", "-o", out, "--weights", "nvfp4", "--activations", "none",
	                                        "--force", "--threads", "1", "--mem", "6M", NULL});
	ck_assert_uint_eq(scratch_count(out), 4);
	fail_each_of("source", (const char *[]){"quantize", "@", "-o", out, "--dry-run", "--json", "--pad-tail", NULL});
	/* Weights that get one tensor scale, planned only: nothing waits for the disk. */
	scratch_safetensors("fused.safetensors", "{\"q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[1,16],\"data_offsets\":[0,64]},"
	                    "\"k_proj.weight\":{\"dtype\":\"F32\",\"shape\":[1,16],\"data_offsets\":[64,128]},"
	                    "\"v_proj.weight\":{\"dtype\":\"F32\",\"shape\":[1,16],\"data_offsets\":[128,192]}}", 192);
	fail_each_of("fused.safetensors", (const char *[]){"quantize", "@", "-o", out, "--preset", "nvfp4", "--force", "--dry-run", NULL});
}

TEST(dequantizing_a_model)
{
	const char *out = scratch_path("decoded");

	fail_each_of("quantized", (const char *[]){"dequantize", "@", "-o", out, "--force", "--threads", "1", NULL});
	ck_assert_uint_eq(scratch_count(out), 4);
}

TEST(comparing_models)
{
	const char *source = scratch_path("source");

	fail_each_of("source", (const char *[]){"diff", "@", source, NULL});
	fail_each_of("source", (const char *[]){"diff", "@", source, "--json", NULL});
}

TEST(gguf_there_and_back)
{
	static const float ones[32] = {1, 1, 1, 1};
	const char *quantized = scratch_path("quantized.gguf"), *back = scratch_path("back.gguf");
	struct gguf_bytes b;

	put_start(&b, 1, 2);
	put_pair_text(&b, "general.architecture", "llama");
	put_pair_u32(&b, "n", 1);
	put_tensor(&b, "blk.0.ffn_up.weight", 32, 1, 0, 0);
	put_padding(&b, 32);
	put(&b, ones, sizeof ones);
	scratch_write("plain.gguf", b.bytes, b.n);
	fail_each_of("plain.gguf", (const char *[]){"quantize", "@", "-o", quantized, "--force", "--mem", "6M", NULL});
	fail_each_of("quantized.gguf", (const char *[]){"dequantize", "@", "-o", back, "--force", "--threads", "1", NULL});
}

int main(void)
{
	return suite_run(&(struct suite_options){.before = make_models});
}
