/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/remote.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"

enum { NAME_MAX_BYTES = 96 }; /* of a user and of a repository, by huggingface_hub's validate_repo_id() */

static const char name_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

/* What a path of the Hub begins with; llama.cpp, vLLM and browsers write these. */
static const char *const hubs[] = {
	"hf://", "https://huggingface.co/", "http://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/",
};

/* The bytes of USER/NAME that a text begins with; 0: it does not. */
static size_t id_length(const char *text)
{
	const size_t user = strspn(text, name_letters);

	if (user == 0 || user > NAME_MAX_BYTES || text[user] != '/')
		return 0;
	const size_t name = strspn(text + user + 1, name_letters);
	const bool ends = text[user + 1 + name] == '\0' || strchr("/:@", text[user + 1 + name]) != NULL;
	return name == 0 || name > NAME_MAX_BYTES || !ends ? 0 : user + 1 + name;
}

static const char *after_hub(const char *path)
{
	for (size_t i = 0; i < sizeof hubs / sizeof hubs[0]; i++)
		if (strncmp(path, hubs[i], strlen(hubs[i])) == 0)
			return path + strlen(hubs[i]);
	return NULL;
}

/* The id that a path without a hub before it may be: USER/NAME, where NAME does not end as those of files do, and there is
   no directory USER. */
static size_t bare_id_length(const char *path)
{
	const size_t n = id_length(path), user = strcspn(path, "/");
	const char *dot = strrchr(path, '.');
	char folder[NAME_MAX_BYTES + 1];

	if (n == 0 || path[n] != '\0' || path[0] == '.' || (dot != NULL && isalpha((unsigned char)dot[1])))
		return 0;
	snprintf(folder, sizeof folder, "%.*s", (int)user, path);
	return access(folder, F_OK) == 0 ? 0 : n;
}

/* "hf download ID --local-dir NAME" */
static int fail_hub(const char *path, const char *id, size_t n, const char *when, struct error *error)
{
	const size_t user = strcspn(id, "/");

	return fail(error, EXIT_IO, "%s: there is no such file or directory; %s: hf download %.*s --local-dir %.*s", path, when,
	            (int)n, id, (int)(n - user - 1), id + user + 1);
}

int remote_fail_open(const char *path, struct error *error)
{
	const char *id = after_hub(path);

	if (errno != ENOENT)
		return nearest_fail_open(path, error);
	const size_t n = id != NULL ? id_length(id) : bare_id_length(path);
	if (n > 0)
		return fail_hub(path, id != NULL ? id : path, n, id != NULL ? "mxfp reads local files, so download the model and name its "
		                "directory" : "if it is a model of the Hugging Face Hub, download it and name its directory", error);
	if (strstr(path, "://") != NULL)
		return fail(error, EXIT_IO, "%s: is a URL; mxfp reads local files: download it, and name what was downloaded", path);
	errno = ENOENT;
	return nearest_fail_open(path, error);
}
