"""Time answering with both models, each against a plain baseline.

See `generation_swin_ved.py` and `generation_blip2_multiview.py`.

Run: python benchmarks/generation.py
"""

import generation_blip2_multiview
import generation_swin_ved

if __name__ == "__main__":
    generation_swin_ved.main()
    generation_blip2_multiview.main()
