/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Protection domains, memory keys and what is behind them, address handles, SGE lists.
 */
#ifndef URXE_PROVIDER_MEMORY_H
#define URXE_PROVIDER_MEMORY_H

#include "device.h"
#include "rcu.h"

/* ---- protection domain, memory region, address handle ---- */

struct urxe_pd {
	struct ibv_pd pd;
	struct urxe_device *dev;
	struct urxe_pd *root; /* itself, but for a parent domain: what protection asks for */
	atomic_int users;     /* what was made in it: QPs, MRs, AHs, parent domains ... */
	/* parent domain */
	struct urxe_td *td;
	void *(*alloc)(struct ibv_pd *pd, void *ctx, size_t size, size_t align, uint64_t type);
	void (*free)(struct ibv_pd *pd, void *ctx, void *ptr, uint64_t type);
	void *pd_context;
};

static inline struct urxe_pd *to_urxe_pd(struct ibv_pd *pd)
{
	return pd ? urxe_container_of(pd, struct urxe_pd, pd) : NULL;
}

/** Memory of a queue, from a parent domain's allocator or our own. */
struct urxe_buf {
	void *p;
	void *block;	      /* ours: malloc()'s, in which it is */
	struct urxe_pd *from; /* NULL: ours */
	uint64_t type;	      /* enum urxedv_resource_type */
};

/* ---- memory keys (mkey.c), regions (mr.c), windows (mw.c), device memory (dm.c) ---- */

#define URXE_ACCESS_FLUSH (URXEDV_ACCESS_FLUSH_GLOBAL | URXEDV_ACCESS_FLUSH_PERSISTENT)

enum urxe_mkey_kind {
	URXE_MKEY_MR,
	URXE_MKEY_MW1,
	URXE_MKEY_MW2
};

enum urxe_mkey_flag {
	URXE_MKEY_ON_DEMAND = 1 << 0, /* pages may not be there */
	URXE_MKEY_NULL = 1 << 1,      /* no memory at all */
};

/** What a key stands for. Never changes once published; replaced under RCU. */
struct urxe_mkey {
	uint32_t key; /* lkey, rkey */
	uint8_t kind, flags;
	unsigned access;
	struct urxe_pd *pd; /* root; NULL: a window bound to nothing */
	uint64_t iova, length;
	uint8_t *addr;
	uint32_t qpn;	    /* type 2 window: the QP that bound it */
	struct urxe_mr *mr; /* itself; a window's, which outlives it */
	struct urxe_mw *mw;
	struct urxe_rcu_head rcu;
};

struct urxe_mr {
	struct verbs_mr vmr;
	struct urxe_device *dev;
	struct urxe_pd *pd;
	struct urxe_mkey *mkey;
	uint32_t windows; /* bound to it; under mw_lock */
	struct urxe_dm *dm;
	atomic_bool gone; /* some of its memory: the user was told */
	void *map;	  /* of a dma-buf */
	size_t map_length;
};

static inline struct urxe_mr *to_urxe_mr(struct ibv_mr *mr)
{
	return mr ? urxe_container_of(mr, struct urxe_mr, vmr.ibv_mr) : NULL;
}

struct urxe_mw {
	struct ibv_mw mw;
	struct urxe_device *dev;
	struct urxe_pd *pd;
	struct urxe_mkey idle; /* in the table while it is bound to nothing */
	struct urxe_mr *mr;    /* bound to it; these under mw_lock */
	struct urxe_mkey *bound;
	struct urxe_qp *qp; /* type 2: that bound it */
	struct cds_list_head node;
};

static inline const struct urxe_mw *to_urxe_mw(const struct ibv_mw *mw)
{
	return urxe_container_of(mw, const struct urxe_mw, mw);
}

struct urxe_dm {
	struct verbs_dm vdm;
	struct urxe_device *dev;
	uint8_t *mem;
	size_t length;
	atomic_int users; /* regions */
};

struct urxe_ah {
	struct ibv_ah ah;
	struct urxe_device *dev;
	struct ibv_ah_attr attr;
	struct urxe_path *path;
	atomic_int refs; /* its creator and each UD WQE that has yet to be sent */
};

/* ---- pd.c ---- */
struct ibv_pd *urxe_alloc_pd(struct ibv_context *ctx);
int urxe_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *urxe_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int urxe_dealloc_td(struct ibv_td *td);
struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *ctx,
					struct ibv_parent_domain_init_attr *attr);
/**
 * urxe_buf_alloc - memory for a queue, not zeroed
 * @pd: whose allocator is asked, if it has one; may be NULL
 * @type: enum urxedv_resource_type
 * 0 or ENOMEM. urxe_buf_free() goes before the PD does.
 */
int urxe_buf_alloc(struct urxe_buf *buf, struct urxe_pd *pd, size_t size, uint64_t type);
void urxe_buf_free(struct urxe_buf *buf);

/* ---- mkey.c ---- */

/** urxe_mkey_publish - give an entry a key and make it known; dev->mutex held. 0 or ENOMEM. */
int urxe_mkey_publish(struct urxe_device *dev, struct urxe_mkey *mk) URXE_REQUIRES(dev->mutex);
/** urxe_mkey_set - another entry (or NULL) for a key that was published. */
void urxe_mkey_set(struct urxe_device *dev, uint32_t key, struct urxe_mkey *mk);
/** urxe_mkey_get - the entry of exactly this key, or NULL; RCU read-side. */
struct urxe_mkey *urxe_mkey_get(struct urxe_device *dev, uint32_t key);
/** urxe_mkey_at - the entry that has the key's index, or NULL; RCU read-side. */
static inline struct urxe_mkey *urxe_mkey_at(struct urxe_device *dev, uint32_t key)
{
	return urxe_table_get(&dev->mkeys, key >> (32 - URXE_MKEY_INDEX_BITS));
}
/** urxe_mkey_free_later - free an entry that was replaced, when nobody looks at it any more. */
void urxe_mkey_free_later(struct urxe_mkey *mk);

/** What urxe_mr_access() gives for a null region: reads are zeros, writes are dropped. */
extern uint8_t urxe_null_memory[];

/** urxe_mkey_special - for urxe_mkey_memory(): an entry that has flags, at @off. */
uint8_t *urxe_mkey_special(const struct urxe_mkey *mk, uint64_t off, uint64_t len, unsigned access);

/** urxe_mkey_memory - where an entry has @len bytes at @va; NULL: not all are its own. */
static inline uint8_t *urxe_mkey_memory(const struct urxe_mkey *mk, uint64_t va, uint64_t len,
					unsigned access)
{
	uint64_t off = va - mk->iova;

	/* Written so that nothing wraps: va may be anything. */
	if (va < mk->iova || off > mk->length || len > mk->length - off)
		return NULL;
	if (__builtin_expect(mk->flags, 0))
		return urxe_mkey_special(mk, off, len, access);
	return mk->addr + off;
}

/**
 * urxe_mr_access - the memory behind an lkey, or NULL when any rule forbids it
 * @pd: a root
 * @access: IBV_ACCESS_* that all must be granted
 *
 * Within an RCU read-side section, which is as long as the pointer is good for.
 */
static inline uint8_t *urxe_mr_access(struct urxe_device *dev, const struct urxe_pd *pd,
				      uint32_t key, uint64_t va, uint64_t len, unsigned access)
{
	const struct urxe_mkey *mk = urxe_mkey_at(dev, key);

	if (!mk || mk->key != key || mk->pd != pd || mk->kind != URXE_MKEY_MR ||
	    (mk->access & access) != access)
		return NULL;
	return urxe_mkey_memory(mk, va, len, access);
}

/**
 * urxe_mr_plain - urxe_mr_access() of what is nothing but memory; NULL: it is not, or not allowed
 *
 * Of regions on demand, null regions and what is refused urxe_mr_access() has to be asked.
 */
static inline uint8_t *urxe_mr_plain(struct urxe_device *dev, const struct urxe_pd *pd,
				     uint32_t key, uint64_t va, uint64_t len, unsigned access)
{
	const struct urxe_mkey *mk = urxe_mkey_at(dev, key);
	uint64_t off;

	if (!mk || mk->key != key || mk->pd != pd || mk->kind != URXE_MKEY_MR || mk->flags ||
	    (mk->access & access) != access)
		return NULL;
	off = va - mk->iova;
	if (va < mk->iova || off > mk->length || len > mk->length - off)
		return NULL;
	return mk->addr + off;
}

/** urxe_mr_remote - urxe_mr_access() for an rkey, of a region or a window, that came to @qp. */
uint8_t *urxe_mr_remote(const struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t key,
			uint64_t va, uint64_t len, unsigned access);
/**
 * urxe_lkey_gone - memory that urxe_mr_access() gave was unmapped, or became read-only
 *
 * Traced as a denied access, and a line of the log, once a region. Within the same section.
 */
void urxe_lkey_gone(struct urxe_device *dev, uint32_t lkey, uint64_t va, uint64_t len,
		    unsigned access);
/** urxe_rkey_gone - the same of what urxe_mr_remote() gave. */
void urxe_rkey_gone(const struct urxe_qp *qp, uint32_t rkey, uint64_t va, uint64_t len,
		    unsigned access);
/** urxe_mkey_remote - the entry behind an rkey; addresses are not checked. */
const struct urxe_mkey *urxe_mkey_remote(const struct urxe_qp *qp, const struct urxe_pd *pd,
					 uint32_t key, unsigned access);

/* ---- memory.c ---- */

/** urxe_memory_of_file - is all of it mapped from files, shared and writable? */
bool urxe_memory_of_file(const void *addr, uint64_t length);
/** urxe_memory_fault_in - have pages present (for writing); false: they cannot be. */
bool urxe_memory_fault_in(void *addr, uint64_t len, bool write);

/* ---- mr.c, dm.c, mw.c ---- */
struct ibv_mr *urxe_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *urxe_alloc_null_mr(struct ibv_pd *pd);
struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned int access);
struct ibv_mr *urxe_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access);
int urxe_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int urxe_dereg_mr(struct verbs_mr *vmr);
int urxe_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sges, uint32_t n);
struct ibv_dm *urxe_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
int urxe_free_dm(struct ibv_dm *dm);
struct ibv_mw *urxe_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int urxe_dealloc_mw(struct ibv_mw *mw);

/* ---- ah.c ---- */
struct ibv_ah *urxe_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int urxe_destroy_ah(struct ibv_ah *ah);
void urxe_ah_put(struct urxe_ah *ah);

/**
 * urxe_path_from_ah - a path for AH attributes. 0 or errno.
 * @ecn: enum urxe_ecn to send; URXE_ECN_NONE: that in the traffic class
 */
int urxe_path_from_ah(struct urxe_device *dev, const struct ibv_ah_attr *attr, uint16_t udp_sport,
		      uint8_t ecn, struct urxe_path **path);

#endif
