# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""libfabric: its verbs provider, bare and under rxm and rxd; and its own tests, built from the source that Debian has."""
import os

import rig
import sources
from rig import HOW, TWO_NODES, Case

BOTH = ('clean', 'loss')
# It binds to an interface's address, and takes no loopback interface.
WHERE = 'interface'
# rxm frees an endpoint whose peer has left, and then handles what it had received (rxm_close_conn); later than 2.1 it does not.
FREED = {'flaw': 'the server: exit status -11', 'flaw_why': 'rxm uses a freed endpoint'}


def pingpong(name, provider, endpoint, **more):
    command = 'fi_pingpong -p "%s" -e %s -c -I %%d -S all -B {p}' % (provider, endpoint)
    client = command.replace('-B', '-P')
    return Case('fi_pingpong ' + name, client % 20 + ' {a}', command % 20, r'[1-9]\S*m?\s+20\s+=20', 'tcp', WHERE,
                endless=client % 1000000 + ' {a}', endless_server=command % 1000000, **more)


CASES = [
    Case('fi_info', 'fi_info -p verbs', says='FI_PROTO_RDMA_CM_IB_RC', short=('clean',)),
    pingpong('MSG', 'verbs', 'msg', how=HOW + TWO_NODES, short=(*HOW, 'two nodes')),
    # Not with one side killed: rxm's endpoints have no connection to lose, and who waits for a message waits on.
    pingpong('rxm', 'verbs;ofi_rxm', 'rdm', how=BOTH + TWO_NODES, short=BOTH, **FREED),
    # Not with loss: rxd retransmits when its program calls it, and fi_pingpong waits in a TCP read meanwhile; it hangs over UDP too.
    pingpong('rxd', 'verbs;ofi_rxd', 'rdm', how=('clean', 'two nodes'), short=('clean',)),
    pingpong('dgram', 'verbs', 'dgram', how=('clean', 'two nodes'), short=('clean',)),
]

# runfabtests.sh's short selection without what test_configs/{verbs,ofi_rxm,ofi_rxd}/*.exclude name
MSG = ['fi_msg', 'fi_msg_epoll', 'fi_msg_sockets', 'fi_cm_data', 'fi_cq_data -e msg', 'fi_bw -e msg -v -T 1',
       'fi_msg_pingpong -I 5', 'fi_msg_pingpong -I 5 -v', 'fi_msg_bw -I 5', 'fi_msg_bw -I 5 -v', 'fi_rma_bw -e msg -o write -I 5',
       'fi_rma_bw -e msg -o read -I 5', 'fi_rma_bw -e msg -o writedata -I 5']
RDM = ['fi_av_xfer -e rdm', 'fi_cq_data -e rdm', 'fi_poll -t queue', 'fi_poll -t counter', 'fi_rdm', 'fi_rdm -U', 'fi_rdm_tagged_peek',
       'fi_multi_mr -e rdm -V', 'fi_recv_cancel -e rdm -V', 'fi_unexpected_msg -e rdm -i 10', 'fi_inj_complete -e rdm',
       'fi_inj_complete -e rdm -SR', 'fi_bw -e rdm -v -T 1', 'fi_bw -e rdm -v -T 1 -U', 'fi_rma_bw -e rdm -o write -I 5',
       'fi_rma_bw -e rdm -o write -I 5 -U', 'fi_rma_bw -e rdm -o read -I 5', 'fi_rma_bw -e rdm -o read -I 5 -U',
       'fi_rma_bw -e rdm -o writedata -I 5', 'fi_rma_bw -e rdm -o writedata -I 5 -U', 'fi_rdm_atomic -I 5 -o all',
       'fi_rdm_atomic -I 5 -o all -U', 'fi_rdm_cntr_pingpong -I 5', 'fi_multi_recv -e rdm -I 5', 'fi_rdm_pingpong -I 5', 'fi_rdm_pingpong -I 5 -U',
       'fi_rdm_pingpong -I 5 -v', 'fi_rdm_pingpong -I 5 -v -U', 'fi_rdm_tagged_pingpong -I 5', 'fi_rdm_tagged_pingpong -I 5 -v',
       'fi_rdm_tagged_pingpong -I 5 -v -U', 'fi_rdm_tagged_bw -I 5', 'fi_rdm_tagged_bw -I 5 -U', 'fi_rdm_tagged_bw -I 5 -v',
       'fi_rdm_tagged_bw -I 5 -v -U', 'fi_rdm_rma_event', 'fi_rdm_tagged_pingpong -I 5 -U']
UNIT = ['fi_getinfo_test -p verbs -s {a} {a}', 'fi_av_test -p verbs -g 192.0.2.1 -n 1 -s {a}', 'fi_cntr_test -p verbs', 'fi_dom_test -p verbs -n 2',
        'fi_eq_test -p verbs', 'fi_cq_test -p verbs', 'fi_mr_test -p verbs']
EXCLUDED = {'verbs;ofi_rxm': ('fi_multi_mr', 'fi_rdm_atomic', 'fi_rdm_rma_event'),
            'verbs;ofi_rxd': ('fi_multi_mr', 'fi_poll', 'fi_cq_data', 'fi_rdm_cntr_pingpong')}
# They want an exchange over TCP as well, at a port of all of them if none is named.
OUT_OF_BAND = ('fi_av_xfer', 'fi_multi_recv', 'fi_unexpected_msg')
SHORT = ('fi_msg', 'fi_cm_data', 'fi_rma_bw -e msg -o read -I 5', 'fi_rdm', 'fi_rdm_tagged_pingpong -I 5 -v', 'fi_rdm_atomic -I 5 -o all')


def fabtest(folder, provider, command):
    """Without a name of its own a server listens anywhere; addresses of datagram endpoints go over TCP."""
    program, *words = command.split()
    oob = ' -b={p}' if 'rxd' in provider or program in OUT_OF_BAND else ''
    line = '%s/%s -p "%s"%s %s ' % (folder, program, provider, oob, ' '.join(words))
    if program == 'fi_msg_sockets':
        line += '-s {a} '
    short = provider.split(';')[-1].replace('ofi_', '')
    flaw = FREED if short == 'rxm' else {}
    if short == 'rxd' and program == 'fi_rdm_multi_client':
        # fi_close() of an endpoint that has received its answer: its acknowledgement is not repeated, and the server waits for one.
        flaw = {'flaw': 'it hangs', 'flaw_why': 'rxd leaves without a last acknowledgement'}
    # libinfinipath, which Debian 12's libfabric loads, makes a SIGSEGV an exit status of 1.
    env = {'IPATH_NO_BACKTRACE': '1'}
    # Without a server's name both bind to the same port.
    return Case('fabtests %s %s' % (short, command), line + ('-B {q} ' if oob else '-P {p} ') + '{a}', line + ('' if oob else '-B {p}'), '',
                'tcp' if oob else 'rdma', WHERE,
                how=BOTH, short=('clean',) if command in SHORT else (), env=env, **flaw)


# libfabric's source has them in some releases; else that of mpich, which has a libfabric in it.
PLACES = (('libfabric', None), ('mpich', None))
BUILD = r'''
cd fabtests || cd modules/libfabric/fabtests
./autogen.sh
./configure --prefix="$prefix"
make -j2
make install
'''
# A later libfabric, and its tests: what those of mpich do not have.
LATER = (('libfabric', 'trixie'),)
BUILD_LATER = r'''
./autogen.sh
./configure --prefix="$prefix" --disable-static --enable-verbs=yes $(printf -- '--disable-%s ' cxi efa lnx lpp mrail opx perf profile psm2 psm3 \
	shm sm2 sockets trace ucx udp usnic)
make -j2
make install
cd fabtests
./autogen.sh
./configure --prefix="$prefix" --with-libfabric="$prefix"
make -j2
make install
'''
LATER_RDM = ['fi_rdm_multi_client -C 10 -I 5', 'fi_rma_pingpong -e rdm -o writedata -I 5']


def fabtests(report, family, everything):
    home, why = sources.built('fabtests', PLACES, 'bin/fi_msg', BUILD, ('autoreconf', 'libtoolize', '/usr/include/rdma/fabric.h'))
    if not home:
        report.skip(family + ': fabtests', why)
        return
    folder = home + '/bin'
    rows = [Case('fabtests ' + line.split()[0], folder + '/' + line, address=WHERE, short=('clean',)) for line in UNIT]
    rows += [fabtest(folder, 'verbs', line) for line in MSG]
    for provider, excluded in EXCLUDED.items():
        rows += [fabtest(folder, provider, line) for line in RDM + LATER_RDM
                 if line.split()[0] not in excluded and ('rxd' not in provider or '-S' not in line)]
    if everything and not os.path.exists(folder + '/fi_rdm_multi_client'):
        home, why = sources.built('libfabric-later', LATER, 'bin/fi_rdm_multi_client', BUILD_LATER, ('autoreconf', 'libtoolize'))
        if home:
            rows += [fabtest(home + '/bin', provider, line) for provider in EXCLUDED for line in LATER_RDM]
        else:
            report.skip(family + ': fi_rdm_multi_client', why)
    for case in rows:
        # Not all releases have all of them.
        for how in case.how if os.path.exists(case.client.split()[0]) else ():
            if everything or how in case.short:
                rig.run_case(report, family, case, how)
