"""The variables of programs that tests start and of which compiling takes most of the time: XLA compiles without LLVM's
optimizations, which takes half as long. What the programs ask of jaxina stays the same."""

VARIABLES = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
