"""The Job: `defaults` fill it in, `validation` holds its rules, `strategy` how it is written, `columns` its table."""
