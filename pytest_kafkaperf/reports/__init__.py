"""Results as text and files: terminal, HTML, JSON, Markdown, CI systems.

It reads results and decides nothing. It may import every package but `plugin`.
"""
