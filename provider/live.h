/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters in the view of /sys that `urxe run` gives: which files there are, that the view begins
 * with and the devices of each process in it add to.
 */
#ifndef URXE_PROVIDER_LIVE_H
#define URXE_PROVIDER_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "netio/counters.h"

/** In the folder of a device: who adds to its counters locks it. Without it there is no view. */
#define URXE_LIVE_LOCK ".urxe"

/** The variable that names the folder of a view without namespaces (tools/view_folder.c). */
#define URXE_LIVE_ROOT "URXE_VIEW_ROOT"

#define URXE_LIVE_COUNTERS "ports/1/counters"
#define URXE_LIVE_HW	   "ports/1/hw_counters"

/*
 * X(enumerator, folder, name): names of the InfiniBand specification's PortCounters
 * (Documentation/ABI/stable/sysfs-class-infiniband), of Soft-RoCE's, and of RoCE cards' for what
 * these have no name for.
 */
#define URXE_LIVE_LIST(X)                                          \
	X(XMIT_DATA, URXE_LIVE_COUNTERS, "port_xmit_data")         \
	X(RCV_DATA, URXE_LIVE_COUNTERS, "port_rcv_data")           \
	X(XMIT_PACKETS, URXE_LIVE_COUNTERS, "port_xmit_packets")   \
	X(RCV_PACKETS, URXE_LIVE_COUNTERS, "port_rcv_packets")     \
	X(RCV_ERRORS, URXE_LIVE_COUNTERS, "port_rcv_errors")       \
	X(XMIT_DISCARDS, URXE_LIVE_COUNTERS, "port_xmit_discards") \
	X(SENT_PKTS, URXE_LIVE_HW, "sent_pkts")                    \
	X(RCVD_PKTS, URXE_LIVE_HW, "rcvd_pkts")                    \
	X(DUPLICATE, URXE_LIVE_HW, "duplicate_request")            \
	X(OUT_OF_SEQ, URXE_LIVE_HW, "out_of_seq_request")          \
	X(RCVD_RNR, URXE_LIVE_HW, "rcvd_rnr_err")                  \
	X(SEND_RNR, URXE_LIVE_HW, "send_rnr_err")                  \
	X(RETRY, URXE_LIVE_HW, "completer_retry_err")              \
	X(TIMEOUT, URXE_LIVE_HW, "local_ack_timeout_err")          \
	X(ICRC, URXE_LIVE_HW, "rx_icrc_encapsulated")              \
	X(ECN_MARKED, URXE_LIVE_HW, "np_ecn_marked_roce_packets")  \
	X(CNP_HANDLED, URXE_LIVE_HW, "rp_cnp_handled")

#define URXE_LIVE_ENUM(e, folder, name) URXE_LIVE_##e,
enum urxe_live {
	URXE_LIVE_LIST(URXE_LIVE_ENUM) URXE_LIVE_NUM
};

struct urxe_device;

/** urxe_live_view - this process is in a view. */
bool urxe_live_view(void);

/**
 * urxe_live_add - add what a device has counted since the last time to the files of its view
 *
 * @last: there is no next time
 *
 * Without one nothing is done. Somebody else may be at it, or be stopped in the midst of it: then
 * the next time has it; the last time waits for up to a second. One thread at a time for a device.
 */
void urxe_live_add(struct urxe_device *dev, bool last);

#endif
