/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tests that run many seeds: which ones, and how a failing one is told.
 *
 *	sim-X [--seed N] [--count N] [--steps N] [TEST...]
 */
#ifndef URXE_TEST_SEEDS_H
#define URXE_TEST_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

/** seeds_args - take the options off the command line; what is left is the harness's. */
void seeds_args(int *argc, char **argv);

/** seeds_steps - how long a run is: what "--steps" says, else @steps. */
unsigned seeds_steps(unsigned steps);

/**
 * seeds_run - @fn of each seed from 1 to @count, or of those that the command line asks for
 *
 * A seed for which @fn is false fails the CUnit test, and is printed with the command that
 * runs it alone.
 */
void seeds_run(const char *test, unsigned count, bool (*fn)(uint64_t seed));

#endif
