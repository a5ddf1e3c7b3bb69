/* SPDX-License-Identifier: MIT */
/*
 * What a GPU's own tensor cores answer to mxfp conform, by mma.sync and, for FP8 on Hopper, wgmma:
 *
 *     nvcc -arch=native -o probe probe.cu           on Hopper -arch=sm_90a, which has wgmma
 *     mxfp conform ./probe --only dot
 *     ./probe --record FOLDER                       tiles.bin and tiles.json for tests/oracle/test_mma, MXFP_SILICON=FOLDER
 *
 * Only "dot" is answered, of numbers, with the accumulator of the chip's generation or "own". The host's part was tested without a GPU,
 * with libmxfp as a chip of compute capability 9.0: c++ -x c++ -DEMULATE=90 -o probe probe.cu -lmxfp
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { F16, BF16, TF32, E4M3, E4M3_E5M2, E5M2_E4M3, E5M2, N_KINDS };

/* A row of an operand has 8 words for one instruction. An item is `rows` rows of A, `cols` rows of W and D, which starts as C. */
enum { WORDS = 8, ROWS = 64, COLS = 8, THREADS = 128 };

struct job {
	enum kind kind;
	bool wgmma;
	size_t items, steps; /* each step of a row goes through the instruction once, with the D of the last as C */
	unsigned rows, cols; /* 64 and 8, or 1 and 1 */
	const uint32_t *a, *w;
	float *d;
};

static void fail(const char *what)
{
	fprintf(stderr, "probe: %s\n", what);
	exit(1);
}

static void *memory(size_t bytes)
{
	void *p = calloc(bytes + 1, 1);

	if (p == NULL)
		fail("out of memory");
	return p;
}

/* Which accumulator this kind of product has on a chip of this compute capability; NULL: it has no such instruction. */
static const char *accumulator(int capability, enum kind kind, bool wgmma)
{
	const bool fp8 = kind >= E4M3;

	if (wgmma)
		return capability == 90 && fp8 ? "hopper" : NULL;
	return capability >= 120 ? "blackwell" : capability >= 100 ? fp8 ? "hopper-mma" : "blackwell" :
	       capability >= 90 ? fp8 ? "hopper-mma" : "hopper" : capability >= 89 ? "ada" : capability >= 80 && !fp8 ? "ampere" :
	       capability == 75 && kind == F16 ? "turing" : NULL;
}

#ifdef EMULATE

#include <mxfp.h>

static int capability_of(char name[256])
{
	snprintf(name, 256, "libmxfp as compute capability %d", EMULATE);
	return EMULATE;
}

static bool run(const struct job *job)
{
	static const char *const names[N_KINDS][2] = {{"f16", "f16"}, {"bf16", "bf16"}, {"tf32", "tf32"}, {"e4m3", "e4m3"},
	                                              {"e4m3", "e5m2"}, {"e5m2", "e4m3"}, {"e5m2", "e5m2"}};
	const char *const acc = accumulator(EMULATE, job->kind, job->wgmma);
	static uint64_t workspace[1 << 15];
	enum mxfp_format format[2];
	int value;

	if (acc == NULL || mxfp_option_from_name(&value, MXFP_OPTION_ACC, acc) != MXFP_OK ||
	    mxfp_format_from_name(&format[0], names[job->kind][0]) != MXFP_OK ||
	    mxfp_format_from_name(&format[1], names[job->kind][1]) != MXFP_OK)
		return false;
	const size_t k = job->steps * WORDS * 4 / mxfp_format_get_info(format[0])->storage_bytes, stride = job->steps * WORDS;
	for (size_t i = 0; i < job->items; i++) {
		const struct mxfp_matrix a = mxfp_numbers(format[0], job->rows, k, job->a + i * job->rows * stride);
		const struct mxfp_matrix w = mxfp_numbers(format[1], job->cols, k, job->w + i * job->cols * stride);
		float *d = job->d + i * job->rows * job->cols;
		const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, d);
		struct mxfp_product product = {};
		struct mxfp_gemm_options options = {};
		struct mxfp_exec one = {};

		product.size = sizeof product;
		product.c = &c;
		product.a = &a;
		product.w = &w;
		options.size = sizeof options;
		options.acc = (enum mxfp_acc)value;
		options.accumulate = true;
		one.size = sizeof one;
		one.threads = 1;
		if (mxfp_gemm(&product, &options, workspace, sizeof workspace, &one) != MXFP_OK)
			return false;
		for (size_t j = 0; j < job->rows * job->cols; j++)
			if (isnan(d[j])) /* as NVIDIA's chips write it */
				memcpy(&d[j], "\377\377\377\177", 4);
	}
	return true;
}

#else

#define MMA(shape, types) \
	asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
	             "{%0, %1, %2, %3};" \
	             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

/* D = A W^T + D of 16 x 8 numbers by a warp; whether this code was compiled for a chip that can. */
__device__ static bool mma(enum kind kind, float d[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
	if (kind == F16)
		MMA("m16n8k16", "f16.f16");
	else if (kind == BF16)
		MMA("m16n8k16", "bf16.bf16");
	else if (kind == TF32)
		MMA("m16n8k8", "tf32.tf32");
#if __CUDA_ARCH__ >= 890
	else if (kind == E4M3)
		MMA("m16n8k32", "e4m3.e4m3");
	else if (kind == E4M3_E5M2)
		MMA("m16n8k32", "e4m3.e5m2");
	else if (kind == E5M2_E4M3)
		MMA("m16n8k32", "e5m2.e4m3");
	else if (kind == E5M2)
		MMA("m16n8k32", "e5m2.e5m2");
#endif
	else
		return false;
	return true;
#elif __CUDA_ARCH__ >= 750
	if (kind != F16)
		return false;
	for (int half = 0; half < 2; half++)
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
		             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		             : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
	return true;
#else
	return false;
#endif
}

#define WGMMA(types) \
	asm volatile("{.reg .pred add;\n setp.eq.u32 add, 0, 0;\n wgmma.fence.sync.aligned;\n" \
	             "wgmma.mma_async.sync.aligned.m64n8k32.f32." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, add, 1, 1;\n" \
	             "wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;}" \
	             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(w) : "memory")

/* The same of 64 x 8 numbers by four warps. W lies in shared memory as two matrices of 8 rows of 16 bytes. */
__device__ static bool wgmma(enum kind kind, float d[4], const uint32_t a[4], const uint32_t *shared)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	const uint64_t apart = 128 >> 4, w = (uint64_t)__cvta_generic_to_shared(shared) >> 4 | apart << 16 | apart << 32;

	if (kind == E4M3)
		WGMMA("e4m3.e4m3");
	else if (kind == E4M3_E5M2)
		WGMMA("e4m3.e5m2");
	else if (kind == E5M2_E4M3)
		WGMMA("e5m2.e4m3");
	else
		WGMMA("e5m2.e5m2");
	return true;
#else
	(void)kind, (void)d, (void)a, (void)shared;
	return false;
#endif
}

/* A block is an item. Thread t of a warp has words t % 4 and t % 4 + 4 of rows t / 4 and t / 4 + 8 of A and of row t / 4 of W, and
   two numbers of D in each of these rows of A, whatever the type: PTX ISA, "Matrix Fragments for mma". */
__global__ static void multiply(struct job job, int *missing)
{
	__shared__ __align__(128) uint32_t shared[COLS * WORDS];
	const unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, at = lane % 4;
	const size_t stride = job.steps * WORDS;
	const uint32_t *a_rows = job.a + blockIdx.x * job.rows * stride, *w_rows = job.w + blockIdx.x * job.cols * stride;
	float *numbers = job.d + (size_t)blockIdx.x * job.rows * job.cols, d[4];
	bool can = true;

	for (unsigned i = 0; i < 4; i++) {
		const unsigned r = row + i / 2 * 8, c = 2 * at + i % 2;

		d[i] = r < job.rows && c < job.cols ? numbers[r * job.cols + c] : 0;
	}
	for (size_t step = 0; step < job.steps; step++) {
		uint32_t a[4], b[2];

		for (unsigned i = 0; i < 4; i++)
			a[i] = row + i % 2 * 8 < job.rows ? a_rows[(row + i % 2 * 8) * stride + step * WORDS + at + i / 2 * 4] : 0;
		for (unsigned i = 0; i < 2; i++)
			b[i] = lane / 4 < job.cols ? w_rows[lane / 4 * stride + step * WORDS + at + i * 4] : 0;
		if (!job.wgmma) {
			can = mma(job.kind, d, a, b);
			continue;
		}
		__syncthreads();
		if (threadIdx.x < 32)
			for (unsigned i = 0; i < 2; i++)
				shared[i * 32 + lane] = b[i];
#if __CUDA_ARCH__ >= 900
		asm volatile("fence.proxy.async;" ::: "memory");
#endif
		__syncthreads();
		can = wgmma(job.kind, d, a, shared);
	}
	for (unsigned i = 0; i < 4; i++) {
		const unsigned r = row + i / 2 * 8, c = 2 * at + i % 2;

		if (r < job.rows && c < job.cols)
			numbers[r * job.cols + c] = d[i];
	}
	if (!can)
		*missing = 1;
}

static void check(cudaError_t error)
{
	if (error != cudaSuccess)
		fail(cudaGetErrorString(error));
}

static int capability_of(char name[256])
{
	cudaDeviceProp properties;

	check(cudaGetDeviceProperties(&properties, 0));
	snprintf(name, 256, "%.200s", properties.name);
	return properties.major * 10 + properties.minor;
}

static void *on_device(const void *from, size_t bytes)
{
	void *to;

	check(cudaMalloc(&to, bytes));
	check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
	return to;
}

static bool run(const struct job *job)
{
	const size_t row = job->steps * WORDS * 4, d_bytes = job->items * job->rows * job->cols * 4;
	struct job there = *job;
	int missing = 0;

	there.a = (const uint32_t *)on_device(job->a, job->items * job->rows * row);
	there.w = (const uint32_t *)on_device(job->w, job->items * job->cols * row);
	there.d = (float *)on_device(job->d, d_bytes);
	int *flag = (int *)on_device(&missing, sizeof missing);
	multiply<<<(unsigned)job->items, THREADS>>>(there, flag);
	check(cudaGetLastError());
	check(cudaMemcpy(job->d, there.d, d_bytes, cudaMemcpyDeviceToHost));
	check(cudaMemcpy(&missing, flag, sizeof missing, cudaMemcpyDeviceToHost));
	check(cudaFree((void *)there.a));
	check(cudaFree((void *)there.w));
	check(cudaFree(there.d));
	check(cudaFree(flag));
	return missing == 0;
}

#endif

/* Formats: bits of exponent and fraction, bytes. */
struct format {
	const char *name;
	int exponent, fraction, bytes;
};

static const struct format formats[] = {{"f16", 5, 10, 2}, {"bf16", 8, 7, 2}, {"tf32", 8, 10, 4}, {"e4m3", 4, 3, 1}, {"e5m2", 5, 2, 1}};
static const struct {
	int a, w, k;
} kinds[N_KINDS] = {{0, 0, 16}, {1, 1, 16}, {2, 2, 8}, {3, 3, 32}, {3, 4, 32}, {4, 3, 32}, {4, 4, 32}};

/* The exchange of conformance/README.md. */
static char line[4096];

static const char *word(const char *key)
{
	static char words[4][64];
	static int next;
	char pattern[64], *at;

	snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
	at = strstr(line, pattern);
	next = (next + 1) % 4;
	snprintf(words[next], sizeof words[next], "%.*s", at != NULL ? (int)strcspn(at + strlen(pattern), "\"") : 0,
	         at != NULL ? at + strlen(pattern) : "");
	return words[next];
}

static size_t number(const char *key)
{
	char pattern[64], *at;

	snprintf(pattern, sizeof pattern, "\"%s\":", key);
	at = strstr(line, pattern);
	return at != NULL ? (size_t)strtoull(at + strlen(pattern), NULL, 10) : 0;
}

/* Rows of k numbers as rows of whole steps. */
static uint32_t *padded(const char *from, size_t rows, size_t bytes, size_t steps)
{
	char *to = (char *)memory(rows * steps * WORDS * 4);

	for (size_t i = 0; i < rows; i++)
		memcpy(to + i * steps * WORDS * 4, from + i * bytes, bytes);
	return (uint32_t *)to;
}

/* Answers n items of "dot" into d; false: not supported. */
static bool dot(int capability, const char *in, size_t bytes, float *d, size_t n)
{
	const char *const acc = word("acc"), *const a = word("a"), *const w = word("w");

	for (int kind = 0; kind < N_KINDS; kind++)
		for (int wgmma = 0; wgmma < 2; wgmma++) {
			const struct format *f = &formats[kinds[kind].a], *g = &formats[kinds[kind].w];
			const char *const own = accumulator(capability, (enum kind)kind, wgmma != 0);
			const size_t k = number("k"), row = k * (size_t)f->bytes;

			if (strcmp(a, f->name) != 0 || strcmp(w, g->name) != 0 || own == NULL || n == 0 || k == 0 || bytes != 2 * n * row ||
			    (strcmp(acc, own) != 0 && strcmp(acc, "own") != 0))
				continue;
			const size_t steps = (row + WORDS * 4 - 1) / (WORDS * 4);
			uint32_t *const as = padded(in, n, row, steps), *const ws = padded(in + n * row, n, row, steps);
			const struct job job = {(enum kind)kind, wgmma != 0, n, steps, 1, 1, as, ws, d};
			const bool done = run(&job);
			free(as);
			free(ws);
			return done;
		}
	return false;
}

static int answer(int capability, const char *name)
{
	while (fgets(line, sizeof line, stdin) != NULL) {
		const size_t n = number("n"), bytes = number("bytes");
		char *const in = (char *)memory(bytes);
		float *const out = (float *)memory(4 * n);

		if (fread(in, 1, bytes, stdin) != bytes)
			return 1;
		if (strcmp(word("op"), "hello") == 0)
			printf("{\"version\":1,\"name\":\"%s\"}\n", name);
		else if (strcmp(word("op"), "dot") != 0 || !dot(capability, in, bytes, out, n))
			puts("{\"unsupported\":true}");
		else {
			printf("{\"bytes\":%zu}\n", 4 * n);
			fwrite(out, 4, n, stdout);
		}
		fflush(stdout);
		free(in);
		free(out);
	}
	return 0;
}

/* Tiles at random, seed 1. */
static uint64_t state = 1;

static uint32_t below(uint32_t n)
{
	state = state * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)((state >> 33) % n);
}

enum data { CODES, NORMAL, WIDE, CANCEL, SPECIAL, N_DATA };

static const char *const data_names[N_DATA] = {"codes", "normal", "wide", "cancel", "special"};

/* A code with this exponent, which is kept where numbers are finite, and any fraction. */
static uint32_t code_of(const struct format *f, int exponent)
{
	const int top = (1 << f->exponent) - 2;
	const uint32_t field = (uint32_t)(exponent < 0 ? 0 : exponent > top ? top : exponent);

	return (below(2) << f->exponent | field) << f->fraction | below(1U << f->fraction);
}

static uint32_t code(const struct format *f, enum data data)
{
	const int bias = (1 << (f->exponent - 1)) - 1;

	if (data == CODES)
		return code_of(f, (int)below(1U << f->exponent));
	if (data == WIDE)
		return code_of(f, below(16) == 0 ? bias + (int)below((uint32_t)bias) : bias - (int)below(6));
	if (data == SPECIAL && below(4) == 0)
		return below(32) == 0 ? below(2U << (f->exponent + f->fraction)) : below(4) == 0 ? 1U << (f->exponent + f->fraction) : code_of(f, 0);
	return code_of(f, bias + 2 - (int)below(5));
}

static double value(const struct format *f, uint32_t code)
{
	const int field = (int)(code >> f->fraction) & ((1 << f->exponent) - 1), bias = (1 << (f->exponent - 1)) - 1;
	const double x = ldexp((double)(code & ((1U << f->fraction) - 1)) + (field != 0 ? 1 << f->fraction : 0),
	                       (field != 0 ? field : 1) - bias - f->fraction);

	return code >> (f->exponent + f->fraction) != 0 ? -x : x;
}

static void put(const struct format *f, uint32_t *row, int i, uint32_t code)
{
	if (f->bytes == 4)
		row[i] = code << 13;
	else
		memcpy((char *)row + i * f->bytes, &code, (size_t)f->bytes); /* little-endian */
}

/* C for the sum of its products: 0, nearly minus it, about its size, far above or below it, any binary32. */
static float addend(double sum)
{
	const double size = fabs(sum) + 1e-30;
	const uint32_t bits = below(1U << 16) << 16 | below(1U << 16), what = below(6);
	float x;

	memcpy(&x, &bits, 4);
	return what == 0 ? 0 : what == 1 ? (float)(-sum * (1 + ldexp(1, -(int)below(26)))) : what == 5 ? x :
	       (float)ldexp(size * (below(2) != 0 ? 1 : -1) * (1 + below(1U << 20) / 1048576.0), what == 2 ? 0 : what == 3 ? 12 : -12);
}

static void fill(const struct job *job, enum data data)
{
	const struct format *f = &formats[kinds[job->kind].a], *g = &formats[kinds[job->kind].w];
	const int k = kinds[job->kind].k;
	uint32_t *const a = (uint32_t *)job->a, *const w = (uint32_t *)job->w;

	for (size_t tile = 0; tile < job->items; tile++) {
		static double x[ROWS][32], y[COLS][32];

		for (int col = 0; col < COLS; col++)
			for (int i = 0; i < k; i++) {
				const uint32_t it = code(g, data);

				y[col][i] = value(g, it);
				put(g, w + (tile * COLS + col) * WORDS, i, it);
			}
		for (int row = 0; row < ROWS; row++)
			for (int i = 0; i < k; i++) {
				uint32_t it = code(f, data);

				if (data == CANCEL && i % 2 == 1) { /* half the rows: minus the product before, or nearly */
					it = code_of(f, (1 << (f->exponent - 1)) - 1);
					if (row % 2 == 0)
						it = (it & ~(1U << (f->exponent + f->fraction))) | (x[row][i - 1] > 0 ? 1U << (f->exponent + f->fraction) : 0);
				}
				x[row][i] = value(f, it);
				put(f, a + (tile * ROWS + row) * WORDS, i, it);
			}
		for (int row = 0; row < ROWS; row++)
			for (int col = 0; col < COLS; col++) {
				double sum = 0;

				for (int i = 0; i < k; i++)
					sum += x[row][i] * y[col][i];
				job->d[(tile * ROWS + row) * COLS + col] = addend(sum);
			}
	}
}

/* Writes a record of each instruction and kind of data that the chip and this build have. */
static int record(int capability, const char *name, const char *folder)
{
	enum { TILES = 30, A_WORDS = TILES * ROWS * WORDS, W_WORDS = TILES * COLS * WORDS, NUMBERS = TILES * ROWS * COLS };
	static uint32_t a[A_WORDS], w[W_WORDS];
	static float c[NUMBERS], d[NUMBERS];
	char path[4096];
	size_t offset = 0;

	snprintf(path, sizeof path, "%s/tiles.bin", folder);
	FILE *const tiles = fopen(path, "wb");
	snprintf(path, sizeof path, "%s/tiles.json", folder);
	FILE *const facts = fopen(path, "w");
	if (tiles == NULL || facts == NULL)
		fail("the folder cannot be written to");
	fprintf(facts, "{\n\"device\": \"%s\",\n\"records\": [", name);
	for (int wgmma = 0; wgmma < 2; wgmma++)
		for (int kind = 0; kind < N_KINDS; kind++)
			for (int data = 0; data < N_DATA; data++) {
				const struct job job = {(enum kind)kind, wgmma != 0, TILES, 1, ROWS, COLS, a, w, d};
				const char *const acc = accumulator(capability, (enum kind)kind, wgmma != 0);
				const struct format *f = &formats[kinds[kind].a], *g = &formats[kinds[kind].w];

				if (acc == NULL)
					continue;
				memset(a, 0, sizeof a);
				memset(w, 0, sizeof w);
				fill(&job, (enum data)data);
				memcpy(c, d, sizeof c);
				if (!run(&job))
					continue;
				fprintf(facts, "%s\n{\"instruction\": \"%smma.m%dn8k%d.%s%s%s\", \"acc\": \"%s\", \"data\": \"%s\", \"tiles\": %d, "
				        "\"k\": %d, \"offset\": %zu}", offset != 0 ? "," : "", wgmma != 0 ? "wg" : "", wgmma != 0 ? 64 : 16, kinds[kind].k,
				        f->name, f != g ? "." : "", f != g ? g->name : "", acc, data_names[data], TILES, kinds[kind].k, offset);
				if (fwrite(a, sizeof a, 1, tiles) + fwrite(w, sizeof w, 1, tiles) + fwrite(c, sizeof c, 1, tiles) +
				    fwrite(d, sizeof d, 1, tiles) != 4)
					fail("tiles.bin cannot be written");
				offset += sizeof a + sizeof w + sizeof c + sizeof d;
			}
	fprintf(facts, "\n]\n}\n");
	if (fclose(tiles) != 0 || fclose(facts) != 0)
		fail("the tiles cannot be written");
	return offset != 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	char name[256];
	const int capability = capability_of(name);

	if (argc == 3 && strcmp(argv[1], "--record") == 0)
		return record(capability, name, argv[2]);
	if (argc != 1) {
		fputs("usage: probe [--record FOLDER]\n", stderr);
		return 2;
	}
	return answer(capability, name);
}
