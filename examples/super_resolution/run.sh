#!/usr/bin/env bash
# From photographs to a model that makes pictures 4 times larger: installs what is missing, builds the programs, then
# shards, two phases of training, the interpolation of both, a small student, figures and crops to look at. See --help.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
example=super_resolution

# What is given to the programs unless it is set here: models that learn within minutes on two cores.
declare -A value=([out]="$repository/examples/super_resolution/out" [seed]=42 [threads]=0 [crop]=64 [stride]=32
  [shrink]=4 [blocks]=2 [steps]=3000 [learning-rate]=1e-3 [gan-steps]=500 [gan-learning-rate]=1e-4 [student-channels]=32
  [student-steps]=2000 [student-learning-rate]=2e-3 [student-gan-steps]=0 [student-gan-learning-rate]=5e-5 [alpha]=0.8 [global-batch]=8 [report-every]=100
  [checkpoint-every]=250)
source "$repository/examples/run_example.bash"

usage() {
  cat <<TEXT
usage: examples/super_resolution/run.sh [options]
  --pictures FILES...    pictures to learn from, JPEG or PNG, and folders of such. Default: 12 photographs of nature of
                         Debian's mate-backgrounds, which is installed for it
  --held-out NAMES...    pictures, by their names without ending, that nothing learns from: figures are of these. Default:
                         three of the photographs; with --pictures none, and no figures
  --out DIR              everything goes here: shards/, phase1/, phase2/, model/, student/, looks/. Default:
                         examples/super_resolution/out
  --overwrite            replace the models of an earlier run in DIR
  --resume               go on in DIR with the same options: shards and models that are whole stay, and a training that
                         was stopped goes on
  --threads N            Default: 0, one for each core. The result does not depend on it
  --seed N               $(default seed)
  --json                 each program prints one JSON object
shards: more about them in prepare_super_resolution --help
  --crop N               pixels of a crop's side. $(default crop)
  --stride N             $(default stride); with --preset original that of a crop
  --crops-per-picture N  at random places, in place of a grid
  --shrink N             first make pictures so many times smaller. $(default shrink); with --pictures 1
  --preset NAME          original: crops of 512 pixels, ESRGAN's generator, and the original's steps and rates
models
  --features FILE        a VGG with torchvision's names, safetensors: of the perceptual loss and the figures. Default: a
                         small one of random weights
  --blocks N             residual-in-residual dense blocks of the generator. $(default blocks)
  --steps N              of the first phase, on the mean absolute error. $(default steps)
  --learning-rate X      of the first phase; half of it after one and two thirds of its steps. $(default learning-rate)
  --gan-steps N          of the second, with a discriminator. $(default gan-steps)
  --gan-learning-rate X  half of it after half and three quarters of its steps. $(default gan-learning-rate)
  --student-channels N   $(default student-channels)
  --student-steps N      $(default student-steps)
  --student-gan-steps N  then so many with a discriminator, to make what the model makes, into student2/; 0: none.
                         $(default student-gan-steps)
  --student-learning-rate X  half of it after half and three quarters of its steps. $(default student-learning-rate)
  --student-gan-learning-rate X  $(default student-gan-learning-rate)
  --alpha X              the share of the second phase's weights in the model, 0 to 1. $(default alpha)
  --global-batch N       $(default global-batch)
  --replicas N           parts that it is split into; those that run at once, one for each thread, decide the memory. A
                         discriminator needs two rows in each. Default: with one 2, without 8; with --preset original 16
  --report-every N       $(default report-every)
  --checkpoint-every N   $(default checkpoint-every)
TEXT
}

read_options "overwrite resume json" "out threads seed crop stride crops-per-picture shrink preset features blocks steps
  learning-rate gan-steps gan-learning-rate student-channels student-steps student-learning-rate student-gan-steps
  student-gan-learning-rate alpha global-batch replicas report-every checkpoint-every" "pictures held-out" "$@"
out=${value[out]}
need_file features
[ -z "${is_given[overwrite]+x}" ] || [ -z "${is_given[resume]+x}" ] || fail "--overwrite begins anew, and --resume goes on"
for path in "${pictures[@]}"; do [ -r "$path" ] || fail "--pictures: '$path' is not there, or cannot be read"; done
if [ -n "${value[preset]+x}" ]; then
  [ "${value[preset]}" = original ] || fail "--preset is '${value[preset]}', must be original"
  refuse_given "is what --preset has" crop
  drop_defaults crop stride shrink
  for pair in blocks=11 steps=600000 learning-rate=2e-4 gan-steps=400000 gan-learning-rate=5e-5 student-channels=32 \
    student-steps=400000 student-learning-rate=2e-4 student-gan-steps=400000 global-batch=32 replicas=16; do
    [ -n "${is_given[${pair%%=*}]+x}" ] || value[${pair%%=*}]=${pair#*=}
  done
fi
for name in steps gan-steps student-steps; do
  [[ ${value[$name]} =~ ^[0-9]{1,12}$ ]] && [ "${value[$name]}" -ge 4 ] || fail "--$name is '${value[$name]}', must be at least 4"
done
[[ ${value[student-gan-steps]} =~ ^(0|[4-9]|[1-9][0-9]{1,11})$ ]] ||
  fail "--student-gan-steps is '${value[student-gan-steps]}', must be 0 or at least 4"
# Of the preset, where the batch has not two rows for each.
if [ -z "${is_given[replicas]+x}" ] && [ -n "${value[replicas]+x}" ] && [[ ${value[global-batch]} =~ ^[1-9][0-9]{0,8}$ ]] &&
  [ "${value[global-batch]}" -lt $((2 * value[replicas])) ]; then
  value[replicas]=$((value[global-batch] > 2 ? value[global-batch] / 2 : 1))
fi
gan_replicas=${value[replicas]-2}
[[ "${value[global-batch]} $gan_replicas" =~ ^[1-9][0-9]{0,8}\ [1-9][0-9]{0,8}$ ]] &&
  [ "${value[global-batch]}" -ge $((2 * gan_replicas)) ] ||
  fail "--global-batch is '${value[global-batch]}' and --replicas '$gan_replicas'; a discriminator needs two rows in each"
photographs=/usr/share/backgrounds/mate/nature
if [ ${#pictures[@]} -eq 0 ]; then
  pictures=("$photographs")
  [ ${#held_out[@]} -gt 0 ] || held_out=(GreenMeadow LadyBird YellowFlower)
else
  drop_defaults shrink
fi
arguments_of threads json && common=("${arguments[@]}")
arguments_of seed && seed=("${arguments[@]}")
options_of_run pictures held-out crop stride crops-per-picture shrink preset features blocks steps learning-rate gan-steps \
  gan-learning-rate student-channels student-steps student-learning-rate student-gan-steps \
  student-gan-learning-rate global-batch replicas seed
refuse_earlier_run "$out/phase1"

build_programs prepare_super_resolution train_super_resolution distill_super_resolution interpolate_super_resolution \
  upscale_super_resolution measure_super_resolution
programs+=/super_resolution
begin_run
[ "${pictures[0]}" != "$photographs" ] || "$repository/setup.sh" --photographs >&2

# Of the pictures those that are held out.
measured=()
for path in "${pictures[@]}"; do
  files=("$path")
  [ ! -d "$path" ] || files=("$path"/*)
  for file in "${files[@]}"; do
    name=${file##*/}
    [[ ${name,,} =~ \.(jpg|jpeg|png)$ ]] || continue
    for held in "${held_out[@]}"; do
      [ "${name%.*}" = "$held" ] || continue
      for other in "${measured[@]}"; do
        other=${other##*/}
        [ "${other%.*}" != "$held" ] || fail "--held-out: two pictures are called $held"
      done
      measured+=("$file")
    done
  done
done

if ! is_kept "$out/shards/statistics.json"; then
  echo "== cutting pictures" >&2
  arguments_of crop stride crops-per-picture shrink preset
  [ ${#held_out[@]} -eq 0 ] || arguments+=(--held-out "${held_out[@]}")
  "$programs/prepare_super_resolution" --pictures "${pictures[@]}" --out "$out/shards" "${arguments[@]}" "${seed[@]}" \
    "${common[@]}"
fi

arguments_of global-batch replicas report-every checkpoint-every
training=(--shards "$out/shards" "${arguments[@]}" "${seed[@]}" "${common[@]}")
# A replica compares its real images with the mean of its made ones.
gan=(--gan)
[ -n "${value[replicas]+x}" ] || gan+=(--replicas "$gan_replicas")
# ESRGAN's generator has no bicubic image to start from, and learns in days.
generator=(--add-bicubic)
[ -z "${value[preset]+x}" ] || generator=()
# phase NAME FOLDER A B PARTS: into `phase` folder, steps and rate of a training, which is halved after A and B PARTS of
# the steps.
phase() {
  local steps=${value[${1}steps]} rate=${value[${1}learning-rate]}
  go_on_in "$out/$2"
  phase=(--out "$out/$2" --steps "$steps" --learning-rate "$rate" --decay milestones
    --milestones "$((steps * $3 / $5)):$((steps * $4 / $5))" "${going_on[@]}")
}
if ! is_kept "$out/phase1/model"; then
  echo "== first phase: mean absolute error" >&2
  phase "" phase1 1 2 3
  "$programs/train_super_resolution" --blocks "${value[blocks]}" "${generator[@]}" "${phase[@]}" "${training[@]}"
fi
if ! is_kept "$out/phase2/model"; then
  echo "== second phase: with a discriminator" >&2
  phase gan- phase2 2 3 4
  arguments_of features
  "$programs/train_super_resolution" "${gan[@]}" --model "$out/phase1/model" --blocks "${value[blocks]}" \
    "${generator[@]}" "${phase[@]}" "${arguments[@]}" "${training[@]}"
fi
echo "== interpolating both" >&2
"$programs/interpolate_super_resolution" --first "$out/phase1/model" --second "$out/phase2/model" \
  --alpha "${value[alpha]}" --out "$out/model" --overwrite
student=(--channels "${value[student-channels]}" --growth "${value[student-channels]}" "${generator[@]}")
students=("student=$out/student/model")
if ! is_kept "$out/student/model"; then
  echo "== the student" >&2
  phase student- student 2 3 4
  # In so few steps it learns more by the mean absolute error.
  error=(--absolute 1 --squared 0)
  [ -z "${value[preset]+x}" ] || error=()
  "$programs/distill_super_resolution" --teacher "$out/phase1/model" "${student[@]}" "${error[@]}" "${phase[@]}" \
    "${training[@]}"
fi
if [ "${value[student-gan-steps]}" != 0 ]; then
  students+=("student2=$out/student2/model")
  if ! is_kept "$out/student2/model"; then
    echo "== the student, with a discriminator" >&2
    phase student-gan- student2 2 3 4
    arguments_of features
    "$programs/distill_super_resolution" "${gan[@]}" --model "$out/student/model" --teacher "$out/model" \
      "${student[@]}" "${phase[@]}" "${arguments[@]}" "${training[@]}"
  fi
fi

[ ${#measured[@]} -gt 0 ] || exit 0
echo "== figures of the pictures that were held out" >&2
arguments_of shrink
"$programs/measure_super_resolution" --pictures "${measured[@]}" --model "phase1=$out/phase1/model" \
  "phase2=$out/phase2/model" "interpolated=$out/model" "${students[@]}" \
  --features "${value[features]-$out/phase2/model/features.safetensors}" --save "$out/looks" "${arguments[@]}" \
  "${common[@]}"
echo "== the first of them, made 4 times smaller, larger again" >&2
name=${measured[0]##*/}
"$programs/upscale_super_resolution" --model "$out/model" "$out/looks/${name%.*}.small.png" "$out/larger.png" \
  "${common[@]}"
