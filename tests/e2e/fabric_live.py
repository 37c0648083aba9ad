# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs on the fabric that fork, and those that are looked at while they run."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request

import fabric
import node

FORKED = os.path.join(node.TOP, 'tests', 'e2e', 'forked.py')
PYTHON = '/usr/bin/python3'


# ---- fork ----

def forks(report, timeout):
    for case in ('fork', 'spawn', 'forkserver', 'tcp-server', 'cm-server', 'save'):
        title = 'fabric: forks: ' + case
        if not report.wanted(title):
            continue
        if node.sanitized():
            report.skip(title, 'Python has no sanitizer in it')
            continue
        if subprocess.run([PYTHON, '-c', 'import pyverbs'], stderr=subprocess.DEVNULL).returncode:
            report.skip(title, 'python3-pyverbs is not installed')
            continue
        with fabric.Fabric() as f:
            child = f.start('%s %s %s' % (PYTHON, FORKED, case), 'out', PYTHONDONTWRITEBYTECODE='1')
            try:
                child.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
            problem = None
            if child.returncode:
                problem = 'it hangs' if child.returncode is None else 'exit status %d' % child.returncode
            elif 'all well' not in f.said('out'):
                problem = 'it does not say that all is well'
            elif f.left():
                problem = 'left: %s' % ' '.join(f.left())
            fabric.told(report, title, problem, f.said('out'))


# ---- seen from outside ----

PROGRAMS = [  # name, command, of whom it waits that they listen
    ('pong', 'ibv_rc_pingpong -e -g 0 -n 100000000 -p 7421', None),
    ('ping', 'ibv_rc_pingpong -e -g 0 -n 100000000 -p 7421 127.0.0.1', 7421),
    ('rpong', 'rping -s -a 127.0.0.1 -p 7422', None),
    ('rping', 'rping -c -a 127.0.0.1 -p 7422', 'rpong'),
    ('mckey', 'mckey -m 239.1.2.3', None),
    ('ucmatose', 'ucmatose', None),
]


class Crowd:
    """Them all, running; those who ask see no others."""

    def __init__(self, f, timeout):
        self.f = f
        self.timeout = timeout
        self.child = {}
        for name, command, wait in PROGRAMS:
            if wait == 'rpong':
                fabric.until(lambda: os.path.exists(f.folder + '/rpong'), self.child['rpong'], timeout)
            elif wait:
                fabric.until(lambda port=wait: fabric.listens(port), self.child['pong'], timeout)
            self.child[name] = f.start(command, name, URXE_STATUS_DIR=f.folder, URXE_READY_FILE='%s/%s' % (f.folder, name))
        self.pid = {name: child.pid for name, child in self.child.items()}

    def ask(self, *args, user=None):
        env = self.f.environ(URXE_STATUS_DIR=self.f.folder)
        return subprocess.run([*(self.f.user if user is None else user), fabric.TOOL, *args], env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=self.timeout)

    def status(self):
        """By pid."""
        done = self.ask('status', '--json', '--no-start')
        return {p['pid']: p for p in json.loads(done.stdout)['processes']} if not done.returncode else {}


def qps_of(process):
    return [q for d in process['devices'] for q in d['qps'] if q['type'] != 'GSI']


def same_qp(a, b):
    """Are these the two ends of one connection, which talk?"""
    return (len(a) == len(b) == 1 and a[0]['qpn'] == b[0]['peer_qpn'] and b[0]['qpn'] == a[0]['peer_qpn'] and
            all(q['type'] == 'RC' and q['state'] == 'RTS' and q['peer'] and q['requester']['window'] > 0 and
                q['requester']['retry_cnt'] == 7 and q['responder']['msn'] > 0 for q in a + b))


def lacks(crowd, found):
    """What a look should show and does not, or None."""
    pid = crowd.pid
    if set(found) != set(pid.values()):
        return 'processes %s, not %s\n%s' % (sorted(found), sorted(pid.values()), '\n'.join(
            '%s, exit status %s: %s' % (name, child.poll(), crowd.f.said(name)[-300:])
            for name, child in crowd.child.items() if child.pid not in found))
    wrong = [p['command'] for p in found.values()
             if not p['devices'] or not p['devices'][0]['port'] or not p['devices'][0]['addresses']]
    if wrong:
        return 'no counters or addresses of ' + ' '.join(wrong)
    if found[pid['pong']]['command'] != 'ibv_rc_pingpong':
        return 'the command %s' % found[pid['pong']]['command']
    ids = {name: found[pid[name]].get('ids', []) for name in pid}
    states = {name: [i['state'] for i in ids[name]] for name in ids}
    checks = {
        'QPs of verbs alone': same_qp(qps_of(found[pid['ping']]), qps_of(found[pid['pong']])),
        'QPs of rdma_cm': same_qp(qps_of(found[pid['rping']]), qps_of(found[pid['rpong']])),
        'ids of verbs alone': not ids['ping'],
        'a listener': 'LISTEN' in states['ucmatose'] and 'LISTEN' in states['rpong'],
        'a connection': 'ESTABLISHED' in states['rping'] and 'ESTABLISHED' in states['rpong'],
        'a group': any(g['mgid'] == '239.1.2.3' and g['qpns'] for g in found[pid['mckey']]['devices'][0]['groups']),
    }
    missing = [name for name, there in checks.items() if not there]
    return 'not seen: ' + ', '.join(missing) if missing else None


def await_all(crowd):
    end = time.monotonic() + crowd.timeout
    problem = 'no look'
    while problem and time.monotonic() < end:
        problem = lacks(crowd, crowd.status())
    return problem


def rates(crowd):
    """By `urxe stat` and `urxe top`: who talks is seen to, and who does not."""
    for args in (('stat', '-i', '1', '-c', '3', '--json'), ('top', '-b', '-d', '1', '-n', '3', '--json')):
        done = crowd.ask(*args)
        rows = [r for line in done.stdout.splitlines() for r in json.loads(line)['rates']]
        busy = {r['pid'] for r in rows if r['tx_packets'] > 0}
        if {r['pid'] for r in rows} != set(crowd.pid.values()):
            return '%s shows other processes: %s' % (args[0], done.stdout[:500])
        if not {crowd.pid[n] for n in ('ping', 'pong', 'rping', 'rpong')} <= busy or crowd.pid['ucmatose'] in busy:
            return '%s shows others who talk: %s' % (args[0], sorted(busy))
    return None


def as_text(crowd):
    """The tables."""
    status, one, cm = crowd.ask('status', '--no-start'), crowd.ask('status', str(crowd.pid['ping'])), crowd.ask('status', '--cm')
    top = crowd.ask('top', '-b', '-n', '1')
    if any(done.returncode for done in (status, one, cm, top)):
        return 'status %s' % [done.returncode for done in (status, one, cm, top)]
    for pid in crowd.pid.values():
        if str(pid) not in status.stdout or str(pid) not in top.stdout:
            return 'process %d is not in the tables' % pid
    if 'RESPONDER' not in one.stdout or re.findall(r'(?m)^process (\d+):', one.stdout) != [str(crowd.pid['ping'])]:
        return 'of one process: ' + one.stdout
    if '127.0.0.1:7422' not in cm.stdout or 'LISTEN' not in cm.stdout:
        return 'connections: ' + cm.stdout
    return None


def as_rdma(crowd):
    """`urxe link` and `urxe res` have one device of them all, and lines that scripts for rdma(8) read."""
    link = json.loads(crowd.ask('link', '-j').stdout)
    total = json.loads(crowd.ask('res', '-j').stdout)
    if [(l['ifname'], l['state'], l['netdev']) for l in link] != [('urxe0', 'ACTIVE', link[0]['netdev'])]:
        return 'links %s' % link
    found = crowd.status()
    qps = {(q['qpn'], pid) for pid, p in found.items() for d in p['devices'] for q in d['qps']}
    if len(total) != 1 or total[0]['qp'] != len(qps) or total[0]['mr'] != sum(
            d['mrs']['count'] for p in found.values() for d in p['devices']):
        return 'objects %s, of %d QPs' % (total, len(qps))
    lines = crowd.ask('res', 'show', 'qp', 'link', 'urxe0/1').stdout.splitlines()
    words = [dict(zip(l.split()[::2], l.split()[1::2])) for l in lines]
    if {(int(w['lqpn']), int(w['pid'])) for w in words} != qps or any(w['link'] != 'urxe0/1' for w in words):
        return 'QPs:\n' + '\n'.join(lines)
    mrs = json.loads(crowd.ask('res', 'show', 'mr', '-j').stdout)
    ids = crowd.ask('res', 'show', 'cm_id', 'pid', str(crowd.pid['rping']), 'state', 'CONNECT').stdout
    if len(mrs) != total[0]['mr'] or 'ps TCP' not in ids or 'dst-addr 127.0.0.1:7422' not in ids:
        return 'MRs and ids: %s %s' % (mrs, ids)
    return None


def stopped(crowd):
    """Those that are stopped are named, the others shown, and nobody waits."""
    names = ('rping', 'mckey', 'ucmatose')
    for name in names:
        os.kill(crowd.pid[name], signal.SIGSTOP)
    try:
        for name in names:
            while open('/proc/%d/stat' % crowd.pid[name]).read().rsplit(')', 1)[1].split()[0] != 'T':
                time.sleep(0.01)
        done = crowd.ask('status', '--json', '--no-start')
        shown = {p['pid'] for p in json.loads(done.stdout)['processes']}
    finally:
        for name in names:
            os.kill(crowd.pid[name], signal.SIGCONT)
    away = {crowd.pid[name] for name in names}
    if shown != set(crowd.pid.values()) - away or not done.returncode:
        return 'shows %s, status %d' % (sorted(shown), done.returncode)
    unnamed = [pid for pid in away if '/%d: is stopped' % pid not in done.stderr]
    return 'does not name %s: %s' % (unnamed, done.stderr) if unnamed else None


def foreign(crowd):
    """Another user sees none of it, and is told why."""
    if os.geteuid():
        return None
    other = ['setpriv', '--reuid', '65533', '--regid', '65533', '--clear-groups']
    os.chmod(crowd.f.folder, 0o755)
    try:
        done = crowd.ask('status', '--json', '--no-start', user=other)
    finally:
        os.chmod(crowd.f.folder, 0o700)
    if json.loads(done.stdout)['processes'] or 'belongs to uid %d' % fabric.NOBODY not in done.stderr:
        return 'shows another user %s%s' % (done.stdout, done.stderr)
    return None


def seen(report, timeout):
    checks = [('all of it', await_all), ('rates', rates), ('tables', as_text), ('as rdma(8) shows it', as_rdma),
              ('some are stopped', stopped),
              ('another user', foreign), ('all again', await_all)]
    titles = ['fabric: seen: ' + name for name, _ in checks]
    if not any(report.wanted(t) for t in titles):
        return
    missing = [p for p in ('ibv_rc_pingpong', 'rping', 'mckey', 'ucmatose') if not shutil.which(p)]
    if missing:
        report.skip('fabric: seen', ' '.join(missing) + ' is not installed')
        return
    with fabric.Fabric() as f:
        crowd = Crowd(f, timeout)
        for title, (_, check) in zip(titles, checks):
            try:
                problem = check(crowd)
            except (subprocess.TimeoutExpired, ValueError) as err:
                problem = str(err)
            ended = [name for name, child in crowd.child.items() if child.poll() is not None]
            if not problem and ended:
                problem = 'ended: ' + ' '.join(ended)
            fabric.told(report, title, problem, ''.join(f.said(n) for n in ended))


# ---- node_exporter ----

EXPORTER = 'prometheus-node-exporter'


def scrape(options, timeout, before=(), env=None):
    """What node_exporter with these options finds, by name; {}: it does not answer. @before: what stands before it."""
    port = node.tcp_port()
    address = '127.0.0.1:%d' % port
    child = subprocess.Popen([*before, EXPORTER, '--collector.disable-defaults', *options, '--web.listen-address=' + address],
                             env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if not fabric.until(lambda: fabric.listens(port), child, timeout):
            return {}
        with urllib.request.urlopen('http://%s/metrics' % address, timeout=timeout) as page:
            lines = [l for l in page.read().decode().splitlines() if l and l[0] != '#']
    finally:
        child.terminate()
        child.wait()
    return {name: float(value) for name, value in (l.rsplit(' ', 1) for l in lines)}


def exported(report, timeout):
    """`urxe status --prometheus` in the folder of node_exporter's textfile collector."""
    title = 'fabric: node_exporter'
    if not report.wanted(title):
        return
    missing = [p for p in (EXPORTER, 'rping') if not shutil.which(p)]
    if missing:
        report.skip(title, ' '.join(missing) + ' is not installed')
        return
    with fabric.Fabric() as f:
        ready = f.folder + '/ready'
        child = f.start('rping -s -a 127.0.0.1 -p 7424', 's', URXE_STATUS_DIR=f.folder, URXE_READY_FILE=ready)
        problem, found = None, {}
        if not fabric.until(lambda: os.path.exists(ready), child, timeout):
            problem = 'the server does not listen'
        else:
            with open(f.folder + '/urxe.prom', 'w') as out:
                subprocess.run([*f.user, fabric.TOOL, 'status', '--prometheus'], check=True, stdout=out, timeout=timeout,
                               env=f.environ(URXE_STATUS_DIR=f.folder))
            found = scrape(['--collector.textfile', '--collector.textfile.directory=' + f.folder], timeout)
            state = 'node_infiniband_state_id{device="urxe0",pid="%d",port="1"}' % child.pid
            if found.get('node_textfile_scrape_error') != 0 or found.get(state) != 4:
                problem = 'no %s, or an error' % state
        fabric.told(report, title, problem, '\n'.join('%s %s' % m for m in found.items() if 'textfile' in m[0] or 'infini' in m[0]))


def live(report, kind, _why_not):
    fabric.parts(report, kind, 60, 120, forks, seen, exported)
