/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * States and the like by name, for logs, traces and `urxe status`.
 */
#ifndef URXE_PROVIDER_NAMES_H
#define URXE_PROVIDER_NAMES_H

#include <stdint.h>

#include "qp.h"

#define URXE_NUM_QP_STATES                                                    \
	IBV_QPS_UNKNOWN /* from IBV_QPS_RESET on; no QP is in the unknown one \
			 */

/** urxe_qp_state_names - of enum ibv_qp_state. */
extern const char *const urxe_qp_state_names[URXE_NUM_QP_STATES];
/** urxe_resp_state_names - of enum urxe_resp_state. */
extern const char *const urxe_resp_state_names[URXE_NUM_RESP_STATES];

/** urxe_qp_state_name - "RTS"; "?" for a number that is no state. */
const char *urxe_qp_state_name(unsigned state);
/** urxe_resp_state_name - "IN_WRITE"; "?" likewise. */
const char *urxe_resp_state_name(unsigned state);
/** urxe_qp_type_name - "RC", of enum ibv_qp_type; "?" for one that we do not make. */
const char *urxe_qp_type_name(unsigned type);
/**
 * urxe_nak_name - what a NAK says, by the syndrome of its AETH (IBTA 9.7.5.2.1, tables 45 and 47)
 *
 * "PSN_SEQUENCE", "RNR" ...; "RESERVED" for a code that the standard does not give; NULL: it is no
 * NAK.
 */
const char *urxe_nak_name(uint8_t syndrome);

#endif
