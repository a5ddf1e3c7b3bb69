/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "input_file.h"

#include <unistd.h>

#include "fuzz.h"

static char path[256];

static void remove_file(void)
{
	unlink(path);
}

const char *input_file(const uint8_t *data, size_t size, const char *suffix)
{
	static int fd = -1;
	const char *parent = getenv("TMPDIR");

	if (fd < 0) {
		snprintf(path, sizeof path, "%s/mxfp-fuzz-XXXXXX%s", parent != NULL ? parent : P_tmpdir, suffix);
		fd = mkstemps(path, (int)strlen(suffix));
		fuzz_check(fd >= 0, "a file in TMPDIR can be made");
		atexit(remove_file);
	}
	fuzz_check(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size, "the file can be written");
	return path;
}
