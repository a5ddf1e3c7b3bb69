/* SPDX-License-Identifier: MIT */
/* A client of the installed library, which test_install.sh compiles as C and as C++. Exits with 0 if a block of MXFP4
   equals the hand calculation: amax 6 = 1.5 * 2^2 and emax 2 give scale 2^0, byte 127; 6 is code 7 and -0.5 code 9. */
#include <stdio.h>

#include <mxfp.h>

int main(void)
{
	float source[32] = {6.0F, -0.5F};
	unsigned char codes[16], scale;
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 1, 32, codes, &scale);
	struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, 1, 32, source);
	struct mxfp_result result = mxfp_to_blocks(&blocks);
	enum mxfp_status status = mxfp_quantize(&result, &numbers, NULL, NULL);

	printf("libmxfp %s: %s, scale %d, codes %02x %02x\n", mxfp_version(), mxfp_status_text(status), scale,
	       codes[0], codes[1]);
	return !(status == MXFP_OK && scale == 127 && codes[0] == 0x97 && codes[1] == 0);
}
