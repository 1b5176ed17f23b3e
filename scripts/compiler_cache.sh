# Sourced in the repository's root. Lets all builds there share their objects, through ccache where it is installed: the
# extension for each Python, the native tests, and the programs of `make test-verbs`. So that their keys are equal, folders
# are named relative to the build's, and scikit-build-core calls the compiler by CMake's name for it.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros # which ccache needs for precompiled headers
  export CC=${CC:-cc} CXX=${CXX:-c++}
fi
