/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What `urxe bind` remembers of a device: a file of lines "key value", gone with the next boot as
 * the binding is. Programs read the MAC in it, `urxe unbind` loads the driver that it names: so it
 * must be root's.
 */
#include "netio/pci.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "urxe-pci"

/* Whoever could write the file could write everything below @run, or is root. */
static FILE *open_owned(const struct urxe_pci_roots *r, const char *path)
{
	struct stat run, st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return NULL;
	if (stat(r->run, &run) || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_mode & 022 ||
	    (st.st_uid && st.st_uid != run.st_uid)) {
		close(fd);
		return NULL;
	}
	return fdopen(fd, "r");
}

static void take_mac(struct urxe_pci_note *n, const char *v)
{
	n->has_mac = sscanf(v, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &n->mac[0], &n->mac[1],
			    &n->mac[2], &n->mac[3], &n->mac[4], &n->mac[5]) == 6;
}

bool urxe_pci_note_read(const struct urxe_pci_roots *r, const char *addr, struct urxe_pci_note *n)
{
	char path[PATH_MAX], line[128], key[16], value[32];
	FILE *f = open_owned(r, urxe_pci_path(path, r->run, FOLDER "/%s", addr));

	memset(n, 0, sizeof(*n));
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%15s %31s", key, value) != 2)
			continue;
		if (!strcmp(key, "driver"))
			snprintf(n->driver, sizeof(n->driver), "%s", value);
		else if (!strcmp(key, "interface"))
			snprintf(n->interface, sizeof(n->interface), "%s", value);
		else if (!strcmp(key, "up"))
			n->up = !strcmp(value, "yes");
		else if (!strcmp(key, "mac"))
			take_mac(n, value);
	}
	fclose(f);
	return true;
}

int urxe_pci_note_write(const struct urxe_pci_roots *r, const char *addr,
			const struct urxe_pci_note *n)
{
	char path[PATH_MAX];
	int fd, err = 0;
	FILE *f;

	if (mkdir(urxe_pci_path(path, r->run, FOLDER), 0755) && errno != EEXIST)
		return errno;
	urxe_pci_path(path, r->run, FOLDER "/%s", addr);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		return errno;
	if (n->driver[0])
		fprintf(f, "driver %s\n", n->driver);
	if (n->interface[0])
		fprintf(f, "interface %s\nup %s\n", n->interface, n->up ? "yes" : "no");
	if (n->has_mac)
		fprintf(f, "mac %02x:%02x:%02x:%02x:%02x:%02x\n", n->mac[0], n->mac[1], n->mac[2],
			n->mac[3], n->mac[4], n->mac[5]);
	if (fchmod(fd, 0644))
		err = errno;
	if (fclose(f))
		err = errno;
	return err;
}

void urxe_pci_note_remove(const struct urxe_pci_roots *r, const char *addr)
{
	char path[PATH_MAX];

	unlink(urxe_pci_path(path, r->run, FOLDER "/%s", addr));
}
