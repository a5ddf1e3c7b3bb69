/* SPDX-License-Identifier: MIT */
/* The fingerprint of a run that makes one model of another: all that decides the bytes of its output, as an object of
   strings, which can be compared and shown, and of objects, which can only be compared. */
#ifndef TOOLS_MODEL_FINGERPRINT_H
#define TOOLS_MODEL_FINGERPRINT_H

#include <jansson.h>
#include <stdbool.h>

#include <xxhash.h>

#include "base/error.h"
#include "model/model.h"

enum { FINGERPRINT_TEXT = 33, FINGERPRINT_KEY = 300 };

/* Adds the model's files. With `times` the fingerprint holds when they were changed last (PARTIAL_TIMES): that is for one machine, since
   a copy of them elsewhere may have other times. Data are looked at in a few places only. EXIT_IO, EXIT_INPUT,
   EXIT_MEMORY. */
int fingerprint_sources(json_t *fingerprint, const struct model *model, bool times, struct error *error);

/* The key of one of them. */
void fingerprint_key(char key[FINGERPRINT_KEY], const struct file *file);

/* Hashes all of a file. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int fingerprint_whole(XXH128_hash_t *hash, const struct file *file, unsigned threads, struct error *error);

/* Adds a file of other inputs, looked at in the same way, under a key that says what a user may have changed. */
int fingerprint_file(json_t *fingerprint, const char *key, const struct file *file, bool times, struct error *error);

/* Adds a hash under a key that says what a user may have changed; false without memory. */
bool fingerprint_add(json_t *fingerprint, const char *key, XXH128_hash_t hash);

/* Adds to a hash: a number; a text with its final NUL, so that adjacent texts stay apart; name, dtype and shape. */
void fingerprint_number(XXH3_state_t *hash, uint64_t number);
void fingerprint_string(XXH3_state_t *hash, const char *text);
void fingerprint_tensor(XXH3_state_t *hash, const struct tensor *tensor);

/* XXH3-128 of a fingerprint, as hexadecimal digits. EXIT_MEMORY. */
int fingerprint_text(const json_t *fingerprint, char text[FINGERPRINT_TEXT], struct error *error);

#endif
