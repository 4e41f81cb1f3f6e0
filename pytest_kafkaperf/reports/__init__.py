"""Results as text and files, without any judgment. Start with headline, wording, columns and terminal.

- columns: table columns that fit the available width
- wording: texts about a test, used in all reports
- headline: what happened, what changed, and what to do
- remedy: a command that resolves an undecided test or accepts a result
- standing: lines about the trials so far
- calibration: texts for `--kafka-calibrate`
- conditions: the conditions that influence a test's values, shown with `-v`
- span_table: the time that tests spent in each span
- terminal: tables in the terminal
- run_headline: the first line about a run, and the order of its tests
- markdown_text: escaping, lists, folds and limits
- markdown: the summary for CI job pages
- ci: annotations and JUnit properties
- json_report: all measurements in machine-readable form
- compare: comparison of two JSON reports
- history: finds change points in the history file
- writing: writes a run's report files
- latency_curve: latency as a function of rate
- tool_runs: imports output from Kafka's own tools
- html: the HTML page

This package may import every package except `plugin`.
"""
