/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "input_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

static char path[256], directory[256];

static void remove_file(void)
{
	unlink(path);
}

static void remove_directory(void)
{
	input_remove(directory);
}

static const char *parent(void)
{
	const char *named = getenv("TMPDIR");

	return named != NULL ? named : P_tmpdir;
}

static void fill(int fd, const uint8_t *data, size_t size)
{
	fuzz_check(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size, "the file can be written");
}

const char *input_file(const uint8_t *data, size_t size, const char *suffix)
{
	static int fd = -1;

	if (fd < 0) {
		snprintf(path, sizeof path, "%s/mxfp-fuzz-XXXXXX%s", parent(), suffix);
		fd = mkstemps(path, (int)strlen(suffix));
		fuzz_check(fd >= 0, "a file in TMPDIR can be made");
		atexit(remove_file);
	}
	fill(fd, data, size);
	return path;
}

const char *input_directory(void)
{
	if (directory[0] == '\0') {
		snprintf(directory, sizeof directory, "%s/mxfp-fuzz-XXXXXX", parent());
		fuzz_check(mkdtemp(directory) != NULL, "a directory in TMPDIR can be made");
		atexit(remove_directory);
	}
	return directory;
}

void input_member(const char *name, struct fuzz_bytes *bytes, size_t n)
{
	char member[512];

	snprintf(member, sizeof member, "%s/%s", input_directory(), name);
	const int fd = open(member, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	fuzz_check(fd >= 0, "a file of the directory can be made");
	if (n > bytes->size)
		n = bytes->size;
	fill(fd, bytes->data, n);
	close(fd);
	bytes->data += n;
	bytes->size -= n;
}

void input_remove(const char *what)
{
	DIR *there = unlink(what) != 0 ? opendir(what) : NULL;
	struct dirent *entry;
	char member[512];

	if (there == NULL)
		return;
	while ((entry = readdir(there)) != NULL) {
		snprintf(member, sizeof member, "%.200s/%s", what, entry->d_name);
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			input_remove(member);
	}
	closedir(there);
	rmdir(what);
}
