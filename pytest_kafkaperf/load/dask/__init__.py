"""Worker processes on the machines of a Dask cluster; `workers` needs the extra `dask`."""
