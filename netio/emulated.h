/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Is the processor one that a program plays, as QEMU does without KVM? What is one instruction may
 * be a loop there, and the cards of the machine are a thread beside it.
 */
#ifndef URXE_NETIO_EMULATED_H
#define URXE_NETIO_EMULATED_H

#include <stdbool.h>

/** urxe_emulated - is it? The same each time. */
bool urxe_emulated(void);
/** urxe_emulated_by - is this the signature of a program that plays one? */
bool urxe_emulated_by(const char signature[12]);

#endif
