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

parser.parse_args()
program = unittest.main(module=tests, exit=False, verbosity=2,
                        testRunner=unittest.TextTestRunner(resultclass=Result))
print(json.dumps({'test': '', 'result': 'end'}), file=results)
sys.exit(not program.result.wasSuccessful())
