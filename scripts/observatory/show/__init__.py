"""What was measured, for people: findings, figures beside the published ones, and the site."""
