# SPDX-License-Identifier: Apache-2.0
# Steps that several commands of ./dev use. A script sources this file first; after that the current
# folder is the root of the repository.
# shellcheck shell=bash
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)
cd -- "$root"

say() { printf '\033[1m==\033[0m %s\n' "$*"; }
fail() { printf 'dev: %s\n' "$*" >&2; exit 1; }

# minutes BUILD REST: prints an estimate of the duration on this machine, if the build takes BUILD
# minutes on one core, and the rest REST minutes on any.
minutes() { echo $((($1 + jobs - 1) / jobs + $2)); }

# cpu_seconds: prints the CPU seconds of all commands so far that this shell has waited for.
cpu_seconds() {
    local -a fields
    read -ra fields <"/proc/$$/stat"
    echo $(((fields[15] + fields[16]) / $(getconf CLK_TCK)))
}

# phase NAME COMMAND...: runs the command and prints how long it took. Must not be called in a
# condition: bash would disable errexit inside.
running=
phase() {
    local start=$SECONDS cpu
    cpu=$(cpu_seconds)
    running=$1
    say "$running"
    "${@:2}"
    say "$running: $((SECONDS - start)) s, $(($(cpu_seconds) - cpu)) CPU s"
    running=
}
trap '[ -z "$running" ] || say "$running failed $SECONDS s after the start" >&2' EXIT

# configure [programs]: configures build/ with the tests. With `programs`, only if they are there already, because the
# tests need more packages.
configure() {
    local tests=ON
    [ $# -eq 0 ] || grep -qs '^C10DD_BUILD_TESTS:BOOL=ON' build/CMakeCache.txt || tests=OFF
    cmake --preset release --log-level=NOTICE -DC10DD_BUILD_TESTS=$tests
}

build() {
    local -a targets=()
    [ $# -eq 0 ] || targets=(--target "$@")
    cmake --build --preset release --parallel "$jobs" "${targets[@]}"
}

tidy() {
    python3 -B tests/tidy.py
    python3 -B tests/pages.py
}
