/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/foreign.h"

#include <stdbool.h>
#include <string.h>

#define SAVE "save its tensors with safetensors.torch.save_file()"

static const struct {
	const char *first;
	size_t n, at;
	const char *what;
} kinds[] = {
#define KIND(first, what) KIND_AT(0, first, what)
#define KIND_AT(at, first, what) {first, sizeof first - 1, at, what}
	/* github.com/git-lfs/git-lfs, docs/spec.md: the first line of a pointer. */
	KIND("version https://", "is a git-lfs pointer, not the file it stands for; git lfs pull fetches that"),
	KIND("\x1f\x8b", "is compressed by gzip; decompress it with gunzip <FILE >NEW"),
	KIND("BZh", "is compressed by bzip2; decompress it with bunzip2 <FILE >NEW"),
	KIND("\xfd" "7zXZ", "is compressed by xz; decompress it with unxz <FILE >NEW"),
	KIND("\x28\xb5\x2f\xfd", "is compressed by zstd; decompress it with unzstd <FILE >NEW"),
	/* Protocols 2 to 5; torch.save() before PyTorch 1.6. */
#define PICKLE "is a pickle, as torch.save() writes, and could run any code; " SAVE
	KIND("\x80\x02", PICKLE),
	KIND("\x80\x03", PICKLE),
	KIND("\x80\x04", PICKLE),
	KIND("\x80\x05", PICKLE),
	KIND("\x89HDF\r\n", "is an HDF5 file; save its tensors as safetensors"),
	/* POSIX, pax: ustar; .nemo files and PyTorch's of before 0.4. */
	KIND_AT(257, "ustar", "is a tar archive; unpack it (tar -xf) and name what is in it"),
	/* What llama.cpp read before GGUF: its magic numbers, of ggml.c in 2023, little-endian. */
#define OLD_GGML "is a GGML file of before GGUF, which nothing reads today; look for the model as GGUF or safetensors"
	KIND("lmgg", OLD_GGML),
	KIND("fmgg", OLD_GGML),
	KIND("tjgg", OLD_GGML),
	KIND("algg", OLD_GGML),
	/* The imatrix of llama.cpp before it was GGUF: the number of entries, and each name's length and bytes. */
	KIND_AT(8, "blk.", "is an importance matrix of llama.cpp (imatrix), not weights; mxfp has no use for it"),
	KIND_AT(4, "TFL3", "is a TensorFlow Lite model; give the model that it was made from"),
	KIND("# xet version", "is a pointer of git-xet, not the file it stands for; hf download fetches that"),
	/* What huggingface.co answers, which curl saves without -f. */
#define ANSWER "is a server's message, not the file; see what it says, and download the file again"
	KIND("Entry not found", ANSWER),
	KIND("Invalid username", ANSWER),
	KIND("Access to model", ANSWER),
	KIND("Repository not f", ANSWER),
};

/* HTML and XML, behind white space or a byte-order mark. */
static int is_page(const char *first, size_t n)
{
	size_t at = n >= 3 && memcmp(first, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	while (at < n && first[at] != '\0' && strchr(" \t\r\n", first[at]) != NULL)
		at++;
	return n - at >= 2 && first[at] == '<' && first[at + 1] != '\0' &&
	       strchr("!?hH", first[at + 1]) != NULL;
}

/* The first member of a zip archive tells torch.save() since PyTorch 1.6, which writes NAME/data.pkl, and numpy.savez(), which
   writes NAME.npy (APPNOTE 4.3.7: the name's length is at 26, the name at 30). */
static const char *zip_kind(const unsigned char *first, size_t n)
{
	static const struct {
		const char *end, *what;
	} members[] = {
		{"/data.pkl", "is a PyTorch file, as torch.save() writes, whose pickle could run any code; torch.load() with weights_only=True "
		 "reads it: " SAVE},
		{".npy", "is an archive of numpy.savez(); unzip it and name a .npy file of it"},
	};
	const size_t length = n < 30 ? 0 : (size_t)(first[26] | first[27] << 8);

	for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
		const size_t end = strlen(members[i].end);

		if (length > end && length <= n - 30 && memcmp(first + 30 + length - end, members[i].end, end) == 0)
			return members[i].what;
	}
	return "is a zip archive, as torch.save() and numpy.savez() write; " SAVE;
}

/* sentencepiece_model.proto: field 1 of a model is a piece, whose field 1 is its text and field 2 its score, a float. */
static bool is_sentencepiece(const unsigned char *first, size_t n)
{
	return n > 10 && first[0] == 0x0a && first[2] == 0x0a && first[3] < first[1] && (size_t)first[3] + 4 < n &&
	       first[4 + first[3]] == 0x15;
}

/* onnx.proto: field 1 is the version, below 32 for long to come; field 2 the producer's name or 7 the graph. */
static bool is_onnx(const unsigned char *first, size_t n)
{
	return n > 4 && first[0] == 0x08 && first[1] > 0 && first[1] < 32 && (first[2] == 0x12 || first[2] == 0x3a);
}

static bool is_zero(const unsigned char *first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (first[i] != 0)
			return false;
	return n >= 16;
}

/* What is told by more than a few bytes at one place; NULL: nothing that is known. */
static const char *other_kind(const unsigned char *first, size_t n)
{
	if (n >= 4 && memcmp(first, "PK\x03\x04", 4) == 0)
		return zip_kind(first, n);
	if (is_page((const char *)first, n))
		return "is a web page, not the file; the download failed or wants a login: download the file again";
	if (is_sentencepiece(first, n))
		return "is a tokenizer of SentencePiece, not weights; name the model, and as --tokenizer its tokenizer.json, which "
		       "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes";
	if (is_onnx(first, n))
		return "is a graph of ONNX; give the model that it was exported from";
	if (is_zero(first, n))
		return "begins with zeros, as a file that was not downloaded to its end; download it again";
	return NULL;
}

int foreign_check(const char *path, const void *first, size_t n, struct error *error)
{
	const char *what = other_kind(first, n);

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && what == NULL; i++)
		if (n >= kinds[i].at + kinds[i].n && memcmp((const char *)first + kinds[i].at, kinds[i].first, kinds[i].n) == 0)
			what = kinds[i].what;
	return what == NULL ? EXIT_OK : fail(error, EXIT_INPUT, "%s: %s", path, what);
}

/* Printable ASCII and white space, or letters of UTF-8. */
bool foreign_is_text(const void *first, size_t n)
{
	const unsigned char *bytes = first;

	for (size_t i = 0; i < n; i++)
		if ((bytes[i] < ' ' && strchr("\t\n\r\f", bytes[i]) == NULL) || bytes[i] == '\0' || bytes[i] == 0x7f)
			return false;
	return n > 0;
}
