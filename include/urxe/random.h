/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Numbers that look random and come again by their seed: faults, the simulated network, tests.
 */
#ifndef URXE_RANDOM_H
#define URXE_RANDOM_H

#include <stdint.h>

/** urxe_random_step - the next 64 bits; @state is the seed at first, any number (splitmix64). */
static inline uint64_t urxe_random_step(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/** urxe_random_below - the next number from 0 to @n - 1; 0 for an @n of 0. */
static inline uint32_t urxe_random_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)((urxe_random_step(state) >> 32) * n >> 32);
}

#endif
