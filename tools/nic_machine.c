/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What `urxe bind` does to the machine that it runs on.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nic.h"

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;
	size_t len = strlen(text);

	if (fd < 0)
		return errno;
	if (write(fd, text, len) != (ssize_t)len)
		err = errno;
	close(fd);
	return err;
}

/* root's PATH may lack sbin. */
static int run(const char *program, char **argv)
{
	static const char *const folders[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
	int status, err = ENOENT;
	char path[64];
	pid_t pid;

	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]) && err == ENOENT; i++) {
		snprintf(path, sizeof(path), "%s/%s", folders[i], program);
		err = posix_spawn(&pid, path, NULL, NULL, argv, environ);
	}
	if (err)
		return err;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return status ? EIO : 0;
}

static int load(const char *module)
{
	char name[256];

	snprintf(name, sizeof(name), "%s", module);
	return run("modprobe", (char *[]){"modprobe", "-q", "--", name, NULL});
}

static void settle(void)
{
	run("udevadm", (char *[]){"udevadm", "settle", "--timeout=5", NULL});
}

static int set_up(const char *interface, bool up)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	struct ifreq ifr;

	if (fd < 0)
		return errno;
	memset(&ifr, 0, sizeof(ifr));
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%.*s", IFNAMSIZ - 1, interface);
	if (ioctl(fd, SIOCGIFFLAGS, &ifr)) {
		err = errno;
	} else {
		ifr.ifr_flags = (short)(up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
		if (ioctl(fd, SIOCSIFFLAGS, &ifr))
			err = errno;
	}
	close(fd);
	return err;
}

static void tell(const char *line)
{
	printf("%s\n", line);
}

static const struct nic_ops ops = {
	.write = write_file, .load = load, .set_up = set_up, .settle = settle, .tell = tell};

struct nic_host nic_machine(void)
{
	return (struct nic_host){
		.roots = &urxe_pci_machine, .ops = &ops, .pmds = URXE_PMDS, .root = !geteuid()};
}
