# Everything that is pinned outside Cargo.lock and tests/requirements.txt.
MLX_VERSION=0.32.4
SMOLLM2_VERSION=0.1.2
RUST_VERSION_MIN=1.87
DEBIAN_PACKAGES=(
  g++ cmake ninja-build ccache python3 python3-pip python3-venv
  libboost1.81-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev
  prometheus-cpp-dev libcurl4-openssl-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev
)
LINT_PACKAGES=(clang-format-16 clang-tidy-16)
FUZZ_PACKAGES=(clang-16 libclang-rt-16-dev)
