/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/room.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "io/directory.h"

/* What there is of a directory's file system. */
struct place {
	bool known;
	dev_t device;
	double free;
};

static int find_place(struct place *place, const char *path, struct error *error)
{
	char *parent = directory_of(path);
	struct statvfs system;
	struct stat status;

	*place = (struct place){.known = false};
	if (parent == NULL)
		return fail_memory(error);
	if (stat(parent, &status) == 0 && statvfs(parent, &system) == 0 && system.f_blocks > 0)
		*place = (struct place){true, status.st_dev, (double)system.f_bavail * (double)system.f_frsize};
	free(parent);
	return EXIT_OK;
}

int room_check(const struct room_need *needs, size_t n, const char *remedy, struct error *error)
{
	struct place own, other;
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		double bytes = 0;

		code = find_place(&own, needs[i].path, error);
		for (size_t j = 0; j < n && code == EXIT_OK; j++) {
			code = find_place(&other, needs[j].path, error);
			if (other.known && other.device == own.device)
				bytes += (double)needs[j].bytes;
		}
		if (code == EXIT_OK && own.known && bytes > own.free)
			return fail(error, EXIT_IO, "%s: %.0f bytes will be written to this disk, which has room for %.0f; %s",
			            needs[i].path, bytes, own.free, remedy);
	}
	return code;
}
