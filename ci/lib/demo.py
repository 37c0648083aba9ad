# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table of ci/demo: unmodified programs as two nodes over vhost, and the bare link beside them."""
import re
import sys

sys.dont_write_bytecode = True
import figures  # noqa: E402
import node  # noqa: E402

MTU = 4096
LINE = '%-46s %-30s %s'
failed = 0


def row(what, run, beside=lambda value: ''):
    """run() gives (text, value); a failure is a row too."""
    global failed
    try:
        text, value = run()
        print(LINE % (what, text, beside(value)), flush=True)
        return value
    except ValueError as e:
        failed += 1
        print(LINE % (what, 'FAILED', ''))
        print('    ' + str(e).replace('\n', '\n    '), flush=True)
        return None


def rping():
    result = figures.pair('rping -s -a 10.0.0.1 -V -v -C 1000', 'rping -c -a 10.0.0.1 -V -v -C 1000', MTU)
    rounds = len(re.findall(r'ping data: rdma-ping-', result.b))
    if rounds != 1000:
        raise ValueError('%d rounds, not 1000' % rounds)
    return '1000 rounds, data validated', rounds


def pingpong():
    command = 'ibv_rc_pingpong -d urxe0 -g 0 -p {p} -c -n 10000'
    result = figures.pair(command, command + ' 127.0.0.1', MTU)
    found = re.search(r'([\d.]+) usec/iter', result.b)
    if not found:
        raise ValueError('no figure\n' + result.tail(4))
    return 'data checked, %s us a round' % found.group(1), float(found.group(1))


def main():
    node.end_cleanly()
    print('two processes, net_vhost <-> net_virtio_user, path MTU %d; no hugepages, no root needed\n' % MTU)
    print(LINE % ('what ran', 'what came out', 'against the bare link'))
    print(LINE % ('-' * 46, '-' * 30, '-' * 32))

    def bare():
        lat, bw = figures.bare(['lat 64 20000', 'bw 4096 200000'], MTU)
        return '%.2f us, %.1f Gb/s' % (lat, bw), (lat, bw)

    link = row('bare link (half a round trip, 4 KiB frames)', bare)

    def of_link(which, word):
        if not link:
            return lambda value: ''
        return lambda value: '%.2f x its %s' % (value / link[which], word)

    row('rping -V -C 1000', rping)
    row('ibv_rc_pingpong -c -n 10000 (4 KiB)', pingpong, lambda v: link and of_link(0, 'latency')(v / 2) or '')
    row('ib_write_bw -s 65536 -n 20000', lambda: gbits('ib_write_bw'), of_link(1, 'bandwidth'))
    row('ib_send_lat -s 64 -n 20000', lambda: micros('ib_send_lat'), of_link(0, 'latency'))
    print()
    if failed:
        print('%d of 5 failed' % failed)
        return 1
    print('all of it worked')
    return 0


def gbits(prog):
    value = figures.bandwidth(prog, 65536, MTU, 20000)
    return '%.1f Gb/s' % value, value


def micros(prog):
    value = figures.latency(prog, 64, MTU)
    return '%.2f us, half a round trip' % value, value


if __name__ == '__main__':
    sys.exit(main())
