"""The HTML report: one file that works offline. Read html_report, page, charts, sweeps.

- html_report: the page and whether its packages are installed
- page: values and rendering
- charts: charts of one test
- sweeps: charts of tests of one function
"""
