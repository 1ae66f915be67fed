"""What is let in: plugins that change an object before validation, and plugins that refuse it afterwards."""
