/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* GIDs as text. */
#include <arpa/inet.h>

#include "urxe/gid.h"

const char *urxe_gid_print(const uint8_t gid[16], char *buf, size_t len)
{
	bool v4 = urxe_gid_is_v4(gid);

	return inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + 12 : gid, buf, (socklen_t)len);
}
