# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What run.py starts under `urxe run`: suite.py FOLDER [ARG...], with the arguments of rdma-core's
run_tests.py. Writes one JSON object a test to $URXE_CONFORMANCE_RESULTS."""
import json
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader

folder = sys.argv.pop(1)
sys.path[:0] = [folder, os.path.dirname(folder)]
results = open(os.environ['URXE_CONFORMANCE_RESULTS'], 'w', buffering=1)


class Result(unittest.TextTestResult):
    def put(self, test, result, message=''):
        print(json.dumps({'test': test.id(), 'result': result, 'message': message}), file=results)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.put(test, 'pass')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.put(test, 'skip', reason)

    def addError(self, test, err):
        super().addError(test, err)
        self.put(test, 'error', str(err[1]))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.put(test, 'failure', str(err[1]))


tests = SourceFileLoader('tests', os.path.join(folder, '__init__.py')).load_module()
from args_parser import parser  # noqa: E402
from pyverbs.device import Context  # noqa: E402
from tests.base import RDMATestCase  # noqa: E402


def address_of(dev, port, index):
    """The IPv4 address that is this GID, or None: rdmacm's tests make their groups' addresses of one."""
    ctx = Context(name=dev)
    raw = bytes.fromhex(ctx.query_gid(port, index).gid.replace(':', ''))
    ctx.close()
    return '.'.join(str(b) for b in raw[12:]) if raw.startswith(b'\0' * 10 + b'\xff\xff') else None


def get_ip_mac(self, dev, port, index):
    """In place of the suite's own, which looks in sysfs for the device's net interface."""
    self.args.append([dev, port, index, address_of(dev, port, index or 0), None])


RDMATestCase._get_ip_mac = get_ip_mac
parser.parse_args()
program = unittest.main(module=tests, exit=False, verbosity=2,
                        testRunner=unittest.TextTestRunner(resultclass=Result))
print(json.dumps({'test': '', 'result': 'end'}), file=results)
sys.exit(not program.result.wasSuccessful())
