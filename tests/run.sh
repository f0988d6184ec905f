#!/usr/bin/env bash
# The check of Millrace, from nothing: installs what is missing, builds, runs the suites plainly and some under the
# sanitizers, and the checks of the sources. Prints the time of each part and fails when any part failed. What each part
# finds and how long it takes: docs/testing.md.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/run.sh [--all] [--only PART]... [--soak] [--jobs N]
  --all         what the parts leave out otherwise (below), clang-tidy over all sources, and a build without precompiled
                headers and batches: before an issue is called resolved. With --only, the whole of that part
  --only PART   run this part only; may be repeated
  --soak        in the part test, make the random tests long and draw them anew (about half an hour): 10,000 graphs of
                operators instead of 500, 10,000 pipelines opened and dropped instead of 1,000, 100 kills of a process
                instead of 10, 2,000 damaged bits in each shard instead of 100. A failure prints what repeats it:
                MILLRACE_SEED=N for the run, MILLRACE_GRAPH_SEED=N for one graph. And the part soak: the default
                training for 45 minutes, which must not grow by 1 MiB a minute, whose loss must fall by more than
                chance, and which must not stall
  --jobs N      compilers at a time. Default: one for each core, at most one for 4 GiB of memory
parts, in order:
  format    clang-format over all sources, which folder includes which, lines and links of the documents
  build     Release build of everything, warnings as errors
  test      the test suites; with --all more ends of memory, failing servers and kills
  install   a user's program against the installed copy, the reference without a warning; with --all each installed
            header alone
  asan      AddressSanitizer and UndefinedBehaviorSanitizer: formats, ops, fuzz corpora, contract; with --all all suites
            but those of examples, benchmarks and whole programs and that of memory's end
  tsan      ThreadSanitizer: pipeline, contract, object stores, the trainer's step; with --all of the suites that asan has
            then all that has threads, but the tools. Which these are, and what they do less of: docs/testing.md
  tidy      clang-tidy over the sources that the last ten commits changed and it has not found clean before; with --all
            over all sources but the tests
  plain     everything compiled without precompiled headers and batches, so that includes stay honest; only with --all
            or --only plain
  fuzz      the decoders of pictures under libFuzzer, for 10 minutes each, an hour with --soak; only with --all, --soak or
            --only fuzz
  soak      a long training that is watched (needs build); only with --soak or --only soak
TEXT
}

all_parts=(format build test install asan tsan tidy plain fuzz soak)
parts=()
all=0
jobs=""
soak=0
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --all) all=1; shift ;;
    --soak) soak=1; shift ;;
    --only | --jobs)
      [ $# -ge 2 ] || { echo "tests/run.sh: $1 needs a value" >&2; exit 2; }
      if [ "$1" = --jobs ]; then
        jobs=$2
      elif [[ " ${all_parts[*]} " == *" $2 "* ]]; then
        parts+=("$2")
      else
        echo "tests/run.sh: no part '$2'; there are: ${all_parts[*]}" >&2
        exit 2
      fi
      shift 2
      ;;
    *) echo "tests/run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ ${#parts[@]} -eq 0 ]; then
  parts=(format build test install asan tsan tidy)
  [ "$all" = 0 ] || parts+=(plain)
  [ "$all$soak" = 00 ] || parts+=(fuzz)
  [ "$soak" = 0 ] || parts+=(soak)
fi
if [ -z "$jobs" ]; then
  jobs=$(nproc)
  by_memory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 4194304))
  [ "$by_memory" -ge 1 ] || by_memory=1
  [ "$jobs" -le "$by_memory" ] || jobs=$by_memory
fi

# Files of others, which some tests read besides, where a folder beside this one has them.
[ -n "${MILLRACE_SHARED+x}" ] || [ ! -d ../shared/fixtures ] || export MILLRACE_SHARED=$PWD/../shared

./setup.sh --tests || { echo "tests/run.sh: set-up failed" >&2; exit 1; }

# Also those that are not tracked yet.
sources() { git ls-files --cached --others --exclude-standard -- '*.h' '*.cc'; }

run_format() {
  local result=0
  sources | xargs clang-format --dry-run --Werror || result=1
  tests/check_layers.py || result=1
  tests/check_docs.py || result=1
  return $result
}

run_build() { cmake --preset dev >/dev/null && cmake --build --preset dev --parallel "$jobs"; }

# run_ctest PRESET [arguments...]: runs the tests of a preset, and keeps what they print. Twice as many at a time as there are
# cores: tests wait for injected delays and for processes, and with as many as cores a third of two was idle.
run_ctest() {
  local preset=$1
  shift
  ctest --preset "$preset" --parallel $((2 * jobs)) --output-on-failure "$@" 2>&1 | tee "build/$preset/ctest.log"
  local result=$?
  # Why, which ctest does not say.
  sed -n 's/^SKIPPED: /not run: /p' "build/$preset/Testing/Temporary/LastTest.log"
  return $result
}

# With --all each allocation of the workloads fails once, and servers fail by 1,000 scripts, which --soak has anyway; and
# programs of pictures are killed ten times each in place of once.
run_test() {
  MILLRACE_SOAK=$soak run_ctest dev || return
  [ "$all$soak" != 10 ] || MILLRACE_SOAK=1 run_ctest dev --tests-regex '^(memory/|contract/Part/ServedGraphs[.])' || return
  [ "$all$soak" != 10 ] || MILLRACE_KILLS=10 run_ctest dev --tests-regex '^examples/(super_resolution|frozen_features)/.*Kill'
}

run_install() {
  local headers=()
  [ "$all" = 0 ] || headers=(--headers)
  tests/install/run.sh "${headers[@]}" build/dev && cmake --build build/dev --target reference
}

# run_sanitized PRESET REGEX targets...: builds these and runs the tests whose names match; with --all all of the preset.
run_sanitized() {
  local preset=$1 tests=(--tests-regex "$2")
  shift 2
  local targets=(--target "$@")
  [ "$all" = 0 ] || { tests=(); targets=(); }
  # --fresh: whatever an older cache says of the compiler
  cmake --fresh --preset "$preset" >/dev/null && cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}" &&
    run_ctest "$preset" "${tests[@]}"
}
run_asan() {
  run_sanitized asan '^(formats|ops|fuzz|contract)/' formats_tests formats_storage_remote_tests ops_tests \
    saving_elements fuzz_tests contract_tests
}
run_tsan() {
  run_sanitized tsan '^(pipeline|contract|tsan|formats/storage/remote|trainer/step)/' pipeline_tests contract_tests \
    formats_storage_remote_tests trainer_step_tests planted_race planted_training_race
}

run_tidy() {
  local which=()
  [ "$all" = 0 ] || which=(--all)
  tests/tidy.sh "${which[@]}" --jobs "$jobs"
}

run_plain() { cmake --fresh --preset plain >/dev/null && cmake --build --preset plain --parallel "$jobs"; }

# Both kinds at once; FUZZ_SECONDS is for a look at the part itself. What breaks a decoder is left in build/fuzz.
run_fuzz() {
  local seconds=${FUZZ_SECONDS:-600} kind kinds=() result=0
  [ "$soak" = 0 ] || seconds=${FUZZ_SECONDS:-3600}
  cmake --preset fuzz >/dev/null && cmake --build --preset fuzz --parallel "$jobs" --target fuzz_image || return
  for kind in jpg png; do
    mkdir -p "build/fuzz/found-$kind" "build/fuzz/seeds-$kind"
    cp tests/fuzz/corpus/image/*."$kind" "build/fuzz/seeds-$kind/"
    build/fuzz/tests/fuzz/fuzz_image -max_total_time="$seconds" -timeout=20 -artifact_prefix="build/fuzz/breaks-$kind-" \
      "build/fuzz/found-$kind" "build/fuzz/seeds-$kind" >"build/fuzz/$kind.log" 2>&1 &
    kinds+=("$kind:$!")
  done
  for kind in "${kinds[@]}"; do
    wait "${kind#*:}" || { tail -40 "build/fuzz/${kind%:*}.log"; result=1; }
    grep -E '^Done ' "build/fuzz/${kind%:*}.log" || result=1
  done
  return $result
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
