"""What answers look like: rows, tables, documents and their schema, pages, drawings as text."""
