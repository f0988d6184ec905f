#!/usr/bin/env bash
# From texts to a trained T5 that says a word for the class of a text: installs what is missing, builds the three
# programs, then rows with their tokenizer, training, answers. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

# What is given to the programs unless it is set here: a model that learns within minutes on two cores.
declare -A value=([seed]=42 [steps]=1600 [warmup-steps]=100 [learning-rate]=1e-3 [report-every]=100
  [evaluate-every]=200 [checkpoint-every]=200 [keep-best]=1)
default() { echo "Default: ${value[$1]}"; }

usage() {
  cat <<TEXT
usage: examples/text_to_text/run.sh [options]
  --packages FILE        the texts: packages, as examples/packages/fetch.sh writes them; the class is the section.
                         Default: fetched to DIR/packages.txt
  --csv FILE             texts of your own: Id,Title,Body,Y, the body as HTML
  --prepare-option ARG   is given to prepare_text_to_text as it is; may be repeated, an option and its value apart
  --model DIR            start from a T5 in Hugging Face's layout, with its tokenizer. Default: from scratch
  --out DIR              everything goes here: packages.txt, rows/, model/, best/, checkpoints/, log.jsonl, answers.csv.
                         Default: examples/text_to_text/out
  --overwrite            replace the models, checkpoints and log of an earlier run in DIR
  --resume CHECKPOINT    go on with a training that was stopped: same options, rows as they are
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               $(default seed)
  --json                 each program prints one JSON object
model and training: more about them, and about those without a default here, in train_text_to_text --help
  --steps N              $(default steps)
  --warmup-steps N       $(default warmup-steps), or --steps where that is less
  --learning-rate X      $(default learning-rate); for --model 1e-5 to 1e-4
  --report-every N       $(default report-every)
  --evaluate-every N     $(default evaluate-every)
  --checkpoint-every N   $(default checkpoint-every)
  --keep-best N          $(default keep-best)
  --layers N  --d-model N  --d-ff N  --heads N  --d-kv N  --dropout P  --initializer-factor X
  --global-batch N  --replicas N  --accumulate N  --weight-decay X  --clip-norm X  --shuffle N  --keep-checkpoints N
  --freeze REGEX  --patience N
TEXT
}

fail() { echo "run.sh: $*; see examples/text_to_text/run.sh --help" >&2; exit 2; }

out="$repository/examples/text_to_text/out"
texts=() prepare=() flags=() json=()
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
    --packages | --csv | --prepare-option | --model | --out | --resume | --threads | --seed | --steps | --warmup-steps | \
      --learning-rate | --report-every | --evaluate-every | --checkpoint-every | --keep-best | --layers | --d-model | \
      --d-ff | --heads | --d-kv | --dropout | --initializer-factor | --global-batch | --replicas | --accumulate | \
      --weight-decay | --clip-norm | --shuffle | --keep-checkpoints | --freeze | --patience) ;;
    *) fail "unknown option '$option'" ;;
  esac
  [ $# -gt 0 ] || fail "$option needs a value"
  case $option in
    --out) out=$1 ;;
    --packages | --csv) texts=("$option" "$1") ;;
    --prepare-option) prepare+=("$1") ;;
    *) value[${option#--}]=$1 ;;
  esac
  shift
done
if [[ ${value[steps]} =~ ^[0-9]{1,9}$ ]] && [ "${value[steps]}" -lt "${value[warmup-steps]}" ]; then
  value[warmup-steps]=${value[steps]}
fi
training=()
for name in "${!value[@]}"; do training+=("--$name" "${value[$name]}"); done
prepare+=(--seed "${value[seed]}" --threads "${value[threads]:-0}")
[ -z "${value[model]+x}" ] || prepare+=(--tokenizer "${value[model]}")

echo "== setting up" >&2
"$repository/setup.sh"
build="$repository/build/text_to_text"
mkdir -p "$build"
echo "== building" >&2
cmake -S "$repository" -B "$build" -DMILLRACE_BUILD_BENCHMARKS=OFF -DMILLRACE_BUILD_TESTS=OFF >"$build/configure.log" ||
  { cat "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target prepare_text_to_text train_text_to_text predict_text_to_text >&2
programs="$build/examples/text_to_text"

# Before minutes of work: options and folder are such that the training can run. Rows of an earlier run are not looked at:
# they are written anew.
check() { "$programs/train_text_to_text" --check --out "$out" "${flags[@]}" "${training[@]}" "$@" >&2; }
if [ -n "${value[resume]+x}" ]; then check; else check --rows "$build/none"; fi

if [ -z "${value[resume]+x}" ]; then
  if [ ${#texts[@]} -eq 0 ]; then
    echo "== fetching package lists" >&2
    "$repository/examples/packages/fetch.sh" --out "$out/packages.txt" >&2
    texts=(--packages "$out/packages.txt")
  fi
  echo "== preparing rows" >&2
  "$programs/prepare_text_to_text" --out "$out/rows" "${texts[@]}" "${prepare[@]}" "${json[@]}"
fi
echo "== training the model" >&2
"$programs/train_text_to_text" --out "$out" "${flags[@]}" "${training[@]}" "${json[@]}"
echo "== answers for the test rows" >&2
best=$out/best
[ -d "$best" ] || best=$out/model
"$programs/predict_text_to_text" --model "$best" --rows "$out/rows" --out "$out/answers.csv" --show 3 \
  --threads "${value[threads]:-0}" "${json[@]}"
