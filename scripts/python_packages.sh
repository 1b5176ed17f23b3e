# Sourced. `make_venv PYTHON VENV` makes a virtual environment if there is none. `install VENV ARGUMENT...` installs packages
# into it as pip does, but with uv, which takes a quarter of the time. If pip is configured for another index, uv uses it too.

make_venv() { # PYTHON VENV
  [ -x "$2/bin/python" ] || "$1" -m venv "$2"
  "$2/bin/python" -m pip --disable-pip-version-check install -q 'uv>=0.9'
}

install() { # VENV ARGUMENT...
  local index
  index=${UV_DEFAULT_INDEX:-$("$1/bin/python" -m pip config list | sed -n "s/^[^ ]*\.index-url='\(.*\)'$/\1/p" | tail -1)}
  env ${index:+UV_DEFAULT_INDEX="$index"} "$1/bin/uv" pip install --python "$1/bin/python" --system-certs --compile-bytecode "${@:2}"
}
