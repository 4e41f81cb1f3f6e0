"""Backends, on which workers run. Read processes, then dask_workers.

- processes: worker processes on this machine
- dask_workers: workers on the machines of a Dask cluster; requires the extra `dask`
- dask_sync: synchronization of their counters and clocks
- dask_task: one share of a load on one machine
"""
