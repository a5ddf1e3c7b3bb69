/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 against the known-answer vectors of Random123 (tests/kat_vectors, "philox4x32 10"), and the
   numbering of the words against doc/numerics.md, section 2. */
#include "mxfp/philox.h"

#include "oracle/inputs.h"
#include "ref.h"
#include "suite.h"

static const struct {
	uint32_t counter[4], key[2], word[4];
} known[] = {
	{{0x00000000, 0x00000000, 0x00000000, 0x00000000},
	 {0x00000000, 0x00000000},
	 {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
	{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
	 {0xffffffff, 0xffffffff},
	 {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
	{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
	 {0xa4093822, 0x299f31d0},
	 {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

enum { N_KNOWN = sizeof known / sizeof known[0] };

TEST_LOOP(known_answers, N_KNOWN)
{
	uint32_t word[4];

	mxfp_philox4x32_10(known[_i].counter, known[_i].key, word);
	ck_assert_mem_eq(word, known[_i].word, sizeof word);
	suite_compared(1);
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

/* The known counters hold i / 4 in words 0 and 1; an index cannot reach those above 2^62, so the top two bits must
   be 0. */
TEST(element_words_are_numbered_as_the_contract_says)
{
	const uint32_t counter[4] = {0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344};
	const uint32_t key[2] = {0xa4093822, 0x299f31d0};
	uint32_t word[4];

	mxfp_philox4x32_10(counter, key, word);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(mxfp_philox_word(pair(key[0], key[1]), pair(counter[2], counter[3]),
		                                   4 * pair(counter[0], counter[1]) + i), word[i]);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(mxfp_philox_word(0, 0, i), known[0].word[i]);
	suite_compared(8);
}

TEST(neighbouring_elements_differ)
{
	struct random r = {suite_seed()};

	for (int i = 0; i < 10000; i++) {
		uint64_t seed = random_u64(&r), stream = random_u64(&r), index = random_u64(&r) >> 1;
		uint32_t word = mxfp_philox_word(seed, stream, index);
		/* Each has a chance of 2^-32; a confusion of two arguments would make them equal always. */
		int equal = (word == mxfp_philox_word(seed, stream, index + 1)) +
		            (word == mxfp_philox_word(seed, stream + 1, index)) +
		            (word == mxfp_philox_word(seed + 1, stream, index)) +
		            (word == mxfp_philox_word(stream, seed, index));
		if (equal > 1)
			ck_abort_msg("seed %llu stream %llu index %llu", (unsigned long long)seed,
			             (unsigned long long)stream, (unsigned long long)index);
	}
}
