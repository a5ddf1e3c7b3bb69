/* SPDX-License-Identifier: MIT */
/*
 * Which tensors of a model are quantized, and why: those that role.def says, of float types, unless the user's patterns
 * say otherwise.
 */
#ifndef TOOLS_MODEL_SELECT_H
#define TOOLS_MODEL_SELECT_H

#include "base/error.h"
#include "base/option_kind.h"
#include "io/file.h"
#include "model/model.h"
#include "model/pattern.h"
#include "model/role.h"

/* The user's say: patterns on tensor names. What `ignore` matches is never quantized; what `include` matches is, if
   it is a float tensor of at least two dimensions. */
struct select {
	struct string_list include, ignore; /* as the command line has them */
	struct patterns included, ignored;  /* the same, compiled */
	const struct patterns *recipe;      /* what a recipe includes; NULL: none */
};

/* Compiles the patterns; select_free() follows in any case. EXIT_USAGE, EXIT_MEMORY. */
int select_compile(struct select *select, struct error *error);
void select_free(struct select *select);

/* A tensor's role, in which `quantized` and `reason` are the verdict: whether it is to be quantized, and a phrase for
   either answer ("linear weight", "norm"). */
struct role select_tensor(const struct select *select, const struct role_model *model, const struct tensor *tensor);

/* As model_split_experts(); what `ignore` matches whole stays. */
int select_split_experts(const struct select *select, struct model *model, struct error *error);

/* Checks that every pattern matches some tensor of the model. EXIT_USAGE, naming the nearest tensor. */
int select_check(const struct select *select, const struct model *model, struct error *error);

#endif
