/* SPDX-License-Identifier: MIT */
/* Tokenizers of a few tokens, whose ids were worked out by hand; what is refused; and, if it is there, a real
   vocabulary. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "eval/merge.h"
#include "eval/split.h"
#include "eval/tokenizer.h"
#include "eval/utf8.h"
#include "unit/gguf_bytes.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;

static struct tokenizer *open_tokenizer(const char *path, uint64_t vocabulary)
{
	struct tokenizer *tokenizer;

	ck_assert_msg(tokenizer_open(&tokenizer, NULL, path, vocabulary, &error) == EXIT_OK, "%s", error.text);
	return tokenizer;
}

/* Encodes n bytes; the ids are "1 2 3". */
static void check_bytes(const struct tokenizer *tokenizer, const char *text, size_t n, const char *wanted)
{
	struct token_sequences tokens = {0};
	char ids[4096] = "";
	size_t used = 0;

	ck_assert_msg(tokenizer_encode(tokenizer, text, n, &tokens, &error) == EXIT_OK, "'%s': %s", text, error.text);
	ck_assert_uint_eq(tokens.n, 1);
	for (size_t i = 0; i < tokens.n_ids; i++)
		used += (size_t)snprintf(ids + used, sizeof ids - used, "%s%u", i > 0 ? " " : "", (unsigned)tokens.ids[i]);
	ck_assert_msg(strcmp(ids, wanted) == 0, "'%s': %s, not %s", text, ids, wanted);
	tokens_free(&tokens);
	suite_compared(1);
}

static void check_text(const struct tokenizer *tokenizer, const char *text, const char *wanted)
{
	check_bytes(tokenizer, text, strlen(text), wanted);
}

static void check_unencodable(const struct tokenizer *tokenizer, const char *text, const char *why)
{
	struct token_sequences tokens = {0};

	ck_assert_int_eq(tokenizer_encode(tokenizer, text, strlen(text), &tokens, &error), EXIT_INPUT);
	ck_assert_msg(strstr(error.text, why) != NULL, "'%s', not '%s'", error.text, why);
	ck_assert_uint_eq(tokens.n, 0);
	ck_assert_uint_eq(tokens.n_ids, 0);
	tokens_free(&tokens);
	suite_compared(1);
}

static void check_decoded(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n, const char *wanted)
{
	char *text = NULL;
	size_t length = 0;

	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(tokenizer_decode(tokenizer, ids[i], &text, &length, &error), EXIT_OK);
	ck_assert_uint_eq(length, strlen(text));
	ck_assert_str_eq(text, wanted);
	free(text);
	suite_compared(1);
}

/* An id that no token has. */
static void check_undecodable(const struct tokenizer *tokenizer, uint32_t id)
{
	char *text = NULL;
	size_t n = 0;

	ck_assert_int_eq(tokenizer_decode(tokenizer, id, &text, &n, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, ": no token has the id "));
	ck_assert_ptr_null(text);
	suite_compared(1);
}

static void check_refused(const char *path, uint64_t vocabulary, const char *why)
{
	struct tokenizer *tokenizer;

	ck_assert_msg(tokenizer_open(&tokenizer, NULL, path, vocabulary, &error) == EXIT_INPUT, "not '%s'", why);
	ck_assert_msg(strstr(error.text, why) != NULL, "'%s', not '%s'", error.text, why);
	ck_assert_msg(strncmp(error.text, path, strlen(path)) == 0, "%s", error.text);
	ck_assert_ptr_null(tokenizer);
	suite_compared(1);
}

/* Table 3-8 of the Unicode standard 15.0: how U+FFFD replaces ill-formed bytes; and its neighbours 3-9 to 3-11. */
TEST(bytes_that_are_no_text_are_replaced)
{
	static const struct {
		const char *bytes, *clean;
	} cases[] = {
		{"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "????????A"},
		{"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "????????A"},
		{"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "?????A??B"},
		{"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "????A"},
		{"a\xC3", "a?"}, {"\xF0\x9F\x91", "?"}, {"\xC3\xA9\xF4\x8F\xBF\xBF", "\xC3\xA9\xF4\x8F\xBF\xBF"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct pieces out = {0};
		char wanted[64] = "";

		for (const char *c = cases[i].clean; *c != '\0'; c++)
			snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), *c == '?' ? "\xEF\xBF\xBD" : "%c", *c);
		ck_assert_int_eq(utf8_clean(cases[i].bytes, strlen(cases[i].bytes), &out, &error), EXIT_OK);
		ck_assert_uint_eq(out.n_bytes, strlen(wanted));
		ck_assert_mem_eq(out.bytes, wanted, out.n_bytes);
		pieces_free(&out);
		suite_compared(1);
	}
}

static bool any_pair(const void *context, const struct merge_symbol *left, const struct merge_symbol *right,
                     double *cost, uint32_t *id)
{
	const size_t most = *(const size_t *)context;

	*cost = 0;
	*id = 0;
	return left->n + right->n <= most;
}

/* Of equal pairs the leftmost is first: pairs, then pairs of pairs; 2^20 symbols take no quadratic time. */
TEST(many_symbols_are_merged)
{
	enum { N = 1 << 20 };
	struct merge merge = {0};
	const size_t most = 8;

	for (size_t i = 0; i < N; i++)
		ck_assert_int_eq(merge_add(&merge, 1, MERGE_NO_ID, &error), EXIT_OK);
	ck_assert_int_eq(merge_run(&merge, any_pair, &most, &error), EXIT_OK);
	ck_assert_uint_eq(merge.n, N / 8);
	for (size_t i = 0; i < merge.n; i++)
		ck_assert_uint_eq(merge.symbols[i].from, 8 * i);
	merge_free(&merge);
	suite_compared(N / 8);
}

/* What a file's bytes are as a text; `read` NULL: refused with `why`. */
static void check_read(const struct tokenizer *tokenizer, const char *bytes, size_t n, const char *read, const char *why)
{
	char text[64];
	size_t length = n;

	memcpy(text, bytes, n);
	const int code = tokenizer_read_text(tokenizer, "in.txt", text, &length, &error);
	ck_assert_int_eq(code, read != NULL ? EXIT_OK : EXIT_INPUT);
	if (read != NULL) {
		ck_assert_uint_eq(length, strlen(read));
		ck_assert_mem_eq(text, read, length);
	} else {
		ck_assert_msg(strstr(error.text, why) != NULL, "%s", error.text);
	}
	suite_compared(1);
}

/* Python's open() makes LF of CR LF and CR, keeps a byte order mark, and refuses what is not UTF-8: so do we for its
   tokenizers. Models of bytes take anything. */
TEST(texts_are_read_as_python_reads_them)
{
	char directory[] = ".";
	struct model model = {.path = directory, .directory = (char *)(uintptr_t)scratch_path("none")};
	struct tokenizer *hf = open_tokenizer(scratch_text("a.json", "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"), 1), *bytes;

	check_read(hf, "a\r\nb\rc\n\r\r\n\n\r", 12, "a\nb\nc\n\n\n\n\n", NULL);
	check_read(hf, "\r", 1, "\n", NULL);
	check_read(hf, "\r\n", 2, "\n", NULL);
	check_read(hf, "", 0, "", NULL);
	check_read(hf, "\xEF\xBB\xBF" "a\xE2\x80\xA8", 7, "\xEF\xBB\xBF" "a\xE2\x80\xA8", NULL);
	check_read(hf, "a\nb\r\n\xE9 c", 8, NULL, "in.txt: line 3, byte 5: e9 is not UTF-8");
	check_read(hf, "\xC0\x80", 2, NULL, "line 1, byte 0: c0");
	check_read(hf, "a\xED\xA0\x80", 4, NULL, "line 1, byte 1: ed");
	check_read(hf, "\xE2\x82", 2, NULL, "line 1, byte 0: e2");
	check_read(hf, "\xF4\x90\x80\x80", 4, NULL, "line 1, byte 0: f4");
	check_read(hf, "\xFF\xFE" "a\0", 4, NULL, "line 1, byte 0: ff");
	tokenizer_close(hf);
	ck_assert_int_eq(tokenizer_open(&bytes, &model, NULL, 256, &error), EXIT_OK);
	check_read(bytes, "a\r\n\xFF\r", 5, "a\r\n\xFF\r", NULL);
	tokenizer_close(bytes);
}

TEST(a_model_of_bytes_has_no_tokenizer)
{
	char directory[] = ".";
	struct model model = {.path = directory, .directory = (char *)(uintptr_t)scratch_path("none")};
	struct tokenizer *tokenizer;
	uint32_t id;

	ck_assert_int_eq(tokenizer_open(&tokenizer, &model, NULL, 256, &error), EXIT_OK);
	check_bytes(tokenizer, "a\0\xFF", 3, "97 0 255");
	check_text(tokenizer, "", "");
	check_decoded(tokenizer, (const uint32_t[]){104, 105}, 2, "hi");
	check_undecodable(tokenizer, 256);
	ck_assert(!tokenizer_bos(tokenizer, &id) && !tokenizer_eos(tokenizer, &id));
	tokenizer_close(tokenizer);
	ck_assert_int_eq(tokenizer_open(&tokenizer, &model, NULL, 257, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "257 tokens, so they are not bytes"));
}

/* Ids 0 to 11 and merges: "l o" before "o w", so "low" is "lo" "w", and "lo w" makes it whole. */
#define VOCABULARY \
	"{\"<unk>\":0,\"l\":1,\"o\":2,\"w\":3,\"e\":4,\"r\":5,\"lo\":6,\"ow\":7,\"low\":8,\"er\":9,\"\xC4\xA0\":10,\"<s>\":11}"
#define MODEL(more) \
	"\"model\":{\"type\":\"BPE\",\"vocab\":" VOCABULARY ",\"merges\":[\"l o\",\"o w\",\"lo w\",\"e r\"]" more "}"
#define NO_STEPS "\"normalizer\":null,\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":null,"

TEST(merges_are_done_in_their_order)
{
	struct tokenizer *tokenizer = open_tokenizer(scratch_text("a.json", "{" NO_STEPS MODEL("") "}"), 12);

	check_text(tokenizer, "lower", "8 9");
	check_text(tokenizer, "lo", "6");
	check_text(tokenizer, "oww", "7 3");
	check_text(tokenizer, "owlowre", "7 8 5 4");
	check_text(tokenizer, "", "");
	check_unencodable(tokenizer, "lx", "'x' of the text is not a token");
	tokenizer_close(tokenizer);
	/* Of a pair that occurs twice the last counts: "o w" goes before "l o". */
	tokenizer = open_tokenizer(scratch_text("a.json", "{\"model\":{\"vocab\":" VOCABULARY ",\"merges\":[[\"l\",\"o\"],"
	                                        "[\"o\",\"w\"],[\"l\",\"o\"]]}}"), 12);
	check_text(tokenizer, "low", "1 7");
	tokenizer_close(tokenizer);
}

TEST(unknown_characters)
{
	struct tokenizer *tokenizer = open_tokenizer(scratch_text("a.json", "{" MODEL(",\"unk_token\":\"<unk>\"") "}"), 12);

	check_text(tokenizer, "lxyo", "1 0 0 2");
	check_bytes(tokenizer, "l\xFFw", 3, "1 0 3");
	tokenizer_close(tokenizer);
	tokenizer = open_tokenizer(scratch_text("a.json", "{" MODEL(",\"unk_token\":\"<unk>\",\"fuse_unk\":true") "}"), 12);
	check_text(tokenizer, "lxyo", "1 0 2");
	tokenizer_close(tokenizer);
}

TEST(words_that_are_tokens_can_stay_whole)
{
	static const char form[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[],"
	                           "\"ignore_merges\":%s}}";
	char text[256];

	snprintf(text, sizeof text, form, "true");
	struct tokenizer *tokenizer = open_tokenizer(scratch_text("a.json", text), 3);
	check_text(tokenizer, "ab", "2");
	check_text(tokenizer, "aba", "0 1 0");
	tokenizer_close(tokenizer);
	snprintf(text, sizeof text, form, "false");
	tokenizer = open_tokenizer(scratch_text("a.json", text), 3);
	check_text(tokenizer, "ab", "0 1");
	tokenizer_close(tokenizer);
}

TEST(a_template_and_special_tokens)
{
	struct tokenizer *tokenizer = open_tokenizer(scratch_text("a.json",
		"{\"added_tokens\":[{\"id\":11,\"content\":\"<s>\",\"special\":true},{\"id\":12,\"content\":\"<s>l\",\"normalized\":false},"
		"{\"id\":13,\"content\":\"e\xC3\xA9\",\"single_word\":true}],"
		"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"B\"}},"
		"{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"E\"}}],\"special_tokens\":"
		"{\"B\":{\"ids\":[11]},\"E\":{\"ids\":[3,4]}}}," MODEL("") "}"), 14);
	uint32_t id;

	check_text(tokenizer, "lo", "11 6 3 4");
	/* Of the tokens at a place the longest. */
	check_text(tokenizer, "lo<s>lo", "11 6 12 2 3 4");
	check_text(tokenizer, "<s>ow<s>", "11 11 7 11 3 4");
	check_text(tokenizer, "", "11 3 4");
	check_text(tokenizer, "e\xC3\xA9", "11 13 3 4");
	check_unencodable(tokenizer, "le\xC3\xA9", "is not a token");
	ck_assert(tokenizer_bos(tokenizer, &id) && id == 11);
	ck_assert(tokenizer_eos(tokenizer, &id) && id == 3);
	check_decoded(tokenizer, (const uint32_t[]){11, 6, 13}, 3, "loe\xC3\xA9");
	check_undecodable(tokenizer, 14);
	check_undecodable(tokenizer, UINT32_MAX);
	tokenizer_close(tokenizer);
	/* The same, of a model that lacks the last token. */
	check_refused(scratch_text("a.json", "{" MODEL("") "}"), 11, "model.vocab: id 11 is not one of the model's 11 tokens");
}

/* What is not known is refused by the member that says it. */
/* tokenizer_config.json: what AutoTokenizer of transformers 5.24 gives for such files, but for classes that took add_bos_token
   and add_eos_token in transformers 4 (LlamaTokenizerFast.update_post_processor() there), where those count and a note says so. */
TEST(ends_that_tokenizer_config_json_asks_for)
{
	static const char bos[] = "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"B\"}},"
	                          "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"B\":{\"ids\":[11]}}},";
	static const struct {
		const char *config, *post_processor, *ids, *note;
	} rows[] = {
		{"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":true", "", "11 6", "add_bos_token of tokenizer_config.json is true: done"},
		{"\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true,\"bos_token\":{\"content\":\"<s>\"}", "", "11 6", "is true: done"},
		{"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":true", bos, "11 6", NULL},
		{"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":false", bos, "6", "is false: done"},
		{"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":false", "", "6", NULL},
		{"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":null", bos, "11 6", NULL},
		{"\"tokenizer_class\":\"LlamaTokenizerFast\"", "", "6", NULL},
		{"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":true,\"bos_token\":null", "", "6", NULL},
		{"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":true,\"add_eos_token\":true", "", "11 6 12", "is true: done"},
		{"\"tokenizer_class\":\"CodeLlamaTokenizerFast\",\"add_eos_token\":true,\"eos_token\":\"</s>\"", bos, "11 6 12", "add_eos_token"},
		{"\"tokenizer_class\":\"GPTNeoXTokenizerFast\"", bos, "6", "add_bos_token of tokenizer_config.json is false: done"},
		{"\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_bos_token\":true,\"bos_token\":\"<s>\"", "", "6", "class PreTrainedTokenizerFast goes by"},
		{"\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_bos_token\":false", bos, "11 6", "class PreTrainedTokenizerFast goes by"},
		{"\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_bos_token\":false", "", "6", NULL},
		{"\"add_bos_token\":true,\"bos_token\":\"<s>\"", "", "6", "class TokenizersBackend goes by"},
	};
	static const char added[] = "{\"added_tokens\":[{\"id\":11,\"content\":\"<s>\",\"special\":true},"
	                            "{\"id\":12,\"content\":\"</s>\",\"special\":true}],";
	char text[1024];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		snprintf(text, sizeof text, "{%s}", rows[i].config);
		scratch_text("tokenizer_config.json", text);
		snprintf(text, sizeof text, "%s%s" MODEL("") "}", added, rows[i].post_processor);
		struct tokenizer *tokenizer = open_tokenizer(scratch_text("tokenizer.json", text), 14);
		const char *note = tokenizer_note(tokenizer);

		check_text(tokenizer, "lo", rows[i].ids);
		ck_assert_msg(rows[i].note == NULL ? note == NULL : note != NULL && strstr(note, rows[i].note) != NULL, "%s: %s",
		              rows[i].config, note != NULL ? note : "no note");
		tokenizer_close(tokenizer);
	}
	scratch_text("tokenizer_config.json", "{\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":true,\"bos_token\":\"<x>\"}");
	check_refused(scratch_path("tokenizer.json"), 14, "asks for <x> by add_bos_token, which is not a token here");
	struct tokenizer *tokenizer;
	scratch_text("tokenizer_config.json", "{\"add_bos_token\":1}");
	ck_assert_int_eq(tokenizer_open(&tokenizer, NULL, scratch_path("tokenizer.json"), 14, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "tokenizer_config.json: add_bos_token: is neither true nor false"));
	scratch_text("tokenizer_config.json", "[]");
	ck_assert_int_eq(tokenizer_open(&tokenizer, NULL, scratch_path("tokenizer.json"), 14, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "tokenizer_config.json: is not a JSON object"));
	/* A token that tokenizer.json lacks is found in texts, and the flags of the others are those that stand there. */
	scratch_text("tokenizer_config.json", "{\"added_tokens_decoder\":{\"13\":{\"content\":\"<x>\",\"special\":true},"
	             "\"11\":{\"content\":\"<s>\",\"special\":true,\"single_word\":true}}}");
	tokenizer = open_tokenizer(scratch_path("tokenizer.json"), 14);
	check_text(tokenizer, "lo<x>lo<x><s>", "6 13 6 13 11");
	check_unencodable(tokenizer, "lo<s>", "is not a token");
	tokenizer_close(tokenizer);
	scratch_text("tokenizer_config.json", "{}");
}

TEST(unknown_forms_are_refused)
{
	static const struct {
		const char *members, *why;
	} cases[] = {
		{"\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}", "model.type: 'WordPiece' is not known here"},
		{"\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}", "model.type: 'Unigram' is not known here"},
		{"\"normalizer\":{\"type\":\"Lowercase\"}," MODEL(""), "normalizer.type: 'Lowercase' is not known here"},
		{"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}," MODEL(""),
		 "normalizer.type: 'NFKC' is"},
		{"\"pre_tokenizer\":{\"type\":\"Whitespace\"}," MODEL(""), "pre_tokenizer.type: 'Whitespace' is not known here"},
		{"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(\"},\"behavior\":\"Isolated\"}," MODEL(""),
		 "pre_tokenizer.pattern: is not a regular expression that PCRE2 accepts, at byte 2"},
		{"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Kept\"}," MODEL(""),
		 "pre_tokenizer.behavior: 'Kept' is not known here"},
		{"\"decoder\":{\"type\":\"WordPiece\"}," MODEL(""), "decoder.type: 'WordPiece' is not known here"},
		{"\"post_processor\":{\"type\":\"BertProcessing\"}," MODEL(""), "post_processor.type: 'BertProcessing' is not known"},
		{MODEL(",\"dropout\":0.1"), "model.dropout: is not null"},
		{MODEL(",\"end_of_word_suffix\":\"</w>\""), "model.end_of_word_suffix: is not empty"},
		{MODEL(",\"unk_token\":\"?\""), "model.unk_token: is not a token of the vocabulary"},
		{MODEL(",\"byte_fallback\":1"), "model.byte_fallback: is neither true nor false"},
		{MODEL("") "," MODEL(""), "model occurs twice"},
		{"\"version\":1", "has no member 'model'; it is not a tokenizer.json"},
		{"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}", "token 'a' has two ids, 0 and 1"},
		{"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}", "two tokens have the id 0"},
		{"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}", "merge 0: 'ab' is not a token"},
		{"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"ab\"]}",
		 "model.merges: element 0 is not a pair"},
		{"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}", "model.merges: element 0 is not a pair"},
		{"\"added_tokens\":[{\"id\":5,\"content\":\"<s>\"}]," MODEL(""),
		 "added_tokens: '<s>' has id 5, and 11 in model.vocab"},
		{"\"added_tokens\":[{\"id\":4194304,\"content\":\"<x>\"}]," MODEL(""), "token id 4194304 is not below"},
		{"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"B\"}}]}," MODEL(""),
		 "post_processor.single: names a token that special_tokens has no ids of"},
	};
	char text[1024];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(text, sizeof text, "{%s}", cases[i].members);
		check_refused(scratch_text("b.json", text), 14, cases[i].why);
	}
	check_refused(scratch_text("b.json", "{} x"), 14, "expected the end of the file");
	check_refused(scratch_text("b.json", "[]"), 14, "expected '{'");
	check_refused(scratch_text("b.txt", "x"), 14, "the name of a tokenizer ends in .json");
	check_refused(scratch_text("b.model", "x"), 14, "is a tokenizer that is not read (SentencePiece's or tiktoken's)");
}

TEST(expressions_that_take_long_are_given_up)
{
	struct tokenizer *tokenizer = open_tokenizer(scratch_text("a.json",
		"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(e+)+[xy]\"},\"behavior\":\"Isolated\"},"
		MODEL("") "}"), 12);

	check_unencodable(tokenizer, "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee", "takes too many steps");
	tokenizer_close(tokenizer);
}

/* Marks that canonical order would sort for minutes. */
TEST(long_rows_of_marks_are_refused)
{
	enum { N = 1100 };
	static char text[2 * N + 2] = "o";
	struct tokenizer *tokenizer = open_tokenizer(scratch_text("a.json", "{\"normalizer\":{\"type\":\"NFC\"},"
		MODEL(",\"unk_token\":\"<unk>\"") "}"), 12);

	for (size_t i = 0; i < N; i++)
		memcpy(text + 1 + 2 * i, i % 2 ? "\xCC\xA3" : "\xCC\x81", 2);
	check_unencodable(tokenizer, text, "more than 1024 combining marks in a row");
	tokenizer_close(tokenizer);
}

/* What split_behavior says, on "a-b--c": the examples of the package's documentation. */
TEST(pieces_by_behavior)
{
	static const char *const wanted[N_SPLIT_BEHAVIORS][2] = {
		{"a|b|c", "-|--"}, {"a|-|b|-|-|c", "a|-|b|-|-|c"}, {"a-|b-|-|c", "a|-b|-|-c"}, {"a|-b|-|-c", "a-|b-|-|c"},
		{"a|-|b|--|c", "a|-|b|--|c"},
	};

	for (int i = 0; i < 2 * N_SPLIT_BEHAVIORS; i++) {
		struct split split = {.behavior = (enum split_behavior)(i / 2), .invert = i % 2 == 1};
		struct pieces out = {0};
		char text[64] = "";
		size_t n;

		ck_assert_int_eq(split_compile(&split, "-", false, "", "", &error), EXIT_OK);
		ck_assert_int_eq(split_apply(&split, "a-b--c", 6, &out, "", &error), EXIT_OK);
		for (size_t k = 0; k < out.n; k++) {
			const char *piece = pieces_get(&out, k, &n);

			snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s", k > 0 ? "|" : "", (int)n, piece);
		}
		/* Inverted, "--" is one part that does not match, where it was two that do. */
		if (i == 1)
			ck_assert_str_eq(text, "-|-|-");
		else
			ck_assert_msg(strcmp(text, wanted[i / 2][i % 2]) == 0, "behavior %d: %s, not %s", i, text, wanted[i / 2][i % 2]);
		pieces_free(&out);
		split_free(&split);
		suite_compared(1);
	}
}

/* A file of llama2.c. */
static size_t put_token(unsigned char *bytes, size_t at, float score, const char *text)
{
	uint32_t word;
	const size_t n = strlen(text);

	memcpy(&word, &score, sizeof word);
	for (unsigned i = 0; i < 4; i++) {
		bytes[at + i] = (unsigned char)(word >> 8 * i);
		bytes[at + 4 + i] = i == 0 ? (unsigned char)n : 0;
	}
	memcpy(bytes + at + 8, text, n);
	return at + 8 + n;
}

TEST(llama2_c)
{
	static unsigned char bytes[1 << 13];
	static const struct {
		float score;
		const char *text;
	} words[] = {{-9, " "}, {-9, "a"}, {-9, "b"}, {-1, " a"}, {-2, "ab"}, {-3, " ab"}, {-2, "ba"}, {-9, "\xC3\xA9"}};
	size_t n = 4;
	char text[16];
	struct tokenizer *tokenizer;
	uint32_t id;

	bytes[0] = 6;
	n = put_token(bytes, n, 0, "<unk>");
	n = put_token(bytes, n, 0, "\n<s>\n");
	n = put_token(bytes, n, 0, "\n</s>\n");
	for (unsigned byte = 0; byte < 256; byte++) {
		snprintf(text, sizeof text, "<0x%02X>", byte);
		n = put_token(bytes, n, 0, text);
	}
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		n = put_token(bytes, n, words[i].score, words[i].text);
	tokenizer = open_tokenizer(scratch_write("t.bin", bytes, n), 267);
	check_text(tokenizer, "", "1");
	/* " a" is merged first, then with "b". */
	check_text(tokenizer, "ab", "1 264");
	/* Equal scores: "ab" of "bab", as it comes later, waits for "ba" at the left. */
	check_text(tokenizer, "bab", "1 259 265 261");
	check_text(tokenizer, "a\xC3\xA9\xF0", "1 262 266 243");
	check_text(tokenizer, "x a", "1 259 123 262");
	check_bytes(tokenizer, "a\0b", 3, "1 262 3 261");
	check_decoded(tokenizer, (const uint32_t[]){1, 264, 262, 98, 2}, 5, "ab a_");
	check_undecodable(tokenizer, 267);
	ck_assert(tokenizer_bos(tokenizer, &id) && id == 1);
	ck_assert(tokenizer_eos(tokenizer, &id) && id == 2);
	tokenizer_close(tokenizer);
	check_refused(scratch_write("t.bin", bytes, n), 268, "ends within token 267 of the model's 268");
	check_refused(scratch_write("t.bin", bytes, n), 266, "has more tokens than the model's 266");
	check_refused(scratch_write("t.bin", bytes, n), 1 << 20, "are too few for the 1048576 tokens");
	put_token(bytes, n - 10, 0, "ba");
	check_refused(scratch_write("t.bin", bytes, n), 267, "token 'ba' has two ids, 265 and 266");
	memcpy(bytes + n - 10, "\0\0\xC0\x7F", 4);
	check_refused(scratch_write("t.bin", bytes, n), 267, "the score of token 266 is NaN");
}

static struct gguf_bytes b;

static void put_strings(const char *key, const char *const *texts, size_t n)
{
	put_text(&b, key);
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_STRING);
	put_u64(&b, n);
	for (size_t i = 0; i < n; i++)
		put_text(&b, texts[i]);
}

/* A file with a model and tokens of a GGUF file, and perhaps something else. */
static const char *write_gguf(const char *model, const char *key, const char *value, const char *const *merges,
                              size_t n)
{
	static const char *const tokens[] = {"a", "b", "ab", "\xC4\xA0"};

	put_start(&b, 0, 2 + (key != NULL) + (merges != NULL));
	put_pair_text(&b, "tokenizer.ggml.model", model);
	if (key != NULL)
		put_pair_text(&b, key, value);
	put_strings("tokenizer.ggml.tokens", tokens, 4);
	if (merges != NULL)
		put_strings("tokenizer.ggml.merges", merges, n);
	return scratch_write("t.gguf", b.bytes, b.n);
}

TEST(vocabularies_of_gguf_that_are_wrong)
{
	static const char *const merges[] = {"a b", "b a"}, *const merge[] = {"a b", "a b"}, *const none[] = {" b"};
	struct tokenizer *tokenizer = open_tokenizer(write_gguf("gpt2", "tokenizer.ggml.pre", "gpt-2", merge, 2), 4);

	check_text(tokenizer, "ab ab", "2 3 2");
	check_undecodable(tokenizer, 4);
	tokenizer_close(tokenizer);
	tokenizer = open_tokenizer(write_gguf("gpt2", "tokenizer.ggml.new_token_id", "5", merge, 1), 4);
	check_text(tokenizer, "ab", "2");
	tokenizer_close(tokenizer);
	check_refused(write_gguf("gpt2", NULL, NULL, merges, 2), 4, "merge 1: 'ba' is not a token");
	check_refused(write_gguf("gpt2", NULL, NULL, none, 1), 4, "'tokenizer.ggml.merges': element 0 is not a pair");
	check_refused(write_gguf("gpt2", NULL, NULL, NULL, 0), 4, "key 'tokenizer.ggml.merges': is not there");
	check_refused(write_gguf("gpt2", "tokenizer.ggml.pre", "qwen", merge, 1), 4,
	              "key 'tokenizer.ggml.pre': 'qwen' is not known, nor meant as qwen2");
	check_refused(write_gguf("bert", NULL, NULL, NULL, 0), 4, "key 'tokenizer.ggml.model': 'bert' is not known");
	check_refused(write_gguf("gpt2", NULL, NULL, merge, 1), 3, "has 4 tokens, and the model has 3");
	check_refused(write_gguf("llama", "tokenizer.ggml.add_bos_token", "yes", NULL, 0), 4, "is a string, not a bool");
	check_refused(write_gguf("llama", "tokenizer.ggml.bos_token_id", "1", NULL, 0), 4, "is a string, not a whole number");
	check_refused(write_gguf("llama", "tokenizer.ggml.scores", "1", NULL, 0), 4, "is a string, not an array of floats");
	check_refused(write_gguf("gpt2", "tokenizer.ggml.lower", "yes", merge, 1), 4,
	              "key 'tokenizer.ggml.lower': is not known, and may change the ids of a text");
	put_start(&b, 0, 1);
	put_pair_text(&b, "general.architecture", "llama");
	check_refused(scratch_write("t.gguf", b.bytes, b.n), 4, "key 'tokenizer.ggml.model': is not there");
}

/* With tokenizer.ggml.normalizer.nfc a letter and a mark are the letter with it, as NFC of tokenizers has it; not across a
   user-defined token; and not with false. */
TEST(texts_of_gguf_in_nfc)
{
	/* Bytes C3 and A9, which are U+00E9, as GPT-2 writes bytes; CC and 81, U+0301. */
	static const char *const tokens[] = {"e", "\xC3\x83", "\xC2\xA9", "\xC3\x83\xC2\xA9", "\xC3\x8C", "\xC4\xA3", "<u>"};
	static const char *const merges[] = {"\xC3\x83 \xC2\xA9"};
	enum { N = 7, NORMAL = 1, USER_DEFINED = 4 };

	for (int nfc = 0; nfc < 2; nfc++) {
		put_start(&b, 0, 6);
		put_pair_text(&b, "tokenizer.ggml.model", "gpt2");
		put_pair_text(&b, "tokenizer.ggml.pre", "gpt-2");
		put_strings("tokenizer.ggml.tokens", tokens, N);
		put_text(&b, "tokenizer.ggml.token_type");
		put_u32(&b, TYPE_ARRAY);
		put_u32(&b, TYPE_U32);
		put_u64(&b, N);
		for (int i = 0; i < N; i++)
			put_u32(&b, i == N - 1 ? USER_DEFINED : NORMAL);
		put_strings("tokenizer.ggml.merges", merges, 1);
		put_text(&b, "tokenizer.ggml.normalizer.nfc");
		put_u32(&b, TYPE_BOOL);
		put(&b, &(unsigned char){(unsigned char)nfc}, 1);
		struct tokenizer *tokenizer = open_tokenizer(scratch_write("t.gguf", b.bytes, b.n), N);

		check_text(tokenizer, "e\xCC\x81", nfc ? "3" : "0 4 5");
		check_text(tokenizer, "ee\xCC\x81<u>e\xCC\x81\xC3\xA9", nfc ? "0 3 6 3 3" : "0 0 4 5 6 0 4 5 3");
		check_text(tokenizer, "e<u>\xCC\x81", "0 6 4 5");
		tokenizer_close(tokenizer);
	}
	check_refused(write_gguf("gpt2", "tokenizer.ggml.normalizer.nfc", "yes", merges, 1), 4, "is a string, not a bool");
}

/* Every story that a model of stories260K's vocabulary wrote: the ids decode to the text, and where the model chose the
   same cutting as the tokenizer would, the text has these ids. */
static void check_stories(const char *name)
{
	struct token_sequences tokens, again = {0};
	size_t n, at = 0, equal = 0;

	if (scratch_shared(name) == NULL || scratch_shared("weights/eval/self_generated.tokens.json") == NULL)
		return;
	struct tokenizer *tokenizer = open_tokenizer(scratch_shared(name), 512);
	char *plain = scratch_read(scratch_shared("weights/eval/self_generated.plain.txt"), &n);
	ck_assert_int_eq(tokens_read(&tokens, scratch_shared("weights/eval/self_generated.tokens.json"), 512, &error),
	                 EXIT_OK);
	ck_assert_uint_eq(tokens.n, 128);
	for (size_t i = 0; i < tokens.n; i++) {
		const size_t from = tokens.starts[i], end = tokens.starts[i + 1];
		char *text = NULL;
		size_t length = 0;

		for (size_t k = from; k < end; k++)
			ck_assert_int_eq(tokenizer_decode(tokenizer, tokens.ids[k], &text, &length, &error), EXIT_OK);
		ck_assert_uint_le(length, n - at);
		ck_assert_msg(memcmp(plain + at, text, length) == 0, "story %zu at byte %zu", i, at);
		at += length;
		ck_assert(at == n || plain[at] == '\n');
		at += at < n ? 1 : 0;
		ck_assert_int_eq(tokenizer_encode(tokenizer, text, length, &again, &error), EXIT_OK);
		const size_t start = again.starts[i], m = again.starts[i + 1] - start;
		equal += m == end - from && memcmp(again.ids + start, tokens.ids + from, m * sizeof *again.ids) == 0 ? 1 : 0;
		free(text);
	}
	ck_assert_uint_eq(at, n);
	printf("%s: %zu of %zu stories have the ids of the model\n", name, equal, tokens.n);
	ck_assert_uint_gt(equal, 0);
	suite_compared(tokens.n_ids);
	tokens_free(&tokens);
	tokens_free(&again);
	free(plain);
	tokenizer_close(tokenizer);
}

TEST(stories_by_llama2_c)
{
	check_stories("weights/stories260K/tok512.bin");
}

TEST(stories_by_gguf)
{
	check_stories("weights/stories260K/stories260K.f32.gguf");
}
