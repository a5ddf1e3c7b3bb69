/* SPDX-License-Identifier: MIT */
/*
 * Signals. SIGINT, SIGTERM and SIGHUP end the process at once, as they end any other, whatever it computes or waits
 * for. Only while something stands on the disk that has to go first are they held: noted, for loops to ask after and
 * for main() to die of. So a command needs to know nothing of signals but to build its outputs by output.h.
 */
#ifndef TOOLS_BASE_INTERRUPT_H
#define TOOLS_BASE_INTERRUPT_H

#include "base/error.h"

/* Has SIGPIPE and SIGXFSZ ignored, so that a closed pipe and a size limit are errors of write(). Called once by
   main(). */
void interrupt_prepare(void);

/* Holds signals until as many releases; what the parent had ignored (nohup) stays ignored. Called by one thread. */
void interrupt_hold(void);
void interrupt_release(void);

/* 0, or EXIT_SIGNAL + number with the error text set, if a signal was held. Loops that build an output call it once a
   piece, more than once a second. */
int interrupt_check(struct error *error);

/* Dies of the signal that interrupt_check() told, so that the parent knows: a shell ends its loop after Ctrl-C only if
   the command died of it. Returns if the code tells of none. */
void interrupt_die(int code);

#endif
