/* SPDX-License-Identifier: MIT */
/* Models: which files are opened, what an index may say, and what is refused. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/model.h"
#include "unit/scratch.h"
#include "suite.h"

#define TENSOR(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
#define INDEX "model.safetensors.index.json"

static struct error error;

/* The model is refused with this code and this in the text. */
static void refuse(const char *name, int code, const char *why)
{
	struct model model;

	ck_assert_msg(model_open(&model, scratch_path(name), &error) == code, "%s: %s", name, error.text);
	ck_assert_msg(strstr(error.text, why) != NULL, "%s", error.text);
	suite_compared(1);
}

/* A directory with shards a (tensor "a") and b (tensor "b") and this index. */
static void make_sharded(const char *directory, const char *index)
{
	char name[128];

	scratch_directory(directory);
	snprintf(name, sizeof name, "%s/a.safetensors", directory);
	scratch_safetensors(name, TENSOR("a"), 2);
	snprintf(name, sizeof name, "%s/b.safetensors", directory);
	scratch_safetensors(name, TENSOR("b"), 2);
	snprintf(name, sizeof name, "%s/" INDEX, directory);
	scratch_text(name, index);
}

TEST(single_file_is_a_model)
{
	struct model model;
	const struct file *file;

	scratch_safetensors("one.safetensors", TENSOR("w"), 2);
	ck_assert_int_eq(model_open(&model, scratch_path("one.safetensors"), &error), EXIT_OK);
	ck_assert(!model.is_directory && !model.has_index && model.n_files == 1 && model.config == NULL);
	ck_assert_uint_eq(model.data_bytes, 2);
	ck_assert_str_eq(model_file_name(&model.files[0]), "one.safetensors");
	ck_assert_ptr_eq(model_find(&model, "w", &file), &model.files[0].tensors[0]);
	ck_assert_ptr_eq(file, &model.files[0]);
	ck_assert_ptr_null(model_find(&model, "v", &file));
	ck_assert_ptr_null(model_quantized_by(&model));
	model_close(&model);
	model_close(&model);
}

TEST(shards_are_opened_by_the_index)
{
	struct model model;
	const struct file *file;

	make_sharded("sharded", "{\"metadata\":{\"total_size\":\"?\"},\"weight_map\":{\"b\":\"b.safetensors\","
	                        "\"a\":\"a.safetensors\"}}");
	scratch_text("sharded/config.json", "{\"model_type\":\"test\",\"quantization_config\":null}");
	for (int named = 0; named < 2; named++) {
		const char *path = scratch_path(named ? "sharded/" INDEX : "sharded");

		ck_assert_msg(model_open(&model, path, &error) == EXIT_OK, "%s", error.text);
		ck_assert(model.is_directory && model.has_index && model.n_files == 2);
		ck_assert_str_eq(model_file_name(&model.files[0]), "a.safetensors");
		ck_assert_ptr_nonnull(model_find(&model, "b", &file));
		ck_assert_ptr_eq(file, &model.files[1]);
		ck_assert_str_eq(json_string_value(json_object_get(model.config, "model_type")), "test");
		ck_assert_ptr_null(model_quantized_by(&model));
		model_close(&model);
	}
}

TEST(directory_without_index_has_one_file)
{
	struct model model;

	scratch_directory("single");
	refuse("single", EXIT_INPUT, "is empty; name a file or the directory of a model");
	scratch_safetensors("single/model.safetensors", TENSOR("w"), 2);
	ck_assert_int_eq(model_open(&model, scratch_path("single"), &error), EXIT_OK);
	ck_assert(model.is_directory && !model.has_index && model.n_files == 1);
	model_close(&model);
	refuse("nowhere", EXIT_IO, "cannot open");
	scratch_text("single/config.json", "[]");
	refuse("single", EXIT_INPUT, "config.json: is not a JSON object");
	scratch_text("single/config.json", "{\"a\":1,\"a\":2}");
	refuse("single", EXIT_INPUT, "config.json: JSON, byte ");
}

TEST(index_and_single_file_contradict)
{
	make_sharded("both", "{\"weight_map\":{\"a\":\"a.safetensors\"}}");
	scratch_safetensors("both/model.safetensors", TENSOR("w"), 2);
	refuse("both", EXIT_INPUT, "holds both");
}

TEST(index_must_agree_with_the_shards)
{
	static const struct {
		const char *index, *why;
	} cases[] = {
		{"{\"weight_map\":{\"a\":\"a.safetensors\",\"c\":\"b.safetensors\"}}",
		 "tensor 'b': is not in the index"},
		{"{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":\"a.safetensors\"}}",
		 "tensor 'b': shard 'a.safetensors'"},
		{"{\"weight_map\":{\"a\":\"b.safetensors\",\"b\":\"a.safetensors\"}}", "the index sends it"},
		{"{\"weight_map\":{\"a\":\"c.safetensors\"}}", "is not there"},
		{"{\"weight_map\":{\"a\":\"\\u0061.safetensors\",\"\\u0061\":\"a.safetensors\"}}", "twice"},
		{"{\"weight_map\":{},\"weight_map\":{}}", "twice"},
		{"{\"weight_map\":{}}", "no weight_map"},
		{"{\"metadata\":[1,2", "byte 16: ']' expected"},
		{"{}", "no weight_map"},
		{"{\"weight_map\":{\"a\":\"a.safetensors\"}}}", "nothing may follow"},
	};
	char name[32];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(name, sizeof name, "disagree%zu", i);
		make_sharded(name, cases[i].index);
		refuse(name, EXIT_INPUT, cases[i].why);
	}
}

TEST(shard_names_lead_nowhere_else)
{
	static const char *const names[] = {"", ".", "..", "../x.safetensors", "/dev/zero", "a/../a.safetensors",
	                                    "..\\\\x", "./a.safetensors", "C:\\\\a"};
	char name[32], index[128];

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		snprintf(name, sizeof name, "names%zu", i);
		snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
		make_sharded(name, index);
		refuse(name, EXIT_INPUT, "is not the name of a file beside the index");
	}
}

/* Opens a model whose index names c.safetensors, a symbolic link to `target`. */
static int open_linked(struct model *model, const char *directory, const char *target)
{
	char name[64];

	make_sharded(directory, "{\"weight_map\":{\"a\":\"c.safetensors\"}}");
	snprintf(name, sizeof name, "%s/c.safetensors", directory);
	ck_assert_int_eq(symlink(target, scratch_path(name)), 0);
	return model_open(model, scratch_path(directory), &error);
}

TEST(symbolic_links_stay_inside)
{
	struct model model;

	scratch_safetensors("outside.safetensors", TENSOR("a"), 2);
	scratch_directory("link-prefix-x"); /* a name that begins as the model's */
	scratch_safetensors("link-prefix-x/a.safetensors", TENSOR("a"), 2);
	ck_assert_int_eq(open_linked(&model, "link-inside", "a.safetensors"), EXIT_OK);
	model_close(&model);
	ck_assert_int_eq(open_linked(&model, "link-outside", "../outside.safetensors"), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "name the file itself"));
	ck_assert_int_eq(open_linked(&model, "link-prefix", "../link-prefix-x/a.safetensors"), EXIT_INPUT);
	ck_assert_int_eq(open_linked(&model, "link-loop", "c.safetensors"), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "loop"));
	ck_assert_int_eq(open_linked(&model, "link-dangling", "d.safetensors"), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "to a file that is not there; download"));
	ck_assert_int_eq(open_linked(&model, "link-device", "/dev/zero"), EXIT_INPUT);
	ck_assert_int_eq(open_linked(&model, "link-directory", "."), EXIT_INPUT);
	/* A link to the model's directory itself is followed. */
	ck_assert_int_eq(symlink("link-inside", scratch_path("alias")), 0);
	ck_assert_int_eq(model_open(&model, scratch_path("alias"), &error), EXIT_OK);
	model_close(&model);
}

/* Makes a link in the snapshot r of the repository cache/x, or in its folder sub. */
static void link_in_snapshot(const char *name, const char *target)
{
	char path[128];

	snprintf(path, sizeof path, "cache/x/snapshots/r/%s", name);
	unlink(scratch_path(path));
	ck_assert_int_eq(symlink(target, scratch_path(path)), 0);
}

/* The cache with a secret in every place that is no blob of x, and a snapshot that has an index of one shard. */
static void make_cache(void)
{
	static const char *const directories[] = {"cache", "cache/x", "cache/x/blobs", "cache/x/blobs/deep", "cache/x/refs",
	                                          "cache/x/snapshots", "cache/x/snapshots/r", "cache/x/snapshots/r/sub",
	                                          "cache/x/other", "cache/x/other/r", "cache/y", "cache/y/blobs"};
	static const char *const secrets[] = {"cache/secret", "cache/x/secret", "cache/x/refs/secret", "cache/y/blobs/secret",
	                                      "cache/x/blobs/deep/secret", "cache/x/snapshots/secret"};

	for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++)
		scratch_directory(directories[i]);
	for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
		scratch_safetensors(secrets[i], TENSOR("a"), 2);
	scratch_safetensors("cache/x/blobs/aa", TENSOR("a"), 2);
	scratch_text("cache/x/blobs/bb", "{\"weight_map\":{\"a\":\"1.safetensors\"}}");
	scratch_text("cache/x/blobs/cc", "{\"model_type\":\"test\"}");
	link_in_snapshot("1.safetensors", "../../blobs/aa");
	link_in_snapshot(INDEX, "../../blobs/bb");
	link_in_snapshot("config.json", "../../blobs/cc");
	link_in_snapshot("sub/model.safetensors", "../../../blobs/aa");
}

static void check_snapshot(void)
{
	static const char *const names[] = {"cache/x/snapshots/r", ("cache/x/snapshots/r/" INDEX), "cache/x/snapshots/r/sub",
	                                    "cache/x/snapshots/r/1.safetensors", "cache-alias"};
	struct model model;

	ck_assert_int_eq(symlink("cache/x/snapshots/r", scratch_path("cache-alias")), 0);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		ck_assert_msg(model_open(&model, scratch_path(names[i]), &error) == EXIT_OK, "%s", error.text);
		ck_assert_uint_eq(model.n_tensors, 1);
		if (i < 2)
			ck_assert_str_eq(json_string_value(json_object_get(model.config, "model_type")), "test");
		model_close(&model);
	}
	refuse("cache/x", EXIT_INPUT, "name a directory in its snapshots");
	/* By whatever way, it is a blob. */
	link_in_snapshot("1.safetensors", scratch_path("cache/x/blobs/aa"));
	ck_assert_int_eq(model_open(&model, scratch_path("cache-alias"), &error), EXIT_OK);
	model_close(&model);
}

/* Nothing else is followed. */
static void check_other_targets(void)
{
	static const char *const targets[] = {
		"../../../secret", "../../secret", "../../refs/secret", "../../../y/blobs/secret", "../../blobs/deep/secret",
		"../../blobs/../secret", "../../blobs/out", "../secret", "/etc/passwd",
	};
	static const char *const special[] = {"../../blobs/fifo", "../../blobs/deep", "../../blobs/nothing", "/dev/zero",
	                                      "../../blobs/device"};

	ck_assert_int_eq(symlink("../secret", scratch_path("cache/x/blobs/out")), 0);
	ck_assert_int_eq(symlink("/dev/zero", scratch_path("cache/x/blobs/device")), 0);
	ck_assert_int_eq(mkfifo(scratch_path("cache/x/blobs/fifo"), 0600), 0);
	for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
		link_in_snapshot("1.safetensors", targets[i]);
		refuse("cache/x/snapshots/r", EXIT_INPUT, "leaves the model's directory");
		link_in_snapshot("sub/model.safetensors", targets[i]);
		refuse("cache/x/snapshots/r/sub", EXIT_INPUT, "sub/model.safetensors: is a symbolic link ");
	}
	for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
		link_in_snapshot("1.safetensors", special[i]);
		refuse("cache/x/snapshots/r", EXIT_INPUT, "1.safetensors: is a ");
	}
	link_in_snapshot("1.safetensors", "../../blobs/aa");
	link_in_snapshot("config.json", "../../secret");
	refuse("cache/x/snapshots/r", EXIT_INPUT, "config.json: is a symbolic link that leaves");
}

/* Everything but a link is as in any other directory. */
static void check_other_places(void)
{
	link_in_snapshot("config.json", "../../blobs/cc");
	/* A name in an index is no link. */
	scratch_text("cache/x/blobs/bb", "{\"weight_map\":{\"a\":\"../../blobs/aa\"}}");
	refuse("cache/x/snapshots/r", EXIT_INPUT, "is not the name of a file beside the index");
	scratch_text("cache/x/blobs/bb", "{\"weight_map\":{\"a\":\"1.safetensors\"}}");
	/* Blobs lie beside a directory named snapshots. */
	ck_assert_int_eq(symlink("../../blobs/aa", scratch_path("cache/x/other/r/model.safetensors")), 0);
	refuse("cache/x/other/r", EXIT_INPUT, "leaves the model's directory");
	/* The blobs are a directory, and no link to one. */
	ck_assert_int_eq(rename(scratch_path("cache/x/blobs"), scratch_path("cache/moved")), 0);
	ck_assert_int_eq(symlink("../moved", scratch_path("cache/x/blobs")), 0);
	refuse("cache/x/snapshots/r", EXIT_INPUT, "leaves the model's directory");
}

TEST(snapshots_lead_to_blobs_only)
{
	make_cache();
	check_snapshot();
	check_other_targets();
	check_other_places();
}

TEST(special_files_are_no_shards)
{
	make_sharded("fifo", "{\"weight_map\":{\"a\":\"c.safetensors\"}}");
	ck_assert_int_eq(mkfifo(scratch_path("fifo/c.safetensors"), 0600), 0);
	refuse("fifo", EXIT_INPUT, "c.safetensors: is a FIFO");
	make_sharded("sub", "{\"weight_map\":{\"a\":\"c.safetensors\"}}");
	scratch_directory("sub/c.safetensors");
	refuse("sub", EXIT_INPUT, "c.safetensors: is a directory");
}

/* Opens a Llama 4 of n layers of 65,536 experts, each a single number, and splits them: 65,536 tensors a layer. */
static int split_layers(int n, size_t *n_tensors)
{
	char header[2048] = "{", *end = header + 1;
	struct model model;

	scratch_directory(n == 4 ? "split4" : "split5");
	scratch_text(n == 4 ? "split4/config.json" : "split5/config.json", "{\"model_type\":\"llama4_text\"}");
	for (int i = 0; i < n; i++)
		end += sprintf(end, "%s\"model.layers.%d.feed_forward.experts.down_proj\":{\"dtype\":\"BF16\","
		               "\"shape\":[65536,1,1],\"data_offsets\":[%d,%d]}", i == 0 ? "" : ",", i, i << 17, (i + 1) << 17);
	strcpy(end, "}");
	scratch_safetensors(n == 4 ? "split4/model.safetensors" : "split5/model.safetensors", header, (size_t)n << 17);
	ck_assert_int_eq(model_open(&model, scratch_path(n == 4 ? "split4" : "split5"), &error), EXIT_OK);
	int code = model_split_experts(&model, NULL, &error);
	*n_tensors = model.n_tensors;
	model_close(&model);
	return code;
}

TEST(experts_in_all_are_limited)
{
	size_t n;

	ck_assert_int_eq(split_layers(4, &n), EXIT_OK);
	ck_assert_uint_eq(n, 262144);
	ck_assert_int_eq(split_layers(5, &n), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "its experts would be 327680 tensors, more than the 262144 allowed"));
	ck_assert_uint_eq(n, 5);
}

/* The phrase of a model with this config.json and tensor header. */
static void check_phrase(const char *config, const char *header, size_t n, const char *phrase)
{
	struct model model;
	static int number;
	char name[64];

	snprintf(name, sizeof name, "quantized%d", number++);
	scratch_directory(name);
	snprintf(name, sizeof name, "quantized%d/config.json", number - 1);
	scratch_text(name, config);
	snprintf(name, sizeof name, "quantized%d/model.safetensors", number - 1);
	scratch_safetensors(name, header, n);
	snprintf(name, sizeof name, "quantized%d", number - 1);
	ck_assert_msg(model_open(&model, scratch_path(name), &error) == EXIT_OK, "%s", error.text);
	if (phrase == NULL)
		ck_assert_ptr_null(model_quantized_by(&model));
	else
		ck_assert_ptr_nonnull(strstr(model_quantized_by(&model), phrase));
	model_close(&model);
	suite_compared(1);
}

#define U8(name, at) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" at "]}"
#define BF16(name, at) "\"" name "\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[" at "]}"

TEST(quantized_models_are_known)
{
	check_phrase("{}", "{" BF16("a.weight", "0,2") "}", 2, NULL);
	check_phrase("{\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
	             "\"format\":\"mxfp4-pack-quantized\"}}",
	             "{}", 0, "compressed-tensors, mxfp4-pack-quantized");
	check_phrase("{\"quantization_config\":{\"bits\":4}}", "{}", 0, "quantization_config");
	check_phrase("{\"quantization_config\":{}}", "{}", 0, NULL);
	check_phrase("{\"quantization_config\":null}", "{}", 0, NULL);
	check_phrase("{}", "{" U8("a.weight_packed", "0,1") "}", 1, "weight_packed");
	check_phrase("{}", "{" U8("e_blocks", "0,1") "," U8("e_scales", "1,2") "}", 2, "_blocks");
	check_phrase("{}", "{" U8("e_blocks", "0,1") "," U8("f_scales", "1,2") "}", 2, NULL);
	check_phrase("{}", "{" U8("a.weight", "0,1") "," U8("a.weight_scale", "1,2") "}", 2, "weight_scale");
	check_phrase("{}", "{" BF16("a.weight", "0,2") "," U8("a.weight_scale", "2,3") "}", 3, NULL);
}
