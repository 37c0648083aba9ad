# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A fabric of processes that do not see each other: of two users, in two PID namespaces, in two containers that share
nothing but a folder; and where /dev/shm is full, small or closed. Run by root, who makes these places."""
import os
import signal
import subprocess

import fabric
import node

GROUP, ALICE, BOB = 54320, 54321, 54322
PIDS = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']
CONTAINER = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--net', '--ipc', '--uts',
             'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']


def shm(options, then='true'):
    """A /dev/shm of its own, mounted with these options."""
    return ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs -o %s none /dev/shm && %s && exec "$@"' % (options, then), 'sh']


# title, what stands before the server and the client, their users, their options, the server's address
PLACES = [
    ('two users of a group', [], (ALICE, BOB), ('', ''), '127.0.0.1'),
    ('two PID namespaces', PIDS, (ALICE, ALICE), ('', ''), '127.0.0.1'),
    ('two containers', CONTAINER, (ALICE, ALICE), ('--ip 10.7.0.1/24', '--ip 10.7.0.2/24'), '10.7.0.1'),
    ('/dev/shm is full', shm('size=64k', '{ cat /dev/zero >/dev/shm/all 2>/dev/null || [ -s /dev/shm/all ]; }'),
     (ALICE, ALICE), ('', ''), '127.0.0.1'),
    ('/dev/shm of 64 MiB', shm('size=64m'), (ALICE, ALICE), ('', ''), '127.0.0.1'),
    ('/dev/shm is closed', shm('size=64k,mode=0'), (ALICE, ALICE), ('', ''), '127.0.0.1'),
]


class Place(fabric.Fabric):
    """Its folder is the group's; `meet` in it is where the processes find each other."""

    def __init__(self, before, users, options):
        super().__init__()
        self.before, self.users, self.options = before, users, options
        self.meet = self.folder + '/meet'
        os.mkdir(self.meet)
        for path in (self.folder, self.meet):
            os.chown(path, ALICE, GROUP)
            os.chmod(path, 0o2770)

    def run(self, which, command, **env):
        """Starts a program of side 0 or 1."""
        user = ['setpriv', '--reuid', str(self.users[which]), '--regid', str(GROUP), '--clear-groups']
        with open('%s/%d.out' % (self.folder, which), 'w') as out:
            child = subprocess.Popen([*self.before, *user, fabric.TOOL, 'run', '--port', 'fabric,dir=' + self.meet,
                                      *self.options[which].split(), '--', 'sh', '-c', 'exec ' + command],
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                     env=self.environ(**env), start_new_session=True)
        self.children.append(child)
        return child

    def serve(self, command, name, timeout):
        """The server, when it listens; None: it does not."""
        ready = '%s/%s.ready' % (self.folder, name)
        server = self.run(0, command, URXE_READY_FILE=ready)
        return server if fabric.until(lambda: os.path.exists(ready), server, timeout) else None


def pings(place, address, timeout):
    """What is wrong, or None."""
    server = place.serve('rping -s -a %s -V -C 100' % address, 'pings', timeout)
    if not server:
        return 'the server does not listen'
    client = place.run(1, 'rping -c -a %s -V -v -C 100' % address)
    if client.wait(timeout) or server.wait(timeout):
        return 'exit status %s, the server %s' % (client.returncode, server.returncode)
    return None if 'rdma-ping-99:' in place.said('1') else 'the client has not seen its 100 pings'


def death(place, address, timeout):
    """The server is killed, as is its namespace's first process: the client learns of it."""
    server = place.serve('rping -s -a %s' % address, 'death', timeout)
    if not server:
        return 'the server that is to be killed does not listen'
    client = place.run(1, 'stdbuf -oL rping -c -v -a %s' % address)
    if not fabric.until(lambda: 'ping data' in place.said('1'), client, timeout):
        return 'there is no ping'
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    client.wait(timeout)
    left = [f for f in os.listdir(place.meet) if f != 'members']
    return 'left: ' + ' '.join(left) if left else None


def places(report, _kind, _why_not):
    timeout = node.patience()
    for what, before, users, options, address in PLACES:
        title = 'fabric: ' + what
        if not report.wanted(title):
            continue
        if os.geteuid() or subprocess.run([*before, 'true'], capture_output=True).returncode:
            report.skip(title, 'only root can make this place')
            continue
        with Place(before, users, options) as place:
            try:
                problem = pings(place, address, timeout) or death(place, address, timeout)
            except subprocess.TimeoutExpired as e:
                problem = 'it hangs: ' + str(e)
            fabric.told(report, title, problem, place.said('0') + '\n--\n' + place.said('1')[-800:])
