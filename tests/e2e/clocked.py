# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""perftest measures the processor's clock before it prints its table, and gives up when others had the processor meanwhile:
nothing that a test is about. Such a run is done again, and a line says so."""
import node

NO_CLOCK = "Can't produce a report"
TRIES = 5


def again(title, once, failed):
    """What once() returns; it is called again while failed() finds perftest's clock, and nothing else, at fault."""
    for i in range(2, TRIES + 1):
        result = once()
        if not failed(result):
            return result
        print("note %s: perftest could not measure the processor's clock: try %d of %d" % (title, i, TRIES), flush=True)
    return once()


def pair(title, once):
    """@once: returns what is wrong or None, and what the programs said."""
    return again(title, once, lambda result: result[0] and NO_CLOCK in result[1])


def two_node(title, *args, **more):
    return again(title, lambda: node.two_node(*args, **more),
                 lambda r: r.status and not r.reports and NO_CLOCK in r.a + r.b)
