/* SPDX-License-Identifier: MIT */
/* What a user of the installed library writes: test_install.sh compiles it as C and as C++. Exits 0 if a block of MXFP4
   comes out as worked by hand: amax 6 = 1.5 * 2^2 and emax 2 give scale 2^0, byte 127; 6 is code 7 and -0.5 code 9. */
#include <stdio.h>

#include <mxfp.h>

int main(void)
{
	static struct mxfp_blocks blocks;
	float source[32] = {6.0F, -0.5F};
	unsigned char codes[16], scale;
	enum mxfp_status status;

	blocks.format = MXFP_FORMAT_MXFP4;
	blocks.rows = 1;
	blocks.cols = 32;
	blocks.codes = codes;
	blocks.scales = &scale;
	status = mxfp_quantize(&blocks, source, MXFP_FORMAT_F32, 0, NULL);
	printf("libmxfp %s: %s, scale %d, codes %02x %02x\n", mxfp_version(), mxfp_status_text(status), scale,
	       codes[0], codes[1]);
	return !(status == MXFP_OK && scale == 127 && codes[0] == 0x97 && codes[1] == 0);
}
