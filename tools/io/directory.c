/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/suffix.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "io/file_safetensors.h"
#include "io/json.h"
#include "io/member.h"
#include "io/output.h"
#include "io/walk.h"

enum { COPY_BYTES = 1 << 16 };

char *directory_member(const char *directory, const char *name)
{
	size_t n = strlen(directory), size = n + strlen(name) + sizeof "/";
	char *path = malloc(size);

	if (path != NULL)
		snprintf(path, size, "%s%s%s", directory, n > 0 && directory[n - 1] == '/' ? "" : "/", name);
	return path;
}

/* What mxfp noted in a directory that it wrote; all NULL if it did not. */
struct notes {
	json_t *own;     /* quantization_config.mxfp of config.json */
	json_t *carried; /* the names of the files that were copied there */
};

/* Reads the notes in config.json. EXIT_MEMORY. */
static int read_config(const char *path, struct notes *notes, struct error *error)
{
	char *config = directory_member(path, CONFIG_FILE);
	struct error ignored;
	json_t *json = NULL;

	if (config == NULL)
		return fail_memory(error);
	int code = json_read_python(descriptor_open, config, CONFIG_BYTES_MAX, &json, &ignored);
	if (code == EXIT_OK) {
		notes->own = json_incref(json_object_get(json_object_get(json, "quantization_config"), "mxfp"));
		notes->carried = json_incref(json_object_get(notes->own, DIRECTORY_CARRIED));
	}
	json_decref(json);
	free(config);
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

/* Whether such a name is listed, or one of a file in the directory of such a name. */
static bool is_listed(const json_t *names, const char *name, bool directory)
{
	const size_t n = strlen(name);

	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *listed = json_string_value(json_array_get(names, i));

		if (listed != NULL && strncmp(listed, name, n) == 0 && listed[n] == (directory ? '/' : '\0'))
			return true;
	}
	return false;
}

static bool is_weights(const char *name)
{
	return suffix_stem(name, file_safetensors.suffix) != 0;
}

/* Whether a file tells whose directory it is in. */
static bool is_telling(const char *name)
{
	return is_weights(name) || strcmp(name, PART_FILE) == 0;
}

/* What check_name() sees. */
struct names {
	const char *path;
	const json_t *carried;
};

/* Whether such an entry can be mxfp's, by its kind and name. EXIT_USAGE. */
static int check_name(void *context, const struct walk_entry *entry, bool *enter, struct error *error)
{
	const struct names *names = context;
	const bool on_top = entry->depth == 0 && (is_weights(entry->name) || suffix_stem(entry->name, ".json") != 0);
	bool ours = false;

	if (S_ISDIR(entry->status.st_mode))
		ours = *enter = is_listed(names->carried, entry->name, true);
	else if (S_ISREG(entry->status.st_mode))
		ours = on_top || is_listed(names->carried, entry->name, false);
	return ours ? EXIT_OK : fail(error, EXIT_USAGE, "%s: holds '%s', which mxfp does not write, so it is not replaced"
	                             "; name another directory", names->path, entry->name);
}

/* Whether mxfp wrote a file of weights: metadata say so, which no other program writes, or keeps when it saves the model
   again; of a damaged file, config.json does. Takes what they list as carried, if anything. EXIT_MEMORY. */
static int look_at_weights(const char *path, bool *ours, struct notes *notes, struct error *error)
{
	struct file file;
	struct error ignored;
	int code = file_open_by(member_open, &file, path, &ignored);

	*ours = code != EXIT_OK && notes->own != NULL;
	if (code != EXIT_OK)
		return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
	for (size_t i = 0; i < file.n_metadata; i++)
		*ours |= metadata_is_own(file.metadata[i].key);
	const char *list = file_metadata(&file, METADATA_CARRIED);
	if (list != NULL && notes->carried == NULL) {
		json_prepare();
		notes->carried = json_loads(list, 0, NULL);
		code = json_out_of_memory() ? fail_memory(error) : EXIT_OK;
	}
	file_close(&file);
	return code;
}

/* All weights must be mxfp's, and there must be some, unless this is a part without, or nothing at all is there: an
   original model has other files of the same names. EXIT_USAGE, EXIT_IO, EXIT_MEMORY. */
static int check_weights(const char *path, DIR *directory, struct notes *notes, struct error *error)
{
	const char *name = NULL;
	bool known = false, empty = true, ours = true;
	int code = EXIT_OK;

	while (code == EXIT_OK && ours && (name = directory_next(directory)) != NULL) {
		empty = false;
		known |= is_telling(name);
		if (!is_weights(name))
			continue;
		char *member = directory_member(path, name);
		code = member == NULL ? fail_memory(error) : look_at_weights(member, &ours, notes, error);
		free(member);
	}
	if (code != EXIT_OK)
		return code;
	if (!ours)
		return fail(error, EXIT_USAGE, "%s: holds '%s', which mxfp did not write, by its metadata, so it is not "
		            "replaced; name another directory", path, name);
	if (errno != 0)
		return fail_errno(error, path, "cannot read");
	if (known || empty)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: holds files, but no weights that mxfp wrote, so it is not replaced"
	            "; name another directory", path);
}

int directory_check_ours(const char *path, struct error *error)
{
	DIR *directory = opendir(path);
	struct notes notes = {0};

	if (directory == NULL)
		return fail_errno(error, path, "cannot open");
	int code = read_config(path, &notes, error);
	if (code == EXIT_OK)
		code = check_weights(path, directory, &notes, error);
	if (code == EXIT_OK)
		code = directory_walk(path, check_name, &(struct names){path, notes.carried}, error);
	json_decref(notes.own);
	json_decref(notes.carried);
	closedir(directory);
	return code;
}

/* Removes an entry of the directory `at`, and what is below it. Symbolic links are not followed. */
static bool remove_entry(int at, const char *base, unsigned depth)
{
	bool removed = unlinkat(at, base, 0) == 0;
	const char *name;

	if (removed || (errno != EISDIR && errno != EPERM) || depth >= WALK_DEPTH)
		return removed;
	const int fd = openat(at, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	if (directory == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (removed = true; (name = directory_next(directory)) != NULL;)
		removed = remove_entry(fd, name, depth + 1) && removed;
	closedir(directory);
	return unlinkat(at, base, AT_REMOVEDIR) == 0 && removed;
}

/* In an order after a crash in which directory_check_ours() knows what is left: first what config.json or the weights
   may list as carried, then config.json, then the files that tell whose all this is. */
int directory_remove(const char *path)
{
	DIR *directory = opendir(path);
	const char *name;
	bool removed = true;

	if (directory == NULL)
		return -1;
	while ((name = directory_next(directory)) != NULL)
		if (strcmp(name, CONFIG_FILE) != 0 && !is_telling(name))
			removed = remove_entry(dirfd(directory), name, 0) && removed;
	removed = (unlinkat(dirfd(directory), CONFIG_FILE, 0) == 0 || errno == ENOENT) && removed;
	rewinddir(directory);
	while ((name = directory_next(directory)) != NULL)
		removed = remove_entry(dirfd(directory), name, 0) && removed;
	closedir(directory);
	return removed ? rmdir(path) : -1;
}

/* Opens a file for writing, new or replacing one. */
static int open_copy(const char *path)
{
	return unlink(path) != 0 && errno != ENOENT ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int copy_bytes(int source, const char *from, int target, const char *to, struct error *error)
{
	char bytes[COPY_BYTES];
	ssize_t n;
	uint64_t at = 0;
	int code = EXIT_OK;

	while (code == EXIT_OK && (n = read(source, bytes, sizeof bytes)) != 0) {
		if (n < 0 && errno != EINTR)
			return fail_errno(error, from, "cannot read");
		code = interrupt_check(error);
		if (code == EXIT_OK && n > 0)
			code = descriptor_write(target, to, at, bytes, (size_t)n, error);
		at += n > 0 ? (uint64_t)n : 0;
	}
	return code;
}

static int copy_file(const char *from, const char *to, struct error *error)
{
	uint64_t size;
	int source, code = member_open(from, &source, &size, error);

	if (code != EXIT_OK)
		return code;
	int target = open_copy(to);
	code = target < 0 ? fail_errno(error, to, "cannot create") : copy_bytes(source, from, target, to, error);
	close(source);
	if (code == EXIT_OK)
		return descriptor_finish(target, to, error);
	if (target >= 0)
		close(target);
	return code;
}

int directory_parents(const char *directory, const char *name, bool make, struct error *error)
{
	char *path = directory_member(directory, name);
	struct stat status;
	int code = EXIT_OK;

	if (path == NULL)
		return fail_memory(error);
	char *slash = path + strlen(path) - strlen(name);
	while (code == EXIT_OK && (slash = strchr(slash, '/')) != NULL) {
		*slash = '\0';
		if (make && mkdir(path, 0777) != 0 && errno != EEXIST)
			code = fail_errno(error, path, "cannot create");
		else if (lstat(path, &status) != 0)
			code = fail_errno(error, path, "cannot open");
		else if (!S_ISDIR(status.st_mode))
			code = fail(error, EXIT_INPUT, "%s: is not a directory, though the name of a file in it says so; name another "
			            "input or output", path);
		*slash++ = '/';
	}
	free(path);
	return code;
}

int directory_sync_parents(const char *directory, const char *name, struct error *error)
{
	char *path = directory_member(directory, name), *slash;
	const size_t n = path == NULL ? 0 : strlen(path) - strlen(name);
	int code = path == NULL ? fail_memory(error) : EXIT_OK;

	while (code == EXIT_OK && (slash = strrchr(path + n, '/')) != NULL) {
		*slash = '\0';
		code = directory_sync(path, error);
	}
	free(path);
	return code;
}

int directory_copy(const char *from, const char *to, const char *name, struct error *error)
{
	char *source = directory_member(from, name), *target = directory_member(to, name);
	int code = source == NULL || target == NULL ? fail_memory(error) : directory_parents(from, name, false, error);

	if (code == EXIT_OK)
		code = directory_parents(to, name, true, error);
	if (code == EXIT_OK)
		code = copy_file(source, target, error);
	free(source);
	free(target);
	return code == EXIT_OK ? directory_sync_parents(to, name, error) : code;
}

char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
}

int directory_sync(const char *path, struct error *error)
{
	return descriptor_sync_directory(path, error);
}
