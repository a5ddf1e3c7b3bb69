/* SPDX-License-Identifier: MIT */
/*
 * Structs that can grow begin with `size_t size`: sizeof of the struct when the caller was compiled, or 0 for the first
 * version's. A call passes such a struct through MXFP_SIZED() before reading it. Members that the caller does not have
 * become zero, their default; members that the library does not have must be zero. A new member goes to the end, past
 * the old sizeof, because an older caller's padding may hold anything.
 */
#ifndef MXFP_SIZED_H
#define MXFP_SIZED_H

#include <stddef.h>

enum { MXFP_SIZED_MOST = 512 };

/* {0} for any struct. */
extern const size_t mxfp_zeros[MXFP_SIZED_MOST / sizeof(size_t)];

/* Copies *from, a struct of another size, into `to`, which has `bytes` bytes. Returns `to`, or NULL as MXFP_SIZED(). */
const void *mxfp_copy_sized(void *to, size_t bytes, size_t first, const void *from);

/* The function behind MXFP_SIZED(); `first` is the offset at which the members of the first version end. */
static inline const void *mxfp_sized(const void *from, void *copy, size_t bytes, size_t first)
{
	if (from == NULL)
		return mxfp_zeros;
	const size_t size = *(const size_t *)from;

	return size == bytes || (size == 0 && bytes - first < sizeof(size_t)) ? from
	                                                                       : mxfp_copy_sized(copy, bytes, first, from);
}

/*
 * Returns the caller's struct at `from` (NULL: {0}) as the library knows it: `from` itself if both have one version,
 * which costs nothing, else `copy`. Returns NULL if it is smaller than the first version, whose last member is `last`,
 * or if an unknown member is not zero.
 */
#define MXFP_SIZED(from, copy, last) \
	((void)((from) == (copy)), (void)sizeof(char[sizeof *(copy) <= MXFP_SIZED_MOST ? 1 : -1]), \
	 mxfp_sized((from), (copy), sizeof *(copy), (size_t)((const char *)(&(copy)->last + 1) - (const char *)(copy))))

#endif
