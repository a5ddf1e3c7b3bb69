/* SPDX-License-Identifier: MIT */
/*
 * Structs that can grow begin with `size_t size`: sizeof of the struct when the caller was compiled. A call passes such a
 * struct through MXFP_SIZED() before reading it. Members that the caller does not have become zero, their default; members that
 * the library does not have must be zero. A new member goes to the end, past the old sizeof, because an older caller's padding
 * may hold anything.
 */
#ifndef MXFP_SIZED_H
#define MXFP_SIZED_H

#include <stddef.h>

enum { MXFP_SIZED_MOST = 512 };

/* {0} for any struct. */
extern const size_t mxfp_zeros[MXFP_SIZED_MOST / sizeof(size_t)];

/* Copies *from, a struct of another size, into `to`, which has `bytes` bytes. Returns `to`, or NULL as MXFP_SIZED(). */
const void *mxfp_copy_sized(void *to, size_t bytes, size_t first, const void *from);

/* The function behind MXFP_SIZED(). */
static inline const void *mxfp_sized(const void *from, void *copy, size_t bytes, size_t first)
{
	if (from == NULL)
		return mxfp_zeros;
	return *(const size_t *)from == bytes ? from : mxfp_copy_sized(copy, bytes, first, from);
}

/*
 * Returns the caller's struct at `from` (NULL: {0}) as the library knows it: `from` itself if both have one version,
 * which costs nothing, else `copy`. Returns NULL if its size is not set or less than the first version's, or if an unknown
 * member is not zero. A struct that has grown since the first version, to which it was `first` bytes long, passes through
 * MXFP_SIZED_SINCE().
 */
#define MXFP_SIZED(from, copy) MXFP_SIZED_SINCE(from, copy, sizeof *(copy))
#define MXFP_SIZED_SINCE(from, copy, first) \
	((void)((from) == (copy)), (void)sizeof(char[sizeof *(copy) <= MXFP_SIZED_MOST ? 1 : -1]), \
	 mxfp_sized((from), (copy), sizeof *(copy), (first)))

#endif
