"""One load on one side, up to its `Round`. Read side, side_rounds, load_run, observations, fold.

- side: all that a test runs on, on one side
- side_rounds: the rounds of one side, trial by trial
- round: a round's values
- loads: the loads of a warm-up, a probe and a backlog
- load_run: topic, preflight and clean-up of one load
- observers: what watches a load
- observations: everything that is known of one load
- actions: what a test does during a round
- log_comparison: acknowledged records against the log
- fold: reports of workers folded to metrics and events
- validity: reasons not to trust a round
- app_groups: metrics of watched groups
- recovery: recovery after an outage
- samples: curves over time
- capacity: the search for the highest rate
- permission: which loads may run on a cluster
"""
