# The orders in which the simulated GPU does its work that tests go through.
# SPDX-License-Identifier: Apache-2.0
import os

# OPC_TEST_SEEDS: random ones besides the latest and the earliest; .ci/nightly gpuseeds takes 20.
SCHEDULES = ["policy=late", "policy=eager"] + [f"policy=random,seed={n}" for n in range(1, int(os.environ.get("OPC_TEST_SEEDS", "3")) + 1)]
