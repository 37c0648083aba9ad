/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * PCI devices as the kernel shows them, what is said of those that DPDK cannot have, urxe bind.
 */
#include "harness.h"
#include "pci_machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netio/config.h"
#include "netio/link.h"
#include "netio/port.h"

#define A   "0000:03:00.0"
#define B   "0000:03:00.1"
#define NIC "0x020000"
#define MB  26

static struct machine m;
static char err[512];

static void says(const char *text)
{
	if (!strstr(err, text))
		printf("\n  '%s' is not in '%s'\n", text, err);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, text));
	CU_ASSERT_PTR_NULL(strchr(err, '\n'));
}

static void told(const char *text)
{
	if (!strstr(machine_told, text))
		printf("\n  '%s' is not in '%s'\n", text, machine_told);
	CU_ASSERT_PTR_NOT_NULL(strstr(machine_told, text));
}

static int bind(const struct nic_request *req)
{
	err[0] = machine_told[0] = '\0';
	return nic_bind(&m.host, req, err, sizeof(err));
}

static int bind_a(void)
{
	return bind(&(struct nic_request){.addrs = (char *[]){A, NULL}, .hugepages = -1});
}

static int bind_a_to(const char *driver)
{
	return bind(&(struct nic_request){
		.addrs = (char *[]){A, NULL}, .driver = driver, .hugepages = -1});
}

static int force_a(void)
{
	return bind(&(struct nic_request){
		.addrs = (char *[]){A, NULL}, .force = true, .hugepages = -1});
}

static int unbind_a(void)
{
	err[0] = machine_told[0] = '\0';
	return nic_unbind(&m.host, &(struct nic_request){.addrs = (char *[]){A, NULL}}, err,
			  sizeof(err));
}

static int ready(void)
{
	err[0] = '\0';
	return urxe_pci_ready(&m.roots, A, MB, err, sizeof(err));
}

static void uio_card(const char *group)
{
	machine_card(&m, A, NIC, NULL, NULL, group);
	machine_file(&m, "sys/bus/pci/devices/" A "/uio/uio0/x", "x");
	machine_file(&m, "dev/uio0", "x");
	machine_link(&m, "sys/bus/pci/devices/" A "/driver", "../drivers/uio_pci_generic");
}

static void vfio_card(const char *group)
{
	machine_card(&m, A, NIC, NULL, NULL, group);
	machine_link(&m, "sys/bus/pci/devices/" A "/driver", "../drivers/vfio-pci");
}

/* ---- what the kernel says ---- */

static void inspect(void)
{
	static const uint8_t mac[6] = {0, 0x1b, 0x21, 0, 0, 0};
	struct urxe_pci p;

	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	CU_ASSERT_EQUAL(urxe_pci_inspect(&m.roots, A, &p), 0);
	CU_ASSERT(urxe_pci_is_nic(&p));
	CU_ASSERT(p.vendor == 0x8086 && p.device == 0x10d3 && p.kind == URXE_PCI_KERNEL);
	CU_ASSERT_STRING_EQUAL(p.driver, "e1000e");
	CU_ASSERT_STRING_EQUAL(p.group, "12");
	CU_ASSERT(p.translated && !p.noiommu);
	CU_ASSERT_EQUAL_FATAL(p.num_nets, 1);
	CU_ASSERT_STRING_EQUAL(p.nets[0].name, "eth1");
	CU_ASSERT(p.nets[0].up && p.nets[0].carrier && p.nets[0].own_mac);
	CU_ASSERT_EQUAL(memcmp(p.nets[0].mac, mac, 6), 0);
	CU_ASSERT_EQUAL(urxe_pci_inspect(&m.roots, B, &p), ENODEV);
	/* virtio's interface is one folder further down. */
	machine_card(&m, B, NIC, "virtio-pci", NULL, NULL);
	machine_file(&m, "sys/bus/pci/devices/" B "/virtio3/net/ens4/flags", "0x1002");
	CU_ASSERT_EQUAL(urxe_pci_inspect(&m.roots, B, &p), 0);
	CU_ASSERT_EQUAL_FATAL(p.num_nets, 1);
	CU_ASSERT_STRING_EQUAL(p.nets[0].name, "ens4");
	CU_ASSERT(!p.nets[0].up && !p.nets[0].own_mac && !p.group[0]);
	machine_remove(&m);
}

/* The MAC, and so the node GUID, before anything is started. */
static void mac_known(void)
{
	static const uint8_t mac[6] = {0, 0x1b, 0x21, 0, 0, 0};
	uint8_t got[6];

	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	CU_ASSERT(urxe_pci_mac(&m.roots, A, got) && !memcmp(got, mac, 6));
	/* urxe bind takes the interface away, and remembers. */
	CU_ASSERT_EQUAL(bind_a(), 0);
	memset(got, 0, 6);
	CU_ASSERT(urxe_pci_mac(&m.roots, A, got) && !memcmp(got, mac, 6));
	/* What anybody may write is not believed. */
	CU_ASSERT_EQUAL(chmod((snprintf(err, sizeof(err), "%s/run/urxe-pci/" A, m.dir), err), 0666),
			0);
	CU_ASSERT_FALSE(urxe_pci_mac(&m.roots, A, got));
	CU_ASSERT_EQUAL(chmod(err, 0644), 0);
	CU_ASSERT_EQUAL(unbind_a(), 0);
	/* One that somebody has set is not the card's. */
	machine_file(&m, "sys/bus/pci/devices/" A "/net/eth1/addr_assign_type", "3\n");
	CU_ASSERT_FALSE(urxe_pci_mac(&m.roots, A, got));
	CU_ASSERT_FALSE(urxe_pci_mac(&m.roots, B, got));
	machine_remove(&m);
}

static bool some_mac(void *arg, const struct urxe_port_config *cfg, uint8_t mac[6])
{
	static const uint8_t its[6] = {0, 0x1b, 0x21, 1, 2, 3};

	memcpy(mac, its, 6);
	return *(bool *)arg;
}

static void port_has_it(void)
{
	struct urxe_link_ops ops = urxe_link_loop_ops;
	struct urxe_port_config cfg = {
		.name = "urxe0", .port = A, .mtu = 1500, .mac = {2, 0, 0, 0, 0, 7}};
	struct urxe_port_info info;
	struct urxe_port *port;

	ops.mac = some_mac;
	for (unsigned i = 0; i < 3; i++) {
		bool known = i > 0;

		cfg.has_mac = i == 2;
		CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &ops, &known), 0);
		urxe_port_query(port, &info);
		CU_ASSERT_EQUAL(info.mac[5] == 3, i == 1);
		CU_ASSERT_EQUAL(info.mac[5] == 7 && info.mac[0] == 2, i == 2);
		urxe_port_destroy(port);
	}
}

/* ---- what is in DPDK's way ---- */

static void not_bound(void)
{
	machine_make(&m);
	CU_ASSERT_EQUAL(ready(), ENODEV);
	says("there is no PCI device " A ": run 'urxe bind --list'");
	machine_card(&m, A, "0x060000", NULL, NULL, NULL);
	CU_ASSERT_EQUAL(ready(), ENODEV);
	says(A " is no network card: run 'urxe bind --list'");
	machine_card(&m, A, NIC, NULL, NULL, NULL);
	CU_ASSERT_EQUAL(ready(), ENODEV);
	says(A " is bound to no driver: run 'urxe bind " A "'");
	machine_card(&m, A, NIC, "e1000e", "eth1", NULL);
	CU_ASSERT_EQUAL(ready(), EBUSY);
	says(A " is bound to the kernel driver e1000e: run 'urxe bind " A "'");
	machine_card(&m, A, NIC, "mlx5_core", "eth1", NULL);
	CU_ASSERT_EQUAL(ready(), 0);
	machine_remove(&m);
}

/* As nobody, where we are root. False: we cannot. */
static bool become(uid_t uid)
{
	return !geteuid() || !uid ? !seteuid(uid) : true;
}

static void uio(void)
{
	machine_make(&m);
	uio_card(NULL);
	if (become(65534)) {
		CU_ASSERT_EQUAL(ready(), EPERM);
		says(A " on uio_pci_generic is for root: run as root");
		CU_ASSERT(!getuid() ? become(0) : true);
	}
	if (geteuid()) {
		machine_remove(&m);
		return urxe_harness_skip("uio needs root");
	}
	CU_ASSERT_EQUAL(ready(), ENOMEM);
	says(A " on uio_pci_generic needs hugepages: run 'echo 64 > ");
	CU_ASSERT_PTR_NULL(strstr(err, "vfio-pci"));
	machine_file(&m, "proc/sys/vm/nr_hugepages", "64\n");
	CU_ASSERT_EQUAL(ready(), 0);
	machine_remove(&m);

	machine_make(&m);
	uio_card("12");
	CU_ASSERT_EQUAL(ready(), ENOMEM);
	says(", or bind it to vfio-pci");
	machine_file(&m, "proc/sys/vm/nr_hugepages", "64\n");
	CU_ASSERT_EQUAL(ready(), EIO);
	says("as the IOMMU is on: run 'urxe bind --driver vfio-pci " A "'");
	machine_file(&m, "sys/kernel/iommu_groups/12/type", "identity\n");
	CU_ASSERT_EQUAL(ready(), 0);
	machine_remove(&m);
}

static void vfio(void)
{
	machine_make(&m);
	vfio_card("12");
	CU_ASSERT_EQUAL(ready(), 0); /* without hugepages */
	machine_faults.vfio = EPERM;
	CU_ASSERT_EQUAL(ready(), EPERM);
	says("cannot remap");
	says("/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts'");
	machine_faults.vfio = EBUSY;
	CU_ASSERT_EQUAL(ready(), EBUSY);
	says(A " is in use by another process: run 'fuser -v ");
	machine_link(&m, "proc/4711/fd/3", (snprintf(err, sizeof(err), "%s/vfio/12", m.dev), err));
	machine_file(&m, "proc/4711/comm", "rping\n");
	CU_ASSERT_EQUAL(ready(), EBUSY);
	says(A " is in use by process 4711 (rping): end it first");
	machine_faults.vfio = EXDEV;
	CU_ASSERT_EQUAL(ready(), EXDEV);
	says("until no device of IOMMU group 12 has a driver");
	machine_faults.vfio = EINVAL;
	CU_ASSERT_EQUAL(ready(), EINVAL);
	says("run 'modprobe vfio_iommu_type1'");
	machine_faults.vfio = EIO;
	CU_ASSERT_EQUAL(ready(), EIO);
	says("VFIO refuses " A " (Input/output error): run 'dmesg");
	machine_card(&m, B, NIC, "e1000e", "eth2", "12");
	CU_ASSERT_EQUAL(ready(), EBUSY);
	says(A " shares IOMMU group 12 with " B " (e1000e)");
	machine_remove(&m);
}

/* Behind an IOMMU the other end of such a card may take two pages of ours for one. */
static void virtio(void)
{
	machine_make(&m);
	vfio_card("12");
	machine_file(&m, "sys/bus/pci/devices/" A "/vendor", "0x1af4\n");
	CU_ASSERT_EQUAL(ready(), ENOMEM);
	says(A " is a card of virtio behind an IOMMU, and needs hugepages");
	says("run 'echo 64 > ");
	machine_file(&m, "proc/sys/vm/nr_hugepages", "64\n");
	CU_ASSERT_EQUAL(ready(), 0);
	machine_remove(&m);

	machine_make(&m);
	machine_card(&m, A, NIC, "virtio-pci", "eth1", "12");
	machine_file(&m, "sys/bus/pci/devices/" A "/vendor", "0x1af4\n");
	CU_ASSERT_EQUAL(bind_a(), 0);
	told("reserved 64 hugepages");
	told(A ": bound to vfio-pci, was virtio-pci");
	CU_ASSERT_EQUAL(ready(), 0);
	machine_remove(&m);
}

static void vfio_permission(void)
{
	char path[128];

	machine_make(&m);
	vfio_card("12");
	snprintf(path, sizeof(path), "%s/vfio/12", m.dev);
	CU_ASSERT_EQUAL(chmod(path, 0600), 0);
	CU_ASSERT_EQUAL(chmod((snprintf(err, sizeof(err), "%s/vfio/vfio", m.dev), err), 0666), 0);
	if (!geteuid() && become(65534)) {
		CU_ASSERT_EQUAL(ready(), EACCES);
		says("no permission for ");
		says("run 'chown 65534 ");
		CU_ASSERT(become(0));
	}
	unlink(path);
	CU_ASSERT_EQUAL(ready(), ENODEV);
	says("in a container, start it with '--device ");
	machine_file(&m, "dev/vfio/12", "x");
	machine_file(&m, "proc/self/limits", "Max locked memory  8388608  8388608  bytes\n");
	CU_ASSERT_EQUAL(ready(), ENOMEM);
	says("needs more than 26 MiB of locked memory, the limit is 8: run 'ulimit -l unlimited'");
	machine_file(&m, "proc/self/limits", "Max locked memory  unlimited  unlimited  bytes\n");
	CU_ASSERT_EQUAL(ready(), 0);
	machine_file(&m, "proc/self/limits", "Max locked memory  8388608  8388608  bytes\n");
	machine_file(&m, "proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
	CU_ASSERT_EQUAL(ready(), 0);
	/* Without an IOMMU behind it, it is as uio. */
	machine_file(&m, "sys/kernel/iommu_groups/12/name", "vfio-noiommu\n");
	CU_ASSERT_EQUAL(ready(), geteuid() ? EPERM : ENOMEM);
	machine_remove(&m);
}

/* ---- list ---- */

static void pmd(const char *ids)
{
	machine_file(&m, "pmds/librte_net_x.so.23",
		     "ELF..PMD_INFO_STRING= {\"name\": \"net_x\", \"kmod\": \"* vfio-pci\", "
		     "\"pci_ids\": [%s]}",
		     ids);
}

static void look(enum nic_use use, const char *remark)
{
	struct nic n;

	CU_ASSERT_EQUAL(nic_look(&m.host, A, &n), 0);
	CU_ASSERT_STRING_EQUAL(nic_use_names[n.use], nic_use_names[use]);
	snprintf(err, sizeof(err), "%s", n.remark);
	says(remark);
}

static void list(void)
{
	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	look(NIC_BINDABLE, "urxe bind " A); /* no PMD was there to be asked */
	pmd("[5549, 1968, 65535, 65535]");
	look(NIC_NO_PMD, "no driver");
	pmd("[5549, 1968, 65535, 65535], [32902, 4307, 65535, 65535]");
	look(NIC_BINDABLE, "urxe bind " A);
	machine_file(&m, "proc/net/route",
		     "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
		     "eth1\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
	look(NIC_ROUTE, "--force");
	CU_ASSERT_EQUAL(force_a(), 0);
	look(NIC_READY, "");
	machine_link(&m, "proc/4711/fd/3", (snprintf(err, sizeof(err), "%s/vfio/12", m.dev), err));
	machine_file(&m, "proc/4711/comm", "rping\n");
	look(NIC_BUSY, "in use by process 4711 (rping)");
	machine_card(&m, A, NIC, "mlx5_core", "eth1", "12");
	look(NIC_READY, "needs no binding");
	machine_remove(&m);
}

/* ---- bind ---- */

static void refuses(void)
{
	machine_make(&m);
	CU_ASSERT_EQUAL(bind_a(), ENODEV);
	says("there is no PCI device " A);
	machine_card(&m, A, "0x010601", "ahci", NULL, NULL);
	CU_ASSERT_EQUAL(bind_a(), EINVAL);
	says(A " is no network card (class 0x010601)");
	machine_card(&m, A, NIC, "e1000e", NULL, NULL);
	CU_ASSERT_EQUAL(bind_a(), EBUSY);
	says("network namespace");
	machine_card(&m, A, NIC, "e1000e", "eth1", NULL);
	m.host.root = false;
	CU_ASSERT_EQUAL(bind_a(), EPERM);
	says("only root");
	m.host.root = true;
	CU_ASSERT_EQUAL(bind_a_to("vfio-pci"), ENOTSUP);
	says("has no IOMMU, which vfio-pci needs");
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	CU_ASSERT_EQUAL(bind_a_to("uio_pci_generic"), ENOTSUP);
	says("as the IOMMU is on: run 'urxe bind --driver vfio-pci " A "'");
	machine_faults.no_module = "vfio-pci";
	CU_ASSERT_EQUAL(bind_a(), ENOENT);
	says("does not load vfio-pci");
	/* Nothing was touched. */
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "e1000e");
	CU_ASSERT_FALSE(machine_has(&m, "run/urxe-pci/" A));
	CU_ASSERT_STRING_EQUAL(machine_told, "");
	machine_remove(&m);
}

static void default_route(void)
{
	static const char *const files[] = {"proc/net/route", "proc/net/ipv6_route"};
	static const char *const routes[][2] = {
		{"eth1\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
		 "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
		 "fe800000000000000000000000000001 00000400 00000002 00000000 00000003     eth1\n"},
		{"vlan5\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", ""},
		/* Another's, and ones that are no default: a net, halves of the Internet. */
		{"eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
		 "eth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
		 "eth1\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000080\t0\t0\t0\n",
		 "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 "
		 "00000000000000000000000000000000 00000400 00000002 00000000 00000003     eth1\n"
		 "00000000000000000000000000000000 01 00000000000000000000000000000000 00 "
		 "00000000000000000000000000000000 00000400 00000002 00000000 00000003     eth1\n"},
	};

	for (unsigned i = 0; i < 4; i++) {
		machine_make(&m);
		machine_card(&m, A, NIC, "e1000e", "eth1", "12");
		/* bond0 on eth1, vlan5 on bond0 */
		machine_link(&m, "sys/class/net/eth1/upper_bond0", "../bond0");
		machine_link(&m, "sys/class/net/bond0/upper_vlan5", "../vlan5");
		if (i < 2)
			machine_file(&m, files[i], "%s", routes[0][i]);
		else
			for (unsigned v6 = 0; v6 < 2; v6++)
				machine_file(&m, files[v6], "%s", routes[i - 1][v6]);
		if (i == 3) {
			CU_ASSERT_EQUAL(bind_a(), 0);
		} else {
			CU_ASSERT_EQUAL(bind_a(), EBUSY);
			says(A " is eth1, which carries the default route: 'urxe bind --force");
			CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "e1000e");
			CU_ASSERT_EQUAL(force_a(), 0);
		}
		CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "vfio-pci");
		machine_remove(&m);
	}
}

static void there_and_back(void)
{
	struct urxe_pci p;

	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	CU_ASSERT_EQUAL(bind_a(), 0);
	told(A ": bound to vfio-pci, was e1000e");
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "vfio-pci");
	CU_ASSERT_STRING_EQUAL(machine_loaded, "vfio-pci vfio_iommu_type1 ");
	CU_ASSERT_EQUAL(urxe_pci_hugepages(&m.roots), 0);
	CU_ASSERT_EQUAL(bind_a(), 0);
	told(A ": is bound to vfio-pci already");
	CU_ASSERT_EQUAL(unbind_a(), 0);
	told(A ": given back to e1000e as eth1, up; its addresses are for you to set");
	CU_ASSERT_EQUAL(urxe_pci_inspect(&m.roots, A, &p), 0);
	CU_ASSERT_STRING_EQUAL(p.driver, "e1000e");
	CU_ASSERT(p.num_nets == 1 && p.nets[0].up);
	CU_ASSERT_FALSE(machine_has(&m, "run/urxe-pci/" A));
	CU_ASSERT_EQUAL(unbind_a(), 0);
	told(A ": is bound to e1000e already");
	/* One that was down stays down. */
	machine_file(&m, "sys/bus/pci/devices/" A "/net/eth1/flags", "0x1002\n");
	CU_ASSERT_EQUAL(bind_a(), 0);
	CU_ASSERT_EQUAL(unbind_a(), 0);
	told("as eth1, which is down: run 'ip link set eth1 up'");
	machine_remove(&m);
}

static void hugepages(void)
{
	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", NULL);
	machine_faults.memory = 10;
	CU_ASSERT_EQUAL(bind_a(), ENOMEM);
	says("reserves 10 of 64 hugepages");
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "e1000e");
	CU_ASSERT_EQUAL(urxe_pci_hugepages(&m.roots), 0); /* given back */
	machine_faults.memory = 1000;
	CU_ASSERT_EQUAL(bind_a(), 0);
	told("reserved 64 hugepages");
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "uio_pci_generic");
	/* Those that are there are never taken away. */
	CU_ASSERT_EQUAL(bind(&(struct nic_request){.addrs = (char *[]){A, NULL}, .hugepages = 8}),
			0);
	CU_ASSERT_EQUAL(urxe_pci_hugepages(&m.roots), 64);
	CU_ASSERT_EQUAL(bind(&(struct nic_request){.addrs = (char *[]){A, NULL}, .hugepages = 99}),
			0);
	CU_ASSERT_EQUAL(urxe_pci_hugepages(&m.roots), 99);
	/* A card that is bound already wants them, too. */
	machine_file(&m, "proc/sys/vm/nr_hugepages", "0\n");
	CU_ASSERT_EQUAL(bind_a(), 0);
	told("is bound to uio_pci_generic already");
	CU_ASSERT_EQUAL(urxe_pci_hugepages(&m.roots), 64);
	machine_remove(&m);
}

static void group(void)
{
	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	machine_card(&m, B, NIC, "e1000e", "eth2", "12");
	machine_card(&m, "0000:02:00.0", "0x060400", "pcieport", NULL,
		     "12"); /* a bridge may stay */
	CU_ASSERT_EQUAL(bind_a(), EBUSY);
	says(A " shares IOMMU group 12 with " B " (e1000e), and");
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "e1000e");
	CU_ASSERT_EQUAL(force_a(), 0);
	told("VFIO will refuse it until " B " (e1000e)");
	CU_ASSERT_EQUAL(unbind_a(), 0);
	CU_ASSERT_EQUAL(
		bind(&(struct nic_request){.addrs = (char *[]){A, B, NULL}, .hugepages = -1}), 0);
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "vfio-pci");
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, B), "vfio-pci");
	/* Whose neighbour is there already. */
	CU_ASSERT_EQUAL(unbind_a(), 0);
	CU_ASSERT_EQUAL(bind_a(), 0);
	machine_remove(&m);
}

static void roll_back(void)
{
	struct urxe_pci p;

	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	machine_faults.refuses = "vfio-pci";
	CU_ASSERT_EQUAL(bind_a(), ENODEV);
	says("vfio-pci does not take " A);
	says("which is given back to e1000e: run 'dmesg");
	CU_ASSERT_EQUAL(urxe_pci_inspect(&m.roots, A, &p), 0);
	CU_ASSERT_STRING_EQUAL(p.driver, "e1000e");
	CU_ASSERT(p.num_nets == 1 && p.nets[0].up);
	CU_ASSERT_FALSE(machine_has(&m, "run/urxe-pci/" A));
	/* From one of ours to the other. */
	machine_faults.refuses = NULL;
	machine_file(&m, "sys/kernel/iommu_groups/12/type", "identity\n");
	CU_ASSERT_EQUAL(bind_a(), 0);
	machine_faults.refuses = "uio_pci_generic";
	CU_ASSERT_EQUAL(bind_a_to("uio_pci_generic"), ENODEV);
	says("which is given back to vfio-pci");
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "vfio-pci");
	machine_faults.refuses = NULL;
	CU_ASSERT_EQUAL(bind_a_to("uio_pci_generic"), 0);
	CU_ASSERT_EQUAL(unbind_a(), 0);
	told("given back to e1000e as eth1, up");
	machine_remove(&m);
}

static void interrupts(void)
{
	machine_make(&m);
	machine_card(&m, A, NIC, "e1000e", "eth1", "12");
	machine_faults.vfio = EPERM;
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(bind_a(), EPERM);
		says("allow_unsafe_interrupts'");
		CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "vfio-pci");
	}
	machine_faults.vfio = 0;
	CU_ASSERT_EQUAL(bind_a(), 0);
	machine_remove(&m);
}

static void unbind_fails(void)
{
	machine_make(&m);
	vfio_card("12"); /* by other hands, and the kernel has no driver */
	CU_ASSERT_EQUAL(unbind_a(), ENODEV);
	says("no driver of the kernel's takes " A);
	CU_ASSERT_STRING_EQUAL(machine_loaded, "pci:v8086d10d3 ");
	machine_link(&m, "sys/bus/pci/devices/" A "/driver", "../drivers/vfio-pci");
	machine_link(&m, "proc/4711/fd/3", (snprintf(err, sizeof(err), "%s/vfio/12", m.dev), err));
	CU_ASSERT_EQUAL(unbind_a(), EBUSY);
	says("is in use by process 4711");
	CU_ASSERT_STRING_EQUAL(machine_driver(&m, A), "vfio-pci");
	machine_remove(&m);
}

URXE_TEST_MAIN("pci", T(inspect), T(mac_known), T(port_has_it), T(not_bound), T(uio), T(vfio),
	       T(virtio), T(vfio_permission), T(list), T(refuses), T(default_route),
	       T(there_and_back), T(hugepages), T(group), T(roll_back), T(interrupts),
	       T(unbind_fails))
