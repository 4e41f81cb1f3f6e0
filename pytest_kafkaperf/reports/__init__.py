"""Results as text and files: terminal, HTML, JSON, Markdown, CI systems.

This package only shows results; it decides nothing. It may import every package but `plugin`.
"""
