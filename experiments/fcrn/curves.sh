#!/usr/bin/env bash
# experiments/fcrn/curves.sh [FOLDER]: a9a at a certified ε of 1 and 8, three seeds of each method as fcrn/equal tuned it, every round traced, and
# the pictures of docs/algorithms/fcrn.md: distance from the optimum and accuracy against rounds and bytes. A minute; $TACIT_DATA must have a9a.
set -euo pipefail
tacit=${TACIT_PROGRAM:-$(dirname "$0")/../../tacit} file=$(dirname "$0")/equal.toml to=${1:-curves}

train() {   # NAME KEY=VALUE...
  local name=$1 sets=()
  shift
  for set in "$@"; do sets+=(--set "algorithm.$set"); done
  for seed in 1 2 3; do
    "$tacit" train "$file" --quiet --seed "$seed" --set privacy.epsilon="$epsilon" --set experiment.trace_every=1 \
      --set experiment.output="$to/$epsilon" --set experiment.name="$name" "${sets[@]}" >/dev/null
  done
}

for epsilon in 1 8; do
  if [ "$epsilon" = 8 ]; then eta=8 rounds=32 cubic=0.03 mu=0.1; else eta=2 rounds=16 cubic=0.1 mu=0.3; fi
  train sgd name=dp-fed-sgd rounds=100 local_rate=$eta
  train once rounds=$rounds cubic=0.1
  train client rounds=32 cubic=$cubic solve_at=client
  train full design=full rounds=60 solver_steps=6 strong_convexity=$mu
  for x in rounds bytes; do
    for y in optimality accuracy; do
      flags=(--x $x --y $y)
      [ $x = rounds ] || flags+=(--log-x)
      [ $y = accuracy ] || flags+=(--log-y)
      "$tacit" plot "$to/$epsilon" "${flags[@]}" --legend experiment.name --title "a9a, certified ε = $epsilon" --width 420 --height 240 \
        -o "$to/fcrn-$epsilon-$x-$y.svg"
    done
  done
done
