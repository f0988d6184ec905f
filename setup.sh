#!/usr/bin/env bash
# Installs what Millrace needs and this machine lacks, from Debian's packages (Debian 12). Called by tests/run.sh and
# examples/*/run.sh; safe to call again: with nothing missing it only looks. Why each library: docs/dependencies.md.
# usage: ./setup.sh [--tests | --dictionary | --photographs | --pictures]
#   --tests        also what only the tests, the fuzzers and the checks need
#   --dictionary   also dict-gcide, a dictionary of English prose: the corpus of examples/mlm without package lists
#   --photographs  also mate-backgrounds, whose photographs of nature examples/super_resolution learns from
#   --pictures     also openclipart-png, pictures in folders by what they show: those of examples/frozen_features
set -euo pipefail

packages=(
  g++ cmake make ninja-build                # the build
  libtbb-dev libfmt-dev libboost-program-options-dev
  libprotobuf-dev protobuf-compiler         # states of pipelines; tensorflow.Example in tests
  zlib1g-dev libisal-dev                    # compressed shards, CRC32C
  libcurl4-openssl-dev libssl-dev libpugixml-dev # shards in object stores and at URLs: HTTP, signatures, listings
  libzstd-dev                               # zstd shards: read about twice as fast as gzip, from any frame on
  libjpeg-dev libpng-dev                    # pictures
  librandom123-dev libxxhash-dev libhwy-dev # Philox, digests of streams, portable SIMD
  libeigen3-dev libdnnl-dev                 # tensors and GEMM of the trainer
  libre2-dev                                # patterns of parameters' names
  nlohmann-json3-dev                        # safetensors headers, config and tokenizer files, JSON output
  libicu-dev libonig-dev                    # tokenizers: Unicode, regular expressions
  libsentencepiece-dev                      # training subword tokenizers
  libgumbo-dev                              # texts that are HTML, of examples/text_to_text
)
if [ "${1:-}" = --dictionary ]; then
  packages+=(dict-gcide)
elif [ "${1:-}" = --photographs ]; then
  packages+=(mate-backgrounds)
elif [ "${1:-}" = --pictures ]; then
  packages+=(openclipart-png)
elif [ "${1:-}" = --help ]; then
  sed -n 's/^# \?//; 2,8p' "$0"
  exit 0
elif [ "${1:-}" = --tests ]; then
  packages+=(libgtest-dev libgmock-dev libbenchmark-dev clang-format clang-tidy git python3)
  packages+=(ccache)                        # what another clone or branch compiled is not compiled again
  packages+=(doxygen)                       # the reference of the public headers, without a warning
  packages+=(dict-gcide)                    # a corpus of examples/mlm
  packages+=(locales)                       # localedef and its sources: programs in other languages
  packages+=(librapidcheck-dev)             # random graphs of operators, shrunk to the smallest that fails
  packages+=(clang libclang-rt-14-dev lld llvm)  # AddressSanitizer, libFuzzer; llvm names the functions in their reports
elif [ -n "${1:-}" ]; then
  echo "setup.sh: unknown option '$1'; usage: ./setup.sh [--tests | --dictionary | --photographs | --pictures]" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup.sh: needs root (or sudo) to install: ${missing[*]}" >&2; exit 1; }
  sudo="sudo DEBIAN_FRONTEND=noninteractive"
fi
echo "setup.sh: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends "${missing[@]}"; } </dev/null >"$log" 2>&1; then
  tail -n 5 "$log" >&2
  echo "setup.sh: apt-get failed; all that it printed is in $log" >&2
  exit 1
fi
rm "$log"
