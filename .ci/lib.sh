# shellcheck shell=bash disable=SC2034
# What run and nightly share: the tools and their versions, the steps, and the
# clock beside them. Sourced, never run. Needs bash 5.

# The one place where the versions of the tools stand. They are built from
# source into .ci/bin, so neither go.mod nor the machine has to know them.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
golangci_lint=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0
cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

exec 2>&1 # one order for what the tools print
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export GOBIN=$root/.ci/bin
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" # a checkout owned by someone else has no VCS stamp
export PILOTGO_REQUIRE=${PILOTGO_REQUIRE:-}
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# system PROGRAM PACKAGE... installs Debian's packages unless the program is there.
system() {
  command -v "$1" >/dev/null && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${@:2}"
}

# tool PATH@VERSION builds a tool unless this version of it is in .ci/bin.
tool() {
  local name=${1%@*}
  name=${name##*/}
  go version -m "$GOBIN/$name" 2>/dev/null | grep -q "^	mod	.*	${1#*@}	" && return
  go install "$1"
}

# build VERSION OS ARCH FOLDER builds the programs as they are released.
build() {
  CGO_ENABLED=0 GOOS=$2 GOARCH=$3 go build -trimpath -o "$4/" \
    -ldflags "-s -w -buildid= -X github.com/pilotgo/pilotgo/internal/cli.release=$1" ./cmd/...
}

# same builds the programs twice, in two folders and with nothing kept between,
# and compares them byte by byte.
same() {
  local program host
  host="$(go env GOOS) $(go env GOARCH)"
  mkdir "$tmp/first" "$tmp/second" "$tmp/elsewhere"
  git ls-files -z | xargs -0 cp --parents -t "$tmp/elsewhere"
  # shellcheck disable=SC2086 # two words
  build v0.0.0 $host "$tmp/first"
  # shellcheck disable=SC2086
  (cd "$tmp/elsewhere" && GOCACHE=$tmp/cache build v0.0.0 $host "$tmp/second")
  for program in "$tmp"/first/*; do
    cmp "$program" "$tmp/second/$(basename "$program")"
    sha256sum "$program"
  done
}

# modules prints the folder of each module: the root first, then the nested ones.
modules() {
  echo .
  nested
}

nested() {
  git ls-files -co --exclude-standard '*/go.mod' | grep -v testdata/ | xargs -r dirname
}

# every COMMAND... runs a command in each module.
every() {
  local dir
  for dir in $(modules); do
    (cd "$dir" && "$@")
  done
}

# tests REGEXP prints "package name" for each test or fuzz target that matches.
tests() {
  local list
  list=$(go test -vet=off -list "$1" ./...) || { echo "$list"; return 1; } >&2
  awk '/^(Test|Fuzz)/ { names[n++] = $1 }
       /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' <<<"$list"
}

# fuzz TIME runs every fuzz target that long, one after another. A target says
# one line, or everything when it found something, with the input that did it.
fuzz() {
  local targets pkg name log=$tmp/fuzz.log failed=0
  targets=$(tests '^Fuzz')
  while read -r pkg name; do
    [ -n "$name" ] || continue
    if go test -run '^$' -fuzz "^$name\$" -fuzztime "$1" -fuzzminimizetime 1s "$pkg" >"$log" 2>&1 </dev/null || only_late; then
      printf '%s %s:%s\n' "${pkg#*/*/*/}" "$name" "$(grep '^fuzz: elapsed' "$log" | tail -n 1 | cut -d, -f2-)"
    else
      failed=1
      cat "$log"
      sed -n 's/.*Failing input written to //p' "$log" | while read -r input; do
        (cd "$(go list -f '{{.Dir}}' "$pkg")" && tail -n +1 "$input")
      done
    fi
  done <<<"$targets"
  return "$failed"
}

# only_late tells whether fuzzing failed by the race of go.dev/issue/75804
# alone: the end of -fuzztime taken for an error. Go 1.27 has it mended.
only_late() {
  grep -q '^ *context deadline exceeded$' "$log" && ! grep -qE 'Failing input|^panic:' "$log"
}

report=() failures=() began=$SECONDS

# step NAME COMMAND... runs a command and goes on when it fails: one run shows
# all that is wrong. A step that is a function runs under set -e: that is why
# the call stands alone and not in a condition, where bash would ignore it.
step() {
  local name=$1 start=$SECONDS code
  shift
  printf '\n=== %s\n' "$name"
  set +e
  (set -e; "$@")
  code=$?
  set -e
  report+=("$(printf '%-12s %5ds  %s' "$name" $((SECONDS - start)) "$( ((code == 0)) && echo ok || echo FAILED)")")
  ((code == 0)) || failures+=("$name")
}

# finish prints the time of each step and ends the run.
finish() {
  printf '\n=== times\n'
  printf '%s\n' "${report[@]}"
  printf '%-12s %5ds\n' total $((SECONDS - began))
  [ ! -s "$tmp/test.log" ] || { printf '\n=== tests\n'; grep -E '^(ok|FAIL|---|panic:)' "$tmp/test.log" || true; }
  ((${#failures[@]} == 0)) || { printf '\nfailed: %s\n' "${failures[*]}"; exit 1; }
}
