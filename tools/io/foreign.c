/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/foreign.h"

#include <string.h>

static const struct {
	const char *first;
	size_t n;
	const char *what;
} kinds[] = {
#define KIND(first, what) {first, sizeof first - 1, what}
	/* github.com/git-lfs/git-lfs, docs/spec.md: the first line of a pointer. */
	KIND("version https://", "is a git-lfs pointer, not the file it stands for; git lfs pull fetches that"),
	KIND("\x1f\x8b", "is compressed by gzip; decompress it with gunzip <FILE >NEW"),
	KIND("BZh", "is compressed by bzip2; decompress it with bunzip2 <FILE >NEW"),
	KIND("\xfd" "7zXZ", "is compressed by xz; decompress it with unxz <FILE >NEW"),
	KIND("\x28\xb5\x2f\xfd", "is compressed by zstd; decompress it with unzstd <FILE >NEW"),
	/* torch.save() since PyTorch 1.6. */
	KIND("PK\x03\x04", "is a zip archive, as torch.save() and numpy.savez() write; save its tensors with "
	     "safetensors.torch.save_file()"),
	/* Protocols 2 to 5; torch.save() before PyTorch 1.6. */
#define PICKLE "is a pickle, as torch.save() writes, and could run any code; save its tensors with " \
	"safetensors.torch.save_file()"
	KIND("\x80\x02", PICKLE),
	KIND("\x80\x03", PICKLE),
	KIND("\x80\x04", PICKLE),
	KIND("\x80\x05", PICKLE),
	KIND("\x89HDF\r\n", "is an HDF5 file; save its tensors as safetensors"),
	/* What huggingface.co answers, which curl saves without -f. */
#define ANSWER "is a server's message, not the file; see what it says, and download the file again"
	KIND("Entry not found", ANSWER),
	KIND("Invalid username", ANSWER),
	KIND("Access to model", ANSWER),
	KIND("Repository not f", ANSWER),
};

/* HTML and XML, behind white space or a byte-order mark. */
static int is_page(const char *first, size_t n)
{
	size_t at = n >= 3 && memcmp(first, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	while (at < n && first[at] != '\0' && strchr(" \t\r\n", first[at]) != NULL)
		at++;
	return n - at >= 2 && first[at] == '<' && first[at + 1] != '\0' &&
	       strchr("!?hH", first[at + 1]) != NULL;
}

int foreign_check(const char *path, const void *first, size_t n, struct error *error)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (n >= kinds[i].n && memcmp(first, kinds[i].first, kinds[i].n) == 0)
			return fail(error, EXIT_INPUT, "%s: %s", path, kinds[i].what);
	if (is_page(first, n))
		return fail(error, EXIT_INPUT, "%s: is a web page, not the file; the download failed or wants a login: "
		            "download the file again", path);
	return EXIT_OK;
}
