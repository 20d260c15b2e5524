#!/usr/bin/env bash
# The main job: builds opc and runs two trained networks on the held-out handwritten digits, checked against known logits.
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
