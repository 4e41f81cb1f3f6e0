"""A load on one side, and the `Round` that results from it. Read side, side_rounds, load_run, observations, fold.

- side: everything that one side of a test runs on
- side_rounds: runs the rounds of one side, trial by trial
- round: the measurements of a round
- loads: the loads of a warm-up, a probe and a backlog
- load_run: topic, preflight and cleanup of one load
- observers: observers of a load
- observations: everything that is known about one load
- actions: actions of a test during a round
- log_comparison: compares acknowledged records with the log
- fold: combines observations into metrics and events
- validity: reasons not to trust a round
- app_groups: metrics of watched consumer groups
- recovery: recovery after an outage
- samples: curves over time
- capacity: the capacity search
- permission: which loads may run on a cluster
"""
