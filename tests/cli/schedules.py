# The orders in which the simulated GPU does its work that tests go through.
# SPDX-License-Identifier: Apache-2.0
import os

# OPC_TEST_SEEDS: random ones besides the latest and the earliest; .ci/nightly gpuseeds takes 20.
SCHEDULES = ["policy=late", "policy=eager"] + [f"policy=random,seed={n}" for n in range(1, int(os.environ.get("OPC_TEST_SEEDS", "3")) + 1)]


def skips(report, functions):
    """Of a run that the simulator has counted (report=FILE of CUDA_SIM), each call of these functions as what leaves it out."""
    for call, count in report["stream_calls"].items():
        function, stream = call.split(":")
        if function in functions:
            yield from (f"{function}:{n}:{stream}" for n in range(1, count + 1))


def silent(mutants, run):
    """Those that run("skip=...") does not notice, by an AssertionError, under any schedule."""
    return [mutant for mutant in mutants if not any(notices(run, f"skip={mutant},{sim}")
                                                    for sim in ("policy=late", "policy=eager", "policy=random,seed=3"))]


def notices(run, sim):
    try:
        run(sim)
    except AssertionError:
        return True
    return False
