/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of reading and writing files fails once, alone and with all that follow: the operation then
 * fails with EXIT_MEMORY and holds nothing, which the leak sanitizer checks. jansson's allocations are among them.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "model.h"
#include "output.h"
#include "scratch.h"
#include "suite.h"

static struct error error;

/* What the operation at hand reads or writes. */
static const char *path;

/* Runs the operation with each allocation failing in turn until none is left; `operation` releases what it takes, and
   uses nothing of libcheck, which allocates too. */
static void fail_each(int (*operation)(void), const char *name, size_t at_least)
{
	path = scratch_path(name);
	for (int all = 0; all < 2; all++) {
		size_t n = 0;
		int code;

		do {
			alloc_fail_at(++n, all);
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

START_TEST(reading_a_file)
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
END_TEST

static int open_model(void)
{
	struct model model;
	int code = model_open(&model, path, &error);

	if (code == EXIT_OK) {
		if (model_quantized_by(&model) == NULL)
			code = EXIT_CHECK;
		model_close(&model);
	}
	return code;
}

#define TENSOR(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

START_TEST(reading_a_model)
{
	static const char index[] = "{\"metadata\":{\"total_size\":2},\"weight_map\":{\"w_blocks\":\"a.safetensors\","
				    "\"w_scales\":\"b.safetensors\"}}";
	static const char config[] = "{\"model_type\":\"a text that is long enough\",\"list\":[1,2.5,{\"a\":null}]}";

	scratch_directory("model");
	scratch_safetensors("model/a.safetensors", TENSOR("w_blocks"), 1);
	scratch_safetensors("model/b.safetensors", TENSOR("w_scales"), 1);
	scratch_write("model/model.safetensors.index.json", index, sizeof index - 1);
	scratch_write("model/config.json", config, sizeof config - 1);
	fail_each(open_model, "model", 50);
}
END_TEST

/* Writes a file into an output directory; a failure leaves nothing. */
static int write_output(void)
{
	static const uint64_t shape[] = {4};
	struct tensor tensors[] = {{.name = "b, not a short name", .dtype = DTYPE_U8, .rank = 1, .shape = shape},
	                           {.name = "a", .dtype = DTYPE_BF16}};
	struct metadata metadata[] = {{"key", "value"}};
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

START_TEST(writing_a_file)
{
	fail_each(write_output, "output", 5);
	ck_assert_uint_eq(scratch_count(scratch_path("output")), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("allocation");
	TCase *files = tcase_create("allocation_files");

	tcase_add_test(files, reading_a_file);
	tcase_add_test(files, reading_a_model);
	tcase_add_test(files, writing_a_file);
	suite_add_tcase(suite, files);
	return suite_run(suite);
}
