/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* MAD field tables: against themselves, against MADs of the kernel's CM, against the captures. */
#include "harness.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "urxe/mad.h"
#include "urxe/wire.h"

static void rebuild(const uint8_t *mad, uint8_t *out)
{
	const struct urxe_mad_msg *m = urxe_mad_msg_find(urxe_mad_get16(mad, URXE_HDR_ATTR_ID));

	memset(out, 0xa5, URXE_MAD_LEN);
	for (unsigned i = URXE_HDR_BASE_VERSION; i <= URXE_HDR_ATTR_MOD; i++)
		urxe_mad_put(out, i, urxe_mad_get(mad, i));
	for (unsigned i = m->first; i <= m->last; i++) {
		if (urxe_mad_fields[i].width > 64)
			memcpy(urxe_mad_bytes(out, i), urxe_mad_cbytes(mad, i),
			       urxe_mad_fields[i].width / 8u);
		else
			urxe_mad_put(out, i, urxe_mad_get(mad, i));
	}
}

/* Every bit of a message belongs to exactly one field, in ascending order. */
static void fields_tile(void)
{
	for (unsigned attr = 0; attr < 0x100; attr++) {
		const struct urxe_mad_msg *m = urxe_mad_msg_find((uint16_t)attr);
		unsigned bit = URXE_MAD_HDR_LEN * 8;

		if (attr < URXE_MAD_REQ || attr > URXE_MAD_APR) {
			CU_ASSERT_PTR_NULL(m);
			continue;
		}
		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		CU_ASSERT_EQUAL(m->attr, attr);
		CU_ASSERT_STRING_EQUAL(m->name, urxe_mad_msg_name((uint16_t)attr));
		for (unsigned i = m->first; i <= m->last; i++) {
			const struct urxe_mad_field *f = &urxe_mad_fields[i];

			CU_ASSERT_EQUAL(f->byte * 8u + f->bit, bit);
			bit += f->width;
		}
		CU_ASSERT_EQUAL(bit, URXE_MAD_LEN * 8);
	}
}

/* Putting one field changes its bits and no others. */
static void put_is_narrow(void)
{
	uint8_t ones[URXE_MAD_LEN], mad[URXE_MAD_LEN];

	memset(ones, 0xff, sizeof(ones));
	for (unsigned i = 0; i < URXE_MAD_N_FIELDS; i++) {
		const struct urxe_mad_field *f = &urxe_mad_fields[i];
		unsigned clear = 0;

		if (f->width > 64)
			continue;
		memcpy(mad, ones, sizeof(mad));
		urxe_mad_put(mad, i, 0);
		for (unsigned b = 0; b < URXE_MAD_LEN * 8; b++)
			clear += !(mad[b / 8] & 0x80 >> b % 8);
		CU_ASSERT_EQUAL(clear, f->width);
		CU_ASSERT_EQUAL(urxe_mad_get(mad, i), 0);
		urxe_mad_put(mad, i, UINT64_MAX);
		CU_ASSERT_FALSE(memcmp(mad, ones, sizeof(mad)));
		urxe_mad_put(mad, i, 0x1122334455667788);
		CU_ASSERT_EQUAL(urxe_mad_get(mad, i),
				f->width == 64 ? 0x1122334455667788
					       : 0x1122334455667788 & ((1ull << f->width) - 1));
	}
}

/* MADs of the kernel (Debian 6.1), up to where only zeros follow. */
static const char req_hex[] =
	"010702030000000000000002cc04a211001000000000000011a204cc000000000000000001061e61"
	"50540afffe09000100000000000000000000110200000002000000a00560f2a3ffff35f0ffffffff"
	"00000000000000000000ffff0a09000100000000000000000000ffff0a0900026d1e900000400098"
	"00000000000000000000000000000000000000000000000000000000000000000000000000000000"
	"000000000040bb780000000000000000000000000a0900010000000000000000000000000a090002"
	"68656c6c6f2066726f6d20636c69656e74203536";
static const char rep_hex[] =
	"010702030000000000000002cc04a2190013000000000000e3fcd12819a204cc0000000000001900"
	"00000000a0afa800020278a050540afffe090002e040e5564456";
static const char mra_hex[] =
	"010702030000000000000002cc04a2190011000000000000e3fcd12819a204cc00c0";
static const char rej_hex[] =
	"010702030000000000000002c5040ac9001200000000000000000000c90a04c500000008";
static const char sidr_hex[] =
	"010702030000000000000002c5040acc0018000000000000cc0a04c500000000000014000000000001"
	"111c0601234567";

static void from_hex(const char *hex, uint8_t *mad)
{
	unsigned n = 0, v;

	memset(mad, 0, URXE_MAD_LEN);
	for (; *hex; hex++) {
		v = (unsigned)(*hex <= '9' ? *hex - '0' : *hex - 'a' + 10);
		mad[n / 2] |= (uint8_t)(n % 2 ? v : v << 4);
		n++;
	}
}

static void kernel_req(void)
{
	uint8_t mad[URXE_MAD_LEN], again[URXE_MAD_LEN];
	struct urxe_ip_cm_hdr h;

	from_hex(req_hex, mad);
	CU_ASSERT_EQUAL(urxe_mad_check(mad, sizeof(mad)), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_HDR_TID), 0x2cc04a211);
	CU_ASSERT_EQUAL(urxe_mad_get32(mad, URXE_REQ_LOCAL_COMM_ID), 0x11a204cc);
	CU_ASSERT_EQUAL(urxe_mad_get16(mad, URXE_REQ_PKEY), 0xffff);
	CU_ASSERT_EQUAL(urxe_mad_get8(mad, URXE_HDR_METHOD), URXE_MAD_METHOD_SEND);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_LOCAL_COMM_ID), 0x11a204cc);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_SERVICE_ID),
			urxe_ip_cm_service_id(URXE_IP_CM_PS_TCP, 7777));
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_LOCAL_CA_GUID), 0x50540afffe090001);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_LOCAL_QPN), 0x11);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_RESPONDER_RESOURCES), 2);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_INITIATOR_DEPTH), 2);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_REMOTE_CM_RESPONSE_TIMEOUT), 20);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_STARTING_PSN), 0x0560f2);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_LOCAL_CM_RESPONSE_TIMEOUT), 20);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_RETRY_COUNT), 3);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_PKEY), 0xffff);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_PATH_MTU), 3);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_RNR_RETRY_COUNT), 5);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_MAX_CM_RETRIES), 15);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_SRQ), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_PRIMARY_LOCAL_LID), 0xffff);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_PRIMARY_FLOW_LABEL), 0x6d1e9);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_PRIMARY_HOP_LIMIT), 64);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REQ_PRIMARY_ACK_TIMEOUT), 19);
	CU_ASSERT_EQUAL(urxe_ip_cm_hdr_get(urxe_mad_cbytes(mad, URXE_REQ_PRIVATE_DATA), &h), 0);
	CU_ASSERT_EQUAL(h.ip_version, 4);
	CU_ASSERT_EQUAL(h.src_port, 0xbb78);
	/* The addresses look like the GIDs. */
	CU_ASSERT_FALSE(memcmp(h.src, urxe_mad_cbytes(mad, URXE_REQ_PRIMARY_LOCAL_GID), 16));
	CU_ASSERT_FALSE(memcmp(h.dst, urxe_mad_cbytes(mad, URXE_REQ_PRIMARY_REMOTE_GID), 16));
	CU_ASSERT_FALSE(memcmp(urxe_mad_cbytes(mad, URXE_REQ_PRIVATE_DATA) + URXE_IP_CM_HDR_LEN,
			       "hello from client 56", 20));
	memcpy(again, mad, sizeof(mad));
	memset(urxe_mad_bytes(again, URXE_REQ_PRIVATE_DATA), 0xee, URXE_IP_CM_HDR_LEN);
	urxe_ip_cm_hdr_put(urxe_mad_bytes(again, URXE_REQ_PRIVATE_DATA), &h);
	CU_ASSERT_FALSE(memcmp(again, mad, sizeof(mad)));
}

static void kernel_replies(void)
{
	uint8_t mad[URXE_MAD_LEN];

	from_hex(rep_hex, mad);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_HDR_ATTR_ID), URXE_MAD_REP);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REP_LOCAL_COMM_ID), 0xe3fcd128);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REP_REMOTE_COMM_ID), 0x19a204cc);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REP_LOCAL_QPN), 0x19);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REP_STARTING_PSN), 0xa0afa8);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REP_TARGET_ACK_DELAY), 15);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REP_RNR_RETRY_COUNT), 5);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REP_LOCAL_CA_GUID), 0x50540afffe090002);

	from_hex(mra_hex, mad);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_HDR_ATTR_ID), URXE_MAD_MRA);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_MRA_MESSAGE_MRAED), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_MRA_SERVICE_TIMEOUT), 24);

	from_hex(rej_hex, mad);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_HDR_ATTR_ID), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REJ_LOCAL_COMM_ID), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_REJ_REASON), 8);

	from_hex(sidr_hex, mad);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_HDR_ATTR_ID), URXE_MAD_SIDR_REP);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_SIDR_REP_QPN), 0x14);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_SIDR_REP_QKEY), 0x01234567);
	CU_ASSERT_EQUAL(urxe_mad_get(mad, URXE_SIDR_REP_SERVICE_ID),
			urxe_ip_cm_service_id(URXE_IP_CM_PS_UDP, 7174));
}

static void bad_headers(void)
{
	uint8_t mad[URXE_MAD_LEN];
	struct urxe_ip_cm_hdr h;

	from_hex(req_hex, mad);
	CU_ASSERT_EQUAL(urxe_mad_check(mad, 255), EMSGSIZE);
	CU_ASSERT_EQUAL(urxe_mad_check(mad, 0), EMSGSIZE);
	for (unsigned i = 0; i < 3; i++) {
		from_hex(req_hex, mad);
		mad[i] ^= 0x80;
		CU_ASSERT_EQUAL(urxe_mad_check(mad, sizeof(mad)), EPROTONOSUPPORT);
	}
	from_hex(req_hex, mad);
	mad[3] = 0x83;
	CU_ASSERT_EQUAL(urxe_mad_check(mad, sizeof(mad)), EOPNOTSUPP);
	for (unsigned attr = 0; attr < 0x10000; attr++) {
		mad[3] = URXE_MAD_METHOD_SEND;
		urxe_mad_put(mad, URXE_HDR_ATTR_ID, attr);
		CU_ASSERT_EQUAL(urxe_mad_check(mad, sizeof(mad)),
				attr >= 0x10 && attr <= 0x1a ? 0 : EOPNOTSUPP);
	}
	from_hex(req_hex, mad);
	urxe_mad_bytes(mad, URXE_REQ_PRIVATE_DATA)[1] = 0x50;
	CU_ASSERT_EQUAL(urxe_ip_cm_hdr_get(urxe_mad_cbytes(mad, URXE_REQ_PRIVATE_DATA), &h),
			EPROTO);
	urxe_mad_bytes(mad, URXE_REQ_PRIVATE_DATA)[1] = 0x40;
	urxe_mad_bytes(mad, URXE_REQ_PRIVATE_DATA)[0] = 0x10;
	CU_ASSERT_EQUAL(urxe_ip_cm_hdr_get(urxe_mad_cbytes(mad, URXE_REQ_PRIVATE_DATA), &h),
			EPROTO);
}

/* A frame of a capture: the MAD in it, or NULL. */
static const uint8_t *frame_mad(const uint8_t *p, uint32_t len)
{
	uint32_t off = 14;

	if (len < off + 20)
		return NULL;
	if (urxe_get16(p + 12) == 0x0800 && p[off + 9] == 17)
		off += (p[off] & 0xfu) * 4;
	else if (urxe_get16(p + 12) == 0x86dd && p[off + 6] == 17)
		off += 40;
	else
		return NULL;
	if (len < off + 8 + URXE_BTH_LEN + URXE_DETH_LEN + URXE_MAD_LEN ||
	    urxe_get16(p + off + 2) != URXE_UDP_DPORT || urxe_bth_dqpn(p + off + 8) != 1)
		return NULL;
	return p + off + 8 + URXE_BTH_LEN + URXE_DETH_LEN;
}

static unsigned walk_pcap(const char *path)
{
	uint8_t out[URXE_MAD_LEN];
	uint32_t h[6], rec[4], len; /* little-endian */
	unsigned mads = 0;
	uint8_t *buf;
	FILE *f = fopen(path, "rb");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL_FATAL(fread(h, sizeof(h), 1, f), 1);
	h[0] = le32toh(h[0]);
	CU_ASSERT_FATAL(h[0] == 0xa1b2c3d4 || h[0] == 0xa1b23c4d);
	buf = malloc(65536);
	CU_ASSERT_PTR_NOT_NULL_FATAL(buf);
	while (fread(rec, sizeof(rec), 1, f) == 1 && (len = le32toh(rec[2])) <= 65536 &&
	       fread(buf, len, 1, f) == 1) {
		const uint8_t *mad = frame_mad(buf, len);

		if (!mad)
			continue;
		CU_ASSERT_EQUAL(urxe_mad_check(mad, URXE_MAD_LEN), 0);
		rebuild(mad, out);
		CU_ASSERT_FALSE(memcmp(mad, out, URXE_MAD_LEN));
		mads++;
	}
	free(buf);
	fclose(f);
	return mads;
}

static void captures(void)
{
	char path[2048];
	struct dirent *e;
	unsigned mads = 0;
	DIR *d = opendir(urxe_harness_shared("captures"));

	if (!d) {
		urxe_harness_skip("no captures beside the source tree");
		return;
	}
	while ((e = readdir(d))) {
		size_t n = strlen(e->d_name);

		if (n < 5 || strcmp(e->d_name + n - 5, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", urxe_harness_shared("captures"), e->d_name);
		mads += walk_pcap(path);
	}
	closedir(d);
	printf("(%u MADs) ", mads);
	CU_ASSERT(mads > 100);
}

URXE_TEST_MAIN("mad", T(fields_tile), T(put_is_narrow), T(kernel_req), T(kernel_replies),
	       T(bad_headers), T(captures))
