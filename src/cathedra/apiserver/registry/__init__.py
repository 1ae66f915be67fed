"""All objects in memory: entries with their encoded forms, tables with history, watchers, and the ordered writes."""
