"""What tests/campaigns/hostile_strangers.py is made of."""
