#!/usr/bin/env bash
# lint.sh format: rewrites C++ sources with clang-format-16.
# lint.sh check [FILE...]: format of all C++ sources and clang-tidy-16 over
# those of src and apps without their tests, or over the given ones; nothing is
# changed. A file takes clang-tidy some ten seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --lint
mode="${1:-check}"
shift || true
mapfile -t sources < <(
  if [ $# -gt 0 ]; then printf '%s\n' "$@"
  else git ls-files --cached --others --exclude-standard \
    '*.h' '*.cpp' '*.cc' '*.cu'
  fi)

if [ "$mode" = format ]; then
  clang-format-16 -i "${sources[@]}"
  exit
fi

clang-format-16 --dry-run -Werror "${sources[@]}"
echo "[lint] ${#sources[@]} files: format is right"

cmake --preset dev >/dev/null  # again each time: new files, new commands
mapfile -t units < <(printf '%s\n' "${sources[@]}" | grep -E '\.(cpp|cc)$')
[ $# -gt 0 ] || mapfile -t units < <(printf '%s\n' "${units[@]}" |
  grep -E '^(src|apps)/' | grep -vE '_test\.cpp$|/test_')
# One process a file, as many as there are cores; each says its name first,
# so that a long run shows where it is.
printf '%s\n' "${units[@]}" |
  xargs -P "$(nproc)" -I{} sh -c 'echo "[lint] {}"
    clang-tidy-16 -p build/dev --quiet "{}" 2>/dev/null'
echo "[lint] ${#units[@]} files: clang-tidy has nothing to say"
