"""`python -m sql_env …` is `sql-env …`; `accelerate launch -m sql_env train …` needs it."""

from sql_env.cli import main

main()
