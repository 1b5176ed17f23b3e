"""Vectors that say what every aggregator must do, packet by packet, and a runner that checks it: see README.md."""
