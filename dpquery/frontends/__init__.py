"""Ways in, each over `Session`: none knows anything below it."""
