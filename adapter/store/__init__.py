"""The durable store: SQLite behind the port the exchange asks for."""
