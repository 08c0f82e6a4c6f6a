#!/bin/sh
# Answers the questions in $QUESTIONS about the images in $IMAGES with the checkpoint in $MODEL, without a network.
# $ANSWERS/answers.csv gets a row for each question. Questions that fail have a reason in the column `error`.
# Arguments are passed on, such as --limit 10 or --split validate. Safe to interrupt: run it again to resume.
set -eu
export HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 HF_HOME="${HF_HOME:-/tmp/huggingface}"
exec "${MEDVQA_HUB:-medvqa-hub}" predict --data "$QUESTIONS" --image-root "$IMAGES" --model "$MODEL" --out "$ANSWERS" \
    --missing-images skip "$@"
