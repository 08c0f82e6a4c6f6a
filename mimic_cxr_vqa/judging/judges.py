"""The registry of judges that do not need a language model."""

# Name for `--engine` -> module and class, a `Judge` that is made without arguments.
JUDGES = {"rules": "mimic_cxr_vqa.judging.rule_judge:RuleJudge"}
