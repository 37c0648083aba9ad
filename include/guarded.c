/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The signal handler behind urxe/guarded.h, and what sanitizers want to know of accesses that they
 * do not see. Nothing is noted before an access: where the processor was says whose fault it is.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "urxe/cpu.h"
#include "urxe/guarded.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN
#elif __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ASAN
#elif defined(__SANITIZE_THREAD__)
#define TSAN
#endif

#ifdef URXE_GUARDED

#if defined(ASAN)
#include <sanitizer/asan_interface.h>
#elif defined(TSAN)
void __tsan_read_range(void *p, long len);
void __tsan_write_range(void *p, long len);
void __tsan_acquire(void *p);
void __tsan_release(void *p);
#endif

/* What sanitizers know of is below; an address above it is none, nor has it a shadow. */
#define HAS_SHADOW(p) (!((uintptr_t)(p) >> 47))

#if defined(ASAN)
/* Memory that was freed, or is between objects: a plain access there makes the usual report. */
static void touch(const void *p, size_t len)
{
	const char *bad = NULL;

	if (len && HAS_SHADOW(p))
		bad = __asan_region_is_poisoned((void *)(uintptr_t)p, len);
	if (bad)
		(void)*(const volatile char *)bad;
}
#endif

static void before_copy(void *to, const void *from, size_t len)
{
#if defined(ASAN)
	touch(from, len);
	touch(to, len);
#elif defined(TSAN)
	if (HAS_SHADOW(from))
		__tsan_read_range((void *)(uintptr_t)from, (long)len);
	if (HAS_SHADOW(to))
		__tsan_write_range(to, (long)len);
#endif
}

/* An atomic access is ordered with the application's own. */
static void before_atomic(uint64_t *word)
{
#if defined(ASAN)
	touch(word, sizeof(*word));
#elif defined(TSAN)
	__tsan_release(word);
#endif
}

static void after_atomic(uint64_t *word)
{
#if defined(TSAN)
	__tsan_acquire(word);
#endif
}

#define HIDDEN __attribute__((visibility("hidden")))

/* guarded.S */
HIDDEN extern const char urxe_guarded_begin[], urxe_guarded_fault[];
HIDDEN int urxe_guarded_asm_copy(void *to, const void *from, size_t len);
HIDDEN int urxe_guarded_asm_fetch_add(uint64_t *word, uint64_t add, uint64_t *was);
HIDDEN int urxe_guarded_asm_compare_swap(uint64_t *word, uint64_t compare, uint64_t swap,
					 uint64_t *was);
HIDDEN int urxe_guarded_asm_store(uint64_t *word, uint64_t value);

#ifdef __x86_64__
HIDDEN extern uint8_t urxe_guarded_wide; /* for guarded.S: has the processor AVX? */
uint8_t urxe_guarded_wide;

__attribute__((constructor)) static void look_at_processor(void)
{
	urxe_guarded_wide = urxe_cpu_has_avx();
}
#endif

int urxe_guarded_copy(void *to, const void *from, size_t len)
{
	before_copy(to, from, len);
	return urxe_guarded_asm_copy(to, from, len);
}

int urxe_guarded_fetch_add(uint64_t *word, uint64_t add, uint64_t *was)
{
	int err;

	before_atomic(word);
	err = urxe_guarded_asm_fetch_add(word, add, was);
	after_atomic(word);
	return err;
}

int urxe_guarded_compare_swap(uint64_t *word, uint64_t compare, uint64_t swap, uint64_t *was)
{
	int err;

	before_atomic(word);
	err = urxe_guarded_asm_compare_swap(word, compare, swap, was);
	after_atomic(word);
	return err;
}

int urxe_guarded_store(uint64_t *word, uint64_t value)
{
	before_atomic(word);
	return urxe_guarded_asm_store(word, value);
}

/* ---- the handler ---- */

/*
 * Who installs a handler over ours passes on to ours what is not its own, or does not. When memory
 * is registered after that we go in front of it, by another function than before: what it
 * passes on comes to the one that it knows, and goes on from there. So no two pass a signal to and
 * fro.
 */
#define LEVELS 8

static struct sigaction next[2][LEVELS]; /* of SIGSEGV, SIGBUS: where a level passes it on to */
static atomic_uint levels[2];

static struct sigaction *next_of(int sig, unsigned level)
{
	return &next[sig == SIGBUS][level];
}

static bool goes_on(const siginfo_t *info, ucontext_t *uc)
{
#ifdef __x86_64__
	greg_t *pc = &uc->uc_mcontext.gregs[REG_RIP];
#else
	__typeof__(uc->uc_mcontext.pc) *pc = &uc->uc_mcontext.pc;
#endif
	uintptr_t at = (uintptr_t)*pc;

	/* Not what somebody sent, nor news of memory that nobody has asked for yet. */
	if (info->si_code <= 0 || (info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO))
		return false;
	if (at < (uintptr_t)urxe_guarded_begin || at >= (uintptr_t)urxe_guarded_fault)
		return false;
	*pc = (__typeof__(*pc))(uintptr_t)urxe_guarded_fault;
	return true;
}

/* As if nobody had a handler: a fault comes again at the same instruction, a signal is sent again.
 */
static void by_default(int sig, siginfo_t *info)
{
	struct sigaction none = {.sa_handler = SIG_DFL};

	sigaction(sig, &none, NULL);
	if (info->si_code <= 0)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), sig, info);
}

static void handle(unsigned level, int sig, siginfo_t *info, void *uc)
{
	struct sigaction *on = next_of(sig, level), to = *on;
	int err = errno;

	if (goes_on(info, uc))
		return;
	/* A fault is not ignored, whatever was asked for (signal(7)). */
	if (to.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (to.sa_handler == SIG_DFL || to.sa_handler == SIG_IGN) {
		by_default(sig, info);
		errno = err;
		return;
	}
	if (to.sa_flags & (int)SA_RESETHAND)
		*on = (struct sigaction){.sa_handler = SIG_DFL};
	if (to.sa_flags & SA_SIGINFO)
		to.sa_sigaction(sig, info, uc);
	else
		to.sa_handler(sig);
}

#define HANDLER(n)                                                \
	static void handle##n(int sig, siginfo_t *info, void *uc) \
	{                                                         \
		handle(n, sig, info, uc);                         \
	}
HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)
HANDLER(4)
HANDLER(5)
HANDLER(6)
HANDLER(7)

static void (*const handlers[LEVELS])(int, siginfo_t *, void *) = {
	handle0, handle1, handle2, handle3, handle4, handle5, handle6, handle7};

static bool ours(const struct sigaction *sa)
{
	for (unsigned i = 0; i < LEVELS; i++)
		if (sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == handlers[i])
			return true;
	return false;
}

/* Two threads at once may take the same level: for the same handler, then. */
static void start_one(int sig)
{
	struct sigaction now, sa;
	unsigned level;

	if (sigaction(sig, NULL, &now) || ours(&now))
		return;
	/* One that comes again finds the level that it had. */
	for (level = 0; level < atomic_load(&levels[sig == SIGBUS]); level++)
		if (next_of(sig, level)->sa_handler == now.sa_handler)
			break;
	if (level == atomic_load(&levels[sig == SIGBUS])) {
		if (level == LEVELS)
			return;
		atomic_store(&levels[sig == SIGBUS], level + 1);
	}
	*next_of(sig, level) = now;
	/* What it asked the kernel for, it has: the stack, what is blocked meanwhile. */
	sa = now;
	sa.sa_sigaction = handlers[level];
	sa.sa_flags = (now.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) {
		sigemptyset(&sa.sa_mask);
		sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	}
	sigaction(sig, &sa, NULL);
}

void urxe_guarded_start(void)
{
	start_one(SIGSEGV);
	start_one(SIGBUS);
}

#else

int urxe_guarded_copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	return 0;
}

int urxe_guarded_fetch_add(uint64_t *word, uint64_t add, uint64_t *was)
{
	*was = __atomic_fetch_add(word, add, __ATOMIC_SEQ_CST);
	return 0;
}

int urxe_guarded_compare_swap(uint64_t *word, uint64_t compare, uint64_t swap, uint64_t *was)
{
	*was = compare;
	__atomic_compare_exchange_n(word, was, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return 0;
}

int urxe_guarded_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	return 0;
}

void urxe_guarded_start(void)
{
}

#endif
