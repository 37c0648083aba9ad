/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copies and atomics on memory that may have gone (urxe/guarded.h): they do what memcpy() does, an
 * access to nothing is an error wherever it begins, and all other faults and signals end where they
 * would without us.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "urxe/guarded.h"
#include "urxe/thread.h"

#define LONGEST 4200

static size_t page;

/* Each length, at some alignments: what is to be copied is, and nothing beside it. */
static void test_copies(void)
{
	static uint8_t from[LONGEST + 64], to[LONGEST + 128], want[LONGEST + 128];

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 31 + (i >> 8));
	for (size_t len = 0; len <= LONGEST; len += len < 600 ? 1 : 61) {
		for (unsigned shift = 0; shift < 20; shift += 1 + shift / 2) {
			memset(to, 0xee, sizeof(to));
			memset(want, 0xee, sizeof(want));
			memcpy(want + 32 + shift, from + shift / 2, len);
			CU_ASSERT_EQUAL(urxe_guarded_copy(to + 32 + shift, from + shift / 2, len),
					0);
			CU_ASSERT_EQUAL(memcmp(to, want, sizeof(to)), 0);
		}
	}
}

static void test_atomics(void)
{
	uint64_t word = 5, was = 0;

	CU_ASSERT_EQUAL(urxe_guarded_fetch_add(&word, UINT64_MAX, &was), 0);
	CU_ASSERT(word == 4 && was == 5);
	CU_ASSERT_EQUAL(urxe_guarded_compare_swap(&word, 3, 9, &was), 0);
	CU_ASSERT(word == 4 && was == 4);
	CU_ASSERT_EQUAL(urxe_guarded_compare_swap(&word, 4, 1ull << 40, &was), 0);
	CU_ASSERT(word == 1ull << 40 && was == 4);
	CU_ASSERT_EQUAL(urxe_guarded_store(&word, 77), 0);
	CU_ASSERT_EQUAL(word, 77);
}

#ifdef URXE_GUARDED

static uint8_t *pages(int n)
{
	void *p = mmap(NULL, (size_t)n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	CU_ASSERT_FATAL(p != MAP_FAILED);
	return p;
}

/* Of each length, with the end of what is there at its first, a middle and its last byte. */
static void test_faults(void)
{
	uint8_t *edge = pages(3) + page, own[LONGEST];
	uint64_t was = 1;

	munmap(edge, page);
	mprotect(edge + page, page, PROT_READ);
	for (size_t len = 1; len <= LONGEST && len < page; len += len < 300 ? 1 : 97) {
		const size_t ins[] = {0, len / 2, len - 1};

		for (unsigned i = 0; i < 3; i++) {
			memset(own, 1, sizeof(own));
			CU_ASSERT_EQUAL(urxe_guarded_copy(own, edge - ins[i], len), EFAULT);
			CU_ASSERT_EQUAL(urxe_guarded_copy(edge - ins[i], own, len), EFAULT);
		}
		CU_ASSERT_EQUAL(urxe_guarded_copy(edge + page, own, len), EFAULT);
		CU_ASSERT_EQUAL(urxe_guarded_copy(own, edge + page, len), 0);
	}
	CU_ASSERT_EQUAL(urxe_guarded_fetch_add((uint64_t *)(void *)edge, 1, &was), EFAULT);
	CU_ASSERT_EQUAL(urxe_guarded_store((uint64_t *)(void *)edge, 1), EFAULT);
	CU_ASSERT_EQUAL(urxe_guarded_compare_swap((uint64_t *)(void *)(edge + page), 0, 2, &was),
			EFAULT);
	CU_ASSERT_EQUAL(was, 1);
	/* An address that is none. */
	CU_ASSERT_EQUAL(urxe_guarded_copy(own, (void *)0xdead00000000f00dul, 8), EFAULT);
	munmap(edge - page, 3 * page);
}

/* SIGBUS: a file that became shorter. */
static void test_truncated(void)
{
	char name[] = "/tmp/urxe-guarded-XXXXXX";
	int fd = mkstemp(name);
	uint8_t *p, own[64] = {0};

	CU_ASSERT_FATAL(fd >= 0);
	unlink(name);
	CU_ASSERT_EQUAL(ftruncate(fd, (off_t)(2 * page)), 0);
	p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CU_ASSERT_FATAL(p != MAP_FAILED);
	CU_ASSERT_EQUAL(urxe_guarded_copy(p + page - 8, own, 64), 0);
	CU_ASSERT_EQUAL(ftruncate(fd, (off_t)page), 0);
	CU_ASSERT_EQUAL(urxe_guarded_copy(p + page - 8, own, 64), EFAULT);
	CU_ASSERT_EQUAL(urxe_guarded_copy(own, p + page - 8, 64), EFAULT);
	munmap(p, 2 * page);
	close(fd);
}

static void *on_thread(void *arg)
{
	uint8_t own[64];

	return (void *)(uintptr_t)urxe_guarded_copy(own, arg, sizeof(own));
}

/* Threads of ours block all other signals. */
static void test_thread(void)
{
	uint8_t *p = pages(1);
	pthread_t t;
	void *err;

	mprotect(p, page, PROT_NONE); /* unmapped, it may become the thread's stack */
	CU_ASSERT_EQUAL_FATAL(urxe_thread_start(&t, "urxe/test", on_thread, p), 0);
	pthread_join(t, &err);
	CU_ASSERT_EQUAL((int)(uintptr_t)err, EFAULT);
	munmap(p, page);
}

/* ---- whose fault is not ours: each in a child ---- */

enum {
	GOOD = 40, /* exit status of a child that saw what it should */
	BAD
};

static int in_child(void (*fn)(void))
{
	const struct rlimit none = {0, 0};
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		fn();
		_exit(BAD);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	return status;
}

static bool exited(int status, int with)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == with;
}

static bool killed(int status, int sig)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == sig;
}

static volatile uint8_t *nothing;
static volatile sig_atomic_t seen;

static int copy_nothing(void)
{
	uint8_t own[32];

	return urxe_guarded_copy(own, (const void *)(uintptr_t)nothing, sizeof(own));
}

/* As if the program had begun with this, and memory were registered then. */
static void begin(int sig, const struct sigaction *sa)
{
	nothing = pages(1);
	munmap((void *)(uintptr_t)nothing, page);
	sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	if (sa)
		sigaction(sig, sa, NULL);
	urxe_guarded_start();
	if (copy_nothing() != EFAULT)
		_exit(BAD);
}

static void own_fault(void)
{
	begin(0, NULL);
	*nothing = 1;
}

static void own_signal(void)
{
	begin(0, NULL);
	kill(getpid(), SIGBUS);
	pause();
}

static void own_fault_ignored(void)
{
	begin(SIGSEGV, &(struct sigaction){.sa_handler = SIG_IGN});
	kill(getpid(), SIGSEGV);
	raise(SIGSEGV);
	if (copy_nothing() != EFAULT)
		_exit(BAD);
	seen = 1;
	*nothing = 1;
}

static void test_default(void)
{
	CU_ASSERT(killed(in_child(own_fault), SIGSEGV));
	CU_ASSERT(killed(in_child(own_signal), SIGBUS));
	CU_ASSERT(killed(in_child(own_fault_ignored), SIGSEGV));
}

/* What a crash reporter wants to know is true. */
static void informed(int sig, siginfo_t *info, void *uc)
{
	bool right = sig == SIGSEGV && info->si_addr == (void *)(uintptr_t)nothing &&
		     info->si_code == SEGV_MAPERR && uc;

	_exit(right ? GOOD : BAD);
}

static void informed_masked(int sig, siginfo_t *info, void *uc)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	if (!sigismember(&now, SIGUSR1) || !sigismember(&now, SIGSEGV))
		_exit(BAD);
	informed(sig, info, uc);
}

static void own_handler(void)
{
	struct sigaction sa = {.sa_sigaction = informed_masked, .sa_flags = SA_SIGINFO};

	sigaddset(&sa.sa_mask, SIGUSR1);
	begin(SIGSEGV, &sa);
	*nothing = 1;
}

static sigjmp_buf back;

static void jumps(int sig)
{
	seen++;
	siglongjmp(back, 1);
}

/* What probes for memory by itself, several times. */
static void own_jump(void)
{
	begin(SIGSEGV, &(struct sigaction){.sa_handler = jumps});
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1))
			*nothing = 1;
		if (copy_nothing() != EFAULT)
			_exit(BAD);
	}
	_exit(seen == 3 ? GOOD : BAD);
}

static void counts(int sig)
{
	seen++;
}

/* A handler for one time: the second is the end. */
static void own_once(void)
{
	begin(SIGSEGV, &(struct sigaction){.sa_handler = counts, .sa_flags = (int)SA_RESETHAND});
	raise(SIGSEGV);
	if (seen != 1)
		_exit(BAD);
	raise(SIGSEGV);
}

static void on_stack(int sig, siginfo_t *info, void *uc)
{
	stack_t now;

	sigaltstack(NULL, &now);
	_exit(now.ss_flags & SS_ONSTACK ? GOOD : BAD);
}

static void own_stack(void)
{
	static uint8_t stack[65536];
	const stack_t st = {.ss_sp = stack, .ss_size = sizeof(stack)};

	sigaltstack(&st, NULL);
	begin(SIGSEGV,
	      &(struct sigaction){.sa_sigaction = on_stack, .sa_flags = SA_SIGINFO | SA_ONSTACK});
	*nothing = 1;
}

static void test_handlers_before(void)
{
	CU_ASSERT(exited(in_child(own_handler), GOOD));
	CU_ASSERT(exited(in_child(own_jump), GOOD));
	CU_ASSERT(killed(in_child(own_once), SIGSEGV));
	CU_ASSERT(exited(in_child(own_stack), GOOD));
}

static struct sigaction older;

static void chains(int sig, siginfo_t *info, void *uc)
{
	seen++;
	if (older.sa_flags & SA_SIGINFO)
		older.sa_sigaction(sig, info, uc);
	else
		_exit(BAD);
}

/* Installed over ours, as a VM does: it passes on what is not its own. */
static void later_chains(void)
{
	struct sigaction sa = {.sa_sigaction = chains, .sa_flags = SA_SIGINFO};

	begin(SIGSEGV, &(struct sigaction){.sa_sigaction = informed, .sa_flags = SA_SIGINFO});
	sigaction(SIGSEGV, &sa, &older);
	if (copy_nothing() != EFAULT || seen != 1)
		_exit(BAD);
	/* In front of it again, who knows us by what we were: no circle. */
	urxe_guarded_start();
	if (copy_nothing() != EFAULT || seen != 1)
		_exit(BAD);
	*nothing = 1;
}

static void ends(int sig)
{
	_exit(sig == SIGSEGV ? GOOD : BAD);
}

/* It knows of nobody: what is ours is ours again when memory is registered. */
static void later_alone(void)
{
	begin(0, NULL);
	for (int i = 0; i < 20; i++) {
		signal(SIGSEGV, i % 2 ? ends : counts);
		urxe_guarded_start();
		if (copy_nothing() != EFAULT)
			_exit(BAD);
	}
	if (seen)
		_exit(BAD);
	*nothing = 1;
}

static void test_handlers_after(void)
{
	CU_ASSERT(exited(in_child(later_chains), GOOD));
	CU_ASSERT(exited(in_child(later_alone), GOOD));
}

#endif

static int run(int argc, char **argv, const struct urxe_test *tests)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	urxe_guarded_start();
	return urxe_harness_main(argc, argv, "guarded", tests);
}

int main(int argc, char **argv)
{
	static const struct urxe_test tests[] = {
		T(test_copies),	 T(test_atomics),
#ifdef URXE_GUARDED
		T(test_faults),	 T(test_truncated),	  T(test_thread),
		T(test_default), T(test_handlers_before), T(test_handlers_after),
#endif
		{NULL, NULL}};

	return run(argc, argv, tests);
}
