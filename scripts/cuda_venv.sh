# Sourced, after scripts/python_packages.sh. `cuda_venv PYTHON VENV` makes a virtual environment with what the package
# jaxina-cuda13 is built with, nvcc among it, and with the tools that read machine code; and it names that nvcc to CMake.
# `make cuda` and `make wheels` use the same environment, so that ccache recognizes the kernels.

cuda_venv() { # PYTHON VENV
  local packages wanted
  mapfile -t packages < <("$1" -c '
import tomllib
print(*tomllib.load(open("cuda_plugin/pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')
  packages+=(nvidia-cuda-{cuobjdump,nvdisasm}==13.\*) # cuobjdump has no 13.0, so any 13 will do
  wanted="${packages[*]}"
  if [ "$(cat "$2/.installed" 2>/dev/null)" != "$wanted" ]; then
    echo "installing nvcc into $2"
    rm -rf "$2"
    make_venv "$1" "$2"
    install "$2" -q cmake ninja "${packages[@]}"
    echo "$wanted" >"$2/.installed"
  fi
  CUDA_TOOLKIT=$("$2/bin/python" -c 'import nvidia; print(list(nvidia.__path__)[0] + "/cu13")')
  export CUDACXX=$CUDA_TOOLKIT/bin/nvcc CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-}
}
