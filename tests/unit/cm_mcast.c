/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rdma_join_multicast() and rdma_leave_multicast(). */
#include "cm_rdma.h"

#include <malloc.h>
#include <pthread.h>
#include <string.h>

#define SIZE 64

static const char *const groups[][2] = {{"10.0.0.1", "239.1.2.3"}, {"fd00::1", "ff0e::99"}};

/* A datagram id with a QP, bound to a device. */
static struct rdma_cm_id *member(struct rdma_event_channel *ch, const char *host)
{
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP));
	WORKS(rdma_bind_addr(id, addr(host, 0)));
	attr.qp_type = IBV_QPT_UD;
	WORKS(rdma_create_qp(id, NULL, &attr));
	return id;
}

/* The event of a join, acked; its parameters. */
static struct rdma_ud_param joined(struct rdma_event_channel *ch, const void *context)
{
	struct rdma_ud_param ud;
	struct rdma_cm_event *ev;

	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	CU_ASSERT_EQUAL(ev->status, 0);
	ud = ev->param.ud;
	CU_ASSERT_PTR_EQUAL(ud.private_data, context);
	CU_ASSERT_EQUAL(ud.qp_num, 0xffffff);
	CU_ASSERT_EQUAL(ud.qkey, RDMA_UDP_QKEY);
	CU_ASSERT_EQUAL(ud.ah_attr.is_global, 1);
	WORKS(rdma_ack_cm_event(ev));
	return ud;
}

static int join_send_only(struct rdma_cm_id *id, struct sockaddr *group, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = group,
	};

	return rdma_join_multicast_ex(id, &attr, context);
}

static void post_recv(struct rdma_cm_id *id, uint8_t *buf, struct ibv_mr *mr)
{
	WORKS(rdma_post_recv(id, buf, buf, 40 + SIZE, mr));
}

/* Send to the group from @from; each CQ is polled until the send is complete. */
static void send_to(struct rdma_cm_id *from, struct rdma_ud_param *ud, uint8_t *buf,
		    struct ibv_mr *mr)
{
	struct ibv_ah *ah = ibv_create_ah(from->pd, &ud->ah_attr);
	struct ibv_wc wc;

	CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
	WORKS(rdma_post_ud_send(from, NULL, buf, SIZE, mr, IBV_SEND_SIGNALED, ah, ud->qp_num));
	CU_ASSERT_EQUAL(rdma_get_send_comp(from, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	WORKS(ibv_destroy_ah(ah));
}

/* A member gets what a member and what a send-only member says; nobody does after leaving. */
static void members(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_cm_id *full = member(ch, groups[i][0]);
		struct rdma_cm_id *sender = member(ch, groups[i][0]);
		uint8_t buf[2][40 + SIZE] = {{0}};
		struct rdma_ud_param ud;
		struct ibv_mr *mr[2];
		struct ibv_wc wc;

		mr[0] = rdma_reg_msgs(full, buf[0], sizeof(buf[0]));
		mr[1] = rdma_reg_msgs(sender, buf[1], sizeof(buf[1]));
		memset(buf[1], 0x5a, SIZE);
		WORKS(rdma_join_multicast(full, addr(groups[i][1], 0), full));
		joined(ch, full);
		WORKS(join_send_only(sender, addr(groups[i][1], 0), sender));
		ud = joined(ch, sender);
		post_recv(full, buf[0], mr[0]);
		post_recv(sender, buf[1], mr[1]);
		send_to(sender, &ud, buf[1], mr[1]);
		CU_ASSERT_EQUAL(rdma_get_recv_comp(full, &wc), 1);
		CU_ASSERT_EQUAL(wc.byte_len, 40 + SIZE);
		CU_ASSERT_FALSE(memcmp(buf[0] + 40, buf[1], SIZE));
		/* Who only sends, hears nothing, not even itself. */
		CU_ASSERT_EQUAL(ibv_poll_cq(sender->recv_cq, 1, &wc), 0);
		post_recv(full, buf[0], mr[0]);
		WORKS(rdma_leave_multicast(full, addr(groups[i][1], 0)));
		WORKS(rdma_leave_multicast(sender, addr(groups[i][1], 0)));
		send_to(sender, &ud, buf[1], mr[1]);
		CU_ASSERT_EQUAL(ibv_poll_cq(full->recv_cq, 1, &wc), 0);
		FAILS(rdma_leave_multicast(full, addr(groups[i][1], 0)), EADDRNOTAVAIL);
		rdma_dereg_mr(mr[0]);
		rdma_dereg_mr(mr[1]);
		drop(full);
		drop(sender);
		rdma_destroy_event_channel(ch);
	}
}

static void refused(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS};
	struct sockaddr un = {.sa_family = AF_UNIX};
	struct rdma_cm_id *id, *tcp = resolved(ch, "10.0.0.1", 7);

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP));
	FAILS(rdma_join_multicast(NULL, addr("239.1.2.3", 0), NULL), EINVAL);
	FAILS(rdma_leave_multicast(NULL, addr("239.1.2.3", 0)), EINVAL);
	/* Not bound to a device, and bound to all of them. */
	FAILS(rdma_join_multicast(id, addr("239.1.2.3", 0), NULL), EINVAL);
	WORKS(rdma_bind_addr(id, addr("0.0.0.0", 0)));
	FAILS(rdma_join_multicast(id, addr("239.1.2.3", 0), NULL), EINVAL);
	drop(id);
	id = member(ch, "10.0.0.1");
	FAILS(rdma_join_multicast(id, NULL, NULL), EINVAL);
	FAILS(rdma_join_multicast(id, &un, NULL), EINVAL);
	FAILS(rdma_join_multicast(id, addr("10.0.0.1", 0), NULL), EINVAL);
	FAILS(rdma_join_multicast(id, addr("ff0e::1", 0), NULL), EADDRNOTAVAIL);
	FAILS(rdma_leave_multicast(id, &un), EINVAL);
	FAILS(rdma_leave_multicast(id, addr("239.1.2.3", 0)), EADDRNOTAVAIL);
	FAILS(rdma_join_multicast(tcp, addr("239.1.2.3", 0), NULL), EINVAL);
	FAILS(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	attr.addr = addr("239.1.2.3", 0);
	FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.comp_mask |= RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.comp_mask |= RDMA_CM_JOIN_MC_ATTR_RESERVED;
	FAILS(rdma_join_multicast_ex(id, &attr, NULL), ENOTSUP);
	drop(id);
	drop(tcp);
	rdma_destroy_event_channel(ch);
}

static void *ack_later(void *ev)
{
	WORKS(rdma_ack_cm_event(ev));
	return NULL;
}

/* Leaving forgets a join not yet heard of, waits for one heard of, and once for each join. */
static void leaving(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = member(ch, "10.0.0.1"), *other = resolved(ch, "10.0.0.1", 7);
	struct rdma_cm_event *ev;
	pthread_t t;

	WORKS(rdma_join_multicast(id, addr("239.1.2.3", 0), id));
	WORKS(rdma_leave_multicast(id, addr("239.1.2.3", 0)));
	WORKS(rdma_join_multicast(id, addr("239.1.2.4", 0), other));
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_PTR_EQUAL(ev->param.ud.private_data, other);
	WORKS(pthread_create(&t, NULL, ack_later, ev));
	WORKS(rdma_leave_multicast(id, addr("239.1.2.4", 0)));
	WORKS(pthread_join(t, NULL));
	WORKS(rdma_join_multicast(id, addr("239.1.2.5", 0), id));
	WORKS(rdma_join_multicast(id, addr("239.1.2.5", 0), other));
	joined(ch, id);
	joined(ch, other);
	WORKS(rdma_leave_multicast(id, addr("239.1.2.5", 0)));
	WORKS(rdma_leave_multicast(id, addr("239.1.2.5", 0)));
	FAILS(rdma_leave_multicast(id, addr("239.1.2.5", 0)), EADDRNOTAVAIL);
	/* A QP that goes leaves its groups, and so does an id that goes. */
	WORKS(rdma_join_multicast(id, addr("239.1.2.6", 0), id));
	joined(ch, id);
	WORKS(rdma_join_multicast(id, addr("239.1.2.7", 0), id));
	drop(id);
	drop(other);
	rdma_destroy_event_channel(ch);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

/* Of the sanitizers' run-time library; its header is not everywhere. */
size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated(void)
{
#ifdef SANITIZED
	return __sanitizer_get_current_allocated_bytes();
#else
	return mallinfo2().uordblks;
#endif
}

/* Who joins and leaves for ever needs no more memory than who does once. Without a QP: what one has
 * to do with a group is freed later. */
static void joining_and_leaving(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	size_t was = 0;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP));
	WORKS(rdma_bind_addr(id, addr("10.0.0.1", 0)));
	for (unsigned i = 0; i < 2000; i++) {
		WORKS(rdma_join_multicast(id, addr("239.1.2.3", 0), id));
		joined(ch, id);
		WORKS(rdma_leave_multicast(id, addr("239.1.2.3", 0)));
		if (i == 1000)
			was = allocated();
	}
	CU_ASSERT(allocated() < was + 10000);
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

/* A QP that cannot be attached: the event says so. */
static void error(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = member(ch, "10.0.0.1");
	struct ibv_device_attr attr;
	char group[32];

	WORKS(ibv_query_device(id->verbs, &attr));
	for (int i = 0; i <= attr.max_mcast_grp; i++) {
		snprintf(group, sizeof(group), "239.7.%d.%d", i >> 8, i & 255);
		WORKS(rdma_join_multicast(id, addr(group, 0), NULL));
		if (i < attr.max_mcast_grp)
			joined(ch, NULL);
		else
			CU_ASSERT(expect(ch, RDMA_CM_EVENT_MULTICAST_ERROR, NULL) < 0);
	}
	drop(id);
	rdma_destroy_event_channel(ch);
}

/* Without a channel the call returns when it is done; resolving a group finds a device. */
static void synchronous(void)
{
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP));
	WORKS(rdma_resolve_addr(id, addr("10.0.0.1", 0), addr("239.1.2.3", 0), 1000));
	CU_ASSERT_PTR_NOT_NULL(id->verbs);
	WORKS(rdma_join_multicast(id, addr("239.1.2.3", 0), id));
	CU_ASSERT_EQUAL(id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	drop(id);
}

URXE_TEST_MAIN("cm_mcast", T(members), T(refused), T(leaving), T(joining_and_leaving), T(error),
	       T(synchronous))
