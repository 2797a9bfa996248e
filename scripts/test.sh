#!/usr/bin/env bash
# Every test: CTest runs the C++ programs, pytest the Python ones against the
# real program; then both once more under each sanitizer, as far as MLX is not
# needed (reprise_fake is the program then). Each part runs whatever the others
# say; any that fails fails this.
# REPRISE_SOAK=1 asks the tests for their long forms; under sanitizers they
# keep their short ones.
set -uo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh || exit
scripts/build.sh || exit

# CTest's time limits stand in the build folder.
soak=OFF
[ "${REPRISE_SOAK:-}" = 1 ] && soak=ON
grep -q "REPRISE_SOAK:BOOL=$soak" build/release/CMakeCache.txt ||
  cmake --preset release "-DREPRISE_SOAK=$soak" >/dev/null || exit
failed=()

printf '\n== C++ tests\n'
ctest --preset release --no-tests=error ||
  failed+=("ctest")

printf '\n== Python tests\n'
.deps/venv/bin/python -m pytest || failed+=("pytest")

unset REPRISE_SOAK
export REPRISE_SHORT=1
for preset in asan tsan; do
  printf '\n== %s: build\n' "$preset"
  PRESET="$preset" scripts/build.sh || { failed+=("$preset build"); continue; }
  printf '\n== %s: C++ tests without MLX\n' "$preset"
  ctest --preset "$preset" --no-tests=error || failed+=("$preset ctest")
  printf '\n== %s: Python tests with a fake model\n' "$preset"
  REPRISE_BINARY="$PWD/build/$preset/reprise_fake" \
    .deps/venv/bin/python -m pytest tests/api tests/reports ||
    failed+=("$preset pytest")
done

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFAILED: %s\n' "${failed[*]}" >&2
  exit 1
fi
