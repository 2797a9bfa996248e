#!/usr/bin/env bash
# mutants.sh [NAME...]: what the tests are worth. Each tests/mutants/NAME.patch
# is a fault planted in the product; its line "Red: TARGET FILTER" names the
# test that must fail then. The commit that is checked out is copied to
# build/mutants/tree, and only those targets are built. A patch that does not
# apply or build, a filter that names no test, one that fails without the fault,
# and a test that stays green are errors.
set -uo pipefail
cd "$(dirname "$0")/.."
root="$PWD"
tree="$root/build/mutants/tree"
build="$tree/build/release"
export CCACHE_BASEDIR="$tree" CCACHE_NOHASHDIR=1

if [ -e "$tree/.git" ]; then
  git -C "$tree" checkout -q --force --detach "$(git rev-parse HEAD)" || exit
else
  git worktree prune
  git worktree add -q --detach "$tree" HEAD || exit
fi
[ -e "$tree/.deps" ] || ln -s "$root/.deps" "$tree/.deps" || exit
[ -f "$build/build.ninja" ] ||
  (cd "$tree" && cmake --preset release >/dev/null) || exit

failed=()
make_target() { cmake --build "$build" --target "$1" >"$log" 2>&1; }
run_tests() {  # TARGET FILTER
  local program
  program="$(find "$build" -name "$1" -type f -perm -u+x)"
  timeout 300 "$program" --gtest_filter="$2" --gtest_brief=1 >>"$log" 2>&1
}
fail() {
  printf 'FAILED: %s: %s (%s)\n' "$name" "$1" "${log#"$root"/}" >&2
  failed+=("$name")
}

check() {  # the mutant $name: one line of result
  local patch="$root/tests/mutants/$name.patch" word target filter
  read -r word target filter < <(grep -m1 '^Red: ' "$patch")
  [ "$word" = Red: ] && [ -n "$filter" ] || { fail "no line 'Red: TARGET FILTER'"; return; }
  if [ -z "${sound[$target $filter]:-}" ]; then
    make_target "$target" || { fail "$target does not build without it"; return; }
    run_tests "$target" "$filter" || { fail "$target $filter fails without it"; return; }
    grep -q '^\[==========\] [1-9][0-9]* tests\? from .* ran' "$log" ||
      { fail "$target has no test $filter"; return; }
    sound[$target $filter]=1
  fi
  git -C "$tree" apply "$patch" || { fail "the patch does not apply"; return; }
  if ! make_target "$target"; then
    fail "$target does not build with it"
  else
    run_tests "$target" "$filter"
    case $? in
      0) fail "$target $filter stays green" ;;
      124) fail "$target $filter does not end" ;;
      *) printf '%s: red in %s %s\n' "$name" "$target" "$filter" ;;
    esac
  fi
  git -C "$tree" checkout -q --force HEAD
}

declare -A sound
names=("$@")
[ ${#names[@]} -gt 0 ] ||
  for patch in tests/mutants/*.patch; do names+=("$(basename "$patch" .patch)"); done
for name in "${names[@]}"; do
  log="$root/build/mutants/$name.log"
  check
done

printf '%d mutants, %d not as they should be\n' "${#names[@]}" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
