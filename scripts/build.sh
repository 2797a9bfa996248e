#!/usr/bin/env bash
# build.sh [TARGET...]: sets up, configures the preset in $PRESET (release) and
# builds the targets, or everything.
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${PRESET:-release}"

scripts/setup.sh --no-python
# Configuring is repeated by ninja itself when a CMake file changed.
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"
if [ $# = 0 ]; then
  cmake --build --preset "$preset"
else
  cmake --build --preset "$preset" --target "$@"
fi
