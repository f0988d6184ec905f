#!/usr/bin/env bash
# From texts to a trained T5 that says a word for the class of a text: installs what is missing, builds the three
# programs, then rows with their tokenizer, training, answers. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
example=text_to_text

# What is given to the programs unless it is set here: a model that learns within minutes on two cores.
declare -A value=([out]="$repository/examples/text_to_text/out" [seed]=42 [threads]=0 [steps]=1600
  [learning-rate]=1e-3 [report-every]=100 [evaluate-every]=200 [checkpoint-every]=200 [keep-best]=1)
source "$repository/examples/run_example.bash"

usage() {
  cat <<TEXT
usage: examples/text_to_text/run.sh [options]
  --packages FILE        the texts: packages, as examples/packages/fetch.sh writes them; the class is the section.
                         Default: fetched to DIR/packages.txt
  --csv FILE             texts of your own: Id,Title,Body,Y, the body as HTML
  --prepare-option ARGS...  an option of prepare_text_to_text with its values; may be repeated
  --model DIR            start from a T5 in Hugging Face's layout, with its tokenizer. Default: from scratch
  --out DIR              everything goes here: packages.txt, rows/, model/, best/, checkpoints/, log.jsonl, answers.csv.
                         Default: examples/text_to_text/out
  --overwrite            replace the models, checkpoints and log of an earlier run in DIR
  --resume CHECKPOINT    go on with a training that was stopped: same options but for those of the texts; rows as they
                         are
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               $(default seed)
  --json                 each program prints one JSON object
model and training: more about them, and about those without a default here, in train_text_to_text --help
  --steps N              $(default steps)
  --epochs N             in place of --steps
  --learning-rate X      $(default learning-rate), with --model 1e-4
  --warmup-steps N       Default: 100, or --steps where that is less; 5% with --epochs or --phase
  --phase SPEC           may be repeated
  --report-every N       $(default report-every)
  --evaluate-every N     $(default evaluate-every)
  --checkpoint-every N   $(default checkpoint-every)
  --keep-best N          $(default keep-best). Neither is done where there are no validation rows
  --ignore-config  --layers  --d-model  --d-ff  --heads  --d-kv  --dropout  --initializer-factor  --global-batch
  --replicas  --accumulate  --weight-decay  --clip-norm  --activations  --shuffle  --patience  --keep-best-by
  --keep-checkpoints  --optimizer  --start-rate  --end-rate  --decay  --milestones
  --milestone-factor  --freeze  --watchdog  --damage
  --max-skipped-records  --max-skipped-bytes  --max-skipped-share  --cache-dir  --cache-bytes  --trace
TEXT
}

model_options="model layers d-model d-ff heads d-kv dropout initializer-factor global-batch"
read_options "overwrite json" "packages csv out resume threads seed $model_options $run_options $schedule_options" \
  "prepare-option phase ignore-config" "$@"
[ -z "${value[csv]+x}" ] || [ -z "${value[packages]+x}" ] || fail "--csv and --packages are two kinds of texts"
need_file csv packages
need_folder model
[ -z "${is_given[resume]+x}" ] || refuse_given "is of the rows, which are as they are with --resume" csv packages \
  prepare-option
[ -z "${value[model]+x}" ] || [ -n "${is_given[learning-rate]+x}" ] || value[learning-rate]=1e-4
settle_length 100 "${phase[@]}"
out=${value[out]}
arguments_of json && json=("${arguments[@]}")
arguments_of seed threads json && prepare=("${prepare_option[@]}" "${arguments[@]}")
[ -z "${value[model]+x}" ] || prepare+=(--tokenizer "${value[model]}")
take_training_options() {
  # shellcheck disable=SC2086  # names, a word each
  arguments_of overwrite resume seed threads $model_options $run_options $schedule_options
  training=("${arguments[@]}")
  for spec in "${phase[@]}"; do training+=(--phase "$spec"); done
  [ ${#ignore_config[@]} -eq 0 ] || training+=(--ignore-config "${ignore_config[@]}")
}
take_training_options

build_programs prepare_text_to_text train_text_to_text predict_text_to_text
programs+=/text_to_text

check() { "$programs/train_text_to_text" --check --out "$out" "${training[@]}" "$@"; }
if [ -z "${value[resume]+x}" ]; then
  # Before minutes of work: options and folder are such that the training can run. Rows of an earlier run are not looked
  # at: they are written anew.
  check --rows "$repository/build/$example/none" >/dev/null
  arguments_of csv packages
  if [ ${#arguments[@]} -eq 0 ]; then
    fetch_packages "$out/packages.txt" || fail "no texts: give --packages FILE, or --csv FILE"
    arguments=(--packages "$out/packages.txt")
  fi
  echo "== preparing rows" >&2
  "$programs/prepare_text_to_text" --out "$out/rows" "${arguments[@]}" "${prepare[@]}"
fi
if [ -e "$out/rows/validation-0.tfrecord" ]; then
  drop_defaults evaluate-every keep-best
  take_training_options
fi
check >&2
echo "== training the model" >&2
"$programs/train_text_to_text" --out "$out" "${training[@]}" "${json[@]}"
echo "== answers for the test rows" >&2
best=$out/best
[ -d "$best" ] || best=$out/model
"$programs/predict_text_to_text" --model "$best" --rows "$out/rows" --out "$out/answers.csv" --show 3 \
  --threads "${value[threads]}" "${json[@]}"
