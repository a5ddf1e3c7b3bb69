/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/number.h"

/* Items of a class that ways are tried on: those that differ, others, a third if items are blocks, and those that refuted a guess. */
enum { DIFFERING = 96, EQUAL = 48, REFUTING = 16, ROUNDS = 3, SAMPLE = DIFFERING + EQUAL + ROUNDS * REFUTING };

/* The most ways; items that are too few for a name, and so many that few of them say nothing; the score of an item that matches, and
   of a class. */
enum { WAYS_MAX = 240, FEW = 8, MANY = 512, MATCH = 1000, WHOLE = 1000000 };

static const struct {
	uint32_t operations;
	const char *meaning;
} quirks[] = {
#define QUIRK(id, operations, meaning) {operations, meaning},
#include "conform/quirk.def"
};

struct named {
	struct way way;
	char text[WAY_TEXT];
	int option, value; /* that it chooses; -1: a quirk */
	int quirk;
	bool is_near;      /* a tolerance, which is no way of its own */
	bool is_seen;      /* in a question before */
};

struct ways {
	struct named list[WAYS_MAX];
	size_t n;
};

static bool is_tolerance(int quirk)
{
	return quirk == QUIRK_WITHIN_1 || quirk == QUIRK_WITHIN_4 || quirk == QUIRK_WITHIN_64;
}

/* Of bytes on their way, not of numbers. */
static bool is_wire(int quirk)
{
	return quirk >= QUIRK_IN_BLOCKS && quirk <= QUIRK_OUT_SWAPPED;
}

/* Other values of the options of a question, then the quirks of its operation. */
static void list_ways(struct ways *ways, const struct question *q, const struct seen *seen)
{
	ways->n = 0;
	for (int option = 0; option < N_CHOICES; option++)
		for (int value = 0; q->way.choice[option] >= 0 && mxfp_option_name((enum mxfp_option)option, value) != NULL; value++) {
			struct named *named = &ways->list[ways->n];

			if (ways->n == WAYS_MAX || value == q->way.choice[option] ||
			    (option == MXFP_OPTION_ROUND && value == MXFP_ROUND_SR) ||
			    (option == MXFP_OPTION_RULE && q->op == OP_SCALE && value == MXFP_RULE_MSE))
				continue;
			*named = (struct named){.way = q->way, .option = option, .value = value, .is_seen = seen->values[option] >> value & 1};
			named->way.choice[option] = value;
			snprintf(named->text, sizeof named->text, "%s: %s", mxfp_option_name((enum mxfp_option)option, value),
			         mxfp_option_meaning((enum mxfp_option)option, value));
			ways->n++;
		}
	for (int quirk = 0; quirk < N_QUIRKS; quirk++) {
		struct named *named = &ways->list[ways->n];

		if (ways->n == WAYS_MAX || (quirks[quirk].operations >> q->op & 1) == 0 || is_wire(quirk))
			continue;
		*named = (struct named){.way = q->way, .option = -1, .quirk = quirk, .is_near = is_tolerance(quirk), .is_seen = seen->quirks[quirk]};
		named->way.quirks[quirk / 64] |= UINT64_C(1) << quirk % 64;
		snprintf(named->text, sizeof named->text, "%s", quirks[quirk].meaning);
		ways->n++;
	}
}

/* Adds a way to another; false: they choose the same thing, or one is a tolerance. */
static bool combine(struct way *way, const struct question *q, const struct named *with)
{
	if (with->is_near || (with->option >= 0 && way->choice[with->option] != q->way.choice[with->option]))
		return false;
	if (with->option >= 0)
		way->choice[with->option] = with->way.choice[with->option];
	else
		way->quirks[with->quirk / 64] |= UINT64_C(1) << with->quirk % 64;
	return true;
}

/* What all items are. */
struct classes {
	uint8_t *of; /* items: the number of their class */
	bool *differs;
	size_t n;
};

struct sample {
	size_t n, items[SAMPLE];
};

/* How many items of a class that differ a way gives, and of how many of the others it gives another answer. */
struct tally {
	size_t n_differ, given, others, broken;
};

static bool is_whole(const struct tally *t)
{
	return t->given == t->n_differ && t->broken == 0;
}

/* All but a twentieth of both. */
static bool is_nearly(const struct tally *t)
{
	return t->n_differ >= FEW && t->given * 20 >= t->n_differ * 19 && t->broken * 20 <= t->n_differ && t->broken * 20 <= t->others;
}

static void tally_item(struct tally *t, bool differs, bool match)
{
	t->n_differ += differs;
	t->given += differs && match;
	t->others += !differs;
	t->broken += !differs && !match;
}

struct search {
	const struct asked *a;
	const struct classes *classes;
	struct sample *samples;
	const struct ways *ways;
};

/* Ways together. */
struct set {
	struct way way;
	size_t n, members[COMBINED_MAX];
	uint64_t total;
	int wire; /* a quirk of bytes, or -1 */
};

static int64_t ordered(uint32_t x)
{
	return x >> 31 ? -(int64_t)(x & ~F32_SIGN) : (int64_t)x;
}

/* Whether numbers are at most so many units in the last place apart. */
static bool near(const struct question *q, const uint8_t *expected, const uint8_t *got, int64_t ulps)
{
	for (size_t i = 0; i < q->out_bytes; i += 4) {
		const uint32_t a = load_f32(expected + i), b = load_f32(got + i);

		if (f32_is_nan(a) != f32_is_nan(b) || (!f32_is_nan(a) && llabs(ordered(a) - ordered(b)) > ulps))
			return false;
	}
	return true;
}

static bool same_result(const struct asked *a, size_t i, const uint8_t *one, const uint8_t *other)
{
	const struct operation *operation = operations[a->q->op];

	if (a->matched == MATCHED_SCALES)
		return one[a->q->out[0]] == other[a->q->out[0]];
	return memcmp(one, other, a->q->out_bytes) == 0 ||
	       (operation->same != NULL && operation->same(a->q, a->in + i * a->q->in_bytes, one, other));
}

enum { RESULT_MAX = 4096 };

static void result_of(const struct asked *a, const struct way *made, size_t i, uint8_t result[RESULT_MAX])
{
	struct way way = *made;

	if (a->matched == MATCHED_CODES) {
		way.has_scale = true;
		way.scale = a->got[i * a->q->out_bytes + a->q->out[0]];
	}
	operations[a->q->op]->answer(a->q, &way, a->in + i * a->q->in_bytes, a->indices + i, 1, result);
}

/* MATCH if a way gives what was answered, else less, by the bytes that it gives. */
static unsigned score(const struct asked *a, const struct way *way, size_t i)
{
	uint8_t result[RESULT_MAX];
	const size_t n = a->q->out_bytes;
	const uint8_t *got = a->got + i * n;
	size_t equal = 0;

	if (has_quirk(way, QUIRK_WITHIN_1) || has_quirk(way, QUIRK_WITHIN_4) || has_quirk(way, QUIRK_WITHIN_64))
		return MATCH * near(a->q, a->expected + i * n, got, has_quirk(way, QUIRK_WITHIN_1) ? 1 : has_quirk(way, QUIRK_WITHIN_4) ? 4 : 64);
	result_of(a, way, i, result);
	if (same_result(a, i, result, got))
		return MATCH;
	for (size_t b = 0; b < n && a->matched != MATCHED_SCALES; b++)
		equal += result[b] == got[b];
	return (unsigned)(equal * (MATCH - 1) / n);
}

/* WHOLE if a way gives the sample of a class. */
static uint64_t class_total(const struct search *s, const struct way *way, size_t c)
{
	const struct sample *sample = &s->samples[c];
	uint64_t sum = 0;

	for (size_t i = 0; i < sample->n; i++)
		sum += score(s->a, way, sample->items[i]);
	return sum * (WHOLE / MATCH) / sample->n;
}

/* The same of all classes; 0 as soon as it cannot be as much as `least`. */
static uint64_t total(const struct search *s, const struct way *way, uint64_t least)
{
	uint64_t sum = 0;

	for (size_t c = 0; c < s->classes->n; c++) {
		sum += class_total(s, way, c);
		if (sum + (s->classes->n - c - 1) * WHOLE < least)
			return 0;
	}
	return sum;
}

static struct way without(const struct search *s, const struct set *set, size_t member)
{
	struct way way = s->a->q->way;

	for (size_t m = 0; m < set->n; m++)
		if (m != member)
			combine(&way, s->a->q, &s->ways->list[set->members[m]]);
	return way;
}

static void take_out(const struct search *s, struct set *set, size_t member)
{
	set->way = without(s, set, member);
	for (size_t m = member + 1; m < set->n; m++)
		set->members[m - 1] = set->members[m];
	set->n--;
}

/* Adds the way that gives most but those barred, as long as one gives more, and takes out what is not needed. */
static void climb(const struct search *s, struct set *set, const bool barred[WAYS_MAX])
{
	bool idle[WAYS_MAX]; /* changes nothing, as long as options are the same */

	memcpy(idle, barred, sizeof idle);
	*set = (struct set){.way = s->a->q->way, .wire = -1};
	set->total = total(s, &set->way, 0);
	while (set->n < COMBINED_MAX && set->total < s->classes->n * WHOLE) {
		size_t best = s->ways->n;
		uint64_t most = set->total;
		struct way way;

		for (size_t w = 0; w < s->ways->n; w++) {
			const struct named *named = &s->ways->list[w];

			way = set->way;
			if (idle[w] || !combine(&way, s->a->q, named))
				continue;
			const uint64_t sum = total(s, &way, most);
			idle[w] = sum == set->total;
			if (sum > most || (sum == most && best < s->ways->n && named->is_seen && !s->ways->list[best].is_seen)) {
				best = w;
				most = sum;
			}
		}
		if (best == s->ways->n)
			break;
		combine(&set->way, s->a->q, &s->ways->list[best]);
		set->members[set->n++] = best;
		set->total = most;
		if (s->ways->list[best].option >= 0)
			memcpy(idle, barred, sizeof idle);
	}
	for (size_t m = set->n; m-- > 0;) {
		const struct way way = without(s, set, m);

		if (set->n > 1 && total(s, &way, set->total) >= set->total)
			take_out(s, set, m);
	}
}

/* Bars one of a set, and what gives about the same in its place. */
static void bar(const struct search *s, const struct set *set, size_t member, bool barred[WAYS_MAX])
{
	const struct way rest = without(s, set, member);

	memset(barred, 0, WAYS_MAX * sizeof *barred);
	barred[set->members[member]] = true;
	for (size_t w = 0; w < s->ways->n; w++) {
		struct way way = rest;

		if (!barred[w] && combine(&way, s->a->q, &s->ways->list[w]))
			barred[w] = total(s, &way, set->total - set->total / 50) != 0;
	}
}

/* How many classes a way gives, by their samples. */
static size_t n_whole(const struct search *s, const struct way *way)
{
	size_t n = 0;

	for (size_t c = 0; c < s->classes->n; c++)
		n += class_total(s, way, c) == WHOLE;
	return n;
}

/* Climbs by what questions before have shown; then by all; then without each of the first two chosen: one that gives a part of what two others
   give together hides them. */
static void climb_all(const struct search *s, struct set *set)
{
	bool barred[WAYS_MAX] = {false};

	for (size_t w = 0; w < s->ways->n; w++)
		barred[w] = !s->ways->list[w].is_seen;
	climb(s, set, barred);
	if (set->total == s->classes->n * WHOLE)
		return;
	memset(barred, 0, sizeof barred);
	climb(s, set, barred);
	const struct set first = *set;
	for (size_t m = 0; m < first.n && m < 2 && set->total < s->classes->n * WHOLE; m++) {
		struct set other;

		bar(s, &first, m, barred);
		climb(s, &other, barred);
		if (other.total > set->total && n_whole(s, &other.way) >= n_whole(s, &set->way))
			*set = other;
	}
}

/* Compares all items with a way, and adds some that refute it to the samples. Returns whether none does. */
static bool tally_all(const struct search *s, const struct way *way, struct tally tallies[CLASSES_MAX], bool add)
{
	size_t added[CLASSES_MAX] = {0};
	bool whole = true;

	memset(tallies, 0, CLASSES_MAX * sizeof *tallies);
	for (size_t i = 0; i < s->a->n; i++) {
		const size_t c = s->classes->of[i];
		struct sample *sample = &s->samples[c];
		const bool match = score(s->a, way, i) == MATCH;

		tally_item(&tallies[c], s->classes->differs[i], match);
		whole &= match;
		if (add && !match && added[c] < REFUTING && sample->n < SAMPLE) {
			sample->items[sample->n++] = i;
			added[c]++;
		}
	}
	return whole;
}

/* Seeks ways that give every answer, from the samples and then from what refutes a guess too. */
static bool seek(const struct search *s, struct set *set, struct tally tallies[CLASSES_MAX])
{
	for (int round = 0;; round++) {
		bool guessed[CLASSES_MAX] = {false}, refuted = false;

		climb_all(s, set);
		for (size_t c = 0; c < s->classes->n; c++)
			guessed[c] = class_total(s, &set->way, c) == WHOLE;
		if (tally_all(s, &set->way, tallies, round + 1 < ROUNDS))
			return true;
		for (size_t c = 0; c < s->classes->n; c++)
			refuted |= guessed[c] && !is_whole(&tallies[c]);
		if (!refuted || round + 1 == ROUNDS)
			return false;
	}
}

/* What one of a set does in a class, by its sample. */
struct part {
	bool touches;           /* it changes an answer */
	uint64_t with, without; /* scores */
	size_t broken_with, broken_without;
};

static struct part part_of(const struct search *s, const struct set *set, size_t member, size_t c)
{
	const struct way rest = without(s, set, member);
	const struct sample *sample = &s->samples[c];
	struct part part = {.touches = s->ways->list[set->members[member]].is_near};

	for (size_t k = 0; k < sample->n; k++) {
		const size_t i = sample->items[k];
		uint8_t one[RESULT_MAX], other[RESULT_MAX];

		result_of(s->a, &set->way, i, one);
		result_of(s->a, &rest, i, other);
		if (memcmp(one, other, s->a->q->out_bytes) == 0 || same_result(s->a, i, one, other))
			continue;
		const unsigned with = score(s->a, &set->way, i), without_ = score(s->a, &rest, i);
		part.touches = true;
		part.with += with;
		part.without += without_;
		part.broken_with += !s->classes->differs[i] && with < MATCH;
		part.broken_without += !s->classes->differs[i] && without_ < MATCH;
	}
	return part;
}

/* Whether a class that a set does not explain speaks against one of it: that changes answers there, and breaks more than it gives,
   or leaves more than a quarter of what is amiss. */
static bool refutes(const struct search *s, const struct set *set, size_t member, size_t c, const struct tally *t)
{
	const struct part part = part_of(s, set, member, c);

	if (!part.touches)
		return false;
	if (t->broken * 20 > t->n_differ && part.broken_with > part.broken_without)
		return true;
	if (t->n_differ < FEW)
		return part.with < part.without;
	const uint64_t rest = s->samples[c].n * (uint64_t)WHOLE - class_total(s, &set->way, c) * s->samples[c].n; /* amiss with it */
	const uint64_t more = part.with > part.without ? (part.with - part.without) * (WHOLE / MATCH) : 0;

	return more < 3 * rest;
}

/* Takes out what a class refutes, what was added last first, until none does. */
static void drop_refuted(const struct search *s, struct set *set, struct tally tallies[CLASSES_MAX])
{
	for (size_t m = set->n; m-- > 0;) {
		bool refuted = false;

		for (size_t c = 0; c < s->classes->n && !refuted; c++)
			refuted = !is_whole(&tallies[c]) && refutes(s, set, m, c, &tallies[c]);
		if (!refuted)
			continue;
		take_out(s, set, m);
		tally_all(s, &set->way, tallies, false);
		m = set->n;
	}
}

/* Byte k of item i of m as they would be if the program orders bytes otherwise. */
static uint8_t wire_byte(const uint8_t *items, const size_t parts[PARTS_MAX], size_t word, size_t m, size_t i, size_t k, enum quirk wire)
{
	const size_t first = parts[0], second = parts[1], bytes = first + second;
	size_t at;

	if (wire == QUIRK_IN_SWAPPED || wire == QUIRK_OUT_SWAPPED)
		return items[k ^ (word - 1)];
	if (wire == QUIRK_IN_BLOCKS || wire == QUIRK_OUT_BLOCKS)
		at = i * bytes + k;
	else if (wire == QUIRK_IN_BLOCKS_SCALE || wire == QUIRK_OUT_BLOCKS_SCALE)
		at = i * bytes + (k < first ? second + k : k - first);
	else
		at = k < first ? m * second + i * first + k : i * second + k - first;
	if (at < m * first)
		return items[at / first * bytes + at % first];
	at -= m * first;
	return items[at / second * bytes + first + at % second];
}

/* Bytes as the program means them; `room` holds them. */
static struct asked other_wire(const struct asked *a, enum quirk wire, uint8_t *room)
{
	const bool in = wire <= QUIRK_IN_SWAPPED;
	const size_t *parts = in ? a->q->in : a->q->out, bytes = in ? a->q->in_bytes : a->q->out_bytes;
	const size_t word = in ? a->q->in_word[0] : a->q->out_word[0];
	const bool swapped = wire == QUIRK_IN_SWAPPED || wire == QUIRK_OUT_SWAPPED;
	struct asked other = *a;

	for (size_t i = 0; i < a->n; i++) {
		const size_t first = swapped ? i : i / a->batch * a->batch, m = a->n - first < a->batch ? a->n - first : a->batch;

		for (size_t k = 0; k < bytes; k++)
			room[i * bytes + k] = wire_byte((in ? a->in : a->got) + first * bytes, parts, word, m, i - first, k, wire);
	}
	*(in ? &other.in : &other.got) = room;
	return other;
}

/* Three quarters of what differs, and all of the rest. */
static bool is_mostly(const struct tally tallies[CLASSES_MAX])
{
	size_t n_differ = 0, given = 0, broken = 0;

	for (size_t c = 0; c < CLASSES_MAX; c++) {
		n_differ += tallies[c].n_differ;
		given += tallies[c].given;
		broken += tallies[c].broken;
	}
	return given * 4 >= n_differ * 3 && broken == 0;
}

/* Seeks ways under another order of bytes, that give most answers; `view` is then what was asked and answered in that order. */
static bool seek_wire(const struct search *s, struct set *set, struct tally tallies[CLASSES_MAX], uint8_t *room, struct asked *view)
{
	const struct question *q = s->a->q;
	const uint64_t whole = s->classes->n * WHOLE, plain = total(s, &q->way, 0);

	for (int wire = QUIRK_IN_BLOCKS; wire <= QUIRK_OUT_SWAPPED; wire++) {
		struct asked other;
		struct search search = *s;
		struct set found;
		struct tally found_tallies[CLASSES_MAX];

		if ((quirks[wire].operations >> q->op & 1) == 0)
			continue;
		other = other_wire(s->a, (enum quirk)wire, room);
		search.a = &other;
		if (total(&search, &q->way, 0) <= plain + (whole - plain) / 8)
			continue;
		const bool found_whole = seek(&search, &found, found_tallies);
		if (!found_whole && !is_mostly(found_tallies))
			continue;
		*set = found;
		set->wire = wire;
		memcpy(tallies, found_tallies, sizeof found_tallies);
		*view = other;
		return found_whole;
	}
	return false;
}

static void add_text(char *text, size_t size, const char *more)
{
	const size_t used = strlen(text);

	snprintf(text + used, size - used, "%s%s", used > 0 && text[used - 1] != ' ' ? "; and " : "", more);
}

/* Which ways of a set have a name, and what else does the same. */
struct accepted {
	bool is[COMBINED_MAX];
	const char *others[COMBINED_MAX][OTHERS_MAX];
};

/* Names those of a set that change answers of a class, "perhaps" those that have no name, and one more unless NULL; `how` is before
   them unless they explain it all. */
static void name_set(struct finding *f, const struct search *s, const struct set *set, size_t c, const struct accepted *accepted,
                     const char *how, const struct named *more)
{
	const bool explains = *how == '\0';

	snprintf(f->nearest, sizeof f->nearest, "%s", how);
	for (size_t m = 0; m < set->n; m++) {
		const char *text = s->ways->list[set->members[m]].text;

		if (!part_of(s, set, m, c).touches)
			continue;
		if (explains && accepted->is[m]) {
			memcpy(f->others[f->n_ways], accepted->others[m], sizeof accepted->others[m]);
			snprintf(f->ways[f->n_ways++], WAY_TEXT, "%s", text);
			continue;
		}
		if (f->nearest[0] == '\0')
			snprintf(f->nearest, sizeof f->nearest, "perhaps: ");
		add_text(f->nearest, sizeof f->nearest, text);
	}
	if (more != NULL)
		add_text(f->nearest, sizeof f->nearest, more->text);
}

/* What a way gives of a class. */
static struct tally tally_class(const struct search *s, const struct way *way, size_t c)
{
	struct tally t = {0};

	for (size_t i = 0; i < s->a->n; i++)
		if (s->classes->of[i] == c)
			tally_item(&t, s->classes->differs[i], score(s->a, way, i) == MATCH);
	return t;
}

static const char *say_nearly(const struct tally *t, char text[96])
{
	snprintf(text, 96, "nearly, %zu of %zu that differ, %zu of %zu others: ", t->given, t->n_differ, t->others - t->broken, t->others);
	return text;
}

/* Names one way more that explains a class that a set does not, or what comes near; `among` are those that are tried, NULL: all.
   Returns the way if it gives the class, else the number of ways. */
static size_t name_one(struct finding *f, const struct search *s, const struct set *set, size_t c,
                       const struct accepted *accepted, const bool *among)
{
	size_t best = s->ways->n;
	uint64_t most = class_total(s, &set->way, c);
	size_t most_else = 0;
	char how[96];
	struct way way;

	for (size_t w = 0; w < s->ways->n; w++) {
		const struct named *named = &s->ways->list[w];

		way = set->way;
		if (among != NULL && !among[w])
			continue;
		if (named->is_near)
			way = named->way;
		else if (!combine(&way, s->a->q, named))
			continue;
		const uint64_t here = class_total(s, &way, c);
		size_t elsewhere = 0; /* classes that it gives */

		if (here < most || (here == most && best == s->ways->n))
			continue;
		for (size_t other = 0; other < s->classes->n; other++)
			elsewhere += class_total(s, &way, other) == WHOLE;
		if (here > most || elsewhere > most_else) {
			best = w;
			most = here;
			most_else = elsewhere;
		}
	}
	if (best < s->ways->n) {
		const struct named *named = &s->ways->list[best];

		way = set->way;
		if (!combine(&way, s->a->q, named))
			way = named->way;
		const struct tally t = tally_class(s, &way, c);
		if (is_whole(&t) && named->is_near)
			snprintf(f->ways[f->n_ways++], WAY_TEXT, "%s", named->text);
		else if (is_whole(&t))
			name_set(f, s, set, c, accepted, "in this class only: ", named);
		else if (is_nearly(&t))
			name_set(f, s, set, c, accepted, say_nearly(&t, how), named);
		return is_whole(&t) ? best : s->ways->n;
	} else if (set->n > 0) {
		const struct tally t = tally_class(s, &set->way, c);

		if (is_nearly(&t))
			name_set(f, s, set, c, accepted, say_nearly(&t, how), NULL);
	}
	return s->ways->n;
}

static void remember(struct seen *seen, const struct named *named)
{
	if (named->option >= 0)
		seen->values[named->option] |= UINT64_C(1) << named->value;
	else
		seen->quirks[named->quirk] = true;
}

/* Whether a way of few differing items is the only one alone, gives classes that differ as a whole, such as -0, or was found before. */
static bool is_sure(const struct search *s, const struct set *set, const struct tally tallies[CLASSES_MAX])
{
	size_t n = 0, n_differ = 0;
	bool all = true; /* of each class that differs */

	for (size_t c = 0; c < s->classes->n; c++) {
		n_differ += tallies[c].n_differ;
		all &= tallies[c].n_differ == 0 || tallies[c].others == 0;
	}
	for (size_t w = 0; w < s->ways->n && n_differ < FEW && set->n == 1 && set->wire < 0; w++)
		n += !s->ways->list[w].is_near && total(s, &s->ways->list[w].way, s->classes->n * WHOLE) != 0;
	return n < 2 || all || s->ways->list[set->members[0]].is_seen;
}

/* How many answers of a class one of a set makes what the program's are, and the rest of it does not; FEW if it is as many or more. */
static size_t n_made(const struct search *s, const struct set *set, size_t member, size_t c)
{
	const struct way rest = without(s, set, member);
	size_t n = 0;

	if (s->ways->list[set->members[member]].is_near)
		return FEW;
	for (size_t i = 0; i < s->a->n && n < FEW; i++)
		n += s->classes->of[i] == c && s->classes->differs[i] && score(s->a, &set->way, i) == MATCH && score(s->a, &rest, i) < MATCH;
	return n;
}

/* Whether one of a set has a name: it makes enough answers, of all questions until now, or was found before, or makes all that differ,
   more than a few of very many, which other ways, that are not known, would make too. */
static bool is_accepted(const struct search *s, const struct set *set, size_t member, const struct tally tallies[CLASSES_MAX], bool whole,
                        struct seen *seen)
{
	const struct named *named = &s->ways->list[set->members[member]];
	size_t made = 0;
	bool special = false;

	for (size_t c = 0; c < s->classes->n && made < FEW; c++) {
		const size_t n = is_whole(&tallies[c]) ? n_made(s, set, member, c) : 0;

		made += n;
		special |= n > 0 && tallies[c].n_differ + tallies[c].others < MANY;
	}
	if (named->option < 0 && made > 0)
		made = seen->made[named->quirk] += made;
	return made >= FEW || (made > 0 && named->is_seen) || (whole && special);
}

/* Lists quirks that could be in a set in place of one of it. */
static void find_others(const char *others[OTHERS_MAX], const struct search *s, const struct set *set, size_t member,
                        const struct tally tallies[CLASSES_MAX])
{
	const uint64_t least = total(s, &set->way, 0);
	size_t n = 0;

	for (size_t w = 0; w < s->ways->n && n < OTHERS_MAX - 1; w++) {
		const struct named *named = &s->ways->list[w];
		struct way way = without(s, set, member);
		struct tally same[CLASSES_MAX];
		bool equal = named->option < 0 && w != set->members[member] && combine(&way, s->a->q, named) &&
		             total(s, &way, least) >= least;

		if (!equal)
			continue;
		tally_all(s, &way, same, false);
		for (size_t c = 0; c < s->classes->n; c++)
			equal &= same[c].given == tallies[c].given && same[c].broken == tallies[c].broken;
		if (equal)
			others[n++] = quirks[named->quirk].meaning;
	}
}

/* Names ways by class. */
static void name_all(struct finding *findings, const struct search *s, const struct set *set, const struct tally tallies[CLASSES_MAX],
                     bool whole, struct seen *seen)
{
	struct accepted names = {0}, *accepted = &names;
	bool said[WAYS_MAX + 1] = {false};
	const bool sure = is_sure(s, set, tallies);

	for (size_t m = 0; m < set->n; m++) {
		accepted->is[m] = sure && is_accepted(s, set, m, tallies, whole, seen);
		if (!accepted->is[m])
			continue;
		remember(seen, &s->ways->list[set->members[m]]);
		if (!s->ways->list[set->members[m]].is_near)
			find_others(accepted->others[m], s, set, m, tallies);
	}
	for (size_t c = 0; c < s->classes->n; c++) {
		struct finding *f = &findings[c];

		if (f->n_differ == 0)
			continue;
		if (is_whole(&tallies[c]))
			name_set(f, s, set, c, accepted, "", NULL);
		else if (f->n_differ >= FEW)
			said[name_one(f, s, set, c, accepted, NULL)] = true;
		if (set->wire >= 0 && is_whole(&tallies[c]) && f->n_ways < COMBINED_MAX)
			snprintf(f->ways[f->n_ways++], WAY_TEXT, "%s", quirks[set->wire].meaning);
	}
	/* Of few answers what another class has is tried alone. */
	for (size_t c = 0; c < s->classes->n; c++)
		if (findings[c].n_differ > 0 && findings[c].n_differ < FEW && !is_whole(&tallies[c]))
			name_one(&findings[c], s, set, c, accepted, said);
}

/* Counts what differs, and takes every k-th of that, and of the others, so that the sample is of all. */
static void collect(struct finding *findings, struct sample *samples, const struct classes *classes, const struct asked *a)
{
	size_t seen[CLASSES_MAX][2] = {{0}};

	for (size_t i = 0; i < a->n; i++) {
		const size_t c = classes->of[i];

		findings[c].n++;
		if (classes->differs[i] && findings[c].n_differ++ == 0)
			findings[c].first = i;
	}
	for (size_t i = 0; i < a->n; i++) {
		const size_t c = classes->of[i], most = (classes->differs[i] ? DIFFERING : EQUAL) / (a->q->in_bytes > 4 ? 3 : 1);
		const size_t n = classes->differs[i] ? findings[c].n_differ : findings[c].n - findings[c].n_differ;
		const size_t k = seen[c][classes->differs[i]]++;

		if (n <= most || k * most / n != (k + 1) * most / n)
			samples[c].items[samples[c].n++] = i;
	}
}

/* What is found of scale bytes, or of codes. */
struct part_found {
	struct asked view;
	struct classes classes;
	struct sample samples[CLASSES_MAX];
	struct search search;
	struct set set;
	struct tally tallies[CLASSES_MAX];
	struct finding findings[CLASSES_MAX];
	bool whole;
};

/* Counts what differs in a part. Returns how much does, SIZE_MAX if an answer that is right does: this part says nothing. */
static size_t look_at(struct part_found *part, const struct asked *a, const struct classes *classes, enum matched matched)
{
	size_t n_differ = 0;

	part->view = *a;
	part->view.matched = matched;
	for (size_t i = 0; i < a->n; i++) {
		part->classes.differs[i] = score(&part->view, &a->q->way, i) < MATCH;
		if (part->classes.differs[i] && !classes->differs[i])
			return SIZE_MAX;
		n_differ += part->classes.differs[i];
	}
	part->classes.n = classes->n;
	collect(part->findings, part->samples, &part->classes, &part->view);
	return n_differ;
}

static void seek_part(struct part_found *part, const struct ways *ways)
{
	part->search = (struct search){&part->view, &part->classes, part->samples, ways};
	part->whole = seek(&part->search, &part->set, part->tallies);
	if (!part->whole) {
		tally_all(&part->search, &part->set.way, part->tallies, false);
		drop_refuted(&part->search, &part->set, part->tallies);
	}
}

/* Whether a way that one part matches gives less of the other. */
static bool spoils(const struct part_found *other, size_t w)
{
	struct way way = other->set.way;

	for (size_t m = 0; m < other->set.n; m++)
		if (other->set.members[m] == w)
			return false;
	if (!combine(&way, other->view.q, &other->search.ways->list[w]))
		return true;
	for (size_t c = 0; c < other->classes.n; c++)
		if (class_total(&other->search, &way, c) < class_total(&other->search, &other->set.way, c))
			return true;
	return false;
}

static void drop_spoiling(struct part_found *part, const struct part_found *other)
{
	for (size_t m = part->set.n; m-- > 0;)
		if (spoils(other, part->set.members[m])) {
			take_out(&part->search, &part->set, m);
			part->whole = tally_all(&part->search, &part->set.way, part->tallies, false);
		}
}

static bool is_named(const struct finding *f, const char *way)
{
	for (size_t i = 0; i < f->n_ways; i++)
		if (strcmp(f->ways[i], way) == 0)
			return true;
	return false;
}

/* Names what explains a part of the results of a class, if anything does. */
static void name_parts(struct finding *f, const struct finding *scales, const struct finding *codes)
{
	const struct finding *parts[] = {scales, codes};

	if (f->n_ways > 0 || scales->n_ways + codes->n_ways == 0)
		return;
	f->nearest[0] = '\0';
	for (int p = 0; p < 2; p++) {
		const size_t used = strlen(f->nearest);

		for (size_t i = 0; i < parts[p]->n_ways; i++)
			if (!is_named(f, parts[p]->ways[i])) {
				memcpy(f->others[f->n_ways], parts[p]->others[i], sizeof f->others[f->n_ways]);
				snprintf(f->ways[f->n_ways++], WAY_TEXT, "%s", parts[p]->ways[i]);
			}
		if (parts[p]->n_differ > 0 && parts[p]->n_ways == 0)
			snprintf(f->nearest + used, sizeof f->nearest - used, "%s: %.*s", p == 0 ? "scale bytes" : "codes", COMBINED_MAX * WAY_TEXT,
			         parts[p]->nearest[0] != '\0' ? parts[p]->nearest : "nothing known");
	}
}

/* Seeks what gives scale bytes by themselves, and codes under the program's own scales, where nothing gives both: a fault of one that
   is not known hides none of the other. False: there are no two parts. */
static bool seek_parts(struct part_found parts[2], const struct classes *classes, const struct asked *a, const struct ways *ways)
{
	const size_t n_scales = look_at(&parts[0], a, classes, MATCHED_SCALES);

	if (n_scales == 0 || n_scales == SIZE_MAX || look_at(&parts[1], a, classes, MATCHED_CODES) == SIZE_MAX)
		return false;
	for (int p = 0; p < 2; p++)
		seek_part(&parts[p], ways);
	for (int p = 0; p < 2; p++)
		drop_spoiling(&parts[p], &parts[1 - p]);
	return true;
}

/* Joins what gives each part whole, if it gives both. */
static bool join_parts(const struct search *s, struct set *set, struct tally tallies[CLASSES_MAX], const struct part_found parts[2])
{
	struct set both = parts[0].set;

	for (size_t m = 0; m < parts[1].set.n; m++) {
		const size_t way = parts[1].set.members[m];
		size_t at = 0;

		while (at < both.n && both.members[at] != way)
			at++;
		if (at < both.n)
			continue;
		if (both.n == COMBINED_MAX || !combine(&both.way, s->a->q, &s->ways->list[way]))
			return false;
		both.members[both.n++] = way;
	}
	if (!parts[0].whole || !parts[1].whole || !tally_all(s, &both.way, tallies, false))
		return false;
	*set = both;
	return true;
}

static int explain_classes(struct finding *findings, const struct classes *classes, const struct asked *a, struct sample *samples,
                           struct seen *seen, struct error *error)
{
	struct ways *ways = malloc(sizeof *ways);
	uint8_t *room = malloc(a->n * (a->q->in_bytes > a->q->out_bytes ? a->q->in_bytes : a->q->out_bytes));
	struct part_found *parts = calloc(2, sizeof *parts);
	bool *differs = malloc(2 * a->n * sizeof *differs);
	const bool enough = ways != NULL && room != NULL && parts != NULL && differs != NULL;
	struct asked view = *a;
	const struct search s = {&view, classes, samples, ways};
	struct tally tallies[CLASSES_MAX];
	struct set set;

	if (enough) {
		list_ways(ways, a->q, seen);
		bool whole = seek(&s, &set, tallies);
		for (size_t w = 0; w < ways->n && !whole; w++)
			if (ways->list[w].is_near && total(&s, &ways->list[w].way, classes->n * WHOLE) != 0 &&
			    tally_all(&s, &ways->list[w].way, tallies, false)) {
				set = (struct set){.way = ways->list[w].way, .n = 1, .members = {w}, .wire = -1};
				whole = true;
			}
		if (!whole)
			whole = seek_wire(&s, &set, tallies, room, &view);
		for (int p = 0; p < 2; p++)
			parts[p].classes = (struct classes){classes->of, differs + (size_t)p * a->n, 0};
		const bool parted = !whole && set.wire < 0 && (a->q->op == OP_MX || a->q->op == OP_NVFP4) &&
		                    seek_parts(parts, classes, a, ways);
		whole = whole || (parted && join_parts(&s, &set, tallies, parts));
		if (!whole) {
			tally_all(&s, &set.way, tallies, false);
			drop_refuted(&s, &set, tallies);
		}
		name_all(findings, &s, &set, tallies, whole, seen);
		for (int p = 0; p < 2 && parted && !whole; p++)
			name_all(parts[p].findings, &parts[p].search, &parts[p].set, parts[p].tallies, parts[p].whole, seen);
		for (size_t c = 0; c < classes->n && parted && !whole; c++)
			if (findings[c].n_differ > 0)
				name_parts(&findings[c], &parts[0].findings[c], &parts[1].findings[c]);
	}
	free(differs);
	free(parts);
	free(room);
	free(ways);
	return enough ? EXIT_OK : fail_memory(error);
}

static bool is_same(const struct asked *a, size_t i)
{
	return same_result(a, i, a->expected + i * a->q->out_bytes, a->got + i * a->q->out_bytes);
}

/* The class of an item among those known, or a new one. */
static size_t class_index(struct finding *findings, size_t *n, const struct asked *a, size_t i)
{
	const char *class = operations[a->q->op]->class_of(a->q, a->in + i * a->q->in_bytes, a->expected + i * a->q->out_bytes);

	for (size_t c = 0; c < *n; c++)
		if (strcmp(findings[c].class, class) == 0)
			return c;
	if (*n == CLASSES_MAX)
		return *n - 1;
	findings[*n] = (struct finding){.class = class};
	return (*n)++;
}

static void classify(struct finding *findings, struct classes *classes, const struct asked *a)
{
	for (size_t i = 0; i < a->n; i++)
		classes->of[i] = (uint8_t)class_index(findings, &classes->n, a, i);
}

int explain(struct finding findings[CLASSES_MAX], size_t *n_findings, size_t *n_differ, const struct asked *a, struct seen *seen,
            struct error *error)
{
	struct classes classes = {.of = malloc(a->n), .differs = malloc(a->n * sizeof(bool))};
	struct sample *samples = calloc(CLASSES_MAX, sizeof *samples);
	int code = samples == NULL || classes.of == NULL || classes.differs == NULL ? fail_memory(error) : EXIT_OK;
	size_t kept = 0;

	*n_findings = *n_differ = 0;
	for (size_t i = 0; i < a->n && code == EXIT_OK; i++)
		*n_differ += classes.differs[i] = !is_same(a, i);
	if (*n_differ > 0) {
		classify(findings, &classes, a);
		collect(findings, samples, &classes, a);
		code = explain_classes(findings, &classes, a, samples, seen, error);
	}
	free(samples);
	free(classes.of);
	free(classes.differs);
	for (size_t c = 0; c < classes.n; c++)
		if (findings[c].n_differ > 0)
			findings[kept++] = findings[c];
	*n_findings = kept;
	return code;
}
