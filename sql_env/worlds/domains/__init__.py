"""The domains, a handful per module."""

from sql_env.worlds.domains import health, learning, travel
from sql_env.worlds.schema import Domain

_MODULES = (health, learning, travel)

DOMAINS: dict[str, Domain] = {
    domain.key: domain for module in _MODULES for domain in module.DOMAINS
}

__all__ = ["DOMAINS"]
