"""What the commands of `medvqa-hub meddqa` do: read files, work, write files, and the lines they print."""
