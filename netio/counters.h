/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a port counts: traffic, and one counter for every reason a frame is dropped.
 * The names are what `urxe stat` prints; a new counter is a new line here.
 */
#ifndef URXE_NETIO_COUNTERS_H
#define URXE_NETIO_COUNTERS_H

#define URXE_COUNTER_LIST(X)                                                                \
	/* traffic */                                                                       \
	X(rx_frames) /* Ethernet frames from the link */                                    \
	X(rx_bytes)                                                                         \
	X(tx_frames) /* Ethernet frames the link took */                                    \
	X(tx_bytes)                                                                         \
	X(rx_packets)	/* RoCEv2 packets delivered, looped ones included */                \
	X(tx_packets)	/* RoCEv2 packets committed */                                      \
	X(loop_packets) /* of them to ourselves */                                          \
	X(raw_rx)	/* frames that raw packet QPs took copies of */                     \
	X(raw_tx)	/* frames that they sent */                                         \
	X(rx_ring_full) /* frames that came and the link had no room for */                 \
	/* received and dropped */                                                          \
	X(rx_short) /* shorter than its headers */                                          \
	X(rx_not_our_mac)                                                                   \
	X(rx_mac_source)                                                                    \
	X(rx_unicast_in_group)                                                              \
	X(rx_vlan) /* another VLAN's, tagged or untagged against configuration */           \
	X(rx_ethertype)                                                                     \
	X(rx_ip_version)                                                                    \
	X(rx_ip_header) /* header length below 5 words */                                   \
	X(rx_ip_length) /* longer than the frame, or shorter than its header */             \
	X(rx_ip_checksum)                                                                   \
	X(rx_ip_options) /* IPv4 options, IPv6 extension headers */                         \
	X(rx_ip_fragment)                                                                   \
	X(rx_ip_source) /* a group, broadcast, loopback or no address as source */          \
	X(rx_ip_not_ours)                                                                   \
	X(rx_ip_protocol)                                                                   \
	X(rx_mcast_not_joined)                                                              \
	X(rx_udp_length)                                                                    \
	X(rx_udp_checksum)                                                                  \
	X(rx_udp_port)                                                                      \
	X(rx_roce_short) /* no room for BTH and ICRC */                                     \
	X(rx_icrc)                                                                          \
	X(rx_arp_bad)                                                                       \
	X(rx_arp_ignored) /* not about us */                                                \
	X(rx_nd_bad)	  /* hop limit, checksum, options (RFC 4861 7.1) */                 \
	X(rx_nd_ignored)                                                                    \
	X(rx_icmp_bad)                                                                      \
	X(rx_icmp_ignored)  /* neither echo request, ND nor an error that is known here */  \
	X(rx_icmp_limited)  /* more echo requests than we answer */                         \
	X(rx_icmp_no_quote) /* an error that quotes no RoCEv2 packet of ours */             \
	X(rx_icmp_bad_mtu)  /* "too big" with an MTU that cannot be */                      \
	X(rx_group_ignored) /* IGMP and MLD that asks nothing of us */                      \
	/* sending */                                                                       \
	X(tx_no_frame)	   /* the link had no free frame: tried again later */              \
	X(tx_backlog_full) /* the link is slower than we: tried again later */              \
	X(tx_peer_full)	   /* the one peer it is for has no room: tried again later */      \
	X(tx_loop_full)	   /* the looped frames are not fetched: tried again later */       \
	X(tx_no_carrier)   /* the link is not up yet: tried again later */                  \
	X(tx_too_long)                                                                      \
	X(tx_unresolved)      /* waited for a neighbour */                                  \
	X(tx_unreachable)     /* the neighbour does not answer */                           \
	X(tx_no_source)	      /* from an address that was removed: not sent */              \
	X(tx_control_dropped) /* own ARP, ND, ICMP, and looped copies that found no room */ \
	X(tx_refused)	      /* the kernel will not send them: too long, or no way */      \
	X(tx_link_down)	      /* frames dropped after waiting long enough for a carrier */  \
	/* neighbours */                                                                    \
	X(neigh_asked)	  /* ARP requests and solicitations sent */                         \
	X(neigh_answered) /* replies and advertisements sent */                             \
	X(neigh_limited)                                                                    \
	X(neigh_resolved)                                                                   \
	X(neigh_failed)                                                                     \
	X(neigh_full)	   /* not learned for want of room */                               \
	X(neigh_disputed)  /* another MAC for a neighbour, not believed */                  \
	X(neigh_duplicate) /* somebody else uses an address of ours */                      \
	X(echo_answered)                                                                    \
	/* ICMP errors about packets of ours */                                             \
	X(icmp_too_big)	    /* a router drops what is longer than its next link carries */  \
	X(icmp_unreachable) /* no net, host or port there, or prohibited */                 \
	X(icmp_expired)	    /* too many hops */                                             \
	X(group_reports)    /* IGMP and MLD reports sent */                                 \
	/* fault injection; fault.c relies on the order of the four */                      \
	X(fault_tx_drop)                                                                    \
	X(fault_tx_dup)                                                                     \
	X(fault_tx_reorder)                                                                 \
	X(fault_tx_corrupt)                                                                 \
	X(fault_rx_drop)                                                                    \
	X(fault_rx_dup)                                                                     \
	X(fault_rx_reorder)                                                                 \
	X(fault_rx_corrupt)

#define URXE_COUNTER_ENUM(name) URXE_CNT_##name,

enum urxe_counter {
	URXE_COUNTER_LIST(URXE_COUNTER_ENUM) URXE_COUNTERS
};

/** urxe_counter_name - as the list has it. */
const char *urxe_counter_name(enum urxe_counter c);

#endif
