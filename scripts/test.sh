#!/usr/bin/env bash
# Every test: CTest runs the C++ programs, pytest the Python ones against the
# real program. Both run whatever the first says; either failing fails this.
# REPRISE_SOAK=1 asks the tests for their long forms.
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

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFAILED: %s\n' "${failed[*]}" >&2
  exit 1
fi
printf '\nAll tests passed.\n'
