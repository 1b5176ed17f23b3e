"""How long tests wait for programs that they start."""

# Seconds. A program that hangs must end before pytest ends its test (pyproject.toml), and says then what it printed. A
# program that only shares its cores with other tests takes up to ten times as long as alone, and must not fail.
PATIENCE = 280
