/* SPDX-License-Identifier: MIT */
/*
 * Writes a row past the caches, at any alignment. Parts of the row are made in a buffer with the alignment of the row,
 * whole cache lines of the buffer are streamed, and the rest waits for the next part. Only the first and the last line,
 * which may be shared with other rows, are stored in the ordinary way.
 */
#ifndef MXFP_AVX512_ROW_STREAM_H
#define MXFP_AVX512_ROW_STREAM_H

#include "body/stream.h"

enum { ROW_STREAM_PART_BYTES = 2048 };

struct row_stream {
	_Alignas(STREAM_LINE_BYTES) uint8_t buffer[STREAM_LINE_BYTES + ROW_STREAM_PART_BYTES];
	uint8_t *line;     /* the destination of the buffer's first line */
	size_t begin, end; /* the bytes of the buffer still to be written */
};

ALWAYS_INLINE void row_stream_begin(struct row_stream *s, uint8_t *row)
{
	s->begin = s->end = (uintptr_t)row % STREAM_LINE_BYTES;
	s->line = row - s->begin;
}

/* Where the caller makes the next part, of at most ROW_STREAM_PART_BYTES. */
ALWAYS_INLINE uint8_t *row_stream_room(struct row_stream *s)
{
	return s->buffer + s->end;
}

/* Writes the part just made, of n bytes. */
ALWAYS_INLINE void row_stream_write(struct row_stream *s, size_t n)
{
	size_t at = 0;

	s->end += n;
	if (s->begin != 0 && s->end >= STREAM_LINE_BYTES) {
		memcpy(s->line + s->begin, s->buffer + s->begin, STREAM_LINE_BYTES - s->begin);
		s->begin = 0;
		at = STREAM_LINE_BYTES;
	}
	for (; at + STREAM_LINE_BYTES <= s->end; at += STREAM_LINE_BYTES)
		stream_line(s->line + at, s->buffer + at);
	if (at != 0)
		memcpy(s->buffer, s->buffer + at, STREAM_LINE_BYTES);
	s->line += at;
	s->end -= at;
}

ALWAYS_INLINE void row_stream_end(const struct row_stream *s)
{
	memcpy(s->line + s->begin, s->buffer + s->begin, s->end - s->begin);
}

#endif
