#!/usr/bin/env bash
# Installs what tools/bench_models.py and tools/bench_onnx.py compare with: PyTorch (Debian's python3-torch) and ONNX Runtime
# (npm's onnxruntime-node) into DIR (default: build/peers), and the models of a voice detector (npm's @ricky0123/vad-web) for
# tests/onnx/voice.py. What cannot be had is named, and the benchmark runs without it.
# usage: tools/dev/install_peers.sh [--runtime] [DIR]      --runtime: ONNX Runtime alone, which tests compare with
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
only_runtime=
[ "${1:-}" = --runtime ] && only_runtime=1 && shift
dir=${1:-build/peers}
version=1.30.0
missing=0

onnx_runtime() {
  # The package's install script fetches CUDA libraries, which no CPU benchmark needs.
  [ -d "$dir/node_modules/onnxruntime-node" ] ||
    (cd "$dir" && npm install --no-fund --no-audit --ignore-scripts "onnxruntime-node@$version") || missing=1
  (cd "$dir" && node -e 'require("onnxruntime-node"); console.log("onnxruntime", require("onnxruntime-node/package.json").version)') ||
    { echo "install_peers: no ONNX Runtime" >&2; rm -rf "$dir/node_modules/onnxruntime-node"; missing=1; }
}

if [ -n "$only_runtime" ]; then
  command -v npm >/dev/null || { echo "install_peers: npm is missing (Debian: nodejs npm): no ONNX Runtime" >&2; exit 1; }
  mkdir -p "$dir"
  onnx_runtime
  exit $missing
fi

if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo apt-get install -y --no-install-recommends python3-torch || missing=1
fi
# Without OpenBLAS, Debian's PyTorch multiplies matrices with the reference BLAS, some ten times slower: no fair peer.
if ! dpkg-query -W -f '${db:Status-Abbrev}' libopenblas0-openmp 2>/dev/null | grep -q ^ii; then
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo apt-get install -y --no-install-recommends libopenblas0-openmp || missing=1
fi
/usr/bin/python3 -c 'import torch; print("torch", torch.__version__)' || { echo "install_peers: no PyTorch" >&2; missing=1; }

mkdir -p "$dir"
if ! command -v npm >/dev/null; then
  echo "install_peers: npm is missing (Debian: nodejs npm): no ONNX Runtime" >&2
  missing=1
else
  onnx_runtime
  # Of the package the models alone: it depends on a runtime for browsers.
  [ -d "$dir/voice" ] ||
    (cd "$dir" && rm -rf package && tar -xzf "$(npm pack --silent @ricky0123/vad-web@0.0.31)" && mkdir voice.new &&
      mv package/dist/*.onnx voice.new && mv voice.new voice && rm -rf package ricky0123-vad-web-*.tgz) || missing=1
fi
exit $missing
