/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to urxe run and urxe shell: the view, folders of /sys and /dev in which the devices stand
 * as a kernel driver's would. It is in mount namespaces of its own.
 */
#ifndef URXE_TOOL_VIEW_H
#define URXE_TOOL_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "netio/config.h"
#include "netio/port.h"

/** What the files say of a device. */
struct tool_view_device {
	const char *name;
	uint8_t guid[8];
	uint32_t mbps;
	bool active;
	struct urxe_gid_entry gids[URXE_PORT_MAX_GIDS]; /* as the GID table has them */
	bool has_gid[URXE_PORT_MAX_GIDS];
	char ifnames[URXE_PORT_MAX_GIDS][16]; /* the kernel's that has the address; "": none */
};

/**
 * tool_view_enter - have this process, and what it executes, see the devices of @cfg
 *
 * As its key "view" says: 0 also when the view is refused and not demanded, after a line on stderr.
 * Else the exit status and a line. The process keeps user, groups, capabilities and folder.
 */
int tool_view_enter(const struct urxe_config *cfg);

/** tool_view_flags - what unshare(2) is asked for; -1: this process would lose capabilities. */
int tool_view_flags(void);

/** tool_view_devices - what a configuration's devices are, before they start. *@devices is to be
 * freed. How many, or -1 and errno. */
int tool_view_devices(const struct urxe_config *cfg, struct tool_view_device **devices);

/** What a view depends on, and the file that names a process in one; see view_share.c. */
struct tool_view_share {
	int fd; /* -1: there is none, and each process has a view of its own */
	uint64_t around, content;
};

/** tool_view_share_open, tool_view_share_close - nobody else makes a view that would be shared,
 * until it is closed. */
void tool_view_share_open(struct tool_view_share *s, const struct tool_view_device *d, unsigned n);
void tool_view_share_close(struct tool_view_share *s);
/** tool_view_share_find - a pidfd of a process whose view can be joined, -1: there is none;
 * @inside: this process is in it already. */
int tool_view_share_find(const struct tool_view_share *s, bool *inside);
/** tool_view_share_put - this process is in such a view from now on. */
void tool_view_share_put(const struct tool_view_share *s);

/**
 * tool_view_folder - have the programs that this process executes see the devices by a library
 * @s: open; its lock is that of the folder
 * @first: the number of the first one's uverbs file
 *
 * 0, or a positive errno.
 */
int tool_view_folder(const struct tool_view_share *s, const struct tool_view_device *d, unsigned n,
		     unsigned first);

/** tool_view_rate - "10 Gb/sec (1X QDR)": as verbs have it of that many Mb/s. */
const char *tool_view_rate(uint32_t mbps);

/**
 * tool_view_tree - write the files of a device
 * @ib, @verbs: the folders that are /sys/class/infiniband and infiniband_verbs
 * @number: of its uverbs file
 *
 * 0, or -1 and errno.
 */
int tool_view_tree(const char *ib, const char *verbs, const struct tool_view_device *d,
		   unsigned number);

/** tool_view_is_ours - a view, and no driver of the kernel's, has this file or folder. */
bool tool_view_is_ours(const char *path);

/**
 * tool_view_cover - a copy of a folder that can be added to, in a mount namespace of one's own
 * @dir: the folder
 * @stage: another one, that is covered meanwhile
 * @classes: folders in @dir whose content is linked or bound entry by entry; ends with NULL
 * @fill: adds to it, in @stage, while @dir is as it was
 *
 * 0, or -1 and errno.
 */
int tool_view_cover(const char *dir, const char *stage, const char *const *classes,
		    int (*fill)(const char *stage, void *arg), void *arg);

#endif
