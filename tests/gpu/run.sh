#!/bin/sh
# What a machine with a GPU, its driver and opc can say: kernels and models beside the CPU, rates of copies and kernels, launches, load
# times, two devices; written as docs/gpu-results.md. Needs no compiler, no Python, no CUDA toolkit.
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

# A graph for each cell, whose op `it` counts. Variables hold its operands, so that a step moves nothing else.
shape() { # DIM...
  dims=
  for d; do dims="$dims dim: $d"; done
  echo "shape {$dims }"
}
variable() { # NAME TYPE DIM...
  variable_name=$1 variable_type=$2
  shift 2
  echo "op { name: \"$variable_name\" variable_conf { out: \"out\" $(shape "$@") data_type: $variable_type initializer { constant_conf { value: 0.25 } } } }"
}
op() { # NAME KIND OUTPUT ATTRIBUTES ARGUMENT=TENSOR...
  op_name=$1 op_kind=$2 made=$3 attributes=$4 given=
  shift 4
  for a; do given="$given input { key: \"${a%%=*}\" value { s: \"${a#*=}\" } }"; done
  echo "op { name: \"$op_name\" user_conf { op_type_name: \"$op_kind\" $given output { key: \"$made\" value { s: \"$op_name/${made}_0\" } } $attributes } }"
}
attribute() { echo "attr { key: \"$1\" value { $2 } }"; } # NAME VALUE
result() { echo "op { name: \"result\" output_conf { in: \"$1\" out: \"out\" } }"; } # TENSOR

# What --profile says of an op of the graph on stdin: its rate in the unit, GFLOP/S or GB/S, times FACTOR.
rate() { # OP UNIT FACTOR OPTIONS...
  row=$1 unit=$2 factor=$3 tries=$repeat
  shift 3
  [ $simulated = 0 ] || tries=1
  cat > "$scratch/cell.pbtxt"
  if ! "$opc" run "$scratch/cell.pbtxt" --device "$device" --no-fuse --no-simplify --profile --warmup 1 --repeat "$tries" --print none "$@" > "$scratch/cell.out" 2> "$scratch/cell.err"; then
    echo "$row: $(grep -m 1 "^error" "$scratch/cell.err")" >> "$scratch/failures"
    echo "FAILED"
  elif [ $simulated = 1 ]; then
    echo "executed in simulation"
  else
    awk -v row="$row" -v unit="$unit" -v factor="$factor" '
      $1 == row { value = unit == "GB/S" ? $NF : $(NF - 1); print value * factor " " (unit == "GB/S" ? "GB/s" : "GFLOP/s"); found = 1; exit }
      END { if (!found) print "FAILED: the profile has no " row }' "$scratch/cell.err"
  fi
}
: > "$scratch/failures"

# Rows of f32 of 1, 16 and 256 MB; the simulator gets one small size.
if [ $simulated = 1 ]; then sizes=2048 columns="8 KB | 16 MB | 256 MB"; else sizes="262144 4194304 67108864" columns="1 MB | 16 MB | 256 MB"; fi
over_sizes() { # NAME, then a command that is called with each number of elements
  text="| $1 |"
  shift
  for n in $sizes; do text="$text $("$@" "$n") |"; done
  [ $simulated = 0 ] || text="$text not run | not run |"
  echo "$text"
}
# A profile counts what is read and what is written; a copy moves it once. The CPU's ops stand around the device's.
to_device() { { variable x kFloat "$1" && op a relu y "" x=x/out && op b relu y "" x=a/y_0 && result b/y_0; } | rate a/y_0.to_device GB/S 0.5 --place a=cpu; }
to_cpu() { { variable x kFloat "$1" && op a relu y "" x=x/out && op b relu y "" x=a/y_0 && result b/y_0; } | rate a/y_0.to_cpu GB/S 0.5 --place b=cpu; }
on_device() { { variable x kFloat "$1" && op it copy out "" in=x/out && result it/out_0; } | rate it GB/S 0.5; }
elementwise() { { variable x kFloat "$2" && op it "$1" y "" x=x/out && result it/y_0; } | rate it GB/S 1; }
binary() { { variable x kFloat "$1" && variable z kFloat "$1" && op it broadcast_add z "" x=x/out y=z/out && result it/z_0; } | rate it GB/S 1; }
rows_of_1024() { echo $(($1 / 1024)); }
reduced() { { variable x kFloat "$(rows_of_1024 "$2")" 1024 && op it reduce_sum output_tensor "$(attribute axis "at_list_int32 { val: $1 }")" input_tensor=x/out && result it/output_tensor_0; } | rate it GB/S 1; }
softmaxed() { { variable x kFloat "$(rows_of_1024 "$1")" 1024 && op it softmax out "" in=x/out && result it/out_0; } | rate it GB/S 1; }
normalized() {
  {
    variable x kFloat "$(rows_of_1024 "$1")" 1024 && variable w kFloat 1024
    op it rms_norm y "output { key: \"inv_rms\" value { s: \"it/inv_rms_0\" } } $(attribute normalized_shape "at_shape { dim: 1024 }")" x=x/out weight=w/out && result it/y_0
  } | rate it GB/S 1
}
transposed() { { variable x kFloat "$(rows_of_1024 "$1")" 1024 && op it transpose output "$(attribute perm "at_list_int32 { val: 1 val: 0 }")" input=x/out && result it/output_0; } | rate it GB/S 1; }
{
  over_sizes "copy to the device" to_device
  over_sizes "copy to the CPU" to_cpu
  over_sizes "copy on the device" on_device
  over_sizes "relu" elementwise relu
  over_sizes "exp" elementwise exp
  over_sizes "broadcast_add" binary
  over_sizes "reduce_sum of rows" reduced 1
  over_sizes "reduce_sum of columns" reduced 0
  over_sizes "softmax" softmaxed
  over_sizes "rms_norm" normalized
  over_sizes "transpose" transposed
} > "$scratch/rates"

# Products, convolutions, attention: the simulator gets a small size of each.
product() { # TYPE SIZE OPTIONS...
  type=$1 n=$2
  shift 2
  [ $simulated = 0 ] || n=64
  { variable x "$type" "$n" "$n" && variable z "$type" "$n" "$n" && op it matmul out "" a=x/out b=z/out && result it/out_0; } | rate it GFLOP/S 1 "$@"
}
convolved() { # TYPE CHANNELS SIDE KERNEL
  type=$1 channels=$2 side=$3 kernel=$4 batch=32 pad=$(($4 / 2))
  [ $simulated = 0 ] || { channels=16 side=7 batch=1; }
  {
    variable x "$type" $batch "$channels" "$side" "$side" && variable w "$type" "$channels" "$channels" "$kernel" "$kernel"
    op it conv2d out "$(attribute padding_before "at_list_int32 { val: $pad val: $pad }")" in=x/out weight=w/out && result it/out_0
  } | rate it GFLOP/S 1
}
attended() { # TYPE
  type=$1 heads=64 length=1024
  [ $simulated = 0 ] || { heads=2 length=48; }
  {
    for operand in q k v; do variable $operand "$type" $heads $length 64; done
    op it scaled_dot_product_attention out "output { key: \"log_sum\" value { s: \"it/log_sum_0\" } }" query=q/out key=k/out value=v/out && result it/out_0
  } | rate it GFLOP/S 1
}
{
  echo "| product of 1024 x 1024, f32 | $(product kFloat 1024) |"
  echo "| product of 4096 x 4096, f32 | $(product kFloat 4096) |"
  echo "| the same with --allow-tf32 | $(product kFloat 4096 --allow-tf32) |"
  echo "| product of 4096 x 4096, f16 | $(product kFloat16 4096) |"
  echo "| product of 4096 x 4096, bf16 | $(product kBFloat16 4096) |"
  echo "| convolution 3 x 3, 64 channels of 56 x 56, batch 32, f32 | $(convolved kFloat 64 56 3) |"
  echo "| convolution 3 x 3, 256 channels of 14 x 14, batch 32, f16 | $(convolved kFloat16 256 14 3) |"
  echo "| convolution 1 x 1, 256 channels of 56 x 56, batch 32, f16 | $(convolved kFloat16 256 56 1) |"
  echo "| attention, 64 heads of 1024 x 64, f32 | $(attended kFloat) |"
  echo "| attention, 64 heads of 1024 x 64, f16 | $(attended kFloat16) |"
} > "$scratch/products"

# 1,000 ops of 16 numbers, each a launch, or all of them one graph launch.
{
  variable x kFloat 16
  last=x/out i=0
  while [ $i -lt 1000 ]; do
    op "op$i" sin y "" x=$last
    last=op$i/y_0 i=$((i + 1))
  done
  result $last
} > "$scratch/ops.pbtxt"
launched() { # GRAPHS
  tries=$((repeat > 2 ? repeat : 3))
  [ $simulated = 0 ] || tries=3
  if ! OPC_CUDA_GRAPHS=$1 "$opc" run "$scratch/ops.pbtxt" --device "$device" --no-fuse --repeat $tries --print none > /dev/null 2> "$scratch/ops.err"; then
    echo "1,000 ops: $(grep -m 1 "^error" "$scratch/ops.err")" >> "$scratch/failures"
    echo "FAILED"
  elif [ $simulated = 1 ]; then
    echo "executed in simulation"
  else
    sed -n 's/.*p50 \([^,]*\),.*/\1/p' "$scratch/ops.err" | head -n 1
  fi
}
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
loaded() { # CUDA_CACHE_DISABLE: a process that runs the smaller network once
  begin=$(milliseconds)
  if ! CUDA_CACHE_DISABLE=$1 "$opc" run "$here/docs/examples/digits/mlp.pbtxt" --weights "$here/docs/examples/digits/mlp_weights.npz" --fill rand --seed 1 --shape image=4,64 --print none --device "$device" > /dev/null 2>&1; then
    echo "FAILED"
  elif [ $simulated = 1 ]; then
    echo "executed in simulation"
  else
    echo "$(($(milliseconds) - begin)) ms"
  fi
}
graphs_off=$(launched 0) graphs_on=$(launched 1) load_first=$(loaded 1) load_again=$(loaded 0)

# Two devices: the smaller network as ranks, beside one CPU.
two="not run: one device" exchange=
[ $simulated = 0 ] || { export CUDA_SIM="${CUDA_SIM:+$CUDA_SIM,}devices=2"; }
if [ $simulated = 1 ] || [ "$(grep -c "^  $kind:[0-9]" "$scratch/doctor")" -ge 2 ]; then
  if "$opc" run "$here/docs/examples/digits/mlp.pbtxt" --weights "$here/docs/examples/digits/mlp_weights.npz" --fill rand --seed 1 --shape image=4,64 --print none --stats \
    --device "$kind:0-1" --reference cpu > /dev/null 2> "$scratch/two.err"; then
    two="as on the CPU, $done_as"
    exchange=$(sed -n 's/^ranks exchange //p' "$scratch/two.err" | head -n 1)
  else
    two="WRONG: $(grep -m 1 "^error" "$scratch/two.err")" failed=1
  fi
fi

# NVIDIA's own checks, where they are installed: they are slow, so a few ops.
sanitized() { # TOOL
  if [ $simulated = 1 ] || ! command -v compute-sanitizer > /dev/null; then
    echo "not run"
  elif compute-sanitizer --tool "$1" --error-exitcode 9 "$opc" verify relu softmax layer_norm matmul conv2d sort scaled_dot_product_attention --device "$device" > "$scratch/sanitizer" 2>&1; then
    echo "no errors, $done_as"
  else
    echo "FAILED: $(grep -m 1 "ERROR SUMMARY\|error" "$scratch/sanitizer")"
  fi
}
for tool in memcheck racecheck initcheck synccheck; do echo "| $tool | $(sanitized $tool) |"; done > "$scratch/sanitized"
if [ -s "$scratch/failures" ] || grep -q FAILED "$scratch/sanitized" "$scratch/rates" "$scratch/products"; then failed=1; fi
case "$graphs_off$graphs_on$load_first$load_again" in *FAILED*) failed=1 ;; esac
missing="ResNet-50, the encoder and training steps beside PyTorch, cuBLASLt and cuDNN, Nsight Compute's counts: not run."

cat > "$out" <<PAGE
# What was run on GPUs

Written by \`tests/gpu/run.sh\`, which needs a machine with an NVIDIA GPU, its driver, and opc. A cell is *measured* (device, date, commit),
*executed in simulation*, *planned by the library*, which is said where a vendor's library has planned a kernel and nothing has run it (opc has no such door yet), or *not
run*. Nothing else is claimed of GPUs; a simulated one has numbers and no times ([GPUs](gpu.md)).

| | |
|---|---|
| device | ${name:-unknown} |
| driver | $([ $simulated = 1 ] && echo "the stand-in (tools/gpusim)" || (cat /proc/driver/nvidia/version 2>/dev/null || echo unknown) | head -n 1) |
| cells without a word of their own | $done_as |

## Kernels beside the CPU

\`opc verify $ops --device $device\`: ${summary:-nothing was run} ($done_as).

Ops that failed: ${wrong:-none}

## Models

| model | outputs | time of a step, p50 of $repeat |
|---|---|---|
$(cat "$scratch/models")

## Memory

GB/s at the median of $repeat runs of \`--profile\`, which waits for each op: what an op reads and writes, of a copy what it moves. f32, rows of 1024; *executed
in simulation* is one small size of each, without a time.

| what | $columns |
|---|---|---|---|
$(cat "$scratch/rates")

## Products, convolutions, attention

GFLOP/s of opc's own kernels, as above. The simulator gets small sizes of them.

| what | rate |
|---|---|
$(cat "$scratch/products")

## Launches and load times

| what | time |
|---|---|
| 1,000 ops of 16 numbers, launched one by one | $graphs_off |
| the same as one CUDA graph | $graphs_on |
| a process that loads and runs mlp once, PTX compiled by the driver | $load_first |
| the same with the driver's cache | $load_again |

## Two devices

The network mlp as two ranks: $two${exchange:+, $exchange}.

## compute-sanitizer

| tool | a few ops of \`opc verify\` |
|---|---|
$(cat "$scratch/sanitized")

## Failures

$(if [ -s "$scratch/failures" ]; then sed 's/^/- /' "$scratch/failures"; else echo "None of the cells above."; fi)

## Not run

$missing
PAGE
echo "$out: $done_as"
exit $failed
