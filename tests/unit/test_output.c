/* SPDX-License-Identifier: MIT */
/* Outputs appear whole or not at all: nothing partial stays, and what was there is intact, whatever fails. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "io/file.h"
#include "io/output.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;
static struct output output;

/* The file holds this text. */
static void check_text(const char *path, const char *text)
{
	size_t n;
	char *bytes = scratch_read(path, &n);

	ck_assert_str_eq(bytes, text);
	free(bytes);
	suite_compared(1);
}

/* Puts a file into the output directory being built. */
static void add_member(const char *name, const char *text)
{
	char *path = output_member(&output, name);

	ck_assert_int_eq(output_write_file(path, text, strlen(text), &error), EXIT_OK);
	free(path);
}

/* Number of entries of the directory "d" in the scratch directory, where each test works. */
static void check_count(size_t n)
{
	ck_assert_uint_eq(scratch_count(scratch_path("d")), n);
}

static void make_directory(void)
{
	scratch_directory("d");
}

static void remove_directory(void)
{
	char command[4200];

	snprintf(command, sizeof command, "rm -r '%s'", scratch_path("d"));
	ck_assert_int_eq(system(command), 0);
}

TEST(file_appears_when_committed)
{
	const char *path = scratch_path("d/out");

	ck_assert_int_eq(output_begin_file(&output, path, false, &error), EXIT_OK);
	ck_assert_int_eq(output_write_file(output.temporary, "new", 3, &error), EXIT_OK);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(output_commit(&output, &error), EXIT_OK);
	output_abandon(&output);
	output_abandon(&output);
	check_text(path, "new");
	check_count(1);
}

TEST(file_is_replaced_only_by_force)
{
	const char *path = scratch_path("d/out");

	scratch_text("d/out", "old");
	ck_assert_int_eq(output_begin_file(&output, path, false, &error), EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(error.text, "--force"));
	ck_assert_int_eq(output_begin_file(&output, path, true, &error), EXIT_OK);
	ck_assert_int_eq(output_write_file(output.temporary, "new", 3, &error), EXIT_OK);
	check_text(path, "old");
	output_abandon(&output);
	check_text(path, "old");
	check_count(1);
	ck_assert_int_eq(output_begin_file(&output, path, true, &error), EXIT_OK);
	ck_assert_int_eq(output_write_file(output.temporary, "new", 3, &error), EXIT_OK);
	ck_assert_int_eq(output_commit(&output, &error), EXIT_OK);
	output_abandon(&output);
	check_text(path, "new");
	check_count(1);
}

TEST(file_that_appears_meanwhile_is_left)
{
	ck_assert_int_eq(output_begin_file(&output, scratch_path("d/out"), false, &error), EXIT_OK);
	ck_assert_int_eq(output_write_file(output.temporary, "new", 3, &error), EXIT_OK);
	scratch_text("d/out", "other");
	ck_assert_int_eq(output_commit(&output, &error), EXIT_USAGE);
	output_abandon(&output);
	check_text(scratch_path("d/out"), "other");
	check_count(1);
}

TEST(directory_appears_when_committed)
{
	struct stat status;

	umask(027);
	ck_assert_int_eq(output_begin_directory(&output, scratch_path("d/out/"), false, &error), EXIT_OK);
	add_member("model.safetensors", "m");
	add_member("config.json", "{}");
	ck_assert_int_ne(access(scratch_path("d/out"), F_OK), 0);
	ck_assert_int_eq(output_commit(&output, &error), EXIT_OK);
	output_abandon(&output);
	umask(022);
	check_text(scratch_path("d/out/model.safetensors"), "m");
	ck_assert_int_eq(stat(scratch_path("d/out"), &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0750);
	check_count(1);
}

/* An existing output directory "d/out". */
static void make_old(void)
{
	scratch_directory("d/out");
	scratch_safetensors("d/out/old.safetensors", "{\"__metadata__\":{\"mxfp.version\":\"1\"}}", 0);
	scratch_text("d/out/config.json", "old");
}

TEST(directory_is_replaced_only_by_force)
{
	const char *path = scratch_path("d/out");

	make_old();
	ck_assert_int_eq(output_begin_directory(&output, path, false, &error), EXIT_USAGE);
	ck_assert_int_eq(output_begin_directory(&output, path, true, &error), EXIT_OK);
	add_member("config.json", "new");
	output_abandon(&output);
	check_text(scratch_path("d/out/config.json"), "old");
	ck_assert_int_eq(output_begin_directory(&output, path, true, &error), EXIT_OK);
	add_member("config.json", "new");
	ck_assert_int_eq(output_commit(&output, &error), EXIT_OK);
	output_abandon(&output);
	check_text(scratch_path("d/out/config.json"), "new");
	ck_assert_uint_eq(scratch_count(path), 1);
	check_count(1);
}

/* What stands in "d/out" is refused, at the beginning and, if it comes later, at the end. */
static void check_foreign(const char *kind)
{
	ck_assert_int_eq(output_begin_directory(&output, scratch_path("d/out"), true, &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, "does not write") != NULL, "%s: %s", kind, error.text);
	check_text(scratch_path("d/out/config.json"), "old");
	check_count(1);
}

TEST(directories_with_other_files_are_left)
{
	make_old();
	scratch_text("d/out/notes.txt", "mine");
	check_foreign("text");
	ck_assert_int_eq(unlink(scratch_path("d/out/notes.txt")), 0);
	scratch_directory("d/out/x.json");
	check_foreign("directory");
	ck_assert_int_eq(rmdir(scratch_path("d/out/x.json")), 0);
	ck_assert_int_eq(symlink("config.json", scratch_path("d/out/x.json")), 0);
	check_foreign("link");
	ck_assert_int_eq(unlink(scratch_path("d/out/x.json")), 0);
	scratch_text("d/out/.json", "mine");
	check_foreign("hidden");
	ck_assert_int_eq(unlink(scratch_path("d/out/.json")), 0);

	ck_assert_int_eq(output_begin_directory(&output, scratch_path("d/out"), true, &error), EXIT_OK);
	add_member("config.json", "new");
	scratch_text("d/out/notes.txt", "mine");
	ck_assert_int_eq(output_commit(&output, &error), EXIT_USAGE);
	output_abandon(&output);
	check_foreign("meanwhile");
	check_text(scratch_path("d/out/notes.txt"), "mine");
}

/* "d/out" is refused as one that mxfp did not write, and stays. */
static void check_original(const char *kind, const char *says)
{
	size_t n = scratch_count(scratch_path("d/out"));

	ck_assert_int_eq(output_begin_directory(&output, scratch_path("d/out"), true, &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, says) != NULL && strstr(error.text, "name another directory") != NULL, "%s: %s", kind,
	              error.text);
	ck_assert_uint_eq(scratch_count(scratch_path("d/out")), n);
	suite_compared(1);
}

/* Models of others have files of the same names as ours. */
TEST(directories_of_others_are_left)
{
	static const char none[] = "{}", others[] = "{\"__metadata__\":{\"format\":\"pt\",\"not.mxfp.version\":\"1\"}}";
	static const char own[] = "{\"__metadata__\":{\"mxfp.version\":\"1\",\"mxfp.carried\":\"[\\\"a.txt\\\"]\"}}";

	scratch_directory("d/out");
	scratch_text("d/out/config.json", "{}");
	check_original("no weights", "no weights that mxfp wrote");
	scratch_safetensors("d/out/model.safetensors", none, 0);
	check_original("no metadata", "'model.safetensors', which mxfp did not write");
	scratch_safetensors("d/out/model.safetensors", others, 0);
	check_original("others", "'model.safetensors', which mxfp did not write");
	scratch_text("d/out/model.safetensors", "damaged");
	check_original("damaged", "'model.safetensors', which mxfp did not write");
	scratch_safetensors("d/out/model.safetensors", own, 0);
	scratch_safetensors("d/out/more.safetensors", others, 0);
	check_original("one of two", "'more.safetensors', which mxfp did not write");
	ck_assert_int_eq(unlink(scratch_path("d/out/more.safetensors")), 0);
	scratch_text("d/out/a.txt", "");
	scratch_text("d/out/b.txt", "");
	check_original("not listed", "holds 'b.txt', which mxfp does not write");
	ck_assert_int_eq(unlink(scratch_path("d/out/b.txt")), 0);
	ck_assert_int_eq(output_begin_directory(&output, scratch_path("d/out"), true, &error), EXIT_OK);
	add_member("config.json", "new");
	ck_assert_int_eq(output_commit(&output, &error), EXIT_OK);
	output_abandon(&output);
	ck_assert_uint_eq(scratch_count(scratch_path("d/out")), 1);
	check_count(1);
}

TEST(other_kinds_are_never_replaced)
{
	make_old();
	ck_assert_int_eq(output_begin_file(&output, scratch_path("d/out"), true, &error), EXIT_USAGE);
	const char *file = scratch_path("d/out/config.json");
	ck_assert_int_eq(output_begin_directory(&output, file, true, &error), EXIT_USAGE);
	ck_assert_int_eq(symlink("out", scratch_path("d/link")), 0);
	ck_assert_int_eq(output_begin_directory(&output, scratch_path("d/link/"), true, &error), EXIT_USAGE);
	ck_assert_int_eq(symlink("out/config.json", scratch_path("d/link.json")), 0);
	ck_assert_int_eq(output_begin_file(&output, scratch_path("d/link.json"), true, &error), EXIT_USAGE);
	ck_assert_int_eq(output_begin_file(&output, "/dev/null", true, &error), EXIT_USAGE);
	check_text(scratch_path("d/out/config.json"), "old");
}

TEST(names_must_be_names)
{
	static const char *const names[] = {"", "/", "//", ".", "..", "d/..", "./"};
	char name[256];

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		ck_assert_int_eq(output_begin_file(&output, names[i], true, &error), EXIT_USAGE);
		ck_assert_int_eq(output_begin_directory(&output, names[i], true, &error), EXIT_USAGE);
	}
	ck_assert_int_eq(output_begin_file(&output, scratch_path("d/none/out"), false, &error), EXIT_IO);
	memset(name, 'n', 255);
	memcpy(name, "d/", 2);
	name[255] = '\0';
	ck_assert_int_eq(output_begin_file(&output, scratch_path(name), false, &error), EXIT_OK);
	ck_assert_int_eq(output_write_file(output.temporary, "new", 3, &error), EXIT_OK);
	ck_assert_int_eq(output_commit(&output, &error), EXIT_OK);
	output_abandon(&output);
	check_text(scratch_path(name), "new");
}

/* Runs in a child process, whose limits do not last; the child's exit code. */
static int in_child(int (*run)(int), int argument)
{
	int status;

	fflush(NULL);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(run(argument));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status), "ended by signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return WEXITSTATUS(status);
}

/* Replaces "d/out" while files may have 4096 bytes, which is like a full disk. */
static int fill_disk(int argument)
{
	static char bytes[10000];
	static const uint64_t shape[] = {sizeof bytes};
	const struct rlimit limit = {4096, 4096};
	struct tensor tensor = {.name = "w", .dtype = DTYPE_U8, .rank = 1, .shape = shape};
	struct writer writer = {.n_tensors = 1, .tensors = &tensor, .fd = -1};

	interrupt_prepare();
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
		return 100;
	int code = output_begin_file(&output, scratch_path("d/out"), true, &error);
	writer.path = output.temporary;
	if (code == EXIT_OK && argument == 0)
		code = output_write_file(output.temporary, bytes, sizeof bytes, &error);
	else if (code == EXIT_OK && (code = writer_open(&writer, &error)) == EXIT_OK)
		code = writer_write(&writer, &tensor, 0, bytes, sizeof bytes, &error);
	writer_abandon(&writer);
	output_abandon(&output);
	return code;
}

TEST(full_disk_leaves_what_was_there)
{
	scratch_text("d/out", "old");
	for (int with_writer = 0; with_writer < 2; with_writer++) {
		ck_assert_int_eq(in_child(fill_disk, with_writer), EXIT_IO);
		check_text(scratch_path("d/out"), "old");
		check_count(1);
	}
}

int main(void)
{
	return suite_run(&(struct suite_options){.before = make_directory, .after = remove_directory});
}
