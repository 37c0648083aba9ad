# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""For scripts, with ci/lib as $PYTHONPATH: python3 -m vm image|run ..."""
import argparse
import sys

from . import Failed, image
from .console import Agent


def main():
    p = argparse.ArgumentParser(prog='vm', description=__doc__)
    sub = p.add_subparsers(dest='what', required=True)
    i = sub.add_parser('image', help='makes it, and prints the folders of kernel and root')
    i.add_argument('variant', choices=image.VARIANTS)
    i.add_argument('--suite')
    i.add_argument('--kernel', nargs='+', default=(), metavar='DEB')
    r = sub.add_parser('run', help='runs a command in a guest')
    r.add_argument('socket', help='agent, in its folder')
    r.add_argument('command')
    r.add_argument('seconds', nargs='?', type=int, default=600)
    args = p.parse_args()
    try:
        if args.what == 'image':
            print(*image.folders(args.variant, args.suite, args.kernel), sep='\n')
            return 0
        status, out = Agent(args.socket).run(args.command, args.seconds)
    except (Failed, OSError) as e:
        print('vm: %s' % e, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(out)
    return status


sys.exit(main())
