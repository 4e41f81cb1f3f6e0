"""How long tests wait for what always happens, however slow the machine is.

These limits only end tests that hang. A fact about time has its own bound, which follows from the same run; if it also
depends on how fast the machine is, the test has the marker `speed`.
"""

PATIENCE_S = 300
"""Limit of one step: the start or end of a process, an answer, a condition."""
RUN_S = 900
"""Limit of a whole run of pytest."""
ENDLESS_S = 3600
"""How long something lasts that a test ends. It must not end by itself before the test gives up."""
