/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* IBTA 9.2.1 table 38 and the order of headers in 9.2, written anew: what include/opcode.c must
 * say. */
#ifndef URXE_TEST_OPCODE_SPEC_H
#define URXE_TEST_OPCODE_SPEC_H

#include <stdbool.h>
#include <stddef.h>

/* Headers behind the BTH: d DETH, x XRCETH, f FETH, r RETH, t AtomicETH, a AETH, k AtomicAckETH,
 * i ImmDt, v IETH, c what is reserved in a CNP; p: payload may follow; F L: first, last of a
 * message; W: a receive goes;
 * O: of our own. */
static const char *const reliable_ops[32] = {
	[0x00] = "pF",	  [0x01] = "p",	     [0x02] = "pLW",   [0x03] = "ipLW", [0x04] = "pFLW",
	[0x05] = "ipFLW", [0x06] = "rpF",    [0x07] = "p",     [0x08] = "pL",	[0x09] = "ipLW",
	[0x0a] = "rpFL",  [0x0b] = "ripFLW", [0x0c] = "rFL",   [0x0d] = "apF",	[0x0e] = "p",
	[0x0f] = "apL",	  [0x10] = "apFL",   [0x11] = "aFL",   [0x12] = "akFL", [0x13] = "tFL",
	[0x14] = "tFL",	  [0x16] = "vpLW",   [0x17] = "vpFLW", [0x1c] = "frFL", [0x1d] = "rpFL",
};

/**
 * opcode_spec - what a packet of @opcode is, in the letters above; NULL: there is none such
 * @xrc: it begins with an XRCETH
 */
static inline const char *opcode_spec(unsigned opcode, bool *xrc)
{
	unsigned op = opcode & 0x1f;

	*xrc = false;
	switch (opcode >> 5) {
	case 0:
		return reliable_ops[op];
	case 1:
		return op <= 0x0b ? reliable_ops[op] : NULL;
	case 3:
		return op == 4 ? "dpFLW" : op == 5 ? "dipFLW" : NULL;
	case 4:
		return op == 1 ? "c" : NULL;
	case 5:
		/* Requests tell the SRQ; answers do not. */
		*xrc = reliable_ops[op] && !(op >= 0x0d && op <= 0x12);
		return reliable_ops[op];
	case 6:
		return op <= 1 ? "pO" : NULL;
	default:
		return NULL;
	}
}

#endif
