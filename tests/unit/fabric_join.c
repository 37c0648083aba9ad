/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Members of the fabric: they join, leave, die, are stopped, and fork. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "fabric_rig.h"
#include "netio/fabric_priv.h"
#include "netio/gate_priv.h"

static void alone(void)
{
	struct urxe_fabric *f;
	struct urxe_fabric_member m;
	uint8_t mac[6];

	rig_begin();
	f = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_slot(f), 1);
	CU_ASSERT_EQUAL(urxe_fabric_join(f), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_fabric_member(f, 1, &m), 0);
	CU_ASSERT_EQUAL(m.pid, getpid());
	CU_ASSERT_FALSE(m.node);
	CU_ASSERT_TRUE(strstr(m.command, "fabric_join") != NULL);
	CU_ASSERT_TRUE(m.start_time > 0);
	CU_ASSERT_EQUAL(urxe_fabric_member(f, 2, &m), ENOENT);
	CU_ASSERT_TRUE(urxe_fabric_mac(f, mac));
	CU_ASSERT_EQUAL(mac[0] & 3, 2);
	CU_ASSERT_EQUAL(mac[5], 0);
	CU_ASSERT_EQUAL(urxe_fabric_mac_slot(f, mac), 0);
	urxe_fabric_put(f);
	rig_end();
}

static unsigned mode(const char *name)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", rig_dir, name);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	return st.st_mode & 0777;
}

/* A process with a umask of its own does not keep the user's others out. */
static void strict_umask(void)
{
	struct urxe_fabric_spec spec;
	struct urxe_fabric *f = NULL;
	char sub[128], why[256];
	mode_t mask;
	int gate;

	rig_begin();
	rig_spec(&spec);
	snprintf(sub, sizeof(sub), "%s/sub", rig_dir);
	snprintf(spec.dir, sizeof(spec.dir), "%s", sub);
	mask = umask(0777);
	CU_ASSERT_EQUAL_FATAL(urxe_fabric_create(&f, &spec, false, NULL), 0);
	CU_ASSERT_EQUAL(urxe_fabric_join(f), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_gate_claim(&spec, &gate, why, sizeof(why)), 0);
	umask(mask);
	CU_ASSERT_EQUAL(mode("sub"), 0700);
	CU_ASSERT_EQUAL(mode("sub/members"), 0600);
	CU_ASSERT_EQUAL(mode("sub/1"), 0600);
	CU_ASSERT_EQUAL(mode("sub/gateway"), 0600);
	urxe_gate_unclaim(&spec, gate);
	urxe_fabric_put(f);
	CU_ASSERT_EQUAL(rmdir(sub), 0);
	rig_end();
}

/* As many as there are slots, in one process; then one too many. */
static void all_slots(void)
{
	struct urxe_fabric *f[254], *more;
	uint8_t seen[256] = {0}, mac[6];
	char why[256];

	rig_begin();
	for (unsigned i = 0; i < 254; i++) {
		f[i] = rig_join(i & 1);
		CU_ASSERT_FALSE(seen[urxe_fabric_slot(f[i])]++);
		CU_ASSERT_TRUE(urxe_fabric_mac(f[i], mac));
		CU_ASSERT_EQUAL(mac[5], i & 1 ? urxe_fabric_slot(f[i]) : 0);
		CU_ASSERT_EQUAL((unsigned)urxe_fabric_mac_slot(f[0], mac), mac[5]);
	}
	CU_ASSERT_FALSE(seen[0] || seen[255]);
	more = rig_make(false);
	urxe_log_set_level(URXE_LOG_NONE);
	CU_ASSERT_EQUAL(urxe_fabric_join(more), ENOSPC);
	urxe_log_set_level(URXE_LOG_WARN);
	urxe_fabric_error(more, why, sizeof(why));
	CU_ASSERT_TRUE(strstr(why, "all 254 places") != NULL);
	urxe_fabric_put(f[100]);
	CU_ASSERT_EQUAL(urxe_fabric_join(more), 0);
	f[100] = more;
	for (unsigned i = 0; i < 254; i++)
		urxe_fabric_put(f[i]);
	rig_end();
}

/* A slot comes back as late as possible, and another incarnation with it. */
static void late_reuse(void)
{
	struct urxe_fabric *stay, *f;
	uint32_t first;
	unsigned slot;

	rig_begin();
	stay = rig_join(false);
	f = rig_join(false);
	slot = urxe_fabric_slot(f);
	first = urxe_fabric_incarnation(stay, slot);
	CU_ASSERT_TRUE(first && urxe_fabric_alive(stay, slot, first));
	urxe_fabric_put(f);
	CU_ASSERT_FALSE(urxe_fabric_alive(stay, slot, first));
	CU_ASSERT_EQUAL(urxe_fabric_incarnation(stay, slot), 0);
	for (unsigned i = 0; i < 252; i++) {
		f = rig_join(false);
		CU_ASSERT_NOT_EQUAL(urxe_fabric_slot(f), slot);
		urxe_fabric_put(f);
	}
	f = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_slot(f), slot);
	CU_ASSERT_NOT_EQUAL(urxe_fabric_incarnation(stay, slot), first);
	urxe_fabric_put(f);
	urxe_fabric_put(stay);
	rig_end();
}

#define MANY 60

/* In processes, all at once, on a folder where nobody is yet. */
static void at_once(void)
{
	struct rig_process p[MANY];
	uint8_t seen[256] = {0};

	if (!rig_can_fork())
		return;
	rig_begin();
	for (unsigned i = 0; i < MANY; i++)
		rig_start(&p[i], rig_member);
	for (unsigned i = 0; i < MANY; i++) {
		int slot = rig_hear(p[i].from);

		CU_ASSERT_TRUE(slot > 0);
		if (slot > 0)
			CU_ASSERT_FALSE(seen[slot]++);
	}
	for (unsigned i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL(rig_reap(&p[i]), 0);
	rig_end();
}

/* Who is dead is seen to be, and what is left of him goes. */
static void killed(void)
{
	struct urxe_fabric *f;
	struct rig_process p;
	uint32_t incarnation;
	int slot;

	if (!rig_can_fork())
		return;
	rig_begin();
	f = rig_join(false);
	rig_start(&p, rig_member);
	slot = rig_hear(p.from);
	CU_ASSERT_EQUAL_FATAL(slot, 2);
	incarnation = urxe_fabric_incarnation(f, 2);
	CU_ASSERT_TRUE(incarnation && urxe_fabric_alive(f, 2, incarnation));
	CU_ASSERT_EQUAL(rig_files(), 3);
	rig_kill(&p);
	CU_ASSERT_FALSE(urxe_fabric_alive(f, 2, incarnation));
	CU_ASSERT_EQUAL(urxe_fabric_incarnation(f, 2), 0);
	CU_ASSERT_EQUAL(rig_files(), 2);
	urxe_fabric_put(f);
	rig_end();
}

/* All are dead: the next one begins anew, and leaves nothing. */
static void stale_folder(void)
{
	struct rig_process p[5];
	struct urxe_fabric *f;

	if (!rig_can_fork())
		return;
	rig_begin();
	for (unsigned i = 0; i < 5; i++) {
		rig_start(&p[i], rig_member);
		CU_ASSERT_TRUE(rig_hear(p[i].from) > 0);
	}
	for (unsigned i = 0; i < 5; i++)
		rig_kill(&p[i]);
	CU_ASSERT_EQUAL(rig_files(), 6);
	f = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_slot(f), 1);
	CU_ASSERT_EQUAL(rig_files(), 2);
	urxe_fabric_put(f);
	rig_end();
}

/* The one member that there is does not answer: it is under a debugger. */
static void stopped(void)
{
	struct urxe_fabric *f;
	struct rig_process p;
	int status;

	if (!rig_can_fork())
		return;
	rig_begin();
	rig_start(&p, rig_member);
	CU_ASSERT_EQUAL(rig_hear(p.from), 1);
	kill(p.pid, SIGSTOP);
	waitpid(p.pid, &status, WUNTRACED);
	CU_ASSERT_TRUE(WIFSTOPPED(status));
	f = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_slot(f), 2);
	CU_ASSERT_NOT_EQUAL(urxe_fabric_incarnation(f, 1), 0);
	kill(p.pid, SIGCONT);
	CU_ASSERT_EQUAL(rig_reap(&p), 0);
	CU_ASSERT_EQUAL(urxe_fabric_incarnation(f, 1), 0);
	urxe_fabric_put(f);
	rig_end();
}

/* exit() without leaving. */
static void exiting(int in, int out)
{
	struct urxe_fabric_spec spec;
	struct urxe_fabric *f;

	rig_spec(&spec);
	if (urxe_fabric_create(&f, &spec, false, NULL) || urxe_fabric_join(f))
		_exit(1);
	rig_say(out, 1);
	rig_hear(in);
	fclose(stdout); /* what the parent has written there, too */
	exit(0);
}

static void no_farewell(void)
{
	struct rig_process p[2];

	if (!rig_can_fork())
		return;
	rig_begin();
	for (unsigned i = 0; i < 2; i++) {
		rig_start(&p[i], exiting);
		CU_ASSERT_EQUAL(rig_hear(p[i].from), 1);
	}
	CU_ASSERT_EQUAL(rig_files(), 3);
	rig_reap(&p[0]);
	CU_ASSERT_EQUAL(rig_files(), 2);
	rig_reap(&p[1]);
	rig_end();
}

/* What threads do while the process ends takes no slot: not one that is free, nor a dead one's. */
static void ending(int in, int out)
{
	struct urxe_fabric_spec spec;
	struct urxe_fabric *f[2];
	unsigned files;

	rig_spec(&spec);
	for (unsigned i = 0; i < 2; i++) {
		if (urxe_fabric_create(&f[i], &spec, false, NULL))
			_exit(1);
	}
	if (urxe_fabric_join(f[0]))
		_exit(1);
	rig_say(out, (int)urxe_fabric_slot(f[0]));
	rig_hear(in);
	urxe_fhub_exit();
	files = rig_files();
	rig_say(out, urxe_fabric_join(f[1]) == ESHUTDOWN && files == 2 && rig_files() == 2);
	rig_hear(in);
	_exit(0);
}

static void no_slot_at_the_end(void)
{
	struct urxe_fabric *f;
	struct rig_process p;

	if (!rig_can_fork())
		return;
	rig_begin();
	rig_start(&p, ending);
	CU_ASSERT_TRUE(rig_hear(p.from) > 0);
	f = rig_join(false);
	CU_ASSERT_EQUAL(rig_files(), 3);
	rig_say(p.to, 1);
	CU_ASSERT_EQUAL(rig_hear(p.from), 1);
	rig_reap(&p);
	urxe_fabric_put(f);
	rig_end();
}

/* ---- fork ---- */

static struct urxe_fabric *inherited;

/* A child of a member: none itself, and it does no harm; it may join afresh. */
static void child(int in, int out)
{
	struct urxe_fabric *parents = inherited, *f;
	struct urxe_fabric_words req = {.fd = -1};
	struct urxe_fabric_member m;
	uint16_t port = 0;
	urxe_fabric_claim claim;
	uint8_t gid[16] = {0};
	int bad = 0;

	bad += urxe_fabric_ours(parents) || urxe_fabric_slot(parents);
	bad += urxe_fabric_join(parents) != ENODEV;
	bad += urxe_fabric_ask(parents, 1, &req) != ENODEV;
	bad += urxe_fabric_bell(parents, 1) != NULL;
	bad += urxe_fabric_member(parents, 1, &m) != ENOENT;
	bad += urxe_fabric_port_claim(parents, URXE_IDENT_TCP, gid, 0, 0, &port, &claim) != ENODEV;
	f = rig_make(false);
	bad += urxe_fabric_join(f) != 0;
	rig_say(out, (int)urxe_fabric_slot(f));
	rig_hear(in);
	/* What it has of the parent's goes without a trace, and its own lock stays. */
	urxe_fabric_put(parents);
	rig_say(out, bad);
	rig_hear(in);
	urxe_fabric_put(f);
	rig_say(out, bad);
	rig_hear(in);
}

static void forked(void)
{
	struct rig_process p;
	uint32_t incarnation, childs;
	int slot;

	if (!rig_can_fork())
		return;
	rig_begin();
	inherited = rig_join(false);
	incarnation = urxe_fabric_incarnation(inherited, 1);
	rig_start(&p, child);
	slot = rig_hear(p.from);
	CU_ASSERT_EQUAL_FATAL(slot, 2);
	childs = urxe_fabric_incarnation(inherited, 2);
	CU_ASSERT_TRUE(childs != 0);
	rig_say(p.to, 0);
	CU_ASSERT_EQUAL(rig_hear(p.from), 0);
	CU_ASSERT_TRUE(urxe_fabric_alive(inherited, 2, childs));
	rig_say(p.to, 0);
	CU_ASSERT_EQUAL(rig_hear(p.from), 0);
	CU_ASSERT_EQUAL(urxe_fabric_incarnation(inherited, 2), 0);
	CU_ASSERT_TRUE(urxe_fabric_alive(inherited, 1, incarnation));
	CU_ASSERT_EQUAL(rig_files(), 2);
	rig_say(p.to, 0);
	CU_ASSERT_EQUAL(rig_reap(&p), 0);
	/* Others can join by it still. */
	rig_start(&p, rig_member);
	CU_ASSERT_TRUE(rig_hear(p.from) > 0);
	CU_ASSERT_EQUAL(rig_reap(&p), 0);
	urxe_fabric_put(inherited);
	rig_end();
}

/* A member with a child that has all its descriptors: the member dies, the child stays. */
static void parent_of_one(int in, int out)
{
	struct urxe_fabric *f = rig_make(false);
	pid_t pid;

	if (urxe_fabric_join(f))
		_exit(1);
	pid = fork();
	if (!pid) {
		close(out);
		rig_hear(in); /* until the test closes it */
		_exit(0);
	}
	rig_say(out, (int)urxe_fabric_slot(f));
	pause();
}

static void survived_by_child(void)
{
	struct urxe_fabric *f;
	struct rig_process p;
	uint32_t incarnation;
	int slot;

	if (!rig_can_fork())
		return;
	rig_begin();
	f = rig_join(false);
	rig_start(&p, parent_of_one);
	slot = rig_hear(p.from);
	CU_ASSERT_EQUAL_FATAL(slot, 2);
	incarnation = urxe_fabric_incarnation(f, 2);
	kill(p.pid, SIGKILL);
	waitpid(p.pid, &slot, 0);
	CU_ASSERT_FALSE(urxe_fabric_alive(f, 2, incarnation));
	urxe_fabric_put(f);
	/* Nobody is there, whatever the child has open. */
	f = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_slot(f), 1);
	urxe_fabric_put(f);
	close(p.to);
	close(p.from);
	rig_end();
}

/* ---- descriptors ---- */

/* Daemons close all that they find: such a one has lost its lock, and is alive. */
static void closer(int in, int out)
{
	struct urxe_fabric *f = rig_make(false);
	int slot;

	if (urxe_fabric_join(f))
		_exit(1);
	slot = (int)urxe_fabric_slot(f);
	for (int fd = 3; fd < 1024; fd++) {
		if (fd != in && fd != out)
			close(fd);
	}
	rig_say(out, slot);
	rig_hear(in);
}

static void lost_its_lock(void)
{
	struct urxe_fabric *f, *more[252];
	struct rig_process p;
	uint32_t incarnation;

	if (!rig_can_fork())
		return;
	rig_begin();
	f = rig_join(false);
	rig_start(&p, closer);
	CU_ASSERT_EQUAL_FATAL(rig_hear(p.from), 2);
	incarnation = urxe_fabric_incarnation(f, 2);
	CU_ASSERT_TRUE(incarnation && urxe_fabric_alive(f, 2, incarnation));
	for (unsigned i = 0; i < 252; i++) {
		more[i] = rig_join(false);
		CU_ASSERT_NOT_EQUAL(urxe_fabric_slot(more[i]), 2);
	}
	rig_kill(&p);
	CU_ASSERT_FALSE(urxe_fabric_alive(f, 2, incarnation));
	for (unsigned i = 0; i < 252; i++)
		urxe_fabric_put(more[i]);
	urxe_fabric_put(f);
	rig_end();
}

static unsigned count_fds(bool *all_cloexec)
{
	unsigned n = 0;

	for (int fd = 3; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0)
			continue;
		n++;
		if (all_cloexec && !(flags & FD_CLOEXEC))
			*all_cloexec = false;
	}
	return n;
}

static void descriptors(void)
{
	bool cloexec = true;
	unsigned before = count_fds(NULL);
	struct urxe_fabric *f;

	rig_begin();
	f = rig_join(false);
	CU_ASSERT_TRUE(count_fds(&cloexec) > before);
	CU_ASSERT_TRUE(cloexec || before);
	urxe_fabric_put(f);
	CU_ASSERT_EQUAL(count_fds(NULL), before);
	rig_end();
}

/* ---- who may ---- */

static int try_join(void)
{
	struct urxe_fabric *f = rig_make(false);
	int ret = urxe_fabric_join(f);

	urxe_fabric_put(f);
	return ret;
}

static void strangers(void)
{
	rig_begin();
	urxe_log_set_level(URXE_LOG_NONE);
	chmod(rig_dir, 0777);
	CU_ASSERT_EQUAL(try_join(), EPERM);
	chmod(rig_dir, 01777);
	CU_ASSERT_EQUAL(try_join(), EPERM);
	chmod(rig_dir, 0755);
	CU_ASSERT_EQUAL(try_join(), 0);
	if (!geteuid()) {
		CU_ASSERT_EQUAL(chown(rig_dir, 12345, 12345), 0);
		CU_ASSERT_EQUAL(try_join(), EPERM);
		chmod(rig_dir, 0770); /* of a group that is not ours */
		CU_ASSERT_EQUAL(try_join(), EPERM);
		CU_ASSERT_EQUAL(chown(rig_dir, 12345, getegid()), 0);
		CU_ASSERT_EQUAL(try_join(), 0);
	}
	urxe_log_set_level(URXE_LOG_WARN);
	rig_end();
}

static void names(void)
{
	struct urxe_fabric_spec s;
	char err[256], dir[4096];

	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("loop", &s, err, sizeof(err)), ENOENT);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabrics", &s, err, sizeof(err)), ENOENT);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric", &s, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_fabric_spec_dir(&s, dir, sizeof(dir)), 0);
	CU_ASSERT_TRUE(strstr(dir, "-default") != NULL);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,name=a.b-c_1", &s, err, sizeof(err)), 0);
	CU_ASSERT_STRING_EQUAL(s.name, "a.b-c_1");
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,dir=/x/y", &s, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_fabric_spec_dir(&s, dir, sizeof(dir)), 0);
	CU_ASSERT_STRING_EQUAL(dir, "/x/y");
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,name=a/b", &s, err, sizeof(err)), EINVAL);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,name=..", &s, err, sizeof(err)), EINVAL);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,name=", &s, err, sizeof(err)), EINVAL);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,x=1", &s, err, sizeof(err)), EINVAL);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,", &s, err, sizeof(err)), EINVAL);
	CU_ASSERT_EQUAL(urxe_fabric_spec_parse("fabric,name=a,dir=/b", &s, err, sizeof(err)),
			EINVAL);
}

/* Somebody else has made the folder in /tmp: the line names what can be done. The byte is 0, or the
 * number of what is wrong. */
static void find_it_taken(int in, int out)
{
	struct urxe_fabric_spec s = {.dir = ""};
	char err[400] = "";
	int bad = 0;
	bool group;

	(void)in;
	unsetenv("XDG_RUNTIME_DIR");
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/tmp", "tmpfs", 0, "mode=1777") || mkdir("/tmp/urxe-0", 0700) ||
	    chown("/tmp/urxe-0", 12345, 12345))
		bad = 0; /* it cannot be tried here */
	else if (urxe_fdir_open(&s, true, &group, err, sizeof(err)) >= 0 || errno != EPERM)
		bad = 1;
	else if (!strstr(err, "/tmp/urxe-0") || !strstr(err, "XDG_RUNTIME_DIR") ||
		 !strstr(err, "dir="))
		bad = 2;
	rig_say(out, bad);
}

static void taken(void)
{
	struct rig_process p;

	if (geteuid() || !rig_can_fork())
		return;
	rig_start(&p, find_it_taken);
	CU_ASSERT_EQUAL(rig_hear(p.from), 0);
	CU_ASSERT_EQUAL(rig_reap(&p), 0);
}

/* Who looks on has no slot. */
static void onlooker(void)
{
	struct urxe_fabric *f, *look;
	struct urxe_fabric_member m;
	struct rig_process p;

	if (!rig_can_fork())
		return;
	rig_begin();
	look = rig_make(false);
	CU_ASSERT_EQUAL(urxe_fabric_observe(look), ENOENT);
	urxe_fabric_put(look);
	CU_ASSERT_EQUAL(rig_files(), 0);
	rig_start(&p, rig_member);
	CU_ASSERT_EQUAL(rig_hear(p.from), 1);
	look = rig_make(false);
	CU_ASSERT_EQUAL_FATAL(urxe_fabric_observe(look), 0);
	CU_ASSERT_EQUAL(urxe_fabric_slot(look), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_fabric_member(look, 1, &m), 0);
	CU_ASSERT_EQUAL(m.pid, p.pid);
	f = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_member(look, 2, &m), 0);
	CU_ASSERT_EQUAL(m.pid, getpid());
	urxe_fabric_put(look);
	urxe_fabric_put(f);
	CU_ASSERT_EQUAL(rig_reap(&p), 0);
	rig_end();
}

/* The folder's name is longer than a socket's may be. */
static void long_name(void)
{
	struct urxe_fabric_spec spec;
	struct urxe_fabric *f, *g;
	char top[64];
	struct rig_process p;

	if (!rig_can_fork())
		return;
	rig_begin();
	strcpy(top, rig_dir);
	memset(&spec, 0, sizeof(spec));
	snprintf(spec.dir, sizeof(spec.dir), "%s/%0200d", top, 0);
	CU_ASSERT_EQUAL_FATAL(urxe_fabric_create(&f, &spec, false, NULL), 0);
	CU_ASSERT_EQUAL(urxe_fabric_join(f), 0);
	/* Another one by another name of the folder. */
	snprintf(rig_dir, sizeof(rig_dir), "%.40s-l", top);
	CU_ASSERT_EQUAL(symlink(spec.dir, rig_dir), 0);
	g = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_slot(g), 2);
	rig_start(&p, rig_member);
	CU_ASSERT_EQUAL(rig_hear(p.from), 3);
	CU_ASSERT_EQUAL(rig_reap(&p), 0);
	urxe_fabric_put(f);
	urxe_fabric_put(g);
	CU_ASSERT_EQUAL(unlink(rig_dir), 0);
	CU_ASSERT_EQUAL(rmdir(spec.dir), 0);
	strcpy(rig_dir, top);
	rig_end();
}

URXE_TEST_MAIN("fabric_join", T(alone), T(strict_umask), T(all_slots), T(late_reuse), T(at_once),
	       T(killed), T(stale_folder), T(stopped), T(no_farewell), T(no_slot_at_the_end),
	       T(forked), T(survived_by_child), T(lost_its_lock), T(descriptors), T(strangers),
	       T(names), T(taken), T(onlooker), T(long_name))
