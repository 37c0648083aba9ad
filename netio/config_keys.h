/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to config*.c: the table of keys.
 */
#ifndef URXE_NETIO_CONFIG_KEYS_H
#define URXE_NETIO_CONFIG_KEYS_H

#include "netio/config.h"

struct urxe_config_key {
	const char *name;
	bool global;
	bool repeats; /* may stand several times, and may be a list */
	/* Store @value; false when it is not what the key accepts. @cfg for global keys, @dev else.
	 */
	bool (*parse)(struct urxe_config *cfg, struct urxe_port_config *dev, const char *value);
	const char *accepts;
};

/** urxe_config_key_find - NULL when there is none. */
const struct urxe_config_key *urxe_config_key_find(const char *name);

/** urxe_config_fail - one line in @err, whatever it quotes. Returns EINVAL. */
int urxe_config_fail(char *err, size_t errlen, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** urxe_config_check - what concerns several keys or devices. 0 or EINVAL (@err). */
int urxe_config_check(const struct urxe_config *cfg, char *err, size_t errlen);

#endif
