/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "transfer.h"

#include "output.h"

int transfer_read(struct transfer *transfer, const struct tensor *tensor, uint64_t from, size_t n, struct error *error)
{
	int code = output_interrupted(error);

	if (code == EXIT_OK)
		code = file_read(transfer->file, tensor, from, transfer->buffer, n, error);
	progress_add(&transfer->progress, n);
	return code;
}

int transfer_copy(struct transfer *transfer, const struct tensor *tensor, struct error *error)
{
	const struct tensor *target = writer_find(&transfer->writer, tensor->dtype, tensor->name);
	int code = EXIT_OK;

	for (uint64_t from = 0; from < tensor->size && code == EXIT_OK; from += TRANSFER_BYTES) {
		size_t n = tensor->size - from < TRANSFER_BYTES ? (size_t)(tensor->size - from) : TRANSFER_BYTES;

		code = transfer_read(transfer, tensor, from, n, error);
		if (code != EXIT_OK)
			break;
		if (transfer->hash != NULL)
			XXH3_128bits_update(transfer->hash, transfer->buffer, n);
		code = writer_write(&transfer->writer, target, from, transfer->buffer, n, error);
	}
	return code;
}
