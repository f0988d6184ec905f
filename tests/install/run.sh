#!/usr/bin/env bash
# Installs a build into an empty folder; builds a user's program, which has folders and files named like ours, the programs
# of five pages of docs/, and one for each component and several, against the copy with find_package, and runs them; with
# --headers compiles each installed header alone.
# usage: tests/install/run.sh [--headers] BUILD_FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
headers=0
[ "${1:-}" != --headers ] || { headers=1; shift; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/prefix" >/dev/null
cp -r tests/install/user_program "$work/source"
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
build_in() {  # SOURCE BUILD [OPTION...]
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" "${launcher[@]}" \
    "${@:3}" >/dev/null
  cmake --build "$2"
}
build_in "$work/source" "$work/build"
# The blocks of C++ of a page, one after the other, built with its CMakeLists.txt.
block_of() { sed -n '/^```'"$2"'$/,/^```$/p' "docs/$1.md" | grep -v '^```'; }
for page in write_a_data_set own_model own_loop classify_texts training_programs; do
  mkdir "$work/$page"
  block_of "$page" cpp >"$work/$page/$page.cc"
  block_of "$page" cmake >"$work/$page/CMakeLists.txt"
  build_in "$work/$page" "$work/$page/build" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Werror"
done
result=$("$work/build/user_program")
[ "$result" = 499500 ] || { echo "user program printed '$result', expected 499500" >&2; exit 1; }
echo "a user's program builds against the installed copy and prints $result"

shards=$("$work/write_a_data_set/build/write_a_data_set" "$work/shards")
[ "$shards" = "600 of 600 records in 3 shards" ] || { echo "write_a_data_set printed '$shards'" >&2; exit 1; }
# In two parts and in one: the same weights.
for run in "cut 20" "cut 60" "whole 60"; do
  read -r out steps <<<"$run"
  said=$("$work/own_model/build/own_model" "$work/shards" "$work/$out" "$steps" 2>"$work/$out.log") ||
    { cat "$work/$out.log" >&2; exit 1; }
  grep -q "^after $steps steps: spearman " <<<"$said" && grep -q "^predicted 50 rows with the model of step " <<<"$said" ||
    { echo "own_model printed '$said'" >&2; exit 1; }
done
weights=checkpoints/checkpoint-00000060/model.safetensors
cmp "$work/cut/$weights" "$work/whole/$weights" || { echo "own_model went on with other weights" >&2; exit 1; }
# Stopped at any moment, also before its first evaluation, it ends with the signal's code and leaves what goes on: a
# checkpoint of its last step, which is seldom one of the 20th, 40th, ... that it writes anyway.
newest_in() { ls "$1" 2>/dev/null | sed -n 's/^checkpoint-0*//p' | sort -n | tail -n 1; }
newest=0
by_signal=0
for delay in 0.02 0.05 0.1 0.3 1 2 4 8 16; do
  [ "$by_signal" = 0 ] || [ "${delay%.*}" -lt 2 ] || break
  code=0
  timeout --preserve-status --signal=TERM "$delay" "$work/own_model/build/own_model" "$work/shards" "$work/stopped" 1000000 \
    >/dev/null 2>"$work/stopped.log" || code=$?
  [ "$code" = 143 ] || { cat "$work/stopped.log" >&2; echo "own_model ended with $code after SIGTERM" >&2; exit 1; }
  newest=$(newest_in "$work/stopped/checkpoints" || true)
  newest=${newest:-0}
  [ "$((newest % 20))" = 0 ] || by_signal=1
done
[ "$by_signal" = 1 ] || { echo "own_model leaves no checkpoint when it is stopped" >&2; exit 1; }
steps=$((newest / 20 * 20 + 40))
for run in stopped straight; do
  "$work/own_model/build/own_model" "$work/shards" "$work/$run" $steps >/dev/null 2>"$work/$run.log" ||
    { cat "$work/$run.log" >&2; exit 1; }
done
[[ $(grep '"event":"start"' "$work/stopped/log.jsonl" | tail -n 1) == *"\"step\":$newest,"* ]] ||
  { echo "own_model did not go on from step $newest" >&2; exit 1; }
weights=checkpoints/$(printf 'checkpoint-%08d' $steps)/model.safetensors
cmp "$work/stopped/$weights" "$work/straight/$weights" ||
  { echo "own_model was stopped and went on with other weights" >&2; exit 1; }
echo "the programs of docs/write_a_data_set.md and docs/own_model.md train, go on and predict: $(tail -n 2 <<<"$said" | tr '\n' ';')"
# The program of docs/own_loop.md: so many steps, and the same weights where it was killed between two of them.
own_loop() { exec "$work/own_loop/build/own_loop" "$work/shards" "$work/loop-$1" "$2" 2>"$work/loop-$1.log"; }
own_loop killed 100000000 >/dev/null &
loop=$!  # the program itself
while kill -0 $loop 2>/dev/null && [ ! -e "$work/loop-killed/checkpoints/checkpoint-00000040" ]; do sleep 0.01; done
sleep 0.0"$((RANDOM % 10))"
kill -9 $loop 2>/dev/null || { cat "$work/loop-killed.log" >&2; exit 1; }
wait $loop 2>/dev/null || true
newest=$(ls "$work/loop-killed/checkpoints" | grep '^checkpoint-' | sort | tail -n 1)
steps=$((10#${newest#checkpoint-} + 257))
for run in killed straight; do
  said=$(own_loop $run $steps) || { cat "$work/loop-$run.log" >&2; exit 1; }
  [[ $said =~ ^"after $steps steps: accuracy "(1|0\.[4-9][0-9]*)" of 100 rows"$ ]] ||
    { echo "own_loop printed '$said'" >&2; exit 1; }
done
weights=checkpoints/$(printf 'checkpoint-%08d' $steps)/model.safetensors
cmp "$work/loop-killed/$weights" "$work/loop-straight/$weights" || { echo "own_loop went on with other weights" >&2; exit 1; }
echo "the program of docs/own_loop.md goes on after kill -9 to the weights of a straight run: $said"
# The program of docs/training_programs.md: what it says, a run, and one that goes on in the middle of that, elsewhere.
train_rater() {  # OUT [OPTION...]
  "$work/training_programs/build/train_rater" --shards "$work/shards" --out "$work/$1" --threads 2 --steps 40 "${@:2}"
}
[[ $(train_rater rater --help) == *"--keep-best-by"* ]] || { echo "train_rater --help is not whole" >&2; exit 1; }
[[ $(train_rater rater --check) == *"labels float32 [32,3]"* ]] || { echo "train_rater --check: no labels" >&2; exit 1; }
train_rater rater --json >"$work/rater.json" 2>"$work/rater.log" || { cat "$work/rater.log" >&2; exit 1; }
train_rater again --resume "$work/rater/checkpoints/checkpoint-00000020" >/dev/null 2>"$work/rater.log" ||
  { cat "$work/rater.log" >&2; exit 1; }
cmp "$work/rater/model/model.safetensors" "$work/again/model/model.safetensors" ||
  { echo "train_rater went on with other weights" >&2; exit 1; }
for name in model/model.safetensors model/config.json checkpoints/checkpoint-00000040/training.json; do
  [ -f "$work/rater/$name" ] || { echo "train_rater left no $name" >&2; exit 1; }
done
grep -q '"evaluation_spearman":' "$work/rater.json" || { echo "train_rater: no spearman" >&2; exit 1; }
echo "the program of docs/training_programs.md, of $(wc -l <"$work/training_programs/training_programs.cc") lines, trains and goes on"
said=$("$work/classify_texts/build/classify_texts" "$work/texts") || { echo "classify_texts failed" >&2; exit 1; }
share=$(sed -n 's/^accuracy 0*\.\([0-9]\).*/\1/p' <<<"$said")
[ "${share:-0}" -ge 8 ] && grep -q " of 300 rows are right$" <<<"$said" || { echo "classify_texts printed '$said'" >&2; exit 1; }
echo "the program of docs/classify_texts.md learns and predicts: $(tr '\n' ';' <<<"$said")"
for program in dataset_index dataset_verify; do
  "$work/prefix/bin/$program" "$work/shards/train-*.tfrecord" >"$work/$program.log" 2>&1 ||
    { cat "$work/$program.log" >&2; exit 1; }
done
echo "the installed dataset_index and dataset_verify take its shards"

# Every component alone, two and all of them, found by their names; and every public struct with designated initialisers.
python3 tests/install/designated_initialisers.py "$work/prefix/include" >"$work/designated_initialisers.cc"
cp -rs "$work/prefix" "$work/lacking"
sed -i 's|/[^;"]*/libicuuc[^;"]*|/nowhere/libicuuc.so|' "$work/lacking/lib/cmake/Millrace/MillraceTargets.cmake"
cmake -S tests/install/components -B "$work/components" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DLACKING="$work/lacking" -DDESIGNATED_INITIALISERS="$work/designated_initialisers.cc" "${launcher[@]}" >/dev/null
cmake --build "$work/components" >"$work/components.log" || { cat "$work/components.log" >&2; exit 1; }
all_cores=$(taskset -cp $$)
all_cores=${all_cores##*: }
num_programs=0
for program in "$work"/components/programs/*; do
  # On one core too: no library below says anything.
  for cores in "$all_cores" "${all_cores%%[,-]*}"; do
    said=$(taskset -c "$cores" "$program" 2>&1) && [ -z "$said" ] || { echo "$(basename "$program"): '$said'" >&2; exit 1; }
  done
  num_programs=$((num_programs + 1))
done
echo "$num_programs programs with one component, two or all of them build and run"
[ "$headers" = 1 ] || exit 0

compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$1/CMakeCache.txt")
(cd "$work/prefix/include" && find millrace -name '*.h' | sort) >"$work/headers"
ccache=$(command -v ccache || true)
mkdir "$work/alone"
compile_alone() {  # HEADER: a source that includes it and nothing else
  local source=$work/alone/${1//\//_}.cc
  printf '#include "%s"\n' "$1" >"$source"
  $ccache "$compiler" -std=c++20 -O0 -Wall -Wextra -Wpedantic -Werror -I"$work/prefix/include" \
    -c "$source" -o "$source.o" || { echo "$1 does not compile alone" >&2; return 1; }
}
export -f compile_alone
export work compiler ccache
xargs -P "$(nproc)" -I{} bash -c 'compile_alone {}' <"$work/headers"
echo "each of $(wc -l <"$work/headers") installed headers compiles alone"
