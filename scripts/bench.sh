#!/usr/bin/env bash
# Builds and runs every comparison: kernels against MLX's own, then the whole
# server with the demo's model. Run it on a quiet machine; the core wait that
# is printed says whether it was.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh reprise kernels_bench
build/release/bench/kernels_bench
python3 scripts/bench.py
