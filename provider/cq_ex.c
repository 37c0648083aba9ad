/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_start_poll and its family. One poller at a time, from start to end, unless the application
 * promised to have one thread only. The completion it looks at is a copy.
 */
#include <errno.h>
#include <time.h>

#include "provider.h"

static struct urxe_cq *of(struct ibv_cq_ex *x)
{
	return urxe_container_of(x, struct urxe_cq, vcq.cq_ex);
}

static int take(struct ibv_cq_ex *x, bool drive)
{
	struct urxe_cq *cq = of(x);
	int err = urxe_cq_take(cq, drive);

	if (!err) {
		x->wr_id = cq->cur.wc.wr_id;
		x->status = cq->cur.wc.status;
	}
	return err;
}

/* Of a CQ for one thread there is no lock to take: that is beyond what clang follows. */
static void end_poll(struct ibv_cq_ex *x) URXE_UNCHECKED
{
	if (!of(x)->single_threaded)
		urxe_spin_unlock(&of(x)->poll_lock);
}

static int start_poll(struct ibv_cq_ex *x, struct ibv_poll_cq_attr *attr) URXE_UNCHECKED
{
	int err;

	if (attr->comp_mask)
		return EINVAL;
	if (!of(x)->single_threaded)
		urxe_spin_lock(&of(x)->poll_lock);
	err = take(x, true);
	if (err)
		end_poll(x); /* the application does not, after a failure */
	return err;
}

static int next_poll(struct ibv_cq_ex *x)
{
	return take(x, false);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.byte_len;
}

/* Or the rkey that was invalidated, in the same place; wc_flags tell. */
static __be32 read_imm_data(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *x)
{
	return of(x)->cur.wc.dlid_path_bits;
}

static uint64_t read_ts(struct ibv_cq_ex *x)
{
	return of(x)->cur.when;
}

/* As far back on the wall's clock as it is on the port's. */
static uint64_t read_wallclock(struct ibv_cq_ex *x)
{
	uint64_t ago = urxe_port_now(of(x)->dev->port) - of(x)->cur.when;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - ago;
}

static uint16_t read_cvlan(struct ibv_cq_ex *x)
{
	return of(x)->cur.cvlan;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *x)
{
	return of(x)->cur.flow_tag;
}

void urxe_cq_ex_init(struct urxe_cq *cq)
{
	struct ibv_cq_ex *x = &cq->vcq.cq_ex;

	x->start_poll = start_poll;
	x->next_poll = next_poll;
	x->end_poll = end_poll;
	x->read_opcode = read_opcode;
	x->read_vendor_err = read_vendor_err;
	x->read_byte_len = read_byte_len;
	x->read_imm_data = read_imm_data;
	x->read_qp_num = read_qp_num;
	x->read_src_qp = read_src_qp;
	x->read_wc_flags = read_wc_flags;
	x->read_slid = read_slid;
	x->read_sl = read_sl;
	x->read_dlid_path_bits = read_dlid_path_bits;
	x->read_completion_ts = read_ts;
	x->read_completion_wallclock_ns = read_wallclock;
	x->read_cvlan = read_cvlan;
	x->read_flow_tag = read_flow_tag;
}
