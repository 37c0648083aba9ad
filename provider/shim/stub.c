/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Nothing: linked as a library whose SONAME is the absolute path of the real libibverbs, so that
 * the shim needs that file and not itself.
 */
