"""Small folders in the published layouts of public datasets, written by tests: drawn images, a few questions each."""

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image


def draw(path: Path, seed: int, mode: str = "L") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).integers(0, 255, (48, 40))
    if mode == "I;16":
        Image.fromarray((values * 256).astype(np.uint16)).save(path)
    else:
        Image.fromarray(values.astype(np.uint8)).convert(mode).save(path)
    return path


def vqa_rad(folder: Path) -> Path:
    """Two images, five questions, four of them of the test set."""
    images = folder / "VQA_RAD Image Folder"
    draw(images / "synpic54610.jpg", 1, "RGB"), draw(images / "synpic676.jpg", 2)

    def row(qid, image, question, answer, kind, phrase="test_freeform", topic="PRES"):
        return {"qid": qid, "phrase_type": phrase, "qid_linked_id": "03f451ca", "image_case_url": "https://medpix",
                "image_name": image, "image_organ": "CHEST", "evaluation": "evaluated", "question": question,
                "question_rephrase": "NULL", "question_relation": "NULL", "question_frame": "NULL",
                "question_type": topic, "answer": answer, "answer_type": kind}  # fmt: skip

    rows = [
        row("1", "synpic54610.jpg", "Is there a pneumothorax?", "No", "CLOSED "),
        row("2", "synpic54610.jpg", "Where is the lesion?", "left upper lobe", "OPEN", "test_para", "POS"),
        row("3", "synpic676.jpg", "Is this an axial or sagittal image?", "Axial", "CLOSED", topic="PLANE"),
        row("4", "synpic676.jpg", "How many nodules are there?", 3, "OPEN", topic="COUNT"),
        row("5", "synpic676.jpg", "Is the heart normal?", "Yes", "CLOSED", "freeform"),
    ]
    (folder / "VQA_RAD Dataset Public.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


def slake(folder: Path) -> Path:
    """Two images, three English questions and a Chinese one in the test set."""
    draw(folder / "imgs" / "xmlab0" / "source.jpg", 1), draw(folder / "imgs" / "xmlab384" / "source.jpg", 2, "RGB")

    def row(qid, image, question, answer, kind, language="en", topic="Modality"):
        return {"img_id": 0, "img_name": f"{image}/source.jpg", "question": question, "answer": answer,
                "q_lang": language, "location": "Lung", "modality": "X-Ray", "answer_type": kind, "base_type": "vqa",
                "content_type": topic, "triple": ["vhead", "_", "_"], "qid": qid}  # fmt: skip

    test = [
        row(9835, "xmlab0", "What modality is used to take this image?", "MRI", "OPEN"),
        row(9836, "xmlab384", "Does the image contain the heart?", "Yes", "CLOSED", topic="Organ"),
        row(9837, "xmlab0", "图像中有心脏吗？", "有", "CLOSED", "zh"),
        row(9838, "xmlab0", "What plane is this?", "Coronal Plane", "OPEN", topic="Plane"),
    ]
    (folder / "test.json").write_text(json.dumps(test, ensure_ascii=False), encoding="utf-8")
    (folder / "validation.json").write_text(json.dumps(test[:1]), encoding="utf-8")
    return folder


def medical_diff_vqa(folder: Path) -> Path:
    """A patient with two studies below files/, as in MIMIC-CXR-JPG: six questions of the test set."""
    rows = [(50414267, "53189527", "abnormality", "what abnormalities are seen in this image?", "atelectasis, edema"),
            (50414267, "53189527", "presence", "is there edema?", "yes"),
            (50414267, "53189527", "presence", "is there pneumonia?", "no"),
            (50414267, "53189527", "difference", "what has changed compared to the reference image?",
             "the main image has an additional finding of edema than the reference image."),
            (53189527, "50414267", "location", "where in the image is the effusion located?", "left side"),
            (53189527, "50414267", "presence", "is there edema?", "no")]  # fmt: skip
    with (folder / "mimic_pair_questions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["study_id", "subject_id", "ref_id", "question_type", "question", "answer", "split"])
        table.writerows(
            [study, 10000032, ref, kind, question, answer, "test"] for study, ref, kind, question, answer in rows
        )
        table.writerow([1, 2, 3, "presence", "is there a tube?", "no", "train"])
    images = {"50414267": ("aa-bb", "postero-anterior"), "53189527": ("cc-dd", "antero-posterior")}
    with (folder / "mimic_all.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["subject_id", "study_id", "Edema", "dicom_id", "view", "split", "study_date", "study_order"])
        for study, (dicom, view) in images.items():
            table.writerow([10000032, study, "", dicom, view, "test", 21800506, 1])
            draw(folder / "files" / "p10" / "p10000032" / f"s{study}" / f"{dicom}.jpg", int(study))
    return folder


def rexvqa(folder: Path) -> Path:
    """Two studies, one with two 16-bit images; three questions of the test set."""

    def row(study, images, question, options, answer, task="presence_assessment"):
        names = [f"../deid_png/GRDN1/{study}/studies/1/series/2/instances/{name}.png" for name in images]
        for seed, name in enumerate(names):
            draw(folder / name.removeprefix("../"), seed, "I;16" if len(names) > 1 else "L")
        return {"study_id": study, "PatientID": f"p{study}", "question": question, "options": options,
                "correct_answer": answer, "correct_answer_explanation": "because", "task_name": task,
                "category": "Pleura", "ImagePath": names, "ImageViewPosition": ["PA", "LATERAL"][: len(names)],
                "Indication": "Cough.", "Findings": "secret findings", "Impression": "secret impression"}  # fmt: skip

    options = ["A. Effusion", "B. Left pleural effusion", "C. Pneumothorax", "D. None of these"]
    rows = {
        "id_1": row("s1", ["a", "b"], "What is seen?", options, "B"),
        "id_2": row("s2", ["a"], "Which side?", ["A. Left", "B. Right"], "A", "location_assessment"),
        "id_3": row("s1", ["a", "b"], "Is it large?", ["A. Yes", "B. No"], "B"),
    }
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    (folder / "metadata" / "test_vqa_data.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


WRITERS = {"vqa-rad": vqa_rad, "slake": slake, "medical-diff-vqa": medical_diff_vqa, "rexvqa": rexvqa}
