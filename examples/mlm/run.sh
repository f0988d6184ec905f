#!/usr/bin/env bash
# From a text to a trained masked language model that fills in words: installs what is missing, builds the four
# programs, then tokenizer, shards, training, answers. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

# What is given to the programs unless it is set here: a model that learns within minutes on two cores.
declare -A value=([seed]=42 [vocab-size]=8000 [max-length]=64 [layers]=2 [hidden]=128 [heads]=2 [dropout]=0
  [global-batch]=32 [steps]=9000 [learning-rate]=3e-3 [report-every]=100
  [evaluate-every]=1000 [checkpoint-every]=1000)
default() { echo "Default: ${value[$1]}"; }

usage() {
  cat <<TEXT
usage: examples/mlm/run.sh [options]
  --packages FILE        the corpus: descriptions of packages, as examples/packages/fetch.sh writes them. Default:
                         fetched to DIR/packages.txt; where they cannot be, the dictionary of Debian's dict-gcide
  --text FILES...        another corpus, a text a line
  --invalid-utf8 MODE    refuse or replace bytes of --text that are not UTF-8. Default: refuse
  --out DIR              everything goes here: packages.txt, tokenizer.json, shards/, model/, checkpoints/, log.jsonl.
                         Default: examples/mlm/out
  --overwrite            replace the model, checkpoints and log of an earlier run in DIR
  --resume CHECKPOINT    go on with a training that was stopped: same options, tokenizer and shards as they are
  --fill TEXT            a text with [MASK] that is filled in at the end; may be repeated. Default: five texts
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               $(default seed)
  --json                 each program prints one JSON object
tokenizer and shards
  --vocab-size N         $(default vocab-size)
  --max-length N         tokens in a row. $(default max-length)
model and training: more about them, and about those without a default here, in train_mlm --help
  --layers N             $(default layers)
  --hidden N             $(default hidden)
  --heads N              $(default heads)
  --dropout P            $(default dropout)
  --initializer-range X
  --global-batch N       $(default global-batch)
  --steps N              $(default steps)
  --epochs N             in place of --steps
  --learning-rate X      $(default learning-rate)
  --warmup-steps N       Default: 200, or --steps where that is less; 5% with --epochs or --phase
  --report-every N       $(default report-every)
  --evaluate-every N     $(default evaluate-every)
  --checkpoint-every N   $(default checkpoint-every)
  --mask-probability P  --replicas N  --accumulate N  --weight-decay X  --shuffle N  --keep-checkpoints N  --keep-best N
  --keep-best-by METRIC  --clip-norm X  --freeze REGEX  --patience N  --optimizer NAME  --decay FORM  --start-rate X
  --end-rate X  --phase SPEC (may be repeated)
TEXT
}

fail() { echo "run.sh: $*; see examples/mlm/run.sh --help" >&2; exit 2; }

out="$repository/examples/mlm/out"
fill=() corpus=() flags=() json=() steps=default phases=none own_lengths=yes
while [ $# -gt 0 ]; do
  option=$1
  shift
  if [[ $option == --*=* ]]; then
    set -- "${option#*=}" "$@"
    option=${option%%=*}
  fi
  case $option in
    --help | -h) usage; exit 0 ;;
    --overwrite) flags+=(--overwrite); continue ;;
    --json) json=(--json); continue ;;
    --text)
      [ $# -gt 0 ] && [[ $1 != --* ]] || fail "--text needs files"
      corpus+=(--text)
      while [ $# -gt 0 ] && [[ $1 != --* ]]; do corpus+=("$1"); shift; done
      continue
      ;;
  esac
  case $option in
    --out | --fill | --resume | --packages | --invalid-utf8 | --seed | --threads | --vocab-size | --max-length | --layers | \
      --hidden | --heads | --dropout | --initializer-range | --global-batch | --replicas | --accumulate | --steps | \
      --learning-rate | --warmup-steps | --mask-probability | --weight-decay | --shuffle | --report-every | \
      --evaluate-every | --checkpoint-every | --keep-checkpoints | --keep-best | --keep-best-by | --clip-norm | --freeze | \
      --patience | --epochs | --optimizer | --decay | --start-rate | --end-rate | --phase) ;;
    *) fail "unknown option '$option'" ;;
  esac
  [ $# -gt 0 ] || fail "$option needs a value"
  case $option in
    --out) out=$1 ;;
    --fill) fill+=("$1") ;;
    --packages) corpus+=(--packages "$1") ;;
    --invalid-utf8) corpus+=(--invalid-utf8 "$1") ;;
    --phase)
      flags+=(--phase "$1")
      phases=given
      [[ ,$1 =~ ,(steps|epochs)= ]] || own_lengths=no
      ;;
    *)
      [ "$option" = --steps ] && steps=given
      value[${option#--}]=$1
      ;;
  esac
  shift
done
if [ ${#fill[@]} -eq 0 ]; then
  fill=("This package contains the header files and development [MASK]."
    "A simple command line [MASK] for editing audio files."
    "It is written in [MASK] and uses GTK."
    "This library provides an interface to the SQLite [MASK]."
    "This is the [MASK] package for the game.")
fi
for text in "${fill[@]}"; do
  [[ $text == *"[MASK]"* ]] || fail "no [MASK] in --fill '$text'"
done
if [ -n "${value[epochs]+x}" ] && [ $steps = default ]; then
  unset 'value[steps]'
  value[warmup-steps]=${value[warmup-steps]-5%}
fi
if [ $phases = given ]; then
  [ $own_lengths = no ] || [ $steps = given ] || unset 'value[steps]'
  value[warmup-steps]=${value[warmup-steps]-5%}
fi
if [ -z "${value[warmup-steps]+x}" ]; then
  value[warmup-steps]=200
  [[ ${value[steps]} =~ ^[0-9]{1,9}$ ]] && [ "${value[steps]}" -lt 200 ] && value[warmup-steps]=${value[steps]}
fi
# The options NAMES... that have a value.
given() {
  local name
  for name in "$@"; do
    [ -z "${value[$name]+x}" ] || arguments+=("--$name" "${value[$name]}")
  done
}
arguments=() && given seed threads vocab-size && tokenizer=("${arguments[@]}")
arguments=() && given threads max-length && shards=("${arguments[@]}")
arguments=() && given seed threads resume max-length layers hidden heads dropout initializer-range global-batch replicas \
  accumulate steps learning-rate warmup-steps mask-probability weight-decay shuffle report-every evaluate-every \
  checkpoint-every keep-checkpoints keep-best keep-best-by clip-norm freeze patience epochs optimizer decay start-rate \
  end-rate && training=("${arguments[@]}")

echo "== setting up" >&2
"$repository/setup.sh"
build="$repository/build/mlm"
mkdir -p "$build"
echo "== building" >&2
cmake -S "$repository" -B "$build" -DMILLRACE_BUILD_BENCHMARKS=OFF -DMILLRACE_BUILD_TESTS=OFF >"$build/configure.log" ||
  { cat "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target train_unigram prepare_tfrecord_shards train_mlm fill_mask >&2
programs="$build/examples/mlm"

# Before hours of work: options and folder are such that the training can run, and what is known of it.
check() { "$programs/train_mlm" --check --out "$out" "${flags[@]}" "${training[@]}" "$@" >&2; }
if [ -n "${value[resume]+x}" ]; then
  check
else
  check --shards "$build/none"  # those of an earlier run are written anew
  if [[ " ${corpus[*]-} " != *" --text "* && " ${corpus[*]-} " != *" --packages "* ]]; then
    echo "== fetching package lists" >&2
    if "$repository/examples/packages/fetch.sh" --out "$out/packages.txt" >&2; then
      corpus+=(--packages "$out/packages.txt")
    else
      echo "run.sh: trained on the dictionary of dict-gcide in their place" >&2
      "$repository/setup.sh" --dictionary
    fi
  fi
  echo "== training the tokenizer" >&2
  "$programs/train_unigram" --out "$out" "${corpus[@]}" "${tokenizer[@]}" "${json[@]}"
  echo "== writing shards" >&2
  "$programs/prepare_tfrecord_shards" --tokenizer "$out/tokenizer.json" --out "$out/shards" "${corpus[@]}" \
    "${shards[@]}" "${json[@]}"
  check
fi
echo "== training the model" >&2
"$programs/train_mlm" --out "$out" "${flags[@]}" "${training[@]}" "${json[@]}"
echo "== filling in" >&2
brief=(--brief)
[ ${#json[@]} -eq 0 ] || brief=()
"$programs/fill_mask" --model "$out/model" "${brief[@]}" "${json[@]}" "${fill[@]}"
