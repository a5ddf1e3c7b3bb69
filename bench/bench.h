/* SPDX-License-Identifier: MIT */
/*
 * Timing of calls: what is timed (struct bench_case, from bench_cases()), on which data (struct bench_data), and how
 * (bench_measure(): the kernel and its limit take turns). `mxfp bench` calls it and prints the results.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit.h"
#include "mxfp.h"
#include "numbers.h"
#include "samples.h"

/* Products have their own cases: gemm_bench.h. */
enum bench_op {
	BENCH_CONVERT, BENCH_QUANTIZE, BENCH_DEQUANTIZE, BENCH_SCAN, BENCH_APPLY, BENCH_ROWS, BENCH_FAKE, BENCH_GEMM, BENCH_N_OPS
};

/* Operations on rows. */
enum bench_row_op { BENCH_SOFTMAX, BENCH_RMS_NORM, BENCH_LAYER_NORM, BENCH_N_ROW_OPS };


/* Groups of cases that share a target. */
enum bench_group {
#define BENCH_GROUP(id, text) BENCH_##id,
#include "target.def"
	BENCH_N_GROUPS
};

/* Where the data is when a kernel starts. */
enum bench_place { BENCH_L2, BENCH_DRAM, BENCH_N_PLACES };

struct bench_case {
	enum bench_op op;
	enum mxfp_format dst, src; /* scan: both are the source */
	enum mxfp_round round;
	enum mxfp_format blocks;   /* fake: the block format between src and dst */
	enum mxfp_rule rule;       /* quantize, MX formats */
	enum mxfp_recipe recipe;   /* quantize, NVFP4 */
	bool squares;              /* quantize, MX formats: 32 rows share scales */
	enum mxfp_function function; /* apply */
	enum bench_row_op row_op;  /* rows */
	bool positive;             /* the source holds magnitudes */
	enum bench_group group;
	bool usual;                /* timed by default */
};

/* What a target is relative to: nothing, the limit, what bench_run_steps() does. */
enum bench_unit { BENCH_UNIT_GBPS, BENCH_UNIT_LIMIT, BENCH_UNIT_STEPS, BENCH_N_UNITS };

/* The speed that a group must reach with the best tier on a machine of the class that doc/performance.md names. */
struct bench_target {
	enum bench_group group;
	enum bench_place place;
	enum bench_unit unit;
	double at_least;
};

extern const char *const bench_op_names[BENCH_N_OPS];
extern const char *const bench_place_names[BENCH_N_PLACES];
extern const char *const bench_group_texts[BENCH_N_GROUPS];
extern const char *const bench_unit_texts[BENCH_N_UNITS];
extern const struct bench_target bench_targets[];
extern const size_t bench_n_targets;

/* Calls `visit` for every case in order until it returns a value other than 0, and returns that. */
int bench_cases(int (*visit)(const struct bench_case *c, void *context), void *context);

/* Writes the name of a case, such as "f32 -> mxfp4 rceil sr". */
void bench_case_name(const struct bench_case *c, char *name, size_t size);

/* The bytes of n elements with their scales; n is a multiple of the block length. */
size_t bench_bytes(enum mxfp_format format, size_t n);

enum {
	BENCH_COLS = 4096,          /* elements of a row */
	BENCH_SQUARE = 32,          /* rows that share scales, where squares are quantized */
	BENCH_L2_BYTES = 512 << 10, /* read and written by each thread if the data is to stay in L2 */
	BENCH_PATTERN = 1 << 20,
	BENCH_THREADS_MAX = 16,     /* threads whose data for L2 a pattern holds */
	BENCH_ROUNDS_MAX = 128
};

#define BENCH_NOTHING ((enum mxfp_format)-1)

/* Memory for n elements of any case, and what it holds. All of it is written before anything is timed. */
struct bench_data {
	size_t n;
	uint8_t *src, *src_scales, *dst, *dst_scales;
	uint8_t *blocks;      /* codes between src and dst, at most a byte an element */
	float *normals;       /* the pattern that src repeats */
	enum mxfp_format holds; /* the format of src, or BENCH_NOTHING before it is filled */
	bool holds_positive;
};

/* Allocates memory for n elements, a multiple of BENCH_PATTERN. Returns false, with nothing allocated, if there is too
   little. */
bool bench_data_make(struct bench_data *data, size_t n);
void bench_data_free(struct bench_data *data);

/* Fills src with standard normals in this format, or with their magnitudes if it has no sign or that is asked for. */
void bench_data_fill(struct bench_data *data, enum mxfp_format src, bool positive);

/* Work: n elements of the case, from element `start` of the data. */
struct bench_work {
	const struct bench_case *c;
	const char *isa;
	const struct limit *limits;
	const struct bench_data *data;
	unsigned threads;
	enum bench_place place;
	size_t start, n;
};

/* Whether the case reads its source twice: NVFP4 needs the largest magnitude of the tensor first. */
bool bench_reads_twice(const struct bench_case *c);

/* Whether the case is timed beside another way: two calls, where results of a function or row operation are quantized or blocks
   dequantized; or blocks of a row, where squares are. */
bool bench_has_steps(const struct bench_case *c);

void bench_run(const struct bench_work *work);
/* That other way: results as numbers, then the quantization of as many numbers; or blocks, then numbers; or blocks of a row. */
void bench_run_steps(const struct bench_work *work);
void bench_run_limit(const struct bench_work *work);
void bench_run_limit_past(const struct bench_work *work);

/* The same work by SLEEF on one thread, where bench_sleef_has() it. */
void bench_run_sleef(const struct bench_work *work);

/* The limit whose ratio of reads to writes is nearest the case's. */
const struct limit *bench_limit(const struct limit *limits, const struct bench_case *c);

/* The limits that were compiled for a tier. */
const struct limit *bench_limits_of_tier(const char *isa);

/* Times are seconds per element. */
struct bench_result {
	struct bench_time kernel, limit;
	struct bench_time other; /* of one thread in DRAM: the limit with stores past the caches; of more threads: the
	                            kernel on one */
	struct bench_time sleef; /* of SLEEF on the same work, in the same turns, on one thread in L2; 0: none */
	struct bench_time steps; /* of bench_run_steps() in the same turns, where bench_has_steps(); 0: none */
	double core;             /* bench_core() at the same time */
};

/* Times kernel and limit in turns for `rounds` rounds, or fewer if they are slow. Sets work->start and work->n. */
struct bench_result bench_measure(struct bench_work *work, unsigned rounds);

/* The seconds per byte that one thread takes to read from L1. They grow while the machine is slow, because of a lower
   clock or a shared core. */
double bench_core(const struct bench_data *data, const struct limit *limits);

#endif
