"""The parts of tests/campaigns/hostile_strangers.py: attackers, attacked jobs, network and measurement."""
