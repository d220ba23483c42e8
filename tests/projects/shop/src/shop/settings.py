"""What the environment says; there are no defaults for what differs between machines."""

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """SHOP_DATABASE_URL is required, as in most services."""

    model_config = SettingsConfigDict(env_prefix="SHOP_")

    database_url: str
    currency: str = "EUR"
