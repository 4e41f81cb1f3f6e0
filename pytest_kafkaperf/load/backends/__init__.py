"""Backends that run the workers. Read processes, then dask_workers.

- processes: worker processes on this machine
- dask_workers: workers on the machines of a Dask cluster; requires the extra `dask`
- dask_sync: synchronization of the Dask workers' counters and clocks
- dask_task: one worker's share of a load, on one machine
"""
