"""Download Spider and prepare it in data/spider, as `sql-env data spider` does.

    python scripts/download_spider_databases.py
    python scripts/download_spider_databases.py --db-ids concert_singer world_1
    python scripts/download_spider_databases.py --source ~/spider_data.zip

Without --db-ids the ten databases of the core set; every other option of `sql-env data spider`
works here too.
"""

from __future__ import annotations

import argparse

from sql_env.cli import app


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--db-ids", nargs="+", default=[], metavar="NAME", help="databases to take")
    chosen, others = parser.parse_known_args()
    db_ids = [f"--db-ids={name}" for name in chosen.db_ids]
    app(["data", "spider", *db_ids, *others])


if __name__ == "__main__":
    main()
