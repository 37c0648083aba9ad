# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""`urxe doctor` on machines that lack something, and `urxe run`, which names it when it fails."""
import os
import re
import shutil
import subprocess

import fabric
import node

USER = ['setpriv', '--reuid', '12345', '--regid', '12345', '--clear-groups']
# A user namespace in which there may be none below.
NO_NAMESPACES = ['unshare', '-U', '--map-current-user', '--keep-caps', 'sh', '-c',
                 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all "$@"', 'sh']
SMALL = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs -o size=8m none /dev/shm && exec "$@"', 'sh']
# A host on which somebody has RoCEv2's port.
TAKEN = ['unshare', '-r', '-n', 'python3', '-c', """import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 4791))
s.set_inheritable(True)
os.execvp(sys.argv[1], sys.argv[1:])"""]
# Somebody's own rdma-core.
OTHER = ['sh', '-c', 'd=$(mktemp -d) && touch $d/libibverbs.so.1 && LD_LIBRARY_PATH=/none:$d:$LD_LIBRARY_PATH "$@"; s=$?; rm -r $d; exit $s', 'sh']
# A folder of somebody else's, by the name of a variable.
SQUAT = 'd=$(mktemp -d) && mkdir -m 700 $d/urxe && chown 54321 $d/urxe && %s=$d%s "$@"; s=$?; rm -r $d; exit $s'
FREE = ['unshare', '-r', '-n']
SOME = ['--inh-caps', '+net_raw', '--ambient-caps', '+net_raw']

# title, as root only, what stands before the tool, its arguments, exit status, what it must say
CASES = [
    ('as it is', False, [], ['doctor'], 0, r'^urxe +ok .*/liburxe-rdmav34.so$[^$]*^rdma-core +ok +libibverbs'),
    ('a user', True, USER, ['doctor'], 0, r'^namespaces +(ok +can be made|note )'),
    ('no user namespaces', True, USER + NO_NAMESPACES, ['doctor'], 0,
     r'^namespaces +note +No space left on device: /sys and /dev are seen by LD_PRELOAD\n +-> sysctl user.max_user_namespaces=\d+$'),
    ('no user namespaces, and --view always', True, USER + NO_NAMESPACES, ['run', '--view', 'always', '--', 'true'], 2,
     r'^urxe: no view .*No space left.*see urxe doctor$'),
    ('no user namespaces, and no --view', True, USER + NO_NAMESPACES, ['run', '--', 'echo', 'ran'], 0, r'\Aran\n\Z'),
    ('CAP_NET_RAW', True, USER + SOME, ['doctor'], 0, r'^namespaces +note +.*CAP_SYS_ADMIN: .*LD_PRELOAD'),
    ('the folders', False, [], ['doctor'], 0, r'^folders +ok +programs meet in /'),
    ("another user's folder", True, ['sh', '-c', SQUAT % ('XDG_RUNTIME_DIR', ''), 'sh'], ['doctor'], 1,
     r'^folders +MISSING +/\S+/urxe belongs to uid 54321: .*\n +-> export XDG_RUNTIME_DIR=\$\(mktemp -d\)$'),
    ("another user's folder for urxe status", True, ['sh', '-c', SQUAT % ('URXE_STATUS_DIR', '/urxe'), 'sh'], ['doctor'], 0,
     r'^folders +note +/\S+/urxe belongs to uid 54321: .*\n +-> export URXE_STATUS_DIR=\$\(mktemp -d\)$'),
    ('a small /dev/shm', True, SMALL, ['doctor'], 0, r'^/dev/shm +note +8 MB free\n +-> mount -o remount,size=\w+ /dev/shm$'),
    ('UDP port 4791 free', True, FREE, ['doctor'], 0, r'^UDP 4791 +ok +free$'),
    ('UDP port 4791 taken', True, TAKEN, ['doctor'], 0, r'^UDP 4791 +note +process \d+ \(urxe\) has it\n +-> ss -ulnp'),
    ('another libibverbs', False, OTHER, ['doctor'], 0,
     r'^environment +note +LD_LIBRARY_PATH has /\S+/libibverbs.so.1\n +-> unset LD_LIBRARY_PATH$'),
    ('within urxe run', False, [], ['run', '--', fabric.TOOL, 'doctor'], 0, r"^environment +ok +LD_LIBRARY_PATH begins with urxe's$"),
    ('a program', False, [], ['doctor', shutil.which('sh')], 0, r'^program +ok '),
    ('a set-user-ID program', False, [], ['doctor', '/usr/bin/su'], 1, r'^program +MISSING +set-user-ID'),
    ('no program', False, [], ['doctor', '/none'], 1, r'^program +MISSING +/none: No such file'),
]


def doctor(report, _kind, _why_not):
    timeout = node.patience()
    for title, root, before, args, status, says in CASES:
        title = 'doctor: ' + title
        if not report.wanted(title):
            continue
        with fabric.Fabric() as f:
            env = f.environ(URXE_STATUS_DIR='')
            if root and (os.geteuid() or subprocess.run([*before, 'true'], capture_output=True).returncode):
                report.skip(title, 'only root can make this place')
                continue
            if 'No space left' in says and node.sanitized() == 'thread':
                report.skip(title, "TSan's own thread already keeps urxe from making a namespace")
                continue
            os.chmod(f.folder, 0o777)
            done = subprocess.run([*before, fabric.TOOL, *args], env=env, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False)
            good = done.returncode == status and re.search(says, done.stdout, re.M)
            fabric.told(report, title, None if good else 'exit status %d, or not %s' % (done.returncode, says), done.stdout)
