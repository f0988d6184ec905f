#!/usr/bin/env bash
# From pictures in folders to a head that tells their classes: installs what is missing, builds the two programs, then
# features of a frozen network, training, what the head says of pictures it has not seen. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
example=frozen_features

# What is given to the programs unless it is set here.
declare -A value=([out]="$repository/examples/frozen_features/out" [seed]=42 [threads]=0 [size]=96 [steps]=5000)
clipart=/usr/share/openclipart/png
source "$repository/examples/run_example.bash"

usage() {
  cat <<TEXT
usage: examples/frozen_features/run.sh [options]
  --pictures DIR         a folder for each class, with .png and .jpg files in it and below. Default: Debian's package
                         openclipart-png, which is installed then: its 8 largest folders without unsorted, 150 pictures
                         of each
  --features FILE        the frozen network: a VGG without batch norm, as safetensors with torchvision's names. Default: a
                         small one with random weights
  --out DIR              everything goes here: features/, checkpoints/, model/. Default: examples/frozen_features/out
  --overwrite            replace the checkpoints and the model of an earlier run in DIR
  --resume               go on in DIR with the same options: features that are whole stay, and a training that was
                         stopped goes on
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               $(default seed)
  --json                 each program prints one JSON object
features: more about them in prepare_frozen_features --help
  --classes N            so many folders, those with the most pictures. Default of --pictures: all
  --without NAMES...     folders that are no classes. Default of --pictures: none
  --pictures-per-class N Default of --pictures: all
  --test-share X         of each class, to test on. Default: 0.2
  --size N               pixels of a side of what the network sees. $(default size); for --features 224
  --background COLOUR    white or black, laid under pixels that are not opaque. Default: white
  --damage MODE          fail or skip: what is done about pictures that cannot be decoded. Default of --pictures: fail;
                         the package has one of 623 million pixels, which is left out
training: more about them, with the defaults, in train_frozen_features --help
  --steps N              $(default steps)
  --global-batch N  --replicas N  --shuffle N  --learning-rate X  --weight-decay X  --checkpoint-every N  --report-every N
TEXT
}

training_options="steps global-batch replicas shuffle learning-rate weight-decay checkpoint-every report-every"
prepare_options="classes pictures-per-class test-share size background damage features"
read_options "overwrite resume json" "pictures out threads seed $prepare_options $training_options" without "$@"
need_folder pictures
need_file features
[ -z "${is_given[overwrite]+x}" ] || refuse_given "goes on, and --overwrite begins anew" resume
out=${value[out]}
if [ -n "${is_given[features]+x}" ] && [ -z "${is_given[size]+x}" ]; then value[size]=224; fi
if [ -z "${is_given[pictures]+x}" ]; then
  value[pictures]=$clipart
  value[classes]=${value[classes]-8}
  value[pictures-per-class]=${value[pictures-per-class]-150}
  value[damage]=${value[damage]-skip}
  [ -n "${is_given[without]+x}" ] || without=(unsorted)
fi
# shellcheck disable=SC2086  # names, a word each
arguments_of pictures seed threads json $prepare_options && prepare=("${arguments[@]}")
[ ${#without[@]} -eq 0 ] || prepare+=(--without "${without[@]}")
# shellcheck disable=SC2086
arguments_of seed threads json $training_options && training=("${arguments[@]}")
# shellcheck disable=SC2086
options_of_run pictures without seed $prepare_options

refuse_earlier_run "$out/model" "$out/checkpoints"
build_programs prepare_frozen_features train_frozen_features
programs+=/frozen_features
begin_run
if ! is_kept "$out/features/statistics.json"; then
  [ "${value[pictures]}" != "$clipart" ] || "$repository/setup.sh" --pictures >&2
  echo "== features of the pictures" >&2
  "$programs/prepare_frozen_features" --out "$out/features" "${prepare[@]}"
fi
echo "== training the head" >&2
go_on_in "$out"
"$programs/train_frozen_features" --out "$out" "${training[@]}" "${going_on[@]}"
