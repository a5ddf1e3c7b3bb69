/* SPDX-License-Identifier: MIT */
/* The expected product by MPFR: doc/numerics.md, section 5, read a second time. */
#ifndef TESTS_ORACLE_GEMM_H
#define TESTS_ORACLE_GEMM_H

#include "oracle/oracle.h"

/* The sum of C[m][n] as binary32 bits over all of K, from what C held. `bf16` is the oracle of bf16. A NaN stands for
   any. */
uint32_t oracle_gemm_sum(const struct mxfp_gemm_ref_job *job, const struct oracle *bf16, size_t m, size_t n,
                         uint32_t c);

/* Element i of a finished row. */
uint32_t oracle_gemm_finish(const struct mxfp_gemm_finish_job *job, size_t i);

/* Sets `sum` to the sum of a_k * w_k over decoded operands, without tensor scales and exactly, and `magnitudes` to that
   of |a_k * w_k|. False if a number is not finite or the precision of the two is not enough. */
bool oracle_gemm_exact(const struct mxfp_gemm_ref_job *job, size_t m, size_t n, mpfr_ptr sum, mpfr_ptr magnitudes);

#endif
