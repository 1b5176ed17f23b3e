# Sourced in the repository's root. Lets all builds there share their objects, through ccache where it is installed: the
# extension for each Python, the native tests, and the programs of `make test-verbs`. Their folders are named relative to the
# build's, as all of them lie equally deep.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi
