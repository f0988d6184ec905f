#!/usr/bin/env bash
# From a text to a trained masked language model that fills in words: installs what is missing, builds the four
# programs, then tokenizer, shards, training, answers. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
example=mlm

# What is given to the programs unless it is set here: a model that learns within minutes on two cores.
declare -A value=([out]="$repository/examples/mlm/out" [seed]=42 [vocab-size]=8000 [max-length]=64 [layers]=2
  [hidden]=128 [heads]=2 [dropout]=0 [global-batch]=32 [steps]=9000 [learning-rate]=3e-3 [report-every]=100
  [evaluate-every]=1000 [checkpoint-every]=1000)
source "$repository/examples/run_example.bash"

usage() {
  cat <<TEXT
usage: examples/mlm/run.sh [options]
  --packages FILE        the corpus: descriptions of packages, as examples/packages/fetch.sh writes them. Default:
                         fetched to DIR/packages.txt; where they cannot be, the dictionary of Debian's dict-gcide
  --text FILES...        another corpus, a text a line
  --invalid-utf8 MODE    refuse or replace bytes of --text that are not UTF-8. Default: refuse
  --shards-url URL       no corpus: the shards that an earlier run wrote, copied from DIR/shards to s3://BUCKET/NAME/shards,
                         gs://BUCKET/NAME/shards (docs/object_stores.md) or another folder
  --tokenizer PATH       their tokenizer.json, or its URL. Default: tokenizer.json beside the folder of --shards-url
  --out DIR              everything goes here: packages.txt, tokenizer.json, shards/, model/, checkpoints/, log.jsonl.
                         Default: examples/mlm/out
  --overwrite            replace the model, checkpoints and log of an earlier run in DIR
  --resume CHECKPOINT    go on with a training that was stopped: same options but for those of the corpus; tokenizer
                         and shards as they are
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
  --global-batch N       $(default global-batch)
  --steps N              $(default steps)
  --epochs N             in place of --steps
  --learning-rate X      $(default learning-rate)
  --warmup-steps N       Default: 200, or --steps where that is less; 5% with --epochs or --phase
  --phase SPEC           may be repeated
  --report-every N       $(default report-every)
  --evaluate-every N     $(default evaluate-every)
  --checkpoint-every N   $(default checkpoint-every)
  --initializer-range  --mask-probability  --replicas  --accumulate  --weight-decay  --clip-norm  --activations  --shuffle
  --patience  --keep-best  --keep-best-by  --keep-checkpoints  --optimizer  --start-rate  --end-rate  --decay
  --milestones  --milestone-factor  --freeze
  --watchdog  --damage  --max-skipped-records  --max-skipped-bytes  --max-skipped-share  --cache-dir
  --cache-bytes  --trace
TEXT
}

model_options="layers hidden heads dropout initializer-range mask-probability global-batch"
read_options "overwrite json" "packages invalid-utf8 shards-url tokenizer out resume threads seed vocab-size max-length $model_options
  $run_options $schedule_options" "text fill phase" "$@"
if [ ${#fill[@]} -eq 0 ]; then
  fill=("This package contains the header files and development [MASK]."
    "A simple command line [MASK] for editing audio files."
    "It is written in [MASK] and uses GTK."
    "This library provides an interface to the SQLite [MASK]."
    "This is the [MASK] package for the game.")
fi
for sentence in "${fill[@]}"; do
  [[ $sentence == *"[MASK]"* ]] || fail "no [MASK] in --fill '$sentence'"
done
need_file packages text
[ -z "${is_given[resume]+x}" ] || refuse_given "is of tokenizer and shards, which are as they are with --resume" \
  packages text invalid-utf8 vocab-size
if [ -n "${is_given[shards-url]+x}" ]; then
  refuse_given "is of tokenizer and shards, which are there with --shards-url" packages text invalid-utf8 vocab-size
  shards_url=${value[shards-url]}
  while [[ $shards_url == *?/ ]]; do shards_url=${shards_url%/}; done
  case $shards_url in
    http://* | https://*) fail "--shards-url: the shards are found by a listing, which s3:// and gs:// have" ;;
    s3://*/?* | gs://*/?*) above=${shards_url%/*} ;;
    s3://* | gs://*)
      [ -n "${is_given[tokenizer]+x}" ] || fail "--shards-url: '$shards_url' is a bucket; --tokenizer says where the tokenizer is"
      above="" ;;
    *) above=$(dirname "$shards_url") ;;
  esac
  set_of_rows=(--shards "$shards_url" --tokenizer "${value[tokenizer]-$above/tokenizer.json}")
else
  refuse_given "is for --shards-url" tokenizer
  set_of_rows=()
fi
settle_length 200 "${phase[@]}"
out=${value[out]}
arguments_of json && json=("${arguments[@]}")
arguments_of packages invalid-utf8 && corpus=("${arguments[@]}")
[ ${#text[@]} -eq 0 ] || corpus+=(--text "${text[@]}")
arguments_of seed threads vocab-size json && tokenizer=("${arguments[@]}")
arguments_of threads max-length json && shards=("${arguments[@]}")
take_training_options() {
  # shellcheck disable=SC2086  # names, a word each
  arguments_of overwrite resume seed threads max-length $model_options $run_options $schedule_options
  training=("${arguments[@]}" "${set_of_rows[@]}")
  for spec in "${phase[@]}"; do training+=(--phase "$spec"); done
}
take_training_options

build_programs train_unigram prepare_tfrecord_shards train_mlm fill_mask
programs+=/mlm

check() { "$programs/train_mlm" --check --out "$out" "${training[@]}" "$@"; }
if [ ${#set_of_rows[@]} -eq 0 ] && [ -z "${value[resume]+x}" ]; then
  # Before hours of work: options and folder are such that the training can run. Shards of an earlier run are not looked
  # at: they are written anew.
  check --shards "$repository/build/$example/none" >/dev/null
  if [ ${#text[@]} -eq 0 ] && [ -z "${value[packages]+x}" ]; then
    if fetch_packages "$out/packages.txt"; then
      corpus+=(--packages "$out/packages.txt")
    else
      echo "run.sh: trained on the dictionary of dict-gcide in their place; --text FILES takes a text of your own" >&2
      "$repository/setup.sh" --dictionary >&2
    fi
  fi
  echo "== training the tokenizer" >&2
  "$programs/train_unigram" --out "$out" "${corpus[@]}" "${tokenizer[@]}"
  echo "== writing shards" >&2
  "$programs/prepare_tfrecord_shards" --tokenizer "$out/tokenizer.json" --out "$out/shards" "${corpus[@]}" "${shards[@]}"
fi
if [ ${#set_of_rows[@]} -eq 0 ] && ! compgen -G "$out/shards/validation/*.tfrecord*" >/dev/null; then
  drop_defaults evaluate-every
  take_training_options
fi
check >&2
echo "== training the model" >&2
"$programs/train_mlm" --out "$out" "${training[@]}" "${json[@]}"
echo "== filling in" >&2
brief=(--brief)
[ ${#json[@]} -eq 0 ] || brief=()
"$programs/fill_mask" --model "$out/model" "${brief[@]}" "${json[@]}" "${fill[@]}"
