"""What every aggregator must do, packet by packet: see README.md."""
