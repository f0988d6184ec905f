#!/usr/bin/env bash
# The inner loop: builds and runs the tests of some files, in a folder that was built before.
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/quick.sh [--preset NAME] [--list] FILE...
Builds and runs the test suites of FILEs, sources or tests; for an operator also its line of the contract table.
  --preset NAME  where to build: dev, asan or tsan. Default: dev (`cmake --preset dev && cmake --build --preset dev` makes it)
  --list         print the programs and the filters of their tests, and build nothing
The tests of ops/flow/skip.cc are those of tests/ops/flow/skip_test.cc or, where there is no file of that name, of all files in
tests/ that include ops/flow/skip.h. One test alone: build/dev/tests/ops_tests --gtest_filter='SkipTest.*'.
TEXT
}

preset=dev
list=0
files=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --preset)
      [ $# -ge 2 ] || { echo "tests/quick.sh: --preset needs a value" >&2; exit 2; }
      preset=$2
      shift 2
      ;;
    --list) list=1; shift ;;
    -*) echo "tests/quick.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    *) files+=("$1"); shift ;;
  esac
done
[ ${#files[@]} -gt 0 ] || { usage >&2; exit 2; }
[ -f "build/$preset/build.ninja" ] || [ "$list" = 1 ] || {
  echo "tests/quick.sh: build/$preset is not built; cmake --preset $preset && cmake --build --preset $preset" >&2
  exit 2
}

declare -A filters
add() {  # PROGRAM FILTER
  [[ ":${filters[$1]:-}:" == *":$2:"* ]] || filters[$1]+="${filters[$1]:+:}$2"
}

# The program of a test file: that of the longest folder which has one.
program_of() {
  case $1 in
    tests/examples/*/*) echo "examples_$(cut -d/ -f3 <<<"$1")_tests" ;;
    tests/formats/storage/remote/*) echo formats_storage_remote_tests ;;
    tests/trainer/step/*) echo trainer_step_tests ;;
    tests/support/*) echo support_tests ;;
    *) echo "$(cut -d/ -f2 <<<"$1")_tests" ;;
  esac
}

# The suites of a test file, as a filter of GoogleTest; those with parameters have a prefix, or none.
add_test_file() {
  local program suite
  program=$(program_of "$1")
  for suite in $(sed -nE 's/^(TYPED_)?TEST(_F|_P)?\((\w+),.*/\3/p' "$1" | sort -u); do
    add "$program" "$suite.*"
    add "$program" "*/$suite.*"
    add "$program" "$suite/*"
  done
}

for file in "${files[@]}"; do
  path=$(realpath --relative-base="$PWD" "$([ -e "$called_from/$file" ] && echo "$called_from/$file" || echo "$file")")
  [ -f "$path" ] || { echo "tests/quick.sh: there is no file '$file' here" >&2; exit 2; }
  case $path in
    tests/*_test.cc) add_test_file "$path"; continue ;;
    /*) echo "tests/quick.sh: '$file' is no file of this repository" >&2; exit 2 ;;
  esac
  stem=${path%.*}
  header=$stem.h
  case $path in formats/* | ops/* | pipeline/* | trainer/* | tokenizer/* | command_line/*) header=millrace/$header ;; esac
  tests=()
  if [ -f "tests/${stem}_test.cc" ]; then
    tests=("tests/${stem}_test.cc")
  else
    mapfile -t tests < <(git grep -l --untracked -F "#include \"$header\"" -- 'tests/*_test.cc')
    # Machinery that no test names: the tests of its neighbours.
    [ ${#tests[@]} -gt 0 ] || mapfile -t tests < <(git ls-files --cached --others --exclude-standard "tests/${stem%/*}/*_test.cc")
  fi
  for test in "${tests[@]}"; do add_test_file "$test"; done
  # Lines of the contract table, whose names begin as the operators of the file are called.
  if [[ $path == ops/* ]] && [ -f "$stem.h" ]; then
    for name in $(sed -nE 's/.*(name\(\) const override \{ return|kName =|describe<[A-Za-z]+>\() ?"([a-z_]+)".*/\2/p' "$stem.h" | sort -u); do
      [ "$name" != parse_csv ] || name=csv_records  # whose line parses what it reads
      if grep -q "Line{\"$name" tests/contract/operator_table.cc; then add contract_tests "*/${name}_*"; fi
    done
    # What is tested of all operators at once; ThreadSanitizer leaves some of it out.
    add contract_tests 'Traits.*'
    if [ "$preset" != tsan ]; then
      add pipeline_tests 'Options.*'
      add pipeline_tests 'DefinitionProto.*'
    fi
  fi
  if [ ${#tests[@]} -eq 0 ] && [[ $path != ops/* ]]; then
    echo "tests/quick.sh: no test includes $header, and there are none in tests/${stem%/*}/" >&2
    exit 1
  fi
done

[ ${#filters[@]} -gt 0 ] || { echo "tests/quick.sh: no suite of GoogleTest in ${files[*]}" >&2; exit 1; }
if [ "$list" = 1 ]; then
  for program in "${!filters[@]}"; do printf '%s --gtest_filter=%s\n' "$program" "${filters[$program]}"; done
  exit 0
fi
cmake --build --preset "$preset" --parallel "$(nproc)" --target "${!filters[@]}"
failed=0
ran=0
without=""
if [ "$preset" = tsan ]; then  # as the preset of ctest has it (docs/decisions/thread_sanitizer.md)
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1:suppressions=$PWD/tests/tsan.supp"
  without=":-*AReplicaThatWaitsForItsOwnWork*"
fi
for program in "${!filters[@]}"; do
  where=build/$preset/tests/$program
  [ -x "$where" ] || where=build/$preset/tests/fuzz/$program
  if ! "$where" --gtest_list_tests --gtest_filter="${filters[$program]}$without" | grep -q '^  '; then
    echo "tests/quick.sh: $program has none of these tests in $preset: ${filters[$program]}" >&2
    [ "$preset" = tsan ] || failed=1  # which has not all of them
    continue
  fi
  ran=1
  "$where" --gtest_brief=1 --gtest_filter="${filters[$program]}$without" || failed=1
done
[ "$ran" = 1 ] || failed=1
exit $failed
