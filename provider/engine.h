/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What moves messages: work requests in, packets out and in, turns of lanes, timers.
 */
#ifndef URXE_PROVIDER_ENGINE_H
#define URXE_PROVIDER_ENGINE_H

#include "qp.h"

/* ---- wqe.c: send WQEs are filled; qp->lock held. 0 or the errno of ibv_post_send. ---- */

/** urxe_wqe_ops - bits 1 << opcode of what the QP's transport can do. */
uint32_t urxe_wqe_ops(const struct urxe_qp *qp);
/** urxe_wqe_begin - a WQE in slot @at, not posted before urxe_wqe_publish(). @flags: ibv_send_flags
 */
int urxe_wqe_begin(struct urxe_qp *qp, uint32_t at, unsigned opcode, uint64_t wr_id, unsigned flags,
		   struct urxe_swqe **wqe);
int urxe_wqe_sges(const struct urxe_qp *qp, struct urxe_swqe *wqe, const struct ibv_sge *sges,
		  size_t n);
/** urxe_wqe_inline - append a copy of the data itself. */
int urxe_wqe_inline(const struct urxe_qp *qp, struct urxe_swqe *wqe, const void *addr,
		    size_t length);
/** urxe_wqe_value - the eight bytes of an ATOMIC WRITE. */
void urxe_wqe_value(struct urxe_swqe *wqe, const void *value);
/** urxe_wqe_ud - the destination of a datagram; takes a reference of the AH. */
int urxe_wqe_ud(const struct urxe_qp *qp, struct urxe_swqe *wqe, struct ibv_ah *ah, uint32_t qpn,
		uint32_t qkey);
int urxe_wqe_bind(struct urxe_swqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info);
/** urxe_wqe_finish - the checks that need the whole WQE. */
int urxe_wqe_finish(const struct urxe_qp *qp, const struct urxe_swqe *wqe);
/** urxe_wqe_drop - let go of what an unposted or completed WQE refers to. */
void urxe_wqe_drop(struct urxe_swqe *wqe);
/** urxe_wqe_publish - all WQEs before slot @post are posted; begin to send. */
void urxe_wqe_publish(struct urxe_qp *qp, uint32_t post);

/* ---- wq.c: receive work queues, tables of them, receive-side scaling ---- */
struct ibv_wq *urxe_create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr);
int urxe_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int urxe_destroy_wq(struct ibv_wq *wq);
/** urxe_wq_flush_all - the device is dead: all work queues go to ERR, without an event each. No
 * lock may be held. */
void urxe_wq_flush_all(struct urxe_device *dev);
struct ibv_rwq_ind_table *urxe_create_rwq_ind_table(struct ibv_context *ctx,
						    struct ibv_rwq_ind_table_init_attr *attr);
int urxe_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
struct ibv_qp *urxe_rss_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
void urxe_rss_free(struct urxe_rss *rss);
/** urxe_rss_receive - a frame that a flow rule gave to such a QP; its lock held, RCU read-side. */
void urxe_rss_receive(const struct urxe_rss *rss, const uint8_t *frame, uint32_t len);
/** urxe_rss_hash - Toeplitz with a key of 40 bytes (for the test). */
uint32_t urxe_rss_hash(const uint8_t *key, const uint8_t *in, unsigned len);
void urxe_rss_caps(struct ibv_rss_caps *caps);

/* ---- wr.c ---- */

/** urxe_wr_enable - set ibv_wr_* up for a new QP. EOPNOTSUPP: not all of @flags are offered. */
int urxe_wr_enable(struct urxe_qp *qp, uint64_t flags);

/* ---- post.c ---- */
int urxe_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int urxe_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int urxe_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- requester.c: sends requests. Lane and qp->lock held, RCU read-side. ---- */

/** urxe_requester_run - send what may be sent; true when it stopped for want of room. */
bool urxe_requester_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
/** urxe_requester_go_back - begin again at a PSN that was sent before. */
void urxe_requester_go_back(struct urxe_qp *qp, uint32_t psn);
/** urxe_requester_complete - complete the oldest WQE. */
void urxe_requester_complete(struct urxe_qp *qp, enum ibv_wc_status status);
/** urxe_requester_wc_opcode - of a send WR. */
enum ibv_wc_opcode urxe_requester_wc_opcode(uint8_t wr_opcode);
/** urxe_requester_answered - is it an operation with a response of its own, not just an ACK? */
bool urxe_requester_answered(const struct urxe_swqe *wqe);

/* ---- retry.c: when the requester sends again, and how much at once. Likewise. ---- */

/** urxe_peer_of - what is known of the peer at @gid; no lock. */
struct urxe_peer *urxe_peer_of(struct urxe_device *dev, const uint8_t gid[16]);
/** urxe_peer_heard - a packet has come from it. */
void urxe_peer_heard(struct urxe_peer *p, uint64_t now);
/** urxe_requester_arm - (re)start or stop the retransmission timer after progress. */
void urxe_requester_arm(struct urxe_qp *qp, uint64_t now);
/** urxe_requester_timeout - the timer of the QP has come. */
void urxe_requester_timeout(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
/** urxe_requester_measure - the packet at the cursor asks for an ACK: how long will it take? */
void urxe_requester_measure(struct urxe_requester *r, uint64_t now);
/** urxe_requester_progress - all before PSN @una is acknowledged, and more than before: the window
 * opens. */
void urxe_requester_progress(struct urxe_qp *qp, uint32_t una, uint64_t now);
/** urxe_requester_shrink - a packet was lost: the window closes by half. */
void urxe_requester_shrink(struct urxe_requester *r);

/* ---- quirks.c: what peers do against the standard (quirks.md). Likewise. ---- */

/** urxe_quirk_flush_silent - the ACK time-out has come: is it a FLUSH's form that is at fault? */
void urxe_quirk_flush_silent(struct urxe_qp *qp);
/** urxe_quirk_flush_answered - the FLUSH at @psn was answered. */
void urxe_quirk_flush_answered(struct urxe_qp *qp, uint32_t psn);
/** urxe_quirk_flush_received - one came from the peer, in its form. */
void urxe_quirk_flush_received(struct urxe_qp *qp, const struct urxe_packet *pkt);

/* ---- completer.c: receives responses. Lane and qp->lock held, RCU read-side. ---- */
void urxe_completer_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
			    const struct urxe_opcode_info *op, uint64_t now);

/* ---- responder.c, responder_tx.c: receives requests, sends responses. Likewise. ---- */
void urxe_responder_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
			    const struct urxe_opcode_info *op, uint64_t now);
/** urxe_responder_run - send responses that are due; true when it stopped for want of room. */
bool urxe_responder_run(struct urxe_qp *qp, struct urxe_lane *lane);
/** urxe_responder_leaves - has a QP that goes more to say than what is due? */
bool urxe_responder_leaves(const struct urxe_qp *qp);
/**
 * urxe_responder_leave - the QP goes: send what is due, and the last ACK once more
 *
 * If that is lost the peer asks again, and is answered by nobody (quirks.md: retry-7).
 */
void urxe_responder_leave(struct urxe_qp *qp, struct urxe_lane *lane);
/** urxe_responder_urgent - is there more to send than a plain ACK, which may wait a turn? */
static inline bool urxe_responder_urgent(const struct urxe_qp *qp)
{
	return qp->resp.res_pending || qp->resp.nak_due;
}
/** urxe_responder_nak - a NAK is due at the expected PSN. */
void urxe_responder_nak(struct urxe_qp *qp, uint8_t syndrome);
/** urxe_responder_fatal - a NAK that ends the QP; @status for the receive WQE in use, if any. */
void urxe_responder_fatal(struct urxe_qp *qp, enum urxe_nak_code code, enum ibv_wc_status status);
/** urxe_responder_execute_rd - a READ, ATOMIC, ... of the expected PSN (responder_rd.c). */
void urxe_responder_execute_rd(struct urxe_qp *qp, const struct urxe_packet *pkt,
			       const struct urxe_opcode_info *op);
/** urxe_responder_duplicate_rd - a READ, ATOMIC, ... that was executed before. */
void urxe_responder_duplicate_rd(struct urxe_qp *qp, const struct urxe_packet *pkt,
				 const struct urxe_opcode_info *op);
/**
 * urxe_responder_take_rwqe - take a receive WQE into resp.rwqe
 * @min_length: leave it alone if it holds fewer bytes
 * Returns 0, ENOENT when there is none, EMSGSIZE when the next is too short.
 */
int urxe_responder_take_rwqe(struct urxe_qp *qp, uint32_t min_length);
/**
 * urxe_responder_write - put a packet of a WRITE where that stands, and have it stand behind
 *
 * False, and nothing done, when its R_Key does not allow it (any more).
 */
bool urxe_responder_write(struct urxe_qp *qp, const struct urxe_packet *pkt,
			  const struct urxe_opcode_info *op, uint32_t payload);
/** urxe_responder_push - the completion of a receive, to where it belongs. RCU read-side. */
void urxe_responder_push(struct urxe_qp *qp, const struct ibv_wc *wc, bool solicited);
/** urxe_responder_finish_recv - complete the receive WQE in use; @len bytes came. */
void urxe_responder_finish_recv(struct urxe_qp *qp, enum ibv_wc_status status,
				const struct urxe_packet *pkt, const struct urxe_opcode_info *op,
				uint32_t len);
/** urxe_packet_payload - bytes of payload: what is neither header nor pad (checked on arrival). */
static inline uint32_t urxe_packet_payload(const struct urxe_packet *pkt,
					   const struct urxe_opcode_info *op)
{
	return pkt->len - op->hdr_len - urxe_bth_pad(pkt->bth);
}

/** urxe_responder_flushed - the FLUSH of the expected PSN was carried out; did it succeed? */
void urxe_responder_flushed(struct urxe_qp *qp, bool good);

/* ---- flush.c: qp->lock held, but of the first three ---- */
void urxe_flush_init(struct urxe_device *dev);
void urxe_flush_fini(struct urxe_device *dev);
/** urxe_flush_run - carry one out, of a device without threads; no lock held. False: there is none.
 */
bool urxe_flush_run(struct urxe_device *dev);
/** urxe_flush_start - have a range made persistent; resp.flush is set then. 0 or errno. */
int urxe_flush_start(struct urxe_qp *qp, uint8_t *addr, uint64_t length);
/** urxe_flush_hold - keep a request for after the FLUSH. */
void urxe_flush_hold(struct urxe_qp *qp, const struct urxe_packet *pkt);
/** urxe_flush_finish - if it is done, answer it, and execute what was kept. RCU read-side. */
bool urxe_flush_finish(struct urxe_qp *qp, uint64_t now);
/** urxe_flush_cancel - the QP fails or goes: nobody waits any more. */
void urxe_flush_cancel(struct urxe_qp *qp);

/* ---- ud.c, uc.c ---- */
bool urxe_ud_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
void urxe_ud_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_opcode_info *op);
void urxe_uc_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_opcode_info *op);

/* ---- xrc.c ---- */
struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int urxe_close_xrcd(struct ibv_xrcd *xrcd);
int urxe_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_qp *urxe_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
struct ibv_qp *urxe_xrc_create_recv_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int urxe_xrc_close_qp(struct ibv_qp *qp);
/** urxe_xrc_publish_srq - give a SRQ its number in a domain. 0 or ENOMEM. */
int urxe_xrc_publish_srq(struct urxe_srq *srq, struct ibv_xrcd *xrcd);
/** urxe_xrc_unpublish_srq - nobody finds it any more, nor is anybody using it. */
void urxe_xrc_unpublish_srq(struct urxe_srq *srq);
/** urxe_xrc_srq - the SRQ of that number in the QP's domain, or NULL. Within RCU read-side. */
struct urxe_srq *urxe_xrc_srq(const struct urxe_qp *qp, uint32_t srqn);

/* ---- apm.c: qp->lock held ---- */

/** urxe_apm_accept - is the packet from the QP's peer? Moves the migration state along. */
bool urxe_apm_accept(struct urxe_qp *qp, const struct urxe_packet *pkt);
/** urxe_apm_migrate - to the alternate path if the QP is armed; false if not. */
bool urxe_apm_migrate(struct urxe_qp *qp);
/** urxe_apm_check - the attributes of an alternate path and of migration. 0 or EINVAL. */
int urxe_apm_check(const struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask);
/** urxe_apm_modify - as software says: rearm, or migrate. */
void urxe_apm_modify(struct urxe_qp *qp, enum ibv_mig_state to);
/** urxe_apm_migreq - what a packet says of our state. */
static inline bool urxe_apm_migreq(const struct urxe_qp *qp)
{
	return qp->attr.path_mig_state == IBV_MIG_MIGRATED;
}

/* ---- rate.c: qp->lock held ---- */

#define URXE_PACE_HEADERS 78 /* Ethernet, IPv4, UDP, BTH, RETH, ICRC: about */
#define URXE_RATE_MIN	  8  /* kbit/s */

/** urxe_pace_wait - must the QP wait before it sends? Its timer is set then. */
bool urxe_pace_wait(struct urxe_qp *qp, uint64_t now);
/** urxe_pace_sent - @bytes went out. */
void urxe_pace_sent(struct urxe_qp *qp, uint64_t now, uint32_t bytes);
/** urxe_pace_set - the limit, 0 for none; @burst bytes at once, 0: as we like. */
void urxe_pace_set(struct urxe_qp *qp, uint32_t kbps, uint32_t burst);
int urxe_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/* ---- raw.c, flow.c ---- */

/** urxe_raw_check_permission - may we see and send whole frames? 0 or EPERM (CAP_NET_RAW). */
int urxe_raw_check_permission(void);
bool urxe_raw_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
/** urxe_raw_receive - a frame for a raw packet QP; qp->lock held, RCU read-side. */
void urxe_raw_receive(struct urxe_qp *qp, const uint8_t *frame, uint32_t len);
struct ibv_flow *urxe_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int urxe_destroy_flow(struct ibv_flow *flow);

/* ---- mcast.c ---- */
int urxe_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int urxe_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
/** urxe_mcast_attached - is the QP in any group? No lock held. */
bool urxe_mcast_attached(struct urxe_qp *qp);
/**
 * urxe_mcast_receive - a packet whose QPN or address is a multicast one: to each member its copy
 * Lane held, RCU read-side. False: it was for nobody.
 */
bool urxe_mcast_receive(struct urxe_device *dev, const struct urxe_packet *pkt,
			const struct urxe_opcode_info *op);

/* ---- progress.c ---- */

/** urxe_progress_kick - @qp has something to send; qp->lock held. Sends now if a lane is free. */
void urxe_progress_kick(struct urxe_qp *qp);
/**
 * urxe_progress_flush - send what the QP still owes, before it goes or is reset
 * A NIC would have acknowledged by now what the application has seen, and sent what was posted to a
 * QP that waits for no ACK. No lock held.
 */
void urxe_progress_flush(struct urxe_qp *qp);
/** urxe_progress_finish - the process ends: send what waits for a turn. */
void urxe_progress_finish(struct urxe_device *dev);
/** urxe_progress_defer - let the next turn of a lane serve @qp. Any lock but sched.lock may be
 * held. */
void urxe_progress_defer(struct urxe_qp *qp);
/**
 * urxe_progress_poll - one turn of a lane, if one is free
 * Returns packets and timers handled, or -1 when others hold the lanes. No lock held.
 */
int urxe_progress_poll(struct urxe_device *dev);
/** urxe_progress_turn - the same for the service thread: does not count as a caller that drives. */
int urxe_progress_turn(struct urxe_device *dev);
/** urxe_progress_timer - see to it that the QP is looked at by @when. */
void urxe_progress_timer(struct urxe_qp *qp, uint64_t when);
/** urxe_progress_forget - take a QP off list and heap (destroy). */
void urxe_progress_forget(struct urxe_qp *qp);

/* ---- service.c ---- */
int urxe_service_start(struct urxe_device *dev);
void urxe_service_stop(struct urxe_device *dev);
/** urxe_service_nudge - wake the thread if it sleeps; cheap if not. */
void urxe_service_nudge(struct urxe_device *dev);
/** urxe_service_by - wake the thread if it sleeps beyond @when. */
void urxe_service_by(struct urxe_device *dev, uint64_t when);
/** urxe_service_gsi - the GSI's poll is due. */
void urxe_service_gsi(struct urxe_device *dev);
/** urxe_service_gsi_next - when the GSI's poll is to run of itself. */
uint64_t urxe_service_gsi_next(const struct urxe_device *dev);
/**
 * urxe_service_run_gsi - run the GSI's poll if that is due; true if it ran
 * @wait: while another thread runs it, wait until that is through; else leave it to that thread
 */
bool urxe_service_run_gsi(struct urxe_device *dev, uint64_t now, bool wait);

#endif
