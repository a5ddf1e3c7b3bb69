/* SPDX-License-Identifier: MIT */
#include "base/byte_order.h"

#include <stdint.h>

void little_endian(void *words, size_t n, unsigned word_bytes)
{
	const uint16_t probe = 1;
	uint8_t *word = words;

	if (word_bytes == 1 || *(const uint8_t *)&probe == 1)
		return;
	for (size_t i = 0; i < n; i++, word += word_bytes)
		for (unsigned low = 0, high = word_bytes - 1; low < high; low++, high--) {
			uint8_t byte = word[low];
			word[low] = word[high];
			word[high] = byte;
		}
}
