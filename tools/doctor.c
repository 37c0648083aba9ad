/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe doctor: what this machine has of what urxe uses, a line each, and the command that gives
 * what is missing.
 */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "netio/fabric.h"
#include "netio/udp_holder.h"
#include "nic.h"
#include "provider/status_path.h"
#include "tool.h"
#include "urxe/owner.h"
#include "view.h"

const char tool_doctor_usage[] =
	"usage: urxe doctor [PROGRAM]\n"
	"\n"
	"Shows whether this machine, and PROGRAM (a path, or a name that is looked for in PATH),\n"
	"can use urxe, and the command that gives what is missing. Exit status 1: something is "
	"missing that urxe cannot be without.\n";

static long number_after(const char *path, const char *word)
{
	char line[256];
	long n = -1;
	FILE *f = fopen(path, "re");

	while (f && n < 0 && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, word, strlen(word)))
			n = strtol(line + strlen(word), NULL, 10);
	}
	if (f)
		fclose(f);
	return n;
}

void doctor_find(struct finding *f, enum verdict v, const char *command, const char *fmt, ...)
{
	va_list ap;

	f->verdict = v;
	f->command = v == OK ? NULL : command;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

static void libraries(struct finding *f)
{
	struct tool_places p;
	bool found = !tool_places_find(&p);

	doctor_find(f, found ? OK : MISSING, "meson install -C build", "%s",
		    found ? p.provider : "no liburxe-rdmav34.so near this command");
}

/* The file behind the link has the version in its name. */
static void version_of(struct finding *f, const char *pattern, enum verdict without,
		       const char *command)
{
	glob_t all = {0};
	char *real = NULL;

	if (!glob(pattern, GLOB_BRACE, NULL, &all))
		real = realpath(all.gl_pathv[0], NULL);
	doctor_find(f, real ? OK : without, command, "%s",
		    real ? strrchr(real, '/') + 1 : "not found");
	free(real);
	globfree(&all);
}

static void rdma_core(struct finding *f)
{
	version_of(f, "/usr/lib*/{,*/}libibverbs.so.1", MISSING,
		   "apt install libibverbs1 librdmacm1");
}

bool doctor_has_rdma(const char *dir, char *name, size_t len)
{
	static const char *const all[] = {"libibverbs.so.1", "librdmacm.so.1"};

	for (size_t i = 0; *dir && i < sizeof(all) / sizeof(all[0]); i++) {
		if (snprintf(name, len, "%s/%s", dir, all[i]) < (int)len && !access(name, F_OK))
			return true;
	}
	return false;
}

/*
 * `urxe run` puts its own folder first. A program, or a script around it, that sets the variable
 * itself loads the libraries that are found here.
 */
static void environment(struct finding *f)
{
	const char *path = getenv("LD_LIBRARY_PATH");
	char *all = path && *path ? strdup(path) : NULL, *rest = all, *dir;
	char name[PATH_MAX], real[PATH_MAX];
	struct tool_places p;

	doctor_find(f, OK, NULL, "LD_LIBRARY_PATH %s", all ? "has no RDMA library" : "is not set");
	if (tool_places_find(&p))
		p.dropin[0] = '\0';
	while (rest && (dir = strsep(&rest, ":"))) {
		if (!doctor_has_rdma(dir, name, sizeof(name)))
			continue;
		if (realpath(dir, real) && !strcmp(real, p.dropin))
			doctor_find(f, OK, NULL, "LD_LIBRARY_PATH begins with urxe's");
		else
			doctor_find(f, NOTE, "unset LD_LIBRARY_PATH", "LD_LIBRARY_PATH has %s",
				    name);
		break;
	}
	free(all);
}

static void dpdk(struct finding *f)
{
	version_of(f, "/usr/lib*/{,*/}librte_eal.so.*", NOTE, "apt install dpdk");
}

static void namespaces(struct finding *f)
{
	int flags = tool_view_flags(), status = 1;
	pid_t pid;

	if (flags < 0) {
		doctor_find(
			f, NOTE, NULL,
			"capabilities without CAP_SYS_ADMIN: /sys and /dev are seen by LD_PRELOAD");
		return;
	}
	/* AppArmor lets them make the namespace, and then nothing be mounted in it. */
	pid = fork();
	if (!pid)
		_exit(unshare(flags) || mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) ? errno
											  : 0);
	if (pid > 0)
		waitpid(pid, &status, 0);
	status = pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
	doctor_find(f, status ? NOTE : OK,
		    status == ENOSPC ? "sysctl user.max_user_namespaces=10000"
				     : "sysctl kernel.unprivileged_userns_clone=1",
		    status ? "%s: /sys and /dev are seen by LD_PRELOAD" : "can be made%s",
		    status ? strerror(status) : "");
}

/* Somebody else may have made it, where everybody can: in /tmp. */
static bool is_not_ours(const char *dir, char *why, size_t len)
{
	struct stat st;

	if (urxe_owner_has_dir(dir, &st) || (!st.st_mode && errno == ENOENT))
		return false;
	if (st.st_mode)
		urxe_owner_objection(dir, &st, why, len);
	else
		snprintf(why, len, "%s cannot be seen (%s)", dir, strerror(errno));
	return true;
}

/* Where this user's programs meet, unless a port names another folder, and where they answer. */
static void folders(struct finding *f)
{
	const struct urxe_fabric_spec fabric = {.dir = ""};
	char meet[PATH_MAX], answer[256], why[PATH_MAX];

	if (urxe_fabric_spec_dir(&fabric, meet, sizeof(meet))) {
		doctor_find(f, MISSING, "export XDG_RUNTIME_DIR=$(mktemp -d)",
			    "XDG_RUNTIME_DIR is too long a name");
		return;
	}
	*strrchr(meet, '/') = '\0';
	if (is_not_ours(meet, why, sizeof(why)))
		doctor_find(f, MISSING, "export XDG_RUNTIME_DIR=$(mktemp -d)",
			    "%s: programs cannot meet there", why);
	else if (!urxe_status_dir(answer, sizeof(answer)) && is_not_ours(answer, why, sizeof(why)))
		doctor_find(f, NOTE, "export URXE_STATUS_DIR=$(mktemp -d)",
			    "%s: no answer to `urxe status`", why);
	else
		doctor_find(f, OK, NULL, "programs meet in %s", meet);
}

static void shared_memory(struct finding *f)
{
	struct statvfs s;
	bool there = !statvfs("/dev/shm", &s);
	unsigned long long mb = there ? (unsigned long long)s.f_bavail * s.f_frsize >> 20 : 0;

	doctor_find(f, mb < 64 ? NOTE : OK, "mount -o remount,size=1G /dev/shm", "%llu MB free",
		    mb);
}

static void memlock(struct finding *f)
{
	struct rlimit r = {0};

	getrlimit(RLIMIT_MEMLOCK, &r);
	if (r.rlim_cur == RLIM_INFINITY)
		doctor_find(f, OK, NULL, "unlimited");
	else
		doctor_find(f, OK, NULL, "%llu kB; a card by vfio-pci needs more (ulimit -l)",
			    (unsigned long long)r.rlim_cur >> 10);
}

static void kernel_rdma(struct finding *f)
{
	bool rxe = !access("/sys/module/rdma_rxe", F_OK);

	doctor_find(f, rxe ? NOTE : OK, "modprobe -r rdma_rxe", "%s",
		    rxe ? "rdma_rxe is loaded: it has UDP port 4791 of the kernel's addresses"
			: "no rdma_rxe");
}

static void roce_port(struct finding *f)
{
	struct urxe_udp_holder h;

	if (!urxe_udp_holder(&h))
		doctor_find(f, OK, NULL, "free");
	else if (h.kernel)
		doctor_find(f, NOTE, "modprobe -r rdma_rxe",
			    "the kernel has it: no port udp and no urxed at its addresses");
	else if (h.pid)
		doctor_find(f, !strcmp(h.comm, "urxed") ? OK : NOTE, "ss -ulnp sport = 4791",
			    "process %d (%s) has it", (int)h.pid, h.comm);
	else
		doctor_find(f, NOTE, "sudo ss -ulnp sport = 4791", "a process of user %s has it",
			    h.user);
}

static void hugepages(struct finding *f)
{
	long n = number_after("/proc/meminfo", "HugePages_Free:");

	doctor_find(f, n > 0 ? OK : NOTE, "sysctl vm.nr_hugepages=64",
		    n > 0 ? "%ld free" : "none (%ld): for cards by uio, and of virtio by vfio",
		    n > 0 ? n : 0);
}

static void cards(struct finding *f)
{
	bool vfio = !access("/sys/bus/pci/drivers/vfio-pci", F_OK);

	doctor_find(f, vfio ? OK : NOTE, "modprobe vfio-pci", "%s",
		    vfio ? "vfio-pci is there; urxe bind --list has the cards"
			 : "no vfio-pci: no network card by DPDK");
}

static const struct {
	const char *name;
	void (*look)(struct finding *f);
} looks[] = {
	/* what each program needs */
	{"urxe", libraries},
	{"rdma-core", rdma_core},
	{"environment", environment},
	{"DPDK", dpdk},
	{"namespaces", namespaces},
	{"folders", folders},
	/* what some ports and peers need */
	{"/dev/shm", shared_memory},
	{"memlock", memlock},
	{"kernel RDMA", kernel_rdma},
	{"UDP 4791", roce_port},
	{"hugepages", hugepages},
	{"cards", cards},
};

static void show(const char *name, const struct finding *f)
{
	static const char *const words[] = {"ok", "note", "MISSING"};

	printf("%-12s %-8s %s\n", name, words[f->verdict], f->text);
	if (f->command)
		printf("%-12s %-8s -> %s\n", "", "", f->command);
}

/* ---- network cards ---- */

static const char *interface_of(const struct nic *n)
{
	return n->pci.num_nets ? n->pci.nets[0].name : "no interface";
}

/* A card, and what gives it to urxe. */
static int show_card(const char *addr, void *arg)
{
	const struct nic_host *h = arg;
	char command[64];
	struct finding f;
	struct urxe_pci p;
	struct nic n;

	if (urxe_pci_inspect(h->roots, addr, &p) || !urxe_pci_is_nic(&p) || nic_look(h, addr, &n))
		return 0;
	snprintf(command, sizeof(command), "urxe bind %s", addr);
	doctor_find(&f, n.use == NIC_READY ? OK : NOTE, n.use == NIC_BINDABLE ? command : NULL,
		    "%s (%s): %s", addr, interface_of(&n),
		    n.remark[0] && n.use != NIC_BINDABLE ? n.remark : nic_use_names[n.use]);
	show("card", &f);
	return 0;
}

int tool_doctor(int argc, char **argv)
{
	static const struct option options[] = {{NULL, 0, NULL, 0}};
	struct nic_host nic = nic_machine();
	struct finding f;
	bool missing = false;

	while (tool_option(argc, argv, false, options, tool_doctor_usage) != -1)
		;
	if (optind + 1 < argc)
		return tool_fail("doctor: found '%s', accepted: one PROGRAM", argv[optind + 1]);
	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
		looks[i].look(&f);
		show(looks[i].name, &f);
		missing |= f.verdict == MISSING;
	}
	urxe_pci_each(nic.roots, show_card, &nic); /* a machine without PCI has none */
	if (argv[optind]) {
		doctor_program(&f, argv[optind]);
		show("program", &f);
		missing |= f.verdict == MISSING;
	}
	return tool_flush() || missing ? 1 : 0;
}
