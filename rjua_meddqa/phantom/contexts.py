"""The synthetic context base: the meaning of findings in synthetic reports. It is invented and not medical advice.

The kinds are those of the released base. A laboratory finding has a disease and an advice. As in the released
questions, an option of a question about advice is the advice itself, not its title.
"""

from rjua_meddqa.released import Context

_DISEASE, _ADVICE, _EXAMINATION, _TREATMENT, _STATUS = "检查-疾病", "疾病-建议", "疾病-检查", "疾病-治疗", "检查-状态"

# Title, criterion, advice.
_LABORATORY = (
    ("白细胞增多", "白细胞计数高于参考上限，提示白细胞增多。", "寻找感染灶，三天后复查血常规。"),
    ("轻度贫血", "血红蛋白低于参考下限，提示轻度贫血。", "补充铁剂和维生素，完善铁代谢检查。"),
    ("血小板增高", "血小板计数高于参考上限，提示血小板增高。", "排除炎症和缺铁后复查血小板。"),
    ("血小板减低", "血小板计数低于参考下限，提示血小板减低。", "避免外伤，复查血小板并检查凝血功能。"),
    ("炎症反应", "C反应蛋白高于参考上限，提示炎症反应。", "寻找感染部位，必要时做细菌培养。"),
    ("胆红素升高", "总胆红素高于参考上限，提示胆红素升高。", "完善肝胆超声，复查肝功能。"),
    ("转氨酶升高", "丙氨酸氨基转移酶高于参考上限，提示转氨酶升高。", "停用损伤肝脏的药物，两周后复查肝功能。"),
    ("白蛋白减低", "白蛋白低于参考下限，提示白蛋白减低。", "增加优质蛋白饮食，检查尿蛋白。"),
    ("肾小球滤过减低", "肌酐或尿素高于参考上限，提示肾小球滤过减低。", "控制血压，避免肾毒性药物，随访肾功能。"),
    ("尿酸升高", "尿酸高于参考上限，提示尿酸升高。", "低嘌呤饮食，多饮水，一个月后复查尿酸。"),
    ("血钾减低", "血钾低于参考下限，提示血钾减低。", "口服补钾，复查电解质和心电图。"),
    ("血钠减低", "血钠低于参考下限，提示血钠减低。", "评估容量状态，缓慢纠正血钠。"),
    ("空腹血糖升高", "空腹葡萄糖高于参考上限，提示空腹血糖升高。", "控制饮食，检查糖化血红蛋白。"),
    ("胆固醇升高", "总胆固醇高于参考上限，提示胆固醇升高。", "减少动物脂肪摄入，三个月后复查血脂。"),
    ("甘油三酯升高", "甘油三酯高于参考上限，提示甘油三酯升高。", "戒酒并增加运动，三个月后复查血脂。"),
    ("泌尿道感染", "尿白细胞计数高于参考上限，提示泌尿道感染。", "多饮水，做中段尿培养后选择抗菌药物。"),
    ("前列腺抗原升高", "总前列腺特异性抗原高于上限，提示前列腺抗原升高。", "完善前列腺磁共振，必要时穿刺活检。"),
    ("癌胚抗原升高", "癌胚抗原高于参考上限，提示癌胚抗原升高。", "完善胃肠镜和胸部检查。"),
    ("凝血时间延长", "凝血酶原时间高于参考上限，提示凝血时间延长。", "核对抗凝药物用量，复查凝血功能。"),
    ("高凝状态", "D-二聚体高于参考上限，提示高凝状态。", "检查下肢静脉超声，评估血栓风险。"),
)  # fmt: skip
_CLINICAL = (
    ("小结石处理", _TREATMENT, "直径小于7mm且无症状的肾结石，多饮水，每六个月复查超声。"),
    ("输尿管结石处理", _TREATMENT, "直径大于8mm并伴积水的输尿管结石，首选输尿管镜取石。"),
    ("单纯囊肿处理", _TREATMENT, "直径小于40mm的单纯肾囊肿无需治疗，每年复查超声。"),
    ("前列腺增生处理", _TREATMENT, "前列腺增生症状较轻时先用药物治疗，症状加重再评估手术。"),
    ("尿路上皮肿瘤处理", _TREATMENT, "低级别非浸润性尿路上皮肿瘤切除后定期膀胱灌注和膀胱镜复查。"),
    ("膀胱占位检查", _EXAMINATION, "影像提示膀胱占位时，应做膀胱镜和尿脱落细胞检查。"),
    ("外周带异常检查", _EXAMINATION, "前列腺外周带弥散受限时，应检查前列腺特异性抗原并考虑穿刺活检。"),
    ("上尿路积水检查", _EXAMINATION, "发现上尿路积水时，应检查肾功能和泌尿系CT。"),
    ("残余尿增多检查", _EXAMINATION, "残余尿增多时，应做尿流率和尿动力学检查。"),
    ("治疗反应良好", _STATUS, "治疗后前列腺特异性抗原降至参考范围以内，提示治疗反应良好。"),
)


def contexts() -> list[Context]:
    """The whole base, numbered from 1."""
    entries = [(title, _DISEASE, criterion) for title, criterion, _ in _LABORATORY]
    entries += [(title, _ADVICE, advice) for title, _, advice in _LABORATORY]
    entries += _CLINICAL
    return [
        Context(str(number), title, kind, description)
        for number, (title, kind, description) in enumerate(entries, start=1)
    ]


def option(context: Context) -> str:
    """The text of `context` as an option, empty if it is the title."""
    return context.description.rstrip("。") if context.context_type in (_ADVICE, _EXAMINATION, _TREATMENT) else ""
