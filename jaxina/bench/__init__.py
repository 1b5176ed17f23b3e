"""`jaxina bench`: all-reduce times beside XLA's own, every result checked."""
