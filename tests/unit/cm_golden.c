/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * MADs of the kernel's CM (golden/cm_mads.txt, and every one in the captures where they are): our
 * CM, brought to where the kernel's was and given the same fields, says the same 256 bytes. Only
 * what is random, comm ids and transaction ids, is taken from the kernel's.
 */
#include "cm_rig.h"

#include <dirent.h>
#include <endian.h>
#include <stdlib.h>

/* What differs between two conversations that are the same. */
static void same_ids(uint8_t *ours, const uint8_t *theirs)
{
	uint16_t attr = urxe_mad_get16(theirs, URXE_HDR_ATTR_ID);

	urxe_mad_put(ours, URXE_HDR_TID, urxe_mad_get(theirs, URXE_HDR_TID));
	urxe_mad_put(ours, URXE_REP_LOCAL_COMM_ID, urxe_mad_get(theirs, URXE_REP_LOCAL_COMM_ID));
	if (attr != URXE_MAD_REQ && attr != URXE_MAD_SIDR_REQ && attr != URXE_MAD_SIDR_REP)
		urxe_mad_put(ours, URXE_REP_REMOTE_COMM_ID,
			     urxe_mad_get(theirs, URXE_REP_REMOTE_COMM_ID));
}

static void say_req(struct rig *r, const uint8_t *m)
{
	struct urxe_cm_req req = {
		.path =
			{
				.flow_label = urxe_mad_get32(m, URXE_REQ_PRIMARY_FLOW_LABEL),
				.traffic_class = urxe_mad_get8(m, URXE_REQ_PRIMARY_TRAFFIC_CLASS),
				.hop_limit = urxe_mad_get8(m, URXE_REQ_PRIMARY_HOP_LIMIT),
				.sl = urxe_mad_get8(m, URXE_REQ_PRIMARY_SL),
				.pkey = urxe_mad_get16(m, URXE_REQ_PKEY),
				.mtu = urxe_mad_get8(m, URXE_REQ_PATH_MTU),
				.ack_timeout = urxe_mad_get8(m, URXE_REQ_PRIMARY_ACK_TIMEOUT),
			},
		.service_id = urxe_mad_get(m, URXE_REQ_SERVICE_ID),
		.qp_type =
			urxe_mad_get(m, URXE_REQ_TRANSPORT_SERVICE_TYPE) ? IBV_QPT_UC : IBV_QPT_RC,
		.conn = {
			.qpn = urxe_mad_get32(m, URXE_REQ_LOCAL_QPN),
			.psn = urxe_mad_get32(m, URXE_REQ_STARTING_PSN),
			.responder_resources = urxe_mad_get8(m, URXE_REQ_RESPONDER_RESOURCES),
			.initiator_depth = urxe_mad_get8(m, URXE_REQ_INITIATOR_DEPTH),
			.retry_count = urxe_mad_get8(m, URXE_REQ_RETRY_COUNT),
			.rnr_retry_count = urxe_mad_get8(m, URXE_REQ_RNR_RETRY_COUNT),
			.flow_control = urxe_mad_get(m, URXE_REQ_FLOW_CONTROL),
			.srq = urxe_mad_get(m, URXE_REQ_SRQ),
			.private_data = urxe_mad_cbytes(m, URXE_REQ_PRIVATE_DATA),
			.private_len = URXE_REQ_PRIVATE_LEN,
		}};

	rig_open(r, urxe_mad_get(m, URXE_REQ_LOCAL_CA_GUID));
	memcpy(req.path.sgid.raw, urxe_mad_cbytes(m, URXE_REQ_PRIMARY_LOCAL_GID), 16);
	memcpy(req.path.dgid.raw, urxe_mad_cbytes(m, URXE_REQ_PRIMARY_REMOTE_GID), 16);
	bring_to(r, URXE_CM_IDLE);
	CU_ASSERT_EQUAL(urxe_cm_send_req(r->id, &req), 0);
}

static void say_rep(struct rig *r, const uint8_t *m)
{
	struct urxe_cm_conn c = {
		.qpn = urxe_mad_get32(m, URXE_REP_LOCAL_QPN),
		.psn = urxe_mad_get32(m, URXE_REP_STARTING_PSN),
		.responder_resources = urxe_mad_get8(m, URXE_REP_RESPONDER_RESOURCES),
		.initiator_depth = urxe_mad_get8(m, URXE_REP_INITIATOR_DEPTH),
		.rnr_retry_count = urxe_mad_get8(m, URXE_REP_RNR_RETRY_COUNT),
		.flow_control = urxe_mad_get(m, URXE_REP_FLOW_CONTROL),
		.srq = urxe_mad_get(m, URXE_REP_SRQ),
		.private_data = urxe_mad_cbytes(m, URXE_REP_PRIVATE_DATA),
		.private_len = URXE_REP_PRIVATE_LEN,
	};

	rig_open(r, urxe_mad_get(m, URXE_REP_LOCAL_CA_GUID));
	bring_to(r, URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_send_rep(r->id, &c), 0);
	/* The one thing that we say and the kernel does not. */
	CU_ASSERT_EQUAL(urxe_mad_get(r->sent, URXE_REP_LOCAL_QKEY), URXE_CM_PROBES);
	urxe_mad_put(r->sent, URXE_REP_LOCAL_QKEY, 0);
}

static void say_rtu(struct rig *r, const uint8_t *m)
{
	rig_open(r, 1);
	bring_to(r, URXE_CM_REP_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_send_rtu(r->id, urxe_mad_cbytes(m, URXE_RTU_PRIVATE_DATA),
					 URXE_RTU_PRIVATE_LEN),
			0);
}

static void say_mra(struct rig *r, const uint8_t *m)
{
	bool rep = urxe_mad_get(m, URXE_MRA_MESSAGE_MRAED) == URXE_CM_ANSWER_REP;

	rig_open(r, 1);
	bring_to(r, rep ? URXE_CM_REP_RCVD : URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_send_mra(r->id, urxe_mad_get8(m, URXE_MRA_SERVICE_TIMEOUT),
					 urxe_mad_cbytes(m, URXE_MRA_PRIVATE_DATA),
					 URXE_MRA_PRIVATE_LEN),
			0);
}

static void wait_for_sent(struct rig *r, uint16_t attr)
{
	for (unsigned i = 0; i < 1000 && sent_attr(r) != attr; i++) {
		r->now += 10 * 1000000;
		urxe_cm_run(r->cm);
	}
}

static void say_rej(struct rig *r, const uint8_t *m)
{
	uint16_t reason = urxe_mad_get16(m, URXE_REJ_REASON);
	const uint8_t *ari = urxe_mad_cbytes(m, URXE_REJ_ARI);
	uint8_t req[URXE_MAD_LEN];

	switch (reason) {
	case URXE_CM_REJ_INVALID_SERVICE_ID: /* nobody listens */
		rig_open(r, 1);
		peer_mad(r, URXE_CM_IN_REQ, req);
		urxe_mad_put(req, URXE_REQ_SERVICE_ID, SERVICE + 1);
		urxe_cm_recv(r->cm, &r->src, req, sizeof(req));
		wait_for_sent(r, URXE_MAD_REJ);
		break;
	case URXE_CM_REJ_TIMEOUT: /* our REQ is not answered */
		rig_open(r, urxe_get64(ari));
		bring_to(r, URXE_CM_REQ_SENT);
		wait_for_sent(r, URXE_MAD_REJ);
		break;
	default:
		rig_open(r, 1);
		bring_to(r, URXE_CM_REQ_RCVD);
		CU_ASSERT_EQUAL(urxe_cm_send_rej(r->id, reason, ari,
						 urxe_mad_get8(m, URXE_REJ_REJECTED_INFO_LENGTH),
						 urxe_mad_cbytes(m, URXE_REJ_PRIVATE_DATA),
						 URXE_REJ_PRIVATE_LEN),
				0);
	}
}

static void say_dreq(struct rig *r, const uint8_t *m)
{
	rig_open(r, 1);
	bring_to(r, URXE_CM_ESTABLISHED);
	CU_ASSERT_EQUAL(urxe_cm_send_dreq(r->id, urxe_mad_cbytes(m, URXE_DREQ_PRIVATE_DATA),
					  URXE_DREQ_PRIVATE_LEN),
			0);
	CU_ASSERT_EQUAL(urxe_mad_get(r->sent, URXE_DREQ_REMOTE_QPN), PEER_QPN);
	urxe_mad_put(r->sent, URXE_DREQ_REMOTE_QPN, urxe_mad_get(m, URXE_DREQ_REMOTE_QPN));
}

static void say_drep(struct rig *r, const uint8_t *m)
{
	rig_open(r, 1);
	bring_to(r, URXE_CM_DREQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_send_drep(r->id, urxe_mad_cbytes(m, URXE_DREP_PRIVATE_DATA),
					  URXE_DREP_PRIVATE_LEN),
			0);
}

static void say_sidr_req(struct rig *r, const uint8_t *m)
{
	struct urxe_cm_path path;

	rig_open(r, 1);
	path = rig_path(r);
	path.pkey = urxe_mad_get16(m, URXE_SIDR_REQ_PKEY);
	bring_to(r, URXE_CM_IDLE);
	CU_ASSERT_EQUAL(urxe_cm_send_sidr_req(r->id, &path,
					      urxe_mad_get(m, URXE_SIDR_REQ_SERVICE_ID),
					      urxe_mad_cbytes(m, URXE_SIDR_REQ_PRIVATE_DATA),
					      URXE_SIDR_REQ_PRIVATE_LEN),
			0);
}

static void say_sidr_rep(struct rig *r, const uint8_t *m)
{
	uint64_t service_id = urxe_mad_get(m, URXE_SIDR_REP_SERVICE_ID);
	uint8_t status = urxe_mad_get8(m, URXE_SIDR_REP_STATUS);
	uint8_t req[URXE_MAD_LEN];

	rig_open(r, 1);
	peer_mad(r, URXE_CM_IN_SIDR_REQ, req);
	urxe_mad_put(req, URXE_SIDR_REQ_SERVICE_ID, service_id);
	if (status == URXE_CM_SIDR_SUCCESS)
		CU_ASSERT_EQUAL(urxe_cm_listen(urxe_cm_new_id(r->cm, rig_handler, r), service_id,
					       UINT64_MAX),
				0);
	urxe_cm_recv(r->cm, &r->src, req, sizeof(req));
	if (status != URXE_CM_SIDR_SUCCESS) {
		wait_for_sent(r, URXE_MAD_SIDR_REP);
		return;
	}
	CU_ASSERT_EQUAL(urxe_cm_send_sidr_rep(r->id, status, urxe_mad_get32(m, URXE_SIDR_REP_QPN),
					      urxe_mad_get32(m, URXE_SIDR_REP_QKEY),
					      urxe_mad_cbytes(m, URXE_SIDR_REP_PRIVATE_DATA),
					      URXE_SIDR_REP_PRIVATE_LEN),
			0);
}

static void (*const say[])(struct rig *r, const uint8_t *m) = {
	[URXE_MAD_REQ - URXE_MAD_REQ] = say_req,
	[URXE_MAD_MRA - URXE_MAD_REQ] = say_mra,
	[URXE_MAD_REJ - URXE_MAD_REQ] = say_rej,
	[URXE_MAD_REP - URXE_MAD_REQ] = say_rep,
	[URXE_MAD_RTU - URXE_MAD_REQ] = say_rtu,
	[URXE_MAD_DREQ - URXE_MAD_REQ] = say_dreq,
	[URXE_MAD_DREP - URXE_MAD_REQ] = say_drep,
	[URXE_MAD_SIDR_REQ - URXE_MAD_REQ] = say_sidr_req,
	[URXE_MAD_SIDR_REP - URXE_MAD_REQ] = say_sidr_rep,
};

/* Field by field, so that what differs has a name. */
static void compare(const char *where, uint8_t *ours, const uint8_t *theirs)
{
	const struct urxe_mad_msg *msg =
		urxe_mad_msg_find(urxe_mad_get16(theirs, URXE_HDR_ATTR_ID));

	same_ids(ours, theirs);
	CU_ASSERT_FALSE(memcmp(ours, theirs, URXE_MAD_LEN));
	for (unsigned i = URXE_HDR_BASE_VERSION; i <= msg->last;
	     i = i == URXE_HDR_ATTR_MOD ? msg->first : i + 1) {
		const struct urxe_mad_field *f = &urxe_mad_fields[i];

		if (f->width > 64) {
			if (memcmp(ours + f->byte, theirs + f->byte, f->width / 8u))
				printf("\n%s: %s differs\n", where, f->name);
		} else if (urxe_mad_get(ours, i) != urxe_mad_get(theirs, i)) {
			printf("\n%s: %s is %lx, not %lx\n", where, f->name,
			       (unsigned long)urxe_mad_get(ours, i),
			       (unsigned long)urxe_mad_get(theirs, i));
		}
	}
}

static void check(const char *where, const uint8_t *theirs)
{
	unsigned n = (unsigned)urxe_mad_get(theirs, URXE_HDR_ATTR_ID) - URXE_MAD_REQ;
	struct rig r;

	CU_ASSERT_EQUAL_FATAL(urxe_mad_check(theirs, URXE_MAD_LEN), 0);
	CU_ASSERT_FATAL(n < sizeof(say) / sizeof(say[0]) && say[n]);
	say[n](&r, theirs);
	compare(where, r.sent, theirs);
	rig_close(&r);
}

static void golden(void)
{
	char path[2048], name[64], hex[2 * URXE_MAD_LEN + 1], where[128];
	unsigned frame, seen = 0, n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/unit/golden/cm_mads.txt",
		 getenv("URXE_SOURCE_ROOT"));
	f = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fscanf(f, "%63s %u %512s", name, &frame, hex) == 3) {
		uint8_t m[URXE_MAD_LEN] = {0};

		for (unsigned i = 0; hex[2 * i]; i++) {
			char byte[3] = {hex[2 * i], hex[2 * i + 1], 0};

			m[i] = (uint8_t)strtoul(byte, NULL, 16);
		}
		snprintf(where, sizeof(where), "%s, frame %u", name, frame);
		check(where, m);
		seen |= 1u << (urxe_mad_get(m, URXE_HDR_ATTR_ID) & 15);
		n++;
	}
	fclose(f);
	printf("(%u MADs) ", n);
	/* All but LAP and APR, which the kernel's does not say on RoCE. */
	CU_ASSERT_EQUAL(seen, 0x1ff);
}

static unsigned check_pcap(const char *path)
{
	uint32_t h[6], rec[4], len; /* little-endian */
	char where[128];
	unsigned frame = 0, mads = 0;
	uint8_t *buf = malloc(65536);
	FILE *f = fopen(path, "rb");

	CU_ASSERT_FATAL(f && buf && fread(h, sizeof(h), 1, f) == 1);
	while (fread(rec, sizeof(rec), 1, f) == 1 && (len = le32toh(rec[2])) <= 65536 &&
	       fread(buf, len, 1, f) == 1) {
		unsigned l4 = urxe_get16(buf + 12) == 0x0800 ? 34 : 54;
		const uint8_t *bth = buf + l4 + 8;

		frame++;
		if (len < l4 + 28 + URXE_MAD_LEN || urxe_get16(buf + l4 + 2) != URXE_UDP_DPORT ||
		    urxe_bth_dqpn(bth) != 1)
			continue;
		snprintf(where, sizeof(where), "%s, frame %u", strrchr(path, '/') + 1, frame);
		check(where, bth + URXE_BTH_LEN + URXE_DETH_LEN);
		mads++;
	}
	fclose(f);
	free(buf);
	return mads;
}

static void captures(void)
{
	DIR *d = opendir(urxe_harness_shared("captures"));
	unsigned mads = 0;
	char path[2048];
	struct dirent *e;

	if (!d) {
		urxe_harness_skip("no captures beside the source tree");
		return;
	}
	while ((e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len < 5 || strcmp(e->d_name + len - 5, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", urxe_harness_shared("captures"), e->d_name);
		mads += check_pcap(path);
	}
	closedir(d);
	printf("(%u MADs) ", mads);
	CU_ASSERT(mads > 100);
}

URXE_TEST_MAIN("cm_golden", T(golden), T(captures))
