/* SPDX-License-Identifier: MIT */
/* The loss of a character model on the part of a text that its training left out, with the inputs of its linear layers
   quantized if a format is named. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "charlm.h"

/* Reads "mxfp8-e4m3" and "rceil" into *activations. */
static int parse_activations(struct charlm_activations *activations, const char *format, const char *rule,
                             struct error *error)
{
	int value = MXFP_RULE_RCEIL;

	if (mxfp_format_from_name(format, &activations->format) ||
	    mxfp_format_info(activations->format)->kind != MXFP_KIND_BLOCK)
		return fail(error, EXIT_USAGE, "%s: no block format: see mxfp info", format);
	if (rule && mxfp_option_from_name(MXFP_OPTION_RULE, rule, &value))
		return fail(error, EXIT_USAGE, "%s: no scale rule: see mxfp info", rule);
	activations->rule = (enum mxfp_rule)value;
	return EXIT_OK;
}

static int print_loss(const struct charlm *model, const char *text_path, const struct charlm_activations *activations,
                      struct error *error)
{
	struct charlm_text text;
	double loss;
	enum mxfp_status status;
	int code = charlm_text_read(&text, text_path, error);

	if (code)
		return code;
	status = charlm_loss(&loss, model, &text, activations);
	charlm_text_free(&text);
	if (status)
		return fail(error, EXIT_INPUT, "%s: %s", text_path, mxfp_status_text(status));
	printf("%.4f nats/character, %.4f bits/character, perplexity %.3f\n", loss, loss / 0.69314718055994531, exp(loss));
	return EXIT_OK;
}

static int run(int argc, char **argv, struct error *error)
{
	struct charlm_activations activations;
	struct charlm *model = malloc(sizeof(*model));
	int code = model ? charlm_load(model, argv[1], error) : fail_memory(error);

	if (!code && argc > 3)
		code = parse_activations(&activations, argv[3], argc > 4 ? argv[4] : NULL, error);
	if (!code)
		code = print_loss(model, argv[2], argc > 3 ? &activations : NULL, error);
	free(model);
	return code;
}

int main(int argc, char **argv)
{
	struct error error;
	int code;

	if (argc < 3 || argc > 5) {
		fputs("usage: charlm_loss MODEL.safetensors TEXT [ACTIVATION-FORMAT [RULE]]   (\"mxfp8-e4m3 rceil\")\n",
		      stderr);
		return EXIT_USAGE;
	}
	code = run(argc, argv, &error);
	if (code)
		fprintf(stderr, "charlm_loss: %s\n", error.text);
	return code;
}
