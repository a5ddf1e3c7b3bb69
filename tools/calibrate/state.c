/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "calibrate/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "io/content.h"
#include "io/descriptor.h"
#include "quantize/ranks.h"

/* Before the codes of a matrix. */
struct head {
	uint64_t name_bytes, row, rows, cols, tokens;
	uint32_t format;
	float tensor_scale;
	uint8_t divides, narrow, pooled, unused[5];
	struct compensation done;
};

/* What the journal has of a layer: hashes of its two files. */
enum { RECORD_WEIGHTS, RECORD_NEXT, N_RECORDS };

static const char states_name[] = "states", weights_name[] = "weights";

static char *path_of(const struct state *state, const char *name, size_t layer)
{
	char file[64];

	snprintf(file, sizeof file, "%s-%zu", name, layer);
	return partial_state(state->partial, file);
}

static int open_file(int *fd, char **path, const struct state *state, const char *name, size_t layer, int flags,
                     struct error *error)
{
	free(*path);
	*path = path_of(state, name, layer);
	if (*path == NULL)
		return fail_memory(error);
	/* What stands where a new one is made may have another name. */
	if ((flags & O_CREAT) != 0 && unlink(*path) != 0 && errno != ENOENT)
		return fail_errno(error, *path, "cannot replace");
	*fd = open(*path, flags | O_NOFOLLOW | O_CLOEXEC, 0666);
	return *fd >= 0 ? EXIT_OK : fail_errno(error, *path, "cannot open");
}

static void close_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static struct state_weight *add_weight(struct state *state, const struct state_weight *weight, const char *name)
{
	struct state_weight *weights = realloc(state->weights, (state->n_weights + 1) * sizeof *weights);
	char *copy = strdup(name);

	if (weights != NULL)
		state->weights = weights;
	if (weights == NULL || copy == NULL) {
		free(copy);
		return NULL;
	}
	weights[state->n_weights] = *weight;
	weights[state->n_weights].name = copy;
	return &weights[state->n_weights++];
}

/* The bytes of codes and scales; 0: a file that says so is damaged. */
static size_t bytes_of(const struct state_weight *weight, size_t *codes_bytes)
{
	struct mxfp_sizes size;

	if (mxfp_blocks_size(&size, weight->format, weight->rows, weight->cols) != MXFP_OK)
		return 0;
	*codes_bytes = size.codes_bytes;
	return size.codes_bytes + size.scales_bytes;
}

static int hash_open_file(XXH128_hash_t *hash, int fd, const char *path, struct error *error)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return fail_errno(error, path, "cannot read");
	const struct content_range all = {0, (uint64_t)status.st_size};
	return content_hash_descriptor(hash, fd, path, &all, 1, 1, error);
}

/* Whether a file is what the journal says of it. EXIT_IO, EXIT_MEMORY. */
static int is_intact(bool *intact, const char *path, const struct journal_record *record, struct error *error)
{
	const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	XXH128_hash_t hash;

	*intact = false;
	if (fd < 0)
		return errno == ENOENT ? EXIT_OK : fail_errno(error, path, "cannot open");
	const int code = hash_open_file(&hash, fd, path, error);
	close(fd);
	*intact = code == EXIT_OK && XXH128_isEqual(hash, record->hash);
	return code;
}

/* Reads which matrices a layer's file has; sets *fit if all of it is what this run would have written. */
static int list_weights(struct state *state, size_t layer, const char *path, const struct state_plan *plan, bool *fit,
                        struct error *error)
{
	uint64_t size = 0, at = 0;
	int fd = -1, code = descriptor_open(path, &fd, &size, error);

	*fit = true;
	while (code == EXIT_OK && *fit && at < size) {
		struct head head;
		char name[1024];
		size_t codes;

		*fit = size - at >= sizeof head;
		if (*fit)
			code = descriptor_read(fd, path, at, &head, sizeof head, error);
		*fit = *fit && code == EXIT_OK && head.name_bytes < sizeof name && head.name_bytes <= size - at - sizeof head;
		if (*fit)
			code = descriptor_read(fd, path, at + sizeof head, name, (size_t)head.name_bytes, error);
		if (code != EXIT_OK || !*fit)
			break;
		name[head.name_bytes] = '\0';
		const struct state_weight weight = {
			.name = name, .layer = layer, .row = (size_t)head.row, .rows = (size_t)head.rows, .cols = (size_t)head.cols,
			.format = (enum mxfp_format)head.format, .tensor_scale = head.tensor_scale, .divides = head.divides != 0,
			.narrow = head.narrow != 0, .pooled = head.pooled != 0, .tokens = (size_t)head.tokens, .done = head.done,
			.at = at + sizeof head + head.name_bytes,
		};
		*fit = plan->fits(plan->context, &weight);
		const size_t bytes = *fit ? bytes_of(&weight, &codes) : 0;

		*fit = *fit && bytes <= size - weight.at;
		at = weight.at + bytes;
		if (*fit && add_weight(state, &weight, name) == NULL)
			code = fail_memory(error);
	}
	close_file(&fd);
	return code;
}

static void drop_weights(struct state *state, size_t n)
{
	while (state->n_weights > n)
		free(state->weights[--state->n_weights].name);
}

static const struct journal_record *record_of(const struct state *state, size_t layer, int file)
{
	return &state->records[N_RECORDS * layer + (size_t)file];
}

/* Reads the weights of a layer that an earlier run finished; else, or if its file is damaged, *intact is false. */
static int read_layer(struct state *state, size_t layer, const struct state_plan *plan, bool *intact, struct error *error)
{
	const size_t n = state->n_weights;

	*intact = record_of(state, layer, RECORD_WEIGHTS)->written && record_of(state, layer, RECORD_NEXT)->written;
	if (!*intact)
		return EXIT_OK;
	char *path = path_of(state, weights_name, layer);
	int code = path != NULL ? is_intact(intact, path, record_of(state, layer, RECORD_WEIGHTS), error) : fail_memory(error);
	if (code == EXIT_OK && *intact)
		code = list_weights(state, layer, path, plan, intact, error);
	if (!*intact)
		drop_weights(state, n);
	free(path);
	return code;
}

/* Whether the states before a layer are there: before the first one, and behind the last one, none are needed. */
static int has_states(const struct state *state, size_t layer, bool *intact, struct error *error)
{
	*intact = true;
	if (state->stateless || layer == 0 || layer == state->n_layers)
		return EXIT_OK;
	char *path = path_of(state, states_name, layer);
	const int code = path != NULL ? is_intact(intact, path, record_of(state, layer - 1, RECORD_NEXT), error) : fail_memory(error);
	free(path);
	return code;
}

/* What an earlier run did. */
static int read_layers(struct state *state, const struct state_plan *plan, size_t *first, struct error *error)
{
	const size_t n_layers = state->n_layers;
	bool intact = true;
	int code = journal_open(&state->journal, state->journal_path, state->records, N_RECORDS * n_layers, error);

	*first = 0;
	while (code == EXIT_OK && intact && *first < n_layers) {
		code = read_layer(state, *first, plan, &intact, error);
		*first += intact;
	}
	/* Where the states are damaged, the layers that made them run again. */
	for (intact = false; code == EXIT_OK && !intact;) {
		code = has_states(state, *first, &intact, error);
		*first -= !intact && code == EXIT_OK;
	}
	for (size_t n = state->n_weights; n > 0 && state->weights[n - 1].layer >= *first; n--)
		drop_weights(state, n - 1);
	return code;
}

int state_begin(struct state *state, const struct partial *partial, size_t n_layers, const struct state_plan *plan, size_t *first,
                struct error *error)
{
	*state = (struct state){
		.partial = partial,
		.journal_path = partial_journal(partial, "layers"),
		.journal.fd = -1,
		.records = calloc(N_RECORDS * n_layers + 1, sizeof *state->records),
		.n_layers = n_layers,
		.stateless = plan->stateless,
		.states = -1,
		.next = -1,
		.file = -1,
	};
	int code = state->journal_path != NULL && state->records != NULL ? EXIT_OK : fail_memory(error);

	if (code == EXIT_OK && ranks_own() == 0)
		code = read_layers(state, plan, first, error);
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		ranks_tell(0, first, sizeof *first);
	return code;
}

/* Opens the files of a layer's states, which rank 0 makes. */
static int open_states(struct state *state, size_t layer, struct error *error)
{
	const int new = ranks_own() == 0 ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR;

	if (state->stateless)
		return EXIT_OK;
	const int code = open_file(&state->states, &state->states_path, state, states_name, layer, layer == 0 ? new : O_RDONLY, error);

	return code == EXIT_OK && layer + 1 < state->n_layers
	               ? open_file(&state->next, &state->next_path, state, states_name, layer + 1, new, error) : code;
}

int state_open_layer(struct state *state, size_t layer, struct error *error)
{
	const bool first = ranks_own() == 0;
	int code = first ? open_states(state, layer, error) : EXIT_OK;

	if (code == EXIT_OK && first)
		code = open_file(&state->file, &state->file_path, state, weights_name, layer, O_RDWR | O_CREAT | O_TRUNC, error);
	state->file_bytes = 0;
	code = ranks_share(code, error);
	return code == EXIT_OK && !first ? open_states(state, layer, error) : code;
}

int state_read(const struct state *state, uint64_t first, float *x, size_t n, struct error *error)
{
	return descriptor_read(state->states, state->states_path, first * sizeof *x, x, n * sizeof *x, error);
}

int state_write(const struct state *state, uint64_t first, const float *x, size_t n, struct error *error)
{
	return descriptor_write(state->states, state->states_path, first * sizeof *x, x, n * sizeof *x, error);
}

int state_write_next(const struct state *state, uint64_t first, const float *x, size_t n, struct error *error)
{
	return descriptor_write(state->next, state->next_path, first * sizeof *x, x, n * sizeof *x, error);
}

static int append(struct state *state, const void *bytes, size_t n, struct error *error)
{
	const int code = descriptor_write(state->file, state->file_path, state->file_bytes, bytes, n, error);

	state->file_bytes += n;
	return code;
}

int state_add(struct state *state, const struct state_weight *weight, const struct mxfp_blocks *blocks, struct error *error)
{
	const struct head head = {
		.name_bytes = strlen(weight->name), .row = weight->row, .rows = weight->rows, .cols = weight->cols,
		.tokens = weight->tokens, .format = (uint32_t)weight->format, .tensor_scale = weight->tensor_scale,
		.divides = weight->divides, .narrow = weight->narrow, .pooled = weight->pooled, .done = weight->done,
	};
	size_t codes_bytes = 0;

	if (ranks_own() > 0)
		return EXIT_OK;
	struct state_weight *added = add_weight(state, weight, weight->name);
	const size_t bytes = bytes_of(weight, &codes_bytes);

	if (added == NULL)
		return fail_memory(error);
	int code = append(state, &head, sizeof head, error);
	if (code == EXIT_OK)
		code = append(state, weight->name, strlen(weight->name), error);
	added->at = state->file_bytes;
	if (code == EXIT_OK)
		code = append(state, blocks->codes, codes_bytes, error);
	return code == EXIT_OK ? append(state, blocks->scales, bytes - codes_bytes, error) : code;
}

/* Syncs a file, -1: none, and notes in the journal what it holds. */
static int note(struct state *state, size_t layer, int file, int fd, const char *path, struct error *error)
{
	const size_t number = N_RECORDS * layer + (size_t)file;
	struct journal_record *record = &state->records[number];
	int code = EXIT_OK;

	if (fd >= 0)
		code = hash_open_file(&record->hash, fd, path, error);
	if (code == EXIT_OK && fd >= 0)
		code = descriptor_sync(fd, path, error);
	return code == EXIT_OK ? journal_add(&state->journal, number, record, error) : code;
}

/* Waits until all ranks have written the states behind a layer; they have closed the file, and rank 0 opens it again, when on any
   file system it sees what they wrote. */
static int gather_states(struct state *state, size_t layer, struct error *error)
{
	const bool any = state->next >= 0;
	int code = EXIT_OK;

	if (any && ranks_number() > 1) {
		code = descriptor_sync(state->next, state->next_path, error);
		close_file(&state->next);
	}
	code = ranks_share(code, error);
	return code == EXIT_OK && any && ranks_number() > 1 && ranks_own() == 0
	               ? open_file(&state->next, &state->next_path, state, states_name, layer + 1, O_RDWR, error) : code;
}

int state_close_layer(struct state *state, size_t layer, struct error *error)
{
	int code = gather_states(state, layer, error);

	if (code == EXIT_OK && ranks_own() > 0) {
		close_file(&state->states);
		return EXIT_OK;
	}
	if (code == EXIT_OK)
		code = note(state, layer, RECORD_WEIGHTS, state->file, state->file_path, error);
	if (code == EXIT_OK)
		code = note(state, layer, RECORD_NEXT, state->next, state->next_path, error);
	if (code == EXIT_OK)
		code = descriptor_sync(state->journal.fd, state->journal_path, error);
	if (code == EXIT_OK && !state->stateless && unlink(state->states_path) != 0 && errno != ENOENT)
		code = fail_errno(error, state->states_path, "cannot remove");
	close_file(&state->states);
	close_file(&state->next);
	close_file(&state->file);
	return code;
}

static int by_place(const void *a, const void *b)
{
	const struct state_weight *x = a, *y = b;
	const int order = strcmp(x->name, y->name);

	return order != 0 ? order : x->row < y->row ? -1 : x->row > y->row;
}

void state_sort(struct state *state)
{
	if (state->n_weights > 0)
		qsort(state->weights, state->n_weights, sizeof *state->weights, by_place);
}

const struct state_weight *state_find(const struct state *state, const char *name, size_t *n)
{
	size_t from = 0, end = state->n_weights;

	while (from < end) {
		const size_t middle = from + (end - from) / 2;

		if (strcmp(state->weights[middle].name, name) < 0)
			from = middle + 1;
		else
			end = middle;
	}
	for (*n = 0; from + *n < state->n_weights && strcmp(state->weights[from + *n].name, name) == 0;)
		++*n;
	return &state->weights[from];
}

int state_read_blocks(const struct state *state, const struct state_weight *weight, struct mxfp_blocks *blocks, void **memory,
                      struct error *error)
{
	size_t codes_bytes = 0;
	const size_t bytes = bytes_of(weight, &codes_bytes);
	char *path = path_of(state, weights_name, weight->layer);
	uint64_t size;
	int fd = -1;

	*memory = malloc(bytes + 1);
	int code = path != NULL && *memory != NULL ? descriptor_open(path, &fd, &size, error) : fail_memory(error);
	if (code == EXIT_OK)
		code = descriptor_read(fd, path, weight->at, *memory, bytes, error);
	*blocks = (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = weight->format,
		.rows = weight->rows,
		.cols = weight->cols,
		.codes = *memory,
		.scales = *memory != NULL ? (uint8_t *)*memory + codes_bytes : NULL,
		.tensor_scale = weight->tensor_scale,
		.tensor_scale_divides = weight->divides,
	};
	close_file(&fd);
	free(path);
	return code;
}

void state_end(struct state *state)
{
	if (state->partial == NULL)
		return;
	close_file(&state->states);
	close_file(&state->next);
	close_file(&state->file);
	journal_close(&state->journal);
	for (size_t i = 0; i < state->n_weights; i++)
		free(state->weights[i].name);
	free(state->weights);
	free(state->records);
	free(state->journal_path);
	free(state->states_path);
	free(state->next_path);
	free(state->file_path);
	*state = (struct state){.partial = NULL};
}
