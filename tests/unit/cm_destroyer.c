/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A thread that takes the events of a channel and destroys their ids at once, while the call that
 * brought the event about has not returned yet. The call must not look at the id again, which
 * ThreadSanitizer sees each time, and AddressSanitizer when the threads meet.
 */
#include "cm_rdma.h"

#include <pthread.h>
#include <string.h>

#include <infiniband/sa.h>

#define ROUNDS 20

/* The id of the call, and of which event on which channel the thread waits to destroy ids. */
struct scene {
	struct rdma_event_channel *sch, *cch;
	struct rdma_cm_id *listen, *c, *s;
	struct rdma_event_channel *of;
	enum rdma_cm_event_type last;
	struct rdma_cm_id *with; /* goes too: its thread is told by the peer's event. NULL: none */
};

static void *destroyer(void *arg)
{
	struct scene *sc = arg;
	struct rdma_cm_event *ev;

	for (;;) {
		enum rdma_cm_event_type type;
		struct rdma_cm_id *id;

		if (rdma_get_cm_event(sc->of, &ev))
			return "rdma_get_cm_event";
		type = ev->event;
		id = ev->id;
		rdma_ack_cm_event(ev);
		if (type != sc->last)
			continue;
		if (sc->with) {
			rdma_destroy_qp(sc->with);
			rdma_destroy_id(sc->with);
		}
		rdma_destroy_qp(id);
		rdma_destroy_id(id);
		return NULL;
	}
}

/* ---- each call: the state before it, itself ---- */

static struct rdma_cm_id *new_id(struct scene *sc, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(sc->cch, &id, NULL, ps));
	return id;
}

static void idle(struct scene *sc)
{
	sc->c = new_id(sc, RDMA_PS_TCP);
	sc->of = sc->cch;
}

static int resolve_addr(struct scene *sc)
{
	return rdma_resolve_addr(sc->c, NULL, addr("10.0.0.1", 9), 1000);
}

static void addr_resolved(struct scene *sc)
{
	idle(sc);
	WORKS(resolve_addr(sc));
	CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
}

static int resolve_route(struct scene *sc)
{
	return rdma_resolve_route(sc->c, 1000);
}

static int set_path(struct scene *sc)
{
	struct ibv_path_data path = {.path.mtu = IBV_MTU_1024};

	return rdma_set_option(sc->c, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path));
}

static void member(struct scene *sc)
{
	struct ibv_qp_init_attr attr = qp_attr();

	attr.qp_type = IBV_QPT_UD;
	sc->c = new_id(sc, RDMA_PS_UDP);
	sc->of = sc->cch;
	WORKS(rdma_bind_addr(sc->c, addr("10.0.0.1", 0)));
	WORKS(rdma_create_qp(sc->c, NULL, &attr));
}

static int join(struct scene *sc)
{
	return rdma_join_multicast(sc->c, addr("239.1.2.3", 0), NULL);
}

static int join_ex(struct scene *sc)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = addr("239.1.2.3", 0),
	};

	return rdma_join_multicast_ex(sc->c, &attr, NULL);
}

static int connect_it(struct scene *sc)
{
	struct rdma_conn_param param = {.retry_count = 7};

	return rdma_connect(sc->c, &param);
}

/* A client that gets no further than its REQ: nobody listens. */
static void routed(struct scene *sc)
{
	sc->c = resolved(sc->cch, "10.0.0.1", 9);
	with_qp(sc->c);
	sc->of = sc->cch;
}

static void routed_ud(struct scene *sc)
{
	sc->c = new_id(sc, RDMA_PS_UDP);
	sc->of = sc->cch;
	WORKS(resolve_addr(sc));
	CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	WORKS(resolve_route(sc));
	CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
}

static void requested(struct scene *sc)
{
	sc->listen = listener(sc->sch, "10.0.0.1", 8);
	sc->c = resolved(sc->cch, "10.0.0.1", ntohs(rdma_get_src_port(sc->listen)));
	with_qp(sc->c);
	WORKS(connect_it(sc));
	CU_ASSERT_EQUAL(expect(sc->sch, RDMA_CM_EVENT_CONNECT_REQUEST, &sc->s), 0);
	with_qp(sc->s);
	sc->of = sc->sch;
}

static int accept_it(struct scene *sc)
{
	return rdma_accept(sc->s, NULL);
}

static void to_be_rejected(struct scene *sc)
{
	requested(sc);
	sc->of = sc->cch;
	sc->with = sc->s;
}

static int reject_it(struct scene *sc)
{
	return rdma_reject(sc->s, NULL, 0);
}

static int reject_ece(struct scene *sc)
{
	return rdma_reject_ece(sc->s, NULL, 0);
}

/* The application's own QPs: it goes on by itself. */
static void responded(struct scene *sc)
{
	static uint32_t qpn = 0x10000;
	struct rdma_conn_param param = {.qp_num = qpn++, .retry_count = 7};

	sc->listen = listener(sc->sch, "10.0.0.1", 8);
	sc->c = resolved(sc->cch, "10.0.0.1", ntohs(rdma_get_src_port(sc->listen)));
	WORKS(rdma_connect(sc->c, &param));
	CU_ASSERT_EQUAL(expect(sc->sch, RDMA_CM_EVENT_CONNECT_REQUEST, &sc->s), 0);
	param.qp_num = qpn++;
	WORKS(rdma_accept(sc->s, &param));
	CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
	sc->of = sc->sch;
}

static void to_be_established(struct scene *sc)
{
	responded(sc);
	sc->with = sc->c;
}

static int establish(struct scene *sc)
{
	return rdma_establish(sc->c);
}

static int notify(struct scene *sc)
{
	return rdma_notify(sc->s, IBV_EVENT_COMM_EST);
}

static void connected(struct scene *sc)
{
	requested(sc);
	WORKS(accept_it(sc));
	CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	CU_ASSERT_EQUAL(expect(sc->sch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	sc->of = sc->cch;
}

static int disconnect(struct scene *sc)
{
	return rdma_disconnect(sc->c);
}

/* An event waits on the old channel, and moves with its id to the one that the thread reads. */
static void to_migrate(struct scene *sc)
{
	idle(sc);
	WORKS(resolve_addr(sc));
	sc->of = sc->sch;
}

static int migrate(struct scene *sc)
{
	return rdma_migrate_id(sc->c, sc->sch);
}

static const struct {
	const char *name;
	void (*prepare)(struct scene *sc);
	int (*call)(struct scene *sc);
	enum rdma_cm_event_type last;
	unsigned rounds; /* few where the answer takes a tenth of a second */
} rows[] = {
	{"resolve_addr", idle, resolve_addr, RDMA_CM_EVENT_ADDR_RESOLVED, ROUNDS},
	{"resolve_route", addr_resolved, resolve_route, RDMA_CM_EVENT_ROUTE_RESOLVED, ROUNDS},
	{"set_option", addr_resolved, set_path, RDMA_CM_EVENT_ROUTE_RESOLVED, ROUNDS},
	{"join_multicast", member, join, RDMA_CM_EVENT_MULTICAST_JOIN, ROUNDS},
	{"join_multicast_ex", member, join_ex, RDMA_CM_EVENT_MULTICAST_JOIN, ROUNDS},
	{"connect", routed, connect_it, RDMA_CM_EVENT_REJECTED, 2},
	{"connect (UD)", routed_ud, connect_it, RDMA_CM_EVENT_UNREACHABLE, 2},
	{"accept", requested, accept_it, RDMA_CM_EVENT_ESTABLISHED, ROUNDS},
	{"reject", to_be_rejected, reject_it, RDMA_CM_EVENT_REJECTED, ROUNDS},
	{"reject_ece", to_be_rejected, reject_ece, RDMA_CM_EVENT_REJECTED, ROUNDS},
	{"establish", to_be_established, establish, RDMA_CM_EVENT_ESTABLISHED, ROUNDS},
	{"notify", responded, notify, RDMA_CM_EVENT_ESTABLISHED, ROUNDS},
	{"disconnect", connected, disconnect, RDMA_CM_EVENT_DISCONNECTED, ROUNDS},
	{"migrate_id", to_migrate, migrate, RDMA_CM_EVENT_ADDR_RESOLVED, ROUNDS},
};

/* What the thread has not destroyed: of the two ends the one that was not its own. */
static void clean_up(struct scene *sc)
{
	if (sc->s && sc->of == sc->cch && !sc->with)
		drop(sc->s);
	if (sc->c && sc->s && sc->of == sc->sch && !sc->with)
		drop(sc->c);
	if (sc->listen)
		drop(sc->listen);
	rdma_destroy_event_channel(sc->sch);
	rdma_destroy_event_channel(sc->cch);
}

static void every_call(void)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned k = 0; k < rows[i].rounds; k++) {
			struct scene sc = {.sch = rdma_create_event_channel(),
					   .cch = rdma_create_event_channel(),
					   .last = rows[i].last};
			void *failed;
			pthread_t t;
			int ret;

			rows[i].prepare(&sc);
			WORKS(pthread_create(&t, NULL, destroyer, &sc));
			ret = rows[i].call(&sc);
			if (ret)
				printf("\n%s: %s\n", rows[i].name, strerror(errno));
			CU_ASSERT_EQUAL_FATAL(ret, 0);
			WORKS(pthread_join(t, &failed));
			CU_ASSERT_PTR_NULL(failed);
			clean_up(&sc);
		}
	}
}

URXE_TEST_MAIN("cm_destroyer", T(every_call))
