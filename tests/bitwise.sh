#!/usr/bin/env bash
# Compares what two builds give, bit for bit, on one machine.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

usage() {
  cat <<'TEXT'
usage: tests/bitwise.sh OTHER_BUILD [--build FOLDER]
Compares two builds (folders of CMake, presets dev or release, tests not needed in the other one):
- the stream hash of every workload of dataset_bench, on 1 and 3 threads and without the rewrites of the plan;
- the elements that dataset_bench --save writes, of each workload that it can save;
- the shards of examples/mlm, and the weights of a training of 50 steps on them, byte for byte. Weights depend on the
  machine's instructions, streams and shards do not: the test suites hold those to written hashes.
  --build FOLDER  the build to compare. Default: build/dev
Prints a line for each comparison; exits with 1 when one differs. Half a minute.
TEXT
}

build=$repository/build/dev
other=""
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --build)
      [ $# -ge 2 ] || { echo "tests/bitwise.sh: --build needs a value" >&2; exit 2; }
      build=$2
      shift 2
      ;;
    -*) echo "tests/bitwise.sh: unknown argument '$1'" >&2; exit 2 ;;
    *)
      [ -z "$other" ] || { usage >&2; exit 2; }
      other=$1
      shift
      ;;
  esac
done
[ -n "$other" ] || { usage >&2; exit 2; }
declare -A builds=([ours]=$(realpath "$build") [theirs]=$(realpath "$other"))
for folder in "${builds[@]}"; do
  for program in benchmarks/dataset_bench examples/mlm/prepare_tfrecord_shards examples/mlm/train_mlm; do
    [ -x "$folder/$program" ] || { echo "tests/bitwise.sh: $folder/$program is not there" >&2; exit 2; }
  done
done
writer=${builds[ours]}/tests/write_workload_shards
[ -x "$writer" ] || { echo "tests/bitwise.sh: $writer is not there: build the tests" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$writer" "$work/data"
"${builds[ours]}/tools/dataset_index" "$work"/data/tokens/*.tfrecord >/dev/null

different=0
same() {  # WHAT COMMAND...: prints whether the command succeeded
  local what=$1
  shift
  if "$@" >"$work/difference" 2>&1; then echo "same       $what"; else
    echo "DIFFERENT  $what"
    head -5 "$work/difference" | sed 's/^/           /'
    different=1
  fi
}

# hash_of SIDE ARGUMENTS...: or what it printed instead. `without_rewrites` among the first: of those that this build names.
hash_of() {
  local folder=${builds[$1]}
  shift
  if [ "$1" = without_rewrites ]; then
    shift
    set -- "$@" --threads 2 $(rewrites_of "$folder")
  fi
  "$folder/benchmarks/dataset_bench" "$@" --json 2>"$work/stderr" |
    python3 -c 'import json, sys; text = sys.stdin.read()
try: print(json.loads(text)["stream_hash"])
except (ValueError, KeyError): print("no hash:", text.strip()[:300], open(sys.argv[1]).read()[:300])' "$work/stderr"
}
equal_hashes() {  # a hash that is none is no equal one
  local ours theirs
  ours=$(hash_of ours "$@")
  theirs=$(hash_of theirs "$@")
  echo "$ours here, $theirs there"
  [ "$ours" = "$theirs" ] && [[ $ours =~ ^[0-9a-f]{16}$ ]]
}

rewrites_of() { "$1/benchmarks/dataset_bench" --help | sed -n '/^rewrites/,/^$/s/^  \([a-z_]*\) .*/--no-rewrite \1/p'; }
for folder in "${builds[@]}"; do
  [ -n "$(rewrites_of "$folder")" ] || { echo "tests/bitwise.sh: $folder names no rewrites" >&2; exit 1; }
done
workload() {  # NAME BATCHES [arguments...]
  local name=$1 batches=$2
  shift 2
  local way
  for way in "--threads 1" "--threads 3"; do
    same "$name $* $way" equal_hashes "$name" "$@" --batches "$batches" $way
  done
  case $name in
    noop*) ;;
    *) same "$name $* without rewrites" equal_hashes without_rewrites "$name" "$@" --batches "$batches" ;;
  esac
}
shards() { echo "--shards $1/*.tfrecord"; }
cd "$work/data"
set -f  # the patterns of shards are dataset_bench's to expand
workload read 200 $(shards mlm)
workload examples 100 $(shards tokens)
workload global_shuffle 100 $(shards tokens)
workload mlm 100 $(shards mlm)
workload mlm_gz 100 $(shards mlm_gz)
workload quest 200 $(shards quest)
workload quest 200 $(shards quest) --cache
workload bucket 100 $(shards tokens)
workload pad 100 $(shards tokens)
workload images 6 $(shards images)
workload noop 500
workload noop_rows 100
set +f

for name in mlm quest tokens; do
  case $name in tokens) workload=pad ;; *) workload=$name ;; esac
  for side in ours theirs; do
    "${builds[$side]}/benchmarks/dataset_bench" "$workload" --shards "$name/*.tfrecord" --batches 20 --threads 2 \
      --save "$work/saved-$name-$side" >/dev/null 2>&1 || true
  done
  same "elements of $workload that --save writes" diff -rq "$work/saved-$name-ours" "$work/saved-$name-theirs"
done

for side in ours theirs; do
  "${builds[$side]}/examples/mlm/prepare_tfrecord_shards" --tokenizer "$work/data/tokenizer.json" --text "$work/data/text.txt" \
    --out "$work/shards-$side" --max-length 32 --rows-per-group 100 --records-per-shard 100 --validation-every 10 \
    >/dev/null 2>&1 || true
done
same "shards of prepare_tfrecord_shards" diff -rq "$work/shards-ours" "$work/shards-theirs"
for side in ours theirs; do
  train_mlm=${builds[$side]}/examples/mlm/train_mlm
  # Builds of before this option began with 0.02, whatever the width.
  start=()
  [[ $("$train_mlm" --help) != *--initializer-range* ]] || start=(--initializer-range 0.02)
  "$train_mlm" "${start[@]}" --shards "$work/shards-ours" --tokenizer "$work/data/tokenizer.json" \
    --out "$work/run-$side" --max-length 32 --layers 2 --hidden 32 --heads 2 --global-batch 16 --steps 50 \
    --learning-rate 1e-3 --warmup-steps 5 --shuffle 500 >/dev/null 2>&1 || true
done
same "weights after 50 steps" cmp "$work/run-ours/model/model.safetensors" "$work/run-theirs/model/model.safetensors"
exit $different
