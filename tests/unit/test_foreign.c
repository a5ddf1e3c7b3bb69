/* SPDX-License-Identifier: MIT */
/* Files under the names of models that are something else: the error says what, and what to do. */
#include "config.h"

#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "model/model.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;

/* First bytes by the specifications of the formats: RFC 1952 (gzip), RFC 8878 (zstd), PKWARE's APPNOTE, git-lfs
   docs/spec.md, CPython's pickletools, The .xz File Format 2.1.1.1. */
static const struct {
	const char *bytes;
	size_t n;
	const char *why;
} cases[] = {
#define CASE(bytes, why) {bytes, sizeof bytes - 1, why}
	CASE("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n", "is a git-lfs pointer, not the "
	     "file it stands for; git lfs pull"),
	CASE("\x1f\x8b\x08\0\0\0\0\0\0\x03", "is compressed by gzip; decompress it with gunzip <FILE >NEW"),
	CASE("\x1f\x8b", "is compressed by gzip"),
	CASE("BZh91AY&SY", "by bzip2; decompress it with bunzip2 <FILE >NEW"),
	CASE("\xfd" "7zXZ\0\0\x04", "by xz; decompress it with unxz <FILE >NEW"),
	CASE("\x28\xb5\x2f\xfd\x04\x00", "by zstd; decompress it with unzstd <FILE >NEW"),
	CASE("PK\x03\x04\0\0\x08\x08\0\0", "is a zip archive, as torch.save()"),
	CASE("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", "is a pickle"),
	CASE("\x80\x04\x95\x0b\0\0\0\0\0\0\0}", "is a pickle"),
	CASE("\x89HDF\r\n\x1a\n", "is an HDF5 file"),
	CASE("<!DOCTYPE html>\n<html>", "is a web page"),
	CASE("\n  <!doctype html>", "is a web page"),
	CASE("\xef\xbb\xbf<html lang=en>", "is a web page"),
	CASE("<?xml version=\"1.0\"?><Error>", "is a web page"),
	CASE("Entry not found", "is a server's message"),
};

TEST(what_is_no_model_is_named)
{
	static const char *const names[] = {"f.safetensors", "f.gguf", "f.npy", "pytorch_model.bin"};
	struct file file;
	json_t *json;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
			const char *path = scratch_write(names[k], cases[i].bytes, cases[i].n);

			ck_assert_int_eq(file_open(&file, path, &error), EXIT_INPUT);
			ck_assert_msg(strstr(error.text, cases[i].why) != NULL, "%s: %s", cases[i].why, error.text);
			suite_compared(1);
		}
		scratch_write("config.json", cases[i].bytes, cases[i].n);
		ck_assert_int_eq(json_read(descriptor_open, scratch_path("config.json"), 1 << 10, &json, &error), EXIT_INPUT);
		ck_assert_ptr_nonnull(strstr(error.text, cases[i].why));
	}
}

TEST(formats_under_names_of_others_are_named)
{
	struct file file;

	ck_assert_int_eq(file_open(&file, scratch_write("g.safetensors", "GGUF\3\0\0\0\0\0\0\0", 12), &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "is a gguf file; give it a name that ends in .gguf"));
	ck_assert_int_eq(file_open(&file, scratch_write("n.safetensors", "\x93NUMPY\1\0\x76\0{", 11), &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "give it a name that ends in .npy"));
	ck_assert_int_eq(file_open(&file, scratch_write("s.gguf", "\2\0\0\0\0\0\0\0{}", 10), &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "is a safetensors file; give it a name that ends in .safetensors"));
	ck_assert_int_eq(file_open(&file, scratch_text("j.safetensors", "{\"error\":\"gone\"}"), &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "is JSON"));
}

/* A length that begins with the bytes of something else is that of a model: 0x8b1f, 0x0280. */
TEST(models_are_no_foreign_files)
{
	static char header[0x8b1f + 1];
	static const size_t lengths[] = {0x8b1f, 0x0280, 0x3c20};
	struct file file;

	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		memset(header, ' ', lengths[i]);
		header[lengths[i]] = '\0';
		memcpy(header, "{}", 2);
		ck_assert_msg(file_open(&file, scratch_safetensors("long.safetensors", header, 0), &error) == EXIT_OK, "%s",
		              error.text);
		file_close(&file);
		ck_assert_int_eq(file_open(&file, scratch_safetensors("long", header, 0), &error), EXIT_OK);
		file_close(&file);
	}
}
