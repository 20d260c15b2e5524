# Three small ONNX models, written with numpy alone: a classifier of digits, a voice detector that keeps a state between the pieces of
# a sound, and a transformer's encoder, with what it makes of some words.
#
#   python3 make_models.py FOLDER
#
# classifier.onnx        image [batch, 64] -> logits [batch, 10]: the network of ../digits with its trained weights
# classifier_train.onnx  the same with label [batch] and the mean of the cross entropy, loss
# detector.onnx          frame [1, 256], state [1, 2] -> voice [1, 1], next [1, 2]: 16 ms of a sound at 16 kHz
# encoder.onnx           ids [batch, length] -> scores [batch, 5]: weights are random; ids.npy and scores.npy are an example

import math
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))
from onnx_writer import OnnxWriter  # noqa: E402


class Net(OnnxWriter):
    """Tensors are called as the nodes that make them."""

    def ints(self, name, values):
        return self.constant(name, np.array(values, "i8"))

    def floats(self, name, values):
        return self.constant(name, np.array(values, "f4"))


def classifier(folder, trains):
    net, weights = Net(), np.load(HERE.parent / "digits" / "cnn_weights.npz")
    for name, value in weights.items():
        net.constant(name, value)
    x = net.node("Reshape", ["image", net.ints("planes_shape", [-1, 1, 8, 8])], "planes")
    for k in (1, 2):
        x = net.node("Conv", [x, f"conv{k}_w", f"conv{k}_b"], f"conv{k}", kernel_shape=(3, 3), pads=(1, 1, 1, 1))
        if k == 1:
            x = net.node("BatchNormalization", [x, "bn1_gamma", "bn1_beta", "bn1_mean", "bn1_var"], "bn1", epsilon=1e-5)
        x = net.node("MaxPool", [net.node("Relu", [x], f"relu{k}")], f"pool{k}", kernel_shape=(2, 2), strides=(2, 2))
    x = net.node("Gemm", [net.node("Flatten", [x], "features", axis=1), "fc1_w", "fc1_b"], "fc1", transB=1)
    net.node("Gemm", [net.node("Gelu", [x], "gelu1"), "fc2_w", "fc2_b"], "logits", transB=1)
    image, logits = ("image", ["batch", 64]), ("logits", ["batch", 10])
    if not trains:
        return net.save(folder / "classifier.onnx", "digits", [image], [logits])
    net.node("SoftmaxCrossEntropyLoss", ["logits", "label"], "loss", reduction="mean")
    net.save(folder / "classifier_train.onnx", "digits", [image, ("label", ["batch"], "i4")], [("loss", [])])


def detector(folder):
    """Loud between 150 and 3,000 Hz, against the quietest that was heard: `state` is that, and the answer before."""
    net, rate, size = Net(), 16000, 256
    at = np.arange(size)
    bins = np.arange(math.ceil(150 * size / rate), 3000 * size // rate)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * at / size)
    waves = 2 * np.pi * np.outer(at, bins) / size
    powers = []
    for name, f in (("cosines", np.cos), ("sines", np.sin)):
        part = net.node("MatMul", ["frame", net.floats(name, window[:, None] * f(waves))], name + "_part")
        powers.append(net.node("Mul", [part, part], name + "_power"))
    power = net.node("ReduceSum", [net.node("Add", powers, "powers"), net.ints("bands", [1])], "power", keepdims=1)
    level = net.node("Log", [net.node("Add", [power, net.floats("silence", 1e-6)], "heard")], "level")
    for k, name in enumerate(("floor_before", "voice_before")):
        net.node("Slice", ["state", net.ints(name + "_from", [k]), net.ints(name + "_to", [k + 1]), net.ints(name + "_axis", [1])], name)
    rising = net.node("Add", ["floor_before", net.floats("rise", 0.01)], "rising")
    floor = net.node("Min", [level, rising], "floor")
    above = net.node("Sub", [net.node("Sub", [level, floor], "above"), net.floats("margin", 3)], "above_margin")
    now = net.node("Mul", [net.node("Sigmoid", [above], "now"), net.floats("share", 0.3)], "new_share")
    kept = net.node("Mul", ["voice_before", net.floats("kept_share", 0.7)], "kept")
    net.node("Add", [now, kept], "voice")
    net.node("Concat", [floor, "voice"], "next", axis=1)
    net.save(folder / "detector.onnx", "voice", [("frame", [1, size]), ("state", [1, 2])], [("voice", [1, 1]), ("next", [1, 2])])


WORDS, PLACES, WIDTH, HEADS, CLASSES = 100, 32, 64, 4, 5


def encoder_weights():
    random, weights = np.random.RandomState(3), {}

    def draw(name, *shape):
        weights[name] = (random.standard_normal(shape) / math.sqrt(shape[0] if len(shape) > 1 else 1)).astype("f4")

    for name, rows in (("words", WORDS), ("places", PLACES)):
        weights[name] = random.standard_normal((rows, WIDTH)).astype("f4")
    for k in range(2):
        for part in "qkvo":
            draw(f"{k}_{part}", WIDTH, WIDTH)
        draw(f"{k}_wide", WIDTH, 4 * WIDTH), draw(f"{k}_narrow", 4 * WIDTH, WIDTH)
        for norm in ("norm1", "norm2"):
            weights[f"{k}_{norm}_scale"] = random.uniform(0.8, 1.2, WIDTH).astype("f4")
            weights[f"{k}_{norm}_bias"] = (0.1 * random.standard_normal(WIDTH)).astype("f4")
    draw("head", WIDTH, CLASSES)
    return weights


def encoder(folder, weights):
    net = Net()
    for name, value in weights.items():
        net.constant(name, value)
    length = net.node("Slice", [net.node("Shape", ["ids"], "sizes"), net.ints("one", [1]), net.ints("two", [2])], "length")
    places = net.node("Slice", ["places", net.ints("zero", [0]), length, "zero"], "own_places")
    x = net.node("Add", [net.node("Gather", ["words", "ids"], "embedded"), places], "placed")
    heads, whole = net.ints("heads", [0, 0, HEADS, WIDTH // HEADS]), net.ints("whole", [0, 0, WIDTH])
    root = net.floats("root", (WIDTH // HEADS) ** -0.5)
    for k in range(2):
        y = net.node("LayerNormalization", [x, f"{k}_norm1_scale", f"{k}_norm1_bias"], f"{k}_norm1", epsilon=1e-5)
        parts = {}
        for part, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
            made = net.node("Reshape", [net.node("MatMul", [y, f"{k}_{part}"], f"{k}_{part}_flat"), heads], f"{k}_{part}_split")
            parts[part] = net.node("Transpose", [made], f"{k}_{part}_heads", perm=perm)
        scores = net.node("Mul", [net.node("MatMul", [parts["q"], parts["k"]], f"{k}_products"), root], f"{k}_scores")
        read = net.node("MatMul", [net.node("Softmax", [scores], f"{k}_shares", axis=-1), parts["v"]], f"{k}_read")
        joined = net.node("Reshape", [net.node("Transpose", [read], f"{k}_read_back", perm=(0, 2, 1, 3)), whole], f"{k}_joined")
        x = net.node("Add", [x, net.node("MatMul", [joined, f"{k}_o"], f"{k}_out")], f"{k}_after_attention")
        y = net.node("LayerNormalization", [x, f"{k}_norm2_scale", f"{k}_norm2_bias"], f"{k}_norm2", epsilon=1e-5)
        y = net.node("Gelu", [net.node("MatMul", [y, f"{k}_wide"], f"{k}_spread")], f"{k}_gelu")
        x = net.node("Add", [x, net.node("MatMul", [y, f"{k}_narrow"], f"{k}_back")], f"{k}_after_feed")
    mean = net.node("ReduceMean", [x, "one"], "mean", keepdims=0)
    net.node("MatMul", [mean, "head"], "scores")
    net.save(folder / "encoder.onnx", "encoder", [("ids", ["batch", "length"], "i8")], [("scores", ["batch", CLASSES])])


def encoded(weights, ids):
    """What the encoder makes of words, by its formulas."""
    w = {name: value.astype("f8") for name, value in weights.items()}
    erf = np.vectorize(math.erf)
    x = w["words"][ids] + w["places"][: ids.shape[1]]

    def norm(v, name):
        return (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5) * w[name + "_scale"] + w[name + "_bias"]

    for k in range(2):
        y = norm(x, f"{k}_norm1")
        q, key, v = ((y @ w[f"{k}_{part}"]).reshape(*ids.shape, HEADS, -1).transpose(0, 2, 1, 3) for part in "qkv")
        shares = np.exp(q @ key.transpose(0, 1, 3, 2) * (WIDTH // HEADS) ** -0.5)
        read = (shares / shares.sum(-1, keepdims=True)) @ v
        x = x + read.transpose(0, 2, 1, 3).reshape(*ids.shape, WIDTH) @ w[f"{k}_o"]
        y = norm(x, f"{k}_norm2") @ w[f"{k}_wide"]
        x = x + 0.5 * y * (1 + erf(y / math.sqrt(2))) @ w[f"{k}_narrow"]
    return (x.mean(1) @ w["head"]).astype("f4")


def main(folder):
    for trains in (False, True):
        classifier(folder, trains)
    detector(folder)
    weights = encoder_weights()
    encoder(folder, weights)
    ids = np.random.RandomState(4).randint(0, WORDS, (4, 12)).astype("i8")
    np.save(folder / "ids.npy", ids)
    np.save(folder / "scores.npy", encoded(weights, ids))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
