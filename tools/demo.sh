#!/usr/bin/env bash
# The main job: builds opc; runs two trained networks on the held-out handwritten digits, checked against known logits; then
# trains both from random weights, saves them, and reads the held-out digits with what was saved.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/build.sh release opc

digits=docs/examples/digits
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python=$(tools/dev/find_python.sh)

for net in mlp cnn; do
  echo
  echo "== $net: opc run $digits/$net.pbtxt on 360 held-out images"
  build/bin/opc run "$digits/$net.pbtxt" --weights "$digits/${net}_weights.npz" \
    --input "image=@$digits/test_images.npy" \
    --expect "logits=@$digits/${net}_test_logits.npy" --rtol 1e-4 --atol 1e-5 \
    --outputs "$out/$net"
  "$python" tools/dev/show_digits.py "$digits/test_images.npy" "$digits/test_labels.npy" "$out/$net/logits.npy"
done

# One thread: steps this small spend more on handing work over than on the work.
data="image=@$digits/train_images.npy,label=@$digits/train_labels.npy"
for net in mlp cnn; do
  echo
  echo "== $net: opc grad, then opc run --feed-dataset: from random weights"
  sed 's/key: "training" value { at_bool: false }/key: "training" value { at_bool: true }/' \
    "$digits/$net.pbtxt" "$digits/${net}_loss.pbtxt" |
    build/bin/opc grad - --shape image=64,64 --shape label=64 --loss loss --optimizer adam --lr 0.002 \
      -o "$out/${net}_train.pbtxt"
  build/bin/opc run "$out/${net}_train.pbtxt" -j 1 --feed-dataset "$data" --batch 64 --shuffle --seed 7 --epochs 20 \
    --save "$out/$net.safetensors" --metrics "$out/$net.jsonl" --plot "$out/$net.svg"
  echo "== $net: the saved weights on 360 held-out images"
  build/bin/opc run -q "$digits/$net.pbtxt" --weights "$out/$net.safetensors" --input "image=@$digits/test_images.npy" \
    --outputs "$out/$net-trained" --print none
  "$python" tools/dev/show_digits.py "$digits/test_images.npy" "$digits/test_labels.npy" "$out/$net-trained/logits.npy"
done
