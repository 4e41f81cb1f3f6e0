"""Backends, on which workers run. Read processes, then dask_workers.

- processes: worker processes on this machine
- dask_workers: workers on the machines of a Dask cluster; needs the extra `dask`
- dask_sync: their counters and clocks, kept together
- dask_task: one share of a load on one machine
"""
