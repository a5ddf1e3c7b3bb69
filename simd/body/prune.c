/* SPDX-License-Identifier: MIT */
/*
 * Prunes rows (ref/sparse.c): a lane is a group, so that element i of as many groups as there are lanes is one vector. An
 * element is kept if fewer than n precede it in order of decreasing magnitude, then index; each pair i < j is compared
 * once, because i precedes j exactly if j does not precede i. Masks are one stream of bits in which bit k is that of
 * element k of the row, and those of a batch of groups are whole bytes.
 */
#include "tier.h"

#include "body/slots.h"

enum { GROUP_MAX = 16, BATCH_MAX = LANES * GROUP_MAX };

/* Magnitude bits of the elements of LANES groups, one vector for the same element of each. */
ALWAYS_INLINE void gather_magnitudes(vu32 magnitude[GROUP_MAX], const uint8_t *src, unsigned width, unsigned m)
{
	uint32_t words[GROUP_MAX][LANES];

	for (unsigned lane = 0; lane < LANES; lane++)
		for (unsigned i = 0; i < m; i++) {
			uint32_t word = 0;

			if (width == sizeof(uint16_t)) {
				uint16_t half;
				memcpy(&half, src + (lane * m + i) * width, sizeof half);
				word = half & 0x7FFFU;
			} else {
				memcpy(&word, src + (lane * m + i) * width, sizeof word);
				word &= ~F32_SIGN;
			}
			words[i][lane] = word;
		}
	for (unsigned i = 0; i < m; i++)
		magnitude[i] = load(words[i]);
}

/* A word of m bits for each group. */
ALWAYS_INLINE vu32 masks_of(const vu32 magnitude[GROUP_MAX], unsigned n, unsigned m)
{
	vs32 before[GROUP_MAX];
	vu32 mask = {0};

	for (unsigned i = 0; i < m; i++)
		before[i] = (vs32)splat(i);
	for (unsigned i = 0; i < m; i++)
		for (unsigned j = i + 1; j < m; j++) {
			const vs32 greater = (vs32)magnitude[j] > (vs32)magnitude[i];

			before[i] -= greater;
			before[j] += greater;
		}
	for (unsigned i = 0; i < m; i++)
		mask |= (vu32)(before[i] < (vs32)splat(n)) & splat(UINT32_C(1) << i);
	return mask;
}

ALWAYS_INLINE void store_masks(uint8_t *masks, vu32 words, unsigned m)
{
	uint32_t bits = 0;
	unsigned n_bits = 0;

	for (unsigned lane = 0; lane < LANES; lane++) {
		bits |= words[lane] << n_bits;
		for (n_bits += m; n_bits >= 8; n_bits -= 8, bits >>= 8)
			*masks++ = (uint8_t)bits;
	}
}

/* Writes the elements of a batch that are kept, and zeros for the others. */
ALWAYS_INLINE void store_kept(uint8_t *pruned, const uint8_t *src, const uint8_t *masks, unsigned width, unsigned m)
{
	for (unsigned k = 0; k < LANES * m; k += LANES) {
		const uint32_t bits = (uint32_t)masks[k / 8] >> k % 8 | (LANES > 8 ? (uint32_t)masks[k / 8 + 1] << 8 : 0);
		const vs32 kept = (vs32)((splat(bits) >> lane_numbers() & 1) != 0);

		if (width == sizeof(uint16_t))
			store_u16(pruned + k * width, (vu32)kept & load_u16(src + k * width));
		else
			store(pruned + k * width, (vu32)kept & load(src + k * width));
	}
}

/* LANES groups, which follow each other. */
ALWAYS_INLINE void prune_batch(uint8_t *masks, uint8_t *pruned, const uint8_t *src, unsigned width, unsigned n, unsigned m)
{
	vu32 magnitude[GROUP_MAX];

	gather_magnitudes(magnitude, src, width, m);
	store_masks(masks, masks_of(magnitude, n, m), m);
	if (pruned != NULL)
		store_kept(pruned, src, masks, width, m);
}

/* The last `cols` elements of a row, which are fewer than a batch has, and zeros. */
ALWAYS_INLINE void prune_rest(uint8_t *masks, uint8_t *pruned, const uint8_t *src, size_t cols, unsigned width, unsigned n,
                              unsigned m)
{
	const size_t bits = (cols + m - 1) / m * m;
	uint8_t batch[BATCH_MAX * sizeof(uint32_t)] = {0}, batch_masks[BATCH_MAX / 8];

	memcpy(batch, src, cols * width);
	prune_batch(batch_masks, pruned != NULL ? batch : NULL, batch, width, n, m);
	if (bits % 8 != 0)
		batch_masks[bits / 8] &= (uint8_t)((1U << bits % 8) - 1);
	memcpy(masks, batch_masks, (bits + 7) / 8);
	if (pruned != NULL)
		memcpy(pruned, batch, cols * width);
}

ALWAYS_INLINE void prune(const struct mxfp_prune_job *job, unsigned width, unsigned m)
{
	const unsigned n = job->sparsity.n;
	const size_t batch = (size_t)LANES * m;

	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *src = job->src + row * job->src_stride;
		uint8_t *masks = job->masks + row * job->masks_stride;
		uint8_t *pruned = job->pruned != NULL ? job->pruned + row * job->pruned_stride : NULL;
		size_t left = job->cols;

		for (; left >= batch; left -= batch) {
			prune_batch(masks, pruned, src, width, n, m);
			src += batch * width;
			masks += batch / 8;
			pruned = pruned != NULL ? pruned + batch * width : NULL;
		}
		if (left > 0)
			prune_rest(masks, pruned, src, left, width, n, m);
	}
}

/* Calls prune() with the bytes of an element as a constant. */
ALWAYS_INLINE void prune_groups(const struct mxfp_prune_job *job, unsigned m)
{
	if (mxfp_format_get_info(job->format)->storage_bytes == sizeof(uint16_t))
		prune(job, sizeof(uint16_t), m);
	else
		prune(job, sizeof(uint32_t), m);
}

/* And with the length of a group as one. */
void TIER(prune)(const struct mxfp_prune_job *job)
{
	switch (job->sparsity.m) {
	case 2:
		prune_groups(job, 2);
		break;
	case 4:
		prune_groups(job, 4);
		break;
	case 8:
		prune_groups(job, 8);
		break;
	case 12:
		prune_groups(job, 12);
		break;
	default:
		prune_groups(job, 16);
	}
}
