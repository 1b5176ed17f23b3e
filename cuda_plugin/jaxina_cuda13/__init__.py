"""jaxina's part for CUDA GPUs: one shared library, which jaxina finds through the entry point and loads."""

from pathlib import Path

LIBRARY = Path(__file__).with_name("libjaxina_gpu.so")
