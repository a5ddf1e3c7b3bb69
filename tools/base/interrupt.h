/* SPDX-License-Identifier: MIT */
/*
 * Signals. SIGINT, SIGTERM, SIGHUP and, when nobody reads what is printed, SIGPIPE normally end the process at once. They
 * are held only while an unfinished output is on the disk: noted, so that loops can check for them, the output is
 * removed, and main() dies of the signal. A command that builds its outputs by output.h need not know more of signals.
 */
#ifndef TOOLS_BASE_INTERRUPT_H
#define TOOLS_BASE_INTERRUPT_H

#include "base/error.h"

/* Ignores SIGXFSZ, so that a size limit becomes an error of write(). Called once by main(). */
void interrupt_prepare(void);

/* Holds signals until as many releases; signals that the parent ignored (nohup) stay ignored. Called by one thread. */
void interrupt_hold(void);
void interrupt_release(void);

/* Returns EXIT_SIGNAL + number and sets the error text if a signal was held, else 0. Loops that build an output call it
   for every piece, more than once a second. */
int interrupt_check(struct error *error);

/* Dies of the signal that interrupt_check() reported, so that the parent knows: a shell ends its loop after Ctrl-C only
   if the command died of it. Returns if the code is not that of a signal. */
void interrupt_die(int code);

#endif
