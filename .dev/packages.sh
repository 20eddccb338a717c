# SPDX-License-Identifier: Apache-2.0
# The Debian 12 packages that each command needs, and the functions that install those that are
# missing. A script sources this file after steps.sh.
# shellcheck shell=bash

packages_to_demo=(
    ccache cmake g++ ninja-build python3
    libboost1.81-dev libboost-json1.81-dev libcli11-dev libeigen3-dev libgloo-dev libjemalloc-dev
    libfmt-dev librocksdb-dev libspdlog-dev libtomlplusplus-dev libxxhash-dev prometheus-cpp-dev)
packages_to_build=("${packages_to_demo[@]}" git libhiredis-dev libnghttp2-dev libopenmpi-dev libssl-dev)
packages_to_wheel=(python3-venv python3-wheel)
packages_to_torch=(python3-torch python3-numpy)
packages_to_test=(
    curl etcd-server iproute2 libgtest-dev openmpi-bin prometheus python3-cryptography python3-jwt python3-venv
    python3-wheel redis-server sslscan strace systemd valgrind
    "${packages_to_torch[@]}")
packages_to_check=(clang-format-14 clang-tidy-14)
packages_to_fuzz=(clang-14 libclang-rt-14-dev)
# Packages that contain a service, and the name of the service. The services are not needed: the
# tests and the demo start their own servers, on free ports.
declare -A services=([etcd-server]=etcd [prometheus]=prometheus [redis-server]=redis-server)

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing_of() {
    local package
    for package in "$@"; do installed "$package" || printf '%s\n' "$package"; done
}

# Prints the size of these packages and their dependencies, as apt-get reports it; nothing if
# apt-get has no package lists yet.
say_size() {
    apt-get -o Debug::NoLocking=1 --assume-no install --no-install-recommends "$@" 2>/dev/null |
        grep -E '^(Need to get|After this operation)' || true
}

# Installs packages, as root. Starts no service (by a policy-rc.d that forbids it), and disables the
# services that were not installed before. Restores an earlier policy, also when it is interrupted.
install_packages() {
    local policy=/usr/sbin/policy-rc.d saved=/usr/sbin/policy-rc.d.before-c10dd package
    local -a new_services=()
    for package in "${!services[@]}"; do installed "$package" || new_services+=("$package"); done
    restore() {
        rm -f "$policy"
        [ ! -e "$saved" ] || mv "$saved" "$policy"
    }
    if [ -e "$saved" ]; then restore; fi
    if [ -e "$policy" ]; then mv "$policy" "$saved"; fi
    trap restore EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update || say "apt-get update failed; using the existing package lists"
    say_size "$@"
    apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install --no-install-recommends "$@"
    restore
    trap - EXIT
    for package in "${new_services[@]}"; do
        if installed "$package" && command -v systemctl >/dev/null; then
            systemctl --quiet disable "${services[$package]}"
            say "the service ${services[$package]} is installed, but not started, and disabled"
        fi
    done
}

setup() {
    command -v dpkg-query >/dev/null ||
        fail "setup supports only Debian 12; on this system, install the equivalents of: $*"
    local -a missing=()
    mapfile -t missing < <(missing_of "$@")
    if [ ${#missing[@]} -eq 0 ]; then
        echo "all $# packages are installed"
        return 0
    fi
    echo "installing ${#missing[@]} of $# packages: ${missing[*]}"
    if installed libboost1.74-dev; then
        echo "libboost1.74-dev conflicts with libboost1.81-dev: apt-get will replace libboost1.74-dev"
    fi
    if [ "$(id -u)" -eq 0 ]; then
        (install_packages "${missing[@]}")
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
        sudo "$root/.dev/install-as-root" "${missing[@]}"
    else
        say_size "${missing[@]}"
        fail "neither root nor sudo is available; ask an administrator to run: apt-get install --no-install-recommends ${missing[*]}"
    fi
    mapfile -t missing < <(missing_of "$@")
    [ ${#missing[@]} -eq 0 ] || fail "apt-get did not install these packages: ${missing[*]}"
}

setup_to_run() { setup "${packages_to_build[@]}" "${packages_to_test[@]}"; }
setup_to_fuzz() { setup "${packages_to_build[@]}" "${packages_to_test[@]}" "${packages_to_fuzz[@]}"; }
setup_all() { setup "${packages_to_build[@]}" "${packages_to_test[@]}" "${packages_to_check[@]}"; }
