# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""perftest's matrix: which program takes which transport and which option. Data only.

rows() gives each as (name, command, rows of figures in the client's table). Left out is what perftest
4.5 refuses (UC, XRC with -R; -b and -q of latency programs; -e of the write programs; a HW rate limit on
Ethernet), what it cannot do (raw_ethernet_* never arm their CQs, so not with -e; ib_send_lat -R --use-srq
posts to a UD QP that has an SRQ; ib_send_lat -g -e takes any event, also that of the copy of its own
datagram, for the one of its send's completion, polls for that once, goes on without it, and cannot post to
its send queue of one (run_iter_lat_send() in perftest_resources.c; with -c XRC, too, where the answer, which
comes on another QP, overtakes the ACK, on a busy machine: not in CI); ib_atomic_bw waits for the completions
of a warm-up whose requests it did not have signalled), and what loses messages by its nature (-r 1 without
a connection; datagrams to many QPs with one SRQ, which perftest makes no deeper than one QP's iterations).
"""

TRANSPORTS = {'send': ('RC', 'UC', 'UD', 'XRC'), 'write': ('RC', 'UC', 'XRC'), 'read': ('RC', 'XRC'),
              'atomic': ('RC', 'XRC')}
# Row of a table: bytes, iterations, and two figures at least; inf or nan where its own clock failed it.
FIGURE = r'(?:[\d.]+|-?inf|-?nan)'
ROW = r'(?m)^ *\d+ +\d+ +%s +%s' % (FIGURE, FIGURE)
SIZES = 23  # of -a: 2 to 8 MiB, in powers of two
GROUP = '-M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:1'

# Options, and who takes them: words for the operation, the kind and the transport. Of each of these
# three groups one of the words given must fit; a group without any does not matter.
GROUPS = ({'send', 'write', 'read', 'atomic'}, {'bw', 'lat'}, {'RC', 'UC', 'UD', 'XRC'})
OPTIONS = [
    ('', ''),
    ('-a', 'send write read'),
    ('-b', 'bw'),
    ('-q 64', 'bw'),
    ('-b -q 4', 'bw'),
    ('-b -q 4 -a', 'bw send write read'),
    ('-I 1', 'send write'),
    ('-I 64 -s 64', 'send write'),
    ('-I 512 -a', 'send write'),
    ('-I 912 -s 912', 'send write'),
    ('-e', 'send read atomic'),
    ('-e -b -q 4', 'bw send read atomic'),
    ('-e -X 0', 'send read bw'),
    ('-e -a', 'send read'),
    ('--use-srq', 'send RC UD'),
    ('--use-srq -q 16', 'send bw RC'),
    ('--use-srq -b -q 4 -e', 'send bw RC'),
    ('--use-srq -a', 'send RC UD'),
    ('-g ' + GROUP, 'send UD'),
    # The client posts at once what no neighbour's answer holds back: the link may still be coming up.
    ('-g -e ' + GROUP, 'send bw UD'),
    ('-R', 'RC UD'),
    ('-R -a', 'RC UD send write read'),
    ('-R -b -q 8', 'bw RC'),
    ('-R -b -q 8 -n 100', 'bw UD'),  # what both sides have under way fits a ring of af_packet
    ('-R -e', 'send read bw RC UD'),
    ('-R --use-srq', 'send RC'),
    ('-R --use-srq', 'send bw UD'),
    ('-R -T 32', 'RC UD'),
    ('-z', 'RC'),
    ('-l 10', 'bw'),
    ('--recv_post_list=10', 'send bw'),
    ('-l 10 --recv_post_list=10 -q 4', 'send bw'),
    ('-Q 1', 'bw'),
    ('-Q 100', 'bw'),
    ('-t 1', 'bw'),
    ('-t 2048 -n 3000', 'bw'),
    ('-r 1', 'send RC XRC'),
    ('-N', 'bw'),
    ('-o 1', 'read'),
    ('-o 1', 'atomic'),
    ('-o 16', 'read'),
    ('-A CMP_AND_SWAP', 'atomic'),
    ('-m 256', ''),
    ('-x 1', ''),
    ('-S 3', ''),
    ('-u 10', 'RC XRC'),
    ('-C', 'lat'),
    ('-H', 'lat'),
    ('-D 1', ''),
    ('-D 1 --cpu_util', 'bw'),
    ('-D 1 -b -q 4', 'bw'),
    ('--odp', 'send write read RC UD XRC'),
    ('--odp -a', 'send write read RC'),
    ('--reversed', 'bw'),
    ('--report-both -b', 'bw'),
    ('--mr_per_qp -q 4', 'bw'),
    ('--perform_warm_up', 'bw write read'),
    ('--perform_warm_up -Q 1', 'bw atomic'),
    ('--use_old_post_send', ''),
    ('--tclass=32', ''),
    ('--inline_recv=64', 'send'),
    ('--wait_destroy=1', 'bw'),
    ('--latency_gap=10', 'lat'),
    ('--rate_limit=1 --rate_limit_type=SW', 'bw write read'),
    ('--disable_pcie_relaxed', 'bw'),
]

# Of `ci/test`: one of each operation and transport, and of each kind of option.
CI = [
    'ib_send_bw -b -q 4', 'ib_send_bw -q 64', 'ib_send_bw --use-srq -q 16', 'ib_send_bw -e -b -q 4',
    'ib_send_bw -R -b -q 8', 'ib_send_lat -I 912 -s 912', 'ib_send_bw -l 10 --recv_post_list=10 -q 4',
    'ib_send_bw -c UC -b', 'ib_send_lat -c UC -e', 'ib_send_bw -c UD -q 64', 'ib_send_bw -c UD -R',
    'ib_send_lat -c UD --use-srq', 'ib_send_lat -c UD -g', 'ib_send_bw -c UD -g -e',
    'ib_send_bw -c XRC -b -q 4', 'ib_send_lat -c XRC', 'ib_write_bw -b -q 4', 'ib_write_bw -D 1 -b -q 4',
    'ib_write_lat -I 64 -s 64', 'ib_write_bw -c UC', 'ib_write_bw -c XRC', 'ib_read_bw -b -q 4',
    'ib_read_bw --odp', 'ib_read_lat -o 1', 'ib_read_lat -c XRC', 'ib_atomic_bw -b -q 4',
    'ib_atomic_lat -A CMP_AND_SWAP', 'ib_atomic_bw -R', 'ib_atomic_bw -c XRC -e',
]
# The same where the link or the MTU is another one.
CI_OTHER = ['ib_send_bw -b -q 4', 'ib_send_lat -c UC -e', 'ib_send_lat -c UD -g', 'ib_write_bw -c XRC',
            'ib_atomic_bw -b -q 4']


def takes(who, words):
    """Does who a program and transport (words) are fit an option's?"""
    named = set(who.split())
    return all(not named & group or named & group & words for group in GROUPS)


def rows():
    for op, transports in TRANSPORTS.items():
        for kind in ('bw', 'lat'):
            for transport in transports:
                for option, who in OPTIONS:
                    if takes(who, {op, kind, transport}):
                        yield row(op, kind, transport, option)


def row(op, kind, transport, option):
    prog = 'ib_%s_%s' % (op, kind)
    args = ('' if transport == 'RC' else '-c %s ' % transport) + option
    given = set(option.split())
    command = '%s -d urxe0 -p {p} %s' % (prog, args)
    if not {'-n', '-D'} & given:
        command += ' -n {few}' if '-a' in given else ' -n {pn}'
    # Several packets, and no multiple of the MTU; of UD the default is one packet.
    if not {'-s', '-a'} & given and transport != 'UD' and op != 'atomic' and kind == 'bw':
        command += ' -s 10000'
    count = 1
    if '-a' in given:
        count = 0 if transport == 'UD' else SIZES
    elif '--report-both' in given:
        count = 3
    return ('%s %s' % (prog, args.replace(GROUP, ''))).strip(), command, count


# ---- raw_ethernet_*: no connection tells the sides of each other, and what is lost is lost ----

# Not, by perftest 4.5's own fault:
# --mac_fwd              both sides wait for a first frame to forward (run_iter_fw()); beside one that sends,
#                        it answers from the half of its buffer that nothing is received into: frames with
#                        random addresses, seen in a capture.
# --raw_mcast            joins by ibv_attach_mcast() on a raw packet QP, without a look at the answer: EINVAL, as
#                        from the kernel (ib_attach_mcast() takes UD alone), and has no flow rule instead.
# --raw_mcast -g         -g makes a UD QP of the raw packet QP, for which ctx_connect() gets no peer: it reads
#                        from NULL.
# raw_ethernet_burst_lat forces a software rate limit upon itself, and refuses it as it is no bandwidth test.
MACS = ('02:00:00:00:00:0a', '02:00:00:00:00:0b')
UDP = '-J 10.0.0.%d -j 10.0.0.%d -K 5000 -k 5001'
RAW = [('raw_ethernet_bw', option) for option in (
    '', '-b', '-q 4', '-l 10', '-I 100 -s 100', '-D 1', '--use-srq', '--promiscuous', '--sniffer', UDP,
    '--tcp ' + UDP, '--vlan_en ' + UDP, '--flows 4 ' + UDP)] + [('raw_ethernet_lat', option) for option in ('', UDP)]
RAW_CI = ['raw_ethernet_bw', 'raw_ethernet_bw -b', 'raw_ethernet_lat UDP']


def raw_rows():
    """(name, server's command, client's); {dir}/a is where the server's output goes."""
    for prog, option in RAW:
        commands = []
        for own, peer, side in ((0, 1, '--server'), (1, 0, '--client')):
            line = '%s -d urxe0 %s -B %s -E %s %s' % (prog, side, MACS[own], MACS[peer], option)
            line = line.replace('10.0.0.%d', '10.0.0.1', 1).replace('10.0.0.%d', '10.0.0.2', 1)
            # Few frames: they fit the rings, for nothing slows the sender down.
            line += '' if '-D' in option else ' -n 100'
            commands.append(line + ('' if '-s ' in option else ' -s 1000' if 'bw' in prog else ' -s 100'))
        # It writes its table's head when its receives are posted.
        yield ((prog + ' ' + option.replace(UDP, 'UDP')).strip(), 'stdbuf -oL ' + commands[0],
               "until grep -q '#bytes' {dir}/a; do sleep 0.02; done; " + commands[1])
