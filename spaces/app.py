"""The explorer of the bundled synthetic samples, as a Hugging Face Space."""

from medvqa_hub.explore.public import serve_samples

if __name__ == "__main__":
    serve_samples()
