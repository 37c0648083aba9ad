/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the provider can do at most, and the times and sizes it works with.
 */
#ifndef URXE_PROVIDER_CAPS_H
#define URXE_PROVIDER_CAPS_H

/* Limits that query_device reports; each of them can be created. */
#define URXE_MAX_QP	     65535 /* below the QPN index space: 0 and 1 are special */
#define URXE_MAX_QP_WR	     32768
#define URXE_MAX_SGE	     32
#define URXE_MAX_INLINE	     1024
#define URXE_MAX_CQ	     65536
#define URXE_MAX_CQE	     (1 << 22)
#define URXE_MAX_MR	     (1 << 20)
#define URXE_MAX_MW	     ((1 << 20) - 1) /* with the regions: all keys but that of index 0 */
#define URXE_MAX_DM	     (64ull << 20)
#define URXE_MAX_RWQ_TABLES  65536
#define URXE_MAX_WQ	     32768 /* they take their numbers from the QPs */
#define URXE_MAX_PD	     65536
#define URXE_MAX_AH	     65536
#define URXE_MAX_SRQ	     65535 /* as XRC has numbers for on the fabric */
#define URXE_MAX_SRQ_WR	     32768
#define URXE_MAX_RD_ATOMIC   128
#define URXE_MAX_MSG_SZ	     0x80000000u
#define URXE_MKEY_INDEX_BITS 21
#define URXE_MW_OWNER_BITS   8 /* of a window's key: its owner's choice */
#define URXE_RX_BURST	     URXE_BURST
#define URXE_WINDOW	     256 /* packets in flight of one RC QP at most */
#define URXE_WINDOW_START    64
#define URXE_WINDOW_MIN	     2
#define URXE_OVERTAKEN	     3 /* packets that pass another: it is lost, until seen to be wrong */
#define URXE_OVERTAKEN_MAX   24
#define URXE_KEEP_AHEAD	     4096	   /* PSNs; what is further ahead may be anybody's */
#define URXE_KEEP_PER_QP     512	   /* packets that came before others, of one QP */
#define URXE_KEEP_BUFFERS    4096	   /* of all QPs of a device */
#define URXE_ANSWERED_MOST   (1u << 20)	   /* bytes: of a WRITE that an ACK waits for, or is of */
#define URXE_ACK_EVERY	     32		   /* AckReq at least this often within a long message */
#define URXE_ACK_WITHIN	     50000u	   /* ns: and in it, which is less than any silence */
#define URXE_TIMER_SLACK     1000000u	   /* ns: callers that drive see to their timers first */
#define URXE_PEERS	     64		   /* destinations that are told apart, about */
#define URXE_UD_PATIENCE     2000000000ull /* ns that a datagram waits for its neighbour */
#define URXE_GSI_PATIENCE    50000000ull   /* MADs come again: others must not wait for one */

#define URXE_MAX_MCAST	     256  /* groups; netio has room for more */
#define URXE_MAX_MCAST_QPS   4096 /* in one group */
#define URXE_SRQN_INDEX_BITS 17

#define URXE_VENDOR_ID	    0x7572 /* "ur": nobody's OUI */
#define URXE_VENDOR_PART_ID 0x0001

#endif
