"""The runs in `results/`, and the tables that `docs/results.md` and `results/README.md` show."""
