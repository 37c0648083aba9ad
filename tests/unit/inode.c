/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whether a number is still a descriptor of the same file (urxe/inode.h).
 */
#include "urxe/inode.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static char dir[] = "/tmp/urxe-ut-XXXXXX";

static void descriptors(void)
{
	int a[2] = {-1, -1}, b[2] = {-1, -1}, twin;
	struct urxe_inode id = {0};

	CU_ASSERT_FATAL(!pipe(a) && !pipe(b));
	CU_ASSERT(urxe_inode_of(a[0], &id));
	CU_ASSERT(urxe_inode_in(a[0], &id) && urxe_inode_in(a[1], &id));
	CU_ASSERT(!urxe_inode_in(b[0], &id) && !urxe_inode_in(-1, &id));
	twin = dup(a[0]);
	CU_ASSERT(urxe_inode_in(twin, &id));
	/* Another file under its number, or none. */
	CU_ASSERT_EQUAL(dup2(b[0], twin), twin);
	CU_ASSERT(!urxe_inode_in(twin, &id));
	close(twin);
	CU_ASSERT(!urxe_inode_in(twin, &id) && !urxe_inode_of(twin, &id));
	for (unsigned i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
}

static void names(void)
{
	int at, f;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	at = open(dir, O_PATH);
	f = openat(at, "f", O_CREAT | O_RDWR, 0600);
	CU_ASSERT_FATAL(at >= 0 && f >= 0);
	CU_ASSERT(urxe_inode_at(at, "f", f) && urxe_inode_at(AT_FDCWD, dir, at));
	CU_ASSERT(!urxe_inode_at(at, "g", f) && !urxe_inode_at(at, "f", at));
	CU_ASSERT_EQUAL(symlinkat("f", at, "g"), 0);
	CU_ASSERT(!urxe_inode_at(at, "g", f));
	/* What has taken its name is another one. */
	CU_ASSERT_EQUAL(renameat(at, "g", at, "f"), 0);
	CU_ASSERT(!urxe_inode_at(at, "f", f));
	unlinkat(at, "f", 0);
	CU_ASSERT(!urxe_inode_at(at, "f", f));
	close(f);
	close(at);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

URXE_TEST_MAIN("inode", T(descriptors), T(names))
