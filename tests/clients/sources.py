# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that Debian has as source, or in another suite alone: fetched from the mirror of the machine's apt, and built once."""
import os
import shutil
import subprocess
import tempfile

from vm import Failed, apt

# $1: the folder, with the list of sources in it; $2: package
FETCH = r'''
cd "$1"
mkdir -p lists/partial
apt="apt-get -q -o Dir::Etc::SourceList=$1/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$1/lists"
$apt -o APT::Sandbox::User=root update
$apt -o APT::Sandbox::User=root source --download-only --tar-only "$2"
mkdir source
tar -C source --strip-components=1 -xf "$2"_*.orig.tar.*
version=$(ls "$2"_*.orig.tar.* | sed 's/^[^_]*_//; s/\.orig\.tar.*//')
cd source
'''


def home():
    return os.path.join(os.environ.get('XDG_CACHE_HOME') or '/var/tmp', 'urxe-clients-%d' % os.geteuid())


def version(name):
    """Of what was built; None: it was not."""
    try:
        with open(os.path.join(home(), name, 'version')) as f:
            return f.read().strip()
    except OSError:
        return None


def built(name, places, file, script, needed=()):
    """(The folder where @script has put it, now or in an earlier run; why not, or None)

    @places: (Debian's source package, suite or None: the machine's), the first one that can be had and built. @file: is there
    when it is built. @script: run in the source, $prefix is the folder. @needed: programs and files that it takes.
    """
    done = os.path.join(home(), name)
    if os.path.exists(os.path.join(done, file)):
        return done, None
    for thing in ('apt-get', 'make', 'gcc', 'xz', *needed):
        if not (os.path.exists(thing) if thing.startswith('/') else shutil.which(thing)):
            return None, thing + ' is not installed'
    os.makedirs(home(), exist_ok=True)
    log_path = '%s/%s.log' % (home(), name)
    open(log_path, 'w').close()
    for package, suite in places:
        with tempfile.TemporaryDirectory(prefix='urxe-source-') as folder, open(log_path, 'a') as log:
            os.chmod(folder, 0o755)
            try:
                line = 'deb-src [signed-by=%s] %s %s main\n' % (apt.KEYRING, apt.mirror(), suite or apt.codename())
            except Failed as e:
                return None, str(e)
            with open(folder + '/sources.list', 'w') as f:
                f.write(line)
            made = subprocess.run(['sh', '-e', '-c', 'prefix=$3\n' + FETCH + script + 'echo "$version" >"$prefix/version"\n', 'sh', folder, package, done],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        if not made.returncode and os.path.exists(os.path.join(done, file)):
            return done, None
    return None, '%s could not be had: %s' % (name, log_path)
