# The voice detectors of npm's @ricky0123/vad-web in opc and in ONNX Runtime, over a second of sound, with their state fed back.
# SPDX-License-Identifier: Apache-2.0
"""usage: voice.py        for .ci/nightly: needs tools/dev/install_peers.sh, and the Python package of OPC_BUILD_DIR"""
import os
import sys
import tempfile

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILD = os.environ.get("OPC_BUILD_DIR", os.path.join(ROOT, "build"))
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tools")]
import opc  # noqa: E402
from bench_models import Worker  # noqa: E402

PEERS = os.environ.get("OPC_PEERS", os.path.join(ROOT, "build", "peers"))
STATES = {"silero_vad_v5": {"state": ("stateN", (2, 1, 128))}, "silero_vad_v6": {"state": ("stateN", (2, 1, 128))},
          "silero_vad_legacy": {"h": ("hn", (2, 1, 64)), "c": ("cn", (2, 1, 64))}}  # fmt: skip
RATES = {16000: 512, 8000: 256}
CLOSE = 1e-4  # states are fed back, and what rounding has changed with them


def sound(rate):
    """Half a second of noise, then a voice's harmonics that come and go."""
    t = np.arange(rate) / rate
    tone = sum(np.sin(2 * np.pi * 150 * k * t) / k for k in range(1, 12)) * (0.5 + 0.5 * np.sin(2 * np.pi * 4 * t))
    return (0.2 * tone * (t > 0.5) + 0.01 * np.random.default_rng(3).standard_normal(rate)).astype(np.float32)


def distance(name, rate, frame):
    """The furthest that an output or a state of any frame is from ONNX Runtime's, and the outputs."""
    states = STATES[name]
    path = os.path.join(PEERS, "voice", name + ".onnx")
    graph = opc.load(path, shapes={"input": (1, frame), **{s: shape for s, (_, shape) in states.items()}}, consts={"sr": rate})
    session = graph.compile().session()
    far, heard = 0.0, []
    with tempfile.TemporaryDirectory(prefix="voice") as folder:

        def give(**values):
            for key, value in values.items():
                np.save(os.path.join(folder, key + ".npy"), value)

        ours = theirs = {s: np.zeros(shape, np.float32) for s, (_, shape) in states.items()}
        give(sr=np.array(rate), input=np.zeros((1, frame), np.float32), **ours)
        peer = Worker("ONNX Runtime", ["node", os.path.join(ROOT, "tools", "bench", "ort_worker.js"), path, folder, "1"],
                      {"NODE_PATH": os.path.join(PEERS, "node_modules")})
        for piece in sound(rate)[: rate // frame * frame].reshape(-1, 1, frame):
            made = session.run(input=piece, **ours)
            give(input=piece, **theirs)
            for command in ("feed", "run 1", f"outputs {folder}"):
                peer.ask(command)
            for key in made:
                far = max(far, float(np.abs(made[key] - np.load(os.path.join(folder, key + ".npy"))).max()))
            ours = {s: made[out] for s, (out, _) in states.items()}
            theirs = {s: np.load(os.path.join(folder, out + ".npy")) for s, (out, _) in states.items()}
            heard.append(float(made["output"].ravel()[0]))
        peer.close()
    return far, heard


def main():
    wrong = 0
    for name in STATES:
        for rate, frame in RATES.items():
            far, heard = distance(name, rate, frame)
            wrong += not far <= CLOSE
            print(f"{name} at {rate} Hz: {len(heard)} frames, {min(heard):.4f} to {max(heard):.4f}, differs by {far:.1e}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
