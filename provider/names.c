/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* States and the like by name. */
#include "names.h"

const char *const urxe_qp_state_names[URXE_NUM_QP_STATES] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
	[IBV_QPS_ERR] = "ERR",
};

const char *const urxe_resp_state_names[URXE_NUM_RESP_STATES] = {
	[URXE_RESP_EXPECT_FIRST] = "EXPECT_FIRST",
	[URXE_RESP_IN_SEND] = "IN_SEND",
	[URXE_RESP_IN_WRITE] = "IN_WRITE",
	[URXE_RESP_WAIT_RETRY] = "WAIT_RETRY",
	[URXE_RESP_FATAL] = "FATAL",
};

const char *urxe_qp_state_name(unsigned state)
{
	return state < URXE_NUM_QP_STATES ? urxe_qp_state_names[state] : "?";
}

const char *urxe_resp_state_name(unsigned state)
{
	return state < URXE_NUM_RESP_STATES ? urxe_resp_state_names[state] : "?";
}

const char *urxe_qp_type_name(unsigned type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW_PACKET";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return "?";
	}
}

const char *urxe_nak_name(uint8_t syndrome)
{
	static const char *const names[] = {
		[URXE_NAK_PSN_SEQ] = "PSN_SEQUENCE",
		[URXE_NAK_INVALID_REQ] = "INVALID_REQUEST",
		[URXE_NAK_REMOTE_ACCESS] = "REMOTE_ACCESS",
		[URXE_NAK_REMOTE_OP] = "REMOTE_OPERATIONAL",
		[URXE_NAK_INVALID_RD_REQ] = "INVALID_RD_REQUEST",
	};
	unsigned code = syndrome & URXE_AETH_VAL_MASK;

	switch (syndrome & URXE_AETH_TYPE_MASK) {
	case URXE_AETH_RNR:
		return "RNR";
	case URXE_AETH_NAK:
		return code < sizeof(names) / sizeof(names[0]) ? names[code] : "RESERVED";
	default:
		return NULL;
	}
}
