"""The HTML report: one file that works offline. Read html_report, page, charts, plot, sweeps.

- html_report: the page and whether its packages are installed
- page: values and rendering
- charts: charts of one test
- plot: axes and series of a chart, as places in an SVG
- sweeps: charts of tests of one function
"""
