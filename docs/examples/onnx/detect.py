# Reads a sound piece by piece with detector.onnx, whose state goes from each piece to the next, and says when there is a voice.
#
#   PYTHONPATH=$(opc python --path) python3 detect.py FOLDER     the folder where make_models.py has written
import pathlib
import sys

import numpy as np
import opc

RATE, SIZE = 16000, 256
FIRST_STATE = np.array([[20, 0]], "f")  # nothing was heard yet


def sound():
    """Two seconds of noise; from 0.8 s to 1.4 s a voice: a tone of 140 Hz with its overtones, louder and softer."""
    at = np.arange(2 * RATE) / RATE
    noise = 0.003 * np.random.RandomState(1).standard_normal(len(at))
    tone = sum(np.sin(2 * np.pi * 140 * k * at) / k for k in range(1, 12))
    return (noise + 0.05 * tone * (1 + 0.5 * np.sin(2 * np.pi * 4 * at)) * ((at > 0.8) & (at < 1.4))).astype("f")


def voices(session, samples):
    state = FIRST_STATE
    for begin in range(0, len(samples) - SIZE + 1, SIZE):
        made = session.run(frame=samples[None, begin : begin + SIZE], state=state)
        state = made["next"]
        yield begin / RATE, float(made["voice"][0, 0])


def main(folder):
    session = opc.load(str(folder / "detector.onnx")).compile().session()
    heard = False
    for second, voice in voices(session, sound()):
        if (voice > 0.5) != heard:
            heard = not heard
            print(f"{'voice' if heard else 'quiet'} from {second:.2f} s on")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
