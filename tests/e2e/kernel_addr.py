# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two nodes whose RDMA addresses are the kernel's, too (ci/two-node --kernel-addr): programs that also talk TCP there."""
import os
import re

import clocked

# title, the server's command, the client's, what the client must say; TCP and RDMA go to the same address
ROWS = [
    ('ib_write_bw', 'ib_write_bw -d urxe0 -F -n 300 -p {p}', 'ib_write_bw -d urxe0 -F -n 300 -p {p} 10.0.0.1', 'BW average'),
    ('ib_send_bw -R', 'ib_send_bw -R -F -n 300 -p {p}', 'ib_send_bw -R -F -n 300 -p {p} 10.0.0.1', 'BW average'),
    ('ibv_rc_pingpong', 'ibv_rc_pingpong -d urxe0 -g 0 -c -p {p}', 'ibv_rc_pingpong -d urxe0 -g 0 -c -p {p} 10.0.0.1', 'iters in'),
    ('rping IPv6', 'rping -s -a fd00::1 -V -C 20', 'rping -c -a fd00::1 -V -v -C 20', 'rdma-ping-19:'),
]


def kernel_addr(report, _kind, _why_not):
    for link in ('vhost', 'memif', 'fabric', 'udp'):
        for name, server, client, says in ROWS:
            title = 'kernel_addr: %s %s' % (link, name)
            if not report.wanted(title):
                continue
            if os.geteuid():
                report.skip(title, 'not root: no network namespaces')
                continue
            result = clocked.two_node(title, server, client, link, options=('--kernel-addr',))
            problem = 'exit status %d' % result.status if result.status else None
            if not problem and not re.search(says, result.b):
                problem = 'the client does not say ' + says
            if not problem and result.reports:
                problem = 'a sanitizer reports'
            report.result(title, problem + '\n' + result.tail() if problem else None)
