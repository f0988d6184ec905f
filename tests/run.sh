#!/usr/bin/env bash
# All tests of Millrace, from nothing: installs what is missing, builds, runs the suites plainly and under the sanitizers,
# and the checks of the sources. Prints the time of each part and fails when any part failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/run.sh [--only PART]... [--soak] [--jobs N]
  --only PART   run this part only; may be repeated
  --soak        in the part test, make the random tests long and draw them anew (about half an hour): 10,000 graphs of
                operators instead of 500, 10,000 pipelines opened and dropped instead of 1,000, 100 kills of a process
                instead of 10, 2,000 damaged bits in each shard instead of 100. A failure prints what repeats it:
                MILLRACE_SEED=N for the run, MILLRACE_GRAPH_SEED=N for one graph. And the part soak: the default
                training for 45 minutes, which must not grow by 1 MiB a minute, whose loss must fall by more than
                chance, and which must not stall
  --jobs N      compilers at a time. Default: one for each core, at most one for 4 GiB of memory
parts, in order:
  format    clang-format over all sources
  build     Release build of everything, warnings as errors
  test      the test suites
  install   a user's program against the installed copy
  asan      core suites under AddressSanitizer and UndefinedBehaviorSanitizer
  tsan      core suites under ThreadSanitizer
  tidy      clang-tidy over all sources but the tests
  soak      a long training that is watched (needs build); only with --soak or --only soak
TEXT
}

all_parts=(format build test install asan tsan tidy)
parts=()
jobs=""
soak=0
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --soak) soak=1; shift ;;
    --only | --jobs)
      [ $# -ge 2 ] || { echo "tests/run.sh: $1 needs a value" >&2; exit 2; }
      if [ "$1" = --jobs ]; then
        jobs=$2
      elif [[ " ${all_parts[*]} soak " == *" $2 "* ]]; then
        parts+=("$2")
      else
        echo "tests/run.sh: no part '$2'; there are: ${all_parts[*]} soak" >&2
        exit 2
      fi
      shift 2
      ;;
    *) echo "tests/run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ ${#parts[@]} -eq 0 ]; then
  parts=("${all_parts[@]}")
  [ "$soak" = 0 ] || parts+=(soak)
fi
if [ -z "$jobs" ]; then
  jobs=$(nproc)
  by_memory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 4194304))
  [ "$by_memory" -ge 1 ] || by_memory=1
  [ "$jobs" -le "$by_memory" ] || jobs=$by_memory
fi

./setup.sh --tests || { echo "tests/run.sh: set-up failed" >&2; exit 1; }

sources() { git ls-files -- '*.h' '*.cc'; }

run_format() { sources | xargs clang-format --dry-run --Werror; }

run_build() { cmake --preset dev >/dev/null && cmake --build --preset dev --parallel "$jobs"; }

# Runs the tests of a preset, and keeps what they print. Twice as many at a time as there are cores: tests wait for injected delays
# and for processes, and with as many as cores a third of two was idle.
run_ctest() { ctest --preset "$1" --parallel $((2 * jobs)) --output-on-failure 2>&1 | tee "build/$1/ctest.log"; }

run_test() { MILLRACE_SOAK=$soak run_ctest dev; }

run_install() { tests/install/run.sh build/dev; }

# Builds and runs the suites of the folders that hold the engine.
run_sanitized() {
  # --fresh: whatever an older cache says of the compiler
  cmake --fresh --preset "$1" >/dev/null && cmake --build --preset "$1" --parallel "$jobs" && run_ctest "$1"
}
run_asan() { run_sanitized asan; }
run_tsan() { run_sanitized tsan; }

# Several sources at a time, without the precompiled headers, which are GCC's (docs/decisions/batches.md).
run_tidy() {
  cmake --fresh --preset tidy >/dev/null || return 1
  # The generated headers, without the libraries that ninja would build before them.
  local header
  for header in $(ninja -C build/tidy -t targets all | sed -n 's/^\(generated.*\.pb\.h\): .*/\1/p'); do
    bash -c "$(ninja -C build/tidy -t commands -s "$header" | grep -v '^ninja: ')" || return 1
  done
  # No source may be left out, by a target that nobody made or that lacks a library here.
  local missing
  missing=$(comm -13 <({ cat build/tidy/compile_commands.json; find build/tidy -name 'unity_*.cxx' -exec cat {} +; } |
    sed -n 's/^ *"file": "\(.*\)".*/\1/p; s/^#include "\(.*\.cc\)".*/\1/p' | sort -u) \
    <(git ls-files -- '*.cc' | grep -v '^tests/' | sed "s|^|$PWD/|" | sort -u))
  [ -z "$missing" ] || { printf 'not in a target, so not looked at:\n%s\n' "$missing" >&2; return 1; }
  # Its stderr only counts suppressed warnings, unless it fails.
  local log=build/tidy/clang_tidy_stderr.txt
  sed -n 's/^ *"file": "\(.*\)".*/\1/p' build/tidy/compile_commands.json | grep -v '/generated/' |
    xargs -P "$jobs" -n 1 clang-tidy -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option 2>"$log" && return
  grep -v "warnings generated" "$log" >&2
  return 1
}

# SOAK_MINUTES is for a look at the part itself.
run_soak() {
  build/dev/tests/training_soak --train-mlm build/dev/examples/mlm/train_mlm \
    --prepare build/dev/examples/mlm/prepare_tfrecord_shards --minutes "${SOAK_MINUTES:-45}"
}

# The tests of a preset that failed, with the first lines of what each printed: again at the end, where they are found.
print_failed_tests() {
  [ -f "build/$1/ctest.log" ] || return 0
  awk '/^ *([0-9]+\/[0-9]+ )?Test +#[0-9]+: / { shown = /\*\*\*/ && !/Skipped/ ? 60 : 0 }
       /^ *Start +[0-9]+: / || /^[0-9]+% tests passed/ { shown = 0 }
       shown > 0 { print substr($0, 1, 400); --shown }' "build/$1/ctest.log"
}

rm -f build/*/ctest.log
failed=()
table=""
for part in "${parts[@]}"; do
  echo "=== $part"
  begin=$SECONDS
  if "run_$part"; then result=passed; else
    result=FAILED
    failed+=("$part")
  fi
  table+=$(printf '%-10s %6d s  %s' "$part" $((SECONDS - begin)) "$result")$'\n'
done
echo
printf '%s' "$table"
printf '%-10s %6d s\n' total "$SECONDS"
if [ ${#failed[@]} -gt 0 ]; then
  for part in "${failed[@]}"; do
    case $part in
      test) print_failed_tests dev ;;
      asan | tsan) print_failed_tests "$part" ;;
    esac
  done
  echo "tests/run.sh: failed: ${failed[*]}" >&2
  exit 1
fi
echo "tests/run.sh: all parts passed"
