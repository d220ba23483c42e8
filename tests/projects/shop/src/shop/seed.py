"""Make the tables and a hundred items: `python -m shop.seed`."""

from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from shop.models import Base, Item
from shop.settings import Settings


def main() -> None:
    """Start from nothing."""
    engine = create_engine(Settings().database_url)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Item(id=n, name=f"Item {n}", cents=n * 199) for n in range(1, 101))
        session.commit()


if __name__ == "__main__":
    main()
