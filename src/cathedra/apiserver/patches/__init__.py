"""The four forms of a patch on plain JSON values: JSON patch, merge patch, strategic merge patch, server-side apply."""
