"""Runs over time: tables of cases and metrics, and the events beside them."""
