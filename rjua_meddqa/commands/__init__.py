"""The commands of `medvqa-hub meddqa`: they read files, write files and return the lines to print."""
