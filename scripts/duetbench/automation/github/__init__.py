"""Comments, statuses, issues, and the client behind them."""
