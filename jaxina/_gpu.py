"""The part for GPUs: a package of its own, jaxina-cuda13, found by its entry point as JAX finds its plugins."""

from __future__ import annotations

import importlib.metadata

import jax

from jaxina import _native

PLUGINS = "jaxina_plugins"


def load() -> None:
    """Loads the part for GPUs if it is installed.

    Raises:
      ImportError: it does not belong to this version of jaxina, or there are several.
    """
    found = tuple(importlib.metadata.entry_points(group=PLUGINS))
    if len(found) > 1:
        raise ImportError(
            f"there are several plugins of jaxina, {', '.join(map(_named, found))}: uninstall all but one"
        )
    for plugin in found:
        own = importlib.metadata.version("jaxina")
        if plugin.dist is None or plugin.dist.version != own:
            raise ImportError(f"{_named(plugin)} is not for jaxina {own}: install the same version of both")
        _native.load_gpu_part(str(plugin.load()))


def is_used() -> bool:
    """Whether this process has a GPU whose sums jaxina carries. Does not start JAX's backend."""
    platforms: str | None = jax.config.jax_platforms  # type: ignore[attr-defined] # has no types
    wanted = not platforms or not {"cuda", "gpu"}.isdisjoint(platforms.split(","))
    return wanted and bool(_native.gpu_handlers()) and _native.gpu_facts()["gpus"] != "none"


def _named(plugin: importlib.metadata.EntryPoint) -> str:
    return f"{plugin.dist.name} {plugin.dist.version}" if plugin.dist is not None else plugin.name
