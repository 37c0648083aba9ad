/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a user may set of the connection manager's times: keys of the configuration. */
#ifndef URXE_CM_SETTINGS_H
#define URXE_CM_SETTINGS_H

#include <stdint.h>

#define URXE_CM_PATIENCE_OFF UINT32_MAX

/** Milliseconds, but for retries; 0: not set, the CM's own (urxe_cm_config_default()). */
struct urxe_cm_settings {
	uint32_t req_first;   /* what a REQ, REP or SIDR_REQ waits at first */
	uint32_t req_retries; /* of a REQ, REP or SIDR_REQ whose peer is heard */
	uint32_t req_total;   /* for a REQ or SIDR_REQ to a peer that is not heard */
	uint32_t rep_total;   /* the same for a REP */
	uint32_t dreq_total;  /* for a DREQ, until the consumer hears */
	uint32_t timewait;
	uint32_t mra;	   /* that an MRA asks for; rounded up to 4.096 us * 2^n */
	uint32_t patience; /* with a silent peer of a connection; URXE_CM_PATIENCE_OFF: for ever */
};

#endif
