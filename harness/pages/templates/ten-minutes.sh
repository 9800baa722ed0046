#!/bin/sh
# The ten-minute path of the artifact: from this archive alone, on a fresh Linux machine with
# Python 3.11 or newer and a network. Needs no root and starts no server.
set -eu
cd -- "$(dirname -- "$0")"

step() { printf '\n== %s\n' "$*"; }

step 'checksums'
sha256sum --quiet -c SHA256SUMS
echo 'every file is as it was packed'

cd source
step 'the environment, once: some minutes and 1.5 GB'
sh ./faultline doctor || echo 'something is missing for live runs; what follows needs no server'

step 'every verdict and every figure again, from the records'
sh ./faultline report --from ../results --out ../results-again || echo 'an invariant does not hold'

step 'one figure of each paper on this machine'
sh ./faultline run ppa/random-topologies intervals/single-process-simulated dpc/serialization \
  edge/success ppa/multi-query --out ../results-here

step 'do the verdicts agree'
sh ./faultline compare ../results ../results-here --claims

step 'done: open results-again/report/index.html in a browser'
