#!/usr/bin/env bash
# From questions with their answers to predictions: installs what is missing, builds the programs, then tokenizer,
# encoder, shards, the models of a cross validation, a CSV. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

example=quest

# What is given to the programs unless it is set here: models that learn within minutes on two cores.
declare -A value=([out]="$repository/examples/quest/out" [seed]=42 [threads]=0 [rows]=6000 [test-rows]=500 [folds]=5
  [vocab-size]=8000 [max-question]=96 [max-answer]=96 [layers]=2 [hidden]=128 [heads]=2 [encoder-steps]=5000
  [encoder-learning-rate]=3e-3 [global-batch]=64 [ensemble]=logits [head-epochs]=1 [head-learning-rate]=1e-2 [epochs]=4
  [learning-rate]=2e-3 [optimizer]=radam [evaluate-every]=1epochs [checkpoint-every]=1epochs [report-every]=25)
source "$repository/examples/run_example.bash"

usage() {
  cat <<TEXT
usage: examples/quest/run.sh [options]
  --packages FILE        the rows: tagged packages of Debian, as examples/packages/fetch.sh writes them. Default: fetched
                         to DIR/packages.txt
  --csv FILE             other rows: question_title, question_body, answer, targets in [0, 1]; with --model
  --prepare-option ARGS...  options of prepare_quest, with their values; may be repeated
  --test-csv FILE        with --csv: rows to predict, with qa_id. Default: none
  --model DIR            a RoBERTa in Hugging Face's layout, with its tokenizer, to start from. Default: a tokenizer is
                         trained on all packages, and an encoder on the texts of those that are no rows
  --out DIR              everything goes here. Default: examples/quest/out
  --overwrite            replace the encoder and the models of an earlier run in DIR
  --resume               go on in DIR with the same options: tokenizer, shards, encoder and models that are whole stay,
                         and a training that was stopped goes on. So other folds come beside those of --fold
  --fold N               one fold alone, without predictions. Default: all
  --dynamic              batches of rows of similar lengths, padded to even parts of the limits
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               $(default seed)
  --json                 each program prints one JSON object
rows: more about them in prepare_quest --help
  --rows N               packages. $(default rows)
  --test-rows N          packages that are predicted at the end; 0: none. $(default test-rows)
  --folds N              $(default folds)
  --max-question N       tokens. $(default max-question)
  --max-answer N         $(default max-answer)
  --preset NAME          limits in their place: original, the competition's; with --model
encoder, without --model: a masked language model
  --vocab-size N         $(default vocab-size)
  --layers N             $(default layers)
  --hidden N             $(default hidden)
  --heads N              $(default heads)
  --encoder-steps N      $(default encoder-steps)
  --encoder-learning-rate X  $(default encoder-learning-rate)
models: first the heads alone, then all, rising from a thirtieth of the rate in a tenth of the steps and falling along a
cosine to a tenth of it; more about them, and about those without a default here, in train_quest --help
  --head-epochs N        $(default head-epochs)
  --head-learning-rate X $(default head-learning-rate), with --model 1e-3
  --epochs N             $(default epochs), with --model 3
  --learning-rate X      $(default learning-rate), with --model 3e-5
  --optimizer NAME       $(default optimizer)
  --global-batch N       $(default global-batch)
  --report-every N       $(default report-every)
  --evaluate-every N     $(default evaluate-every)
  --checkpoint-every N   $(default checkpoint-every)
  --head-dropout  --max-shapes  --replicas  --accumulate  --weight-decay  --clip-norm  --activations  --shuffle  --patience
  --keep-best  --keep-best-by  --keep-checkpoints  --watchdog  --damage  --max-skipped-records  --max-skipped-bytes
  --max-skipped-share  --cache-dir  --cache-bytes  --trace
predictions
  --ensemble NAME        logits, probabilities or ranks of the folds' models are averaged. $(default ensemble)
TEXT
}

trainer_options="optimizer global-batch head-dropout max-shapes $run_options"
read_options "overwrite resume dynamic json" "packages csv test-csv model out fold threads seed rows test-rows folds preset
  max-question max-answer vocab-size layers hidden heads encoder-steps encoder-learning-rate head-epochs
  head-learning-rate epochs learning-rate ensemble $trainer_options" prepare-option "$@"
out=${value[out]} packages=${value[packages]-} csv=${value[csv]-} test_csv=${value[test-csv]-} model=${value[model]-}
need_file packages csv test-csv
need_folder model
[ -z "$csv" ] || [ -z "$packages" ] || fail "--csv and --packages are two kinds of rows"
[ -z "$csv" ] || [ -n "$model" ] || fail "--csv needs --model, whose tokenizer and encoder are used"
[ -z "$test_csv" ] || [ -n "$csv" ] || fail "--test-csv goes with --csv"
[ -z "${is_given[overwrite]+x}" ] || [ -z "${is_given[resume]+x}" ] || fail "--overwrite begins anew, and --resume goes on"
case ${value[ensemble]} in
  logits | probabilities | ranks) ;;
  *) fail "--ensemble is '${value[ensemble]}', must be logits, probabilities or ranks" ;;
esac
if [ -n "${value[preset]+x}" ]; then
  [ -n "$model" ] || fail "--preset needs --model: an encoder of its own reads --max-question and --max-answer tokens"
  for name in max-question max-answer; do [ -n "${is_given[$name]+x}" ] || unset "value[$name]"; done
fi
if [ -n "$model" ]; then
  for pair in head-learning-rate=1e-3 epochs=3 learning-rate=3e-5; do
    [ -n "${is_given[${pair%%=*}]+x}" ] || value[${pair%%=*}]=${pair#*=}
  done
fi
refuse_earlier_run "$out/encoder" "$out"/fold-*
options_of_run csv packages model rows test-rows test-csv folds preset max-question max-answer prepare-option vocab-size \
  layers hidden heads encoder-steps encoder-learning-rate seed
arguments_of threads json && common=("${arguments[@]}")
arguments_of seed && seed=("${arguments[@]}")

build_programs train_unigram prepare_tfrecord_shards train_mlm prepare_quest train_quest predict_quest
mlm="$programs/mlm"
quest="$programs/quest"

encoder="$model"
tokenizer="$model/tokenizer.json"
if [ -z "$model" ]; then
  encoder="$out/encoder/model"
  tokenizer="$out/tokenizer.json"
fi
rate=${value[learning-rate]}
scaled() { awk -v rate="$rate" -v by="$1" 'BEGIN { print rate / by }'; }
heads="epochs=${value[head-epochs]},learning-rate=${value[head-learning-rate]},warmup-steps=0"
heads+=",end-rate=${value[head-learning-rate]},freeze=^roberta"
everything="epochs=${value[epochs]},learning-rate=$rate,start-rate=$(scaled 30),warmup-steps=10%,decay=cosine"
everything+=",end-rate=$(scaled 10)"
# shellcheck disable=SC2086  # names, a word each
arguments_of fold dynamic $trainer_options
go_on_in "$out"  # in its folds
training=(--out "$out" --tokenizer "$tokenizer" --phase "$heads" --phase "$everything" "${arguments[@]}" "${seed[@]}"
  "${common[@]}" "${going_on[@]}")
from=(--model "$encoder")
if [ -z "$model" ] && ! is_kept "$encoder"; then
  arguments_of layers hidden heads
  from=("${arguments[@]}")
fi
check() { "$quest/train_quest" --check "${training[@]}" "${from[@]}" --shards "$1" >/dev/null; }
# Before minutes of work: options and folder are such that the models can be trained. Rows of an earlier run are not
# looked at unless they stay.
is_kept "$out/shards/statistics.json" || check "$repository/build/$example/none"

begin_run
# Folds of a run that an --overwrite was to replace.
for path in "$out"/fold-*; do
  [ -z "${is_given[resume]+x}" ] || ! is_older "$path/checkpoints" || rm -rf "$path"
done
if [ -z "$csv" ] && [ -z "$packages" ]; then
  packages="$out/packages.txt"
  fetch_packages "$packages" || fail "no rows: give --packages FILE, or --csv FILE"
fi
if [ -z "$model" ] && ! is_kept "$tokenizer"; then
  echo "== training the tokenizer" >&2
  "$mlm/train_unigram" --out "$out" --packages "$packages" --vocab-size "${value[vocab-size]}" "${seed[@]}" \
    "${common[@]}"
fi

rows=(--csv "$csv" ${test_csv:+--rows-to-predict "$test_csv"})
if [ -z "$csv" ]; then
  rows=(--packages "$packages" --rows "${value[rows]}" "${seed[@]}" --other-texts "$out/other_texts.txt")
  if [ "${value[test-rows]}" != 0 ]; then
    test_csv="$out/test.csv"
    rows+=(--test-rows "${value[test-rows]}" --test-csv "$test_csv")
  fi
fi
if ! is_kept "$out/shards/statistics.json"; then
  echo "== writing shards" >&2
  arguments_of folds preset max-question max-answer
  "$quest/prepare_quest" "${rows[@]}" --tokenizer "$tokenizer" --out "$out/shards" "${arguments[@]}" \
    "${prepare_option[@]}" "${common[@]}"
fi
check "$out/shards"

if [ -z "$model" ] && ! is_kept "$encoder"; then
  echo "== training the encoder on the texts of other packages" >&2
  longest=$((value[max-question] > value[max-answer] ? value[max-question] : value[max-answer]))
  "$mlm/prepare_tfrecord_shards" --tokenizer "$tokenizer" --out "$out/encoder/shards" --text "$out/other_texts.txt" \
    --max-length "$longest" "${common[@]}"
  go_on_in "$out/encoder"
  "$mlm/train_mlm" --out "$out/encoder" --tokenizer "$tokenizer" --max-length "$longest" --layers "${value[layers]}" \
    --hidden "${value[hidden]}" --heads "${value[heads]}" --dropout 0 --mask-probability 0.2 --global-batch 32 \
    --steps "${value[encoder-steps]}" --learning-rate "${value[encoder-learning-rate]}" --warmup-steps 5% \
    --report-every 100 --evaluate-every 1000 --checkpoint-every 1000 "${seed[@]}" "${common[@]}" \
    "${going_on[@]}"
fi

echo "== training the models" >&2
"$quest/train_quest" "${training[@]}" --shards "$out/shards" --model "$encoder"

[ -z "${value[fold]+x}" ] || exit 0
echo "== predicting" >&2
"$quest/predict_quest" --models "$out" --shards "$out/shards" ${test_csv:+--csv "$test_csv"} \
  --ensemble "${value[ensemble]}" "${common[@]}"
