/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider's counters by name.
 */
#include <stdio.h>
#include <string.h>

#include "provider.h"

static const char *const stat_names[URXE_NUM_STATS] = {
	[URXE_STAT_RX_PACKETS] = "rx_packets",
	[URXE_STAT_RX_BAD_OPCODE] = "rx_bad_opcode",
	[URXE_STAT_RX_BAD_LENGTH] = "rx_bad_length",
	[URXE_STAT_RX_BAD_TVER] = "rx_bad_tver",
	[URXE_STAT_RX_BAD_PKEY] = "rx_bad_pkey",
	[URXE_STAT_RX_BAD_QKEY] = "rx_bad_qkey",
	[URXE_STAT_RX_NO_QP] = "rx_no_qp",
	[URXE_STAT_RX_WRONG_TYPE] = "rx_wrong_type",
	[URXE_STAT_RX_BAD_STATE] = "rx_bad_state",
	[URXE_STAT_RX_WRONG_PEER] = "rx_wrong_peer",
	[URXE_STAT_RX_DUPLICATE] = "rx_duplicate",
	[URXE_STAT_RX_OUT_OF_SEQUENCE] = "rx_out_of_sequence",
	[URXE_STAT_RX_EARLY] = "rx_early",
	[URXE_STAT_RX_GHOST_ACK] = "rx_ghost_ack",
	[URXE_STAT_RX_NAK] = "rx_nak",
	[URXE_STAT_RX_RNR_NAK] = "rx_rnr_nak",
	[URXE_STAT_RX_UD_NO_RECV] = "rx_ud_no_recv",
	[URXE_STAT_RX_UD_TOO_LONG] = "rx_ud_too_long",
	[URXE_STAT_RX_UC_DROP] = "rx_uc_drop",
	[URXE_STAT_RX_NO_MEMORY] = "rx_no_memory",
	[URXE_STAT_RX_ECN_MARKED] = "rx_ecn_marked",
	[URXE_STAT_RX_CNP] = "rx_cnp",
	[URXE_STAT_TX_PACKETS] = "tx_packets",
	[URXE_STAT_TX_NAK_SEQ] = "tx_nak_seq",
	[URXE_STAT_TX_NAK_OTHER] = "tx_nak_other",
	[URXE_STAT_TX_RNR_NAK] = "tx_rnr_nak",
	[URXE_STAT_TX_UNREACHABLE] = "tx_unreachable",
	[URXE_STAT_RETRANSMITS] = "retransmits",
	[URXE_STAT_TIMEOUTS] = "timeouts",
	[URXE_STAT_PROBES] = "probes",
	[URXE_STAT_EVENTS_LOST] = "events_lost",
	[URXE_STAT_GSI_ERRORS_LOST] = "gsi_errors_lost",
};

const char *urxe_stat_name(enum urxe_stat s)
{
	const char *name = s < URXE_NUM_STATS ? stat_names[s] : NULL;

	return name ? name : "?";
}

uint64_t urxe_stat_drops(const uint64_t stats[URXE_NUM_STATS])
{
	static const enum urxe_stat dropped[] = {
		URXE_STAT_RX_BAD_OPCODE,  URXE_STAT_RX_BAD_LENGTH,	URXE_STAT_RX_BAD_TVER,
		URXE_STAT_RX_BAD_PKEY,	  URXE_STAT_RX_BAD_QKEY,	URXE_STAT_RX_NO_QP,
		URXE_STAT_RX_WRONG_TYPE,  URXE_STAT_RX_BAD_STATE,	URXE_STAT_RX_WRONG_PEER,
		URXE_STAT_RX_GHOST_ACK,	  URXE_STAT_RX_OUT_OF_SEQUENCE, URXE_STAT_RX_UD_NO_RECV,
		URXE_STAT_RX_UD_TOO_LONG, URXE_STAT_RX_UC_DROP,		URXE_STAT_RX_NO_MEMORY,
		URXE_STAT_TX_UNREACHABLE,
	};
	uint64_t sum = 0;

	for (unsigned i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		sum += stats[dropped[i]];
	return sum;
}

static void append(char *line, size_t size, const char *name, uint64_t value)
{
	size_t at = strlen(line);

	if (value)
		snprintf(line + at, size - at, " %s %llu", name, (unsigned long long)value);
}

void urxe_stat_log(struct urxe_device *dev)
{
	const char *const *names;
	uint64_t values[128];
	char line[480];
	unsigned n;

	if (!urxe_log_enabled(URXE_LOG_INFO))
		return;
	line[0] = '\0';
	n = urxe_port_counters(dev->port, &names, values, 128);
	for (unsigned i = 0; i < n; i++)
		append(line, sizeof(line), names[i], values[i]);
	urxe_info("%s: port:%s", dev->cfg.name, line);
	line[0] = '\0';
	for (unsigned i = 0; i < URXE_NUM_STATS; i++)
		append(line, sizeof(line), urxe_stat_name((enum urxe_stat)i),
		       atomic_load_explicit(&dev->stats[i], memory_order_relaxed));
	urxe_info("%s: transport:%s", dev->cfg.name, line);
}
