/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processors that a program plays, by the signature that hypervisors show (CPUID, leaf 0x40000000).
 */
#include "netio/emulated.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "urxe/cpu.h"

bool urxe_emulated_by(const char signature[12])
{
	return !memcmp(signature, "TCGTCGTCGTCG", 12);
}

bool urxe_emulated(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;
	char signature[12];

	if (!urxe_cpu_has_hypervisor())
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
