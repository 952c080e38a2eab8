"""The pure part: translation, admission, Device objects, migration, diagnosis."""
