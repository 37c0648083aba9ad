/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What every unit test program shares: its main(), which runs a list of functions under
 * CUnit, prints what failed and exits nonzero then.
 *
 *	URXE_TEST_MAIN("icrc", T(one_thing), T(another))
 */
#ifndef URXE_TEST_HARNESS_H
#define URXE_TEST_HARNESS_H

#include <CUnit/CUnit.h>
#include <stddef.h>

/**
 * URXE_TEST_PART - how many times shorter a long test of one thread is in this build
 *
 * ThreadSanitizer takes ten times as long for it, and has nothing to find where there is one
 * thread.
 */
#if defined(__SANITIZE_THREAD__)
#define URXE_TEST_PART 4
#else
#define URXE_TEST_PART 1
#endif

struct urxe_test {
	const char *name;
	void (*fn)(void);
};

/** urxe_harness_main - run the tests (all, or those named on the command line); the exit status. */
int urxe_harness_main(int argc, char **argv, const char *suite, const struct urxe_test *tests);

/** urxe_harness_skip - this program cannot test here: exit status 77 unless something failed. */
void urxe_harness_skip(const char *why);

/** urxe_harness_shared - path of a golden file ("captures/rping.pcap") in a static buffer. */
const char *urxe_harness_shared(const char *name);

#define T(fn)           \
	{               \
#fn, fn \
	}

#define URXE_TEST_MAIN(suite, ...)                                                   \
	int main(int argc, char **argv)                                              \
	{                                                                            \
		static const struct urxe_test tests[] = {__VA_ARGS__, {NULL, NULL}}; \
                                                                                     \
		return urxe_harness_main(argc, argv, suite, tests);                  \
	}

#endif
