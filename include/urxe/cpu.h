/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the processor can do. The C library has asked it as the program began, so it is asked here:
 * in a virtual machine each CPUID is an exit to the hypervisor (7 us and more), and the compiler's
 * own __builtin_cpu_supports() takes thirteen of them in every program that loads the library.
 */
#ifndef URXE_CPU_H
#define URXE_CPU_H

#if defined(__x86_64__)
#include <stdbool.h>
#include <sys/platform/x86.h>

/** urxe_cpu_has_avx - AVX, by the processor and the kernel */
static inline bool urxe_cpu_has_avx(void)
{
	return CPU_FEATURE_ACTIVE(AVX);
}

/** urxe_cpu_has_pclmul - PCLMULQDQ */
static inline bool urxe_cpu_has_pclmul(void)
{
	return CPU_FEATURE_ACTIVE(PCLMULQDQ);
}

/** urxe_cpu_has_hypervisor - the bit that no processor sets: CPUID leaf 0x40000000 is there. */
static inline bool urxe_cpu_has_hypervisor(void)
{
	/* As CPU_FEATURE_PRESENT(), which would shift a one into the sign. */
	return __x86_get_cpuid_feature_leaf(CPUID_INDEX_1)->cpuid_array[2] >> 31;
}
#endif

#endif
