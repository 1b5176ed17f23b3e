#!/usr/bin/env bash
# Usage: scripts/test_jax.sh [VERSION [all]]. Runs Python tests with another JAX, in an environment of its own, with the
# newest Python that it finds (3.12 or newer). Without VERSION it takes the newest JAX, and runs the tests of what meets
# JAX: lowering, collectives, jobs, compressors' state and axes, an example. With VERSION (0.11, for example) it takes
# that JAX, and runs only the tests of collectives and jobs, and of private names. With `newest all` it runs all tests that
# depend on JAX or on Python itself. The remaining tests do not depend on JAX; `make test` runs them. Without such a Python
# it says so and succeeds.
#
# VERSION nightly is JAX's nightly wheels. They are not on PyPI: JAX_NIGHTLY_INDEX=URL names the index that has them. Without
# it, VERSION nightly is the newest pre-release on PyPI, or the newest release if that is newer.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/parts.sh
. scripts/python_packages.sh

newest_python() {
  local candidate
  local versions="$HOME/.pyenv/versions"
  for candidate in python3.14 "$versions"/3.14*/bin/python python3.13 "$versions"/3.13*/bin/python \
    python3.12 "$versions"/3.12*/bin/python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

python=$(newest_python)
if [ -z "$python" ]; then
  echo "another JAX: skipped, no Python from 3.12 on was found on the path or under ~/.pyenv/versions"
  exit 0
fi
version=${1:-newest}
extent=${2:-}
if [ -n "$extent" ] && [ "$version $extent" != "newest all" ]; then
  echo "usage: scripts/test_jax.sh [VERSION], or scripts/test_jax.sh newest all" >&2
  exit 2
fi
venv=.venv-$version
tests=()
for file in tests/python/test_*.py; do
  case $file in
    */test_control_*|*/test_p4_*|*/test_tofino_*|*/test_reliability_*|*/test_sim.py|*/test_config.py|*/test_errors.py) ;;
    */test_engine_layers.py|*/test_cli_switch.py|*/test_numerics.py|*/test_numerics_native.py) ;;
    */test_models.py|*/test_readme_links.py|*/test_examples_configuration_page.py) ;;
    *) tests+=("$file") ;;
  esac
done
if [ "$version" = newest ] && [ "$extent" != all ]; then
  # These start processes that hardly meet JAX, or take long for the little of JAX that others do not use.
  # The compressors' arithmetic uses public interfaces of JAX alone.
  seldom='/test_(atp_|certify|cli_|clusters|doctor|elastic|encryption)'
  seldom+='|/test_compressors_(bytes|edges|gathered|narrow|ok_topk|promises|registry|ring|sums|two_phase|wire|worked)'
  seldom+='|/test_(examples_(elastic|gpt|recovery|unequal_links|vision)|experiments_|fabric_|launcher|metrics|narrow_words)'
  seldom+='|/test_(gpu_(check|wheels)|notebooks|paper_figures|partitioned_benchmark|plan|ring_of_machines|trace)'
  seldom+='|/test_transparent_switch'
  mapfile -t tests < <(printf '%s\n' "${tests[@]}" | grep -vE "$seldom")
elif [ "$version" != newest ]; then
  # The private names come first: if one of them has changed, that is why the others fail.
  tests=(tests/python/test_private_names.py tests/python/test_override.py tests/python/test_collectives_*.py tests/python/test_job*.py)
fi
options=()
setup() { PYTHON=$python scripts/setup.sh "$venv"; }
case $version in
  newest) part "$version JAX: setup" setup ;;
  nightly)
    setup
    if ! install "$venv" -q --prerelease allow --upgrade ${JAX_NIGHTLY_INDEX:+--index "$JAX_NIGHTLY_INDEX"} jax jaxlib; then
      echo "nightly JAX: cannot be installed from ${JAX_NIGHTLY_INDEX:-PyPI}; see above. No test ran" >&2
      exit 1
    fi
    "$venv/bin/python" -c 'import jax; print("nightly JAX: testing with", jax.__version__)'
    [ -n "${JAX_NIGHTLY_INDEX:-}" ] || echo "nightly JAX: this is PyPI's newest, because JAX_NIGHTLY_INDEX is not set"
    # jaxina warns of a JAX that it has not been tested with; here that is no error.
    export PYTHONWARNINGS="ignore:jaxina has been tested with JAX"
    options=(-W "$PYTHONWARNINGS" --deselect tests/python/test_override.py::test_a_tested_jax_causes_no_warning)
    ;;
  *)
    make_venv "$python" "$venv"
    install "$venv" -q "jax==$version.*"
    setup
    ;;
esac
part "$version JAX: Python tests" scripts/test_python.sh "$venv" "${options[@]}" "${tests[@]}"
"$venv/bin/python" -c 'import jax, sys; print("passed with JAX", jax.__version__, "on Python", sys.version.split()[0])'
