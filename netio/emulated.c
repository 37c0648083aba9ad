/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processors that a program plays, by the signature that hypervisors show (CPUID, leaf 0x40000000).
 */
#include "netio/emulated.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool urxe_emulated_by(const char signature[12])
{
	return !memcmp(signature, "TCGTCGTCGTCG", 12);
}

bool urxe_emulated(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;
	char signature[12];

	/* The bit that no processor sets, then the leaf that goes with it. */
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31))
		return false;
	__cpuid(0x40000000, a, b, c, d);
	memcpy(signature, &b, 4);
	memcpy(signature + 4, &c, 4);
	memcpy(signature + 8, &d, 4);
	return urxe_emulated_by(signature);
#else
	return false;
#endif
}
