# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What programs find in /sys and /dev under `urxe run`: as root, as a user without capabilities, and as one with some."""
import contextlib
import itertools
import os
import re
import shutil
import subprocess

import fabric
import fabric_live
import node

# Walks as Mellanox's scripts of these names do.
IBDEV2NETDEV = '''cd /sys/class/infiniband && for d in *; do for p in $d/ports/*; do
n=$(cat $p/gid_attrs/ndevs/0); test -e $d/device/net/$n && echo "$d port ${p##*/} ==> $n ($(cat /sys/class/net/$n/operstate))"
done; done'''
SHOW_GIDS = '''cd /sys/class/infiniband && for d in *; do for g in $d/ports/1/gids/*; do i=${g##*/}; v=$(cat $g)
test $v = 0000:0000:0000:0000:0000:0000:0000:0000 && continue
echo "$d 1 $i $v $(cat $d/ports/1/gid_attrs/types/$i) $(cat $d/ports/1/gid_attrs/ndevs/$i)"; done; done'''
# As NCCL's: the real path of `device`, from there upwards for a NUMA node.
NCCL = '''import os
d = os.path.realpath('/sys/class/infiniband/urxe0/device')
print(d, open(d + '/numa_node').read().strip(), os.path.exists(d + '/subsystem'))'''

# As programs open it that need no version of it: NCCL's and bRPC.
DLOPEN = '''import ctypes
v, n = ctypes.CDLL('libibverbs.so'), ctypes.c_int()
v.ibv_get_device_list(ctypes.byref(n))
ctypes.CDLL('librdmacm.so').rdma_create_event_channel
print(n.value, 'device')'''

ASAN = 'echo "int main(void) { return 0; }" >a.c && gcc -fsanitize=address a.c -o a && ./a && echo it has run'

# title, the program that must be installed, command, what it must say
READERS = [
    ('ibv_devinfo', 'ibv_devinfo', 'ibv_devinfo -d urxe0', r'state:\s+PORT_ACTIVE'),
    ('ibstat', 'ibstat', 'ibstat urxe0', r'State: Active\n\s+Physical state: LinkUp[^$]*Link layer: Ethernet'),
    ('ibstatus', 'ibstatus', 'ibstatus urxe0', r"'urxe0' port 1 status:[^$]*4: ACTIVE"),
    ('ucx_info', 'ucx_info', 'ucx_info -d', r'rc_verbs[^$]*urxe0:1'),
    ('fi_info', 'fi_info', 'fi_info -p verbs', r'domain: urxe0'),
    ('ibdev2netdev', 'sh', IBDEV2NETDEV, r'^urxe0 port 1 ==> \w+ \(\w+\)$'),
    ('show_gids', 'sh', SHOW_GIDS, r'^urxe0 1 0 [\da-f:]{39} RoCE v2 \w+$'),
    ('a walk as NCCL\'s', 'python3', NCCL, r'/sys/class/infiniband/urxe0/device -1 False'),
    ('/dev', 'sh', 'for f in urxe0 uverbs0 rdma_cm; do test -c /dev/infiniband/$f && : </dev/infiniband/$f || exit; done; echo all',
     r'^all$'),
    ('numbered devices', 'sh', 'for f in /dev/tty[0-9] /dev/loop[0-9]; do test -e $f && stat -L -c "%t ${f%?}" $f; done | sort -u; echo end',
     r'^(4 /dev/tty\n)?(7 /dev/loop\n)?end$'),
    ('a terminal', 'python3', 'import os; print(os.ttyname(os.openpty()[1]))', r'^/dev/(\.urxe/)?pts/\d+$'),
    ('libibverbs.so', 'python3', DLOPEN, r'^1 device$'),
    *([] if node.sanitized() else [('a program with AddressSanitizer', 'gcc', ASAN, r'^it has run$')]),
    ('a view in a view', 'sh', fabric.TOOL + ' run -- ls /sys/class/infiniband /sys/class/infiniband_verbs',
     r'urxe0\n\n/sys/class/infiniband_verbs:\nabi_version\nuverbs0$'),
]

NO_TSAN = ('ibstatus', 'ucx_info', 'python3')
TSAN_ENDS = ' ends with SIGSEGV when TSan is loaded into it'

ANOTHER = 12345
SANDBOXED = 23456
NOBODY = ['setpriv', '--reuid', str(fabric.NOBODY), '--regid', str(fabric.NOBODY), '--clear-groups']
WITH_SOME = NOBODY + ['--inh-caps', '+net_raw', '--ambient-caps', '+net_raw']


# The second in a plain build alone: a sanitizer's own scandir() and stat() come before the library's.
VIEWS = (('', 'always'), (' by a library', 'preload'))[:1 if node.sanitized() else 2]
SANITIZED = "a sanitizer's own stat() comes before the library's"


def users():
    """Who runs them, and what stands before the tool."""
    return [('root', []), ('a user', NOBODY)] if not os.geteuid() else [('a user', [])]


@contextlib.contextmanager
def fabric_of(who):
    """One whose folder is theirs."""
    with fabric.Fabric() as f:
        if who == 'root':
            os.chown(f.folder, 0, 0)
        yield f


def run(folder, before, options, command, interpreter, timeout):
    keep = {k: v for k, v in os.environ.items() if not k.startswith('URXE_')}
    if 'preload' in options:
        keep['URXE_STATUS_DIR'] = folder
    return subprocess.run([*before, fabric.TOOL, 'run', *options, '--', interpreter, '-c', command], cwd=folder,
                          env={**keep, **node.sanitizer_env(folder), 'XDG_RUNTIME_DIR': folder, 'URXE_NO_SPAWN': '1'}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)


def refused(folder, before, timeout):
    """Why there is no view for these users, or None."""
    # Whether its thread has begun by then is a matter of luck.
    if node.sanitized() == 'thread' and (before or os.geteuid()):
        return "TSan's own thread keeps urxe from making a user namespace"
    r = run(folder, before, ['--view', 'always'], 'true', 'sh', timeout)
    return r.stdout.strip() if r.returncode else None


def can_run(report, title, f, program, timeout):
    """Is there a view for the fabric's user, and this program? Else the test is skipped."""
    why = refused(f.folder, f.user, timeout) or (None if shutil.which(program) else program + ' is not installed')
    if why:
        report.skip(title, why)
    return not why


def read(report, timeout):
    for (who, before), (how, when) in itertools.product(users(), VIEWS):
        with fabric_of(who) as f:
            why = refused(f.folder, before, timeout) if when == 'always' else None
            for title, needs, command, says in READERS:
                title = 'view: %s as %s%s' % (title, who, how)
                if not report.wanted(title):
                    continue
                if not why and node.sanitized() == 'thread' and needs in NO_TSAN:
                    report.skip(title, needs + TSAN_ENDS)
                    continue
                if why or not shutil.which(needs):
                    report.skip(title, why or needs + ' is not installed')
                    continue
                r = run(f.folder, before, ['--view', when], command, 'python3' if needs == 'python3' else 'sh', timeout)
                found = re.search(says, r.stdout, re.M)
                fabric.told(report, title, None if found else 'it does not say %s' % says, r.stdout)


SELF = 'id -u; id -g; pwd; grep ^Cap[IPEA] /proc/self/status; exit 42'


def kept(report, timeout):
    """The program is who and where it was, and its exit status is its own."""
    for who, before in users() + ([('a user with CAP_NET_RAW', WITH_SOME)] if not os.geteuid() else []):
        title = 'view: what is kept as ' + who
        if not report.wanted(title):
            continue
        with fabric_of(who) as f:
            one, two = (run(f.folder, before, ['--view', v, '--log', 'err'], SELF, 'sh', timeout) for v in ('auto', 'never'))
            same = one.stdout == two.stdout and one.returncode == two.returncode == 42
            fabric.told(report, title, None if same else 'it differs', one.stdout + '\n--\n' + two.stdout)


def deleted(report, timeout):
    """The working folder is what it was, though it has no name."""
    gone = ['sh', '-c', 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', 'sh']
    for who, before in users():
        title = 'view: a working folder that was deleted, as ' + who
        if not report.wanted(title):
            continue
        with fabric_of(who) as f:
            r = run(f.folder, before + gone, ['--view', 'auto'], 'readlink /proc/self/cwd', 'sh', timeout)
            good = re.search(r'/gone \(deleted\)$', r.stdout, re.M)
            fabric.told(report, title, None if good else 'it is another one', r.stdout)


def default(report, timeout):
    """Nobody asks for it, and it is there; `never` goes without."""
    for who, before in users():
        title = 'view: by default as ' + who
        if not report.wanted(title):
            continue
        with fabric_of(who) as f:
            why = refused(f.folder, before, timeout)
            if why:
                report.skip(title, why)
                continue
            look = 'ls /sys/class/infiniband/urxe0/node_guid'
            one, two = (run(f.folder, before, options, look, 'sh', timeout) for options in ([], ['--view', 'never']))
            fabric.told(report, title, None if not one.returncode and two.returncode else 'not so', one.stdout + two.stdout)


# The drivers of kernel devices that are in a program which has looked for its devices.
LOADED = DLOPEN + '\nprint(sum("-rdmav" in l and "r-xp" in l and "liburxe" not in l for l in open("/proc/self/maps")), "drivers")'


def drivers(report, timeout):
    """Where the kernel has no device no driver of one is loaded."""
    title = 'view: drivers of kernel devices'
    if not report.wanted(title):
        return
    tsan = node.sanitized() == 'thread'
    if tsan or os.path.exists('/sys/class/infiniband_verbs/uverbs0'):
        report.skip(title, 'python3' + TSAN_ENDS if tsan else 'the kernel has a device')
        return
    for who, before in users():
        with fabric_of(who) as f:
            why = refused(f.folder, before, timeout)
            if why:
                report.skip(title + ', as ' + who, why)
                continue
            r = run(f.folder, before, ['--view', 'always'], LOADED, 'python3', timeout)
            good = r.stdout == '1 device\n0 drivers\n'
            fabric.told(report, title + ', as ' + who, None if good else 'not so', r.stdout)


def refuses(report, timeout):
    """Who has capabilities would lose them in a user namespace: a library then, or with `always` an error."""
    title = 'view: no namespaces for a user with CAP_NET_RAW'
    if not report.wanted(title):
        return
    if os.geteuid() or node.sanitized():
        report.skip(title, 'needs root, to give it' if os.geteuid() else SANITIZED)
        return
    with fabric.Fabric() as f:
        quiet, auto, always = (run(f.folder, WITH_SOME, options, 'ls /sys/class/infiniband', 'sh', timeout)
                               for options in ([], ['--view', 'auto', '--log', 'info'], ['--view', 'always']))
        good = (quiet.stdout == 'urxe0\n' and auto.returncode == 0 and re.match(r'urxe: no namespace for .*\nurxe0\n', auto.stdout) and
                always.returncode == 2)
        fabric.told(report, title, None if good else 'not so', '--\n'.join((quiet.stdout, auto.stdout, always.stdout)))


def swept(report, timeout):
    """The folder of a view by the library goes when it is old and no process has it, as another one is made."""
    title = 'view: folders that nobody uses'
    if not report.wanted(title):
        return
    if node.sanitized():
        report.skip(title, SANITIZED)
        return
    with fabric.Fabric() as f:
        if not os.geteuid():
            os.chown(f.folder, 0, 0)
        used, unused, young = (f.folder + '/view-' + n for n in ('used', 'unused', 'young'))
        for folder in (used, unused, young):
            os.makedirs(folder + '/sys/class')
        for folder in (used, unused):
            os.utime(folder, (1, 1))
        user = subprocess.Popen(['cat'], stdin=subprocess.PIPE, env={'URXE_VIEW_ROOT': used})
        r = run(f.folder, [], ['--view', 'preload'], 'ls /sys/class/infiniband', 'sh', timeout)
        user.communicate()
        left = sorted(n for n in os.listdir(f.folder) if n.startswith('view-'))
        good = r.stdout == 'urxe0\n' and len(left) == 3 and left[1:] == ['view-used', 'view-young']
        fabric.told(report, title, None if good else 'not so', r.stdout + str(left))


def answers(report, timeout):
    """Who is in a view answers the user and root outside, and his own `urxe status` in a view."""
    title = 'view: urxe status of a program in a view'
    if not report.wanted(title):
        return
    with fabric.Fabric() as f:
        if f.user:  # nobody is the number that those have who have none in a namespace
            os.chown(f.folder, ANOTHER, ANOTHER)
            f.user = [w.replace(str(fabric.NOBODY), str(ANOTHER)) for w in f.user]
        ready = f.folder + '/ready'
        status = {'URXE_STATUS_DIR': f.folder, 'URXE_VIEW': 'always'}
        if not can_run(report, title, f, 'rping', timeout):
            return
        server = f.start('rping -s -a 127.0.0.1 -p 7397', 's', URXE_READY_FILE=ready, **status)
        problem = None if fabric.until(lambda: os.path.exists(ready), server, timeout) else 'the server does not listen'
        asks = [('the user', f.user + [fabric.TOOL, 'status', '--cm']),
                ('in a view', f.user + [fabric.TOOL, 'run', '--', fabric.TOOL, 'status', '--cm'])]
        if not os.geteuid():
            asks.append(('root', [fabric.TOOL, 'status', '--cm']))
        for who, command in asks:
            done = subprocess.run(command, env=f.environ(**status), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, text=True, timeout=timeout, check=False)
            if not problem and (done.returncode or '127.0.0.1:7397' not in done.stdout):
                problem = '%s: %s' % (who, done.stdout)
        fabric.told(report, title, problem, f.said('s'))


# A sandbox that gives its user another number, and no capability: a view in it is a namespace below.
SANDBOX = '''"$0" run --view always --port fabric -- rping -s -a 127.0.0.1 -p 7398 &
pid=$!
until "$0" status --cm | grep -F 127.0.0.1:7398; do kill -0 $pid || exit 1; sleep 0.05; done
exec kill $pid'''


def sandboxed(report, timeout):
    """Who is in a view in a sandbox, and who is in the sandbox alone, look for the same folder in /tmp."""
    title = 'view: urxe status in a sandbox of a program in a view'
    if not report.wanted(title):
        return
    with fabric.Fabric() as f:
        if not can_run(report, title, f, 'rping', timeout):
            return
        sandbox = [*f.user, 'unshare', '-U', '--map-user=%d' % SANDBOXED, '--map-group=%d' % SANDBOXED]
        if subprocess.run([*sandbox, 'true'], capture_output=True).returncode:
            report.skip(title, 'no sandbox can be made')
            return
        with open(f.folder + '/said', 'w') as out:
            child = subprocess.Popen([*sandbox, 'sh', '-c', SANDBOX, fabric.TOOL], env=f.environ(), stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        f.children.append(child)
        try:
            problem = 'exit status %d' % child.returncode if child.wait(timeout) else None
        except subprocess.TimeoutExpired:
            problem = 'the sandbox does not see it'
        fabric.told(report, title, problem, node.read(f.folder + '/said'))


def shared(report, timeout):
    """A second program joins the first one's view, and may look at its memory; not so one with other devices, or later."""
    for who, before in users():
        title = 'view: two programs, one view, as ' + who
        if not report.wanted(title):
            continue
        with fabric_of(who) as f:
            env = f.environ(URXE_STATUS_DIR=f.folder, URXE_VIEW='always')
            why = refused(f.folder, before, timeout)
            if why:
                report.skip(title, why)
                continue

            def start(command, *options):
                return subprocess.Popen([*before, fabric.TOOL, 'run', *options, '--', 'sh', '-c', command], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

            def says(command, *options):
                return start(command, *options).communicate(timeout=timeout)[0].strip()

            name = 'readlink /proc/self/ns/mnt'
            first = start(name + '; cat')
            one = first.stdout.readline().strip()
            problem = None
            if not one.startswith('mnt:') or says(name) != one:
                problem = 'the second is not in the view %s' % one
            elif not says('wc -l </proc/%d/maps' % first.pid).isdigit():
                problem = 'it may not look at the first'
            elif says(fabric.TOOL + ' run -- ' + name) != one:
                problem = 'one below it is in another view'
            elif says(name, '--port', 'loop', '--ip', '10.0.0.1/24') == one:
                problem = 'one with another device is in the view %s' % one
            first.communicate()
            if not problem and says(name + '; test -e /sys/class/infiniband/urxe0/node_guid && echo there')[-5:] != 'there':
                problem = 'there is no view when the first has ended'
            # unshare(1) does not work with ThreadSanitizer in it.
            if node.sanitized() != 'thread':
                box = start('exec unshare -Urm sh -c "%s; cat"' % name)
                its = box.stdout.readline().strip()
                if not problem and (not its.startswith('mnt:') or says(name) == its):
                    problem = 'it is in the sandbox that the first has made'
                box.communicate()
            fabric.told(report, title, problem, one)


def between(report, timeout):
    """A server without a view, and a client with one, are on one fabric; and the other way round."""
    for server_view, client_view in (('never', 'auto'), ('auto', 'never'), ('auto', 'auto')):
        title = 'view: rping, server %s, client %s' % (server_view, client_view)
        if not report.wanted(title):
            continue
        if not shutil.which('rping'):
            report.skip(title, 'rping is not installed')
            continue
        with fabric.Fabric() as f:
            ready = f.folder + '/ready'
            server = f.start('rping -s -a 127.0.0.1 -p 7397 -V -C 20', 's', URXE_READY_FILE=ready, URXE_VIEW=server_view)
            problem = None
            if not fabric.until(lambda: os.path.exists(ready), server, timeout):
                problem = 'the server does not listen'
            else:
                client = f.start('rping -c -a 127.0.0.1 -p 7397 -V -C 20', 'c', URXE_VIEW=client_view)
                if client.wait(timeout) or server.wait(timeout):
                    problem = 'exit status %s, the server %s' % (client.returncode, server.returncode)
            fabric.told(report, title, problem, f.said('s') + f.said('c'))


COUNTERS = {'counters': ('port_xmit_data', 'port_rcv_data', 'port_xmit_packets', 'port_rcv_packets', 'port_rcv_errors', 'symbol_error'),
            'hw_counters': ('sent_pkts', 'rcvd_pkts', 'duplicate_request')}
# A first program holds the view; what it is told to read it prints.
HOLDER = 'while read f; do [ "$f" ] && { cd /sys/class/infiniband/urxe0/ports/1 && grep . $f/* | tr "\\n" " "; echo; }; done'
BYTES, SIZE = 2000 * 65536, '-n 2000 -s 65536'


class Holder:
    """A program in a view, that reads counters."""

    def __init__(self, f):
        self.f = f
        self.env = f.environ(URXE_STATUS_DIR=f.folder, URXE_VIEW='always')
        self.child = self.start(HOLDER, subprocess.PIPE)

    def start(self, command, stdout):
        child = subprocess.Popen([*self.f.user, fabric.TOOL, 'run', '--', 'sh', '-c', command], env=self.env, text=True,
                                 stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.STDOUT, start_new_session=True)
        self.f.children.append(child)
        return child

    def read(self):
        found = {}
        for folder in COUNTERS:
            self.child.stdin.write(folder + '\n')
            self.child.stdin.flush()
            for name, value in re.findall(r'/(\w+):(\S+)', self.child.stdout.readline()):
                found[name] = int(value)
        return found


def grown(before, after):
    """What is wrong with the counters of both sides of ib_write_bw, which send BYTES and their acknowledgements."""
    names = [n for names in COUNTERS.values() for n in names]
    missing = [n for n in names if n not in after]
    if missing:
        return 'no ' + ' '.join(missing)
    more = {n: after[n] - before[n] for n in names}
    # What the first to end is sent at its end nobody receives.
    if not all(BYTES <= 4 * more[n] <= 1.2 * BYTES for n in ('port_xmit_data', 'port_rcv_data')):
        return 'not %d bytes: %s' % (BYTES, more)
    if more['sent_pkts'] != more['port_xmit_packets'] or min(more['sent_pkts'], more['rcvd_pkts']) < BYTES // 4096:
        return 'not so many packets: %s' % more
    return 'errors: %s' % more if more['symbol_error'] or more['port_rcv_errors'] else None


def counters(report, timeout):
    """Those in the view have what was sent by processes that have ended, and are whole when one is killed."""
    title = 'view: counters of ib_write_bw'
    if not report.wanted(title):
        return
    with fabric.Fabric() as f:
        if not can_run(report, title, f, 'ib_write_bw', timeout):
            return
        holder = Holder(f)
        before = holder.read()
        ran, said = f.folder + '/bw', ''
        with open(ran, 'w') as out:
            server = holder.start('exec ib_write_bw -p 7396 ' + SIZE, out)
            client = holder.start('exec ib_write_bw -p 7396 %s 127.0.0.1' % SIZE, out) \
                if fabric.until(lambda: fabric.listens(7396), server, timeout) else server
            status = client.wait(timeout) or server.wait(timeout)
        problem = node.read(ran) if status else grown(before, holder.read())
        said = str(holder.read())
        # One that counts without end is killed, again and again; who reads finds numbers that grow, and no rest of a file.
        last = holder.read()
        for _ in range(0 if problem else 3):
            ready = f.folder + '/ready'
            if os.path.exists(ready):
                os.unlink(ready)
            one = holder.start('URXE_READY_FILE=%s exec rping -s -a 127.0.0.1 -p 7395' % ready, subprocess.DEVNULL)
            if not fabric.until(lambda: os.path.exists(ready), one, timeout):
                problem = 'rping does not listen'
                break
            two = holder.start('exec rping -c -a 127.0.0.1 -p 7395', subprocess.DEVNULL)
            count = last['sent_pkts']
            if not fabric.until(lambda: holder.read()['sent_pkts'] > count, two, timeout):
                problem = 'nothing is counted while rping runs'
            fabric.end_all([one, two])
            now = holder.read()
            fewer = [n for n in last if now.get(n, -1) < last[n]]
            problem = problem or ('after kill -9 fewer: %s' % fewer if fewer else None)
            last = now
        fabric.told(report, title, problem, said)


def exported(report, timeout):
    """node_exporter's own infiniband collector, in the view."""
    title = 'view: node_exporter'
    if not report.wanted(title):
        return
    with fabric.Fabric() as f:
        if not can_run(report, title, f, fabric_live.EXPORTER, timeout):
            return
        found = fabric_live.scrape(['--collector.infiniband'], timeout, [*f.user, fabric.TOOL, 'run', '--view', 'always', '--'],
                                   f.environ(URXE_STATUS_DIR=f.folder))
        mine = {re.sub(r'\{.*', '', name): value for name, value in found.items() if 'device="urxe0"' in name}
        want = ('state_id', 'port_data_transmitted_bytes_total', 'port_packets_received_total', 'port_errors_received_total')
        missing = [w for w in want if 'node_infiniband_' + w not in mine]
        fabric.told(report, title, 'no ' + ' '.join(missing) if missing else None, '\n'.join(found))


def view(report, kind, _why_not):
    fabric.parts(report, kind, 60, 180, read, kept, deleted, default, drivers, refuses, swept, answers, sandboxed, shared, between, counters, exported)
