/* SPDX-License-Identifier: MIT */
/*
 * How quantized tensors lie in files. A layout is what one family of programs loads: the names, dtypes and shapes of
 * the parts that a tensor NAME [..., N, K] becomes, the order of codes and scales in them, and what config.json says.
 * Each is a row of layout.def and a file layout_<name>.c, and most are nothing but a table of forms, one a format.
 *
 * In memory codes and scales are always in the order that mxfp/quantize.h defines; a layout's order turns pieces of a
 * matrix into that and back. Rows whose length is no multiple of the block are held padded with zeros to whole
 * blocks, and the metadata LAYOUT_COLS NAME of their file says K.
 */
#ifndef TOOLS_MODEL_LAYOUT_H
#define TOOLS_MODEL_LAYOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "io/file.h"
#include "io/piece.h"
#include "model/layout_bands.h"
#include "model/role.h"
#include "mxfp/format.h"
#include "mxfp/options.h"
#include "mxfp/quantize.h"
#include "mxfp/sparse.h"

/* More than the library has; sets of formats are the bits of a uint32_t. */
enum { FORMATS_MAX = 32 };

#define LAYOUT_SPARSITY "mxfp.sparsity" /* metadata key: the pattern of sparse tensors */
#define LAYOUT_TENSOR "mxfp.tensor." /* metadata key of a tensor quantized otherwise than most, before its name */
#define LAYOUT_BLOCK "mxfp.block" /* metadata key: LAYOUT_SQUARES; other tensors have blocks of one row */
#define LAYOUT_SQUARES "32x32"    /* rows and columns of blocks that share a scale */
#define LAYOUT_COLS "mxfp.cols." /* metadata key of a padded tensor's K, before its name */
#define LAYOUT_TRANSPOSED "mxfp.transposed." /* metadata key of a tensor that was [.., in, out] before, before its name */
#define LAYOUT_EXPERTS "mxfp.experts" /* metadata key: experts were one tensor before, of which each is a part: */
#define LAYOUT_EXPERTS_ROWS "[experts, out, in]"
#define LAYOUT_EXPERTS_COLUMNS "[experts, in, out]"

enum layout_part {
	LAYOUT_CODES,
	LAYOUT_SCALES,
	LAYOUT_TENSOR_SCALE,
	LAYOUT_MASKS,
	LAYOUT_INPUT_SCALE, /* the tensor scale of activations: read and carried, never made here */
	LAYOUT_PRE_QUANT_SCALE, /* multiplies what the weight is multiplied with, a number each column: the same */
	N_LAYOUT_PARTS
};

/* The name of a part is that of the tensor without `remove` at its end and with `append`; NULL: no such part. */
struct layout_part_form {
	const char *remove, *append;
	enum dtype dtype;
};

/* One format in a layout. */
struct layout_form {
	enum mxfp_format format;
	const char *config_name; /* what config.json calls it; NULL: nothing */
	bool known;              /* the layout's own programs have this form; otherwise it is ours */
	bool sparse;             /* the codes are those that are kept, and masks say which */
	struct layout_part_form parts[N_LAYOUT_PARTS];
	uint32_t activations;    /* formats of activations that its configuration can say: bits 1 << format */
	unsigned scales_each;    /* a tensor [matrices, ..] has so many tensor scales for each, of equal parts of its rows; 0: one for all */
};

/* A layout, a form of it, and a pattern if the form is sparse: how a tensor is held. */
struct layout_choice {
	const struct layout *layout;
	const struct layout_form *form;
	struct mxfp_sparsity sparsity; /* all zero: dense */
	bool unscaled;                 /* the tensor scale is 1, and not held where it is optional */
	uint64_t grid[2];              /* rows and columns that, by config.json, share a scale; 0: it does not say */
};

enum { LAYOUT_RANK_MAX = 8 };

struct layout_shape {
	unsigned rank;
	uint64_t dims[LAYOUT_RANK_MAX];
};

/* A quantized tensor of a model. */
struct quantized {
	struct layout_choice choice;
	const struct tensor *parts[N_LAYOUT_PARTS]; /* NULL: none */
	const struct file *files[N_LAYOUT_PARTS];
	struct layout_shape shape; /* of the tensor that was quantized */
	uint64_t rows, cols;       /* the matrix that it is: tensor_matrix() */
	float tensor_scale;        /* multiplies or divides as the layout says */
	uint64_t n_scales;         /* more than 1: so many equal parts of the rows have tensor scales of their own, and tensor_scale is the first */
	bool squares;              /* the metadata say that 32 rows share scales */
	bool repeated;             /* the files have a scale for several blocks, which read() repeats */
	bool transposed;           /* the tensor was [.., in, out]: shape is that with its last two dimensions exchanged */
	bool noted_transposed;     /* the metadata say so */
	struct layout_bands *bands; /* NULL: none; see layout_read_in_bands() */
};

struct layout_facts;
struct layout_target;

/* How the elements of a tensor lie in its codes and scales. */
struct layout_order {
	/* NULL, or why a tensor of that shape, of rank 1 at least and not empty, cannot be held, as a phrase. */
	const char *(*refuses)(const struct layout_choice *choice, const struct layout_shape *source);
	/* The shape of the codes, scales or masks of such a tensor. */
	void (*describe)(const struct layout_choice *choice, enum layout_part part, const struct layout_shape *source,
	                 struct layout_shape *shape);
	/* The shape of the tensor, padded to whole blocks, that these parts would be of; layout.c checks all parts against
	   it with describe(), unless this one checks_shapes. False if there is none. */
	bool (*source)(const struct layout_choice *choice, const struct tensor *const *parts,
	               struct layout_shape *source);
	/* Rows are padded to a multiple of so many elements; 0: the block. */
	unsigned unit;
	/* Reads the codes and scales of a piece, of any number of rows; writes them. As file_read(), writer_write(). */
	int (*read)(const struct quantized *quantized, const struct piece *piece, const struct mxfp_blocks *blocks,
	            struct error *error);
	int (*write)(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
	             struct error *error);
	/* Bytes of a row in a band, which read() and write() then use; NULL: the file holds rows, and needs none. */
	size_t (*band_row_bytes)(const struct layout_choice *choice, const struct layout_shape *source);
	bool checks_shapes;
	/* Whether parts that fit have a scale for several blocks; NULL: never. */
	bool (*repeats)(const struct layout_choice *choice, const struct tensor *const *parts);
};

/* Rows of codes and rows of scales, each in order; and the same with a dimension of its own for a block's codes. */
extern const struct layout_order layout_rows, layout_block_rows;

/* Rows of codes, and a scale for each rectangle of them, which is repeated for each block; written as layout_rows. */
extern const struct layout_order layout_grid;

struct layout {
	const char *name;      /* "compressed-tensors", for --layout */
	const char *meaning;   /* a phrase for --help */
	const struct file_format *file_format;
	const struct layout_order *order;
	/* NULL, or why its loaders do not take a tensor of that role quantized, as a phrase; NULL: they take any. */
	const char *(*refuses)(const struct role_model *model, const struct role *role, const struct tensor *tensor);
	const struct layout_form *forms;
	size_t n_forms;
	size_t n_made;              /* the first so many are made here, the others only read; 0: all */
	bool tensor_scale_optional; /* where there is none it is 1 */
	bool positive_zeros;        /* what rounds to zero is +0 in 4-bit codes that are made for it, as in ggml's */
	bool transposes;            /* its own programs quantize the rows of tensors that are [.., in, out] elsewhere */
	bool divides;               /* decoded numbers are divided by the tensor scale, not multiplied */
	unsigned tensor_scale_rank; /* of the one number that it is: 0 or 1 */
	enum mxfp_recipe recipe;    /* of its own programs, for formats with a tensor scale */
	/* What layout_config.h makes of facts, without quant_method, which is `method`; NULL: nothing is in config.json. */
	const char *method;
	bool unnamed_method; /* config.json does not name it */
	bool by_scales;      /* its programs take what has scales for quantized, and no list of modules */
	bool lists_optional; /* its programs know what is not quantized without a list */
	const char *twin;    /* a second key of config.json with the same section; NULL: none */
	bool one_expert_each; /* its programs take what is ROLE_SEQUENTIAL so, quantized or not */
	bool reads_experts;  /* its programs take experts in one tensor [experts, out, in] too, which are not made here */
	bool expressions; /* lists of modules may have regular expressions, after "re:" */
	json_t *(*config)(const struct layout_facts *facts);
	/* Whether its configuration can say how the cache of keys and values is quantized, as kv_cache_scheme of
	   compressed-tensors says it; NULL: never. */
	bool (*holds_cache)(const json_t *cache);
	bool output_scales; /* its loaders take output_scale of k_proj and v_proj, Quark's names, for scales of the cache */
	/* A file beside config.json that says the same otherwise, made from it; NULL: none. */
	const char *second_name;
	json_t *(*second_config)(const json_t *quantization);
};

/* The layouts, NULL last. The first is the one that is written unless another is asked for. */
extern const struct layout *const layouts[];

#define LAYOUT(id) extern const struct layout layout_##id;
#include "model/layout.def"

/* The form of a format in a layout, dense or sparse; NULL if it has none. */
const struct layout_form *layout_form(const struct layout *layout, enum mxfp_format format, bool sparse);

/* NULL, or what programs that load a layout make of a format in it, as a phrase: they refuse it, or read other numbers. */
const char *layout_caution(const struct layout *layout, enum mxfp_format format, bool *misread);

/* NULL, or why a tensor of rank 1 or more cannot be held by a choice, as a phrase. */
const char *layout_refuses(const struct layout_choice *choice, const struct tensor *source);

/* NULL, or why the loaders of a layout do not take a tensor of a model quantized, as a phrase. */
const char *layout_refuses_role(const struct layout *layout, const struct role_model *model, const struct role *role,
                                const struct tensor *tensor);

/* For layouts whose loaders replace modules of the class Linear, each of which has a weight of its own. */
const char *layout_takes_linear(const struct role_model *model, const struct role *role, const struct tensor *tensor);

/* Rows are padded to a multiple of so many elements. */
unsigned layout_unit(const struct layout_choice *choice);

/* Whether tensors have this part when they are written. */
bool layout_has(const struct layout_choice *choice, enum layout_part part);

/* malloc'ed name of a part of the tensor `name`, which must end as the form wants it; NULL without memory. *fits is
   false, with NULL, if it does not end so or the form has no such part. */
char *layout_part_name(const struct layout_form *form, enum layout_part part, const char *name, bool *fits);

/* Name, dtype and shape of a part of a tensor that layout_refuses() does not refuse, from the arena; false without
   memory. */
bool layout_describe(const struct layout_choice *choice, enum layout_part part, const struct tensor *source,
                     struct arena *arena, struct tensor *described);

/* Whether parts, NULL where there is none, are codes, scales and masks of one tensor by dtype and shape, and of which
   shape: its rows padded to whole blocks. */
bool layout_fits(const struct layout_choice *choice, const struct tensor *const *parts, struct layout_shape *source);

/* Where a piece of a matrix with rows of `cols` elements lies in codes and scales that are in order. */
struct layout_slice {
	uint64_t codes_from, scales_from;
	struct mxfp_sizes size;
};

struct layout_slice layout_slice(enum mxfp_format format, uint64_t cols, const struct piece *piece);

/* Reads the scales of a piece that are in order. EXIT_IO. */
int layout_read_scales(const struct quantized *quantized, const struct piece *piece, void *scales, struct error *error);

/* Takes memory for bands, if the layout wants them and it is there: for a tensor whose pieces are read in their order, by
   one thread at a time. Ends with layout_bands_free(quantized->bands). */
void layout_read_in_bands(struct quantized *quantized);

/* A quantized tensor being written: the parts are those of the writer, NULL where the choice has none. */
struct layout_target {
	struct layout_choice choice;
	struct writer *writer;
	struct layout_shape source;
	uint64_t rows, cols;
	const struct tensor *parts[N_LAYOUT_PARTS];
	struct layout_bands *bands; /* NULL: none */
};

/* The same for a tensor that is written in pieces of `band` rows (piece.h), which are announced (layout_bands.h) before. */
void layout_write_in_bands(struct layout_target *target, size_t band);

/* Finds the parts that layout_describe() gave names to in an open writer. */
struct layout_target layout_target(const struct layout_choice *choice, const struct tensor *source,
                                   const struct tensor *described, struct writer *writer);

/* Writes a piece of a dense tensor; the tensor scale, which is that of the blocks turned into the layout's convention
   (*exact is false if 1/scale had to be rounded for it). EXIT_IO. */
int layout_write(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
                 struct error *error);
int layout_write_tensor_scale(const struct layout_target *target, const struct mxfp_blocks *blocks, bool *exact,
                              struct error *error);

/* Whether a recipe has no tensor scale, which is 1 then. */
bool layout_recipe_unscaled(enum mxfp_recipe recipe);

/* Whether tensors of a layout can have a tensor scale that is not 1. */
bool layout_holds_tensor_scale(const struct layout *layout);

/* Whether a recipe's scales fit: those without a tensor scale, and those whose tensor scale multiplies or divides as
   the layout has it. */
bool layout_holds_recipe(const struct layout *layout, enum mxfp_recipe recipe);

/* Formats as bits 1 << format: those that a layout has dense forms for. */
uint32_t layout_formats(const struct layout *layout);

/* Such bits as "a, b or c" in `text`, where `more`, if it is not NULL, is the last; returns text. */
enum { LAYOUT_FORMATS_TEXT = 128 };
const char *layout_formats_text(uint32_t formats, const char *more, char text[LAYOUT_FORMATS_TEXT]);

#endif
