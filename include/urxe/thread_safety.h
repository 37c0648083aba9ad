/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which lock a function takes, gives or needs, in words that clang checks (-Wthread-safety; ci/lint
 * does so for all of provider/, cm/ and netio/). For gcc they are nothing.
 *
 * A word stands behind the parameters of a declaration, or of a static function's definition, and
 * names the lock by them: URXE_REQUIRES(qp->lock). In C a member cannot name a lock beside it, so
 * what a lock guards is checked for static variables alone (URXE_GUARDED_BY); of structs the
 * functions that touch them say it. Source: clang's "Thread Safety Analysis".
 */
#ifndef URXE_THREAD_SAFETY_H
#define URXE_THREAD_SAFETY_H

#if defined(__clang__)
#define URXE_THREAD_ATTR(x) __attribute__((x))
#else
#define URXE_THREAD_ATTR(x)
#endif

/** The struct is a lock; @name is what findings call it. Stands behind "struct". */
#define URXE_CAPABILITY(name) URXE_THREAD_ATTR(capability(name))
/** The variable is read and written with the lock held only. */
#define URXE_GUARDED_BY(lock) URXE_THREAD_ATTR(guarded_by(lock))
/** The caller holds the locks, before and after. */
#define URXE_REQUIRES(...) URXE_THREAD_ATTR(requires_capability(__VA_ARGS__))
/** The caller does not hold them: the function takes them, or waits for who does. */
#define URXE_EXCLUDES(...) URXE_THREAD_ATTR(locks_excluded(__VA_ARGS__))
/** The function returns with the locks, which the caller did not hold. */
#define URXE_ACQUIRE(...) URXE_THREAD_ATTR(acquire_capability(__VA_ARGS__))
/** The same if it returns a value that is true or false as the first argument is. Not checked
 * inside. */
#define URXE_TRY_ACQUIRE(...) URXE_THREAD_ATTR(try_acquire_capability(__VA_ARGS__))
/** The caller holds the locks, and has them no more afterwards. */
#define URXE_RELEASE(...) URXE_THREAD_ATTR(release_capability(__VA_ARGS__))
/** From here on the caller is taken to hold the locks: it got them where clang could not see it. */
#define URXE_ASSUMES(...) URXE_THREAD_ATTR(assert_capability(__VA_ARGS__))
/** The inside of the function is not checked; a comment beside it says why. */
#define URXE_UNCHECKED URXE_THREAD_ATTR(no_thread_safety_analysis)

#endif
