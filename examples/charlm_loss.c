/* SPDX-License-Identifier: MIT */
/* Prints the loss of a character model, quantized or not, on the part of a text that was held out of training. */
#include <math.h>
#include <stdio.h>

#include "charlm.h"

static int print_loss(const struct charlm_matrices *model, const char *text_path, struct error *error)
{
	struct charlm_text text;
	double loss;
	enum mxfp_status status;
	int code = charlm_text_read(&text, text_path, error);

	if (code)
		return code;
	status = charlm_loss(&loss, model, &text);
	charlm_text_free(&text);
	if (status)
		return fail(error, EXIT_INPUT, "%s: %s", text_path, mxfp_status_text(status));
	printf("%.4f nats/character, %.4f bits/character, perplexity %.3f\n", loss, loss / 0.69314718055994531, exp(loss));
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	struct charlm_matrices model;
	struct error error;
	int code;

	if (argc < 3 || argc > 4) {
		fputs("usage: charlm_loss MODEL.safetensors TEXT [ACTIVATIONS]   (a block format, or none)\n", stderr);
		return EXIT_USAGE;
	}
	code = charlm_load(&model, argv[1], &error);
	if (!code && argc == 4 && !charlm_activations(&model.activations, argv[3]))
		code = fail(&error, EXIT_USAGE, "%s: neither a block format nor none: see mxfp info", argv[3]);
	if (!code)
		code = print_loss(&model, argv[2], &error);
	charlm_unload(&model);
	if (code)
		fprintf(stderr, "charlm_loss: %s\n", error.text);
	return code;
}
