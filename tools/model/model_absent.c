/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/model_absent.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suffix.h"
#include "io/directory.h"
#include "model/model.h"

enum { ENTRIES_MAX = 10000, ENTRY_TEXT = 256, REVISION_TEXT = 128, TEXT = 1024 };

/* Pickles can run any code, so nothing here reads them. */
#define PICKLES "PyTorch's; from_pretrained() and save_pretrained() of transformers make model.safetensors of them"
#define DOWNLOAD "the download is not complete; run it again"

/*
 * An entry that begins and ends so shows what a directory is: `what`, or `several` if there are more that do. The name of the
 * first stands for '@', the directory's for '$'. The first row that fits counts.
 */
static const struct sign {
	const char *begin, *end, *what, *several;
} signs[] = {
	{"models--", "", "it is the cache of the Hugging Face Hub; name a directory in $/@/snapshots", NULL},
	{"", ".incomplete", "'@' shows that " DOWNLOAD, NULL},
	{"", ".crdownload", "'@' shows that " DOWNLOAD, NULL},
	{"", ".aria2", "'@' shows that " DOWNLOAD, NULL},
	{"", ".safetensors.part", "'@' shows that " DOWNLOAD, NULL},
	{"adapter_model.", "", "'@' is an adapter (LoRA); merge_and_unload() of PEFT makes a model of it and its base", NULL},
	{"adapters.", "", "'@' is an adapter (LoRA) of MLX; mlx_lm.fuse makes a model of it and its base", NULL},
	{"adapter_config.json", "", "'@' is of an adapter (LoRA) whose weights are not here; name a model", NULL},
	{"model_index.json", "", "it is a pipeline of diffusers; name the weights of a part, such as "
	 "$/transformer/diffusion_pytorch_model.safetensors", NULL},
	{"", MODEL_INDEX_SUFFIX, "name $/@", NULL},
	{"", "-of-00001.safetensors", "name $/@", NULL},
	{"model-0", ".safetensors", "it has shards such as '@' and not the index that lists them; download that, too", NULL},
	{"", ".safetensors", "name $/@", "name a file, such as $/@"},
	{"", ".gguf", "name $/@", "name a file, such as $/@"},
	{"pytorch_model", ".bin", "its weights ('@') are " PICKLES, NULL},
	{"", ".bin.index.json", "its weights are " PICKLES, NULL},
	{"", ".pth", "its weights ('@') are " PICKLES, NULL},
	{"", ".pt", "its weights ('@') are " PICKLES, NULL},
	{"", ".ckpt", "its weights ('@') are " PICKLES, NULL},
	{"", ".bin", "its weights ('@') are not in safetensors; convert them, or download those that are", NULL},
	{"", ".h5", "its weights ('@') are TensorFlow's; save them as safetensors", NULL},
	{"", ".msgpack", "its weights ('@') are Flax's; save them as safetensors", NULL},
	{"", ".onnx", "'@' is a graph of ONNX; give the model that it was exported from", NULL},
	{"", ".npz", "unpack '@' and name a .npy file", NULL},
	{"", ".npy", "name a file, such as $/@", NULL},
	{"config.json", "", "it has a '@' and no weights; download all files of the model", NULL},
	{"params.json", "", "it has a '@' and no weights; download all files of the model", NULL},
	{"tokenizer", "", "it has a tokenizer ('@') and no weights; download all files of the model", NULL},
	{".git", "", "it is a clone without weights; git lfs pull fetches them", NULL},
};

enum { N_SIGNS = sizeof signs / sizeof signs[0] };

struct seen {
	size_t n;
	char first[ENTRY_TEXT]; /* by name, for one message whatever the order of the entries */
};

static bool fits(const struct sign *sign, const char *name)
{
	return strncmp(name, sign->begin, strlen(sign->begin)) == 0 && strlen(name) < ENTRY_TEXT &&
	       (sign->end[0] == '\0' || suffix_stem(name, sign->end) > 0);
}

/* Looks at the entries of a directory and counts them; 0 too if it cannot be listed. */
static size_t look(const char *path, struct seen seen[N_SIGNS])
{
	DIR *directory = opendir(path);
	const char *name;
	size_t n = 0;

	memset(seen, 0, N_SIGNS * sizeof *seen);
	while (directory != NULL && n < ENTRIES_MAX && (name = directory_next(directory)) != NULL) {
		n++;
		for (size_t i = 0; i < N_SIGNS; i++)
			if (fits(&signs[i], name) && (seen[i].n++ == 0 || strcmp(name, seen[i].first) < 0))
				snprintf(seen[i].first, sizeof seen[i].first, "%s", name);
	}
	if (directory != NULL)
		closedir(directory);
	return n;
}

static void put_name(const char *what, const char *directory, const char *name, char *text, size_t size)
{
	for (size_t n = 0; *what != '\0' && n + 1 < size; what++) {
		const char one[] = {*what, '\0'};
		const int more = snprintf(text + n, size - n, "%s", *what == '$' ? directory : *what == '@' ? name : one);

		n += more > 0 ? (size_t)more : 0;
	}
}

/* The revision that a repository of the Hub's cache has: the first line of refs/main. */
static bool read_revision(const char *path, char revision[REVISION_TEXT])
{
	char *ref = directory_member(path, "refs/main");
	FILE *file = ref == NULL ? NULL : fopen(ref, "re");
	const bool read = file != NULL && fgets(revision, REVISION_TEXT, file) != NULL;

	if (file != NULL)
		fclose(file);
	free(ref);
	revision[read ? strcspn(revision, "\r\n") : 0] = '\0';
	return read && revision[0] != '\0' && strspn(revision, "0123456789abcdef") == strlen(revision);
}

/* A repository in the Hub's cache: EXIT_OK if it is not one. */
static int fail_cached(const char *path, struct error *error)
{
	char revision[REVISION_TEXT];
	char *snapshots = directory_member(path, "snapshots");

	if (snapshots == NULL)
		return fail_memory(error);
	const bool is_cached = access(snapshots, F_OK) == 0;
	free(snapshots);
	if (!is_cached)
		return EXIT_OK;
	if (read_revision(path, revision))
		return fail(error, EXIT_INPUT, "%s: is a repository in the cache of the Hugging Face Hub; name %s/snapshots/%s", path,
		            path, revision);
	return fail(error, EXIT_INPUT, "%s: is a repository in the cache of the Hugging Face Hub; name a directory in its snapshots",
	            path);
}

/* hf download --local-dir leaves unfinished files there. */
static int fail_downloading(const char *path, struct seen seen[N_SIGNS], struct error *error)
{
	char *below = directory_member(path, ".cache/huggingface/download");

	if (below == NULL)
		return fail_memory(error);
	look(below, seen);
	free(below);
	for (size_t i = 0; i < N_SIGNS; i++)
		if (seen[i].n > 0 && strcmp(signs[i].end, ".incomplete") == 0)
			return fail(error, EXIT_INPUT, "%s: has no weights: " DOWNLOAD, path);
	return EXIT_OK;
}

int model_fail_absent(const char *directory, struct error *error)
{
	struct seen seen[N_SIGNS];
	char text[TEXT] = "name a file or the directory of a model";
	int code = fail_cached(directory, error);

	if (code == EXIT_OK)
		code = fail_downloading(directory, seen, error);
	if (code != EXIT_OK)
		return code;
	if (look(directory, seen) == 0 && access(directory, R_OK) == 0)
		return fail(error, EXIT_INPUT, "%s: is empty; name a file or the directory of a model", directory);
	for (size_t i = 0; i < N_SIGNS; i++) {
		if (seen[i].n == 0)
			continue;
		put_name(seen[i].n > 1 && signs[i].several != NULL ? signs[i].several : signs[i].what, directory, seen[i].first,
		         text, sizeof text);
		break;
	}
	return fail(error, EXIT_INPUT, "%s: has no " MODEL_SINGLE " and no " MODEL_INDEX ": %s", directory, text);
}
