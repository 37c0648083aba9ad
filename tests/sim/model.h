/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A model of verbs, and random walks that compare urxe with it. A step is one verb, valid or not,
 * on objects drawn at random; the model says which errno it returns, which completions come of it
 * with which status, and what is in memory when all has come to rest. Then the next step.
 *
 * The model is written from the standard and the manual pages, not from the provider: where both
 * know a rule, it is told twice.
 *
 *	model.c		walks, comparison, tests
 *	model_obj.c	PDs, regions, windows, CQs, SRQs, AHs ...: who uses whom
 *	model_change.c	what changes them
 *	model_qp.c	QPs: transitions, connections, groups, rules
 *	model_work.c	work requests: drawn and posted
 *	model_exec.c	what becomes of them
 */
#ifndef URXE_TEST_MODEL_H
#define URXE_TEST_MODEL_H

#include <stdio.h>

#include "pair.h"

#define M_ARENA	  0x4000u /* bytes of memory of a side that everything happens in */
#define M_DM_SIZE 4096u	  /* of each device memory */
#define M_CTXS	  2	  /* contexts of a side */
#define M_OBJS	  16	  /* of a type */
#define M_SGES	  4
#define M_QUEUE	  16
#define M_MTU	  1024u
#define M_MAX	  2048u	       /* bytes of a message */
#define M_RECV	  (1ull << 63) /* in wr_ids: of a receive */

enum m_type {
	M_PD,
	M_XRCD,
	M_DM,
	M_CQ,
	M_MR,
	M_MW,
	M_AH,
	M_SRQ,
	M_WQ,
	M_TABLE,
	M_QP,
	M_FLOW,
	M_TYPES /* in an order in which they can be made; destroyed from behind */
};

/** A work request, ours. */
struct m_wr {
	uint64_t id;
	unsigned op; /* enum ibv_wr_opcode */
	unsigned flags;
	struct ibv_sge sge[M_SGES + 2];
	int num_sge;
	uint32_t rkey; /* remote, to invalidate, or of a window */
	uint64_t addr, compare_add, swap;
	struct m_obj *ah, *dest, *mw, *mr;
	uint32_t qkey, srqn;
	uint64_t bind_length;
	unsigned bind_access;
	uint32_t bind_high;  /* flipped in the key that is given: nobody looks at them */
	uint8_t data[M_MAX]; /* inline */
};

struct m_recv {
	uint64_t id;
	struct ibv_sge sge[M_SGES];
	int num_sge;
};

struct m_rq {
	struct m_recv v[M_QUEUE];
	unsigned n, max_wr, max_sge;
};

/** An object of any type: what it is made of, and what the model knows of it. */
struct m_obj {
	enum m_type type;
	int side, ctx;
	union {
		void *ib;
		struct ibv_pd *pd;
		struct ibv_xrcd *xrcd;
		struct ibv_dm *dm;
		struct ibv_cq *cq;
		struct ibv_mr *mr;
		struct ibv_mw *mw;
		struct ibv_ah *ah;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		struct ibv_rwq_ind_table *table;
		struct ibv_qp *qp;
		struct ibv_flow *flow;
	};
	unsigned users; /* it cannot go while there are any */
	struct m_obj *uses[5];
	unsigned n_uses;

	struct m_obj *root; /* of a PD: itself, or what a parent domain stands for */
	bool ex;	    /* CQ: of ibv_create_cq_ex */
	enum ibv_wq_state wq_state;

	/* regions, windows */
	uint32_t key;
	unsigned access;
	uint64_t base, length; /* first address, bytes */
	uint8_t *mem;	       /* behind it; NULL: none that we know of */
	bool null;
	bool bound;	     /* a window */
	struct m_obj *mr_of; /* its region */
	struct m_obj *qp_of; /* type 2: who bound it */

	/* receive queues of QPs, SRQs, WQs */
	struct m_rq rq;
	bool xrc;
	uint32_t srqn;

	/* QPs */
	enum ibv_qp_type qpt;
	enum ibv_qp_state state;
	struct m_obj *pd_of, *scq, *rcq, *srq_of, *xrcd_of;
	struct m_obj *peer;
	unsigned max_wr, max_sge, max_inline;
	bool sig_all, builder;
	unsigned qp_access, max_rd, max_dest_rd;
	uint32_t qkey;
	unsigned groups; /* bits */
	bool rss;
	struct m_wr pend[M_QUEUE]; /* posted while draining */
	unsigned n_pend;
	struct m_recv held; /* UC: taken for a message that was given up */
	bool has_held;
};

/** A completion that is to come. */
struct m_wc {
	struct m_obj *cq;
	uint32_t qpn;
	uint64_t id;
	enum ibv_wc_status status;
	int opcode;   /* of a success */
	uint32_t len; /* of a receive's success */
	bool late;    /* its QP has gone: it comes if it was there then */
};

struct m_world {
	struct pair *p;
	bool threaded;
	uint64_t seed, rnd, next_id;
	unsigned step;
	bool failed;
	struct ibv_context *ctx[2][M_CTXS];
	struct m_obj *obj[M_TYPES][M_OBJS];
	uint8_t *mem[2], *want[2]; /* arenas, and what should be in them */
	struct {
		int side;
		uint32_t at, len;
	} loose[64]; /* of the arenas: what only urxe knows (GRHs) */
	unsigned n_loose;
	uint32_t stale[16]; /* keys of what is no more */
	unsigned n_stale;
	struct m_wc wc[512];
	unsigned n_wc;
	unsigned calls, refused, completions, by_status[32]; /* to see that all of it happens */
};

/* ---- model.c ---- */

/** m_rnd - below @below. */
uint32_t m_rnd(struct m_world *w, uint32_t below);
/** m_fail - the walk ends here: says what is wrong. */
void m_fail(struct m_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** m_check - a verb returned @got; the model says @want. True if both are 0. */
bool m_check(struct m_world *w, const char *verb, int got, int want);
/** m_expect - a completion will come. */
void m_expect(struct m_world *w, struct m_obj *cq, uint32_t qpn, uint64_t id,
	      enum ibv_wc_status status, int opcode, uint32_t len);
/** m_destroyed - of a QP that has gone only successes are left, those that were there then. */
void m_destroyed(struct m_world *w, const struct m_obj *cq, uint32_t qpn);
/** m_forget - the completions of a QP will not be seen in this CQ any more. */
void m_forget(struct m_world *w, const struct m_obj *cq, uint32_t qpn);

/* ---- model_obj.c ---- */

/** m_add - a new object (@ib: what the verb gave) that uses those given; NULL when there is no
 * room. Those that are NULL are left out. */
struct m_obj *m_add(struct m_world *w, const struct m_obj *template, void *ib, unsigned n,
		    struct m_obj *const *uses);
/** m_room - is there room for one more? */
bool m_room(const struct m_world *w, enum m_type type);
/** m_pick - any of a type, a side (-1: either) and a context (-1: either); NULL: there is none. */
struct m_obj *m_pick(struct m_world *w, enum m_type type, int side, int ctx);
/** m_remove - it is gone. */
void m_remove(struct m_world *w, struct m_obj *o);
/** m_unbind - a window opens nothing any more. */
void m_unbind(struct m_obj *mw);
/** m_make - a step: make an object of this type, by good arguments or bad ones. */
void m_make(struct m_world *w, enum m_type type);
/** m_destroy - a step: destroy it, if it lets us. */
void m_destroy(struct m_world *w, struct m_obj *o);
/** m_rereg - a step: register anew. */
void m_rereg(struct m_world *w);

/* ---- model_change.c: steps ---- */
void m_srq_modify(struct m_world *w);
void m_wq_modify(struct m_world *w);
void m_dm_copy(struct m_world *w);
void m_cq_misc(struct m_world *w);

/* ---- model_qp.c ---- */
void m_make_qp(struct m_world *w);
/** m_leave - the QP's connection is over: its peer is reset, so that nobody writes to it. */
void m_leave(struct m_world *w, struct m_obj *qp);
void m_connect(struct m_world *w);
void m_modify(struct m_world *w);
void m_revive(struct m_world *w);
/** m_group - one of the world's groups (the third is none). */
union ibv_gid m_group(const struct m_world *w, unsigned i);
void m_mcast(struct m_world *w);
void m_make_flow(struct m_world *w);
void m_make_table(struct m_world *w);

/* ---- model_work.c ---- */
void m_post_send(struct m_world *w);
void m_post_recv(struct m_world *w);
void m_bind_type1(struct m_world *w);

/* ---- model_exec.c ---- */

/** m_exec - a work request was taken by the QP: what becomes of it. */
void m_exec(struct m_world *w, struct m_obj *qp, const struct m_wr *wr);
/** m_exec_pending - the QP sends again. */
void m_exec_pending(struct m_world *w, struct m_obj *qp);
/** m_flush - the QP is in error: all that is in its queues completes. */
void m_qp_error(struct m_world *w, struct m_obj *qp);
/** m_silent - will a work request leave no trace that one could wait for? */
bool m_silent(struct m_world *w, const struct m_obj *qp, const struct m_wr *wr);
/** m_bytes - of an SGE list. */
uint32_t m_bytes(const struct ibv_sge *sge, int n);
/** m_local - the object behind an lkey's range, if the PD may use it so; NULL. @mem: out. */
struct m_obj *m_local(struct m_world *w, int side, const struct m_obj *pd, uint32_t key,
		      uint64_t addr, uint64_t len, unsigned access, uint8_t **mem);

#endif
