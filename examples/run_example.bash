# What run.sh of each example shares; sourced, with these set: `repository`; `example`, the name of its folder; `value`,
# the defaults of options by name; and a function `usage`.

# Options of every training program (docs/training_programs.md) that are given to it as they are.
run_options="replicas accumulate weight-decay clip-norm activations shuffle report-every evaluate-every patience keep-best
  keep-best-by checkpoint-every keep-checkpoints watchdog damage max-skipped-records max-skipped-bytes max-skipped-share
  cache-dir cache-bytes trace"
# Those that say how long a phase is and how it goes.
schedule_options="steps epochs optimizer learning-rate start-rate end-rate warmup-steps decay milestones
  milestone-factor freeze"

fail() { echo "run.sh: $*; see examples/$example/run.sh --help" >&2; exit 2; }
default() { echo "Default: ${value[$1]}"; }

# read_options SWITCHES VALUES LISTS ARGUMENTS...: reads `--name X` and `--name=X`. Of names in VALUES the value goes into
# `value`; of those in LISTS, which take one or more up to the next option, into an array of that name with `_` for `-`;
# `is_given` has all that were there.
declare -A is_given=()
read_options() {
  local switches=" $1 " values=" ${2//[$'\n']/ } " lists=" $3 " name joined
  shift 3
  for name in $lists; do declare -ga "${name//-/_}=()"; done
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) usage; exit 0 ;;
      --?*) name=${1#--} ;;
      *) fail "'$1' is not an option" ;;
    esac
    shift
    joined=""
    if [[ $name == *=* ]]; then
      joined=yes
      set -- "${name#*=}" "$@"
      name=${name%%=*}
      [[ $switches != *" $name "* ]] || fail "--$name takes no value"
    fi
    is_given[$name]=yes
    if [[ $switches == *" $name "* ]]; then
      [ "$name ${1-}" != "resume last" ] || shift  # as the programs have it
    elif [[ $values == *" $name "* ]]; then
      [ $# -gt 0 ] && { [[ $1 != --* ]] || [ -n "$joined" ]; } || fail "--$name needs a value"
      value[$name]=$1
      shift
    elif [[ $lists == *" $name "* ]]; then
      [ $# -gt 0 ] || fail "--$name needs a value"
      local -n list=${name//-/_}
      list+=("$1")
      shift
      while [ $# -gt 0 ] && [[ $1 != --* ]]; do
        list+=("$1")
        shift
      done
    else
      fail "unknown option '--$name'"
    fi
  done
}

# need_file NAMES..., need_folder NAMES...: fails where what one of these options names cannot be read, before anything
# is installed and built.
need_file() { need_readable -d "is a folder, not a file" "$@"; }
need_folder() { need_readable -f "is a file, not a folder" "$@"; }
need_readable() {
  local test_of_other=$1 other=$2 name path
  shift 2
  for name in "$@"; do
    [ -n "${is_given[$name]+x}" ] || continue
    local -n list=${name//-/_}  # where the option takes several
    local paths=("${value[$name]-${list[@]}}")
    for path in "${paths[@]}"; do
      [ -e "$path" ] || fail "--$name: '$path' is not there"
      ! test "$test_of_other" "$path" || fail "--$name: '$path' $other"
      [ -r "$path" ] || fail "--$name: '$path' cannot be read"
    done
  done
}

# arguments_of NAMES...: those that have a value or are switches that were given, as arguments, into `arguments`.
arguments_of() {
  local name
  arguments=()
  for name in "$@"; do
    if [ -n "${value[$name]+x}" ]; then
      arguments+=("--$name" "${value[$name]}")
    elif [ -n "${is_given[$name]+x}" ]; then
      arguments+=("--$name")
    fi
  done
}

# What a run with --resume keeps of an earlier one must be of the same options, and not of a run before an --overwrite
# that was stopped: OUT/run_options has the options that decide what is made, and when that began.

# refuse_earlier_run PATHS...: where one of these is there, a run must say what becomes of it.
refuse_earlier_run() {
  local path
  [ -z "${is_given[overwrite]+x}${is_given[resume]+x}" ] || return 0
  for path in "$@"; do
    [ ! -e "$path" ] || fail "$out holds an earlier run; give --resume, --overwrite, or another --out"
  done
}
# options_of_run NAMES...: these options with their values, a line each, into `run_lines`. With --resume they must be
# those of the run in OUT.
options_of_run() {
  local name line earlier
  run_lines=()
  for name in "$@"; do
    local -n list=${name//-/_}  # where the option takes several
    run_lines+=("--$name ${value[$name]-${list[*]-}}")
  done
  [ -n "${is_given[resume]+x}" ] && [ -e "$out/run_options" ] || return 0
  for line in "${run_lines[@]}"; do
    earlier=$(grep -- "^${line%% *} " "$out/run_options") || continue  # the earlier run did not know it
    [ "$line" = "$earlier" ] ||
      fail "the earlier run had '${earlier% }', this one '${line% }'; give the same options with --resume, or --overwrite"
  done
}
# begin_run: writes them.
begin_run() {
  [ -z "${is_given[resume]+x}" ] || [ ! -e "$out/run_options" ] || return 0
  # What is there without that file is of an older version, and stays.
  [ -n "${is_given[resume]+x}" ] || run_lines+=("began $(date +%s.%N)")
  mkdir -p "$out"
  printf '%s\n' "${run_lines[@]}" >"$out/run_options.new"
  mv "$out/run_options.new" "$out/run_options"
}
# is_older PATH: it is there, and was before this run began. What is copied later is not older.
is_older() {
  local began
  [ -e "$1" ] && [ -e "$out/run_options" ] && began=$(sed -n 's/^began //p' "$out/run_options") && [ -n "$began" ] &&
    [ -n "$(find "$1" -maxdepth 0 ! -newermt "@$began")" ]
}
# is_kept PATH: with --resume, it is whole, of this run, and not to be made anew.
is_kept() { [ -n "${is_given[resume]+x}" ] && [ -e "$1" ] && ! is_older "$1"; }
# go_on_in FOLDER: how a training in it begins, into `going_on`.
go_on_in() {
  going_on=()
  [ -z "${is_given[overwrite]+x}" ] || going_on=(--overwrite)
  [ -n "${is_given[resume]+x}" ] || return 0
  going_on=(--resume last)
  ! is_older "$1/checkpoints" || going_on=(--overwrite)
}

# drop_defaults NAMES...: of these, those that nobody has given.
drop_defaults() {
  local name
  for name in "$@"; do [ -n "${is_given[$name]+x}" ] || unset "value[$name]"; done
}

# refuse_given WHY NAMES...: fails where one of these was given.
refuse_given() {
  local why=$1 name
  shift
  for name in "$@"; do [ -z "${is_given[$name]+x}" ] || fail "--$name $why"; done
}

# settle_length STEPS PHASES...: the default of --steps goes where --epochs is given, or each of the PHASES says its own
# length. The warm-up, where none is given, is that many STEPS at most, and 5% of them where the length is not in steps;
# with --decay milestones there is none.
settle_length() {
  local warmup=$1 phase counts=steps
  shift
  if [ -n "${is_given[epochs]+x}" ]; then counts=epochs; fi
  if [ $# -gt 0 ]; then
    counts=phases
    for phase in "$@"; do [[ ,$phase =~ ,(steps|epochs)= ]] || counts=share; done
  fi
  if [ -z "${is_given[steps]+x}" ] && { [ -n "${is_given[epochs]+x}" ] || [ $counts = phases ]; }; then
    unset 'value[steps]'
  fi
  if [ $counts != steps ]; then
    warmup=5%
  elif [[ ${value[steps]} =~ ^[0-9]{1,9}$ ]] && [ "${value[steps]}" -lt "$warmup" ]; then
    warmup=${value[steps]}
  fi
  [ "${value[decay]-}" = milestones ] || value[warmup-steps]=${value[warmup-steps]-$warmup}
}

# build_programs NAMES...: installs what is missing, builds; `programs` is the folder with those of all examples.
build_programs() {
  local build="$repository/build/$example"
  echo "== setting up" >&2
  "$repository/setup.sh" >&2
  mkdir -p "$build"
  echo "== building" >&2
  cmake -S "$repository" -B "$build" -DMILLRACE_BUILD_BENCHMARKS=OFF -DMILLRACE_BUILD_TESTS=OFF \
    >"$build/configure.log" || { cat "$build/configure.log" >&2; exit 1; }
  cmake --build "$build" --parallel "$(nproc)" --target "$@" >&2
  programs="$build/examples"
}

# fetch_packages FILE
fetch_packages() {
  echo "== fetching package lists" >&2
  "$repository/examples/packages/fetch.sh" --out "$1" >&2
}
