/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The counters of the view. A file has the sum of all processes in it, of those that have ended
 * too, so each adds its own part, under a lock. A file is replaced, not written: who reads it finds
 * one number or the other, also when the writer is killed between the two.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "live.h"

#define MAX_COUNTERS 128
#define LAST_MS	     1000 /* for the lock, at the end */

static const char *const files[URXE_LIVE_NUM] = {
#define FILE_OF(e, folder, name) folder "/" name,
	URXE_LIVE_LIST(FILE_OF)
#undef FILE_OF
};

static uint64_t stat_of(const struct urxe_device *dev, enum urxe_stat s)
{
	return atomic_load_explicit(&dev->stats[s], memory_order_relaxed);
}

static void collect(struct urxe_device *dev, uint64_t v[URXE_LIVE_NUM])
{
	uint64_t port[MAX_COUNTERS] = {0};
	const char *const *names;

	urxe_port_counters(dev->port, &names, port, MAX_COUNTERS);
	/* In words of 32 bits (IBA 1.7 16.1.3.5). */
	v[URXE_LIVE_XMIT_DATA] = port[URXE_CNT_tx_bytes] / 4;
	v[URXE_LIVE_RCV_DATA] = port[URXE_CNT_rx_bytes] / 4;
	v[URXE_LIVE_SENT_PKTS] = v[URXE_LIVE_XMIT_PACKETS] = port[URXE_CNT_tx_packets];
	v[URXE_LIVE_RCVD_PKTS] = v[URXE_LIVE_RCV_PACKETS] = port[URXE_CNT_rx_packets];
	v[URXE_LIVE_RCV_ERRORS] = port[URXE_CNT_rx_short] + port[URXE_CNT_rx_ip_length] +
				  port[URXE_CNT_rx_ip_checksum] + port[URXE_CNT_rx_udp_length] +
				  port[URXE_CNT_rx_udp_checksum] + port[URXE_CNT_rx_roce_short] +
				  port[URXE_CNT_rx_icrc];
	v[URXE_LIVE_XMIT_DISCARDS] = port[URXE_CNT_tx_too_long] + port[URXE_CNT_tx_unreachable] +
				     port[URXE_CNT_tx_no_source] +
				     port[URXE_CNT_tx_control_dropped] +
				     port[URXE_CNT_tx_link_down];
	v[URXE_LIVE_ICRC] = port[URXE_CNT_rx_icrc];
	v[URXE_LIVE_DUPLICATE] = stat_of(dev, URXE_STAT_RX_DUPLICATE);
	v[URXE_LIVE_OUT_OF_SEQ] = stat_of(dev, URXE_STAT_RX_OUT_OF_SEQUENCE);
	v[URXE_LIVE_RCVD_RNR] = stat_of(dev, URXE_STAT_RX_RNR_NAK);
	v[URXE_LIVE_SEND_RNR] = stat_of(dev, URXE_STAT_TX_RNR_NAK);
	v[URXE_LIVE_RETRY] = stat_of(dev, URXE_STAT_RETRANSMITS);
	v[URXE_LIVE_TIMEOUT] = stat_of(dev, URXE_STAT_TIMEOUTS);
	v[URXE_LIVE_ECN_MARKED] = stat_of(dev, URXE_STAT_RX_ECN_MARKED);
	v[URXE_LIVE_CNP_HANDLED] = stat_of(dev, URXE_STAT_RX_CNP);
}

static bool add_to(int folder, const char *file, uint64_t n)
{
	char text[32] = "", fresh[] = URXE_LIVE_LOCK ".new";
	int fd = openat(folder, file, O_RDONLY | O_CLOEXEC), len;
	bool done;

	if (fd < 0)
		return false;
	done = read(fd, text, sizeof(text) - 1) > 0;
	close(fd);
	if (!done)
		return false;
	n += strtoull(text, NULL, 10);
	len = snprintf(text, sizeof(text), "%" PRIu64 "\n", n);
	/* One that was killed may have left it. */
	fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	done = write(fd, text, (size_t)len) == len;
	close(fd);
	return done && !renameat(folder, fresh, folder, file);
}

/* A path below /sys: where the view has it. */
static void place(const char *path, char *buf, size_t len)
{
	const char *root = getenv(URXE_LIVE_ROOT);

	snprintf(buf, len, "%s%s", root ? root : "", path);
}

/* The kernel's own is no folder that files are made in. */
bool urxe_live_view(void)
{
	struct statfs s;

	return getenv(URXE_LIVE_ROOT) ||
	       (!statfs("/sys/class/infiniband", &s) && s.f_type == TMPFS_MAGIC);
}

/* False: somebody else has it. */
static bool lock_counters(int fd, bool last)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (unsigned ms = 0; flock(fd, LOCK_EX | LOCK_NB); ms++) {
		if (!last || ms == LAST_MS)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

void urxe_live_add(struct urxe_device *dev, bool last)
{
	uint64_t now[URXE_LIVE_NUM] = {0};
	char path[128], at[512];
	int folder, lock;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", dev->cfg.name);
	place(path, at, sizeof(at));
	folder = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return;
	lock = openat(folder, URXE_LIVE_LOCK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (lock >= 0 && lock_counters(lock, last)) {
		collect(dev, now);
		for (unsigned i = 0; i < URXE_LIVE_NUM; i++) {
			if (now[i] > dev->live[i] &&
			    add_to(folder, files[i], now[i] - dev->live[i]))
				dev->live[i] = now[i];
		}
	}
	if (lock >= 0)
		close(lock);
	close(folder);
}
