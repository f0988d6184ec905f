#!/usr/bin/env bash
# The package lists of Debian as one file of text: what the examples are trained on where nothing else is given. See
# --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: examples/packages/fetch.sh --out FILE [--lists DIR]
  --out FILE    the file that is written, whole or not at all; one that is there is left as it is
  --lists DIR   read apt's lists in DIR (with Translation-en, such as /var/lib/apt/lists) and fetch nothing
Fetches the lists of this machine's sources (some 16 MB) into a folder of its own; the system's stay as they are. FILE
then has one paragraph for each package, in the form of a Debian control file:
  Package: NAME  Source: NAME  Section: NAME  Tag: facet::tag, ...   the last one only where somebody tagged it
  Description: SYNOPSIS, and the long description in lines that begin with a space, paragraphs apart by " ."
TEXT
}
fail() { echo "fetch.sh: $*" >&2; exit 1; }

out="" given=""
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --out | --lists)
      [ $# -ge 2 ] && [ -n "$2" ] || { echo "fetch.sh: $1 needs a value" >&2; exit 2; }
      [ "$1" = --out ] && out=$2 || given=$2
      shift 2
      ;;
    *) echo "fetch.sh: unknown argument '$1'; see examples/packages/fetch.sh --help" >&2; exit 2 ;;
  esac
done
[ -n "$out" ] || { echo "fetch.sh: --out is missing; see examples/packages/fetch.sh --help" >&2; exit 2; }
[ ! -e "$out" ] || { echo "fetch.sh: $out is there already" >&2; exit 0; }
[ -x /usr/lib/apt/apt-helper ] || fail "no apt here: run this on a Debian machine and give its FILE with --packages"

mkdir -p "$(dirname "$out")"
work=$(mktemp -d)
trap 'rm -rf "$work" "$out.new"' EXIT
mkdir -p "$work/cache/archives/partial"
if [ -n "$given" ]; then
  lists=$(cd "$given" && pwd) || fail "no folder $given"
else
  lists=$work/lists
  mkdir -p "$lists/partial"
fi
apt=(-o Acquire::Languages=en -o "Dir::State::Lists=$lists" -o "Dir::Cache=$work/cache")
if [ -z "$given" ]; then
  chmod 755 "$work"
  if ! apt-get "${apt[@]}" -o APT::Update::Error-Mode=any update >"$work/log" 2>&1; then
    { grep -E '^[EW]:' "$work/log" || true; } | head -n 3 >&2
    fail "apt cannot fetch the package lists. Where it can: examples/packages/fetch.sh --out FILE; then give FILE with
  --packages"
  fi
fi
shopt -s nullglob
translations=("$lists"/*Translation-en*)
[ ${#translations[@]} -gt 0 ] || fail "no Translation-en in $lists, so no package has a description; fetch.sh without
  --lists fetches them"
{ /usr/lib/apt/apt-helper cat-file "${translations[@]}" >"$work/translations" &&
  apt-cache "${apt[@]}" dumpavail >"$work/packages"; } 2>"$work/log" ||
  fail "the lists in $lists are cut or of another form: $(
    sed -n '/^E: /{s///p;q}' "$work/log" | grep . || head -n 1 "$work/log"
  )"

# Long descriptions are found by the digest that both lists have. Of several versions of a package the first counts.
LC_ALL=C awk -v out="$out.new" '
  function field(name) { return index($0, name ": ") == 1 ? substr($0, length(name) + 3) : "" }
  function finish() {
    is_new = package != "" && section != "" && digest != "" && !(package in seen)
    if (is_new && !(digest in text)) without++
    else if (is_new) {
      seen[package] = 1
      if (source == "") source = package
      sub(/ .*/, "", source)
      sub(/.*\//, "", section)
      printf "Package: %s\nSource: %s\nSection: %s\n", package, source, section > out
      if (tags != "") printf "Tag: %s\n", tags > out
      printf "Description: %s\n", text[digest] > out
      packages++
      if (tags != "") tagged++
    }
    package = source = section = tags = digest = ""
    in_tags = 0
  }
  FNR == 1 { if (file++ == 1) is_whole = before == "" }
  { before = $0 }
  file == 1 {
    if ($0 == "") { key = ""; in_text = 0 }
    else if (/^Description-md5: /) key = substr($0, 18)
    else if (/^Description-en: /) { if (key != "") text[key] = substr($0, 17) "\n"; in_text = key != "" }
    else if (/^ / && in_text) text[key] = text[key] $0 "\n"
    else in_text = 0
    next
  }
  $0 == "" { finish(); next }
  /^ / { if (in_tags) { sub(/^ +/, ""); tags = tags " " $0 } next }
  { in_tags = 0 }
  /^Package: / { package = field("Package") }
  /^Source: / { source = field("Source") }
  /^Section: / { section = field("Section") }
  /^Description-md5: / { digest = field("Description-md5") }
  /^Tag: / { tags = field("Tag"); in_tags = 1 }
  END {
    finish()
    printf "%d packages, %d of them tagged", packages, tagged
    print without ? ", " without " without a description left out" : ""
    if (packages == 0) exit 2
    # Lists of others may come without descriptions. Of Debian all have one.
    if (!is_whole || without > packages / 20) exit 3
  }' "$work/translations" "$work/packages" >"$work/counts" || case $? in
  2) fail "the lists in $lists have no package with a description: they are of another form" ;;
  3) fail "Translation-en in $lists is cut: packages of the lists have no description in it" ;;
  *) fail "the lists in $lists cannot be read" ;;
esac
mv "$out.new" "$out"
echo "$out: $(cat "$work/counts")"
