# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A guest: QEMU with an image, commands in it, and its end."""
import base64
import concurrent.futures
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import time

from . import Broken, Failed, accel, archive
from .console import Agent, Qmp

# Bytes of a command (a line of the console has 4,096, and base64 adds a third), and of a file in one.
LINE, CHUNK = 2900, 2100
# The kernel's quiet boot; tsc and lpj save it a calibration that an emulated CPU gets wrong.
KERNEL = 'console=ttyS0 quiet loglevel=4 panic=-1 reboot=t random.trust_cpu=on mitigations=off'
EMULATED = ' tsc=reliable lpj=5000000'

# A process gets PDEATHSIG when the thread that started it ends: so one that lasts starts all.
_starter = concurrent.futures.ThreadPoolExecutor(1)


def start(argv, log):
    argv = ['setpriv', '--pdeathsig', 'KILL', *argv]
    with open(log, 'wb') as f:
        return _starter.submit(subprocess.Popen, argv, stdin=subprocess.DEVNULL, stdout=f,
                               stderr=subprocess.STDOUT, start_new_session=True).result()


def text_of(path, tail=2000):
    try:
        with open(path, errors='replace') as f:
            return f.read()[-tail:].replace('\r', '')
    except OSError:
        return ''


class Guest:
    """Made by boot(). Its folder has qemu.log, console.log and two sockets."""

    def __init__(self, name, folder):
        self.name, self.folder = name, os.path.join(folder, name)
        self.proc = self.agent = self.control = None
        self.nics = []
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    @classmethod
    def boot(cls, name, image, folder, nics=(), cpus=1, memory=512, iommu=False, overlay=(), settings=None,
             kernel='', incoming=None, more=(), prefix=(), wait=120):
        """A guest that takes commands. It ends with this process.

        folder: a folder NAME is made in it. memory: MiB. iommu: an emulated VT-d, for vfio-pci.
        overlay: (source, path in the guest), as overlay.py makes them. settings: a dict, KEY of
        urxe.KEY in init. kernel: more words of the kernel's command line. incoming: the URI at which
        it waits for the state of another guest instead of booting. more: of QEMU's arguments. prefix: a
        command that execs QEMU, such as ip netns exec NS. wait: seconds."""
        self = cls(name, folder)
        self.nics = list(nics)
        for nic in self.nics:
            nic.prepare()
        argv = [*prefix, *self.arguments(image, cpus, memory, iommu, overlay, dict(settings or {}), kernel)]
        argv += ['-incoming', incoming] if incoming else []
        self.proc = start([*argv, *more], self.path('qemu.log'))
        try:
            end = time.monotonic() + wait
            self.wait_until(lambda: os.path.exists(self.path('qmp')), end, 'its sockets')
            if not incoming:
                self.wait_until(lambda: '@@READY' in text_of(self.path('console.log'), 10000), end, '@@READY')
            self.agent, self.control = Agent(self.path('agent')), Qmp(self.path('qmp'))
        except BaseException:
            self.off()
            raise
        return self

    def path(self, name):
        return os.path.join(self.folder, name)

    def arguments(self, image, cpus, memory, iommu, overlay, settings, kernel):
        how = accel.best()
        words = [KERNEL + (EMULATED if how != 'kvm' else ''), 'urxe.host=' + self.name]
        words += ['urxe.%s=%s' % item for item in settings.items() if item[1] not in (None, '')]
        words += ['intel_iommu=on'] if iommu else []
        initrd = self.initrd(image, overlay)
        argv = ['qemu-system-x86_64', '-accel', how, '-cpu', 'max', '-smp', str(cpus), '-m', str(memory),
                '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
                '-kernel', image.kernel, '-initrd', initrd, '-append', ' '.join(words + [kernel]).strip(),
                '-serial', 'file:' + self.path('console.log'),
                '-chardev', 'socket,id=agent,path=%s,server=on,wait=off' % self.path('agent'),
                '-device', 'virtio-serial-pci,addr=0x8', '-device', 'virtconsole,chardev=agent',
                '-qmp', 'unix:%s,server=on,wait=off' % self.path('qmp')]
        if iommu:
            argv += ['-M', 'q35,kernel-irqchip=off', '-device',
                     'intel-iommu,intremap=off,caching-mode=on,device-iotlb=on']
        else:
            argv += ['-M', 'q35']
        if any(nic.shared for nic in self.nics):
            argv += ['-object', 'memory-backend-memfd,id=ram,size=%dM,share=on' % memory,
                     '-numa', 'node,memdev=ram']
        digest = hashlib.sha256(self.name.encode()).digest()
        for number, nic in enumerate(self.nics):
            mac = '52:54:%02x:%02x:%02x:%02x' % (*digest[:3], number)
            argv += nic.arguments(number, mac, iommu)
        return argv

    def initrd(self, image, overlay):
        parts = [image.root, image.modules]
        if overlay:
            parts.append(self.path('overlay.cpio'))
            archive.pack_files(overlay, parts[-1])
        with open(self.path('initrd'), 'wb') as out:
            for part in parts:
                with open(part, 'rb') as f:
                    shutil.copyfileobj(f, out)
        return self.path('initrd')

    def wait_until(self, true, end, what):
        while not true():
            if self.proc.poll() is not None:
                raise Failed('%s: QEMU ended with status %d\n%s' % (self.name, self.proc.returncode, self.logs()))
            if time.monotonic() > end:
                raise Failed('%s: no %s in time\n%s' % (self.name, what, self.logs()))
            time.sleep(0.05)

    def logs(self):
        return (text_of(self.path('qemu.log')) + text_of(self.path('console.log'))).strip()

    def ended(self, what):
        """The exception for it: Broken when QEMU's own device model failed, else Failed"""
        logs = self.logs()
        own = re.search(r'hw/\S+: .*Assertion .* failed', logs)
        if own:
            return Broken('%s: %s: %s' % (self.name, what, own.group(0)))
        return Failed('%s: %s\n%s' % (self.name, what, logs))

    def report(self):
        """The lines of the console that tell how it came up: NET, RXE, READY"""
        return [l[2:] for l in text_of(self.path('console.log'), 20000).splitlines() if l.startswith('@@')]

    def alive(self):
        return self.proc is not None and self.proc.poll() is None

    def run(self, command, timeout=60):
        """(exit status, output) of a shell command; 124 when it was killed because it did not end in
        time, with all of its session. Processes that it leaves in the background go on."""
        if not self.alive():
            raise self.ended('QEMU has ended')
        began = time.monotonic()
        try:
            if len(command) > LINE:
                self.put_bytes(command.encode(), '/tmp/.long')
                command = '. /tmp/.long'
            status, out = self.agent.run(command, timeout)
        except Failed as e:
            raise self.ended(e) from e
        if status == 137 and time.monotonic() - began >= timeout:
            status = 124
        return status, out.decode(errors='replace')

    def check(self, command, timeout=60):
        """The output; Failed unless the status is 0"""
        status, out = self.run(command, timeout)
        if status:
            raise Failed('%s: status %d of %s\n%s' % (self.name, status, command, out.strip()))
        return out

    def start(self, command):
        """A command in the background, in a session of its own"""
        return Background(self, command)

    def put(self, source, path):
        """A file of the host's into the guest, with its mode; slow: what is large belongs into the overlay."""
        with open(source, 'rb') as f:
            self.put_bytes(f.read(), path)
        self.check('chmod %o %s' % (stat.S_IMODE(os.stat(source).st_mode), shlex.quote(path)))

    def put_bytes(self, data, path):
        quoted = shlex.quote(path)
        self.check(': >' + quoted)
        for i in range(0, len(data), CHUNK):
            text = base64.b64encode(data[i:i + CHUNK]).decode()
            self.check('echo %s | base64 -d >>%s' % (text, quoted))

    def get(self, path, to):
        """A file of the guest's to the host"""
        text = self.check('base64 ' + shlex.quote(path), 300)
        with open(to, 'wb') as f:
            f.write(base64.b64decode(text))

    def pause(self):
        self.control.ask('stop')

    def cont(self, timeout=60):
        # While a guest still arrives, QEMU takes the command, and then leaves it paused as it was sent.
        end = time.monotonic() + timeout
        while self.control.ask('query-status')['status'] == 'inmigrate' and time.monotonic() < end:
            time.sleep(0.01)
        self.control.ask('cont')

    def migrate(self, uri, timeout=120):
        """Moves its state to the guest that was booted with incoming=uri; this one stays paused."""
        self.control.ask('migrate', uri=uri)
        end = time.monotonic() + timeout
        while True:
            status = self.control.ask('query-migrate')
            if status.get('status') == 'completed':
                return
            if status.get('status') in ('failed', 'cancelled') or time.monotonic() > end:
                raise Failed('%s: migration: %s' % (self.name, status))
            time.sleep(0.1)

    def off(self):
        """Ends it at once; may be called again."""
        for s in (self.agent, self.control):
            if s:
                s.close()
        self.agent = self.control = None
        if self.proc:
            if self.proc.poll() is None:
                self.proc.kill()
            self.proc.wait()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.off()


class Background:
    """A command in the background of a guest; its shell is the leader of a session."""

    count = 0

    def __init__(self, guest, command):
        Background.count += 1
        self.guest, self.command = guest, command
        self.base = base = '/tmp/.job%d' % Background.count
        guest.check('busybox mkfifo %s.end\n'
                    "{ setsid sh -c 'echo $$ >%s.pid; exec \"$@\"' sh sh -c %s >%s.log 2>&1; echo $? >%s.rc\n"
                    'echo <>%s.end 1>&0; } >/dev/null 2>&1 </dev/null &'
                    % (base, base, shlex.quote(command), base, base, base))

    def wait(self, timeout):
        """The exit status, or 124 when it runs on"""
        # Asleep until then: where the processor is emulated, a program that is started for each look takes 10 ms of
        # it from those that are measured. The pipe is held open before the look, and written to after the status.
        script = ('exec 4<>%s.end\n'
                  '[ -s %s.rc ] || busybox timeout %d sh -c \'read -r line\' <&4\n'
                  'cat %s.rc 2>/dev/null') % (self.base, self.base, timeout, self.base)
        out = self.guest.run(script, timeout + 30)[1].strip()
        return int(out) if out.isdigit() else 124

    def until(self, condition, timeout):
        """Waits for a shell condition in the guest, for the command's end, or for the time (seconds); the
        exit status as text when it has ended"""
        script = ('now() { read -r up rest </proc/uptime; echo "${up%%.*}"; }\n'
                  'end=$(($(now) + %d))\n'
                  'until [ -s %s.rc ] || %s || [ "$(now)" -gt $end ]; do sleep 0.05; done\n'
                  'cat %s.rc 2>/dev/null') % (timeout, self.base, condition, self.base)
        return self.guest.run(script, timeout + 30)[1]

    def kill(self, signal='KILL'):
        """To all processes of its session"""
        self.guest.run('busybox kill -%s -- -$(cat %s.pid)' % (signal, self.base))

    def output(self):
        return self.guest.check('cat %s.log' % self.base)

    def end(self):
        """Ends it if it runs; its output"""
        if not self.until('true', 0).strip():
            self.kill()
            # The kernel gives a card back: behind an emulated IOMMU, at a load of 39, 40 s did not do.
            if self.wait(300) == 124:
                raise Failed('%s: does not end: %s\n%s' % (self.guest.name, self.command, self.stacks()))
        return self.output()

    def stacks(self):
        """Where the kernel has those that no signal ends now"""
        return self.guest.run('for s in /proc/[0-9]*/task/*/status; do\n'
                              'grep -q "^State:.D" $s && echo $s && cat ${s%status}stack; done')[1]
