/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "cli/calibrated.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calibrate/calibrate.h"
#include "io/directory.h"
#include "model/meaning.h"

enum { PATH_BYTES = 4096 };

static const double usual_damping = 0.01; /* of mxfp calibrate */

/* Makes a directory that nobody else has. */
static int make_directory(char path[PATH_BYTES], struct error *error)
{
	const char *directory = getenv("TMPDIR");

	if (directory == NULL || directory[0] == '\0')
		directory = "/tmp";
	const int length = snprintf(path, PATH_BYTES, "%s/mxfp-XXXXXX", directory);
	if (length < 0 || length >= PATH_BYTES / 2)
		return fail(error, EXIT_IO, "%.1000s: is too long for TMPDIR", directory);
	if (mkdtemp(path) != NULL)
		return EXIT_OK;
	path[0] = '\0';
	return fail_errno(error, directory, "cannot create a temporary directory; TMPDIR names another place");
}

/* Chooses the weights, and writes them to `out`. */
static int write_chosen(const struct chosen *c, const struct trial *trial, const char *out, struct error *error)
{
	struct calibration done = {0};
	struct corpus corpus = {0};
	struct model model = {0};
	struct calibrate_settings settings = {
		.in = c->in,
		.out = out,
		.trial = trial,
		.tokens = &corpus.tokens,
		.damping = usual_damping,
		.threads = c->threads,
		.transient = true,
		.quiet = true,
	};
	int code = meaning_open(&model, c->in, MEANING_DECODES, error);

	if (code == EXIT_OK)
		code = corpus_open(&corpus, &model, &c->corpus, error);
	if (code == EXIT_OK)
		code = corpus_read(&corpus, &c->corpus, error);
	if (code == EXIT_OK)
		code = calibrate_run(&done, &settings, &model, error);
	calibrate_free(&done);
	corpus_close(&corpus);
	model_close(&model);
	return code;
}

static int open_chosen(const char *path, chosen_run_model *run, void *run_context, struct error *error)
{
	struct model model = {0};
	int code = meaning_open(&model, path, MEANING_READS, error);

	if (code == EXIT_OK && layouts[0]->one_expert_each)
		code = model_split_experts(&model, NULL, error);
	if (code == EXIT_OK)
		code = run(run_context, &model, error);
	model_close(&model);
	return code;
}

/* A chosen_choose, of the struct chosen itself. */
static int choose(void *context, const struct trial *trial, chosen_run_model *run, void *run_context, struct error *error)
{
	const struct chosen *c = context;
	char directory[PATH_BYTES], out[PATH_BYTES];
	int code = make_directory(directory, error);

	if (code != EXIT_OK)
		return code;
	snprintf(out, sizeof out, "%.4000s/chosen", directory);
	code = write_chosen(c, trial, out, error);
	if (code == EXIT_OK)
		code = open_chosen(out, run, run_context, error);
	directory_remove(out);
	rmdir(directory);
	return code;
}

void calibrated_set(struct chosen *chosen, const char *in, const char *source, const struct corpus_options *corpus,
                    unsigned threads)
{
	if (source == NULL)
		return;
	*chosen = (struct chosen){.in = in, .threads = threads, .choose = choose, .context = chosen};
	chosen->corpus = (struct corpus_options){
		.tokenizer = corpus->tokenizer, .context = corpus->context, .sequences = CORPUS_ALL};
	corpus_set_file(&chosen->corpus, source);
}
