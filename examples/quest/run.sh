#!/usr/bin/env bash
# From questions with their answers to predictions: installs what is missing, builds the programs, then tokenizer,
# encoder, shards, the models of a cross validation, a CSV. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

# What is given to the programs unless it is set here: models that learn within minutes on two cores.
declare -A value=([seed]=42 [rows]=6000 [test-rows]=500 [folds]=5 [vocab-size]=8000 [max-question]=96 [max-answer]=96
  [layers]=2 [hidden]=128 [heads]=2 [encoder-steps]=5000 [encoder-learning-rate]=3e-3 [global-batch]=64
  [ensemble]=logits [head-epochs]=1 [head-learning-rate]=1e-2 [epochs]=4 [learning-rate]=2e-3)
default() { echo "Default: ${value[$1]}"; }

usage() {
  cat <<TEXT
usage: examples/quest/run.sh [options]
  --packages FILE        the rows: tagged packages of Debian, as examples/packages/fetch.sh writes them. Default: fetched
                         to DIR/packages.txt
  --csv FILE             other rows: question_title, question_body, answer, targets in [0, 1]; with --model
  --test-csv FILE        with --csv: rows to predict, with qa_id. Default: none
  --model DIR            a RoBERTa in Hugging Face's layout, with its tokenizer, to start from. Default: tokenizer and
                         encoder are trained on the packages, without those that are rows
  --out DIR              everything goes here. Default: examples/quest/out
  --overwrite            replace the encoder and the models of an earlier run in DIR
  --fold N               one fold alone, without predictions. Default: all
  --dynamic              batches of rows of similar lengths, padded to a multiple of 32
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               $(default seed)
  --json                 each program prints one JSON object
rows: more about them in prepare_quest --help
  --rows N               packages. $(default rows)
  --test-rows N          packages that are predicted at the end. $(default test-rows)
  --folds N              $(default folds)
  --max-question N       tokens. $(default max-question)
  --max-answer N         $(default max-answer)
encoder, without --model: a masked language model
  --vocab-size N         $(default vocab-size)
  --layers N             $(default layers)
  --hidden N             $(default hidden)
  --heads N              $(default heads)
  --encoder-steps N      $(default encoder-steps)
  --encoder-learning-rate X  $(default encoder-learning-rate)
models: first the heads alone, by RAdam, then all, rising from a thirtieth of the rate in a tenth of the steps and
falling along a cosine to a tenth of it; more in train_quest --help
  --head-epochs N        $(default head-epochs)
  --head-learning-rate X $(default head-learning-rate)
  --epochs N             $(default epochs)
  --learning-rate X      $(default learning-rate)
  --global-batch N       $(default global-batch)
  --ensemble NAME        logits, probabilities or ranks of the folds' models are averaged. $(default ensemble)
TEXT
}

fail() { echo "run.sh: $*; see examples/quest/run.sh --help" >&2; exit 2; }

out="$repository/examples/quest/out"
packages="" csv="" test_csv="" model="" fold="" flags=() json=() dynamic=()
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
    --dynamic) dynamic=(--dynamic); continue ;;
    --json) json=(--json); continue ;;
  esac
  case $option in
    --packages | --csv | --test-csv | --model | --out | --fold | --threads) ;;
    *) [ -n "${value[${option#--}]+x}" ] || fail "unknown option '$option'" ;;
  esac
  [ $# -gt 0 ] || fail "$option needs a value"
  case $option in
    --packages) packages=$1 ;;
    --csv) csv=$1 ;;
    --test-csv) test_csv=$1 ;;
    --model) model=$1 ;;
    --out) out=$1 ;;
    --fold) fold=$1 ;;
    *) value[${option#--}]=$1 ;;
  esac
  shift
done
[ -z "$csv" ] || [ -z "$packages" ] || fail "--csv and --packages are two kinds of rows"
[ -z "$csv" ] || [ -n "$model" ] || fail "--csv needs --model, whose tokenizer and encoder are used"
[ -z "$test_csv" ] || [ -n "$csv" ] || fail "--test-csv goes with --csv"
threads=(--threads "${value[threads]-0}")
seed=(--seed "${value[seed]}")

echo "== setting up" >&2
"$repository/setup.sh"
build="$repository/build/quest"
mkdir -p "$build" "$out"
echo "== building" >&2
cmake -S "$repository" -B "$build" -DMILLRACE_BUILD_BENCHMARKS=OFF -DMILLRACE_BUILD_TESTS=OFF >"$build/configure.log" ||
  { cat "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --parallel "$(nproc)" \
  --target train_unigram prepare_tfrecord_shards train_mlm prepare_quest train_quest predict_quest >&2
mlm="$build/examples/mlm"
quest="$build/examples/quest"

if [ -z "$csv" ] && [ -z "$packages" ]; then
  echo "== fetching package lists" >&2
  packages="$out/packages.txt"
  "$repository/examples/packages/fetch.sh" --out "$packages" >&2 || fail "no rows: give --packages FILE, or --csv FILE"
fi
tokenizer="$model/tokenizer.json"
if [ -z "$model" ]; then
  echo "== training the tokenizer" >&2
  tokenizer="$out/tokenizer.json"
  "$mlm/train_unigram" --out "$out" --packages "$packages" --vocab-size "${value[vocab-size]}" "${seed[@]}" \
    "${threads[@]}" "${json[@]}"
fi

echo "== writing shards" >&2
rows=(--csv "$csv")
if [ -z "$csv" ]; then
  test_csv="$out/test.csv"
  rows=(--packages "$packages" --rows "${value[rows]}" "${seed[@]}" --test-rows "${value[test-rows]}" --test-csv "$test_csv"
    --other-texts "$out/other_texts.txt")
fi
"$quest/prepare_quest" "${rows[@]}" --tokenizer "$tokenizer" --out "$out/shards" --folds "${value[folds]}" \
  --max-question "${value[max-question]}" --max-answer "${value[max-answer]}" "${threads[@]}" "${json[@]}"

if [ -z "$model" ]; then
  echo "== training the encoder on the texts of other packages" >&2
  model="$out/encoder/model"
  longest=$((value[max-question] > value[max-answer] ? value[max-question] : value[max-answer]))
  "$mlm/prepare_tfrecord_shards" --tokenizer "$tokenizer" --out "$out/encoder/shards" --text "$out/other_texts.txt" \
    --max-length "$longest" "${threads[@]}" "${json[@]}"
  "$mlm/train_mlm" --out "$out/encoder" --tokenizer "$tokenizer" --max-length "$longest" --layers "${value[layers]}" \
    --hidden "${value[hidden]}" --heads "${value[heads]}" --dropout 0 --mask-probability 0.2 --global-batch 32 \
    --steps "${value[encoder-steps]}" --learning-rate "${value[encoder-learning-rate]}" --warmup-steps 5% \
    --report-every 100 --evaluate-every 1000 --checkpoint-every 1000 "${seed[@]}" "${threads[@]}" "${flags[@]}" "${json[@]}"
fi

echo "== training the models" >&2
rate=${value[learning-rate]}
scaled() { awk -v rate="$rate" -v by="$1" 'BEGIN { print rate / by }'; }
heads="epochs=${value[head-epochs]},learning-rate=${value[head-learning-rate]},warmup-steps=0"
heads+=",end-rate=${value[head-learning-rate]},freeze=^roberta"
everything="epochs=${value[epochs]},learning-rate=$rate,start-rate=$(scaled 30),warmup-steps=10%,decay=cosine"
everything+=",end-rate=$(scaled 10)"
"$quest/train_quest" --out "$out" --shards "$out/shards" --model "$model" --tokenizer "$tokenizer" ${fold:+--fold "$fold"} \
  --global-batch "${value[global-batch]}" --optimizer radam --phase "$heads" --phase "$everything" \
  --evaluate-every 1epochs --checkpoint-every 1epochs --report-every 25 "${dynamic[@]}" "${seed[@]}" "${threads[@]}" \
  "${flags[@]}" "${json[@]}"

[ -z "$fold" ] || exit 0
echo "== predicting" >&2
"$quest/predict_quest" --models "$out" --shards "$out/shards" ${test_csv:+--csv "$test_csv"} \
  --ensemble "${value[ensemble]}" "${threads[@]}" "${json[@]}"
