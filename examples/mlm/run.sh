#!/usr/bin/env bash
# From a text to a trained masked language model that fills in words: installs what is missing, builds the four
# programs, then tokenizer, shards, training, an answer. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

usage() {
  cat <<'TEXT'
usage: examples/mlm/run.sh [options]
  --text FILES...        the corpus, a text a line. Default: the dictionary of Debian's dict-gcide, cleaned
  --invalid-utf8 MODE    refuse or replace bytes of --text that are not UTF-8. Default: refuse
  --out DIR              everything goes here: tokenizer.json, shards/, model/, checkpoints/, log.jsonl.
                         Default: examples/mlm/out
  --overwrite            replace the model, checkpoints and log of an earlier run in DIR
  --resume CHECKPOINT    go on with a training that was stopped: same options, tokenizer and shards as they are
  --fill TEXT            the text with [MASK] that is filled in at the end
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               Default: 42
  --json                 each program prints one JSON object
tokenizer and shards
  --vocab-size N         Default: 10048
  --max-length N         tokens in a row. Default: 128
model and training: see train_mlm --help for more about them and their defaults
  --layers N  --hidden N  --heads N  --dropout P  --global-batch N  --replicas N  --accumulate N  --steps N
  --learning-rate X  --warmup-steps N  --weight-decay X  --shuffle N  --report-every N  --evaluate-every N  --checkpoint-every N
  --keep-checkpoints N  --keep-best N  --clip-norm X  --freeze REGEX  --patience N
TEXT
}

fail() { echo "run.sh: $*; see examples/mlm/run.sh --help" >&2; exit 2; }

out="$repository/examples/mlm/out"
fill="A small [MASK] used for cutting."
corpus=() both=() tokenizer=(--vocab-size 10048) shards=() training=() json=()
seed=42
resume=""
while [ $# -gt 0 ]; do
  option=$1
  shift
  if [[ $option == --*=* ]]; then
    set -- "${option#*=}" "$@"
    option=${option%%=*}
  fi
  case $option in
    --help | -h) usage; exit 0 ;;
    --overwrite) training+=(--overwrite); continue ;;
    --json) json=(--json); continue ;;
    --text)
      [ $# -gt 0 ] && [[ $1 != --* ]] || fail "--text needs files"
      corpus+=(--text)
      while [ $# -gt 0 ] && [[ $1 != --* ]]; do corpus+=("$1"); shift; done
      continue
      ;;
  esac
  value=${1-}
  case $option in
    --out) out=$value ;;
    --fill) fill=$value ;;
    --resume) resume=$value; training+=(--resume "$value") ;;
    --seed) seed=$value ;;
    --threads) both+=(--threads "$value") ;;
    --invalid-utf8) corpus+=(--invalid-utf8 "$value") ;;
    --vocab-size) tokenizer=(--vocab-size "$value") ;;
    --max-length) shards+=(--max-length "$value"); training+=(--max-length "$value") ;;
    --layers | --hidden | --heads | --dropout | --global-batch | --replicas | --accumulate | --steps | --learning-rate | \
      --warmup-steps | --weight-decay | --shuffle | --report-every | --evaluate-every | --checkpoint-every | \
      --keep-checkpoints | --keep-best | --clip-norm | --freeze | --patience) training+=("$option" "$value") ;;
    *) fail "unknown option '$option'" ;;
  esac
  [ $# -gt 0 ] || fail "$option needs a value"
  shift
done
[[ $fill == *"[MASK]"* ]] || fail "no [MASK] in --fill '$fill'"

"$repository/setup.sh"
build="$repository/build/mlm"
echo "== building" >&2
cmake -S "$repository" -B "$build" -DMILLRACE_BUILD_BENCHMARKS=OFF -DMILLRACE_BUILD_TESTS=OFF >&2
cmake --build "$build" --parallel "$(nproc)" --target train_unigram prepare_tfrecord_shards train_mlm fill_mask >&2
programs="$build/examples/mlm"

# Before hours of work: options and folder are such that the training can run.
"$programs/train_mlm" --check --out "$out" --seed "$seed" "${both[@]}" "${training[@]}"

if [ -z "$resume" ]; then
  echo "== training the tokenizer" >&2
  "$programs/train_unigram" --out "$out" --seed "$seed" "${corpus[@]}" "${both[@]}" "${tokenizer[@]}" "${json[@]}"
  echo "== writing shards" >&2
  "$programs/prepare_tfrecord_shards" --tokenizer "$out/tokenizer.json" --out "$out/shards" "${corpus[@]}" \
    "${both[@]}" "${shards[@]}" "${json[@]}"
fi
echo "== training the model" >&2
"$programs/train_mlm" --out "$out" --seed "$seed" "${both[@]}" "${training[@]}" "${json[@]}"
echo "== filling in" >&2
"$programs/fill_mask" --model "$out/model" "${json[@]}" "$fill"
