"""`jaxina certify` with four combinations. Usage: small_certificate.py WORKER [OPTION]...

WORKER is the program that interpreters are called with instead of `jaxina.certificate.worker`. "usual" is that one, and
with "none" nothing can run.
"""

import sys

from jaxina.certificate import combinations
from jaxina.certificate.combinations import LOSS, Case, Layout, Setting, Suite
from jaxina.cli import certificate_runs
from jaxina.cli.app import main

usual = combinations.plan


def plan(interpreters, *options):
    settings = (Setting("embedded"), Setting("direct", LOSS))
    suite = Suite(interpreters[0], "scalar", Layout(2), settings, (Case(32), Case(8)))
    return [suite], usual(interpreters, *options)[1]


combinations.plan = plan
worker = sys.argv.pop(1)
if worker == "none":
    del certificate_runs.run
elif worker != "usual":
    certificate_runs.WORKER = (worker,)
sys.argv.insert(1, "certify")
main()
