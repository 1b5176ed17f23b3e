"""Jobs and switches in real processes, for the campaigns that kill, stop and attack them.

The processes are forked from one that has imported everything, so a trial takes only a second.
"""
