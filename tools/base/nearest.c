/* SPDX-License-Identifier: MIT */
/* Finds what a word means: by the table of what others call it (alias.def), by edit distance: insertions, deletions, replacements and
   swaps of neighbours (optimal string alignment), and by how it begins. Case does not matter. */
#include "config.h"

#include "base/nearest.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/word.h"

/* The longest word that is compared; most names are shorter. The most entries of a directory that are searched. */
enum { LENGTH_MAX = 127, ENTRIES_MAX = 10000 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Returns the edit distance. Keeps the three rows of the table that the recurrence uses; rows[0] is the oldest. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][LENGTH_MAX + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[2][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		memcpy(rows[0], rows[1], sizeof rows[0]);
		memcpy(rows[1], rows[2], sizeof rows[1]);
		rows[2][0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			rows[2][j] = least(rows[1][j - 1] + !same(a[i - 1], b[j - 1]),
			                   least(rows[1][j], rows[2][j - 1]) + 1);
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				rows[2][j] = least(rows[2][j], rows[0][j - 2] + 1);
		}
	}
	return rows[2][b_length];
}

static bool is_called(const char *candidate, const char *word)
{
	static const struct {
		const char *word, *name;
	} rows[] = {
#define ALIAS(word, name) {word, name},
#include "base/alias.def"
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strcasecmp(rows[i].word, word) == 0 && strcmp(rows[i].name, candidate) == 0)
			return true;
	return false;
}

/* Whether one is how the other begins, up to a '-' or the like if that is the known word: "compressed", "nvfp4-w4a4". */
static bool begins(const char *word, size_t length, const char *candidate, size_t candidate_length)
{
	const size_t n = least(length, candidate_length);

	return n > 1 && strncasecmp(word, candidate, n) == 0 && (length <= n || !isalnum((unsigned char)word[n]));
}

void nearest_offer(struct nearest *nearest, const char *candidate)
{
	size_t length = strlen(nearest->word), candidate_length = strlen(candidate), d = 0;

	if (length > LENGTH_MAX || candidate_length > LENGTH_MAX)
		return;
	if (!is_called(candidate, nearest->word)) {
		d = distance(nearest->word, length, candidate, candidate_length) + 1;
		/* Up to a third of the letters wrong counts as a typing error, more as another word. */
		if (d > (length + 2) / 3 + 1) {
			if (!begins(nearest->word, length, candidate, candidate_length))
				return;
			d += LENGTH_MAX;
		}
	}
	if (nearest->best == NULL || d < nearest->distance) {
		nearest->best = candidate;
		nearest->distance = d;
	}
}

int nearest_fail(const char *where, const char *word, const char *title, const char *const *names, size_t n,
                 struct error *error)
{
	struct nearest nearest = {.word = word};
	char known[512] = "", meant[LENGTH_MAX + 32] = "", cut[WORD_CUT];

	for (size_t i = 0; i < n; i++) {
		size_t used = strlen(known);

		nearest_offer(&nearest, names[i]);
		snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", names[i]);
	}
	if (nearest.best != NULL)
		snprintf(meant, sizeof meant, ": did you mean '%s'?", nearest.best);
	return fail(error, EXIT_USAGE, "%s: unknown value '%s'%s (%s: %s)", where, word_cut(word, cut), meant, title, known);
}

int nearest_fail_open(const char *path, struct error *error)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
	const int folder = (int)(name - path), missing = errno;
	struct nearest nearest = {.word = name};
	char text[4096], best[LENGTH_MAX + 1] = "";
	const struct dirent *entry;
	int code = fail_errno(error, path, "cannot open");

	snprintf(text, sizeof text, "%.*s", folder, path);
	DIR *directory = missing == ENOENT && strlen(name) > 2 ? opendir(folder == 0 ? "." : text) : NULL;
	for (int n = 0; n < ENTRIES_MAX && directory != NULL && (entry = readdir(directory)) != NULL; n++) {
		if (entry->d_name[0] != '.')
			nearest_offer(&nearest, entry->d_name);
		if (nearest.best == entry->d_name)
			nearest.best = strcpy(best, entry->d_name); /* the next readdir() takes the entry's place */
	}
	if (directory != NULL)
		closedir(directory);
	if (missing != ENOENT)
		return code;
	snprintf(text, sizeof text, "%s", error->text);
	if (nearest.best != NULL)
		fail(error, code, "%s: did you mean '%.*s%s'?", text, folder, path, nearest.best);
	else
		fail(error, code, "%s; check the path", text);
	return code;
}
