"""Results as text and files; it decides nothing. Read headline, wording, columns, terminal.

- columns: columns of the tables that fit into a width
- wording: what reports say of a test
- headline: what happened, what changed, and what to do
- remedy: the command that decides or accepts a test
- standing: lines about the trials so far
- calibration: texts of `--kafka-calibrate`
- conditions: what the values of a test depend on, with `-v`
- span_table: where the time of tests went
- terminal: tables in the terminal
- run_headline: the first line on a run, and the order of its tests
- markdown_text: escaping, lists, folds and limits
- markdown: the summary for pages of CI jobs
- ci: annotations, and properties of JUnit
- json_report: all measurements for programs
- compare: two JSON reports, compared
- history: change points of the history file
- writing: report files of a run
- latency_curve: latency against rate
- tool_runs: output of Kafka's own tools
- html: the page

It may import every package but `plugin`.
"""
