/* SPDX-License-Identifier: MIT */
/*
 * Golden vectors: outputs of other implementations, one case of manifest.json each, in tests/vectors and, where there
 * is one, in another folder of the same form. vectors_<kind>.c run the kinds of cases; every number is compared with
 * the library's bit for bit, and a difference is let pass only as an item of vectors/README.md, by a condition that
 * states the item.
 */
#ifndef TESTS_VECTORS_H
#define TESTS_VECTORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mxfp/convert.h"
#include "mxfp/quantize.h"

/* Numbers as bit patterns, each widened to 32 bits; rows x cols in row-major order (one row if it is a list).
 */
struct vector_array {
	size_t n, rows, cols;
	uint32_t *at;
};

/* What a difference can be laid to: an item 1 to 29 of the README; what the case's own notes in the manifest
   say; or that the implementation was not run on the input (the code 0xEE). */
enum { VECTOR_NO_EXCUSE, VECTOR_LAST_ITEM = 29, VECTOR_NOTES, VECTOR_NOT_RUN, VECTOR_N_EXCUSES };

struct vector_case {
	const json_t *json;
	const char *name, *kind, *implementation, *format, *rounding, *scale_rule, *input; /* "" if absent */
	bool overflows; /* "saturate": false */
	uint64_t n_different;
};

struct vector_set {
	const char *folder;
	json_t *manifest;
	uint64_t n_cases, n_compared, n_different, n_excused[VECTOR_N_EXCUSES];
};

/* Opens the set in a folder, which is kept by reference; false if there is none. A manifest that cannot be read is
   reported and left NULL. */
bool vectors_open(struct vector_set *set, const char *folder);
void vectors_close(struct vector_set *set);

/* Case number i of the manifest. */
struct vector_case vectors_case(const struct vector_set *set, size_t i);

/* Whether the case's implementation begins with this name. */
bool vectors_by(const struct vector_case *c, const char *implementation);

/* An input set by name, or an output of a case; n is 0 if the case has no such output. The caller frees `at`.
 */
struct vector_array vectors_input(const struct vector_set *set, const char *name);
struct vector_array vectors_output(const struct vector_set *set, const struct vector_case *c,
                                   const char *kind);

/* All that a case of blocks gives; n is 0 in what it does not. */
struct vector_outputs {
	struct vector_array codes, packed, scales, tensor_scale, global_scale, values, values_gguf_py, dequantized, gguf_blocks;
};

struct vector_outputs vectors_outputs(const struct vector_set *set, const struct vector_case *c);
void vectors_free_outputs(struct vector_outputs *o);

/* One compared number: counts it; if the two differ, `excuse` says why that may be, and without one it is
   printed and fails the test. `input` is the source number, for the message. */
struct vector_pair {
	size_t i;
	uint32_t input, ours, theirs;
	int excuse;
};

void vectors_compare(struct vector_set *set, struct vector_case *c, const struct vector_pair *pair);

/* The rounding a case names: RNE, RNA, RTZ, RTP, RTN, with or without more words. */
enum mxfp_round vectors_round(const struct vector_case *c);

/* The element or block format a case names. */
enum mxfp_format vectors_format(const struct vector_case *c);

/* Decodes one code to binary32 bits, by the library. */
uint32_t vectors_decode_code(enum mxfp_format element, uint32_t code);

/* One element that microxcaling rounded: x after scaling, and the value it got in binary32 bits. */
struct vector_rounding {
	const struct mxfp_format_info *format;
	enum mxfp_round round;
	float x;
	uint32_t theirs;
};

/* 6 or 7 if the result is that of one of microxcaling's two rounding bugs, else none. */
int vectors_excuse_microxcaling(const struct vector_rounding *rounding);

/* The kinds of cases. */
void vectors_run_cast(struct vector_set *set, struct vector_case *c);
void vectors_run_cast_values(struct vector_set *set, struct vector_case *c);
void vectors_run_decode(struct vector_set *set, struct vector_case *c);
void vectors_run_pack(struct vector_set *set, struct vector_case *c);
void vectors_run_mx_block(struct vector_set *set, struct vector_case *c);
void vectors_run_mx_scale(struct vector_set *set, struct vector_case *c);
void vectors_run_ue4m3(struct vector_set *set, struct vector_case *c); /* a `cast` */
void vectors_run_nvfp4(struct vector_set *set, struct vector_case *c);
void vectors_run_sparse24(struct vector_set *set, struct vector_case *c);

#endif
