/* SPDX-License-Identifier: MIT */
/*
 * Command lines by table: one array of struct option_spec per sub-command gives its parsing (getopt_long) and its
 * --help.
 */
#ifndef TOOLS_CLI_OPTIONS_H
#define TOOLS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/option_kind.h"
#include "model/allow.h"
#include "model/meaning.h"
#include "mxfp/format.h"
#include "mxfp/options.h"
#include "quantize/recipe.h"

/* The value of an option of type uint64_t that is not given and has no default. */
#define OPTION_UNSIGNED_NONE UINT64_MAX

struct option_spec {
	const char *name;       /* long name without "--" */
	char letter;            /* short name, or 0 */
	enum option_kind kind;
	const char *argument;   /* NULL for flags; see below */
	const char *help;       /* one phrase; the default is appended, and the values are listed below the options */
	void *value;            /* of the kind's type; holds the default when options_parse() is called */
};

/*
 * `argument`, and operands in a synopsis, stand for a value in --help and say what shell completion offers: IN,
 * MODEL, SOURCE, QUANTIZED or PART a tensor file or model directory; FILE, OUT, CODES or SCALES any file; FILE.md
 * one that ends so; A, B, W, MATRIX or VECTOR FILE or FILE:TENSOR; PATTERN a tensor's name; FORMAT a block format;
 * ELEMENT, RULE, RECIPE, TIER, CHIP, CHECK; N:M a sparsity; words in small letters themselves. "FORMAT|none" has
 * alternatives, "RULE,..." is a list, "IN..." in a synopsis may be repeated. For a kind that is a choice all values
 * are offered, or those that stand here ("f32|bf16"), and then others are refused.
 */

/* A row of every command that reads numbers of a model: what is taken though nobody here knows it. */
#define OPTION_ALLOW_UNKNOWN \
	{"allow-unknown", 0, OPTION_LIST, "KEY", "accept a key or tensor that is not known; may be repeated", \
	 &allow_keys}

/* A sub-command. run() gets the arguments after its name, argv[0] being the name. */
struct command {
	const char *name;
	const char *summary;    /* one line, lower case, for `mxfp --help` */
	int (*run)(int argc, char **argv, struct error *error);
};

/* What --help prints besides the options. */
struct usage {
	const char *synopsis;   /* "quantize IN -o OUT [options]" */
	const char *text;       /* what it does, in a few lines of at most 80 columns */
	const char *example;    /* one or two commands that were run, each line indented by two blanks */
};

/* The result of parsing. */
enum parsed { PARSED_RUN, PARSED_HELP, PARSED_ERROR };

/* What the command returns unless it is to run. */
static inline int parsed_code(enum parsed parsed)
{
	return parsed == PARSED_ERROR ? EXIT_USAGE : EXIT_OK;
}

/*
 * Parses argv by the table (ended by OPTION_END), which need not list --help. Operands go to `operands`, at least `min`
 * and at most `max` of them. PARSED_HELP: help was printed to stdout and the caller returns EXIT_OK; PARSED_ERROR: the
 * error's text names the option, the value, and the known values, and the caller returns EXIT_USAGE.
 */
enum parsed options_parse(int argc, char **argv, const struct option_spec *options, const struct usage *usage,
                          size_t min, size_t max, const char **operands, struct error *error);

/* After a failure: the long option that was unknown to options_parse(), and whether the error names the one that was
   meant; NULL if the failure was another. */
const char *options_unknown(bool *guessed);

/* Lets `view` look at a command's table, the values being defaults, and usage; nothing is run. */
typedef void options_viewer(void *context, const struct option_spec *options, const struct usage *usage);
void options_view(const struct command *command, options_viewer *view, void *context);

/* After parsing: whether the command line gives that option. Its value cannot tell, since it may be the default. */
bool options_given(const char *name);

/* An option of a table, and whether the run uses it. */
struct option_use {
	const char *name;
	bool used;
	const char *use; /* what it is for, in "is for the MX formats; leave it out" */
};

/* After parsing, as soon as it is known what runs and before anything is written: EXIT_USAGE if the command line gives an
   option that is not used, which would be silently ignored. `uses` ends with a name of NULL. */
int options_check_used(const struct option_use *uses, struct error *error);

/* The same for --rule, --nvfp4-recipe, --block, --fuse and --pad-tail, which are for some weights. */
int options_check_weights(const struct recipe_uses *uses, struct error *error);

#endif
