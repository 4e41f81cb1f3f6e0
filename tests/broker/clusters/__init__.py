"""Tests of the package `clusters`."""
