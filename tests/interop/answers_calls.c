/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of calls of answers.c: each function of rdma_cma.h, with this and that parameter. */
#include "answers.h"

#include <infiniband/sa.h>
#include <stdio.h>
#include <string.h>

static const uint8_t data[256];

struct rdma_conn_param *with(const void *priv, uint8_t len)
{
	static struct rdma_conn_param param;
	param = (struct rdma_conn_param){.private_data = priv,
					 .private_data_len = len,
					 .responder_resources = 2,
					 .initiator_depth = 2,
					 .retry_count = 7,
					 .rnr_retry_count = 7,
					 .qp_num = now->qpn++};
	return &param;
}

static struct sockaddr *of_family(sa_family_t wanted)
{
	struct sockaddr *a = here(OWN, 0);

	a->sa_family = wanted;
	return a;
}

static struct rdma_conn_param *with_depth(uint8_t resources, uint8_t depth)
{
	struct rdma_conn_param *param = with(NULL, 0);

	param->responder_resources = resources;
	param->initiator_depth = depth;
	return param;
}

static int option(struct rdma_cm_id *id, int level, int name, int value, size_t len)
{
	return rdma_set_option(id, level, name, &value, len);
}

static int path_option(struct rdma_cm_id *id, size_t len)
{
	struct ibv_path_data path = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
					      IBV_PATH_FLAG_BIDIRECTIONAL,
				     .path = {.mtu = IBV_MTU_1024, .reversible_numpath = 0x80}};

	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, len);
}

struct ibv_qp_init_attr *qp_of(enum ibv_qp_type type)
{
	static struct ibv_qp_init_attr attr;

	attr = (struct ibv_qp_init_attr){
		.qp_type = type,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	return &attr;
}

enum ibv_qp_type type_of(const struct rdma_cm_id *id)
{
	return id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
}

static enum ibv_qp_type other_type(const struct rdma_cm_id *id)
{
	return type_of(id) == IBV_QPT_UD ? IBV_QPT_RC : IBV_QPT_UD;
}

static int too_many(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr *attr = qp_of(type_of(id));

	attr->cap.max_send_wr = 1 << 30;
	return rdma_create_qp(id, NULL, attr);
}

static int drop_qp(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	return 0;
}

static int qp_attr(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask) ? -1 : mask;
}

static int srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return rdma_create_srq(id, NULL, &attr);
}

static int ece(struct rdma_cm_id *id, bool set)
{
	struct ibv_ece e = {.vendor_id = 1, .options = 2};

	return set ? rdma_set_local_ece(id, &e) : rdma_get_remote_ece(id, &e);
}

static int join_ex(struct rdma_cm_id *id, uint32_t mask, uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = mask, .join_flags = flags, .addr = here(GROUP, 0)};

	return rdma_join_multicast_ex(id, &attr, NULL);
}

static int join_and_leave(struct rdma_cm_id *id)
{
	return rdma_join_multicast(id, here(GROUP, 0), NULL) ||
	       rdma_leave_multicast(id, here(GROUP, 0));
}

static int request(struct rdma_cm_id *id)
{
	struct rdma_cm_id *other;

	return rdma_get_request(id, &other);
}

static int migrate(struct scene *sc, struct rdma_event_channel *to)
{
	int ret = rdma_migrate_id(sc->id, to);

	if (!ret)
		sc->own = to;
	return ret;
}

static int destroy(struct scene *sc)
{
	sc->destroyed = true;
	return rdma_destroy_id(sc->id);
}

static int destroy_ep(struct scene *sc)
{
	sc->destroyed = true;
	rdma_destroy_ep(sc->id);
	return 0;
}

/*
 * X(name, enum when, enum who, call). More than one call of the same function: what it says to this
 * and that parameter.
 */
#define MASK (RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS)
#define OPT  RDMA_OPTION_ID
/* clang-format off */
#define CALLS(X) \
	X(bind,                NOW,   BOTH, rdma_bind_addr(id, here(OWN, 0))) \
	X(bind_any,            NOW,   BOTH, rdma_bind_addr(id, here(ANY, 0))) \
	X(bind_loopback,       NOW,   BOTH, rdma_bind_addr(id, here(LOOPBACK, 0))) \
	X(bind_foreign,        NOW,   BOTH, rdma_bind_addr(id, here(FOREIGN, 0))) \
	X(bind_any_else,       NOW,   BOTH, rdma_bind_addr(id, there(ANY, 0))) \
	X(bind_own_else,       NOW,   BOTH, rdma_bind_addr(id, there(OWN, 0))) \
	X(bind_unspec,         NOW,   BOTH, rdma_bind_addr(id, of_family(AF_UNSPEC))) \
	X(resolve_addr,        LATER, BOTH, rdma_resolve_addr(id, NULL, here(OWN, NOBODY), 2000)) \
	X(resolve_from,        LATER, BOTH, rdma_resolve_addr(id, here(OWN, 0), here(OWN, NOBODY), 2000)) \
	X(resolve_from_else,   LATER, BOTH, rdma_resolve_addr(id, here(FOREIGN, 0), here(OWN, NOBODY), 2000)) \
	X(resolve_any,         LATER, BOTH, rdma_resolve_addr(id, NULL, here(ANY, NOBODY), 2000)) \
	X(resolve_no_route,    LATER, BOTH, rdma_resolve_addr(id, NULL, here(FOREIGN, NOBODY), 2000)) \
	X(resolve_unspec,      LATER, BOTH, rdma_resolve_addr(id, NULL, of_family(AF_UNSPEC), 2000)) \
	X(resolve_mixed,       LATER, BOTH, rdma_resolve_addr(id, there(FOREIGN, 0), here(OWN, NOBODY), 2000)) \
	X(resolve_mixed_own,   LATER, BOTH, rdma_resolve_addr(id, there(OWN, 0), here(OWN, NOBODY), 2000)) \
	X(resolve_from_unspec, LATER, BOTH, rdma_resolve_addr(id, of_family(AF_UNSPEC), here(OWN, NOBODY), 2000)) \
	X(resolve_else,        LATER, BOTH, rdma_resolve_addr(id, NULL, there(OWN, NOBODY), 2000)) \
	X(resolve_neighbour,   LATE,  BOTH, rdma_resolve_addr(id, NULL, here(NEIGHBOUR, NOBODY), 100)) \
	X(resolve_route,       LATER, BOTH, rdma_resolve_route(id, 2000)) \
	X(listen,              NOW,   BOTH, rdma_listen(id, 1)) \
	X(listen_0,            NOW,   V4,   rdma_listen(id, 0)) \
	X(listen_negative,     NOW,   V4,   rdma_listen(id, -1)) \
	X(connect,             LATER, BOTH, rdma_connect(id, with(NULL, 0))) \
	X(connect_null,        LATER, V4,   rdma_connect(id, NULL)) \
	X(connect_null_data,   LATER, V4,   rdma_connect(id, with(NULL, 9))) \
	X(connect_56,          LATER, BOTH, rdma_connect(id, with(data, 56))) \
	X(connect_57,          LATER, BOTH, rdma_connect(id, with(data, 57))) \
	X(connect_180,         LATER, BOTH, rdma_connect(id, with(data, 180))) \
	X(connect_181,         LATER, BOTH, rdma_connect(id, with(data, 181))) \
	X(connect_255,         LATER, V4,   rdma_connect(id, with(data, 255))) \
	X(connect_deep,        LATER, V4,   rdma_connect(id, with_depth(200, 200))) \
	X(connect_max,         LATER, V4,   rdma_connect(id, with_depth(255, 255))) \
	X(accept,              LATER, BOTH, rdma_accept(id, with(NULL, 0))) \
	X(accept_null,         LATER, V4,   rdma_accept(id, NULL)) \
	X(accept_null_data,    LATER, V4,   rdma_accept(id, with(NULL, 9))) \
	X(accept_136,          LATER, V4,   rdma_accept(id, with(data, 136))) \
	X(accept_137,          LATER, V4,   rdma_accept(id, with(data, 137))) \
	X(accept_196,          LATER, V4,   rdma_accept(id, with(data, 196))) \
	X(accept_197,          LATER, V4,   rdma_accept(id, with(data, 197))) \
	X(accept_deep,         LATER, V4,   rdma_accept(id, with_depth(200, 200))) \
	X(reject,              LATER, BOTH, rdma_reject(id, NULL, 0)) \
	X(reject_136,          LATER, V4,   rdma_reject(id, data, 136)) \
	X(reject_137,          LATER, V4,   rdma_reject(id, data, 137)) \
	X(reject_148,          LATER, V4,   rdma_reject(id, data, 148)) \
	X(reject_149,          LATER, V4,   rdma_reject(id, data, 149)) \
	X(reject_ece,          LATER, V4,   rdma_reject_ece(id, NULL, 0)) \
	X(establish,           LATER, V4,   rdma_establish(id)) \
	X(disconnect,          LATER, BOTH, rdma_disconnect(id)) \
	X(disconnect_twice,    LATER, V4,   rdma_disconnect(id) || rdma_disconnect(id)) \
	X(notify_est,          LATER, V4,   rdma_notify(id, IBV_EVENT_COMM_EST)) \
	X(notify_mig,          LATER, V4,   rdma_notify(id, IBV_EVENT_PATH_MIG)) \
	X(notify_else,         LATER, V4,   rdma_notify(id, IBV_EVENT_SM_CHANGE)) \
	X(join,                LATER, BOTH, rdma_join_multicast(id, here(GROUP, 0), NULL)) \
	X(join_unicast,        LATER, BOTH, rdma_join_multicast(id, here(FOREIGN, 0), NULL)) \
	X(join_ex,             LATER, V4,   join_ex(id, MASK, RDMA_MC_JOIN_FLAG_FULLMEMBER)) \
	X(join_send_only,      LATER, V4,   join_ex(id, MASK, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)) \
	X(join_bad_mask,       LATER, V4,   join_ex(id, 0, 0)) \
	X(join_bad_flags,      LATER, V4,   join_ex(id, MASK, RDMA_MC_JOIN_FLAG_RESERVED)) \
	X(join_leave,          NOW,   BOTH, join_and_leave(id)) \
	X(leave,               NOW,   BOTH, rdma_leave_multicast(id, here(GROUP, 0))) \
	X(migrate,             NOW,   V4,   migrate(sc, sc->third)) \
	X(migrate_same,        NOW,   V4,   migrate(sc, sc->own)) \
	X(tos,                 NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_TOS, 8, 1)) \
	X(tos_of_4,            NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_TOS, 8, 4)) \
	X(reuse,               NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_REUSEADDR, 1, 4)) \
	X(reuse_of_1,          NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_REUSEADDR, 1, 1)) \
	X(afonly,              NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_AFONLY, 1, 4)) \
	X(ack_timeout,         NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_ACK_TIMEOUT, 19, 1)) \
	X(ack_timeout_0,       NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_ACK_TIMEOUT, 0, 1)) \
	X(ack_timeout_of_4,    NOW,   V4,   option(id, OPT, RDMA_OPTION_ID_ACK_TIMEOUT, 19, 4)) \
	X(option_unknown,      NOW,   V4,   option(id, OPT, 99, 1, 4)) \
	X(level_unknown,       NOW,   V4,   option(id, 99, 0, 1, 4)) \
	X(ib_path,             LATER, V4,   path_option(id, sizeof(struct ibv_path_data))) \
	X(ib_path_short,       LATER, V4,   path_option(id, 7)) \
	X(attr_init,           NOW,   V4,   qp_attr(id, IBV_QPS_INIT)) \
	X(attr_rtr,            NOW,   V4,   qp_attr(id, IBV_QPS_RTR)) \
	X(attr_rts,            NOW,   V4,   qp_attr(id, IBV_QPS_RTS)) \
	X(attr_err,            NOW,   V4,   qp_attr(id, IBV_QPS_ERR)) \
	X(create_qp,           NOW,   V4,   rdma_create_qp(id, NULL, qp_of(type_of(id)))) \
	X(create_qp_uc,        NOW,   V4,   rdma_create_qp(id, NULL, qp_of(IBV_QPT_UC))) \
	X(create_qp_else,      NOW,   V4,   rdma_create_qp(id, NULL, qp_of(other_type(id)))) \
	X(create_qp_xrc,       NOW,   V4,   rdma_create_qp(id, NULL, qp_of(IBV_QPT_XRC_SEND))) \
	X(create_qp_many,      NOW,   V4,   too_many(id)) \
	X(destroy_qp,          LATER, V4,   drop_qp(id)) \
	X(create_srq,          NOW,   V4,   srq(id)) \
	X(get_request,         NOW,   V4,   request(id)) \
	X(src_port,            NOW,   V4,   rdma_get_src_port(id) != 0) \
	X(dst_port,            NOW,   V4,   rdma_get_dst_port(id) != 0) \
	X(local_family,        NOW,   BOTH, rdma_get_local_addr(id)->sa_family) \
	X(peer_family,         NOW,   BOTH, rdma_get_peer_addr(id)->sa_family) \
	X(set_ece,             NOW,   V4,   ece(id, true)) \
	X(get_ece,             NOW,   V4,   ece(id, false)) \
	X(destroy,             LATER, BOTH, destroy(sc)) \
	X(destroy_ep,          LATER, V4,   destroy_ep(sc))
/* clang-format on */

#define FUNCTION(name, when, who, expr)                                 \
	static int try_##name(struct scene *sc)                         \
	{                                                               \
		struct rdma_cm_id *id __attribute__((unused)) = sc->id; \
		return expr;                                            \
	}
CALLS(FUNCTION)

#define ROW(name, when, who, expr) {#name, when, who, try_##name},
const struct call calls[] = {CALLS(ROW)};
const size_t n_calls = sizeof(calls) / sizeof(calls[0]);

static bool answers_peer(const struct call *call)
{
	return !strncmp(call->name, "accept", 6) || !strncmp(call->name, "reject", 6) ||
	       call->call == try_establish;
}

bool makes_sense(enum space space, enum state state, const struct call *call)
{
	if ((space == TCP6 || space == UDP6) && call->who != BOTH)
		return false;
	if (call->call == try_destroy_qp)
		return has_qp(space) && state >= ADDR && state != LISTEN && state != LISTEN_ANY;
	if (space == SYNC && (call->call == try_migrate_same || call->call == try_migrate))
		return false;
	/* They wait for somebody else. */
	if (space == SYNC && (call->call == try_get_request ||
			      (state == REQUEST && !strncmp(call->name, "accept", 6))))
		return false;
	/*
	 * In the kernel (6.1) a REJ of ours leaves our REQ or REP under way, and rdma_destroy_id
	 * waits for that, for minutes. An accept or establish that fails sends a REJ.
	 */
	return is_udp(space) || !answers_peer(call) || (state != SENT && state != ACCEPTED);
}
