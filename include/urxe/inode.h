/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which file a descriptor has open, and a name leads to. Programs close all descriptors that they
 * find, and one of ours may have another file under its number then: that is not ours to use, nor
 * to close. (What is in no file system, but for pipes and sockets, is all one file: eventfd(2),
 * epoll(7) and others.)
 */
#ifndef URXE_INODE_H
#define URXE_INODE_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

/** A file, as long as somebody has it open. */
struct urxe_inode {
	dev_t dev;
	ino_t ino;
};

/** urxe_inode_of - the file that @fd has open, to @id. False, with errno: it has none. */
static inline bool urxe_inode_of(int fd, struct urxe_inode *id)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	*id = (struct urxe_inode){st.st_dev, st.st_ino};
	return true;
}

/** urxe_inode_in - has @fd this file open? -1: no. */
static inline bool urxe_inode_in(int fd, const struct urxe_inode *id)
{
	struct urxe_inode now;

	return fd >= 0 && urxe_inode_of(fd, &now) && now.dev == id->dev && now.ino == id->ino;
}

/** urxe_inode_at - does @name, in the folder @dir (as of openat(2)), lead to what @fd has open? A
 * symbolic link leads to itself. */
static inline bool urxe_inode_at(int dir, const char *name, int fd)
{
	struct urxe_inode id;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	id = (struct urxe_inode){st.st_dev, st.st_ino};
	return urxe_inode_in(fd, &id);
}

#endif
