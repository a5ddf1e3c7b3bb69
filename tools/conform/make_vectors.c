/* SPDX-License-Identifier: MIT */
/*
 * Makes conformance/vectors: some of what mxfp conform --quick asks, and what ref/ answers, as text. Questions that ask the same
 * share a file, with a column of results each. Of each class of input a file has what fits in CLASS_BYTES, spread evenly, the
 * first item that each quirk changes, of numbers to 8 bits the neighbours of all values and ties, and of scales all from 1 to 2.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "conform/number.h"

enum { VECTORS_VERSION = 1, SEED = 1, COLUMNS_MAX = 48, FILES_MAX = 64, NAME = 96, CLASSES_MAX = 32, CLASS_BYTES = 8192, CLASS_LEAST = 2 };

/* Which words of a label, after the operation, decide what is asked and are the file's name; the others name the column. */
static const uint8_t words_of_file[N_OPERATIONS] = {
	[OP_CAST] = 1, [OP_DECODE] = 1, [OP_SCALE] = 1, [OP_MX] = 1, [OP_MX_DECODE] = 1, [OP_NVFP4] = 4, [OP_PACK] = 1, [OP_UNPACK] = 1,
	[OP_DOT] = 1 | 2 | 8, [OP_PRUNE] = 1, [OP_ROW] = 2, [OP_ATTENTION] = 3,
};

static const struct {
	uint32_t operations;
	const char *id, *meaning;
} quirks[] = {
#define QUIRK(id, operations, meaning) {operations, #id, meaning},
#include "conform/quirk.def"
};

struct vectors {
	char name[NAME];
	struct question columns[COLUMNS_MAX];
	char names[COLUMNS_MAX][NAME];
	size_t n_columns;
};

/* Items of a file, their results by the first column, and the classes of these. */
struct made {
	struct items items;
	uint8_t *expected;
	size_t *order;
	uint64_t *indices;
	uint8_t *class_of;
	bool *is_taken;
	const char *classes[CLASSES_MAX];
	size_t n_classes;
};

static FILE *files_table, *classes_table;
static bool is_caught[N_QUIRKS];

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "make_vectors: %s: %s\n", what, why);
	exit(1);
}

static void *memory(size_t n, size_t bytes)
{
	void *p = calloc(n > 0 ? n : 1, bytes);

	if (p == NULL)
		die("memory", "not enough");
	return p;
}

static FILE *create(const char *folder, const char *name)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	if (file == NULL)
		die(path, strerror(errno));
	return file;
}

static void close_file(FILE *file, const char *name)
{
	if (ferror(file) != 0 || fclose(file) != 0)
		die(name, "cannot write");
}

/* The names of the file and the column of a question: words of its label. */
static void name_question(const struct question *q, char file[NAME], char column[NAME])
{
	char label[sizeof q->label], *rest = label;

	snprintf(label, sizeof label, "%s", q->label);
	snprintf(file, NAME, "%s", strsep(&rest, " "));
	column[0] = '\0';
	for (unsigned i = 0; rest != NULL; i++) {
		const char *word = strsep(&rest, " ");
		char *to = words_of_file[q->op] >> i & 1 ? file : column;
		const size_t used = strlen(to);

		snprintf(to + used, NAME - used, "%s%s", used == 0 ? "" : to == file ? "_" : ".", word);
	}
	for (char *c = file; *c != '\0'; c++)
		*c = *c == ':' ? '-' : *c;
	if (column[0] == '\0')
		snprintf(column, NAME, "result");
}

static size_t find_files(struct vectors *files, enum op op)
{
	size_t n = 0;

	for (size_t i = 0; i < operations[op]->n_questions; i++) {
		struct question q;
		char file[NAME], column[NAME];
		size_t at = 0;

		if (!operations[op]->question(&q, i))
			continue;
		name_question(&q, file, column);
		while (at < n && strcmp(files[at].name, file) != 0)
			at++;
		struct vectors *v = &files[at];
		if (at == FILES_MAX || v->n_columns == COLUMNS_MAX)
			die(q.label, "too many questions");
		n += at == n;
		snprintf(v->name, NAME, "%s", file);
		snprintf(v->names[v->n_columns], NAME, "%s", column);
		v->columns[v->n_columns++] = q;
	}
	return n;
}

/* What is asked. */

static size_t item_bytes;
static const uint8_t *item_base;

static int compare_items(const void *a, const void *b)
{
	const size_t i = *(const size_t *)a, k = *(const size_t *)b;
	const int order = memcmp(item_base + i * item_bytes, item_base + k * item_bytes, item_bytes);

	return order != 0 ? order : i < k ? -1 : i > k;
}

/* Whether any result is right. */
static bool is_nobodys(const struct question *q, const uint8_t *in)
{
	return q->op == OP_CAST && mxfp_format_get_info(q->format)->special == MXFP_SPECIAL_NONE && f32_is_nan(load_f32(in));
}

/* Drops items that were there before. */
static void drop_repeated(struct items *items, const struct question *q)
{
	size_t *order = memory(items->n, sizeof *order), n = 0;
	bool *is_repeated = memory(items->n, sizeof *is_repeated);

	for (size_t i = 0; i < items->n; i++)
		order[i] = i;
	item_base = items->bytes;
	item_bytes = items->item_bytes;
	qsort(order, items->n, sizeof *order, compare_items);
	for (size_t i = 1; i < items->n; i++)
		is_repeated[order[i]] =
			memcmp(item_base + order[i] * item_bytes, item_base + order[i - 1] * item_bytes, item_bytes) == 0;
	for (size_t i = 0; i < items->n; i++)
		if (!is_repeated[i] && !is_nobodys(q, items->bytes + i * item_bytes))
			memmove(items->bytes + n++ * item_bytes, items->bytes + i * item_bytes, item_bytes);
	items->n = n;
	free(order);
	free(is_repeated);
}

static size_t class_index(struct made *m, const char *class)
{
	size_t c = 0;

	while (c < m->n_classes && strcmp(m->classes[c], class) != 0)
		c++;
	if (c == CLASSES_MAX)
		die(class, "too many classes");
	if (c == m->n_classes)
		m->classes[m->n_classes++] = class;
	return c;
}

/* Asks the first question, and divides its items into classes. */
static void ask(struct made *m, const struct question *q)
{
	m->items = (struct items){.item_bytes = q->in_bytes, .quick = true, .random = SEED};
	operations[q->op]->items(q, &m->items);
	if (m->items.out_of_memory)
		die("memory", "not enough");
	drop_repeated(&m->items, q);
	const size_t n = m->items.n;
	m->expected = memory(n, q->out_bytes);
	m->order = memory(n, sizeof *m->order);
	m->indices = memory(n, sizeof *m->indices);
	m->class_of = memory(n, 1);
	m->is_taken = memory(n, sizeof *m->is_taken);
	for (size_t i = 0; i < n; i++)
		m->indices[i] = i;
	operations[q->op]->answer(q, &q->way, m->items.bytes, m->indices, n, m->expected);
	for (size_t i = 0; i < n; i++)
		m->class_of[i] = (uint8_t)class_index(m, operations[q->op]->class_of(q, m->items.bytes + i * q->in_bytes,
		                                                                   m->expected + i * q->out_bytes));
}

/* The way of a question with a quirk. */
static struct way way_with(const struct question *q, int quirk)
{
	struct way way = q->way;

	way.quirks[quirk / 64] |= UINT64_C(1) << quirk % 64;
	return way;
}

static bool has_way(const struct question *q, int quirk)
{
	/* Tolerances are no way of their own. */
	return (quirks[quirk].operations >> q->op & 1) != 0 && quirk != QUIRK_WITHIN_1 && quirk != QUIRK_WITHIN_4 && quirk != QUIRK_WITHIN_64;
}

/* Whether a way changes the result of an item. */
static bool changes(const struct question *q, const struct way *way, const uint8_t *in, uint64_t index, const uint8_t *expected)
{
	uint8_t result[4096];
	const struct operation *operation = operations[q->op];

	operation->answer(q, way, in, &index, 1, result);
	return memcmp(expected, result, q->out_bytes) != 0 && (operation->same == NULL || !operation->same(q, in, expected, result));
}

/* Takes the first item of each class that a quirk changes. */
static void take_for_quirks(struct made *m, const struct question *q)
{
	for (int quirk = 0; quirk < N_QUIRKS; quirk++) {
		const struct way way = way_with(q, quirk);
		bool has[CLASSES_MAX] = {false};

		for (size_t i = 0; i < m->items.n && has_way(q, quirk); i++)
			if (!has[m->class_of[i]] && changes(q, &way, m->items.bytes + i * q->in_bytes, i, m->expected + i * q->out_bytes))
				has[m->class_of[i]] = m->is_taken[i] = true;
	}
}

/* Takes the largest magnitudes from 1 to 2, among which every rule decides. */
static void take_binade(struct made *m, const struct question *q)
{
	for (size_t i = 0; i < m->items.n && q->op == OP_SCALE; i++)
		m->is_taken[i] |= load_f32(m->items.bytes + 4 * i) >> 23 == 127;
}

/* Takes the numbers beside every value of a format of at most 8 bits, and beside the middles between them. */
static void take_neighbours(struct made *m, const struct question *q)
{
	for (size_t i = 0; i < m->items.n && q->op == OP_CAST && mxfp_format_get_info(q->format)->bits <= 8; i++)
		for (int side = -1; side <= 1; side += 2) {
			const uint32_t x = load_f32(m->items.bytes + 4 * i), magnitude = (x & ~F32_SIGN) + (uint32_t)side;
			const char *class = magnitude < F32_INF ? number_class(mxfp_format_get_info(q->format), magnitude | (x & F32_SIGN)) : "";

			m->is_taken[i] |= strncmp(class, "exact", 5) == 0 || strstr(class, "tie") != NULL;
		}
}

/* Characters of a line. */
static size_t line_bytes(const struct vectors *v)
{
	size_t bytes = 2 * v->columns[0].in_bytes;

	for (size_t c = 0; c < v->n_columns; c++)
		bytes += 2 * v->columns[c].out_bytes;
	return bytes;
}

/* Takes as many of a class as fit, and puts those taken in order. */
static void take_class(struct made *m, size_t class, size_t most, size_t *n_taken)
{
	size_t n = 0, seen = 0;

	for (size_t i = 0; i < m->items.n; i++)
		n += m->class_of[i] == class;
	for (size_t i = 0; i < m->items.n; i++) {
		if (m->class_of[i] != class)
			continue;
		if (n <= most || (seen + 1) * most / n != seen * most / n)
			m->is_taken[i] = true;
		seen++;
		if (m->is_taken[i])
			m->order[(*n_taken)++] = i;
	}
}

/* Text. */

static void print_parts(FILE *to, const size_t parts[PARTS_MAX], const size_t words[PARTS_MAX])
{
	for (int p = 0; p < PARTS_MAX && parts[p] != 0; p++)
		fprintf(to, "%s%zux%zu", p > 0 ? "+" : "", parts[p] / words[p], 8 * words[p]);
}

/* Numbers of parts; those of the first as xx if nothing is to be compared with them. */
static void print_words(FILE *to, const uint8_t *bytes, const size_t parts[PARTS_MAX], const size_t words[PARTS_MAX], bool hides_first)
{
	for (int p = 0; p < PARTS_MAX && parts[p] != 0; bytes += parts[p++])
		for (size_t at = 0; at < parts[p]; at += words[p]) {
			fputs(p > 0 || at > 0 ? "_" : "", to);
			for (size_t b = words[p]; b-- > 0;)
				fprintf(to, hides_first && p == 0 ? "xx" : "%02X", (unsigned)bytes[at + b]);
		}
}

/* The codes of a block whose scale is NaN are not compared. */
static bool is_nan_block(const struct question *q, const uint8_t *result)
{
	return (q->op == OP_MX && result[q->out[0]] == 0xFF) || (q->op == OP_NVFP4 && result[q->out[0]] == 0x7F);
}

/* Whether a quirk changes a result of n items from the first on in any column. */
static bool catches(const struct vectors *v, int quirk, const uint8_t *items, uint8_t *const results[COLUMNS_MAX], size_t first, size_t n)
{
	for (size_t c = 0; c < v->n_columns; c++) {
		const struct question *q = &v->columns[c];
		const struct way way = way_with(q, quirk);

		for (size_t i = first; i < first + n && has_way(q, quirk); i++)
			if (changes(q, &way, items + i * q->in_bytes, i, results[c] + i * q->out_bytes))
				return true;
	}
	return false;
}

static void print_caught(const struct vectors *v, const uint8_t *items, uint8_t *const results[COLUMNS_MAX], size_t first, size_t n)
{
	const char *between = "";

	for (int quirk = 0; quirk < N_QUIRKS; quirk++)
		if (catches(v, quirk, items, results, first, n)) {
			fprintf(classes_table, "%s%s", between, quirks[quirk].id);
			between = " ";
			is_caught[quirk] = true;
		}
}

/* Writes the items taken, of which those of class c are n_of[c]. */
static void write_file(const char *folder, const struct vectors *v, const struct made *m, size_t n, const size_t n_of[CLASSES_MAX])
{
	const struct question *q = &v->columns[0];
	uint8_t *items = memory(n, q->in_bytes), *results[COLUMNS_MAX];
	char name[NAME + 8];
	size_t first = 0;

	snprintf(name, sizeof name, "%s.hex", v->name);
	FILE *file = create(folder, name);
	fprintf(file, "// libmxfp vectors %d: %s. A line: ", VECTORS_VERSION, v->name);
	print_parts(file, q->in, q->in_word);
	fprintf(files_table, "%s\t%s\t%zu\t", name, op_name(q->op), n);
	print_parts(files_table, q->in, q->in_word);
	for (size_t i = 0; i < n; i++)
		memcpy(items + i * q->in_bytes, m->items.bytes + m->order[i] * q->in_bytes, q->in_bytes);
	for (size_t c = 0; c < v->n_columns; c++) {
		const struct question *column = &v->columns[c];

		results[c] = memory(n, column->out_bytes);
		operations[q->op]->answer(column, &column->way, items, m->indices, n, results[c]);
		fprintf(file, " %s:", v->names[c]);
		print_parts(file, column->out, column->out_word);
		fprintf(files_table, "%c%s:", c == 0 ? '\t' : ' ', v->names[c]);
		print_parts(files_table, column->out, column->out_word);
	}
	fputs("\n", file);
	fputs("\n", files_table);
	for (size_t class = 0; class < m->n_classes; first += n_of[class++]) {
		fprintf(file, "// %s\n", m->classes[class]);
		for (size_t i = first; i < first + n_of[class]; i++) {
			print_words(file, items + i * q->in_bytes, q->in, q->in_word, false);
			for (size_t c = 0; c < v->n_columns; c++) {
				const struct question *column = &v->columns[c];
				const uint8_t *result = results[c] + i * column->out_bytes;

				fputs("_", file);
				print_words(file, result, column->out, column->out_word, is_nan_block(column, result));
			}
			fputs("\n", file);
		}
		fprintf(classes_table, "%s\t%s\t%zu\t", name, m->classes[class], n_of[class]);
		print_caught(v, items, results, first, n_of[class]);
		fputs("\n", classes_table);
	}
	for (size_t c = 0; c < v->n_columns; c++)
		free(results[c]);
	free(items);
	close_file(file, name);
}

static void make(const char *folder, const struct vectors *v)
{
	const size_t most = CLASS_BYTES / line_bytes(v) < CLASS_LEAST ? CLASS_LEAST : CLASS_BYTES / line_bytes(v);
	struct made m = {.n_classes = 0};
	size_t n = 0, n_of[CLASSES_MAX];

	ask(&m, &v->columns[0]);
	take_for_quirks(&m, &v->columns[0]);
	take_neighbours(&m, &v->columns[0]);
	take_binade(&m, &v->columns[0]);
	for (size_t class = 0; class < m.n_classes; class++) {
		const size_t before = n;

		take_class(&m, class, most, &n);
		n_of[class] = n - before;
	}
	write_file(folder, v, &m, n, n_of);
	free(m.items.bytes);
	free(m.expected);
	free(m.order);
	free(m.indices);
	free(m.class_of);
	free(m.is_taken);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		die("usage", "make_vectors DIRECTORY");
	files_table = create(argv[1], "files.tsv");
	classes_table = create(argv[1], "classes.tsv");
	fputs("file\toperation\titems\tin\tresults\n", files_table);
	fputs("file\tclass\titems\tcatches\n", classes_table);
	for (int op = 0; op < N_OPERATIONS; op++) {
		struct vectors *files = memory(FILES_MAX + 1, sizeof *files);
		const size_t n = find_files(files, (enum op)op);

		for (size_t i = 0; i < n; i++)
			make(argv[1], &files[i]);
		free(files);
	}
	FILE *faults = create(argv[1], "faults.tsv");
	fputs("fault\tmeaning\n", faults);
	for (int quirk = 0; quirk < N_QUIRKS; quirk++) {
		if (is_caught[quirk])
			fprintf(faults, "%s\t%s\n", quirks[quirk].id, quirks[quirk].meaning);
		else if (quirk != QUIRK_WITHIN_1 && quirk != QUIRK_WITHIN_4 && quirk != QUIRK_WITHIN_64 &&
		         (quirk < QUIRK_IN_BLOCKS || quirk > QUIRK_OUT_SWAPPED)) /* these are of the exchange */
			die(quirks[quirk].id, "no vector catches it");
	}
	close_file(files_table, "files.tsv");
	close_file(classes_table, "classes.tsv");
	close_file(faults, "faults.tsv");
	return 0;
}
