#!/usr/bin/env bash
# Usage: scripts/test_nightly.sh VENV [PART...]. Runs the tests that take too long for `make test`. Without PARTs, it
# runs all:
#   address thread   the native tests, built with the sanitizers
#   shapes           random shapes of jobs
#   seeds            2 million seeds of the simulator's scenarios with switches that combine, and with narrow words
#   fabric           random worlds of MLfabric's scheduler and of its service
#   fuzz             the native fuzzers, and those of the control messages
#   deaths           deaths of real processes
#   model            the slot protocol's model
#   jax              the Python tests with JAX 0.11, and all that depend on JAX with the newest
#   jax_nightly      the Python tests with JAX's nightly wheels (scripts/test_jax.sh says from where)
#   tidy             clang-tidy over all C++ files
#   python           the Python tests marked nightly
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
bin=$PWD/$1/bin
shift
export PATH="$bin:$PATH"
failed=()

sanitized() {
  scripts/build_native.sh "build/native-$1" -DJAXINA_SANITIZE="$2"
  ctest --test-dir "build/native-$1" --output-on-failure --no-tests=error || failed+=("native, $2")
}

address() { sanitized address address,undefined; }

thread() { sanitized thread thread; }

shapes() {
  scripts/build_native.sh build/native
  build/native/tests/native/shapes_campaign 100000 "$(date +%s)" || failed+=("random shapes of jobs")
}

seeds() {
  scripts/build_native.sh build/native
  local combining=(atp atp-racks atp-jobs atp-ends atp-hostile atp-servers)
  for scenario in "${combining[@]}" narrow narrow-roce narrow-embedded narrow-atp; do
    build/native/rdma_engine/sim/jaxina_sim 0:200000 "$scenario" || failed+=("seeds of $scenario")
  done
  # Their seeds have ten times as many packets.
  for scenario in atp-congestion netreduce netreduce-ends netreduce-racks netreduce-racks-ends; do
    build/native/rdma_engine/sim/jaxina_sim 0:20000 "$scenario" || failed+=("seeds of $scenario")
  done
}

fabric() {
  "$bin/python" tests/campaigns/fabric_plans.py --seeds 100000 || failed+=("plans of MLfabric")
  "$bin/python" tests/campaigns/fabric_service_worlds.py --seeds 10000 || failed+=("jobs of MLfabric")
}

fuzz() {
  if command -v clang++ >/dev/null; then
    scripts/fuzz.sh build/fuzz 1000000 || failed+=("fuzzers")
  else
    echo "fuzzers: skipped, they need clang"
  fi
  "$bin/python" tests/fuzz/control_fuzz.py --runs 1000000 --seed "$(date +%j)" || failed+=("fuzzing of the control messages")
}

deaths() {
  "$bin/python" tests/python/death_campaign.py --kills 100 --stops 20 || failed+=("deaths of real processes")
  "$bin/python" tests/campaigns/elastic_kills.py --kills 15 || failed+=("deaths in elastic teams")
  "$bin/python" tests/campaigns/elastic_kills.py --kills 10 --aggregator direct || failed+=("deaths in elastic teams, direct")
}

model() {
  if command -v spin >/dev/null; then
    formal/check.py || failed+=("models of the protocols")
  else
    echo "models of the protocols: skipped, it needs Debian's package spin"
  fi
}

jax() {
  scripts/test_jax.sh 0.11 || failed+=("JAX 0.11")
  scripts/test_jax.sh newest all || failed+=("newest JAX")
}

jax_nightly() { scripts/test_jax.sh nightly || failed+=("JAX's nightly wheels"); }

tidy() { scripts/tidy.sh "$venv" || failed+=("clang-tidy"); }

python() {
  local code=0
  "$bin/pytest" -q -m nightly || code=$?
  case $code in
    0) ;;
    5) echo "no Python test is marked nightly" ;;
    *) failed+=("Python") ;;
  esac
}

parts=(address thread shapes seeds fabric fuzz deaths model jax jax_nightly tidy python)
. scripts/chosen_parts.sh
choose_parts "$@"
for part in "${chosen[@]}"; do
  echo "== $part"
  "$part"
done

if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
