/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/suffix.h"
#include "io/elements.h"
#include "io/member.h"
#include "io/remote.h"
#include "model/model_absent.h"
#include "model/model_index.h"

/* Makes the path of a file in the model's directory, if there is such an entry; else *path is NULL. */
static int find_member(const struct model *model, const char *name, char **path, struct error *error)
{
	struct stat status;
	int code = EXIT_OK;

	*path = directory_member(model->directory, name);
	if (*path == NULL)
		return fail_memory(error);
	if (lstat(*path, &status) == 0)
		return EXIT_OK;
	if (errno != ENOENT)
		code = fail_errno(error, *path, "cannot open");
	free(*path);
	*path = NULL;
	return code;
}

static int add_file(struct model *model, descriptor_opener *opener, const char *path, struct error *error)
{
	struct file *file = &model->files[model->n_files];
	int code = file_open_by(opener, file, path, error);

	if (code != EXIT_OK)
		return code;
	model->n_files++;
	model->header_bytes += file->header_bytes;
	model->data_bytes += file->data_bytes;
	return EXIT_OK;
}

static int compare_tensors(const void *a, const void *b)
{
	const struct model_tensor *left = a, *right = b;

	return strcmp(left->tensor->name, right->tensor->name);
}

/* The slot of a name with that hash: the one that has it, or the free one that would. */
static struct model_slot *slot_of(const struct model *model, const char *name, uint64_t hash)
{
	for (size_t at = (size_t)(hash >> 32);; at++) {
		struct model_slot *slot = &model->slots[at & (model->n_slots - 1)];

		if (slot->number == 0 ||
		    (slot->hash == (uint32_t)hash && strcmp(model->by_name[slot->number - 1].tensor->name, name) == 0))
			return slot;
	}
}

static uint64_t hash_of(const char *name)
{
	return XXH3_64bits(name, strlen(name));
}

/* Makes the slots, at most half of which are taken. */
static int hash_names(struct model *model, struct error *error)
{
	free(model->slots);
	for (model->n_slots = 2; model->n_slots < 2 * model->n_tensors; model->n_slots *= 2)
		;
	model->slots = model->n_tensors < UINT32_MAX / 4 ? calloc(model->n_slots, sizeof *model->slots) : NULL;
	if (model->slots == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < model->n_tensors; i++) {
		const char *name = model->by_name[i].tensor->name;
		const uint64_t hash = hash_of(name);

		*slot_of(model, name, hash) = (struct model_slot){(uint32_t)hash, (uint32_t)i + 1};
	}
	return EXIT_OK;
}

/* Makes by_name once all files are open. */
static int index_tensors(struct model *model, struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < model->n_files; i++)
		n += model->files[i].n_tensors;
	model->by_name = calloc(n + 1, sizeof *model->by_name);
	if (model->by_name == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < model->n_files; i++)
		for (size_t k = 0; k < model->files[i].n_tensors; k++)
			model->by_name[model->n_tensors++] =
				(struct model_tensor){&model->files[i].tensors[k], &model->files[i]};
	qsort(model->by_name, n, sizeof *model->by_name, compare_tensors);
	return hash_names(model, error);
}

static int index_again(struct model *model, struct error *error)
{
	free(model->by_name);
	model->by_name = NULL;
	model->n_tensors = 0;
	return index_tensors(model, error);
}

const struct tensor *model_find(const struct model *model, const char *name, const struct file **file)
{
	const struct model_slot *found = model->n_tensors > 0 ? slot_of(model, name, hash_of(name)) : NULL;

	if (found == NULL || found->number == 0)
		return NULL;
	*file = model->by_name[found->number - 1].file;
	return model->by_name[found->number - 1].tensor;
}

static int open_single(struct model *model, descriptor_opener *opener, const char *path, struct error *error)
{
	model->files = calloc(1, sizeof *model->files);
	int code = model->files == NULL ? fail_memory(error) : add_file(model, opener, path, error);
	return code == EXIT_OK ? index_tensors(model, error) : code;
}

static int open_shard(struct model *model, const char *name, struct error *error)
{
	char *path = directory_member(model->directory, name);

	if (path == NULL)
		return fail_memory(error);
	int code = add_file(model, member_open, path, error);
	free(path);
	return code;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Opens each shard of the index once, in the order of their names. */
static int open_shards(struct model *model, const struct model_index *index, struct error *error)
{
	const char **names = calloc(index->n, sizeof(const char *));
	size_t n = 0;
	int code = EXIT_OK;

	if (names == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < index->n; i++)
		names[i] = index->entries[i].shard;
	qsort(names, index->n, sizeof *names, compare_strings);
	for (size_t i = 0; i < index->n; i++)
		if (i == 0 || strcmp(names[i], names[n - 1]) != 0)
			names[n++] = names[i];
	model->files = calloc(n, sizeof *model->files);
	if (model->files == NULL)
		code = fail_memory(error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		code = open_shard(model, names[i], error);
	free(names);
	return code == EXIT_OK ? index_tensors(model, error) : code;
}

/* Whether a shard has its own copy of a tensor. */
static bool shard_holds(const struct model *model, const char *shard, const char *name)
{
	for (size_t i = 0; i < model->n_files; i++)
		if (strcmp(model_file_name(&model->files[i]), shard) == 0)
			return file_find(&model->files[i], name) != NULL;
	return false;
}

/* Takes tensors out of a shard that the index sends to another one, which has them, too. */
static int supersede(struct model *model, struct file *file, const struct model_index *index, bool *keep,
                     struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *tensor = &file->tensors[i];
		const struct model_index_entry *entry = model_index_find(index, tensor->name);

		if (entry == NULL)
			return fail_tensor(error, file->path, tensor->name, "is not in the index; add it to weight_map, or take it out of "
			                   "the file");
		keep[i] = strcmp(entry->shard, model_file_name(file)) == 0;
		if (!keep[i] && !shard_holds(model, entry->shard, tensor->name))
			return fail_tensor(error, file->path, tensor->name, "the index sends it to shard '%s', which does not hold it; correct "
			                   "weight_map", entry->shard);
	}
	for (size_t i = 0; i < file->n_tensors; i++) {
		if (keep[i]) {
			file->tensors[n++] = file->tensors[i];
			continue;
		}
		if (model->n_superseded++ == 0)
			model->superseded = file->tensors[i].name;
		model->data_bytes -= file->tensors[i].size;
	}
	if (n == file->n_tensors)
		return EXIT_OK;
	free(file->by_name);
	file->by_name = NULL;
	file->n_tensors = n;
	return file_sort_tensors(file, error);
}

/* Every tensor of a shard is mapped, to that shard or to one that supersedes it. What is taken out of a
   shard is never what another is sent to. */
static int check_shards(struct model *model, const struct model_index *index, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < model->n_files && code == EXIT_OK; i++) {
		bool *keep = calloc(model->files[i].n_tensors + 1, sizeof *keep);

		code = keep == NULL ? fail_memory(error) : supersede(model, &model->files[i], index, keep, error);
		free(keep);
	}
	return code == EXIT_OK ? index_again(model, error) : code;
}

/* Every tensor of a shard is mapped to that shard, and every mapped tensor exists. */
static int check_index(struct model *model, const struct model_index *index, struct error *error)
{
	const struct file *file;
	int code = check_shards(model, index, error);

	for (size_t i = 0; i < index->n && code == EXIT_OK; i++)
		if (model_find(model, index->entries[i].tensor, &file) == NULL)
			code = fail_tensor(error, index->path, index->entries[i].tensor,
			                   "shard '%s' does not hold it; correct weight_map", index->entries[i].shard);
	return code;
}

static int open_index(struct model *model, descriptor_opener *opener, const char *path, struct error *error)
{
	struct model_index index;
	int code = model_index_read(&index, opener, path, error);

	model->has_index = true;
	if (code == EXIT_OK)
		code = open_shards(model, &index, error);
	if (code == EXIT_OK)
		code = check_index(model, &index, error);
	model_index_close(&index);
	return code;
}

/* Opens config.json if there is one. */
static int open_config(struct model *model, struct error *error)
{
	char *path;
	int code = find_member(model, CONFIG_FILE, &path, error);

	if (code != EXIT_OK || path == NULL)
		return code;
	code = json_read_python(member_open, path, CONFIG_BYTES_MAX, &model->config, error);
	if (code == EXIT_OK && !json_is_object(model->config))
		code = fail(error, EXIT_INPUT, "%s: is not a JSON object", path);
	free(path);
	return code;
}

/* The grid that an algorithm of ModelOpt has by its name: ModelOptFp8PbWoLinearMethod of vLLM. */
static json_int_t grid_of_algorithm(const json_t *section)
{
	const char *name = json_string_value(json_object_get(section, "quant_algo"));

	return name != NULL && (strcasecmp(name, "FP8_PB_WO") == 0 || strcasecmp(name, "FP8_BLOCK_SCALES") == 0) ? 128 : 0;
}

/* Takes note of the grid of a section; of two that differ, none. */
static void note_grid(struct model *model, const json_t *section, bool *noted)
{
	const json_t *size = json_object_get(section, "weight_block_size");
	const bool stated = json_array_size(size) == 2;
	const json_int_t rows = stated ? json_integer_value(json_array_get(size, 0)) : grid_of_algorithm(section);
	const json_int_t cols = stated ? json_integer_value(json_array_get(size, 1)) : rows;
	const bool same = !*noted || (model->grid[0] == (uint64_t)rows && model->grid[1] == (uint64_t)cols);

	if (rows <= 0 || cols <= 0)
		return;
	model->grid[0] = same ? (uint64_t)rows : 0;
	model->grid[1] = same ? (uint64_t)cols : 0;
	*noted = true;
}

static void read_grid(struct model *model)
{
	static const char name[] = "quantization_config";
	bool noted = false;
	const char *key;
	json_t *part;

	note_grid(model, json_object_get(model->config, name), &noted);
	json_object_foreach(model->config, key, part)
		note_grid(model, json_object_get(part, name), &noted);
}

static bool has_tensor(const void *model, const char *name)
{
	const struct file *file;

	return model_find(model, name, &file) != NULL;
}

/* Reads what may be of another model, and is nothing then. EXIT_MEMORY. */
static int read_beside(const char *path, json_t **json, struct error *error)
{
	struct error ignored;
	int code = access(path, F_OK) != 0 ? EXIT_INPUT
	                                   : json_read_python(descriptor_open, path, CONFIG_BYTES_MAX, json, &ignored);

	if (code != EXIT_OK || !json_is_object(*json)) {
		json_decref(*json);
		*json = NULL;
	}
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

int model_read_member(const struct model *model, const char *name, char **path, json_t **json, struct error *error)
{
	int code = EXIT_OK;

	*json = NULL;
	if (model->is_directory)
		code = find_member(model, name, path, error);
	else
		*path = directory_member(model->directory, name);
	if (code != EXIT_OK || (*path == NULL && model->is_directory))
		return code;
	if (*path == NULL)
		return fail_memory(error);
	if (!model->is_directory)
		return read_beside(*path, json, error);
	if (strcmp(name, CONFIG_FILE) == 0) {
		*json = json_incref(model->config);
		return EXIT_OK;
	}
	code = json_read_python(member_open, *path, CONFIG_BYTES_MAX, json, error);
	if (code == EXIT_OK && !json_is_object(*json))
		code = fail(error, EXIT_INPUT, "%s: is not a JSON object", *path);
	return code;
}

/* A config.json beside a file that the user named tells what its tensors are. */
static int read_role_config(struct model *model, struct error *error)
{
	json_t *beside = NULL;
	char *path = NULL;
	int code = EXIT_OK;

	if (model->is_directory) {
		role_model_read(&model->role_model, model->config);
		return EXIT_OK;
	}
	code = model_read_member(model, CONFIG_FILE, &path, &beside, error);
	if (beside != NULL)
		role_model_read(&model->role_model, beside);
	json_decref(beside);
	free(path);
	return code;
}

/* The usual name of a tensor beside codes, from the arena; *other is NULL if it has no other. */
static int usual_name(struct model *model, const char *name, const char **other, struct error *error)
{
	static const struct {
		const char *name, *read_as;
	} aliases[] = {
#define ALIAS(name, read_as, source) {"." name, read_as},
#include "model/alias.def"
	};
	const struct file *file;
	size_t n = 0, i = 0;

	*other = NULL;
	while (i < sizeof aliases / sizeof aliases[0] && (n = suffix_stem(name, aliases[i].name)) == 0)
		i++;
	if (n == 0)
		return EXIT_OK;
	char *text = arena_take(&model->arena, strlen(name) + sizeof ".weight");
	if (text == NULL)
		return fail_memory(error);
	sprintf(text, "%.*s.weight", (int)n, name);
	const struct tensor *codes = model_find(model, text, &file);
	if (codes == NULL || dtype_info(codes->dtype)->bits > 8)
		return EXIT_OK;
	sprintf(text, "%.*s.%s", (int)n, name, aliases[i].read_as);
	*other = model_find(model, text, &file) == NULL ? text : NULL;
	return EXIT_OK;
}

/* Gives tensors that one program calls otherwise their usual names. */
static int rename_aliases(struct model *model, struct error *error)
{
	bool any = false;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++) {
		struct file *file = &model->files[f];
		bool renamed = false;

		for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++) {
			const char *other;

			code = usual_name(model, file->tensors[i].name, &other, error);
			if (code == EXIT_OK && other != NULL) {
				file->tensors[i].name = other;
				renamed = true;
			}
		}
		if (!renamed)
			continue;
		any = true;
		free(file->by_name);
		file->by_name = NULL;
		if (code == EXIT_OK)
			code = file_sort_tensors(file, error);
	}
	return code == EXIT_OK && any ? index_again(model, error) : code;
}

/* Whether a tensor is of experts as gpt-oss alone has them, and whose file has no notes of ours about what was turned. */
static bool shows_gpt_oss(const struct model_tensor *at)
{
	static const char *const ends[] = {".mlp.experts.gate_up_proj_blocks", ".mlp.experts.down_proj_blocks", ".mlp.experts.gate_up_proj_bias",
	                                   ".mlp.experts.down_proj_bias"};

	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (suffix_stem(at->tensor->name, ends[i]) != 0)
			return file_metadata(at->file, METADATA_WEIGHTS) == NULL;
	return false;
}

/* The model_type that names tell if no config.json does, as beside a shard on its own: which dimension of experts is which
   depends on it. */
static void infer_type(struct model *model)
{
	for (size_t i = 0; i < model->n_tensors && model->role_model.type[0] == '\0'; i++)
		if (shows_gpt_oss(&model->by_name[i]))
			snprintf(model->role_model.type, sizeof model->role_model.type, "gpt_oss");
}

static int read_role_model(struct model *model, struct error *error)
{
	int code = read_role_config(model, error);

	model->role_model.has = has_tensor;
	model->role_model.tensors = model;
	infer_type(model);
	for (size_t i = 0; i < model->n_tensors && code == EXIT_OK; i++)
		role_model_see(&model->role_model, model->by_name[i].tensor);
	return code;
}

static bool names_single(const struct model *model)
{
	for (size_t i = 0; i < model->n_files; i++)
		if (strcmp(model_file_name(&model->files[i]), MODEL_SINGLE) == 0)
			return true;
	return false;
}

/* Opens the files of a directory by its index or, without one, its only file. */
static int open_members(struct model *model, struct error *error)
{
	char *index = NULL, *single = NULL;
	int code = find_member(model, MODEL_INDEX, &index, error);

	if (code == EXIT_OK)
		code = find_member(model, MODEL_SINGLE, &single, error);
	if (code == EXIT_OK && index != NULL)
		code = open_index(model, member_open, index, error);
	else if (code == EXIT_OK && single != NULL)
		code = open_single(model, member_open, single, error);
	else if (code == EXIT_OK)
		code = model_fail_absent(model->path, error);
	if (code == EXIT_OK && index != NULL && single != NULL && !names_single(model))
		code = fail(error, EXIT_INPUT, "%s: holds both " MODEL_INDEX " and " MODEL_SINGLE "; name one of them",
		            model->path);
	free(index);
	free(single);
	return code;
}

enum { PHRASE_BYTES = 256 };

/* A tensor *`suffix`, beside one named *`companion` of at most `bits` bits if that is given, shows the layout. */
static const struct sign {
	const char *suffix, *companion;
	unsigned bits;
	const char *phrase;
} signs[] = {
	{".weight_packed", NULL, 0, "tensors named *.weight_packed, as compressed-tensors writes"},
	{".weight_sparse", ".weight_mask", 8, "tensors named *.weight_sparse and *.weight_mask, as mxfp quantize writes"},
	{"_e2m1_x4", NULL, 0, "tensors named *_e2m1_x4, in tiles for Trainium"},
	{"_e4m3_x4", NULL, 0, "tensors named *_e4m3_x4, in tiles for Trainium"},
	{"_e5m2_x4", NULL, 0, "tensors named *_e5m2_x4, in tiles for Trainium"},
	{"_blocks", "_scales", 8, "tensors named *_blocks and *_scales, as in gpt-oss"},
	{".blocks", ".scales", 8, "tensors named *.blocks and *.scales, as in OpenAI's gpt-oss"},
	{".scales", ".weight", 32, "tensors named *.scales beside *.weight of words, as MLX writes"},
	{".weight_scale", ".weight", 8, "tensors named *.weight_scale beside *.weight of 8 bits"},
	{".weight_scale_inv", ".weight", 8, "tensors named *.weight_scale_inv beside *.weight of 8 bits"},
};

/* The keys of quantization_config that name the method and the format, in the order of the phrase. */
static const char *const config_keys[] = {"quant_method", "format", "quant_algo"};

static int from_config(const json_t *quantization, char *phrase, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < sizeof config_keys / sizeof config_keys[0]; i++) {
		const char *value = json_string_value(json_object_get(quantization, config_keys[i]));

		if (value != NULL && n < size)
			n += (size_t)snprintf(phrase + n, size - n, "%s%.64s", n == 0 ? "" : ", ", value);
	}
	if (n == 0)
		snprintf(phrase, size, "quantization_config in config.json");
	return 1;
}

/* Whether the tensor at hand is the first of the sign's pair and the other is there too. 1, 0, or -1 without
   memory. */
static int shows(const struct model *model, const char *name, const struct sign *sign)
{
	size_t n = suffix_stem(name, sign->suffix);
	const struct file *file;

	if (n == 0)
		return 0;
	if (sign->companion == NULL)
		return 1;
	size_t size = n + strlen(sign->companion) + 1;
	char *companion = malloc(size);
	if (companion == NULL)
		return -1;
	snprintf(companion, size, "%.*s%s", (int)n, name, sign->companion);
	const struct tensor *other = model_find(model, companion, &file);
	free(companion);
	return other != NULL && dtype_info(other->dtype)->bits <= sign->bits && !elements_are_float(other->dtype);
}

/* Whether a tensor's dtype alone shows it. */
static bool has_blocks(const struct tensor *tensor, char *phrase, size_t size)
{
	const struct dtype_info *info = dtype_info(tensor->dtype);

	if (info->block_elements > 1)
		snprintf(phrase, size, "tensors of ggml's type %s", info->name);
	return info->block_elements > 1;
}

/* The sign that a file's tensors show: 1 and the phrase, 0, or -1 without memory. */
static int from_tensors(const struct model *model, const struct file *file, char *phrase, size_t size)
{
	for (size_t i = 0; i < file->n_tensors; i++) {
		if (has_blocks(&file->tensors[i], phrase, size))
			return 1;
		for (size_t k = 0; k < sizeof signs / sizeof signs[0]; k++) {
			int shown = shows(model, file->tensors[i].name, &signs[k]);

			if (shown > 0)
				snprintf(phrase, size, "%s", signs[k].phrase);
			if (shown != 0)
				return shown;
		}
	}
	return 0;
}

/* Finds what model_quantized_by() tells of a model whose files and config are open: malloc'ed, NULL for nothing. */
static int find_quantizer(const struct model *model, char **phrase, struct error *error)
{
	const json_t *quantization = json_object_get(model->config, "quantization_config");
	char text[PHRASE_BYTES];
	int found = 0;

	if (quantization != NULL && !json_is_null(quantization) && (!json_is_object(quantization) || json_object_size(quantization) > 0))
		found = from_config(quantization, text, sizeof text);
	for (size_t i = 0; i < model->n_files && found == 0; i++)
		found = from_tensors(model, &model->files[i], text, sizeof text);
	*phrase = found > 0 ? strdup(text) : NULL;
	return found < 0 || (found > 0 && *phrase == NULL) ? fail_memory(error) : EXIT_OK;
}

/* The part of model_open() after which model_close() cleans up. */
static int open_path(struct model *model, const char *path, struct error *error)
{
	struct stat status;
	int code;

	model->path = strdup(path);
	if (model->path == NULL)
		return fail_memory(error);
	if (stat(path, &status) != 0)
		return remote_fail_open(path, error);
	model->directory = S_ISDIR(status.st_mode) ? strdup(path) : member_directory(path);
	if (model->directory == NULL)
		return fail_memory(error);
	model->is_directory = S_ISDIR(status.st_mode) || suffix_stem(path, MODEL_INDEX_SUFFIX) != 0;
	if (!model->is_directory)
		code = open_single(model, descriptor_open, path, error);
	else if (S_ISDIR(status.st_mode))
		code = open_members(model, error);
	else
		code = open_index(model, descriptor_open, path, error);
	if (code == EXIT_OK)
		code = rename_aliases(model, error);
	if (code == EXIT_OK && model->is_directory)
		code = open_config(model, error);
	read_grid(model);
	if (code == EXIT_OK)
		code = read_role_model(model, error);
	return code != EXIT_OK ? code : find_quantizer(model, &model->quantized_by, error);
}

int model_open_any_order(struct model *model, const char *path, struct error *error)
{
	*model = (struct model){0};
	int code = open_path(model, path, error);
	if (code != EXIT_OK)
		model_close(model);
	return code;
}

int model_open(struct model *model, const char *path, struct error *error)
{
	int code = model_open_any_order(model, path, error);

	for (size_t i = 0; code == EXIT_OK && i < model->n_files; i++)
		code = file_check_rows(&model->files[i], error);
	if (code != EXIT_OK)
		model_close(model);
	return code;
}

/* The tensors of one expert: gate and up, or down. False without memory. */
static bool split_expert(struct arena *arena, const struct tensor *whole, bool turned, uint64_t expert,
                         const char *const *names, size_t n, struct tensor *parts)
{
	const uint64_t in = whole->shape[turned ? 1 : 2], all = whole->shape[turned ? 2 : 1], out = all / n;
	const uint64_t width = dtype_info(whole->dtype)->bits / 8;
	const int stem = (int)(strrchr(whole->name, '.') - whole->name);

	for (size_t i = 0; i < n; i++) {
		uint64_t *shape = arena_take(arena, 2 * sizeof *shape);
		const size_t size = strlen(whole->name) + 64;
		char *name = arena_take(arena, size);

		if (shape == NULL || name == NULL)
			return false;
		shape[0] = out;
		shape[1] = in;
		snprintf(name, size, "%.*s.%" PRIu64 ".%s.weight", stem, whole->name, expert, names[i]);
		parts[i] = (struct tensor){
			.name = name,
			.dtype = whole->dtype,
			.rank = 2,
			.shape = shape,
			.by_columns = turned,
			.pitch = turned ? all : 0,
			.decoder = whole->decoder,
			.offset = whole->offset + (expert * in * all + i * out * (turned ? 1 : in)) * width,
			.size = out * in * width,
		};
	}
	return true;
}

/* More experts than any model has are not split, and of all layers together refused, because tensors without much data
   could be very many. Qwen3.5 has 512 in each of 60 layers, which are 92,160 tensors. */
enum { EXPERTS_MAX = 1 << 16, SPLIT_MAX = 1 << 18 };

static bool is_split(const struct model *model, const struct tensor *tensor, const struct model_keeps *keeps, bool *turned)
{
	if (tensor->rank != 3 || !elements_are_float(tensor->dtype) || tensor->size == 0 || tensor->shape[0] > EXPERTS_MAX)
		return false;
	const struct role role = role_of(&model->role_model, tensor);
	*turned = role.axis == ROLE_TURNED;
	return role.kind == ROLE_SEQUENTIAL && role.axis != ROLE_UNKNOWN &&
	       (role_makes_hidden(tensor->name) || tensor->shape[*turned ? 2 : 1] % 2 == 0) &&
	       (keeps == NULL || !keeps->whole(keeps->context, tensor->name));
}

static int split_in_file(struct model *model, struct file *file, const struct model_keeps *keeps, struct error *error)
{
	static const char *const gate_up[] = {"gate_proj", "up_proj"}, *const down[] = {"down_proj"};
	size_t n = file->n_tensors, at = 0;
	bool turned;

	for (size_t i = 0; i < file->n_tensors; i++)
		if (is_split(model, &file->tensors[i], keeps, &turned))
			n += 2 * (size_t)file->tensors[i].shape[0];
	if (n == file->n_tensors)
		return EXIT_OK;
	struct tensor *tensors = calloc(n + 1, sizeof *tensors), *whole = file->tensors;
	if (tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_tensors; i++) {
		const bool makes = role_makes_hidden(whole[i].name);

		if (!is_split(model, &whole[i], keeps, &turned)) {
			tensors[at++] = whole[i];
			continue;
		}
		model->split_rows |= !turned;
		model->split_columns |= turned;
		for (uint64_t e = 0; e < whole[i].shape[0]; e++, at += makes ? 1 : 2)
			if (!split_expert(&model->arena, &whole[i], turned, e, makes ? down : gate_up, makes ? 1 : 2, &tensors[at])) {
				free(tensors);
				return fail_memory(error);
			}
	}
	free(file->by_name);
	free(whole);
	file->by_name = NULL;
	file->tensors = tensors;
	file->n_tensors = at;
	return file_sort_tensors(file, error);
}

static int check_split(const struct model *model, const struct model_keeps *keeps, struct error *error)
{
	uint64_t n = 0;
	bool turned;

	for (size_t i = 0; i < model->n_tensors; i++)
		if (is_split(model, model->by_name[i].tensor, keeps, &turned))
			n += model->by_name[i].tensor->shape[0] * (role_makes_hidden(model->by_name[i].tensor->name) ? 1 : 2);
	return n <= SPLIT_MAX ? EXIT_OK :
	       fail(error, EXIT_INPUT, "%s: its experts would be %" PRIu64 " tensors, more than the %d allowed; "
	            "no model has that many", model->path, n, SPLIT_MAX);
}

static int compare_addresses(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)*(const struct tensor *const *)a, y = (uintptr_t)*(const struct tensor *const *)b;

	return x < y ? -1 : x > y;
}

int tensor_list_add(struct tensor_list *list, const struct tensor *tensor, struct error *error)
{
	if ((list->n & (list->n + 1)) == 0) {
		const struct tensor **items = realloc(list->items, (2 * list->n + 2) * sizeof(const struct tensor *));

		if (items == NULL)
			return fail_memory(error);
		list->items = items;
	}
	list->items[list->n++] = tensor;
	return EXIT_OK;
}

/* Takes the listed tensors out of a file. */
static int remove_from(struct file *file, const struct tensor_list *list, struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *at = &file->tensors[i];

		if (bsearch(&at, list->items, list->n, sizeof(const struct tensor *), compare_addresses) == NULL)
			file->tensors[n++] = file->tensors[i];
	}
	file->n_tensors = n;
	free(file->by_name);
	file->by_name = NULL;
	return file_sort_tensors(file, error);
}

int model_remove(struct model *model, struct tensor_list *list, struct error *error)
{
	int code = EXIT_OK;

	if (list->n == 0)
		return EXIT_OK;
	qsort(list->items, list->n, sizeof(const struct tensor *), compare_addresses);
	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++)
		code = remove_from(&model->files[f], list, error);
	return code == EXIT_OK ? index_again(model, error) : code;
}

int model_split_experts(struct model *model, const struct model_keeps *keeps, struct error *error)
{
	int code = check_split(model, keeps, error);

	if (code != EXIT_OK)
		return code;
	for (size_t i = 0; i < model->n_files && code == EXIT_OK; i++)
		code = split_in_file(model, &model->files[i], keeps, error);
	return code == EXIT_OK ? index_again(model, error) : code;
}

int model_split_like(struct model *model, const struct model *like, struct error *error)
{
	bool each = false;

	for (size_t i = 0; i < like->n_tensors && !each; i++)
		each = strstr(like->by_name[i].tensor->name, ".experts.0.") != NULL;
	return each ? model_split_experts(model, NULL, error) : EXIT_OK;
}

void model_close(struct model *model)
{
	for (size_t i = 0; i < model->n_files; i++)
		file_close(&model->files[i]);
	free(model->files);
	free(model->by_name);
	free(model->slots);
	free(model->path);
	free(model->directory);
	free(model->quantized_by);
	free(model->decoded_from);
	json_decref(model->config);
	arena_free(&model->arena);
	*model = (struct model){0};
}

const char *model_file_name(const struct file *file)
{
	const char *slash = strrchr(file->path, '/');

	return slash == NULL ? file->path : slash + 1;
}

const char *model_quantized_by(const struct model *model)
{
	return model->quantized_by;
}
