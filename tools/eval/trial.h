/* SPDX-License-Identifier: MIT */
/*
 * A way of running a model: what its weights and activations become. As text it is NAME[:RULE][/ACTIVATIONS], where NAME is
 *
 *   f32        weights as they are stored, and activations as they are, but for keys and values
 *   bf16       the same with matrices rounded to bf16, if they are not quantized; likewise f16, tf32, e4m3, e5m2
 *   PRESET     of mxfp quantize, with its activations
 *   FORMAT     a block format that is not called like a preset
 *   FILE.json  a mxfp-recipe(5), without :RULE, with its activations
 *
 * RULE is a scale rule, or a recipe of NVFP4; ACTIVATIONS a block format or "none".
 */
#ifndef TOOLS_EVAL_TRIAL_H
#define TOOLS_EVAL_TRIAL_H

#include <stdbool.h>

#include "base/error.h"
#include "quantize/quantize.h"

enum { TRIAL_TEXT = 96 };

struct trial {
	char name[TRIAL_TEXT];
	bool quantizes;           /* weights that settings.select says become what settings.choice or the recipe says */
	enum mxfp_format numbers; /* what weights are rounded to that are not quantized; f32: they stay as stored */
	bool summed;              /* the inputs of such weights are rounded, too */
	enum mxfp_acc acc;        /* how products with weights are summed */
	unsigned pass_k;          /* 0: the usual passes */
	struct quantize_settings settings;
	struct recipe recipe;
	enum mxfp_format activations; /* OPTION_FORMAT_NONE: as they are */
	int activation_rule;
	enum mxfp_format kv_cache; /* of keys and values; OPTION_FORMAT_NONE: as `attention` */
	enum mxfp_format attention; /* of queries and probabilities; OPTION_FORMAT_NONE: as they are */
	struct recipe_uses uses;  /* which options of weights it takes */
	bool takes_activations;   /* it takes those that the options give */
};

/* What the command's options say. */
struct trial_options {
	const char *command;          /* whose they are, for errors */
	const char *preset, *recipe;  /* NULL: not given */
	json_t *recipe_json;          /* what the recipe says; NULL: it is a file */
	const char *activations;      /* the same; they count where a NAME says nothing of activations */
	const char *sparsity;         /* NULL: not given, or as the recipe says */
	enum mxfp_format weights;     /* OPTION_FORMAT_NONE: not given */
	bool has_rule, has_nvfp4_recipe, has_block; /* whether rule, nvfp4_recipe, squares are given */
	int rule, nvfp4_recipe, activation_rule;
	bool squares;                 /* of MX weights: 32 rows share scales */
	const struct select *select;  /* compiled; it must stay */
	const struct layout *layout;  /* of the file that mxfp quantize would write; NULL: its default */
	bool pad_tail, fuse;
	enum mxfp_format kv_cache;    /* OPTION_FORMAT_NONE: not given */
	const char *attention;        /* NULL: not given */
	bool has_acc, has_pass_k;     /* whether acc, pass_k are given */
	int acc;
	uint64_t pass_k;
	unsigned threads;
};

/* The trial that the options ask for; without weights, a preset or a recipe, or if it is `stored`, weights stay as they
   are. trial_free() follows in any case, and a trial must not move. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int trial_of_options(struct trial *trial, const struct trial_options *options, struct error *error);

/* The trials that a text asks for, separated by commas, in an array of as many as `most`, and how many these are. The same
   of each. */
int trial_parse(struct trial *trials, size_t *n, size_t most, const char *text, const struct trial_options *options,
                struct error *error);

/* Whether a trial has activations, keys or queries that an MX scale rule is for. */
bool trial_has_activation_rule(const struct trial *trial);

/* The model as it is stored, with no activations quantized, by that name; NULL: f32. */
void trial_stored(struct trial *trial, const char *name);

/* Whether it is the same. */
bool trial_is_stored(const struct trial *trial);

/* Whether both quantize the tensors that they select to the same, neither by a recipe. */
bool trial_is_same(const struct trial *a, const struct trial *b);

void trial_free(struct trial *trial);

/* Checks what the options say of sums. EXIT_USAGE. */
int trial_check_sums(const struct trial_options *options, struct error *error);

/* A trial with the operands that machines take, summed as it is usual; and by another name summed as the options say. They live
   as long as the trial, and are not freed. */
struct trial trial_as_operands(const struct trial *trial);
struct trial trial_as_summed(const struct trial *trial, const struct trial_options *options);

/* "mxfp4 mse" or "as stored", and "mxfp8-e4m3 rceil, attention mxfp8-e4m3, kv mxfp4" or "f32", in `text`; return text. */
const char *trial_weights(const struct trial *trial, char text[TRIAL_TEXT]);
const char *trial_activations(const struct trial *trial, char text[TRIAL_TEXT]);

#endif
