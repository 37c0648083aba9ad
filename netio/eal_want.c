/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the devices will need of DPDK's EAL, and whether the process may have it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "netio/devargs.h"
#include "netio/eal_want.h"
#include "urxe/lock.h"

#define BASE_MB	 32  /* of EAL itself */
#define FDS	 32  /* descriptors that its start takes, and some more */
#define SPARE_MB 256 /* of addresses, besides its memory: its drivers, its threads' stacks */

static struct {
	struct urxe_mutex lock;
	struct urxe_eal_wants all;
} want = {.lock = URXE_MUTEX_INIT, .all.mb = BASE_MB};

void urxe_eal_want(const struct urxe_port_config *cfg, uint32_t l3_mtu)
{
	struct urxe_eal_wants *w = &want.all;
	char pci[32];

	urxe_mutex_lock(&want.lock);
	w->mb += urxe_devargs_pool_mb(cfg, l3_mtu);
	w->plugins |= !urxe_devargs_kind(cfg->port)->linked;
	if (urxe_devargs_pci(cfg->port, pci, sizeof(pci))) {
		w->pci = true;
		if (w->allows < URXE_CONFIG_MAX_DEVICES)
			snprintf(w->allow[w->allows++], sizeof(w->allow[0]), "%s", pci);
	}
	urxe_mutex_unlock(&want.lock);
}

void urxe_eal_set_args(const char *args)
{
	urxe_mutex_lock(&want.lock);
	snprintf(want.all.args, sizeof(want.all.args), "%s", args);
	want.all.plugins |= args[0] != '\0'; /* -d, perhaps */
	urxe_mutex_unlock(&want.lock);
}

void urxe_eal_wants(struct urxe_eal_wants *out)
{
	urxe_mutex_lock(&want.lock);
	*out = want.all;
	urxe_mutex_unlock(&want.lock);
}

void urxe_eal_wants_set(const struct urxe_eal_wants *wants)
{
	urxe_mutex_lock(&want.lock);
	want.all = *wants;
	urxe_mutex_unlock(&want.lock);
}

int urxe_eal_room(char *err, size_t errlen)
{
	struct urxe_eal_wants w;
	int fds[FDS], ret = 0;
	unsigned n = 0;
	size_t size;
	void *p;

	while (n < FDS && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	if (n < FDS) {
		ret = errno;
		snprintf(err, errlen, "it needs %d descriptors, and there are %u (ulimit -n)", FDS,
			 n);
	}
	while (n)
		close(fds[--n]);
	if (ret)
		return ret;
	urxe_eal_wants(&w);
	size = ((size_t)w.mb + SPARE_MB) << 20;
	p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		ret = errno;
		snprintf(err, errlen, "it needs %zu MB of addresses (ulimit -v)", size >> 20);
		return ret;
	}
	munmap(p, size);
	return 0;
}
