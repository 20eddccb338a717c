# SPDX-License-Identifier: Apache-2.0
# The steps that several commands of ./dev take. A script sources this file first; afterwards the
# current folder is the root of the repository.
# shellcheck shell=bash
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)
cd -- "$root"

say() { printf '\033[1m==\033[0m %s\n' "$*"; }
fail() { printf 'dev: %s\n' "$*" >&2; exit 1; }

# minutes BUILD REST: about how many it takes here, if one core builds for so many minutes.
minutes() { echo $((($1 + jobs - 1) / jobs + $2)); }

# phase NAME COMMAND...: runs it and says how long it took. Called plainly, never in a condition,
# so that errexit holds inside.
running=
phase() {
    local start=$SECONDS
    running=$1
    say "$running"
    "${@:2}"
    say "$running: $((SECONDS - start)) s"
    running=
}
trap '[ -z "$running" ] || say "$running: failed after $SECONDS s in all" >&2' EXIT

configure() { cmake --preset release --log-level=NOTICE -DC10DD_BUILD_TESTS="${1:-ON}"; }

build() {
    local -a targets=()
    [ $# -eq 0 ] || targets=(--target "$@")
    cmake --build --preset release --parallel "$jobs" "${targets[@]}"
}

tidy() { python3 -B tests/tidy.py; }
