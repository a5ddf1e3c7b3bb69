/* SPDX-License-Identifier: MIT */
/*
 * The reader of indexes of sharded models.
 *
 * Properties: any bytes are accepted, or refused with EXIT_INPUT and a message; in an accepted index, each shard is the
 * name of a file in the same directory and each tensor is found.
 *
 * Input: an index. The corpus was written by hand.
 */
#include "config.h"

#include "fuzz.h"
#include "input_file.h"
#include "model/model_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_index index;
	struct error error = {""};
	int code = model_index_read(&index, descriptor_open, input_file(data, size, ".json"), &error);

	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "an index is read or refused");
	fuzz_check((code == EXIT_OK) == (error.text[0] == '\0'), "a refusal has a text");
	for (size_t i = 0; i < index.n && code == EXIT_OK; i++) {
		const struct model_index_entry *entry = &index.entries[i];

		fuzz_check(entry->shard[0] != '\0' && strpbrk(entry->shard, "/\\") == NULL &&
		           strcmp(entry->shard, ".") != 0 && strcmp(entry->shard, "..") != 0,
		           "a shard is a file beside the index");
		fuzz_check(model_index_find(&index, entry->tensor) == entry, "a tensor is found by its name");
	}
	model_index_close(&index);
	return 0;
}
