#!/usr/bin/env bash
# fuzz.sh [SECONDS]: builds the fuzzers of tests/fuzz with clang and runs each
# for that long (60), from its corpus. A finding is left in build/fuzz/findings
# and fails this; once fixed, it belongs into the corpus. One input has a minute:
# a template may take 4 million steps, three seconds of a machine of its own.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-60}"

scripts/setup.sh --fuzz || exit
[ -f build/fuzz/build.ninja ] || cmake --preset fuzz || exit
cmake --build --preset fuzz || exit

mkdir -p build/fuzz/findings
failed=()
for source in tests/fuzz/*_fuzz.cpp; do
  name="$(basename "$source" .cpp)"
  grown="build/fuzz/grown/$name"
  mkdir -p "$grown"
  printf '\n== %s\n' "$name"
  "build/fuzz/tests/fuzz/$name" "$grown" "tests/fuzz/corpus/${name%_fuzz}" \
    "-max_total_time=$seconds" -rss_limit_mb=2048 -timeout=60 -print_final_stats=1 \
    "-artifact_prefix=build/fuzz/findings/$name-" \
    >"build/fuzz/$name.log" 2>&1 || failed+=("$name")
  tail -n 12 "build/fuzz/$name.log"
done

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFAILED: %s (build/fuzz/*.log)\n' "${failed[*]}" >&2
  exit 1
fi
