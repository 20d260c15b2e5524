#!/bin/sh
# Runs a compiler under ccache so that another clone of the same sources finds what this one compiled: paths are relative
# to SOURCES, and what stands in for a precompiled header, which holds absolute ones, is a checksum of all that went into
# it.  usage: compile_cached.sh SOURCES CCACHE COMPILER ARGUMENT...
# SPDX-License-Identifier: Apache-2.0
set -u
sources=$1
shift
export CCACHE_BASEDIR="$sources" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
# ccache leaves alone what is for the compiler's inside, such as the name of the header that a precompiled one was made of.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  case "$argument" in
    "$PWD"/*/cmake_pch.hxx*) argument=${argument#"$PWD"/} ;;
  esac
  set -- "$@" "$argument"
  count=$((count - 1))
done
case " $* " in
  *" -emit-pch "*) ;;
  *) exec "$@" ;;
esac
header= dependencies= before=
for argument; do
  case "$before" in
    -o) header=$argument ;;
    -MF) dependencies=$argument ;;
  esac
  before=$argument
done
rm -f "$header.sum"
unset CCACHE_BASEDIR CCACHE_NOHASHDIR # the header itself is of use in this folder alone
"$@" || exit
# Without the checksum, as where a name has a space or nothing lists what was read, ccache looks into the header itself.
from_here() { sed "s|$sources|.|g"; }
what() {
  printf '%s\n' "$*" | from_here
  sed -e 's/^[^:]*: *//' -e 's/\\$//' "$dependencies" | tr -s ' ' '\n' | sed '/^$/d' | xargs -d '\n' sha256sum | from_here
}
if [ -s "$dependencies" ] && ! grep -q '\\ ' "$dependencies" && content=$(what "$@") && [ -n "$content" ]; then
  printf '%s\n' "$content" | sha256sum >"$header.sum"
fi
