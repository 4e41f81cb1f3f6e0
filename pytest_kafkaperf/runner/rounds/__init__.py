"""A load on one side, and the `Round` that results from it. Read side, side_rounds, load_run, observations, fold.

- side: the cluster, applications and actions on one side of a test
- side_rounds: runs one side's rounds, trial by trial
- round: one round's measurements
- loads: the loads for a warm-up, a probe and a backlog
- load_run: the topic, preflight checks and cleanup of one load
- observers: observe brokers, applications and groups during a load
- observations: everything that is known about one load
- actions: a test's actions during a round
- log_comparison: compares acknowledged records with the log
- fold: combines observations into metrics and events
- validity: reasons not to trust a round
- app_groups: metrics for watched consumer groups
- group_rebalances: rebalances of watched groups, and their pauses
- recovery: measures the recovery from an outage
- steadiness: compares the end of a window with the whole
- samples: curves over time
- capacity: the capacity search
- permission: checks which loads are allowed on a cluster
"""
