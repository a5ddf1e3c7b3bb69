/* SPDX-License-Identifier: MIT */
/*
 * Tensor files: one struct for readers and one for writers, whatever the file format. A format is a row in
 * formats.c and a source file file_<format>.c; no other file knows its name.
 *
 * Data are never read whole: file_read() reads a range of one tensor's bytes, writer_write() writes one.
 */
#ifndef TOOLS_IO_FILE_H
#define TOOLS_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/descriptor.h"
#include "io/handle.h"
#include "mxfp/format.h"

enum dtype {
#define DTYPE(id, name, bits, block_elements, format) DTYPE_##id,
#include "io/dtype.def"
	N_DTYPES
};

struct dtype_info {
	const char *name;
	unsigned bits;           /* of a block */
	unsigned block_elements; /* 1: the dtype has no blocks; else its data are opaque here, and rows are whole blocks */
	bool numeric;            /* `format` says what the codes mean */
	enum mxfp_format format;
};

const struct dtype_info *dtype_info(enum dtype dtype);

/* Returns the bits of an element, on average if the dtype has blocks. */
double dtype_bits(enum dtype dtype);

/* Returns the dtype of that name, or N_DTYPES. */
enum dtype dtype_from_name(const char *name);

/* Converts `n` bytes of whole numbers from the file's little-endian order to the host's, or back; file_read() and
   writer_write() move bytes as they are. Does nothing on a little-endian host, to numbers of up to 8 bits, or to
   blocks. */
void dtype_swap(enum dtype dtype, void *bytes, size_t n);

/* Makes the numbers of a tensor from others that are stored: F32, of rows one after the other. read() gives those from the
   `first` on, in the order of a file's bytes, for several threads at once. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
struct tensor_decoder {
	int (*read)(const struct tensor_decoder *decoder, uint64_t first, float *numbers, size_t n, struct error *error);
	uint64_t base; /* the offset of its first number */
};

/* A tensor as a file describes it. Offsets are relative to the file's data section, or to what its decoder makes. */
struct tensor {
	const char *name;     /* UTF-8 without NUL */
	enum dtype dtype;
	unsigned rank;
	const uint64_t *shape;
	bool by_columns;      /* the data of its matrices, of the last two dimensions, are column after column;
	                         file_check_rows() keeps files with such out */
	uint64_t pitch;       /* by columns: elements from one column to the next; 0: they follow each other */
	uint64_t offset, size; /* bytes */
	const struct tensor_decoder *decoder; /* NULL: the data are as they are stored */
};

/* Returns the number of elements: the product of the shape, which does not overflow in an open file or writer. */
uint64_t tensor_elements(const struct tensor *tensor);

/* Computes the bytes of the data from shape and dtype; false if they overflow, dimensions of 0 left out, if they are
   not whole, or if rows are not whole blocks. */
bool tensor_size(const struct tensor *tensor, uint64_t *size);

/* Returns the shape of a tensor as a matrix for block formats: the last dimension is cols, all others together are
   rows; a tensor of rank 0 or 1 is one row. */
void tensor_matrix(const struct tensor *tensor, uint64_t *rows, uint64_t *cols);

struct metadata {
	const char *key, *value;
};

/* The key that every safetensors file of an output has. */
#define METADATA_VERSION "mxfp.version"
#define METADATA_WEIGHTS "mxfp.weights" /* the format that most weights were quantized to */

/* Whether it is a key that only mxfp writes. */
bool metadata_is_own(const char *key);

/* An open tensor file. Tensors are in the order of their data. One that is cut into several (a split GGUF file) is here
   one file under the name of the first, with the tensors of all and the metadata of the first, without those that say
   how it is cut. */
struct file {
	char *path;                     /* a copy of the caller's */
	const struct file_format *format;
	struct handle *handle;
	uint64_t size_bytes;
	size_t n_tensors;
	struct tensor *tensors;
	const struct tensor **by_name;  /* the same, sorted by strcmp() */
	size_t n_metadata;
	struct metadata *metadata; /* in the order of the file */
	uint64_t header_bytes;     /* where the data section starts */
	uint64_t data_bytes;
	void *state;               /* private to the format; of a file in parts, that of the first */
	size_t n_parts;            /* files on disk that this one is put together from; 0: it is one itself */
	struct file *parts;        /* as they would be alone; their names and shapes are this one's too */
};

enum { FILE_PROBE_BYTES = 512 };

struct writer;

struct file_format {
	const char *name;
	const char *suffix;                                /* ".safetensors" */
	/* Whether the first bytes look like the format; zeros follow the end of a shorter file. */
	bool (*probe)(const unsigned char first[FILE_PROBE_BYTES]);
	/* Fills in all except path, format, handle and size_bytes, which are set. file_open() cleans up after a failure. */
	int (*open)(struct file *file, struct error *error);
	void (*close)(struct file *file);                  /* frees the state; tensors and metadata are file.c's */
	/* For writing by struct writer; both are NULL if the format cannot be written. Sets offsets and header_bytes of
	   tensors whose sizes are set, and may reorder them. EXIT_INPUT, EXIT_MEMORY. */
	int (*lay_out)(struct writer *writer, struct error *error);
	/* Writes everything that is not data. EXIT_IO, EXIT_MEMORY. */
	int (*finish)(const struct writer *writer, struct error *error);
};

/* The formats, NULL last: for --help. */
extern const struct file_format *const file_formats[];

/* Returns the format whose suffix a file's name has, or NULL. */
const struct file_format *file_format_named(const char *path);

/* Returns the format that the first bytes look like, zeros behind those of a shorter file, or NULL. */
const struct file_format *file_format_probed(const unsigned char first[FILE_PROBE_BYTES]);

/* For formats: sorts the names, and returns one that occurs twice, or NULL. */
const char *file_sort_names(const char **names, size_t n);

/* For formats: sorts the tensors by their data, fills by_name, and refuses a name that occurs twice. */
int file_sort_tensors(struct file *file, struct error *error);

/* Opens a file, finds its format by its name or first bytes, and checks everything that can be checked without
   reading the data. Only regular files are opened. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int file_open(struct file *file, const char *path, struct error *error);

/* The same for a file that the user did not name: member_open() is the opener. */
int file_open_by(descriptor_opener *opener, struct file *file, const char *path, struct error *error);

/* Releases what file_open() took; the struct may be zeroed. */
void file_close(struct file *file);

/* Reads `n` bytes of a tensor from its byte `from` on. EXIT_IO; EXIT_INPUT if the file has become shorter. */
int file_read(const struct file *file, const struct tensor *tensor, uint64_t from, void *buffer, size_t n,
              struct error *error);

/* The same, in the order of rows where the tensor is by_columns; of a dtype without blocks and of whole bytes. The more
   rows are read at once, the better. */
int file_read_rows(const struct file *file, const struct tensor *tensor, uint64_t from, void *buffer, size_t n,
                   struct error *error);

/* Returns EXIT_INPUT if a tensor is by_columns. Called before reading rows. */
int file_check_rows(const struct file *file, struct error *error);

/* Returns the tensor of that name, or NULL. */
const struct tensor *file_find(const struct file *file, const char *name);

/* Returns the value of a metadata key, or NULL. */
const char *file_metadata(const struct file *file, const char *key);

/*
 * A file being written. The caller fills in the first part; writer_open() lays out the tensors as the format requires,
 * which may reorder them. Then every tensor's bytes are written in any order, and writer_close() checks that all were,
 * writes the header with the metadata's current values, and syncs.
 */
struct writer {
	const char *path;
	const struct file_format *format; /* NULL: safetensors */
	const struct file *source;        /* NULL, or the file that this one is made from: GGUF copies what its header has
	                                     besides tensors and metadata */
	const struct gguf_pairs *pairs;   /* of GGUF: key-values that are not metadata of the source (gguf_pairs.h); NULL: none */
	size_t n_tensors;
	struct tensor *tensors;     /* name, dtype, shape; no name twice */
	size_t n_metadata;
	struct metadata *metadata;  /* values may change until writer_close(), their lengths may not */
	bool reopen;                /* continue a file that a writer of the same tensors and metadata left */
	unsigned alignment;         /* the format's, set by it: the length is a multiple of that; 0: of any */

	const struct tensor **by_name;
	uint64_t header_bytes; /* where the data begin */
	uint64_t data_bytes;   /* of all tensors */
	_Atomic uint64_t written_bytes;
	int fd;
};

/* Creates writer->path, which must not exist, at its full length, and lays out the file; with `reopen`, opens the file
   that is there, of whatever length. EXIT_IO, EXIT_MEMORY, EXIT_INPUT (sizes overflow, or the format cannot hold a name), EXIT_USAGE
   (descriptor_open_own()). */
int writer_open(struct writer *writer, struct error *error);

/* The length of the whole file, once it is open. */
uint64_t writer_length(const struct writer *writer);

/* Has a file that was reopened get that length, and zeros between its tensors, as a new one has. EXIT_IO. */
int writer_restore(struct writer *writer, struct error *error);

/* Counts `n` bytes that an earlier writer has written. */
void writer_skip(struct writer *writer, uint64_t n);

/* Returns the tensor of that name in an open writer, or NULL. */
const struct tensor *writer_find(const struct writer *writer, const char *name);

/* Writes `n` bytes at byte `from` of a tensor of writer->tensors. Several threads may write at once. EXIT_IO. */
int writer_write(struct writer *writer, const struct tensor *tensor, uint64_t from, const void *bytes, size_t n,
                 struct error *error);

/* Completes the file and closes it. On failure the file is closed and left for the caller (output.h) to remove. */
int writer_close(struct writer *writer, struct error *error);

/* Closes without completing; a writer that was never opened must have fd = -1. */
void writer_abandon(struct writer *writer);

#endif
