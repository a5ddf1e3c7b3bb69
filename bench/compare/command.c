/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "command.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numbers.h"
#include "samples.h"

/* A Llama of 128 million parameters in bf16, 257 MB; its tokens are bytes, so it needs no tokenizer. */
enum {
	WIDTH = 1024, HIDDEN = 2816, LAYERS = 10, HEADS = 8, KEY_HEADS = 8, VOCABULARY = 256, TOKENS = 512,
	PATTERN = 1 << 20, PAIRS = 9, PAIRS_AGAIN = 17, PATH_BYTES = 512, ARGUMENTS_MAX = 16
};

enum command { QUANTIZE, PROMPT, GENERATE, N_COMMANDS };

static const char *const names[N_COMMANDS] = {
	"command quantize, 256 MB of bf16 to w4a8", "command eval, prompt of 512", "command eval, 64 tokens generated",
};

/* The longest that a measurement goes on, and the share of the time that first ones take. */
static const double seconds_first = 12, seconds_again = 20;

struct commands {
	const char *const *programs;
	const char *work;
	enum command command;
};

void commands_list(struct table *table, char *const *texts, int n)
{
	for (int c = 0; c < N_COMMANDS; c++) {
		bool wanted = n == 0;
		for (int i = 0; i < n; i++)
			wanted = wanted || strstr(names[c], texts[i]) != NULL;
		if (!wanted || table->n_rows == TABLE_ROWS_MAX)
			continue;
		struct table_row *row = &table->rows[table->n_rows++];
		*row = (struct table_row){.index = {c, c}, .command = true};
		snprintf(row->name, sizeof row->name, "%s", names[c]);
		for (size_t t = 0; t < table->n_tiers; t++)
			if (!table->tiers[t].all_rows)
				row->cells[t].finding = FINDING_OTHER;
	}
}

static void remove_directory(const char *path)
{
	char inside[2 * PATH_BYTES];
	DIR *directory = opendir(path);
	const struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
		(void)unlink(inside);
	}
	if (directory != NULL)
		closedir(directory);
	(void)rmdir(path);
}

/* Runs a program with its output thrown away. Returns the seconds of processor time, or -1 if it failed. */
static double run_program(const char *const *arguments)
{
	struct rusage usage;
	int status = 0;

	fflush(NULL);
	const pid_t child = fork();
	if (child == 0) {
		const int nothing = open("/dev/null", O_RDWR);
		dup2(nothing, 0);
		dup2(nothing, 1);
		dup2(nothing, 2);
		execv(arguments[0], (char *const *)arguments);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -1;
	return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
	       ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) * 1e-6;
}

static double run_command(const struct commands *commands, int side, enum command command)
{
	char model[PATH_BYTES], quantized[PATH_BYTES], tokens[PATH_BYTES];

	snprintf(model, sizeof model, "%s/model", commands->work);
	snprintf(quantized, sizeof quantized, "%s/quantized-%d", commands->work, side);
	snprintf(tokens, sizeof tokens, "%s/tokens.u16", commands->work);
	const char *const arguments[N_COMMANDS][ARGUMENTS_MAX] = {
		{commands->programs[side], "quantize", model, "-o", quantized, "--preset", "w4a8", "--quiet", "--threads", "1"},
		{commands->programs[side], "eval", quantized, "--tokens", tokens, "--quiet", "--threads", "1"},
		{commands->programs[side], "eval", quantized, "--generate", "64", "--prompt", "How many", "--quiet", "--threads", "1"},
	};
	if (command == QUANTIZE)
		remove_directory(quantized);
	return run_program(arguments[command]);
}

static double run_times(void *context, int side, unsigned times)
{
	const struct commands *commands = context;
	double seconds = 0;

	for (unsigned i = 0; i < times; i++) {
		const double once = run_command(commands, side, commands->command);
		if (once < 0)
			return -1;
		seconds += once;
	}
	return seconds;
}

static uint64_t little_endian(uint64_t n)
{
	const unsigned char bytes[8] = {n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24 & 255, n >> 32 & 255};
	uint64_t word;

	memcpy(&word, bytes, sizeof word);
	return word;
}

/* Writes the model's header, or its data: `numbers` repeated, and ones for norms. */
struct model {
	FILE *file;
	const uint16_t *numbers;
	uint64_t offset;
	bool data;
	char header[1 << 16];
	size_t length;
};

static void add_tensor(struct model *model, const char *name, size_t rows, size_t cols)
{
	static const uint16_t one[2] = {0x3F80, 0x3F80};
	const uint64_t n = (uint64_t)rows * (cols != 0 ? cols : 1);
	char shape[32];

	if (model->data && cols == 0)
		for (uint64_t i = 0; i < n; i += 2)
			fwrite(one, sizeof one, 1, model->file);
	for (uint64_t i = 0; model->data && cols != 0 && i < n; i += PATTERN)
		fwrite(model->numbers, sizeof(uint16_t), n - i < PATTERN ? (size_t)(n - i) : PATTERN, model->file);
	snprintf(shape, sizeof shape, cols != 0 ? "%zu,%zu" : "%zu", rows, cols);
	if (!model->data)
		model->length += (size_t)snprintf(
			model->header + model->length, sizeof model->header - model->length,
			"%s\"%s.weight\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
			model->length == 0 ? "{" : ",", name, shape, (unsigned long long)model->offset,
			(unsigned long long)(model->offset + 2 * n));
	model->offset += 2 * n;
}

static void add_tensors(struct model *model)
{
	static const struct {
		const char *name;
		size_t rows, cols;
	} tensors[] = {
		{"input_layernorm", WIDTH, 0}, {"mlp.down_proj", WIDTH, HIDDEN}, {"mlp.gate_proj", HIDDEN, WIDTH},
		{"mlp.up_proj", HIDDEN, WIDTH}, {"post_attention_layernorm", WIDTH, 0}, {"self_attn.k_proj", WIDTH, WIDTH},
		{"self_attn.o_proj", WIDTH, WIDTH}, {"self_attn.q_proj", WIDTH, WIDTH}, {"self_attn.v_proj", WIDTH, WIDTH},
	};
	char name[64];

	model->offset = 0;
	add_tensor(model, "model.embed_tokens", VOCABULARY, WIDTH);
	for (int layer = 0; layer < LAYERS; layer++)
		for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++) {
			snprintf(name, sizeof name, "model.layers.%d.%s", layer, tensors[t].name);
			add_tensor(model, name, tensors[t].rows, tensors[t].cols);
		}
	add_tensor(model, "model.norm", WIDTH, 0);
}

/* Normals of a weight's size, cut to bf16. */
static uint16_t *make_numbers(void)
{
	float *normals = malloc(PATTERN * sizeof *normals);
	uint16_t *numbers = malloc(PATTERN * sizeof *numbers);
	uint32_t bits;

	if (normals != NULL && numbers != NULL) {
		bench_normals(normals, PATTERN);
		for (size_t i = 0; i < PATTERN; i++) {
			const float weight = normals[i] * 0.02F;
			memcpy(&bits, &weight, sizeof bits);
			numbers[i] = (uint16_t)(bits >> 16);
		}
	}
	free(normals);
	return numbers;
}

static FILE *create(const char *work, const char *name)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "%s/%s", work, name);
	return fopen(path, "wb");
}

static bool write_model(const char *work)
{
	uint16_t *numbers = make_numbers();
	struct model *model = calloc(1, sizeof *model);
	char path[PATH_BYTES];

	if (model == NULL || numbers == NULL)
		return false;
	model->numbers = numbers;
	snprintf(path, sizeof path, "%s/model", work);
	(void)mkdir(path, 0777);
	model->file = create(work, "model/model.safetensors");
	if (model->file == NULL)
		return false;
	add_tensors(model);
	model->length += (size_t)snprintf(model->header + model->length, sizeof model->header - model->length, "}");
	while (model->length % 8 != 0)
		model->header[model->length++] = ' ';
	const uint64_t length = little_endian(model->length);
	fwrite(&length, sizeof length, 1, model->file);
	fwrite(model->header, 1, model->length, model->file);
	model->data = true;
	add_tensors(model);
	const bool written = ferror(model->file) == 0;
	free(numbers);
	return fclose(model->file) == 0 && written;
}

static bool write_files(const char *work)
{
	uint8_t tokens[2 * TOKENS] = {0};
	bool written = write_model(work);
	FILE *file = create(work, "model/config.json");

	if (file == NULL)
		return false;
	fprintf(file,
	        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d, "
	        "\"intermediate_size\": %d, "
	        "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"vocab_size\": %d, "
	        "\"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, "
	        "\"tie_word_embeddings\": true, \"hidden_act\": \"silu\"}\n",
	        WIDTH, HIDDEN, LAYERS, HEADS, KEY_HEADS, VOCABULARY);
	written = fclose(file) == 0 && written;
	for (int i = 0; i < TOKENS; i++)
		tokens[2 * i] = (uint8_t)(i * 37 % 251);
	file = create(work, "tokens.u16");
	if (file == NULL)
		return false;
	written = fwrite(tokens, sizeof tokens, 1, file) == 1 && written;
	return fclose(file) == 0 && written;
}

static void time_row(struct commands *commands, const struct table *table, struct cell *cell, double end)
{
	const struct turns turns = {run_times, commands};

	cell->finding = FINDING_MISSING;
	for (int side = OLD; side < N_SIDES; side++)
		cell->cannot[side] = run_command(commands, side, commands->command) < 0;
	if (cell->cannot[OLD] || cell->cannot[NEW])
		return;
	cell->finding = FINDING_TIMED;
	cell->result = turns_measure(&turns, PAIRS, seconds_first);
	if (cell->result.ratio >= table->below)
		return;
	cell->fallen = true;
	if (bench_now(CLOCK_MONOTONIC) + seconds_again > end)
		return;
	cell->first = cell->result.ratio;
	cell->result = turns_measure(&turns, PAIRS_AGAIN, seconds_again);
	cell->fallen = cell->result.ratio < table->below;
}

bool commands_time(const char *const programs[N_SIDES], const char *work, struct table *table, size_t tier, double end)
{
	const bool absent[N_SIDES] = {access(programs[OLD], X_OK) != 0, access(programs[NEW], X_OK) != 0};
	struct commands commands = {programs, work, QUANTIZE};
	bool ready = false;

	for (size_t r = 0; r < table->n_rows && bench_now(CLOCK_MONOTONIC) < end; r++) {
		if (!table->rows[r].command)
			continue;
		if (absent[OLD] || absent[NEW]) {
			table->rows[r].cells[tier] = (struct cell){FINDING_MISSING, .cannot = {absent[OLD], absent[NEW]}};
			continue;
		}
		if (!ready && !write_files(work)) {
			fprintf(stderr, "compare: cannot write to %s\n", work);
			return false;
		}
		commands.command = (enum command)table->rows[r].index[NEW];
		if (!ready && commands.command != QUANTIZE)
			for (int side = OLD; side < N_SIDES; side++)
				(void)run_command(&commands, side, QUANTIZE);
		ready = true;
		time_row(&commands, table, &table->rows[r].cells[tier], end);
	}
	return true;
}
