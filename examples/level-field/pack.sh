#!/bin/sh
# Packs the results of a study, in one order and without what changes from run to run.
# sh pack.sh sentiment
set -eu
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='2026-01-01 00:00Z' \
    --exclude='lock' --exclude='*.lock' --exclude='stderr.txt' --exclude='report' \
    --create "$1.study" | xz -9 >"$1.tar.xz"
