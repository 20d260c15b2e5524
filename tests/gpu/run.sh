#!/bin/sh
# What a machine with a GPU, its driver and opc can say: kernels against the CPU, models against the CPU, times of models; written as
# docs/gpu-results.md. Needs no compiler, no Python, no CUDA toolkit.
# SPDX-License-Identifier: Apache-2.0
set -eu
usage() {
  echo "usage: tests/gpu/run.sh [--opc PATH] [--device gpu|gpu:N|sim] [--ops 'NAME...'] [--repeat N] [--out FILE]" >&2
  exit 2
}
here=$(cd "$(dirname "$0")/../.." && pwd)
opc=$here/build/bin/opc device=gpu ops=--all repeat=20 out=$here/docs/gpu-results.md
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
  --opc) opc=$2 ;;
  --device) device=$2 ;;
  --ops) ops=$2 ;;
  --repeat) repeat=$2 ;;
  --out) out=$2 ;;
  *) usage ;;
  esac
  shift 2
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The device by its own name. A simulated one has no times.
"$opc" doctor > "$scratch/doctor" || true
kind=${device%%:*} number=${device#"$kind"}
name=$(sed -n "s/^  $kind$number  *//p" "$scratch/doctor" | head -n 1)
[ -n "$name" ] || name=$(sed -n "s/^  $kind:0  *//p" "$scratch/doctor" | head -n 1)
[ "$kind" != sim ] || name="the simulator of opc"
case $kind,$name in
sim,* | *[Ss]imulat*) simulated=1 ;;
*) simulated=0 ;;
esac
commit=$(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git -C "$here" status --porcelain -uno 2>/dev/null)" ] || commit=$commit-dirty
date=$(date -u +%Y-%m-%d)
if [ $simulated = 1 ]; then done_as="executed in simulation ($date, $commit)"; else done_as="measured ($name, $date, $commit)"; fi
failed=0

# Kernels: every case of every op and element type that has one, beside the CPU.
set +e
# shellcheck disable=SC2086 # names of ops
"$opc" verify $ops --device "$device" > "$scratch/verify" 2> "$scratch/verify.err"
verify=$?
set -e
[ $verify -le 1 ] || { cat "$scratch/verify.err" >&2; exit $verify; }
[ $verify = 0 ] || failed=1
summary=$(grep " on $device: " "$scratch/verify.err" | tail -n 1)
wrong=$(sed -n 's/^\([^ ]*\)  FAILED: .*/\1/p' "$scratch/verify" | tr '\n' ' ')

# Models: outputs beside the CPU's, then times.
: > "$scratch/models"
for model in mlp cnn; do
  graph=$here/docs/examples/digits/$model.pbtxt weights=$here/docs/examples/digits/${model}_weights.npz
  set -- "$graph" --weights "$weights" --fill rand --seed 1 --shape image=4,64 --print none --device "$device"
  if "$opc" run "$@" --reference cpu > /dev/null 2> "$scratch/run.err"; then
    numbers="as on the CPU, $done_as"
  else
    code=$?
    numbers="not run: $(head -n 1 "$scratch/run.err")"
    [ $code = 4 ] || { numbers="WRONG: $(head -n 1 "$scratch/run.err")" failed=1; }
  fi
  time="not run"
  case $simulated,$numbers in
  0,as*)
    "$opc" run "$@" --warmup 5 --repeat "$repeat" > /dev/null 2> "$scratch/time.err"
    time="$(sed -n 's/.*p50 \([^,]*\),.*/\1/p' "$scratch/time.err" | head -n 1), $done_as"
    ;;
  esac
  echo "| $model | $numbers | $time |" >> "$scratch/models"
done

cat > "$out" <<PAGE
# What was run on GPUs

Written by \`tests/gpu/run.sh\`, which needs a machine with an NVIDIA GPU, its driver, and opc. A cell says *measured* (device, date, commit),
*executed in simulation*, or *not run*. Nothing else is claimed of GPUs; a simulated one has numbers and no times
([GPUs](gpu.md)).

| | |
|---|---|
| device | ${name:-unknown} |
| driver | $([ $simulated = 1 ] && echo "the stand-in (tools/gpusim)" || (cat /proc/driver/nvidia/version 2>/dev/null || echo unknown) | head -n 1) |

## Kernels beside the CPU

\`opc verify $ops --device $device\`: ${summary:-nothing was run} ($done_as).

Ops that failed: ${wrong:-none}

## Models

| model | outputs | time of a step, p50 of $repeat |
|---|---|---|
$(cat "$scratch/models")

## Not run

Bandwidths, products and convolutions beside their libraries, attention, launch overhead, PyTorch beside it, several GPUs, compute-sanitizer: not run.
PAGE
echo "$out: $done_as"
exit $failed
