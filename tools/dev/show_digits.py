# Shows what a digits network answered: the accuracy, and a few images as text with the answer below each.
# SPDX-License-Identifier: Apache-2.0
"""usage: show_digits.py IMAGES.npy LABELS.npy LOGITS.npy [COUNT]

IMAGES is f32[N,64] in [0,1], LABELS int32[N], LOGITS f32[N,10].
"""
import sys

import numpy as np

SHADES = " .:-=+*#%@"


def drawing(image):
    """The 8 lines of one 8x8 image, two characters a pixel."""
    levels = np.clip((image.reshape(8, 8) * len(SHADES)).astype(int), 0, len(SHADES) - 1)
    return ["".join(SHADES[v] * 2 for v in row) for row in levels]


def main(argv):
    if len(argv) not in (4, 5):
        print(__doc__, file=sys.stderr)
        return 2
    images, labels, logits = (np.load(f) for f in argv[1:4])
    count = int(argv[4]) if len(argv) == 5 else 5
    if not len(images) == len(labels) == len(logits):
        print(f"{len(images)} images, {len(labels)} labels and {len(logits)} answers do not match", file=sys.stderr)
        return 2
    answers = logits.argmax(axis=1)
    right = int((answers == labels).sum())
    print(f"accuracy: {right} of {len(labels)} ({100 * right / len(labels):.1f} %)")

    wrong = np.flatnonzero(answers != labels)[:1]  # an honest sample shows a mistake too, when there is one
    shown = [i for i in range(len(labels)) if i not in wrong][: count - len(wrong)] + list(wrong)
    rows = zip(*(drawing(images[i]) for i in shown))
    print()
    for row in rows:
        print("  " + "   ".join(row))
    captions = []
    for i in shown:
        p = np.exp(logits[i] - logits[i].max())
        p = p[answers[i]] / p.sum()
        note = "" if answers[i] == labels[i] else f" not {labels[i]}"
        captions.append(f"{answers[i]}{note} ({100 * p:.0f} %)".ljust(16))
    print("  " + "   ".join(captions))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
