/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "analyse/lint_mend.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/column_order.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "mxfp/convert.h"

void mending_free(struct mending *mending)
{
	free(mending->mends);
	json_decref(mending->config);
	json_decref(mending->second);
	arena_free(&mending->arena);
	*mending = (struct mending){0};
}

static int append(struct mend **mend, struct mending *mending, struct error *error)
{
	if (mending->n == mending->capacity) {
		const size_t more = mending->capacity == 0 ? 64 : 2 * mending->capacity;
		struct mend *moved = realloc(mending->mends, more * sizeof *moved);

		if (moved == NULL)
			return fail_memory(error);
		mending->mends = moved;
		mending->capacity = more;
	}
	*mend = &mending->mends[mending->n++];
	return EXIT_OK;
}

const struct mend *mending_find(const struct mending *mending, const struct tensor *source)
{
	for (size_t i = 0; i < mending->n; i++)
		if (mending->mends[i].source == source)
			return &mending->mends[i];
	return NULL;
}

int mending_of(struct mend **mend, struct mending *mending, const struct file *file, const struct tensor *source,
               struct error *error)
{
	const struct mend *found = mending_find(mending, source);

	if (found != NULL) {
		*mend = &mending->mends[found - mending->mends];
		return EXIT_OK;
	}
	const int code = append(mend, mending, error);
	if (code == EXIT_OK)
		**mend = (struct mend){.file = file, .source = source, .target = *source};
	return code;
}

int mending_set(struct mending *mending, struct mend *mend, const void *bytes, size_t n, struct error *error)
{
	unsigned char *copy = arena_take(&mending->arena, n + 1);

	if (copy == NULL)
		return fail_memory(error);
	memcpy(copy, bytes, n);
	mend->value = copy;
	return EXIT_OK;
}

int mending_add(struct mending *mending, const struct file *file, const char *name, const struct model_tensor *like,
                struct error *error)
{
	const size_t n = (size_t)like->tensor->size;
	unsigned char *bytes = arena_take(&mending->arena, n + 1);
	struct tensor target = *like->tensor;
	struct mend *mend = NULL;

	target.name = arena_string(&mending->arena, name);
	if (bytes == NULL || target.name == NULL)
		return fail_memory(error);
	int code = file_read(like->file, like->tensor, 0, bytes, n, error);
	if (code == EXIT_OK)
		code = append(&mend, mending, error);
	if (code == EXIT_OK)
		*mend = (struct mend){.file = file, .target = target, .value = bytes};
	return code;
}

bool mending_adds(const struct mending *mending, const char *name)
{
	for (size_t i = 0; i < mending->n; i++)
		if (mending->mends[i].source == NULL && strcmp(mending->mends[i].target.name, name) == 0)
			return true;
	return false;
}

struct mend_unit mend_unit_of(const struct mend *mend)
{
	switch (mend->source->dtype) {
	case DTYPE_MXFP4:
		return (struct mend_unit){17, 1, 32, 32};
	case DTYPE_NVFP4:
		return (struct mend_unit){36, 4, 64, 16};
	default:
		break;
	}
	if (mend->order == 0)
		return (struct mend_unit){1, 1, 0, 0};
	const size_t cols = column_order_period(mend->order - 1);
	return (struct mend_unit){cols / 2, 0, cols, 0};
}

void mend_decode_codes(enum mxfp_format format, double numbers[MEND_CODES])
{
	uint8_t codes[MEND_CODES];
	float x[MEND_CODES];

	for (int i = 0; i < MEND_CODES; i++)
		codes[i] = (uint8_t)i;
	must_succeed(mxfp_convert_array(x, MXFP_FORMAT_F32, codes, format, MEND_CODES, NULL, ONE_THREAD));
	for (int i = 0; i < MEND_CODES; i++)
		numbers[i] = (double)x[i];
}

/* Codes of numbers that are not negative are in the order of these; the first that is not finite ends them. */
int mend_code_of(const double numbers[MEND_CODES], double x)
{
	int from = 0, till = isfinite(numbers[MEND_CODES / 2 - 1]) ? MEND_CODES - 1 : MEND_CODES / 2 - 1;

	while (from < till) {
		const int middle = from + (till - from) / 2;

		if (numbers[middle] < x)
			from = middle + 1;
		else
			till = middle;
	}
	return isfinite(numbers[from]) && numbers[from] == x && !signbit(x) ? from : -1;
}

static void set_fate(struct lint_fate *fate, bool fixed, const char *format, va_list arguments)
{
	fate->fixed = fixed;
	vsnprintf(fate->text, sizeof fate->text, format, arguments);
}

void mend_done(struct lint_fate *fate, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	set_fate(fate, true, format, arguments);
	va_end(arguments);
}

void mend_left(struct lint_fate *fate, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	set_fate(fate, false, format, arguments);
	va_end(arguments);
}
