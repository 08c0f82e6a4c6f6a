"""The explorer as a Hugging Face Space: the bundled synthetic samples, and nothing else."""

from medvqa_hub.explore.public import serve_samples

if __name__ == "__main__":
    serve_samples()
