"""The paper's own rows of Tables 5 to 8, typed in (Jin et al., KDD 2024, Section 5 and appendix).

Only ten of its 2,000 reports are released, so these rows are not comparable with figures of other reports. In Table 7,
laboratory reports have columns D and A, clinical ones S and A. Values are as printed, including the last difference of
ESRA+Qwen in Table 8, which does not follow from its two figures.
"""

HALLUCINATED = {"GPT-4v": {"entity": (54, 84), "table": (35, 50)}}  # (hallucinated, asked), Section 5.4
SOURCE = "Jin et al., RJUA-MedDQA, KDD 2024, doi:10.1145/3637528.3671644"

# A column is a path into `scores` of results.json. (group, head) are its heads.
Column = tuple[str, str, str]

TABLE_5: tuple[Column, ...] = (
    ("table_5.entity_rouge_l", "Entity", "RougeL"),
    ("table_5.entity_accuracy", "Entity", "Acc"),
    ("table_5.table_rouge_l", "Table", "RougeL"),
    ("table_5.table_accuracy", "Table", "Acc"),
    ("table_5.table_nr_accuracy", "TableNR", "Acc"),
    ("table_5.mc_accuracy", "MC", "Acc"),
    ("table_5.sa_rouge_l", "SA", "RougeL"),
)
TABLE_6: tuple[Column, ...] = (
    ("table_6.entity_rouge_l_high", "Entity RougeL", "High"),
    ("table_6.entity_rouge_l_low", "Entity RougeL", "Low"),
    ("table_6.table_accuracy_high", "Table Acc", "High"),
    ("table_6.table_accuracy_low", "Table Acc", "Low"),
    ("table_6.table_nr_accuracy_high", "TableNR Acc", "High"),
    ("table_6.table_nr_accuracy_low", "TableNR Acc", "Low"),
)
TABLE_7: tuple[Column, ...] = (
    ("table_7.mc_accuracy_laboratory_disease", "MC (Acc), Table", "D"),
    ("table_7.mc_accuracy_laboratory_advice", "MC (Acc), Table", "A"),
    ("table_7.mc_accuracy_clinical_status", "MC (Acc), Clinical", "S"),
    ("table_7.mc_accuracy_clinical_advice", "MC (Acc), Clinical", "A"),
    ("table_7.sa_rouge_l_laboratory_disease", "SA (RougeL), Table", "D"),
    ("table_7.sa_rouge_l_laboratory_advice", "SA (RougeL), Table", "A"),
    ("table_7.sa_rouge_l_clinical_status", "SA (RougeL), Clinical", "S"),
    ("table_7.sa_rouge_l_clinical_advice", "SA (RougeL), Clinical", "A"),
)
TABLE_8: tuple[Column, ...] = (
    ("table_8.mc_accuracy_laboratory", "MC, Table", ""),
    ("table_8.mc_accuracy_clinical", "MC, Clinical", ""),
    ("table_8.sa_rouge_l_laboratory", "SA, Table", ""),
    ("table_8.sa_rouge_l_clinical", "SA, Clinical", ""),
)

ROWS_5 = {
    "LLaVA-v1.5-7B": (0.08, 0.04, 0.08, 0.04, 0.36, 0.15, 0.11),
    "mPLUG-Owl2-9.8B": (0.17, 0.09, 0.22, 0.02, 0.31, 0.28, 0.13),
    "Qwen-VL-Chat-9.6B": (0.28, 0.20, 0.28, 0.14, 0.33, 0.30, 0.11),
    "Qwen-VL-Plus-[API]": (0.46, 0.51, 0.38, 0.53, 0.52, 0.32, 0.15),
    "GPT-4v-[API]": (0.45, 0.38, 0.68, 0.47, 0.50, 0.46, 0.23),
    "ESRA+Qwen-[API]": (0.77, 0.80, 0.50, 0.73, 0.68, 0.66, 0.18),
    "ESRA+GPT-4-[API]": (0.79, 0.76, 0.62, 0.72, 0.63, 0.79, 0.29),
}
ROWS_6 = {
    "LLaVA-v1.5": (0.08, 0.07, 0.03, 0.06, 0.39, 0.38),
    "mPLUG-Owl2": (0.19, 0.08, 0.02, 0.01, 0.27, 0.21),
    "Qwen-VL-Chat": (0.33, 0.29, 0.08, 0.09, 0.33, 0.26),
    "Qwen-VL-Plus": (0.47, 0.42, 0.35, 0.36, 0.44, 0.40),
    "GPT-4v": (0.51, 0.44, 0.46, 0.34, 0.48, 0.39),
    "ESRA+Qwen": (0.83, 0.79, 0.75, 0.58, 0.70, 0.52),
    "ESRA+GPT-4": (0.82, 0.77, 0.71, 0.40, 0.61, 0.48),
}
ROWS_7 = {
    "LLaVA-v1.5": (0.10, 0.13, 0, 0.05, 0.14, 0.07, 0.17, 0.01),
    "mPLUG-Owl2": (0.18, 0.17, 0, 0.27, 0.10, 0.03, 0.01, 0.00),
    "Qwen-VL-Chat": (0.24, 0.21, 0, 0.29, 0.10, 0, 0.01, 0.01),
    "Qwen-VL-Plus": (0.30, 0.25, 0.25, 0.33, 0.11, 0.02, 0.01, 0.01),
    "GPT-4v": (0.50, 0.47, 0.33, 0.59, 0.21, 0.02, 0.19, 0.04),
    "ESRA+Qwen": (0.75, 0.65, 0.33, 0.52, 0.06, 0, 0.10, 0.04),
    "ESRA+GPT-4": (0.86, 0.87, 0.5, 0.67, 0.22, 0.05, 0.33, 0.06),
}
ROWS_8 = {  # (Q, C+Q, printed difference) of each column
    "Qwen-VL-Plus": ((0.29, 0.30, 0.01), (0.28, 0.31, 0.03), (0.08, 0.09, 0.01), (0.01, 0.01, 0.00)),
    "GPT-4v": ((0.40, 0.48, 0.08), (0.38, 0.45, 0.07), (0.13, 0.21, 0.08), (0.10, 0.19, 0.09)),
    "ESRA+Qwen": ((0.65, 0.72, 0.07), (0.45, 0.48, 0.03), (0.04, 0.05, 0.01), (0.06, 0.01, 0.02)),
    "ESRA+GPT-4": ((0.70, 0.86, 0.16), (0.62, 0.66, 0.04), (0.14, 0.22, 0.08), (0.22, 0.30, 0.08)),
}
