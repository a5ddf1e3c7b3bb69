/* SPDX-License-Identifier: MIT */
/*
 * What tokenizer_config.json says beside tokenizer.json. Of it transformers 5 takes the tokens of added_tokens_decoder, and
 * not add_bos_token and add_eos_token, which the classes of transformers 4 that have them took instead of what
 * post_processor says. Models were made with those, so with such a class the keys count here; where they make a difference,
 * tokenizer->note says so.
 */
#ifndef TOOLS_EVAL_TOKENIZER_CONFIG_H
#define TOOLS_EVAL_TOKENIZER_CONFIG_H

#include "io/descriptor.h"
#include "io/json.h"

/* Whether a token stands at an end of each text. */
enum tokenizer_end { TOKENIZER_END_BY_FILE, TOKENIZER_END_WITHOUT, TOKENIZER_END_WITH };

struct tokenizer_config {
	json_t *json;                /* NULL: there is no such file */
	const char *class;           /* "LlamaTokenizer", without Fast; "" if it does not say */
	bool counts;                 /* transformers goes by `bos` and `eos` with this class */
	enum tokenizer_end bos, eos;
	const char *bos_token, *eos_token; /* NULL: none is known */
};

/* Reads the file beside the tokenizer.json at `path`; tokenizer_config_free() follows in any case. EXIT_INPUT, EXIT_IO,
   EXIT_MEMORY. */
int tokenizer_config_read(struct tokenizer_config *config, const char *path, descriptor_opener *opener,
                          struct error *error);

/* Gives tokens of tokenizer.json's added_tokens the flags that added_tokens_decoder has for them, and adds those that are
   missing there. EXIT_INPUT naming `path`, EXIT_MEMORY. */
int tokenizer_config_merge(const struct tokenizer_config *config, json_t **added_tokens, const char *path,
                           struct error *error);

void tokenizer_config_free(struct tokenizer_config *config);

#endif
