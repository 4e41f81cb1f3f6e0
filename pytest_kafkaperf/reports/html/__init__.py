"""The HTML report: one file that works offline. Start with html_report, page and charts.

- html_report: the complete page, and a check that its packages are installed
- page: template values and rendering
- charts: one test's charts
- plot: a chart's axes and series, as positions in an SVG
- sweeps: charts for tests that share a function
"""
