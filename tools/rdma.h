/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to urxe link and urxe res: what iproute2's `rdma link` and `rdma res` say of a kernel's
 * devices, of answers to URXE_STATUS_ALL. Answers may lack anything.
 */
#ifndef URXE_TOOL_RDMA_H
#define URXE_TOOL_RDMA_H

#include <stdbool.h>
#include <stdio.h>

#include <json-c/json.h>

/** What a row is of. */
enum tool_rdma_kind {
	TOOL_RDMA_LINK, /* a port */
	TOOL_RDMA_SUM,	/* a device: how many there are of each object */
	TOOL_RDMA_QP,
	TOOL_RDMA_CM_ID,
	TOOL_RDMA_CQ,
	TOOL_RDMA_MR,
	TOOL_RDMA_KINDS
};

/** As the command line has them. */
extern const char *const tool_rdma_kind_names[TOOL_RDMA_KINDS];

/**
 * tool_rdma_rows - an array of objects with the members that `rdma -j` prints
 * @processes: the answers; devices of the same name and link are one, with one "ifindex"
 */
struct json_object *tool_rdma_rows(struct json_object *processes, enum tool_rdma_kind kind);

/** tool_rdma_keep - whether a member of a row is @value: a word, or of a number one of "1-3,7".
 * Without such a member: no. */
bool tool_rdma_keep(struct json_object *row, const char *key, const char *value);

/** tool_rdma_print - the rows as lines of text. */
void tool_rdma_print(FILE *out, struct json_object *rows, enum tool_rdma_kind kind);

#endif
