/* SPDX-License-Identifier: MIT */
/* Polynomials of functions.h, the lowest coefficient first. Made by polynomial.py. */
#ifndef MXFP_BODY_POLYNOMIAL_H
#define MXFP_BODY_POLYNOMIAL_H

/* (2^r - 1) / r, |r| <= 1/32. Relative error 2^-41.1. */
static const double exp_sixteenth[] = {
	0x1.62e42fefa39dbp-1, 0x1.ebfbdff698866p-3, 0x1.c6b08d7229e47p-5, 0x1.3b2c4acb441bap-7,
	0x1.5d87fe790ce9fp-10,
};

/* (2^r - 1) / r, |r| <= 1/32. Relative error 2^-50.4. */
static const double expm1_sixteenth[] = {
	0x1.62e42fefa39f3p-1, 0x1.ebfbdff82c57bp-3, 0x1.c6b08d6f2a23dp-5, 0x1.3b2ab6fc8db9fp-7,
	0x1.5d897e55b41bdp-10, 0x1.430912f8cb2afp-13,
};

/* (2^r - 1) / r, |r| <= 1/2, times r. Absolute error 2^-40.2. */
static const double exp_fast[] = {
	0x1.62e42fef83d86p-1, 0x1.ebfbdff82b643p-3, 0x1.c6b08dd9624e5p-5, 0x1.3b2ab70533679p-7,
	0x1.5d8742cb927f4p-10, 0x1.4308d9b575997p-13, 0x1.00de2ebee72e2p-16, 0x1.63955098852eap-20,
};

/* (2^r - 1) / r, |r| <= 1/2. Relative error 2^-43.5. */
static const double expm1_fast[] = {
	0x1.62e42fefa39abp-1, 0x1.ebfbdff823deap-3, 0x1.c6b08d706a315p-5, 0x1.3b2ab717fbf9cp-7,
	0x1.5d87fe312fcc8p-10, 0x1.4308acc44cf19p-13, 0x1.ffcca7ccbcd6ep-17, 0x1.63d0ef046328cp-20,
	0x1.b525b29b7c98ep-24,
};

/* (2^r - 1) / r, |r| <= 1/2. Relative error 2^-49.5. */
static const double expm1_exact[] = {
	0x1.62e42fefa39f7p-1, 0x1.ebfbdff82c541p-3, 0x1.c6b08d70441abp-5, 0x1.3b2ab6fbb4090p-7,
	0x1.5d87fe9078cc2p-10, 0x1.430912c7fe4f3p-13, 0x1.ffcb76c0fa1d9p-17, 0x1.62c0830b82f7cp-20,
	0x1.b656d5e29af92p-24, 0x1.e4cfce81154d5p-28,
};

/* (e^t - 1 - t) / t^2, |t| <= log(2) / 16, times t^2. Absolute error 2^-38.7. */
static const float exp_second_8[] = {
	0x1.000000p-1F, 0x1.55554ap-3F, 0x1.555a5cp-5F, 0x1.12a4dep-7F,
};

/* (e^t - 1 - t) / t^2, |t| <= log(2) / 64, times t^2. Absolute error 2^-42.5. */
static const float exp_second_32[] = {
	0x1.000000p-1F, 0x1.5555c8p-3F, 0x1.5555dcp-5F,
};

/* atanh(v) / v, s = v^2 <= (sqrt 2 - 1)^4. Relative error 2^-52.0. */
static const double log_rest[] = {
	0x1.0000000000001p+0, 0x1.5555555552d10p-2, 0x1.999999a441745p-3, 0x1.249240b15f200p-3,
	0x1.c722d0919eef1p-4, 0x1.7322b2692a6c3p-4, 0x1.58daba4665115p-4,
};

/* atanh(v) / v, s = v^2 <= 1/9. Relative error 2^-49.0. */
static const double log1p_rest[] = {
	0x1.0000000000008p+0, 0x1.555555554a654p-2, 0x1.999999adee6dfp-3, 0x1.249241e1c4f8fp-3,
	0x1.c71f08d96c3d2p-4, 0x1.741afb62ce076p-4, 0x1.3eea5804e407cp-4, 0x1.e0c55c8dab39ap-5,
	0x1.8081961692cfep-4,
};

/* (sin(r) / r - 1) / s, s = r^2, |r| <= pi/4. Absolute error 2^-47.6. */
static const double sin_rest[] = {
	-0x1.5555555552416p-3, 0x1.1111110ca4564p-7, -0x1.a019f95cc34c4p-13, 0x1.71d77dfd9dbbep-19,
	-0x1.a96734ae73d96p-26,
};

/* (cos r - 1 + s/2) / s^2, s = r^2, |r| <= pi/4. Absolute error 2^-53.5. */
static const double cos_rest[] = {
	0x1.5555555553114p-5, -0x1.6c16c1676bcd5p-10, 0x1.a019faaa8beb1p-16, -0x1.27e02a9ab2d8dp-22,
	0x1.1bc7c90248cb8p-29,
};

/* (Phi(x) - 1/2) / x, v = x^2 - 7.03125, |x| <= 3.75. Absolute error 2^-54.0. */
static const double phi_rest[] = {
	0x1.7f14d32d0bd65p-3, -0x1.98399ebf71674p-7, 0x1.25144f5e72a71p-10, -0x1.985f0e312c8e9p-14,
	0x1.032991922fa34p-17, -0x1.26ef29b89a13cp-21, 0x1.2cc541a0cfbdfp-25, -0x1.142c23f0b0930p-29,
	0x1.cb9d5cb3c47e6p-34, -0x1.5ce94dbf6af28p-38, 0x1.e65b5c3afd5c2p-43, -0x1.39054f28a667cp-47,
	0x1.7605c4821640fp-52, -0x1.a0d8b369d47f9p-57, 0x1.b35174172b325p-62, -0x1.aacb623f6b4adp-67,
	0x1.8709a20c072bfp-72, -0x1.5ad66b6337642p-77, 0x1.4a02b30e5485cp-82, -0x1.e242d26c77bd6p-88,
};

/* e^(t^2/2) Phi(-t), u = (t - 4) / (t + 4), 0 <= t <= 14.75. Relative error 2^-47.0. */
static const double mills[] = {
	0x1.82b4bb8c94df4p-4, -0x1.5cf97b0ae8995p-3, 0x1.fd751a1fb7cf5p-4, -0x1.25b6aa9645141p-4,
	0x1.f9b05f10b53a2p-6, -0x1.1644dc40c00d6p-7, 0x1.0a1bd01039f0ap-11, 0x1.4eec321bf1a40p-11,
	-0x1.888d27c19a648p-13, -0x1.7e295d62dcd77p-15, 0x1.e085c4991d469p-16, 0x1.37435be75a17ep-18,
	-0x1.1f2d35096236dp-18, -0x1.c027276a2bd51p-21, 0x1.49e2ee5a6a95dp-21, 0x1.9c5c677253a4cp-23,
	-0x1.bc5575e1e0cf6p-25, -0x1.95b2e5c4767b3p-26,
};

/* 2^(i/16). */
static const double exp2_sixteenths[] = {
	0x1.0000000000000p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
	0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
	0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,
	0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0,
};

/* 2^(i/8) as binary32 numbers, and what these are to be multiplied by, less 1. */
static const float exp2_root_8[] = {
	0x1.000000p+0F, 0x1.172b84p+0F, 0x1.306fe0p+0F, 0x1.4bfdaep+0F,
	0x1.6a09e6p+0F, 0x1.8ace54p+0F, 0x1.ae89fap+0F, 0x1.d5818ep+0F,
};
static const float exp2_rest_8[] = {
	0x0.0p+0F, -0x1.9c0c22p-27F, 0x1.125002p-25F, -0x1.0a3550p-25F,
	0x1.26055cp-26F, 0x1.67a1cap-28F, -0x1.f9c304p-27F, -0x1.a5217cp-28F,
};

/* 2^(i/32) as binary32 numbers, and what these are to be multiplied by, less 1. */
static const float exp2_root_32[] = {
	0x1.000000p+0F, 0x1.059b0ep+0F, 0x1.0b5586p+0F, 0x1.11301ep+0F,
	0x1.172b84p+0F, 0x1.1d4874p+0F, 0x1.2387a6p+0F, 0x1.29e9e0p+0F,
	0x1.306fe0p+0F, 0x1.371a74p+0F, 0x1.3dea64p+0F, 0x1.44e086p+0F,
	0x1.4bfdaep+0F, 0x1.5342b6p+0F, 0x1.5ab07ep+0F, 0x1.6247ecp+0F,
	0x1.6a09e6p+0F, 0x1.71f75ep+0F, 0x1.7a1148p+0F, 0x1.82589ap+0F,
	0x1.8ace54p+0F, 0x1.93737cp+0F, 0x1.9c4918p+0F, 0x1.a5503cp+0F,
	0x1.ae89fap+0F, 0x1.b7f770p+0F, 0x1.c199bep+0F, 0x1.cb720ep+0F,
	0x1.d5818ep+0F, 0x1.dfc974p+0F, 0x1.ea4afap+0F, 0x1.f50766p+0F,
};
static const float exp2_rest_32[] = {
	0x0.0p+0F, -0x1.947414p-25F, 0x1.8d96d4p-25F, -0x1.dda2fcp-25F,
	-0x1.9c0c22p-27F, -0x1.a2fbb2p-25F, 0x1.964904p-25F, -0x1.2b0dbcp-25F,
	0x1.125002p-25F, -0x1.cde8cep-26F, 0x1.370be4p-25F, 0x1.336de2p-30F,
	-0x1.0a3550p-25F, -0x1.c541b4p-26F, -0x1.00d8acp-27F, -0x1.6cb284p-25F,
	0x1.26055cp-26F, 0x1.8b2bb8p-26F, -0x1.05cb44p-25F, -0x1.1c2142p-26F,
	0x1.67a1cap-28F, -0x1.348e56p-25F, 0x1.a3b5e4p-28F, -0x1.0b7ec8p-25F,
	-0x1.f9c304p-27F, -0x1.e4c886p-26F, -0x1.6961b4p-28F, -0x1.b5151ep-28F,
	-0x1.a5217cp-28F, -0x1.ab7132p-26F, 0x1.61428ep-28F, -0x1.2ad5f8p-27F,
};

#endif
